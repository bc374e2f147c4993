"""Cases of attacks and of honest cards, put to anybody's verifier: ``cardsign conformance``.

A case here needs a card, keys and the origin of the issuer alone. What takes statements, locks, a
memory or a network stands in the same files, and is left out and counted.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK, CardRefused, UsageFault
from cardsign.files import MAX_INPUT_BYTES, read_bytes
from cardsign.jose import base64url
from cardsign.programs import Program, ProgramError, run
from cardsign.tomltext import read_toml
from cardsign.trust.policy import ACCEPTED
from cardsign.trust.policyfile import MAX_POLICY_BYTES
from cardsign.urls import parse_origin

#: What a file of the corpus holds: its kind, and its content of that kind.
Description = Mapping[str, Any]

_MAX_SECONDS: Final = 60.0  # for one card
_MAX_ANSWER: Final = 1024 * 1024
_MAX_CARD: Final = 64 * 1024 * 1024  # bytes; one of the corpus has 50 MB
#: Of a case in which the card comes without an origin.
_ORIGIN: Final = "https://tides.example"
#: The two ways in which an answer is wrong.
ATTACK_TRUSTED: Final = "an attack is trusted"
HONEST_REFUSED: Final = "an honest card is not trusted"
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
    """

    name: str
    card: bytes = field(repr=False)
    keys: bytes = field(repr=False)
    origin: str
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """What a verifier made of the cases.

    Attributes:
        cases: How many were put to it.
        wrong: What it got wrong, by case.
        left_out: How many cases need more than a card, keys and an origin, by what they need.
    """

    cases: int
    wrong: Mapping[str, str]
    left_out: Mapping[str, int]

    @property
    def exit_status(self) -> int:
        """1 if a case came out wrong."""
        return EXIT_NOT_TRUSTED if self.wrong else EXIT_OK

    def lines(self) -> Iterator[str]:
        """Yield each case that came out wrong, and the counts."""
        for name, problem in self.wrong.items():
            yield f"wrong: {name}: {problem}"
        yield f"{self.cases - len(self.wrong):,} of {self.cases:,} cases are right"
        needs = ", ".join(f"{count:,} need {need}" for need, count in self.left_out.items())
        yield f"left out: {needs or 'none'}"

    def to_json(self) -> dict[str, Any]:
        """Return the same as JSON."""
        return {
            "cases": self.cases,
            "wrong": [{"case": name, "problem": text} for name, text in self.wrong.items()],
            "left_out": dict(self.left_out),
        }


def read_cases(folder: Path) -> tuple[list[ConformanceCase], Counter[str]]:
    """Return the cases of a folder, and how many it leaves out, by what they need.

    Args:
        folder: ``tests`` of a checkout of cardsign: its ``attacks`` and ``vectors/cards``.

    Raises:
        UsageFault: ``usage.invalid``: there are no cases, or a file is none of the corpus.
        FileFault: A file is a link, device or pipe, too long, or cannot be read.
    """
    left_out: Counter[str] = Counter()
    cases = [*_read_vectors(folder, left_out), *_read_attacks(folder, left_out)]
    if not cases:
        hint = "Name the folder tests of a checkout of cardsign."
        raise UsageFault("usage.invalid", "it holds no cases", path=str(folder), hint=hint)
    return cases, left_out


def run_cases(folder: Path, command: str) -> ConformanceReport:
    """Put every case of a folder to a verifier that others have written.

    The program is started once for each case, with the card on standard input. It exits with 0 if
    it trusts the card, and with 1 or 3 if it does not.

    Args:
        folder: As in `read_cases`.
        command: The program and its arguments, without a shell. ``{keys}`` stands for the name of
            a file with the trusted keys, a JWK Set, and ``{origin}`` for the issuer's origin.

    Raises:
        UsageFault: ``usage.invalid``: there is no such program, or as in `read_cases`.
        FileFault: As in `read_cases`.
    """
    cases, left_out = read_cases(folder)
    words = _split_command(command)
    with tempfile.TemporaryDirectory() as keys, ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = pool.map(partial(_find_problem, words, Path(keys)), enumerate(cases))
        wrong = {case.name: problem for case, problem in zip(cases, problems, strict=True)}
    return ConformanceReport(
        len(cases), {name: problem for name, problem in wrong.items() if problem}, left_out
    )


