"""Private keys that this machine can reach by itself: ``env:``, ``file:`` and ``exec:``."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from cardsign import programs
from cardsign.errors import FileMissing, KeyRefused, PassphraseFault, SignerFault, of_the_user
from cardsign.files import read_secret
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.jose.pem import PRIVATE_LABELS, pem_labels
from cardsign.keys.imports import (
    MAX_KEY_FILE_BYTES,
    import_private_key,
    import_public_key,
    is_encrypted,
)
from cardsign.keys.sealed import is_envelope, open_envelope
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import (
    NOT_SHOWN,
    RemoteKey,
    decode_part,
    is_shown,
    read_attributes,
    refuse_uri,
    shown,
)

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # POSIX, Base Definitions 8.1


def is_local(uri: str) -> bool:
    """Say whether this process reads the private key there itself."""
    if not isinstance(uri, str):
        raise TypeError(
            f"a signer is named by a str, not by {type(uri).__name__}: open_signer('file:key.pem')"
        )
    return uri.startswith(("env:", "file:"))


def read_private_key(
    uri: str, access: Access, *, kid: str | None = None, base: Path = Path()
) -> PrivateKey:
    """Read the private key that ``env:NAME`` or ``file:PATH`` names.

    It is PEM, PKCS #12, a JWK, or a JWK Set of which `kid` names one; a file may be one of a key
    store. A variable may hold the base64 of any of these, as some CI systems mask only values of
    one line.

    Raises:
        SignerFault, UsageFault, PassphraseFault, FileFault, StoreFault: As
            :func:`cardsign.keys.signers.registry.open_signer`.
    """
    data = _read_local(uri, access, base)
    name = uri.removeprefix("env:")
    with of_the_user(uri):
        try:
            if is_envelope(data):
                pkcs8, label = open_envelope(data, access.secrets("passphrase", uri))
                return PrivateKey.from_pkcs8_der(pkcs8, kid=kid or label["kid"])
            password = partial(access.secrets, "passphrase", uri)
            return import_private_key(data, kid=kid, password=password)
        except PassphraseFault as fault:
            raise PassphraseFault(fault.code, fault.message, path=uri) from fault
        except KeyRefused as refusal:
            if name != uri and b"-----BEGIN" in data and b"\n" not in data.strip():
                raise KeyRefused(
                    "key.malformed",
                    "this PEM has lost its line breaks",
                    hint=f'Keep them by quotes: export {name}="$(cat key.pem)"; or give one line '
                    f'of base64: export {name}="$(base64 -w 0 key.pem)".',
                ) from refusal
            raise


def list_local_keys(
    uri: str, access: Access, *, kid: str | None = None, base: Path = Path()
) -> tuple[PublicKey, ...]:
    """Return the public keys of ``env:NAME`` or ``file:PATH``, which may be public or private.

    Public ones come in any form that :meth:`JwkSet.from_bytes` reads.

    Raises:
        SignerFault, UsageFault, PassphraseFault, FileFault, StoreFault: As
            :func:`read_private_key`.
    """
    data = _read_local(uri, access, base)
    if not _is_public(data):
        return (read_private_key(uri, access, kid=kid, base=base).public,)
    with of_the_user(uri):
        if kid is not None:
            return (import_public_key(data, kid=kid),)
        jwks = JwkSet.from_bytes(data)
        for key in jwks.skipped:
            hint = "Of Azure's EC-HSM and RSA-HSM write the kty as EC and RSA."
            raise KeyRefused(key.code, f"key {key.kid!r}: {key.message}", hint=hint)
        if not jwks.keys:
            raise KeyRefused("key.unsupported", "there is no key here")
        return jwks.keys


def _is_public(data: bytes) -> bool:
    """Say whether a key file is meant as public; what is read as such is refused if it is not."""
    if data.lstrip().startswith(b"{"):
        return not is_envelope(data) and b'"d"' not in data
    labels = pem_labels(data)
    return any("PUBLIC" in label for label in labels) and PRIVATE_LABELS.isdisjoint(labels)


def _read_local(uri: str, access: Access, base: Path) -> bytes:
    scheme, _, name = uri.partition(":")
    if scheme == "env":
        return _read_variable(uri, name, access.environment)
    return _read_file(uri, base)


def _read_file(uri: str, base: Path) -> bytes:
    name = uri.removeprefix("file:")
    path = base / name
    if not name:
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
        is_encrypted=lambda data: is_envelope(data) or is_encrypted(data) or _is_public(data),
    )


def _read_variable(uri: str, name: str, environment: Mapping[str, str]) -> bytes:
    if not _VARIABLE.fullmatch(name) or (name not in environment and not is_shown(uri)):
        # Not repeated: someone may have written the key itself where its variable's name goes.
        raise SignerFault("signer.uri", "expected env: and the name of an environment variable")
    value = environment.get(name, "").strip()
    if not value:
        message = "is empty" if name in environment else "is not set"
        raise SignerFault(
            "signer.no_key",
            f"the environment variable {name} {message}",
            path=uri,
            hint=f'Set it: export {name}="$(cat key.pem)". In CI the job must name the secret, '
            "and a pull request from a fork gets none.",
        )
    data = os.fsencode(value)
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error:
        return data
    return decoded if decoded.lstrip().startswith((b"-----BEGIN", b"{", b"\x30")) else data


class ProgramKey(RemoteKey):
    """A program, by its path and its arguments. It always needs the user's leave.

    ``exec:/absolute/path?arg=A&arg=B&env=NAME`` runs ``/absolute/path A B``: no shell, the root as
    working directory, and of the environment only what every program inherits
    (:data:`cardsign.programs.INHERITED`), the variables that ``env=`` names, and CARDSIGN_ALG,
    CARDSIGN_KID and CARDSIGN_THUMBPRINT, which say what is wanted.

    On stdin comes ``protected.payload``, ASCII. On stdout go the bytes of the JWS signature and
    nothing else, without base64, newline or DER: r and s, 32 bytes each, or PKCS #1 v1.5.
    """

    FORM = re.compile(r"exec:(?P<path>/(?!/)[^?]*)(?:\?(?P<query>.*))?")
    EXPECTED = "exec: and the absolute path of a program"
    MAX_SECONDS: Final = 60.0  # a person may have to touch a device
    MAX_SIGNATURE_BYTES: Final = 1024  # the signature of an RSA key of 8192 bits

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        pairs = self.parts["query"].split("&") if self.parts["query"] is not None else ()
        named = read_attributes(uri, pairs, ("arg", "env"), repeated=True)
        self.path = decode_part(uri, self.parts["path"])
        self.arguments, self.variables = named.get("arg", []), named.get("env", [])

    @property
    def needs_leave(self) -> bool:
        """Always."""
        return True

    def show_public(self, access: Access) -> bytes:
        """Refuse: a program only signs."""
        message = "a program cannot be asked for its public key"
        raise SignerFault("signer.no_public", message, path=self.uri)

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Run the program, once for each signature."""
        environment = {
            **programs.inherited(access.environment, *self.variables),
            "CARDSIGN_ALG": public.alg,
            "CARDSIGN_KID": public.kid,
            "CARDSIGN_THUMBPRINT": public.thumbprint,
        }
        bounds = self.MAX_SECONDS, self.MAX_SIGNATURE_BYTES
        program = programs.Program(self.path, tuple(self.arguments), environment, *bounds)
        try:
            return programs.run(program, signing_input)
        except programs.ProgramError as exc:
            code = "signer.failed" if exc.was_started else "signer.unreachable"
            words = f"; it said: {exc.complaint}" if exc.complaint else ""
            raise SignerFault(code, f"the program {exc.what}{words}", path=self.path) from exc
