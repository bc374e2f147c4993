"""What anyone can see of a card: signed by what, kept by whom, open where.

Nobody is enrolled and no credential is sent. Of a URL only its own origin is asked, by the rules
of ``net``: the card, its key set, and whether the extended card is given to anyone. So a check
says what is wrong, never that a card is trusted: its keys come from where the card came from.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from cardsign import html
from cardsign.card.canonical import FULL_PROFILES
from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card
from cardsign.card.values import Json, jcs
from cardsign.errors import (
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    CanonicalizationError,
    CardsignError,
    InputRefused,
    KeyRefused,
)
from cardsign.explain.explanation import explain_card
from cardsign.explain.report import Explanation, SignatureExplanation
from cardsign.findings import (
    SEVERITIES,
    Finding,
    Place,
    Subject,
    count_severities,
    cut,
    list_findings,
)
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.lint.cards import lint_card
from cardsign.lint.rules import describe_finding
from cardsign.net.endpoints import endpoints_of
from cardsign.net.extended import ask_for_extended_card
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, fetch_document, values
from cardsign.net.fetcher import card_url, freshness
from cardsign.urls import JWKS_PATH, Headers, parse_url

SCHEMA: Final = "cardsign.check/1"
#: Seconds. A key that is revoked stays in use for as long as caches keep what it signed.
MAX_AGE: Final = 24 * 3600
_ENDPOINTS: Final = 4  # that are asked for the extended card


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What is known of a card.

    Attributes:
        name: The file or URL.
        findings: Of lint and of check, the gravest first.
        explanation: What each signature covers; with `keys`, whether it fits.
        asked: Every URL that was asked, in order.
    """

    name: str
    findings: tuple[Finding, ...]
    explanation: Explanation
    asked: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """How many findings there are of each severity."""
        counts = Counter(finding.severity for finding in self.findings)
        return count_severities(counts) or "nothing found"

    @property
    def exit_status(self) -> int:
        """1 if there is an error, else 0."""
        has_error = any(finding.severity == "error" for finding in self.findings)
        return EXIT_NOT_TRUSTED if has_error else EXIT_OK

    def lines(self) -> Iterator[str]:
        """Yield how much was found, the signatures, the clients, then each finding."""
        yield f"{cut(self.name)}: {self.summary}"
        for signature in self.to_json()["signatures"]:
            by = f"{signature['alg']} {cut(signature['kid'], 60)}"
            profiles = ", ".join(signature["profiles"])
            covers = f" ({profiles})" if profiles else ""
            yield f"  signature {signature['index']}: {signature['verdict']}, by {by}{covers}"
        for client in self.explanation.predictions:
            yield f"  {client.verifier}: {client.outcome}, predicted: {cut(client.because)}"
        yield from list_findings(self.findings)

    def subjects(self) -> Iterator[Subject]:
        """Yield the report for code scanning."""
        yield Subject(self.name, self.findings)

    def to_json(self) -> dict[str, Any]:
        """The report as ``cardsign check --json`` prints it."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "findings": [describe_finding(one) for one in self.findings],
            "signatures": [_signature(one) for one in self.explanation.signatures],
            "clients": [asdict(one) for one in self.explanation.predictions],
            "asked": list(self.asked),
        }

    def to_html(self) -> str:
        """The report as one page; nothing in it is loaded or run."""
        signatures = [
            (one["index"], one["kid"], one["alg"], one["verdict"], ", ".join(one["profiles"]))
            for one in self.to_json()["signatures"]
        ]
        found = [
            (one.severity, one.code, one.path or "the card", one.message, one.hint)
            for one in self.findings
        ]
        clients = [(one.verifier, one.outcome, one.because) for one in self.explanation.predictions]
        return html.page(
            f"Agent Card {self.name}",
            (
                ("", html.paragraph(self.summary)),
                ("Findings", html.table(("weight", "rule", "where", "what", "fix"), found)),
                ("Signatures", html.table(("", "key", "alg", "verdict", "profiles"), signatures)),
                ("SDK clients, predicted", html.table(("client", "answer", "why"), clients)),
            ),
        )


def _signature(signature: SignatureExplanation) -> dict[str, Any]:
    header = signature.header or {}
    kept = {name: getattr(signature, name) for name in ("index", "verdict", "profiles")}
    return {**kept, "kid": str(header.get("kid", ""))[:256], "alg": str(header.get("alg", ""))[:32]}


def check_card(
    untrusted_bytes: bytes,
    *,
    name: str = "",
    jwks: JwkSet | None = None,
    more: Iterable[Finding] = (),
    asked: tuple[str, ...] = (),
) -> CheckReport:
    """Say what is known of a card by its bytes, and by its keys if there are any.

    Args:
        untrusted_bytes: The card as received.
        name: For the report.
        jwks: By which its signatures are checked; whose they are is not.
        more: What was found around it.
        asked: What was asked for that.

    Returns:
        The report. Nothing in the card makes this function raise.
    """
    linted = lint_card(untrusted_bytes, name=name)
    explanation = explain_card(untrusted_bytes, jwks=jwks)
    found = [*linted.findings, *more]
    if linted.document is not None:
        found += _of_signatures(explanation, jwks)
    ordered = tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))
    return CheckReport(name, ordered, explanation, asked)


def _covers_all(verdict: str, profiles: Iterable[str]) -> bool:
    return verdict == "valid" and any(one in FULL_PROFILES for one in profiles)


def _of_signatures(explanation: Explanation, jwks: JwkSet | None) -> Iterator[Finding]:
    signatures = explanation.signatures
    if not signatures:
        yield Finding("check.unsigned", "there is no signature")
        return
    if jwks is None:
        return
    for one in signatures:
        place = f"/signatures/{one.index}"
        if one.verdict == "invalid":
            yield Finding("check.invalid", "it fits no payload of the card", Place(place))
        if one.verdict == "unknown-key":
            message = "its key is not in the key set"
            yield Finding("check.unknown-key", message, Place(place))
    valid = [one for one in signatures if one.profiles]
    if valid and not any(_covers_all(one.verdict, one.profiles) for one in valid):
        yield Finding("check.partly", "each signature leaves something open")
    if valid:
        for client in explanation.predictions:
            if client.outcome == "refused":
                yield Finding("check.sdk-refuses", f"{client.verifier}: {client.because}")


# Of a URL: what its origin says around the card.


def check_url(
    url: str,
    *,
    fetch: FetchSettings = DEFAULT_SETTINGS,
    now: datetime,
    other_hosts: bool = False,
) -> CheckReport:
    """Fetch a card and what its origin says around it, and say what is known.

    No credential is sent, and no redirect followed.

    Args:
        url: The card's, or the agent's host.
        fetch: How hosts are reached.
        now: When the answer comes, for its age; aware.
        other_hosts: Also ask the card's interfaces on other origins for the extended card.

    Raises:
        FetchFailed: The card could not be fetched.
    """
    where = card_url(url)
    asked = [where]
    answer = fetch_document(where, fetch)
    origin = parse_url(answer.url).origin
    found = list(_of_headers(answer.headers, answer.untrusted_body, now))
    keys_url = f"{origin}{JWKS_PATH}"
    jwks, said = _keys(keys_url, fetch, asked)
    found += said
    document = _document(answer.untrusted_body)
    if document is not None and declares_extended_card(document, any_spelling=True):
        own = None if other_hosts else str(origin)
        found += _of_extended(document, fetch, own, asked)
    return check_card(
        answer.untrusted_body,
        name=answer.url,
        jwks=jwks,
        more=found,
        asked=tuple(asked),
    )


def _document(untrusted_bytes: bytes) -> Mapping[str, Json] | None:
    """Read a card; None where it cannot be read in one way."""
    try:
        return Card.from_bytes(untrusted_bytes).document
    except InputRefused:
        return None


def _keys(url: str, fetch: FetchSettings, asked: list[str]) -> tuple[JwkSet | None, list[Finding]]:
    asked.append(url)
    try:
        answer = fetch_document(url, replace(fetch, max_bytes=MAX_JWKS_BYTES))
        return JwkSet.read(answer.untrusted_body), []
    except KeyRefused as refusal:
        return None, [Finding("check.bad-keys", refusal.message)]
    except CardsignError as failure:
        return None, [Finding("check.no-keys", failure.message)]


def _of_headers(headers: Headers, body: bytes, now: datetime) -> Iterator[Finding]:
    said = values(headers, "cache-control")
    if not said:
        yield Finding("check.cache-unsaid", "there is no Cache-Control")
    else:
        kept = freshness(headers, asked_at=now, answered_at=now, ceiling=400 * 24 * 3600)
        if kept.seconds > MAX_AGE:
            yield Finding("check.cache-long", f"for {kept.seconds} s")
    tags = values(headers, "etag")
    if not tags:
        yield Finding("check.etag-absent", "there is no ETag")
    elif tags[0].startswith("W/"):
        yield Finding("check.etag-unsigned", "the ETag is weak")
    elif _is_of_unsigned(tags[0].strip('"'), body):
        yield Finding("check.etag-unsigned", "the ETag is a digest of the card without signatures")


def _is_of_unsigned(tag: str, body: bytes) -> bool:
    """Whether an ETag is a digest of the card without its signatures, in a usual form."""
    document = _document(body)
    if document is None or "signatures" not in document or len(tag) < 8:
        return False
    unsigned = {name: one for name, one in document.items() if name != "signatures"}
    try:
        payload = jcs(unsigned)
    except CanonicalizationError:
        return False
    for algorithm in ("sha256", "sha1", "md5"):
        digest = hashlib.new(algorithm, payload, usedforsecurity=False).digest()
        plain = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        spelled = re.sub(r"[+/=]", lambda m: {"+": "-", "/": "_", "=": ""}[m[0]], tag)
        if len(spelled) >= 8 and (
            digest.hex().startswith(tag.lower()) or plain.startswith(spelled)
        ):
            return True
    return False


def _of_extended(
    document: Mapping[str, Json], fetch: FetchSettings, own: str | None, asked: list[str]
) -> Iterator[Finding]:
    """Ask for the extended card without a credential: it must be refused."""
    try:
        endpoints = endpoints_of(document)[:_ENDPOINTS]
    except CardsignError:
        return
    for endpoint in endpoints:
        if own is not None and str(endpoint.url.origin) != own:
            continue
        asked.append(str(endpoint.url))
        try:
            body = ask_for_extended_card(endpoint, None, fetch, call_id="check")
        except CardsignError:
            continue  # refused, as it should be; or nobody answers
        card = _document(body)
        if card is not None and "skills" in card:
            yield Finding("check.extended-open", f"{endpoint.url} answered it to a stranger")
            return
