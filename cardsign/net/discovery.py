"""Looking a peer up: its card, what the anchor's source says today, and the verdict on both.

Nothing is asked but the URL that the caller names and, for statements, the origins that the policy
names: no card and no statement can send a request anywhere. What comes back is as untrusted as
anything supplied. Only the extended card is asked for as the public card says, which is trusted
by then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from cardsign.card.extensions import declares_extended_card
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH
from cardsign.errors import CallFailed, CardRefused, CardsignError, FetchFailed, UsageFault
from cardsign.findings import Finding
from cardsign.jose.keys import MAX_JWKS_BYTES
from cardsign.net import endpoints, fetch
from cardsign.net.connection import Deadline
from cardsign.net.endpoints import Credential, Endpoint, Header
from cardsign.net.fetch import DocumentFetcher, FetchSettings
from cardsign.times import second
from cardsign.trust.policy import JwksAnchor, KeysetAnchor, Subject, TrustedIssuer
from cardsign.trust.session import Session
from cardsign.trust.walk import (
    NO_STATEMENTS,
    Ask,
    FetchResult,
    Refresh,
    SuppliedStatements,
    no_answer,
)
from cardsign.urls import Place, Url, card_url, parse_origin, parse_url, without_userinfo
from cardsign.verify.report import Answers, Report, VerificationError, ask_again
from cardsign.verify.verdict import beside_its_public_card

if TYPE_CHECKING:
    from cardsign.verify.verifier import Verifier

_LOG: Final = logging.getLogger(__name__)
# Quiet, unless the program that uses the package listens.
_LOG.addHandler(logging.NullHandler())
#: Seconds for all requests of one refresh; the rest is left to the next one. A host without any
#: key can show hundreds of unsigned statements, each as slowly as one request may be.
REFRESH_SECONDS: Final = 30.0
#: URLs of one issuer at which a trusted card was seen, and its absence is reported.
MAX_CARDS: Final = 256


@dataclass(frozen=True, slots=True)
class Discovery:
    """The answer of a peer that was asked for a card, the public or the extended one.

    Attributes:
        url: The URL that answered, or the one that did not.
        report: The verdict; what could not be fetched stands at the end of its reasons. On an
            extended card it is given that on the public one.
        untrusted_card: The card as received; empty where there is none.
        supplied: What was gathered besides it; of this nothing has been checked either.
    """

    url: str
    report: Report
    untrusted_card: bytes = field(default=b"", repr=False)
    supplied: SuppliedStatements = field(default=NO_STATEMENTS, repr=False)


def look_up(
    verifier: Verifier,
    url: str,
    subject: Subject,
    supplied: SuppliedStatements = NO_STATEMENTS,
    *,
    at: datetime | None = None,
    fresh: bool = False,
) -> Discovery:
    """Return the verdict on the card at a URL, and what was received.

    Where copies of two ages may explain the verdict, all is asked once more. Whatever else goes
    wrong in looking at this peer is a verdict that could not be reached, so that it hides no
    other peer's.

    Args:
        verifier: By whose policy, memory and fetcher.
        url: A card's URL, or a host's: its canonical path is asked, then the legacy one if no
            card was ever seen at the canonical one (A2A 1.0 8.2).
        subject: Whose card it must be; an empty one means the issuer that the policy has for
            the URL that answers.
        supplied: What is at hand besides; a key set in it stands for what a `jwks` anchor's URL
            answers, which is then not asked.
        at: A time of the caller's choice, by which nothing is trusted.
        fresh: Ask every cache on the way to look again, at most once per cooldown.

    Raises:
        CardRefused: The subject is outside the strict grammar of URLs.
    """
    look = _Look(verifier, card_url(url), subject, supplied, at)
    look.owner(_at(subject, card_url(url)))
    try:
        discovery = look.at_url(url, fresh=fresh)
        if discovery.report.issuer is not None and ask_again(discovery.report):
            # Where the card was found: a 404 of the canonical path is not asked for twice.
            owner = look.owner(_at(subject, discovery.url))
            if not verifier.fetcher.is_cooling(discovery.url, owner):
                discovery = look.at_url(discovery.url, fresh=True)
    except CardsignError:
        raise
    except Exception as crash:  # noqa: BLE001  the boundary: it hides no other peer's verdict
        message = f"looking at {without_userinfo(url)} ended with {type(crash).__name__}"
        _LOG.error(message, exc_info=crash)
        return look.no_verdict(url, None, Finding("peer.not_examined", message))
    return discovery


def _at(subject: Subject, url: str) -> Subject:
    """Return the subject; where it names nobody, whoever is at home at the URL."""
    return Subject(url=url) if subject.is_nobody else subject


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a peer; the attributes are the arguments of :func:`look_up`."""

    verifier: Verifier
    canonical_url: str
    subject: Subject
    supplied: SuppliedStatements
    at: datetime | None

    def at_url(self, url: str, *, fresh: bool) -> Discovery:
        """Fetch the card at a URL and what its issuer publishes, and judge both."""
        verifier = self.verifier
        owner = self.owner(_at(self.subject, card_url(url)))
        seen = verifier.session(owner).cards if owner is not None else set()
        legacy = card_url(url) not in seen
        answer = verifier.fetcher.fetch_card(url, fresh=fresh, legacy=legacy, issuer=owner)
        if answer.outcome != "found" and not answer.untrusted_body:
            return self.no_verdict(answer.url, owner, _why_no_card(answer, seen))
        here = Subject(url=answer.url)
        asked = _at(self.subject, answer.url)
        owner = self.owner(asked)
        asked = self.narrow(asked, owner, here)
        supplied, missing = NO_STATEMENTS, tuple[Finding, ...]()
        if owner is not None and not self.has_keys_of(owner):
            origin = str(parse_url(answer.url).origin)
            supplied, missing = refresh(verifier, owner, origin, fresh=fresh)
        supplied = supplied.joined(self.supplied)
        report = verifier.judge(answer.untrusted_body, asked, supplied, at=self.at)
        if report.verdict == "trusted" and owner is not None and asked == here:
            seen = verifier.session(owner).cards
            if len(seen) < MAX_CARDS:
                seen.add(answer.url)
        notes = [fetch.note_legacy_path()] if answer.url != self.canonical_url else []
        if answer.failure is not None:
            message = f"{answer.failure.message}; what it gave before was judged"
            notes.append(Finding("fetch.stale", message))
        reasons = tuple(dict.fromkeys((*report.reasons, *notes, *missing)))
        report = replace(report, reasons=reasons)
        return Discovery(answer.url, report, answer.untrusted_body, supplied)

    def has_keys_of(self, issuer: TrustedIssuer) -> bool:
        """Return whether the caller has handed over what would be asked for."""
        return isinstance(issuer.anchor, JwksAnchor) and self.supplied.untrusted_jwks is not None

    def no_verdict(self, url: str, owner: TrustedIssuer | None, reason: Finding) -> Discovery:
        """Return what is said where there is no card to judge."""
        name = owner.name if owner is not None else url
        report = Report(
            "indeterminate",
            name,
            Answers(),
            (reason,),
            issuer=name if owner is not None and not owner.is_holder else None,
            checked_at=self.at or self.verifier.clock(),
            historic=self.at is not None,
        )
        return Discovery(url, report)

    def owner(self, subject: Subject) -> TrustedIssuer | None:
        """Return the issuer that the policy has for a subject."""
        try:
            return self.verifier.policy.find(subject)
        except CardRefused:
            if subject.url is None:
                raise
            return None  # a URL that may not be asked; the fetcher says why

    def narrow(self, asked: Subject, owner: TrustedIssuer | None, here: Subject) -> Subject:
        """Return the URL that answered as the subject, where that is the issuer's own place.

        A caller that names an issuer or an origin as well wants more than the URL says, not less:
        one agent's card is not to pass for another's of the same issuer (threat 3). Anywhere else
        it is a copy, which is the card of the issuer that was named.
        """
        is_named = asked.issuer is not None or asked.origin is not None
        if not is_named or self.owner(here) is not owner:
            return asked
        origin = parse_url(here.url or "").origin
        return here if asked.origin is None or parse_origin(asked.origin) == origin else asked


