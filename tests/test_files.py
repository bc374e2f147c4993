"""Files are read bounded and written whole, and the system's errors come out as ours."""

from __future__ import annotations

import functools
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from cardsign import files, tomltext
from cardsign.errors import FileFault, StoreFault
from tests.support import fail_with

BUSY = StoreFault("file.busy", "busy")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is not there yet, alone in its folder."""
    return tmp_path / "file"


def leftovers(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Another umask."""
    earlier = os.umask(mask)
    try:
        yield
    finally:
        os.umask(earlier)


@contextmanager
def fault(code: str, path: object = None) -> Iterator[None]:
    """The fault in which the block has to end, with the path of the file."""
    with pytest.raises(FileFault) as caught:
        yield
    assert (caught.value.code, caught.value.exit_status) == (code, 2)
    assert path is None or caught.value.path == str(path)


# Reading.

read_plain = functools.partial(files.read_bytes, plain=True)
each_reader = pytest.mark.parametrize("read", [files.read_bytes, files.read_secret, read_plain])
#: What makes a file that cannot be read, and the code; None: plain readers say what it is.
UNREADABLE: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "absent": (lambda path: None, "file.not_found"),
    "a directory": (lambda path: path.mkdir(mode=0o700), "file.unreadable"),
    "too long": (lambda path: files.create_private(path, b"x" * 11), "file.unreadable"),
    "a dangling link": (lambda path: path.symlink_to(path.with_name("absent")), None),
}


@each_reader
def test_a_file_is_read_whole(read, path):
    """What was written comes back, also at exactly the limit."""
    files.create_private(path, b"x" * 100_000)

    assert read(path, max_bytes=100_000) == b"x" * 100_000


@each_reader
@pytest.mark.parametrize(("prepare", "code"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_named(read, prepare, code, path):
    """Each obstacle has its code, and the path is in the error."""
    prepare(path)
    with fault(code or ("file.not_plain" if read is read_plain else "file.not_found"), path):
        read(path, max_bytes=10)


@each_reader
def test_the_systems_refusals_are_faults_like_any_other(read, tmp_path, monkeypatch):
    """Nothing but a FileFault comes out (denied by patch: a test run by root is denied nothing)."""
    codes = {"a\0b": "file.unreadable", "x" * 300: "file.unreadable"}
    for name, code in {**codes, "/dev/null/file": "file.not_found"}.items():
        with fault(code):
            read(Path(name), max_bytes=10)
    monkeypatch.setattr(os, "open", fail_with(13))
    with pytest.raises(FileFault, match=r"file\.unreadable: .*Permission denied"):
        read(tmp_path / "file", max_bytes=10)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o666])
def test_a_secret_that_others_can_touch_is_refused(mode, path):
    """Any bit of group or others is one too many."""
    files.create_private(path, b"secret")
    path.chmod(mode)

    with pytest.raises(FileFault, match=rf"file\.permissions: .*{mode:04o}"):
        files.read_secret(path, max_bytes=10)


def test_a_secret_is_the_users_own_or_roots(path, monkeypatch):
    """Another user's file is refused even where it could be read; a container's are root's."""
    files.create_private(path, b"secret")
    fstat = os.fstat
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for uid in (1000, 0, 1001):

        def status(descriptor, uid=uid):
            members = list(fstat(descriptor))
            members[4] = uid
            return os.stat_result(members)

        monkeypatch.setattr(os, "fstat", status)
        if uid != 1001:
            assert files.read_secret(path, max_bytes=10) == b"secret"
            continue
        with pytest.raises(FileFault, match=r"file\.permissions: .*another user"):
            files.read_secret(path, max_bytes=10)


