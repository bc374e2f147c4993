"""The key store: one commit point, no lost update, nothing secret shown, nothing half-written."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import signal
import stat
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import (
    CardsignError,
    FileFault,
    PassphraseFault,
    SignerFault,
    StoreFault,
)
from cardsign.files import locked
from cardsign.jose import base64url
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey
from cardsign.keys.key_files import seal
from cardsign.keys.model import (
    TRANSITIONS,
    KeyRecord,
    KeyTimes,
    StoreState,
    dump_state,
    file_custody,
    load_state,
)
from cardsign.keys.stores import directory as store_module
from cardsign.keys.stores.directory import DirectoryStore, locate_keystore
from tests.keys.conftest import in_each_store
from tests.support import cheap_envelopes

PASSPHRASE = b"correct horse battery staple"
NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
STAMP = "2026-11-21T12:00:00Z"
PUBLICATION: dict[str, Any] = {
    "generation": 1, "at": STAMP, "max_age": 300, "kids": [], "cards": []
}  # fmt: skip
SPAWN = multiprocessing.get_context("spawn")


def state_file(store: DirectoryStore) -> Path:
    return store.path / "keystore.json"


def private_file(store: DirectoryStore, private: PrivateKey) -> Path:
    return store.path / "private" / f"{private.public.thumbprint}.key"


def edit_state(store: DirectoryStore, path: str, value: Any) -> None:
    """Replace (or, with None, remove) one member of the state, `keys.0.kid` say."""
    document = json.loads(state_file(store).read_bytes())
    *parents, name = (int(part) if part.isdigit() else part for part in path.split("."))
    place = document
    for parent in parents:
        place = place[parent]
    if value is None:
        del place[name]
    else:
        place[name] = value
    state_file(store).write_text(json.dumps(document))


def first_key(store: DirectoryStore) -> dict[str, Any]:
    """The first key of the state as it is on disk."""
    key: dict[str, Any] = json.loads(state_file(store).read_bytes())["keys"][0]
    return key


def check_whole(path: Path) -> DirectoryStore:
    """Open a store as the next command would, and every private key that it names."""
    store = DirectoryStore.open(path)
    for record in store.state.keys:
        store.signer(record, PASSPHRASE).sign(b"anything")
    return store


# --- the lifecycle in order ----------------------------------------------------------------


@in_each_store
def test_a_new_store_is_empty(store):
    """And opens as what it is."""
    assert store.again().state == store.state
    assert (store.state.generation, store.state.keys) == (0, ())


def test_a_store_is_not_made_over_another(store, es256):
    """Unless the caller means the one that is there, whose keys then stay."""
    store.add(es256)

    with pytest.raises(StoreFault) as caught:
        DirectoryStore.create(store.path)

    assert caught.value.code == "keystore.exists"
    assert DirectoryStore.create(store.path, exist_ok=True).state == store.state


def test_a_store_that_another_process_made_meanwhile_is_kept(store, es256, monkeypatch):
    """It is looked for once more when nobody else can make one."""
    store.add(es256)
    answers = iter([False, True])
    monkeypatch.setattr(store_module, "holds_store", lambda path: next(answers))

    assert DirectoryStore.create(store.path, exist_ok=True).state == store.state


@in_each_store
def test_a_key_that_was_added_signs(store, es256, rs256):
    """Both algorithms, from the disk, by the public key that is published."""
    for private in (es256, rs256):
        store.add(private)

    reopened = store.again()

    assert reopened.state == store.state
    for record in reopened.state.active_keys():
        entry = sign_payload(b"{}", reopened.signer(record, PASSPHRASE), typ="JOSE")
        assert entry.keys() == {"protected", "signature"}


def test_the_state_is_public_and_says_its_format(store, es256):
    """Every member is as documented, and none is private."""
    store.add(es256)
    document = json.loads(state_file(store).read_bytes())
    (key,) = document.pop("keys")
    head = document.pop("audit")

    assert document == {
        "format": 3,
        "generation": 1,
        "publications": [],
        "statements": {"release_seq": 0},
    }
    assert head["seq"] == 1
    assert key == {
        "state": "active",
        "roles": ["card"],
        "custody": f"file:private/{es256.public.thumbprint}.key",
        "private": "held",
        "created": "2026-11-21T12:00:00Z",
        "times": {"prepublished": "2026-11-21T12:00:00Z", "activated": "2026-11-21T12:00:00Z"},
        "public": es256.public.jwk(),
    }


def test_private_halves_are_closed_to_others(store, es256):
    """The state is not: it is public."""
    before = os.umask(0)
    try:
        store.add(es256)
    finally:
        os.umask(before)

    assert stat.S_IMODE(private_file(store, es256).stat().st_mode) == 0o600
    assert stat.S_IMODE((store.path / "private").stat().st_mode) == 0o700
    assert stat.S_IMODE(state_file(store).stat().st_mode) == 0o644


@in_each_store
def test_the_first_key_of_an_algorithm_signs_at_once(store, es256, another_es256, rs256):
    """A later one waits; all of them are published."""
    for private in (es256, rs256, another_es256):
        store.add(private)

    assert [record.state for record in store.state.keys] == ["active", "active", "prepublished"]
    assert [record.public for record in store.state.active_keys()] == [es256.public, rs256.public]
    assert len(store.state.published_keys()) == 3
    published = JwkSet.from_bytes(store.state.jwks().to_bytes())
    assert {key.thumbprint for key in published.keys} == {
        key.public.thumbprint for key in (es256, rs256, another_es256)
    }


@pytest.mark.parametrize(
    ("state", "published", "active"),
    [
        ("generated", False, False),
        ("prepublished", True, False),
        ("active", True, True),
        ("retiring", True, False),
        ("retired", False, False),
        ("revoked", False, False),
    ],
)
def test_the_state_of_a_key_says_where_it_appears(state, published, active, store, es256):
    """Its kid is ours in every state."""
    store.add(es256)
    implied = ("prepublished", "activated", "stops_signing", "retired")
    times = dict.fromkeys(implied[: max(0, list(TRANSITIONS).index(state))], "2026-11-21T12:00:00Z")
    if state == "revoked":
        times = {"revoked": "2026-11-21T12:00:00Z"}
        edit_state(store, "keys.0.revoked_because", "ceased")
    edit_state(store, "keys.0", {**first_key(store), "state": state, "times": times})

    read = load_state(state_file(store).read_bytes(), where="state")

    assert bool(read.published_keys()) is published
    assert bool(read.active_keys()) is active
    assert read.ever_held_kids() == {es256.public.kid}


def test_an_imported_key_keeps_its_kid(store, es256):
    """On disk it goes by its thumbprint, whatever characters the kid has."""
    named = PrivateKey.from_pkcs8_der(es256.to_pkcs8_der(), kid="../../card 2026")

    record = store.add(named)

    assert record.kid == "../../card 2026"
    assert check_whole(store.path).state.find("../../card 2026") == record
    assert private_file(store, es256).exists()


@in_each_store
def test_the_time_of_entry_is_utc_to_the_second(store, es256):
    """Whatever zone the clock was read in."""
    local = datetime(2026, 11, 21, 14, 0, 0, 999, tzinfo=timezone(timedelta(hours=2)))

    assert store.add(es256, now=local).created == NOON


def test_a_holder_that_is_recorded_survives(store, es256, rs256):
    """Adding a key rewrites the others as they were."""
    store.add(es256, holder="release team")

    store.add(rs256)

    assert [key.holder for key in check_whole(store.path).state.keys] == ["release team", None]


# --- finding ------------------------------------------------------------------------------


@in_each_store
def test_a_key_is_found_by_kid_thumbprint_or_the_beginning_of_either(store, es256):
    """As people type them."""
    named = PrivateKey.from_pkcs8_der(es256.to_pkcs8_der(), kid="card-2026")
    record = store.add(named)

    for name in ("card-2026", "card", record.thumbprint, record.thumbprint[:6]):
        assert store.state.find(name) == record


@pytest.mark.parametrize("name", ["", "absent", "card-2026-x", "ard-2026"])
def test_no_other_name_finds_a_key(name, store, es256):
    """Not even the empty one, with which every kid begins."""
    store.add(PrivateKey.from_pkcs8_der(es256.to_pkcs8_der(), kid="card-2026"))

    with pytest.raises(StoreFault) as caught:
        store.state.find(name)

    assert caught.value.code == "keystore.unknown_key"


def test_an_ambiguous_beginning_finds_nothing_but_a_whole_kid_does(store, es256, another_es256):
    """The error lists who is meant."""
    store.add(PrivateKey.from_pkcs8_der(es256.to_pkcs8_der(), kid="card"))
    store.add(PrivateKey.from_pkcs8_der(another_es256.to_pkcs8_der(), kid="card-2"))

    assert store.state.find("card").kid == "card"
    with pytest.raises(StoreFault, match="card, card-2"):
        store.state.find("car")


# --- refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(lambda one, other: one, id="the same key"),
        pytest.param(
            lambda one, other: PrivateKey.from_pkcs8_der(one.to_pkcs8_der(), kid="new"),
            id="the same key under another kid",
        ),
        pytest.param(
            lambda one, other: PrivateKey.from_pkcs8_der(other.to_pkcs8_der(), kid=one.public.kid),
            id="another key under the same kid, which is also the thumbprint",
        ),
    ],
)
def test_a_key_or_kid_that_is_taken_is_refused(again, store, es256, another_es256):
    """Peers would find either of two keys; nothing is written."""
    store.add(es256)
    before = state_file(store).read_bytes()

    with pytest.raises(StoreFault) as caught:
        store.add(again(es256, another_es256))

    assert caught.value.code == "keystore.duplicate_key"
    assert state_file(store).read_bytes() == before
    assert [path.name for path in (store.path / "private").iterdir()] == [
        f"{es256.public.thumbprint}.key"
    ]


@in_each_store
def test_a_kid_cannot_be_the_thumbprint_of_another_key(store, es256, another_es256):
    """Else one name would stand for two keys."""
    store.add(PrivateKey.from_pkcs8_der(es256.to_pkcs8_der(), kid="card"))
    thief = PrivateKey.from_pkcs8_der(another_es256.to_pkcs8_der(), kid=es256.public.thumbprint)

    with pytest.raises(StoreFault) as caught:
        store.add(thief)

    assert caught.value.code == "keystore.duplicate_key"


def test_a_weak_passphrase_makes_nothing(store, es256):
    """The library holds the line as well, not only the prompt."""
    with pytest.raises(PassphraseFault) as caught:
        store.add(es256, passphrase=b"1234567")

    assert caught.value.code == "passphrase.unfit"
    assert not (store.path / "private").exists()


@in_each_store
def test_a_store_that_went_further_is_not_changed(store, es256, another_es256):
    """Compare and swap, for a change that was decided by what was read before."""
    store.add(es256, expect_generation=0)

    with pytest.raises(StoreFault) as caught:
        store.add(another_es256, expect_generation=0)

    assert caught.value.code == "keystore.changed"
    assert store.again().state.generation == 1


def test_a_store_that_is_held_is_busy(store, es256, monkeypatch):
    """After a short wait, not for ever."""
    monkeypatch.setattr(store_module, "LOCK_PATIENCE", 0.05)

    with (
        locked(store.path / ".lock", patience=0, busy=StoreFault("file.busy", "unused")),
        pytest.raises(StoreFault, match="another process"),
    ):
        store.add(es256)


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(lambda path: None, id="nothing"),
        pytest.param(lambda path: path.mkdir(), id="an empty directory"),
        pytest.param(lambda path: path.write_text(""), id="a file"),
    ],
)
def test_where_there_is_no_store_it_is_missing(prepare, tmp_path):
    """One code, whatever stands there instead."""
    prepare(tmp_path / "keys")

    with pytest.raises(StoreFault) as caught:
        DirectoryStore.open(tmp_path / "keys")

    assert (caught.value.code, caught.value.exit_status) == ("keystore.missing", 2)


def test_a_store_cannot_be_made_in_a_files_place(tmp_path):
    """A file where the directory belongs stays as it is."""
    (tmp_path / "keys").write_text("mine")

    with pytest.raises(FileFault) as caught:
        DirectoryStore.create(tmp_path / "keys")

    assert caught.value.code == "file.exists"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda whole: b"", id="empty"),
        pytest.param(lambda whole: whole[: len(whole) // 2], id="half-written"),
        pytest.param(lambda whole: whole + b"}", id="followed by something"),
        pytest.param(
            lambda whole: whole.replace(b'"format"', b'"format": 1, "format"'), id="twice"
        ),
        pytest.param(lambda whole: b"\xff" + whole, id="not UTF-8"),
        pytest.param(lambda whole: b"[]", id="a list"),
        pytest.param(lambda whole: b"{}", id="an empty object"),
    ],
)
def test_a_damaged_state_is_corrupt(content, store, es256):
    """A local fault with the file's path; adding to it is refused too, and changes nothing."""
    store.add(es256)
    damaged = content(state_file(store).read_bytes())
    state_file(store).write_bytes(damaged)

    for attempt in (lambda: DirectoryStore.open(store.path), lambda: store.add(es256)):
        with pytest.raises(StoreFault) as caught:
            attempt()
        assert (caught.value.code, caught.value.exit_status) == ("keystore.corrupt", 2)
        assert caught.value.path == str(state_file(store))

    assert state_file(store).read_bytes() == damaged


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("format", 0),
        ("format", "1"),
        ("format", True),
        ("generation", None),
        ("generation", -1),
        ("generation", True),
        ("generation", "1"),
        ("generation", 1.0),
        ("audit_head", "of a format to come"),
        ("keys", {}),
        ("keys", [1]),
        ("keys.0.state", "Active"),
        ("keys.0.state", 1),
        ("keys.0.roles", []),
        ("keys.0.roles", "card"),
        ("keys.0.roles", ["admin"]),
        ("keys.0.roles", ["card", "card"]),
        ("keys.0.roles", ["card", "root"]),
        ("keys.0.holder", 1),
        ("keys.0.custody", "file:private/other.key"),
        ("keys.0.custody", "file:../../etc/passwd"),
        ("keys.0.custody", "file:/etc/passwd"),
        ("keys.0.custody", 1),
        ("keys.0.created", "yesterday"),
        ("keys.0.created", "2026-11-21T12:00:00+00:00"),
        ("keys.0.created", "2026-1-2T12:00:00Z"),
        ("keys.0.kid", "a member of an older format"),
        ("keys.0.destroyed", True),
        ("keys.0.times.seen", 0),
        ("keys.0.times", None),
        ("keys.0.times", {"prepublished": STAMP}),
        ("keys.0.times.activated", "soon"),
        ("keys.0.times.retired", STAMP),
        ("keys.0.times.revoked", STAMP),
        ("keys.0.times.reborn", STAMP),
        ("keys.0.state", "retiring"),
        ("keys.0.revoked_because", "compromised"),
        ("keys.0.private", "elsewhere"),
        ("keys.0.private", "destroyed"),
        ("keys.0.times.destroyed", STAMP),
        ("audit.seq", 0),
        ("audit.digest", None),
        ("audit.digest", "A" * 64),
        ("publications", {}),
        ("publications", [{**PUBLICATION, "at": "now"}]),
        ("publications", [{**PUBLICATION, "kids": "k"}]),
        ("publications", [{**PUBLICATION, "max_age": -1}]),
        ("publications", [{**PUBLICATION, "cards": [{"name": "agent-card.json"}]}]),
        ("publications", [{**PUBLICATION, "more": 1}]),
        ("statements.release_seq", -1),
        ("statements.release", {"digest": "x", "previous": None}),
        ("statements.keyset", {"epoch": 1, "version": 1}),
        ("statements.keyset", {"epoch": 1, "version": 1, "digest": "x"}),
        ("keys.0.public", "none"),
        ("keys.0.public.x", "A" * 43),
        ("keys.0.public.alg", "RS256"),
        ("keys.0.public.d", "A" * 43),
        ("keys.0.public.x5c", []),
        ("keys.0.public.use", None),
    ],
)
def test_a_state_that_was_edited_wrongly_is_corrupt(path, value, store, es256):
    """Each member is checked, none is converted, and an unknown one is refused."""
    store.add(es256)
    edit_state(store, path, value)

    with pytest.raises(StoreFault) as caught:
        DirectoryStore.open(store.path)

    assert caught.value.code == "keystore.corrupt"
    assert "/" + path.split(".")[0] in caught.value.message


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
)
RECORD_PLACES = ["state", "roles", "custody", "created", "public", "times", "private", "kid"]


