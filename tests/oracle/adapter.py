"""All that the oracle knows of today's program: edit this where modules, codes and corpus move.

The oracle's files speak of 2eae91f and stay as they are. What they hold is put to the program of
today by the functions below, and :data:`RENAMED` says what its reason codes are called today.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import cardsign
from cardsign.card.canonical import DEFAULT_PROFILES, FULL_PROFILES, PROFILES
from cardsign.card.document import Card, render
from cardsign.card.values import members_of
from cardsign.findings import list_codes
from cardsign.jose.base64url import encode
from cardsign.jose.jws import TYP_COMPAT, TYP_JOSE
from cardsign.trust.lock import Memory
from cardsign.trust.policy import Subject
from cardsign.trust.supplied import SuppliedStatements
from cardsign.verify.verifier import Verifier
from tests.attack_runner.corpus import Case, load_cases
from tests.attack_runner.outcome import Outcome
from tests.attack_runner.verifier import run_case, subject_of
from tests.support import reach_verdict

#: Codes of 2eae91f that have another name today; two get one only where no attack tells them apart.
RENAMED: Final[dict[str, str]] = {}
CODES: Final = frozenset(list_codes())

NOON: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)


def digest(value: bytes | str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()


def _line(verdict: str, answers: Mapping[str, object] | None, codes: Iterable[str]) -> str:
    names = ("integrity", "authorised", "current", "complete")
    told = "/".join(str(answers[name]) for name in names) if answers else "-"
    return " ".join((verdict, told, ",".join(codes) or "-"))


# ------------------------------------------------------------------ the attack corpus


@dataclass(frozen=True, slots=True)
class AttackCase:
    """A case of the corpus as the oracle sees it.

    Attributes:
        attack: The attack's number.
        id: Unique in the corpus.
        kind: ``attack`` or ``twin``.
        inputs: Digest of all that is put to the verifier, however the corpus lays it out.
    """

    attack: int
    id: str
    kind: str
    inputs: str


def attack_cases() -> Iterator[tuple[AttackCase, Case]]:
    """Every case and every transcript, and what the corpus' own runner calls it."""
    for case in load_cases().values():
        yield attack_case(case), case


def attack_case(case: Case) -> AttackCase:
    """One of them; its id begins with the attack's number."""
    kind = "attack" if case.is_attack else "twin"
    return AttackCase(int(case.id[:3]), case.id, kind, _inputs(case))


def outcome_faults(case: Case, outcomes: Iterable[Outcome]) -> list[str]:
    """Whether a case of the corpus comes out as it did, as the tests of the corpus ask."""
    from tests.oracle.check import attack_faults

    return attack_faults(attack_case(case), outcome_lines(outcomes))


def run(case: Case) -> list[str]:
    """Put a case or a transcript to the program."""
    return outcome_lines(run_case(case))


def outcome_lines(outcomes: Iterable[Outcome]) -> list[str]:
    """Verdict, answers and codes of each step."""
    return [_line(one.verdict, one.answers, one.codes) for one in outcomes]


def _inputs(case: Case) -> str:
    """The digest of policy, memory, cards, statements, answers and clocks; of no file's name."""

    def of(described: Any) -> str:
        return digest(case.input(described))

    def said(answer: Any) -> Any:
        if not isinstance(answer, dict):
            return answer
        if "turns" in answer:
            return {"turns": [said(one) for one in answer["turns"]]}
        put = {name: of(answer[name]) for name in ("body", "raw") if name in answer}
        if isinstance(answer.get("then"), dict):
            put["then"] = {**answer["then"], "send": of(answer["then"]["send"])}
        if "storm" in answer:
            put["storm"] = {**answer["storm"], "card": of(answer["storm"]["card"])}
        return {**answer, **put}

    def step(members: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: value for name, value in members.items() if name != "expect"}
        found |= {name: of(members[name]) for name in ("card", "public") if name in members}
        brought = dict(members.get("evidence", {}))
        for name in ("keysets", "releases"):
            if name in brought:
                brought[name] = [of(one) for one in brought[name]]
        if "jwks" in brought:
            brought["jwks"] = of(brought["jwks"])
        if "answers" in members:
            found["answers"] = {url: said(one) for url, one in members["answers"].items()}
        found["evidence"] = brought
        return {name: value for name, value in found.items() if value not in ({}, False)}

    memory = case.members.get("memory", "none")
    if isinstance(memory, dict):
        files = ("keyset", "release", "jwks")
        memory = {
            issuer: {name: of(one) if name in files else one for name, one in known.items()}
            for issuer, known in memory.items()
        }
    lock = case.members.get("lock")
    whole = {
        "policy": of(case.members["policy"]),
        "lock": of(lock) if lock else None,
        "memory": memory,
        "steps": [step(one) for one in case.steps],
    }
    return digest(json.dumps(whole, sort_keys=True))


