"""The lock, the cache and enrolment under attack (decision F6)."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import FileFault, UsageFault
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.statements.release import read_release
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import digest_of
from cardsign.trust.enrolment import add_issuers, move_pin, propose_keyset
from cardsign.trust.lock import Floor, Memory, raise_lock, read_lock
from cardsign.trust.policy import KeysetAnchor, Policy, TrustedIssuer
from cardsign.trust.policyfile import read_policy
from cardsign.trust.session import read_cache
from cardsign.trust.walk import SuppliedStatements, read_supplied
from cardsign.verify.report import NoVerdict, Report
from cardsign.verify.verifier import Verifier
from tests.statements.making import NOW, TIDES
from tests.support import codes, fail_with
from tests.trust.histories import opened

CARD = TIDES.card_members()
SIGNED = TIDES.signed_card(CARD)
PAST = {"iat": TIDES.t0 - 20 * 86400, "exp": TIDES.t0 + 60 * 86400}
FIRST = TIDES.keyset(**PAST)


def release(keyset: bytes, *signers: str, seq: int, **changes: object) -> bytes:
    """A release that lists the card."""
    members = {**TIDES.listing(CARD, seq=seq), "floor": {}, **changes}
    return TIDES.release(keyset, *signers, **members)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy that trusts the issuer, and its lock."""
    path = tmp_path / "trust.toml"
    path.write_text("# whom we trust\nformat = 1\n")
    enrol(path, FIRST)
    return path


@pytest.fixture
def lock(policy: Path) -> Path:
    """The policy's lock."""
    return policy.with_suffix(".lock")


def enrol(path: Path, statement: bytes) -> None:
    """Add the issuer as `trust add` does."""
    file = read_policy(path)
    proposal = propose_keyset(given([statement], []), policy=Policy(), roots=False, now=NOW)
    add_issuers(file, [({"name": "tides", "origins": [TIDES.origin]}, proposal)])


def verifier(policy: Path, **options: Any) -> Verifier:
    """A new process, with a cache beside the policy."""
    return Verifier(policy, **{"cache": policy.parent / "cache", "clock": lambda: NOW, **options})


def given(keysets: list[bytes], releases: list[bytes]) -> SuppliedStatements:
    """Statements at hand."""
    return SuppliedStatements(tuple(keysets), tuple(releases))


def verdict(policy: Path, keysets: list[bytes], releases: list[bytes], **options: Any) -> Report:
    """What a new process says of the card by these statements."""
    statements = given(keysets, releases)
    return verifier(policy, **options).examine(SIGNED, statements=statements, issuer="tides")


def update(policy: Path, statements: SuppliedStatements) -> tuple[str, ...]:
    """What `trust update` does with these statements."""
    updater = verifier(policy)
    updater.session(updater.policy.issuer("tides")).resolve(statements, NOW)
    return updater.raise_lock()


# -------------------------------------------------------------- enrolment

OTHER = """
[[issuer]]
name = "other"
origins = ["https://other.example"]
anchor.jwks = "https://other.example/k"
"""


def test_a_keyset_anchor_without_its_entry_is_a_local_fault(policy: Path) -> None:
    """Other issuers are judged."""
    policy.write_text(policy.read_text() + OTHER)
    policy.with_suffix(".lock").unlink()
    judge = verifier(policy)
    with pytest.raises(UsageFault) as fault:
        judge.examine(b"{}", issuer="tides")
    assert (fault.value.code, fault.value.exit_status) == ("lock.missing", 2)
    assert judge.examine(b"{}", issuer="other").verdict == "untrusted"


def test_a_keyset_policy_made_in_code_names_its_lock() -> None:
    issuer = TrustedIssuer("tides", KeysetAnchor(read_keyset(FIRST).id), None)
    with pytest.raises(TypeError, match=r"Memory\(\)"):
        Verifier(Policy((issuer,)))
    Verifier(Policy((issuer,)), lock=Memory())


# -------------------------------------------------------------- rollback with an empty cache


def test_an_empty_cache_is_no_evidence(policy: Path) -> None:
    with pytest.raises(NoVerdict):
        verifier(policy, cache=Memory()).verify(SIGNED, issuer="tides")
    assert verdict(policy, [FIRST], [], cache=Memory()).answers.current == "unknown"


def test_a_process_that_walks_again_leaves_the_cache_whole(policy: Path) -> None:
    """A later walk begins where the one before ended; the next process begins at the anchor."""
    second = TIDES.keyset_after(FIRST)
    third = TIDES.keyset_after(second)
    judge = verifier(policy)
    for keysets in ([FIRST, second], [second, third]):
        current = given(keysets, [release(keysets[-1], seq=9)])
        assert judge.examine(SIGNED, statements=current, issuer="tides").verdict == "trusted"
    assert verdict(policy, [], []).verdict == "trusted"


