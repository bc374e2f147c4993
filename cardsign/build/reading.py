"""Read YAML, frontmatter, TOML and JSON, with the line of each value.

Ambiguous input is refused, as in a card: duplicate members, anchors and aliases (which also make
YAML bombs), tags, merge keys, more than one document where one is expected.
Scalars follow YAML's 1.2 core schema, so `no` and `1:30` are strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from cardsign.card.security import UNDECLARED
from cardsign.card.strictjson import MAX_DEPTH, double, integer, offsets, parse_object
from cardsign.card.values import Json, elements_of
from cardsign.errors import BuildRefused, CardRefused, JsonRefused
from cardsign.files import read_bytes
from cardsign.findings import describe_code
from cardsign.tomltext import Location, find_lines, read_toml

#: Bytes of one source; the largest manifest of the corpus has 24 KiB.
MAX_SOURCE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A place in a source: a file and a line, from 1; 0 if there is no line."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One object that was read from a source, with the lines of its values.

    Attributes:
        file: The source, as the user named it.
        value: The object. A number may be one that its author meant as a text: see :meth:`text`.
        lines: The line of each value.
        written: The source text of YAML scalars that look like numbers.
    """

    file: str
    value: Mapping[str, Json] = field(hash=False)
    lines: Mapping[Location, int] = field(hash=False)
    written: Mapping[Location, str] = field(default_factory=dict, hash=False)

    def place(self, *location: str | int) -> SourcePlace:
        """Return the place of a value, or else of the nearest value around it."""
        while location and location not in self.lines:
            location = location[:-1]
        return SourcePlace(self.file, self.lines.get(location, 1))

    def refuse(self, code: str, message: str, *location: str | int, hint: str = "") -> BuildRefused:
        """Return an error with the place of a value."""
        return refusal(code, message, self.place(*location), hint=hint)

    def get(self, *location: str | int) -> Json:
        """Return a value; None where it is absent."""
        value: Any = self.value
        for token in location:
            if isinstance(value, Mapping) and isinstance(token, str):
                value = value.get(token)
            elif isinstance(value, list) and isinstance(token, int) and token < len(value):
                value = value[token]
            else:
                return None
        reached: Json = dict(value) if value is self.value else value
        return reached

    def text(self, *location: str | int) -> str | None:
        """Return a text, trimmed; None where it is absent or empty.

        Raises:
            BuildRefused: ``build.type``.
        """
        value = self.get(*location)
        if value is None:
            return None
        if location in self.written:
            return self.written[location]
        if not isinstance(value, str):
            raise self._wrong("a text", *location)
        return value.strip() or None

    def texts(self, *location: str | int) -> list[str]:
        """Return a list of texts, without empty ones; a single text is a list of one.

        Raises:
            BuildRefused: ``build.type``.
        """
        value = self.get(*location)
        if isinstance(value, list):
            texts: Iterator[str | None] = (
                self.text(*location, index) for index in range(len(value))
            )
        elif value is None or isinstance(value, str):
            texts = iter([self.text(*location)])
        else:
            raise self._wrong("a list of texts", *location)
        return [text for text in texts if text is not None]

    def flag(self, *location: str | int) -> bool | None:
        """Return true or false; None where it is absent.

        Raises:
            BuildRefused: ``build.type``.
        """
        return cast("bool | None", self._typed(bool, "true or false", *location))

    def table(self, *location: str | int) -> dict[str, Json]:
        """Return an object; an empty one where it is absent.

        Raises:
            BuildRefused: ``build.type``.
        """
        return cast("dict[str, Json]", self._typed(dict, "an object", *location) or {})

    def rows(self, *location: str | int) -> Iterator[Location]:
        """Yield where the elements of a list of objects stand; none where it is absent.

        Raises:
            BuildRefused: ``build.type``.
        """
        value = elements_of(self._typed(list, "a list", *location))
        for index, row in enumerate(value):
            if not isinstance(row, dict):
                raise self._wrong("an object", *location, index)
            yield (*location, index)

    def _typed(self, kind: type, words: str, *location: str | int) -> Json:
        value = self.get(*location)
        if value is None or isinstance(value, kind):
            return value
        raise self._wrong(words, *location)

    def _wrong(self, expected: str, *location: str | int) -> BuildRefused:
        name = ".".join(map(str, location))
        return self.refuse("build.type", f"{name}: expected {expected}", *location)