# ------------------------------------------------------------------ mutated cards


def examiner(base: Mapping[str, Any]) -> Callable[[bytes], str]:
    """Tells of a card what the verifier of a base card says: verdict, answers, codes."""
    now = datetime.fromtimestamp(base["now"], UTC)
    if "jwks" in base:
        jwks = cardsign.JwkSet.from_bytes(base64.b64decode(base["jwks"]))
        profiles = tuple(base["profiles"])
        policy = cardsign.Policy.from_jwks(jwks, name="the oracle", accept="sdk", only=profiles)
        return partial(
            _told,
            lambda card: reach_verdict(
                card, expect=Subject(is_holder=True), policy=policy, now=now
            ),
        )
    return partial(_told, partial(_by_policy, base, _policy(base["policy"]), now))


def _policy(text: str) -> cardsign.Policy:
    from cardsign.trust.policyfile import parse_policy

    return parse_policy(text)


def _by_policy(
    base: Mapping[str, Any], policy: cardsign.Policy, now: datetime, card: bytes
) -> cardsign.Report:
    brought = base["evidence"]
    supplied = SuppliedStatements(
        untrusted_keysets=tuple(base64.b64decode(one) for one in brought.get("keysets", ())),
        untrusted_releases=tuple(base64.b64decode(one) for one in brought.get("releases", ())),
        untrusted_jwks=base64.b64decode(brought["jwks"]) if "jwks" in brought else None,
        jwks_url=brought.get("jwks_url"),
    )
    verifier = Verifier(policy, lock=Memory(), clock=lambda: now)
    subject = subject_of(base["subject"])
    if "public" in base:
        public, audience = base64.b64decode(base["public"]), subject.audience or ""
        subject = replace(subject, audience=None)
        return verifier.judge_extended(public, card, subject, supplied, audience=audience)[1]
    return verifier.judge(card, subject, supplied)


def _told(examine: Callable[[bytes], cardsign.Report], card: bytes) -> str:
    try:
        report = examine(card)
    except cardsign.LocalFault as fault:
        return _line("none", None, [fault.code])
    codes = [reason.code for reason in report.reasons]
    return _line(report.verdict, report.answers.to_json(), codes)


# ------------------------------------------------------------------ vectors


def own_vectors() -> Iterator[tuple[str, str, Any]]:
    """Of the vectors that we publish: id, digest of what is put to a verifier, and the result."""
    folder = Path(__file__).resolve().parents[1] / "vectors"
    for path in sorted((folder / "cards").glob("*.json")):
        vector = json.loads(path.read_bytes())
        base = {
            "now": NOON.timestamp(),
            "jwks": base64.b64encode(json.dumps(vector["jwks"]).encode()).decode(),
            "profiles": vector["accepted_profiles"],
        }
        card = base64.b64decode(vector["card_base64"])
        put = [digest(card), vector["jwks"], vector["accepted_profiles"]]
        result = {"verdict": examiner(base)(card), **_made_of(card)}
        yield f"own/cards/{vector['id']}", digest(json.dumps(put, sort_keys=True)), result
    for path in sorted((folder / "statements").glob("*.json")):
        vector = json.loads(path.read_bytes())
        put = [vector["anchor"], vector["now"], [one.pop("statement") for one in vector["steps"]]]
        # tests/jose/test_statement_vectors.py holds the program to what the file expects.
        told = [vector["steps"], vector["end"], vector.get("at_once")]
        inputs, result = (digest(json.dumps(one, sort_keys=True)) for one in (put, told))
        yield f"own/statements/{vector['id']}", inputs, result