def _why_no_card(answer: FetchResult, seen: set[str]) -> Finding:
    if answer.outcome == "absent" and answer.url in seen:
        message = f"a trusted card was seen at {answer.url}, and now there is none"
        return Finding("card.vanished", message)
    failure = answer.failure or FetchFailed("fetch.failed", f"{answer.url} gave no answer")
    return failure.finding


# What an issuer's anchor needs.


def refresh(
    verifier: Verifier, issuer: TrustedIssuer, origin: str, *, fresh: bool = False
) -> tuple[SuppliedStatements, tuple[Finding, ...]]:
    """Return the statements of an issuer, and what could not be fetched.

    What came a short while ago is not asked for again, and threads share what they ask for.

    Args:
        verifier: By whose policy, memory and fetcher.
        issuer: Whose they are.
        origin: The origin that the card was asked from.
        fresh: Ask every cache on the way to look again.
    """
    session, anchor, now = verifier.session(issuer), issuer.anchor, verifier.clock()
    ask = _hurried(verifier.fetcher, issuer, fresh)
    if isinstance(anchor, JwksAnchor):
        return _ask_for_keys(session, anchor.url, ask)
    if not isinstance(anchor, KeysetAnchor):
        return NO_STATEMENTS, ()
    with session.guard:
        if session.keyset is None:
            session.resolve(NO_STATEMENTS, now)  # goes as far as the cache leads
        keyset, release = session.keyset, session.release
    home = home_of(issuer.places, origin)
    return Refresh(home, ask, now, session.limits.skew).run(anchor.pin, keyset, release)


