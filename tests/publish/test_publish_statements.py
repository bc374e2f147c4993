"""An issuer's statements in a generation: carried, served, and never lost again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.errors import PublishRefused
from cardsign.issuer.keyset import draft_next, write_draft
from cardsign.issuer.release import ReleasePlan, card_digest
from cardsign.jose.keys import JwkSet
from cardsign.publish.generation import Generation, load_current
from cardsign.publish.publication import Documents, Issued, publish_generation, publish_statements
from cardsign.server.app import create_app
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from tests.keys.elsewhere import refusal
from tests.keys.issuing import NOW, URL, first, key, online, quorum, released, signed
from tests.support import PORTABLE, dump
from tests.support import signed as signed_card

KEYSET = "/.well-known/cardsign/keyset/1.1.json"
RELEASE = "/.well-known/cardsign/release.json"
HOUR = timedelta(hours=1)


def document(statement: KeysetStatement | ReleaseStatement) -> bytes:
    """A statement as it is published."""
    return write_draft(statement)  # type: ignore[arg-type]


CARD = dump(signed_card(PORTABLE, key("card")))
ONE = first()
LISTED = ReleasePlan(((URL, card_digest(CARD)),))
R1 = released(ONE, None, LISTED)
ISSUED = Issued((document(ONE),), document(R1))


def put(directory: Path, issued: Issued | None = ISSUED, **changes: Any) -> Any:
    """Publish the card."""
    jwks = changes.pop("jwks", JwkSet.of([key("card").public]))
    card, now = changes.pop("card", CARD), changes.pop("now", NOW)
    return publish_generation(Documents(card, jwks, issued=issued, **changes), directory, now=now)


def put_statements(directory: Path, issued: Issued, now: datetime = NOW) -> Generation:
    """Publish statements into what is published."""
    generation = publish_statements(issued, directory, now=now)
    assert generation is not None
    return generation


def answer(directory: Path, path: str, **headers: str) -> Any:
    """What a client gets."""
    return create_app(directory).test_client().get(path, headers=headers)


#: Which path, the max-age of the publication, the status, and for how long it may be kept.
SERVED: dict[str, tuple[str, int, int, str]] = {
    "a keyset": (KEYSET, 86_400, 200, "public, max-age=300"),
    "a release": (RELEASE, 86_400, 200, "public, max-age=300"),
    "300 s is the most, not the rule": (RELEASE, 60, 200, "public, max-age=60"),
    "no keyset as yet": (KEYSET.replace("1.1", "1.2"), 300, 404, "no-store"),
    "no folder": (RELEASE + "/", 300, 404, "no-store"),
    "no other name": (KEYSET[:-5], 300, 404, "no-store"),
}


@pytest.mark.parametrize(("path", "max_age", "status", "kept"), SERVED.values(), ids=SERVED)
def test_statements_are_served_as_signed(
    path: str, max_age: int, status: int, kept: str, tmp_path: Path
) -> None:
    """With a strong ETag; a kept 404 would hide the next version."""
    put(tmp_path / "public", max_age=max_age)
    got = answer(tmp_path / "public", path)
    assert (got.status_code, got.headers["Cache-Control"]) == (status, kept)
    if status == 200:
        assert got.data == document(ONE if path == KEYSET else R1)
        assert got.headers["Content-Type"] == "application/jose+json"
        again = answer(tmp_path / "public", path, **{"If-None-Match": got.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b"")


def test_the_statements_of_several_agents_are_at_the_root_of_their_host(tmp_path: Path) -> None:
    """Where peers look for them; not where the agents have several issuers."""
    put(tmp_path / "tides")
    put(tmp_path / "waves", Issued(ISSUED.keysets, document(released(ONE, R1))), now=NOW + HOUR)
    newest = answer(tmp_path, "/agents/waves" + RELEASE)
    assert answer(tmp_path, RELEASE).data == newest.data != document(R1)
    assert answer(tmp_path, KEYSET).data == document(ONE)
    put(tmp_path / "winds", Issued((document(OTHER),), document(released(OTHER, None, LISTED))))
    assert answer(tmp_path, RELEASE).status_code == 404
    assert answer(tmp_path, "/agents/waves" + RELEASE).status_code == 200


def test_newer_statements_go_into_what_is_published(tmp_path: Path) -> None:
    """A generation of its own, of the same cards; the same again makes none."""
    directory = tmp_path / "public"
    assert publish_statements(ISSUED, directory, now=NOW) is None
    one = put(directory)
    newer = Issued(ISSUED.keysets, document(released(ONE, R1)))
    two = put_statements(directory, newer, now=NOW + HOUR)
    assert (two.number, two.card, two.jwks) == (one.number + 1, one.card, one.jwks)
    assert not put_statements(directory, newer, now=NOW + 2 * HOUR).created
    assert load_current(directory).release == newer.release


def test_statements_stay_when_a_card_is_published_without_them(tmp_path: Path) -> None:
    """One that was published never vanishes, and goes on binding what is published."""
    directory = tmp_path / "public"
    put(directory)
    put(directory, None, max_age=60)
    assert load_current(directory).release == ISSUED.release
    assert refusal(put, directory, None, **WITH_EVE) == "publish.unlisted"


BOTH = JwkSet.of([key("card").public, key("eve").public])
WITH_EVE: dict[str, Any] = {"jwks": BOTH, "card": dump(signed_card(PORTABLE, key("eve")))}


def test_a_key_that_is_not_listed_yet_or_is_revoked_holds_up_nobody(tmp_path: Path) -> None:
    """It is left out of the key set, as if it had not been made yet."""
    two = first(keys=(*ONE.keys, online("eve", "card")))
    lost = ReleasePlan(LISTED.cards, revoked=frozenset({key("eve").public.thumbprint}))
    revoked = Issued((document(two),), document(released(two, None, lost)))
    for folder, issued in (("listed", ISSUED), ("revoked", revoked)):
        generation = put(tmp_path / folder, issued, jwks=BOTH)
        assert generation.kids == (key("card").public.kid,)
        assert [one["kid"] for one in json.loads(generation.jwks)["keys"]] == [*generation.kids]


def test_a_publication_without_statements_serves_none(tmp_path: Path) -> None:
    """The twin: nobody has said which keys count, and each is published."""
    assert len(put(tmp_path / "public", None, jwks=BOTH).kids) == 2
    assert answer(tmp_path / "public", RELEASE).status_code == 404
    assert load_current(tmp_path / "public").keysets == {}


# ------------------------------------------------------------------ keysets and their releases

TWO = signed(draft_next(ONE, ONE, now=NOW), "ann", "bob")
AHEAD = Issued((document(ONE), document(TWO)), document(R1))
TOGETHER = Issued(AHEAD.keysets, document(released(TWO, R1, LISTED)))


@pytest.mark.parametrize("publication", [put_statements, put])
def test_a_keyset_is_published_with_the_release_that_speaks_of_it(
    publication: Callable[[Path, Issued], Generation], tmp_path: Path
) -> None:
    """Withheld until then: one who has it and an older release reaches no verdict."""
    directory = tmp_path / "public"
    put(directory)
    withheld = publication(directory, AHEAD)
    assert (withheld.number, list(withheld.keysets)) == (1, ["1.1"])
    together = publication(directory, TOGETHER)
    assert (together.number, list(together.keysets)) == (2, ["1.1", "1.2"])
    assert together.release == TOGETHER.release


def test_the_first_keyset_waits_for_the_first_release(tmp_path: Path) -> None:
    """Where cards were published without statements before."""
    directory = tmp_path / "public"
    put(directory, None)
    alone = Issued(ISSUED.keysets)
    assert (put_statements(directory, alone).number, load_current(directory).keysets) == (1, {})
    assert put_statements(directory, ISSUED).release == ISSUED.release


OTHER = first("ann", "cat", lifetime=timedelta(days=30))
R2 = document(released(ONE, R1, LISTED))
STRANGERS = document(released(ONE, R1, LISTED, by="eve"))
#: What is published, and what is to go on from it.
REFUSED: dict[str, tuple[Issued, Issued]] = {
    "another history": (ISSUED, Issued((document(OTHER),), document(released(OTHER, None)))),
    "a history cut off": (ISSUED, Issued((document(TWO),), TOGETHER.release)),
    "a release that is gone": (ISSUED, Issued(ISSUED.keysets)),
    "a release of a stranger": (ISSUED, Issued(ISSUED.keysets, STRANGERS)),
    "junk": (ISSUED, Issued((b"{}",))),
    "an older release": (Issued(ISSUED.keysets, R2), ISSUED),  # who saw R2 would refuse every card
}


@pytest.mark.parametrize(("published", "issued"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("attempt", [put, put_statements])
def test_published_statements_are_only_gone_on_from(
    attempt: Callable[[Path, Issued], Generation], published: Issued, issued: Issued, tmp_path: Path
) -> None:
    """Refused, with and without a card, and nothing is written."""
    put(tmp_path, published)
    words = "release 2 was published already" if issued is ISSUED else None
    assert refusal(attempt, tmp_path, issued, match=words) == "publish.statements"
    assert [path.name for path in tmp_path.glob("0*")] == ["000001"]


def elsewhere() -> bytes:
    """A card whose interfaces lie where the keyset allows none."""
    moved = dump(PORTABLE).replace(b"https://tides.example", b"https://ebb.example")
    return dump(signed_card(json.loads(moved), key("card")))


def listing(plan: ReleasePlan) -> Issued:
    """The first keyset and its first release."""
    return Issued(ISSUED.keysets, document(released(ONE, None, plan)))


LOST = ReleasePlan(LISTED.cards, revoked=frozenset({key("card").public.thumbprint}))
MOVED = listing(ReleasePlan(((URL, card_digest(elsewhere())),)))
OTHERS = [{**PORTABLE["supportedInterfaces"][0], "url": "https://tides.example/other"}]
CARDS: dict[str, tuple[Issued, dict[str, Any], str]] = {
    "no release at all": (Issued(ISSUED.keysets), {}, "release_behind"),
    "a release that does not list it": (listing(ReleasePlan()), {}, "unlisted"),
    "a card by a key that no root has listed": (ISSUED, WITH_EVE, "unlisted"),
    "a card by a key that the release has revoked": (listing(LOST), {}, "not_verifying"),
    "interfaces outside the origins": (MOVED, {"card": elsewhere()}, "not_verifying"),
    "a release that has expired": (ISSUED, {"now": NOW + timedelta(days=8)}, "not_verifying"),
}


@pytest.mark.parametrize(("issued", "changes", "code"), CARDS.values(), ids=CARDS)
def test_a_card_is_published_only_if_verifiers_will_trust_it(
    issued: Issued, changes: dict[str, Any], code: str, tmp_path: Path
) -> None:
    """As one who has pinned the first statement; nothing is written."""
    assert refusal(put, tmp_path, issued, **changes) == f"publish.{code}"
    assert not list(tmp_path.glob("0*"))


@pytest.mark.parametrize(
    ("seq", "changes", "code"),
    [(1, {}, "rollback"), (2, {}, ""), (2, {"supportedInterfaces": OTHERS}, "other_agent")],
)
def test_an_extended_card_is_published_only_if_verifiers_will_trust_it(
    seq: int, changes: dict[str, Any], code: str, tmp_path: Path
) -> None:
    """Not if its release has ended it, or it is another agent's; nothing is written then."""
    public = {**PORTABLE, "capabilities": {"extendedAgentCard": True}}
    marker = ExtendedMarker("staff", seq=seq, exp=int((NOW + timedelta(days=7)).timestamp()))
    special = with_marker({**public, "description": "For staff.", **changes}, marker)
    card, extended = (dump(signed_card(one, key("card"))) for one in (public, special))
    plan = ReleasePlan(((URL, card_digest(card)),), extended_floor=2)
    issued = Issued(ISSUED.keysets, document(released(ONE, R1, plan)))
    expected = pytest.raises(PublishRefused, match=f"staff .*extended.{code}")
    with expected if code else nullcontext():
        put(tmp_path / "public", issued, card=card, extended={"staff": extended})
    assert len(list((tmp_path / "public").glob("0*"))) == (0 if code else 1)


def test_a_history_longer_than_one_refresh_can_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a lifetime of renewals: its steps bound a verifier's refresh, not an issuer."""
    monkeypatch.setattr("cardsign.trust.session.MAX_STEPS", 4)
    history = [first("ann", "bob", root=quorum(1, "ann"))]
    while len(history) < 9:
        history.append(signed(draft_next(history[-1], history[-1], now=NOW), "ann"))
    issued = Issued(tuple(map(document, history)), document(released(history[-1], None, LISTED)))
    assert len(put(tmp_path / "public", issued).keysets) == 9
    newest = answer(tmp_path / "public", KEYSET.replace("1.1", "1.9"))
    assert newest.data == document(history[-1])
