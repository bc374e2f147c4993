"""What a verifier asks an issuer for: a simulated site, with a cache of its own for every URL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from cardsign.card.values import jcs
from cardsign.errors import FetchFailed
from cardsign.findings import Finding
from cardsign.statements.envelope import (
    MAX_STATEMENT_BYTES,
    TYP_KEYSET,
    TYP_RELEASE,
    StatementRefused,
)
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor, read_keyset
from cardsign.statements.release import read_release
from cardsign.statements.signing import sign_statement
from cardsign.trust.policy import KeysetAnchor, Limits, TrustedIssuer
from cardsign.trust.session import Session
from cardsign.trust.walk import FetchResult, Refresh, SuppliedStatements
from cardsign.urls import RELEASE_PATH, parse_place
from tests.statements.making import NOW, T0, key, keyset_members, quorum, release_members

HOME = "https://tides.example"
LIMITS = Limits()


def keyset(*signers: str, **changes: Any) -> bytes:
    """A signed keyset statement with one root, ann, unless it is changed."""
    members = keyset_members(**{"root": quorum(1, "ann"), **changes})
    return sign_statement(jcs(members), map(key, signers), TYP_KEYSET)


def release(of: KeysetStatement, **changes: Any) -> bytes:
    """A release of a keyset by its key `rel`."""
    return sign_statement(jcs(release_members(of, **changes)), [key("rel")], TYP_RELEASE)


def history(length: int, *, root: str = "ann", after: bytes | None = None) -> list[bytes]:
    """So many statements, each the lawful successor of the one before."""
    found: list[bytes] = []
    before = None if after is None else read_keyset(after)
    while len(found) < length:
        changes: dict[str, Any] = {}
        if before is not None:
            changes = {
                "epoch": before.epoch,
                "version": before.version + 1,
                "prev": before.digest,
                "root": quorum(1, root),
                "iat": T0 + before.version,
            }
        found.append(keyset(root, **changes))
        before = read_keyset(found[-1])
    return found


@dataclass
class Brought:
    """What came of one refresh."""

    supplied: SuppliedStatements
    reasons: tuple[Finding, ...]


@dataclass
class Site:
    """An issuer's server."""

    now: datetime = NOW
    documents: dict[str, bytes] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def publish(self, *statements: bytes) -> None:
        """Put statements where they belong; a release replaces the one before."""
        for data in statements:
            try:
                one = read_keyset(data)
            except StatementRefused:
                self.documents[RELEASE_PATH] = data
            else:
                self.documents[path_of(one.epoch, one.version)] = data

    def __call__(self, url: str, max_bytes: int) -> FetchResult:
        path = url.removeprefix(HOME)
        self.asked.append(path)
        if path in self.failing:
            return FetchResult(url, "failed")
        body = self.documents.get(path)
        return FetchResult(url, "absent") if body is None else FetchResult(url, "found", body)


def path_of(epoch: int, version: int) -> str:
    """Where a keyset statement lies."""
    return f"/.well-known/cardsign/keyset/{epoch}.{version}.json"


def pin_of(data: bytes) -> KeysetId:
    """The anchor that means a statement."""
    one = read_keyset(data)
    return one.id


def ask(site: Site, pin: Any, known: Session | None = None) -> Brought:
    """One refresh."""
    held = () if known is None else (known.keyset, known.release)
    return Brought(*Refresh(HOME, site, site.now, LIMITS.skew).run(pin, *held))


def session(pin: Any) -> Session:
    """A verifier who has this anchor."""
    issuer = TrustedIssuer("tides", KeysetAnchor(pin, "tides.example"), (parse_place(HOME),))
    return Session(issuer, LIMITS)


def held(brought: Brought, pin: Any, memory: Session | None = None) -> str:
    """What a verifier holds who has this anchor and gets what was brought."""
    standing = (memory or session(pin)).resolve(brought.supplied, NOW)
    return "" if standing.keyset is None else f"{standing.keyset.epoch}.{standing.keyset.version}"


def knowing(pin: KeysetId, data: bytes, listed: bytes | None = None) -> Session:
    """What is known of an issuer."""
    known = session(pin)
    known.keyset = read_keyset(data)
    known.release = None if listed is None else read_release(listed)
    return known


def codes(brought: Brought) -> set[str]:
    """The codes of what could not be had."""
    return {reason.code for reason in brought.reasons}


