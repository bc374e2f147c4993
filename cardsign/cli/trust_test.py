"""``cardsign trust test``: what the policy would say of a card, and which line of it decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import click

from cardsign.cli.arguments import (
    json_option,
    option_group,
)
from cardsign.cli.evidence import statements_option
from cardsign.cli.inquiry import Inquiry, Named
from cardsign.cli.policy import LoadedPolicy, trust_options
from cardsign.cli.reports import render_verdict
from cardsign.cli.talk import print_json, safe
from cardsign.cli.trust_showing import kind_of, say_if_old
from cardsign.errors import LocalFault
from cardsign.trust.policy import Enrolment, PublicSubject
from cardsign.trust.policylines import Lines, Location
from cardsign.trust.state import TransientStates
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
    "sig.other_profile": ("profiles",),
    "sig.compat": ("profiles",),
    "sig.coverage_reduced": ("profiles",),
    "coverage.": ("profiles",),
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


#: Of what ``cardsign trust test`` asks, as `named`.
_ASKED: Final = option_group(
    Named,
    "named",
    click.option("--issuer", metavar="NAME", help="Ask as about the card of this issuer."),
    click.option("--origin", metavar="ORIGIN", help="Ask as about the card of this origin."),
    click.option(
        "--jwks", metavar="FILE", help="What the URL of the issuer's `jwks` anchor would answer."
    ),
    statements_option,
    trust_options,
)


@click.command(short_help="Say what verify would say of a card, and why.")
@click.argument("card")
@_ASKED
@json_option
def test(card: str, named: Named, as_json: bool) -> int:
    """Say what verify would say of CARD ('-' for stdin), and which line of trust.toml decides.

    CARD may be a bundle. Nothing is remembered. Exit status as that of verify.
    """
    loaded = named.trust.needed()
    trust = replace(named.trust, trust_file=loaded.path)
    inquiry = Inquiry.prepare(replace(named, trust=trust))
    subject = inquiry.subject(None)
    enrolment = loaded.policy.find(subject)
    if enrolment is not None and not trust.no_state:
        remembered = trust.stored.recall(enrolment)
        say_if_old(remembered.keyset, datetime.now(UTC))
        inquiry = replace(inquiry, memory=TransientStates({enrolment.name: remembered}))
    outcome = inquiry.examine_file(card)
    if isinstance(outcome.result, LocalFault):
        raise outcome.result
    report = outcome.result
    decision = None if enrolment is None else decided_by(report, loaded, enrolment)
    if as_json:
        print_json({"input": card, **report.to_json(), "decided_by": _members(loaded, decision)})
    else:
        click.echo(render_verdict(card, report, inquiry.unnamed_policy))
        click.echo(f"  decided by: {_shown(loaded, subject, enrolment, decision)}")
    return report.exit_status


def decided_by(report: Report, loaded: LoadedPolicy, enrolment: Enrolment) -> Decision | None:
    """The line of the policy that a verdict goes back to; None if it is the card's own fault."""
    trusted = report.verdict == "trusted"
    code = "" if trusted or not report.reasons else report.reasons[0].code
    prefix = max((one for one in _MEMBERS if code.startswith(one)), key=len, default=None)
    place = ("anchor", kind_of(enrolment.anchor)) if prefix is None else _MEMBERS[prefix]
    if place is None:
        return None
    if place[0] != "limits":
        place = ("issuer", loaded.policy.enrolments.index(enrolment), *place)
    lines = Lines.of(loaded.text)
    line = lines.line_of(place)
    return Decision(str(place[-1]), line, lines.shown(line), lines.holds(place))


def _members(loaded: LoadedPolicy, decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {
        "file": str(loaded.path),
        "line": decision.line,
        "member": decision.member,
        "text": decision.text,
        "is_set": decision.is_set,
    }


def _shown(
    loaded: LoadedPolicy,
    subject: PublicSubject | None,
    enrolment: Enrolment | None,
    decision: Decision | None,
) -> str:
    if subject is None:
        return "nothing; name a subject with --issuer or --origin"
    if enrolment is None:
        return f"{loaded.path}, which enrols nobody for this subject"
    if decision is None:
        return "the card itself; no policy could accept it"
    unset = "" if decision.is_set else f"  ({decision.member} is not set: its default)"
    return f"{loaded.path}:{decision.line} {safe(decision.text)}{unset}"