def _split_command(command: str) -> list[str]:
    """Return the words of a command; files are named from the root, where it runs."""
    try:
        words = shlex.split(command)
    except ValueError as exc:
        raise UsageFault("usage.invalid", f"--verifier names no command: {exc}") from exc
    if not words:
        raise UsageFault("usage.invalid", "--verifier names no command: it is empty")
    program, *arguments = words
    path = shutil.which(program)
    if path is None:
        raise UsageFault("usage.invalid", f"there is no program {program!r}")
    named = [os.path.abspath(word) if os.path.isfile(word) else word for word in arguments]
    return [os.path.abspath(path), *named]


def _find_problem(words: list[str], folder: Path, numbered: tuple[int, ConformanceCase]) -> str:
    """Return what a verifier got wrong; empty if it is right."""
    number, case = numbered
    keys = folder / f"{number}.json"
    keys.write_bytes(case.keys)
    program, *arguments = [
        word.replace("{keys}", str(keys)).replace("{origin}", case.origin) for word in words
    ]
    question = Program(program, tuple(arguments), os.environ, _MAX_SECONDS, _MAX_ANSWER)
    try:
        run(question, case.card)
    except ProgramError as failure:
        if failure.status not in (EXIT_NOT_TRUSTED, EXIT_NO_VERDICT):
            return f"no answer: the program {failure.what} {failure.complaint}".strip()
        return HONEST_REFUSED if case.is_trusted else ""
    return "" if case.is_trusted else ATTACK_TRUSTED


# The cases, as tests/vectors/README.md and tests/attacks/README.md describe them.


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """Read a file of the corpus; whatever is wrong with it is said by its name."""
    try:
        yield json.loads(read_bytes(path, max_bytes=MAX_INPUT_BYTES, plain=True))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
        problem = "its members have other types"
        if isinstance(exc, RecursionError):
            problem = "it is nested too deep"
        elif isinstance(exc, KeyError):
            problem = f"lacks {exc}"
        elif isinstance(exc, ValueError):
            problem = str(exc)
        message = f"this is no file of the corpus: {problem}"
        hint = "See tests/attacks/README.md and tests/vectors/README.md."
        raise UsageFault("usage.invalid", message, path=str(path), hint=hint) from exc


def _read_vectors(folder: Path, left_out: Counter[str]) -> Iterator[ConformanceCase]:
    """Yield the cases of signed cards under the readings of A2A that sign all of a card."""
    for path in sorted((folder / "vectors" / "cards").glob("*.json")):
        with _reading(path) as vector:
            if set(vector["accepted_profiles"]) != set(ACCEPTED["full"]):
                left_out["signatures that leave parts of a card out"] += 1
                continue
            card = base64.b64decode(vector["card_base64"])
            is_trusted = vector["expect"]["verdict"] == "trusted"
            keys = json.dumps(vector["jwks"]).encode()
            yield ConformanceCase(f"cards/{path.stem}", card, keys, _ORIGIN, is_trusted)


def _read_attacks(folder: Path, left_out: Counter[str]) -> Iterator[ConformanceCase]:
    """Yield attacks and their honest twins."""
    for path in sorted((folder / "attacks").glob("*.json")):
        with _reading(path) as attack:
            left_out["a network"] += len(attack.get("transcripts", ()))
            for members in attack["cases"]:
                case = _read_case(path.stem, attack["files"], members)
                if isinstance(case, str):
                    left_out[case] += 1
                else:
                    yield case


