"""Draw the pictures of the README and of the concepts.

python docs/picture/draw.py    write each of PICTURES beside this file
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

WIDTH = 960
TOP, BOX_HEIGHT = 36, 92
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
#: Colours by what they mean, for a light page and for a dark one.
COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
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

#: Each phase of a rotation: its name, what ends it, and by which keys three peers trust the card.
PHASES = (
    ("before", ("key A is active", ""), "A", "A", ("A", "A", "A")),
    ("prepublish B", ("until every key set", "in a cache has B"), "A B", "A", ("A", "A", "A")),
    ("activate B", ("until late readers", "have B as well"), "A B", "A B", ("A B", "A", "A")),
    ("A stops signing", ("until no copy of", "a card needs A"), "A B", "B", ("B", "B", "A B")),
    ("retire A", ("A's private key", "is destroyed"), "B", "B", ("B", "B", "B")),
)
#: The peers: what one keeps, so that it sees the state of the phase before.
PEERS = ("asks every time", "has an old key set", "has an old card")

#: An attack on what one reading leaves out: reader, payload signed, payload received, what follows.
READINGS = (
    (
        ("reads by prune-empty,", "as a2a-sdk does"),
        ("name, url, skills", "login dropped: its scopes are empty"),
        ("name, url, skills", ""),
        ("the same bytes: valid", "it calls without a login"),
        "bad",
    ),
    (
        ("reads by served-as-is,", "as cardsign does"),
        ("name, url, skills,", "login: bearer, scopes: []"),
        ("name, url, skills", ""),
        ("other bytes: untrusted", "it calls nobody"),
        "good",
    ),
)


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


def box(left: int, width: int, title: str, lines: tuple[str, ...], top: int = TOP) -> list[str]:
    """A rounded box with a title and its lines."""
    middle = left + width / 2
    return [
        f'<rect x="{left}" y="{top}" width="{width}" height="{BOX_HEIGHT}" rx="8" '
        'class="box line-line"/>',
        text(middle, top + 30, title, "ink title"),
        *(text(middle, top + 54 + 20 * row, one, "soft") for row, one in enumerate(lines)),
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


def rule(y: float) -> str:
    """A thin line over the whole width."""
    return f'<path d="M16 {y}H{WIDTH - 16}" class="line-line" fill="none"/>'


def drawing(height: int, title: str, parts: list[str]) -> str:
    """A picture of its parts."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    # The page's own theme may be another than the one that the reader's system asks for.
    paper = '<rect width="100%" height="100%" rx="8" class="paper"/>'
    lines = [head, f"<title>{escape(title)}</title>", style(), paper, *parts, "</svg>"]
    return "\n".join(lines) + "\n"


def flow() -> str:
    """From the card to the verdict."""
    parts = []
    for one in BOXES:
        parts += box(*one)
    for label, before, after in zip(ARROWS, BOXES, BOXES[1:], strict=False):
        parts += arrow(before[0] + before[1], after[0], label)
    parts += column(16, "on your side", OWN_SIDE, "✓", "good")
    parts += column(484, "what can happen there", ATTACKS, "✗", "bad")
    parts += column(778, "four answers", ANSWERS, "?", "ink")
    title = "A card is signed, passes hands that can change it, and is verified."
    return drawing(300, title, parts)


def rotation() -> str:
    """Two keys in five phases, and three peers that trust the card in each."""
    left, width = 186, 152
    parts = [
        text(16, 158, "key set", "ink", "start"),
        text(16, 188, "card signed by", "ink", "start"),
    ]
    parts += [text(16, 252 + 30 * row, one, "ink", "start") for row, one in enumerate(PEERS)]
    parts += [
        rule(128),
        rule(206),
        text(16, 226, "three peers, each with a cache of its own", "soft", "start"),
    ]
    for number, (name, ends, keys, signers, peers) in enumerate(PHASES):
        middle = left + width * (number + 0.5)
        parts.append(text(middle, 62, f"{number + 1}  {name}", "ink title"))
        parts += [text(middle, 86 + 18 * row, one, "soft") for row, one in enumerate(ends)]
        parts += [text(middle, 158, keys, "ink"), text(middle, 188, signers, "ink")]
        for row, by in enumerate(peers):
            words = f"✓ trusted by {', '.join(by.split())}"
            parts.append(text(middle, 252 + 30 * row, words, "good"))
    for first, last, y, kind, label in (
        (0, 3, 18, "soft", "A signs"),
        (2, 5, 32, "good", "B signs"),
    ):
        start, end = left + width * first + 8, left + width * last - 8
        parts.append(
            f'<rect x="{start}" y="{y - 5}" width="{end - start}" height="6" rx="3" '
            f'class="{kind}"/>'
        )
        parts.append(text(start - 8, y + 3, label, kind, "end"))
    title = (
        "A rotation in five phases: whatever a peer has in its cache, it trusts the card in each."
    )
    return drawing(330, title, parts)


def attack() -> str:
    """A requirement is deleted on the way: which reading sees it."""
    parts = [
        *box(
            232, 236, "card as signed", ("login: bearer, scopes: []", "signed for each reading"), 20
        ),
        *box(560, 236, "card as received", ("no login", "the same signatures"), 20),
        '<path d="M474 66H548" class="line-line" fill="none" stroke-width="2"/>',
        '<path d="M546 60l10 6l-10 6z" class="line"/>',
        text(512, 50, "a registry", "bad"),
        text(512, 88, "deletes it", "bad"),
        rule(136),
    ]
    heads = (
        (16, "a peer that"),
        (232, "payload as signed"),
        (504, "as received"),
        (704, "so it says"),
    )
    parts += [text(x, 164, words, "soft", "start") for x, words in heads]
    for row, (reader, signed, received, verdict, kind) in enumerate(READINGS):
        y = 194 + 64 * row
        for (x, _), lines in zip(heads, (reader, signed, received, verdict), strict=True):
            for number, line in enumerate(filter(None, lines)):
                classes = (
                    f"{kind} title" if x == 704 and not number else "ink" if not number else "soft"
                )
                mark = {"bad": "✗ ", "good": "✓ "}[kind] if "title" in classes else ""
                parts.append(text(x, y + 20 * number, mark + line, classes, "start"))
    title = (
        "An attack refused: a login requirement is deleted, and only the whole payload shows it."
    )
    return drawing(300, title, parts)


PICTURES: dict[str, Callable[[], str]] = {
    "flow.svg": flow,
    "rotation.svg": rotation,
    "attack.svg": attack,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        Path(__file__).with_name(name).write_text(draw(), encoding="utf-8")
