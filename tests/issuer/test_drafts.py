"""Keyset and release statements as they are drafted, who has to sign them, and when that is due."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from cardsign.issuer.keyset import (
    check_draft,
    differences,
    draft_if_due,
    draft_next,
    find_additions,
    keyset_due,
    read_draft,
    with_own_keys,
    write_draft,
)
from cardsign.issuer.release import ReleasePlan, draft_following, says_something_new, settled_cards
from cardsign.jose.keys import PublicKey
from cardsign.keys.agenda import DEFAULT_SETTINGS
from cardsign.keys.history import has_ended
from cardsign.keys.ledger import KeyRecord, KeyTimes, Publication, PublishedCard, Role, StoreState
from cardsign.statements import keyset as statements
from cardsign.statements.keyset import IssuerKey, KeysetStatement, check_step, read_keyset
from cardsign.statements.release import check_release
from tests.keys.elsewhere import refusal
from tests.keys.issuing import (
    DAY,
    HOUR,
    NOW,
    T0,
    URL,
    first,
    key,
    online,
    plan,
    quorum,
    record,
    released,
    signed,
    store,
    thumbprint,
)
from tests.keys.states import record as record_publication
from tests.support import each_case

LATER = NOW + DAY


ROLES: dict[str, Role] = {"card": "card", "card2": "card", "rel": "release"}


def key_record(name: str, state: Any, hours: str = "") -> KeyRecord:
    """A key, in the words of `drafts.toml`."""
    role = ROLES.get(name, "root")
    if not hours:
        return record(name, state, role)
    times = KeyTimes(revoked=NOW + int(hours) * HOUR)
    return record(name, "revoked", role, revoked_because=state, times=times)


def having(text: str) -> StoreState:
    """What a store of these keys has."""
    return store(*(key_record(*words.split()) for words in text.split(", ") if words))


# What the next statement says.


def listed(draft: KeysetStatement) -> set[str]:
    """The names of the listed keys."""
    names = {thumbprint(name): name for name in ("card", "card2", "rel", "rel2")}
    return {names[entry.public.thumbprint] for entry in draft.keys}


@each_case(__file__, "following", "text", "kept")
def test_the_next_statement_says_what_became_of_the_keys(text: str, kept: str) -> None:
    """From the store's states to keys, revocations and roots, of which none is revoked too."""
    state = having(text)
    draft = with_own_keys(first(), state, now=NOW)
    assert listed(draft) == {*kept.split()}
    assert draft.revoked == {key.thumbprint for key in state.keys if key.state == "revoked"}
    lost = {"cat"} if "cat" in text else set()
    assert {root.holder for root in draft.root.keys} == {"ann", "bob", "cat"} - lost
    draft_next(draft, first(), now=NOW)


def test_times_of_a_key_stay_while_they_outlast_the_statement() -> None:
    """A renewal changes no key, but for one that would end before the statement does."""
    earlier = first(keys=(online("card", "card", days=200), online("rel", "release", days=30)))
    state = having("card active, rel active")
    draft = with_own_keys(earlier, state, now=NOW)
    ends = {entry.public.thumbprint: entry.exp for entry in draft.keys}
    assert ends[thumbprint("card")] == T0 + 200 * 86_400
    assert ends[thumbprint("rel")] == T0 + 400 * 86_400
    assert {entry.nbf for entry in draft.keys} == {T0}


def test_a_revoked_key_is_not_listed_again_by_the_store() -> None:
    """A plan that revokes a key of the store lists it no longer, whatever its state."""
    draft = replace(first(), revoked=frozenset({thumbprint("card")}))
    assert "card" not in listed(with_own_keys(draft, having("card active"), now=NOW))


#: Two of those that `test_statements.py` and `test_statements_succession.py` decide, and recovery.
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a lifetime beyond 400 days": ({}, {"lifetime": 401 * DAY}, "time_span"),
    "a key that is no longer revoked": ({"revoked": frozenset()}, {}, "unrevoked"),
    "an epoch that nobody can open": ({"epoch": 2}, {}, "recovery"),
    "recovery that was given up": ({"recovery": quorum(1, "rita")}, {}, "recovery"),
}


