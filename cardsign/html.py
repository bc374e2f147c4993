"""HTML pages of ours: no script, no address of others, every text escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable
from typing import Final

_STYLE: Final = """
:root{color-scheme:light dark;--page:#f6f7f9;--sheet:#fff;--ink:#16202c;--soft:#4a5768;
--line:#d7dde5;--link:#0b57a4;--good:#0f6b3a;--good-sheet:#e7f5ec;--bad:#a3141e;--bad-sheet:#fdecec;
--open:#7a4b00;--open-sheet:#fff4df;--bar:#2f6fb2;--rail:#e3e8ee}
@media(prefers-color-scheme:dark){:root{--page:#0e1319;--sheet:#171e27;--ink:#e8edf3;--soft:#a9b6c5;
--line:#2d3845;--link:#8cc4ff;--good:#7ddba3;--good-sheet:#12301f;--bad:#ff9a9a;--bad-sheet:#3a1719;
--open:#f3c46b;--open-sheet:#35280e;--bar:#6aa9ea;--rail:#2a3441}}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);
background:var(--page);margin:0}
main,footer{max-width:56rem;margin:0 auto;padding:0 1rem}
main{padding-top:2.5rem}footer{padding-top:1rem;padding-bottom:3rem;color:var(--soft)}
h1{font-size:2.1rem;line-height:1.2;letter-spacing:-.02em;margin:0 0 .5rem;overflow-wrap:anywhere}
h2{font-size:1.25rem;letter-spacing:-.01em;margin:0 0 .75rem}
h3{font-size:1rem;margin:0 0 .35rem;overflow-wrap:anywhere}
p{margin:.4rem 0}a{color:var(--link)}
section{background:var(--sheet);border:1px solid var(--line);border-radius:.75rem;
padding:1.25rem 1.4rem;margin:1.25rem 0}
section.lead{background:none;border:0;padding:0;margin:0 0 1.5rem}
p,li,dd,td,code{overflow-wrap:anywhere}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{background:var(--page);border:1px solid var(--line);border-radius:.5rem;padding:.75rem 1rem;
margin:.5rem 0;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all}
.soft{color:var(--soft)}.small{font-size:.9rem}
.box{border-left:.3rem solid;border-radius:.4rem;padding:.8rem 1rem;margin:.25rem 0 1rem}
.box p{color:var(--ink)}.box strong{font-size:1.1rem}
.good{color:var(--good)}.bad{color:var(--bad)}.open{color:var(--open)}
.box.good{background:var(--good-sheet)}.box.bad{background:var(--bad-sheet)}
.box.open{background:var(--open-sheet)}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.3rem 1.25rem;margin:.5rem 0}
dt{color:var(--soft)}dd{margin:0}
dl.answers{grid-template-columns:repeat(4,1fr);gap:.6rem}
dl.answers div{border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem}
dl.answers dt{font-size:.9rem}dl.answers dd{font-weight:650}
ul,ol{padding-left:1.2rem;margin:.4rem 0}li{margin:.25rem 0}
dd ul{list-style:none;padding:0;margin:0}dd li{margin:0}*+h3{margin-top:1.1rem}
ul.items,ol.items{list-style:none;padding:0}
.items>li{border-top:1px solid var(--line);padding:.9rem 0;margin:0}
.items>li>h3{margin-top:0}.items>li:first-child{border-top:0;padding-top:.2rem}.items>li:last-child{padding-bottom:0}
.tag{display:inline-block;border:1px solid;border-radius:1rem;padding:0 .6rem;font-size:.82rem;
font-weight:600;margin-left:.4rem;white-space:nowrap}
svg.bar{display:block;width:100%;height:1rem;margin:.35rem 0}
.bar .rail{fill:var(--rail)}.bar .span{fill:var(--bar)}.bar .ended{fill:var(--soft)}
.bar .coming{fill:var(--bar);fill-opacity:.4}
.bar line{stroke:var(--ink);stroke-width:2}
@media(max-width:40rem){main{padding-top:1.5rem}h1{font-size:1.65rem}section{padding:1rem}
dl{grid-template-columns:1fr;gap:0}dt{margin-top:.5rem;font-size:.9rem}
dl.answers{grid-template-columns:1fr 1fr}dl.answers dt{margin:0}}
@media print{body{background:#fff}section{break-inside:avoid}}
"""
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
#: Nothing but our own style may be loaded or run, whatever a text holds (CSP 3).
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)
# Controls, marks that reverse what is read, and halves of characters, which no encoding can write.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


# Commands of GitHub Actions at the beginning of a line, and of Azure Pipelines and TeamCity.
_LINE_COMMAND: Final = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_COMMAND: Final = re.compile(r"##(?=[A-Za-z\[])")


class Html(str):
    """HTML that this module has written; any other text is escaped."""

    __slots__ = ()


def text(value: object) -> Html:
    """A text of a stranger as HTML: markup and control characters are shown, not obeyed."""
    if isinstance(value, Html):
        return value
    shown = _UNSEEN.sub(lambda one: f"\\u{ord(one[0]):04x}", str(value))
    shown = html.escape(shown, quote=True)
    # Printed in a pipeline, no line may be a command of its runner.
    return Html(_COMMAND.sub("&#35;#", _LINE_COMMAND.sub(r"\1&#58;", shown)))


def joined(*parts: object) -> Html:
    """Parts one after another."""
    return Html("".join(map(text, parts)))


def element(name: str, *parts: object, **attributes: object) -> Html:
    """An element of ours; ``kind`` is its class, and an underscore in a name is a hyphen."""
    said = "".join(
        f' {"class" if key == "kind" else key.replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return Html(f"<{name}{said}>{joined(*parts)}</{name}>")


def paragraph(value: object, kind: str = "") -> Html:
    """One paragraph; `kind` is a class of ours."""
    return element("p", value, kind=kind)


def items(parts: Iterable[object], kind: str = "", name: str = "ul") -> Html:
    """A list."""
    return element(name, *(element("li", one) for one in parts), kind=kind)


def terms(pairs: Iterable[tuple[object, object]], kind: str = "") -> Html:
    """Names and what they are; in boxes side by side where `kind` is ``answers``."""
    rows = [joined(element("dt", name), element("dd", value)) for name, value in pairs]
    return element("dl", *(element("div", row) if kind else row for row in rows), kind=kind)


def bar(label: str, spans: Iterable[tuple[float, float, str]], mark: float) -> Html:
    """A rail with spans on it and a mark, all as shares of its width from 0 to 1."""
    drawn = [Html('<rect class="rail" width="100%" height="100%" rx="4"/>')]
    for start, end, kind in spans:
        place = f'x="{start:.2%}" width="{max(end - start, 0.004):.2%}"'
        drawn.append(Html(f'<rect class="{text(kind)}" {place} height="100%" rx="4"/>'))
    drawn.append(Html(f'<line x1="{mark:.2%}" x2="{mark:.2%}" y1="0" y2="100%"/>'))
    return element("svg", *drawn, kind="bar", role="img", aria_label=label)


def page(title: str, sections: Iterable[tuple[str, Html]], foot: str = "") -> str:
    """A whole page of sections, each with its heading, and what stands under them.

    The first section without a heading belongs to the title.
    """
    body = [
        element("section", element("h2", head), part, aria_label=head)
        if head
        else element("section", element("h1", title), part, kind="lead", aria_label="Summary")
        for head, part in sections
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main>{element('footer', foot) if foot else ''}"
        "</body></html>\n"
    )
