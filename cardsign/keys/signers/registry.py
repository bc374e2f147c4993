"""Signers by URI, behind the one protocol of ``jose.jws``.

``env:NAME`` and ``file:PATH`` name a private key that this process reads by itself: PEM
(PKCS #8, SEC 1 or PKCS #1, encrypted or not), PKCS #12, a JWK, or a JWK Set of which `kid` names
one. A variable may hold the base64 of any of these, as some CI systems mask only values of one
line. A file may be one of a key store. ``exec:`` names a program that signs.

Every other signer is bound to the stored public key, with which each of its answers is verified.
Another package adds a kind of its own by an entry point of the group :data:`ENTRY_POINTS`: its
name is the URI's scheme, its value a subclass of :class:`RemoteKey`. What such a URI does here
is not known, so it always needs the user's leave.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePosixPath
from typing import Final

from cardsign import programs
from cardsign.errors import FileMissing, KeyRefused, PassphraseFault, SignerFault, of_the_user
from cardsign.files import read_secret
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.jws import Signer, sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.key_files import (
    MAX_KEY_FILE_BYTES,
    import_private_key,
    is_encrypted,
    is_envelope,
    open_envelope,
)
from cardsign.keys.signers.access import (
    PASSPHRASE_VARIABLE,
    Access,
    PassphraseSource,
    SignerPolicy,
    user_secrets,
)
from cardsign.keys.signers.base import (
    NOT_SHOWN,
    BoundSigner,
    RemoteKey,
    is_shown,
    parse_uri,
    refuse_uri,
    scheme_of,
    shown,
)
from cardsign.keys.signers.pkcs11 import TokenKey
from cardsign.keys.signers.services import AwsKey, AzureKey, GoogleKey, VaultKey

ENTRY_POINTS: Final = "cardsign.signers"

#: Signed when a key is enrolled, to see that it can: no JWS has such a protected header.
CHALLENGE: Final = b"cardsign: does this signer hold this key?"

_ENV: Final = "env"
_FILE: Final = "file"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # POSIX, Base Definitions 8.1
#: What a user may have meant by env:NAME; a key has small letters too.
_LIKELY_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,39}")

MAX_SECONDS: Final = 60.0  # a person may have to touch a device
MAX_SIGNATURE_BYTES: Final = 1024  # the signature of an RSA key of 8192 bits


class ProgramKey(RemoteKey):
    """A program, by its path and its arguments. It always needs the user's leave.

    ``exec:/absolute/path?arg=A&arg=B&env=NAME`` runs ``/absolute/path A B``: no shell, the root as
    working directory, and of the environment only what every program inherits
    (:data:`cardsign.programs.INHERITED`), the variables that ``env=`` names, and CARDSIGN_ALG,
    CARDSIGN_KID and CARDSIGN_THUMBPRINT, which say what is wanted.

    On stdin comes ``protected.payload``, ASCII. On stdout go the bytes of the JWS signature and
    nothing else, without base64, newline or DER: r and s, 32 bytes each, or PKCS #1 v1.5.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = parse_uri(uri, "arg", "env")
        if parts.authority or not PurePosixPath(parts.path).is_absolute():
            refuse_uri(uri, "expected exec: and the absolute path of a program")
        self.path, self.arguments, self.variables = parts.path, parts.all("arg"), parts.all("env")

    @property
    def needs_leave(self) -> bool:
        """Always."""
        return True

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Refuse: a program only signs."""
        what = "a program cannot be asked for its public key"
        raise SignerFault("signer.no_public", what, path=self.uri)

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Run the program, once for each signature.

        Raises:
            SignerFault: ``signer.unreachable`` (it cannot be started) or ``signer.failed`` (its
                exit status, too long, too much).
        """
        environment = {
            **programs.inherited(access.environment, *self.variables),
            "CARDSIGN_ALG": public.alg,
            "CARDSIGN_KID": public.kid,
            "CARDSIGN_THUMBPRINT": public.thumbprint,
        }
        bounded = programs.Program(
            self.path, self.arguments, environment, MAX_SECONDS, MAX_SIGNATURE_BYTES
        )
        try:
            return programs.run(bounded, signing_input)
        except programs.ProgramError as exc:
            code = "signer.failed" if exc.was_started else "signer.unreachable"
            said = f"; it said: {exc.complaint}" if exc.complaint else ""
            raise SignerFault(code, f"the program {exc.what}{said}", path=self.path) from exc


