"""`cardsign lint`: status, streams, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cardsign.lint import TARGETS
from tests.cli.conftest import Cardsign
from tests.support import LAX, PORTABLE, WITH_DEFAULTS, put, without

WITHOUT_SCHEMES = without(PORTABLE, "/securitySchemes")


def card(name: str, document: Any) -> str:
    """A card in the working directory."""
    Path(name).write_text(json.dumps(document), encoding="utf-8")
    return name


@pytest.mark.parametrize("target", TARGETS)
def test_a_clean_card(cardsign: Cardsign, target: str) -> None:
    """Status 0 and one line; the same on standard input."""
    name = card("card.json", WITHOUT_SCHEMES)

    assert cardsign("lint", name, "--for", target).text == f"clean: card.json, for {target}\n"
    ended = cardsign("lint", "-", "--for", target, stdin=Path(name).read_bytes())
    assert (ended.status, ended.err) == (0, "")


def test_findings_for_a_person(cardsign: Cardsign) -> None:
    """Status 1; each rule once, with its places, why and what to do."""
    ended = cardsign("lint", card("card.json", put(LAX, "/x-lock", 1)))
    lines = ended.text.splitlines()

    assert ended.status == 1
    assert lines[0] == "5 findings: card.json, for portable; --fix fixes 1"
    assert [line for line in lines if line.startswith("    /")] == [
        "    /securityRequirements/0/schemes/harbour/list  is []",
        "    /skills/0/examples  is [], its default",
        '    /iconUrl  is ""',
        "    /x-berth  A2A 1.0 defines no such member here",
        "    /x-lock  A2A 1.0 defines no such member here",
    ]
    rules = [line for line in lines if line.startswith("  portable.")]
    assert len(rules) == len(set(rules)) == 4
    assert [line[:10] for line in lines].count("      why ") == 4
    assert [line[:10] for line in lines].count("      fix ") == 4
    assert max(map(len, lines)) <= 100


def test_many_places_of_one_rule(cardsign: Cardsign) -> None:
    """Some are shown and the rest counted; --json has all."""
    name = card("card.json", {**PORTABLE, **{f"x-{index}": 1 for index in range(20)}})
    shown = cardsign("lint", name).text

    assert shown.count("    /x-") + 14 == 20
    assert "    and 14 more; see --json" in shown
    assert len(cardsign("lint", name, "--json").json["findings"]) == 20


def test_a_single_finding_is_one(cardsign: Cardsign) -> None:
    """In the singular, and without an offer to fix it."""
    ended = cardsign("lint", card("card.json", PORTABLE), "--for", "js-resolver")

    assert ended.status == 1
    assert ended.text.startswith("1 finding: card.json, for js-resolver\n")


def test_the_cards_own_words_are_escaped(cardsign: Cardsign) -> None:
    """No name in a card moves the cursor."""
    ended = cardsign("lint", card("card.json", {**PORTABLE, "\x1b[2J\u202e": 1}))

    assert "\\u{1b}[2J\\u{202e}" in ended.text
    assert "\x1b" not in ended.text


def test_findings_for_a_program(cardsign: Cardsign) -> None:
    """The target, whether it is clean, and each finding whole."""
    ended = cardsign("lint", card("card.json", put(PORTABLE, "/iconUrl", "")), "--json")
    (finding,) = ended.json["findings"]

    assert ended.status == 1
    assert set(ended.json) == {"for", "clean", "findings"}
    assert (ended.json["for"], ended.json["clean"]) == ("portable", False)
    assert (finding["rule"], finding["path"]) == ("portable.empty-value", "/iconUrl")
    assert set(finding) == {"rule", "path", "message", "why", "fix", "fixable"}


def test_a_card_is_fixed(cardsign: Cardsign) -> None:
    """Status 0 where nothing is left; the fixed card lints clean."""
    name = card("card.json", WITH_DEFAULTS)
    ended = cardsign("lint", name, "--fix", "-o", "fixed.json")

    assert (ended.status, ended.text) == (0, "clean: card.json, for portable\n")
    assert ended.err == "cardsign: fixed 2 findings\n"
    assert json.loads(Path("fixed.json").read_bytes()) == PORTABLE
    assert cardsign("lint", "fixed.json").status == 0
    assert json.loads(Path(name).read_bytes()) == WITH_DEFAULTS


def test_a_card_is_fixed_in_part(cardsign: Cardsign, signed: Path) -> None:
    """Status 1 for what is left; signatures that no longer fit are off, and that is said."""
    ended = cardsign("lint", signed, "--fix", "-o", "fixed.json", "--json")
    fixed = json.loads(Path("fixed.json").read_bytes())

    assert ended.status == 1
    assert "sign it again" in ended.err
    assert fixed == without(LAX, "/skills/0/examples")
    assert [one["path"] for one in ended.json["fixed"]] == ["/skills/0/examples"]
    assert len(ended.json["findings"]) == 3
    assert ended.json["signatures_removed"] == len(json.loads(signed.read_bytes())["signatures"])


def test_a_card_with_nothing_to_fix(cardsign: Cardsign, signed: Path) -> None:
    """It arrives byte for byte, signatures and all."""
    document = json.dumps({**PORTABLE, "signatures": [{}]}).encode()
    ended = cardsign("lint", "-", "--fix", "-o", "-", stdin=document)

    assert (ended.status, ended.out) == (0, document)
    assert ended.err == "cardsign: fixed 0 findings\nclean: -, for portable\n"


CONFLICTS = {
    "--fix to nowhere": ("--fix",),
    "a place and nothing for it": ("-o", "out.json"),
    "two things on one stream": ("--fix", "-o", "-", "--json"),
    "an unknown target": ("--for", "everybody"),
}


@pytest.mark.parametrize("options", CONFLICTS.values(), ids=CONFLICTS)
def test_options_that_do_not_fit(cardsign: Cardsign, options: tuple[str, ...]) -> None:
    """Status 2, and nothing is written."""
    ended = cardsign("lint", card("card.json", WITH_DEFAULTS), *options)

    assert (ended.status, ended.results) == (2, b"")
    assert not Path("out.json").exists()


@pytest.mark.parametrize("options", [(), ("--fix", "-o", "out.json")], ids=["lint", "fix"])
def test_what_cannot_be_read_one_way_only(cardsign: Cardsign, options: tuple[str, ...]) -> None:
    """Status 1 with the reader's code, and nothing is written."""
    ended = cardsign(
        "lint", card("card.json", {**PORTABLE, "icon_url": "", "iconUrl": ""}), *options
    )

    assert (ended.status, ended.out) == (1, b"")
    assert "card.two_spellings" in ended.err
    assert not Path("out.json").exists()
