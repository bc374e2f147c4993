"""``cardsign keys timeline``: each key and statement from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any, Final

import click

from cardsign.cli.arguments import json_option, write_output
from cardsign.cli.commands import command
from cardsign.cli.options import KeystoreOptions, keystore_options, project_config
from cardsign.cli.talk import print_json, safe, say
from cardsign.keys.history import StatementHistory
from cardsign.keys.keyset_drafts import KeysetDue, keyset_due
from cardsign.keys.lifecycle import SHOWN_TIME
from cardsign.keys.model import StoreState
from cardsign.keys.rotation import Step, steps
from cardsign.keys.timeline import Phase, Span, TimelineRow, extent, key_rows, statement_rows

# The timeline as an SVG picture; it needs no script, font or style from elsewhere.


MEANINGS: Final[tuple[tuple[Phase, str], ...]] = (
    ("unlisted", "waits for the roots to list it"),
    ("waits", "published, does not sign yet"),
    ("signs", "signs"),
    ("signs_on", "signs beside its successor"),
    ("verifies", "only verifies"),
    ("stands", "a statement is valid"),
)
_COLOURS: Final[dict[Phase, str]] = {
    "unlisted": "#cdb8b0",
    "waits": "#c7d2e0",
    "signs": "#1f6f54",
    "signs_on": "#63a88b",
    "verifies": "#d9c9a3",
    "stands": "#8f7fb5",
}
_RED: Final = "#b3261e"
_GREY: Final = "#5f6368"
_LEFT, _RIGHT, _TOP = 210, 24, 46  # pixels around the bars
_WIDTH: Final = 960
_ROW, _BAR, _LINE = 30, 16, 18
_TICKS: Final = 6
_SAID: Final = 140  # characters of a line below the picture
_CHARACTER: Final = 6.4  # pixels, about, of the font


def draw_svg(drawn: Sequence[TimelineRow], now: datetime, said: Sequence[str] = ()) -> bytes:
    """Return the picture: a row for each key, time from left to right, a line for now.

    Args:
        drawn: The rows.
        now: The time.
        said: Lines to write below: what comes next.
    """
    bottom = _TOP + _ROW * max(1, len(drawn))
    legend = list(_drawing_legend(drawn, bottom + 34))
    below = bottom + 34 + _LINE * (1 + max((row for row, _ in legend), default=0)) + 8
    height = below + _LINE * len(said) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        "<title>Key timeline</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        *_Canvas(*extent(drawn, now)).draw(drawn, now, bottom),
        *(line for _, line in legend),
        *(_text(12, below + _LINE * row + 10, _cut(line)) for row, line in enumerate(said)),
        "</svg>",
        "",
    ]
    return "\n".join(lines).encode()


class _Canvas:
    def __init__(self, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end

    def x(self, time: datetime) -> float:
        share = (time - self.start) / (self.end - self.start)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def draw(self, drawn: Sequence[TimelineRow], now: datetime, bottom: int) -> Iterator[str]:
        yield from self._axis(bottom)
        for index, row in enumerate(drawn):
            yield from self._row(row, _TOP + index * _ROW)
        x = self.x(now)
        ahead = f'width="{round(_WIDTH - _RIGHT - x, 1)}" height="{bottom - _TOP}"'
        yield f'<rect x="{x}" y="{_TOP}" {ahead} fill="#ffffff" fill-opacity="0.5"/>'
        for index, row in enumerate(drawn):
            yield from self._due(row, _TOP + index * _ROW, now)
        yield f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}" stroke="{_RED}"/>'
        yield _text(x, bottom + 14, f"now, {now:%Y-%m-%d %H:%M}", fill=_RED, anchor="middle")

    def _axis(self, bottom: int) -> Iterator[str]:
        step = (self.end - self.start) / _TICKS
        form = "%m-%d %H:%M" if step < timedelta(days=2) else "%Y-%m-%d"
        for tick in range(_TICKS):
            time = self.start + tick * step
            x = self.x(time)
            yield f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}" stroke="#e6e6e6"/>'
            yield _text(x, _TOP - 16, time.strftime(form), fill=_GREY)
        yield _text(_WIDTH - _RIGHT, 16, "UTC", fill=_GREY, anchor="end")

    def _row(self, row: TimelineRow, top: int) -> Iterator[str]:
        name = row.name if len(row.name) <= _NAME else f"{row.name[: _NAME - 1]}…"
        yield _text(12, top + 13, name)
        yield _text(112, top + 13, row.what, fill=_GREY)
        for span in row.spans:
            yield self._span(span, top)
        if row.ended is not None and row.key is not None:
            x, word = self.x(row.ended), row.key.state
            fill = _RED if word == "revoked" else _GREY
            if x > _WIDTH - _RIGHT - 60:
                yield _text(x - 4, top + 13, word, fill=fill, anchor="end")
            else:
                yield _text(x + 4, top + 13, word, fill=fill)

    def _span(self, span: Span, top: int) -> str:
        x, end = self.x(span.start), self.x(span.end or self.end)
        colour = _COLOURS[span.phase]
        how = f'fill="{colour}"'
        if span.ahead:
            how = f'fill="{colour}" fill-opacity="0.15" stroke="{colour}" stroke-dasharray="4 3"'
        width = round(max(end - x, 1.5), 1)
        return f'<rect x="{x}" y="{top}" width="{width}" height="{_BAR}" rx="2" {how}/>'

    def _due(self, row: TimelineRow, top: int, now: datetime) -> Iterator[str]:
        """A mark where something is to be done, in time or long since."""
        if row.due is not None:
            x = self.x(max(row.due, now))
            place = f'x1="{x}" y1="{top - 3}" x2="{x}" y2="{top + _BAR + 3}"'
            yield f'<line {place} stroke="{_RED}" stroke-width="2.5"/>'


def _drawing_legend(drawn: Sequence[TimelineRow], top: int) -> Iterator[tuple[int, str]]:
    """What the colours mean that are in the picture, each with its row."""
    shown = {span.phase for row in drawn for span in row.spans if not span.ahead}
    marks = [
        (f'fill="{_COLOURS[phase]}"', meaning) for phase, meaning in MEANINGS if phase in shown
    ]
    if any(span.ahead for row in drawn for span in row.spans):
        marks.append(('fill="none" stroke="#1f6f54" stroke-dasharray="4 3"', "will sign"))
    marks.append((f'fill="{_RED}"', "to be done"))
    x, row = 12.0, 0
    for how, meaning in marks:
        width = 40 + _CHARACTER * len(meaning)
        if x + width > _WIDTH - _RIGHT:
            x, row = 12.0, row + 1
        y = top + row * _LINE
        box = 3 if meaning == "to be done" else 14
        yield row, f'<rect x="{round(x, 1)}" y="{y}" width="{box}" height="12" rx="1" {how}/>'
        yield row, _text(round(x + 20, 1), y + 10, meaning)
        x += width


def _cut(text: str) -> str:
    return text if len(text) <= _SAID else f"{text[: _SAID - 1]}…"


def _text(x: float, y: float, text: str, *, fill: str = "#202124", anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" fill="{fill}" text-anchor="{anchor}">{escape(text)}</text>'


WIDTH: Final = 52  # characters of a bar; with what stands before it a line fits 80 columns
_NAME: Final = 12  # characters of a kid that are shown
_LABEL: Final = 28  # kid, algorithm and role
_MARKS: Final[dict[Phase, str]] = {
    "unlisted": "?",
    "waits": "·",
    "signs": "█",
    "signs_on": "▓",
    "verifies": "░",
    "stands": "═",
}
_AHEAD: Final = "▁"


@command(
    short_help="Draw when each key signs, and what comes next.", example="cardsign keys timeline"
)
@click.option("-o", "--output", metavar="FILE", help="Write an SVG picture instead.")
@keystore_options
@json_option
def timeline(output: str | None, keystore: KeystoreOptions, as_json: bool) -> None:
    """Draw when each key signs, and say which step is next and what it waits for.

    The future is computed from the recorded publications and [timeline] in cardsign.toml.
    Statements are drawn too, until they expire.
    """
    settings, now = project_config().timeline, datetime.now(UTC)
    store = keystore.open()
    state, history = store.state, StatementHistory.of(store)
    keyset, release = history.newest_keyset(), history.newest_release()
    drawn = (*key_rows(state, settings, now), *statement_rows(keyset, release))
    told = [_step(step, now) for step in steps(state, settings, now)]
    if keyset is not None:
        told.append(_keyset_step(keyset_due(state, keyset, now=now)))
    said = [f"{_when(due, now)}: {what}" for due, what in sorted(told, key=_order)]
    if as_json:
        print_json([_as_json(row) for row in drawn])
    elif output is not None:
        write_output(output, draw_svg(drawn, now, said))
        say(f"wrote {output}")
    else:
        for line in _picture(drawn, state, now):
            click.echo(line)
        for line in said:
            click.echo(safe(f"  {line}", limit=400))


def _picture(drawn: Sequence[TimelineRow], state: StoreState, now: datetime) -> Iterator[str]:
    if not state.keys:
        yield "there are no keys yet"
        return
    start, end = extent(drawn, now)
    left, right = f"{start:%Y-%m-%d %H:%M}", f"{end:%Y-%m-%d %H:%M} UTC"
    yield f"{'':<{_LABEL}}{left}{right:>{WIDTH - len(left)}}"
    for row in drawn:
        label = f"{safe(row.name)[:_NAME]:<{_NAME}} {row.what}"
        yield f"{label[: _LABEL - 1]:<{_LABEL}}{_bar(row, start, end, now)}"
    yield ""
    yield from _legend(drawn)
    yield ""


def _bar(row: TimelineRow, start: datetime, end: datetime, now: datetime) -> str:
    def column(time: datetime) -> int:
        return min(WIDTH - 1, int((time - start) / (end - start) * WIDTH))

    cells = [" "] * WIDTH
    for span in row.spans:
        first, last = column(span.start), column(span.end or end)
        for cell in range(first, max(first, last) + 1):
            cells[cell] = _AHEAD if span.ahead else _MARKS[span.phase]
    cells[column(now)] = "|"
    if row.ended is not None and row.key is not None:
        cells[column(row.ended)] = "X" if row.key.state == "revoked" else "."
    if row.due is not None and row.due > now:
        cells[column(row.due)] = "!"
    return "".join(cells).rstrip()


def _legend(drawn: Sequence[TimelineRow]) -> Iterator[str]:
    """What the marks mean that are in the picture, two or three to a line."""
    shown = {span.phase for row in drawn for span in row.spans if not span.ahead}
    marks = [f"{_MARKS[phase]} {meaning}" for phase, meaning in MEANINGS if phase in shown]
    if any(span.ahead for row in drawn for span in row.spans):
        marks.append(f"{_AHEAD} will sign")
    if any(row.ended for row in drawn):
        marks.append("X revoked  . retired")
    marks.append("! to be done  | now")
    line = ""
    for mark in marks:
        if line and len(line) + len(mark) > 72:
            yield f"  {line}"
            line = ""
        line = f"{line}   {mark}" if line else mark
    yield f"  {line}"


def _step(step: Step, now: datetime) -> tuple[datetime | None, str]:
    """When, and what, and what it waits for until then."""
    if step.key is None:
        return step.due, f"{step.action} the next {step.alg} {step.role} key ({step.why})"
    what = f"{step.action} {step.role} key {step.key.kid[:_NAME]}"
    return step.due, what if step.is_due(now) else f"{what} ({step.why})"


def _keyset_step(told: KeysetDue) -> tuple[datetime | None, str]:
    return told.due, f"let the roots sign keyset {told.number} ({told.why})"


def _order(told: tuple[datetime | None, str]) -> tuple[bool, float]:
    due, _ = told
    return due is None, due.timestamp() if due else 0.0


def _when(due: datetime | None, now: datetime) -> str:
    if due is None:
        return "no date yet"
    return "now" if due <= now else f"{due:{SHOWN_TIME}}"


def _as_json(row: TimelineRow) -> dict[str, Any]:
    key = row.key
    about: dict[str, Any] = {"statement": row.what, "number": row.name}
    if key is not None:
        about = {"kid": key.kid, "alg": key.alg, "roles": list(key.roles), "state": key.state}
    return {
        **about,
        "spans": [_span_as_json(span) for span in row.spans],
        "due": row.due.isoformat() if row.due else None,
        "ended": row.ended.isoformat() if row.ended else None,
    }


def _span_as_json(span: Span) -> dict[str, Any]:
    return {
        "phase": span.phase,
        "start": span.start.isoformat(),
        "end": span.end.isoformat() if span.end else None,
        "ahead": span.ahead,
    }
