"""The statements of a key store: each is checked by the one before, and nobody can exchange one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cardsign.issuer.keyset import KeysetPlan, draft_next, write_draft
from cardsign.jose.keys import PrivateKey
from cardsign.keys import history
from cardsign.keys.history import (
    check_listed,
    check_witnessed,
    keep_keyset,
    keep_release,
    kept_keyset,
    kept_keysets,
    kept_release,
    statements_to_publish,
)
from cardsign.keys.ledger import statement_blob
from cardsign.keys.store import KeyStore, digest_of
from cardsign.statements.envelope import TYP_RELEASE
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.statements.signing import sign_statement
from tests.keys.conftest import QuickStore, in_each_store
from tests.keys.elsewhere import refusal
from tests.keys.issuing import (
    NOW,
    first,
    key,
    online,
    plan,
    quorum,
    released,
    signed,
    thumbprint,
)


def second(before: KeysetStatement, *names: str) -> KeysetStatement:
    """The next version, by ann and bob if nobody is named."""
    return signed(draft_next(KeysetPlan.of(before), before, now=NOW), *(names or ("ann", "bob")))


def keep(store: KeyStore, *statements: KeysetStatement) -> None:
    """Keep statements as `keyset publish` does."""
    for statement in statements:
        keep_keyset(store, statement, write_draft(statement), now=NOW)


def write_release(release: ReleaseStatement, by: str = "rel") -> bytes:
    """Its bytes, signed by the release key."""
    return sign_statement(release.envelope.payload, [key(by)], TYP_RELEASE)


def sign_release(store: KeyStore, *releases: ReleaseStatement, by: str = "rel") -> None:
    """Keep releases as `release renew` does."""
    for release in releases:
        keep_release(store, release, write_release(release, by), now=NOW)


@in_each_store
def test_what_is_kept_is_read_back_in_order(store: Any) -> None:
    """Two versions, an epoch, and each by the right of the one before."""
    one = first()
    two = second(one)
    opened = signed(
        draft_next(plan(root=quorum(1, "dan")), two, now=NOW, recovery=True), "rita", "dan"
    )
    keep(store, one, two, opened)
    assert [each.digest for each in kept_keysets(store)] == [one.digest, two.digest, opened.digest]
    assert kept_keyset(store) == opened
    assert store.again().state.keysets[-1].digest == opened.digest
    assert not keep_keyset(store, opened, write_draft(opened), now=NOW)
    assert statements_to_publish(store) == (tuple(map(write_draft, (one, two, opened))), None)


@in_each_store
def test_a_keyset_that_is_kept_again_takes_along_what_came_since(
    store: Any, es256: PrivateKey
) -> None:
    """A key that it lists already waits for no further one."""
    data = write_draft(first())
    keep(store, first())
    store.add(es256)
    record = store.add(key("card"))
    assert record.state == "generated"
    assert not keep_keyset(store, first(), data, now=NOW)
    assert store.load().find(record.kid).state == "prepublished"


def test_a_key_that_the_next_keyset_drops_ends_here(store: QuickStore) -> None:
    """Another copy of the key store has retired it; this one must not list it again."""
    store.add(key("card"))
    store.add(key("rel"), roles=("release",))
    one = first()
    fewer = replace(KeysetPlan.of(one), keys=(online("new", "card"), online("rel", "release")))
    keep(store, one, signed(draft_next(fewer, one, now=NOW), "ann", "bob"))
    states = {record.thumbprint: record.state for record in store.load().keys}
    assert states == {thumbprint("card"): "revoked", thumbprint("rel"): "active"}


def test_a_store_without_statements_holds_none(store: QuickStore) -> None:
    """And makes no folder to say so."""
    assert (kept_keysets(store), kept_release(store)) == ((), None)
    check_listed(store, [key("stranger").public], "card")
    assert not store.path.exists()


UNLAWFUL: dict[str, tuple[Callable[[KeysetStatement], KeysetStatement], str]] = {
    "too few signatures": (lambda one: second(one, "ann"), "statement.unsigned"),
    "another of the same number": (
        lambda one: first("ann", "cat", recovery=None),
        "statement.fork",
    ),
}


@pytest.mark.parametrize(("make", "code"), UNLAWFUL.values(), ids=UNLAWFUL)
def test_what_does_not_follow_is_not_kept(
    make: Callable[[KeysetStatement], KeysetStatement], code: str, store: QuickStore
) -> None:
    """Refused before a byte is written."""
    one = first()
    keep(store, one)
    before = store.list_blobs(), store.log.read_bytes()
    statement = make(one)
    assert refusal(keep_keyset, store, statement, write_draft(statement), now=NOW) == code
    assert (store.list_blobs(), store.log.read_bytes()) == before


def put(store: KeyStore, statement: Any, data: bytes) -> None:
    """Name a statement in the log as somebody can who can write the log, whatever it says."""
    number = getattr(statement, "number", None) or (statement.seq,)
    names = ("epoch", "version") if len(number) == 2 else ("seq",)
    about = {"digest": statement.digest, "blob": digest_of(data)}
    kept = {"event": "keyset" if len(number) == 2 else "release", **about}
    event = {**kept, **dict(zip(names, number, strict=True))}
    store.commit(lambda _: [event], now=NOW, blobs={statement_blob(about["blob"]): data})


@in_each_store
def test_a_history_that_somebody_wrote_is_found_out(store: Any) -> None:
    """By the statements themselves (threat 22)."""
    one = first()
    keep(store, one)
    other = first(root=quorum(1, "eve"), recovery=None)
    forged = signed(draft_next(KeysetPlan.of(other), signed(other, "eve"), now=NOW), "eve")
    put(store, forged, write_draft(forged))
    assert refusal(kept_keysets, store) == "keystore.audit_broken"


@pytest.mark.parametrize("by", ["eve", "card"])
def test_a_release_that_no_release_key_signed_is_found_out(store: QuickStore, by: str) -> None:
    """What the next one says comes from it, so cron would sign what a stranger wrote."""
    keyset = first()
    keep(store, keyset)
    release = released(keyset, None)
    put(store, release, write_release(release, by))
    assert refusal(kept_release, store) == "keystore.audit_broken"


@in_each_store
def test_a_statement_that_is_gone_or_exchanged_is_found_out(store: Any) -> None:
    """Its digest stands in the log."""
    one = first()
    keep(store, one)
    blob = statement_blob(store.state.keysets[0].blob)
    store.drop_blobs([blob])
    again = store.again()
    assert refusal(kept_keysets, again) == "keystore.audit_broken"
    store.append(store.state.seq + 1, [b"{}"], {blob: write_draft(second(one))})
    assert refusal(history._read_keysets, again) == "keystore.corrupt"


@in_each_store
def test_keys_are_used_only_if_the_roots_have_listed_them(store: KeyStore) -> None:
    """By role; a stranger's key that was edited into the store is none."""
    keep(store, first())
    check_listed(store, [key("card").public], "card")
    for name, role in (("rel", "card"), ("eve", "card"), ("card", "release"), ("ann", "card")):
        assert refusal(check_listed, store, [key(name).public], role) == "keystore.not_listed"


