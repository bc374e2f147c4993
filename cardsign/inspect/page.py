"""A card as one page for people: what a verifier says of it, by which keys, and how to enrol them.

The page comes from where the card comes from, so it proves nothing, and says so. What it says is
what a verifier would say that has pinned the keyset statement shown.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from cardsign import html
from cardsign.card.document import Card
from cardsign.errors import InputRefused
from cardsign.inspect.report import describe_card, words
from cardsign.jose.keys import JwkSet
from cardsign.statements.envelope import list_signers
from cardsign.statements.keyset import IssuerKey, KeysetStatement, read_keyset
from cardsign.statements.release import read_release
from cardsign.times import day, minute
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import parse_origin, parse_place
from cardsign.verify.verifier import Verifier


def card_page(
    untrusted_bytes: bytes,
    *,
    keyset: bytes | None = None,
    release: bytes | None = None,
    jwks: JwkSet | None = None,
    now: datetime,
) -> tuple[str, datetime | None]:
    """Write the page of a card.

    Args:
        untrusted_bytes: The card as received.
        keyset: Its issuer's newest keyset statement.
        release: Its issuer's newest release statement.
        jwks: Its issuer's key set.
        now: The time of the verdict; aware.

    Returns:
        The page, and when its verdict ends, if anything sets a deadline.

    Raises:
        StatementRefused: A statement cannot be read.
    """
    newest = None if keyset is None else read_keyset(keyset)
    policy, subject, supplied = Policy(), Subject(), NO_STATEMENTS
    who = "has no key of this card"
    if newest is not None and keyset is not None:
        anchor, places = KeysetAnchor(newest.id, newest.issuer), map(parse_place, newest.origins)
        policy = Policy((TrustedIssuer(newest.issuer, anchor, tuple(places)),))
        supplied = SuppliedStatements((keyset,), (release,) if release else ())
        subject = Subject(issuer=newest.issuer)
        who = f"trusts {newest.issuer} by keyset {newest.label}"
    elif jwks is not None and jwks.keys:
        policy = Policy.from_jwks(jwks, name="the published key set")
        subject = Subject(is_holder=True)
        who = "trusts the published key set"
    verifier = Verifier(policy, lock=Memory(), clock=lambda: now)
    report = verifier.judge(untrusted_bytes, subject, supplied)
    agent: dict[str, Any] = {}
    with suppress(InputRefused):
        card = Card.from_bytes(untrusted_bytes)
        agent = {**describe_card(card), "a2a_version": card.a2a_version}
    page = html.render(
        "page.html",
        agent=agent,
        report=report,
        who=who,
        keys=None if newest is None else _list_keys(newest, release, now),
        jwks=() if jwks is None else jwks.keys,
        newest=newest,
        origin=newest and parse_origin(newest.origins[0]),
        written=minute(now),
        minute=minute,
        words=words,
    )
    return page, report.valid_until


def _list_keys(newest: KeysetStatement, release: bytes | None, now: datetime) -> dict[str, Any]:
    """Return what the keyset and the release say of keys."""
    revoked, current = newest.revoked, "No release says which cards are current."
    if release is not None:
        statement = read_release(release)
        revoked |= statement.revoked
        current = f"Release {statement.seq} says which cards are current until {day(statement.exp)}"
    signers = list_signers(newest.envelope, (key.public for key in newest.root.keys))
    signed = ", ".join(sorted(newest.root.holders(signers))) or "nobody"
    holders = len({key.holder for key in newest.root.keys})

    def state(key: IssuerKey) -> tuple[str, str]:
        if key.public.thumbprint in revoked:
            return "revoked", "bad"
        if now.timestamp() < key.nbf:
            return "not yet valid", "open"
        return ("ended", "open") if now.timestamp() >= key.exp else ("valid", "good")

    return {
        "keyset": f"Keyset {newest.label} lists these keys until {day(newest.exp)}. Of its root "
        f"holders {signed} have signed; {newest.root.threshold} of {holders} are needed. {current}",
        "rows": [
            (key, *state(key), f"from {day(key.nbf)} until {day(key.exp)}") for key in newest.keys
        ],
        "gone": words(sorted(revoked - {key.public.thumbprint for key in newest.keys})[:12]),
    }
