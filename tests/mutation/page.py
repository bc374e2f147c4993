"""docs/reports/mutation.md and mutation.json: what mutation testing found last, area by area."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).resolve().parents[2] / "docs" / "reports"
SURVIVORS: Final = Path(__file__).with_name("survivors.json")

_PAGE: Final = """# Mutation testing: last figures

A mutant is cardsign with one small fault. `make mutants` draws some from each area by a seed, every
kind of fault as likely as any other: a comparison, condition, constant, operator or operand
changed, `and` for `or`, `not` taken away, a statement left out, a result replaced by None, an
exception swallowed, `any` for `all`, `min` for `max`, `list` for `sorted`. It runs the area's tests
against each in a copy of the checkout. Whether a survivor is harmless, or a test was missing, is
said below, by the name that it has or had last. `tests/mutation/run.py` says why no tool of others
is used.

`make mutants T="--area jose --sample 60 --seed 2"` draws others; with `--page` it replaces the
area's row here. It exits with 1 while a survivor is not argued in `tests/mutation/survivors.json`.

| area | date | seed | mutants | drawn | killed | timeout | survived |
|---|---|--:|--:|--:|--:|--:|--:|
{rows}

A timeout is a mutant under which the tests took at least five times as long; it counts as seen.

## Survivors

{survivors}

## Tests that were missing

These had survived; the test named kills them now.

{mended}
"""


def write_page(areas: Mapping[str, Any]) -> None:
    """Replace these areas in both files; the others stay."""
    path = DOCS / "mutation.json"
    held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    figures = held | areas
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    argued = json.loads(SURVIVORS.read_text(encoding="utf-8"))
    (DOCS / "mutation.md").write_text(page_of(figures, argued), encoding="utf-8")


def page_of(figures: Mapping[str, Any], argued: Mapping[str, Any]) -> str:
    """The page of these figures."""
    rows = [
        f"| {name} | {one['date']} | {one['seed']} | {one['mutants']:,} | {one['sample']} "
        f"| {one['killed']} | {one['timeout']} | {one['survived']} |"
        for name, one in figures.items()
    ]
    survivors = [
        f"- {survivor['operator']}: {_code(survivor['name'])}  \n"
        f"  {argued['survivors'].get(survivor['name'], '**not argued yet**')}"
        for one in figures.values()
        for survivor in one["survivors"]
        if survivor["name"] not in {mended["name"] for mended in argued["mended"]}
    ]
    mended = [f"- {_code(one['name'])}  \n  {_code(one['test'])}" for one in argued["mended"]]
    return _PAGE.format(
        rows="\n".join(rows),
        survivors="\n".join(survivors) or "None.",
        mended="\n".join(mended) or "None.",
    )


def _code(text: str) -> str:
    text = text.replace("](", "] (")  # some readers look for links in code too
    return f"`` {text} ``" if "`" in text else f"`{text}`"
