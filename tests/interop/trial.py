"""One card before every judge: what they say of our signatures, and we of theirs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from cardsign import CardsignError, JwkSet, Policy, PrivateKey, canonicalize, examine_card
from cardsign.card.profiles import DEFAULT_PROFILES, FULL_PROFILES, PROFILES, Payloads
from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError
from cardsign.jose.jws import TYP_JOSE, sign_payload
from cardsign.sign import SigningOptions, sign_with_notes
from tests.interop.judges import Judge, private_jwk
from tests.interop.population import Sample
from tests.interop.roster import VERIFIERS, Verifier
from tests.support import dump, profiles_of

NOW: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
ACCEPTED: Final = "accepted"
CANNOT_PARSE: Final = "cannot parse"
OWN_PAYLOAD: Final = "own payload"
NOTHING: Final = "nothing satisfies it"
DISTURBED: Final = "disturbed by another signature"

#: What follows a verifier's name where the card was signed with ``--compat all``.
ALL: Final = ", --compat all"
COUNTS: Final = "counts"
NO_PROFILE: Final = "no profile"


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one card under one algorithm.

    Attributes:
        refused: The code for which we do not sign it, or empty.
        judged: By verifier: ``accepted``, which means that a client could be built from what
            was verified, or why not, which says whether any signature could satisfy it. Once
            for the card as signed by default, once, under the name and :data:`ALL`, for the
            card as signed with ``--compat all``.
        recognised: By program that signed the card: ``counts``, the profiles that its
            signature fits, ``no profile``, or the code for which we do not read the card;
            without a program that cannot sign it.
    """

    file: str
    group: str
    refused: str = ""
    judged: Mapping[str, str] = field(default_factory=dict)
    recognised: Mapping[str, str] = field(default_factory=dict)


class Trial:
    """One key of ours, and the judges that know it, by the names of their programs."""

    def __init__(self, key: PrivateKey, judges: Mapping[str, Judge]) -> None:
        self._key, self._keys, self.judges = key, JwkSet.of([key.public]), judges
        self._jwk = private_jwk(key)
        self.verifiers = [one for one in VERIFIERS.values() if one.program in judges]

    def row(self, sample: Sample) -> Row:
        """Everything about one card."""
        recognised = dict(self._recognised(sample.document))
        try:
            signing = sign_with_notes(sample.data, [self._key], SigningOptions())
        except CardsignError as refusal:
            return Row(sample.file, sample.group, refusal.code, recognised=recognised)
        every = sign_with_notes(sample.data, [self._key], SigningOptions(compat="all"))
        judged = {
            verifier.name + suffix: self._judged(verifier, one.document, profiles_of(one))
            for suffix, one in (("", signing), (ALL, every))
            for verifier in self.verifiers
        }
        return Row(sample.file, sample.group, "", judged, recognised)

    # -------------------------------------------------------------- our signatures

    def _judged(self, verifier: Verifier, card: bytes, signed: tuple[str, ...]) -> str:
        judge = self.judges[verifier.program]
        finding = judge.verify(card, self._keys, path=verifier.path)
        if finding.outcome == "cannot-parse":
            return CANNOT_PARSE
        if finding.outcome == "accepted":
            return ACCEPTED if finding.callable else "no endpoint in what it verified"
        return self._what_would_do(verifier, json.loads(card), signed)

    def _what_would_do(
        self, verifier: Verifier, document: dict[str, Json], signed: tuple[str, ...]
    ) -> str:
        """Which single signature satisfies a verifier that has refused all of ours."""
        for name, payload in self._candidates(verifier, document):
            entry = sign_payload(payload, self._key, typ=TYP_JOSE)
            card = json.dumps({**document, "signatures": [entry]}).encode()
            finding = self.judges[verifier.program].verify(card, self._keys, path=verifier.path)
            if finding.outcome == "accepted":
                return _what_it_takes(name, signed, finding.callable)
        return NOTHING

    def _candidates(
        self, verifier: Verifier, document: Mapping[str, Json]
    ) -> Iterator[tuple[str, bytes]]:
        for profile in PROFILES:
            try:
                yield profile, canonicalize(document, profile).data
            except CanonicalizationError:
                continue
        card = json.dumps(document).encode()
        payload = self.judges[verifier.program].payload(card, path=verifier.path)
        if payload is not None:
            yield OWN_PAYLOAD, payload.encode("utf-8", "surrogatepass")

    # -------------------------------------------------------------- their signatures

    def _recognised(self, document: Mapping[str, Json] | None) -> Iterator[tuple[str, str]]:
        if document is None:
            return
        unsigned = {name: value for name, value in document.items() if name != "signatures"}
        for name, judge in self.judges.items():
            if signed := judge.sign(dump(unsigned), self._jwk):
                yield name, self._recognise(signed)

    def _recognise(self, card: bytes) -> str:
        policy = Policy.from_jwks(self._keys, name="the judge", accept="sdk", only=FULL_PROFILES)
        report = examine_card(card, policy=policy, now=NOW)
        if not report.signatures:
            return report.reasons[0].code
        (signature,) = report.signatures
        if signature.verdict == "valid":
            return COUNTS
        return ", ".join(_fitted(json.loads(card), signature.profile)) or NO_PROFILE


