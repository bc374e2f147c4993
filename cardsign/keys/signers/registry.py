"""Signers by URI, behind the one protocol of ``jose.jws``.

A key of ``env:`` or ``file:`` is read by this process. Every other signer is bound to a public key
that is known beforehand, with which each of its answers is verified.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from cardsign.errors import KeyRefused, PassphraseFault, SignerFault, of_the_user
from cardsign.files import read_secret
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.jwk import PRIVATE_LABELS, pem_labels
from cardsign.jose.jws import Signer, sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey
from cardsign.keys.imports import MAX_KEY_FILE_BYTES, import_private_key, import_public_key
from cardsign.keys.signers.access import Access, PassphraseSource, user_secrets
from cardsign.keys.signers.base import NOT_SHOWN, RemoteKey, is_shown, refuse_uri, scheme_of
from cardsign.keys.signers.pkcs11 import TokenKey
from cardsign.keys.signers.services import AwsKey, AzureKey, GoogleKey, ProgramKey, VaultKey

SCHEMES: Final[Mapping[str, type[RemoteKey]]] = {
    "awskms": AwsKey,
    "azurekms": AzureKey,
    "exec": ProgramKey,
    "gcpkms": GoogleKey,
    "hashivault": VaultKey,
    "pkcs11": TokenKey,
}

#: Signed when a key is enrolled, to see that it can: no JWS has such a protected header.
CHALLENGE: Final = b"cardsign: does this signer hold this key?"

#: What a PEM says that no one reads without its passphrase.
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE", b"Proc-Type: 4,ENCRYPTED")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # POSIX, Base Definitions 8.1


def open_signer(
    uri: str,
    public: PublicKey | None = None,
    access: Access | None = None,
    *,
    kid: str | None = None,
) -> Signer:
    """Return the signer that `uri` names.

    ::

        sign_card(card, [open_signer("env:CARD_KEY", kid="card-2026")])

    A key of ``env:`` or ``file:`` is read now. Every other signer is asked only when it signs.

    Args:
        uri: Where the private key is.
        public: The key that the signer must turn out to hold; may be left out for ``env:`` and
            ``file:``.
        access: Where secrets come from; by default the environment, with the passphrase of
            ``CARDSIGN_PASSPHRASE``.
        kid: If `public` is left out [default: a JWK's own, else the thumbprint].

    Raises:
        SignerFault: ``signer.uri``, ``config.not_allowed``, ``usage.not_installed``,
            ``signer.wrong_key``, ``signer.no_key``, or ``signer.no_public``: `public` is left out.
        UsageFault: ``key.*`` or ``json.*``: what is there is no private key that can sign a card.
        PassphraseFault: ``passphrase.none``, ``passphrase.wrong``, or what the secrets raise.
        FileFault: Such as ``file.permissions``: others can read a key that is not encrypted.
    """
    if not isinstance(uri, str):
        raise TypeError(f"a signer is named by its URI: open_signer('file:key.pem'), not {uri!r}")
    if access is None:  # nobody is asked, and nothing more is allowed
        usual = user_secrets(PassphraseSource(environment=os.environ))
        access = Access(usual, environment=os.environ)
    key = find_remote_key(uri, access)
    if key is None:
        private = _read_private_key(uri, access, kid=public.kid if public else kid)
        if public is not None and private.public != public:
            message = f"there is another private key, not that of {public.kid!r}"
            hint = "Name that key. If this is the right one, write its public key: "
            hint += f"cardsign keys jwks --key {shlex.quote(uri)} -o jwks.json"
            raise SignerFault("signer.wrong_key", message, path=uri, hint=hint)
        return private
    if public is None:
        message = "what a signer shows as its public key is not believed when it signs"
        hint = f"Write it down once: cardsign keys jwks --key '{uri}' -o jwks.json; then give "
        hint += "--public jwks.json."
        raise SignerFault("signer.no_public", message, path=uri, hint=hint)
    if public.alg not in STATEMENT_ALGORITHMS:
        message = f"a signer of this kind signs with ES256 or RS256, not {public.alg}"
        raise SignerFault("signer.uri", message, path=uri, hint="Use env: or file:.")
    _check_leave(key)
    key.public = public
    return key


def find_remote_key(uri: str, access: Access) -> RemoteKey | None:
    """Return the key that `uri` names elsewhere, of which nothing is asked yet.

    Returned is None for ``env:`` and ``file:``, of which this process reads the private key itself.

    Raises:
        SignerFault: ``signer.uri``.
    """
    scheme = scheme_of(uri)
    if scheme in SCHEMES:
        return SCHEMES[scheme](uri, access)
    if scheme in ("env", "file"):
        return None
    # Nothing but the scheme is repeated: the rest may be the key itself.
    problem = f"`{scheme}:` is no scheme of a signer"
    hint = "--key takes env:NAME, file:PATH or the URI of a key service."
    if not scheme:
        problem = f"a value without a scheme ({NOT_SHOWN})"
        hint += " The keys of a key store sign without --key."
    raise SignerFault("signer.uri", problem, hint=hint)


def list_public_keys(uri: str, access: Access, *, kid: str | None = None) -> tuple[PublicKey, ...]:
    """Return the public keys of what `uri` names, to publish or to enrol them.

    A signer elsewhere is asked for its key, which never happens when it signs. ``env:`` and
    ``file:`` may hold public keys as well.

    Raises:
        CardsignError: As :func:`open_signer`; ``signer.no_public``: the signer shows none.
    """
    key = find_remote_key(uri, access)
    if key is not None:
        _check_leave(key)
        return (key.fetch_public(kid),)
    data = _read_local(uri, access)
    if not _is_public(data):
        return (_read_private_key(uri, access, kid=kid).public,)
    with of_the_user(uri):
        if kid is not None:
            return (import_public_key(data, kid=kid),)
        jwks = JwkSet.from_bytes(data)
        if jwks.skipped or not jwks.keys:
            message = "here is a key of another kind, such as Azure's EC-HSM, or none"
            raise KeyRefused("key.unsupported", message)
        return jwks.keys


def check_possession(signer: Signer) -> None:
    """Let a signer sign :data:`CHALLENGE`, so that no key is enrolled that cannot sign.

    Raises:
        SignerFault: ``signer.wrong_key``, or what the signer itself raises.
    """
    sign_payload(CHALLENGE, signer, typ="cardsign-challenge")


def _check_leave(key: RemoteKey) -> None:
    """Refuse to run a program by the word of a key store alone."""
    if isinstance(key, ProgramKey) and key.uri not in key.access.policy.allow:
        message = "the user has not allowed the program that this signer would run"
        hint = "Give the URI as --key, or allow it in your own signers.toml."
        raise SignerFault("config.not_allowed", message, path=key.uri, hint=hint)


def _read_private_key(uri: str, access: Access, *, kid: str | None) -> PrivateKey:
    """Read the private key that ``env:NAME`` or ``file:PATH`` names.

    It is PEM, PKCS #12, a JWK, or a JWK Set of which `kid` names one. A variable may hold the
    base64 of any of these, as some CI systems mask only values of one line.
    """
    data = _read_local(uri, access)
    name = uri.removeprefix("env:")
    with of_the_user(uri):
        try:
            password = partial(access.secrets, "passphrase", uri)
            return import_private_key(data, kid=kid, password=password)
        except PassphraseFault as fault:
            raise PassphraseFault(fault.code, fault.message, path=uri) from fault
        except KeyRefused as refusal:
            if name != uri and b"-----BEGIN" in data and b"\n" not in data.strip():
                hint = f'Keep them by quotes: export {name}="$(cat key.pem)"; or give one line '
                hint += f'of base64: export {name}="$(base64 -w 0 key.pem)".'
                message = "this PEM has lost its line breaks"
                raise KeyRefused("key.malformed", message, hint=hint) from refusal
            raise


def _is_public(data: bytes) -> bool:
    """Say whether a key file is meant as public; what is read as such is refused if it is not."""
    if data.lstrip().startswith(b"{"):
        return b'"d"' not in data
    labels = pem_labels(data)
    return any("PUBLIC" in label for label in labels) and PRIVATE_LABELS.isdisjoint(labels)


def _read_local(uri: str, access: Access) -> bytes:
    if uri.startswith("env:"):
        return _read_variable(uri, uri.removeprefix("env:"), access.environment)
    path = Path(uri.removeprefix("file:"))
    if uri == "file:" or not (is_shown(uri) or os.path.exists(path)):
        hint = "file: takes the path of a key file; a key that is in a variable: env:NAME."
        refuse_uri(uri, "expected file:PATH, such as file:card-key.pem", hint)
    if str(path).startswith("~") and not os.path.exists(path):
        refuse_uri(uri, "`~` is not expanded here", "Write the whole path: --key file:$HOME/...")

    def may_be_shared(data: bytes) -> bool:
        return _is_public(data) or any(mark in data for mark in _ENCRYPTED)

    return read_secret(path, max_bytes=MAX_KEY_FILE_BYTES, is_encrypted=may_be_shared)


def _read_variable(uri: str, name: str, environment: Mapping[str, str]) -> bytes:
    if not _VARIABLE.fullmatch(name) or (name not in environment and not is_shown(uri)):
        # Not repeated: someone may have written the key itself where its variable's name goes.
        message, hint = "expected env: and the name of an environment variable", ""
        if _VARIABLE.fullmatch(name.replace("-", "_")) and "-" in name:
            message, hint = f"{message}, which has no hyphen", "Write it with underscores."
        raise SignerFault("signer.uri", message, hint=hint)
    value = environment.get(name, "").strip()
    if not value:
        problem = "is empty" if name in environment else "is not set"
        hint = f'Set it: export {name}="$(cat key.pem)". In CI the job must name the secret, '
        hint += "and a pull request from a fork gets none."
        message = f"the environment variable {name} {problem}"
        raise SignerFault("signer.no_key", message, path=uri, hint=hint)
    data = os.fsencode(value)
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error:
        return data
    return decoded if decoded.lstrip().startswith((b"-----BEGIN", b"{", b"\x30")) else data
