"""The ledger: a history that is checked when it is read, and that nobody can put back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cardsign.errors import CardsignError, StoreFault
from cardsign.jose.assembly import sign_statement
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.statements import TYP_RELEASE, StatementRefused
from cardsign.keys.ledger import Ledger, note_keyset, note_release, write_draft
from cardsign.keys.statements import KeysetPlan, draft_next, draft_recovery
from cardsign.keys.store import DirectoryStore
from tests.keys.conftest import QuickStore
from tests.keys.issuing import NOW, first, key, plan, quorum, released, signed, thumbprint


def second(before: KeysetStatement, *names: str) -> KeysetStatement:
    """The next version, by ann and bob if nobody is named."""
    return signed(draft_next(KeysetPlan.of(before), before, now=NOW), *(names or ("ann", "bob")))


def keep(store: DirectoryStore, *statements: KeysetStatement) -> Ledger:
    """Keep statements as `keyset publish` does."""
    for statement in statements:
        Ledger.beside(store).keep_keyset(statement, write_draft(statement))
        note_keyset(store, statement, now=NOW)
    return Ledger.beside(store)


def files(folder: Path) -> dict[str, bytes]:
    """All that lies below, but for the locks."""
    found: Iterator[Path] = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found if path.name != ".lock"}


def test_what_is_kept_is_read_back_in_order(store: QuickStore) -> None:
    """Two versions, an epoch, and each by the right of the one before."""
    one = first()
    two = second(one)
    opened = signed(draft_recovery(plan(root=quorum(1, "dan")), two, now=NOW), "rita", "dan")
    ledger = keep(store, one, two, opened)
    assert [each.digest for each in ledger.keysets()] == [one.digest, two.digest, opened.digest]
    assert ledger.newest_keyset() == opened
    assert store.load().statements.keyset is not None
    assert not ledger.keep_keyset(opened, write_draft(opened))


def test_an_empty_ledger_holds_nothing(store: QuickStore) -> None:
    """And makes no folder to say so."""
    ledger = Ledger.beside(store)
    assert (ledger.keysets(), ledger.newest_release()) == ((), None)
    ledger.check_listed([key("stranger").public], "card")
    assert not ledger.path.exists()


UNLAWFUL: dict[str, tuple[Callable[[KeysetStatement], KeysetStatement], str]] = {
    "too few signatures": (lambda one: second(one, "ann"), "statement.unsigned"),
    "a version left out": (lambda one: second(second(one)), "statement.gap"),
    "another statement of the same number": (
        lambda one: first("ann", "cat", origins=("https://ebb.example",)),
        "statement.fork",
    ),
    "an epoch that the root has opened": (
        lambda one: signed(draft_recovery(plan(), one, now=NOW), "ann", "bob"),
        "statement.unsigned",
    ),
}


@pytest.mark.parametrize(("make", "code"), UNLAWFUL.values(), ids=UNLAWFUL)
def test_what_does_not_follow_is_not_kept(
    make: Callable[[KeysetStatement], KeysetStatement], code: str, store: QuickStore
) -> None:
    """Refused before a byte is written."""
    one = first()
    ledger = keep(store, one)
    before = files(store.path)
    statement = make(one)
    with pytest.raises(StatementRefused) as refused:
        ledger.keep_keyset(statement, write_draft(statement))
    assert refused.value.code == code
    assert files(store.path) == before


def _remove_newest(ledger: Ledger) -> None:
    ledger.keyset_file(1, 2).unlink()


def _exchange(ledger: Ledger) -> None:
    other = first(root=quorum(1, "eve"), recovery=None)
    two = signed(draft_next(KeysetPlan.of(other), other, now=NOW), "eve")
    ledger.keyset_file(1, 1).write_bytes(write_draft(signed(other, "eve")))
    ledger.keyset_file(1, 2).write_bytes(write_draft(two))


def _rename(ledger: Ledger) -> None:
    ledger.keyset_file(1, 2).rename(ledger.keyset_file(1, 3))


def _spoil(ledger: Ledger) -> None:
    ledger.keyset_file(1, 2).write_bytes(b"{}")


@pytest.mark.parametrize(
    "tamper",
    [_remove_newest, _exchange, _rename, _spoil],
    ids=["the newest is removed", "a stranger's history", "a wrong name", "no statement at all"],
)
def test_a_ledger_that_was_tampered_with_is_found_out(
    tamper: Callable[[Ledger], None], store: QuickStore
) -> None:
    """By the statements themselves, or because the key store names another end (threats.md 22)."""
    one = first()
    ledger = keep(store, one, second(one))
    ledger.keysets()
    tamper(ledger)
    with pytest.raises(StoreFault) as fault:
        ledger.keysets()
    assert fault.value.code == "keystore.statements"


def test_a_statement_that_the_state_does_not_name_yet_is_no_damage(store: QuickStore) -> None:
    """A crash between the two files leaves this; the next `publish` mends it."""
    one = first()
    keep(store, one)
    two = second(one)
    Ledger.beside(store).keep_keyset(two, write_draft(two))
    assert Ledger.beside(store).newest_keyset() == two


def test_keys_are_used_only_if_the_roots_have_listed_them(store: QuickStore) -> None:
    """By role; a stranger's key that was edited into the store is none."""
    ledger = keep(store, first())
    ledger.check_listed([key("card").public], "card")
    for name, role in (("rel", "card"), ("eve", "card"), ("card", "release"), ("ann", "card")):
        with pytest.raises(StoreFault) as fault:
            ledger.check_listed([key(name).public], role)  # type: ignore[arg-type]
        assert fault.value.code == "keystore.not_listed"


# ------------------------------------------------------------------ releases


def test_no_two_releases_have_one_number(store: QuickStore) -> None:
    """The number is taken in the key store's state, which compares and swaps."""
    keyset = first()
    ledger = keep(store, keyset)
    one = released(keyset, None)
    data = sign_statement(one.envelope.payload, [key("rel")], TYP_RELEASE)
    note_release(store, one, now=NOW)
    ledger.keep_release(one, data)
    assert ledger.newest_release() == one
    for again in (
        lambda: note_release(store, one, now=NOW),
        lambda: ledger.keep_release(one, data),
    ):
        with pytest.raises(CardsignError) as fault:
            again()
        assert fault.value.code in ("keystore.changed", "file.exists")
    assert store.load().statements.release_seq == 1


@pytest.mark.parametrize("seq", [2, 9])
def test_a_release_under_a_wrong_name_is_found_out(seq: int, store: QuickStore) -> None:
    """The highest name counts, so it has to be the release's own."""
    keyset = first()
    ledger = keep(store, keyset)
    one = released(keyset, None)
    ledger.keep_release(one, write_draft(keyset))
    ledger.release_file(1).rename(ledger.release_file(seq))
    with pytest.raises(StoreFault) as fault:
        ledger.newest_release()
    assert fault.value.code == "keystore.statements"


def test_every_change_of_the_statements_is_in_the_audit_log(store: QuickStore) -> None:
    """The release carries its head, so the log cannot be rewritten in silence."""
    keyset = first()
    keep(store, keyset)
    note_release(store, released(keyset, None), now=NOW)
    log = store.read_audit().decode()
    assert '"keyset.kept"' in log
    assert '"release.signed"' in log
    assert thumbprint("ann") not in log
    assert os.path.exists(store.path / "audit.jsonl")
