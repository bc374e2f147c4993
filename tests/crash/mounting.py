"""Mounts of our own, in a process and a name space of its own: nothing of this machine changes."""

from __future__ import annotations

import ctypes
import os
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000  # of linux/sched.h
READ_ONLY, REMOUNT, BIND, PRIVATE = 1, 1 << 5, 1 << 12, 1 << 18 | 1 << 14  # of linux/mount.h


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name} is not permitted")


def mount(what: str, where: Path, kind: str, flags: int, options: str = "") -> None:
    _call("mount", what.encode(), bytes(where), kind.encode(), flags, options.encode())


def in_own_mounts(action: Callable[[], None]) -> str:
    """Do something in a process with mounts of its own; what went wrong, or nothing."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            _call("unshare", NEW_MOUNTS | (NEW_USER if os.geteuid() else 0))
            mount("none", Path("/"), "none", PRIVATE)
            action()
        finally:
            os.write(writer, traceback.format_exc().encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(process, 0)
    with open(reader, "rb") as told:
        said = told.read().decode()
    return "" if said == "NoneType: None\n" else said


@cache
def is_here() -> bool:
    """Whether this machine lets us: root does, and so do user name spaces."""
    if not hasattr(os, "fork"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        return not in_own_mounts(lambda: mount("tmpfs", Path(folder), "tmpfs", 0, "size=1m"))
