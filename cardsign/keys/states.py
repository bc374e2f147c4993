"""The states of a key and the ways between them.

States exist on the signer's side only; a verifier learns of them by what is published and
signed. Nothing comes back: neither a retired key nor a revoked one ever signs again.
Whether a private half still exists is an attribute of the key, not a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from cardsign.errors import StoreFault

KeyState = Literal["generated", "prepublished", "active", "retiring", "retired", "revoked"]

STATES: Final[tuple[KeyState, ...]] = get_args(KeyState)

TRANSITIONS: Final[Mapping[KeyState, tuple[KeyState, ...]]] = {
    "generated": ("prepublished", "revoked"),
    "prepublished": ("active", "revoked"),
    "active": ("retiring", "revoked"),
    "retiring": ("retired", "revoked"),
    "retired": ("revoked",),
    "revoked": (),
}

PUBLISHED: Final[frozenset[KeyState]] = frozenset({"prepublished", "active", "retiring"})
"""The states whose public halves stand in the JWK Set."""

ENDED: Final[frozenset[KeyState]] = frozenset({"retired", "revoked"})
"""The states in which a private half is of no use any more and may be destroyed."""


def check_transition(old: KeyState, new: KeyState) -> None:
    """Refuse to take a key from `old` to `new` unless the table has that way.

    Not checked: *when* a transition may happen; that is :mod:`cardsign.keys.timeline`'s business.

    Raises:
        StoreFault: ``keystore.illegal_transition``, naming the ways that exist.
    """
    ways = TRANSITIONS[old]
    if new not in ways:
        legal = f", only {' or '.join(ways)}" if ways else ": its state is final"
        raise StoreFault(
            "keystore.illegal_transition", f"a key that is {old} cannot become {new}{legal}"
        )
