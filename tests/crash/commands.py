"""Every command that writes, what has to be there before it, and what may be there after a crash.

What waits for caches is done by the library under a virtual clock, everything else as a user
does it: by the command line, in a folder of its own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cardsign import sign_card
from cardsign.cli.main import command_line as cli
from cardsign.errors import StoreFault
from cardsign.issuer.doctor import examine_store
from cardsign.issuer.keyset import read_draft
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.history import statements_to_publish
from cardsign.keys.ledger import StoreState, read_line
from cardsign.keys.passphrases import open_envelope
from cardsign.keys.store import FolderStore, KeyStore, create_store, open_store
from cardsign.publish.generation import load_current
from cardsign.publish.publication import Documents, publication_of, publish_generation
from tests.crash.recording import Tree, read_tree
from tests.keys.states import QUICK, after, take_due_step
from tests.support import PORTABLE, encrypted_pem

PASSPHRASE = "correct horse battery staple"
RECOVERY_PASSPHRASE = "another horse entirely"
CARD = json.dumps(PORTABLE).encode()
TIMELINE = "\n[timeline]\n" + "".join(
    f"{name} = 0\n" for name in ("max_age", "worst_cache", "card_max_age", "skew", "rotate_every")
)

Step = Callable[[Path], object]
#: Makes a copy of the folder in which a command is run, at a path.
Folder = Callable[[str, Path], Path]

ONE, TWO, THREE = (PrivateKey.generate("ES256", kid=kid) for kid in ("one", "two", "three"))


# By the library, under a virtual clock.


def add(key: PrivateKey, seconds: int) -> Step:
    """`cardsign keys generate`."""
    passphrase = PASSPHRASE.encode()
    return lambda root: create_store(root / "keys").add_key(key, passphrase, now=after(seconds))


def announce(seconds: int) -> Step:
    """`cardsign sign` and `cardsign publish`."""

    def step(root: Path) -> None:
        store, now = open_store(root / "keys"), after(seconds)
        keys = store.state.signing_keys(now)
        signed = sign_card(CARD, [store.signer(key, PASSPHRASE.encode()) for key in keys])
        documents = Documents(signed, store.state.jwks(), max_age=50)
        generation = publish_generation(documents, root / "public", now=now)
        store.commit(agenda.record_publication, publication_of(generation), now=now)

    return step


class NothingDue(Exception):
    """A tick had nothing to do."""


def tick(seconds: int) -> Step:
    """`cardsign keys rotate`."""

    def step(root: Path) -> None:
        settings = replace(QUICK, rotate_every=0)
        if not take_due_step(open_store(root / "keys"), now=after(seconds), settings=settings):
            raise NothingDue

    return step


def revoking(root: Path) -> None:
    """The second takes over at the next tick."""
    store = open_store(root / "keys")
    store.commit(agenda.revoke, "one", reason="superseded", now=after(220))


# By the command line.


def run(root: Path, *words: str) -> None:
    """A command, in the folder; what it raises is raised."""
    with contextlib.chdir(root), contextlib.suppress(SystemExit):
        cli.main(words, prog_name="cardsign", standalone_mode=False)


def typed(line: str) -> Step:
    """A command as it is typed."""
    return lambda root: run(root, *line.split())


def with_card(root: Path) -> None:
    """A folder set up by `init`, with a card and a key to import in it, and no waits."""
    (root / "card.json").write_bytes(CARD)
    (root / "elsewhere.pem").write_bytes(encrypted_pem(THREE, PASSPHRASE))
    with (root / "cardsign.toml").open("a") as file:
        file.write(TIMELINE)


def signing(root: Path) -> None:
    """The root signs the draft, whose digest its holder was told."""
    digest = read_draft((root / "draft.json").read_bytes()).digest
    run(root, "keyset", "sign", "draft.json", "--digest", digest)


def replacing(root: Path) -> None:
    """The first card key is stolen."""
    keys = open_store(root / "keys").state.keys
    kid = next(key.kid for key in keys if key.role == "card")
    run(root, "keys", "revoke", "--reason", "compromised", "--yes", "--", kid)


# What there is before.

INIT = typed("init --issuer https://tides.example --recovery-out recovery.key")
RECOVER = typed(
    "keyset recover --yes --recovery-file recovery.key --new-recovery-out new.key -o draft.json"
)
PUBLISH = typed("keyset publish draft.json")
ANNOUNCE = typed("publish signed.json")

BEGUN = (add(ONE, 0), add(TWO, 0))  # two keys, nothing published
SEEN = (*BEGUN, announce(10))
ROTATED = (*SEEN, tick(220))  # the second is active, and has not signed what is published
RESIGNED = (*ROTATED, announce(800))  # it alone signs what is published
LISTING = (typed("sign card.json -o signed.json"), typed("release renew --card signed.json"))
LIVE = (INIT, with_card, *LISTING, ANNOUNCE)  # a card, listed and published
DRAFTED = (*LIVE, typed("keys generate"), typed("keyset draft -o draft.json"))
SIGNED = (*DRAFTED, signing)
LISTED = (*SIGNED, PUBLISH)  # no release speaks of the keyset yet
RECOVERED = (*LIVE, RECOVER)  # a new epoch is drafted and signed


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        earlier: Make the folder in which it is run.
        command: Runs it.
        again: What it may answer if it is run again after a crash; it may always succeed.
    """

    earlier: tuple[Step, ...]
    command: Step
    again: frozenset[str] = frozenset()