def test_everything_after_the_pin_is_brought_home() -> None:
    """Each step is asked for by its number, and what is brought leads a verifier to the end."""
    chain = history(4)
    site = Site()
    site.publish(*chain, release(read_keyset(chain[-1])))
    brought = ask(site, pin_of(chain[0]))
    assert held(brought, pin_of(chain[0])) == "1.4"
    assert len(brought.supplied.untrusted_releases) == 1
    assert brought.reasons == ()


def test_who_holds_the_newest_asks_for_three_things() -> None:
    """The release, the next version, and recovery, at every refresh (K7)."""
    chain = history(2)
    site = Site()
    site.publish(*chain, release(read_keyset(chain[1])))
    brought = ask(site, pin_of(chain[0]), knowing(pin_of(chain[0]), chain[1]))
    assert site.asked == [RELEASE_PATH, path_of(2, 1), path_of(1, 3)]
    assert brought.supplied.untrusted_keysets == ()


def test_a_root_set_is_looked_for_in_every_version() -> None:
    """A root pin means the lowest statement with that root, which need not be the first."""
    chain = history(2)
    before = read_keyset(chain[1])
    moved = keyset("ann", "bob", version=3, prev=before.digest, root=quorum(1, "bob"), iat=T0 + 9)
    site = Site()
    site.publish(*chain, moved)
    pin = RootAnchor.of(read_keyset(moved).root)
    assert held(ask(site, pin), pin) == "1.3"
    stranger = RootAnchor.of(read_keyset(keyset("cat", root=quorum(1, "cat"))).root)
    assert held(ask(site, stranger), stranger) == ""


def test_without_a_pin_every_statement_is_asked_for() -> None:
    """From the first one on, whichever the newest release names."""
    chain = history(3)
    site = Site()
    site.publish(*chain, release(read_keyset(chain[1])))
    assert ask(site, None).supplied.untrusted_keysets == tuple(chain)


# ------------------------------------------------------------------ recovery


def recovered(*signers: str, **changes: Any) -> bytes:
    """Epoch 2: a new root, dan."""
    return keyset(*signers, epoch=2, root=quorum(1, "dan"), recovery=quorum(1, "rita"), **changes)


def test_recovery_is_found_in_the_middle_of_a_chain_and_gone_on_from() -> None:
    """1.1, 1.2, 2.1, 2.2, 3.1: one refresh comes to the end."""
    chain = history(2)
    second = recovered("rita", "dan")
    after = read_keyset(second)
    next_one = keyset(
        "dan", epoch=2, version=2, prev=after.digest, root=quorum(1, "dan"), iat=T0 + 1
    )
    third = keyset("rita", "eve", epoch=3, root=quorum(1, "eve"))
    site = Site()
    site.publish(*chain, second, next_one, third)
    assert held(ask(site, pin_of(chain[0])), pin_of(chain[0])) == "3.1"


# ------------------------------------------------------------------ bad answers

JUNK: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"<html>", "statement.shape"),
    "a release": (release(read_keyset(history(1)[0])), "statement.typ"),
    "a statement of another number": (history(1)[0], "statement.gap"),
}


@pytest.mark.parametrize(("junk", "code"), JUNK.values(), ids=JUNK)
def test_junk_ends_the_walk_and_nothing_else(junk: bytes, code: str) -> None:
    """What was reached stays, and what is wrong is said."""
    chain = history(2)
    site = Site()
    site.publish(*chain)
    site.documents[path_of(1, 3)] = junk
    brought = ask(site, pin_of(chain[0]))
    assert held(brought, pin_of(chain[0])) == "1.2"
    assert codes(brought) == {code}


