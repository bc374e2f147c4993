"""Cases of attacks and of honest cards, put to anybody's verifier: ``cardsign conformance``.

A case here needs a card, keys and the origin of the issuer alone. What takes statements, locks, a
memory or a network stands in the same files, and is left out and listed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK, CardRefused, UsageFault
from cardsign.files import MAX_INPUT_BYTES, read_bytes
from cardsign.programs import ProgramError, run
from cardsign.tomltext import read_toml
from cardsign.trust.policy import ACCEPTED
from cardsign.trust.policyfile import MAX_POLICY_BYTES
from cardsign.urls import parse_origin

#: What a file of the corpus holds: its kind, and its content of that kind.
Description = Mapping[str, Any]

_MAX_SECONDS: Final = 60.0  # for one card
_SAID_AFTER: Final = 25  # cases, of which a fast verifier does some ten a second
_MAX_ANSWER: Final = 1024 * 1024
_MAX_CARD: Final = 64 * 1024 * 1024  # bytes; one of the corpus has 50 MB
#: Of a case in which the card comes without an origin.
_ORIGIN: Final = "https://tides.example"
#: The worse of the two ways in which an answer is wrong.
ATTACK_TRUSTED: Final = "an attack is trusted"
_PLAIN_ISSUER: Final = {"name", "origins", "freshness", "anchor"}
_PLAIN_STEP: Final = {"card", "subject", "now", "expect"}


@dataclass(frozen=True, slots=True)
class ConformanceCase:
    """One card, and whether a verifier must trust it.

    Attributes:
        name: Its file and its own id.
        card: As received.
        keys: The trusted keys, as a JWK Set (RFC 7517).
        origin: Where all interfaces of a trusted card are.
        is_trusted: What must come out.
        need: What it takes beyond these, so that it is left out.
    """

    name: str
    card: bytes = field(default=b"", repr=False)
    keys: bytes = field(default=b"", repr=False)
    origin: str = _ORIGIN
    is_trusted: bool = False
    need: str = ""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """What a verifier made of the cases.

    Attributes:
        cases: How many were put to it.
        wrong: What it got wrong, by case.
        left_out: The names of cases that need more than a card, keys and an origin, by what they
            need.
    """

    cases: int
    wrong: Mapping[str, str]
    left_out: Mapping[str, list[str]]

    @property
    def exit_status(self) -> int:
        """1 if a case came out wrong."""
        return EXIT_NOT_TRUSTED if self.wrong else EXIT_OK

    def lines(self) -> Iterator[str]:
        """Yield each case that came out wrong, and the counts."""
        for name, problem in self.wrong.items():
            yield f"wrong: {name}: {problem}"
        yield f"{self.cases - len(self.wrong):,} of {self.cases:,} cases are right"
        needs = ", ".join(f"{len(names):,} need {need}" for need, names in self.left_out.items())
        yield f"left out: {f'{needs}; --json lists them' if needs else 'none'}"

    def to_json(self) -> dict[str, Any]:
        """Return the same as JSON."""
        wrong = [{"case": name, "problem": text} for name, text in self.wrong.items()]
        counts = {need: len(names) for need, names in self.left_out.items()}
        view = {"cases": self.cases, "wrong": wrong, "left_out": counts}
        return view | {"left_out_cases": dict(self.left_out)}


def read_cases(folder: Path) -> tuple[list[ConformanceCase], dict[str, list[str]]]:
    """Return the cases of a folder, and the names of those that it leaves out, by their needs.

    Args:
        folder: ``tests`` of a checkout of cardsign: its ``attacks`` and ``vectors/cards``.

    Raises:
        UsageFault: ``usage.invalid``: there are no cases, or a file is none of the corpus.
        FileFault: A file is a link, device or pipe, too long, or cannot be read.
    """
    cases: list[ConformanceCase] = []
    for place, read in (("vectors/cards", _read_vector), ("attacks", _read_attack)):
        for path in sorted((folder / place).glob("*.json")):
            try:
                document = json.loads(read_bytes(path, max_bytes=MAX_INPUT_BYTES, plain=True))
                cases += read(path.stem, document)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
                message = "this is not a file of the corpus"
                hint = "See tests/attacks/README.md and tests/vectors/README.md."
                raise UsageFault("usage.invalid", message, path=str(path), hint=hint) from exc
    complete = [case for case in cases if not case.need]
    if not complete:
        hint = "Name the folder tests of a checkout of cardsign."
        raise UsageFault("usage.invalid", "it holds no cases", path=str(folder), hint=hint)
    left_out: dict[str, list[str]] = {}
    for case in cases:
        if case.need:
            left_out.setdefault(case.need, []).append(case.name)
    return complete, left_out


def run_cases(folder: Path, command: str, say: Callable[[str], object]) -> ConformanceReport:
    """Put every case of a folder to a verifier that others have written.

    The program is started once for each case, with the card on standard input. It exits with 0 if
    it trusts the card, and with 1 or 3 if it does not.

    Args:
        folder: As in `read_cases`.
        command: The program and its arguments, without a shell. ``{keys}`` stands for the name of
            a file with the trusted keys, a JWK Set, and ``{origin}`` for the issuer's origin.
        say: Told how many cases are tried, each time that these are as many as a few seconds take.

    Raises:
        UsageFault: ``usage.invalid``: there is no such program, or as in `read_cases`.
        FileFault: As in `read_cases`.
    """
    cases, left_out = read_cases(folder)
    words = _split_command(command)
    with tempfile.TemporaryDirectory() as keys, ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = pool.map(partial(_find_problem, words, Path(keys)), enumerate(cases))
        wrong: dict[str, str] = {}
        for number, (case, problem) in enumerate(zip(cases, problems, strict=True), start=1):
            wrong |= {case.name: problem} if problem else {}
            if number % _SAID_AFTER == 0:
                say(f"{number:,} of {len(cases):,} cases tried")
    return ConformanceReport(len(cases), wrong, left_out)


def _split_command(command: str) -> list[str]:
    """Return the words of a command; files are named from the root, where it runs."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError as exc:
        raise UsageFault("usage.invalid", f"--verifier names no command: {command!r}") from exc
    path = shutil.which(program)
    if path is None:
        raise UsageFault("usage.invalid", f"there is no program {program!r}")
    return [os.path.abspath(word) if os.path.isfile(word) else word for word in (path, *arguments)]


