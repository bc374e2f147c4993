"""Writes a new attack of the corpus; tests/attacks/README.md shows how.

Headers, signatures and statements are put together by hand: an attacker is not bound by what
cardsign's signer refuses to make. Keys are made anew each time and thrown away.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import rfc8785
import tomlkit
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import default_registry

from cardsign.card.profiles import canonicalize
from cardsign.jose import base64url
from tests.attack_runner.corpus import CORPUS, FORMAT, read_file
from tests.support import PORTABLE

Json = dict[str, Any]

#: 2026-11-21 12:00:00 UTC
NOW: Final = 1_795_262_400
DAY: Final = 86_400
ORIGIN: Final = "https://tides.example"
JWKS_URL: Final = f"{ORIGIN}/.well-known/jwks.json"
CARD: Final[Json] = PORTABLE
_COLUMNS: Final = 200


# ------------------------------------------------------------------ keys and signatures


@dataclass(frozen=True)
class Key:
    """A key of the corpus: its name, its algorithm, and joserfc's key."""

    kid: str
    alg: str
    native: ECKey | OKPKey | RSAKey

    def jwk(self, **changes: Any) -> Json:
        """Return the public JWK; a change to None takes a member away."""
        members = {**self.native.as_dict(private=False), "use": "sig", "alg": self.alg}
        return _changed({**members, "kid": self.kid}, changes)

    @property
    def thumbprint(self) -> str:
        """RFC 7638, SHA-256."""
        return self.native.thumbprint()

    def sign(self, data: bytes) -> bytes:
        """Return the raw signature over any bytes."""
        return default_registry.algorithms[self.alg].sign(data, self.native)


def make_key(kid: str, alg: str = "ES256") -> Key:
    """Return a new key for ES256, ES384, EdDSA or an algorithm of RSA."""
    if alg.startswith("ES"):
        curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[alg]
        return Key(kid, alg, ECKey.generate_key(curve, auto_kid=False))
    if alg == "EdDSA":
        return Key(kid, alg, OKPKey.generate_key("Ed25519", auto_kid=False))
    return Key(kid, alg, RSAKey.generate_key(2048, auto_kid=False))


def sign_payload(
    payload: bytes, key: Key, header: Mapping[str, Any] | bytes | None = None, **changes: Any
) -> Json:
    """Return one signature over a payload, under the right header, a changed one or any bytes."""
    members = {"alg": key.alg, "kid": key.kid, "typ": "JOSE"} if header is None else header
    data = members if isinstance(members, bytes) else _compact(_changed(dict(members), changes))
    protected = base64url.encode(data)
    signature = key.sign(f"{protected}.{base64url.encode(payload)}".encode())
    return {"protected": protected, "signature": base64url.encode(signature)}


def sign_card(card: Json, key: Key, profile: str = "served-as-is", **header: Any) -> Json:
    """Return the card with one signature under a header with these changes."""
    payload = canonicalize(card, profile).data
    return {**card, "signatures": [sign_payload(payload, key, **header)]}


def sign_statement(payload: Json, typ: str, *keys: Key) -> Json:
    """Return the description of a keyset or release statement that these keys sign."""
    data = rfc8785.dumps(payload)
    heads = [{"alg": key.alg, "kid": key.thumbprint, "typ": typ} for key in keys]
    signatures = [
        {"protected": head, "signature": sign_payload(data, key, head)["signature"]}
        for head, key in zip(heads, keys, strict=True)
    ]
    return {"statement": {"payload": json.loads(data), "signatures": signatures}}


def _changed(members: Json, changes: Mapping[str, Any]) -> Json:
    return {name: one for name, one in {**members, **changes}.items() if one is not None}


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# ------------------------------------------------------------------ policies and answers


def pin_keys(*keys: Key) -> Json:
    """Return an anchor: these keys and no others."""
    return {"keys": [{"holder": "harbour", "public": key.jwk()} for key in keys]}


