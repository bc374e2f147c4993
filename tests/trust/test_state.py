"""The verifier's memory: what is lost is not new, and of two writers none loses anything."""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import FileFault, LocalFault, StateFault
from cardsign.files import locked
from cardsign.jose import JwkSet, PrivateKey, SkippedKey
from cardsign.statements import KeysetId, KeysetStatement, RootPin
from cardsign.trust import (
    MAX_PASSED,
    DirectoryMemory,
    Enrolment,
    Floor,
    KeysAnchor,
    KeysetAnchor,
    Known,
    ReleaseFloor,
    TofuAnchor,
    anchor_digest,
)
from cardsign.urls import parse_place
from tests.jose.statement_making import T0, signed_keyset, signed_release

ROOT = Path(__file__).resolve().parents[2]
PLACES = (parse_place("https://tides.example"),)


@pytest.fixture(scope="module")
def first() -> KeysetStatement:
    """Version 1."""
    return signed_keyset("ann", "bob")


@pytest.fixture(scope="module")
def second(first: KeysetStatement) -> KeysetStatement:
    """Version 2, which follows it."""
    return signed_keyset("ann", "bob", version=2, prev=first.digest)


def pin_of(keyset: KeysetStatement) -> KeysetId:
    """The pin of a statement."""
    return keyset.id


@pytest.fixture(scope="module")
def tides(first: KeysetStatement) -> Enrolment:
    """Pinned to version 1."""
    return Enrolment("tides", KeysetAnchor(pin_of(first)), PLACES)


@pytest.fixture
def memory(tmp_path: Path) -> DirectoryMemory:
    """A memory in a folder that is not there yet."""
    return DirectoryMemory(tmp_path / "state")


def blank(enrolment: Enrolment, **changes: Any) -> Known:
    """What is known of somebody who was just enrolled."""
    return Known(anchor_digest(enrolment.anchor), **changes)


def refusal(memory: DirectoryMemory, enrolment: Enrolment) -> LocalFault:
    """What keeps the memory from being opened; dry and wet say the same."""
    with pytest.raises(LocalFault) as dry:
        memory.recall(enrolment)
    with pytest.raises(LocalFault) as wet, memory.of(enrolment):
        pass
    assert (wet.value.code, wet.value.exit_status) == (dry.value.code, 2)
    return wet.value


def test_everything_comes_back(
    memory: DirectoryMemory,
    tides: Enrolment,
    first: KeysetStatement,
    alice: PrivateKey,
    bob: PrivateKey,
) -> None:
    """Statements to the last octet, keys in their order, and what was passed over."""
    jwks = replace(
        JwkSet.of([bob.public, alice.public]),
        skipped=(SkippedKey("carol", "key.unsupported", "of another time"),),
    )
    known = Known(
        anchor_digest(tides.anchor),
        first,
        signed_release(first, "rel"),
        Floor(pin_of(first), ReleaseFloor((1, 1, 4), "0" * 64), T0),
        T0 + 5,
        jwks,
        pin_of(first),
        True,
        (KeysetId(1, 7, "1" * 64),),
        ("https://tides.example/card.json?of=tides", "http://127.0.0.1:8080/"),
    )
    memory.create(tides, known)

    with memory.of(tides) as memo:
        assert memo.known == known
        assert memo.notes == ()
        assert memo.known is not None
        assert memo.known.keyset is not None
        assert memo.known.keyset.envelope == first.envelope
    assert memory.find("tides") == known
    assert memory.names() == ("tides",)


def test_only_its_user_can_read_it(memory: DirectoryMemory, tides: Enrolment) -> None:
    """Folder 0700, file 0600."""
    memory.create(tides, blank(tides))

    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((memory.path / "tides.json").stat().st_mode) == 0o600


def test_what_is_kept_is_there_at_once(
    memory: DirectoryMemory, tides: Enrolment, first: KeysetStatement, second: KeysetStatement
) -> None:
    """Each step is on the disk before the next; what did not change is not written again."""
    memory.create(tides, blank(tides))
    file = memory.path / "tides.json"
    with memory.of(tides) as memo:
        assert memo.known is not None
        for keyset in (first, second):
            memo.keep(replace(memo.known, keyset=keyset))
            held = memory.find("tides")
            assert held is not None
            assert held.keyset == keyset
        inode = file.stat().st_ino
        memo.keep(memo.known)
        assert file.stat().st_ino == inode


