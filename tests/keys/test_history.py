"""The statements of a key store: each is checked by the one before, and nobody can exchange one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cardsign.issuer.keyset import draft_next, write_draft
from cardsign.keys import history
from cardsign.keys.ledger import statement_blob
from cardsign.keys.store import KeyStore, digest_of
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement, sign_release
from tests.keys.conftest import QuickStore, in_each_store
from tests.keys.elsewhere import refusal
from tests.keys.issuing import NOW, first, key, online, plan, quorum, released, signed
from tests.keys.states import FIRST


def second(before: KeysetStatement, *names: str) -> KeysetStatement:
    """The next version, by ann and bob if nobody is named."""
    return signed(draft_next(before, before, now=NOW), *(names or ("ann", "bob")))


def keep(store: KeyStore, *statements: KeysetStatement) -> int:
    """Keep statements as `keyset publish` does; how many are kept then."""
    for statement in statements:
        history.keep_keyset(store, statement, write_draft(statement), now=NOW)
    return len(store.state.keysets)


def write_release(release: ReleaseStatement, by: str = "rel") -> bytes:
    """Its bytes, signed by the release key."""
    return sign_release(release.envelope.payload, [key(by)])


def put(store: KeyStore, statement: Any, data: bytes) -> None:
    """Name a statement in the log as somebody can who can write the log, whatever it says."""
    event = {"event": "release", "digest": statement.digest, "blob": digest_of(data)}
    names = ["seq"]
    if isinstance(statement, KeysetStatement):
        event["event"], names = "keyset", ["epoch", "version"]
    event |= {name: getattr(statement, name) for name in names}
    store.commit(lambda _: [event], now=NOW, blobs={statement_blob(event["blob"]): data})


@in_each_store
def test_what_is_kept_is_read_back_in_order(store: Any) -> None:
    """Two versions, an epoch, and each by the right of the one before."""
    assert history.find_listed(store, [key("stranger").public], "card")
    assert (history.kept_keysets(store), history.kept_release(store)) == ((), None)
    one = first()
    two = second(one)
    opened = draft_next(plan(root=quorum(1, "dan"), epoch=2), two, now=NOW)
    opened = signed(opened, "rita", "dan")
    assert keep(store, one, two, opened) == 3
    assert history.kept_keysets(store) == (one, two, opened)
    assert store.again().state.keysets[-1].digest == opened.digest
    assert keep(store, opened) == 3
    files = tuple(map(write_draft, (one, two, opened)))
    assert history.statements_to_publish(store) == (files, None)


@in_each_store
def test_a_keyset_that_is_kept_again_takes_along_what_came_since(store: Any) -> None:
    """A key that it lists already waits for no further one."""
    keep(store, first())
    store.add(FIRST)
    record = store.add(key("card"))
    assert record.state == "generated"
    assert keep(store, first()) == 1
    assert store.load().find(record.kid).state == "prepublished"


@pytest.mark.parametrize("revoked", [(), ("card",)])
def test_a_key_that_the_next_keyset_drops_or_revokes_ends_here(
    store: QuickStore, revoked: tuple[str, ...]
) -> None:
    """Another copy of the key store has retired it; this one must not list it again."""
    store.add(key("card"))
    store.add(key("rel"), role="release")
    one = first(keys=(online("new", "card"),)) if revoked else first()
    fewer = replace(one, keys=(online("new", "card"), online("rel", "release")))
    fewer = replace(fewer, revoked=frozenset(key(name).public.thumbprint for name in revoked))
    keep(store, one, signed(draft_next(fewer, one, now=NOW), "ann", "bob"))
    assert [record.state for record in store.load().keys] == ["revoked", "active"]


def test_what_does_not_follow_is_not_kept(store: QuickStore) -> None:
    """Too few signatures, or another one of the same number: refused before a byte is written."""
    one = first()
    keep(store, one)
    before = store.list_blobs(), store.log.read_bytes()
    fork = first("ann", "cat", recovery=None)
    for statement, code in ((second(one, "ann"), "unsigned"), (fork, "fork")):
        assert refusal(keep, store, statement) == f"statement.{code}"
    assert (store.list_blobs(), store.log.read_bytes()) == before


@in_each_store
def test_a_history_that_somebody_wrote_is_found_out(store: Any) -> None:
    """By the statements themselves (threat 22)."""
    keep(store, first())
    other = first(root=quorum(1, "eve"), recovery=None)
    forged = signed(draft_next(other, signed(other, "eve"), now=NOW), "eve")
    put(store, forged, write_draft(forged))
    assert refusal(history.kept_keysets, store) == "keystore.audit_broken"


@pytest.mark.parametrize("by", ["eve", "card"])
def test_a_release_that_no_release_key_signed_is_found_out(store: QuickStore, by: str) -> None:
    """What the next one says comes from it, so cron would sign what a stranger wrote."""
    keyset = first()
    keep(store, keyset)
    release = released(keyset, None)
    put(store, release, write_release(release, by))
    assert refusal(history.kept_release, store) == "keystore.audit_broken"


@in_each_store
def test_a_statement_that_is_gone_or_exchanged_is_found_out(store: Any) -> None:
    """Its digest stands in the log."""
    one = first()
    keep(store, one)
    blob = statement_blob(store.state.keysets[0].blob)
    store.drop_blobs([blob])
    again = store.again()
    assert refusal(history.kept_keysets, again) == "keystore.audit_broken"
    store.append(store.state.seq + 1, [b"{}"], {blob: write_draft(second(one))})
    assert refusal(history.kept_keysets, again) == "keystore.corrupt"


@in_each_store
def test_keys_are_used_only_if_the_roots_have_listed_them(store: KeyStore) -> None:
    """By role; a stranger's key that was edited into the store is none."""
    keep(store, first())
    assert history.find_listed(store, [key("card").public], "card")
    for name, role in (("rel", "card"), ("eve", "card"), ("card", "release"), ("ann", "card")):
        code = refusal(history.find_listed, store, [key(name).public], role)
        assert code == "keystore.not_listed"


@in_each_store
def test_no_two_releases_have_one_number(store: Any) -> None:
    """The second process is told, and signs the next one."""
    keyset = first()
    keep(store, keyset)
    one, other = released(keyset, None), store.again()
    two = released(keyset, one)
    history.keep_release(store, one, write_release(one), now=NOW)
    again = (history.keep_release, other, one, write_release(one))
    assert refusal(*again, now=NOW) == "keystore.changed"
    history.keep_release(other, two, write_release(two), now=NOW)
    store.load()
    assert history.kept_release(other) == history.kept_release(store) == two


def test_the_published_release_witnesses_the_log(store: QuickStore) -> None:
    """Whoever writes the whole log anew cannot write what was published."""
    keyset = first()
    keep(store, keyset)
    history.check_witnessed(store, None)
    release = released(keyset, None)
    history.check_witnessed(store, replace(release, audit_head=store.state.head))
    stranger = replace(release, audit_head="0" * 64)
    assert refusal(history.check_witnessed, store, stranger) == "keystore.audit_broken"
