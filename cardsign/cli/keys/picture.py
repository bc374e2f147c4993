"""A timeline as an SVG picture for light and dark pages; it needs no script, font or style."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from textwrap import wrap
from typing import Final

from cardsign.keys.model import short
from cardsign.keys.timeline import Phase, Span, TimelineRow, extent

MEANINGS: Final[tuple[tuple[Phase, str], ...]] = (
    ("unlisted", "waits for the roots to list it"),
    ("waits", "published, does not sign yet"),
    ("signs", "signs"),
    ("signs_on", "signs along with its successor"),
    ("verifies", "only verifies"),
    ("stands", "a statement is valid"),
    ("trusts", "trusts the issuer's card"),
    ("refuses", "refuses the issuer's card"),
    ("fooled", "believes the issuer and the thief"),
    ("lost", "refuses the issuer's card, believes the thief"),
)
#: For each class its colour on a light page and on a dark one.
_COLOURS: Final = {
    "paper": ("#ffffff", "#15181c"),
    "ink": ("#202124", "#e8eaed"),
    "grey": ("#5f6368", "#a4abb3"),
    "red": ("#b3261e", "#ff8a80"),
    "unlisted": ("#cdb8b0", "#6b554c"),
    "waits": ("#b9c8dc", "#4a5d78"),
    "signs": ("#1f6f54", "#4fc296"),
    "signs_on": ("#63a88b", "#2f7d60"),
    "verifies": ("#d9c9a3", "#6e6140"),
    "stands": ("#8f7fb5", "#8d7cc0"),
    "trusts": ("#2a5db0", "#7fb0f0"),
    "refuses": ("#d08700", "#e0a030"),
    "fooled": ("#d9655f", "#ffb4ab"),
    "lost": ("#b3261e", "#ff6f64"),
}
_LEFT, _RIGHT, _TOP = 190, 64, 48  # pixels around the bars; a word fits in to the right of them
_EDGE: Final = 12
_WIDTH: Final = 960
_ROW, _BAR, _LINE = 28, 14, 18
_NAME: Final = 26  # characters before a bar
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
    legend = list(_legend(drawn, bottom + 36, canvas.end))
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
        yield _text(12, top + 12, _cut(name_of(row), _NAME))
        for span in row.spans:
            if span.start < self.end:
                yield self._span(span, top)
        if row.ended is not None and (row.key or row.ended < self.end) and row.ended <= self.end:
            x, word = self.x(row.ended), row.key.state if row.key else "rehearsed until here"
            fill = "red" if word == "revoked" else "grey"
            if x + 5 + len(word) * _CHARACTER <= _WIDTH:
                yield _text(x + 5, top + 12, word, fill)
        if row.due is not None and row.due <= self.end:
            x = self.x(max(row.due, now))
            yield f'<rect x="{x - 1}" y="{top - 3}" width="3" height="{_BAR + 6}" class="red"/>'

    def _span(self, span: Span, top: int) -> str:
        x, end = self.x(span.start), self.x(min(span.end or self.end, self.end))
        how = "ahead" if span.ahead else span.phase
        width = round(max(end - x, 1.5), 1)
        return f'<rect x="{x}" y="{top}" width="{width}" height="{_BAR}" rx="2" class="{how}"/>'


def name_of(row: TimelineRow) -> str:
    """What a row is about: the role before a short kid, or the statement and its number."""
    if row.key is None:
        return f"{row.what} {row.name}"
    return f"{' and '.join(row.key.roles)} {short(row.name)}"


def _legend(drawn: Sequence[TimelineRow], top: int, end: datetime) -> Iterator[tuple[int, str]]:
    """What the colours mean that are in the picture, each with its row."""
    spans = [span for row in drawn for span in row.spans if span.start < end]
    shown = {span.phase for span in spans if not span.ahead}
    marks = list[tuple[str, str, int]]()
    marks += [(phase, meaning, 14) for phase, meaning in MEANINGS if phase in shown]
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


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _text(x: float, y: float, text: str, fill: str = "ink", *, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" class="{fill}" text-anchor="{anchor}">{escape(text)}</text>'
