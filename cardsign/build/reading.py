"""Read YAML, frontmatter, TOML and JSON, with the line of each value.

Ambiguous input is refused, as in a card: duplicate members, anchors and aliases (which also make
YAML bombs), tags, merge keys, more than one document where one is expected.
Scalars follow YAML's 1.2 core schema, so `no` and `1:30` are strings.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from cardsign.card.security import UNDECLARED
from cardsign.card.strictjson import MAX_DEPTH, double, integer, offsets, parse_object
from cardsign.card.values import Json, kind_of, members_of, value_at
from cardsign.errors import BuildRefused, CardRefused, JsonRefused
from cardsign.files import leads_outside, read_bytes
from cardsign.tomltext import Location, find_lines, line_of, read_toml

_Kind = TypeVar("_Kind", str, bool, dict[str, Json], list[Json])

#: Bytes of one source; the largest manifest of the corpus has 24 KiB.
MAX_SOURCE_BYTES: Final = 1024 * 1024
#: Files of one source; a card of more skills would be refused for its size.
MAX_FILES: Final = 20_000
#: What is said where a card refuses what a source says, unless the value is of a wrong type.
_REFUSALS: Final = {
    "card.auth_type": "build.unsupported",
    "card.auth_setting": "build.unsupported",
    "json.too_many_values": "build.limit",
}


@dataclass(frozen=True, slots=True)
class SourceValue:
    """A value of a source and its place; a place alone has no value.

    Attributes:
        file: The source, as the user named it.
        value: None where it is absent. A number may be one that its author meant as a text: see
            :meth:`text`.
        at: Where in the file it stands.
        lines: The line of each value of the file; 0 where it has none.
        written: The source text of YAML scalars that look like numbers.
    """

    file: str
    value: Json = None
    at: Location = ()
    lines: Mapping[Location, int] = field(default_factory=lambda: {(): 0}, repr=False)
    written: Mapping[Location, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def line(self) -> int | None:
        """The line of the value, or else of the nearest value around it, from 1."""
        return line_of(self.lines, self.at) or None

    @property
    def members(self) -> dict[str, Json]:
        """The members of an object; none of any other value."""
        return members_of(self.value)

    def refuse(self, code: str, message: str, *, hint: str = "") -> BuildRefused:
        """Return an error with the place of the value."""
        return BuildRefused(code, message, path=self.file, line=self.line, hint=hint)

    def refuse_as(self, refused: CardRefused) -> BuildRefused:
        """Return the error for a value that a card refuses."""
        code = _REFUSALS.get(refused.code, "build.type")
        if refused.message.endswith(UNDECLARED):
            code = "build.reference"
        return self.refuse(code, refused.message, hint=refused.finding.hint)

    def get(self, *path: str | int) -> SourceValue:
        """Return what stands inside the value."""
        try:
            value = value_at(self.value, path)
        except KeyError:
            value = None
        return replace(self, value=value, at=(*self.at, *path))

    def read(self, kind: type[_Kind], *path: str | int) -> _Kind | None:
        """Return a value of one type; None where it is absent.

        Raises:
            BuildRefused: ``build.type``.
        """
        place = self.get(*path)
        if isinstance(place.value, kind | None):
            return place.value
        name = ".".join(map(str, place.at))
        raise place.refuse("build.type", f"{name}: expected {kind_of(kind())}")

    def text(self, *path: str | int) -> str | None:
        """Return a text, trimmed; None where it is absent or empty.

        Raises:
            BuildRefused: ``build.type``.
        """
        place = self.get(*path)
        if type(place.value) in (int, float) and place.at in self.written:
            return self.written[place.at]
        return (place.read(str) or "").strip() or None

    def texts(self, *path: str | int) -> list[str]:
        """Return a list of texts, without empty ones; a single text is a list of one.

        Raises:
            BuildRefused: ``build.type``.
        """
        place = self.get(*path)
        count = len(place.value) if isinstance(place.value, list) else None
        parts = [place] if count is None else map(place.get, range(count))
        return [text for part in parts if (text := part.text())]

    def need(self, owner: str, *names: str) -> str:
        """Return the first of these texts that is there.

        Raises:
            BuildRefused: ``build.missing``: there is none; ``build.type``.
        """
        for text in filter(None, map(self.text, names)):
            return text
        raise self.refuse("build.missing", f"{owner} has no {' or '.join(names)}")

    def rows(self, *path: str | int) -> Iterator[SourceValue]:
        """Yield the elements of a list of objects; none where it is absent.

        Raises:
            BuildRefused: ``build.type``.
        """
        for index in range(len(self.read(list, *path) or [])):
            self.read(dict, *path, index)
            yield self.get(*path, index)


def read_source(path: Path) -> list[SourceValue]:
    """Read a file by its name: YAML (one document or more), TOML, JSON, or Markdown.

    Raises:
        BuildRefused: ``build.syntax``, ``build.type``.
        FileFault: ``file.*``.
    """
    data, file = read_bytes(path, max_bytes=MAX_SOURCE_BYTES), str(path)
    suffix = path.suffix.lower()
    if suffix == ".json":
        return [read_json(data, file)]
    reader = _READERS.get(suffix)
    if reader is None:
        message = f"{path.name!r} has none of the endings .json, {', '.join(_READERS)}"
        raise SourceValue(file).refuse("build.unknown_source", message)
    try:
        return reader(data.decode().removeprefix("\ufeff"), file)
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise BuildRefused("build.syntax", "it is not UTF-8", path=file, line=line) from exc


def read_one(path: Path) -> SourceValue:
    """Read a file that holds one document.

    Raises:
        BuildRefused, FileFault: As :func:`read_source`.
    """
    documents = read_source(path)
    if len(documents) != 1:
        message = f"expected one document, found {len(documents)}"
        raise BuildRefused("build.syntax", message, path=str(path))
    return documents[0]


def read_json(data: bytes, file: str) -> SourceValue:
    """Read a strict JSON object.

    Raises:
        BuildRefused: ``build.syntax``, with the line of the fault.
    """
    try:
        value = parse_object(data, max_bytes=MAX_SOURCE_BYTES)
    except JsonRefused as exc:
        place = SourceValue(file, lines={(): exc.finding.place.line or 0})
        raise place.refuse("build.syntax", exc.message, hint=exc.finding.hint) from exc
    lines: dict[Location, int] = {}
    text, line, counted = data.decode(), 1, 0
    for location, at in offsets(text):
        line, counted = line + text.count("\n", counted, at), at
        lines[location] = line
    return SourceValue(file, value, lines=lines)


def _read_frontmatter(text: str, file: str) -> list[SourceValue]:
    """Read the YAML object at the head of a Markdown file, between two lines of ``---``.

    A file without one has an empty object.
    """
    match = _FRONTMATTER.match(text)
    if match is None and text.startswith("---"):
        message = "the frontmatter has no closing line ---"
        raise BuildRefused("build.syntax", message, path=file, line=1)
    head = f"\n{match[1]}" if match else ""  # an empty line for the first ---
    return _read_yaml(head, file) or [SourceValue(file, {}, lines={(): 1})]


_FRONTMATTER: Final = re.compile(r"(?ms)---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)")


def _read_toml(text: str, file: str) -> list[SourceValue]:
    """Read a TOML file; a date is its text."""
    try:
        value = json.loads(json.dumps(read_toml(text.encode()), default=str))
        return [SourceValue(file, value, lines=find_lines(text))]
    except (ValueError, RecursionError) as exc:
        match = re.search(r"at line (\d+)", str(exc))
        line = int(match[1]) if match else None
        raise BuildRefused("build.syntax", f"not TOML: {exc}", path=file, line=line) from exc


# YAML.

_WORDS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def _read_yaml(text: str, file: str) -> list[SourceValue]:
    """Read the documents of a YAML stream; empty ones are left out."""
    documents: list[SourceValue] = []
    try:
        # In C where it is compiled, as in every wheel: thirty times as fast.
        events = yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += _YamlDocument(events, file).source_values()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = exc.problem or exc.context or "it cannot be read"
        is_colon = "mapping values are not allowed" in problem
        hint = "Put a text that holds a colon in double quotes." if is_colon else ""
        place = SourceValue(file, lines={(): mark.line + 1 if mark else 0})
        raise place.refuse("build.syntax", f"not YAML: {problem}", hint=hint) from exc
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # "\x01", "\UFFFFFFFF", 5000 digits
        problem = getattr(exc, "reason", "a number in it is too large")
        raise BuildRefused("build.syntax", f"not YAML: {problem}", path=file) from exc
    return documents


class _YamlDocument:
    """One document of a stream of events, as plain JSON values with their lines."""

    def __init__(self, events: Iterator[Any], file: str) -> None:
        self.events, self.file = events, file
        self.lines: dict[Location, int] = {}
        self.written: dict[Location, str] = {}

    def source_values(self) -> Iterator[SourceValue]:
        """Yield the document that begins with the next event, unless it is empty."""
        root = next(self.events)
        value = self.read(root, ())
        if isinstance(value, dict):
            yield SourceValue(self.file, value, lines=self.lines, written=self.written)
        elif value is not None:
            raise self.refuse(root, "expected an object: `name: value` lines")

    def refuse(self, event: Any, problem: str) -> BuildRefused:
        return BuildRefused("build.syntax", problem, path=self.file, line=event.start_mark.line + 1)

    def inside(self) -> Iterator[Any]:
        """Yield the events up to the end of the list or object that has begun."""
        return takewhile(lambda event: not isinstance(event, yaml.CollectionEndEvent), self.events)

    def read(self, event: Any, at: Location) -> Json:
        """Return the value that begins with an event."""
        if isinstance(event, yaml.AliasEvent) or event.anchor or event.tag:
            raise self.refuse(event, "anchors, aliases and tags are not read; write the value")
        # A card cannot be nested deeper, and each level takes a stack frame.
        if len(at) >= MAX_DEPTH:
            raise self.refuse(event, f"values are nested more than {MAX_DEPTH} deep")
        self.lines.setdefault(at, event.start_mark.line + 1)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self.read(child, (*at, index)) for index, child in enumerate(self.inside())]
        if isinstance(event, yaml.MappingStartEvent):
            return {name: self.read(next(self.events), (*at, name)) for name in self.names(at)}
        return self.scalar(event, at)

    def names(self, at: Location) -> Iterator[str]:
        """Yield the names of an object; each is to be followed by the reading of its value."""
        for key in self.inside():
            name = getattr(key, "value", None)
            if name is None:
                raise self.refuse(key, "a name is a plain word; is this a template?")
            if name == "<<" or (*at, name) in self.lines:
                raise self.refuse(key, f"{name!r} stands here twice, or is a merge key")
            self.read(key, (*at, name))
            yield name

    def scalar(self, event: Any, at: Location) -> Json:
        """Return a scalar; a plain one as YAML's 1.2 core schema has it."""
        text = str(event.value)
        if event.style or not _NUMBER.fullmatch(text):
            return text if event.style else _WORDS.get(text, text)
        self.written[at] = text
        with suppress(ValueError):  # beyond what JSON's readers agree on: a digest, an account
            return (integer if text.lstrip("+-").isdigit() else double)(text)
        return text


