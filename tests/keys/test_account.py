"""A state that was edited says something else than its log; one that was not never does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cardsign.jose import PrivateKey
from cardsign.keys import (
    DEFAULT_SETTINGS,
    AuditEvent,
    KeyRecord,
    StoreState,
    dump_state,
    examine_store,
    verify_chain,
)
from cardsign.keys.account import differences
from cardsign.statements import KeysetId
from tests.keys.conftest import in_each_store
from tests.keys.lives import NOON, QUICK, after, public, published


@pytest.fixture
def lived(store: Any, es256: PrivateKey, another_es256: PrivateKey) -> Any:
    """`one` is revoked, `two` active, `three` waits in outside custody; all were published."""
    for kid, private in (("one", es256), ("two", another_es256)):
        store.add(PrivateKey.from_pkcs8_der(private.to_pkcs8_der(), kid=kid), now=NOON)
    store.record_publication(published(after(9), ["one", "two"]), now=after(20))
    store.activate("two", now=after(220), settings=QUICK)
    store.revoke("one", reason="compromised", now=after(230))
    store.add_remote_key(public("three"), "exec:/usr/local/bin/sign", now=after(240))
    store.record_publication(published(after(241), ["two", "three"], generation=2), now=after(242))
    store.keep_keyset(KeysetId(1, 1, "0" * 64), [], now=after(250))
    return store


def told(store: Any, state: StoreState) -> tuple[str, ...]:
    """Where a state differs from the log of a store."""
    log = store.read_audit()
    return differences(state, verify_chain(log, state.audit, where="log"), log)


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[StoreState], StoreState]:
    """The state with one key edited."""
    return lambda state: state.replacing([change(state.find(name))])


def injected(state: StoreState) -> StoreState:
    """With a key that nobody has entered."""
    return state.with_key(
        replace(state.find("three"), public=public("four"), custody="exec:/tmp/theirs")
    )


def unrevoked(key: KeyRecord) -> KeyRecord:
    """As if it had been retired in good order."""
    retired = key.at("retired", revoked=None, retired=after(225), stops_signing=after(225))
    return replace(retired, revoked_because=None)


def backdated(state: StoreState) -> StoreState:
    """With an older publication than there was."""
    first, second = state.publications
    return replace(state, publications=(replace(first, at=after(1)), second))


@in_each_store
def test_a_state_that_nobody_has_edited_does_not_differ(lived) -> None:
    """Nor does one that publications were recorded in late, or that keys have left."""
    assert told(lived, lived.load()) == ()


EDITS: dict[str, tuple[Callable[[StoreState], StoreState], str]] = {
    "a revoked key that signs again": (
        changed("one", unrevoked),
        "key 'one' is revoked by the log, and retired by the state",
    ),
    "a theft that is called a replacement": (
        changed("one", lambda key: replace(key, revoked_because="superseded")),
        "revoked because compromised by the log, and superseded",
    ),
    "a key seen earlier than it was": (
        changed("three", lambda key: key.at(seen=after(1))),
        "key 'three' was seen since 2026-11-21T12:04:01Z by the log, and 2026-11-21T12:00:01Z",
    ),
    "a key activated earlier than it was": (
        changed("two", lambda key: key.at(activated=after(1))),
        "key 'two' was activated at",
    ),
    "a key that was moved to another's custody": (
        changed("three", lambda key: replace(key, custody="exec:/tmp/theirs")),
        "custody exec:/usr/local/bin/sign, and the state says exec:/tmp/theirs",
    ),
    "a key with one more role": (
        changed("three", lambda key: replace(key, roles=("card", "release"))),
        "was entered with the roles",
    ),
    "a key that nobody has entered": (injected, "no line of the log says it was entered"),
    "a key that is gone": (
        lambda state: replace(state, keys=state.keys[1:]),
        "the log tells of key 'one', and the state has none",
    ),
    "a publication of an earlier time": (
        backdated,
        "no line of the log tells of generation 1",
    ),
    "a publication that is gone": (
        lambda state: replace(state, publications=state.publications[:1]),
        "the newest publication of 'https://tides.example/a2a' is another",
    ),
    "a keyset that is forgotten": (
        lambda state: replace(state, statements=replace(state.statements, keyset=None)),
        "the newest keyset is 1.1 by the log, and None",
    ),
    "a generation beyond its line": (
        lambda state: replace(state, generation=state.generation + 1),
        "its line of the log of",
    ),
    "a log that is said to be none": (
        lambda state: replace(state, audit=type(state.audit)()),
        "the state names no line of the log, and there are some",
    ),
}


@pytest.mark.parametrize(("edit", "what"), EDITS.values(), ids=EDITS.keys())
def test_a_state_that_was_edited_differs_from_its_log(lived, edit, what) -> None:
    """And the sentence says in what."""
    assert any(what in one for one in told(lived, edit(lived.load())))


def test_a_release_that_was_signed_is_not_forgotten(lived) -> None:
    """The state may know of a later one, from what is published."""
    state = lived.load()
    signed = replace(state, statements=replace(state.statements, release_seq=3))
    event = AuditEvent("release.signed", None, {"seq": 3, "digest": "0" * 64})
    options = {"expect_generation": state.generation, "now": after(300), "envelopes": {}}
    state = lived.commit(signed, [event], **options)

    def of_number(seq: int) -> tuple[str, ...]:
        return told(lived, replace(state, statements=replace(state.statements, release_seq=seq)))

    assert of_number(3) == of_number(4) == ()
    assert of_number(2) == ("release 3 was signed by the log, and 2 is the state's",)


def test_a_store_that_is_older_than_its_log_is_not_accused(store, es256, another_es256) -> None:
    """Format 1 had no log: keys of that time have no line, and what became of them later has."""
    store.add(es256, now=NOON)
    store.add(another_es256, now=NOON)
    document = json.loads((store.path / "keystore.json").read_bytes())
    old = {"kid", "thumbprint", "alg", "state", "roles", "custody", "created", "public"}
    keys = [{name: key[name] for name in old} for key in document["keys"]]
    (store.path / "keystore.json").write_text(
        json.dumps({"format": 1, "generation": 2, "keys": keys})
    )
    (store.path / "audit.jsonl").unlink()

    assert told(store, store.load()) == ()
    store.revoke(es256.public.kid, reason="ceased", now=after(5))
    state = store.load()
    assert told(store, state) == ()
    edited = state.find(es256.public.kid).at("retired", revoked=None)
    assert told(store, state.replacing([replace(edited, revoked_because=None)])) != ()


def test_lines_that_do_not_say_of_which_series_they_are_accuse_nobody(lived) -> None:
    """As an earlier cardsign wrote them."""
    log, state = lived.read_audit(), lived.load()
    report = verify_chain(log, state.audit, where="log")
    names = ("cards", "generation", "kids")
    lines = tuple(
        replace(line, details={name: line.details[name] for name in names})
        if line.event == "publication-recorded"
        else line
        for line in report.lines
    )

    assert differences(state, replace(report, lines=lines), log) == ()


def test_doctor_raises_an_alarm_for_an_edit_and_for_nothing_else(lived) -> None:
    """With the code of it."""

    def differing() -> list[str]:
        found = examine_store(lived.again(), settings=DEFAULT_SETTINGS, now=after(400))
        return [one.level for one in found if one.code == "keystore.audit_differs"]

    assert differing() == []
    edited = changed("three", lambda key: key.at(seen=after(1)))(lived.load())
    (lived.path / "keystore.json").write_bytes(dump_state(edited))
    assert differing() == ["alarm"]
