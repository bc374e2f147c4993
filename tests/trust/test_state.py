"""The verifier's memory: what is lost is not new, and of two writers none loses anything."""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import FileFault, LocalFault, StateFault
from cardsign.files import locked
from cardsign.jose.jwks import JwkSet, SkippedKey
from cardsign.jose.keys import PrivateKey
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor
from cardsign.trust.policy import (
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    Policy,
    RollbackFloor,
    TrustedIssuer,
)
from cardsign.trust.resolve import resolve_issuer
from cardsign.trust.state import MAX_PASSED, DirectoryStates, IssuerState, rollback_floor
from cardsign.trust.supplied import SuppliedStatements
from cardsign.urls import parse_place
from tests.jose.statement_making import NOW, T0, signed_keyset, signed_release

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
def tides(first: KeysetStatement) -> TrustedIssuer:
    """Pinned to version 1."""
    return TrustedIssuer("tides", KeysetAnchor(pin_of(first)), PLACES)


@pytest.fixture
def memory(tmp_path: Path) -> DirectoryStates:
    """A memory in a folder that is not there yet."""
    return DirectoryStates(tmp_path / "state")


def blank(issuer: TrustedIssuer, /, **changes: Any) -> IssuerState:
    """What is known of somebody who was just enrolled."""
    return replace(IssuerState.begin(issuer), **changes)


def locked_at(issuer: TrustedIssuer, floor: RollbackFloor) -> TrustedIssuer:
    """The same issuer under a lock."""
    return replace(issuer, floor=floor)


def refusal(memory: DirectoryStates, issuer: TrustedIssuer) -> LocalFault:
    """What keeps the memory from being opened; dry and wet say the same."""
    with pytest.raises(LocalFault) as dry:
        memory.recall(issuer)
    with pytest.raises(LocalFault) as wet, memory.of(issuer):
        pass
    assert (wet.value.code, wet.value.exit_status) == (dry.value.code, 2)
    return wet.value


def test_everything_comes_back(
    memory: DirectoryStates,
    tides: TrustedIssuer,
    first: KeysetStatement,
    alice: PrivateKey,
    bob: PrivateKey,
) -> None:
    """Statements to the last octet, keys in their order, and what was passed over."""
    jwks = replace(
        JwkSet.of([bob.public, alice.public]),
        skipped=(SkippedKey("carol", "key.unsupported", "of another time"),),
    )
    known = IssuerState(
        "/srv/agent/trust.toml",
        "a" * 64,
        ("https://tides.example",),
        first,
        signed_release(first, "rel"),
        T0 + 5,
        jwks,
        (KeysetId(1, 7, "1" * 64),),
        ("https://tides.example/card.json?of=tides", "http://127.0.0.1:8080/"),
    )
    known = replace(known, policy="", anchor=blank(tides).anchor)
    memory.begin(tides, known)

    with memory.of(tides) as state:
        assert state == known
        assert state.notes == ()
        assert state.keyset is not None
        assert state.keyset.envelope == first.envelope
    assert memory.find("", "tides") == known
    assert memory.names() == (("tides", ""),)


