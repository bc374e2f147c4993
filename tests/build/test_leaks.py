"""Only members of the A2A schema and our extension leave `build` (F26, L3, L23)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cardsign.build.sources import KINDS
from cardsign.card.schema import CARD_0_3, CARD_1_0
from cardsign.errors import BuildRefused, CardsignError, UsageFault
from tests.build.making import Write, built

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


def test_every_kind_of_source_has_something_planted() -> None:
    """A new one needs a row above."""
    assert FILES.keys() == {kind.name for kind in KINDS}


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
    assert "build.changed" in [one.code for one in card.reasons]
    left_out = " ".join(one.message for one in card.reasons if one.code == "build.left_out")
    assert {"egress", "provider.egress"} <= set(left_out.split())


LOGIN = "https://user:PLANTED@o.example/"
A_CARD = {"name": "a", "description": "b", "version": "1", "skills": [SKILL]}
FORGE = "agent_id: a\ndescription: b\nbuiltin_tools: [t]\n"
WITH_LOGIN: dict[str, tuple[str, str]] = {
    "url": ("card.json", json.dumps(OLD | {"url": LOGIN})),
    "interface": ("card.json", json.dumps(A_CARD | {"supportedInterfaces": [{"url": LOGIN}]})),
    "documentation": ("card.json", json.dumps(CARD | {"documentationUrl": LOGIN})),
    "backslashes": ("card.json", json.dumps(CARD | {"iconUrl": LOGIN.replace("//", "\\\\")})),
    "provider": (
        "card.json",
        json.dumps(A_CARD | {"url": "", "provider": {"organization": "o", "url": LOGIN}}),
    ),
    "extension": (
        "card.json",
        json.dumps(
            A_CARD | {"capabilities": {"extensions": [{"uri": "u", "params": {"a": [LOGIN]}}]}}
        ),
    ),
    "id": ("card.json", json.dumps(CARD | {"spiffe_id": "spiffe://u@o.example/a"})),
    "issuer": (
        "forge.yaml",
        f"{FORGE}auth: {{providers: [{{type: oidc, settings: {{issuer: '{LOGIN}'}}}}]}}\n",
    ),
    "homepage": (
        "mcp.json",
        json.dumps({"name": "a", "description": "b", "homepage": LOGIN, "tools": [{"name": "t"}]}),
    ),
    "schema": (
        "mcp.json",
        json.dumps(
            {
                "name": "a",
                "description": "b",
                "tools": [{"name": "t", "inputSchema": {"properties": {"x": {"default": LOGIN}}}}],
            }
        ),
    ),
    "pyproject": (
        "pyproject.toml",
        "[tool.cardsign.card]\nname = 'a'\ndescription = 'b'\nskills = [{id = 's'}]\n"
        f"iconUrl = '{LOGIN}'\n",
    ),
}


@pytest.mark.parametrize(("name", "text"), WITH_LOGIN.values(), ids=WITH_LOGIN)
def test_F26_a_url_with_a_user_or_password_is_refused_with_its_line(
    write: Write, name: str, text: str
) -> None:
    """The error does not repeat it; the same source without it is built."""
    with pytest.raises(BuildRefused) as caught:
        built(write(name, text))
    assert caught.value.code == "build.unsupported"
    assert caught.value.finding.place.line
    assert "PLANTED" not in str(caught.value)
    harmless = text.replace("user:PLANTED@", "").replace("u@o.", "o.")
    built(write(name, harmless), members={"skills.s.description": "d"})


def test_F26_an_address_in_a_text_is_no_credential(write: Write) -> None:
    """Only a value that is a URL counts."""
    text = "Writes to us@o.example or https://o.example/@us"
    card = built(write("card.json", json.dumps(CARD | {"description": text})))
    assert json.loads(card.document)["description"] == text


def test_B25_metadata_that_may_be_secret_stays_inside(write: Write) -> None:
    """Words move into our extension; objects, and what lint takes for a secret, do not."""
    metadata = {"team": "iam", "tier": 2}
    token = "AKIA" + "IOSFODNN7EXAMPLE"
    inside = {"api_key": "x", "note": token, "host": "http://10.0.0.1/", "more": {"a": 1}, "l": [1]}
    given = A_CARD | {"metadata": metadata | inside}
    card = built(write("card.json", json.dumps(given)))
    (ours,) = json.loads(card.document)["capabilities"]["extensions"]
    assert ours["params"]["metadata"] == metadata
    left_out = [one for one in card.reasons if "may hold what is not for everybody" in one.message]
    assert len(left_out) == len(inside)


TOOL = "name='a'\ndescription='b'\n[[tools]]\nname='t'\ninputSchema="


def test_what_no_card_can_hold_is_refused(write: Write) -> None:
    """It does not end in a fault of ours. A date of TOML is its text."""
    with pytest.raises(BuildRefused, match="JSON compliant"):
        built(f"mcp:{write('m.toml', TOOL + '{a=inf}')}")
    with pytest.raises(BuildRefused, match="leads out") as caught:
        built(write("forge.yaml", f'{FORGE}skills: {{path: "a\\0b"}}\n'))
    assert caught.value.finding.place.line
    dated = built(f"mcp:{write('d.toml', TOOL + '{a=2020-01-01}')}")
    assert b'"a": "2020-01-01"' in dated.document


@pytest.mark.parametrize("length", [300, 9000])
def test_a_path_too_long_for_any_file_is_no_file(write: Write, length: int) -> None:
    """Of a forge.yaml it is a file that is not there; of the command line it is refused."""
    text = "a" * length
    built(write("forge.yaml", f"{FORGE}skills: {{path: {text}}}\n"))
    with pytest.raises(CardsignError) as caught:
        built(text)
    assert caught.value.code.startswith("file.")


@pytest.mark.parametrize(
    ("member", "text"),
    [
        ("skills", '[{"id": "x"}]'),
        ("skills.x", "{}"),
        ("skills..name", "x"),
        ("signatures", '[{"protected": "x"}]'),
        ("provider", "[" * 60_000),
        ("provider", '{"organization": NaN}'),
        ("provider", '{"organization": "a", "organization": "b"}'),
        ("description", "\ud800"),
    ],
)
def test_a_member_that_cannot_be_said_is_refused(write: Write, member: str, text: str) -> None:
    """Whatever stands behind --set."""
    path = write("card.json", json.dumps(A_CARD))
    with pytest.raises((BuildRefused, UsageFault)):
        built(path, members={member: text})