# -------------------------------------------------------------- the walk passes through the lock

DAY = 86400
SECOND = TIDES.keyset_after(FIRST)
THIRD = TIDES.keyset_after(SECOND)
#: Another keyset 1.2 by the same roots.
OTHER_SECOND = TIDES.keyset_after(FIRST, exp=TIDES.t0 + 50 * DAY)
#: Keyset 1.2 with another recovery key, and an epoch that the one of before opens, stolen since.
RESCUED = TIDES.keyset_after(FIRST, "ann", "bob", "rita", recovery=TIDES.quorum(1, "rescue"))
STOLEN = opened(FIRST, "dan", "rita")
#: The owner's recovery from the branch before the thief's.
OWNER = opened(SECOND)
LATER, ANEW = (TIDES.listing(CARD, seq=seq)["cards"] for seq in (5, 1))
STATEMENTS = {
    **{"1.1": FIRST, "1.2": SECOND, "1.3": THIRD, "1.2-other": OTHER_SECOND},
    **{"1.2-rescue": RESCUED, "2.1-stolen": STOLEN, "2.1-owner": OWNER},
    "revokes-card": release(FIRST, "rel", seq=6, revoked=[TIDES.thumbprint("card")]),
    "revokes-rel2": release(FIRST, "rel", seq=6, revoked=[TIDES.thumbprint("rel2")]),
    "by-rel2": release(FIRST, "rel2", seq=7),
    "floor-6": release(FIRST, seq=6, floor={TIDES.url: 6}),
    "floor-5": release(FIRST, seq=6, floor={TIDES.url: 5}),
    "daily": release(FIRST, seq=7, floor={TIDES.url: 5}, iat=TIDES.t0 + 60),
    "raising": release(FIRST, seq=8, floor={TIDES.url: 6}, iat=TIDES.t0 + 90),
    "card-5": release(FIRST, seq=7, cards=LATER),
    "card-6": release(FIRST, seq=6, floor={TIDES.url: 6}, cards=LATER),
    "card-6-under-1.2": release(SECOND, seq=6, floor={TIDES.url: 6}, cards=LATER),
    "under-1.2": release(SECOND, seq=1, cards=ANEW),
    "under-1.3": release(THIRD, seq=9),
    "under-stolen": release(STOLEN, seq=99),
    "under-owner": release(OWNER, seq=12),
}
#: What the lock was raised to; what is shown to a process with an empty cache; verdict and reason.
AFTER = """
1.1 revokes-card | 1.1 revokes-card                       | untrusted     | key.revoked
1.1 revokes-card | 1.1 by-rel2                            | untrusted     | statement.unrevoked
1.1 revokes-rel2 | 1.1 by-rel2                            | indeterminate | statement.revoked
1.1 floor-6      | 1.1 card-5                             | indeterminate | statement.floor
1.1 floor-6      | 1.1 1.2 under-1.2                      | trusted       |
1.1 1.2-rescue   | 1.1 2.1-stolen under-stolen            | indeterminate | statement.rollback
1.1 1.2-rescue   | 1.1 1.2-rescue 2.1-stolen under-stolen | indeterminate | statement.unsigned
1.1 1.2 1.3      | 1.1 1.2-other 1.2 1.3 under-1.3        | trusted       | statement.fork
1.1 1.2 1.3      | 1.1 1.2 2.1-owner under-owner          | trusted       |
1.1 1.2 1.3      | 1.1 1.2 1.3 2.1-owner under-owner      | trusted       |
"""


@pytest.mark.parametrize("row", AFTER.strip().split("\n"))
def test_the_lock_alone_decides(policy: Path, row: str) -> None:
    """No release key takes a revocation back or lets a floor fall, no recovery key that was
    replaced opens an epoch, and of two branches the digests that lead to the lock tell which is
    ours. The roots may begin anew, and the owner recovers from a thief's branch."""
    locked, shown, expected, code = (cell.split() for cell in row.split("|"))
    assert update(policy, read_supplied([STATEMENTS[name] for name in locked])) == ("tides",)
    reader, statements = verifier(policy, cache=Memory()), [STATEMENTS[name] for name in shown]
    report = reader.examine(SIGNED, statements=statements, issuer="tides")
    assert ([report.verdict], {*code} - {*codes(report)}) == (expected, set())


#: What is shown to one process after another, and whether that raises the lock.
RAISES = """
yes 1.1 floor-5 | no 1.1 daily | yes 1.1 raising
yes 1.1 1.2     | no 1.1 1.2-other
yes 1.1 card-6  | yes 1.1 1.2 card-6-under-1.2
"""