# ------------------------------------------------------------------ what is lost


def test_what_is_lost_is_not_new(memory: DirectoryMemory, tides: Enrolment) -> None:
    """No file and no floor: a fault, and no folder is made for it."""
    fault = refusal(memory, tides)

    assert (fault.code, type(fault)) == ("state.missing", StateFault)
    assert not memory.path.exists()


def test_a_lock_begins_a_memory(tmp_path: Path, tides: Enrolment, second: KeysetStatement) -> None:
    """With its floors, on the disk, and reported once."""
    floor = Floor(pin_of(second), None, T0)
    memory = DirectoryMemory(tmp_path / "state", {"tides": floor})

    with memory.of(tides) as memo:
        assert [note.code for note in memo.notes] == ["state.created"]
        assert memo.known == blank(tides, floor=floor)
    with memory.of(tides) as memo:
        assert memo.notes == ()
        assert memo.known == blank(tides, floor=floor)
    with DirectoryMemory(tmp_path / "state").of(tides) as memo:
        assert memo.known == blank(tides, floor=floor)


def test_a_lock_of_others_begins_nothing(tmp_path: Path, tides: Enrolment) -> None:
    """It has to name the issuer."""
    memory = DirectoryMemory(tmp_path / "state", {"lamps": Floor()})
    assert refusal(memory, tides).code == "state.missing"


def test_first_contact_is_made_once(tmp_path: Path) -> None:
    """Under `tofu` a lock begins nothing: whoever answers now would be believed."""
    met = Enrolment("tides", TofuAnchor(), PLACES)
    memory = DirectoryMemory(tmp_path / "state", {"tides": Floor()})

    assert refusal(memory, met).code == "state.missing"
    memory.create(met, blank(met))
    with memory.of(met) as memo:
        assert memo.known == blank(met)


def test_forgetting(memory: DirectoryMemory, tides: Enrolment) -> None:
    """Afterwards it is missing; there is nothing to forget twice."""
    memory.create(tides, blank(tides))

    assert memory.forget("tides")
    assert refusal(memory, tides).code == "state.missing"
    assert not memory.forget("tides")
    assert memory.names() == ()


def test_creating_keeps_what_is_known(
    memory: DirectoryMemory, tides: Enrolment, second: KeysetStatement
) -> None:
    """Who was removed and is enrolled again cannot be rolled back meanwhile."""
    known = blank(tides, keyset=second)
    memory.create(tides, known)
    memory.create(tides, blank(tides))
    assert memory.find("tides") == known


# ------------------------------------------------------------- what is not ours


def spoilt(memory: DirectoryMemory, enrolment: Enrolment, **changes: Any) -> Path:
    """A file in which members are other ones."""
    memory.create(enrolment, blank(enrolment))
    file = memory.path / f"{enrolment.name}.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **changes}))
    return file


CORRUPT: dict[str, dict[str, Any]] = {
    "a newer format": {"format": "cardsign-state/2"},
    "another issuer's": {"issuer": "lamps"},
    "an unknown member": {"x": 1},
    "an anchor that is no digest": {"anchor": "x"},
    "a keyset that is no text": {"keyset": {}},
    "a keyset that is none": {"keyset": "{}"},
    "a release that is none": {"release": "[]"},
    "a floor without members": {"floor": {}},
    "a time that is a truth": {"newest_iat": True},
    "keys that are none": {"jwks": {"keys": [{}], "skipped": []}},
    "a key that is no object": {"jwks": {"keys": [1], "skipped": []}},
    "a skipped key that is none": {"jwks": {"keys": [], "skipped": [["a"]]}},
    "a contact that is none": {"first_contact": "x"},
    "a number for a truth": {"signed_before": 1},
    "a card that is no URL": {"cards": ["https://tides.example/../card.json"]},
    "a card that is spelt otherwise": {"cards": ["https://tides.example:443/card.json"]},
    "a card that is no text": {"cards": [1]},
}


@pytest.mark.parametrize("changes", CORRUPT.values(), ids=CORRUPT)
def test_what_cannot_be_read_is_no_first_contact(
    memory: DirectoryMemory, tides: Enrolment, changes: dict[str, Any]
) -> None:
    """A fault that names the file, which stays; a lock does not help."""
    file = spoilt(memory, tides, **changes)
    before = file.read_bytes()

    for one in (memory, DirectoryMemory(memory.path, {"tides": Floor()})):
        fault = refusal(one, tides)
        assert (fault.code, fault.path) == ("state.corrupt", str(file))
        with pytest.raises(StateFault):
            one.create(tides, blank(tides))
    assert file.read_bytes() == before


