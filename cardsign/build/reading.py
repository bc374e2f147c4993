"""Read YAML, frontmatter, TOML and JSON, with the line of each value.

Ambiguous input is refused, as in a card: duplicate members, anchors and aliases (which also make
YAML bombs), tags, merge keys, more than one document where one is expected.
Scalars follow YAML's 1.2 core schema, so `no` and `1:30` are strings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from cardsign.card.security import UNDECLARED
from cardsign.card.strictjson import MAX_DEPTH, double, integer, offsets, parse_object
from cardsign.card.values import Json, kind_of, members_of, value_at
from cardsign.errors import BuildRefused, CardRefused, JsonRefused
from cardsign.files import leads_outside, read_bytes
from cardsign.findings import describe_code
from cardsign.tomltext import Location, find_lines, read_toml

_Kind = TypeVar("_Kind", str, bool, dict[str, Json], list[Json])

#: Bytes of one source; the largest manifest of the corpus has 24 KiB.
MAX_SOURCE_BYTES: Final = 1024 * 1024
#: Files of one source; a card of more skills would be refused for its size.
MAX_FILES: Final = 20_000
#: How a card's refusal is called when it is the source's; any other is ``build.type``.
_CODES: Final = {
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
        lines: The line of each value of the file.
        written: The source text of YAML scalars that look like numbers.
    """

    file: str
    value: Json = None
    at: Location = ()
    lines: Mapping[Location, int] = field(default_factory=dict, repr=False)
    written: Mapping[Location, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def line(self) -> int | None:
        """The line of the value, or else of the nearest value around it, from 1."""
        at = self.at
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at)

    @property
    def members(self) -> dict[str, Json]:
        """The members of an object; none of any other value."""
        return members_of(self.value)

    def refuse(self, code: str, message: str, *, hint: str = "") -> BuildRefused:
        """Return an error with the place of the value."""
        return BuildRefused(code, message, path=self.file, line=self.line, hint=hint)

    def refuse_as(self, refused: CardRefused) -> BuildRefused:
        """Return the error for a value that a card refuses."""
        code = _CODES.get(refused.code, "build.type")
        if refused.message.endswith(UNDECLARED):
            code = "build.reference"
        hint = describe_code(refused.code).fix if code == "build.unsupported" else ""
        return self.refuse(code, refused.message, hint=hint)

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
        if place.value is None or isinstance(place.value, kind):
            return place.value
        name = ".".join(map(str, place.at))
        raise place.refuse("build.type", f"{name}: expected {kind_of(kind())}")

    def text(self, *path: str | int) -> str | None:
        """Return a text, trimmed; None where it is absent or empty.

        Raises:
            BuildRefused: ``build.type``.
        """
        place = self.get(*path)
        if not isinstance(place.value, str) and place.at in self.written:
            return self.written[place.at]
        return (place.read(str) or "").strip() or None

    def texts(self, *path: str | int) -> list[str]:
        """Return a list of texts, without empty ones; a single text is a list of one.

        Raises:
            BuildRefused: ``build.type``.
        """
        place = self.get(*path)
        parts = [place]
        if isinstance(place.value, list):
            parts = [place.get(index) for index in range(len(place.value))]
        return [text for part in parts if (text := part.text())]

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
        message = f"{path.name!r} ends in none of .json, {', '.join(_READERS)}"
        raise SourceValue(file).refuse("build.unknown_source", message)
    try:
        return reader(data.decode().removeprefix("\ufeff"), file)
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise _refuse_syntax("it is not UTF-8", file, line) from exc


def read_one(path: Path) -> SourceValue:
    """Read a file that holds one document.

    Raises:
        BuildRefused, FileFault: As :func:`read_source`.
    """
    documents = read_source(path)
    if len(documents) != 1:
        raise _refuse_syntax(f"expected one document, found {len(documents)}", str(path))
    return documents[0]


def read_json(data: bytes, file: str) -> SourceValue:
    """Read a strict JSON object.

    Raises:
        BuildRefused: ``build.syntax``, with the line of the fault.
    """
    try:
        value = parse_object(data, max_bytes=MAX_SOURCE_BYTES)
    except JsonRefused as exc:
        hint = describe_code(exc.code).fix
        raise _refuse_syntax(exc.message, file, exc.finding.place.line, hint) from exc
    lines: dict[Location, int] = {}
    text, line, counted = data.decode(), 1, 0
    for location, _, at in offsets(text):
        line, counted = line + text.count("\n", counted, at), at
        lines[location] = line
    return SourceValue(file, value, lines=lines)


def _refuse_syntax(
    problem: str, file: str, line: int | None = None, hint: str = ""
) -> BuildRefused:
    return BuildRefused("build.syntax", problem, path=file, line=line, hint=hint)


def _read_frontmatter(text: str, file: str) -> list[SourceValue]:
    """Read the YAML object at the head of a Markdown file, between two lines of ``---``.

    A file without one has an empty object.
    """
    match = _FRONTMATTER.match(text)
    if match is None and text.startswith("---"):
        raise _refuse_syntax("the frontmatter has no closing line ---", file, 1)
    head = f"\n{match[1]}" if match else ""  # an empty line for the first ---
    return _read_yaml(head, file) or [SourceValue(file, {}, lines={(): 1})]


