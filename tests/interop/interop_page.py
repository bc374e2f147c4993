"""docs/reports/interop.md and docs/reports/interop.json, from what a run has found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any, Final

from tests.interop.exceptions import Exceptions
from tests.interop.judges import Version
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
    Row,
)

_WIDTH: Final = 98  # columns of prose, without the indent of an item


@dataclass(frozen=True, slots=True)
class Results:
    """What a run has found.

    Attributes:
        versions: Of the programs that it asked, by name.
        rows: One for each card, under ES256.
    """

    versions: Mapping[str, Version]
    rows: tuple[Row, ...]


def record(results: Results) -> str:
    """How many cards of each class came to the same end, one such end a line."""
    head = {
        "programs": {name: asdict(version) for name, version in results.versions.items()},
        "verifiers": list(VERIFIERS),
    }
    ends = Counter(json.dumps(_end(row), separators=(",", ":")) for row in results.rows)
    rows = ",\n".join(f'{{"cards":{count},{end[1:]}' for end, count in ends.items())
    return f'{json.dumps(head, indent=1)[:-2]},\n "ends": [\n{rows}\n ]\n}}\n'


def _end(row: Row) -> dict[str, Any]:
    """What the tests hold the page against; nothing of what is in the cards."""
    if row.refused:
        return {"class": row.group, "not signed": row.refused}
    refusals = {v: why for v, why in sorted(row.judged.items()) if why != ACCEPTED}
    return {"class": row.group, "not accepted": refusals}


# ------------------------------------------------------------------ the page


def page(results: Results, written: Exceptions) -> str:
    """The page, as people read it."""
    return _INTRODUCTION + "\n".join(
        [
            *_section("The judges", _judges(results.versions)),
            *_section("Our signatures, as they judge them", _ours(results)),
            *_section("What they do not accept, and why", _refusals(written)),
            *_section("With `--compat all`", _all(results, written)),
            *_section("Their signatures, as we judge them", _theirs(results.rows)),
            *_section(
                "Who is not among the judges",
                [_ABSENT],
            ),
        ]
    )


_INTRODUCTION: Final = """\
# Interoperability

`nox -s interop` writes this page, and fails where a number here is no longer true. How many cards
came to which end: [interop.json](interop.json).

Three kinds of cards are signed and put before verifiers that others wrote: real ones from public
repositories, ones made to provoke, and random ones, the same on every machine. A verifier
**accepts** a card if it finds one of its signatures good *and* what it has verified names an
endpoint, so that a client could be built from it. Each of them looks at all signatures of a card.

