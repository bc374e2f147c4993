"""Only members of the A2A schema and our extension leave `build` (F26, L3, L23)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardsign.build.sources import KINDS
from cardsign.card.schema import CARD_0_3, CARD_1_0
from cardsign.errors import BuildRefused, CardsignError, UsageFault
from tests.build.making import Write, built
from tests.support import each_case, read_cases

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
CASES = read_cases(__file__)


def with_secrets(name: str, text: str) -> str:
    """The text of a file with the secrets, in its form, where they are to be planted."""
    members = json.dumps(SECRETS)[1:-1]
    if name.endswith(".toml"):
        members = re.sub(r'"(\w+)": ', r'"\1" = ', members)
    return text.replace("SECRETS", members)


FILES: dict[str, dict[str, str]] = {
    kind: {name: with_secrets(name, text) for name, text in files.items()}
    for kind, files in CASES["planted"].items()
}
CARD: dict[str, Any] = json.loads(FILES["card"][".well-known/agent-card.json"])
OLD = {
    **CARD,
    "url": "https://a.example/",
    "protocolVersion": "0.3.0",
    "securitySchemes": {"k": {"type": "http", "scheme": "bearer", **SECRETS}},
}


def test_every_kind_of_source_has_something_planted() -> None:
    """A new one needs its files in `leaks.toml`; everything is planted in each of them."""
    assert FILES.keys() == {kind.name for kind in KINDS}
    for text in (text for files in FILES.values() for text in files.values()):
        assert SECRETS.keys() <= {*re.findall(r"\w+", text)}


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


FORGE = "agent_id: a\ndescription: b\nbuiltin_tools: [t]\n"


@each_case(__file__, "login", "name", "text")
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
    given = CARD | {"metadata": metadata | inside}
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
    path = write("card.json", json.dumps(CARD))
    with pytest.raises((BuildRefused, UsageFault)):
        built(path, members={member: text})
