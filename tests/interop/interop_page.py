"""docs/interop.md and docs/interop.json, from what a run has found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from exceptions import Exceptions
from judges import Version
from population import CLASSES
from roster import ABSENT, PROGRAMS, VERIFIERS
from trial import ACCEPTED, CANNOT_PARSE, CANNOT_SIGN, COUNTS, NO_PROFILE, NOTHING, OWN_PAYLOAD, Row


@dataclass(frozen=True, slots=True)
class Results:
    """What a run has found.

    Attributes:
        versions: Of the programs that it asked, by name.
        rows: One for each card, under ES256.
        rs256_cards: How many of them were signed and judged again under RS256.
        differing: The files for which that found anything else.
    """

    versions: Mapping[str, Version]
    rows: tuple[Row, ...]
    rs256_cards: int
    differing: tuple[str, ...]


def record(results: Results) -> str:
    """The results in full, one card a line; nothing of what is in the cards."""
    head = {
        "programs": {name: asdict(version) for name, version in results.versions.items()},
        "verifiers": list(VERIFIERS),
        "rs256": {"cards": results.rs256_cards, "differing": list(results.differing)},
    }
    rows = ",\n".join(json.dumps(_plain(row)) for row in results.rows)
    return f'{json.dumps(head, indent=1)[:-2]},\n "cards": [\n{rows}\n ]\n}}\n'


def _plain(row: Row) -> dict[str, Any]:
    plain: dict[str, Any] = {"card": row.file, "class": row.group}
    if row.refused:
        plain["not signed"] = row.refused
    else:
        plain["profiles"] = list(row.profiles)
        plain["not accepted"] = {v: why for v, why in row.judged.items() if why != ACCEPTED}
    return {**plain, "their signatures": dict(row.recognised)}


# ------------------------------------------------------------------ the page


def page(results: Results, written: Exceptions) -> str:
    """The page, as people read it."""
    return _INTRODUCTION + "\n".join(
        [
            *_section("The judges", _judges(results.versions)),
            *_section("Our signatures, as they judge them", _ours(results)),
            *_section("What they do not accept, and why", _refusals(written)),
            *_section("Their signatures, as we judge them", _theirs(results.rows)),
            *_section("Who is not among the judges", _absent()),
        ]
    )


_INTRODUCTION: Final = """\
# Interoperability

Written by `make interop`, which fails where a number here is no longer true. The same card by
card: [interop.json](interop.json).

Cards of three kinds are signed with cardsign's defaults and put before verifiers that others
wrote: real ones from public repositories, ones made to provoke, and random ones, of which each is
the same on every machine. A verifier **accepts** a card if it finds one of its signatures good
*and* what it has verified names an endpoint, so that a client could be built from it. Each of
these verifiers looks at all signatures of a card; one that checks a single given signature would
be asked signature by signature, and the table would say so.

"""


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""]


def _judges(versions: Mapping[str, Version]) -> Iterator[str]:
    yield from _header("judge", "language", "package", "asked through", "what it signs")
    for verifier in VERIFIERS.values():
        program, version = PROGRAMS[verifier.program], versions[verifier.program]
        package = f"{version.name} {version.version}"
        yield _line(verifier.name, program.language, package, verifier.asked, program.payload)
    yield ""
    yield "joserfc and jose are no SDKs: each runs a verifier of some hundred lines, as somebody"
    yield "writes it who has only the specification. [profiles.md](profiles.md) says what the names"
    yield "of the payloads mean."


def _ours(results: Results) -> Iterator[str]:
    signed = [row for row in results.rows if row.judged]
    yield f"Of {len(results.rows):,} cards we sign {len(signed):,}. The others we refuse to sign:"
    refused = Counter(row.refused for row in results.rows if row.refused)
    yield ", ".join(f"{count} × `{code}`" for code, count in refused.most_common()) + "."
    yield ""
    yield from _header("accepted by", *CLASSES, "all")
    yield _line("*signed by us*", *_by_class(signed))
    for name in VERIFIERS:
        accepted = [row for row in signed if row.judged[name] == ACCEPTED]
        yield _line(name, *_by_class(accepted))
    yield ""
    yield f"That is ES256. {results.rs256_cards} of these cards were tried with RS256 too, and"
    yield "every judge that knows it found the same; a2a-protocol-types does not know it."


def _by_class(rows: Sequence[Row]) -> list[str]:
    counts = Counter(row.group for row in rows)
    return [*(str(counts[name]) for name in CLASSES), f"{len(rows):,}"]


_REMEDIES: Final = {
    CANNOT_PARSE: "It cannot read the card: no signature could satisfy it",
    OWN_PAYLOAD: "Only a signature over a payload of its own would do, which is no profile of ours",
    NOTHING: "No signature could satisfy it",
}


def _remedy(why: str) -> str:
    """What would satisfy a verifier, as a sentence without its end."""
    if why in _REMEDIES:
        return _REMEDIES[why]
    if why.startswith("asks for "):
        return f"A signature over its `{why.removeprefix('asks for ')}` payload does"
    name = why.removeprefix("no endpoint in ")
    payload = "its own payload" if name == OWN_PAYLOAD else f"the `{name}` payload"
    return f"One over {payload} would, but names no endpoint to build a client from"


def _refusals(written: Exceptions) -> Iterator[str]:
    yield "These exceptions were written down before the run, with their numbers; it has found them"
    yield "and no others. What would satisfy a verifier was tried: each of our profiles alone, then"
    yield "the verifier's own payload."
    for name in VERIFIERS:
        yield ""
        whys = written.get(name, {})
        if not whys:
            yield f"**{name}** accepts all."
            continue
        yield f"**{name}**"
        yield ""
        for why, one in whys.items():
            classes = ", ".join(f"{group} {count}" for group, count in one.cards.items())
            yield f"- {sum(one.cards.values())} cards ({classes}): {one.because}."
            yield f"  {_remedy(why)}."


def _theirs(rows: Sequence[Row]) -> Iterator[str]:
    read = [row for row in rows if row.recognised]
    yield f"Each judge signs what it can of the {len(read):,} cards that we can read; we verify it."
    yield "A signature *counts* by default if it covers the whole card. If it fits the payload of a"
    yield "profile that does not, we say which (`other-profile`), and a policy may accept the lossy"
    yield "ones. *No profile* means that we cannot tell such a signature from a bad one."
    yield ""
    yield from _header("signed by", "cards", "counts", "other profile", "no profile", "not read")
    for name in PROGRAMS:
        yield _line(name, *_tally([row.recognised[name] for row in read if name in row.recognised]))


def _tally(found: Sequence[str]) -> list[str]:
    signed = [one for one in found if one != CANNOT_SIGN]
    kinds = Counter(_kind(one) for one in signed)
    return [str(len(signed)), *(str(kinds[kind]) for kind in (COUNTS, "other", NO_PROFILE, "code"))]


def _kind(found: str) -> str:
    if found in (COUNTS, NO_PROFILE):
        return found
    return "code" if found.startswith(("card.", "json.", "sig.")) else "other"


def _absent() -> Iterator[str]:
    for one in ABSENT:
        yield f"- **{one.name}** ({one.language}, {one.version}). {one.why}"


def _header(*names: str) -> tuple[str, str]:
    return _line(*names), "|" + "---|" * len(names)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