_OURS: Final[Mapping[str, type[RemoteKey]]] = {
    "awskms": AwsKey,
    "azurekms": AzureKey,
    "exec": ProgramKey,
    "gcpkms": GoogleKey,
    "hashivault": VaultKey,
    "pkcs11": TokenKey,
}


def open_signer(
    uri: str,
    public: PublicKey | None = None,
    access: Access | None = None,
    *,
    kid: str | None = None,
    base: Path = Path(),
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
        base: The directory to which the path of a ``file:`` is relative.

    Raises:
        SignerFault: ``signer.uri``, ``config.not_allowed``, ``usage.not_installed``,
            ``signer.wrong_key``, ``signer.no_key``, or ``signer.no_public``: `public` is left out.
        UsageFault: ``key.*`` or ``json.*``: what is there is no private key that can sign a card.
        PassphraseFault: ``passphrase.none``, ``passphrase.wrong``, or what the secrets raise.
        FileFault: Such as ``file.permissions``: others can read a key that is not encrypted.
        StoreFault: ``keystore.corrupt``, ``keystore.newer_format``: a damaged file of a key store.
    """
    if access is None:  # nobody is asked, and nothing more is allowed
        usual = user_secrets(PassphraseSource(environment=os.environ))
        access = Access(usual, environment=os.environ)
    if is_local(uri):
        private = _read_local(uri, access, kid=public.kid if public else kid, base=base)
        if public is not None and private.public != public:
            raise SignerFault(
                "signer.wrong_key",
                f"there is another private key, not that of {public.kid!r}",
                path=uri,
            )
        return private
    key = _allowed(uri, access.policy)
    if public is None:
        raise SignerFault(
            "signer.no_public",
            "what a signer shows as its public key is not believed when it signs",
            path=_named(uri, key),
            hint="Give the public key: --public FILE; or enrol it once in a key store: "
            f"cardsign keys import --custody '{_named(uri, key)}'.",
        )
    if public.alg not in STATEMENT_ALGORITHMS:
        raise SignerFault(
            "signer.uri",
            f"a signer of this kind signs with ES256 or RS256, and this is a key for {public.alg}",
            path=_named(uri, key),
            hint="Use env: or file:, or a key of one of these two.",
        )
    return BoundSigner(public, key.open(public, access))


def fetch_public(uri: str, access: Access, *, kid: str | None = None) -> PublicKey:
    """Ask the signer that `uri` names for its public key, to enrol it; signing never does.

    Raises:
        SignerFault: As :func:`open_signer`; ``signer.no_public``; what the signer raises.
        KeyRefused: The key is weak, or for neither algorithm.
    """
    if uri.startswith(f"{_FILE}:"):
        raise SignerFault(
            "signer.no_public",
            "a file is imported into the key store",
            path=shown(uri),
            hint="cardsign keys import FILE",
        )
    if is_local(uri):
        return _read_local(uri, access, kid=kid).public
    return _allowed(uri, access.policy).fetch_public(access, kid=kid)


def check_possession(signer: Signer) -> None:
    """Let a signer sign :data:`CHALLENGE`, so that no key is enrolled that cannot sign.

    Raises:
        SignerFault: ``signer.wrong_key``, or what the signer itself raises.
    """
    sign_payload(CHALLENGE, signer, typ="cardsign-challenge")


def custody_of(uri: str) -> str:
    """Return what a store keeps of `uri`: without what belongs to this machine and user.

    Raises:
        SignerFault: ``signer.uri``.
    """
    return uri if is_local(uri) else _loaded(_find(uri))(uri).custody


def is_local(uri: str) -> bool:
    """Say whether this process reads the private key there itself."""
    if not isinstance(uri, str):
        raise TypeError(
            f"a signer is named by a str, not by {type(uri).__name__}: open_signer('file:key.pem')"
        )
    return uri.partition(":")[0] in (_ENV, _FILE)


# Private keys elsewhere.


def _allowed(uri: str, policy: SignerPolicy) -> RemoteKey:
    found = _find(uri)
    key = None if isinstance(found, EntryPoint) else found(uri)
    # Another package's code is not even loaded before its URI is allowed.
    if (key is None or key.needs_leave) and uri not in policy.uris:
        raise SignerFault(
            "config.not_allowed",
            "the user has not allowed what this signer would run, load or read",
            path=_named(uri, key),
            hint="Give the URI as --key, or allow it in your own signers.toml.",
        )
    return key or _loaded(found)(uri)


def _named(uri: str, key: RemoteKey | None) -> str:
    """What an error calls a signer: the forms of our own kinds are too strict to hold a key."""
    return uri if type(key) in _OURS.values() else shown(uri)


def _find(uri: str) -> type[RemoteKey] | EntryPoint:
    """The kind of signer that `uri` names; another package's is not yet loaded."""
    name = scheme_of(uri)
    if name in _OURS:
        return _OURS[name]
    for point in entry_points(group=ENTRY_POINTS, name=name) if name else ():
        return point
    # Nothing but the scheme is repeated: the rest may be the key itself.
    what = f"`{name}:` is no scheme of a signer" if name else shown(uri)
    hint = "--key takes env:NAME, file:PATH or the URI of a key service."
    if not name:
        hint += " The keys of a key store sign without --key."
    if _LIKELY_VARIABLE.fullmatch(uri):
        hint += f" Did you mean --key env:{uri}?"
    raise SignerFault("signer.uri", what, hint=hint)


def _loaded(found: type[RemoteKey] | EntryPoint) -> type[RemoteKey]:
    if not isinstance(found, EntryPoint):
        return found
    kind: type[RemoteKey] = found.load()
    return kind


# Private keys that this process reads.


def _read_local(
    uri: str, access: Access, *, kid: str | None = None, base: Path = Path()
) -> PrivateKey:
    """Read the private key that ``env:`` or ``file:`` names; raises as :func:`open_signer`."""
    scheme, _, name = uri.partition(":")
    data = _variable(uri, name, access.environment) if scheme == _ENV else _file(uri, base / name)

    def password() -> bytes:
        return access.secrets("passphrase", uri)

    with of_the_user(uri):
        if is_envelope(data):
            pkcs8, label = open_envelope(data, password())
            return PrivateKey.from_pkcs8_der(pkcs8, kid=kid or label["kid"])
        try:
            return import_private_key(data, kid=kid, password=password)
        except PassphraseFault as fault:
            if fault.code != "passphrase.none":
                raise
            raise PassphraseFault(
                fault.code,
                "this private key is encrypted, and no passphrase was given",
                path=uri,
                hint=f"Set {PASSPHRASE_VARIABLE}, or name a file of mode 0600: "
                "--passphrase-file FILE.",
            ) from fault
        except KeyRefused as refusal:
            if scheme == _ENV and b"-----BEGIN" in data and b"\n" not in data.strip():
                raise KeyRefused(
                    "key.malformed",
                    "this PEM has lost its line breaks",
                    hint=f'Keep them by quotes: export {name}="$(cat key.pem)"; or give one line '
                    f'of base64: export {name}="$(base64 -w 0 key.pem)".',
                ) from refusal
            raise


def _file(uri: str, path: Path) -> bytes:
    if not uri.partition(":")[2]:
        refuse_uri(uri, "expected file:PATH, such as file:card-key.pem")
    if not is_shown(uri) and not os.path.exists(path):
        raise FileMissing(
            "file.not_found",
            f"there is no such file ({NOT_SHOWN})",
            path=shown(uri).partition(" ")[0],
            hint="file: takes the path of a key file; a key that is in a variable: env:NAME.",
        )
    return read_secret(
        path,
        max_bytes=MAX_KEY_FILE_BYTES,
        is_encrypted=lambda data: is_envelope(data) or is_encrypted(data),
    )


def _variable(uri: str, name: str, environment: Mapping[str, str]) -> bytes:
    if not _VARIABLE.fullmatch(name) or (name not in environment and not is_shown(uri)):
        # Not repeated: someone may have written the key itself where its variable's name goes.
        raise SignerFault("signer.uri", "expected env: and the name of an environment variable")
    value = environment.get(name, "").strip()
    if not value:
        what = "is empty" if name in environment else "is not set"
        raise SignerFault(
            "signer.no_key",
            f"the environment variable {name} {what}",
            path=uri,
            hint=f'Set it: export {name}="$(cat key.pem)". In CI the job must name the secret, '
            "and a pull request from a fork gets none.",
        )
    try:
        data = value.encode("ascii")
    except UnicodeEncodeError as exc:
        raise SignerFault(
            "signer.no_key", f"the environment variable {name} holds no key", path=uri
        ) from exc
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error:
        return data
    return decoded if decoded.lstrip().startswith((b"-----BEGIN", b"{", b"\x30")) else data
