"""Real cards as sources; ``cli/transcripts/build-card.txt`` has the rules, each with a card."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from cardsign.card.convert import convert_card
from cardsign.card.extensions import FIELDS_URI
from cardsign.errors import BuildRefused
from tests.build.making import Write, built
from tests.support import PORTABLE

pytestmark = pytest.mark.needs_shared


@pytest.mark.parametrize("name", ["001", "015", "091", "151", "257", "259"])
def test_B33_every_spelling_of_the_corpus_is_mapped(shared: Path, name: str) -> None:
    """Those that say `none` or `required: false` are open, the others are not."""
    given = json.loads((shared / f"corpus/cards/{name}.json").read_bytes())
    given["skills"] = PORTABLE["skills"]
    card = convert_card(given, "1.0")
    assert ("securitySchemes" in card) == (name not in ("015", "259"))
    assert ("securityRequirements" in card) == ("securitySchemes" in card)


@pytest.mark.parametrize("name", ["239", "241", "249", "243"])
def test_B34_words_as_capabilities_and_nulls_are_accepted(
    shared: Path, tmp_path: Path, name: str
) -> None:
    """Words go to our extension, and what is null is left out."""
    path = tmp_path / "card.json"
    packed = shared / f"corpus/cards/{name}.json.gz"
    plain = shared / f"corpus/cards/{name}.json"
    path.write_bytes(
        gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
    )
    before = json.loads(path.read_bytes())
    card = json.loads(built(path).document)
    extensions = card["capabilities"]["extensions"]
    (ours,) = (one["params"] for one in extensions if one["uri"] == FIELDS_URI)
    assert ours["capabilities"] == before["capabilities"]
    assert None not in card.values()


def test_a_real_card_in_the_form_of_0_2_says_less(shared: Path, write: Write) -> None:
    """Of an API key a word does not say where it goes, so reading that back is refused."""
    card = built(shared / "corpus/cards/091.json", url=None)
    old = built(write("card.json", card.document.decode()), url=None, a2a="0.2")
    assert json.loads(old.document)["authentication"]["schemes"] == ["apiKey", "bearer"]
    assert "which say less" in " ".join(reason.message for reason in old.reasons)
    with pytest.raises(BuildRefused, match="it needs `in`"):
        built(write("old.json", old.document.decode()), url=None)


def test_an_interface_without_a_url_is_left_out(shared: Path, write: Write) -> None:
    """Of a real card, which has its url elsewhere; without any it is refused."""
    path = shared / "corpus/cards/001.json"
    card = built(path, url=None)
    urls = [one["url"] for one in json.loads(card.document)["supportedInterfaces"]]
    assert urls == ["https://api.suwappu.bot"]
    assert "the interface has no url" in [one.message for one in card.reasons]
    bare = {name: one for name, one in json.loads(path.read_bytes()).items() if name != "url"}
    with pytest.raises(BuildRefused, match="no source gives the card's supportedInterfaces"):
        built(write("bare.json", json.dumps(bare)), url=None)
