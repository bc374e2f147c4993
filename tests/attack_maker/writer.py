"""Writes one attack as one file; tests/attacks/README.md is the format."""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, Final

from tests.attack_runner.corpus import FORMAT, content, named_inputs

Json = dict[str, Any]

_COLUMNS: Final = 200
#: An edit of another file is written where it takes less than this share of the text.
_WORTH: Final = 0.6
#: Two edits with fewer characters between them are one.
_APART: Final = 12
#: What serializers escape in different ways.
_UNLIKE: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|[A-Za-z0-9]+|\s+|.', re.DOTALL)


def document(about: Json, files: Mapping[str, bytes]) -> str:
    """The text of one attack's file.

    Args:
        about: Its members but for `format` and `files`.
        files: The bytes of every file that a case names.
    """
    cases = {name: about[name] for name in ("cases", "transcripts") if about.get(name)}
    head = {name: value for name, value in about.items() if name not in ("cases", "transcripts")}
    told = {name: files[name] for name in _ordered(about, files)}
    return spread({"format": FORMAT, **head, "files": described(told), "cases": [], **cases}) + "\n"


def _ordered(about: Json, files: Mapping[str, bytes]) -> list[str]:
    """Policies first, then what twins are given: attacks are described by what they change."""
    cases = [*about.get("cases", ()), *about.get("transcripts", ())]
    twins = (case for case in cases if case["kind"] == "twin")
    honest = {one for case in twins for _, one in named_inputs(case) if isinstance(one, str)}
    return sorted(files, key=lambda name: (not name.endswith(".toml"), name not in honest))


def described(files: Mapping[str, bytes]) -> Json:
    """What the format says of files: their content, or how it differs from another's."""
    found: Json = {}
    bases: dict[str, str] = {}
    for name, data in files.items():
        whole = _whole(data)
        if "statement" in whole:
            found[name] = _shortened(found, whole)
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError:
            found[name] = whole
            continue
        least = len(json.dumps(whole, ensure_ascii=False)) * _WORTH
        for base, other in bases.items():
            if other[:1] == text[:1] and (edit := _edit(base, other, text)):
                size = len(json.dumps(edit, ensure_ascii=False))
                if size < least:
                    found[name], least = edit, size
        if name not in found:
            found[name], bases[name] = whole, text
    assert all(content(found, one) == files[one] for one in files)
    return found


def _whole(data: bytes) -> Any:
    """A file by itself: JSON in one of two forms, text, lines of text, or base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    for form in ("json", "compact"):
        try:
            said = json.loads(text, parse_float=_no_float)
        except (ValueError, RecursionError):
            break
        if _is_plain(said) and content({"": {form: said}}, "") == data:
            return _statement(said, data) or {form: said}
    if text.count("\n") > 1 and text.endswith("\n"):
        return {"lines": text[:-1].split("\n")}
    return {"text": text}


def _no_float(_: str) -> Any:
    raise ValueError


def _is_plain(value: Any) -> bool:
    """Whether every serializer writes it alike: objects, with names that are no numbers."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        named = all(_is_plain(name) and not name.isdigit() for name in value)
        return named and all(map(_is_plain, value.values()))
    if isinstance(value, int):
        return abs(value) < 2**53
    return not (isinstance(value, str) and _UNLIKE.search(value))


# ------------------------------------------------------------------ statements


def _statement(envelope: Any, data: bytes) -> Json | None:
    """A statement with its payload and headers as they are before base64url, if that is all."""
    try:
        heads = [{**one, "protected": _read(one["protected"])} for one in envelope["signatures"]]
        said = {"statement": {"payload": _read(envelope["payload"]), "signatures": heads}}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    plain = _is_plain(said) and isinstance(said["statement"]["payload"], dict)
    return said if plain and content({"": said}, "") == data else None


def _read(text: str) -> Any:
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return json.loads(data, parse_float=_no_float)


def _shortened(found: Json, whole: Json) -> Json:
    """The statement as another's with some members changed, where that is shorter."""
    least = whole
    payload = whole["statement"]["payload"]
    for base, other in found.items():
        if set(other.get("statement", ())) != {"payload", "signatures"}:
            continue
        held = other["statement"]["payload"]
        kept = [name for name in held if name in payload and held[name] == payload[name]]
        changed = {name: one for name, one in payload.items() if name not in kept}
        said: Json = {"of": base, "payload": changed}
        if without := [name for name in held if name not in payload]:
            said["without"] = without
        said = {"statement": {**said, "signatures": whole["statement"]["signatures"]}}
        files = {**found, "": said}
        if len(json.dumps(said)) < len(json.dumps(least)) and content(files, "") == content(
            {"": whole}, ""
        ):
            least = said
    return least


# ------------------------------------------------------------------ edits


def _edit(base: str, old: str, new: str) -> Json | None:
    """How one text is made of another: texts that occur once in it, and what takes their place."""
    old_tokens, new_tokens = _TOKEN.findall(old), _TOKEN.findall(new)
    matcher = SequenceMatcher(None, old_tokens, new_tokens, autojunk=False)
    if matcher.real_quick_ratio() < 0.3 or matcher.quick_ratio() < 0.3:
        return None
    begins = [0]
    for token in old_tokens:
        begins.append(begins[-1] + len(token))
    changes: list[tuple[int, int, str]] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        start, end, put = begins[i1], begins[i2], "".join(new_tokens[j1:j2])
        if changes and start - changes[-1][1] < _APART:
            before, middle, held = changes.pop()
            start, put = before, held + old[middle:start] + put
        changes.append((start, end, put))
    return {"of": base, "replace": list(_unique(old, begins, changes))}


def _unique(
    old: str, begins: list[int], changes: list[tuple[int, int, str]]
) -> Iterator[list[str]]:
    """The changes with as many tokens before them as make each of them occur once."""
    floor = 0
    for start, end, put in changes:
        began, ended = start, end
        while old.count(old[began:ended]) != 1 or began == ended:
            if began > floor:
                began = begins[bisect_left(begins, began) - 1]
            else:
                ended = begins[bisect_right(begins, ended)]
        yield [old[began:ended], old[began:start] + put + old[end:ended]]
        floor = ended


# ------------------------------------------------------------------ form


def spread(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON in which whatever fits into a line stands on one."""
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
