"""What a verifier asks an issuer for: a simulated site, with a cache of its own for every URL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from cardsign.errors import FetchFailed
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetId, RootAnchor, read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.policy import KeysetAnchor
from cardsign.trust.walk import FetchResult, Refresh, SuppliedStatements
from cardsign.urls import KEYSET_PATH, RELEASE_PATH
from tests.statements.making import NOW, T0, quorum
from tests.trust.establishing import anchored, codes, number, pin_of, session_of, stand
from tests.trust.histories import after, keyset, opened, release

HOME = "https://tides.example"


def chain(length: int) -> list[bytes]:
    """So many statements, each the lawful successor of the one before."""
    statements = [keyset("ann", "bob")]
    while len(statements) < length:
        statements.append(after(statements[-1], iat=T0 - 9, exp=T0 + 9))
    return statements


FIRST, SECOND, THIRD, FOURTH = CHAIN = chain(4)
PIN = pin_of(FIRST)
#: Epoch 2 with a new root, opened from 1.2 by the recovery key.
RECOVERED = opened(SECOND)


def path_of(epoch: int, version: int) -> str:
    """Where a keyset statement lies."""
    return KEYSET_PATH.format(epoch=epoch, version=version)


@dataclass
class Site:
    """An issuer's server, and what was asked of it."""

    documents: dict[str, bytes] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, *statements: bytes) -> Site:
        """A server at which these statements lie."""
        site = cls()
        site.publish(*statements)
        return site

    def publish(self, *statements: bytes) -> None:
        """Put statements where they belong; a release replaces the one before."""
        for data in statements:
            try:
                path = path_of(*read_keyset(data).number)
            except StatementRefused:
                path = RELEASE_PATH
            self.documents[path] = data

    def __call__(self, url: str, max_bytes: int) -> FetchResult:
        path = url.removeprefix(HOME)
        self.asked.append(path)
        if path in self.failing:
            return FetchResult(url, "failed")
        body = self.documents.get(path)
        return FetchResult(url, "absent") if body is None else FetchResult(url, "found", body)


Ask = Callable[[str, int], FetchResult]


class Brought:
    """What came of one refresh of somebody who knows nothing, or these statements.

    Attributes:
        supplied: The statements.
        codes: Of what could not be had.
    """

    def __init__(
        self,
        site: Ask,
        pin: KeysetId | RootAnchor | None = PIN,
        known: bytes | None = None,
        listed: bytes | None = None,
    ) -> None:
        newest = read_keyset(known) if known else None
        held = read_release(listed) if listed else None
        self.supplied, self.reasons = Refresh(HOME, site).run(pin, newest, held)
        self.codes = set(codes(self.reasons))

    @property
    def number(self) -> tuple[int, int] | None:
        """Where a verifier comes who has pinned the first statement."""
        return number(session_of(anchored(FIRST)).resolve(self.supplied, NOW))


def test_everything_after_the_pin_is_brought_home() -> None:
    """Each step is asked for by its number, and what is brought leads a verifier to the end."""
    brought = Brought(Site.of(*CHAIN, release(FOURTH)))
    assert (brought.number, brought.codes) == ((1, 4), set())
    assert len(brought.supplied.untrusted_releases) == 1


def test_who_holds_the_newest_asks_for_three_things() -> None:
    """The release, the next version, and recovery, at every refresh (K7)."""
    site = Site.of(FIRST, SECOND, release(SECOND))
    assert Brought(site, PIN, SECOND).supplied.untrusted_keysets == ()
    assert site.asked == [RELEASE_PATH, path_of(2, 1), path_of(1, 3)]


def test_a_root_set_is_looked_for_in_every_version() -> None:
    """A root pin means the lowest statement with that root, which need not be the first.

    Without a pin every statement is asked for, whichever the newest release names.
    """
    moved = after(SECOND, "ann", "bob", "dan", root=quorum(1, "dan"), iat=T0, exp=T0 + 99)
    site = Site.of(FIRST, SECOND, moved)
    for holder, newest in (("dan", (1, 3)), ("cat", None)):
        root = read_keyset(keyset(holder, root=quorum(1, holder))).root
        anchor = KeysetAnchor(RootAnchor.of(root), "tides.example")
        supplied = Brought(site, anchor.pin).supplied
        assert number(stand(anchor, supplied.untrusted_keysets)) == newest
    brought = Brought(Site.of(*CHAIN, release(SECOND)), None)
    assert brought.supplied.untrusted_keysets == tuple(CHAIN)


def test_recovery_is_found_in_the_middle_of_a_chain_and_gone_on_from() -> None:
    """1.1, 1.2, 2.1, 2.2, 3.1: one refresh comes to the end."""
    next_one = after(RECOVERED, "dan", iat=T0 - 5)
    third = opened(next_one, "rita", "eve", root=quorum(1, "eve"))
    assert Brought(Site.of(FIRST, SECOND, RECOVERED, next_one, third)).number == (3, 1)


# ------------------------------------------------------------------ bad answers

JUNK: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"<html>", "statement.shape"),
    "a release": (release(FIRST), "statement.typ"),
    "a statement of another number": (FIRST, "statement.gap"),
}


