"""The secrets of a user's signers: each from its own place, asked for once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

from cardsign.errors import PassphraseFault
from cardsign.keys.passphrase import PassphraseSource, read_passphrase
from cardsign.keys.signers.access import SecretKind

PIN_VARIABLE: Final = "CARDSIGN_PIN"
TOKEN_VARIABLES: Final = ("BAO_TOKEN", "VAULT_TOKEN")

_OTHERS: Final[dict[SecretKind, tuple[tuple[str, ...], str]]] = {
    "pin": ((PIN_VARIABLE,), f"Set {PIN_VARIABLE}, or name a file: --key '...?pin-source=/FILE'."),
    "token": (TOKEN_VARIABLES, f"Set {' or '.join(TOKEN_VARIABLES)}."),
}


@dataclass(frozen=True, slots=True)
class UserSecrets:
    """Satisfies :class:`Secrets`: the environment, then a terminal; passphrases from `source`.

    Attributes:
        source: Where the passphrase of key files comes from; its environment and prompt serve
            PINs and tokens as well.
    """

    source: PassphraseSource
    _known: dict[tuple[SecretKind, str], bytes] = field(default_factory=dict, repr=False)

    def __call__(self, kind: SecretKind, of: str) -> bytes:
        """Return the secret; one passphrase is for all files.

        Raises:
            PassphraseFault: ``passphrase.none``, or as :func:`read_passphrase`.
        """
        place = (kind, "" if kind == "passphrase" else of)
        if place not in self._known:
            self._known[place] = self._passphrase() if kind == "passphrase" else self._ask(kind, of)
        return self._known[place]

    def _passphrase(self) -> bytes:
        return read_passphrase(self.source)

    def _ask(self, kind: SecretKind, of: str) -> bytes:
        variables, hint = _OTHERS[kind]
        for variable in variables:
            if value := self.source.environment.get(variable):
                return os.fsencode(value)
        name = "PIN" if kind == "pin" else kind
        try:
            terminal = PassphraseSource(prompt=self.source.prompt)
            return read_passphrase(terminal, question=f"{name} of {of}: ")
        except PassphraseFault as exc:
            raise PassphraseFault(exc.code, f"no {name} could be had for {of}", hint=hint) from exc
