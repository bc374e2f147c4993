"""The page docs/reports/measurements.md: tables, each with what it shows in a sentence or two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from experiment import ACCEPTED, ALGORITHMS, CANNOT_PARSE, TYPS, VERIFIERS, Found, Row
from samples import GROUPS

from cardsign.card import DEFAULT_PROFILES, FULL_PROFILES

Cell = str | int
Line = Callable[[Sequence[Row]], Sequence[Cell]]

_NUMBERS: Final = range(1, len(DEFAULT_PROFILES) + 1)


def head(date: str, versions: Mapping[str, str]) -> Iterator[str]:
    """The part that may differ between two runs."""
    yield "<!-- Written by tests/interop/measure.py; run it again instead of editing. -->"
    yield "# Measurements"
    yield (
        "What the official A2A SDKs say of our signatures, and what we say of theirs. Every number "
        "comes from one run; [measurements.json](measurements.json) has the outcome of each file."
    )
    yield f"Measured on {date} with:"
    yield table(["", "version"], versions.items())
    yield (
        "To repeat it: `make interop-env` once, then `make measure`, which runs "
        "`python tests/interop/measure.py`. It reads the folder `shared` beside the checkout: "
        "real cards of public repositories, and others that were made to provoke. The real ones "
        "are grouped by what they are: of A2A 0.3, of 1.0, of both (mixed), of neither (other)."
    )


def body(rows: Sequence[Row], differing: Sequence[str], found: Sequence[Found]) -> Iterator[str]:
    """The part that every run with the same versions repeats.

    Args:
        rows: One for each card, under the first of `ALGORITHMS`.
        differing: The files for which another algorithm gave anything else.
        found: The signatures that real cards came with.
    """
    yield from _signing(rows)
    yield from _acceptance(rows, differing)
    yield from _attack(rows)
    yield from _recognition(rows)
    yield from _real_signatures(found)


def _signing(rows: Sequence[Row]) -> Iterator[str]:
    def line(group: Sequence[Row]) -> Sequence[Cell]:
        counts = Counter(len(row.profiles) for row in group if row.profiles)
        refused = Counter(row.refused for row in group if row.refused)
        return (len(group), counts.total(), *(counts[n] for n in _NUMBERS), _listed(refused))

    yield "## What we sign"
    yield (
        "A card gets one signature for each payload that differs; a *portable* card gets one. "
        "Refused is what is not one strict JSON object (`json.*`), what is no Agent Card, and "
        "what has a member of the wrong type; `--force` signs the latter two all the same."
    )
    numbers = [f"{n} signature{'s' * (n > 1)}" for n in _NUMBERS]
    yield _by_group(["files", "signed", *numbers, "refused"], rows, line)


def _acceptance(rows: Sequence[Row], differing: Sequence[str]) -> Iterator[str]:
    def line(group: Sequence[Row]) -> Sequence[Cell]:
        signed = [row for row in group if row.judged]
        return (len(signed), *(_share(signed, verifier) for verifier in VERIFIERS))

    yield "## Who accepts it"
    yield (
        "How many are accepted, of those that the SDK can parse. Accepted means that the SDK has "
        "verified the card and then holds it with an endpoint to call. *a2a-sdk* is its resolver. "
        "*a2a-js plain* is its verifier on the JSON as fetched, *a2a-js resolver* the same on "
        "what its own resolver makes of that."
    )
    yield _by_group(["signed", *VERIFIERS], rows, line)
    others = ", ".join(ALGORITHMS[1:])
    differ = (
        f"another outcome for {', '.join(differing)}" if differing else "the same for every card"
    )
    yield f"These are the numbers under {ALGORITHMS[0]}. {others} gave {differ}, in all tables."
    yield (
        "Why the others are not accepted. This is proven by the SDK's own payload: what is named "
        "makes it equal to one of ours when it is left out of both."
    )
    yield table(["verifier", "reason", "cards"], _reasons(rows))


def _share(signed: Sequence[Row], verifier: str) -> str:
    outcomes = Counter(row.judged[verifier] for row in signed)
    return f"{outcomes[ACCEPTED]} of {outcomes.total() - outcomes[CANNOT_PARSE]}"


def _reasons(rows: Sequence[Row]) -> Iterator[Sequence[Cell]]:
    for verifier in VERIFIERS:
        outcomes = Counter(row.judged[verifier] for row in rows if row.judged)
        del outcomes[ACCEPTED]
        for reason, count in outcomes.most_common():
            yield verifier, reason.replace("__proto__", "`__proto__`"), count


def _attack(rows: Sequence[Row]) -> Iterator[str]:
    def line(group: Sequence[Row]) -> Sequence[Cell]:
        attacks = [one for row in group for one in row.attacks]
        signed = [one for one in attacks if one.ours != "invalid"]
        accepted = Counter(name for one in attacks for name in one.accepted_by)
        return (
            len(attacks),
            len(signed),
            sum(one.security_lost for one in signed),
            sum(one.ours == "trusted" for one in attacks),
            *(accepted[verifier] for verifier in VERIFIERS),
        )

    yield "## A lossy payload served as the card"
    yield (
        "An attacker serves what a pruning profile leaves of a card, with all the signatures of "
        "that card. What is lost may be the requirement to authenticate, or the scheme. An SDK "
        "sees no difference: it accepts whatever has a compat signature, as it does with its own "
        "signatures. We tell compat signatures by their `typ` and trust none. Where the payload "
        "has lost every endpoint, we make none."
    )
    columns = ["lossy payloads", "with compat signature", "security lost", "trusted by us"]
    columns += [f"accepted by {verifier}" for verifier in VERIFIERS]
    yield _by_group(columns, rows, line)


def _recognition(rows: Sequence[Row]) -> Iterator[str]:
    def line(group: Sequence[Row]) -> Sequence[Cell]:
        found = [row.recognised["JOSE"] for row in group if row.recognised]
        full = sum(bool(set(one.profiles) & set(FULL_PROFILES)) for one in found)
        none = sum(not one.profiles for one in found)
        lossy = len(found) - full - none
        return (len(found), full, lossy, none, sum(one.requirement_open for one in found))

    yield "## What a2a-sdk signs"
    yield (
        "Its signature is recognised for what it covers, and for what it leaves open. One that "
        "fits nothing stands on a card that we refuse to read, or on one without a single member "
        "of the schema."
    )
    columns = ["signed by a2a-sdk", "fits a full profile", "a lossy one only", "none"]
    yield _by_group([*columns, "requirement left open"], rows, line)
    yield (
        "What it is worth. By default it counts where it fits a full profile, but not under typ "
        "JWT, which a2a-sdk writes where nobody says otherwise: the payload could be a token's "
        "claims. A policy that accepts the lossy profiles by name trusts a card of which nothing "
        "but empty values is left open. Most real cards have more than that."
    )
    yield table(["policy accepts", "typ", *GROUPS, "all"], _trusted(rows))


def _trusted(rows: Sequence[Row]) -> Iterator[Sequence[Cell]]:
    for policy in ("full profiles", "lossy profiles"):
        for typ in TYPS:
            found = [(row.group, row.recognised[typ]) for row in rows if row.recognised]
            verdict = "by_default" if policy == "full profiles" else "accepting"
            trusted = Counter(g for g, one in found if getattr(one, verdict) == "trusted")
            yield policy, typ, *(trusted[group] for group in GROUPS), trusted.total()


def _real_signatures(found: Sequence[Found]) -> Iterator[str]:
    yield "## Signatures that real cards came with"
    yield (
        "Verified with the keys that their publishers give, as if pinned. A key that stands in "
        "the card itself tells what was signed, and nothing about who did it."
    )
    columns = ["card", "signature", "its key", "fits", "verdict on it", "on the card", "reasons"]
    yield table(columns, (_found(one) for one in found))


def _found(one: Found) -> Sequence[Cell]:
    fits = ", ".join(one.profiles) or "nothing"
    reasons = ", ".join(f"`{code}`" for code in one.reasons)
    return one.file, one.index, one.keys, fits, one.signature, one.verdict, reasons


# ------------------------------------------------------------------ tables


def _by_group(columns: Sequence[str], rows: Sequence[Row], line: Line) -> str:
    """A table with a line for each group of cards, and one for all of them."""
    groups = [(name, [row for row in rows if row.group == name]) for name in GROUPS]
    lines = ((name, *line(group)) for name, group in [*groups, ("all", rows)])
    return table(["cards", *columns], lines)


def table(columns: Sequence[str], lines: Iterable[Sequence[Cell]]) -> str:
    """A Markdown table; numbers stand to the right."""
    cells = [list(line) for line in lines]
    numeric = [all(isinstance(line[at], int) for line in cells) for at in range(len(columns))]
    rule = ["---:" if one else "---" for one in numeric]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [columns, rule, *cells])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} `{name}`" for name, count in counts.most_common())