@given(st.sampled_from(RECORD_PLACES), JSON_VALUES)
def test_whatever_stands_in_a_record_no_foreign_exception_comes_out(es256, place, value):
    """The reader meets values of any type."""
    times, custody = KeyTimes(activated=NOON), file_custody(es256.public.thumbprint)
    record = KeyRecord(es256.public, "active", ("card",), custody, NOON, times=times)
    document = json.loads(dump_state(StoreState(1, (record,))))
    document["keys"][0][place] = value

    with pytest.raises(StoreFault) as caught:
        load_state(json.dumps(document).encode(), where="state")

    assert caught.value.code == "keystore.corrupt"


def test_two_active_keys_of_one_algorithm_are_corrupt(store, es256, another_es256):
    """Which of them signs is not guessed."""
    store.add(es256)
    store.add(another_es256)
    second = json.loads(state_file(store).read_bytes())["keys"][1]
    second["times"]["activated"] = STAMP
    edit_state(store, "keys.1", {**second, "state": "active"})

    with pytest.raises(StoreFault, match="has two active keys"):
        DirectoryStore.open(store.path)


def test_a_whole_publication_is_read(store, es256):
    """The negative twin of the rows above."""
    store.add(es256)
    card = {"name": "agent-card.json", "url": None, "payload_sha256": "0" * 64, "kids": ["k"]}
    edit_state(store, "publications", [{**PUBLICATION, "cards": [card]}])

    (publication,) = load_state(state_file(store).read_bytes(), where="state").publications

    assert publication.cards[0].kids == ("k",)


