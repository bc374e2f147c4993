"""The signer behind ``file:``: a private half in an encrypted envelope on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cardsign.errors import FileMissing, KeyRefused, SignerFault
from cardsign.files import read_private
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.envelope import MAX_ENVELOPE_BYTES, KeyLabel, open_envelope


def open_file(path: Path, public: PublicKey, passphrase: Callable[[], bytes]) -> PrivateKey:
    """Return the private half in the envelope at `path`, which must be that of `public`.

    The file must be a plain one of this user's own, closed to everybody else; `passphrase` is
    asked for when it is there.

    Raises:
        FileFault: ``file.not_found``, ``file.permissions``, ``file.unreadable``,
            ``file.is_directory``.
        StoreFault: ``keystore.envelope`` or ``keystore.newer_format``.
        PassphraseFault: ``passphrase.wrong``, or whatever `passphrase` raises.
        SignerFault: ``signer.wrong_key``: the file is, or holds, another key's.
    """
    try:
        untrusted_bytes = read_private(path, max_bytes=MAX_ENVELOPE_BYTES)
    except FileMissing as exc:
        raise FileMissing(
            exc.code,
            f"the private half of key {public.kid!r} is not here",
            path=str(path),
            hint="Restore it from a backup, or sign on the machine that holds it.",
        ) from exc
    return open_sealed(untrusted_bytes, public, passphrase(), where=str(path))


def open_sealed(
    untrusted_bytes: bytes, public: PublicKey, passphrase: bytes, *, where: str
) -> PrivateKey:
    """Return the private half in an envelope, which must be that of `public`.

    Raises:
        StoreFault: ``keystore.envelope`` or ``keystore.newer_format``.
        PassphraseFault: ``passphrase.wrong``.
        SignerFault: ``signer.wrong_key``: the envelope is, or holds, another key's.
    """
    pkcs8, label = open_envelope(untrusted_bytes, passphrase)
    if label != KeyLabel.of(public):
        raise _wrong_key(where, f"holds key {label.kid!r}, not {public.kid!r}")
    try:
        private = PrivateKey.from_pkcs8_der(pkcs8, kid=public.kid)
    except KeyRefused as exc:
        raise _wrong_key(where, f"holds no acceptable private key: {exc.message}") from exc
    if private.public != public:
        raise _wrong_key(where, f"holds a private half that is not that of {public.kid!r}")
    return private


def _wrong_key(where: str, what: str) -> SignerFault:
    return SignerFault("signer.wrong_key", f"the key file {what}", path=where)