@pytest.mark.parametrize("row", RAISES.strip().split("\n"))
def test_what_raises_the_lock(policy: Path, lock: Path, row: str) -> None:
    """Daily releases make no difference in git, nor does a fork of what is locked. A floor that
    stays is locked under the next keyset, too: else a release under that could lower it."""
    for step in row.split("|"):
        answer, *names = step.split()
        statements, earlier = [STATEMENTS[name] for name in names], lock.read_bytes()
        assert update(policy, read_supplied(statements)) == ("tides",) * (answer == "yes")
        assert (lock.read_bytes() == earlier) is (answer == "no")
        if answer == "yes" and not names[-1].startswith("1."):
            locked, newest = read_lock(lock)["tides"], read_release(statements[-1])
            assert (locked.release, locked.floor) == (newest.order, newest.floor)


def test_a_clock_that_was_set_back_raises_nothing(policy: Path) -> None:
    """What was verified is of its future; by the right clock it is recorded."""
    times = [NOW]
    updater = verifier(policy, clock=lambda: times[-1])
    updater.session(updater.policy.issuer("tides")).resolve(given([FIRST, SECOND], []), NOW)
    times.append(datetime.fromtimestamp(read_keyset(SECOND).iat - 3600, UTC))
    assert updater.raise_lock() == ()
    times.append(NOW)
    assert updater.raise_lock() == ("tides",)


# -------------------------------------------------------------- the files


def test_what_was_kept_for_a_pin_is_kept_from_the_next_one_on(policy: Path, tmp_path: Path) -> None:
    """The walk reaches the same keyset, so that a verdict needs no network (L6)."""
    cache = tmp_path / "statements"
    verdict(policy, [FIRST, SECOND], [release(SECOND, seq=5)], cache=cache)
    update(policy, given([FIRST, SECOND], []))
    assert move_pin(read_policy(policy), "tides", NOW, cache)[1]
    anchor = read_policy(policy).issuer("tides").anchor
    assert isinstance(anchor, KeysetAnchor)
    (kept,) = read_cache(cache, anchor).untrusted_keysets
    assert read_keyset(kept).id == anchor.pin
    assert verdict(policy, [], [], cache=cache).verdict == "trusted"


def test_git_merges_entries_and_marks_conflicts(tmp_path: Path) -> None:
    """Each branch raises one of two neighbours: a merge. Both raise one: lock.malformed."""
    old, new = (read_keyset(statement).id for statement in (FIRST, SECOND))

    def merge(ours: dict[str, Floor], theirs: dict[str, Floor]) -> tuple[int, Path]:
        locks = [tmp_path / f"{len([*tmp_path.iterdir()])}-{side}.lock" for side in "abc"]
        for lock, floors in zip(locks, (ours, {}, theirs), strict=True):
            raise_lock(lock, {name: Floor(old) for name in ("acme", "north", "tides")} | floors)
        merged = subprocess.run(["git", "merge-file", "-q", *locks])
        return merged.returncode, locks[0]

    conflicts, lock = merge({"acme": Floor(new)}, {"north": Floor(new)})
    pins = {name: floor.keyset for name, floor in read_lock(lock).items()}
    assert (conflicts, pins) == (0, {"acme": new, "north": new, "tides": old})
    conflicts, lock = merge({"tides": Floor(new, 7)}, {"tides": Floor(new, 9)})
    with pytest.raises(UsageFault) as fault:
        read_lock(lock)
    assert (conflicts, fault.value.code) == (1, "lock.malformed")
    assert "take either side of a conflict" in fault.value.hint


def test_several_locks_count_by_their_maximum_and_a_fork_blocks_one_issuer(
    policy: Path, lock: Path
) -> None:
    volume = policy.parent / "volume.lock"
    raise_lock(volume, {"tides": Floor(read_keyset(SECOND).id)})
    newest = [release(FIRST, seq=9)]
    report = verdict(policy, [FIRST], newest, lock=[lock, volume], cache=Memory())
    assert "statement.rollback" in codes(report)
    raise_lock(lock, {"tides": Floor(read_keyset(OTHER_SECOND).id)})
    with pytest.raises(UsageFault, match=r"^statement\.fork: "):
        verdict(policy, [FIRST, SECOND], [], lock=[lock, volume])


def long_history(length: int) -> list[bytes]:
    """The first keyset and those that follow it."""
    history = [FIRST]
    while len(history) < length:
        history.append(TIDES.keyset_after(history[-1], iat=TIDES.t0, exp=TIDES.t0 + DAY))
    return history


def _raise_many(lock: Path, number: int, pins: list[KeysetId]) -> None:
    """Raise a shared issuer again and again, and eight of this process's own once each."""
    for step in range(8):
        own = f"issuer-{number}-{step}"
        floors = {own: Floor(pins[0], number), "shared": Floor(pins[step % len(pins)], step)}
        raise_lock(lock, floors)


