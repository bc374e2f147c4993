"""Reading and writing of local files: bounded, atomic, durable, and never a bare ``OSError``.

The one boundary at which the operating system's errors become :class:`FileFault`. Written for
POSIX; verifying needs nothing that other systems lack, such as ``fcntl``. Key stores do.
A write either leaves the old file as it was or the new one complete; what a kill can leave
behind is a ``.NAME.*.tmp`` beside it, which nothing reads.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import stat
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

from cardsign.errors import FileFault, FileMissing, LocalFault, UsageFault

#: Inode, nanoseconds and size of a file.
FileStamp: TypeAlias = tuple[int, int, int]

#: The settings of a project (:mod:`cardsign.config`).
CONFIG_FILE: Final = "cardsign.toml"
#: What a user allows on this machine (:mod:`cardsign.keys.passphrases`).
USER_FILE: Final = "signers.toml"
#: What says which generation of a publication is the newest (:mod:`cardsign.publish.generation`).
CURRENT_FILE: Final = "current"
#: Bytes. More than any card or statement has: one that is too large is refused as such, and not
#: called unreadable.
MAX_INPUT_BYTES: Final = 4 * 1024 * 1024

PUBLIC_MODE: Final = 0o644
PRIVATE_MODE: Final = 0o600
_SHARED_BITS: Final = 0o077  # any access of group or others
_XDG: Final = {"CONFIG": ".config", "CACHE": ".cache", "STATE": ".local/state"}
_LOCK_INTERVAL: Final = 0.02  # seconds between two attempts at a lock
_CHUNK: Final = 64 * 1024  # bytes
# Flags of open that not every system has; there they ask for nothing.
_NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)
_DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)


def read_bytes(
    path: Path | str,
    *,
    max_bytes: int,
    plain: bool = False,
    is_found: bool = False,
    is_cut: bool = False,
) -> bytes:
    """Return the whole content of the file at `path`, which may be a pipe or a link.

    With `plain` links, devices and pipes are refused: another user may have put them there. With
    `is_found` devices and pipes are: nobody has named the file, and a pipe in a stranger's folder
    would be waited for without end. With `is_cut` a longer file gives one byte more than
    `max_bytes`, so that the reader of its content says what is too large.

    Raises:
        FileFault: ``file.not_found``, ``file.not_plain``; ``file.unreadable``: not permitted, or
            longer than `max_bytes`.
    """
    with file_faults(path, "file.unreadable"):
        flags = _only_plain(path, links=not plain) if plain or is_found else os.O_RDONLY
        with _opened(path, flags) as descriptor:
            return _read(descriptor, path, max_bytes, is_cut=is_cut)


def read_secret(
    path: Path, *, max_bytes: int, is_encrypted: Callable[[bytes], bool] | None = None
) -> bytes:
    """Return the content of a file, pipe or link's target that is this user's alone, or root's.

    What is checked is the opened file, so that it cannot be swapped between check and use.
    `is_encrypted` says of the content whether others may have access to it anyway.

    Raises:
        FileFault: As :func:`read_bytes`; ``file.permissions``: group or others have any access, or
            it belongs to another user.
    """
    with file_faults(path, "file.unreadable"), _opened(path, os.O_RDONLY) as descriptor:
        content = _read(descriptor, path, max_bytes)
        if is_encrypted is None or not is_encrypted(content):
            _refuse_shared(os.fstat(descriptor), path)
        return content


def write_atomic(path: Path, data: bytes, *, mode: int = PUBLIC_MODE, plain: bool = False) -> None:
    """Write `data` so that a reader of `path` sees the old file or the new one, never a mixture.

    Durable on return: file and directory are synced. A link is followed, an existing file
    keeps its permissions, and a device or pipe takes the bytes; `plain` refuses all but files.
    The directory must exist; `mode` is that of a new file, before the umask.

    Raises:
        FileFault: ``file.unwritable``, ``file.not_plain``. The old file is then untouched, unless
            all that failed was to sync its directory.
    """
    with file_faults(path, "file.unwritable"):
        status = path.stat() if path.exists() else None
        if plain:
            _only_plain(path)
        elif status is not None and not stat.S_ISREG(status.st_mode):
            path.write_bytes(data)  # which a directory refuses
            return
        target = path if plain else path.resolve()
        temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}.tmp")
        try:
            _create(temporary, data, mode)
            if status is not None:
                temporary.chmod(stat.S_IMODE(status.st_mode))
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(target.parent)


def create_private(path: Path, data: bytes) -> None:
    """Create a file that only this user can access; an existing one is never overwritten.

    Durable on return. After an error there is no file, unless all that failed was to sync its
    directory; after a kill it may be there in part.

    Raises:
        FileFault: ``file.exists`` or ``file.unwritable``.
    """
    with file_faults(path, "file.unwritable"):
        _create(path, data, PRIVATE_MODE)
        sync_directory(path.parent)


def remove(path: Path) -> None:
    """Remove the file at `path` if there is one; else ``file.unwritable``."""
    with file_faults(path, "file.unwritable"):
        path.unlink(missing_ok=True)


def make_directory(path: Path, *, mode: int = 0o777) -> None:
    """Create the directory `path`, and its parents, unless it is there; durable on return.

    `mode` is that of a new one, before the umask; parents get the default.

    Raises:
        FileFault: ``file.exists`` (as something else) or ``file.unwritable``.
    """
    with file_faults(path, "file.unwritable"):
        if path.is_dir():
            return
        path.mkdir(mode, parents=True, exist_ok=True)
        sync_directory(path.parent)


def list_names(path: Path) -> list[str]:
    """Return the sorted names in a directory, none if it is not there; or ``file.unreadable``."""
    with file_faults(path, "file.unreadable"):
        return sorted(os.listdir(path)) if path.is_dir() else []


def walk(
    folder: Path | str, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Do what ``os.walk`` does, which before Python 3.12 fails where folders are nested deeply."""
    waiting = [os.fspath(folder)]
    while waiting:
        for place, folders, names in itertools.islice(os.walk(waiting.pop(), onerror=onerror), 1):
            yield place, folders, names
            below = (os.path.join(place, name) for name in reversed(folders))
            waiting += (path for path in below if not os.path.islink(path))


