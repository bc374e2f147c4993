"""Every link of a page leads to a file that is there, and to a heading that it has."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
NAMED = re.compile(r"\bdocs/[\w/-]+\.(?:md|json|py)\b")  # how code, hints and tests name a page


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """The anchors of a page."""
    return {anchor(one) for one in re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)}


def dangling(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere on this disk."""
    bad = []
    for target in LINK.findall(CODE.sub("", FENCED.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        path = Path(os.path.normpath(page.parent / name)) if name else page
        if not path.exists() or (fragment and fragment not in anchors(path.read_text("utf-8"))):
            bad.append(target)
    return bad


def test_every_link_leads_somewhere(root: Path, tracked: list[Path]) -> None:
    """README, docs and the README files of tests."""
    pages = [path for path in tracked if path.suffix == ".md"]
    assert len(pages) > 20
    bad = {
        str(path.relative_to(root)): found
        for path in pages
        if (found := dangling(path, path.read_text(encoding="utf-8")))
    }
    assert bad == {}


def test_every_page_that_code_names_is_there(root: Path, tracked: list[Path]) -> None:
    """Hints, docstrings, tests and the Makefile name pages from the top of the checkout."""
    sources = [path for path in tracked if path.suffix in {".py", ".toml", ".md"}]
    sources.append(root / "Makefile")
    bad = {
        f"{path.relative_to(root)}: {name}"
        for path in sources
        for name in NAMED.findall(path.read_text(encoding="utf-8"))
        if not (root / name).is_file()
    }
    assert bad == set()


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("[a](b.md) [c](other.md)", ["b.md"]),
        ("[a](#here) [a](#there)\n# Here", ["#there"]),
        ("[a](other.md#the-head) [a](other.md#head)", ["other.md#head"]),
        ("[web](https://example.org/x.md) `[a](b.md)`", []),
        ("```\n[a](b.md)\n```", []),
    ],
)
def test_a_dangling_link_is_seen(text: str, bad: list[str], tmp_path: Path) -> None:
    """A file that is missing, a heading that is missing; code is no link."""
    (tmp_path / "other.md").write_text("## The `head`\n")
    page = tmp_path / "page.md"
    page.write_text(text)
    assert dangling(page, text) == bad
