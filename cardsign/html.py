"""HTML pages of ours: no script, no address of others, every text escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

# Nothing may be loaded or run, whatever a text holds (CSP 3).
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;"
    "padding:.3rem .6rem;border-bottom:1px solid #8884;overflow-wrap:anywhere}"
    "code{font-family:ui-monospace,monospace}.grade{font-size:3rem;font-weight:bold}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}}"
)
# Controls, marks that reverse what is read, and halves of characters, which no encoding can write.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def text(value: object) -> str:
    """A text of a stranger as HTML: markup and control characters are shown, not obeyed."""
    return html.escape(_UNSEEN.sub(lambda one: f"\\u{ord(one[0]):04x}", str(value)), quote=True)


def paragraph(value: object, kind: str = "") -> str:
    """One paragraph; `kind` is a class of ours."""
    return f'<p class="{kind}">{text(value)}</p>' if kind else f"<p>{text(value)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts."""
    cells = "".join(f"<th>{text(one)}</th>" for one in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{text(one)}</td>" for one in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def page(title: str, sections: Iterable[tuple[str, str]]) -> str:
    """A whole page of sections, each with its heading (empty for none) and HTML of this module."""
    body = "".join((f"<h2>{text(head)}</h2>" if head else "") + part for head, part in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(_POLICY)}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{text(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{text(title)}</h1>{body}</body></html>\n"
    )
