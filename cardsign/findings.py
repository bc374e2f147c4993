"""One type for everything that cardsign has to say: a code, where, what, and what to do.

What a code means stands in ``codes.toml``, of which a table is parsed when its code is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

Severity = Literal["error", "warning", "note"]
#: The gravest first.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")

MAX_PATH: Final = 1000  # characters of a pointer or a file's name
MAX_MESSAGE: Final = 400  # characters of one message
MAX_TEXT: Final = 200  # characters of foreign text in one place of a line
MAX_PLACES: Final = 6  # of one code that a text lists; --json has more
MAX_OF_CODE: Final = 50  # findings of one code that a report lists
MAX_FINDINGS: Final = 200  # and of all codes, beside the first of each

_WIDTH: Final = 96  # columns of a text, whatever the terminal has


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """Return the text, shortened to a number of characters."""
    if len(text) <= limit:
        return text
    kept, rest = text[: limit - 3], text[limit - 3 :]
    if "://" in kept and "@" in rest and not rest[0].isspace() and "@" in rest.split()[0]:
        kept = kept[: kept.rindex("://") + 3]  # a password shows as one by the @ behind it
    return f"{kept}..."


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: ``1 card``, ``1,000 cards``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class CodeText(NamedTuple):
    """What is said of one code.

    Attributes:
        title: What it means; one sentence.
        severity: What it weighs where no verdict and no setting says more.
        why: What follows from that, and for whom; may be empty.
        fix: What a person can do about it.
        reference: Where it comes from; may be empty.
        bad: Of a rule of lint: what makes a sound card break it.
        good: Of a rule of lint: what it accepts, close to that.
        python: What a program does about it, where `fix` is of the command line; may be empty.
    """

    title: str = ""
    severity: Severity = "error"
    why: str = ""
    fix: str = ""
    reference: str = ""
    bad: Sequence[str] = ()
    good: Sequence[str] = ()
    python: str = ""


@cache
def _registry() -> str:
    from pathlib import Path  # no verdict needs it

    return Path(__file__).with_name("codes.toml").read_text("utf-8")


def list_codes() -> tuple[str, ...]:
    """Return every code, in the order of the registry."""
    return tuple(line[2:-2] for line in _registry().splitlines() if line.startswith('["'))


def _table_of(code: str) -> str:
    start = _registry().find(f'\n["{code}"]\n') + 1
    return _registry()[start:].partition("\n\n")[0] if start else ""


@cache
def severity_of(code: str) -> Severity:
    """Return what a code weighs where no verdict and no setting says more.

    No table is parsed: a trusted card may have notes, and no verdict needs a reader of TOML.
    """
    table = _table_of(code)
    return next((name for name in SEVERITIES if f'\nseverity = "{name}"' in table), "error")


@cache
def describe_code(code: str) -> CodeText:
    """Return what a code means. Every text is empty for a code that there is not.

    One table is parsed: to parse them all takes as long as to start Python.
    """
    import tomllib  # no verdict needs it

    if not isinstance(code, str):
        raise TypeError(f"code takes str, not {type(code).__name__}: describe_code('sig.bad')")
    return CodeText(**tomllib.loads(_table_of(code)).get(code, {}))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding is.

    Attributes:
        path: A JSON pointer into the card, a file, a URL or a member of a header; empty for the
            whole. Cut to :data:`MAX_PATH` characters.
        line: Of the place in the input, from 1; None where it is not known.
        column: In characters, from 1; None where it is not known.
        tokens: The whole reference tokens (RFC 6901) of a member that lint looks at.
    """

    path: str = ""
    line: int | None = None
    column: int | None = None
    tokens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", cut(self.path, MAX_PATH))

    @property
    def position(self) -> str:
        """The line and column, as far as they are known: ``line 3, column 7``."""
        column = "" if self.column is None else f", column {self.column}"
        return f"line {self.line}{column}" if self.line else ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.path, self.position) if part)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a verdict, a report or an error has to say.

    Attributes:
        code: A code of ``codes.toml``; stable, safe to match on.
        message: What is the case here, without a final period. Cut to :data:`MAX_MESSAGE`
            characters.
        place: Where.
        fix: What to do next; empty where the text of ``codes.toml`` will do. Cut likewise.
        severity: ``error`` makes the card untrusted or unusable, ``warning`` should be fixed,
            ``note`` needs no action. Where it is not named it is that of the code.
        count: How many findings it stands for: over 1 in place of those that are not listed.
        fixable: `cardsign lint --fix` repairs it.
    """

    code: str
    message: str
    place: Place = Place()
    fix: str = ""
    severity: Severity = ""  # type: ignore[assignment]  # that of the code
    count: int = 1
    fixable: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", cut(self.message, MAX_MESSAGE))
        object.__setattr__(self, "fix", cut(self.fix, MAX_MESSAGE))
        if self.severity not in SEVERITIES:
            object.__setattr__(self, "severity", severity_of(self.code))

    @property
    def path(self) -> str:
        """The path of its place, as JSON output names it."""
        return self.place.path

    @property
    def hint(self) -> str:
        """What to do next: its own fix, or that of its code."""
        return self.fix or describe_code(self.code).fix

    @property
    def worded(self) -> str:
        """The message, with the line and column of its place where they are known."""
        position = self.place.position
        return f"{self.message} ({position})" if position else self.message

    def at(self, path: str) -> Finding:
        """Return the finding with the path of another place."""
        if not isinstance(path, str):
            raise TypeError(f"path takes str, not {type(path).__name__}: finding.at('/skills/0')")
        return replace(self, place=replace(self.place, path=path))

    def to_json(self) -> dict[str, object]:
        """Return the JSON object that verdicts and reports carry."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.worded,
            "path": self.path,
            "hint": self.hint,
        }