@pytest.mark.parametrize(("changes", "how", "code"), REFUSED.values(), ids=REFUSED)
def test_what_a_verifier_would_refuse_is_no_draft(
    changes: dict[str, Any], how: dict[str, Any], code: str
) -> None:
    """Checked with the verifier's own rules, before anybody is asked to sign; 400 days pass."""
    earlier = first(revoked=frozenset({thumbprint("old")}), recovery=None)
    same = earlier
    draft = draft_next(same, earlier, now=NOW, lifetime=400 * DAY)
    assert (draft.epoch, draft.version, draft.prev) == (1, 2, earlier.digest)
    attempt = partial(draft_next, replace(same, **changes), earlier, now=NOW, **how)
    assert refusal(attempt) == f"statement.{code}"


# Who has to sign.


DAN, ROSA = {"root": quorum(1, "dan")}, {"recovery": quorum(1, "rosa")}
OWN, ROOT, RECOVERY = "its own root", "the root before", "the recovery keys before"
OPENING = "the recovery keys"
SIGNING: dict[str, tuple[dict[str, Any], str, dict[str, int]]] = {
    "nobody yet": ({}, "", {OWN: 2}),
    "one of two": ({}, "ann", {OWN: 1}),
    "two of two": ({}, "ann cat", {OWN: 0}),
    "strangers do not count": ({}, "ann eve", {OWN: 1}),
    "both roots, when the root changes": (DAN, "ann bob", {ROOT: 0, OWN: 1}),
    "recovery too, when recovery changes": (ROSA, "ann bob", {RECOVERY: 1, OWN: 0}),
    "the next epoch, by recovery and its own root": (DAN, "rita dan", {OPENING: 0, OWN: 0}),
    "which the roots open for nobody": (DAN, "ann bob dan", {OPENING: 1, OWN: 0}),
}


@pytest.mark.parametrize(("changes", "names", "missing"), SIGNING.values(), ids=SIGNING)
def test_it_is_said_who_is_missing(
    changes: dict[str, Any], names: str, missing: dict[str, int]
) -> None:
    """And the check agrees: it passes just when nobody is missing."""
    earlier = first()
    draft = draft_next(plan(epoch=1 + (OPENING in missing), **changes), earlier, now=NOW)
    statement = signed(draft, *names.split()) if names else draft
    quorums = statements.quorum_signatures(statement, earlier)
    assert {signatures.name: signatures.missing for signatures in quorums} == missing
    check_draft(statement, earlier)
    if any(missing.values()):
        assert refusal(check_step, statement, earlier)
    else:
        check_step(statement, earlier)


def test_a_draft_travels_as_the_statement_that_it_will_be() -> None:
    """Unsigned, signed once, signed twice: one payload, one digest."""
    draft = draft_next(plan(), None, now=NOW)
    for statement in (draft, signed(draft, "ann"), signed(draft, "ann", "bob")):
        again = read_draft(write_draft(statement))
        assert again == statement
        assert again.digest == draft.digest
    assert refusal(read_keyset, write_draft(draft)) == "statement.shape"


JUNK = ["", "[]", '{"payload": 7, "signatures": []}', '{"payload": "!!", "signatures": []}']
JUNK += ['{"payload": "e30", "signatures": []}', '{"payload": "e30", "signatures": [], "x": 1}']


@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_draft_is_refused(junk: str) -> None:
    """Read as strictly as a statement; nothing may stand beside it that nobody signs."""
    assert refusal(read_draft, junk.encode()).startswith("statement.")


# What a draft changes, for those who sign it.


