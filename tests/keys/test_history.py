"""The statement history: it is checked when it is read, and nobody can put it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cardsign.errors import CardsignError, StoreFault
from cardsign.keys import history
from cardsign.keys.drafts import KeysetPlan, ReleasePlan, draft_next, write_draft
from cardsign.keys.history import StatementHistory, note_keyset, note_release
from cardsign.keys.stores.base import KeyStore
from cardsign.statements.envelope import TYP_RELEASE, StatementRefused
from cardsign.statements.keyset import KeysetStatement, read_keyset
from cardsign.statements.release import ReleaseStatement
from cardsign.statements.signing import sign_statement
from tests.keys.conftest import QuickStore, in_each_store
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


def keep(store: KeyStore, *statements: KeysetStatement) -> StatementHistory:
    """Keep statements as `keyset publish` does."""
    for statement in statements:
        StatementHistory.of(store).keep_keyset(statement, write_draft(statement))
        note_keyset(store, statement, now=NOW)
    return StatementHistory.of(store)


def write_release(release: ReleaseStatement) -> bytes:
    """Its bytes, signed by the release key."""
    return sign_statement(release.envelope.payload, [key("rel")], TYP_RELEASE)


def sign_release(store: KeyStore, *releases: ReleaseStatement) -> StatementHistory:
    """Keep releases as `release renew` does."""
    for release in releases:
        note_release(store, release, now=NOW)
        store.add_statement("releases", (release.seq,), write_release(release))
    return StatementHistory.of(store)


def files(folder: Path) -> dict[str, bytes]:
    """All that lies below, but for the locks."""
    found: Iterator[Path] = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found if path.name != ".lock"}


@in_each_store
def test_what_is_kept_is_read_back_in_order(store: KeyStore) -> None:
    """Two versions, an epoch, and each by the right of the one before."""
    one = first()
    two = second(one)
    opened = signed(
        draft_next(plan(root=quorum(1, "dan")), two, now=NOW, recovery=True), "rita", "dan"
    )
    history = keep(store, one, two, opened)
    assert [each.digest for each in history.keysets()] == [one.digest, two.digest, opened.digest]
    assert history.newest_keyset() == opened
    assert store.load().statements.keyset is not None
    assert not history.keep_keyset(opened, write_draft(opened))
    assert history.to_publish() == (tuple(map(write_draft, (one, two, opened))), None)


def test_a_key_that_was_dropped_by_a_keyset_not_noted_ends_with_the_next(store: QuickStore) -> None:
    """A kill can come between a keyset and its note; the key would be listed again."""
    store.add(key("card"))
    store.add(key("rel"), roles=("release",))
    one = first()
    keep(store, one)
    fewer = replace(KeysetPlan.of(one), keys=(online("new", "card"), online("rel", "release")))
    two = signed(draft_next(fewer, one, now=NOW), "ann", "bob")
    StatementHistory.of(store).keep_keyset(two, write_draft(two))
    keep(store, second(two))
    states = {record.thumbprint: record.state for record in store.load().keys}
    assert states == {thumbprint("card"): "revoked", thumbprint("rel"): "active"}


def test_an_empty_ledger_holds_nothing(store: QuickStore) -> None:
    """And makes no folder to say so."""
    history = StatementHistory.of(store)
    assert (history.keysets(), history.newest_release()) == ((), None)
    history.check_listed([key("stranger").public], "card")
    assert not (store.path / "statements").exists()


UNLAWFUL: dict[str, tuple[Callable[[KeysetStatement], KeysetStatement], str]] = {
    "too few signatures": (lambda one: second(one, "ann"), "statement.unsigned"),
    "a version left out": (lambda one: second(second(one)), "statement.gap"),
    "another statement of the same number": (
        lambda one: first("ann", "cat", origins=("https://ebb.example",)),
        "statement.fork",
    ),
    "an epoch that the root has opened": (
        lambda one: signed(draft_next(plan(), one, now=NOW, recovery=True), "ann", "bob"),
        "statement.unsigned",
    ),
}


@pytest.mark.parametrize(("make", "code"), UNLAWFUL.values(), ids=UNLAWFUL)
def test_what_does_not_follow_is_not_kept(
    make: Callable[[KeysetStatement], KeysetStatement], code: str, store: QuickStore
) -> None:
    """Refused before a byte is written."""
    one = first()
    history = keep(store, one)
    before = files(store.path)
    statement = make(one)
    with pytest.raises(StatementRefused) as refused:
        history.keep_keyset(statement, write_draft(statement))
    assert refused.value.code == code
    assert files(store.path) == before


def _remove_newest(kept: QuickStore) -> None:
    kept.statement_file("keysets", (1, 2)).unlink()


def _exchange(kept: QuickStore) -> None:
    other = first(root=quorum(1, "eve"), recovery=None)
    two = signed(draft_next(KeysetPlan.of(other), other, now=NOW), "eve")
    kept.statement_file("keysets", (1, 1)).write_bytes(write_draft(signed(other, "eve")))
    kept.statement_file("keysets", (1, 2)).write_bytes(write_draft(two))


def _exchange_for_a_longer_one(kept: QuickStore) -> None:
    _exchange(kept)
    two = read_keyset(kept.statement_file("keysets", (1, 2)).read_bytes())
    three = signed(draft_next(KeysetPlan.of(two), two, now=NOW), "eve")
    kept.statement_file("keysets", (1, 3)).write_bytes(write_draft(three))


def _rename(kept: QuickStore) -> None:
    kept.statement_file("keysets", (1, 2)).rename(kept.statement_file("keysets", (1, 3)))


def _spoil(kept: QuickStore) -> None:
    kept.statement_file("keysets", (1, 2)).write_bytes(b"{}")


@pytest.mark.parametrize(
    "tamper",
    [_remove_newest, _exchange, _exchange_for_a_longer_one, _rename, _spoil],
    ids=[
        "the newest is removed",
        "a stranger's history",
        "a longer one of a stranger",
        "a wrong name",
        "no statement at all",
    ],
)
def test_a_history_that_was_tampered_with_is_found_out(
    tamper: Callable[[QuickStore], None], store: QuickStore
) -> None:
    """By the statements themselves, or because the key store names another end (threat 22)."""
    one = first()
    history = keep(store, one, second(one))
    history.keysets()
    tamper(store)
    with pytest.raises(StoreFault) as fault:
        history.keysets()
    assert fault.value.code == "keystore.audit_broken"


@in_each_store
def test_a_statement_that_the_state_does_not_name_yet_is_no_damage(store: KeyStore) -> None:
    """A crash between the two files leaves this; the next `publish` fixes it."""
    one = first()
    keep(store, one)
    two = second(one)
    StatementHistory.of(store).keep_keyset(two, write_draft(two))
    assert StatementHistory.of(store).newest_keyset() == two


@in_each_store
def test_keys_are_used_only_if_the_roots_have_listed_them(store: KeyStore) -> None:
    """By role; a stranger's key that was edited into the store is none."""
    history = keep(store, first())
    history.check_listed([key("card").public], "card")
    for name, role in (("rel", "card"), ("eve", "card"), ("card", "release"), ("ann", "card")):
        with pytest.raises(StoreFault) as fault:
            history.check_listed([key(name).public], role)  # type: ignore[arg-type]
        assert fault.value.code == "keystore.not_listed"