def test_eight_processes_raise_one_lock(tmp_path: Path) -> None:
    """No update is lost: each entry is raised once, so a lost one stays lost."""
    lock = tmp_path / "trust.lock"
    pins = [read_keyset(statement).id for statement in long_history(8)]
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_raise_many, args=(lock, n, pins)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 8
    entries = read_lock(lock)
    assert len(entries) == 8 * 8 + 1
    assert entries["shared"] == Floor(pins[7], 7)


def test_a_read_only_disk(policy: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifying needs no write at all; raising says so. (Root ignores modes, hence the patch.)"""
    for call in ("replace", "mkdir"):
        monkeypatch.setattr(os, call, fail_with(30))
    earlier = lock.read_bytes()
    report = verdict(policy, [FIRST, SECOND], [release(SECOND, seq=5)])
    assert report.verdict == "trusted"
    with pytest.raises(FileFault) as fault:
        update(policy, given([FIRST, SECOND], []))
    assert (fault.value.code, fault.value.exit_status) == ("file.unwritable", 2)
    assert lock.read_bytes() == earlier


# -------------------------------------------------------------- the cache


def test_a_cache_of_another_owner_is_empty(policy: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    verdict(policy, [FIRST, SECOND], [release(SECOND, seq=5)])
    for path in (policy.parent / "cache").rglob("*.json"):
        os.chown(path, 12345, 12345)
    assert verifier(policy).examine(SIGNED, issuer="tides").answers.integrity == "unknown"


STRANGER = FakeIssuer(NOW)


def listing(*statements: bytes) -> bytes:
    """The file of the cache that holds these."""
    return json.dumps([statement.decode() for statement in statements]).encode()


POISON: dict[str, bytes | None] = {
    "junk": b"\x00[[[",
    "another issuer's": listing(STRANGER.keyset()),
    "huge": b"[" + b" " * 10_000_000 + b"]",
    "a link": None,
    "by other roots": listing(FIRST, STRANGER.keyset_after(FIRST)),
}


@pytest.mark.parametrize("data", POISON.values(), ids=POISON)
def test_a_poisoned_cache_brings_no_trust(policy: Path, data: bytes | None) -> None:
    path = policy.parent / "cache" / digest_of(FIRST) / f"{digest_of(FIRST)}.json"
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/zero") if data is None else path.write_bytes(data)
    report = verdict(policy, [FIRST], [release(FIRST, seq=5)])
    assert (report.verdict, report.keyset.label) == ("trusted", "1.1")


def test_two_policies_share_the_cache_and_nothing_else(policy: Path, tmp_path: Path) -> None:
    verdict(policy, [FIRST, SECOND], [release(SECOND, seq=5)])
    other = tmp_path / "other.toml"
    other.write_text("format = 1\n")
    enrol(other, STRANGER.keyset(**PAST))
    assert verifier(other).examine(SIGNED, issuer="tides").verdict == "indeterminate"


# -------------------------------------------------------------- more on raising


def test_a_raise_by_a_verifier_that_missed_a_revocation_keeps_it(policy: Path, lock: Path) -> None:
    """One process saw release 6, another only the thief's release 7: the higher floors count."""
    thumbprint = TIDES.thumbprint("card")
    floors = {TIDES.url: 6}
    revoking = read_release(release(FIRST, "rel", seq=6, revoked=[thumbprint], floor=floors))
    stolen = release(FIRST, "rel2", seq=7, floor={TIDES.url: 5, "extended": 7})
    thief = read_release(stolen)
    keyset = read_keyset(FIRST)
    for statement in (revoking, thief):
        raise_lock(lock, {"tides": Floor().with_statements(keyset, statement)})
    locked = read_lock(lock)["tides"]
    assert locked.release == thief.order
    assert (locked.revoked, locked.floor) == ({thumbprint}, {TIDES.url: 6, "extended": 7})
    report = verdict(policy, [FIRST], [stolen])
    assert "statement.unrevoked" in codes(report)
    assert report.verdict == "untrusted"


def test_steps_of_the_cache_do_not_count_among_those_of_a_refresh(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process gets as many steps far as a refresh has, the next one to the end."""
    monkeypatch.setattr("cardsign.trust.session.MAX_STEPS", 6)
    history = long_history(10)
    current = release(history[-1], seq=5)
    first = verdict(policy, history, [current])
    assert (first.keyset.label, first.verdict) == ("1.7", "indeterminate")
    assert "statement.too_many" in codes(first)
    for keysets, releases in ((history, [current]), ([], [])):
        report = verdict(policy, keysets, releases)
        assert (report.keyset.label, report.verdict) == ("1.10", "trusted")