def test_another_public_half_under_the_same_record_is_corrupt(store, es256, another_es256):
    """Its private key lies under the thumbprint."""
    store.add(es256)
    edit_state(store, "keys.0.public", {**another_es256.public.jwk(), "kid": es256.public.kid})

    with pytest.raises(StoreFault, match="not the file of this key"):
        DirectoryStore.open(store.path)


def test_one_key_twice_is_corrupt(store, es256):
    """Which of the two states would hold is not guessed."""
    store.add(es256)
    (key,) = json.loads(state_file(store).read_bytes())["keys"]
    edit_state(store, "keys", [key, {**key, "state": "revoked"}])

    with pytest.raises(StoreFault) as caught:
        DirectoryStore.open(store.path)

    assert caught.value.code == "keystore.corrupt"


def test_a_newer_store_is_left_alone(store, es256):
    """Neither read nor added to."""
    edit_state(store, "format", 4)

    for attempt in (lambda: DirectoryStore.open(store.path), lambda: store.add(es256)):
        with pytest.raises(StoreFault) as caught:
            attempt()
        assert caught.value.code == "keystore.newer_format"


def test_a_directory_in_the_states_place_is_named(store):
    """It is not mistaken for an absent store."""
    state_file(store).unlink()
    state_file(store).mkdir()

    with pytest.raises(FileFault) as caught:
        DirectoryStore.open(store.path)

    assert caught.value.code == "file.unreadable"


