"""A card as one page for people: what a verifier says of it, by which keys, and how to enrol them.

The page comes from where the card comes from, so it proves nothing, and says so. What it says is
what a verifier would say that has pinned the newest keyset statement shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from cardsign import html
from cardsign.card.canonical import FULL_PROFILES
from cardsign.card.document import Card
from cardsign.errors import CardsignError, InputRefused
from cardsign.inspect.description import describe_card
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import TYP_COMPAT
from cardsign.statements.envelope import list_signers
from cardsign.statements.keyset import IssuerKey, KeysetStatement, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.times import day, minute, utc
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements
from cardsign.trust.walk import newest_keyset
from cardsign.urls import parse_origin, parse_place
from cardsign.verify.report import Answer, Report, SignatureReport
from cardsign.verify.verifier import Verifier

_WEIGHT: Final[dict[Answer, str]] = {"yes": "good", "no": "bad", "unknown": "open"}
_MARK: Final[dict[Answer, str]] = {"yes": "✓ yes", "no": "✗ no", "unknown": "? unknown"}
_ASKED: Final = {
    "integrity": "Is it what was signed?",
    "authorised": "By the right key?",
    "current": "Is it current?",
    "complete": "Is all of it signed?",
}
_SHOWN: Final = 12  # places, or words of a list, before the rest is counted


@dataclass(frozen=True, slots=True)
class Published:
    """What an issuer publishes with a card, as received.

    Attributes:
        keysets: Its keyset statements, in any order.
        release: Its newest release statement.
        jwks: Its key set.
    """

    keysets: tuple[bytes, ...] = ()
    release: bytes | None = None
    jwks: bytes | None = None


def card_page(
    untrusted_bytes: bytes, published: Published, *, now: datetime
) -> tuple[str, datetime | None]:
    """Write the page of a card.

    Args:
        untrusted_bytes: The card as received.
        published: What is published with it.
        now: The time of the verdict; aware.

    Returns:
        The page, and when its verdict ends, if anything sets a deadline.
    """
    issuer = _Shown.of(published)
    report = issuer.verdict(untrusted_bytes, now)
    try:
        card = Card.from_bytes(untrusted_bytes)
        words = {**describe_card(card), "a2a_version": card.a2a_version}
    except InputRefused:
        words = {}
    facts = [
        f"version {words['version']}" if words.get("version") else "",
        f"A2A {words['a2a_version']}" if words.get("a2a_version") else "",
        _count(len(report.signatures), "signature"),
    ]
    newest = issuer.chain[-1] if issuer.chain else None
    page = html.render(
        "page.html",
        title=str(words.get("name") or "An Agent Card that cannot be read"),
        description=words.get("description") or "",
        facts=" · ".join(filter(None, facts)),
        verdict=_verdict(report, issuer),
        refused=issuer.refused,
        agent=_agent(words) if words else None,
        signatures=[*map(_signature, report.signatures)],
        keys=_keys(issuer, now) if issuer.chain else None,
        jwks=issuer.jwks.keys,
        newest=newest,
        origin=newest and parse_origin(newest.origins[0]),
        written=minute(now),
    )
    return page, report.valid_until


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is published with the card, as far as it can be read."""

    published: Published
    chain: tuple[KeysetStatement, ...] = ()
    newest: bytes = b""
    release: ReleaseStatement | None = None
    jwks: JwkSet = field(default_factory=lambda: JwkSet(()))
    refused: str = ""

    @classmethod
    def of(cls, published: Published) -> _Shown:
        jwks, release = JwkSet(()), None
        with suppress(CardsignError):
            if published.jwks is not None:
                jwks = JwkSet.from_bytes(published.jwks)
        try:
            found = [(read_keyset(one), one) for one in published.keysets]
            found.sort(key=lambda pair: pair[0].number)
            read = tuple(one for one, _ in found)
            if read:
                newest_keyset(read, now=utc(read[-1].iat), skew=timedelta())
            if published.release is not None:
                release = read_release(published.release)
        except CardsignError as refusal:
            return cls(published, jwks=jwks, refused=refusal.message)
        return cls(published, read, found[-1][1] if found else b"", release, jwks)

    def verdict(self, card: bytes, now: datetime) -> Report:
        """What a verifier would say that has pinned the newest keyset, or else the key set."""
        policy, subject, supplied = Policy(), Subject(), NO_STATEMENTS
        if self.chain:
            newest = self.chain[-1]
            places = tuple(map(parse_place, newest.origins))
            anchor = KeysetAnchor(newest.id, newest.issuer)
            policy = Policy((TrustedIssuer(newest.issuer, anchor, places),))
            releases = (self.published.release,) if self.published.release else ()
            supplied = SuppliedStatements((self.newest,), releases)
            subject = Subject(issuer=newest.issuer)
        elif self.jwks.keys:
            policy = Policy.from_jwks(self.jwks, name="the published key set")
            subject = Subject(is_holder=True)
        verifier = Verifier(policy, lock=Memory(), clock=lambda: now)
        return verifier.judge(card, subject, supplied)


# ------------------------------------------------------------------ what the template shows