EXCHANGE = (("-", "bob"), ("+", "eve"))
EVIL = ("https://tides.example", "https://evil.example")
CARD, ES256 = online("card", "card"), f"key ES256 {thumbprint('card')} for card"
DATES = "held by harbour, 2026-11-22 to 2027-12-27"
ROLE = (f"- {ES256}, {DATES}", f"+ {ES256} and release, {DATES}")
ROOTS = ("- root: 2 of 3 must sign", "+ root: 1 of 2 must sign")
ROOTS += tuple(f"{sign} root ES256 {thumbprint(name)} held by {name}" for sign, name in EXCHANGE)
ZOE = thumbprint("zoe")
MORE: dict[str, tuple[dict[str, Any], int, tuple[str, ...]]] = {
    "roots": ({"root": quorum(1, "ann", "eve")}, 90, ROOTS),
    "an origin": ({"origins": EVIL}, 90, ("+ origin https://evil.example",)),
    "a card key": ({"keys": (CARD, online("evil", "card"))}, 90, ("+ key ES256",)),
    "a key's role": ({"keys": (online("card", "card", "release"),)}, 90, ROLE),
    "a key less": ({"keys": (CARD,)}, 90, ("- key ES256",)),
    "no recovery": ({"recovery": None}, 90, ("- recovery: 1 of 1 must sign",)),
    "a revocation": ({"revoked": frozenset({ZOE})}, 90, (f"+ revoked {ZOE}",)),
    "a longer lifetime": ({}, 100, ("~ valid from",)),
}


@pytest.mark.parametrize(("changes", "days", "lines"), MORE.values(), ids=MORE)
def test_what_a_draft_says_besides_is_told(
    changes: dict[str, Any], days: int, lines: tuple[str, ...]
) -> None:
    """It lies in a repository, where a stranger may have put it (threat 22)."""
    keyset, now = first(), NOW + 61 * DAY
    changed = replace(keyset, **changes)
    draft = draft_next(changed, keyset, now=now, lifetime=days * DAY)
    for told in (find_additions(store(), keyset, draft, now=now), [*differences(keyset, draft)]):
        for line in lines:
            assert any(change.startswith(line) for change in told), told


def test_a_renewal_changes_nothing_but_its_time() -> None:
    """The negative twin: two lines, and none of them adds or removes."""
    before = first()
    lines = differences(before, draft_next(before, before, now=LATER))
    assert [line[0] for line in lines] == ["=", "~"]


def test_a_kid_cannot_pass_for_something_else() -> None:
    """Its owner chooses it: it goes last, in quotes, and nothing after it."""
    before = first()
    kid = f'x" ES256 {thumbprint("card")} for card, held by harbour'
    evil = PublicKey.from_jwk(key("evil").public.jwk(), kid=kid)
    keys = (*before.keys, IssuerKey(evil, ("card",), "eve", T0, T0 + 9))
    draft = draft_next(replace(before, keys=keys), before, now=NOW)
    (line,) = [line for line in differences(before, draft) if line.startswith("+ key")]
    assert line.startswith(f"+ key ES256 {evil.thumbprint} for card, held by eve, 2026-")
    assert line.endswith(f", kid {json.dumps(kid)}")


# When the roots are wanted, and the one draft that waits for them.


@each_case(__file__, "due", "text", "hours", "due")
def test_the_roots_are_asked_only_when_there_is_something_to_say(
    text: str, hours: int, due: bool
) -> None:
    """So that cron can write one draft, and none while nothing changes."""
    state, now = having(text), NOW + hours * HOUR
    assert (keyset_due(state, first(), now=now).due <= now) is due
    assert (draft_if_due(state, first(), None, now=now) is not None) is due


WAITS, CHANGED = having("card2 generated"), having("card2 generated, card ceased 1")


def test_it_says_why_and_since_when() -> None:
    """The keys, or the end of the statement; and what ends if nobody signs."""
    quiet = keyset_due(store(), first(), now=LATER)
    changed = keyset_due(CHANGED, first(), now=LATER)
    assert (quiet.due, quiet.ends, quiet.name) == (NOW + 60 * DAY, NOW + 90 * DAY, "1.2")
    assert "keyset 1.1 ends at" in quiet.why
    assert changed.due == NOW + HOUR
    assert all(thumbprint(name) in changed.why for name in ("card", "card2"))


