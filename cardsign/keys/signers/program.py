"""``exec:``: any program that signs. The signing input on stdin, the signature on stdout.

``exec:/absolute/path?arg=A&arg=B&env=NAME`` runs ``/absolute/path A B``: no shell, the root as
working directory, and of the environment only what every program inherits
(:data:`cardsign.programs.INHERITED`), the variables that ``env=`` names, and CARDSIGN_ALG,
CARDSIGN_KID and CARDSIGN_THUMBPRINT, which say what is wanted.

On stdin comes ``protected.payload``, ASCII. On stdout go the bytes of the JWS signature and
nothing else, without base64, newline or DER: r and s, 32 bytes each, or PKCS #1 v1.5.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from cardsign import programs
from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import RemoteKey, parse_uri, refuse_uri

MAX_SECONDS: Final = 60.0  # a person may have to touch a device
MAX_ANSWER_BYTES: Final = 1024  # the signature of an RSA key of 8192 bits


class ProgramKey(RemoteKey):
    """A program, by its path and its arguments. It always needs the user's leave."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = parse_uri(uri)
        parts.only("arg", "env")
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
            self.path, self.arguments, environment, MAX_SECONDS, MAX_ANSWER_BYTES
        )
        try:
            return programs.run(bounded, signing_input)
        except programs.ProgramError as exc:
            code = "signer.failed" if exc.was_started else "signer.unreachable"
            said = f"; it said: {exc.complaint}" if exc.complaint else ""
            raise SignerFault(code, f"the program {exc.what}{said}", path=self.path) from exc