# ------------------------------------------------------------------ releases


@in_each_store
def test_no_two_releases_have_one_number(store: KeyStore) -> None:
    """The number is taken in the key store's state, which compares and swaps; and on the kept."""
    keyset = first()
    history = keep(store, keyset)
    one = released(keyset, None)
    data = write_release(one)
    note_release(store, one, now=NOW)
    store.add_statement("releases", (one.seq,), data)
    assert history.newest_release() == one
    for again in (
        lambda: note_release(store, one, now=NOW),
        lambda: store.add_statement("releases", (one.seq,), data),
    ):
        with pytest.raises(CardsignError) as fault:
            again()
        assert fault.value.code == "keystore.changed"
    assert store.load().statements.release_seq == 1


@in_each_store
def test_the_release_of_the_highest_number_is_the_newest(store: KeyStore) -> None:
    """As a number, not as a name: 10 comes after 9."""
    keyset, previous = first(), None
    history = keep(store, keyset)
    for _ in range(10):
        previous = released(keyset, previous)
        sign_release(store, previous)
    newest = history.newest_release()
    assert newest is not None
    assert newest.seq == 10


@in_each_store
def test_one_process_at_a_time_adds_a_statement(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits, and is told; what the first adds meanwhile is kept."""
    monkeypatch.setattr("cardsign.keys.stores.directory.LOCK_PATIENCE", 0.05)
    monkeypatch.setattr("cardsign.keys.stores.postgres.LOCK_PATIENCE", 50)
    keyset = first()
    history = keep(store, keyset)
    with store.adding_statements():
        with pytest.raises(StoreFault) as fault, store.adding_statements():
            pass
        one = released(keyset, None)
        sign_release(store, one)
    assert fault.value.code == "file.busy"
    with store.adding_statements():
        assert history.newest_release() == one


@pytest.mark.parametrize("seq", [2, 9])
def test_a_release_under_a_wrong_name_is_found_out(seq: int, store: QuickStore) -> None:
    """The highest name counts, so it has to be the release's own."""
    keyset = first()
    keep(store, keyset)
    history = sign_release(store, released(keyset, None))
    store.statement_file("releases", (1,)).rename(store.statement_file("releases", (seq,)))
    with pytest.raises(StoreFault) as fault:
        history.newest_release()
    assert fault.value.code == "keystore.audit_broken"


#: What a stranger who can write files makes of three releases; by whom it is signed.
WITHDRAWN = ReleasePlan((("https://tides.example/card.json", "e" * 64),))
FORGERIES: dict[str, Callable[[QuickStore, KeysetStatement, ReleaseStatement], object]] = {
    "the newest says something else": lambda kept, keyset, two: _put(
        kept, 3, released(keyset, two, WITHDRAWN), by="eve"
    ),
    "the newest says something else, signed by a release key": lambda kept, keyset, two: _put(
        kept, 3, released(keyset, two, WITHDRAWN), by="rel"
    ),
    "one more": lambda kept, keyset, two: _put(
        kept, 4, released(keyset, released(keyset, two), WITHDRAWN), by="eve"
    ),
    "one more, signed by a release key": lambda kept, keyset, two: _put(
        kept, 4, released(keyset, released(keyset, two), WITHDRAWN), by="rel"
    ),
    "the newest is gone, and the one before says something else": lambda kept, keyset, two: _put(
        _without(kept, 3), 2, released(keyset, released(keyset, None), WITHDRAWN), by="rel"
    ),
    "the newest two are gone": lambda kept, keyset, two: _without(kept, 2, 3),
    "all are gone": lambda kept, keyset, two: _without(kept, 1, 2, 3),
}


def _without(kept: QuickStore, *numbers: int) -> QuickStore:
    for seq in numbers:
        kept.statement_file("releases", (seq,)).unlink()
    return kept


def _put(kept: QuickStore, seq: int, release: ReleaseStatement, *, by: str) -> None:
    data = sign_statement(release.envelope.payload, [key(by)], TYP_RELEASE)
    kept.statement_file("releases", (seq,)).write_bytes(data)


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_release_that_was_not_signed_here_is_found_out(
    forge: Callable[[QuickStore, KeysetStatement, ReleaseStatement], object], store: QuickStore
) -> None:
    """What the next one says comes from it, so cron would sign what a stranger wrote."""
    keyset = first()
    keep(store, keyset)
    one = released(keyset, None)
    two = released(keyset, one)
    three = released(keyset, two)
    assert sign_release(store, one, two, three).newest_release() == three
    forge(store, keyset, two)
    with pytest.raises(StoreFault) as fault:
        StatementHistory.of(store).newest_release()
    assert fault.value.code == "keystore.audit_broken"


@pytest.mark.parametrize(("by", "good"), [("rel", True), ("eve", False)])
def test_a_state_of_an_older_cardsign_takes_only_what_a_release_key_has_signed(
    by: str, good: bool, store: QuickStore
) -> None:
    """It knows the number alone."""
    keyset = first()
    keep(store, keyset)
    one = released(keyset, None)
    sign_release(store, one)
    _put(store, 1, one, by=by)
    history = StatementHistory(store, replace(store.load().statements, release=None))
    if good:
        assert history.newest_release() == one
        return
    with pytest.raises(StoreFault) as fault:
        history.newest_release()
    assert "statement.unsigned" in fault.value.message


@in_each_store
def test_a_release_that_a_crash_lost_hinders_nothing(store: KeyStore) -> None:
    """Its number is taken and it was never kept; the one before is still the newest."""
    keyset = first()
    keep(store, keyset)
    one = released(keyset, None)
    two = released(keyset, one)
    sign_release(store.again(), one)
    for lost in (two, released(keyset, two)):
        note_release(store, lost, now=NOW)
        assert StatementHistory.of(store).newest_release() == one


@in_each_store
def test_who_reads_while_another_signs_is_not_told_of_a_forgery(store: KeyStore) -> None:
    """The state that was read first is then older than the newest release."""
    keyset = first()
    history = keep(store, keyset)
    one = released(keyset, None)
    sign_release(store.again(), one)
    assert history.held.release_seq == 0
    assert history.newest_release() == one


@in_each_store
def test_every_change_of_the_statements_is_in_the_audit_log(store: KeyStore) -> None:
    """The release carries its head, so the log cannot be rewritten in silence."""
    keyset = first()
    keep(store, keyset)
    note_release(store, released(keyset, None), now=NOW)
    log = store.read_audit().decode()
    assert '"keyset.kept"' in log
    assert '"release.signed"' in log
    assert thumbprint("ann") not in log


def test_a_statement_is_verified_once_for_each_store(store, monkeypatch) -> None:
    """But read each time: one that was exchanged meanwhile, by whomever, is found out."""
    one = first()
    keep(store, one)
    checks: list[object] = []
    real = history.check_step
    monkeypatch.setattr(history, "check_step", lambda *steps: (checks.append(steps), real(*steps)))

    assert StatementHistory.of(store).newest_keyset() == one
    known = len(checks)
    assert StatementHistory.of(store).newest_keyset() == one
    assert len(checks) == known

    file = store.statement_file("keysets", (1, 1))
    file.write_bytes(file.read_bytes().replace(b'"signature": "', b'"signature": "A'))
    with pytest.raises(StoreFault) as fault:
        StatementHistory.of(store).newest_keyset()
    assert fault.value.code == "keystore.audit_broken"