def draft_of(
    state: StoreState, at: datetime = LATER, draft: KeysetStatement | None = None, **changes: Any
) -> KeysetStatement:
    """The draft that is due, which is a new one."""
    result = draft_if_due(state, first(**changes), draft, now=at)
    assert result is not None
    assert result is not draft
    return result


def test_hosts_come_to_the_same_draft() -> None:
    """Byte for byte, whenever they ask; so no lock is needed."""
    drafts = [draft_of(WAITS, LATER + n * HOUR) for n in range(3)]
    assert len({write_draft(draft) for draft in drafts}) == 1
    assert drafts[0].iat == int((NOW + HOUR).timestamp())


def test_a_draft_that_is_there_is_left_as_it_is() -> None:
    """With its signatures, and with what people drafted besides: it says all that is to be said."""
    state, keyset = WAITS, first()
    half = signed(draft_of(state), "ann")
    theirs = with_own_keys(keyset, state, now=LATER)
    theirs = replace(theirs, root=quorum(2, "ann", "bob", "dan"))
    for draft in (half, draft_next(theirs, keyset, now=LATER)):
        assert draft_if_due(state, keyset, draft, now=LATER + 20 * DAY) is draft


STALE: dict[str, KeysetStatement] = {
    "it follows another statement": draft_of(CHANGED, lifetime=80 * DAY),
    "it lacks a key": draft_of(WAITS),
    "it is the newest statement itself": first(),
}


@pytest.mark.parametrize("stale", STALE.values(), ids=STALE)
def test_a_draft_that_will_not_do_is_drafted_anew(stale: KeysetStatement) -> None:
    """What it said is said again, with the rest; also what nobody has signed for months."""
    statement = draft_of(CHANGED, draft=stale)
    assert statement.revoked == {thumbprint("card")}
    assert statement.lists(thumbprint("card2"), "card")
    late = NOW + 61 * DAY
    assert draft_of(WAITS, late, stale).iat == int(late.timestamp())


def test_the_stores_own_draft_says_no_more_than_the_store() -> None:
    """However late somebody looks, and on whatever host it was made; but for one of the future."""
    state, keyset = CHANGED, first()
    theirs = with_own_keys(keyset, state, now=LATER)
    for draft in (draft_of(state), draft_next(theirs, keyset, now=LATER)):
        assert find_additions(state, keyset, draft, now=LATER + 20 * DAY) == ()
    (only,) = find_additions(state, keyset, draft_of(state), now=NOW)
    assert "valid from" in only, "once published, nothing could follow for that long"


def test_a_key_that_retires_after_the_draft_makes_no_stranger_of_its_author() -> None:
    """Cron has drafted it while the key was still to be listed."""
    keyset = first()
    drafted = draft_of(having("card retiring, rel active"), NOW + 61 * DAY)
    after, now = having("card retired, rel active"), NOW + 62 * DAY
    assert draft_if_due(after, keyset, drafted, now=now) is drafted
    assert find_additions(after, keyset, drafted, now=now) == ()
    theirs = replace(drafted, keys=(*drafted.keys, online("evil", "card")))
    draft = draft_next(theirs, keyset, now=NOW + 61 * DAY)
    assert any("+ key ES256" in line for line in find_additions(after, keyset, draft, now=now))


def test_too_few_roots_are_mended_by_people_alone() -> None:
    """No draft of cron's can fix that; theirs is told whole, as the store has nothing like it."""
    state, keyset = having("ann compromised 1, bob compromised 1"), first()
    assert refusal(draft_if_due, state, keyset, None, now=LATER) == "statement.threshold"
    revoked = frozenset({thumbprint("ann"), thumbprint("bob")})
    theirs = replace(keyset, root=quorum(1, "cat", "dan"), revoked=revoked)
    draft = draft_next(theirs, keyset, now=LATER)
    more = find_additions(state, keyset, draft, now=LATER)
    assert any("held by dan" in change for change in more)
    assert f"+ revoked {thumbprint('ann')}" in more


# When there is nothing more to say.


@each_case(__file__, "ended", "text", "ended")
def test_an_issuer_has_ended(text: str, ended: bool) -> None:
    """Only where its last keys were ended on purpose, and no other holder's are listed."""
    assert has_ended(having(text), first()) is ended


