"""Which line of a policy decides a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cardsign.trust.policy import Policy, TrustedIssuer
from cardsign.trust.policytext import Lines, Location, anchor_members
from cardsign.verify.report import Report

# Which member of the policy a reason goes back to, by the longest beginning of its code. What is
# not listed goes back to the anchor; what is None is the card's own fault.
_MEMBERS: Final[dict[str, Location | None]] = {
    "json.": None,
    "json.too_large": ("limits", "card_bytes"),
    "canonical.": None,
    "card.": None,
    "card.signatures_too_many": ("limits", "signatures"),
    "card.no_interface": ("origins",),
    "card.origin_mismatch": ("origins",),
    "card.interface_url": ("origins",),
    "card.digest_unlisted": ("freshness",),
    "card.listed_elsewhere": ("freshness",),
    "card.rollback": ("freshness",),
    "card.signature_vanished": ("unsigned",),
    "sig.none": ("unsigned",),
    "sig.alg_forbidden": ("algorithms",),
    "sig.other_profile": ("accept",),
    "sig.compat": ("accept",),
    "sig.coverage_reduced": ("accept",),
    "coverage.": ("accept",),
    "extended.": None,
    "extended.ahead": ("freshness",),
    "extended.rollback": ("freshness",),
    "threshold.": ("require",),
    "trust.freshness_unknown": ("freshness",),
    "trust.freshness_waived": ("freshness",),
    "state.none": ("freshness",),
    "statement.expired": ("freshness",),
    "statement.not_yet": ("limits", "skew"),
    "time.clock_behind": ("limits", "skew"),
}


@dataclass(frozen=True, slots=True)
class Decision:
    """The line of a policy that decides.

    Attributes:
        member: Its name.
        line: Counted from 1.
        text: The line itself.
        is_set: Whether the member stands there; if not, its default decides, and the line is
            that of the table.
    """

    member: str
    line: int
    text: str
    is_set: bool


def decided_by(report: Report, policy: Policy, text: str, issuer: TrustedIssuer) -> Decision | None:
    """The line of a policy that a verdict goes back to; None if it is the card's own fault.

    Args:
        report: The verdict.
        policy: The policy by which it was reached.
        text: The policy's file, from which it was read.
        issuer: The entry that the verdict is about.
    """
    trusted = report.verdict == "trusted"
    code = "" if trusted or not report.reasons else report.reasons[0].code
    prefix = max((one for one in _MEMBERS if code.startswith(one)), key=len, default=None)
    anchor = "anchor", next(iter(anchor_members(issuer.anchor)))
    place = anchor if prefix is None else _MEMBERS[prefix]
    if place is None:
        return None
    if place[0] != "limits":
        place = ("issuer", policy.issuers.index(issuer), *place)
    lines = Lines.of(text)
    line = lines.line_of(place)
    return Decision(str(place[-1]), line, lines.shown(line), lines.holds(place))
