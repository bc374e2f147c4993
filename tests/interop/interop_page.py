"""docs/reports/interop.md and docs/reports/interop.json, from what a run has found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any, Final

from exceptions import Exceptions
from judges import Version
from population import CLASSES
from roster import ABSENT, PROGRAMS, VERIFIERS
from trial import (
    ACCEPTED,
    ALL,
    CANNOT_PARSE,
    COUNTS,
    IGNORE_TYP,
    NO_PROFILE,
    NOTHING,
    OWN_PAYLOAD,
    SECURITY_LOST,
    Row,
)

_WIDTH: Final = 98  # columns of prose, without the indent of an item


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
    """How many cards of each class came to the same end, one such end a line."""
    head = {
        "programs": {name: asdict(version) for name, version in results.versions.items()},
        "verifiers": list(VERIFIERS),
        "rs256": {"cards": results.rs256_cards, "differing": list(results.differing)},
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
            *_section("What they do not accept, and why", _refusals(written, "")),
            *_section("With `--compat all`", _all(results, written)),
            *_section("Verifiers that ignore `typ`", _ignorant(results.rows)),
            *_section("Their signatures, as we judge them", _theirs(results.rows)),
            *_section("Who is not among the judges", _absent()),
        ]
    )


_INTRODUCTION: Final = """\
# Interoperability

Written by `make interop`, which fails where a number here is no longer true. How many
cards came to which end: [interop.json](interop.json).

Cards of three kinds are signed, by default and with `--compat all`, and put before verifiers that
others wrote: real ones from public repositories, ones made to provoke, and random ones, of which
each is the same on every machine. A verifier **accepts** a card if it finds one of its signatures
good *and* what it has verified names an endpoint, so that a client could be built from it. Each of
these verifiers looks at all signatures of a card; one that checks a single given signature would
be asked signature by signature, and the table would say so.