def make_issuer(anchor: Json, **members: Any) -> Json:
    """Return one issuer of a policy; freshness is waived unless a member says otherwise."""
    head = {"name": "harbour", "origins": [ORIGIN], "freshness": "waived"}
    return {**head, **members, "anchor": anchor}


def expect(verdict: str, answers: str, code: str = "", **members: Any) -> Json:
    """Return what must come out; the four answers in order, such as `yes yes unknown no`."""
    names = ("integrity", "authorised", "current", "complete")
    reason: Json = {"code": code} if code else {"warnings": ["trust.freshness_waived"]}
    answered = dict(zip(names, answers.split(), strict=True))
    return {"verdict": verdict, **reason, "answers": answered, **members}


# ------------------------------------------------------------------ attacks


class Attack:
    """An attack in its variants and their honest twins.

    Args:
        number: Unique in the corpus; 500 + N for decision N.
        name: What follows the number in the file's name.
        about: The members `title`, `source` and `why`.
    """

    def __init__(self, number: int, name: str, **about: str) -> None:
        self.path = CORPUS / f"{number:03}-{name}.json"
        self.about: Json = {"format": FORMAT, "number": number, **about}
        self.files: Json = {}
        self.cases: list[Json] = []
        self.transcripts: list[Json] = []

    def policy(self, *issuers: Json, name: str = "trust.toml") -> str:
        """Add a policy and return its name."""
        text = tomlkit.dumps({"format": 1, "issuer": list(issuers)})
        self.files[name] = {"lines": text.splitlines()}
        return name

    def file(self, name: str, given: bytes | Json) -> str:
        """Add a file of these bytes, of a card, or by a description, and return its name."""
        described = given if _is_description(given) else describe(_dump(given))
        assert self.files.setdefault(name, described) == described, f"{name} is there already"
        return name

    def step(self, card: bytes | Json, expected: Json, name: str, **members: Any) -> Json:
        """Return a step; `name` is that of the card's file."""
        head = {"card": self.file(name, card), "subject": {"issuer": "harbour"}, "now": NOW}
        return {**head, **members, "expect": expected}

    def case(self, id_: str, kind: str, title: str, *steps: Json, **members: Any) -> None:
        """Add a case; it is a transcript if its steps name a URL."""
        head = {"id": id_, "kind": kind, "title": title, "policy": "trust.toml"}
        cases = self.transcripts if "url" in steps[0] else self.cases
        cases.append({**head, **members, "steps": list(steps)})

    def write(self) -> Path:
        """Write the attack's file."""
        document = {**self.about, "files": self.files, "cases": self.cases}
        if self.transcripts:
            document["transcripts"] = self.transcripts
        self.path.write_text(spread(document) + "\n", encoding="utf-8")
        return self.path


def describe(data: bytes) -> Json:
    """Return how the format says these bytes: as JSON, as text, or as base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    for form in ("json", "compact"):
        try:
            described = {form: json.loads(text, parse_float=str)}
        except (ValueError, RecursionError):
            break
        if read_file({"": described}, "") == data:
            return described
    return {"text": text}


def _is_description(given: bytes | Json) -> bool:
    kinds = {"json", "compact", "text", "lines", "base64", "of", "statement", "pieces"}
    return isinstance(given, dict) and bool(kinds & given.keys())


def _dump(given: bytes | Json) -> bytes:
    if isinstance(given, bytes):
        return given
    return json.dumps(given, ensure_ascii=False, indent=1).encode() + b"\n"


def spread(value: Any, indent: str = "", before: int = 0) -> str:
    """Return JSON in which whatever fits into a line stands on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + before + len(line) <= _COLUMNS or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, list):
        parts = [spread(one, inner) for one in value]
    else:
        names = {name: json.dumps(name, ensure_ascii=False) + ": " for name in value}
        parts = [names[n] + spread(one, inner, len(names[n])) for n, one in value.items()]
    opened, closed = "[]" if isinstance(value, list) else "{}"
    return f"{opened}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closed}"
