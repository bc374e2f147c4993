"""Files are read bounded and written whole, and the system's errors come out as ours."""

from __future__ import annotations

import functools
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from cardsign import files, tomltext
from cardsign.errors import FileFault, StoreFault

BUSY = StoreFault("file.busy", "busy")


def fail_with(number: int) -> Callable[..., None]:
    """A system call that always fails."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def leftovers(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


read_plain = functools.partial(files.read_bytes, plain=True)
READERS = [files.read_bytes, files.read_secret, read_plain]


@pytest.mark.parametrize("read", READERS)
def test_a_file_is_read_whole(read, tmp_path):
    """What was written comes back, also at exactly the limit."""
    path = tmp_path / "file"
    files.create_private(path, b"x" * 100_000)

    assert read(path, max_bytes=100_000) == b"x" * 100_000


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        pytest.param(lambda path: None, "file.not_found", id="absent"),
        pytest.param(lambda path: path.mkdir(mode=0o700), "file.unreadable", id="a directory"),
        pytest.param(
            lambda path: files.create_private(path, b"x" * 11), "file.unreadable", id="too long"
        ),
        pytest.param(
            lambda path: path.symlink_to(path.with_name("absent")), None, id="a dangling link"
        ),
    ],
)
def test_what_cannot_be_read_is_named(read, prepare, code, tmp_path):
    """Each obstacle has its code, and the path is in the error."""
    path = tmp_path / "file"
    prepare(path)
    code = code or ("file.not_plain" if read is read_plain else "file.not_found")

    with pytest.raises(FileFault) as caught:
        read(path, max_bytes=10)

    assert (caught.value.code, caught.value.path) == (code, str(path))
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param("a\0b", "file.unreadable", id="a NUL byte"),
        pytest.param("x" * 300, "file.unreadable", id="a name too long"),
        pytest.param("/dev/null/file", "file.not_found", id="below something that is no directory"),
    ],
)
def test_an_impossible_path_is_a_fault_like_any_other(read, path, code):
    """Nothing but a FileFault comes out."""
    with pytest.raises(FileFault) as caught:
        read(Path(path), max_bytes=10)

    assert caught.value.code == code


@pytest.mark.parametrize("read", READERS)
def test_a_denied_file_is_unreadable(read, tmp_path, monkeypatch):
    """The system's words are passed on (by patch: a test run by root is denied nothing)."""
    monkeypatch.setattr(os, "open", fail_with(13))

    with pytest.raises(FileFault, match=r"file\.unreadable: .*Permission denied"):
        read(tmp_path / "file", max_bytes=10)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o666])
def test_a_secret_that_others_can_touch_is_refused(mode, tmp_path):
    """Any bit of group or others is one too many."""
    path = tmp_path / "file"
    files.create_private(path, b"secret")
    path.chmod(mode)

    with pytest.raises(FileFault, match=rf"file\.permissions: .*{mode:04o}"):
        files.read_secret(path, max_bytes=10)


def test_a_secret_is_the_users_own_or_roots(tmp_path, monkeypatch):
    """Another user's file is refused even where it could be read; a container's are root's."""
    path = tmp_path / "file"
    files.create_private(path, b"secret")
    owner = path.stat().st_uid
    for status_uid, is_read in ((owner, True), (0, True), (owner + 1, False)):
        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", owned_by(os.fstat, status_uid))
            patch.setattr(os, "geteuid", lambda: owner)
            if is_read:
                assert files.read_secret(path, max_bytes=10) == b"secret"
                continue
            with pytest.raises(FileFault, match=r"file\.permissions: .*another user"):
                files.read_secret(path, max_bytes=10)


def owned_by(fstat, uid):
    """`os.fstat` that says of every file that it is this user's."""

    def status(descriptor):
        members = list(fstat(descriptor))
        members[4] = uid
        return os.stat_result(members)

    return status


