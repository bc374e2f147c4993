"""The sources of the corpus, and what a person adds to each to make a card of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

URL = "https://agents.harbour.example/{name}"
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
#: no signature leaves those out, and signing says so. test_signatures_across.py holds it.
WITHOUT_SCHEMES = frozenset({"mcp-server-card-010.json"})
#: Of other kinds: documentation, schemas, keys.
NO_SOURCES = frozenset({"docs", "schema", "jwks"})


def sources(corpus: Path) -> Iterator[str]:
    """The names of the sources."""
    for line in (corpus / "index.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["kind"] not in NO_SOURCES:
            yield entry["file"]
