"""A crash after any change of any file: no corrupt store, no lost key, nothing in the clear.

Counts of what was tried are printed with ``-s``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path

import pytest

from cardsign.errors import CardsignError, FileFault
from tests.crash.commands import CASES, Folder, NothingDue, check, private_keys
from tests.crash.recording import Tree, read_tree, recorded, write_tree
from tests.spoilt_cards import EXAMPLES

#: Under `nox -s nightly` each change is refused by each kind of disk.
NIGHTLY = EXAMPLES >= 40_000
#: Replayed by `make test` too; the others are under `.ci/run`.
QUICK = ("generate, another key", "publish, again", "rotate, activating")
#: These change files about a hundred times, and each change is refused in turn.
MANY = ("rotate", "revoke, guided", "publish, beside statements", "keyset publish")
MANY = (*MANY, "keyset publish, a new epoch", "release renew")


def _again(case: str, root: Path) -> None:
    """Run a command once more on what a crash has left."""
    with contextlib.suppress(NothingDue):
        try:
            CASES[case].command(root)
        except CardsignError as fault:
            if fault.code not in CASES[case].again:
                raise


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.thorough] * (case not in QUICK)) for case in CASES],
)
def test_a_power_cut_at_any_moment_leaves_a_whole_store(
    tmp_path: Path, prepared: Folder, case: str
) -> None:
    """Each prefix of what the command did, as a killed process leaves it and as a power cut does.

    The command then succeeds on what is left.
    """
    root = prepared(case, tmp_path / "run")
    earlier = read_tree(root)
    with recorded(root) as recording:
        CASES[case].command(root)
    secrets = private_keys(root)

    images = {json.dumps(_names(tree)): (label, tree) for label, tree in recording.images}
    for number, (label, tree) in enumerate(images.values()):
        copy = tmp_path / str(number)
        write_tree(copy, tree)
        try:
            check(copy, earlier, secrets)
            _again(case, copy)
            check(copy, earlier, secrets, is_done=True)
        except Exception as exc:
            raise AssertionError(f"{case}: {label}") from exc
    print(f"\n| {case} | {len(recording.steps)} | {len(images)} |")
    finished = dict(recording.images)[f"power cut after {recording.steps[-1]}"]
    wanted = {name: data for name, data in read_tree(root).items() if not name.endswith(".lock")}
    assert wanted.items() <= finished.items(), "what a command has reported is durable"


@pytest.mark.parametrize("forgotten", ["file", "directory"])
def test_a_missing_fsync_is_seen(
    tmp_path: Path, prepared: Folder, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    """The test above can fail: without syncing either, what was reported done is lost."""
    root = prepared("generate, another key", tmp_path / "run")
    with recorded(root) as recording, monkeypatch.context() as patch:
        watched = os.fsync
        patch.setattr(os, "fsync", lambda d: watched(d) if _kept(d, forgotten) else None)
        CASES["generate, another key"].command(root)
    finished = dict(recording.images)[f"power cut after {recording.steps[-1]}"]

    wanted = {name: data for name, data in read_tree(root).items() if not name.endswith(".lock")}
    assert not wanted.items() <= finished.items()


def _kept(descriptor: int, forgotten: str) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode) is (forgotten == "file")


def _names(tree: Tree) -> list[tuple[str, str | None]]:
    return [(name, None if data is None else data.hex()) for name, data in sorted(tree.items())]


# --- disks that take nothing --------------------------------------------------------------


FAULTS = (errno.ENOSPC, errno.EROFS, errno.EIO)
LASTING = (errno.EROFS,)  # refuses every change from then on


@pytest.mark.parametrize("shift", range(len(FAULTS)) if NIGHTLY else [0])
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.thorough] * (case in MANY)) for case in CASES]
)
def test_a_disk_that_refuses_leaves_the_old_store(
    tmp_path: Path, prepared: Folder, case: str, shift: int
) -> None:
    """At each change in turn; unless it is read-only the later ones succeed, and all is tidied."""
    for step in range(1000):
        fault = FAULTS[(step + shift) % len(FAULTS)]
        root = prepared(case, tmp_path / str(step))
        earlier, refused = read_tree(root), []

        def refuse(
            number: int, step: int = step, fault: int = fault, refused: list[int] = refused
        ) -> None:
            if number == step and (not refused or fault in LASTING):
                refused.append(number)
                raise OSError(fault, os.strerror(fault))

        try:
            with recorded(root, before_step=refuse):
                CASES[case].command(root)
        except FileFault:
            check(root, earlier, private_keys(root))
            continue
        if not refused:
            break
    print(f"\n| {case} | refused each of {step} changes |")
    assert step > 1
