"""What `make docs` builds the site from, in .site, which git ignores.

The pages stay plain Markdown that GitHub shows as well. A link to a page is kept; one that leaves
docs/ leads to the repository that CARDSIGN_SOURCE names, and without it becomes its text.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("guides", "concepts", "spec", "reference", "reports", "contributing")
RENAMED = {Path("README.md"): "index.md", Path("docs/README.md"): "contents.md"}  # on the site
LINK = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
SETTINGS = """
[project]
site_name = "cardsign"
site_description = "Sign, publish and verify A2A Agent Cards"
docs_dir = "pages"
site_dir = "site"
nav = [{nav}]

[project.theme]
font = false  # those of the reader's system: nobody else is asked

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Light"
"""


def page_for_site(text: str, page: Path, source: str) -> str:
    """A page of the checkout as the site has it: links that lead somewhere, no comments.

    `page` is its path from the top, such as ``docs/guides/sign.md``; `source` the ``blob`` address
    of a tag, or empty.
    """
    home = Path("docs") if page.name == "README.md" else page.parent

    def link(found: re.Match[str]) -> str:
        picture, words, path, fragment = found.groups()
        target = Path(os.path.normpath(page.parent / path))
        if not (ROOT / target).exists():
            sys.exit(f"{page}: {path} is not there")
        target = Path("docs") / RENAMED[target] if target in RENAMED else target
        if target.is_relative_to("docs") and target.suffix in {".md", ".png", ".svg"}:
            return f"{picture}[{words}]({os.path.relpath(target, home)}{fragment or ''})"
        return f"[{words}]({source}/{target}{fragment or ''})" if source else words

    parts = FENCED.split(COMMENT.sub("", text))
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def write_pages(folder: Path, source: str) -> None:
    """Write the pages, the pictures and the settings of the builder into a new `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = {page: Path(name) for page, name in RENAMED.items()}
    for path in sorted((ROOT / "docs").rglob("*/*.md")):
        pages[path.relative_to(ROOT)] = path.relative_to(ROOT / "docs")
    for page, name in pages.items():
        target = folder / "pages" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page_for_site((ROOT / page).read_text("utf-8"), page, source), "utf-8")
    for picture in (ROOT / "docs").rglob("*.[ps][nv]g"):
        target = folder / "pages" / picture.relative_to(ROOT / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
    names = [str(name) for name in pages.values()]
    nav = [f'"{name}"' for name in RENAMED.values()]
    for part in FOLDERS:
        listed = ", ".join(f'"{name}"' for name in names if name.startswith(f"{part}/"))
        nav.append(f'{{"{part.capitalize()}" = [{listed}]}}')
    (folder / "zensical.toml").write_text(SETTINGS.format(nav=", ".join(nav)), "utf-8")


def main() -> None:
    """Write what the builder reads."""
    write_pages(ROOT / ".site", os.environ.get("CARDSIGN_SOURCE", "").rstrip("/"))


if __name__ == "__main__":
    main()