def test_a_secret_may_come_through_a_link_or_pipe(tmp_path):
    """As shells and container platforms hand secrets over."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe, 0o600)
    link.symlink_to(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"secret",))
    writer.start()

    assert files.read_secret(link, max_bytes=10) == b"secret"
    writer.join()


def test_a_new_file_has_the_mode_asked_for(tmp_path):
    """Less whatever the umask forbids."""
    before = os.umask(0o027)
    try:
        files.write_atomic(tmp_path / "file", b"new", mode=0o644)
    finally:
        os.umask(before)

    assert mode_of(tmp_path / "file") == 0o640


def test_an_existing_file_keeps_its_mode(tmp_path):
    """Who closed a file does not find it open after the next write."""
    path = tmp_path / "file"
    files.create_private(path, b"old")

    files.write_atomic(path, b"new")

    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o600)


def test_a_link_is_written_through(tmp_path):
    """The link stays a link, and its target gets the bytes."""
    (tmp_path / "link").symlink_to("real")

    files.write_atomic(tmp_path / "link", b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_device_is_not_replaced(tmp_path):
    """Else root's `-o /dev/null` would put a plain file there."""
    files.write_atomic(Path(os.devnull), b"gone")

    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        pytest.param(".", "file.unreadable", id="a directory"),
        pytest.param("absent/file", "file.unwritable", id="in a directory that is absent"),
    ],
)
def test_where_nothing_can_be_written_is_named(target, code, tmp_path):
    """And nothing appears."""
    with pytest.raises(FileFault) as caught:
        files.write_atomic(tmp_path / target, b"new")

    assert caught.value.code == code
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("call", ["replace", "fsync", "open"])
@pytest.mark.parametrize("number", [5, 28, 30], ids=["EIO", "ENOSPC", "EROFS"])
def test_a_failed_write_leaves_the_old_file_alone(call, number, tmp_path, monkeypatch):
    """Whichever step fails, the old bytes stand and no temporary file stays."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, call, fail_with(number))

    with pytest.raises(FileFault) as caught:
        files.write_atomic(path, b"new")

    monkeypatch.undo()
    assert caught.value.code == "file.unwritable"
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == ["file"]


def test_the_bytes_are_durable_before_the_name_is(tmp_path, monkeypatch):
    """The order is: sync the file, rename it, sync the directory."""
    calls = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        calls.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def recorded_replace(source: Path, target: Path) -> None:
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)

    files.write_atomic(tmp_path / "file", b"new")

    assert calls == ["file", "replace", "directory"]


def test_a_private_file_is_created_closed_to_others(tmp_path):
    """Whatever the umask allows."""
    before = os.umask(0)
    try:
        files.create_private(tmp_path / "file", b"secret")
    finally:
        os.umask(before)

    assert mode_of(tmp_path / "file") == 0o600


@pytest.mark.parametrize(
    "occupy",
    [
        pytest.param(lambda path: path.write_bytes(b"old"), id="a file"),
        pytest.param(lambda path: path.symlink_to("elsewhere"), id="a dangling link"),
    ],
)
def test_a_private_file_never_takes_anothers_place(occupy, tmp_path):
    """Nor does it follow a link that somebody laid."""
    occupy(tmp_path / "file")

    with pytest.raises(FileFault) as caught:
        files.create_private(tmp_path / "file", b"secret")

    assert caught.value.code == "file.exists"
    assert leftovers(tmp_path) == ["file"]


def test_a_private_file_that_cannot_be_synced_is_not_there(tmp_path, monkeypatch):
    """After an error there is nothing to mistake for a key."""
    monkeypatch.setattr(os, "fsync", fail_with(28))

    with pytest.raises(FileFault, match="No space left"):
        files.create_private(tmp_path / "file", b"secret")

    assert leftovers(tmp_path) == []


def test_a_lock_is_held_by_one_at_a_time(tmp_path):
    """The second comer gets the error that it brought, and the lock once it is free."""
    path = tmp_path / "lock"
    with (
        files.locked(path, patience=0, busy=BUSY),
        pytest.raises(StoreFault, match="busy"),
        files.locked(path, patience=0.05, busy=BUSY),
    ):
        pytest.fail("two hold the lock")

    with files.locked(path, patience=0, busy=BUSY):
        assert mode_of(path) == 0o600


def test_who_waits_for_a_lock_gets_it(tmp_path):
    """Patience is rewarded when the holder leaves in time."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with files.locked(tmp_path / "lock", patience=0, busy=BUSY):
            entered.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(10)
    threading.Timer(0.1, leave.set).start()

    with files.locked(tmp_path / "lock", patience=10, busy=BUSY):
        assert leave.is_set()
    holder.join()