@contextlib.contextmanager
def locked(
    path: Path, *, patience: float, busy: LocalFault, by_directory: bool = False
) -> Iterator[None]:
    """Hold the lock file at `path`, which is created if needed, alone among processes.

    An advisory ``flock``: it ends with the process, however that ends; not reliable on network
    file systems. `by_directory` holds the directory of `path` instead, and creates nothing. After
    `patience` seconds `busy` is raised.

    Raises:
        LocalFault: `busy`.
        FileFault: ``file.unwritable``.
    """
    from filelock import lock_descriptor  # most commands lock nothing

    flags = os.O_RDONLY | _DIRECTORY if by_directory else os.O_RDWR | os.O_CREAT | _NO_FOLLOW
    deadline = time.monotonic() + patience
    with contextlib.ExitStack() as open_files:
        with file_faults(path, "file.unwritable"):
            target = path.parent if by_directory else path
            descriptor = open_files.enter_context(_opened(target, flags))
            while not lock_descriptor(descriptor, blocking=False):
                if time.monotonic() >= deadline:
                    raise busy
                time.sleep(_LOCK_INTERVAL)
        yield


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut; else ``file.unwritable``."""
    if not _DIRECTORY:
        return  # Windows has no such step
    flags = os.O_RDONLY | _DIRECTORY
    with file_faults(path, "file.unwritable"), _opened(path, flags) as descriptor:
        os.fsync(descriptor)


def _create(path: Path, data: bytes, mode: int) -> None:
    """Create, fill and sync a new file; remove it again if that fails half-way."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
    with open(os.open(path, flags, mode), "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _read(descriptor: int, path: Path | str, max_bytes: int, *, is_cut: bool = False) -> bytes:
    content = bytearray()  # one `read` would allocate as much as may come
    while chunk := os.read(descriptor, min(_CHUNK, max_bytes + 1 - len(content))):
        content += chunk
    if len(content) > max_bytes and not is_cut:
        message, hint = f"this file is longer than {max_bytes} bytes", "Check which file this is."
        raise FileFault("file.unreadable", message, path=str(path), hint=hint)
    return bytes(content)


def _refuse_shared(status: os.stat_result, path: Path) -> None:
    message = hint = ""
    if status.st_mode & _SHARED_BITS:
        message = f"group or others can access this file (mode {stat.S_IMODE(status.st_mode):04o})"
        hint = f"Run: chmod 600 {shlex.quote(str(path))}"
    elif hasattr(os, "geteuid") and status.st_uid not in (0, os.geteuid()):
        message = "this file belongs to another user"
    if message:
        raise FileFault("file.permissions", message, path=str(path), hint=hint)


def _only_plain(path: Path | str, *, links: bool = False) -> int:
    """Refuse a device, pipe or link, and give the flags to read what may come meanwhile.

    With `links` a link counts as what it leads to.
    """
    path = Path(path)
    is_link = not links and path.is_symlink()
    if is_link or (path.exists() and not path.is_file() and not path.is_dir()):
        kind = "a device or pipe" if links else "a link, device or pipe"
        raise FileFault("file.not_plain", f"this is {kind}", path=str(path))
    return os.O_RDONLY | _NO_WAIT | (0 if links else _NO_FOLLOW)


@contextlib.contextmanager
def _opened(path: Path | str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | _BINARY, PRIVATE_MODE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def file_faults(path: Path | str, otherwise: str) -> Iterator[None]:
    """Convert what the operating system says about `path`; `otherwise` is the code for the rest."""
    code, hint = otherwise, ""
    try:
        yield
    except (ValueError, OverflowError) as exc:  # a NUL byte, or a number beyond all descriptors
        raise FileFault(code, f"the file name is not valid: {exc}", path=str(path)) from exc
    except OSError as exc:
        message = f"the operating system says: {exc.strerror or exc}"
        if isinstance(exc, FileNotFoundError | NotADirectoryError) and code == "file.unreadable":
            raise FileMissing("file.not_found", "there is no such file", path=str(path)) from exc
        if isinstance(exc, IsADirectoryError):
            message, hint = "this is a folder, not a file", "Name a file."
        elif isinstance(exc, FileExistsError):
            code, message = "file.exists", "this file exists already"
        elif isinstance(exc, FileNotFoundError):
            message = "its directory does not exist"
            hint = f"Make it: mkdir -p {shlex.quote(str(Path(path).parent))}"
        raise FileFault(code, message, path=str(path), hint=hint) from exc


def file_stamp(path: str | Path) -> FileStamp | None:
    """Return what changes when a file is replaced; None if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns, status.st_size


# Where the files of a project may lie: in its folder, or where the user has allowed it.


def user_folder(kind: Literal["CONFIG", "CACHE", "STATE"]) -> Path | None:
    """Return our folder below an XDG base directory; None for a user without a home folder.

    A relative base directory is ignored.
    """
    base = Path(os.environ.get(f"XDG_{kind}_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / _XDG[kind]
        except RuntimeError:
            return None
    return base / "cardsign" if base.is_absolute() else None


def leads_outside(folder: Path | str, place: Path | str, allowed: Collection[Path] = ()) -> bool:
    """Return whether a path leads out of a folder, and not into one that the user has allowed.

    Symbolic links are followed. ``~`` is a name like any other. A name with a NUL leads nowhere,
    which counts as out of the folder.
    """
    try:
        real = Path(os.path.realpath(place))
    except ValueError:  # not a valid file name
        return True
    return not any(real.is_relative_to(os.path.realpath(home)) for home in (folder, *allowed))


def refuse_links(folder: Path, place: Path) -> None:
    """Refuse a path on which a link stands below `folder`, with ``file.not_plain``."""
    for parent in place.parents[: len(place.relative_to(folder).parts) - 1]:
        if parent.is_symlink():
            raise FileFault("file.not_plain", "this is a link", path=str(parent))


def outside(place: Path, problem: str, path: Path) -> UsageFault:
    """Return the error for a place outside of the project that names it."""
    real, own = json.dumps(os.path.realpath(place)), user_folder("CONFIG") or Path()
    hint = f"If it is yours, allow it in {own / USER_FILE} (mode 0600, format = 1): "
    hint += f"folders = [{real}]; or name it on the command line."
    message = f"{problem} outside this folder"
    return UsageFault("config.not_allowed", message, path=str(path), hint=hint)