@in_each_store
def test_no_two_releases_have_one_number(store: Any) -> None:
    """The second process is told, and signs the next one."""
    keyset = first()
    keep(store, keyset)
    one = released(keyset, None)
    other = store.again()
    sign_release(store, one)
    assert refusal(sign_release, other, one) == "keystore.changed"
    two = released(keyset, one)
    sign_release(other, two)
    assert kept_release(other) == two
    assert kept_release(store) == two


def test_the_published_release_witnesses_the_log(store: QuickStore) -> None:
    """Whoever writes the whole log anew cannot write what was published."""
    keyset = first()
    keep(store, keyset)
    check_witnessed(store, None)
    release = released(keyset, None)
    witness = replace(release, audit_head=store.state.head)
    check_witnessed(store, witness)
    stranger = replace(release, audit_head="0" * 64)
    assert refusal(check_witnessed, store, stranger) == "keystore.audit_broken"


def test_a_statement_is_verified_once_for_each_store(
    store: QuickStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its digest, which is that of its bytes."""
    keep(store, first())
    checks: list[object] = []
    real = history.check_step
    monkeypatch.setattr(history, "check_step", lambda *steps: (checks.append(steps), real(*steps)))
    again = store.again()
    for _ in range(2):
        assert kept_keyset(again) == first()
    assert len(checks) == 1