def _find_problem(words: list[str], folder: Path, numbered: tuple[int, ConformanceCase]) -> str:
    """Return what a verifier got wrong; empty if it is right."""
    number, case = numbered
    keys = folder / f"{number}.json"
    keys.write_bytes(case.keys)
    command = [word.replace("{keys}", str(keys)).replace("{origin}", case.origin) for word in words]
    try:
        run(command, os.environ, case.card, max_seconds=_MAX_SECONDS, max_answer=_MAX_ANSWER)
    except ProgramError as failure:
        if failure.status not in (EXIT_NOT_TRUSTED, EXIT_NO_VERDICT):
            return f"no answer: the program {failure} {failure.complaint}".strip()
        return "an honest card is not trusted" if case.is_trusted else ""
    return "" if case.is_trusted else ATTACK_TRUSTED


# The cases, as tests/vectors/README.md and tests/attacks/README.md describe them.


def _read_vector(stem: str, vector: Mapping[str, Any]) -> Iterator[ConformanceCase]:
    """Yield the case of a card under the readings of A2A that sign all of a card."""
    name = f"cards/{stem}"
    if set(vector["accepted_profiles"]) != set(ACCEPTED["full"]):
        yield ConformanceCase(name, need="signatures that leave parts of a card out")
        return
    card, keys = base64.b64decode(vector["card_base64"]), json.dumps(vector["jwks"]).encode()
    yield ConformanceCase(name, card, keys, is_trusted=vector["expect"]["verdict"] == "trusted")


def _read_attack(stem: str, attack: Mapping[str, Any]) -> Iterator[ConformanceCase]:
    """Yield an attack in its variants, and its honest twins."""
    for members in attack.get("transcripts", ()):
        yield ConformanceCase(f"{stem}/{members['id']}", need="a network")
    for members in attack["cases"]:
        yield _read_case(f"{stem}/{members['id']}", attack["files"], members)


def _read_case(
    name: str, files: Mapping[str, Description], members: Mapping[str, Any]
) -> ConformanceCase:
    """Return a case of an attack, with what it needs beyond a card, keys and an origin."""
    step = members["steps"][0]
    is_known = members.get("memory", "none") not in ("none", "fresh")
    if len(members["steps"]) > 1 or is_known or "lock" in members:
        return ConformanceCase(name, need="state from an earlier run")
    if step.keys() - _PLAIN_STEP:
        return ConformanceCase(name, need="statements, or a second card")
    plain = _read_plain_policy(describe_bytes(files, files[members["policy"]]))
    if plain is None or "issuer" not in step["subject"]:
        return ConformanceCase(name, need="a policy")
    described, (keys, origin) = step["card"], plain
    card = describe_bytes(files, files[described] if isinstance(described, str) else described)
    jwks, is_trusted = json.dumps({"keys": keys}).encode(), members["kind"] == "twin"
    return ConformanceCase(name, card, jwks, origin, is_trusted)


def _read_plain_policy(policy: bytes) -> tuple[list[Any], str] | None:
    """Return the keys and the origin of the issuer of a policy that says no more than these.

    The origin goes into a command of the user's, so it must be one.
    """
    try:
        document = read_toml(policy) if len(policy) <= MAX_POLICY_BYTES else {}
        (issuer,) = document["issuer"]
        (origin,) = map(parse_origin, issuer["origins"])
        keys = [key["public"] for key in issuer["anchor"]["keys"]]
    except (ValueError, KeyError, CardRefused):
        return None
    is_plain = document.keys() == {"format", "issuer"} and not issuer.keys() - _PLAIN_ISSUER
    return (keys, str(origin)) if is_plain and issuer.get("freshness") == "waived" else None


def describe_bytes(files: Mapping[str, Description], described: Description) -> bytes:
    """Return the bytes that a description of the corpus stands for; a statement has none here."""
    match described:
        case {"json": value}:
            return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"
        case {"compact": value}:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        case {"text": text}:
            return str(text).encode()
        case {"lines": lines}:
            return "".join(f"{line}\n" for line in lines).encode()
        case {"base64": text}:
            return base64.b64decode(text, validate=True)
        case {"file": name}:
            return describe_bytes(files, files[name])
        case {"of": base, "replace": edits}:
            text, changes = describe_bytes(files, files[base]).decode(), dict(edits)
            if any(text.count(old) != 1 for old in changes):
                raise ValueError(f"each of these must occur once: {[*changes]}")
            olds = "|".join(map(re.escape, changes))
            return re.sub(olds, lambda match: changes[match[0]], text).encode()
        case {"pieces": pieces}:
            return _joined(files, pieces)
    raise ValueError(f"no such description: {sorted(described)}")


def _joined(files: Mapping[str, Description], pieces: Iterable[Description]) -> bytes:
    data = bytearray()
    for piece in pieces:
        part, times = describe_bytes(files, piece), piece.get("times", 1)
        if len(data) + max(len(part), 1) * times > _MAX_CARD:
            raise ValueError(f"pieces make more than {_MAX_CARD} bytes")
        data += part * times
    return bytes(data)
