"""Look at a page in Chromium, in both themes and two sizes; print what is wrong as JSON.

Runs in an environment of its own, which has playwright: look.py URL AXE [FOLDER FOR PICTURES]
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SIZES = {"desktop": (1100, 860), "phone": (390, 844)}


def look(url: str, axe: Path, pictures: Path | None) -> list[dict[str, object]]:
    """One row for each theme and size."""
    found = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for theme in ("light", "dark"):
            for size, (width, height) in SIZES.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme
                )
                page = context.new_page()
                said: list[str] = []
                asked: list[str] = []
                page.on("console", lambda one, said=said: said.append(one.text))
                page.on("pageerror", lambda one, said=said: said.append(str(one)))
                page.on("dialog", lambda one, said=said: (said.append("dialog"), one.dismiss()))
                page.on("request", lambda one, asked=asked: asked.append(one.url))
                answer = page.goto(url)
                if pictures is not None:
                    page.screenshot(path=pictures / f"page-{size}-{theme}.png")
                too_wide = page.evaluate("document.documentElement.scrollWidth") - width
                page.evaluate(axe.read_text("utf-8") + ";0")
                report = page.evaluate("axe.run()")
                found.append(
                    {
                        "theme": theme,
                        "size": size,
                        "status": answer.status if answer else 0,
                        "console": said,
                        "asked": [one for one in asked if one != url],
                        "too_wide": max(0, too_wide),
                        "background": page.evaluate(
                            "getComputedStyle(document.body).backgroundColor"
                        ),
                        "passed": len(report["passes"]),
                        "violations": [
                            f"{one['id']}: {one['nodes'][0]['html'][:120]}"
                            for one in report["violations"]
                        ],
                        "headings": page.evaluate(
                            "[...document.querySelectorAll('h1,h2')].map(one => one.innerText)"
                        ),
                    }
                )
                context.close()
        browser.close()
    return found


if __name__ == "__main__":
    places = list(map(Path, sys.argv[2:]))
    print(json.dumps(look(sys.argv[1], places[0], places[1] if places[1:] else None)))
