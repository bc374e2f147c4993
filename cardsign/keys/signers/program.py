"""``exec:``: any program of this machine signs."""

from __future__ import annotations

import re
from typing import Final

from cardsign import programs
from cardsign.errors import SignerFault
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import ENCODED, RemoteKey, decode_part, read_attributes


class ProgramKey(RemoteKey):
    """A program, by its path and its arguments. It always needs the user's leave.

    ``exec:/absolute/path?arg=A&arg=B&env=NAME`` runs ``/absolute/path A B``: no shell, the root as
    working directory, and of the environment only what every program inherits
    (:data:`cardsign.programs.INHERITED`), the variables that ``env=`` names, and CARDSIGN_ALG,
    CARDSIGN_KID and CARDSIGN_THUMBPRINT, which say what is wanted.

    On stdin comes ``protected.payload``, ASCII. On stdout go the bytes of the JWS signature and
    nothing else, without base64, newline or DER: r and s, 32 bytes each, or PKCS #1 v1.5.
    """

    FORM = re.compile(rf"exec:(?P<path>/(?!/){ENCODED})(?:\?(?P<query>{ENCODED}))?")
    EXPECTED = "exec: and the absolute path of a program"
    MAX_SECONDS: Final = 60.0  # a person may have to touch a device
    MAX_SIGNATURE_BYTES: Final = 1024  # the signature of an RSA key of 8192 bits

    def __init__(self, uri: str, access: Access) -> None:
        super().__init__(uri, access)
        pairs = read_attributes(uri, self.parts["query"] or "", "&", ("arg", "env"))
        values = [(name, decode_part(uri, value)) for name, value in pairs]
        self.path = decode_part(uri, self.parts["path"])
        self.arguments = tuple(value for name, value in values if name == "arg")
        self.variables = [value for name, value in values if name == "env"]

    def request_public(self) -> bytes:
        """Refuse: a program only signs."""
        message = "a program cannot be asked for its public key"
        raise SignerFault("signer.no_public", message, path=self.uri)

    def request_signature(self, signing_input: bytes, alg: str) -> bytes:
        """Run the program, once for each signature."""
        environment = {
            **programs.inherited(self.access.environment, *self.variables),
            "CARDSIGN_ALG": alg,
            "CARDSIGN_KID": self.public.kid,
            "CARDSIGN_THUMBPRINT": self.public.thumbprint,
        }
        bounds = self.MAX_SECONDS, self.MAX_SIGNATURE_BYTES
        try:
            program = programs.Program(self.path, self.arguments, environment, *bounds)
            return programs.run(program, signing_input)
        except programs.ProgramError as exc:
            code = "signer.failed" if exc.was_started else "signer.unreachable"
            words = f"; it said: {exc.complaint}" if exc.complaint else ""
            raise SignerFault(code, f"the program {exc.what}{words}", path=self.path) from exc