def test_the_twin_of_these_is_read(memory: DirectoryMemory, tides: Enrolment) -> None:
    """A file written again with the same members is as good as ours."""
    spoilt(memory, tides, signed_before=True)
    assert memory.recall(tides) == (blank(tides, signed_before=True), ())


def test_a_file_of_before_cards_were_remembered(memory: DirectoryMemory, tides: Enrolment) -> None:
    """It is read on, with no card seen yet; what it says besides is as strict as ever."""
    file = spoilt(memory, tides, signed_before=True)
    members = json.loads(file.read_bytes())
    del members["cards"]
    file.write_text(json.dumps(members))
    assert memory.recall(tides) == (blank(tides, signed_before=True), ())
    file.write_text(json.dumps({**members, "x": 1}))
    assert refusal(memory, tides).code == "state.corrupt"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a": 1, "a": 1}', b"{}" * 600_000])
def test_bytes_that_are_no_state(memory: DirectoryMemory, tides: Enrolment, data: bytes) -> None:
    """Cut off, garbled, doubled or too long."""
    spoilt(memory, tides).write_bytes(data)
    assert refusal(memory, tides).code == "state.corrupt"


def test_a_folder_where_the_file_belongs(memory: DirectoryMemory, tides: Enrolment) -> None:
    """It is something, so nothing is missing."""
    (memory.path / "tides.json").mkdir(parents=True)
    assert refusal(memory, tides).code == "state.corrupt"


def test_a_file_where_the_folder_belongs(tmp_path: Path, tides: Enrolment) -> None:
    """There can be no memory there."""
    (tmp_path / "state").touch()
    assert refusal(DirectoryMemory(tmp_path / "state"), tides).code == "state.missing"
    with pytest.raises(FileFault):
        DirectoryMemory(tmp_path / "state").create(tides, blank(tides))


NAMES = ["../tides", "/tides", "", ".tides", "Tides", "tides/x", "tides\n", "a" * 65]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_path(memory: DirectoryMemory, tides: Enrolment, name: str) -> None:
    """However an enrolment came by its name, nothing outside the folder is touched."""
    stranger = replace(tides, name=name)
    assert refusal(memory, stranger).code == "state.missing"
    for use in (memory.find, memory.forget):
        with pytest.raises(StateFault):
            use(name)


def test_names_that_look_like_files(memory: DirectoryMemory, tides: Enrolment) -> None:
    """Each has a file of its own, and a lock is no memory."""
    names = ["a", "a.json", "a.json.lock", "a.lock", "b..c"]
    for name in names:
        one = replace(tides, name=name)
        memory.create(one, blank(one, newest_iat=len(name)))
    assert memory.names() == tuple(names)
    assert [memory.find(name) for name in names] == [
        blank(tides, newest_iat=len(name)) for name in names
    ]


# ------------------------------------------------------------------- histories


def test_another_anchor(memory: DirectoryMemory, tides: Enrolment, alice: PrivateKey) -> None:
    """What was learned under one anchor says nothing under another."""
    memory.create(tides, blank(tides))
    other = replace(tides, anchor=KeysAnchor(JwkSet.of([alice.public])))

    fault = refusal(memory, other)
    assert fault.code == "state.other_anchor"
    assert "cardsign trust known forget tides" in fault.hint
    with pytest.raises(StateFault):
        memory.create(other, blank(other))


def test_a_pin_that_was_moved_to_what_is_held(
    memory: DirectoryMemory, tides: Enrolment, first: KeysetStatement, second: KeysetStatement
) -> None:
    """The new anchor names just the statement held, so all else still holds."""
    memory.create(tides, blank(tides, keyset=second, signed_before=True))
    for anchor in (
        KeysetAnchor(pin_of(second)),
        KeysetAnchor(pin_of(second), "tides.example"),
        KeysetAnchor(RootPin.of(second.root), "tides.example"),
    ):
        moved = replace(tides, anchor=anchor)
        known, _ = memory.recall(moved)
        assert known == blank(moved, keyset=second, signed_before=True)
    for anchor in (
        KeysetAnchor(KeysetId(1, 3, second.digest)),
        KeysetAnchor(KeysetId(1, 3, second.digest), "lamps.example"),
        KeysetAnchor(KeysetId(1, 2, first.digest), "tides.example"),
        KeysetAnchor(pin_of(second), "lamps.example"),
        KeysetAnchor(RootPin(1, RootPin.of(second.root).holders), "tides.example"),
    ):
        assert refusal(memory, replace(tides, anchor=anchor)).code == "state.other_anchor"