def other_vectors(shared: Path) -> Iterator[tuple[str, str, Any]]:
    """The same of vectors and cards of others; nothing of theirs but digests is kept."""
    folder = shared / "corpus" / "vectors" / "a2a-card-sign-v01"
    jwks = (folder / "testkey_jwks.json").read_bytes()
    for path in sorted(folder.glob("*/*.json")):
        vector = json.loads(path.read_bytes())
        yield _put(f"a2a-card-sign/{vector['id']}", vector["served_card"], jwks)
    for vector in json.loads((shared / "interop" / "vectors.json").read_bytes()):
        own = json.dumps({"keys": [vector["jwk"]]}).encode()
        yield _put(f"interop/{vector['id']}", vector["card"], own)
    inputs = json.loads((shared / "corpus" / "vectors" / "a2a-jcs-v01-inputs.json").read_bytes())
    for name, text in inputs["reject"].items():
        yield (
            f"jcs/{name}",
            digest(text),
            _told(_holder(jwks, DEFAULT_PROFILES), text.encode()),
        )
    for path in sorted((shared / "interop" / "cards").glob("*.json")):
        yield f"interop-card/{path.stem}", digest(path.read_bytes()), _made_of(path.read_bytes())
    for path in sorted((shared / "corpus" / "cards").glob("*.json*")):
        card = path.read_bytes()
        card = gzip.decompress(card) if path.suffix == ".gz" else card
        yield f"corpus-card/{path.name.partition('.')[0]}", digest(card), _made_of(card)


def _holder(jwks: bytes, profiles: Sequence[str]) -> Callable[[bytes], cardsign.Report]:
    held = cardsign.JwkSet.from_bytes(jwks)
    policy = cardsign.Policy.from_jwks(held, name="x", accept="sdk", only=tuple(profiles))
    return lambda card: reach_verdict(card, expect=Subject(is_holder=True), policy=policy, now=NOON)


def _put(name: str, card: Mapping[str, Any], jwks: bytes) -> tuple[str, str, Any]:
    data = json.dumps(card).encode()
    sets = {"full": FULL_PROFILES, "default": DEFAULT_PROFILES}
    result = {what: _told(_holder(jwks, one), data) for what, one in sets.items()}
    for profile in DEFAULT_PROFILES:
        result[profile] = _told(_holder(jwks, (profile,)), data)
    return name, digest(data + jwks), {**result, **_made_of(data)}


def _made_of(card: bytes) -> dict[str, str]:
    """What signing makes of a card, and the payload of each profile: a digest, or the refusal."""
    number = int.from_bytes(hashlib.sha256(b"the oracle's key").digest()[:31], "big")
    native = ec.derive_private_key(number, ec.SECP256R1())
    der = native.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    key = cardsign.PrivateKey.from_pkcs8_der(der, "oracle")
    # What was given stays as it was written today; the digest is of the card written anew.
    found = {"signed": _digest_or_code(lambda: _rendered(cardsign.sign_card(card, [key])))}
    try:
        document = Card.from_bytes(card).document
    except cardsign.CardsignError as fault:
        return found | {f"payload {profile}": fault.code for profile in PROFILES}
    for profile in PROFILES:
        found[f"payload {profile}"] = _digest_or_code(partial(_payload, document, profile))
    return found


def _rendered(signed: bytes) -> bytes:
    """As 2eae91f wrote a card: compat signatures first, the one of the whole card last."""
    document = Card.from_bytes(signed).document
    typs = {
        encode(f'{{"alg":"ES256","kid":"oracle","typ":"{typ}"}}'.encode()): typ
        for typ in (TYP_COMPAT, TYP_JOSE)
    }
    by_typ: dict[str, list[Any]] = {TYP_COMPAT: [], TYP_JOSE: [], "": []}
    for entry in Card.from_bytes(signed).signatures:
        by_typ[typs.get(str(members_of(entry).get("protected")), "")].append(entry)
    signatures = [*by_typ[TYP_COMPAT], *reversed(by_typ[TYP_JOSE]), *by_typ[""]]
    return render({**document, "signatures": signatures})


def _digest_or_code(make: Callable[[], bytes]) -> str:
    try:
        return digest(make())[:24]
    except cardsign.CardsignError as fault:
        return fault.code


def _payload(document: Mapping[str, Any], profile: str) -> bytes:
    return cardsign.canonicalize(document, profile).data


# ------------------------------------------------------------------ simulation and crashes


def world(seed: int) -> dict[str, Any]:
    """All that is counted and measured in the simulated world of a seed."""
    from tests.simulation.run import one

    figures = one(seed)[0]
    return {
        "verifications": dict(sorted(figures.verifications.items())),
        "excluded": dict(sorted(figures.excluded.items())),
        "longest": dict(sorted(figures.longest.items())),
        "short_of_bound": dict(sorted(figures.short_of_bound.items())),
    }


def steps_of(steps: Iterable[str]) -> list[str]:
    """The steps of a recording, without names that change with each run."""
    return [
        re.sub(r"[0-9a-f]{64}|[A-Za-z0-9_-]{43}|\.[0-9a-f]{16}(?=\.)", "*", step) for step in steps
    ]


def crash_commands() -> tuple[str, ...]:
    """The commands that are crashed."""
    from tests.crash.commands import CASES

    return tuple(CASES)
