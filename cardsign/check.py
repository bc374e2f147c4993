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
from cardsign.errors import CanonicalizationError, CardsignError, InputRefused, KeyRefused
from cardsign.explain.explanation import explain_card
from cardsign.explain.report import Explanation
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.lint.cards import lint_card
from cardsign.lint.rules import Finding, LintSettings, Rule
from cardsign.net.endpoints import endpoints_of
from cardsign.net.extended import ask_for_extended_card
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, fetch_document, values
from cardsign.net.fetcher import card_url, freshness
from cardsign.urls import JWKS_PATH, Headers, parse_url

SCHEMA: Final = "cardsign.check/1"
#: The gravest first.
SEVERITIES: Final = ("error", "warning", "note")
#: Seconds. A key that is revoked stays in use for as long as caches keep what it signed.
MAX_AGE: Final = 24 * 3600
_ENDPOINTS: Final = 4  # that are asked for the extended card

# fmt: off
RULES: Final[dict[str, Rule]] = {one.id: one for one in (
    Rule("check.unsigned", "warning", "The card has no signature.",
         "Anyone between the agent and its callers can change it unseen.",
         "Sign it: `cardsign sign CARD`.", "A2A 1.0 8.4"),
    Rule("check.invalid", "error", "A signature does not fit the card.",
         "Either the card was changed after it was signed, or somebody else signed it.",
         "Sign it again. `cardsign explain CARD --jwks FILE` says if only the spelling differs.",
         "RFC 7515 5.2"),
    Rule("check.partly", "warning", "No signature covers all of the card.",
         "What is not covered can be changed unseen.",
         "Sign it by a full profile, which `cardsign sign` does.", "docs/concepts/profiles.md"),
    Rule("check.no-keys", "note", "The origin publishes no key set at its well-known place.",
         "A caller who does not have the keys already cannot check the signatures.",
         "Publish the key set at /.well-known/jwks.json.", "RFC 7517 5"),
    Rule("check.unknown-key", "warning", "A signature is by a key that is not published.",
         "A caller who takes the origin's key set refuses it.",
         "Publish the key, or sign with one that is published.", "RFC 7517 5"),
    Rule("check.bad-keys", "error", "The key set is refused: a key is weak, private or malformed.",
         "A weak key can be broken, and a private one is nobody's any more.",
         "Publish public keys of at least 2048 bits (RSA), or EC keys.", "RFC 7518"),
    Rule("check.sdk-refuses", "note", "An SDK's client refuses the card. Predicted.",
         "Callers who use that SDK cannot verify it.",
         "`cardsign lint CARD --group portable` says what it stumbles over. Or sign for it: "
         "`cardsign sign CARD --compat all`.",
         "docs/concepts/profiles.md"),
    Rule("check.etag-absent", "note", "The answer has no ETag.",
         "Clients download the whole card to see whether it changed.",
         "Send a strong ETag over the served bytes.", "A2A 1.0 8.6; RFC 9110 8.8.3"),
    Rule("check.etag-unsigned", "warning", "The ETag does not follow the signatures, or is weak.",
         "A client keeps the old signature after the key was changed, and refuses the card.",
         "Send a strong ETag over the served bytes, signatures included.", "RFC 9110 8.8.3"),
    Rule("check.cache-long", "warning", "Caches may keep the card for more than a day.",
         "They serve what a revoked key signed for as long.",
         "Send Cache-Control with a max-age of an hour.", "A2A 1.0 8.6; RFC 9111"),
    Rule("check.cache-unsaid", "note", "The answer does not say how long it may be kept.",
         "Each cache guesses.", "Send Cache-Control with a max-age.", "A2A 1.0 8.6.1"),
    Rule("check.extended-open", "error", "The extended card is given to anyone.",
         "It is for authenticated callers: what only they may know is public.",
         "Ask for a credential before answering.", "A2A 1.0 13.3"),
)}
# fmt: on


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
        named = (f"{counts[name]} {name}{'s' * (counts[name] > 1)}" for name in SEVERITIES)
        return ", ".join(text for text in named if text[0] != "0") or "nothing found"

    def to_json(self) -> dict[str, Any]:
        """The report as ``cardsign check --json`` prints it."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "findings": [one.to_json() for one in self.findings],
            "signatures": [_signature(one) for one in asdict(self.explanation)["signatures"]],
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
            (one.severity, one.rule.id, one.pointer or "the card", one.message, one.rule.fix)
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


def _signature(one: Mapping[str, Any]) -> dict[str, Any]:
    header = one["header"] or {}
    kept = {name: one[name] for name in ("index", "verdict", "profiles")}
    return {**kept, "kid": str(header.get("kid", ""))[:256], "alg": str(header.get("alg", ""))[:32]}


def check_card(
    untrusted_bytes: bytes,
    *,
    name: str = "",
    jwks: JwkSet | None = None,
    settings: LintSettings | None = None,
    more: Iterable[Finding] = (),
    asked: tuple[str, ...] = (),
) -> CheckReport:
    """Say what is known of a card by its bytes, and by its keys if there are any.

    Args:
        untrusted_bytes: The card as received.
        name: For the report.
        jwks: By which its signatures are checked; whose they are is not.
        settings: Of lint.
        more: What was found around it.
        asked: What was asked for that.

    Returns:
        The report. Nothing in the card makes this function raise.
    """
    linted = lint_card(untrusted_bytes, settings or LintSettings(), name=name)
    explanation = explain_card(untrusted_bytes, jwks=jwks)
    found = [*linted.findings, *more]
    if linted.document is not None:
        found += _of_signatures(explanation, jwks)
    ordered = tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))
    return CheckReport(name, ordered, explanation, asked)


def _covers_all(verdict: str, profiles: Iterable[str]) -> bool:
    return verdict == "valid" and any(one in FULL_PROFILES for one in profiles)


def _found(rule: str, message: str) -> Finding:
    return Finding(RULES[rule], (), message)


def _of_signatures(explanation: Explanation, jwks: JwkSet | None) -> Iterator[Finding]:
    signatures = explanation.signatures
    if not signatures:
        yield _found("check.unsigned", "there is no signature")
        return
    if jwks is None:
        return
    for one in signatures:
        place = ("signatures", str(one.index))
        if one.verdict == "invalid":
            yield replace(_found("check.invalid", "it fits no payload of the card"), tokens=place)
        if one.verdict == "unknown-key":
            message = "its key is not in the key set"
            yield replace(_found("check.unknown-key", message), tokens=place)
    valid = [one for one in signatures if one.profiles]
    if valid and not any(_covers_all(one.verdict, one.profiles) for one in valid):
        yield _found("check.partly", "each signature leaves something open")
    if valid:
        for client in explanation.predictions:
            if client.outcome == "refused":
                yield _found("check.sdk-refuses", f"{client.verifier}: {client.because}")


# Of a URL: what its origin says around the card.


def check_url(
    url: str,
    *,
    fetch: FetchSettings = DEFAULT_SETTINGS,
    settings: LintSettings | None = None,
    now: datetime,
    other_hosts: bool = False,
) -> CheckReport:
    """Fetch a card and what its origin says around it, and say what is known.

    No credential is sent, and no redirect followed.

    Args:
        url: The card's, or the agent's host.
        fetch: How hosts are reached.
        settings: Of lint.
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
        settings=settings,
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
        return None, [_found("check.bad-keys", refusal.message)]
    except CardsignError as failure:
        return None, [_found("check.no-keys", failure.message)]


def _of_headers(headers: Headers, body: bytes, now: datetime) -> Iterator[Finding]:
    said = values(headers, "cache-control")
    if not said:
        yield _found("check.cache-unsaid", "there is no Cache-Control")
    else:
        kept = freshness(headers, asked_at=now, answered_at=now, ceiling=400 * 24 * 3600)
        if kept.seconds > MAX_AGE:
            yield _found("check.cache-long", f"for {kept.seconds} s")
    tags = values(headers, "etag")
    if not tags:
        yield _found("check.etag-absent", "there is no ETag")
    elif tags[0].startswith("W/"):
        yield _found("check.etag-unsigned", "the ETag is weak")
    elif _is_of_unsigned(tags[0].strip('"'), body):
        yield _found("check.etag-unsigned", "the ETag is a digest of the card without signatures")


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
            yield _found("check.extended-open", f"{endpoint.url} answered it to a stranger")
            return
