"""HTML pages of ours: no script, no address of others, every text escaped.

A page is a template of Jinja in ``cardsign/templates/``. Whatever it shows goes through
:func:`text`, so a template joins no texts by itself: filters would escape markup alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES: Final = Path(__file__).parent / "templates"
_STYLE: Final = (_TEMPLATES / "style.css").read_text("utf-8")
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


def text(value: object) -> Markup:
    """Return a text of a stranger as HTML: markup and control characters are shown, not obeyed."""
    if isinstance(value, Markup):
        return value
    shown = _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", str(value))
    shown = html.escape(shown, quote=True)
    # Printed in a pipeline, no line may be a command of its runner.
    shown = _COMMAND.sub("&#35;#", _LINE_COMMAND.sub(r"\1&#58;", shown))
    return Markup(shown)  # noqa: S704  (it was escaped above)


_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    finalize=text,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, **values: Any) -> str:
    """Return a page.

    Args:
        template: Its file.
        values: What it shows.
    """
    ours = {"style": Markup(_STYLE), "policy": Markup(POLICY)}  # noqa: S704  (not from outside)
    return _ENVIRONMENT.get_template(template).render(values | ours)
