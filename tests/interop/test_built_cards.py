"""Every card that is built of a real source is one that the SDKs accept, once it is signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardsign import JwkSet, PrivateKey, build_card, sign_card
from cardsign.errors import CardsignError
from cardsign.sign import SigningOptions, sign_with_notes
from tests.build.corpus_sources import SAID, URL, WITH, WITHOUT_SCHEMES, sources
from tests.interop.judges import Finding, Judge


@pytest.fixture(scope="module")
def built(shared: Path, alice: PrivateKey) -> dict[str, dict[str, bytes]]:
    """By source and A2A version: the card, signed as by default."""
    corpus = shared / "corpus/sources"
    made: dict[str, dict[str, bytes]] = {}
    for name in sources(corpus):
        files = [corpus / one for one in (name, *WITH.get(name, ()))]
        try:
            card = build_card(*files, url=URL, members=SAID.get(name), a2a="both")
        except CardsignError:
            continue  # tests/build/test_corpus_sources.py lists these with their reasons
        made[name] = {key: sign_card(data, alice) for key, data in card.documents.items()}
    return made


def findings(
    built: dict[str, dict[str, bytes]], judge: Judge, version: str, keys: JwkSet
) -> dict[str, Finding]:
    """What a judge says of the cards of a version, by source."""
    path = "resolver" if version == "0.3" else "plain"
    return {name: judge.verify(one[version], keys, path=path) for name, one in built.items()}


def check(found: dict[str, Finding], refused: frozenset[str] | set[str] = frozenset()) -> None:
    """Each card makes a client, and its signature is accepted."""
    assert len(found) >= 50
    assert {name for name, one in found.items() if one.outcome != "accepted"} == refused
    assert [name for name, one in found.items() if not one.callable] == []


@pytest.mark.needs_shared
@pytest.mark.needs_judges("py")
def test_a2a_sdk_accepts_what_is_built(
    built: dict[str, dict[str, bytes]], sdk: Judge, alice: PrivateKey, bob: PrivateKey
) -> None:
    """And refuses it by another's key."""
    check(findings(built, sdk, "1.0", JwkSet.of([alice.public])))
    another = findings(built, sdk, "1.0", JwkSet.of([bob.public]))
    assert {one.outcome for one in another.values()} == {"refused"}


@pytest.mark.needs_shared
@pytest.mark.needs_judges("js")
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a2a_js_accepts_what_is_built(
    built: dict[str, dict[str, bytes]], js: Judge, alice: PrivateKey, bob: PrivateKey, version: str
) -> None:
    """The older card by its resolver, which converts it first; not by another's key."""
    refused = WITHOUT_SCHEMES if version == "0.3" else set[str]()
    check(findings(built, js, version, JwkSet.of([alice.public])), refused)
    another = findings(built, js, version, JwkSet.of([bob.public]))
    assert {one.outcome for one in another.values()} == {"refused"}


@pytest.mark.needs_shared
def test_signing_says_which_card_an_sdk_refuses(
    built: dict[str, dict[str, bytes]], alice: PrivateKey
) -> None:
    """That one, and no other."""
    options = SigningOptions()
    told = {
        name
        for name, one in built.items()
        for note in sign_with_notes(one["0.3"], [alice], options).notes
        if note.code == "sign.sdk_refuses"
    }
    assert told == WITHOUT_SCHEMES
