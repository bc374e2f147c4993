"""What a run has found, for docs/reports/interop.md and docs/reports/interop.json."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from tests.interop.population import CLASSES
from tests.interop.roster import PROGRAMS, VERIFIERS
from tests.interop.trial import (
    ACCEPTED,
    ALL,
    CANNOT_PARSE,
    COUNTS,
    NO_PROFILE,
    NOTHING,
    OWN_PAYLOAD,
    Exceptions,
    Row,
)

#: What the programs that were asked say of themselves, by name.
Versions = Mapping[str, Mapping[str, Any]]


def record(versions: Versions, rows: Sequence[Row]) -> str:
    """Return how many cards of each class came to the same end, one such end a line."""
    head = json.dumps({"programs": versions, "verifiers": list(VERIFIERS)}, indent=1)
    ends = Counter(json.dumps(_end(row), separators=(",", ":")) for row in rows)
    lines = ",\n".join(f'{{"cards":{count},{end[1:]}' for end, count in ends.items())
    return f'{head[:-2]},\n "ends": [\n{lines}\n ]\n}}\n'


def _end(row: Row) -> dict[str, Any]:
    """What the tests hold the page against; nothing of what is in the cards."""
    if row.refused:
        return {"class": row.group, "not signed": row.refused}
    refusals = {v: why for v, why in sorted(row.judged.items()) if why != ACCEPTED}
    return {"class": row.group, "not accepted": refusals}


def parts(versions: Versions, rows: Sequence[Row], written: Exceptions) -> dict[str, list[str]]:
    """Return what the page counts."""
    signed = [row for row in rows if row.judged]
    others = [name for name in VERIFIERS if written.get(name)]
    return {
        "judges": [*_judges(versions)],
        "signed": [*_signed(rows), "", *_accepted(signed, list(VERIFIERS), "")],
        "exceptions": [*_exceptions(written)],
        "all compat": [*_accepted(signed, others, ALL)],
        "recognised": [*_recognised(rows)],
    }


def _judges(versions: Versions) -> Iterator[str]:
    yield from header("judge", "language", "package", "what is put to it", "what it verifies")
    for verifier in VERIFIERS.values():
        program, version = PROGRAMS[verifier.program], versions[verifier.program]
        package = f"{version['name']} {version['version']}"
        payload = f"`{verifier.payload}`"
        yield line(verifier.name, program.language, package, verifier.asked, payload)


def _signed(rows: Sequence[Row]) -> Iterator[str]:
    refused = Counter(row.refused for row in rows if row.refused)
    codes = ", ".join(f"`{code}` {count}" for code, count in refused.most_common())
    signed = sum(bool(row.judged) for row in rows)
    text = f"Of {len(rows):,} cards, cardsign signs {signed:,}. It refuses the others: {codes}."
    yield from prose(text)


def _accepted(signed: Sequence[Row], names: Sequence[str], suffix: str) -> Iterator[str]:
    classes = [name for name in CLASSES if any(row.group == name for row in signed)]

    def count(rows: Sequence[Row]) -> list[str]:
        counts = Counter(row.group for row in rows)
        return [*(str(counts[name]) for name in classes), f"{len(rows):,}"]

    yield from header("accepted by", *classes, "all", "of those it can use")
    yield line("*of those signed*", *count(signed), "")
    for name in names:
        outcomes = [row.judged[name + suffix] for row in signed]
        accepted = [row for row in signed if row.judged[name + suffix] == ACCEPTED]
        usable = sum(map(is_usable, outcomes))
        share = f"{100 * len(accepted) / usable:.1f} %" if usable else ""
        yield line(name, *count(accepted), share)


def is_usable(outcome: str) -> bool:
    """Return whether some signature could make the verifier accept a card that it can use."""
    return outcome != CANNOT_PARSE and not outcome.startswith("no endpoint")


_OTHER: Final = "another profile"
_REMEDIES: Final = {
    CANNOT_PARSE: "It cannot read the card, so no signature satisfies it",
    OWN_PAYLOAD: "Only one over a payload of its own does, which is no profile of ours",
    NOTHING: "No signature satisfies it",
}


def _remedy(why: str) -> str:
    """What would satisfy a verifier, as a sentence without its end."""
    if why in _REMEDIES:
        return _REMEDIES[why]
    if why.startswith("asks for "):
        return f"A signature of the profile `{why.removeprefix('asks for ')}` does"
    name = why.removeprefix("no endpoint in ")
    which = "over a payload of its own" if name == OWN_PAYLOAD else f"of the profile `{name}`"
    return f"One {which} would, but leaves no endpoint to build a client from"


def _exceptions(written: Exceptions) -> Iterator[str]:
    for name in VERIFIERS:
        whys = written.get(name, {})
        if whys:
            yield from [f"**{name}**", ""]
        for why, exception in whys.items():
            cards = f"{sum(exception['cards'].values()):,} cards"
            first, *rest = prose(f"{cards}: {exception['because']}. *{_remedy(why)}.*")
            yield f"* {first}"
            yield from (f"  {text}" for text in rest)
        if whys:
            yield ""
    yield f"{', '.join(name for name in VERIFIERS if not written.get(name))} accept all."


def _recognised(rows: Sequence[Row]) -> Iterator[str]:
    read = sum(bool(row.recognised) for row in rows)
    yield f"cardsign can read {read:,} of the cards:"
    yield ""
    yield from header("signed by", "cards", "counts", _OTHER, "no profile")
    for name in PROGRAMS:
        found = [row.recognised[name] for row in rows if name in row.recognised]
        kinds = Counter(end if end in (COUNTS, NO_PROFILE) else _OTHER for end in found)
        cells = (kinds.total(), *(kinds[kind] for kind in (COUNTS, _OTHER, NO_PROFILE)))
        yield line(name, *(f"{cell:,}" for cell in cells))


# ------------------------------------------------------------------ what pages are made of

_WIDTH: Final = 98  # columns of prose, without the indent of an item


def fill(text: str, parts: Mapping[str, Iterable[str]]) -> str:
    """Return a page with the lines of each part after its comment, ``<!-- NAME -->``."""
    for name, lines in parts.items():
        begin = f"<!-- {name} -->\n"
        assert text.count(begin) == 1, name
        body = "\n".join(lines)
        pattern = rf"{re.escape(begin)}.*?(?=\n<!-- end -->\n)"
        text = re.sub(pattern, lambda _: begin + body, text, flags=re.DOTALL)  # noqa: B023
    return text


def rewrite(page: Path, parts: Mapping[str, Iterable[str]]) -> None:
    """Fill a page."""
    page.write_text(fill(page.read_text("utf-8"), parts), encoding="utf-8")


def prose(text: str) -> list[str]:
    """Return the lines of a paragraph."""
    return wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def header(*names: str) -> tuple[str, str]:
    """Return the head of a table."""
    return line(*names), "|" + "---|" * len(names)


def line(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"
