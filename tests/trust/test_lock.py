"""trust.lock: floors that only rise, in a file that looks the same whoever writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import FileFault, UsageFault
from cardsign.files import locked
from cardsign.statements.keyset import KeysetId
from cardsign.trust.lock import Floor, raise_lock, read_lock
from cardsign.trust.policy import Policy

D0, D1 = "0" * 64, "1" * 64


def keyset(epoch: int, version: int, digest: str = D0) -> Floor:
    """A floor of a keyset statement alone."""
    return Floor(KeysetId(epoch, version, digest))


def release(*order: int, digest: str = D0) -> Floor:
    """A floor of a release alone."""
    epoch, version, seq = order
    return Floor(release=(epoch, version, seq), digest=digest)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """Where the lock of a policy would lie."""
    path = Policy(path=tmp_path / "trust.toml").lock
    assert path.name == "trust.lock"
    return path


RAISED = {
    "a first one": (None, keyset(1, 1), keyset(1, 1)),
    "a later version": (keyset(1, 1), keyset(1, 2, D1), keyset(1, 2, D1)),
    "an earlier version": (keyset(1, 2, D1), keyset(1, 1), keyset(1, 2, D1)),
    "an epoch beats every version": (keyset(1, 9), keyset(2, 1, D1), keyset(2, 1, D1)),
    "nothing seen takes nothing away": (keyset(1, 2), Floor(), keyset(1, 2)),
    "a later release": (release(1, 1, 5), release(1, 1, 6, digest=D1), release(1, 1, 6, digest=D1)),
    "a new keyset beats every seq": (release(1, 1, 99), release(1, 2, 1), release(1, 2, 1)),
    "each member by itself": (
        Floor(KeysetId(1, 2, D0), 70, None, (1, 1, 5), D0),
        Floor(KeysetId(1, 1, D1), 60, None, (1, 2, 1), D1),
        Floor(KeysetId(1, 2, D0), 70, None, (1, 2, 1), D1),
    ),
}


@pytest.mark.parametrize(("held", "seen", "raised"), RAISED.values(), ids=RAISED)
def test_floors_rise(lock: Path, held: Floor | None, seen: Floor, raised: Floor) -> None:
    """The higher one holds, in whatever order they come, in the file as well."""
    assert (held or seen).raised_to(seen, "acme") == raised
    assert held is None or seen.raised_to(held, "acme") == raised
    if held is not None:
        raise_lock(lock, {"acme": held, "other": keyset(7, 7)})
    raise_lock(lock, {"acme": seen})
    assert read_lock(lock)["acme"] == raised
    assert read_lock(lock).get("other") == (None if held is None else keyset(7, 7))


FORKS = {
    "a keyset": (keyset(1, 2, D0), keyset(1, 2, D1), "keyset 1.2"),
    "a release": (release(1, 2, 3), release(1, 2, 3, digest=D1), "release 1.2.3"),
}


@pytest.mark.parametrize(("held", "seen", "what"), FORKS.values(), ids=FORKS)
def test_two_histories(lock: Path, held: Floor, seen: Floor, what: str) -> None:
    """One number with two digests is refused, both are named, and nothing is written."""
    raise_lock(lock, {"acme": held})
    before = lock.read_bytes()

    for one, other in ((held, seen), (seen, held)):
        with pytest.raises(UsageFault) as refused:
            one.raised_to(other, "acme")
        assert refused.value.code == "statement.fork"
        assert all(part in refused.value.message for part in (what, "'acme'", D0, D1))
    with pytest.raises(UsageFault, match=what):
        raise_lock(lock, {"acme": seen, "other": keyset(1, 1)})
    assert lock.read_bytes() == before


NUMBERS = st.integers(1, 3)
FLOORS = st.builds(
    lambda keyset, iat, order: (
        Floor(keyset, iat, None, order, "{}{}{}0".format(*order) * 16)
        if order
        else Floor(keyset, iat)
    ),
    st.none() | st.builds(lambda e, v: KeysetId(e, v, f"{e}{v}" * 32), NUMBERS, NUMBERS),
    st.integers(0, 5),
    st.none() | st.tuples(*[NUMBERS] * 3),
)


@given(st.lists(FLOORS, min_size=1, max_size=6), st.randoms())
def test_the_order_of_seeing_makes_no_difference(floors: list[Floor], random: Any) -> None:
    """Floors of one history have one highest, whoever saw what first."""

    def highest(seen: list[Floor]) -> Floor:
        held: Floor | None = None
        for one in seen:
            held = one if held is None else held.raised_to(one, "acme")
        assert held is not None
        return held

    shuffled = list(floors)
    random.shuffle(shuffled)
    assert highest(shuffled) == highest(floors)


def test_the_file_is_the_same_whoever_writes_it(lock: Path, tmp_path: Path) -> None:
    """Sorted, indented, with a line end, so that its changes can be reviewed."""
    raise_lock(lock, {"b": keyset(1, 2), "a": release(1, 2, 3)})
    twin = tmp_path / "twin.lock"
    raise_lock(twin, {"a": release(1, 2, 3)})
    raise_lock(twin, {"b": keyset(1, 2)})

    assert lock.read_bytes() == twin.read_bytes()
    numbers = {"digest": D0, "epoch": 1, "keyset_version": 2, "seq": 3}
    pin = {"digest": D0, "epoch": 1, "version": 2}
    issuers = {
        "a": {"keyset": None, "newest_iat": 0, "release": numbers},
        "b": {"keyset": pin, "newest_iat": 0, "release": None},
    }
    document = {"format": "cardsign-lock/1", "issuers": issuers}
    assert lock.read_text() == json.dumps(document, indent=2) + "\n"


def test_an_issuer_is_taken_out(lock: Path) -> None:
    """The others stay; a missing file is empty, and removing somebody does not make one."""
    assert read_lock(lock) == {}
    raise_lock(lock, {"acme": None})
    assert not lock.exists()
    raise_lock(lock, {"acme": keyset(1, 1), "other": keyset(1, 1)})
    raise_lock(lock, {"acme": None})
    assert set(read_lock(lock)) == {"other"}


def test_somebody_else_is_editing(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is edited by one process at a time; patience ends with a fault."""
    monkeypatch.setattr("cardsign.trust.lock.PATIENCE", 0.05)
    busy = FileFault("file.busy", "held")
    held = locked(lock, patience=0, busy=busy, by_directory=True)
    with held, pytest.raises(FileFault, match=r"^file\.busy: "):
        raise_lock(lock, {"acme": keyset(1, 1)})
    raise_lock(lock, {"acme": keyset(1, 1)})
    assert [path.name for path in lock.parent.iterdir()] == ["trust.lock"]


