"""What fuzzing starts from: good examples of every kind, and our own vectors and attacks.

An input that breaks something has to mean the same tomorrow, so each key is computed from its name.
Nothing but these targets trusts them.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.jose.keys import PrivateKey
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import card_digest
from tests.attack_runner.corpus import load_attacks
from tests.hostile import SHAPES, card
from tests.support import DUAL, LAX, OLD, PORTABLE, WITH_DEFAULTS, dump, one_signature, signed

NOW: Final = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
ISSUER: Final = "tides.example"
AUDIENCE: Final = "harbour-staff"
#: Everybody who ever signs, rightly or not; `eve` is trusted nowhere.
PEOPLE: Final = ("ann", "bob", "cat", "rita", "rel", "rel2", "card", "card2", "eve")
#: Who signs cards; the first two by right.
CARD_SIGNERS: Final = ("card", "card2", "eve")

_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


def _key(name: str) -> PrivateKey:
    """The key of a name, on P-256."""
    scalar = int.from_bytes(hashlib.sha256(f"fuzz {name}".encode()).digest()) % (_ORDER - 1) + 1
    native = ec.derive_private_key(scalar, ec.SECP256R1())
    return PrivateKey.from_pkcs8_der(
        native.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    )


FUZZED: Final = FakeIssuer(NOW)
FUZZED.keys |= {name: _key(name) for name in PEOPLE}
URL: Final = FUZZED.url
key, public_keys, keyset, release = FUZZED.key, FUZZED.jwks, FUZZED.keyset, FUZZED.release


def listed(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a release says of one current card."""
    return [{"url": URL, "kind": "public", "payload_sha256": card_digest(card), "seq": 3}]


def extended_card() -> dict[str, Any]:
    """The extended card of the one audience, unsigned."""
    exp = int((NOW + timedelta(days=30)).timestamp())
    return with_marker(PORTABLE, ExtendedMarker(AUDIENCE, 5, exp))


TESTS: Final = Path(__file__).resolve().parents[1]

#: Enough for the shape; mutation makes more of it.
HOSTILE_BYTES: Final = 4096


def cards() -> list[bytes]:
    """Cards of every kind, signed by the first card key, some by two."""
    kinds = (PORTABLE, WITH_DEFAULTS, LAX, OLD, DUAL, extended_card())
    texts = [dump(signed(one, key("card"))) for one in kinds]
    texts.append(dump(signed(PORTABLE, key("card"), key("card2"))))
    entries = [one_signature(LAX, key(name), "prune-empty") for name in CARD_SIGNERS]
    copied = [one_signature(PORTABLE, key("card"), "served-as-is")] * 2
    hostile = [card(shape, HOSTILE_BYTES, signatures=copied) for shape in SHAPES]
    return [*texts, dump({**LAX, "signatures": entries}), dump(PORTABLE), *hostile]


