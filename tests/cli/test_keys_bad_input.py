"""What a key store may meet, one table: a stable code, a hint, and no byte changed on disk."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.ledger import private_blob, write_line
from cardsign.keys.store import create_store, open_store
from tests.cli.conftest import Cardsign, Ended
from tests.support import PORTABLE, cheap_envelopes

SIGN = "sign card.json -o signed.json"
CHANGES = ("keys rotate", "keys generate --alg RS256", "keys jwks", SIGN)


@pytest.fixture
def store(cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`./keys` with an active key and a prepublished one, and a card."""
    cheap_envelopes(monkeypatch)
    for _ in range(2):
        assert cardsign("keys", "generate").status == 0
    Path("card.json").write_text(json.dumps(PORTABLE))
    return Path("keys")


def digest() -> str:
    """Of every file, folder and link below: name, mode, owner, content. Locks hold nothing."""
    told = hashlib.sha256()
    for path in sorted(Path().rglob("*")):
        status = path.lstat()
        content = os.readlink(path).encode() if path.is_symlink() else b""
        if stat.S_ISREG(status.st_mode) and path.name != ".lock":
            content = path.read_bytes()
        told.update(repr((str(path), status.st_mode, status.st_uid, content)).encode())
    return told.hexdigest()


def halves(store: Path) -> list[Path]:
    """The private files: of the active key, then of the other."""
    keys = open_store(store).state.keys
    return [store / private_blob(key.blob or "") for key in keys]


def edited(path: Path, change: Callable[[Any], None]) -> None:
    """A file of JSON that somebody has edited."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=2) + "\n")


# --- what was done to it ------------------------------------------------------------------


def untouched(store: Path) -> None:
    """Nothing."""


def a_tampered_envelope(store: Path) -> None:
    """One character of the ciphertext."""

    def change(document: Any) -> None:
        text = document["ciphertext"]
        document["ciphertext"] = ("B" if text[0] == "A" else "A") + text[1:]

    edited(halves(store)[0], change)


def swapped_envelopes(store: Path) -> None:
    one, other = halves(store)
    spare = store / "private/spare"
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def a_private_key_that_is_a_link(store: Path) -> None:
    half = halves(store)[0]
    half.rename(store / "elsewhere")
    half.symlink_to(Path("../elsewhere"))


def a_hungry_kdf(store: Path) -> None:
    """128 GiB, if anybody would compute it."""
    edited(halves(store)[0], lambda document: document["kdf"].update(n=2**30))


def an_edited_line(store: Path) -> None:
    log = store / "log.jsonl"
    log.write_text(log.read_text().replace('"actor":"', '"actor":"not ', 1))


def a_log_without_its_end(store: Path) -> None:
    """As a copy from before the newest commit has it."""
    log = store / "log.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))


def a_line_cut_out(store: Path) -> None:
    log = store / "log.jsonl"
    log.write_text(log.read_text().partition("\n")[2])


def a_log_of_somebody_else(store: Path) -> None:
    """Written anew, with other keys; its chain is right."""
    other = create_store(store.parent / "other")
    for _ in range(3):
        key = PrivateKey.generate("ES256").public
        other.apply(agenda.enter, key, custody="exec:/x", now=datetime.now(UTC))
    (store / "log.jsonl").write_bytes(other.log.read_bytes())


def a_line_of_a_newer_cardsign(store: Path) -> None:
    """It may say that a key is revoked."""
    open_ = open_store(store)
    line = write_line(open_.state, [{"event": "quarantined"}], datetime.now(UTC), "ann@host")
    with (store / "log.jsonl").open("ab") as log:
        log.write(line + b"\n")


@dataclass(frozen=True)
class Bad:
    """A row: what was done, what the user asks for, and how that ends."""

    spoil: Callable[[Path], None]
    words: str
    code: str
    status: int = 2
    passphrase: str | None = None


ROWS: dict[str, Bad] = {
    "a wrong passphrase": Bad(untouched, SIGN, "passphrase.wrong", passphrase="wrong " * 4),
    "no passphrase": Bad(untouched, SIGN, "passphrase.none", passphrase=""),
    "a tampered envelope": Bad(a_tampered_envelope, SIGN, "keystore.corrupt"),
    "swapped envelopes": Bad(swapped_envelopes, SIGN, "keystore.corrupt"),
    "a symbolic link for a private key": Bad(a_private_key_that_is_a_link, SIGN, "file.not_plain"),
    "a KDF cost that would eat the memory": Bad(a_hungry_kdf, SIGN, "keystore.corrupt"),
    "an edited line of the log": Bad(an_edited_line, "keys log", "keystore.audit_broken"),
    "a line cut out of the log": Bad(a_line_cut_out, "keys log", "keystore.audit_broken"),
    "doctor and an edited line": Bad(an_edited_line, "keys doctor", "keystore.audit_broken", 1),
    **{
        f"{name}: {words}": Bad(spoil, words, code)
        for words in CHANGES
        for name, spoil, code in (
            ("a log that was cut", a_log_without_its_end, "keystore.other_history"),
            ("a log of somebody else", a_log_of_somebody_else, "keystore.other_history"),
            ("a line of a newer one", a_line_of_a_newer_cardsign, "keystore.newer_format"),
        )
    },
}


def refused(ended: Ended, code: str, status: int = 2) -> None:
    """One line that says what, and one that says what to do; no traceback."""
    assert ended.status == status, ended.err
    assert code in ended.err
    assert "\n  " in ended.err.partition(code)[2]
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_bad_input_is_refused_and_changes_nothing(
    row: Bad, cardsign: Cardsign, store: Path
) -> None:
    """By the command line, with the whole folder compared before and after."""
    row.spoil(store)
    before = digest()
    environment = {} if row.passphrase is None else {"CARDSIGN_PASSPHRASE": row.passphrase or None}

    ended = cardsign(*row.words.split(), **environment)

    refused(ended, row.code, row.status)
    assert digest() == before


@pytest.mark.parametrize("words", [SIGN, "keys log", "keys jwks", "keys generate"])
def test_an_honest_store_is_not_refused(words: str, cardsign: Cardsign, store: Path) -> None:
    """The negative twin; a line without its end is no damage either."""
    with (store / "log.jsonl").open("ab") as log:  # by a process that was killed meanwhile
        log.write(b'{"actor":"ann')

    assert cardsign(*words.split()).status == 0
