"""TOML files: read in linear time, as pydantic models, with the line of each member.

`tomllib` tells no lines, so they are looked up in the text.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from cardsign.errors import CardsignError, UsageFault, closest
from cardsign.files import CONFIG_FILE
from cardsign.findings import MAX_OF_CODE, Place

_Model = TypeVar("_Model", bound=BaseModel)


class Table(BaseModel):
    """A table of a file: no member unknown, no type guessed, nothing changed later."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def read_by(read: Callable[[Any], object]) -> AfterValidator:
    """Convert a member by `read`, and report a refusal in the words of `read`."""

    def convert(value: object) -> object:
        try:
            return read(value)
        except CardsignError as refusal:
            fix = f". {refusal.finding.fix}" if refusal.finding.fix else ""
            raise ValueError(f"is refused: {refusal.message} ({refusal.code}){fix}") from None

    return AfterValidator(convert)


def matching(form: re.Pattern[str], words: str) -> AfterValidator:
    """Take a text of this form alone, and say in words which it is."""

    def check(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(f"is {text!a:.{MAX_SHOWN}}, expected {words}")
        return text

    return AfterValidator(check)


#: Names of members and indices of lists, such as ``("issuer", 0, "origins", 1)``.
Location: TypeAlias = tuple[str | int, ...]

#: Parts of a dotted key or table header, and tables and lists within one another. Ours have at most
#: four. `tomllib` takes time by the square of the parts, and a place deep within is long to name.
MAX_TOML_DEPTH: Final = 32
#: Dots outside strings and comments. Each may open a table, which costs `tomllib` a kilobyte; a
#: policy of 1 MiB, by hand, has some ten thousand.
MAX_TOML_DOTS: Final = 50_000


def find_lines(text: str) -> dict[Location, int]:
    """Return the line of each table of a TOML text, and of each member that begins a line.

    A member within a value stands on the line of that value, as :func:`line_of` has it.
    """
    lines: dict[Location, int] = {(): 1}
    counts: dict[Location, int] = {}  # the index of the last table of each array of tables
    table: Location = ()
    # Open brackets, and of which kind; the line's number, and where its key begins.
    depth, is_header, number, start = 0, False, 1, 0
    for match in _MARK.finditer(text):
        mark, end = match[0], match.end()
        if depth == 0 and mark == "[" and not text[start : end - 1].strip():
            is_header, start = True, end
        elif is_header and mark == "]":
            is_header, table = False, ()
            for name in _split_key(text[start:end])[:MAX_TOML_DEPTH]:
                table = (*table, counts[table], name) if table in counts else (*table, name)
            if text[start] == "[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table[:1], number)
            lines.setdefault(table, number)
        elif depth == 0 and mark == "=":
            lines.setdefault((*table, *_split_key(text[start : end - 1])), number)
        depth += (mark in "[{") - (mark in "]}")
        if "\n" in mark:
            number, start = number + mark.count("\n"), end
    return lines


def _split_key(key: str) -> list[str]:
    return [name.strip("\"'") for name in re.findall(rf"[\w-]+|{_NO_KEY.pattern}", key)]


def line_of(lines: Mapping[Location, int], location: Location) -> int:
    """Return the line of a member, or of the nearest table around it."""
    while location not in lines:
        location = location[:-1]
    return lines[location]


_LONG_KEY: Final = re.compile(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{MAX_TOML_DEPTH}}}")
#: A comment or a string. One that does not end is taken to the end of its line or of the file, so
#: that no byte is looked at twice.
_NO_KEY: Final = re.compile(
    r"""#[^\n]*|\"{3}(?:[^\\]|\\.)*?(?:\"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)"""
    r"""|"(?:[^"\\\n]|\\[^\n])*"?|'[^'\n]*'?""",
    re.DOTALL,
)


#: A comment or a string, or what begins or ends a key, a value or a line.
_MARK: Final = re.compile(rf"{_NO_KEY.pattern}|[\[\]{{}}=\n]", re.DOTALL)


def read_toml(untrusted_bytes: bytes) -> dict[str, Any]:
    """Read TOML 1.0 in time that is linear in its length; the caller bounds the length.

    Raises:
        ValueError: It is not UTF-8 or no TOML, is nested too deeply, or a key has too many parts;
            a number or a text without quotes that looks like such a key counts. Or all keys
            together have too many.
    """
    import tomllib  # a verdict by keys alone reads no TOML

    if untrusted_bytes.startswith(codecs.BOM_UTF8):
        raise ValueError("it begins with a byte order mark; save it as UTF-8 without one")
    with contextlib.suppress(RecursionError):
        bare = _NO_KEY.sub("s", untrusted_bytes.decode())
        if bare.count(".") <= MAX_TOML_DOTS and not _LONG_KEY.search(bare):
            members = tomllib.loads(untrusted_bytes.decode())
            if not _is_deep(members, MAX_TOML_DEPTH):
                return members
    problem = f"values are nested more than {MAX_TOML_DEPTH} deep, or a key has so many parts"
    raise ValueError(f"{problem}, or all keys have more than {MAX_TOML_DOTS:,}")


