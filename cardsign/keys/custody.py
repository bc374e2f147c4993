"""Which private halves share a fate: whoever gets at one of a custody may have them all."""

from __future__ import annotations

import re
from typing import Final

from cardsign.keys.records import KeyRecord, StoreState

_TOKEN: Final = re.compile(r"(?:^|;)(?:token|serial)=([^;?]*)")  # RFC 7512 2.3


def file_custody(thumbprint: str) -> str:
    """Return the only ``file:`` URI that the key of this thumbprint may have."""
    return f"file:private/{thumbprint}.key"


def same_custody(one: KeyRecord, other: KeyRecord) -> bool:
    """Whether who got at one private half must be thought to have the other.

    Two files of one store are: that their passphrases differ cannot be seen. So are two keys
    of one scheme, unless they name different tokens (``pkcs11:``) or programs (``exec:``).
    """
    return _place(one.custody) == _place(other.custody)


def suspects(state: StoreState) -> frozenset[str]:
    """Return the thumbprints of the keys that a thief of another key may have taken as well.

    Those that lay in the custody of a compromised key when its compromise became known.
    """
    stolen = [key for key in state.keys if key.revoked_because == "compromised"]
    return frozenset(
        key.thumbprint
        for key in state.keys
        for known in stolen
        if same_custody(key, known)
        and (known.times.revoked is None or key.created <= known.times.revoked)
    )


def _place(custody: str) -> tuple[str, ...]:
    scheme, _, rest = custody.partition(":")
    if scheme == "pkcs11":
        return scheme, *sorted(_TOKEN.findall(rest))
    if scheme == "exec":
        return scheme, rest.partition("?")[0]
    return (scheme,)
