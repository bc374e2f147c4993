"""Has what is live drifted from what was committed: a card by its digest, its skills by a manifest.

Nothing is verified: a card that drifted may still be signed, and one that did not may be forged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from cardsign.card.document import Card, unsigned
from cardsign.card.extensions import skill_schemas
from cardsign.card.strictjson import MAX_CARD_BYTES, Json, parse_object
from cardsign.diff.cards import diff_cards
from cardsign.diff.schemas import Work, compare_schemas
from cardsign.errors import CardRefused
from cardsign.records import dataclass

SCHEMA: Final = "cardsign.drift/1"
#: A manifest of tools may be larger than a card: it has what a card leaves out.
MAX_MANIFEST_BYTES: Final = 4 * MAX_CARD_BYTES
_MAX_NAME: Final = 512  # characters of a skill's name in which a tool's is looked for


@dataclass(frozen=True, slots=True)
class DriftReport:
    """How two things differ that should be the same.

    Attributes:
        committed_sha256: Of the bytes that were committed, in hex.
        live_sha256: Of those that are live; None for tools, which are compared one by one.
        differences: Each with its JSON pointer or tool, and what differs; empty where only the
            spelling of the bytes does.
        only_live_is_signed: The committed card has no signatures and the live one has. Then the
            signatures and the digests do not count.
    """

    committed_sha256: str
    live_sha256: str | None
    differences: tuple[tuple[str, str], ...]
    only_live_is_signed: bool = False

    @property
    def has_drifted(self) -> bool:
        """Whether a member, a tool or, of two cards signed alike, the digests differ."""
        if self.differences:
            return True
        if self.live_sha256 is None or self.only_live_is_signed:
            return False
        return self.committed_sha256 != self.live_sha256

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "schema": SCHEMA,
            "drifted": self.has_drifted,
            "committed_sha256": self.committed_sha256,
            "live_sha256": self.live_sha256,
            "only_live_is_signed": self.only_live_is_signed,
            "differences": [{"where": one, "what": what} for one, what in self.differences],
        }


def card_drift(committed: bytes, untrusted_live: bytes) -> DriftReport:
    """Compare the card that was committed with the one that is live, byte for byte.

    Where only the live card is signed, everything but its signatures is compared.

    Raises:
        JsonRefused, CardRefused: They differ, and one is no card.
    """
    digests = [hashlib.sha256(one).hexdigest() for one in (committed, untrusted_live)]
    if digests[0] == digests[1]:
        return DriftReport(digests[0], digests[1], ())
    changes = diff_cards(committed, untrusted_live).changes
    found = [(one.path, one.message) for one in changes]
    documents = [Card.from_bytes(one).document for one in (committed, untrusted_live)]
    signatures = [one.get("signatures") for one in documents]
    only_live_is_signed = "signatures" not in documents[0] and bool(signatures[1])
    if only_live_is_signed:
        # The digests say nothing here, so a difference that `diff` is silent about counts as well.
        if not found and _unsigned(documents[0]) != _unsigned(documents[1]):
            found.append(("", "the cards differ outside the signatures"))
    elif signatures[0] != signatures[1]:
        found.append(("/signatures", "the signatures differ"))
    return DriftReport(digests[0], digests[1], tuple(found), only_live_is_signed)


def _unsigned(document: Mapping[str, Json]) -> str:
    return json.dumps(unsigned(document), sort_keys=True)


def tools_drift(card: bytes, untrusted_manifest: bytes) -> DriftReport:
    """Compare the input schemas of a card's skills with a recorded manifest of tools (row B12).

    A tool belongs to the skill whose id it has, without department and in snake_case; or, of what
    ``cardsign build`` made of MCP tools, to ``mcp_SERVER_TOOL``.

    Args:
        card: The card.
        untrusted_manifest: ``{"tools": [{"name", "inputSchema"}]}``, as MCP's `tools/list`, or a
            whole answer to it with the same under ``result``.

    Raises:
        JsonRefused, CardRefused: One of them cannot be read, or is no card or manifest.
    """
    document = Card.from_bytes(card).document
    manifest = parse_object(untrusted_manifest, max_bytes=MAX_MANIFEST_BYTES)
    answer = manifest.get("result")
    tools = answer.get("tools") if isinstance(answer, dict) else manifest.get("tools")
    if not isinstance(tools, list):
        raise CardRefused("card.type", "expected a list of tools", path="/tools")
    digest = hashlib.sha256(card).hexdigest()
    return DriftReport(digest, None, tuple(_of_tools(document, tools)))


def _of_tools(document: Mapping[str, Json], tools: list[Json]) -> Iterator[tuple[str, str]]:
    known: dict[str, list[dict[str, Json]]] = {}
    for one in tools:
        if isinstance(one, dict):
            known.setdefault(_plain(str(one.get("name"))), []).append(one)
    for name, namesakes in known.items():
        if len(namesakes) > 1:  # which one is called, nobody can tell
            yield name, f"the manifest has {len(namesakes)} tools of this name"
    said: set[str] = set()
    work = Work()  # shared by all schemas: a stranger's manifest may be large
    for skill in skill_schemas(document):
        if skill.kind != "input_schema":
            continue
        name = _tool_of(_plain(skill.skill), known)
        if name in said:
            yield skill.skill, "another skill of the card has this name"
            continue
        said.add(name)
        if name not in known:
            yield skill.skill, "the manifest has no such tool"
        elif len(known[name]) == 1:
            (tool,) = known[name]
            schema = tool.get("inputSchema", tool.get("input_schema"))
            for change in compare_schemas(skill.schema, schema, "input", work=work):
                if change.effect != "wording":
                    yield f"{skill.skill}{change.path}", change.message
    for name in known.keys() - said:
        yield name, "the card has no such skill with a schema"


def _tool_of(skill: str, tools: Collection[str]) -> str:
    """The tool of a skill: its own name, or what stands behind ``mcp_`` and the server's name."""
    if skill in tools or not skill.startswith("mcp_") or len(skill) > _MAX_NAME:
        return skill
    words = skill.split("_")[2:]
    rests = ("_".join(words[at:]) for at in range(len(words)))
    return next((rest for rest in rests if rest in tools), skill)


def _plain(name: str) -> str:
    """A name as tools and skills share it."""
    return re.sub(r"[^a-z0-9]+", "_", name.rpartition(".")[2].lower()).strip("_")
