"""Using a card that is not trusted, while its issuer is being adopted (E12).

A policy may say ``enforce = "warn"`` of one issuer. That changes no verdict. It lets a program
that asks for it, and nothing else, have the card as it came: a card that is unsigned, signed by an
unknown key, or without evidence that it is current. Whatever speaks *against* a card refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cardsign.card.document import Card
from cardsign.card.extended import find_marker
from cardsign.card.interfaces import check_interfaces
from cardsign.card.members import check_is_agent_card
from cardsign.card.strictjson import Json
from cardsign.errors import InputRefused
from cardsign.log import logger
from cardsign.trust.policy import Policy, TrustedIssuer
from cardsign.trust.state import IssuerState, IssuerStates
from cardsign.urls import parse_origin
from cardsign.verify.report import Report

# Nobody vouches for the card. Not softened once a signed card of the issuer was seen, since
# anybody in between could take a signature away, or sign with a key of their own.
_UNVOUCHED: Final = frozenset({"sig.none", "key.unknown", "trust.no_keys"})
# A good signature, and nothing that says whether the card is current.
_NO_EVIDENCE: Final = frozenset({"trust.freshness_unknown", "refresh.no_answer"})
# What may stand beside them. Every other reason refuses the card.
_BESIDE: Final = frozenset(
    {
        "card.legacy_path",
        "card.single_signature_block",
        "coverage.absence_unprovable",
        "trust.freshness_waived",
        "trust.tofu_first",
    }
)


class UnverifiedCard:
    """A card that nobody has verified, of an issuer that the policy only warns about.

    It shares no base with :class:`cardsign.VerifiedCard`, so that a type checker tells them
    apart. No credential may go where it points.

    Attributes:
        untrusted_document: The object as it came.
        report: The verdict, which is not ``trusted``, and why.
    """

    __slots__ = ("report", "untrusted_document")

    def __init__(self, untrusted_document: Mapping[str, Json], report: Report) -> None:
        self.untrusted_document = untrusted_document
        self.report = report

    def __repr__(self) -> str:
        return f"UnverifiedCard(issuer={self.report.issuer!r}, {self.report.reasons[0].code})"


def unverified_card(
    untrusted_card: bytes,
    report: Report,
    *,
    issuer: TrustedIssuer | None,
    policy: Policy,
    state: IssuerState | None,
    states: IssuerStates,
) -> UnverifiedCard | None:
    """The card as it came, if the policy only warns about what keeps it from being trusted.

    Each use is logged at WARNING.

    Args:
        untrusted_card: As received.
        report: The verdict on it.
        issuer: The policy's entry for the card's subject.
        policy: The operator's own. A policy file found in a working directory cannot say
            ``enforce``.
        state: What is remembered of the issuer; without it nothing is softened, since nobody
            could know whether its cards were signed before.
        states: Where it is remembered. Renaming the issuer or moving the policy file opens
            nothing: a signed card that was seen at its origins counts under any name.

    Returns:
        None where the verdict stands: any reason but the closed list above, an interface outside
        the issuer's origins, an extended card, or what is no card at all.
    """
    if issuer is None or issuer.is_holder or issuer.enforce != "warn" or state is None:
        return None
    if issuer.places is None or not untrusted_card:
        return None
    if report.issuer != issuer.name or report.verdict not in ("untrusted", "indeterminate"):
        return None
    found = {reason.code for reason in report.reasons}
    signed_before = state.signed_before or issuer.floor is not None
    signed_before = signed_before or states.saw_signed_cards_of(issuer)
    softened = _NO_EVIDENCE if signed_before else _NO_EVIDENCE | _UNVOUCHED
    if not found & softened or found - softened - _BESIDE:
        return None
    try:
        document = Card.from_bytes(untrusted_card).document
        check_is_agent_card(document)
        stated = tuple(map(parse_origin, state.keyset.origins)) if state.keyset else None
        check_interfaces(document, issuer.places, stated, policy.reserved_from(issuer))
        if find_marker(document) is not None:
            return None
    except InputRefused:
        return None
    logger(__name__).warning(
        'an unverified card of %s is used, since the policy says enforce = "warn": %s',
        issuer.name,
        ", ".join(sorted(found & softened)),
    )
    return UnverifiedCard(document, report)