# --- private keys -----------------------------------------------------------------------


def move_away(path: Path, store: DirectoryStore) -> None:
    path.rename(path.with_suffix(".away"))


def link(path: Path, store: DirectoryStore) -> None:
    move_away(path, store)
    path.symlink_to(path.with_suffix(".away"))


def make_directory(path: Path, store: DirectoryStore) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("tamper", "code"),
    [
        pytest.param(move_away, "file.not_found", id="missing"),
        pytest.param(link, "file.not_plain", id="a link"),
        pytest.param(make_directory, "file.unreadable", id="a directory"),
        pytest.param(lambda path, _: path.write_bytes(b"{"), "keystore.corrupt", id="damaged"),
    ],
)
def test_a_private_half_that_is_not_safe_to_use_is_refused(tamper, code, store, es256):
    """Before the passphrase is spent on it."""
    record = store.add(es256)
    tamper(private_file(store, es256), store)

    with pytest.raises(CardsignError) as caught:
        store.signer(record, PASSPHRASE)

    assert (caught.value.code, caught.value.exit_status) == (code, 2)


def test_a_fresh_checkout_signs(store, es256):
    """git keeps no mode 0600, and the passphrase protects the file."""
    record = store.add(es256)
    private_file(store, es256).chmod(0o644)

    assert store.signer(record, PASSPHRASE).public == es256.public