def refusal(code: str, message: str, place: SourcePlace, *, hint: str = "") -> BuildRefused:
    """Return an error with a place."""
    return BuildRefused(code, message, path=place.file, line=place.line or None, hint=hint)


def of_card(refused: CardRefused, place: SourcePlace) -> BuildRefused:
    """Return the error for a value that a card refuses, with its place in the source."""
    unsupported = refused.code in ("card.auth_type", "card.auth_setting")
    if unsupported:
        hint = describe_code(refused.code).fix
        return refusal("build.unsupported", refused.message, place, hint=hint)
    code = "build.limit" if refused.code == "json.too_many_values" else "build.type"
    if refused.message.endswith(UNDECLARED):
        code = "build.reference"
    return refusal(code, refused.message, place)


def read_source(path: Path) -> tuple[SourceDocument, ...]:
    """Read a file by its name: YAML (one document or more), TOML, JSON, or Markdown.

    Raises:
        BuildRefused: ``build.syntax``, ``build.type``.
        FileFault: ``file.*``.
    """
    data = read_bytes(path, max_bytes=MAX_SOURCE_BYTES)
    suffix = path.suffix.lower()
    reader = _READERS.get(suffix)
    if reader is None:
        endings = ", ".join(_READERS)
        raise refusal(
            "build.unknown_source",
            f"{path.name!r} ends in none of {endings}",
            SourcePlace(str(path)),
        )
    return reader(data, str(path))


def read_one(path: Path) -> SourceDocument:
    """Read a file that holds one document.

    Raises:
        BuildRefused, FileFault: As :func:`read_source`.
    """
    documents = read_source(path)
    if len(documents) != 1:
        raise refusal(
            "build.syntax", f"expected one document, found {len(documents)}", SourcePlace(str(path))
        )
    return documents[0]


def read_frontmatter(data: bytes, file: str) -> tuple[SourceDocument, ...]:
    """Read the YAML object at the head of a Markdown file, between two lines of ``---``.

    A file without one has an empty object.

    Raises:
        BuildRefused: As :func:`read_yaml`.
    """
    text = _decode(data, file)
    match = _FRONTMATTER.match(text)
    if match is None and text.startswith("---"):
        raise refusal(
            "build.syntax", "the frontmatter has no closing line ---", SourcePlace(file, 1)
        )
    head = f"\n{match[1]}" if match else ""  # an empty line for the first ---
    return read_yaml(head.encode(), file) or (SourceDocument(file, {}, {}),)


def read_toml_source(data: bytes, file: str) -> tuple[SourceDocument, ...]:
    """Read a TOML file. Dates are refused where they are taken.

    Raises:
        BuildRefused: ``build.syntax``.
    """
    text = _decode(data, file)
    try:
        value = read_toml(data)
        lines = find_lines(text)
    except (ValueError, RecursionError) as exc:
        match = re.search(r"at line (\d+)", str(exc))
        line = int(match[1]) if match else 0
        raise refusal("build.syntax", f"not TOML: {exc}", SourcePlace(file, line)) from exc
    return (SourceDocument(file, value, lines),)


def read_json(data: bytes, file: str) -> tuple[SourceDocument, ...]:
    """Read a strict JSON object.

    Raises:
        BuildRefused: ``build.syntax``, with the line of the fault.
    """
    try:
        value = parse_object(data, max_bytes=MAX_SOURCE_BYTES)
    except JsonRefused as exc:
        place, hint = SourcePlace(file, exc.finding.place.line or 0), describe_code(exc.code).fix
        raise refusal("build.syntax", exc.message, place, hint=hint) from exc
    lines: dict[Location, int] = {}
    text, line, counted = data.decode(), 1, 0
    for location, _, at in offsets(text):
        line, counted = line + text.count("\n", counted, at), at
        lines[location] = line
    return (SourceDocument(file, value, lines),)


_FRONTMATTER: Final = re.compile(
    r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)


def _decode(data: bytes, file: str) -> str:
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise refusal("build.syntax", "it is not UTF-8", SourcePlace(file, line)) from exc


# YAML.