_READERS: Final[Mapping[str, Callable[[str, str], list[SourceValue]]]] = {
    **dict.fromkeys((".yaml", ".yml", ".tmpl"), _read_yaml),
    ".toml": _read_toml,
    ".md": _read_frontmatter,
}


# The search for files.


def find_files(source: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Yield the files of a folder that fit a pattern, each once, sorted by path; a file itself.

    A link that leads out of the folder is refused: the folder may be a stranger's.

    Raises:
        BuildRefused: ``build.limit``; ``build.unsupported`` for such a link.
    """
    if not os.path.isdir(source):
        yield source
        return
    fitting = (path for pattern in patterns for path in source.glob(pattern))
    paths = list(islice(fitting, MAX_FILES + 1))
    if len(paths) > MAX_FILES:
        raise SourceValue(str(source)).refuse("build.limit", f"more than {MAX_FILES} files")
    for path in sorted(set(paths)):
        if leads_outside(source, path):
            message = "it is a link that leads out of its folder"
            hint = "Put the file itself there."
            raise SourceValue(str(path)).refuse("build.unsupported", message, hint=hint)
        if os.path.isfile(path):
            yield path


def read_first(source: Path, names: Sequence[str]) -> SourceValue:
    """Read a file, or the first of these that a folder has.

    Raises:
        BuildRefused: ``build.missing``: the folder has none of them; as :func:`find_files` and
            :func:`read_one`.
        FileFault: As :func:`read_one`.
    """
    for file in (file for name in names for file in find_files(source, (name,))):
        return read_one(file)
    raise SourceValue(str(source)).refuse("build.missing", f"the folder has no {names[0]}")
