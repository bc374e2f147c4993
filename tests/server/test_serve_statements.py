"""An issuer's statements in a generation: carried, served, and never lost again."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import PublishRefused
from cardsign.generation import load_current
from cardsign.issued import Issued
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement
from cardsign.keys.ledger import write_draft
from cardsign.keys.releases import ReleasePlan, card_digest
from cardsign.keys.statements import KeysetPlan, draft_next
from cardsign.publish import publish, publish_statements
from cardsign.server.app import ServerConfig, create_app
from cardsign.trust.chain import MAX_STEPS
from tests.keys.issuing import NOW, URL, first, key, quorum, released, signed
from tests.support import PORTABLE, dump
from tests.support import signed as signed_card

KEYSET = "/.well-known/cardsign/keyset/1.1.json"
RELEASE = "/.well-known/cardsign/release.json"


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
    card = changes.pop("card", CARD)
    return publish(
        card,
        jwks=jwks,
        extended={},
        directory=directory,
        now=changes.pop("now", NOW),
        issued=issued,
        **changes,
    )


def answer(directory: Path, path: str, **headers: str) -> Any:
    """What a client gets."""
    app = create_app(ServerConfig(directory), log=lambda line: None)
    return app.test_client().get(path, headers=headers)


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
    assert publish_statements(ISSUED, directory=directory, now=NOW) is None
    one = put(directory)
    newer = Issued(ISSUED.keysets, document(released(ONE, R1)))
    two = publish_statements(newer, directory=directory, now=NOW + timedelta(hours=1))
    assert two is not None
    assert (two.number, two.card, two.jwks) == (one.number + 1, one.card, one.jwks)
    assert two.settled_at == one.settled_at
    again = publish_statements(newer, directory=directory, now=NOW + timedelta(hours=2))
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
        put(directory, None, jwks=JwkSet.of([key("card").public, key("eve").public]))
    assert refused.value.code == "publish.key_unlisted"


def second() -> KeysetStatement:
    """Version 2."""
    told = KeysetPlan.of(ONE)
    return signed(draft_next(told, ONE, now=NOW), "ann", "bob")


OTHER = first("ann", "cat", lifetime=timedelta(days=30))
REFUSED: dict[str, tuple[Issued, str]] = {
    "another history": (
        Issued((document(OTHER),), document(released(OTHER, None, LISTED))),
        "publish.statements",
    ),
    "a history cut off": (
        Issued((document(second()),), document(released(second(), R1, LISTED))),
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
        lambda: publish_statements(issued, directory=directory, now=NOW),
    ):
        with pytest.raises(PublishRefused) as refused:
            attempt()
        assert refused.value.code == code
    assert [path.name for path in directory.glob("0*")] == ["000001"]


def elsewhere() -> bytes:
    """A card whose interfaces lie where the keyset allows none."""
    moved = dump(PORTABLE).replace(b"https://tides.example", b"https://ebb.example")
    return dump(signed_card(json.loads(moved), key("card")))


CARDS: dict[str, tuple[Issued, dict[str, Any], str]] = {
    "no release at all": (Issued(ISSUED.keysets), {}, "publish.unlisted"),
    "a release that does not list it": (
        Issued(ISSUED.keysets, document(released(ONE, None))),
        {},
        "publish.unlisted",
    ),
    "a release of the keyset before": (
        Issued((*ISSUED.keysets, document(second())), ISSUED.release),
        {},
        "publish.unlisted",
    ),
    "a key that no root has listed": (
        ISSUED,
        {"jwks": JwkSet.of([key("card").public, key("eve").public])},
        "publish.key_unlisted",
    ),
    "a key that the release has revoked": (
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
        "publish.key_unlisted",
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


def test_a_card_is_settled_one_max_age_after_it_replaced_another(tmp_path: Path) -> None:
    """The longer of the two max-ages counts, from the moment of the change."""
    directory = tmp_path / "public"
    put(directory, None, max_age=3600)
    other = dump(signed_card({**PORTABLE, "version": "9.9.9"}, key("card")))
    two = put(directory, None, card=other, max_age=60, now=NOW + timedelta(days=1))
    settled: datetime = NOW + timedelta(days=1, seconds=3600)
    assert two.settled_at == settled
    assert load_current(directory).settled_at == settled


def test_a_history_longer_than_one_refresh_can_be_gone_on_with(tmp_path: Path) -> None:
    """After a lifetime of renewals: 256 steps bound a verifier's refresh, not an issuer."""
    history = [first("ann", "bob", root=quorum(1, "ann"))]
    while len(history) < MAX_STEPS + 4:
        before = history[-1]
        history.append(signed(draft_next(KeysetPlan.of(before), before, now=NOW), "ann"))
    listing = released(history[-1], None, LISTED)
    issued = Issued(tuple(map(document, history)), document(listing))
    generation = put(tmp_path / "public", issued)
    assert len(generation.keysets) == MAX_STEPS + 4
    got = answer(tmp_path / "public", KEYSET.replace("1.1", f"1.{MAX_STEPS + 4}"))
    assert got.data == document(history[-1])
