"""Every card that is built of a real source is one that the SDKs accept, once it is signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardsign import JwkSet, PrivateKey, build_card, sign_card
from cardsign.errors import CardsignError
from cardsign.sign import SigningOptions, sign_with_notes
from tests.build.corpus_sources import SAID, URL, WITH, WITHOUT_SCHEMES, sources
from tests.interop.judges import Judge, Path_


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


@pytest.mark.needs_shared
@pytest.mark.needs_judges
@pytest.mark.parametrize(
    ("name", "version", "refused"),
    [("sdk", "1.0", set[str]()), ("js", "1.0", set[str]()), ("js", "0.3", WITHOUT_SCHEMES)],
)
def test_an_sdk_accepts_what_is_built(
    built: dict[str, dict[str, bytes]],
    alice: PrivateKey,
    bob: PrivateKey,
    name: str,
    version: str,
    refused: set[str],
    request: pytest.FixtureRequest,
) -> None:
    """Each card makes a client, the older one by the resolver, which converts it; not by bob's."""
    judge: Judge = request.getfixturevalue(name)
    path: Path_ = "resolver" if version == "0.3" else "plain"
    assert len(built) >= 50
    ours, theirs = JwkSet.of([alice.public]), JwkSet.of([bob.public])
    accepted = {
        source: judge.verify(one[version], ours, path=path) for source, one in built.items()
    }
    assert {source for source, one in accepted.items() if one.outcome != "accepted"} == refused
    assert all(one.callable for one in accepted.values())
    others = {judge.verify(one[version], theirs, path=path).outcome for one in built.values()}
    assert others == {"refused"}


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
