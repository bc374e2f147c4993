"""Every change of a folder's files, as the operating system is asked for it, and what a crash
after each of them could leave.

Three kinds of crash are told apart. A killed process: everything it did is there. A power cut
that loses whatever was not synced: contents by the last fsync of the file, names by the last
fsync of their directory. And one in between, as journalling file systems show it: every name
is there, but contents that were not synced are not.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Tree = dict[str, bytes | None]
"""The files of a folder by relative path; None is a directory."""

CHANGING = (
    *("open", "write", "truncate", "ftruncate", "fsync"),
    *("replace", "rename", "unlink", "mkdir", "rmdir", "chmod"),
)


def read_tree(root: Path) -> Tree:
    """What lies in a folder."""
    tree: Tree = {}
    for folder, folders, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        for name in folders:
            tree[os.path.normpath(f"{inside}/{name}")] = None
        for name in files:
            with open(f"{folder}/{name}", "rb") as file:
                tree[os.path.normpath(f"{inside}/{name}")] = file.read()
    return dict(sorted(tree.items()))


def write_tree(root: Path, tree: Tree) -> None:
    """Make a folder of it, private as a key store's files are."""
    root.mkdir(parents=True)
    for name in sorted(tree):
        content, path = tree[name], root / name
        if not path.parent.is_dir():  # what its directory holds went with the directory's name
            continue
        if content is None:
            path.mkdir(mode=0o700)
        else:
            path.write_bytes(content)
            path.chmod(0o600)


@dataclass
class Recording:
    """What a command did to the files below `root`.

    Attributes:
        before_step: Called with the number of each change before it is made. Where it is absent,
            what a crash could leave is kept, which takes a reading of the folder for each change.
    """

    root: Path
    before_step: Callable[[int], None] | None = None
    steps: list[str] = field(default_factory=list)
    images: list[tuple[str, Tree]] = field(default_factory=list)
    _live: dict[str, int | None] = field(default_factory=dict)
    _durable: dict[str, int | None] = field(default_factory=dict)
    _synced: dict[int, bytes] = field(default_factory=dict)
    _moved: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, content in read_tree(self.root).items():
            self._live[name] = None if content is None else self._new(content)
        self._durable = dict(self._live)

    def _new(self, content: bytes) -> int:
        self._synced[len(self._synced)] = content
        return len(self._synced) - 1

    def note(self, name: str, *paths: str) -> None:
        """One change was made; keep what a crash now would leave."""
        self.steps.append(f"{name} {' '.join(paths)}")
        first = paths[0]
        if name == "create":
            self._live[first] = self._new(b"")
        elif name == "mkdir":
            self._live[first] = None
        elif name in ("unlink", "rmdir"):
            self._live.pop(first, None)
        elif name == "rename":
            self._rename(first, paths[1])
        elif name == "sync":
            node = self._live.get(first)
            if node is not None:
                self._synced[node] = (self.root / first).read_bytes()
        elif name == "syncdir":
            self._sync_directory(first)
        if self.before_step is None:
            self._keep_images()

    def _rename(self, old: str, new: str) -> None:
        self._moved[new] = self._moved.pop(old, old)
        for name in [one for one in self._live if one == old or one.startswith(old + "/")]:
            self._live[new + name[len(old) :]] = self._live.pop(name)

    def _sync_directory(self, directory: str) -> None:
        for entries in (self._durable, self._live):
            for name in [one for one in entries if os.path.dirname(one) == directory]:
                if name in self._live:
                    self._durable[name] = self._live[name]
                    self._follow(name)
                else:
                    self._durable.pop(name, None)

    def _follow(self, directory: str) -> None:
        """A directory that was renamed brings along what was durable in it."""
        old = self._moved.pop(directory, None)
        for name in [one for one in self._durable if old and one.startswith(old + "/")]:
            self._durable[directory + name[len(old or "") :]] = self._durable.pop(name)

    def _keep_images(self) -> None:
        step = self.steps[-1]
        now = read_tree(self.root)
        self.images.append((f"killed after {step}", now))
        self.images.append((f"power cut after {step}", self._image(self._durable)))
        self.images.append((f"journalled until {step}", self._image(self._live)))
        for name, node in self._live.items():
            content = now.get(name)
            if node is not None and content and content != self._synced[node]:
                torn = {**now, name: content[: (len(self._synced[node]) + len(content)) // 2]}
                self.images.append((f"torn in {name} after {step}", torn))

    def _image(self, entries: dict[str, int | None]) -> Tree:
        return {
            name: None if node is None else self._synced[node] for name, node in entries.items()
        }

    def watching(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the operating system that makes a record of its calls."""

        def watched(*arguments: Any, **named: Any) -> Any:
            change = self._change(name, *arguments, **named)
            if change is not None and self.before_step is not None:
                self.before_step(len(self.steps))
            result = real(*arguments, **named)
            if change is not None:
                self.note(*change)
            return result

        return watched

    def _change(self, name: str, first: Any, *rest: Any, **named: Any) -> tuple[str, ...] | None:
        """What a call changes below the root, in the words of :meth:`note`."""
        place = self._place(first, named.get("dir_fd"))
        if place is None:
            return None
        if name == "open":
            creates = bool(rest and rest[0] & os.O_CREAT)
            return ("create", place) if creates and place not in self._live else None
        if name in ("replace", "rename"):
            target = self._place(rest[0], None)
            return ("rename", place, target) if target is not None else None
        if name == "fsync":
            return ("syncdir" if stat.S_ISDIR(os.fstat(first).st_mode) else "sync", place)
        if name in ("mkdir", "unlink", "rmdir"):
            exists = place in self._live
            return (name, place) if exists is not (name == "mkdir") else None
        return (name, place)

    def _place(self, file: Any, dir_fd: int | None) -> str | None:
        """A path relative to the root, empty for the root itself; None outside it."""
        if isinstance(file, int):
            path = os.readlink(f"/proc/self/fd/{file}")
        else:
            base = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
            path = os.path.join(base, os.path.abspath(file) if not base else os.fspath(file))
        if path == str(self.root):
            return ""
        return path.removeprefix(f"{self.root}/") if path.startswith(f"{self.root}/") else None


@contextlib.contextmanager
def recorded(root: Path, before_step: Callable[[int], None] | None = None) -> Iterator[Recording]:
    """Record what is done to the files below `root` in this process."""
    recording = Recording(root, before_step)
    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGING:
            patch.setattr(os, name, recording.watching(name, getattr(os, name)))
        yield recording
