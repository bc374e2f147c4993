"""docs/reports/attacks.md and docs/reports/attacks.json, from what a run has found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any, Final

from attack_trial import ASKED, FETCHES, MAX_PUT, OURS, Result
from judges import Version
from roster import VERIFIERS

from tests.attack_runner.corpus import Attack

_WIDTH: Final = 98  # columns of prose
_NAMES: Final = {"a2a-js plain": "@a2a-js/sdk", "joserfc": "plain joserfc"}
_NOT_PUT: Final = {
    "policy": "what only a policy refuses, such as an interface elsewhere",
    "memory": "what takes a memory of earlier verdicts or statements",
    "keys": "a key set that is missing or no JSON object",
    "bytes": "bytes that are no UTF-8, since the judges take text",
    "size": f"more than {MAX_PUT:,} characters",
    "network": "transcripts that turn on names, addresses, certificates, caches, statements or "
    "several servers, or never end",
}


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
    at_hand = [one for one in results if not one.on_line]
    on_line = [one for one in results if one.on_line]
    lines = [_INTRODUCTION, *_totals(attacks, at_hand, on_line, versions), "", "## By attack", ""]
    lines += _table(attacks, at_hand, ASKED)
    lines += ["", "## On line", "", *_prose(_ON_LINE), ""]
    lines += _table(attacks, on_line, (FETCHES,))
    lines += ["", *_prose(_BEYOND), ""]
    lines += [f"- {one.number}, {one.title}: {_named(one)}" for one in attacks if one.tests]
    lines += ["", "## What could not be put to others", "", *_not_put(results), ""]
    return "\n".join(lines)


_INTRODUCTION: Final = """\
# Attacks

Written by `make attacks`, which fails where cardsign gets a case wrong. The same case by case:
[attacks.json](attacks.json). The corpus is data that any implementation can use:
[tests/attacks](../../tests/attacks/README.md).

Each attack comes in several variants, each with the verdict and the reason that must come out, and
with honest twins, which must be trusted: refusing everything fails here. cardsign's column says
whether verdict *and* reason are right. The others' columns say what they did with the same card and
the keys that the policy accepts. A verifier **accepts** if it finds a signature good and a client
could be built from what it read, as in [interop](interop.md); an exception that escapes, or no
answer, counts as refusing.

Read them for what they are. None of these libraries claims to have a policy, a memory or
statements, so nothing that turns on those was put to them. joserfc is a JOSE library, driven here
by some fifty lines such as people write by hand; a2a-sdk and @a2a-js/sdk leave to their callers
which keys to hand them, and checking those may be thought the caller's part. Accepting is not
always a hole in a library: it says that a caller who adds nothing is open to this. And refusing is
not always a defence: a verifier that reads another payload than ours refuses some cards for that
alone, so each cell also says how many honest twins it accepts, where that is not all.

Two of them to start with. A member that no schema knows (65, 107) is not in what the SDKs verify,
so anybody may add it. And a pruned card (101) verifies for them, since the compat signatures that
are over it were made for them: what those leave open is said when they are made.

"""


_ON_LINE: Final = """\
Transcripts: the verifier is told a URL, and resolver, servers, certificates and clocks are the
transcript's. cardsign is played all of them, over real TLS, and is right if verdict, reason and
every request are. Where all that matters is what one good server says once, the same is said to
a2a-sdk's resolver, with an httpx client as it comes, from a port of this machine. What it accepts
there has a good signature. It takes any 2xx status, any content type and longer answers than
cardsign does: that is lenient, and opens nothing."""

_BEYOND: Final = "What cannot be data, such as threads and processes, is tested:"


def _named(attack: Attack) -> str:
    return ", ".join(f"`{name.rpartition('::')[2]}`" for name in attack.tests) + "."


def _totals(
    attacks: Sequence[Attack],
    at_hand: Sequence[Result],
    on_line: Sequence[Result],
    versions: Mapping[str, Version],
) -> Iterator[str]:
    results = [*at_hand, *on_line]
    hostile, honest = _parted(results)
    right = sum(one.right for one in results)
    yield from _prose(
        f"{len(attacks)} attacks in {len(results):,} cases: {len(hostile):,} hostile and "
        f"{len(honest):,} honest, {len(on_line):,} of them on line. cardsign is right in {right:,}."
    )
    yield ""
    yield from _header("verifier", "version", "hostile, put", "accepts", "honest, put", "accepts")
    rows = [(name, _NAMES.get(name, name), at_hand) for name in ASKED]
    for name, shown, put in (*rows, (FETCHES, f"{FETCHES}, on line", on_line)):
        version = versions[VERIFIERS[name].program]
        cells = [f"{count:,}" for one in _parted(put) for count in _counts(one, name)]
        yield _line(shown, f"{version.name} {version.version}", *cells)


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


def _table(
    attacks: Sequence[Attack], results: Sequence[Result], asked: Sequence[str]
) -> Iterator[str]:
    names = [_NAMES.get(name, name) for name in asked]
    yield from _header("number", "attack", "hostile + honest", OURS, *names)
    for attack in attacks:
        found = [one for one in results if one.attack == attack.number]
        if not found:
            continue
        hostile, honest = _parted(found)
        wrong = sum(not one.right for one in found)
        yield _line(
            str(attack.number),
            attack.title,
            f"{len(hostile)} + {len(honest)}",
            f"wrong in {wrong}" if wrong else "right",
            *(cell(hostile, honest, name) for name in asked),
        )


def cell(hostile: Sequence[Result], honest: Sequence[Result], name: str) -> str:
    """What a verifier does with one attack, and with its honest twins if not all are accepted."""
    put, accepted = _counts(hostile, name)
    if not put:
        return "n/a"
    said = f"**accepts {accepted} of {put}**" if accepted else f"refuses {put}"
    twins, taken = _counts(honest, name)
    return said if taken == twins else f"{said}; honest {taken} of {twins}"


def _not_put(results: Sequence[Result]) -> Iterator[str]:
    counts = Counter(one.not_put for one in results if one.not_put)
    for name, what in _NOT_PUT.items():
        if counts[name]:
            yield f"- {counts[name]} cases: {what}."


def _prose(text: str) -> list[str]:
    return wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _header(*names: str) -> tuple[str, str]:
    return _line(*names), "|" + "---|" * len(names)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
