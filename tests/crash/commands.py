"""Every command that writes, what has to be there before it, and what may be there after a crash.

What waits for caches is done by the library under a virtual clock, everything else as a user
does it: by the command line, in a folder of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from cardsign import sign_card
from cardsign.cli.main import command_line as cli
from cardsign.errors import StoreFault
from cardsign.issuer.doctor import examine_store
from cardsign.issuer.keyset import read_draft
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.history import statements_to_publish
from cardsign.keys.ledger import StoreState, read_line
from cardsign.keys.sealed import open_envelope
from cardsign.keys.store import FolderStore, KeyStore, create_store, open_store
from cardsign.publish.generation import load_current
from cardsign.publish.publication import Documents, publication_of, publish_generation
from tests.crash.recording import Tree, read_tree
from tests.keys.states import QUICK, after, take_due_step
from tests.support import PORTABLE, cheap_envelopes, encrypted_pem

PASSPHRASE = "correct horse battery staple"
RECOVERY_PASSPHRASE = "another horse entirely"
CARD = json.dumps(PORTABLE).encode()
TIMELINE = "\n[timeline]\n" + "".join(
    f"{name} = 0\n" for name in ("max_age", "worst_cache", "card_max_age", "skew", "rotate_every")
)

Step = Callable[[Path], None]

ONE, TWO, THREE = (PrivateKey.generate("ES256", kid=kid) for kid in ("one", "two", "three"))


@pytest.fixture(autouse=True)
def quick_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with passphrases in the environment; envelopes that cost nothing to open.

    Nothing is synced in truth: what that would achieve is reckoned by the recording.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    cheap_envelopes(monkeypatch)
    monkeypatch.setenv("CARDSIGN_PASSPHRASE", PASSPHRASE)
    monkeypatch.setenv("CARDSIGN_RECOVERY_PASSPHRASE", RECOVERY_PASSPHRASE)
    monkeypatch.delenv("CARDSIGN_KEYSTORE", raising=False)


# --- by the library, under a virtual clock ------------------------------------------------


def add(root: Path, key: PrivateKey, seconds: int) -> None:
    """`cardsign keys generate`."""
    store = create_store(root / "keys")
    store.add_key(key, PASSPHRASE.encode(), now=after(seconds))


def announce(root: Path, seconds: int) -> None:
    """`cardsign sign` and `cardsign publish`."""
    store = open_store(root / "keys")
    keys = store.state.signing_keys(after(seconds))
    signed = sign_card(CARD, [store.signer(key, PASSPHRASE.encode()) for key in keys])
    documents = Documents(signed, store.state.jwks(), max_age=50)
    generation = publish_generation(documents, root / "public", now=after(seconds))
    store.commit(agenda.record_publication, publication_of(generation), now=after(seconds))


class NothingDue(Exception):
    """A tick had nothing to do."""


def tick(root: Path, seconds: int) -> None:
    """`cardsign keys rotate`."""
    step = take_due_step(
        open_store(root / "keys"), now=after(seconds), settings=replace(QUICK, rotate_every=0)
    )
    if step is None:
        raise NothingDue


def rotating(root: Path) -> None:
    """By a tick."""
    tick(root, 220)


def retiring(root: Path) -> None:
    """The first key leaves the set."""
    tick(root, 900)


def revoking(root: Path) -> None:
    """The second takes over at the next tick."""
    store = open_store(root / "keys")
    store.commit(agenda.revoke, "one", reason="superseded", now=after(220))


def nothing(root: Path) -> None:
    """A new folder."""


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
    """It alone signs what is published."""
    rotated(root)
    announce(root, 800)


# --- by the command line ------------------------------------------------------------------


def run(root: Path, *words: str) -> None:
    """A command, in the folder; what it raises is raised."""
    with contextlib.chdir(root), contextlib.suppress(SystemExit):
        cli.main(words, prog_name="cardsign", standalone_mode=False)


def typed(line: str) -> Step:
    """A command as it is typed."""
    return lambda root: run(root, *line.split())


INIT = "init --issuer https://tides.example --recovery-out recovery.key"


def issuer(root: Path) -> None:
    """A folder set up by `init`, with a card and a key of somebody else in it."""
    (root / "card.json").write_bytes(CARD)
    (root / "other.jwk").write_text(json.dumps(ONE.public.jwk()))
    run(root, *INIT.split())
    with (root / "cardsign.toml").open("a") as file:
        file.write(TIMELINE)


def live(root: Path) -> None:
    """Its card is listed and published."""
    issuer(root)
    run(root, *["sign", "card.json", "-o", "signed.json"])
    run(root, *["release", "renew", "--card", "signed.json"])
    run(root, *["publish", "signed.json", "--max-age", "0"])


def drafted(root: Path) -> None:
    """There is one key more, and the draft of a keyset that lists it."""
    live(root)
    run(root, *["keys", "generate"])
    run(root, *["keyset", "draft", "-o", "draft.json"])


def signing(root: Path) -> None:
    """The root signs the draft, whose digest its holder was told."""
    digest = read_draft((root / "draft.json").read_bytes()).digest
    run(root, "keyset", "sign", "draft.json", "--digest", digest)


def signed(root: Path) -> None:
    """The draft is signed."""
    drafted(root)
    signing(root)


def listed(root: Path) -> None:
    """The keyset is published, and no release speaks of it yet."""
    signed(root)
    run(root, *["keyset", "publish", "draft.json"])


def recovered(root: Path) -> None:
    """A new epoch is drafted and signed."""
    live(root)
    run(root, *RECOVER.split())


def replacing(root: Path) -> None:
    """The first card key is stolen; the second in which that became known is over at once."""
    keys = open_store(root / "keys").state.keys
    kid = next(key.kid for key in keys if "card" in key.roles)
    with patch("time.sleep"):
        run(root, "keys", "revoke", "--reason", "compromised", "--yes", "--", kid)


def with_files(root: Path) -> None:
    """Beside a live issuer: a key to import."""
    live(root)
    private = encrypted_pem(THREE, PASSPHRASE)
    (root / "elsewhere.pem").write_bytes(private)


# --- the table ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        prepare: Makes the folder in which it is run.
        command: Runs it.
        again: What it may answer if it is run again after a crash; it may always succeed.
    """

    prepare: Step
    command: Step
    again: frozenset[str] = frozenset()


