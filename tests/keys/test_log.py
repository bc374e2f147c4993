"""The log of a key store: a line counts whole or not at all, and no edit of it goes unseen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.ledger import StoreState, read_line, write_line
from cardsign.keys.store import FolderStore, open_store
from tests.keys.conftest import QuickStore
from tests.keys.elsewhere import fault, refusal
from tests.keys.states import BLOB, NOON, QUICK, after, public, published, take_due_step

STRANGE = "0" * 64
CARD = {"name": "agent-card.json", "payload_sha256": BLOB, "kids": [], "url": None}
PUBLISHED = {
    **{"event": "published", "generation": 1, "max_age": 60, "kids": [], "cards": [CARD]},
    "at": "2026-11-21T12:00:00Z",
}
RELEASE = {"event": "release", "seq": 1, "digest": BLOB, "blob": BLOB}


@pytest.fixture
def told(store: QuickStore, es256: PrivateKey, another_es256: PrivateKey) -> QuickStore:
    """A store with six lines, of each kind that a rotation writes."""
    store.add(es256, now=after(0))
    store.add(another_es256, now=after(1))
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


CORRUPT, BROKEN, NEWER = "keystore.corrupt", "keystore.audit_broken", "keystore.newer_format"
ENTERED = {"custody": "file:one", "blob": BLOB}
#: Another member of the line, or events instead of that which enters a key; and the code.
LINES: list[tuple[dict[str, Any], str]] = [
    ({"seq": 2}, BROKEN),
    ({"prev": STRANGE}, BROKEN),
    ({"seq": True}, BROKEN),
    ({"time": "now"}, CORRUPT),
    ({"events": {}}, CORRUPT),
    ({"vetoed_by": "bob"}, NEWER),
]
EVENTS: list[tuple[list[Any], str]] = [
    ([], CORRUPT),
    ([7], CORRUPT),
    ([{}], CORRUPT),
    ([{"event": "transferred"}], NEWER),
    ([{"event": "left", "to": "x", "because": "y"}], NEWER),
    ([{"event": "left"}], CORRUPT),
    ([{"event": "left", "to": ["x"]}], CORRUPT),
    ([{"event": "moved", "key": "nobody", "to": "retired"}], "keystore.unknown_key"),
    ([{**RELEASE, "digest": "x"}], CORRUPT),
    ([{**RELEASE, "seq": -1}], CORRUPT),
    ([{**PUBLISHED, "cards": [7]}], CORRUPT),
    ([{**PUBLISHED, "kids": "one"}], CORRUPT),
    ([{**PUBLISHED, "cards": [{**CARD, "url": 7}]}], CORRUPT),
]
#: What no decision says of a key.
KEYS: list[dict[str, Any]] = [
    {"public": {"kty": "EC"}},
    {"public": 7},
    {"roles": []},
    {"roles": ["release", "card"]},
    {"roles": ["captain"]},
    {"custody": "nowhere"},
    {"custody": "exec:/x"},
    {"state": "revoked"},
    {"blob": "abc"},
]


def entering(name: str, **change: Any) -> dict[str, Any]:
    """The event that enters a key, with another member."""
    (event,) = agenda.enter(StoreState(), public(name), **ENTERED)
    return {**event, **change}


LINES += [({"events": events}, code) for events, code in EVENTS]
LINES += [({"events": [entering("one", **change)]}, CORRUPT) for change in KEYS]


@pytest.mark.parametrize(("change", "code"), LINES, ids=lambda part: repr(part)[:60])
def test_a_line_is_read_strictly(change: dict[str, Any], code: str) -> None:
    """What this cardsign does not know may be a revocation, so it is not passed over."""
    line = json.loads(write_line(StoreState(), [entering("one")], NOON, "ann"))
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