@in_each_store
def test_a_wrong_passphrase_opens_no_private_half(store, es256):
    """And says so."""
    record = store.add(es256)

    with pytest.raises(PassphraseFault) as caught:
        store.signer(record, b"incorrect horse")

    assert caught.value.code == "passphrase.wrong"


def test_private_files_cannot_be_swapped(store, es256, another_es256):
    """Each opens, but as what it is."""
    record = store.add(es256)
    store.add(another_es256)
    private_file(store, another_es256).replace(private_file(store, es256))

    with pytest.raises(SignerFault) as caught:
        store.signer(record, PASSPHRASE)

    assert caught.value.code == "signer.wrong_key"


@pytest.mark.parametrize(
    ("pkcs8", "label"),
    [
        pytest.param(
            lambda own, other: other.to_pkcs8_der(),
            lambda own: own.public,
            id="another key, labelled as ours",
        ),
        pytest.param(
            lambda own, other: b"junk", lambda own: own.public, id="no key, labelled as ours"
        ),
        pytest.param(
            lambda own, other: own.to_pkcs8_der(),
            lambda own: PrivateKey.from_pkcs8_der(own.to_pkcs8_der(), kid="another").public,
            id="our key, labelled with another kid",
        ),
    ],
)
def test_what_an_envelope_holds_must_be_its_label_and_our_record(
    pkcs8, label, store, es256, another_es256
):
    """The label is compared, and so is the public key derived from the private one."""
    record = store.add(es256)
    envelope = seal(pkcs8(es256, another_es256), PASSPHRASE, label(es256))
    private_file(store, es256).write_bytes(envelope)

    with pytest.raises(SignerFault) as caught:
        store.signer(record, PASSPHRASE)

    assert caught.value.code == "signer.wrong_key"