@pytest.mark.parametrize("walked", [True, False], ids=["walked here", "named as prev alone"])
def test_a_pin_that_was_moved_to_what_was_passed(
    memory: DirectoryMemory,
    tides: Enrolment,
    first: KeysetStatement,
    second: KeysetStatement,
    walked: bool,
) -> None:
    """A colleague has moved the pin less far than this machine has walked."""
    root = replace(tides, anchor=KeysetAnchor(RootPin.of(first.root), "tides.example"))
    memory.create(root, blank(root, keyset=first if walked else second))
    with memory.of(root) as memo:
        memo.keep(blank(root, keyset=second, signed_before=True))

    known, _ = memory.recall(tides)
    assert (known.keyset, known.floor, known.signed_before) == (second, Floor(), True)
    assert known.passed == ((pin_of(first),) if walked else ())
    forged = replace(tides, anchor=KeysetAnchor(KeysetId(1, 1, second.digest)))
    assert refusal(memory, forged).code == "state.other_anchor"


def test_a_pin_that_was_moved_ahead_is_a_floor(
    memory: DirectoryMemory, tides: Enrolment, first: KeysetStatement, second: KeysetStatement
) -> None:
    """The walk from what is held has to come through it, and no recovery leads past it."""
    memory.create(tides, blank(tides, keyset=first))
    ahead = replace(tides, anchor=KeysetAnchor(pin_of(second), "tides.example"))
    recovered = signed_keyset("ann", "bob", epoch=2)

    known, _ = memory.recall(ahead)
    assert (known.keyset, known.floor) == (first, Floor(pin_of(second)))
    with memory.of(ahead) as memo:
        memo.keep(known)
        with pytest.raises(StateFault, match="past the pin"):
            memo.keep(replace(known, keyset=recovered))
        assert memory.find("tides") == blank(tides, keyset=first)
        memo.keep(replace(known, keyset=second))
        memo.keep(replace(known, keyset=recovered))
    found = memory.find("tides")
    assert found is not None
    assert (found.keyset, found.passed) == (recovered, (pin_of(first), pin_of(second)))


def test_no_more_is_remembered_of_the_way_than_there_is_room_for(
    memory: DirectoryMemory, tides: Enrolment, first: KeysetStatement, second: KeysetStatement
) -> None:
    """The oldest is forgotten first, and the file stays within its limit."""
    long = tuple(KeysetId(1, version, "0" * 64) for version in range(1, MAX_PASSED + 1))
    memory.create(tides, blank(tides, keyset=first, passed=long))
    with memory.of(tides) as memo:
        memo.keep(blank(tides, keyset=second))
    found = memory.find("tides")
    assert found is not None
    assert found.passed == (*long[1:], pin_of(first))


def test_the_higher_of_lock_and_memory_holds(
    memory: DirectoryMemory, tides: Enrolment, first: KeysetStatement, second: KeysetStatement
) -> None:
    """A lock that others have raised is a floor; one that is behind takes nothing away."""
    memory.create(tides, blank(tides, keyset=first))

    def floor_under(lock: Floor) -> Floor:
        known, _ = DirectoryMemory(memory.path, {"tides": lock}).recall(tides)
        assert known.keyset == first
        return known.floor

    ahead, behind = Floor(pin_of(second), None, T0), Floor(None, None, 3)
    assert floor_under(ahead) == ahead
    assert floor_under(behind) == behind
    memory.forget("tides")
    memory.create(tides, blank(tides, keyset=first, floor=ahead))
    assert floor_under(behind) == ahead


def test_lock_and_memory_of_two_histories(
    memory: DirectoryMemory, tides: Enrolment, first: KeysetStatement
) -> None:
    """One number with two digests is a fault that names both."""
    memory.create(tides, blank(tides, keyset=first))
    lock = {"tides": Floor(KeysetId(1, 1, "f" * 64))}

    fault = refusal(DirectoryMemory(memory.path, lock), tides)
    assert fault.code == "state.fork"
    assert first.digest in fault.message
    assert "f" * 64 in fault.message


