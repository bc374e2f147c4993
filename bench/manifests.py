"""Lint, build and diff of many or large files, beside one bare verification of the same run.

``python bench/manifests.py`` measures this part alone.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hostile import bare_verification
from measuring import Broken, cpu_seconds

from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.diff import diff_cards
from cardsign.lint import lint_card

LINT: Final = "lint of the {:,} cards of the corpus, in one process"
BUILD: Final = "build of {:,} SKILL.md files"
DIFF: Final = "diff of two cards of {:,} KB"
SKILLS: Final = 1_000
_CORPUS: Final = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "cards"
_SKILL: Final = """---
name: station-{0}
description: Finds the tides of station {0}, and says when high water is.
tags: [tides, sea]
---

# Station {0}

"""


def manifests(skills: int = SKILLS) -> dict[str, Any]:
    """Seconds of CPU of each, its wanted most, and those of a bare verification."""
    found: dict[str, Any] = {"bare": bare_verification(), "rows": {}}

    def take(what: str, seconds: float, most: float) -> None:
        found["rows"][what] = {"seconds": float(f"{seconds:.4g}"), "most": most}

    if _CORPUS.is_dir():  # beside the checkout, where the project is worked on
        packed = [path for path in sorted(_CORPUS.glob("*.json*")) if path.suffix != ".jsonl"]
        cards = [
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for path in packed
        ]
        lint = cpu_seconds(lambda: [lint_card(one) for one in cards], of_about=1)
        take(LINT.format(len(cards)), lint(), 3)
    with TemporaryDirectory(prefix="cardsign-bench-") as name:
        folder = Path(name)
        for at in range(skills):
            (folder / f"{at}").mkdir()
            text = _SKILL.format(at) + "How it is done, in a few words more.\n" * 40
            (folder / f"{at}" / "SKILL.md").write_text(text, encoding="utf-8")
        said = {"name": "tides", "description": "When the water comes"}
        options = BuildOptions(url="https://tides.example/a2a", members=said)
        if len(json.loads(build_card([folder], options).document)["skills"]) != skills:
            raise Broken("a skill is missing from the card")
        build = cpu_seconds(lambda: build_card([folder], options), of_about=1)
        take(BUILD.format(skills), build(), skills / 300)
    old, new = _wide_card("string"), _wide_card("integer")
    if len(diff_cards(old, new).changes) < 2_000:
        raise Broken("a change was not found")
    diff = cpu_seconds(lambda: diff_cards(old, new), of_about=1)
    take(DIFF.format(len(old) // 1000), diff(), 0.5)
    return found


def _wide_card(kind: str) -> bytes:
    """A card of 100 KB whose skills have 25 fields each."""
    fields = {
        f"station_{at}": {"type": kind, "description": "One of the stations"} for at in range(25)
    }
    schema = {"type": "object", "required": [], "properties": fields}
    skills = [
        {"id": f"s{at}", "name": f"S{at}", "description": "Tides", "inputSchema": schema}
        for at in range(54)
    ]
    return json.dumps({"name": "Tides", "version": "1.0.0", "skills": skills}).encode()


if __name__ == "__main__":
    print(json.dumps(manifests(), indent=1))
