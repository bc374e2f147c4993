"""An issuer's statements in a generation: carried, served, and never lost again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
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
from cardsign.trust.walk import MAX_STEPS
from tests.keys.issuing import NOW, URL, first, key, quorum, released, signed
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


def answer(directory: Path, path: str, **headers: str) -> Any:
    """What a client gets."""
    return create_app(directory).test_client().get(path, headers=headers)


@pytest.mark.parametrize(
    ("path", "body"), [(KEYSET, document(ONE)), (RELEASE, document(R1))], ids=["keyset", "release"]
)
def test_statements_are_served_as_signed(path: str, body: bytes, tmp_path: Path) -> None:
    """Bytes, media type, a strong ETag, and 304 for who has them."""
    put(tmp_path / "public", max_age=86_400)
    got = answer(tmp_path / "public", path)
    assert (got.status_code, got.data) == (200, body)
    assert got.headers["Content-Type"] == "application/jose+json"
    assert got.headers["Cache-Control"] == "public, max-age=300"
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


def test_a_short_max_age_holds_for_statements_too(tmp_path: Path) -> None:
    """300 s is the most, not the rule."""
    put(tmp_path / "public", max_age=60)
    got = answer(tmp_path / "public", RELEASE)
    assert got.headers["Cache-Control"] == "public, max-age=60"


@pytest.mark.parametrize("path", [KEYSET.replace("1.1", "1.2"), RELEASE + "/", KEYSET[:-5]])
def test_what_is_not_there_may_not_be_cached(path: str, tmp_path: Path) -> None:
    """The next version's 404 would hide it for as long as a cache keeps it."""
    put(tmp_path / "public")
    got = answer(tmp_path / "public", path)
    assert got.status_code == 404
    assert got.headers["Cache-Control"] == "no-store"


def test_a_publication_without_statements_serves_none(tmp_path: Path) -> None:
    """The simple path is as it was."""
    put(tmp_path / "public", None)
    assert answer(tmp_path / "public", RELEASE).status_code == 404
    assert load_current(tmp_path / "public").keysets == {}


def test_newer_statements_go_into_what_is_published(tmp_path: Path) -> None:
    """A generation of its own, of the same cards; the same again makes none."""
    directory = tmp_path / "public"
    assert publish_statements(ISSUED, directory, now=NOW) is None
    one = put(directory)
    newer = Issued(ISSUED.keysets, document(released(ONE, R1)))
    two = publish_statements(newer, directory, now=NOW + timedelta(hours=1))
    assert two is not None
    assert (two.number, two.card, two.jwks) == (one.number + 1, one.card, one.jwks)
    again = publish_statements(newer, directory, now=NOW + timedelta(hours=2))
    assert again is not None
    assert not again.created
    assert load_current(directory).release == newer.release


def test_statements_stay_when_a_card_is_published_without_them(tmp_path: Path) -> None:
    """One that was published never vanishes, and goes on binding what is published."""
    directory = tmp_path / "public"
    put(directory)
    put(directory, None, max_age=60)
    assert load_current(directory).release == ISSUED.release
    with pytest.raises(PublishRefused) as refused:
        put(directory, None, **WITH_EVE)
    assert refused.value.code == "publish.unlisted"


BOTH = JwkSet.of([key("card").public, key("eve").public])
WITH_EVE: dict[str, Any] = {"jwks": BOTH, "card": dump(signed_card(PORTABLE, key("eve")))}


def test_a_key_that_is_not_listed_yet_holds_up_nobody(tmp_path: Path) -> None:
    """It is left out of the key set, as if it had not been made yet."""
    generation = put(tmp_path / "public", jwks=BOTH)
    assert generation.kids == (key("card").public.kid,)
    assert [one["kid"] for one in json.loads(generation.jwks)["keys"]] == list(generation.kids)


def test_without_statements_every_key_is_published(tmp_path: Path) -> None:
    """The twin: nobody has said which keys count."""
    assert len(put(tmp_path / "public", None, jwks=BOTH).kids) == 2


# ------------------------------------------------------------------ keysets and their releases

TWO = signed(draft_next(ONE, ONE, now=NOW), "ann", "bob")
AHEAD = Issued((document(ONE), document(TWO)), document(R1))
TOGETHER = Issued(AHEAD.keysets, document(released(TWO, R1, LISTED)))


def put_statements(directory: Path, issued: Issued, **changes: Any) -> Generation:
    """Publish statements into what is published."""
    generation = publish_statements(issued, directory, now=NOW, **changes)
    assert generation is not None
    return generation


@pytest.mark.parametrize(
    "publication",
    [
        pytest.param(lambda d, issued: put_statements(d, issued), id="by themselves"),
        pytest.param(lambda d, issued: put(d, issued), id="with a card"),
    ],
)
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
REFUSED: dict[str, tuple[Issued, str]] = {
    "another history": (
        Issued((document(OTHER),), document(released(OTHER, None, LISTED))),
        "publish.statements",
    ),
    "a history cut off": (
        Issued((document(TWO),), TOGETHER.release),
        "publish.statements",
    ),
    "a release that is gone": (Issued(ISSUED.keysets), "publish.statements"),
    "a release of a stranger": (
        Issued(ISSUED.keysets, document(released(ONE, R1, LISTED, by="eve"))),
        "publish.statements",
    ),
    "junk": (Issued((b"{}",)), "publish.statements"),
}


