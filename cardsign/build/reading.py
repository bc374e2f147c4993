"""Sources to values: YAML, frontmatter, TOML and JSON, each value with the line it stands on.

What two readers could read differently is refused, as in a card: members twice, anchors and
aliases (which also make bombs), tags, merge keys, more than one document where one is expected.
Scalars are those of YAML's 1.2 core schema, so `no` is a word and `1:30` a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from cardsign.card.strictjson import MAX_DEPTH, double, integer, offsets, parse_object
from cardsign.card.values import Json
from cardsign.errors import BuildRefused, CardRefused, JsonRefused
from cardsign.files import read_bytes, read_toml
from cardsign.findings import describe_code
from cardsign.trust.policytext import find_lines

#: Bytes of one source; the largest manifest of the corpus has 24 KiB.
MAX_SOURCE_BYTES: Final = 1024 * 1024
#: Names of members and indices of lists.
Location: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Where something was taken from: a file, and a line of it, from 1; 0 stands for no line."""

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
        written: YAML's scalars as they are written, where they are numbers.
    """

    file: str
    value: Mapping[str, Json] = field(hash=False)
    lines: Mapping[Location, int] = field(hash=False)
    written: Mapping[Location, str] = field(default_factory=dict, hash=False)

    def place(self, *location: str | int) -> SourcePlace:
        """Where a value stands, or what encloses it."""
        while location and location not in self.lines:
            location = location[:-1]
        return SourcePlace(self.file, self.lines.get(location, 1))

    def refuse(self, code: str, message: str, *location: str | int, hint: str = "") -> BuildRefused:
        """The error about one value."""
        return refusal(code, message, self.place(*location), hint=hint)

    def get(self, *location: str | int) -> Json:
        """A value; None where it is absent or what encloses it is of another kind."""
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
        """A text, trimmed; None where it is absent or empty.

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
        """A list of texts, without empty ones; a single text is a list of one.

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
        """True or false; None where it is absent.

        Raises:
            BuildRefused: ``build.type``.
        """
        value = self.get(*location)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong("true or false", *location)

    def table(self, *location: str | int) -> dict[str, Json]:
        """An object; an empty one where it is absent.

        Raises:
            BuildRefused: ``build.type``.
        """
        value = self.get(*location)
        if value is None or isinstance(value, dict):
            return value or {}
        raise self._wrong("an object", *location)

    def rows(self, *location: str | int) -> Iterator[Location]:
        """Where the elements of a list of objects stand; none where it is absent.

        Raises:
            BuildRefused: ``build.type``.
        """
        value = self.get(*location)
        if value is not None and not isinstance(value, list):
            raise self._wrong("a list", *location)
        for index, row in enumerate(value or ()):
            if not isinstance(row, dict):
                raise self._wrong("an object", *location, index)
            yield (*location, index)

    def _wrong(self, expected: str, *location: str | int) -> BuildRefused:
        name = ".".join(map(str, location))
        return self.refuse("build.type", f"{name}: expected {expected}", *location)


def refusal(code: str, message: str, place: SourcePlace, *, hint: str = "") -> BuildRefused:
    """The error about a place."""
    return BuildRefused(code, message, path=place.file, line=place.line or None, hint=hint)


def of_card(refused: CardRefused, place: SourcePlace) -> BuildRefused:
    """The error about a place that would make a card be refused."""
    unsupported = refused.code in ("card.auth_type", "card.auth_setting")
    if unsupported:
        hint = describe_code(refused.code).fix
        return refusal("build.unsupported", refused.message, place, hint=hint)
    code = "build.limit" if refused.code == "json.too_many_values" else "build.type"
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


def read_yaml(data: bytes, file: str) -> tuple[SourceDocument, ...]:
    """The documents of a YAML stream; empty ones are left out.

    Raises:
        BuildRefused: ``build.syntax``, ``build.type`` where one is no object.
    """
    return tuple(_Yaml(_decoded(data, file), file).documents())


def read_frontmatter(data: bytes, file: str) -> tuple[SourceDocument, ...]:
    """The YAML object at the head of a Markdown file, between two lines of ``---``.

    A file without one has an empty object.

    Raises:
        BuildRefused: As :func:`read_yaml`.
    """
    text = _decoded(data, file)
    match = _FRONTMATTER.match(text)
    if match is None and text.startswith("---"):
        raise refusal(
            "build.syntax", "the frontmatter has no closing line ---", SourcePlace(file, 1)
        )
    head = f"\n{match[1]}" if match else ""  # an empty line for the first ---
    return tuple(_Yaml(head, file).documents()) or (SourceDocument(file, {}, {}),)


def read_toml_source(data: bytes, file: str) -> tuple[SourceDocument, ...]:
    """A TOML file. Dates are refused where they are taken.

    Raises:
        BuildRefused: ``build.syntax``.
    """
    text = _decoded(data, file)
    try:
        value = read_toml(data)
        lines = find_lines(text)
    except (ValueError, RecursionError) as exc:
        match = re.search(r"at line (\d+)", str(exc))
        line = int(match[1]) if match else 0
        raise refusal("build.syntax", f"not TOML: {exc}", SourcePlace(file, line)) from exc
    return (SourceDocument(file, value, lines),)


def read_json(data: bytes, file: str) -> tuple[SourceDocument, ...]:
    """A strict JSON object.

    Raises:
        BuildRefused: ``build.syntax``, with the line of the fault.
    """
    try:
        value = parse_object(data, max_bytes=MAX_SOURCE_BYTES)
    except JsonRefused as exc:
        place, hint = SourcePlace(file, exc.finding.place.line or 0), describe_code(exc.code).fix
        raise refusal("build.syntax", exc.message, place, hint=hint) from exc
    lines: dict[Location, int] = {}
    text, line, before = data.decode(), 1, 0
    for location, _, at in offsets(text):
        line, before = line + text.count("\n", before, at), at
        lines[location] = line
    return (SourceDocument(file, value, lines),)


_READERS: Final[Mapping[str, Callable[[bytes, str], tuple[SourceDocument, ...]]]] = {
    ".yaml": read_yaml,
    ".yml": read_yaml,
    ".tmpl": read_yaml,
    ".toml": read_toml_source,
    ".json": read_json,
    ".md": read_frontmatter,
}
_FRONTMATTER: Final = re.compile(
    r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)


def _decoded(data: bytes, file: str) -> str:
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise refusal("build.syntax", "it is not UTF-8", SourcePlace(file, line)) from exc


# ------------------------------------------------------------------ YAML

#: Half of a character, which YAML and a command line can write and UTF-8 cannot.
SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


class _Yaml:
    """One stream: its events, turned into documents without PyYAML's own notions of types."""

    def __init__(self, text: str, file: str) -> None:
        import yaml

        self._yaml: Any = yaml
        self._file = file
        self._events = yaml.parse(text, Loader=yaml.SafeLoader)
        self._lines: dict[Location, int] = {}
        self._written: dict[Location, str] = {}

    def documents(self) -> Iterator[SourceDocument]:
        try:
            for event in self._events:
                if isinstance(event, self._yaml.DocumentStartEvent):
                    self._lines, self._written = {}, {}
                    first = next(self._events)
                    value = self._value(first, ())
                    if value is None:
                        continue
                    if not isinstance(value, dict):
                        raise self._refused(first, "expected an object: `name: value` lines")
                    yield SourceDocument(self._file, value, self._lines, self._written)
        except self._yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            line = mark.line + 1 if mark else 0
            problem = exc.problem or exc.context or "it cannot be read"
            hint = "Indent with spaces." if "\\t" in problem else ""
            if "mapping values are not allowed" in problem:
                hint = "Put the text of that line in double quotes: it holds a colon and a space."
            raise refusal(
                "build.syntax",
                f"not YAML: {problem}",
                SourcePlace(self._file, line),
                hint=hint,
            ) from exc
        except self._yaml.YAMLError as exc:  # a character that YAML does not allow
            raise refusal(
                "build.syntax", f"not YAML: {exc.reason}", SourcePlace(self._file)
            ) from exc
        except (ValueError, OverflowError) as exc:  # PyYAML: "\\UFFFFFFFF", 5000 digits
            text = "not YAML: a number in it is too large"
            raise refusal("build.syntax", text, SourcePlace(self._file)) from exc

    def _value(self, event: Any, at: Location) -> Json:
        # A deeper value could not become part of a card, and each level takes a stack frame.
        if len(at) >= MAX_DEPTH:
            raise self._refused(event, f"values are nested more than {MAX_DEPTH} deep")
        if isinstance(event, self._yaml.AliasEvent) or event.anchor is not None:
            raise self._refused(event, "anchors and aliases are not read; write the value twice")
        if event.tag is not None:
            raise self._refused(event, f"the tag {event.tag} is not read")
        self._lines[at] = event.start_mark.line + 1
        if isinstance(event, self._yaml.MappingStartEvent):
            return self._mapping(at)
        if not isinstance(event, self._yaml.SequenceStartEvent):
            return self._scalar(event, at)
        elements: list[Json] = []
        for one in self._events:
            if isinstance(one, self._yaml.SequenceEndEvent):
                break
            elements.append(self._value(one, (*at, len(elements))))
        return elements

    def _mapping(self, at: Location) -> dict[str, Json]:
        members: dict[str, Json] = {}
        for event in self._events:
            if isinstance(event, self._yaml.MappingEndEvent):
                break
            if not isinstance(event, self._yaml.ScalarEvent) or event.anchor or event.tag:
                raise self._refused(event, "a name is a plain word; is this a template?")
            name = self._text(event)
            if name in members or name == "<<":
                problem = (
                    "merge keys are not read" if name == "<<" else f"{name!r} stands here twice"
                )
                raise self._refused(event, problem)
            line = event.start_mark.line + 1
            members[name] = self._value(next(self._events), (*at, name))
            self._lines[(*at, name)] = line
        return members

    def _text(self, event: Any) -> str:
        text: str = event.value
        if SURROGATE.search(text):
            raise self._refused(event, "half a character is no text")
        return text

    def _scalar(self, event: Any, at: Location) -> Json:
        text = self._text(event)
        if not event.implicit[0]:  # quoted, or a block
            return text
        if text in _NULLS:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if not _FLOAT.fullmatch(text):
            return text
        self._written[at] = text
        try:
            return integer(text) if _INTEGER.fullmatch(text) else double(text)
        except ValueError:
            return text  # beyond what JSON's readers agree on: a digest, an account

    def _refused(self, event: Any, message: str) -> BuildRefused:
        return refusal("build.syntax", message, SourcePlace(self._file, event.start_mark.line + 1))
