"""Every source of the corpus becomes a sound card, or is refused for what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardsign import JwkSet, PrivateKey, build_card, lint_card, sign_card, verify_card
from cardsign.errors import BuildRefused
from tests.build.corpus_sources import SAID, URL, WITH, sources

#: What a refusal may say: a fact is missing that no rule fills, or the file is none of its format.
CODES = {"build.missing", "build.reference", "build.syntax"}


@pytest.mark.needs_shared
def test_every_source_is_built_or_refused_for_what_is_missing(
    shared: Path, alice: PrivateKey
) -> None:
    """A card that is built has no error of lint, is signed, and verifies."""
    corpus = shared / "corpus/sources"
    built, refusals = 0, []
    for name in sources(corpus):
        files = [corpus / file for file in (name, *WITH.get(name, ()))]
        try:
            card = build_card(*files, url=URL, members=SAID.get(name)).document
        except BuildRefused as refused:
            refusals.append(refused.code)
            continue
        built += 1
        errors = [finding for finding in lint_card(card) if finding.severity == "error"]
        assert errors == [], name
        verify_card(sign_card(card, alice), jwks=JwkSet.of([alice.public]))
    assert built >= 50
    assert built + len(refusals) > 80
    assert set(refusals) == CODES