"""


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""]


def _judges(versions: Mapping[str, Version]) -> Iterator[str]:
    yield from header("judge", "language", "package", "what is put to it", "what it verifies")
    for verifier in VERIFIERS.values():
        program, version = PROGRAMS[verifier.program], versions[verifier.program]
        package = f"{version.name} {version.version}"
        payload = f"`{verifier.payload}`"
        yield line(verifier.name, program.language, package, verifier.asked, payload)
    yield ""
    yield from prose(
        "joserfc and jose are JOSE libraries: each runs a verifier of some fifty lines, such as "
        "people write by hand. [Profiles](../concepts/profiles.md) explains what each verifies."
    )


def _ours(results: Results) -> Iterator[str]:
    signed = [row for row in results.rows if row.judged]
    refused = Counter(row.refused for row in results.rows if row.refused)
    codes = ", ".join(f"`{code}` {count}" for code, count in refused.most_common())
    classes = [name for name in CLASSES if any(row.group == name for row in signed)]
    yield from prose(
        f"Of {len(results.rows):,} cards, cardsign signs {len(signed):,}. It refuses the others: "
        f"{codes}."
    )
    yield ""
    yield from _accepted(signed, classes, list(VERIFIERS), "")
    yield ""
    yield from prose(
        "A verifier *can use* a card if it can read the card and could build a client from its "
        "payload. No signature helps with the others."
    )


def _accepted(
    signed: Sequence[Row], classes: Sequence[str], names: Sequence[str], suffix: str
) -> Iterator[str]:
    yield from header("accepted by", *classes, "all", "of those it can use")
    yield line("*of those signed*", *_by_class(signed, classes), "")
    for name in names:
        outcomes = [(row, row.judged[name + suffix]) for row in signed]
        accepted = [row for row, outcome in outcomes if outcome == ACCEPTED]
        usable = sum(
            outcome != CANNOT_PARSE and not outcome.startswith("no endpoint")
            for _, outcome in outcomes
        )
        share = f"{100 * len(accepted) / usable:.1f} %" if usable else ""
        yield line(name, *_by_class(accepted, classes), share)


def _all(results: Results, written: Exceptions) -> Iterator[str]:
    signed = [row for row in results.rows if row.judged]
    classes = [name for name in CLASSES if any(row.group == name for row in signed)]
    yield from prose(
        "This makes one signature for each profile whose payload names an endpoint, whatever that "
        "leaves open. Verifiers that accepted all accept all again. What the others still refuse "
        "are the cards above that no signature of a profile helps."
    )
    yield ""
    yield from _accepted(signed, classes, [name for name in VERIFIERS if written.get(name)], ALL)


def _by_class(rows: Sequence[Row], classes: Sequence[str]) -> list[str]:
    counts = Counter(row.group for row in rows)
    return [*(str(counts[name]) for name in classes), f"{len(rows):,}"]


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


def _refusals(written: Exceptions) -> Iterator[str]:
    yield from prose(
        "These exceptions were written down before the run; it found them and no others. What "
        "would satisfy a verifier was tried: a signature of each profile alone, then one over the "
        "payload that the verifier says it makes."
    )
    for name in VERIFIERS:
        whys = written.get(name, {})
        if whys:
            yield from ["", f"**{name}**", ""]
        for why, exception in whys.items():
            cards = f"{sum(exception.cards.values()):,} cards"
            yield from _item(f"{cards}: {exception.because}. *{_remedy(why)}.*")
    content = [name for name in VERIFIERS if not written.get(name)]
    yield from ["", f"{', '.join(content)} accept all."]


def _theirs(rows: Sequence[Row]) -> Iterator[str]:
    read = sum(bool(row.recognised) for row in rows)
    yield from prose(
        f"Each judge signs what it can of the {read:,} cards that cardsign can read, and cardsign "
        "verifies that. A signature *counts* by default if it covers the whole card. One that fits "
        "another profile is reported with its name, and a policy may accept it. *No profile* means "
        "that the signature cannot be told from a bad one: a2a-js converts values or loses members "
        "named `__proto__`, a2a-protocol-types signs the card as its type `AgentCard` holds it, "
        "and a2a-sdk signs `null` where it finds nothing of its schema."
    )
    yield ""
    yield from header("signed by", "cards", "counts", "another profile", "no profile")
    for name in PROGRAMS:
        kinds = Counter(_kind(row.recognised[name]) for row in rows if name in row.recognised)
        cells = (kinds.total(), *(kinds[kind] for kind in (COUNTS, _OTHER, NO_PROFILE)))
        yield line(name, *(f"{cell:,}" for cell in cells))


def _kind(found: str) -> str:
    return found if found in (COUNTS, NO_PROFILE) else _OTHER


#: Libraries that were asked for and cannot judge, and why; looked into by hand.
_ABSENT: Final = """\
* **a2a-sdk** 0.3.24 to 0.3.26 and 1.0.0 to 1.1.3 (Python). It signs by rules of its own and does
  not know RFC 8785. Use 1.1.4 or newer.
* **a2a-protocol-types, its `AgentCard`** 0.15.0 (Rust). This type loses unknown members and those
  of 0.3. Verify the JSON as served instead.
* **a2a-go** 2.4.0 (Go). This newest release on the Go module proxy has no signing package.
* **a2a-java** 1.0.0.Alpha3 (Java). Neither this release nor the source of 1.2.0.Final makes or
  verifies signatures.
* **car-a2a** 0.60.0 (Rust). It builds only with D-Bus, CUDA's compiler and libclang."""


def prose(text: str) -> list[str]:
    return wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _item(text: str) -> Iterator[str]:
    first, *rest = prose(text)
    yield f"* {first}"
    yield from (f"  {line}" for line in rest)


def header(*names: str) -> tuple[str, str]:
    return line(*names), "|" + "---|" * len(names)


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
