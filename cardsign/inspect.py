"""What is seen of a card without trusting it: its words, its signatures, its service.

No verdict is given: that takes a subject and a policy (:mod:`cardsign.verify`). Of a URL only its
own origin is asked, without a credential, by the rules of :mod:`cardsign.net`. So nothing here is a
reason to trust a card: its keys come from where the card came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cardsign import errors
from cardsign.card.document import Card, check_no_other_kind, interfaces_of
from cardsign.card.extensions import declares_extended_card
from cardsign.card.profiles import PROFILES, VERIFIERS, Payload, Payloads, ProfileName, SdkVerifier
from cardsign.card.schema import CARD_0_3, DocumentVersion, Field, respelled
from cardsign.card.security import Requirement, requirements_of, schemes_of, security_problems
from cardsign.card.values import Json, finding_at, jcs, levels, members_of, objects_in
from cardsign.errors import CardsignError, InputRefused, KeyRefused, SignatureRefused
from cardsign.findings import Finding, ScanResult, cap_findings, cut, list_findings, rate_findings
from cardsign.jose.jws import decode_part, header_members
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet
from cardsign.trust.walk import FetchResult
from cardsign.urls import JWKS_PATH, Headers, Origin, card_url, parse_url
from cardsign.verify.report import SignatureReport, some_of
from cardsign.verify.signature import examine_signature
from cardsign.verify.verifier import inquire_by

if TYPE_CHECKING:
    from cardsign.net.fetch import FetchSettings


@dataclass(frozen=True, slots=True)
class InspectedSignature:
    """One entry of `signatures`.

    Attributes:
        report: What `cardsign verify` says of it to the holder of the keys named. Where it fits
            nothing, its reasons say which spelling of the card it was made over, if that is known.
        header: The protected header, not verified; empty where it cannot be read.
        profiles: The profiles that verify it.
    """

    report: SignatureReport
    header: Mapping[str, Json]
    profiles: tuple[ProfileName, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the element of the report's `signatures` member."""
        return {**self.report.to_json(), "header": self.header, "profiles": [*self.profiles]}

    def lines(self) -> Iterator[str]:
        """Yield what it is, and what it fits."""
        shown = cut(words(self.header)) or "no header that can be read"
        yield f"  signature {self.report.index}: {shown}"
        if self.profiles:
            places = some_of(self.report.uncovered, self.report.uncovered_count)
            without = f"; not signed: {places}" if places else ""
            yield f"    fits {', '.join(self.profiles)}{without}"


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that can be seen of a card. Nothing of it is a verdict.

    Attributes:
        name: The file or URL.
        problems: Why `cardsign verify` would refuse the card before any signature. Where it
            cannot be read in one way, that is all there is.
        a2a_version: ``1.0``, ``0.3``, ``mixed`` or ``none``; None where the card is unreadable.
        agent: The card's own words (:func:`describe_card`).
        signatures: One for each entry.
        predictions: What other verifiers would say; nobody was asked. Each has a ``verifier``, its
            ``profile``, an ``outcome`` (``accepted``, ``refused``, or ``unknown`` where it is not
            known to us what it does with such a card) and a ``because``. Empty without keys.
        service: Of a URL: what is wrong with how it is served.
    """

    name: str
    problems: tuple[Finding, ...]
    a2a_version: DocumentVersion | None = None
    agent: Mapping[str, Any] = field(default_factory=dict)
    signatures: tuple[InspectedSignature, ...] = ()
    predictions: tuple[Mapping[str, str], ...] = ()
    service: tuple[Finding, ...] = ()

    @property
    def exit_status(self) -> int:
        """1 if the card or a signature is refused, one by a known key fits nothing, or the service
        gives away what it must not.
        """
        severities = {finding.severity for finding in (*self._findings, *self.service)}
        return errors.EXIT_NOT_TRUSTED if self.problems or "error" in severities else errors.EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """Return the report as ``cardsign inspect --json`` prints it."""
        return {
            "schema": "cardsign.inspection/1",
            "name": self.name,
            "a2a_version": self.a2a_version,
            "problems": [problem.to_json() for problem in self.problems],
            "agent": dict(self.agent),
            "signatures": [signature.to_json() for signature in self.signatures],
            "predictions": [dict(prediction) for prediction in self.predictions],
            "service": [finding.to_json() for finding in self.service],
        }

    @property
    def _findings(self) -> tuple[Finding, ...]:
        """What is wrong with the card and its signatures."""
        reasons = [reason for entry in self.signatures for reason in entry.report.reasons]
        return (*self.problems, *reasons)

    def scan_results(self) -> Iterator[ScanResult]:
        """Yield the report for code scanning."""
        yield self.name, cap_findings((*self._findings, *self.service)), ()

    def lines(self) -> Iterator[str]:
        """Yield the report for a person."""
        yield f"{cut(self.name)}: {self._summary()}"
        for client in self.predictions:
            yield f"    {client['outcome']:<12} {client['verifier']}: {cut(client['because'], 160)}"
        if self.agent:
            yield "  what the card says of itself, not verified:"
            yield from description_lines(self.agent)
        for signature in self.signatures:
            yield from signature.lines()
        yield from list_findings(replace(f, message=f.worded) for f in self._findings)
        yield from list_findings(self.service, "the service")

    def _summary(self) -> str:
        """Say what the card is, and how many of its signatures fit."""
        if self.a2a_version is None:
            return "not a card that can be read"
        summary, is_url = f"A2A version {self.a2a_version}", "://" in self.name
        if not self.signatures:
            return f"{summary}, not signed"
        if not self.predictions:
            reason = "its origin has no good keys" if is_url else "no keys were given (--jwks FILE)"
            return f"{summary}, signatures not checked: {reason}"
        keys = "the keys that its own origin publishes" if is_url else "the keys given"
        fitting = sum(bool(signature.profiles) for signature in self.signatures)
        summary += f", {fitting} of {len(self.signatures)} signatures verify with {keys}"
        return f"{summary}; predictions for clients:"


# The card's own words: what the agent is and asks for. Nothing of it is verified.


_MAX_LINES: Final = 20  # for the elements of a list; --json has more


def describe_card(card: Card) -> dict[str, Any]:
    """Return what a card says of itself, by name, as JSON."""
    document = card.document
    schemes = schemes_of(document)
    capabilities = members_of(document.get("capabilities"))
    offers = sorted(name for name, value in capabilities.items() if value is True)
    for _, extension in objects_in(capabilities.get("extensions")):
        offers.append(f"extension {extension.get('uri') or 'without a uri'}")
    return {
        **{name: document.get(name) for name in ("name", "version", "description")},
        "interfaces": [
            {"url": entry.url, "binding": entry.binding, "version": entry.version}
            for entry in interfaces_of(document, any_spelling=True)
        ],
        "extended_card": declares_extended_card(document),
        "capabilities": offers,
        "schemes": [
            {"name": name, "type": schemes[name].type, **schemes[name].members}
            for name in sorted(schemes)
        ],
        "requirements": [*map(_describe_requirement, requirements_of(document, schemes))],
        "skills": [
            {name: entry.get(name) for name in ("id", "name", "description", "tags")}
            for _, entry in objects_in(document.get("skills"))
        ],
    }


def _describe_requirement(entry: Requirement) -> str | dict[str, Any]:
    if entry.problem is not None:
        return "unreadable: it does not say who may call"
    schemes = {name: [*entry.schemes[name]] for name in sorted(entry.schemes)}
    return schemes or "none: anybody may call"


def description_lines(agent: Mapping[str, Any]) -> Iterator[str]:
    """Yield the description for a person."""
    for name, value in agent.items():
        if not isinstance(value, list):
            yield f"    {name:<15} {cut(words(value)) or '-'}"
            continue
        yield f"    {name:<15} {'' if value else 'none'}".rstrip()
        yield from (f"      {cut(words(element))}" for element in value[:_MAX_LINES])
        if len(value) > _MAX_LINES:
            yield "      and more: --json"


def words(value: Any) -> str:
    """Return JSON as a few words, without its marks."""
    if isinstance(value, dict):
        texts = {name: _words_in(member) for name, member in value.items() if member is not None}
        return "  ".join(f"{name}={text}" if text else name for name, text in texts.items())
    if isinstance(value, list):
        return ", ".join(map(_words_in, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _words_in(value: Any) -> str:
    return f"({words(value)})" if isinstance(value, dict) else words(value)


# Common ways to write a card that are not canonical: what a signature that fits nothing may fit.
# One that fits such bytes proves that the card was not changed: its signer wrote it in another way.
# It still counts for nothing.


_write_compact: Final = partial(json.dumps, sort_keys=True, separators=(",", ":"))
_write_utf8: Final = partial(_write_compact, ensure_ascii=False)
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_Spelt: TypeAlias = tuple[str, str, bytes]
_DUMPS: Final = "Python's json.dumps"
_NOT_DUMPS: Final = "Sign what rfc8785.dumps(card) returns, not what json.dumps does."


def _spell_in_python(field: Field) -> str:
    return "in_" if field.name == "in" else field.snake_name


#: In the order in which they are tried; of two that write the same bytes the first is named.
SPELLINGS: Final[tuple[tuple[str, str, Callable[[dict[str, Json]], str]], ...]] = (
    (
        "members sorted by code points",
        "Sort member names by their UTF-16 code units, as RFC 8785 says.",
        _write_utf8,
    ),
    (_DUMPS, _NOT_DUMPS, _write_compact),
    (_DUMPS, _NOT_DUMPS, partial(json.dumps, sort_keys=True)),
    (_DUMPS, _NOT_DUMPS, partial(json.dumps, separators=(",", ":"))),
    (_DUMPS, _NOT_DUMPS, json.dumps),
    (
        "Go's encoding/json",
        "Sign the RFC 8785 form: json.Marshal escapes <, > and &, and sorts by code points.",
        lambda members: _write_utf8(members).translate(_HTML),
    ),
    (
        "a trailing newline",
        "Sign the bytes without the newline behind them.",
        lambda members: jcs(members).decode() + "\n",
    ),
    (
        "crewAI's snake_case members",
        "Sign the card as it is served, with its camelCase members: cardsign sign CARD.",
        lambda members: _write_compact(respelled(members, CARD_0_3, spell=_spell_in_python)),
    ),
)


_RIGHT_KID: Final = "Give the signer the kid under which its key is published."
#: What crewAI's signatures are refused for, whatever they fit: typ JWS, and a kid that the
#: unprotected header repeats.
_CREWAI: Final = frozenset({"sig.typ_forbidden", "sig.header_overlap"})
_CHANGED: Final = Finding(
    "sig.bad",
    "the signature fits this card by no profile and in no known spelling: changed after signing, "
    "signed with another key under this kid, or by an unknown rule (a2a-sdk before 1.1.4, crewAI)",
    fix="Ask the issuer for its key and card, and compare: cardsign diff SIGNED_CARD CARD",
)


def inspect_card(untrusted_bytes: bytes, *, jwks: JwkSet | None, name: str = "") -> Inspection:
    """Say what a card is, and what its signatures cover.

    Args:
        untrusted_bytes: The card as received, before any conversion.
        jwks: The keys by which signatures are checked, whoever holds them; without them nothing
            can be said of which payload one fits.
        name: For the report.

    Returns:
        The report. Nothing in the card makes this function raise.
    """
    try:
        card = Card.from_bytes(untrusted_bytes)
        check_no_other_kind(card.document)
    except InputRefused as refusal:
        return Inspection(name, (refusal.finding,))
    problems = [*security_problems(card.document)]
    if "signature" in card.document:
        message = "the `signature` member is not an A2A signature and is ignored"
        problems.append(finding_at("card.single_signature_block", ("signature",), message))
    payloads = Payloads(card)
    signatures = tuple(_inspect_signatures(card, payloads, jwks))
    return Inspection(
        name,
        cap_findings(problems),
        card.a2a_version,
        describe_card(card),
        signatures,
        () if jwks is None else tuple(predict_clients(payloads, signatures)),
    )


def _inspect_signatures(
    card: Card, payloads: Payloads, jwks: JwkSet | None
) -> Iterator[InspectedSignature]:
    inquiry = inquire_by(jwks or JwkSet(()), "the holder of the keys named")
    # What the line of the signature says, or that of the card.
    repeated = ("coverage.",) if jwks is not None else ("coverage.", "key.unknown")
    data_of = {name: payload.data for name in PROFILES if (payload := payloads.of(name))}
    spelt = _spell_otherwise(payloads) if jwks and card.signatures else []
    for index, entry in enumerate(card.signatures):
        report = examine_signature(index, entry, payloads, inquiry)
        header: dict[str, Json] = {}
        with suppress(SignatureRefused):
            header = header_members(str(members_of(entry).get("protected", "")))
        reasons = [reason for reason in report.reasons if not reason.code.startswith(repeated)]
        is_invalid = report.verdict == "invalid"
        misfit = _CHANGED if is_invalid else None
        if jwks and (is_invalid or any(reason.code in _CREWAI for reason in reasons)):
            whole = data_of.get("served-as-is", b"")
            misfit = _explain_misfit(members_of(entry), header, jwks, spelt, whole) or misfit
        if misfit:
            reasons = [*([] if is_invalid else reasons), misfit.at(f"/signatures/{index}")]
        # One that fits is no error, though it may not count.
        rated = rate_findings(reasons, trusted=report.verdict not in ("invalid", "refused"))
        # It fits one byte string, and so all profiles that make that.
        fitted = tuple(name for name, data in data_of.items() if data == report.payload)
        yield InspectedSignature(replace(report, reasons=rated), header, fitted)


def _spell_otherwise(payloads: Payloads) -> list[_Spelt]:
    """Return the card as common signers write it by mistake: name, advice and bytes of each."""
    return [(name, fix, write(payloads.members).encode()) for name, fix, write in SPELLINGS]


def _explain_misfit(
    entry: dict[str, Json],
    header: Mapping[str, Json],
    jwks: JwkSet,
    spelt: Sequence[_Spelt],
    payload: bytes,
) -> Finding | None:
    """Say what a signature was made over, or by which key, that fits no payload by its own key."""
    key = jwks.find(str(header.get("kid")))
    if key is None or key.alg != header.get("alg"):
        return None
    signature = decode_part(str(entry["signature"]), "signature")
    try:
        key.check_length(signature)
    except SignatureRefused as refusal:  # by its length it could not fit anything
        return refusal.finding
    attempts = [(key, f"fits this card as written with {n}", fix, data) for n, fix, data in spelt]
    others = [other for other in jwks.keys if other.alg == key.alg and other is not key]
    for other in others[:8]:  # of a set of hundreds
        text = f"is by the key {other.kid!r}, not by the one that it names"
        attempts.append((other, text, _RIGHT_KID, payload))
    for signer, text, fix, data in attempts:
        with suppress(SignatureRefused):
            signer.check(str(entry["protected"]), data, signature)
            return Finding("sig.bad", f"the signature {text}", fix=fix)
    return None


# What other verifiers would say: predicted from measured behaviour, nobody is asked. Where
# an SDK treats something of a card in an odd way, the outcome is ``unknown``, never a guess.


_USUAL: Final = frozenset({"alg", "kid", "typ", "jku"})  # what A2A 1.0 8.4.2 names
#: Member names that protobuf or JavaScript treats in a way of its own.
_ODD: Final = re.compile(r"\[.*\]|__proto__")


def predict_clients(
    payloads: Payloads, signatures: Sequence[InspectedSignature]
) -> Iterator[dict[str, str]]:
    """Yield what each verifier would say, if it accepts the keys that `signatures` was judged by.

    Args:
        payloads: The card's.
        signatures: All that it has, as they were judged.
    """
    below = (value for level in levels(payloads.members) for value in level)
    odd = next((name for value in below for name in members_of(value) if _ODD.fullmatch(name)), "")
    for verifier in VERIFIERS:
        outcome, because = _predict_client(verifier, payloads, signatures, odd)
        client = {"verifier": verifier.name, "profile": verifier.profile}
        yield {**client, "outcome": outcome, "because": because}


def _predict_client(
    verifier: SdkVerifier, payloads: Payloads, signatures: Sequence[InspectedSignature], odd: str
) -> tuple[str, str]:
    """Return what one verifier would say, and why; `odd` is a name that SDKs treat oddly."""
    if odd:
        return "unknown", f"SDKs treat a member called {odd} in their own ways"
    payload = payloads.payload_or_refusal(verifier.profile)
    if not isinstance(payload, Payload):
        return "unknown" if verifier.is_js else "refused", payload.message
    if not payload.value:
        return "unknown", "nothing of the card is left to sign"
    unread = [e for e in signatures if e.report.verdict == "refused" and not e.profiles]
    if any(reason.code == "sig.shape" for entry in unread for reason in entry.report.reasons):
        return "unknown", "an entry of `signatures` has the wrong shape and may spoil the rest"
    fitting = [entry for entry in signatures if verifier.profile in entry.profiles]
    typed = [entry for entry in fitting if not verifier.is_js or "typ" in entry.header]
    if usual := [entry for entry in typed if entry.header.keys() <= _USUAL]:
        return "accepted", f"signature {usual[0].report.index} fits {verifier.profile}"
    if doubtful := [*unread, *typed]:
        return "unknown", f"signature {doubtful[0].report.index} has a header that it may refuse"
    if fitting:
        return "refused", f"the header of signature {fitting[0].report.index} has no typ"
    return "refused", f"no signature by a known key fits {verifier.profile}"


# What anyone can see of a card's service: keys, caching, and whether the extended card is open.


#: Seconds. A key that is revoked stays in use for as long as caches keep what it signed.
MAX_AGE: Final = 24 * 3600
_ENDPOINTS: Final = 4  # that are asked for the extended card


def inspect_url(url: str, *, now: datetime, fetch: FetchSettings) -> Inspection:
    """Fetch a card and what its origin says around it, and say what is seen.

    No credential is sent, and no redirect followed. Where a host has no card at the well-known
    path, that of A2A up to 0.2 is asked for.

    Args:
        url: The card's, or the agent's host.
        now: The time, aware.
        fetch: How hosts are reached.

    Raises:
        FetchFailed: The card could not be fetched.
    """
    from cardsign.net.fetch import note_legacy_path  # a card in a file needs no client of HTTP

    answer, keys = fetch_with_keys(url, fetch)
    jwks = keys if isinstance(keys, JwkSet) else None
    lives = [int(key.exp - now.timestamp()) for key in jwks.keys] if jwks else []
    service = [note_legacy_path()] if answer.url != card_url(url) else []
    service += _check_headers(answer.headers, max(0, min([MAX_AGE, *lives])))
    service += [keys] if isinstance(keys, Finding) else []
    report = inspect_card(answer.untrusted_body, jwks=jwks, name=answer.url)
    if report.agent.get("extended_card"):
        document = Card.from_bytes(answer.untrusted_body).document
        service += _ask_for_extended(document, fetch, parse_url(answer.url).origin)
    return replace(report, service=tuple(service))


def fetch_with_keys(url: str, fetch: FetchSettings) -> tuple[FetchResult, JwkSet | Finding]:
    """Return a card as received, and the key set of its origin, or why there is none.

    Raises:
        FetchFailed: The card could not be fetched.
    """
    from cardsign.net.fetch import fetch_card, fetch_document

    answer = fetch_card(url, fetch)
    jwks_url = f"{parse_url(answer.url).origin}{JWKS_PATH}"
    try:
        received = fetch_document(jwks_url, replace(fetch, max_bytes=MAX_JWKS_BYTES))
        return answer, JwkSet.read(received.untrusted_body)
    except CardsignError as failure:
        code = "check.bad-keys" if isinstance(failure, KeyRefused) else "check.no-keys"
        return answer, Finding(code, failure.message)


def _check_headers(headers: Headers, longest: int) -> Iterator[Finding]:
    from cardsign.net.fetch import freshness, values

    if not values(headers, "cache-control"):
        yield Finding("check.cache-unsaid", "there is no Cache-Control")
    elif (seconds := freshness(headers, ceiling=400 * 24 * 3600)[0]) > longest:
        yield Finding("check.cache-long", f"for {seconds} s, expected at most {longest} s")
    tags = values(headers, "etag")
    if not tags:
        yield Finding("check.etag-absent", "there is no ETag")
    elif tags[0].startswith("W/"):
        yield Finding("check.etag-unsigned", "the ETag is weak")


def _ask_for_extended(
    document: Mapping[str, Json], fetch: FetchSettings, origin: Origin
) -> Iterator[Finding]:
    """Ask the card's own origin for the extended card without a credential: it must be refused."""
    from cardsign.net.endpoints import ask_for_extended_card, endpoints_of

    with suppress(CardsignError):
        for endpoint in endpoints_of(document)[:_ENDPOINTS]:
            if endpoint.url.origin != origin:
                continue
            with suppress(CardsignError):  # refused, as it should be; or nobody answers
                body = ask_for_extended_card(endpoint, None, fetch)
                if "skills" in Card.from_bytes(body).document:
                    message = f"{endpoint.url} gave the extended card without a credential"
                    yield Finding("check.extended-open", message)
                    return