_FRONTMATTER: Final = re.compile(
    r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)


def _read_toml(text: str, file: str) -> list[SourceValue]:
    """Read a TOML file. Dates are refused where they are taken."""
    try:
        return [SourceValue(file, read_toml(text.encode()), lines=find_lines(text))]
    except (ValueError, RecursionError) as exc:
        match = re.search(r"at line (\d+)", str(exc))
        raise _refuse_syntax(f"not TOML: {exc}", file, int(match[1]) if match else None) from exc


# YAML.

#: An unpaired surrogate, which YAML can write and UTF-8 cannot encode.
SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NULLS: Final = ("", "~", "null", "Null", "NULL")
_WORDS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(_NULLS),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAGS: Final = {"scalar": "str", "mapping": "map", "sequence": "seq"}
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_ALIASES: Final = "anchors and aliases are not read; write the value twice"


def _read_yaml(text: str, file: str) -> list[SourceValue]:
    """Read the documents of a YAML stream; empty ones are left out."""
    import yaml

    try:
        nodes = yaml.compose_all(text, Loader=yaml.BaseLoader)
        return [_read_document(node, file) for node in nodes if node.value not in _NULLS]
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = exc.problem or exc.context or "it cannot be read"
        problem = _ALIASES if "alias" in problem else problem
        hint = "Indent with spaces." if "\\t" in problem else ""
        if "mapping values are not allowed" in problem:
            hint = "Put the text of that line in double quotes: it holds a colon and a space."
        line = mark.line + 1 if mark else None
        raise _refuse_syntax(f"not YAML: {problem}", file, line, hint) from exc
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as exc:
        # "\x01", "\UFFFFFFFF", 5000 digits, 5000 brackets
        too_much = "a number in it is too large, or its values are nested too deeply"
        raise _refuse_syntax(f"not YAML: {getattr(exc, 'reason', too_much)}", file) from exc


def _read_document(root: Any, file: str) -> SourceValue:
    """Read one document of a stream into plain JSON values."""
    lines: dict[Location, int] = {}
    written: dict[Location, str] = {}
    seen: set[int] = set()

    def refuse(node: Any, problem: str) -> BuildRefused:
        return _refuse_syntax(problem, file, node.start_mark.line + 1)

    def read(node: Any, at: Location) -> Json:
        # A card cannot be nested deeper, and each level takes a stack frame.
        if len(at) >= MAX_DEPTH:
            raise refuse(node, f"values are nested more than {MAX_DEPTH} deep")
        if id(node) in seen:
            raise refuse(node, _ALIASES)
        if node.tag != f"tag:yaml.org,2002:{_TAGS[node.id]}":
            raise refuse(node, f"the tag {node.tag} is not read")
        seen.add(id(node))
        lines.setdefault(at, node.start_mark.line + 1)
        if node.id == "mapping":
            return read_members(node, at)
        if node.id == "sequence":
            return [read(child, (*at, index)) for index, child in enumerate(node.value)]
        if SURROGATE.search(node.value):
            raise refuse(node, "the text contains an unpaired surrogate")
        if node.style is not None:  # quoted, or a block
            return str(node.value)
        if not _NUMBER.fullmatch(node.value):
            text: str = node.value
            return _WORDS.get(text, text)
        written[at] = node.value
        try:
            return (integer if node.value.lstrip("+-").isdigit() else double)(node.value)
        except ValueError:
            return str(node.value)  # beyond what JSON's readers agree on: a digest, an account

    def read_members(node: Any, at: Location) -> dict[str, Json]:
        members: dict[str, Json] = {}
        for key, value in node.value:
            if key.id != "scalar":
                raise refuse(key, "a name is a plain word; is this a template?")
            if key.value == "<<" or key.value in members:
                raise refuse(key, f"{key.value!r} stands here twice, or is a merge key")
            read(key, (*at, key.value))
            members[key.value] = read(value, (*at, key.value))
        return members

    value = read(root, ())
    if not isinstance(value, dict):
        raise refuse(root, "expected an object: `name: value` lines")
    return SourceValue(file, value, lines=lines, written=written)


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
    paths: set[Path] = set()
    for path in (path for pattern in patterns for path in source.glob(pattern)):
        paths.add(path)
        if len(paths) > MAX_FILES:
            raise SourceValue(str(source)).refuse("build.limit", f"more than {MAX_FILES} files")
    for path in sorted(paths):
        if leads_outside(source, path):
            message = "it is a link that leads out of its folder"
            hint = "Put the file itself there."
            raise SourceValue(str(path)).refuse("build.unsupported", message, hint=hint)
        if os.path.isfile(path):
            yield path


def first_file(source: Path, names: Sequence[str]) -> Path | None:
    """Return the first of these files that a folder has; links as in :func:`find_files`."""
    return next((file for name in names for file in find_files(source, (name,))), None)


def read_first(source: Path, names: Sequence[str]) -> SourceValue:
    """Read a file, or the first of these that a folder has.

    Raises:
        BuildRefused, FileFault: As :func:`read_source`; ``build.missing``: it has none.
    """
    file = first_file(source, names)
    if file is None:
        raise SourceValue(str(source)).refuse("build.missing", f"the folder has no {names[0]}")
    return read_one(file)
