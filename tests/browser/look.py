"""Look at pages in Chromium, in both themes and two sizes; print what is wrong as JSON.

Runs in an environment of its own, which has playwright: look.py AXE FOLDER URL...
The folder gets a picture of each page for each theme and size.
"""

from __future__ import annotations

import json
import shutil
import sys
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

SIZES = {"desktop": (1100, 860), "phone": (390, 844)}
HEADINGS = "[...document.querySelectorAll('h1,h2')].map(heading => heading.innerText)"


def look(browser: Browser, url: str, theme: str, size: str, axe: str, picture: str) -> object:
    """What one theme and size of a page shows."""
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page, messages, requests = context.new_page(), list[str](), list[str]()
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: (messages.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
    answer = page.goto(url)
    page.screenshot(path=f"{picture}-{size}-{theme}.png")
    too_wide = page.evaluate("document.documentElement.scrollWidth") - width
    page.evaluate(axe + ";0")
    report = page.evaluate("axe.run()")
    shown = {
        "status": answer.status if answer else 0,
        "messages": messages,
        "requests": [other for other in requests if not other.endswith(("/favicon.ico", url))],
        "too_wide": max(0, too_wide),
        "background": page.evaluate("getComputedStyle(document.body).backgroundColor"),
        "passed": len(report["passes"]),
        "violations": [rule["id"] for rule in report["violations"]],
        "headings": page.evaluate(HEADINGS),
    }
    context.close()
    return shown


def main(axe: str, folder: str, *urls: str) -> None:
    """Print what each page shows, in each theme and size."""
    rules = Path(axe).read_text("utf-8")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        pages = [
            [
                look(browser, url, theme, size, rules, f"{folder}/page-{number}")
                for theme, size in product(("light", "dark"), SIZES)
            ]
            for number, url in enumerate(urls)
        ]
        browser.close()
    print(json.dumps(pages))


if __name__ == "__main__":
    main(*sys.argv[1:])
