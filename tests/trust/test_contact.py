"""With whom a first contact may be made: the card's own origin, where nobody can listen."""

from __future__ import annotations

import pytest

from cardsign.trust import TofuAnchor
from tests.trust.establishing import Notebook, blank, codes, stand
from tests.trust.histories import keyset

HOMES: dict[str, tuple[str, str | None, bool]] = {
    "over TLS": ("https://tides.example", None, True),
    "this machine": ("http://127.0.0.1:8080", None, True),
    "this machine by name": ("http://localhost:8080", None, True),
    "this machine, IPv6": ("http://[::1]:8080", None, True),
    "a host over plain HTTP": ("http://tides.example", None, False),
    "a neighbour over plain HTTP": ("http://10.0.0.7", None, False),
    "a name that only looks so": ("http://localhost.example", None, False),
    "this machine, which is not the issuer's": ("https://tides.example", "http://127.0.0.1", False),
    "a mirror": ("https://tides.example", "https://mirror.example", False),
}


@pytest.mark.parametrize(("place", "contact", "met"), HOMES.values(), ids=HOMES)
def test_who_can_be_met(place: str, contact: str | None, met: bool) -> None:
    """Plain HTTP counts to this very machine alone, which only explicit leave ever asks."""
    memo = Notebook(blank(TofuAnchor()))
    first = keyset("ann", "bob")
    standing = stand(TofuAnchor(), [first], memo=memo, places=place, origin=contact or place)
    assert memo.known is not None
    assert (memo.known.first_contact is not None) is met
    assert ("trust.tofu_first" in codes(standing.notes)) is met
