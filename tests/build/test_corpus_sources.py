"""Every source of the corpus becomes a sound card, or is refused for what it lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardsign import JwkSet, PrivateKey, build_card, lint_card, sign_card, verify_card
from cardsign.card.convert import convert_card
from cardsign.errors import BuildRefused
from tests.build.corpus_sources import SAID, URL, WITH, sources
from tests.build.making import built

#: What a refusal may say: a fact is missing that no rule fills, or the file is none of its format.
CODES = {"build.missing", "build.reference", "build.syntax"}


@pytest.mark.needs_shared
def test_every_source_is_built_or_refused_for_what_is_missing(
    shared: Path, alice: PrivateKey
) -> None:
    """A card that is built has no error of lint, is signed, and verifies."""
    corpus = shared / "corpus/sources"
    count, refusals = 0, []
    for name in sources(corpus):
        files = [corpus / file for file in (name, *WITH.get(name, ()))]
        try:
            card = build_card(*files, url=URL, members=SAID.get(name)).document
        except BuildRefused as refused:
            refusals.append(refused.code)
            continue
        count += 1
        errors = [finding for finding in lint_card(card) if finding.severity == "error"]
        assert errors == [], name
        verify_card(sign_card(card, alice), jwks=JwkSet.of([alice.public]))
    assert count >= 50
    assert count + len(refusals) > 80
    assert set(refusals) == CODES


@pytest.mark.needs_shared
def test_Q40_every_fact_of_a_source_is_in_its_card_of_0_2(shared: Path) -> None:
    """Of each manifest of the corpus: what the card of 1.0 says, the one of 0.2 says too."""
    manifests = sorted((shared / "corpus/sources").glob("openfang-agent-*.toml"))
    assert len(manifests) > 15
    for manifest in manifests:
        card = built(manifest)
        assert [*card.documents] == ["0.2"]
        old = convert_card(json.loads(card.document), "1.0")
        new = json.loads(built(manifest, a2a="1.0").document)
        for interface in (*old["supportedInterfaces"], *new["supportedInterfaces"]):  # type: ignore[misc]
            del interface["protocolVersion"]
        assert old == new, manifest.name
