"""``cardsign keys timeline``: keys and statements as lines or a picture.

The picture is an SVG for light and dark pages; it needs no script, font or style.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from textwrap import wrap
from typing import Any, Final

import click

from cardsign.cli.arguments import option, write_output
from cardsign.cli.commands import command
from cardsign.cli.options import KeystoreOptions, keystore_options, project_config
from cardsign.cli.talk import printed, safe, say
from cardsign.cli.views import members
from cardsign.jose.keys import short_kid
from cardsign.keys.drafts import keyset_due
from cardsign.keys.history import StatementHistory, has_ended
from cardsign.keys.model import StoreState
from cardsign.keys.rotation import Phase, TimelineRow, extent, key_rows, statement_rows, steps
from cardsign.times import minute, second

#: Of each phase: its mark in a line, what it means, and its colour on a light page and a dark one.
_PHASES: Final[dict[Phase, tuple[str, str, str, str]]] = {
    "unlisted": ("?", "waits for the roots to list it", "#cdb8b0", "#6b554c"),
    "waits": ("·", "published, does not sign yet", "#b9c8dc", "#4a5d78"),
    "signs": ("█", "signs", "#1f6f54", "#4fc296"),
    "signs_on": ("▓", "signs along with its successor", "#63a88b", "#2f7d60"),
    "verifies": ("░", "only verifies", "#d9c9a3", "#6e6140"),
    "stands": ("═", "a statement is valid", "#8f7fb5", "#8d7cc0"),
}


# ``cardsign keys timeline``.

_COLUMNS: Final = 52  # characters of a bar; with what stands before it a line fits 80 columns
_NAME: Final = 12  # characters of a kid that are shown
_LABEL: Final = 28  # kid, algorithm and role
_AHEAD: Final = "▁"


@command(
    short_help="Draw when each key signs, and what comes next.", example="cardsign keys timeline"
)
@option("-o --output FILE", "Write an SVG picture instead.")
@keystore_options
def timeline(output: str | None, keystore: KeystoreOptions) -> None:
    """Draw when each key signs, and say which step is next and what it waits for.

    The future is computed from the recorded publications and [timeline] in cardsign.toml.
    Statements are drawn too, until they expire.
    """
    settings, now = project_config().timeline, datetime.now(UTC)
    store = keystore.open()
    state, history = store.state, StatementHistory.of(store)
    keyset, release = history.newest_keyset(), history.newest_release()
    drawn = (*key_rows(state, settings, now), *statement_rows(keyset, release))
    told: list[tuple[datetime | None, str]] = []
    for step in steps(state, settings, now):
        if step.key is None:
            what = f"{step.action} the next {step.alg} {step.role} key ({step.why})"
        else:
            waits = "" if step.is_due(now) else f" ({step.why})"
            what = f"{step.action} {step.role} key {step.key.kid[:_NAME]}{waits}"
        told.append((step.due, what))
    if keyset is not None and not has_ended(state, keyset):
        next_one = keyset_due(state, keyset, now=now, settings=settings)
        told.append((next_one.due, f"let the roots sign keyset {next_one.number} ({next_one.why})"))
    said = []
    for due, what in sorted(told, key=lambda one: (one[0] is None, one[0] and one[0].timestamp())):
        when = "no date yet" if due is None else "now" if due <= now else second(due)
        said.append(f"{when}: {what}")
    if printed([_row_json(row) for row in drawn]):
        return
    if output is not None:
        write_output(output, draw_svg(drawn, now, said=said))
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
    left, right = f"{start:%Y-%m-%d %H:%M}", minute(end)
    yield f"{'':<{_LABEL}}{left}{right:>{_COLUMNS - len(left)}}"
    for row in drawn:
        label = f"{safe(row.name)[:_NAME]:<{_NAME}} {row.what}"
        yield f"{label[: _LABEL - 1]:<{_LABEL}}{_bar(row, start, end, now)}"
    yield ""
    yield from _legend(drawn)
    yield ""


def _bar(row: TimelineRow, start: datetime, end: datetime, now: datetime) -> str:
    def column(time: datetime) -> int:
        return min(_COLUMNS - 1, int((time - start) / (end - start) * _COLUMNS))

    cells = [" "] * _COLUMNS
    for span in row.spans:
        first, last = column(span.start), column(span.end or end)
        for cell in range(first, max(first, last) + 1):
            cells[cell] = _AHEAD if span.ahead else _PHASES[span.phase][0]
    cells[column(now)] = "|"
    if row.ended is not None and row.key is not None:
        cells[column(row.ended)] = "X" if row.key.state == "revoked" else "."
    if row.due is not None and row.due > now:
        cells[column(row.due)] = "!"
    return "".join(cells).rstrip()


def _legend(drawn: Sequence[TimelineRow]) -> Iterator[str]:
    """What the marks mean that are in the picture, two or three to a line."""
    shown = {span.phase for row in drawn for span in row.spans if not span.ahead}
    marks = [f"{mark} {told}" for phase, (mark, told, *_) in _PHASES.items() if phase in shown]
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


def _row_json(row: TimelineRow) -> dict[str, Any]:
    key = row.key
    about: dict[str, Any] = {"statement": row.what, "number": row.name}
    if key is not None:
        about = members(key, "kid alg roles state")
    spans = [members(span, "phase start end ahead") for span in row.spans]
    return {**about, "spans": spans, **members(row, "due ended")}


# The picture.

#: For each class its colour on a light page and on a dark one.
_COLOURS: Final[dict[str, tuple[str, str]]] = {
    "paper": ("#ffffff", "#15181c"),
    "ink": ("#202124", "#e8eaed"),
    "grey": ("#5f6368", "#a4abb3"),
    "red": ("#b3261e", "#ff8a80"),
    **{phase: (light, dark) for phase, (_, _, light, dark) in _PHASES.items()},
}
_LEFT, _RIGHT, _TOP = 190, 64, 48  # pixels around the bars; a word fits in to the right of them
_EDGE: Final = 12
_WIDTH: Final = 960
_ROW, _BAR, _LINE = 28, 14, 18
_TITLE: Final = 26  # characters before a bar
_SAID: Final = 120  # characters of a line below the picture
_CHARACTER: Final = 6.6  # pixels, about, of the font
_STEPS: Final = tuple(
    timedelta(hours=hours) for hours in (1, 3, 6, 12, 24, 48, 96, 168, 336, 720, 2160, 8760)
)
_TICKS: Final = 7  # at most; each label has room for a date with its year
_FIRST_MONDAY: Final = datetime(2024, 1, 1, tzinfo=UTC)


def draw_svg(
    drawn: Sequence[TimelineRow],
    now: datetime,
    *,
    said: Sequence[str] = (),
    until: datetime | None = None,
    title: str = "Key timeline",
) -> bytes:
    """Return the picture: a row for each key, time from left to right, a line for now.

    Args:
        drawn: The rows.
        now: The time.
        said: Lines to write below: what comes next.
        until: Where the picture ends; None: where the rows do.
        title: What it is, for those who cannot see it.
    """
    start, end = extent(drawn, now)
    canvas = _Canvas(start, min(end, until or end))
    said = [part for line in said for part in wrap(line, _SAID)]
    bottom = _TOP + _ROW * max(1, len(drawn))
    legend = list(_svg_legend(drawn, bottom + 36, canvas.end))
    below = bottom + 36 + _LINE * (1 + max((row for row, _ in legend), default=0)) + 8
    height = below + _LINE * len(said) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        _style(),
        f'<rect width="{_WIDTH}" height="{height}" class="paper"/>',
        *canvas.draw(drawn, now, bottom),
        *(line for _, line in legend),
        *(_text(12, below + _LINE * row + 10, line) for row, line in enumerate(said)),
        "</svg>",
        "",
    ]
    return "\n".join(lines).encode()


def _style() -> str:
    def rules(which: int) -> str:
        return " ".join(f".{name}{{fill:{pair[which]}}}" for name, pair in _COLOURS.items())

    def edges(which: int) -> str:
        red, grey, signs = (_COLOURS[name][which] for name in ("red", "grey", "signs"))
        return (
            f".now{{stroke:{red}}} .tick{{stroke:{grey};stroke-opacity:.25}} "
            f".ahead{{fill:none;stroke:{signs};stroke-dasharray:4 3}}"
        )

    dark = f"@media (prefers-color-scheme: dark) {{ {rules(1)} {edges(1)} }}"
    return f"<style>{rules(0)} {edges(0)} {dark}</style>"


class _Canvas:
    def __init__(self, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end

    def x(self, time: datetime) -> float:
        share = (time - self.start) / (self.end - self.start)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def draw(self, drawn: Sequence[TimelineRow], now: datetime, bottom: int) -> Iterator[str]:
        yield from self._axis(bottom)
        for index, row in enumerate(drawn):
            yield from self._row(row, _TOP + index * _ROW, now)
        x = self.x(now)
        yield f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}" class="now"/>'
        label = f"now, {now:%Y-%m-%d %H:%M}"
        half = len(label) * _CHARACTER / 2
        middle = min(max(x, _EDGE + half), _WIDTH - _EDGE - half)
        yield _text(middle, bottom + 16, label, "red", anchor="middle")

    def _axis(self, bottom: int) -> Iterator[str]:
        """Ticks at round times, far enough apart that no two labels touch or say the same."""
        span = self.end - self.start
        step = next((one for one in _STEPS if span / one <= _TICKS), span / _TICKS)
        form = "%d %b %H:%M" if step < timedelta(days=1) else "%d %b %Y"
        time = _FIRST_MONDAY + -(-(self.start - _FIRST_MONDAY) // step) * step
        while time <= self.end:
            x, label = self.x(time), time.strftime(form)
            yield f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}" class="tick"/>'
            if x + len(label) * _CHARACTER <= _WIDTH - 4:
                yield _text(x, _TOP - 14, label, "grey")
            time += step
        yield _text(12, _TOP - 14, "UTC", "grey")

    def _row(self, row: TimelineRow, top: int, now: datetime) -> Iterator[str]:
        # The role before a short kid, or the statement and its number.
        name = f"{row.what} {row.name}"
        if row.key is not None:
            name = f"{' and '.join(row.key.roles)} {short_kid(row.name)}"
        name = name if len(name) <= _TITLE else f"{name[: _TITLE - 1]}…"
        yield _text(12, top + 12, name)
        for span in row.spans:
            if span.start >= self.end:
                continue
            x, end = self.x(span.start), self.x(min(span.end or self.end, self.end))
            how = "ahead" if span.ahead else span.phase
            width = round(max(end - x, 1.5), 1)
            yield f'<rect x="{x}" y="{top}" width="{width}" height="{_BAR}" rx="2" class="{how}"/>'
        if row.ended is not None and (row.key or row.ended < self.end) and row.ended <= self.end:
            x, word = self.x(row.ended), row.key.state if row.key else "ended"
            fill = "red" if word == "revoked" else "grey"
            if x + 5 + len(word) * _CHARACTER <= _WIDTH:
                yield _text(x + 5, top + 12, word, fill)
        if row.due is not None and row.due <= self.end:
            x = self.x(max(row.due, now))
            yield f'<rect x="{x - 1}" y="{top - 3}" width="3" height="{_BAR + 6}" class="red"/>'


def _svg_legend(drawn: Sequence[TimelineRow], top: int, end: datetime) -> Iterator[tuple[int, str]]:
    """What the colours mean that are in the picture, each with its row."""
    spans = [span for row in drawn for span in row.spans if span.start < end]
    shown = {span.phase for span in spans if not span.ahead}
    marks = list[tuple[str, str, int]]()
    marks += [(phase, told, 14) for phase, (_, told, *_) in _PHASES.items() if phase in shown]
    marks += [("ahead", "will sign", 14)] if any(span.ahead for span in spans) else []
    due = any(row.due is not None and row.due <= end for row in drawn)
    marks += [("red", "to be done", 3)] if due else []
    x, row = 12.0, 0
    for how, meaning, box in marks:
        width = 40 + _CHARACTER * len(meaning)
        if x + width > _WIDTH - _EDGE:
            x, row = 12.0, row + 1
        y = top + row * _LINE
        yield row, f'<rect x="{round(x, 1)}" y="{y}" width="{box}" height="12" class="{how}"/>'
        yield row, _text(round(x + 20, 1), y + 10, meaning)
        x += width


def _text(x: float, y: float, text: str, fill: str = "ink", *, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" class="{fill}" text-anchor="{anchor}">{escape(text)}</text>'
