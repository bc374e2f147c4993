"""Every card, manifest and envelope of the five seed files is taken through the toolkit.

The blocks are cut out of the pages as they stand there. `seeds.toml` says of each what it is and
what becomes of it, so a block that is new, missing or treated in another way fails a test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cardsign import lint_card, sign_card, verify_card
from cardsign.contract import check_envelope
from cardsign.diff import diff_cards
from cardsign.errors import CardsignError, JsonRefused
from cardsign.inspect import inspect_card
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.lint.rules import LintSettings
from tests.build.making import URL, built
from tests.support import read_cases

pytestmark = pytest.mark.needs_shared

#: A page that was copied without its indentation; what YAML needs is put back.
INDENTED = {
    **dict.fromkeys(("name:", "annotations:", "agents:", "a2a:"), "  "),
    **dict.fromkeys(("orloj.dev/description:", "-", "enabled:"), "    "),
}
NOT_JSON = "build.syntax: expected a"  # `...` stands where a value or a name would
BLOCKS: dict[tuple[str, int], tuple[str, str]] = {
    (page, int(line)): (kind, outcome)
    for page, blocks in read_cases(__file__).items()
    for line, (kind, outcome) in blocks.items()
}
CARDS = [at for at, row in BLOCKS.items() if row == ("card", "built")]
REFUSED = [at for at, row in BLOCKS.items() if row[0] != "envelope" and row[1] != "built"]
ENVELOPES = [at for at, row in BLOCKS.items() if row[0] == "envelope"]


class Block(NamedTuple):
    """What stands in a page."""

    suffix: str
    text: str


def blocks_of(page: Path) -> Iterator[tuple[int, Block]]:
    """Every block of JSON, YAML and TOML with its line; lines of a bar alone are the copier's."""
    numbered = [
        one for one in enumerate(page.read_text(encoding="utf-8").split("\n"), 1) if one[1] != "|"
    ]
    text = "\n".join(line for _, line in numbered)
    fenced = list(re.finditer(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    rest = text
    for one in fenced:  # blanks in their place, so that offsets stay
        rest = rest.replace(one[0], re.sub(r"[^\n]", " ", one[0]))
    found = [(one.start(), one[1], one[2]) for one in fenced]
    at = 0
    while match := re.compile(r"^\{$|^apiVersion:.*?true(?=The)", re.S | re.M).search(rest, at):
        whole = match[0]
        if whole == "{":
            _, end = json.JSONDecoder().raw_decode(rest, match.start())
            whole = rest[match.start() : end]
        found.append((match.start(), "json" if whole[0] == "{" else "yaml", whole))
        at = match.start() + len(whole)
    for start, language, body in found:
        if language == "" and "{" in body:  # a message with its framing
            language, body = "json", body[body.index("{") :]
        if page.stem == "orloj" and language == "yaml":
            body = re.sub(r"(?m)^\S+", lambda one: INDENTED.get(one[0], "") + one[0], body)
        if language in ("json", "yaml", "toml"):
            yield numbered[text.count("\n", 0, start)][0], Block(f".{language}", body)


@pytest.fixture(scope="module")
def blocks(shared: Path) -> dict[tuple[str, int], Block]:
    """All of them, by page and line."""
    pages = sorted((shared / "seeds").glob("*.txt"))
    found = {(page.stem, line): block for page in pages for line, block in blocks_of(page)}
    assert found.keys() == BLOCKS.keys()
    return found


def name(at: tuple[str, int]) -> str:
    """An id for a test."""
    return f"{at[0]} line {at[1]}"


@pytest.mark.parametrize("version", ["0.2", "0.3", "1.0"])
@pytest.mark.parametrize("at", CARDS, ids=name)
def test_a_card_is_built_linted_signed_and_verified(
    at: tuple[str, int],
    version: str,
    blocks: dict[tuple[str, int], Block],
    alice: PrivateKey,
    tmp_path: Path,
) -> None:
    """In all forms; lint finds no error, but in 0.2, which holds only what the source says."""
    path = tmp_path / "card.json"
    path.write_text(blocks[at].text, encoding="utf-8")
    url = URL.replace("example.com", "harbour.example")
    card = built(path, url=url, a2a=version).document
    errors = {one.code for one in lint_card(card) if one.severity == "error"}
    assert errors <= ({"members.missing"} if version == "0.2" else set())
    verified = verify_card(sign_card(card, alice), jwks=JwkSet.of([alice.public]))
    given = json.loads(blocks[at].text)
    assert verified["name"] == given["name"]
    ids = [one.get("id") or one.get("skill_id") for one in given["skills"]]
    assert sorted(one["id"] for one in verified["skills"]) == sorted(ids)


@pytest.mark.parametrize("at", [at for at, row in BLOCKS.items() if row[0] == "card"], ids=name)
def test_no_card_breaks_a_reader(at: tuple[str, int], blocks: dict[tuple[str, int], Block]) -> None:
    """Each as it stands in the page: lint, explain and diff answer, or say that it is not JSON."""
    given = blocks[at].text.encode()
    rules = {one.code for one in lint_card(given, LintSettings(groups=("json", "members")))}
    assert inspect_card(given, jwks=None).to_json()
    is_json = not BLOCKS[at][1].startswith(NOT_JSON)
    assert ("json.syntax" in rules) is not is_json
    if is_json:
        assert diff_cards(given, given).changes == ()
    else:
        with pytest.raises(JsonRefused, match=r"json\.syntax"):
            diff_cards(given, given)


@pytest.mark.parametrize("at", REFUSED, ids=name)
def test_what_is_no_source_is_refused_with_its_reason(
    at: tuple[str, int], blocks: dict[tuple[str, int], Block], tmp_path: Path
) -> None:
    """The reason names what is missing, and the file."""
    path = tmp_path / f"source{blocks[at].suffix}"
    path.write_text(blocks[at].text, encoding="utf-8")
    with pytest.raises(CardsignError) as caught:
        built(path)
    assert f"{caught.value.code}: {caught.value.message}".startswith(BLOCKS[at][1])
    assert caught.value.path == str(path)


@pytest.mark.parametrize("at", ENVELOPES, ids=name)
def test_an_envelope_is_read_by_whatever_reads_it(
    at: tuple[str, int], blocks: dict[tuple[str, int], Block], alice: PrivateKey, tmp_path: Path
) -> None:
    """Tasks and responses are held against the seed's card; calls are none of them."""
    path = tmp_path / "card.json"
    path.write_text(blocks["bobs-brain", 628].text, encoding="utf-8")
    signed = sign_card(built(path).document, alice)
    card = verify_card(signed, jwks=JwkSet.of([alice.public]))
    body = blocks[at].text.encode()
    rules = sorted({one.code for one in check_envelope(body, card).findings})
    assert (" ".join(rules) or "kept") == BLOCKS[at][1]
