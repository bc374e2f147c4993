"""The description on a package index: README.md, with links that work there.

An index shows the README away from the repository, where a relative link leads nowhere. The
release names the repository and its tag in ``CARDSIGN_SOURCE``, such as
``https://github.com/OWNER/cardsign/blob/v1.0.0``. Without it a relative link becomes its text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """What hatchling asks for the dynamic members of the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Give the README, and the repository where it is known."""
        source = os.environ.get("CARDSIGN_SOURCE", "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, source),
        }
        metadata["urls"] = {"Source": source.partition("/blob/")[0]} if source else {}


def with_absolute_links(text: str, source: str) -> str:
    """`text` with each relative link below `source`, the ``blob`` address of a tag.

    Without one a link is its text, and a picture is left out.
    """

    def absolute(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if not source:
            return "" if picture else words
        base = source.replace("/blob/", "/raw/", 1) if picture else source
        return f"{picture}[{words}]({base}/{path})"

    return _LINK.sub(absolute, text)