def _verdict(report: Report, issuer: _Shown) -> dict[str, Any]:
    trusted = report.verdict == "trusted"
    kind = "good" if trusted else "open" if report.verdict == "indeterminate" else "bad"
    mark = {"good": "✓", "open": "?", "bad": "✗"}[kind]
    if issuer.chain:
        newest = issuer.chain[-1]
        who = f"A verifier that trusts {newest.issuer} by keyset {newest.label}"
    elif issuer.jwks.keys:
        who = "A verifier that trusts the published key set"
    else:
        who = "A verifier that has no key of this card"
    until = f" It holds until {minute(report.valid_until)}." if report.valid_until else ""
    return {
        "kind": kind,
        "mark": f"{mark} {report.verdict}",
        "sentence": f"{who} said so at {minute(report.checked_at or datetime.min)}.{until}",
        "answers": [
            (_ASKED[name], _MARK[value], _WEIGHT[value])
            for name, value in asdict(report.answers).items()
        ],
        "reasons": [
            (
                f"{reason.severity}: {reason.worded}",
                f" at {reason.path}" if reason.path else "",
                reason.hint,
            )
            for reason in report.reasons
        ],
    }


def _agent(words: dict[str, Any]) -> dict[str, Any]:
    members = ("scheme", "in", "parameter", "url")
    schemes = [
        (
            scheme["name"],
            " ".join(
                [
                    scheme["type"] or "of an unknown type",
                    *(str(scheme[name]) for name in members if name in scheme),
                ]
            ),
        )
        for scheme in words["schemes"]
    ]
    skills = [
        (
            skill["name"] or skill["id"] or "a skill without a name",
            skill["description"] or "",
            f"{skill['id']} · {_words(skill['tags'])}",
        )
        for skill in words["skills"]
    ]
    more = words["left_out"]
    return {
        "interfaces": words["interfaces"],
        "capabilities": ", ".join(words["capabilities"]) or "none declared",
        "schemes": schemes,
        "extended": "yes, for authenticated callers" if words["extended_card"] else "no",
        "left_out": ", ".join(f"{count:,} {name}" for name, count in more.items()),
        "heading": _count(len(skills) + more.get("skills", 0), "skill"),
        "skills": skills,
    }


def _signature(signature: SignatureReport) -> dict[str, Any]:
    ended = signature.verdict in ("invalid", "revoked")
    kind = "good" if signature.counts else "bad" if ended else "open"
    if signature.typ == TYP_COMPAT:
        kind = "open"
        covers = "It is for SDKs that sign less than the card. It never counts here."
    elif signature.profile is None:
        covers = "It is not known to cover anything."
    elif signature.uncovered_count:
        places = ", ".join(signature.uncovered[:_SHOWN])
        more = signature.uncovered_count - min(signature.uncovered_count, _SHOWN)
        covers = f"All but {places}" + (f" and {more} more" if more else "")
    else:
        is_full = signature.profile in FULL_PROFILES
        covers = "The whole card" if is_full else "All that this card says"
    pairs = [
        ("Algorithm", signature.alg or "-"),
        ("Held by", signature.holder),
        ("Payload", f"by the profile {signature.profile}" if signature.profile else ""),
        ("Because", "; ".join(reason.worded for reason in signature.reasons)),
    ]
    return {
        "heading": f"Signature {signature.index}",
        "verdict": signature.verdict,
        "kind": kind,
        "covers": covers,
        "kid": signature.kid or "-",
        "more": [(name, value) for name, value in pairs if value],
    }


def _keys(issuer: _Shown, now: datetime) -> dict[str, Any]:
    """Return what the newest keyset and the release say of keys."""
    newest, release = issuer.chain[-1], issuer.release
    revoked = newest.revoked | (release.revoked if release else frozenset())
    rows = []
    for key in newest.keys:
        state, kind = _state(key, key.public.thumbprint in revoked, now.timestamp())
        span = f"from {day(key.nbf)} until {day(key.exp)}"
        rows.append(
            {
                "heading": f"{' and '.join(key.roles)} key, {key.public.alg}",
                "state": state,
                "kind": kind,
                "kid": key.public.kid,
                "words": f"{span}, held by {key.holder or 'nobody named'}",
            }
        )
    listed = {key.public.thumbprint for key in newest.keys}
    current = "No release says which cards are current."
    if release is not None:
        current = f"Release {release.seq} says which cards are current until {day(release.exp)}."
    signers = list_signers(newest.envelope, (key.public for key in newest.root.keys))
    signed = ", ".join(sorted(newest.root.holders(signers))) or "nobody"
    holders = len({key.holder for key in newest.root.keys})
    return {
        "keyset": f"Keyset {newest.label} lists these keys until {day(newest.exp)}. Of its root "
        f"holders {signed} have signed; {newest.root.threshold} of {holders} are needed. {current}",
        "rows": rows,
        "gone": _words(sorted(revoked - listed)),
    }


def _state(key: IssuerKey, revoked: bool, now: float) -> tuple[str, str]:
    if revoked:
        return "revoked", "bad"
    if now < key.nbf:
        return "not yet valid", "open"
    return ("ended", "open") if now >= key.exp else ("valid", "good")


# ------------------------------------------------------------------ words


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _words(values: object) -> str:
    words: Sequence[object] = tuple(values) if isinstance(values, Iterable) else ()
    shown = ", ".join(map(str, words[:_SHOWN]))
    return shown + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")