def document(**changes: Any) -> bytes:
    """A lock with changes to its one issuer."""
    return whole({"acme": {"keyset": None, "newest_iat": 0, "release": None, **changes}})


def whole(issuers: Any, **changes: Any) -> bytes:
    """A lock of these issuers."""
    return json.dumps({"format": "cardsign-lock/1", "issuers": issuers, **changes}).encode()


PIN = {"epoch": 1, "version": 1, "digest": D0}
MALFORMED = {
    "no JSON": b"{",
    "a member twice": whole({}).replace(b"{", b'{"format": "cardsign-lock/1", ', 1),
    "no format": b'{"issuers": {}}',
    "a newer format": whole({}, format="cardsign-lock/2"),
    "an unknown member": whole({}, x=1),
    "issuers in a list": whole([]),
    "a name that is a path": whole({"../x": {}}),
    "a floor without members": whole({"acme": {}}),
    "a floor with another": document(x=1),
    "a floor without release": whole({"acme": {"keyset": None, "newest_iat": 0}}),
    "a short digest": document(keyset={**PIN, "digest": "00"}),
    "a version of none": document(keyset={**PIN, "version": 0}),
    "a version that is a truth": document(keyset={**PIN, "version": True}),
    "a release without a seq": document(release={"epoch": 1, "keyset_version": 1, "digest": D0}),
    "a time before all time": document(newest_iat=-1),
    "a time that is a truth": document(newest_iat=False),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_lock(lock: Path, data: bytes) -> None:
    """It is refused, naming the file, and never overwritten."""
    lock.write_bytes(data)
    for use in (read_lock, lambda path: raise_lock(path, {"acme": keyset(1, 1)})):
        with pytest.raises(UsageFault) as refused:
            use(lock)
        assert (refused.value.code, refused.value.path) == ("lock.malformed", str(lock))
    assert lock.read_bytes() == data


def test_what_is_a_lock(lock: Path) -> None:
    """The twin of all of these is read."""
    lock.write_bytes(document(keyset=PIN, newest_iat=5))
    assert read_lock(lock) == {"acme": Floor(KeysetId(1, 1, D0), 5)}