EXISTS = frozenset({"file.exists"})
ONCE = frozenset({"keystore.duplicate_key", "keystore.illegal_transition"})
RECOVER = (
    "keyset recover --yes --recovery-file recovery.key --new-recovery-out new.key -o draft.json"
)

CASES: dict[str, Case] = {
    "generate, the first key": Case(nothing, lambda root: add(root, ONE, 0), ONCE),
    "generate, another key": Case(seen, lambda root: add(root, THREE, 300), ONCE),
    "publish, for the first time": Case(begun, lambda root: announce(root, 10)),
    "publish, again": Case(rotated, lambda root: announce(root, 240)),
    "rotate, activating": Case(seen, rotating, ONCE),
    "rotate, retiring": Case(resigned, retiring, ONCE),
    "revoke": Case(seen, revoking, ONCE),
    "import": Case(with_files, typed("keys import elsewhere.pem"), ONCE),
    "init": Case(nothing, typed(INIT), EXISTS),
    "sign": Case(live, typed("sign card.json -o again.json")),
    "keyset draft": Case(listed, typed("keyset draft -o next.json")),
    "keyset sign": Case(drafted, signing),
    "keyset publish": Case(signed, typed("keyset publish draft.json")),
    "keyset recover": Case(live, typed(RECOVER), EXISTS),
    "keyset publish, a new epoch": Case(recovered, typed("keyset publish draft.json")),
    "release renew": Case(listed, typed("release renew --force")),
    "rotate": Case(live, typed("keys rotate")),
    "revoke, guided": Case(live, replacing),
    "publish, beside statements": Case(listed, typed("publish signed.json --max-age 0")),
}


# --- what a crash may leave ---------------------------------------------------------------


def private_keys(root: Path) -> frozenset[bytes]:
    """The numbers of every private key of a folder, as a file in the clear would hold them."""
    secrets = {key.to_pkcs8_der()[36:68] for key in (ONE, TWO, THREE)}
    for path in root.rglob("*.key"):
        recovery = path.parent == root
        passphrase = RECOVERY_PASSPHRASE if recovery else PASSPHRASE
        with contextlib.suppress(StoreFault):  # one that is torn
            secrets.add(open_envelope(path.read_bytes(), passphrase.encode())[0][36:68])
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
    assert earlier.ever_held_kids() <= store.state.ever_held_kids()
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
