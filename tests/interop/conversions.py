"""What converting a real card loses, by us and by the SDKs. It writes docs/reports/conversion.md.

A card is put into the other form by one of them, and back into its own by us, who lose nothing of
what A2A knows. What is then missing or another is what the first step lost. Signatures are left
out: they sign one form. So are values that a reader takes for absent, such as an empty list.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import judges
from samples import Sample, load_samples

from cardsign.card import FIELDS_URI, convert_card
from cardsign.errors import CardsignError

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reports/conversion.md"
#: From a card and the form that is wanted to the card in that form; None where it is refused.
Converter = Callable[[bytes, str], bytes | None]
DIRECTIONS = (("0.3", "1.0"), ("1.0", "0.3"))


class Row(NamedTuple):
    """One converter in one direction: cards, those refused, those that lose, and what they lose."""

    name: str
    cards: int
    refused: int
    lossy: int
    members: Counter[str]


def ours(card: bytes, to: str) -> bytes | None:
    """By cardsign."""
    return json.dumps(convert_card(json.loads(card), to).document).encode()  # type: ignore[arg-type]


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its pointer, but for those that stand for absence."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, f"{at}/{name}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, f"{at}/{index}")
    elif value not in (None, False, "", 0):
        yield at, value


def facts(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each value with its pointer; a list may change its order, and grow."""
    return ((re.sub(r"/\d+(?=/|$)", "/*", at), repr(value)) for at, value in leaves(card))


def cards_of(samples: tuple[Sample, ...], form: str) -> Iterator[dict[str, Any]]:
    """The real cards of a form, as A2A knows it and without signatures."""
    for sample in samples:
        if sample.group != f"real {form}" or sample.document is None:
            continue
        try:
            card = dict(convert_card(sample.document, form).document)  # type: ignore[arg-type]
        except CardsignError:
            continue
        card.pop("signatures", None)
        capabilities = card.get("capabilities") or {}
        others = [one for one in capabilities.get("extensions") or [] if one["uri"] != FIELDS_URI]
        yield {**card, "capabilities": {**capabilities, "extensions": others}}


def named(pointer: str) -> str:
    """The member of a pointer, whatever the name that a card gave to a scheme."""
    return re.sub(r"^/(securitySchemes)/[^/]+", r"/\1/*", pointer)


def row(name: str, convert: Converter, cards: list[dict[str, Any]], to: str, back: str) -> Row:
    """Have all cards converted."""
    refused = lossy = 0
    members: Counter[str] = Counter()
    for card in cards:
        made = convert(json.dumps(card).encode(), to)
        if made is None:
            refused += 1
            continue
        again = json.loads(ours(made, back) or b"{}")
        lost = {named(at) for at, _ in (Counter(facts(card)) - Counter(facts(again)))}
        lossy += bool(lost)
        members.update(lost)
    return Row(name, len(cards), refused, lossy, members)


def rows(shared: Path, sdks: Mapping[str, Converter]) -> dict[str, list[Row]]:
    """What each does, by direction. a2a-js has no function for the way to 0.3."""
    samples = load_samples(shared)
    found = {}
    for source, to in DIRECTIONS:
        cards = list(cards_of(samples, source))
        found[f"{source} to {to}"] = [
            row(name, convert, cards, to, source)
            for name, convert in {"cardsign": ours, **sdks}.items()
            if to == "1.0" or "js" not in name
        ]
    return found


def page(found: Mapping[str, list[Row]]) -> str:
    """The report."""
    lines = [
        "# What conversion loses",
        "",
        "Real cards are converted to the other form, by cardsign and by the SDKs' own conversions,",
        "and back by cardsign. What is then missing or differs was lost. Signatures do not count.",
        "`python tests/interop/conversions.py` makes this page, and a test holds it.",
        "",
        "`a2a-sdk` has `a2a.compat.v0_3.conversions`. `@a2a-js/sdk` has `parseLegacyAgentCard`;",
        "its way to 0.3 stands inside `legacyAgentCardRouter`, and no function for it is exported.",
        "Both refuse a 0.3 card that lacks a required member. Neither gives a 0.3 card where no",
        "interface of the 1.0 card speaks 0.3.",
    ]
    for direction, made in found.items():
        lines += ["", f"## {direction}", ""]
        lines += [
            "| by | cards | refused | lose something | members, with the cards that lose them |"
        ]
        lines += ["|---|---|---|---|---|"]
        for one in made:
            members = ", ".join(f"`{name}` {count}" for name, count in sorted(one.members.items()))
            lines.append(f"| {one.name} | {one.cards} | {one.refused} | {one.lossy} | {members} |")
    return "\n".join(lines) + "\n"


def main(shared: Path) -> None:
    """Write the report."""
    with judges.a2a_sdk() as py, judges.a2a_js() as js:
        found = rows(shared, {"a2a-sdk": py.convert, "@a2a-js/sdk": js.convert})
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
