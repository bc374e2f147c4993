"""Draw flow.svg, the picture of the README.

python docs/picture/draw.py    write flow.svg beside this file
"""

from __future__ import annotations

from html import escape
from pathlib import Path

WIDTH, HEIGHT = 960, 300
TOP, BOX_HEIGHT = 36, 92
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
#: Colours by what they mean, for a light page and for a dark one.
COLOURS = {
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"),
    "line": ("#8c959f", "#6e7681"),
    "box": ("#f6f8fa", "#161b22"),
    "bad": ("#b42318", "#ff7b72"),
    "good": ("#116329", "#56d364"),
}
#: Left edge, width, title, and lines of each box, in the order of the flow.
BOXES = (
    (16, 150, "card.json", ("who the agent is,", "where to call it")),
    (238, 174, "signed card", ("keys stay in a store,", "an HSM or a KMS")),
    (484, 176, "the network", ("registry, CDN, proxy:", "others hold the card")),
    (778, 166, "verdict", ("trusted: use the card", "refused: here is why")),
)
ARROWS = ("sign", "publish", "verify")
ATTACKS = ("another URL", "login requirement deleted", "last year's card again", "a stolen key")
OWN_SIDE = (
    "one signature for each reading of the spec",
    "keys rotate on a timer",
    "no private key on the server",
)
ANSWERS = ("integrity", "authorised", "current", "complete")


def style() -> str:
    """Fill and stroke classes; the page's theme chooses the colour."""

    def rules(theme: int) -> str:
        return "".join(
            f".{name}{{fill:{pair[theme]}}}.{name}-line{{stroke:{pair[theme]}}}"
            for name, pair in COLOURS.items()
        )

    return (
        f"<style>text{{font-family:{FONT};font-size:14px}}.title{{font-size:16px;font-weight:600}}"
        f"{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}</style>"
    )


def text(x: float, y: float, words: str, classes: str, anchor: str = "middle") -> str:
    """One line of text."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{classes}">{escape(words)}</text>'


def box(left: int, width: int, title: str, lines: tuple[str, ...]) -> list[str]:
    """A rounded box with a title and its lines."""
    middle = left + width / 2
    return [
        f'<rect x="{left}" y="{TOP}" width="{width}" height="{BOX_HEIGHT}" rx="8" '
        'class="box line-line"/>',
        text(middle, TOP + 30, title, "ink title"),
        *(text(middle, TOP + 54 + 20 * row, one, "soft") for row, one in enumerate(lines)),
    ]


def arrow(start: int, end: int, label: str) -> list[str]:
    """An arrow between two boxes, its label above it."""
    y = TOP + BOX_HEIGHT / 2
    return [
        f'<path d="M{start + 6} {y}H{end - 12}" class="line-line" fill="none" stroke-width="2"/>',
        f'<path d="M{end - 14} {y - 6}l10 6l-10 6z" class="line"/>',
        text((start + end) / 2 - 3, y - 12, label, "ink"),
    ]


def column(left: int, heading: str, lines: tuple[str, ...], mark: str, kind: str) -> list[str]:
    """What stands below a box: a heading, and a list with a mark before each line."""
    y = TOP + BOX_HEIGHT + 36
    rows = [text(left, y, heading, f"{kind} title", "start")]
    for row, line in enumerate(lines, start=1):
        rows.append(text(left, y + 24 * row, mark, kind, "start"))
        rows.append(text(left + 20, y + 24 * row, line, "ink", "start"))
    return rows


def picture() -> str:
    """The whole drawing."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>A card is signed, passes hands that can change it, and is verified.</title>",
        style(),
    ]
    for one in BOXES:
        parts += box(*one)
    for label, before, after in zip(ARROWS, BOXES, BOXES[1:], strict=False):
        parts += arrow(before[0] + before[1], after[0], label)
    parts += column(16, "on your side", OWN_SIDE, "✓", "good")
    parts += column(484, "what can happen there", ATTACKS, "✗", "bad")
    parts += column(778, "four answers", ANSWERS, "✓", "good")
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("flow.svg").write_text(picture(), encoding="utf-8")
