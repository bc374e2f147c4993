"""Writes a new attack of the corpus; tests/attacks/README.md shows how."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import tomlkit

from cardsign.jose.keys import PrivateKey
from tests.attack_runner.corpus import CORPUS, FORMAT, read_file

Json = dict[str, Any]

#: 2026-11-21 12:00:00 UTC
NOW: Final = 1_795_262_400
ORIGIN: Final = "https://tides.example"
_COLUMNS: Final = 200


def pin_keys(*keys: PrivateKey, **members: Any) -> bytes:
    """Return a policy with one issuer, which has these keys; freshness is waived."""
    anchor = {"keys": [{"holder": "harbour", "public": dict(key.public.jwk())} for key in keys]}
    head = {"name": "harbour", "origins": [ORIGIN], "freshness": "waived"}
    return tomlkit.dumps({"format": 1, "issuer": [{**head, **members, "anchor": anchor}]}).encode()


def expect(verdict: str, answers: str, code: str = "", **members: Any) -> Json:
    """Return what must come out; the four answers in order, such as `yes yes unknown no`."""
    names = ("integrity", "authorised", "current", "complete")
    reason: Json = {"code": code} if code else {"warnings": ["trust.freshness_waived"]}
    answered = dict(zip(names, answers.split(), strict=True))
    return {"verdict": verdict, **reason, "answers": answered, **members}


def make_case(id_: str, kind: str, title: str, card: str, expected: Json, **members: Any) -> Json:
    """Return a case of one step; `card` names a file, and more members are those of the step."""
    step = {"card": card, "subject": {"issuer": "harbour"}, "now": NOW, **members}
    head = {"id": id_, "kind": kind, "title": title, "policy": "trust.toml"}
    return {**head, "steps": [{**step, "expect": expected}]}


def write(name: str, about: Json, files: Mapping[str, bytes | Json], cases: Sequence[Json]) -> Path:
    """Write an attack's file.

    Args:
        name: The number, unique in the corpus (500 + N for decision N), and what follows it.
        about: The members `title`, `source` and `why`; `transcripts`, if there are any.
        files: The bytes or the JSON object of each file that a case names.
        cases: The attack in its variants, and their honest twins.
    """
    described = {
        file: describe(data if isinstance(data, bytes) else _indent(data))
        for file, data in files.items()
    }
    head = {"format": FORMAT, "number": int(name[:3]), **about}
    path = CORPUS / f"{name}.json"
    path.write_text(spread({**head, "files": described, "cases": [*cases]}) + "\n", "utf-8")
    return path


def _indent(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


def describe(data: bytes) -> Json:
    """Return how the format says these bytes: as JSON, as text, or as base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    for form in ("json", "compact"):
        try:
            described = {form: json.loads(text, parse_float=str)}
        except (ValueError, RecursionError):
            break
        if read_file({"": described}, "") == data:
            return described
    lines = {"lines": text.splitlines()}
    return lines if read_file({"": lines}, "") == data else {"text": text}


def spread(value: Any, indent: str = "", before: int = 0) -> str:
    """Return JSON in which whatever fits into a line stands on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + before + len(line) <= _COLUMNS or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, list):
        parts = [spread(one, inner) for one in value]
    else:
        names = {name: json.dumps(name, ensure_ascii=False) + ": " for name in value}
        parts = [names[n] + spread(one, inner, len(names[n])) for n, one in value.items()]
    opened, closed = "[]" if isinstance(value, list) else "{}"
    return f"{opened}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closed}"
