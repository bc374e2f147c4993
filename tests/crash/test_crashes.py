"""A crash after any change of any file: no corrupt store, no lost key, nothing in the clear.

Counts of what was tried are printed with ``-s``, and stand in docs/keys.md.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from cardsign.errors import FileFault
from cardsign.jose.keys import PrivateKey
from cardsign.keys.doctor import examine_store
from cardsign.keys.envelope import UnsafeScryptCost
from cardsign.keys.store import DirectoryStore
from cardsign.keys.timeline import DEFAULT_SETTINGS
from cardsign.publish import load_current, publish
from cardsign.recorded import publication_of
from cardsign.sign import sign_card
from tests.crash.recording import Tree, read_tree, recorded, write_tree
from tests.keys.lives import NOON, QUICK, after
from tests.support import PORTABLE

PASSPHRASE = b"correct horse battery staple"
CHEAP = UnsafeScryptCost(n=2, r=1, p=1)
CARD = json.dumps(PORTABLE).encode()

Command = Callable[[Path], None]

ONE, TWO, THREE = (PrivateKey.generate("ES256", kid=kid) for kid in ("one", "two", "three"))


def add(root: Path, key: PrivateKey, seconds: int) -> None:
    """`cardsign keys generate`."""
    store = DirectoryStore.create(root / "keys", exist_ok=True)
    store.add_key(key, PASSPHRASE, now=after(seconds), random=os.urandom, cost=CHEAP)


def announce(root: Path, seconds: int) -> None:
    """`cardsign sign` and `cardsign publish`."""
    store = DirectoryStore.open(root / "keys")
    keys = store.signing_keys(after(seconds))
    signed = sign_card(CARD, [store.signer(key, PASSPHRASE) for key in keys])
    options = {"jwks": store.jwks(), "extended": {}, "max_age": 50, "now": after(seconds)}
    generation = publish(signed, directory=root / "public", **options)
    store.record_publication(publication_of(generation), now=after(seconds))


def tick(root: Path, seconds: int) -> None:
    """`cardsign keys rotate`."""
    step = DirectoryStore.open(root / "keys").tick(now=after(seconds), settings=QUICK, asked=True)
    assert step is not None


def generate(root: Path) -> None:
    """The third key."""
    add(root, THREE, 300)


def publishing(root: Path) -> None:
    """Two keys are in the set; the second is seen."""
    announce(root, 10)


def activating(root: Path) -> None:
    """By hand."""
    store = DirectoryStore.open(root / "keys")
    store.activate("two", now=after(220), settings=QUICK)


def rotating(root: Path) -> None:
    """By a tick."""
    tick(root, 220)


def retiring(root: Path) -> None:
    """The first key leaves the set."""
    tick(root, 500)


def revoking(root: Path) -> None:
    """And the second takes over."""
    store = DirectoryStore.open(root / "keys")
    store.revoke("one", reason="compromised", now=after(220), same_custody_accepted=True)


def destroying(root: Path) -> None:
    """The private half goes."""
    tick(root, 800)


def begun(root: Path) -> None:
    """Two keys, nothing published."""
    add(root, ONE, 0)
    add(root, TWO, 0)


def seen(root: Path) -> None:
    """The second is published."""
    begun(root)
    announce(root, 10)


def rotated(root: Path) -> None:
    """The second is active, and has not signed what is published."""
    seen(root)
    rotating(root)


def resigned(root: Path) -> None:
    """Both sign what is published."""
    rotated(root)
    announce(root, 230)


def dropped(root: Path) -> None:
    """The first is in the set no more."""
    resigned(root)
    retiring(root)
    announce(root, 510)


def nothing(root: Path) -> None:
    """A new folder."""


CASES: dict[str, tuple[Command, Command]] = {
    "generate, the first key": (nothing, lambda root: add(root, ONE, 0)),
    "generate, another key": (seen, generate),
    "publish, for the first time": (begun, publishing),
    "publish, again": (rotated, lambda root: announce(root, 240)),
    "activate": (seen, activating),
    "rotate, activating": (seen, rotating),
    "rotate, retiring": (resigned, retiring),
    "rotate, destroying": (dropped, destroying),
    "revoke": (seen, revoking),
}
KILLED = ("generate, another key", "publish, again", "rotate, activating")

#: The beginning of each private half in the clear, as a file would hold it.
SECRETS = [key.to_pkcs8_der()[36:68] for key in (ONE, TWO, THREE)]


def check(root: Path, earlier: Tree) -> None:
    """Whatever a crash has left: it is the old store or the new one, and whole."""
    tree = read_tree(root)
    for content in tree.values():
        assert not any(secret in (content or b"") for secret in SECRETS)
    if "keys/keystore.json" not in tree:
        assert "keys/keystore.json" not in earlier
        return
    store = DirectoryStore.open(root / "keys")
    known = json.loads(earlier.get("keys/keystore.json") or b'{"keys": []}')["keys"]
    assert {key["kid"] for key in known} <= store.ever_held_kids()
    for record in store.state.keys:
        if record.private == "held":
            store.signer(record, PASSPHRASE).sign(b"anything")
    newest = max((one.generation for one in store.state.publications), default=0)
    if "public/current" in tree:
        assert newest <= load_current(root / "public").number
    else:
        assert (newest, "public/current" in earlier) == (0, False)
    cure(store)


def cure(store: DirectoryStore) -> None:
    """What doctor mends is mended, and nothing is left that somebody would have to look at."""
    now, settings = NOON + timedelta(days=2), DEFAULT_SETTINGS
    examine_store(store, settings=settings, now=now, fix=True)
    left = examine_store(store, settings=settings, now=now)
    assert {finding.code for finding in left} <= {"doctor.due", "doctor.audit_aborted"}
    files = {path.name for path in (store.path / "private").glob("*")}
    assert files == {f"{key.thumbprint}.key" for key in store.state.keys if key.private == "held"}


@pytest.mark.parametrize("case", CASES)
def test_a_power_cut_at_any_moment_leaves_a_whole_store(tmp_path: Path, case: str) -> None:
    """Each prefix of what the command did, with everything dropped that was not synced yet."""
    prepare, command = CASES[case]
    root = tmp_path / "run"
    root.mkdir()
    prepare(root)
    earlier = read_tree(root)
    with recorded(root) as recording:
        command(root)

    images = {json.dumps(_names(tree)): (label, tree) for label, tree in recording.images}
    for number, (label, tree) in enumerate(images.values()):
        copy = tmp_path / str(number)
        write_tree(copy, tree)
        try:
            check(copy, earlier)
        except Exception as exc:
            raise AssertionError(f"{case}: {label}") from exc
    print(f"\n{case}: {len(recording.steps)} steps, {len(images)} different images")
    finished = dict(recording.images)[f"power cut after {recording.steps[-1]}"]
    wanted = {name: data for name, data in read_tree(root).items() if not name.endswith(".lock")}
    assert wanted.items() <= finished.items(), "what a command has reported is durable"


@pytest.mark.parametrize("forgotten", ["file", "directory"])
def test_a_missing_fsync_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    """The test above can fail: without syncing either, what was reported done is lost."""
    root = tmp_path / "run"
    root.mkdir()
    seen(root)
    with recorded(root) as recording, monkeypatch.context() as patch:
        watched = os.fsync
        patch.setattr(os, "fsync", lambda d: watched(d) if _kept(d, forgotten) else None)
        rotating(root)
    finished = dict(recording.images)[f"power cut after {recording.steps[-1]}"]

    assert finished["keys/keystore.json"] != read_state(root)


def _kept(descriptor: int, forgotten: str) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode) is (forgotten == "file")


def _names(tree: Tree) -> list[tuple[str, str | None]]:
    return [(name, None if data is None else data.hex()) for name, data in sorted(tree.items())]


@pytest.mark.parametrize("case", KILLED)
def test_a_process_that_is_killed_leaves_a_whole_store(tmp_path: Path, case: str) -> None:
    """By SIGKILL, before each change in turn; the command then succeeds on what is left."""
    prepare, command = CASES[case]
    killed = 0
    for step in range(1000):
        root = tmp_path / str(step)
        root.mkdir()
        prepare(root)
        earlier = read_tree(root)
        if not _killed_before(root, command, step):
            break
        killed += 1
        check(root, earlier)
        if case.startswith("publish") or read_state(root) == earlier["keys/keystore.json"]:
            command(root)
            check(root, earlier)
    print(f"\n{case}: killed before each of {killed} steps")
    assert killed > 5


def read_state(root: Path) -> bytes:
    """The state as it is on disk."""
    return (root / "keys/keystore.json").read_bytes()


def _killed_before(root: Path, command: Command, step: int) -> bool:
    """Run a command in a process of its own that kills itself; False if it came to its end."""

    def kill(number: int) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    process = os.fork()
    if process == 0:
        with recorded(root, before_step=kill):
            command(root)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


# --- disks that take nothing --------------------------------------------------------------


@pytest.mark.parametrize("case", ["generate, another key", "rotate, activating", "revoke"])
@pytest.mark.parametrize("room", [0, 100, 400, 700, 1500])
def test_a_full_disk_changes_nothing(tmp_path: Path, case: str, room: int) -> None:
    """No file can grow beyond so many bytes: an error, and every file is as it was."""
    prepare, command = CASES[case]
    prepare(tmp_path)
    earlier = read_tree(tmp_path)
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            command(tmp_path)
        except FileFault as fault:
            os._exit(3 if fault.code == "file.unwritable" else 4)
        os._exit(0)
    _, status = os.waitpid(process, 0)

    assert os.waitstatus_to_exitcode(status) == 3
    assert read_tree(tmp_path) == earlier


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("case", CASES)
def test_a_disk_that_refuses_leaves_the_old_store(tmp_path: Path, case: str, fault: int) -> None:
    """At each change in turn; the later ones succeed, so that all can be tidied up."""
    prepare, command = CASES[case]
    for step in range(1000):
        root = tmp_path / str(step)
        root.mkdir()
        prepare(root)
        earlier, refused = read_tree(root), []

        def refuse(number: int, step: int = step, refused: list[int] = refused) -> None:
            if number == step and not refused:
                refused.append(number)
                raise OSError(fault, os.strerror(fault))

        try:
            with recorded(root, before_step=refuse):
                command(root)
        except FileFault:
            check(root, earlier)
            continue
        if not refused:
            break
    assert step > 3
