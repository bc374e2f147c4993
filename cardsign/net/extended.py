"""The extended card of a peer: asked for on the word of his trusted public card, and verified.

(1) the public card was met and is trusted             :class:`cardsign.net.discovery.Discoverer`
(2) its payload says where and how; the user's entries say whether   :mod:`cardsign.net.wallet`
(3) the one request that shows the credential          :mod:`cardsign.net.presenting`
(4) the verdict: of this audience, current, of this issuer, beside this public card
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from cardsign.card.extended import declares_extended_card
from cardsign.card.strictjson import Json
from cardsign.errors import CallFailed, CredentialFault
from cardsign.net.endpoints import endpoints_of, is_outside
from cardsign.net.fetch import DEFAULT_WIRE, Wire
from cardsign.net.meeting import Meeting
from cardsign.net.presenting import ask_for_extended_card, extended_url
from cardsign.net.wallet import Wallet
from cardsign.trust.known import Memory
from cardsign.trust.origins import Url
from cardsign.trust.policy import Policy
from cardsign.trust.subject import CardUrl, Extended, PublicSubject
from cardsign.verdict import NotTrusted, Report
from cardsign.verify import examine_card
from cardsign.verify.again import ask_again
from cardsign.verify.beside import beside_its_public_card


@dataclass(frozen=True, slots=True)
class Ground:
    """What verdicts rest on, and how peers are reached.

    Attributes:
        policy: The verifier's enrolments.
        memory: What is remembered of issuers.
        now: The time, aware.
        wire: How peers are reached.
    """

    policy: Policy
    memory: Memory
    now: Callable[[], datetime]
    wire: Wire = DEFAULT_WIRE


@dataclass(frozen=True, slots=True)
class ExtendedMeeting:
    """What came of asking for an extended card.

    Attributes:
        url: Where it was asked for.
        report: The verdict, given that on the public card.
        untrusted_card: As it came; use ``report.card``.
    """

    url: str
    report: Report
    untrusted_card: bytes = field(default=b"", repr=False)


def meet_extended(
    public: Meeting,
    ground: Ground,
    wallet: Wallet,
    *,
    audience: str | None,
    call_id: str,
    expect: PublicSubject | None = None,
    again: Callable[[], Meeting] | None = None,
) -> ExtendedMeeting:
    """Ask for the extended card beside a public one, and reach a verdict about it.

    Args:
        public: What came of meeting the peer.
        ground: That on which the public card was judged.
        wallet: The user's credentials.
        audience: The id that the issuer gave to this verifier; None: as in the user's entry.
        call_id: Random, for the one call; ties a JSON-RPC answer to it.
        expect: Whose card the public one should be, as it was judged.
        again: Meets the peer once more, past every cache; called at most once, where copies of
            two ages may explain the verdict (threats.md 15). The credential is not sent again.

    Raises:
        NotTrusted: The public card is not; nothing was sent.
        CredentialFault: ``credential.none``, ``credential.elsewhere``, ``credential.scheme``,
            ``credential.source``; nothing was sent.
        UsageFault: ``usage.conflict``: whose audience is not clear; nothing was sent.
        CallFailed: ``call.verdict_over``: that on the public card no longer holds, nothing was
            sent; there is no extended card, or no endpoint to ask for one;
            ``credential.refused``; the answer is none.
        FetchFailed: The peer could not be asked, or must not be.
        LocalFault: The memory, as for :func:`cardsign.examine_card`.
    """
    payload = _payload(public, ground.now())
    subject = expect or CardUrl(public.url)
    enrolment = ground.policy.find(subject)
    if enrolment is None:
        raise NotTrusted(public.report)
    if not declares_extended_card(payload):
        raise CallFailed("call.no_extended", f"the card at {public.url} declares no extended card")
    errand = wallet.for_extended(enrolment.name, endpoints_of(payload), audience)
    url = extended_url(errand.endpoint)
    if is_outside(url, ground.policy, enrolment):
        raise _outside(url, enrolment.name)
    marked_for = audience or (errand.credential.audience if errand.credential else None) or ""
    header = wallet.open(errand, payload)
    untrusted_card = ask_for_extended_card(errand.endpoint, header, ground.wire, call_id=call_id)
    expected = Extended(subject, marked_for)
    report = _judged(untrusted_card, expected, public, ground)
    if again is not None and ask_again(report):
        report = _judged(untrusted_card, expected, again(), ground)
    return ExtendedMeeting(str(url), report, untrusted_card)


def _judged(untrusted_card: bytes, expected: Extended, public: Meeting, ground: Ground) -> Report:
    report = examine_card(
        untrusted_card,
        expect=expected,
        policy=ground.policy,
        now=ground.now(),
        evidence=public.evidence,
        memory=ground.memory,
    )
    return beside_its_public_card(report, public.report)


def _payload(public: Meeting, now: datetime) -> dict[str, Json]:
    if public.report.card is None:
        raise NotTrusted(public.report)
    until = public.report.valid_until
    if until is not None and until <= now:
        raise CallFailed(
            "call.verdict_over",
            f"the verdict on {public.url} held until {until:%Y-%m-%d %H:%M:%S} UTC; "
            "nothing was sent",
        )
    return public.report.card


def _outside(url: Url, issuer: str) -> CredentialFault:
    return CredentialFault(
        "credential.elsewhere", f"{url} lies outside the places of {issuer}; nothing was sent"
    )
