"""A card as one page for people: what a verifier says of it, by which keys, and how to enrol them.

The page comes from where the card comes from, so it proves nothing, and says so. What it says is
what a verifier would say that has pinned the newest keyset statement shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from cardsign import html
from cardsign.card.canonical import FULL_PROFILES
from cardsign.card.document import Card
from cardsign.errors import CardsignError, InputRefused
from cardsign.html import Html
from cardsign.inspect.description import describe_card
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import TYP_COMPAT
from cardsign.jose.keys import short_kid
from cardsign.statements.envelope import count
from cardsign.statements.keyset import IssuerKey, KeysetStatement, read_keyset
from cardsign.statements.members import MAX_TIME
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.times import day, minute, utc
from cardsign.trust.keyset_choice import newest_keyset
from cardsign.trust.policy import Holder, Issuer, KeysetAnchor, Policy, TrustedIssuer
from cardsign.trust.state import TransientStates
from cardsign.trust.supplied import SuppliedStatements
from cardsign.urls import parse_origin, parse_place
from cardsign.verify.report import Answer, Report, SignatureReport
from cardsign.verify.verdict import reach_verdict

_WEIGHT: Final[dict[Answer, str]] = {"yes": "good", "no": "bad", "unknown": "open"}
_MARK: Final[dict[Answer, str]] = {"yes": "✓ yes", "no": "✗ no", "unknown": "? unknown"}
_ASKED: Final = {
    "integrity": "Is it what was signed?",
    "authorised": "By the right key?",
    "current": "Is it current?",
    "complete": "Is all of it signed?",
}
_DRAWN: Final = {"valid": "span", "not yet valid": "coming"}
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
        said = {**describe_card(card), "a2a_version": card.a2a_version}
    except InputRefused:
        said = {}
    facts = [
        f"version {said['version']}" if said.get("version") else "",
        f"A2A {said['a2a_version']}" if said.get("a2a_version") else "",
        _count(len(report.signatures), "signature"),
    ]
    summary = html.joined(
        html.paragraph(said.get("description") or "", "soft"),
        html.paragraph(" · ".join(filter(None, facts)), "small"),
    )
    signatures = html.paragraph("There is none. Anyone on the way can change this card unseen.")
    if report.signatures:
        signatures = html.items(map(_signature, report.signatures), "items", "ol")
    sections = [
        ("", summary),
        ("What a verifier says", _verdict(report, issuer)),
        *([("The agent", _agent(said))] if said else []),
        ("Signatures", signatures),
        ("Keys", _keys(issuer, now)),
        *([("Keysets", _chain(issuer))] if issuer.chain else []),
        ("Trust this issuer", _enrol(issuer)),
    ]
    title = str(said.get("name") or "An Agent Card that cannot be read")
    foot = (
        f"Written at {minute(now)}. This page comes from where the card comes from: "
        "it is no evidence. Verify the card yourself, with keys that you compared over another "
        "channel."
    )
    return html.page(title, sections, foot), report.valid_until


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
        states = TransientStates()
        if self.chain:
            newest = self.chain[-1]
            places = tuple(map(parse_place, newest.origins))
            anchor = KeysetAnchor(newest.id, newest.issuer)
            policy = Policy((TrustedIssuer(newest.issuer, anchor, places),))
            releases = (self.published.release,) if self.published.release else ()
            supplied = SuppliedStatements((self.newest,), releases)
            expect = Issuer(newest.issuer)
            return reach_verdict(
                card, expect=expect, policy=policy, supplied=supplied, states=states, now=now
            )
        if self.jwks.keys:
            policy = Policy.from_jwks(self.jwks, name="the published key set")
            return reach_verdict(card, expect=Holder(), policy=policy, now=now)
        return reach_verdict(card, expect=None, policy=Policy(), now=now)


# ------------------------------------------------------------------ sections


def _verdict(report: Report, issuer: _Shown) -> Html:
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
    answers = [
        (_ASKED[name], html.element("span", _MARK[value], kind=_WEIGHT[value]))
        for name, value in asdict(report.answers).items()
    ]
    reasons = [
        html.joined(
            html.element("strong", f"{one.severity}: {one.worded}"),
            f" at {one.path}" if one.path else "",
            html.paragraph(one.hint, "soft") if one.hint else "",
        )
        for one in report.reasons
    ]
    checked = report.checked_at or datetime.min
    box = html.element(
        "div",
        html.element("strong", f"{mark} {report.verdict}", kind=kind),
        html.paragraph(f"{who} said so at {minute(checked)}.{until}"),
        kind=f"box {kind}",
    )
    if issuer.refused:
        reasons.append(
            html.joined(f"The statements published with it are refused: {issuer.refused}")
        )
    why = (html.element("h3", "Why"), html.items(reasons)) if reasons else ()
    return html.joined(box, html.terms(answers, "answers"), *why)


def _agent(said: dict[str, Any]) -> Html:
    interfaces = [
        html.joined(html.element("code", one["url"]), f" {one['binding']} {one['version'] or ''}")
        for one in said["interfaces"]
    ]
    schemes = [
        html.joined(
            html.element("code", one["name"]),
            f" {one['type'] or 'of an unknown type'} ",
            " ".join(
                str(one[name]) for name in ("scheme", "in", "parameter", "url") if name in one
            ),
        )
        for one in said["schemes"]
    ]
    pairs: list[tuple[object, object]] = [
        ("Interfaces", html.items(interfaces) if interfaces else "none"),
        ("Capabilities", ", ".join(said["capabilities"]) or "none declared"),
        ("Callers show", html.items(schemes) if schemes else "nothing: no scheme is declared"),
        ("Extended card", "yes, for authenticated callers" if said["extended_card"] else "no"),
    ]
    skills = [
        html.joined(
            html.element("h3", one["name"] or one["id"] or "a skill without a name"),
            html.paragraph(one["description"] or ""),
            html.paragraph(f"{one['id']} · {_words(one['tags'])}", "soft small"),
        )
        for one in said["skills"]
    ]
    more = said["left_out"]
    if more:
        pairs.append(("Not shown", ", ".join(f"{count:,} {name}" for name, count in more.items())))
    heading = html.element("h3", _count(len(skills) + more.get("skills", 0), "skill"))
    return html.joined(html.terms(pairs), heading, html.items(skills, "items"))


def _signature(one: SignatureReport) -> Html:
    kind = "good" if one.counts else "bad" if one.verdict in ("invalid", "revoked") else "open"
    if one.typ == TYP_COMPAT:
        kind = "open"
        covers = "It is for SDKs that sign less than the card. It never counts here."
    elif one.profile is None:
        covers = "It is not known to cover anything."
    elif one.uncovered_count:
        places = ", ".join(one.uncovered[:_SHOWN])
        more = one.uncovered_count - min(one.uncovered_count, _SHOWN)
        covers = f"All but {places}" + (f" and {more} more" if more else "")
    else:
        covers = "The whole card" if one.profile in FULL_PROFILES else "All that this card says"
    pairs: list[tuple[object, object]] = [
        ("Covers", covers),
        ("Key", html.element("code", one.kid or "-")),
        ("Algorithm", one.alg or "-"),
    ]
    pairs += [("Held by", one.holder)] if one.holder else []
    pairs += [("Payload", f"by the profile {one.profile}")] if one.profile else []
    pairs += [("Because", "; ".join(why.worded for why in one.reasons))] if one.reasons else []
    heading = html.joined(f"Signature {one.index}", _tag(one.verdict, kind))
    return html.joined(html.element("h3", heading), html.terms(pairs))


def _tag(value: object, kind: str) -> Html:
    return html.element("span", value, kind=f"tag {kind}")


def _keys(issuer: _Shown, now: datetime) -> Html:
    if not issuer.chain:
        keys = issuer.jwks.keys
        if not keys:
            return html.paragraph("No key is published with this card.")
        said = "No statement says since when or until when these keys hold."
        shown = (html.joined(html.element("code", one.kid), f" {one.alg}") for one in keys)
        return html.joined(html.paragraph(said, "soft"), html.items(shown))
    last = issuer.chain[-1]
    revoked = last.revoked | (issuer.release.revoked if issuer.release else frozenset())
    rows: dict[str, tuple[IssuerKey, int, int]] = {}
    ends_at = [*(one.iat for one in issuer.chain[1:]), MAX_TIME]
    for keyset, left in zip(issuer.chain, ends_at, strict=True):
        for key in keyset.keys:
            start = rows.get(key.public.thumbprint, (key, max(key.nbf, keyset.iat), 0))[1]
            rows[key.public.thumbprint] = key, start, min(key.exp, left)
    first = min((start for _, start, _ in rows.values()), default=last.iat)
    end = max((end for _, _, end in rows.values() if end < MAX_TIME), default=last.exp)
    end = max(end, int(now.timestamp()) + 1, first + 1)

    def share(moment: float) -> float:
        return min(max((moment - first) / (end - first), 0.0), 1.0)

    def row(thumbprint: str) -> Html:
        key, start, ends = rows[thumbprint]
        listed = any(one.public.thumbprint == thumbprint for one in last.keys)
        state, kind = _state(key, listed, thumbprint in revoked, now.timestamp())
        span = f"from {_day(start)} until {_day(ends)}"
        drawn = [(share(start), share(ends), _DRAWN.get(state, "ended"))]
        heading = html.joined(f"{' and '.join(key.roles)} key, {key.public.alg}", _tag(state, kind))
        label = f"{' and '.join(key.roles)} key, {state}: {span}"
        return html.joined(
            html.element("h3", heading),
            html.bar(label, drawn, share(now.timestamp())),
            html.paragraph(html.joined(html.element("code", key.public.kid)), "small"),
            html.paragraph(f"{span}, held by {key.holder or 'nobody named'}", "soft small"),
        )

    gone = sorted(revoked - rows.keys())
    return html.joined(
        html.paragraph(
            f"From {_day(first)} to {_day(end)}. The line marks {_day(now.timestamp())}.", "soft"
        ),
        html.items(map(row, rows), "items"),
        html.paragraph(f"Also revoked: {_words(gone)}") if gone else "",
    )


def _state(key: IssuerKey, listed: bool, revoked: bool, now: float) -> tuple[str, str]:
    if revoked:
        return "revoked", "bad"
    if not listed:
        return "no longer listed", "open"
    if now < key.nbf:
        return "not yet valid", "open"
    return ("ended", "open") if now >= key.exp else ("valid", "good")


def _chain(issuer: _Shown) -> Html:
    shown = [_keyset(new, old) for old, new in pairwise((None, *issuer.chain)) if new is not None]
    release = issuer.release
    told = (
        html.paragraph("No release says which cards are current.")
        if release is None
        else html.paragraph(
            f"Release {release.seq}, of {_day(release.iat)}, says which cards are current under "
            f"keyset {release.keyset.label}. It ends on {_day(release.exp)}.",
        )
    )
    said = "Each is signed by its roots and names the one before it. The newest comes first."
    if len(shown) > _SHOWN:
        said += f" {len(shown) - _SHOWN} older ones are left out."
    kept = html.items(shown[: -_SHOWN - 1 : -1], "items", "ol")
    return html.joined(html.paragraph(said, "soft"), told, kept)


def _keyset(keyset: KeysetStatement, before: KeysetStatement | None) -> Html:
    counted = count(keyset.envelope, (one.public for one in keyset.root.keys))
    signed = ", ".join(sorted(keyset.root.holders(counted))) or "nobody"
    holders = len({one.holder for one in keyset.root.keys})
    pairs: list[tuple[object, object]] = [
        ("Issued", _day(keyset.iat)),
        ("Ends", _day(keyset.exp)),
        ("Signed by", f"{signed} ({keyset.root.threshold} of {holders} root holders are needed)"),
        ("Changes", "; ".join(_changes(keyset, before)) or "nothing but its times"),
        ("Digest", html.element("code", keyset.digest)),
    ]
    is_recovery = before is not None and before.epoch != keyset.epoch
    heading = f"Keyset {keyset.label}" + (", a new epoch" if is_recovery else "")
    return html.joined(html.element("h3", heading), html.terms(pairs))


def _changes(keyset: KeysetStatement, before: KeysetStatement | None) -> Iterator[str]:
    old = {} if before is None else {one.public.thumbprint: one for one in before.keys}
    new = {one.public.thumbprint: one for one in keyset.keys}
    for what, keys in (
        ("lists", [new[one] for one in new.keys() - old.keys()]),
        ("no longer lists", [old[one] for one in old.keys() - new.keys()]),
    ):
        if keys:
            roles = sorted(one.named for one in keys)
            yield f"{what} {_words(roles)}"
    was = frozenset[str]() if before is None else before.revoked
    if fresh := sorted(short_kid(one) for one in keyset.revoked - was):
        yield f"revokes {_words(fresh)}"
    if before is not None and before.root != keyset.root:
        yield "has other roots"


def _enrol(issuer: _Shown) -> Html:
    if not issuer.chain and not issuer.jwks.keys:
        said = "This issuer publishes no key, so its cards cannot be verified. "
        return html.paragraph(said + "Ask it for a keyset statement or a key set.")
    if not issuer.chain:
        said = "This issuer publishes no keyset statement, so its cards can be verified, but "
        said += "neither revocation nor rollback can be seen. Save its key set and card:"
        command = "cardsign verify agent-card.json --jwks jwks.json"
        return html.joined(html.paragraph(said), html.element("pre", command))
    last = issuer.chain[-1]
    origin = parse_origin(last.origins[0])
    steps = (
        html.joined(
            f"Ask {last.issuer} for the digest of keyset {last.label}, by telephone or in person. "
            "Compare it with all digits of this one:",
            html.element("pre", last.digest),
        ),
        html.joined(
            "If they are the same, take it up. Another keyset is then refused:",
            html.element("pre", f"cardsign trust add {origin} --digest {last.digest}"),
        ),
        html.joined(
            "From then on, verify its cards:", html.element("pre", f"cardsign verify {origin}")
        ),
    )
    return html.items(steps, name="ol")


# ------------------------------------------------------------------ words


def _day(seconds: float) -> str:
    return "further notice" if seconds >= MAX_TIME else day(seconds)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _words(values: object) -> str:
    found: Sequence[object] = tuple(values) if isinstance(values, Iterable) else ()
    shown = ", ".join(map(str, found[:_SHOWN]))
    return shown + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
