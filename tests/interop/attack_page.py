"""docs/reports/attacks.md and docs/reports/attacks.json, from what a run has found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from attack_trial import ASKED, FETCHES, OURS, Result
from interop_page import header, line, prose
from judges import Version
from roster import VERIFIERS

from tests.attack_runner.corpus import Attack

_NAMES: Final = {"a2a-js plain": "@a2a-js/sdk", "joserfc": "plain joserfc"}


def record(attacks: Sequence[Attack], results: Iterable[Result], versions: Any) -> str:
    """The results in full, one case a line."""
    found: dict[int, list[Result]] = {}
    for result in results:
        found.setdefault(result.attack, []).append(result)
    head = {"programs": {name: asdict(version) for name, version in versions.items()}}
    parts = [
        f'  "{attack.name}": [\n'
        + ",\n".join(f"   {json.dumps(plain(one))}" for one in found[attack.number])
        + "\n  ]"
        for attack in attacks
        if attack.number in found
    ]
    body = ",\n".join(parts)
    return f'{json.dumps(head, indent=1)[:-2]},\n "attacks": {{\n{body}\n }}\n}}\n'


def plain(result: Result) -> dict[str, Any]:
    """A result as the record has it."""
    said: dict[str, Any] = {"case": result.id, "kind": result.kind}
    said |= {"on line": True} if result.on_line else {}
    said[OURS] = "right" if result.right else "wrong"
    return said | ({"not put": result.not_put} if result.not_put else dict(result.answers))


# ------------------------------------------------------------------ the page


def page(
    attacks: Sequence[Attack], results: Sequence[Result], versions: Mapping[str, Version]
) -> str:
    """The page, as people read it."""
    at_hand = [result for result in results if not result.on_line]
    on_line = [result for result in results if result.on_line]
    lines = [_INTRODUCTION, *_totals(attacks, at_hand, on_line, versions), "", "## By attack", ""]
    lines += _table(attacks, at_hand)
    lines += ["", "## On line", "", *prose(_ON_LINE + _on_line(attacks, on_line)), ""]
    lines += ["## What was not put to others", "", *_not_put(results), ""]
    tested = ", ".join(str(attack.number) for attack in attacks if attack.tests)
    lines += [*prose(_BEYOND.format(tested)), ""]
    return "\n".join(lines)


_INTRODUCTION: Final = """\
# Attacks

`nox -s attacks` writes this page, and fails where cardsign gets a case wrong. Case by case:
[attacks.json](attacks.json). The attacks are data that any implementation can use:
[tests/attacks](../../tests/attacks/README.md).

Each attack has several hostile cards, with the verdict and the reason that must come out, and
honest twins, which must be trusted. cardsign is right about a case if verdict *and* reason are.
Other verifiers got the same cards, and the keys that the policy accepts. A verifier **accepts** a
card if it finds a signature good and a client could be built from what it read, as in
[interop](interop.md). An exception or no answer counts as refusing.

Three things to bear in mind:

* None of these libraries claims to have a policy, a memory or statements. Nothing that turns on
  those was put to them.
* Accepting is not always a hole in a library. joserfc is a JOSE library, driven here by some fifty
  lines such as people write by hand. a2a-sdk and @a2a-js/sdk leave the choice of keys to their
  callers. What is accepted is what a caller who adds nothing is open to.
* Refusing is not always a defence. A verifier that reads another payload than ours refuses some
  cards for that alone, honest ones too.

A member that no schema knows (attacks 65 and 107) is not in what the SDKs verify, so anybody may
add it. The SDKs accept a pruned card (101), since our compat signatures over it were made for
them; `cardsign sign` says what those leave open.

"""


_ON_LINE: Final = """\
In these cases the verifier is told a URL. The resolver, the servers, the certificates and the
clocks are the test's. cardsign is put to all of them, over real TLS, and is right if the verdict,
the reason and every request are. Where only one good server's answer matters, a2a-sdk's resolver
was asked too. It takes any 2xx status, any content type and longer answers than cardsign does,
which opens nothing. """

_BEYOND: Final = (
    "What cannot be data, such as threads and processes, is tested by the tests that the files of "
    "attacks {} name."
)


def _on_line(attacks: Sequence[Attack], results: Sequence[Result]) -> str:
    """What the resolver that fetches cards does with each attack that was put to it."""
    refused, accepted = [], []
    for attack in attacks:
        hostile, _ = _parted(result for result in results if result.attack == attack.number)
        put, count = _counts(hostile, FETCHES)
        if count:
            accepted.append(f"{count} of {put} of attack {attack.number} ({attack.title})")
        elif put:
            refused.append(str(attack.number))
    return f"It accepts {' and '.join(accepted)}, and nothing of attacks {', '.join(refused)}."


def _totals(
    attacks: Sequence[Attack],
    at_hand: Sequence[Result],
    on_line: Sequence[Result],
    versions: Mapping[str, Version],
) -> Iterator[str]:
    results = [*at_hand, *on_line]
    hostile, honest = _parted(results)
    right = sum(result.right for result in results)
    yield from prose(
        f"There are {len(attacks)} attacks in {len(results):,} cases: {len(hostile):,} hostile and "
        f"{len(honest):,} honest, {len(on_line):,} of them on line. cardsign is right about "
        f"{right:,}."
    )
    yield ""
    yield from header("verifier", "version", "hostile, put", "accepts", "honest, put", "accepts")
    rows = [(name, _NAMES.get(name, name), at_hand) for name in ASKED]
    for name, shown, put in (*rows, (FETCHES, f"{FETCHES}, on line", on_line)):
        version = versions[VERIFIERS[name].program]
        cells = [f"{count:,}" for one in _parted(put) for count in _counts(one, name)]
        yield line(shown, f"{version.name} {version.version}", *cells)


def _parted(results: Iterable[Result]) -> tuple[list[Result], list[Result]]:
    """The hostile ones, and the honest ones."""
    parts: tuple[list[Result], list[Result]] = ([], [])
    for one in results:
        parts[one.kind != "attack"].append(one)
    return parts


def _counts(results: Iterable[Result], name: str) -> tuple[int, int]:
    """How many were put to a verifier, and how many of them it accepts."""
    answers = Counter(one.answers[name] for one in results)
    return answers.total() - answers["n/a"], answers["accepts"]


def _table(attacks: Sequence[Attack], results: Sequence[Result]) -> Iterator[str]:
    """The attacks of which somebody accepts a hostile card; then the numbers of the others."""
    refused, rows = [], []
    for attack in attacks:
        hostile, _ = _parted(result for result in results if result.attack == attack.number)
        counts = [_counts(hostile, name) for name in ASKED]
        if any(accepted for _, accepted in counts):
            rows.append(line(str(attack.number), attack.title, *map(cell, counts)))
        elif any(put for put, _ in counts):
            refused.append(str(attack.number))
    yield from prose("How many of the hostile cards that were put to it each verifier accepts:")
    yield ""
    yield from header("number", "attack", *(_NAMES.get(name, name) for name in ASKED))
    yield from rows
    yield ""
    yield from prose(f"All three refuse every hostile card of attacks {', '.join(refused)}.")


def cell(count: tuple[int, int]) -> str:
    """How many of the hostile cards of an attack a verifier accepts."""
    put, accepted = count
    return f"**{accepted} of {put}**" if accepted else f"0 of {put}"


def _not_put(results: Sequence[Result]) -> Iterator[str]:
    count = sum(bool(result.not_put) for result in results)
    yield from prose(
        f"{count:,} cases need a policy, a memory, statements, a sound key set, a network of their "
        "own, or more than the judges take. attacks.json says which for each."
    )