# Releases: what is listed, since when, and what no longer is.

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
ZERO = timedelta()


def current_payloads(release: Any) -> dict[str, int]:
    """Which payloads are current, and since which release."""
    return {card.payload_sha256[0]: card.seq for card in release.cards}


@each_case(__file__, "histories", "steps", "cards", "floor")
def test_cards_come_and_go(steps: str, cards: dict[str, int], floor: int) -> None:
    """Each release is one that a verifier takes after the one before."""
    keyset, release = first(), None
    digests = {"A": A, "B": B, "C": C}
    for step in steps.split():
        announced, _, settled = step.strip("-").partition("/")
        plan = ReleasePlan(
            ((URL, digests[announced]),) if announced else (),
            {URL: digests[settled]} if settled else {},
        )
        earlier, release = release, released(keyset, release, plan)
        check_release(release, keyset, earlier, now=NOW, skew=ZERO)
    assert release is not None
    assert current_payloads(release) == cards
    assert release.floor.get(URL, 0) == floor


def test_a_withdrawn_url_has_no_card() -> None:
    """And another one keeps its own."""
    other = "https://tides.example/ebb.json"
    one = released(first(), None, ReleasePlan(((URL, A), (other, B))))
    two = released(first(), one, ReleasePlan(withdrawn=(URL,)))
    assert [card.url for card in two.cards] == [other]
    assert [two.is_withdrawn(url) for url in (URL, other)] == [True, False]
    assert not one.is_withdrawn(URL)
    assert not two.is_withdrawn("https://tides.example/never-listed.json")


def test_what_one_release_revoked_the_next_revokes_too() -> None:
    """Until the roots have spoken: a new keyset confirms it or drops it (K11)."""
    keyset = first()
    one = released(keyset, None, ReleasePlan(revoked=frozenset({thumbprint("card")})))
    assert released(keyset, one).revoked == {thumbprint("card")}
    later = signed(draft_next(keyset, keyset, now=NOW), "ann", "bob")
    assert released(later, one).revoked == frozenset()


def test_what_the_keyset_does_not_list_needs_no_revocation() -> None:
    """A release may name only the keyset's own keys; a root's name would spoil all of it."""
    strangers = frozenset({thumbprint("ann"), thumbprint("nobody")})
    assert released(first(), None, ReleasePlan(revoked=strangers)).revoked == frozenset()


def test_the_extended_floor_only_rises() -> None:
    """A lower one that is asked for changes nothing."""
    one = released(first(), None)
    two = released(first(), one, ReleasePlan(extended_floor=2))
    three = released(first(), two, ReleasePlan(extended_floor=1))
    assert [dict(each.floor) for each in (one, two, three)] == [
        {},
        {"extended": 2},
        {"extended": 2},
    ]


NO_RELEASE: dict[str, tuple[ReleasePlan, str]] = {
    "an extended floor above itself": (ReleasePlan(extended_floor=9), "statement.floor"),
    "a url that is none": (ReleasePlan((("tides", A),)), "statement.members"),
}


@pytest.mark.parametrize(("plan", "code"), NO_RELEASE.values(), ids=NO_RELEASE)
def test_what_no_verifier_would_read_is_no_draft(plan: ReleasePlan, code: str) -> None:
    """Refused before the release key is opened."""
    assert refusal(draft_following, plan, first(), None, seq=1, now=NOW) == code


NEEDED: dict[str, tuple[ReleasePlan, timedelta, bool]] = {
    "nothing new, and young": (ReleasePlan(), DAY, False),
    "a longer audit log alone": (ReleasePlan(audit_head="d" * 64), DAY, False),
    "a card that is listed": (ReleasePlan(((URL, A),)), DAY, False),
    "half of its time is over": (ReleasePlan(), timedelta(days=3, hours=12), True),
    # By more than the clocks of the issuer's hosts may differ: nobody believes it yet.
    "a clock that was ahead": (ReleasePlan(), timedelta(seconds=-301), True),
    "a clock a little ahead": (ReleasePlan(), timedelta(seconds=-300), False),
    "a new card": (ReleasePlan(((URL, B),)), DAY, True),
    "a revocation": (ReleasePlan(revoked=frozenset({thumbprint("card")})), DAY, True),
    "a floor that rises": (ReleasePlan(settled={URL: A}), DAY, True),
}