#: What code scanning is told of one card or file: its name (a path, a URL, or ``-`` for standard
#: input), what is the case with it, and what a waiver accepts, each with its reason.
ScanResult: TypeAlias = tuple[str, Sequence[Finding], Sequence[tuple[Finding, str]]]


def rate_findings(findings: Sequence[Finding], *, trusted: bool) -> tuple[Finding, ...]:
    """Return the findings of one verdict with their severities.

    Nothing is an error in a trusted card, whose policy accepts what its signature leaves open.
    Of another card the first finding decides, so it is an error whatever its code.
    """

    rated: list[Finding] = []
    for finding in findings:
        severity = severity_of(finding.code)
        if not trusted:
            severity = "error" if finding.code == findings[0].code else severity
        elif finding.code.startswith("coverage."):
            severity = "note"
        elif severity == "error":
            severity = "warning"
        rated.append(replace(finding, severity=severity))
    return tuple(rated)


def list_findings(findings: Iterable[Finding], whole: str = "the card") -> Iterator[str]:
    """Yield lines about each code, the gravest first: its places, then why and what to do.

    Args:
        findings: In any order.
        whole: What a place without a path is called.
    """
    groups: dict[tuple[int, str, str], list[Finding]] = {}
    for finding in findings:
        key = (SEVERITIES.index(finding.severity), finding.code, finding.fix)
        groups.setdefault(key, []).append(finding)
    for key in sorted(groups, key=lambda key: key[0]):
        alike, text = groups[key], describe_code(key[1])
        yield f"  {alike[0].severity}: {key[1]}"
        shown = [finding for finding in alike[:MAX_PLACES] if finding.count == 1]
        for finding in shown:
            where = cut(finding.path, 120) or whole
            line = f" (line {finding.place.line})" if finding.place.line else ""
            yield f"    {where}{line}  {cut(finding.message)}"
        if more := sum(finding.count for finding in alike) - len(shown):
            yield f"    and {more:,} more"
        for label, words in (("why", text.why), ("fix", alike[0].fix or text.fix)):
            yield from labelled_lines(label, words)


def count_severities(counts: Mapping[Severity, int]) -> str:
    """Return how many findings there are of each severity, in words."""
    named = ((counts.get(severity, 0), severity) for severity in SEVERITIES)
    return ", ".join(f"{count:,} {name}{'s' * (count > 1)}" for count, name in named if count)


def labelled_lines(label: str, text: str) -> list[str]:
    """Return a label, and beside it a text in lines."""
    from textwrap import wrap  # only a report that is shown needs it

    return wrap(text, _WIDTH, initial_indent=f"      {label:<4}  ", subsequent_indent=" " * 12)


def cap_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that a report lists, in order; at the end the number of the others.

    The first of each code is listed, however many there are of others. What `--fix` repairs is
    counted by itself.
    """
    kept: list[Finding] = []
    counts: Counter[tuple[str, bool]] = Counter()
    others: dict[tuple[str, bool], Finding] = {}
    for finding in findings:
        kind = finding.code, finding.fixable
        counts[kind] += finding.count
        if counts[kind] == 1 or (counts[kind] <= MAX_OF_CODE and len(kept) < MAX_FINDINGS):
            kept.append(finding)
        else:
            first = others.get(kind)
            count = finding.count + (first.count if first else 0)
            more = replace(first or finding, message=f"{count:,} more", place=Place(), count=count)
            others[kind] = more
    return (*kept, *others.values())