def _is_deep(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deep(item, levels - 1) for item in inner)


def read_settings(
    untrusted_bytes: bytes,
    path: Path,
    form: type[_Model],
    context: object = None,
    *,
    code: str = "config.malformed",
) -> _Model:
    """Read a settings file: TOML that has the form of a pydantic model, with validators' context.

    Raises:
        UsageFault: `code`.
    """
    try:
        document = read_toml(untrusted_bytes)
        return form.model_validate(document, context=context)
    except ValidationError as refused:
        lines, schema = find_lines(untrusted_bytes.decode()), form.model_json_schema()
        faults: list[UsageFault] = []
        for error in _list_errors(refused, lines):
            line = line_of(lines, error["loc"])
            fault = getattr(error.get("ctx", {}).get("error"), "__cause__", None)
            if not isinstance(fault, UsageFault):  # else a validator's, with a code of its own
                problem = _owner_of(document, error["loc"]) + explain_error(error, schema)
                fault = bad_settings(path, problem, code)
            fault.finding = replace(fault.finding, place=Place(str(path), line))
            faults.append(fault)
        faults[0].others = tuple(fault.finding for fault in faults[1:])
        raise faults[0] from refused
    except ValueError as exc:
        problem = "the file must be UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc)
        problem = f"this is not TOML: {problem[:1].lower()}{problem[1:]}"
        raise bad_settings(path, problem, code) from exc


def _owner_of(document: Any, location: Location) -> str:
    """Return the name of the table of a list in which something is wrong, if it has one."""
    with contextlib.suppress(LookupError, TypeError):
        return f"{document[location[0]][location[1]]['name']!a:.{MAX_SHOWN}}: "
    return ""


MAX_SHOWN: Final = 80  # characters of a wrong value
#: What pydantic calls a member that a model, or a dataclass, does not have.
_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument")


def _list_errors(refused: ValidationError, lines: Mapping[Location, int]) -> list[Any]:
    """Return what is wrong: unknown members first, since one that is misspelt is also missing."""
    errors = refused.errors(include_url=False)
    errors.sort(key=lambda error: (error["type"] not in _UNKNOWN, line_of(lines, error["loc"])))
    # A newer file may hold anything.
    return [error for error in errors if _is_newer(error)] or errors[:MAX_OF_CODE]


def _is_newer(error: Any) -> bool:
    return (error["loc"], error["type"]) == (("format",), "less_than_equal")


def explain_error(error: Any, schema: Mapping[str, Any]) -> str:
    """Return in words what pydantic finds wrong in a table of a file with this JSON Schema."""
    name, table = ".".join(map(str, error["loc"])), schema
    *outer, last = error["loc"]
    for part in outer:
        table = _find_table(table, part, schema) or table
    if error["type"] in _UNKNOWN:
        return f"unknown member {name!r}{closest(last, table['properties'])}"
    if error["type"] == "missing":
        return f"{name!r} is missing"
    if error["type"] == "value_error":
        return f"{name!r} {error['ctx']['error']}"
    value = re.sub(r"[^ -~]", "?", repr(error["input"]))[:MAX_SHOWN]
    if _is_newer(error):
        return f"format = {value}: it is newer than this cardsign, which reads 1; update cardsign"
    # In place of Python's words for a path, a list, and a table.
    message = re.sub(" for <class.*| after validation.*", "", error["msg"])
    message = re.sub("tuple|frozenset", "list", message)
    message = re.sub("Input should be (?:an? valid )?", "expected ", message)
    message = re.sub(r"dictionary or (?:an )?instance of \w+|dictionary", "table", message)
    if message == "expected list":
        if isinstance(error["input"], str):
            message = f'write a list: {last} = ["..."]'
        elif isinstance(error["input"], dict) and _find_table(table, last, schema):
            header = re.sub(r"\.[0-9]+(?=\.)", "", name)
            return f"{name} is a list of tables: write [[{header}]], with two brackets"
    quotes = ", without quotes" if error["type"] == "date_type" else ""
    return f"{name} = {value}: {message[:1].lower()}{message[1:]}{quotes}"


def _find_table(table: Any, name: str | int, schema: Mapping[str, Any]) -> Any:
    """Return what stands in a member of a table, if that is a table or a list of tables."""
    reference = re.search(r"#/\$defs/(\w+)", str(table.get("properties", {}).get(name)))
    return reference and schema["$defs"][reference[1]]


def bad_settings(path: Path, problem: str, code: str = "config.malformed") -> UsageFault:
    """Return the error for a settings file that cannot be understood: what is wrong with it."""
    # Of this code, codes.toml says what may stand in the settings of a project alone.
    hint = "" if code != "config.malformed" or path.name == CONFIG_FILE else "Fix what is named."
    return UsageFault(code, problem, path=str(path), hint=hint)
