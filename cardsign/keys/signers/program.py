"""``exec:``: any program that signs. The signing input on stdin, the signature on stdout.

``exec:/absolute/path?arg=A&arg=B&env=NAME`` runs ``/absolute/path A B``: no shell, the root as
working directory, and of the environment only what every program inherits
(:data:`cardsign.programs.INHERITED`), the variables that ``env=`` names, and CARDSIGN_ALG,
CARDSIGN_KID and CARDSIGN_THUMBPRINT, which say what is wanted.

On stdin comes ``protected.payload``, ASCII. On stdout go the bytes of the JWS signature and
nothing else, without base64, newline or DER: r and s, 32 bytes each, or PKCS #1 v1.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from cardsign import programs
from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access, Ask, refuse_uri
from cardsign.keys.signers.uri import parse_uri

MAX_SECONDS: Final = 60.0  # a person may have to touch a device
MAX_ANSWER_BYTES: Final = 1024  # the signature of an RSA key of 8192 bits


def custody(uri: str) -> str:
    """The whole URI: a program is a program by its path and its arguments."""
    _Program.parse(uri)
    return uri


def needs_leave(uri: str) -> bool:
    """Always."""
    return True


def fetch_public(uri: str, access: Access, *, kid: str | None) -> PublicKey:
    """Refuse: a program only signs.

    Raises:
        SignerFault: ``signer.no_public``.
    """
    raise SignerFault("signer.no_public", "a program cannot be asked for its public key", path=uri)


def open(uri: str, public: PublicKey, access: Access) -> Ask:
    """Return what runs the program, once for each signature.

    Raises:
        SignerFault: ``signer.uri``. The signer: ``signer.unreachable`` (it cannot be started) or
            ``signer.failed`` (its exit status, too long, too much).
    """
    program = _Program.parse(uri)
    inherited = programs.inherited(access.environment, *program.variables)
    told = {
        "CARDSIGN_ALG": public.alg,
        "CARDSIGN_KID": public.kid,
        "CARDSIGN_THUMBPRINT": public.thumbprint,
    }
    return lambda signing_input: _run(program, inherited | told, signing_input)


@dataclass(frozen=True, slots=True)
class _Program:
    path: str
    arguments: tuple[str, ...]
    variables: tuple[str, ...]

    @classmethod
    def parse(cls, uri: str) -> _Program:
        parts = parse_uri(uri)
        parts.only("arg", "env")
        if parts.authority or not PurePosixPath(parts.path).is_absolute():
            refuse_uri(uri, "expected exec: and the absolute path of a program")
        return cls(parts.path, parts.all("arg"), parts.all("env"))


def _run(program: _Program, environment: dict[str, str], signing_input: bytes) -> bytes:
    bounded = programs.Program(
        program.path, program.arguments, environment, MAX_SECONDS, MAX_ANSWER_BYTES
    )
    try:
        return programs.run(bounded, signing_input)
    except programs.ProgramError as exc:
        code = "signer.failed" if exc.was_started else "signer.unreachable"
        said = f"; it said: {exc.complaint}" if exc.complaint else ""
        raise SignerFault(code, f"the program {exc.what}{said}", path=program.path) from exc
