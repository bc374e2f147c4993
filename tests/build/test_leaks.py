"""Only members of the A2A schema and our extension leave `build` (F26, L3, L23)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from making import Write, built, codes

from cardsign.build import KINDS
from cardsign.card import CARD_0_3, CARD_1_0

#: What no card may hold, planted wherever a source can hold something.
SECRETS: dict[str, Any] = {
    "egress": {"allowed_domains": ["PLANTED.inside.example"]},
    "denied_tools": ["PLANTED-tool"],
    "trust_hints": {"level": "PLANTED"},
    "guardrails": ["PLANTED"],
    "system_prompt": "PLANTED prompt",
    "prompt": "PLANTED prompt",
    "secretRef": "PLANTED-ref",
    "endpoint": "http://PLANTED.inside.example",
    "headerName": "X-PLANTED",
    "token": "PLANTED",
    "env": {"KEY": "PLANTED"},
}
PLANTED = json.dumps(SECRETS)
INLINE = ", ".join(f"{name} = {json.dumps(value)}" for name, value in SECRETS.items()).replace(
    '": ', '" = '
)
SKILL = {"id": "s", "name": "s", "description": "d", "tags": ["t"], **SECRETS}
HEAD = json.dumps({**SECRETS, "name": "s2", "description": "d"})
FRONTMATTER = f"---\n{HEAD}\n---\nPLANTED"
CARD = {
    "name": "a",
    "description": "b",
    "version": "1.0.0",
    "skills": [SKILL],
    "capabilities": {"streaming": True, **SECRETS},
    "provider": {"organization": "o", "url": "https://o.example", **SECRETS},
    "securitySchemes": {"k": {"httpAuthSecurityScheme": {"scheme": "bearer", **SECRETS}}},
    **SECRETS,
}
OLD = {
    **CARD,
    "url": "https://a.example/",
    "protocolVersion": "0.3.0",
    "securitySchemes": {"k": {"type": "http", "scheme": "bearer", **SECRETS}},
}
FILES: dict[str, dict[str, str]] = {
    "forge": {
        "forge.yaml": json.dumps(
            {
                **SECRETS,
                "agent_id": "a",
                "tools": [{"name": "t", **SECRETS}],
                "auth": {"providers": [{"type": "static_token", **SECRETS, "settings": SECRETS}]},
            }
        ),
        "agent.json": json.dumps(
            {**SECRETS, "a2a": {**SECRETS, "skills": [SKILL], "capabilities": SECRETS}}
        ),
        "SKILL.md": FRONTMATTER,
    },
    "orloj": {
        "all.yaml": "\n---\n".join(
            json.dumps(
                {
                    **SECRETS,
                    "apiVersion": "orloj.dev/v1",
                    "kind": kind,
                    "metadata": {
                        "name": name,
                        "annotations": {"orloj.dev/description": "d", "PLANTED": "PLANTED"},
                    },
                    "spec": {**SECRETS, "auth": SECRETS, "runtime": SECRETS, **spec},
                }
            )
            for kind, name, spec in (
                ("AgentSystem", "a", {"agents": ["b"]}),
                ("Agent", "b", {"tools": ["c"]}),
                ("Tool", "c", {}),
            )
        )
    },
    "openfang": {
        "agent.toml": 'name = "a"\ndescription = "b"\nmodule = "m"\n'
        f"[capabilities]\ntools = ['t']\nmore = {{ {INLINE} }}\n[model]\nmore = {{ {INLINE} }}\n",
        "config.toml": f"api_key = 'PLANTED'\n[a2a]\nmore = {{ {INLINE} }}\n",
    },
    "pyproject": {
        "pyproject.toml": "[project]\nname = 'a'\ndescription = 'b'\nauthors = ['PLANTED']\n"
        f"[tool.cardsign.card]\nmore = {{ {INLINE} }}\n"
        f"capabilities = {{ {INLINE} }}\n"
        f"skills = [{{ id = 's', description = 'd', {INLINE} }}]\n"
    },
    "mcp": {
        "server.json": json.dumps(
            {
                **SECRETS,
                "name": "a",
                "description": "b",
                "serverUrl": "PLANTED",
                "tools": [{"name": "t", "output": "PLANTED", **SECRETS}],
                "auth": {"type": "bearer", **SECRETS},
            }
        )
    },
    "card": {".well-known/agent-card.json": json.dumps(CARD)},
    "skills": {
        "x/SKILL.md": FRONTMATTER,
    },
}


def test_every_kind_is_planted() -> None:
    """So that a new one cannot go unwatched."""
    assert FILES.keys() == {one.name for one in KINDS}


@pytest.mark.parametrize("a2a", ["0.2", "0.3", "1.0"])
@pytest.mark.parametrize("kind", FILES)
def test_F26_nothing_that_was_planted_leaves(
    tmp_path: Path, write: Write, kind: str, a2a: str
) -> None:
    """Whatever the form of the card."""
    files = [write(name, text) for name, text in FILES[kind].items()]
    sources = files if kind in ("mcp", "pyproject") else [tmp_path]
    card = built(*sources, a2a=a2a)
    assert b"PLANTED" not in card.document
    unknown = set(json.loads(card.document)) - CARD_1_0.fields.keys() - CARD_0_3.fields.keys()
    assert unknown <= {"authentication"}


@pytest.mark.parametrize("a2a", ["0.2", "0.3", "1.0"])
def test_F26_an_older_card_is_no_way_out(write: Write, a2a: str) -> None:
    """Its unknown members are left out, and each is named."""
    card = built(write("card.json", json.dumps(OLD)), a2a=a2a)
    assert b"PLANTED" not in card.document
    assert "build.changed" in codes(card)
    left_out = " ".join(one.message for one in card.reasons if one.code == "build.left_out")
    assert "egress" in left_out


def test_the_plants_would_be_found(write: Write) -> None:
    """A card that says the word where it may does hold it."""
    said: dict[str, Any] = {**CARD, "description": "PLANTED"}
    assert b"PLANTED" in built(write("card.json", json.dumps(said))).document
