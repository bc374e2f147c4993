"""Every command that writes, on a file system that really is read-only, and on one that is full.

Mounted by a process of our own in a name space of its own, so nothing of this machine changes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from cardsign.errors import FileFault
from tests.crash.commands import CASES, Folder, check, private_keys
from tests.crash.mounting import BIND, READ_ONLY, REMOUNT, in_own_mounts, mount
from tests.crash.recording import Tree, read_tree
from tests.keys.elsewhere import refusal

PAGE = os.sysconf("SC_PAGE_SIZE")
ROOMS = (0, 1, 2, 3, 5, 8)  # free pages


#: Those that need no new page, since a line fits into the last one of the log, or is all there is.
NO_ROOM = ("rotate", "rotate, activating", "rotate, retiring", "revoke", "revoke, guided")


def _files(tree: Tree) -> Tree:
    """Without folders and locks, which hold nothing."""
    return {name: data for name, data in tree.items() if data}


@pytest.mark.needs_mounts
@pytest.mark.parametrize("case", CASES)
def test_a_read_only_file_system_is_an_error(tmp_path: Path, prepared: Folder, case: str) -> None:
    """A stable code, and every file is as it was."""
    root = prepared(case, tmp_path / "run")
    before = read_tree(root)

    def refused() -> None:
        mount(str(root), root, "none", BIND)
        mount("none", root, "none", BIND | REMOUNT | READ_ONLY)
        assert refusal(CASES[case].command, root) == "file.unwritable"

    assert in_own_mounts(refused) == ""
    assert read_tree(root) == before


@pytest.mark.needs_mounts
@pytest.mark.parametrize("case", CASES)
def test_a_full_file_system_is_an_error(tmp_path: Path, prepared: Folder, case: str) -> None:
    """Without room nothing changes; with a little, what is committed is whole."""
    made, root = prepared(case, tmp_path / "made"), tmp_path / "run"
    root.mkdir()
    before = read_tree(made)

    def refused(room: int) -> None:
        sizes = [path.stat().st_size for path in made.rglob("*") if path.is_file()]
        pages = sum(-(-size // PAGE) for size in sizes) + room
        mount("tmpfs", root, "tmpfs", 0, f"size={max(pages, 1) * PAGE}")
        if pages == 0:
            (root / "filler").write_bytes(b"x" * PAGE)
        shutil.copytree(made, root, dirs_exist_ok=True)
        # Each room is a first attempt: its user has not seen what another one committed.
        os.environ["XDG_STATE_HOME"] = str(tmp_path / f"seen-{room}")
        earlier = _files(read_tree(root))
        if room == 0 and case not in NO_ROOM:
            assert refusal(CASES[case].command, root) == "file.unwritable"
            assert _files(read_tree(root)) == earlier
        else:
            with contextlib.suppress(FileFault):
                CASES[case].command(root)
        check(root, before, private_keys(root))

    for room in ROOMS:
        assert in_own_mounts(lambda room=room: refused(room)) == "", f"{room} free pages"