def _what_it_takes(name: str, signed: tuple[str, ...], callable_: bool) -> str:
    if name in signed:
        return DISTURBED
    if not callable_:
        return f"no endpoint in {name}"
    return name if name == OWN_PAYLOAD else f"asks for {name}"


def _fitted(document: Mapping[str, Json], profile: str | None) -> tuple[str, ...]:
    """All profiles of the same standing that make the payload of this one."""
    payloads = Payloads(document)
    data = {name: payload.data for name in PROFILES if (payload := payloads.of(name))}
    if profile is None:
        return ()
    peers = DEFAULT_PROFILES if profile in DEFAULT_PROFILES else (profile,)
    return tuple(name for name in peers if name in data and data[name] == data[profile])


# ------------------------------------------------------------------ exceptions.json
#
# It says by verifier, and by what would satisfy it, how many cards of each class there are, and
# because of what. It is written down before the run that counts: `table.py --propose` fills in the
# numbers, a person the explanations.

FILE: Final = Path(__file__).with_name("exceptions.json")

#: Verifier -> what :class:`trial.Row` says of the card -> ``because``, for people, in half a
#: sentence, and ``cards``, how many there are of each class.
Exceptions: TypeAlias = dict[str, dict[str, dict[str, Any]]]


def load_exceptions() -> Exceptions:
    """What was written down."""
    written: Exceptions = json.loads(FILE.read_text(encoding="utf-8"))
    return written


def found_in(rows: Sequence[Row], written: Exceptions) -> Exceptions:
    """What a run has found, with the explanations that were written down."""
    found: Exceptions = {}
    for row in rows:
        for verifier, why in row.judged.items():
            whys = found.setdefault(verifier, {})
            if why != ACCEPTED:
                new = {"because": _because(written, verifier, why), "cards": {}}
                cards = whys.setdefault(why, new)["cards"]
                cards[row.group] = cards.get(row.group, 0) + 1
    return {verifier: dict(sorted(whys.items())) for verifier, whys in found.items()}


def save_exceptions(found: Exceptions) -> None:
    """Write a run's numbers down; what is new has an empty explanation."""
    FILE.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def deviations(found: Exceptions, written: Exceptions, sampled: Collection[str]) -> Iterator[str]:
    """In what a run differs from what was written down, for the verifiers that it asked.

    Args:
        found: What the run has found.
        written: What it is held against.
        sampled: The classes of which it has tried only some cards.
    """
    for verifier, whys in found.items():
        expected = written.get(verifier, {})
        for why in {**expected, **whys}:
            was, now = (all_[why]["cards"] if why in all_ else {} for all_ in (expected, whys))
            for group in {**was, **now}:
                count, limit = now.get(group, 0), was.get(group, 0)
                if count > limit or (count < limit and group not in sampled):
                    yield f"{verifier}: {why}: {group}: {count} cards, expected {limit}"
            if why in expected and not expected[why]["because"]:
                yield f"{verifier}: {why}: {FILE.name} does not say because of what"


def _because(written: Exceptions, verifier: str, why: str) -> str:
    """The explanation; with ``--compat all`` the same as by default, if there is no other."""
    names = (verifier, verifier.removesuffix(ALL))
    known = [written[name][why]["because"] for name in names if why in written.get(name, {})]
    return str(known[0]) if known else ""