@in_each_store
def test_nothing_shows_a_secret(store, es256, caplog, capfd):
    """Neither repr nor log, output or error holds the private key or the passphrase."""
    caplog.set_level(logging.DEBUG)
    record = store.add(es256)
    signer = store.signer(record, PASSPHRASE)
    shown = [repr(signer), repr(record), repr(store), repr(store.state)]
    for attempt in (
        lambda: store.add(es256),
        lambda: store.add(es256, passphrase=PASSPHRASE[:7]),
        lambda: store.signer(record, PASSPHRASE + b"x"),
    ):
        with pytest.raises(CardsignError) as caught:
            attempt()
        shown.append("".join(traceback.format_exception(caught.value)))
    output = capfd.readouterr()
    everything = "\n".join([*shown, caplog.text, output.out, output.err])

    der = es256.to_pkcs8_der()
    scalar = der[36:68]  # RFC 5915: the 32 bytes of d in a P-256 key
    assert PrivateKey.from_pkcs8_der(der).public == es256.public
    for secret in (PASSPHRASE.decode(), scalar.hex(), base64url.encode(scalar), repr(scalar)[2:-1]):
        assert secret not in everything


# --- crashes and races --------------------------------------------------------------------


CALLS = ("open", "write", "fsync", "replace", "mkdir", "unlink")