def _hurried(fetcher: DocumentFetcher, issuer: TrustedIssuer, fresh: bool) -> Ask:
    """Ask until the time for one refresh is over; everything after that has no answer."""
    end = Deadline(fetcher.settings.clock, REFRESH_SECONDS)

    def ask(url: str, max_bytes: int) -> FetchResult:
        try:
            end.remaining()
        except TimeoutError:
            why = f"{url} was not asked any more: a refresh ends after {REFRESH_SECONDS:g} s"
            return FetchResult(url, "failed", failure=FetchFailed("fetch.timeout", why))
        return fetcher.fetch(url, max_bytes=max_bytes, fresh=fresh, issuer=issuer)

    return ask


def _ask_for_keys(
    session: Session, url: str, ask: Ask
) -> tuple[SuppliedStatements, tuple[Finding, ...]]:
    answer = ask(url, MAX_JWKS_BYTES)
    if answer.outcome == "found":
        return SuppliedStatements(untrusted_jwks=answer.untrusted_body, jwks_url=url), ()
    reason = no_answer(answer)
    if answer.outcome == "absent":
        code = "refresh.no_answer" if session.jwks is None else "statement.vanished"
        reason = Finding(code, f"there is no key set at {url}")
    return NO_STATEMENTS, (reason,)


def home_of(places: Iterable[Place] | None, origin: str) -> str:
    """Return the origin at which an issuer's statements lie.

    It is the card's own if the policy gives the issuer that whole origin, else the first whole
    one. An issuer with paths of shared origins only is asked at the card's, or the first of them.
    """
    places = tuple(places or ())
    whole = [str(place.origin) for place in places if place.is_whole_origin]
    homes = whole or [str(place.origin) for place in places]
    return origin if origin in homes or not homes else homes[0]


# The extended card.

MAX_ANSWER_BYTES: Final = MAX_CARD_BYTES + 16 * 1024  # a card, some members around it, white space
# Ties an answer to its call, of which each connection has one.
_CALL_ID: Final = "cardsign"
# Errors by which a peer says that there is no extended card (A2A 1.0 5.4, 0.3 8.2).
_NO_CARD: Final = frozenset({-32004, -32007, -32601})


def look_up_extended(
    verifier: Verifier,
    public: Discovery,
    credential: Credential | str,
    *,
    audience: str,
    subject: Subject,
) -> Discovery:
    """Ask for the extended card beside a public one, and reach a verdict about it.

    Where copies of two ages may explain the verdict (threat 15), the public card is looked up
    once more, past every cache. The credential is not sent again.

    Args:
        verifier: By whom the public card was judged.
        public: The result of looking up the public card.
        credential: The user's; it goes to one endpoint inside the issuer's origins.
        audience: The id that the issuer gave to this verifier.
        subject: Whose card the public one should be, as it was judged.

    Raises:
        VerificationError: The public card is not trusted, or has no verdict; nothing was sent.
        UsageFault: ``credential.none``, ``credential.elsewhere``, ``credential.scheme``;
            nothing was sent.
        CallFailed: ``call.verdict_over``: that on the public card no longer holds, nothing was
            sent; there is no extended card, or no endpoint to ask for one;
            ``credential.refused``; the answer is none.
        FetchFailed: The peer could not be asked, or must not be.
    """
    payload, until = public.report.card, public.report.valid_until
    if payload is None:
        raise VerificationError.of(public.report)
    subject = _at(subject, public.url)
    peer = endpoints.Peer.of(verifier, public.url, payload, subject)
    if until is not None and until <= verifier.clock():
        message = f"the verdict on {public.url} expired at {second(until)}"
        raise CallFailed("call.verdict_over", f"{message}; nothing was sent")
    if not declares_extended_card(payload, any_spelling=True):
        message = f"the card at {public.url} declares no extended card"
        raise CallFailed("call.no_extended", message)
    endpoint = peer.choose(endpoints.endpoints_of(payload), Endpoint.for_extended_card)
    header = endpoints.open_credential(credential, peer, endpoint.for_extended_card())
    untrusted_card = ask_for_extended_card(endpoint, header, peer.settings)

    def judge(public: Discovery) -> Report:
        asked = replace(subject, audience=audience)
        report = verifier.judge(untrusted_card, asked, public.supplied)
        return beside_its_public_card(report, public.report)

    report = judge(public)
    if ask_again(report):
        report = judge(verifier.look_up(public.url, subject, fresh=True))
    url = str(endpoint.for_extended_card())
    return Discovery(url, report, untrusted_card, public.supplied)


