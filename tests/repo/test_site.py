"""docs/make_site.py: pages of the checkout become pages of the site; `make docs` builds it."""

from __future__ import annotations

import os
import re
import runpy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path("docs/guides/sign.md")
SOURCE = "https://example.org/owner/cardsign/blob/v1"


@pytest.fixture(scope="module")
def site(root: Path) -> dict[str, Any]:
    """The names of the program."""
    return runpy.run_path(str(root / "docs/make_site.py"))


@pytest.mark.parametrize(
    ("text", "shown", "with_source"),
    [
        ("[a](../concepts/why.md#x)", "[a](../concepts/why.md#x)", None),
        ("[a](../../README.md)", "[a](../index.md)", None),
        ("[a](../../examples/x.sh)", "a", f"[a]({SOURCE}/examples/x.sh)"),
        ("![a](../picture/page.png)", "![a](../picture/page.png)", None),
        ("[a](https://example.org/x)", "[a](https://example.org/x)", None),
        ("<!-- not run:\nwhy\n-->\nb", "b", None),
        ("```\n[a](../../x)\n```", "```\n[a](../../x)\n```", None),
    ],
)
def test_a_link_leads_somewhere_or_is_its_text(
    site: dict[str, Any], text: str, shown: str, with_source: str | None
) -> None:
    """Comments are for tests; code is left as it is."""
    convert: Callable[[str, Path, str], str] = site["page_for_site"]
    assert convert(text, PAGE, "") == shown
    assert convert(text, PAGE, SOURCE) == (with_source or shown)


def test_every_page_is_on_the_site_and_its_links_too(site: dict[str, Any], tmp_path: Path) -> None:
    """The builder asks the same of the whole, strictly."""
    folder = tmp_path / "site"
    site["write_pages"](folder, "")
    pages = {path.relative_to(folder / "pages") for path in (folder / "pages").rglob("*.md")}
    assert {Path("index.md"), Path("concepts/statements.md"), Path("guides/migrate.md")} <= pages
    settings = (folder / "zensical.toml").read_text("utf-8")
    assert tomllib.loads(settings)["project"]["theme"]["font"] is False, "a reader asks nobody else"
    assert [str(page) for page in pages if f'"{page}"' not in settings] == []
    bad = []
    for page in pages:
        text = site["FENCED"].sub("", (folder / "pages" / page).read_text("utf-8"))
        for target in re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", re.sub(r"`[^`\n]*`", "", text)):
            if not Path(os.path.normpath(folder / "pages" / page.parent / target)).is_file():
                bad.append((str(page), target))
    assert bad == []