def test_only_its_user_can_read_it(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """Folder 0700, file 0600."""
    memory.begin(tides, blank(tides))

    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(memory.file("", "tides").stat().st_mode) == 0o600


def test_what_is_kept_is_there_at_once(
    memory: DirectoryStates, tides: TrustedIssuer, first: KeysetStatement, second: KeysetStatement
) -> None:
    """Each step is on the disk before the next."""
    memory.begin(tides, blank(tides))
    file = memory.file("", "tides")
    with memory.of(tides) as state:
        for keyset in (first, second):
            memory.keep(tides, replace(state, keyset=keyset))
            held = memory.find("", "tides")
            assert held is not None
            assert held.keyset == keyset
    assert file.exists()


# ------------------------------------------------------------------ what is lost


def test_what_is_lost_is_not_new(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """No file and no floor: a fault, and no folder is made for it."""
    fault = refusal(memory, tides)

    assert (fault.code, type(fault)) == ("state.missing", StateFault)
    assert not memory.path.exists()


def test_a_lock_begins_a_memory(
    memory: DirectoryStates, tides: TrustedIssuer, second: KeysetStatement
) -> None:
    """On the disk, and reported once; the lock's floors are not stored with it (S3)."""
    locked_tides = locked_at(tides, RollbackFloor(pin_of(second), None, T0))

    with memory.of(locked_tides) as state:
        assert [note.code for note in state.notes] == ["state.created"]
        assert state == blank(tides)
    for one in (locked_tides, tides):
        with memory.of(one) as state:
            assert state.notes == ()
            assert state == blank(tides)
    assert state.as_floor() == RollbackFloor()


def test_forgetting(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """Afterwards it is missing; there is nothing to forget twice."""
    memory.begin(tides, blank(tides))

    assert memory.forget("", "tides")
    assert refusal(memory, tides).code == "state.missing"
    assert not memory.forget("", "tides")
    assert memory.names() == ()


def test_creating_keeps_what_is_known(
    memory: DirectoryStates, tides: TrustedIssuer, second: KeysetStatement
) -> None:
    """Who was removed and is enrolled again cannot be rolled back meanwhile."""
    known = blank(tides, keyset=second)
    memory.begin(tides, known)
    memory.begin(tides, blank(tides))
    assert memory.find("", "tides") == known


# ------------------------------------------------------------- what is not ours


def spoilt(memory: DirectoryStates, issuer: TrustedIssuer, /, **changes: Any) -> Path:
    """A file in which members are other ones."""
    memory.begin(issuer, blank(issuer))
    file = memory.file("", issuer.name)
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
    "another policy's": {"policy": "/elsewhere/trust.toml"},
    "a policy that is no text": {"policy": None},
    "origins that are no list": {"origins": "https://tides.example"},
    "an origin that is no text": {"origins": [1]},
    "floors, which are never stored": {"floor": {}},
    "a time that is a truth": {"newest_iat": True},
    "keys that are none": {"jwks": {"keys": [{}], "skipped": []}},
    "a key that is no object": {"jwks": {"keys": [1], "skipped": []}},
    "a skipped key that is none": {"jwks": {"keys": [], "skipped": [["a"]]}},
    "a card that is no URL": {"cards": ["https://tides.example/../card.json"]},
    "a card that is spelt otherwise": {"cards": ["https://tides.example:443/card.json"]},
    "a card that is no text": {"cards": [1]},
}


@pytest.mark.parametrize("changes", CORRUPT.values(), ids=CORRUPT)
def test_what_cannot_be_read_is_no_first_contact(
    memory: DirectoryStates, tides: TrustedIssuer, changes: dict[str, Any]
) -> None:
    """A fault that names the file, which stays; a lock does not help."""
    file = spoilt(memory, tides, **changes)
    before = file.read_bytes()

    for one in (tides, locked_at(tides, RollbackFloor())):
        fault = refusal(memory, one)
        assert (fault.code, fault.path) == ("state.corrupt", str(file))
        with pytest.raises(StateFault):
            memory.begin(one, blank(one))
    assert file.read_bytes() == before


def test_the_twin_of_these_is_read(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """A file written again with the same members is as good as ours."""
    spoilt(memory, tides, newest_iat=T0 + 9)
    assert memory.recall(tides) == blank(tides, newest_iat=T0 + 9)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a": 1, "a": 1}', b"{}" * 600_000])
def test_bytes_that_are_no_state(
    memory: DirectoryStates, tides: TrustedIssuer, data: bytes
) -> None:
    """Cut off, garbled, doubled or too long."""
    spoilt(memory, tides).write_bytes(data)
    assert refusal(memory, tides).code == "state.corrupt"


def test_a_folder_where_the_file_belongs(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """It is something, so nothing is missing."""
    memory.file("", "tides").mkdir(parents=True)
    assert refusal(memory, tides).code == "state.corrupt"


def test_a_file_where_the_folder_belongs(tmp_path: Path, tides: TrustedIssuer) -> None:
    """There can be no memory there."""
    (tmp_path / "state").touch()
    assert refusal(DirectoryStates(tmp_path / "state"), tides).code == "state.missing"
    with pytest.raises(FileFault):
        DirectoryStates(tmp_path / "state").begin(tides, blank(tides))


NAMES = ["../tides", "/tides", "", ".tides", "Tides", "tides/x", "tides\n", "a" * 65]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_path(memory: DirectoryStates, tides: TrustedIssuer, name: str) -> None:
    """However a trusted issuer came by its name, nothing outside the folder is touched."""
    stranger = replace(tides, name=name)
    assert refusal(memory, stranger).code == "state.missing"
    for use in (memory.find, memory.forget):
        with pytest.raises(StateFault):
            use("", name)


def test_names_that_look_like_files(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """Each has a file of its own, and a lock is no memory."""
    names = ["a", "a.json", "a.json.lock", "a.lock", "b..c"]
    for name in names:
        one = replace(tides, name=name)
        memory.begin(one, blank(one, newest_iat=len(name)))
    assert memory.names() == tuple((name, "") for name in names)
    assert [memory.find("", name) for name in names] == [
        blank(tides, newest_iat=len(name)) for name in names
    ]


# ------------------------------------------------------------------- histories


def test_another_anchor(memory: DirectoryStates, tides: TrustedIssuer, alice: PrivateKey) -> None:
    """What was learned under one anchor says nothing under another."""
    memory.begin(tides, blank(tides))
    other = replace(tides, anchor=KeysAnchor(JwkSet.of([alice.public])))

    fault = refusal(memory, other)
    assert fault.code == "state.other_anchor"
    assert "cardsign trust known forget tides" in fault.hint
    with pytest.raises(StateFault):
        memory.begin(other, blank(other))


def test_a_pin_that_was_moved_to_what_is_held(
    memory: DirectoryStates, tides: TrustedIssuer, first: KeysetStatement, second: KeysetStatement
) -> None:
    """The new anchor names just the statement held, so all else still holds."""
    memory.begin(tides, blank(tides, keyset=second, newest_iat=T0 + 9))
    for anchor in (
        KeysetAnchor(pin_of(second)),
        KeysetAnchor(pin_of(second), "tides.example"),
        KeysetAnchor(RootAnchor.of(second.root), "tides.example"),
    ):
        moved = replace(tides, anchor=anchor)
        known = memory.recall(moved)
        assert known == blank(moved, keyset=second, newest_iat=T0 + 9)
    for anchor in (
        KeysetAnchor(KeysetId(1, 3, second.digest)),
        KeysetAnchor(KeysetId(1, 3, second.digest), "lamps.example"),
        KeysetAnchor(KeysetId(1, 2, first.digest), "tides.example"),
        KeysetAnchor(pin_of(second), "lamps.example"),
        KeysetAnchor(RootAnchor(1, RootAnchor.of(second.root).holders), "tides.example"),
    ):
        assert refusal(memory, replace(tides, anchor=anchor)).code == "state.other_anchor"


@pytest.mark.parametrize("walked", [True, False], ids=["walked here", "named as prev alone"])
def test_a_pin_that_was_moved_to_what_was_passed(
    memory: DirectoryStates,
    tides: TrustedIssuer,
    first: KeysetStatement,
    second: KeysetStatement,
    walked: bool,
) -> None:
    """A colleague has moved the pin less far than this machine has walked."""
    root = replace(tides, anchor=KeysetAnchor(RootAnchor.of(first.root), "tides.example"))
    memory.begin(root, blank(root, keyset=first if walked else second))
    with memory.of(root) as state:
        memory.keep(root, replace(state.with_keyset(second), newest_iat=T0 + 9))

    known = memory.recall(tides)
    assert (known.keyset, known.newest_iat) == (second, T0 + 9)
    assert known.passed == ((pin_of(first),) if walked else ())
    forged = replace(tides, anchor=KeysetAnchor(KeysetId(1, 1, second.digest)))
    assert refusal(memory, forged).code == "state.other_anchor"


def test_a_pin_that_was_moved_ahead_is_a_floor(
    memory: DirectoryStates, tides: TrustedIssuer, first: KeysetStatement, second: KeysetStatement
) -> None:
    """The walk from what is held has to come through it, and no recovery leads past it."""
    memory.begin(tides, blank(tides, keyset=first))
    ahead = replace(tides, anchor=KeysetAnchor(pin_of(second), "tides.example"))
    recovered = signed_keyset("ann", "bob", "rita", epoch=2)

    known = memory.recall(ahead)
    assert known.keyset == first
    assert rollback_floor(ahead, known) == RollbackFloor(pin_of(second))
    keep = partial(memory.keep, ahead)
    with memory.of(ahead) as state, pytest.raises(StateFault, match="past the pin"):
        resolved(ahead, state, keep, recovered)
    assert memory.find("", "tides") == blank(tides, keyset=first)
    with memory.of(ahead) as state:
        resolved(ahead, state, keep, second, recovered)
    found = memory.find("", "tides")
    assert found is not None
    assert (found.keyset, found.passed) == (recovered, (pin_of(first), pin_of(second)))


def resolved(
    issuer: TrustedIssuer,
    state: IssuerState,
    keep: Callable[[IssuerState], None],
    *keysets: KeysetStatement,
) -> None:
    """One verification with these statements."""
    supplied = SuppliedStatements(tuple(one.envelope.to_bytes() for one in keysets))
    resolve_issuer(issuer, Limits(), supplied, state, now=NOW, keep=keep)


def test_no_more_is_remembered_of_the_way_than_there_is_room_for(
    memory: DirectoryStates, tides: TrustedIssuer, first: KeysetStatement, second: KeysetStatement
) -> None:
    """The oldest is forgotten first, and the file stays within its limit."""
    long = tuple(KeysetId(1, version, "0" * 64) for version in range(1, MAX_PASSED + 1))
    memory.begin(tides, blank(tides, keyset=first, passed=long))
    with memory.of(tides) as state:
        memory.keep(tides, state.with_keyset(second))
    found = memory.find("", "tides")
    assert found is not None
    assert found.passed == (*long[1:], pin_of(first))


def test_the_lock_holds_for_one_verification(
    memory: DirectoryStates, tides: TrustedIssuer, first: KeysetStatement, second: KeysetStatement
) -> None:
    """A lock that others have raised is a floor, and gone with the lock (S3)."""
    memory.begin(tides, blank(tides, keyset=first))

    for lock in (RollbackFloor(pin_of(second), None, T0), RollbackFloor(None, None, 3)):
        one = locked_at(tides, lock)
        with memory.of(one) as state:
            assert rollback_floor(one, state) == lock
            memory.keep(one, state)
    after = memory.recall(tides)
    assert rollback_floor(tides, after) == RollbackFloor()
    assert after.as_floor() == RollbackFloor(pin_of(first))


def test_lock_and_memory_of_two_histories(
    memory: DirectoryStates, tides: TrustedIssuer, first: KeysetStatement
) -> None:
    """One number with two digests is a fault that names both."""
    memory.begin(tides, blank(tides, keyset=first))

    fault = refusal(memory, locked_at(tides, RollbackFloor(KeysetId(1, 1, "f" * 64))))
    assert fault.code == "state.fork"
    assert first.digest in fault.message
    assert "f" * 64 in fault.message


def test_a_lock_of_another_history_than_what_led_here(
    memory: DirectoryStates, tides: TrustedIssuer, first: KeysetStatement, second: KeysetStatement
) -> None:
    """Branches that were merged: the lock is behind, and names what was never passed."""
    memory.begin(tides, blank(tides, keyset=second, passed=(KeysetId(1, 7, "7" * 64),)))
    for other in (KeysetId(1, 1, "f" * 64), KeysetId(1, 7, "f" * 64)):
        fault = refusal(memory, locked_at(tides, RollbackFloor(other)))
        assert (fault.code, "f" * 64 in fault.message) == ("state.fork", True)
    for same in (pin_of(first), KeysetId(1, 7, "7" * 64)):
        memory.recall(locked_at(tides, RollbackFloor(same)))


# --------------------------------------------------------------------- whose it is


def test_another_policy_has_state_of_its_own(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """What a cloned folder calls `tides` is not what this user calls so (S1, R13)."""
    memory.begin(tides, blank(tides, newest_iat=T0 + 9))
    (clone,) = Policy((tides,)).known_as("/srv/clone/trust.toml").issuers

    assert refusal(memory, clone).code == "state.missing"
    memory.begin(clone, blank(clone, newest_iat=T0))
    assert memory.recall(tides) == blank(tides, newest_iat=T0 + 9)
    assert memory.recall(clone) == blank(clone, newest_iat=T0)
    assert memory.forget("/srv/clone/trust.toml", "tides")
    assert memory.names() == (("tides", ""),)


def test_the_order_of_origins_says_nothing(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """A policy that lists the same places in another order keeps its memory."""
    places = (parse_place("https://b.example"), parse_place("https://a.example"))
    memory.begin(one := replace(tides, places=places), blank(one))
    assert memory.recall(replace(tides, places=places[::-1])) == blank(one)


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "a URL of keys"])
def test_other_origins_inherit_nothing(
    memory: DirectoryStates, tides: TrustedIssuer, first: KeysetStatement, pinned: bool
) -> None:
    """Whoever was met elsewhere is nobody here; the place is all that vouched for him (S1)."""
    met = tides if pinned else replace(tides, anchor=JwksAnchor("https://tides.example/k"))
    memory.begin(met, blank(met, keyset=first))
    moved = replace(met, places=(parse_place("https://evil.example"),))

    fault = refusal(memory, moved)
    assert fault.code == "state.other_anchor"
    assert "https://tides.example" in fault.message
    assert "cardsign trust known forget tides" in fault.hint
    with pytest.raises(StateFault):
        memory.begin(moved, blank(moved))
    if pinned:  # what the same keyset vouches for is taken over, when a person says so
        assert memory.adopt(moved)
        assert memory.recall(moved) == blank(moved, keyset=first)
    else:
        with pytest.raises(StateFault, match=r"state\.other_anchor"):
            memory.adopt(moved)
        assert not memory.adopt(met)


# -------------------------------------------------------------------- processes


def test_another_process_holds_it(memory: DirectoryStates, tides: TrustedIssuer) -> None:
    """Patience ends with a fault; another issuer is not held up."""
    memory.begin(tides, blank(tides))
    lamps = replace(tides, name="lamps")
    memory.begin(lamps, blank(lamps))
    hasty = DirectoryStates(memory.path, patience=0.05)
    with memory.of(tides):
        with pytest.raises(StateFault) as busy, hasty.of(tides):
            pass
        assert busy.value.code == "file.busy"
        with hasty.of(lamps) as state:
            assert state == blank(lamps)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_lock_is_held_alone(tmp_path: Path, what: str) -> None:
    """On a lock file as on a folder that has none."""
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    busy = StateFault("file.busy", "held")
    with locked(path, patience=0, busy=busy), pytest.raises(StateFault):
        locked(path, patience=0.05, busy=busy).__enter__()
    with locked(path, patience=0, busy=busy):
        pass


def test_what_cannot_be_written_is_found_out_first(
    memory: DirectoryStates, tides: TrustedIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only folder is a fault before there is a verdict to remember."""
    memory.begin(tides, blank(tides))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FileFault) as refused, memory.of(tides):
        pass
    assert (refused.value.code, refused.value.path) == ("file.unwritable", str(memory.path))


def test_a_failed_write_changes_nothing(
    memory: DirectoryStates,
    tides: TrustedIssuer,
    first: KeysetStatement,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk: the fault comes out, and the file knows no more than before."""
    memory.begin(tides, blank(tides))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with memory.of(tides) as state:
        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(FileFault):
            memory.keep(tides, blank(tides, keyset=first))
        assert state == blank(tides)
    assert memory.find("", "tides") == blank(tides)
    assert [file.name for file in memory.path.glob(".*")] == []


RACER = """
import sys
from pathlib import Path
from cardsign.statements.keyset import KeysetId
from cardsign.trust.policy import JwksAnchor, TrustedIssuer
from cardsign.trust.state import DirectoryStates
from dataclasses import replace

memory = DirectoryStates(Path(sys.argv[1]), patience=60)
entry = TrustedIssuer("tides", JwksAnchor("https://tides.example/k"), ())
for _ in range(int(sys.argv[2])):
    with memory.of(entry) as state:
        version = state.newest_iat + 1
        pin = KeysetId(1, version, "0" * 64)
        memory.keep(entry, replace(state, newest_iat=version, passed=(pin,)))
        print(version)
"""


def test_racing_processes_lose_nothing(memory: DirectoryStates) -> None:
    """Each sees what the one before has kept: no number is given out twice, none is lower."""
    met = TrustedIssuer("tides", JwksAnchor("https://tides.example/k"), ())
    memory.begin(met, blank(met))
    command = [sys.executable, "-c", RACER, str(memory.path), "15"]
    racers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(4)
    ]
    seen = [list(map(int, racer.communicate()[0].split())) for racer in racers]

    assert all(numbers == sorted(numbers) for numbers in seen)
    assert sorted(itertools.chain(*seen)) == list(range(1, 61))
    known = memory.find("", "tides")
    assert known is not None
    assert known.passed == (KeysetId(1, 60, "0" * 64),)