def ask_for_extended_card(
    endpoint: Endpoint, header: Header | None, settings: FetchSettings
) -> bytes:
    """Ask one endpoint for the extended card that a credential opens.

    By JSON-RPC ``GetExtendedAgentCard`` (A2A 1.0 9.4.11), ``GET /extendedAgentCard`` (11.3), or
    what 0.3 and 0.2 call the same.

    Args:
        endpoint: One of the verified payload.
        header: The credential, for the endpoint's origin; None to ask without.
        settings: How it is reached; its limits of time hold, and not that of bytes.

    Returns:
        The card. In a JSON-RPC answer white space and the spelling of numbers are not kept; no
        payload depends on either. Nothing in it has been checked.

    Raises:
        UsageFault: ``credential.elsewhere``; nothing was sent.
        CallFailed: ``credential.refused``, ``call.no_extended``, ``call.error``.
        FetchFailed: As :func:`cardsign.net.fetch.fetch_document`.
    """
    url = endpoint.for_extended_card()
    headers, call = _request_to(endpoint)
    if header is not None:
        if url.origin != header.origin:
            message = f"{url.origin} is not where the credential belongs, {header.origin}"
            raise UsageFault("credential.elsewhere", message)
        headers.append((header.name, header.value))
    there = replace(settings, max_bytes=MAX_ANSWER_BYTES)
    try:
        with endpoints.unlogged():
            answer = fetch.fetch_document(str(url), there, headers=tuple(headers), body=call)
    except fetch.OtherStatus as exc:
        if exc.status in endpoints.UNAUTHORISED:
            challenges = exc.challenges
            raise endpoints.refused_credential(exc.status, challenges, url, header) from None
        if exc.status in (404, 410):
            raise _no_card(url, f"answered {exc.status}") from None
        raise
    if call is None:
        return answer.untrusted_body
    limits = {"max_bytes": MAX_ANSWER_BYTES, "max_depth": MAX_DEPTH + 1}
    untrusted_answer = endpoints.strict_object(answer.untrusted_body, **limits)
    try:
        card = endpoints.result_of(untrusted_answer, _CALL_ID)
        return json.dumps(card, ensure_ascii=False, separators=(",", ":")).encode()
    except endpoints.PeerError as exc:
        error = exc
    # Outside, so that no context holds words of a peer who may repeat the credential.
    words = endpoints.quotable(error.untrusted_words, header)
    message = f"answered error {error.rpc_code}: {words}"
    if error.rpc_code in _NO_CARD:
        raise _no_card(url, message)
    raise CallFailed(error.code, f"{url} {message}")


def _request_to(endpoint: Endpoint) -> tuple[list[tuple[str, str]], bytes | None]:
    """Return the headers and the body by which an endpoint is asked; no body for GET."""
    if endpoint.a2a_version == "0.2":
        return [], None
    headers: list[tuple[str, str]] = [("A2A-Version", endpoint.a2a_version)]
    if endpoint.binding != endpoints.JSONRPC:
        return headers, None
    is_old = endpoint.a2a_version == "0.3"
    method = "agent/getAuthenticatedExtendedCard" if is_old else "GetExtendedAgentCard"
    call: dict[str, object] = {"jsonrpc": "2.0", "id": _CALL_ID, "method": method}
    if endpoint.tenant:
        call["params"] = {"tenant": endpoint.tenant}
    headers.append(("Content-Type", "application/json"))
    return headers, json.dumps(call, separators=(",", ":")).encode()


def _no_card(url: Url, how: str) -> CallFailed:
    return CallFailed("call.no_extended", f"{url} gives no extended card: it {how}")