def _read_case(
    stem: str, files: Mapping[str, Description], members: Mapping[str, Any]
) -> ConformanceCase | str:
    """Return a case of an attack, or what it needs beyond a card, keys and an origin."""
    step = members["steps"][0]
    is_known = members.get("memory", "none") not in ("none", "fresh")
    if len(members["steps"]) > 1 or is_known or "lock" in members:
        return "a memory"
    if step.keys() - _PLAIN_STEP:
        return "statements, or a second card"
    issuer = _read_plain_issuer(read_file(files, members["policy"]))
    if issuer is None or "issuer" not in step["subject"]:
        return "a policy"
    described = step["card"]
    card = describe_bytes(files, files[described] if isinstance(described, str) else described)
    jwks = json.dumps({"keys": [key["public"] for key in issuer["anchor"]["keys"]]}).encode()
    name, is_trusted = f"{stem}/{members['id']}", members["kind"] == "twin"
    return ConformanceCase(name, card, jwks, str(issuer["origins"][0]), is_trusted)


def _read_plain_issuer(policy: bytes) -> dict[str, Any] | None:
    """Return the issuer of a policy that says no more than its keys and its origin.

    The origin goes into a command of the user's, so it must be one.
    """
    try:
        document = read_toml(policy) if len(policy) <= MAX_POLICY_BYTES else {}
        (issuer,) = document["issuer"]
        (origin,) = issuer["origins"]
        issuer["origins"] = [parse_origin(origin)]
    except (ValueError, KeyError, CardRefused):
        return None
    is_plain = document.keys() == {"format", "issuer"} and not issuer.keys() - _PLAIN_ISSUER
    is_waived = issuer.get("freshness") == "waived" and origin.count("/") == 2
    return issuer if is_plain and is_waived and "keys" in issuer["anchor"] else None


def read_file(files: Mapping[str, Description], name: str) -> bytes:
    """Return the bytes of a file that the corpus describes."""
    return describe_bytes(files, files[name])


def describe_bytes(files: Mapping[str, Description], described: Description) -> bytes:
    """Return the bytes that a description of the corpus stands for."""
    match described:
        case {"json": value}:
            return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"
        case {"compact": value}:
            return _compact(value)
        case {"statement": parts}:
            signatures = [
                {**signature, "protected": base64url.encode(_compact(signature["protected"]))}
                for signature in parts["signatures"]
            ]
            payload = base64url.encode(_compact(_payload(files, parts)))
            return _compact({"payload": payload, "signatures": signatures})
        case {"text": text}:
            return str(text).encode()
        case {"lines": lines}:
            return "".join(f"{line}\n" for line in lines).encode()
        case {"base64": text}:
            return base64.b64decode(text, validate=True)
        case {"of": base, "replace": edits}:
            return _edited(read_file(files, base).decode(), edits).encode()
        case {"pieces": pieces}:
            return _joined(files, pieces)
    raise ValueError(f"no such description: {sorted(described)}")


def _joined(files: Mapping[str, Description], pieces: Iterable[Description]) -> bytes:
    data = bytearray()
    for piece in pieces:
        part, times = _piece(files, piece), piece.get("times", 1)
        if len(data) + max(len(part), 1) * times > _MAX_CARD:
            raise ValueError(f"pieces make more than {_MAX_CARD} bytes")
        data += part * times
    return bytes(data)


def _payload(files: Mapping[str, Description], parts: Description) -> Mapping[str, Any]:
    """Return the payload of a statement, or that of another with some members replaced, sorted."""
    payload: Mapping[str, Any] = parts["payload"]
    if "of" not in parts:
        return payload
    base = _payload(files, files[parts["of"]]["statement"])
    members = {**base, **payload}
    return {name: members[name] for name in sorted(members) if name not in parts.get("without", ())}


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _edited(text: str, edits: list[list[str]]) -> str:
    """Return the text with some parts, which occur once in it, replaced in this order."""
    parts, done = [], 0
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"occurs {text.count(old)} times: {old!r}")
        start = text.index(old, done)
        parts += [text[done:start], new]
        done = start + len(old)
    return "".join([*parts, text[done:]])


def _piece(files: Mapping[str, Description], piece: Description) -> bytes:
    if "file" in piece:
        return read_file(files, piece["file"])
    return describe_bytes(files, {name: value for name, value in piece.items() if name != "times"})
