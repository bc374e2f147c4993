"""What is fuzzed: a target takes bytes and raises nothing but what its reader documents.

Anything else, an ``AssertionError`` of an oracle included, is a finding. The oracles know nothing
of how a verdict is reached: what is trusted must have been signed by a key that may. Series of
statements are for tests/simulation and tests/trust, and of a parser of JSON, one signature and a
marker the properties are in tests/card and tests/jose.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.card.document import Card
from cardsign.card.values import jcs
from cardsign.errors import BuildRefused, CardsignError, KeyRefused, SignatureRefused
from cardsign.findings import list_codes
from cardsign.inspect import inspect_card
from cardsign.jose.jwk import decode_base64url, encode_base64url
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet
from cardsign.statements.envelope import Envelope, StatementRefused, read_envelope
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.policy import KeysAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.report import Report
from tests.fuzz import mutations as change
from tests.fuzz import seeds
from tests.fuzz.seeds import CARD_SIGNERS, NOW, URL, public_keys
from tests.support import reach_verdict, read_cases

#: A name for each kind of source.
SOURCES: Final = tuple(name for name in read_cases(seeds.__file__)["sources"] if "," not in name)
_PLACES: Final = (parse_place("https://tides.example"),)
#: All that may ever have signed a card that is trusted.
_BY_RIGHT: Final = public_keys(*CARD_SIGNERS[:2])
_SCRATCH: Final = tempfile.TemporaryDirectory(prefix="cardsign-fuzz-")


def check_source(data: bytes) -> None:
    """What is built of a file is a card in both forms; its name stands in the first line."""
    head, _, text = data.partition(b"\n")
    name = head.decode("latin-1")
    path = Path(_SCRATCH.name) / (name if name in SOURCES else SOURCES[sum(head) % len(SOURCES)])
    path.write_bytes(text)
    try:
        built = build_card([path], BuildOptions(a2a="both", url="https://a.example/"))
    except BuildRefused as refused:
        str(refused).encode()  # half a character would spoil every report
        raise
    finally:
        path.unlink()
    for document in built.documents.values():
        assert Card.from_bytes(document).document["name"]


def check_key_set(data: bytes) -> None:
    """What is written of a set is read as the same set, unless it is too long to be read."""
    found = JwkSet.from_bytes(data)
    written = found.to_bytes()
    if len(written) <= MAX_JWKS_BYTES:
        again = JwkSet.from_bytes(written)
        assert {one.kid: one.jwk() for one in again.keys} == {
            one.kid: one.jwk() for one in found.keys
        }
    for one in found.keys:
        assert found.find(one.kid) is one


def check_keyset(data: bytes) -> None:
    """A statement's payload is its own canonical form; its envelope can be written again."""
    statement = read_keyset(data)
    _check_envelope(statement.envelope, statement.issuer)
    assert statement.exp > statement.iat
    assert all(one.threshold >= 1 for one in (statement.root, statement.recovery) if one)


def check_release(data: bytes) -> None:
    """Likewise; no floor lies above the release's own number."""
    statement = read_release(data)
    _check_envelope(statement.envelope, statement.issuer)
    assert all(least <= statement.seq for least in statement.floor.values())


def _check_envelope(envelope: Envelope, issuer: str) -> None:
    members = json.loads(envelope.payload)
    assert jcs(members) == envelope.payload
    assert members["issuer"] == issuer
    document = {
        "payload": encode_base64url(envelope.payload),
        "signatures": [one.to_json() for one in envelope.signatures],
    }
    assert read_envelope(json.dumps(document).encode(), envelope.typ) == envelope


def check_pinned(data: bytes) -> str:
    """A card before pinned keys: nothing raises, and what is trusted is what they signed."""
    anchor = KeysAnchor(_BY_RIGHT)
    for accept in ("full", "sdk"):
        issuer = TrustedIssuer("tides", anchor, _PLACES, accept, "waived")
        report = reach_verdict(data, expect=Subject(url=URL), policy=Policy((issuer,)), now=NOW)
        _check_report(report, data)
    return report.verdict


def check_inspection(data: bytes) -> None:
    """A report comes of anything, and serializes."""
    report = inspect_card(data, jwks=_BY_RIGHT)
    json.dumps(report.to_json(), allow_nan=False).encode()


def _check_report(report: Report, data: bytes) -> None:
    """A verdict is one of four, serializes, and trusts only what a key of right has signed."""
    assert report.verdict in ("trusted", "untrusted", "invalid", "indeterminate")
    json.dumps(report.to_json(), allow_nan=False, ensure_ascii=False).encode()
    assert {reason.code for reason in report.reasons} <= set(list_codes())
    assert (report.card is not None) == (report.verdict == "trusted")
    if report.verdict == "trusted":
        assert _is_signed(report.card, data), "trusted, and no key of right has signed it"


def _is_signed(payload: Any, data: bytes) -> bool:
    """Whether some entry verifies over this payload, without asking cardsign's own verifier."""
    signed = jcs(payload)
    for entry in json.loads(data)["signatures"]:
        for one in _BY_RIGHT.keys:
            try:
                signature = decode_base64url(entry["signature"])
                one.check(entry["protected"], signed, signature)
            except (SignatureRefused, ValueError, TypeError, KeyError, AttributeError):
                continue  # this entry is not the one
            return True
    return False


# The targets.

#: Inputs that a target starts from besides the first, drawn by the seed: with all of them a short
#: run would do nothing else.
MOST_SEEDS: Final = 100


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that reads what strangers write.

    Attributes:
        check: Holds the properties against one input; returns a verdict if it reaches one.
        refuses: The errors that its documentation names; it may raise no others.
        mutate: The mutator that knows the kind of input.
        inputs: What to start from; the first one is good.
    """

    check: Callable[[bytes], str | None]
    refuses: tuple[type[CardsignError], ...]
    mutate: change.Mutator
    inputs: Callable[[], list[bytes]]

    def seeds(self, random: Random) -> list[bytes]:
        """What to start from."""
        first, *others = self.inputs()
        return [first, *random.sample(others, min(len(others), MOST_SEEDS))]

    def run(self, data: bytes) -> str:
        """Hold the properties against an input: its verdict, ``accepted``, or a refusal's code."""
        try:
            return self.check(data) or "accepted"
        except self.refuses as refused:
            code, text = refused.code, str(refused)
        assert code in list_codes(), code
        assert text.startswith(code)
        return code


TARGETS: Final[dict[str, Target]] = {
    "jwks": Target(check_key_set, (KeyRefused,), change.mutate_json, seeds.key_sets),
    "keyset": Target(check_keyset, (StatementRefused,), change.mutate_statement, seeds.keysets),
    "release": Target(check_release, (StatementRefused,), change.mutate_statement, seeds.releases),
    "verify": Target(check_pinned, (), change.mutate_card, seeds.cards),
    "inspect": Target(check_inspection, (), change.mutate_card, seeds.cards),
    "source": Target(check_source, (BuildRefused,), change.mutate_lines, seeds.sources),
}