"""


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""]


def _judges(versions: Mapping[str, Version]) -> Iterator[str]:
    yield from _header("judge", "language", "package", "what is put to it", "what it verifies")
    for verifier in VERIFIERS.values():
        program, version = PROGRAMS[verifier.program], versions[verifier.program]
        package = f"{version.name} {version.version}"
        payload = f"`{verifier.payload}`"
        yield _line(verifier.name, program.language, package, verifier.asked, payload)
    yield ""
    yield from _prose(
        "joserfc and jose are no SDKs of A2A: each runs a verifier of some fifty lines, such as "
        "people write by hand. What is verified has the names of "
        "[our profiles](../concepts/profiles.md)."
    )


def _ours(results: Results) -> Iterator[str]:
    signed = [row for row in results.rows if row.judged]
    refused = Counter(row.refused for row in results.rows if row.refused)
    codes = ", ".join(f"`{code}` {count}" for code, count in refused.most_common())
    classes = [name for name in CLASSES if any(row.group == name for row in signed)]
    yield from _prose(
        f"Of {len(results.rows):,} cards we sign {len(signed):,}, which are judged. The others we "
        f"refuse to sign, for these reasons: {codes}."
    )
    yield ""
    yield from _accepted(signed, classes, "")
    yield ""
    yield from _prose(
        "A verifier *can use* a card if it can read it and could build a client from its payload. "
        "No signature helps with the others."
    )
    yield ""
    without = " and ".join(one.name for one in PROGRAMS.values() if "RS256" not in one.algorithms)
    yield from _prose(
        f"That is ES256. {results.rs256_cards} of these cards were tried with RS256 too, and every "
        f"judge that knows it found the same; {without} does not know it."
    )


def _accepted(signed: Sequence[Row], classes: Sequence[str], suffix: str) -> Iterator[str]:
    yield from _header("accepted by", *classes, "all", "of those it can use")
    yield _line("*of those signed*", *_by_class(signed, classes), "")
    for name in VERIFIERS:
        outcomes = [(row, row.judged[name + suffix]) for row in signed]
        accepted = [row for row, outcome in outcomes if outcome == ACCEPTED]
        usable = sum(
            outcome != CANNOT_PARSE and not outcome.startswith("no endpoint")
            for _, outcome in outcomes
        )
        share = f"{100 * len(accepted) / usable:.1f} %" if usable else ""
        yield _line(name, *_by_class(accepted, classes), share)


def _all(results: Results, written: Exceptions) -> Iterator[str]:
    signed = [row for row in results.rows if row.judged]
    classes = [name for name in CLASSES if any(row.group == name for row in signed)]
    yield from _prose(
        "One signature for each profile whose payload names an endpoint, whatever it leaves open."
    )
    yield ""
    yield from _accepted(signed, classes, ALL)
    yield ""
    yield from _refusals(written, ALL)


def _ignorant(rows: Sequence[Row]) -> Iterator[str]:
    yield from _prose(
        "A compat signature is marked by its `typ`. Somebody in transit may serve its payload as "
        "the card, with all signatures. cardsign does not trust that, nor does it count for any "
        "policy. A verifier written by hand that reads the card as served and ignores `typ` "
        "accepts it. Of the payloads with a compat signature under `--compat all`, that many:"
    )
    yield ""
    names = IGNORE_TYP
    yield from _header(
        "profile",
        "payloads",
        *(f"{name} accepts" for name in names),
        "of them without a security member of the card",
    )
    for profile in dict.fromkeys(profile for row in rows for profile in row.served):
        served = [row.served[profile] for row in rows if profile in row.served]
        lost = [one for one in served if SECURITY_LOST in one and set(one) & set(names)]
        counts = (sum(name in one for one in served) for name in names)
        yield _line(f"`{profile}`", *(f"{n:,}" for n in (len(served), *counts, len(lost))))
    yield ""
    yield from _prose(
        "By default, which is `--compat safe`, a payload that is accepted so keeps every "
        "endpoint, scheme and scope; a requirement without scopes may be gone. Who has such "
        "verifiers signs with `--compat none`."
    )


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


def _refusals(written: Exceptions, suffix: str) -> Iterator[str]:
    yield from _prose(
        "These exceptions were written down before the run, with their numbers; it has found them "
        "and no others. What satisfies a verifier was tried: a signature of each of our profiles "
        "alone, then one over the payload that the verifier says it makes."
    )
    for name in VERIFIERS:
        yield ""
        whys = written.get(name + suffix, {})
        yield f"**{name}**" if whys else f"**{name}** accepts all."
        yield from [""] if whys else []
        for why, one in whys.items():
            cards = f"{sum(one.cards.values()):,} cards"
            classes = ", ".join(f"{group} {count}" for group, count in one.cards.items())
            yield from _item(f"{cards}, since {one.because}. *{_remedy(why)}.* ({classes})")


def _theirs(rows: Sequence[Row]) -> Iterator[str]:
    read = sum(bool(row.recognised) for row in rows)
    yield from _prose(
        f"Each judge signs what it can of the {read:,} cards that we can read, and we verify that. "
        "A signature *counts* by default if it covers the whole card. If it fits a profile that "
        "does not, we say which, and a policy may accept the lossy ones. *No profile* means that "
        "we cannot tell such a signature from a bad one: of a2a-js where it coerces values to "
        "another type or loses members named `__proto__`, of a2a-protocol-types, which signs the "
        "card as its type `AgentCard` holds it, of a2a-sdk where it finds nothing of its "
        "schema and signs `null`."
    )
    yield ""
    yield from _header("signed by", "cards", "counts", "another profile", "no profile")
    for name in PROGRAMS:
        kinds = Counter(_kind(row.recognised[name]) for row in rows if name in row.recognised)
        cells = (kinds.total(), *(kinds[kind] for kind in (COUNTS, _OTHER, NO_PROFILE)))
        yield _line(name, *(f"{cell:,}" for cell in cells))


def _kind(found: str) -> str:
    return found if found in (COUNTS, NO_PROFILE) else _OTHER


def _absent() -> Iterator[str]:
    for one in ABSENT:
        yield from _item(f"**{one.name}** {one.version} ({one.language}). {one.why}")


def _prose(text: str) -> list[str]:
    return wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _item(text: str) -> Iterator[str]:
    first, *rest = _prose(text)
    yield f"- {first}"
    yield from (f"  {line}" for line in rest)


def _header(*names: str) -> tuple[str, str]:
    return _line(*names), "|" + "---|" * len(names)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
