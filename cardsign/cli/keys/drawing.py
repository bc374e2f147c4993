"""The lives of keys as an SVG picture; it needs no script, font or style from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from html import escape
from typing import Final

from cardsign.keys.lives import Life, Phase, Span, extent

_COLOURS: Final[dict[Phase, str]] = {
    "waits": "#c7d2e0",
    "signs": "#1f6f54",
    "signs_on": "#63a88b",
    "verifies": "#d9c9a3",
}
_MEANINGS: Final[tuple[tuple[Phase, str], ...]] = (
    ("waits", "published, signs nothing"),
    ("signs", "signs"),
    ("signs_on", "signs beside its successor"),
    ("verifies", "only verifies"),
)
_LEFT, _RIGHT, _TOP = 190, 24, 46  # pixels around the bars
_WIDTH: Final = 900
_ROW, _BAR = 34, 18
_TICKS: Final = 6
_KID: Final = 16  # characters


def draw_svg(drawn: tuple[Life, ...], now: datetime) -> bytes:
    """Return the picture: a row for each key, time from left to right, a line for now."""
    height = _TOP + _ROW * max(1, len(drawn)) + 64
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        "<title>The lives of the keys</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        *_Canvas(*extent(drawn, now)).draw(drawn, now),
        *_legend(height - 22),
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

    def draw(self, drawn: tuple[Life, ...], now: datetime) -> Iterator[str]:
        bottom = _TOP + _ROW * max(1, len(drawn))
        yield from self._axis(bottom)
        for row, life in enumerate(drawn):
            yield from self._row(life, _TOP + row * _ROW)
        x = self.x(now)
        ahead = f'width="{_WIDTH - x}" height="{bottom - _TOP}"'
        yield f'<rect x="{x}" y="{_TOP}" {ahead} fill="#ffffff" fill-opacity="0.5"/>'
        yield f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}" stroke="#b3261e"/>'
        yield _text(x, bottom + 14, "now", fill="#b3261e", anchor="middle")

    def _axis(self, bottom: int) -> Iterator[str]:
        step = (self.end - self.start) / _TICKS
        form = "%m-%d %H:%M" if step < timedelta(days=2) else "%Y-%m-%d"
        for tick in range(_TICKS):
            time = self.start + tick * step
            x = self.x(time)
            yield f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}" stroke="#e6e6e6"/>'
            yield _text(x, _TOP - 16, time.strftime(form))
        yield _text(_WIDTH - _RIGHT, 16, "UTC", anchor="end")

    def _row(self, life: Life, top: int) -> Iterator[str]:
        kid = life.key.kid if len(life.key.kid) <= _KID else f"{life.key.kid[: _KID - 1]}…"
        yield _text(12, top + 13, f"{kid}  {life.key.alg}")
        for span in life.spans:
            yield self._span(span, top)
        if life.ended is not None:
            x = self.x(life.ended)
            word = "revoked" if life.key.state == "revoked" else "retired"
            colour = "#b3261e" if word == "revoked" else "#5f6368"
            yield _text(x + 4, top + 13, word, fill=colour)

    def _span(self, span: Span, top: int) -> str:
        x, end = self.x(span.start), self.x(span.end or self.end)
        colour = _COLOURS[span.phase]
        how = f'fill="{colour}"'
        if span.ahead:
            how = f'fill="{colour}" fill-opacity="0.15" stroke="{colour}" stroke-dasharray="4 3"'
        width = round(max(end - x, 1.5), 1)
        return f'<rect x="{x}" y="{top}" width="{width}" height="{_BAR}" rx="2" {how}/>'


def _legend(y: int) -> Iterator[str]:
    x = 12
    for phase, meaning in _MEANINGS:
        yield f'<rect x="{x}" y="{y}" width="14" height="12" rx="2" fill="{_COLOURS[phase]}"/>'
        yield _text(x + 20, y + 10, meaning)
        x += 44 + 7 * len(meaning)
    dashes = 'fill="none" stroke="#1f6f54" stroke-dasharray="4 3"'
    yield f'<rect x="{x}" y="{y}" width="14" height="12" rx="2" {dashes}/>'
    yield _text(x + 20, y + 10, "will sign")


def _text(x: float, y: float, text: str, *, fill: str = "#202124", anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" fill="{fill}" text-anchor="{anchor}">{escape(text)}</text>'