@pytest.mark.parametrize(("plan", "after", "needed"), NEEDED.values(), ids=NEEDED)
def test_cron_signs_only_what_is_needed(plan: ReleasePlan, after: timedelta, needed: bool) -> None:
    """Often asked, seldom signed."""
    keyset = first()
    one = released(keyset, None, ReleasePlan(((URL, A),)))
    now = NOW + after
    draft = draft_following(plan, keyset, one, seq=2, now=now)
    assert says_something_new(draft, one, now=now) is needed
    assert says_something_new(draft, None, now=now)
    assert (now >= one.renew_at) is (after >= timedelta(days=3, hours=12))


# ------------------------------------------------------------------ when a card has settled

MINUTE = timedelta(minutes=1)
B_TOO = ReleasePlan(((URL, B),))


def shown(minutes: int, *digests: str, max_age: int = 60) -> Publication:
    """A record, that many minutes after NOW, of the card (and extended ones) with these digests."""
    cards = tuple(PublishedCard(f"{digest[0]}.json", digest, (), URL) for digest in digests)
    return Publication(1, NOW + minutes * MINUTE, max_age, (), cards)


def noted(*records: Publication) -> StoreState:
    """What a store knows after these."""
    return functools.reduce(record_publication, records, StoreState())


#: Caches keep a card for
#: an hour and five minutes, unless a publication has told them to keep it for longer.
AGAIN = [shown(0, B), shown(30, A), shown(31, B)]
LONG = [shown(-9, A, max_age=7200), shown(0, B)]
#: What was recorded; when asked, minutes after NOW; which of A and B has settled.
SETTLING: dict[str, tuple[list[Publication], float, str | None]] = {
    "nothing was recorded": ([], 65, None),
    "caches may hold another one": ([shown(0, B)], 64.99, None),
    "no cache holds another one": ([shown(0, B)], 65, "b"),
    "it counts from the first": ([shown(-9, A), shown(0, B), shown(30, B)], 65, "b"),
    "the other was seen again": (AGAIN, 95, None),
    "the other was seen again, and long enough ago": (AGAIN, 96, "b"),
    "caches were told to keep the other for longer": (LONG, 120, None),
    "and have done so": (LONG, 125, "b"),
    "a card that is shown no more": ([shown(0, B), shown(9, C)], 65, None),
    "an extended one beside it says nothing": ([shown(0, B, C)], 65, "b"),
}


@pytest.mark.parametrize(("records", "minutes", "settled"), SETTLING.values(), ids=SETTLING)
def test_a_card_settles_by_what_was_recorded(
    records: list[Publication], minutes: float, settled: str | None
) -> None:
    """Never by the clock of the state: what nobody has seen may never have been live."""
    release = released(first(), released(first(), None, ReleasePlan(((URL, A),))), B_TOO)
    now = NOW + minutes * MINUTE
    result = settled_cards(release.cards, noted(*records), DEFAULT_SETTINGS, now)
    assert result == ({URL: settled * 64} if settled else {})


def test_each_url_settles_by_itself() -> None:
    """Two cards, of which one has changed."""
    other = "https://tides.example/ebb.json"
    release = released(first(), None, ReleasePlan(((URL, A), (other, C))))
    release = released(first(), release, B_TOO)
    ebb = PublishedCard("agent-card.json", C, (), other)
    records = (shown(-99, A), Publication(2, NOW - 90 * MINUTE, 60, (), (ebb,)), shown(0, B))
    state = noted(*records)
    assert settled_cards(release.cards, state, DEFAULT_SETTINGS, NOW) == {other: C}
    both = settled_cards(release.cards, state, DEFAULT_SETTINGS, NOW + 65 * MINUTE)
    assert both == {other: C, URL: B}
