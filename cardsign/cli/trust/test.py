"""``cardsign trust test``: what the policy would say of a card, and which line of it decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import click

from cardsign.cli.arguments import option, option_group, read_input
from cardsign.cli.commands import command
from cardsign.cli.policy import accept_option, statements_option, trust_options
from cardsign.cli.talk import printed, safe
from cardsign.cli.verifier import VerifierOptions, unnamed_policy
from cardsign.cli.views import members, render_verdict, say_if_old
from cardsign.errors import LocalFault
from cardsign.trust.bundle import MAX_BUNDLE_BYTES
from cardsign.trust.disk import PolicyFile
from cardsign.trust.policy import PublicSubject, TrustedIssuer
from cardsign.trust.state import TransientStates
from cardsign.verify.decision import Decision, decided_by

#: Of what ``cardsign trust test`` asks, as `named`.
_ASKED: Final = option_group(
    VerifierOptions,
    "named",
    option("--issuer NAME", "Judge it as a card of this issuer."),
    option("--origin ORIGIN", "Judge it as a card of this origin."),
    option("--jwks FILE", "Use this instead of asking the URL of the issuer's `jwks` anchor."),
    accept_option,
    statements_option,
    trust_options,
)


@command(
    short_help="Say what verify would say of a card, and why.",
    example="cardsign trust test signed.json --issuer partner",
)
@click.argument("card")
@_ASKED
def test(card: str, named: VerifierOptions) -> int:
    """Say what verify would say about CARD ('-' for stdin), and which line of trust.toml decides.

    CARD may be a bundle. Nothing is remembered. Exit status as that of verify.
    """
    loaded = named.trust.needed()
    trust = replace(named.trust, trust_file=loaded.path)
    verifier = replace(named, trust=trust).verifier()
    subject = verifier.expect
    issuer = loaded.policy.find(subject)
    if issuer is not None and not trust.no_state:
        remembered = trust.stored.recall(issuer)
        say_if_old(remembered.keyset, datetime.now(UTC))
        verifier.states = TransientStates({issuer.name: remembered})
    report = verifier.examine(card, read_input(card, max_bytes=MAX_BUNDLE_BYTES)).result
    if isinstance(report, LocalFault):
        raise report
    decision = None if issuer is None else decided_by(report, loaded.policy, loaded.text, issuer)
    if not printed({"input": card, **report.to_json(), "decided_by": _members(loaded, decision)}):
        click.echo(render_verdict(card, report, unnamed_policy(verifier), verbose=True))
        click.echo(f"  decided by: {_shown(loaded, subject, issuer, decision)}")
    return report.exit_status


def _members(loaded: PolicyFile, decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {"file": str(loaded.path), **members(decision, "line member text is_set")}


def _shown(
    loaded: PolicyFile,
    subject: PublicSubject | None,
    issuer: TrustedIssuer | None,
    decision: Decision | None,
) -> str:
    if subject is None:
        return "nothing; name a subject with --issuer or --origin"
    if issuer is None:
        return f"{loaded.path}, which names no issuer for this subject"
    if decision is None:
        return "the card itself; no policy could accept it"
    unset = "" if decision.is_set else f"  ({decision.member} is not set: its default)"
    return f"{loaded.path}:{decision.line} {safe(decision.text)}{unset}"
