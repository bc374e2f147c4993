"""Cards that partners signed by their libraries' own examples, and what a policy makes of them.

`docs/reports/partners.md` is the table: which word of a policy trusts such a card, or the sentence
that the partner's engineer needs. ``python tests/interop/partners.py`` writes it anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import rfc8785  # noqa: E402
from joserfc import jws  # noqa: E402
from joserfc.jwk import ECKey, OKPKey, RSAKey  # noqa: E402

from cardsign.card import Card as AgentCard  # noqa: E402
from cardsign.errors import InputRefused  # noqa: E402
from cardsign.jose import JwkSet  # noqa: E402
from cardsign.trust import Holder, Policy, look_at  # noqa: E402
from cardsign.verify import Report, reach_verdict  # noqa: E402
from tests.support import PORTABLE  # noqa: E402

PAGE: Final = ROOT / "docs" / "reports" / "partners.md"
NOW: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALGORITHMS: Final = ("ES256", "RS256", "EdDSA")

Card = dict[str, Any]

#: What partners sign: the least card, and the commonest one, which asks for a bearer token.
CARDS: Final[dict[str, Card]] = {
    "a card without security": {
        name: value
        for name, value in PORTABLE.items()
        if name not in ("securitySchemes", "securityRequirements", "signatures")
    },
    "a card that asks for a bearer token": {
        **{name: value for name, value in PORTABLE.items() if name != "signatures"},
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    },
}


@dataclass(frozen=True, slots=True)
class Partner:
    """One signed card.

    Attributes:
        by: The library and its function.
        how: With which typ.
        alg: The algorithm.
        name: Which of :data:`CARDS`.
        card: As it is served.
    """

    by: str
    how: str
    alg: str
    name: str
    card: Card


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verifier has to do.

    Attributes:
        word: The word of the policy that trusts the card; None where none does.
        code: The first reason by default.
        says: What the partner's engineer is told, or what the accepted word leaves open.
    """

    word: Literal["full", "sdk"] | None
    code: str
    says: str


def make_keys() -> dict[str, dict[str, str]]:
    """A private JWK for each algorithm."""
    made = {
        "ES256": ECKey.generate_key("P-256"),
        "RS256": RSAKey.generate_key(2048),
        "EdDSA": OKPKey.generate_key("Ed25519"),
    }
    return {
        alg: {**key.as_dict(private=True), "kid": f"partner-{alg.lower()}", "alg": alg}
        for alg, key in made.items()
    }


def public_keys(keys: Mapping[str, Mapping[str, str]]) -> JwkSet:
    """The key set that a partner hands over."""
    private = {"d", "p", "q", "dp", "dq", "qi"}
    public = [
        {name: value for name, value in jwk.items() if name not in private} for jwk in keys.values()
    ]
    return JwkSet.from_bytes(json.dumps({"keys": public}).encode())


def signed_cards(keys: Mapping[str, Mapping[str, str]]) -> list[Partner]:
    """Every card by every library that this machine has."""
    asked = json.dumps({"cards": CARDS, "keys": keys})
    made = list(_by_joserfc(keys))
    python, home = os.environ.get("CARDSIGN_JUDGE_PY"), os.environ.get("CARDSIGN_JUDGE_JS_HOME")
    if python:
        made += _ask([python, str(ROOT / "tests/interop/partner_py.py")], asked)
    if home:
        made += _ask(["node", str(ROOT / "tests/interop/partner_js.mjs")], asked, A2A_JS_HOME=home)
    return made


def _ask(command: list[str], asked: str, **environment: str) -> list[Partner]:
    ended = subprocess.run(
        command,
        input=asked.encode(),
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, **environment},
    )
    return [Partner(**one) for one in json.loads(ended.stdout)]


def _by_joserfc(keys: Mapping[str, Mapping[str, str]]) -> Iterator[Partner]:
    """``jws.serialize_compact``, over canonical bytes."""
    kinds = {"ES256": ECKey, "RS256": RSAKey, "EdDSA": OKPKey}
    for alg, jwk in keys.items():
        key = kinds[alg].import_key(dict(jwk))
        headers: tuple[tuple[str, dict[str, str]], ...] = (
            ("no kid, as in its first example", {"alg": alg}),
            ("its own typ", {"alg": alg, "kid": jwk["kid"]}),
            ("typ JOSE", {"alg": alg, "kid": jwk["kid"], "typ": "JOSE"}),
        )
        for how, header in headers:
            for name, card in CARDS.items():
                compact = jws.serialize_compact(header, rfc8785.dumps(card), key, algorithms=[alg])
                protected, _, signature = compact.split(".")
                entry = {"protected": protected, "signature": signature}
                signed = {**card, "signatures": [entry]}
                yield Partner("joserfc, serialize_compact of JCS bytes", how, alg, name, signed)


def judge(partner: Partner, keys: JwkSet) -> Answer:
    """What the words of a policy say of a partner's card, the strictest first."""
    data = json.dumps(partner.card).encode()
    reports: dict[str, Report] = {}
    for word in ("full", "sdk"):
        policy = Policy.from_jwks(keys, name="the partner", accept=word)
        reports[word] = reach_verdict(data, expect=Holder(), policy=policy, now=NOW)
    first = reports["full"].reasons[0]
    code = first.code
    if reports["full"].verdict == "trusted":
        return Answer("full", code, "")
    if reports["sdk"].verdict == "trusted":
        return Answer("sdk", code, reports["sdk"].all_but or "")
    try:
        told = " ".join(look_at(AgentCard.from_bytes(data), keys)[1])
    except InputRefused as refusal:
        told = refusal.hint
    return Answer(None, code, told or f"{first.message}. {first.hint}")


def judged() -> dict[tuple[str, str, str, str], Answer]:
    """What is said of each card, by (library, typ, algorithm, card)."""
    keys = make_keys()
    public = public_keys(keys)
    return {(one.by, one.how, one.alg, one.name): judge(one, public) for one in signed_cards(keys)}


HEAD: Final = """\
# Cards that partners sign

Each row is a card that a library signed by its documentation's own example, and what `verify`
makes of it. `accept = "full"` is the default. Where no word of a policy trusts the card, the row
has the sentence for the partner's engineer. `cardsign trust add NAME --like CARD --jwks FILE`
prints it too.

The table is made by `python tests/interop/partners.py`. A test holds it against the libraries.

| signed by | header | algorithms | card | trusted with | what stays open, or what to say |
|---|---|---|---|---|---|
"""


def page(answers: Mapping[tuple[str, str, str, str], Answer]) -> str:
    """The table; rows that differ in algorithm, header or card alone are one."""
    by_alg: dict[tuple[str, str, str, str, str], list[str]] = {}
    for (by, how, alg, name), answer in answers.items():
        word = f'`accept = "{answer.word}"`' if answer.word else f"nothing (`{answer.code}`)"
        by_alg.setdefault((by, name, word, answer.says, how), []).append(alg)
    by_how: dict[tuple[str, str, str, str, str], list[str]] = {}
    for (by, name, word, says, how), algs in by_alg.items():
        by_how.setdefault((by, name, word, says, ", ".join(algs)), []).append(how)
    rows: dict[tuple[str, str, str, str, str], list[str]] = {}
    for (by, name, word, says, algs_), hows in by_how.items():
        rows.setdefault((by, "; ".join(hows), algs_, word, says), []).append(name)
    lines = sorted(
        f"| {by} | {how} | {algs_} | {'; '.join(names)} | {word} | {says} |"
        for (by, how, algs_, word, says), names in rows.items()
    )
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(judged()), encoding="utf-8")