def test_a_lock_of_another_history_than_what_led_here(
    memory: DirectoryMemory, tides: Enrolment, first: KeysetStatement, second: KeysetStatement
) -> None:
    """Branches that were merged: the lock is behind, and names what was never passed."""
    memory.create(tides, blank(tides, keyset=second, passed=(KeysetId(1, 7, "7" * 64),)))
    for other in (KeysetId(1, 1, "f" * 64), KeysetId(1, 7, "f" * 64)):
        fault = refusal(DirectoryMemory(memory.path, {"tides": Floor(other)}), tides)
        assert (fault.code, "f" * 64 in fault.message) == ("state.fork", True)
    for same in (pin_of(first), KeysetId(1, 7, "7" * 64)):
        DirectoryMemory(memory.path, {"tides": Floor(same)}).recall(tides)


# -------------------------------------------------------------------- processes


def test_another_process_holds_it(memory: DirectoryMemory, tides: Enrolment) -> None:
    """Patience ends with a fault; another issuer is not held up."""
    memory.create(tides, blank(tides))
    lamps = replace(tides, name="lamps")
    memory.create(lamps, blank(lamps))
    hasty = DirectoryMemory(memory.path, patience=0.05)
    with memory.of(tides):
        with pytest.raises(StateFault) as busy, hasty.of(tides):
            pass
        assert busy.value.code == "state.busy"
        with hasty.of(lamps) as memo:
            assert memo.known == blank(lamps)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_lock_is_held_alone(tmp_path: Path, what: str) -> None:
    """On a lock file as on a folder that has none."""
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    busy = StateFault("state.busy", "held")
    with locked(path, patience=0, busy=busy), pytest.raises(StateFault):
        locked(path, patience=0.05, busy=busy).__enter__()
    with locked(path, patience=0, busy=busy):
        pass


def test_what_cannot_be_written_is_found_out_first(
    memory: DirectoryMemory, tides: Enrolment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only folder is a fault before there is a verdict to remember."""
    memory.create(tides, blank(tides))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FileFault) as refused, memory.of(tides):
        pass
    assert (refused.value.code, refused.value.path) == ("file.unwritable", str(memory.path))


def test_a_failed_write_changes_nothing(
    memory: DirectoryMemory,
    tides: Enrolment,
    first: KeysetStatement,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk: the fault comes out, and neither memo nor file knows more than before."""
    memory.create(tides, blank(tides))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with memory.of(tides) as memo:
        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(FileFault):
            memo.keep(blank(tides, keyset=first))
        assert memo.known == blank(tides)
    assert memory.find("tides") == blank(tides)
    assert [file.name for file in memory.path.glob(".*")] == []


RACER = """
import sys
from pathlib import Path
from cardsign.statements import KeysetId
from cardsign.trust.policy import TofuAnchor
from cardsign.trust.known import Floor
from cardsign.trust.policy import Enrolment
from cardsign.trust.state import DirectoryMemory
from dataclasses import replace

memory = DirectoryMemory(Path(sys.argv[1]), patience=60)
enrolment = Enrolment("tides", TofuAnchor(), ())
for _ in range(int(sys.argv[2])):
    with memory.of(enrolment) as memo:
        version = memo.known.newest_iat + 1
        pin = KeysetId(1, version, "0" * 64)
        memo.keep(replace(memo.known, newest_iat=version, floor=Floor(pin)))
        print(version)
"""


def test_racing_processes_lose_nothing(memory: DirectoryMemory) -> None:
    """Each sees what the one before has kept: no number is given out twice, none is lower."""
    met = Enrolment("tides", TofuAnchor(), ())
    memory.create(met, blank(met))
    command = [sys.executable, "-c", RACER, str(memory.path), "15"]
    racers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(4)
    ]
    seen = [list(map(int, racer.communicate()[0].split())) for racer in racers]

    assert all(numbers == sorted(numbers) for numbers in seen)
    assert sorted(itertools.chain(*seen)) == list(range(1, 61))
    known = memory.find("tides")
    assert known is not None
    assert known.floor.keyset == KeysetId(1, 60, "0" * 64)