@pytest.mark.parametrize("bound", ["MAX_STEPS", "MAX_CHAIN_BYTES"])
def test_a_chain_without_end_is_left_at_the_bounds(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thief who has the root and signs on for ever costs one bounded refresh, no more (K9).

    And recovery is not crowded out by it.
    """
    chain = history(9)
    limit = 5 if bound == "MAX_STEPS" else MAX_STATEMENT_BYTES + sum(map(len, chain[:5]))
    monkeypatch.setattr(f"cardsign.trust.walk.{bound}", limit)
    site = Site()
    site.publish(*chain, recovered("rita", "dan"))
    brought = ask(site, pin_of(chain[0]))
    assert 4 <= len(brought.supplied.untrusted_keysets) <= 6
    assert codes(brought) == {"statement.too_many"}
    assert held(brought, pin_of(chain[0])) == "2.1"


VANISHING: dict[str, tuple[Callable[[Site], object], set[str]]] = {
    "a release that was seen is not there": (
        lambda site: site.documents.pop(RELEASE_PATH),
        {"statement.vanished"},
    ),
    "the server gives no answer": (
        lambda site: site.failing.update({RELEASE_PATH, path_of(1, 2), path_of(2, 1)}),
        {"refresh.no_answer"},
    ),
    "all is as it was": (lambda site: None, set()),
}


@pytest.mark.parametrize(("happens", "expected"), VANISHING.values(), ids=VANISHING)
def test_absent_is_not_the_same_as_no_answer(
    happens: Callable[[Site], object], expected: set[str]
) -> None:
    """Only 404 and 410 say that there is nothing; what was seen must not vanish."""
    first = history(1)[0]
    listed = release(read_keyset(first))
    site = Site()
    site.publish(first, listed)
    happens(site)
    brought = ask(site, pin_of(first), knowing(pin_of(first), first, listed))
    assert codes(brought) == expected
    # Only a server that answers and vouches no longer for the keyset is asked for it again.
    assert (path_of(1, 1) in site.asked) == ("statement.vanished" in expected)


@pytest.mark.parametrize("status", [200, 302, 403, 500])
def test_a_host_that_answers_no_404_is_noted_once(status: int) -> None:
    """While the release names the newest keyset; where it names another, nothing is left out."""
    first, second = history(2)
    site = Site()
    site.publish(first, release(read_keyset(first)))

    def answer(url: str, max_bytes: int) -> FetchResult:
        result = site(url, max_bytes)
        if result.outcome != "absent":
            return result
        if status == 200:
            return FetchResult(url, "found", b"{}")
        failure = FetchFailed("fetch.status", f"{url} answered {status} instead of 200")
        return FetchResult(url, "failed", failure=failure)

    refresh = Refresh(HOME, answer, NOW, LIMITS.skew)
    (reason,) = refresh.run(pin_of(first))[1]
    assert (reason.code, reason.severity) == ("refresh.next_unknown", "note")
    assert f"{path_of(2, 1)} answered {status}" in reason.message
    site.publish(release(read_keyset(second)))
    reasons = Refresh(HOME, answer, NOW, LIMITS.skew).run(pin_of(first))[1]
    assert len(reasons) == 3
    assert "refresh.next_unknown" not in {reason.code for reason in reasons}


def test_a_keyset_may_not_vanish_either() -> None:
    """It is asked for again where no release vouches for it; a 404 then is said."""
    first = history(1)[0]
    listed = release(read_keyset(first))
    site = Site()
    brought = ask(site, pin_of(first), knowing(pin_of(first), first, listed))
    assert codes(brought) == {"statement.vanished"}
    assert [one.message.partition(" was")[0] for one in brought.reasons] == [
        "release 5",
        "keyset 1.1",
    ]
    assert site.asked[-1] == path_of(1, 1)


def test_a_pinned_statement_that_is_not_there() -> None:
    """Whoever has pinned it has seen it: it is said which one is missing."""
    first = history(1)[0]
    site = Site()
    assert codes(ask(site, pin_of(first))) == {"statement.vanished"}
    site.failing.add(path_of(1, 1))
    assert codes(ask(site, pin_of(first))) == {"refresh.no_answer"}
    assert codes(ask(site, None)) == {"refresh.no_answer"}


def test_what_took_the_place_of_a_statement_is_brought_home() -> None:
    """A release that names another digest of its number: both are shown (K8)."""
    first = history(1)[0]
    other = keyset("ann", exp=T0 + 91 * 24 * 3600)
    site = Site()
    site.publish(other, release(read_keyset(other)))
    brought = ask(site, pin_of(first), knowing(pin_of(first), first))
    assert brought.supplied.untrusted_keysets == (other,)
    memory = knowing(pin_of(first), first)
    assert held(brought, pin_of(first), memory) == "1.1"


def test_the_walk_ends_where_the_release_says() -> None:
    """A 404 before that is a gap, and said; at the end itself it is none (threat 13)."""
    chain = history(3)
    site = Site()
    site.publish(chain[0], release(read_keyset(chain[2])))
    assert codes(ask(site, pin_of(chain[0]))) == {"statement.gap"}
    site.publish(*chain)
    assert codes(ask(site, pin_of(chain[0]))) == set()