#: An unpaired surrogate, which YAML and a command line can write and UTF-8 cannot encode.
SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NULLS: Final = ("", "~", "null", "Null", "NULL")
_WORDS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_KINDS: Final = {"scalar": "str", "mapping": "map", "sequence": "seq"}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def read_yaml(data: bytes, file: str) -> tuple[SourceDocument, ...]:
    """Read the documents of a YAML stream; empty ones are left out.

    Raises:
        BuildRefused: ``build.syntax``.
    """
    import yaml

    try:
        nodes = yaml.compose_all(_decode(data, file), Loader=yaml.BaseLoader)
        return tuple(_read_document(node, file) for node in nodes if node.value not in _NULLS)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = exc.problem or exc.context or "it cannot be read"
        if "alias" in problem:
            problem = "anchors and aliases are not read; write the value twice"
        hint = "Indent with spaces." if "\\t" in problem else ""
        if "mapping values are not allowed" in problem:
            hint = "Put the text of that line in double quotes: it holds a colon and a space."
        place = SourcePlace(file, mark.line + 1 if mark else 0)
        raise refusal("build.syntax", f"not YAML: {problem}", place, hint=hint) from exc
    except RecursionError as exc:
        problem = f"values are nested more than {MAX_DEPTH} deep"
        raise refusal("build.syntax", problem, SourcePlace(file)) from exc
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # "\x01", "\UFFFFFFFF", 5000 digits
        problem = getattr(exc, "reason", "a number in it is too large")
        raise refusal("build.syntax", f"not YAML: {problem}", SourcePlace(file)) from exc


def _read_document(root: Any, file: str) -> SourceDocument:
    """Read one document of a stream into plain JSON values."""
    lines: dict[Location, int] = {}
    written: dict[Location, str] = {}
    seen: set[int] = set()

    def refuse(node: Any, message: str) -> BuildRefused:
        return refusal("build.syntax", message, SourcePlace(file, node.start_mark.line + 1))

    def read(node: Any, at: Location) -> Json:
        # A card cannot be nested deeper, and each level takes a stack frame.
        if len(at) >= MAX_DEPTH:
            raise refuse(node, f"values are nested more than {MAX_DEPTH} deep")
        if id(node) in seen:
            raise refuse(node, "anchors and aliases are not read; write the value twice")
        seen.add(id(node))
        if node.tag != f"tag:yaml.org,2002:{_KINDS[node.id]}":
            raise refuse(node, f"the tag {node.tag} is not read")
        lines.setdefault(at, node.start_mark.line + 1)
        if node.id == "mapping":
            return read_members(node, at)
        if node.id == "sequence":
            return [read(child, (*at, index)) for index, child in enumerate(node.value)]
        check_text(node)
        if node.style is not None:  # quoted, or a block
            return str(node.value)
        if _FLOAT.fullmatch(node.value):
            written[at] = node.value
        return _read_scalar(node.value)

    def read_members(node: Any, at: Location) -> dict[str, Json]:
        members: dict[str, Json] = {}
        for key, value in node.value:
            if key.id != "scalar":
                raise refuse(key, "a name is a plain word; is this a template?")
            check_text(key)
            if key.value == "<<" or key.value in members:
                raise refuse(key, f"{key.value!r} stands here twice, or is a merge key")
            lines[*at, key.value] = key.start_mark.line + 1
            members[key.value] = read(value, (*at, key.value))
        return members

    def check_text(node: Any) -> None:
        if SURROGATE.search(node.value):
            raise refuse(node, "the text contains an unpaired surrogate")

    value = read(root, ())
    if not isinstance(value, dict):
        raise refuse(root, "expected an object: `name: value` lines")
    return SourceDocument(file, value, lines, written)


def _read_scalar(text: str) -> Json:
    """Return a plain scalar as YAML's 1.2 core schema has it."""
    if text in _NULLS:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if not _FLOAT.fullmatch(text):
        return text
    try:
        return integer(text) if _INTEGER.fullmatch(text) else double(text)
    except ValueError:
        return text  # beyond what JSON's readers agree on: a digest, an account


_READERS: Final[Mapping[str, Callable[[bytes, str], tuple[SourceDocument, ...]]]] = {
    **dict.fromkeys((".yaml", ".yml", ".tmpl"), read_yaml),
    ".toml": read_toml_source,
    ".json": read_json,
    ".md": read_frontmatter,
}