def test_a_secret_may_come_through_a_link_or_pipe(tmp_path):
    """As shells and container platforms hand secrets over."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe, 0o600)
    link.symlink_to(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"secret",))
    writer.start()

    assert files.read_secret(link, max_bytes=10) == b"secret"
    writer.join()


# Writing.


def test_a_file_keeps_what_it_is(path, tmp_path):
    """A new one has the mode asked for, less the umask; an old one its own; a link stays a link.

    A device is not replaced: else root's `-o /dev/null` would put a plain file there.
    """
    link = tmp_path / "link"
    with umask(0o027):
        files.write_atomic(path, b"new", mode=0o644)
    assert mode_of(path) == 0o640
    path.chmod(0o600)
    link.symlink_to("file")
    for plain in (False, True):
        files.write_atomic(path if plain else link, b"newer", plain=plain)
        assert (read_plain(path, max_bytes=9), mode_of(path)) == (b"newer", 0o600)
    assert link.is_symlink()
    assert leftovers(tmp_path) == ["file", "link"]
    reader, terminal = os.openpty()  # in whose folder nobody can put a plain file
    files.write_atomic(Path(os.ttyname(terminal)), b"gone")
    assert os.read(reader, 9) == b"gone"
    os.close(reader)
    os.close(terminal)


def test_where_nothing_can_be_written_is_named(tmp_path):
    """And nothing appears."""
    for target, code in ((".", "file.unwritable"), ("absent/file", "file.unwritable")):
        with fault(code):
            files.write_atomic(tmp_path / target, b"new")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("call", ["replace", "fsync", "open"])
@pytest.mark.parametrize("number", [5, 28, 30], ids=["EIO", "ENOSPC", "EROFS"])
def test_a_failed_write_leaves_the_old_file_alone(call, number, path, tmp_path, monkeypatch):
    """Whichever step fails, the old bytes stand and no temporary file stays."""
    path.write_bytes(b"old")
    monkeypatch.setattr(os, call, fail_with(number))
    with fault("file.unwritable"):
        files.write_atomic(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == ["file"]


def test_the_bytes_are_durable_before_the_name_is(path, monkeypatch):
    """The order is: sync the file, rename it, sync the directory."""
    calls: list[str] = []
    for name, call in (("fsync", os.fsync), ("replace", os.replace)):

        def recorded(*arguments, name=name, call=call):
            is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            calls.append("fsync of a folder" if is_folder else name)
            return call(*arguments)

        monkeypatch.setattr(os, name, recorded)
    files.write_atomic(path, b"new")
    assert calls == ["fsync", "replace", "fsync of a folder"]


def test_a_private_file_is_closed_to_others_and_takes_nobodys_place(path, tmp_path, monkeypatch):
    """Whatever the umask allows; nor does it follow a link. What cannot be synced is not there."""
    link = tmp_path / "link"
    link.symlink_to("elsewhere")
    with umask(0):
        files.create_private(path, b"secret")
    assert mode_of(path) == 0o600
    for taken in (path, link):
        with fault("file.exists"):
            files.create_private(taken, b"another")
    monkeypatch.setattr(os, "fsync", fail_with(28))
    with pytest.raises(FileFault, match="No space left"):
        files.create_private(tmp_path / "new", b"secret")
    assert leftovers(tmp_path) == ["file", "link"]
    assert path.read_bytes() == b"secret"


STRANGE: dict[str, Callable[[Path], object]] = {
    "a link": lambda path: path.symlink_to("precious"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("occupy", STRANGE.values(), ids=STRANGE)
def test_what_is_no_plain_file_is_neither_read_nor_written(occupy, path, tmp_path):
    """A link leads where somebody else wants; a pipe has no end."""
    (tmp_path / "precious").write_bytes(b"old")
    occupy(path)

    with fault("file.not_plain", path):
        read_plain(path, max_bytes=9)
    with fault("file.not_plain", path):
        files.write_atomic(path, b"new", plain=True)

    assert (tmp_path / "precious").read_bytes() == b"old"
    assert leftovers(tmp_path) == ["file", "precious"]


def test_directories(tmp_path):
    """One is made with its parents, keeps its mode, and takes no file's place; none is removed."""
    path = tmp_path / "a" / "b"
    files.make_directory(path, mode=0o700)
    path.chmod(0o750)
    files.make_directory(path, mode=0o700)
    assert mode_of(path) == 0o750
    (tmp_path / "file").write_bytes(b"old")
    with fault("file.exists"):
        files.make_directory(tmp_path / "file")
    files.remove(tmp_path / "absent")
    with fault("file.unwritable"):
        files.remove(tmp_path)


# Locks.