def sources() -> list[bytes]:
    """A manifest of every kind, behind the name of its file; one more has a wrong type."""
    skill = '{"id": "s", "name": "s", "description": "d", "tags": ["t"]}'
    tool = '{"name": "t", "description": "d", "inputSchema": {"type": "object"}}'
    auth = (
        '"type": "oauth2",\n"flows": {"clientCredentials": {"tokenUrl": "https://a.example/t",\n'
        '"scopes": {}},\n"password": {"tokenUrl": "https://a.example/t", "scopes": {}}}'
    )
    resource = "apiVersion: orloj.dev/v1\nkind: {}\nmetadata:\n  name: {}\n{}"
    described = '  annotations:\n    orloj.dev/description: "d"\nspec:\n  agents: [b]\n'
    orloj = (
        resource.format("AgentSystem", "a", described),
        resource.format("Agent", "b", "spec:\n  tools:\n  - c\n"),
        resource.format("Tool", "c", "spec:\n  description: d\n  input_schema: {a: 1.5}\n"),
    )
    texts = {
        "card.json": f'{{\n"name": "a",\n"description": "d",\n"version": "1",\n'
        f'"url": "https://a.example/",\n"protocolVersion": "0.3.0",\n"skills": [\n{skill}\n],\n'
        f'"securitySchemes": {{"k": {{{auth}}}}},\n"security": [{{"k": []}}],\n'
        f'"metadata": {{"a": 1}}\n}}\n',
        "forge.yaml": "agent_id: a\ndescription: d\nversion: 1.10\nbuiltin_tools:\n- x\nauth:\n"
        "  required: false\n  providers:\n  - type: oidc\n    name: sso\n    settings:\n"
        "      issuer: https://i.example\nskills:\n  path: main.md\n",
        "orloj.yaml": "---\n".join(orloj),
        "agent.toml": 'name = "a"\nversion = "1"\ndescription = "d"\nmodule = "m"\n[model]\n'
        'system_prompt = "p"\n[capabilities]\ntools = ["x", "y-z"]\n',
        "HAND.toml": 'id = "a"\nname = "A"\ndescription = "d"\ncategory = "c"\n'
        'tools = ["x"]\nsince = 2020-01-01\nratio = inf\n',
        "config.toml": 'api_key = "x"\n[a2a]\nenabled = true\nlisten_path = "/a"\n',
        "pyproject.toml": '[project]\nname = "a"\nversion = "1"\ndescription = "d"\n'
        '[tool.cardsign.card]\nurl = "https://a.example/"\n[[tool.cardsign.card.skills]]\n'
        'id = "s"\ndescription = "d"\nexamples = ["e"]\n',
        "tools.json": '{"name": "a",\n"description": "d",\n"auth": ["bearer"],\n'
        f'"tools": [\n{tool}\n]}}\n',
        "SKILL.md": "---\nname: a\ndescription: d\ncategory: c\ntags: [t]\n"
        "modes: [text/plain]\n---\nx\n",
    }
    manifests = [f"{name}\n{text}".encode() for name, text in texts.items()]
    return [*manifests, b"SKILL.md\n---\nname: a\ndescription: [d]\n---\n"]


def entries() -> list[bytes]:
    """Single members of `signatures`."""
    made = one_signature(PORTABLE, key("card"), "served-as-is")
    return [dump(made), dump({**made, "header": {"jku": "https://a.example"}})]


def key_sets() -> list[bytes]:
    """JWK Sets; one with keys for other purposes."""
    okp = {"kty": "OKP", "crv": "Ed25519", "x": "A" * 43, "kid": "okp"}
    several: dict[str, Any] = {"keys": [key("card").public.jwk(), okp, {"kty": "AKP"}]}
    return [public_keys("card", "card2").to_bytes(), dump(several)]


def keysets() -> list[bytes]:
    """The first statement of an issuer, and a recovery, which opens epoch 2."""
    return [keyset("ann", "bob"), keyset("ann", "bob", "rita", epoch=2)]


def releases() -> list[bytes]:
    """A release under each of them."""
    rows = listed(PORTABLE)
    return [release(statement, "rel", cards=rows) for statement in keysets()]


# ------------------------------------------------------------------ our own files


def published_cards() -> list[bytes]:
    """The cards of our vectors and attacks."""
    vectors = (base64.b64decode(one["card_base64"]) for one in _vectors("cards"))
    return [*vectors, *_of_attacks("*.card.*")]


def published_key_sets() -> list[bytes]:
    """Their key sets."""
    return [*(dump(one["jwks"]) for one in _vectors("cards")), *_of_attacks("*jwks.*")]


def published_keysets() -> list[bytes]:
    """The keyset statements of our vectors."""
    return [statement for chain in _chains() for kind, statement in chain if kind == "keyset"]


def published_releases() -> list[bytes]:
    """The releases of our vectors."""
    return [statement for chain in _chains() for kind, statement in chain if kind == "release"]


def _of_attacks(pattern: str) -> list[bytes]:
    """The files of our attacks that are called so."""
    attacks = load_attacks()
    return [one.file(name) for one in attacks for name in fnmatch.filter(one.files, pattern)]


def _chains() -> Iterator[list[tuple[str, bytes]]]:
    for vector in _vectors("statements"):
        steps = [step for step in vector["steps"] if isinstance(step.get("statement"), str)]
        yield [(step["kind"], step["statement"].encode()) for step in steps]


def _vectors(folder: str) -> Iterator[dict[str, Any]]:
    yield from (json.loads(data) for data in _files(f"vectors/{folder}/*.json"))


def _files(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(TESTS.glob(pattern))]