EXISTS = frozenset({"file.exists"})
ONCE = frozenset({"keystore.duplicate_key", "keystore.illegal_transition"})

CASES: dict[str, Case] = {
    "generate, the first key": Case((), add(ONE, 0), ONCE),
    "generate, another key": Case(SEEN, add(THREE, 300), ONCE),
    "publish, for the first time": Case(BEGUN, announce(10)),
    "publish, again": Case(ROTATED, announce(240)),
    "rotate, activating": Case(SEEN, tick(220), ONCE),
    "rotate, retiring": Case(RESIGNED, tick(900), ONCE),
    "revoke": Case(SEEN, revoking, ONCE),
    "import": Case(LIVE, typed("keys import elsewhere.pem"), ONCE),
    "init": Case((), INIT, EXISTS),
    "sign": Case(LIVE, typed("sign card.json -o again.json")),
    "keyset draft": Case(LISTED, typed("keyset draft -o next.json")),
    "keyset sign": Case(DRAFTED, signing),
    "keyset publish": Case(SIGNED, PUBLISH),
    "keyset recover": Case(LIVE, RECOVER, EXISTS),
    "keyset publish, a new epoch": Case(RECOVERED, PUBLISH),
    "release renew": Case(LISTED, typed("release renew --force")),
    "rotate": Case(LIVE, typed("keys rotate")),
    "revoke, guided": Case(LIVE, replacing),
    "publish, beside statements": Case(LISTED, ANNOUNCE),
}


# What a crash may leave.


def private_keys(root: Path) -> frozenset[bytes]:
    """The numbers of every private key of a folder, as a file in the clear would hold them."""
    secrets = {key.to_pkcs8_der()[36:68] for key in (ONE, TWO, THREE)}
    for path in root.rglob("*.key"):
        recovery = path.parent == root
        passphrase = RECOVERY_PASSPHRASE if recovery else PASSPHRASE
        with contextlib.suppress(StoreFault):  # one that is torn
            private = open_envelope(path.read_bytes(), passphrase.encode())
            secrets.add(private.to_pkcs8_der()[36:68])
    return frozenset(secrets)


def check(root: Path, earlier: Tree, secrets: frozenset[bytes], *, is_done: bool = False) -> None:
    """Whatever a crash has left: it is the old store or the new one, and whole.

    Between the end of a stolen key and the next key no key signs cards; once the command
    `is_done`, one does.
    """
    tree = read_tree(root)
    for content in tree.values():
        assert not any(secret in (content or b"") for secret in secrets)
    if "keys/log.jsonl" in tree and open_log(tree["keys/log.jsonl"] or b"").seq:
        _check_store(root / "keys", open_log(earlier.get("keys/log.jsonl") or b""), is_done=is_done)
    else:
        assert "keys/log.jsonl" not in earlier
    newest = newest_record(root)
    if "public/current" in tree:
        assert newest <= load_current(root / "public").number
    else:
        assert (newest, "public/current" in earlier) == (0, False)


def open_log(log: bytes) -> StoreState:
    """What the lines of a log say that were committed."""
    state = StoreState()
    for line in log.split(b"\n"):
        with contextlib.suppress(StoreFault):  # the last one, where it is torn
            state = read_line(state, line, "log")
    return state


def newest_record(root: Path) -> int:
    """The newest generation that the store has on record."""
    publications = FolderStore(root / "keys").load().publications
    return max((one.generation for one in publications), default=0)


def _check_store(path: Path, earlier: StoreState, *, is_done: bool) -> None:
    store = open_store(path)
    assert {key.kid for key in earlier.keys} <= {key.kid for key in store.state.keys}
    assert store.state.private_blobs() <= store.list_blobs()
    for record in store.state.keys:
        if record.private == "held":
            store.signer(record, PASSPHRASE.encode()).sign(b"anything")
    assert {*earlier.keysets} <= {*store.state.keysets}
    statements_to_publish(store)
    _cure(store, is_done=is_done)


def _cure(store: KeyStore, *, is_done: bool) -> None:
    """Leftovers are all that doctor finds; without them the store is whole."""
    for path in Path(store.place).rglob(".*.tmp"):  # nothing refers to them
        path.unlink()
    for finding in examine_store(store):
        assert finding.code == "doctor.leftover"
        Path(finding.path).unlink()
    assert examine_store(store) == []
    private = {name for name in store.list_blobs() if name.startswith("private")}
    assert private == store.state.private_blobs()
    assert not list(Path(store.place).rglob("*.tmp"))