def fail_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Let the system call of this number fail, and those after it; returns what was called."""
    called: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            called.append(name)
            if len(called) > step:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments, **named)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
    return called


def test_whichever_step_fails_the_store_stays_whole(
    tmp_path, store, es256, another_es256, monkeypatch
):
    """Before the replace the old state stands, after it the new one; and a retry succeeds."""
    outcomes = []
    for step in range(100):
        store = type(store).create(tmp_path / str(step))
        store.add(es256)
        with monkeypatch.context() as patch:
            called = fail_at(patch, step)
            try:
                store.add(another_es256)
            except FileFault:
                pass
            else:
                break
        reopened = check_whole(store.path)
        assert len(reopened.state.keys) == (2 if "replace" in called[:step] else 1)
        outcomes.append(len(reopened.state.keys))
        if outcomes[-1] == 1:
            store.add(another_es256)
            assert len(check_whole(store.path).state.keys) == 2

    assert set(outcomes) == {1, 2}
    assert len(outcomes) == len(called)


def test_the_private_half_is_durable_before_the_state_names_it(store, es256, monkeypatch):
    """So a power cut leaves no reference to nothing."""
    called = fail_at(monkeypatch, 10**6)

    store.add(es256)

    before_commit = called[: called.index("replace")]
    # private/ and the store's directory; the private file and private/; the log and the store's
    # directory again; the new state.
    assert before_commit.count("fsync") == 6
    assert called[-1] == "fsync"


def test_a_private_half_that_no_state_names_does_not_stand_in_the_way(store, es256):
    """It was left by a crash, perhaps in part, and belongs to nobody."""
    store.path.joinpath("private").mkdir(mode=0o700)
    private_file(store, es256).write_bytes(b"half of an env")

    store.add(es256)

    assert len(check_whole(store.path).state.keys) == 1


def add_keys(path: Path, count: int) -> list[str]:
    """Add keys to the store at `path`; run in a process of its own."""
    store = DirectoryStore.create(path, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        cheap_envelopes(patch)
        return [
            store.add_key(PrivateKey.generate("ES256"), PASSPHRASE, now=NOON).kid
            for _ in range(count)
        ]


def test_two_processes_lose_no_key(tmp_path):
    """Each generation is one key more, by any host; one key alone became active."""
    path = tmp_path / "keys"
    with ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        added = [kid for kids in pool.map(add_keys, [path] * 2, [20] * 2) for kid in kids]

    store = check_whole(path)

    assert store.state.ever_held_kids() == set(added)
    assert store.state.generation == len(added) == 40
    assert len(store.state.active_keys()) == 1


def test_a_process_that_is_killed_leaves_a_whole_store(tmp_path):
    """At whatever moment; the lock dies with it."""
    path = tmp_path / "keys"
    add_keys(path, 1)
    sizes = []
    for attempt in range(5):
        process = SPAWN.Process(target=add_keys, args=(path, 10**6))
        process.start()
        generation = DirectoryStore.open(path).state.generation
        while process.is_alive() and DirectoryStore.open(path).state.generation == generation:
            time.sleep(0.01)
        time.sleep(0.003 * attempt)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        sizes.append(len(check_whole(path).state.keys))

    assert sizes == sorted(set(sizes))
    add_keys(path, 1)
    assert len(check_whole(path).state.keys) == sizes[-1] + 1


# --- where the store is -------------------------------------------------------------------


@pytest.mark.parametrize("create", [False, True])
def test_a_store_in_the_usual_place_needs_no_name(create, tmp_path):
    """It is taken whether or not one may be made."""
    DirectoryStore.create(tmp_path / "keys")

    assert locate_keystore(tmp_path, create=create) == tmp_path / "keys"


def test_a_store_is_made_among_a_repositorys_own_keys(tmp_path):
    """Its `keys/` is no store until one is made in it, whatever else lies there."""
    (tmp_path / "keys" / "keyset").mkdir(parents=True)
    (tmp_path / "keys" / "README.md").write_text("public keys")

    with pytest.raises(StoreFault) as caught:
        locate_keystore(tmp_path)
    DirectoryStore.create(locate_keystore(tmp_path, create=True))

    assert caught.value.code == "keystore.missing"
    assert locate_keystore(tmp_path) == tmp_path / "keys"
    assert (tmp_path / "keys" / "README.md").read_text() == "public keys"


@pytest.mark.parametrize("part", ["audit.jsonl", "private", "statements"])
def test_no_store_is_made_over_the_parts_of_one(part, tmp_path):
    """Its state was lost, or a stranger has laid them there for the new store to take up."""
    (tmp_path / "keys" / part).mkdir(parents=True)

    with pytest.raises(StoreFault) as caught:
        locate_keystore(tmp_path, create=True)

    assert caught.value.code == "keystore.missing"
    assert part in caught.value.message
    assert "cardsign keys generate --keystore DIR" in caught.value.hint


def test_the_default_is_there_for_the_first_key(tmp_path):
    """`keys generate` in an empty place needs no option; reading does need a store."""
    assert locate_keystore(tmp_path, create=True) == tmp_path / "keys"

    with pytest.raises(StoreFault) as caught:
        locate_keystore(tmp_path)

    assert caught.value.code == "keystore.missing"


def test_a_damaged_default_is_not_passed_over(tmp_path):
    """It is a store, which :meth:`DirectoryStore.open` will complain about."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "keystore.json").symlink_to("absent")

    assert locate_keystore(tmp_path) == tmp_path / "keys"