@pytest.mark.parametrize(("issued", "code"), REFUSED.values(), ids=REFUSED)
def test_published_statements_are_only_gone_on_from(
    issued: Issued, code: str, tmp_path: Path
) -> None:
    """Refused, with and without a card, and nothing is written."""
    directory = tmp_path / "public"
    put(directory)
    for attempt in (
        lambda: put(directory, issued),
        lambda: publish_statements(issued, directory, now=NOW),
    ):
        with pytest.raises(PublishRefused) as refused:
            attempt()
        assert refused.value.code == code
    assert [path.name for path in directory.glob("0*")] == ["000001"]


def test_an_older_release_is_not_published_over_a_newer_one(tmp_path: Path) -> None:
    """Verifiers that have seen the newer one would refuse every card."""
    directory = tmp_path / "public"
    put(directory, Issued(ISSUED.keysets, document(released(ONE, R1, LISTED))))
    for attempt in (put, put_statements):
        with pytest.raises(PublishRefused, match="release 2 was published already") as refused:
            attempt(directory, ISSUED)
        assert refused.value.code == "publish.statements"
    assert [path.name for path in directory.glob("0*")] == ["000001"]


def elsewhere() -> bytes:
    """A card whose interfaces lie where the keyset allows none."""
    moved = dump(PORTABLE).replace(b"https://tides.example", b"https://ebb.example")
    return dump(signed_card(json.loads(moved), key("card")))


CARDS: dict[str, tuple[Issued, dict[str, Any], str]] = {
    "no release at all": (Issued(ISSUED.keysets), {}, "publish.release_behind"),
    "a release that does not list it": (
        Issued(ISSUED.keysets, document(released(ONE, None))),
        {},
        "publish.unlisted",
    ),
    "a card by a key that no root has listed": (
        ISSUED,
        WITH_EVE,
        "publish.unlisted",
    ),
    "a card by a key that the release has revoked": (
        Issued(
            ISSUED.keysets,
            document(
                released(
                    ONE,
                    None,
                    ReleasePlan(LISTED.cards, revoked=frozenset({key("card").public.thumbprint})),
                )
            ),
        ),
        {},
        "publish.not_verifying",
    ),
    "interfaces outside the origins": (
        Issued(
            ISSUED.keysets,
            document(released(ONE, None, ReleasePlan(((URL, card_digest(elsewhere())),)))),
        ),
        {"card": elsewhere()},
        "publish.not_verifying",
    ),
    "a release that has expired": (
        ISSUED,
        {"now": NOW + timedelta(days=8)},
        "publish.not_verifying",
    ),
}


@pytest.mark.parametrize(("issued", "changes", "code"), CARDS.values(), ids=CARDS)
def test_a_card_is_published_only_if_verifiers_will_trust_it(
    issued: Issued, changes: dict[str, Any], code: str, tmp_path: Path
) -> None:
    """As one who has pinned the first statement; nothing is written."""
    with pytest.raises(PublishRefused) as refused:
        put(tmp_path / "public", issued, **changes)
    assert refused.value.code == code
    assert not list((tmp_path / "public").glob("0*"))


@pytest.mark.parametrize("seq", [1, 2])
def test_an_extended_card_is_published_only_if_verifiers_will_trust_it(
    seq: int, tmp_path: Path
) -> None:
    """Not if the release that goes with it has ended it; nothing is written then."""
    public = {**PORTABLE, "capabilities": {"extendedAgentCard": True}}
    marker = ExtendedMarker("staff", seq=seq, exp=int((NOW + timedelta(days=7)).timestamp()))
    special = with_marker({**public, "description": "For staff."}, marker)
    card, extended = (dump(signed_card(one, key("card"))) for one in (public, special))
    plan = ReleasePlan(((URL, card_digest(card)),), extended_floor=2)
    issued = Issued(ISSUED.keysets, document(released(ONE, R1, plan)))
    ended = seq < 2
    refused = pytest.raises(PublishRefused, match="audience staff") if ended else nullcontext()
    with refused:
        put(tmp_path / "public", issued, card=card, extended={"staff": extended})
    assert len(list((tmp_path / "public").glob("0*"))) == (0 if ended else 1)


def test_a_history_longer_than_one_refresh_can_be_gone_on_with(tmp_path: Path) -> None:
    """After a lifetime of renewals: 256 steps bound a verifier's refresh, not an issuer."""
    history = [first("ann", "bob", root=quorum(1, "ann"))]
    while len(history) < MAX_STEPS + 4:
        before = history[-1]
        history.append(signed(draft_next(before, before, now=NOW), "ann"))
    listing = released(history[-1], None, LISTED)
    issued = Issued(tuple(map(document, history)), document(listing))
    generation = put(tmp_path / "public", issued)
    assert len(generation.keysets) == MAX_STEPS + 4
    got = answer(tmp_path / "public", KEYSET.replace("1.1", f"1.{MAX_STEPS + 4}"))
    assert got.data == document(history[-1])