def test_a_lock_is_held_by_one_at_a_time(path, tmp_path):
    """Who has no patience gets the error that he brought; who has some, the lock once free."""

    def mode_while_locked(patience: float) -> int:
        with files.locked(path, patience=patience, busy=BUSY):
            return mode_of(path)

    with ThreadPoolExecutor() as threads, ExitStack() as holder:
        holder.enter_context(files.locked(path, patience=0, busy=BUSY))
        patient = threads.submit(mode_while_locked, 10)
        with pytest.raises(StoreFault, match="busy"):
            mode_while_locked(0.05)
        assert not patient.done()
        holder.close()
        assert patient.result() == mode_while_locked(0) == 0o600
    for how in ({}, {"by_directory": True}):
        with fault("file.unwritable"):
            files.locked(tmp_path / "a" / "b", patience=0, busy=BUSY, **how).__enter__()
    assert leftovers(tmp_path) == ["file"]


# TOML.


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * tomltext.MAX_TOML_DEPTH + " = 1",
        "[" + "a . " * tomltext.MAX_TOML_DEPTH + "a]",
        'x = { "\\"a"' + ".'b'" * tomltext.MAX_TOML_DEPTH + " = 1 }",
        'x = { y = """z"""", a' + ".a" * tomltext.MAX_TOML_DEPTH + " = 1 }",
        "".join(f"[a{number}{'.a' * 29}]\n" for number in range(12_000)),
    ],
    ids=["a key", "a header", "quoted, in a table", "behind a string's quotes", "of all headers"],
)
def test_keys_of_too_many_parts_are_unread(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before `tomllib` sees it, whose work grows with the square of the parts (S9)."""
    monkeypatch.setattr("tomllib.loads", lambda text: pytest.fail("it was parsed"))
    with pytest.raises(ValueError, match="so many parts"):
        tomltext.read_toml(f"\n{text}\n".encode())


def test_keys_of_many_parts_are_read_and_dots_elsewhere_are_no_keys() -> None:
    """As many as the limit; in strings and comments sentences may have any number of words."""
    key = ".".join("a" * tomltext.MAX_TOML_DEPTH)
    dots = "and so. on ... 1.5 " * 500
    text = f'{key} = 1\ns = "{dots}"\nm = """\n{dots}""" # {dots}\nf = 1.5\n'
    members = tomltext.read_toml(text.encode())
    assert (members["s"], members["m"], members["f"]) == (dots, dots, 1.5)


@pytest.mark.parametrize(
    "text",
    ["#" + '\\"' * 500_000, 'x = """\n[' + "!." * 500_000 + '!]\n"""', "x = " + '\\"' * 500_000],
    ids=["quotes in a comment", "dots in brackets, in a string", "quotes that end nowhere"],
)
def test_a_text_of_a_million_bytes_is_looked_at_once(text: str) -> None:
    """With the square of its length each would take an hour: a stranger's folder has such files."""
    with suppress(ValueError):
        tomltext.read_toml(text.encode())
    assert len(tomltext.find_lines(text)) < tomltext.MAX_TOML_DEPTH


@pytest.mark.parametrize("pair", ["[]", ("{a=", "}")], ids=["lists", "tables"])
@pytest.mark.parametrize("levels", [tomltext.MAX_TOML_DEPTH + 1, 100_000])
def test_deep_brackets_are_refused(pair: tuple[str, str], levels: int) -> None:
    """1 MB of zeros in 240 lists cost 12 s and 1 GB: each one's place was named by its depth."""
    opening, closing = pair
    deep = tomltext.MAX_TOML_DEPTH - 1
    text = f"x = {opening * deep}1{closing * deep}\n" + "y = '[[{'  # [[{\n" + "z = [[1]]\n"
    assert tomltext.read_toml(text.encode())["z"] == [[1]]
    with pytest.raises(ValueError, match="nested more than"):
        tomltext.read_toml(f"\nx = {opening * levels}1{closing * levels}".encode())


def test_folders_are_walked_as_python_does_and_as_deep_as_they_go(tmp_path: Path) -> None:
    """A stranger's folder may be nested more deeply than Python 3.11 follows."""
    for name in ("a/c", "b/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert list(files.walk(tmp_path)) == list(os.walk(tmp_path))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    places = [place for place, _, _ in files.walk(tmp_path)]
    assert len(places) == 5 + 1200
    for place in reversed(places):  # which pytest could not
        Path(place, "link").unlink(missing_ok=True)
        os.rmdir(place)
