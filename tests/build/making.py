"""What the tests of `build` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from cardsign.build.assemble import BuiltCard, build_card
from cardsign.build.draft import BuildOptions

URL = "https://agents.example.com/{name}"

Write: TypeAlias = Callable[[str, str], Path]


def built(*sources: str | Path, **options: Any) -> BuiltCard:
    """Build sources, with a url unless the test says otherwise, and keep all that is known."""
    if "base_url" not in options:
        options.setdefault("url", URL)
    return build_card(sources, BuildOptions(**options))
