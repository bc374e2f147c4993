"""Statements from two places: everything of both."""

from __future__ import annotations

from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements

HOME = "https://tides.example"
FETCHED = SuppliedStatements((b"k1",), (b"r1",), b"jwks", f"{HOME}/jwks")
HANDED = SuppliedStatements((b"k2",), (b"r2",))


def test_statements_of_both() -> None:
    """In the order given; the key set of the second goes first, and keeps its URL."""
    both = FETCHED.joined(HANDED)
    assert (both.untrusted_keysets, both.untrusted_releases) == ((b"k1", b"k2"), (b"r1", b"r2"))
    assert (both.untrusted_jwks, both.jwks_url) == (b"jwks", f"{HOME}/jwks")
    other = FETCHED.joined(SuppliedStatements(untrusted_jwks=b"other"))
    assert (other.untrusted_jwks, other.jwks_url) == (b"other", None)


def test_nothing_beside_something_is_something() -> None:
    """From either side."""
    assert FETCHED.joined(NO_STATEMENTS) == NO_STATEMENTS.joined(FETCHED) == FETCHED