def test_a_lock_that_cannot_be_made_is_a_fault(tmp_path):
    """The system's refusal does not come out bare."""
    with (
        pytest.raises(FileFault) as caught,
        files.locked(tmp_path / "absent" / "lock", patience=0, busy=BUSY),
    ):
        pytest.fail("locked nothing")

    assert caught.value.code == "file.unwritable"


def test_a_directory_is_made_once(tmp_path):
    """With its parents; one that is there keeps its mode."""
    path = tmp_path / "a" / "b"
    files.make_directory(path, mode=0o700)
    path.chmod(0o750)

    files.make_directory(path, mode=0o700)

    assert mode_of(path) == 0o750


def test_a_directory_cannot_take_a_files_place(tmp_path):
    """What stands there is left standing."""
    (tmp_path / "file").write_bytes(b"old")

    with pytest.raises(FileFault) as caught:
        files.make_directory(tmp_path / "file")

    assert caught.value.code == "file.exists"


def test_only_files_are_removed(tmp_path):
    """An absent file is fine; a directory is not ours to remove."""
    files.remove(tmp_path / "absent")

    with pytest.raises(FileFault) as caught:
        files.remove(tmp_path)

    assert caught.value.code == "file.unreadable"


def test_a_plain_file_is_replaced(tmp_path):
    """Or made; an existing one keeps its mode."""
    path = tmp_path / "file"
    files.write_atomic(path, b"new", plain=True)
    path.chmod(0o600)
    files.write_atomic(path, b"newer", plain=True)

    assert (read_plain(path, max_bytes=9), mode_of(path)) == (b"newer", 0o600)
    assert leftovers(tmp_path) == ["file"]


STRANGE: dict[str, Callable[[Path], object]] = {
    "a link": lambda path: path.symlink_to("precious"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("occupy", STRANGE.values(), ids=STRANGE)
def test_what_is_no_plain_file_is_neither_read_nor_written(occupy, tmp_path):
    """A link leads where somebody else wants; a pipe has no end."""
    (tmp_path / "precious").write_bytes(b"old")
    path = tmp_path / "file"
    occupy(path)

    for attempt in (
        lambda: read_plain(path, max_bytes=9),
        lambda: files.write_atomic(path, b"new", plain=True),
    ):
        with pytest.raises(FileFault) as caught:
            attempt()
        assert (caught.value.code, caught.value.path) == ("file.not_plain", str(path))

    assert (tmp_path / "precious").read_bytes() == b"old"
    assert leftovers(tmp_path) == ["file", "precious"]


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * tomltext.MAX_TOML_DEPTH + " = 1",
        "[" + "a . " * tomltext.MAX_TOML_DEPTH + "a]",
        'x = { "\\"a"' + ".'b'" * tomltext.MAX_TOML_DEPTH + " = 1 }",
        'x = { y = """z"""", a' + ".a" * tomltext.MAX_TOML_DEPTH + " = 1 }",
    ],
    ids=["a key", "a header", "quoted, in a table", "behind a string that ends with quotes"],
)
def test_a_key_of_too_many_parts_is_refused_unread(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