@pytest.mark.parametrize(("junk", "code"), JUNK.values(), ids=JUNK)
def test_junk_ends_the_walk_and_nothing_else(junk: bytes, code: str) -> None:
    """What was reached stays, and what is wrong is said."""
    site = Site.of(FIRST, SECOND)
    site.documents[path_of(1, 3)] = junk
    brought = Brought(site)
    assert (brought.number, brought.codes) == ((1, 2), {code})


@pytest.mark.parametrize("bound", ["MAX_STEPS", "MAX_CHAIN_BYTES"])
def test_a_chain_without_end_is_left_at_the_bounds(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thief who has the root and signs on for ever costs one bounded refresh, no more (K9).

    And recovery is not crowded out by it.
    """
    endless = chain(9)
    limit = 5 if bound == "MAX_STEPS" else MAX_STATEMENT_BYTES + sum(map(len, endless[:5]))
    monkeypatch.setattr(f"cardsign.trust.walk.{bound}", limit)
    brought = Brought(Site.of(*endless, opened(endless[-1])), pin_of(endless[0]))
    assert 4 <= len(brought.supplied.untrusted_keysets) <= 6
    assert brought.codes == {"statement.too_many"}
    keysets = brought.supplied.untrusted_keysets
    assert number(stand(anchored(endless[0]), keysets)) == (2, 1)


LISTED = release(FIRST)
#: What becomes of a site, what is said then, and whether the newest keyset is asked for again.
VANISHING: dict[str, tuple[Callable[[Site], object], set[str], bool]] = {
    "a release that was seen is not there": (
        lambda site: site.documents.pop(RELEASE_PATH),
        {"statement.vanished"},
        True,
    ),
    "the server gives no answer": (
        lambda site: site.failing.update({RELEASE_PATH, path_of(1, 2), path_of(2, 1)}),
        {"refresh.no_answer"},
        False,
    ),
    "all is as it was": (lambda site: None, set(), False),
    "nothing is there": (lambda site: site.documents.clear(), {"statement.vanished"}, True),
}


@pytest.mark.parametrize(("happens", "expected", "again"), VANISHING.values(), ids=VANISHING)
def test_absent_is_not_the_same_as_no_answer(
    happens: Callable[[Site], object], expected: set[str], again: bool
) -> None:
    """Only 404 and 410 say that there is nothing; what was seen must not vanish.

    Only a server that answers and vouches no longer for the keyset is asked for it again.
    """
    site = Site.of(FIRST, LISTED)
    happens(site)
    brought = Brought(site, PIN, FIRST, LISTED)
    assert brought.codes == expected
    assert (path_of(1, 1) in site.asked) is again
    gone = [reason.message for reason in brought.reasons if "was published" in reason.message]
    assert len(gone) == (2 if not site.documents else len(expected & {"statement.vanished"}))


@pytest.mark.parametrize("status", [200, 302, 403, 500])
def test_a_host_that_answers_no_404_is_noted_once(status: int) -> None:
    """While the release names the newest keyset; where it names another, nothing is left out."""
    site = Site.of(FIRST, LISTED)

    def answer(url: str, max_bytes: int) -> FetchResult:
        result = site(url, max_bytes)
        if result.outcome != "absent":
            return result
        if status == 200:
            return FetchResult(url, "found", b"{}")
        failure = FetchFailed("fetch.status", f"{url} answered {status} instead of 200")
        return FetchResult(url, "failed", failure=failure)

    (reason,) = Brought(answer).reasons
    assert (reason.code, reason.severity) == ("refresh.next_unknown", "note")
    assert path_of(2, 1) in reason.message
    site.publish(release(SECOND))
    brought = Brought(answer)
    assert len(brought.reasons) == 3
    assert "refresh.next_unknown" not in brought.codes


def test_a_pinned_statement_that_is_not_there() -> None:
    """Whoever has pinned it has seen it: it is said which one is missing."""
    site = Site()
    assert Brought(site).codes == {"statement.vanished"}
    site.failing.add(path_of(1, 1))
    assert Brought(site).codes == Brought(site, None).codes == {"refresh.no_answer"}


def test_what_took_the_place_of_a_statement_is_brought_home() -> None:
    """A release that names another digest of its number: both are shown (K8)."""
    other = keyset("ann", "bob", exp=T0 + 91)
    brought = Brought(Site.of(other, release(other)), PIN, FIRST)
    assert brought.supplied.untrusted_keysets == (other,)
    memory = session_of(anchored(FIRST))
    memory.resolve(SuppliedStatements((FIRST,)), NOW)
    trust = memory.resolve(brought.supplied, NOW)
    assert trust.keyset is not None
    assert trust.keyset.digest == PIN.digest


def test_the_walk_ends_where_the_release_says() -> None:
    """A 404 before that is a gap, and said; at the end itself it is none (threat 13)."""
    site = Site.of(FIRST, release(THIRD))
    assert Brought(site).codes == {"statement.gap"}
    site.publish(*CHAIN[:3])
    assert Brought(site).codes == set()
