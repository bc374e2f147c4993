"""The log of a key store: a line counts whole or not at all, and no edit of it goes unseen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.keys import agenda
from cardsign.keys.ledger import StoreState, read_line, write_line
from cardsign.keys.store import FolderStore, open_store
from tests.keys.conftest import QuickStore
from tests.keys.elsewhere import fault, refusal
from tests.keys.states import BLOB, FIRST, QUICK, SECOND, after, public, published, take_due_step
from tests.support import read_cases


@pytest.fixture
def told(store: QuickStore) -> QuickStore:
    """A store with six lines, of each kind that a rotation writes."""
    store.add(FIRST, now=after(0))
    store.add(SECOND, now=after(1))
    kids = [key.kid for key in store.state.keys]
    store.commit(agenda.record_publication, published(after(10), kids, kids[:1]), now=after(10))
    take_due_step(store, now=after(300), settings=replace(QUICK, rotate_every=0))
    store.commit(agenda.record_publication, published(after(310), kids), now=after(310))
    store.commit(agenda.revoke, kids[0], reason="superseded", now=after(320))
    return store


def states(log: bytes, begins: StoreState = StoreState()) -> list[StoreState]:  # noqa: B008
    """What lines of the log make of a state, one after the other."""
    read = [begins]
    for line in log.splitlines():
        read.append(read_line(read[-1], line, "log"))
    return read


def put(folder: Path, log: bytes) -> FolderStore:
    """A store whose log is this."""
    folder.mkdir()
    (folder / "log.jsonl").write_bytes(log)
    return FolderStore(folder)


def test_a_log_that_is_cut_anywhere_says_what_its_whole_lines_say(
    told: QuickStore, tmp_path: Path
) -> None:
    """A line without its end was never committed; the next commit follows the last whole one."""
    log = told.log.read_bytes()
    known, store = states(log), put(tmp_path / "cut", b"")
    ends = [at for at, byte in enumerate(log) if byte == ord("\n")]
    near = {cut for end in ends for cut in range(end - 40, min(end + 40, len(log)))}
    for cut in sorted(near.union(range(0, len(log), 13))):
        store.log.write_bytes(log[:cut])
        whole = log[: cut + (log[cut : cut + 1] == b"\n")].split(b"\n")[:-1]
        assert store.read_lines() == whole, cut
        if cut % 403 == 0 or log[cut : cut + 1] == b"\n":
            again = FolderStore(store.path)
            assert again.load() == known[len(whole)], cut
            again.commit(agenda.enter, public("new"), now=after(400), custody="exec:/x")
            assert open_store(store.path).state.seq == len(whole) + 1


def test_no_torn_line_is_cut_off_through_a_link(told: QuickStore, tmp_path: Path) -> None:
    """The file of somebody else stays whole."""
    store, target = put(tmp_path / "linked", b""), tmp_path / "target"
    torn = told.log.read_bytes() + b"{"
    target.write_bytes(torn)
    store.log.unlink()
    store.log.symlink_to(target)
    enter = (store.commit, agenda.enter, public("new"))
    assert refusal(*enter, now=after(400), custody="exec:/x") == "file.not_plain"
    assert target.read_bytes() == torn


def test_an_edit_of_any_bit_is_refused_but_in_the_line_that_nothing_follows(
    told: QuickStore,
) -> None:
    """That one is guarded by what the user has seen, and by the release that witnesses it."""
    log = told.log.read_bytes()
    lines, known = log.splitlines(), states(log)
    at = 0
    for number, line in enumerate(lines[:-1]):
        for offset in range(len(line) + 1):  # also of the end of the line
            edited = bytearray(log)
            edited[at + offset] ^= 1
            pair = b"\n".join(bytes(edited)[at:].split(b"\n")[:2])
            assert refusal(states, pair, known[number]).startswith("keystore."), at + offset
        at += len(line) + 1


CASES = read_cases(__file__)
(ENTERED,) = agenda.enter(StoreState(), public("one"), custody="file:one", blob=BLOB)
#: Another member of the line, such as other events than the one that enters a key; and the code.
LINES: dict[str, tuple[dict[str, Any], str]] = {
    **CASES["line"],
    **{name: ({"events": events}, code) for name, (events, code) in CASES["event"].items()},
    **{
        name: ({"events": [{**ENTERED, **change}]}, "keystore.corrupt")
        for name, change in CASES["entered"].items()  # what no decision says of a key
    },
}


@pytest.mark.parametrize(("change", "code"), LINES.values(), ids=LINES)
def test_a_line_is_read_strictly(change: dict[str, Any], code: str) -> None:
    """What this cardsign does not know may be a revocation, so it is not passed over."""
    line = json.loads(write_line(StoreState(), [ENTERED], after(0), "ann"))
    read_line(StoreState(), json.dumps(line).encode(), "log")
    refused = fault(read_line, StoreState(), json.dumps({**line, **change}).encode(), "log")
    assert (refused.code, refused.path) == (code, "log")


def test_a_conflict_of_git_says_how_it_is_resolved(told: QuickStore) -> None:
    """The log of the machine that has published is the one that verifiers know."""
    lines = told.log.read_bytes().splitlines(keepends=True)
    told.log.write_bytes(b"".join([*lines[:-1], b"<<<<<<< HEAD\n", lines[-1], b"=======\n"]))
    refused = fault(open_store, told.path)
    assert refused.code == "keystore.corrupt"
    assert "git checkout --ours or --theirs" in refused.hint
