"""What every source of the corpus becomes. This program writes docs/reports/build.md.

A source is built alone, with a url, but where the corpus holds what it refers to. A card that is
built is linted, signed, and verified.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cardsign import JwkSet, PrivateKey, build_card, lint_card, sign_card, verify_card
from cardsign.build import BuiltCard
from cardsign.errors import CardsignError

URL = "https://agents.harbour.example/{name}"
PAGE = "docs/reports/build.md"
#: What a person would add where a source says nothing of it, and no rule fills it.
SAID: Mapping[str, Mapping[str, str]] = {
    "forge-001.yaml": {"description": "Answers customers"},
    "mcp-server-card-017.json": {"description": "A development blog"},
    "mcp-tools-001.json": {"name": "agent-trust-gate", "description": "Decides about actions"},
    "mcp-tools-006.json": {"name": "registry", "description": "A registry"},
    "orloj-agentsystem-025.yaml": {"description": "Validates tools"},
}
#: What belongs to a source.
WITH: Mapping[str, tuple[str, ...]] = {
    "orloj-agentsystem-025.yaml": (
        "orloj-agent-001.yaml",
        *(f"orloj-tool-00{number}.yaml" for number in (1, 2, 3)),
    ),
}
#: Whose cards of 0.3 the resolver of @a2a-js/sdk holds without their security schemes: by default
#: no signature leaves those out, and signing says so. tests/interop/test_built_cards.py holds it.
WITHOUT_SCHEMES = frozenset({"mcp-server-card-010.json"})
#: What that test asks of every card that is built.
JUDGED = f"""## Judged

Each card is built in both forms, signed as by default, and given to other SDKs. Each makes a
client of it and accepts its signature, and refuses it by another's key.
`tests/interop/test_built_cards.py` asks them.

| SDK | form | accepts |
|---|---|---|
| a2a-sdk, the newest release and the last 1.1 | 1.0 | all |
| a2a-sdk, the last 0.3 | 0.3 | all |
| @a2a-js/sdk, given the card | 1.0 | all |
| @a2a-js/sdk, its resolver | 0.3 | all but {", ".join(sorted(WITHOUT_SCHEMES))} |

That resolver drops the security schemes of the card, and no signature leaves these out by
default. `sign` says so (`sign.sdk_refuses`); `sign --compat js-instance` adds a signature that
it accepts, which does not cover the schemes.
"""
#: Of other kinds: documentation, schemas, keys.
NO_SOURCES = frozenset({"docs", "schema", "jwks"})


class Row(NamedTuple):
    """A source, whether a card came of it, and with what or why not."""

    name: str
    is_built: bool
    outcome: str


def sources(corpus: Path) -> Iterator[str]:
    """The names of the sources."""
    for line in (corpus / "index.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["kind"] not in NO_SOURCES:
            yield entry["file"]


def row_of(corpus: Path, name: str, key: PrivateKey) -> Row:
    """Take a source through the toolkit."""
    files = [corpus / one for one in (name, *WITH.get(name, ()))]
    try:
        built = build_card(*files, url=URL, members=SAID.get(name))
    except CardsignError as refused:
        line = f", line {refused.line}" if refused.line else ""
        return Row(name, False, f"`{refused.code}`: {refused.message}{line}")
    return Row(name, True, _outcome(name, built, key))


def _outcome(name: str, built: BuiltCard, key: PrivateKey) -> str:
    card = verify_card(sign_card(built.document, key), jwks=JwkSet.of([key.public]))
    errors = sorted({one.rule.id for one in lint_card(built.document) if one.severity == "error"})
    skills = len(card["skills"])
    parts = [f"{skills} skill{'' if skills == 1 else 's'}"]
    parts += [f"`--set {member}=...`" for member in SAID.get(name, {})]
    parts += [f"with {one}" for one in WITH.get(name, ())]
    return ", ".join(parts) + (f"; lint errors: {', '.join(errors)}" if errors else "")


def page(rows: list[Row]) -> str:
    """The report."""
    built = [row for row in rows if row.is_built]
    refused = [row for row in rows if not row.is_built]
    lines = [
        "# What becomes of real sources",
        "",
        f"Of {len(rows)} manifests from public repositories, {len(built)} become a card that lint "
        "finds no error in, and",
        f"that is signed and verified. {len(refused)} are refused, each with its reason. Made by",
        "`python tests/build/corpus_sources.py CORPUS`; a test holds it.",
        "",
        *JUDGED.splitlines(),
        "",
        "## Refused",
        "",
        "| source | reason |",
        "|---|---|",
        *(f"| {row.name} | {_cell(row.outcome)} |" for row in refused),
        "",
        "## Built",
        "",
        "| source | card |",
        "|---|---|",
        *(f"| {row.name} | {_cell(row.outcome)} |" for row in built),
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


ROOT = Path(__file__).resolve().parents[2]


def main(corpus: Path) -> None:
    """Write the report."""
    key = PrivateKey.generate("ES256")
    rows = [row_of(corpus, name, key) for name in sources(corpus)]
    (ROOT / PAGE).write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
