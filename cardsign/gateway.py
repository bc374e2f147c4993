"""A gateway's copy of a card: verified, its endpoints the gateway's, signed with the gateway's key.

The copy says in our extension where it came from. Who trusts the gateway trusts what the gateway
says of the upstream; the upstream's own signature does not come along, for it covers other
endpoints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, cast

from cardsign.card.document import Card, unsigned
from cardsign.card.extensions import UPSTREAM, kept_of, with_kept
from cardsign.card.interfaces import interfaces_of
from cardsign.card.tree import Source
from cardsign.card.values import Json
from cardsign.errors import CardRefused, InputRefused, UsageFault
from cardsign.findings import Finding, Place
from cardsign.jose.jws import Signer
from cardsign.sign.signing import SignedCard, SigningOptions, sign_with_notes
from cardsign.times import read_stamp, stamp
from cardsign.urls import Url, interface_url, parse_place, parse_url
from cardsign.verify.report import Report, trusted_card

#: Gateways through which a card may have passed. More is a loop, or nobody knows any more.
MAX_GATEWAYS: Final = 4
MAX_ISSUER: Final = 1024  # characters of its name
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
#: What the issuer's own statements say against a card that was accepted before.
_WITHDRAWN: Final = frozenset(
    {"key.revoked", "card.digest_unlisted", "card.listed_elsewhere", "card.rollback"}
)
#: What stands for the path of each endpoint in the gateway's URL.
PATH: Final = "{path}"

_EXTENDED: Final = "extendedAgentCard", "supportsAuthenticatedExtendedCard"
#: Of the upstream's maker, not of its endpoints; they stay without a word.
_ABOUT: Final = frozenset({"provider", "documentationUrl", "iconUrl", UPSTREAM})


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a gateway's copy came from, as the copy itself says; see `docs/guides/gateway.md`.

    Attributes:
        issuer: What the gateway's policy calls the issuer.
        payload_sha256: SHA-256 of the payload that the issuer signed, lower-case hex.
        verified_at: When this payload was first verified, UTC, in whole seconds.
        valid_until: When what showed that it is current ends, likewise; None for no end.
        via: The gateways, the first one first, each by its URL without ``{path}``.
    """

    issuer: str
    payload_sha256: str
    verified_at: datetime
    valid_until: datetime | None
    via: tuple[str, ...]

    def is_past(self, now: datetime) -> bool:
        """Whether it has come to its end."""
        return self.valid_until is not None and self.valid_until <= now

    def to_json(self) -> dict[str, Json]:
        """The member ``upstream`` of our extension."""
        until = self.valid_until
        return {
            "issuer": self.issuer,
            "payload_sha256": self.payload_sha256,
            "verified_at": stamp(self.verified_at),
            **({} if until is None else {"valid_until": stamp(until)}),
            "via": list(self.via),
        }


def read_upstream(document: Mapping[str, Json]) -> Upstream | None:
    """What a card says of where it came from; None where it is no gateway's copy.

    Nothing is verified: verify the card first.

    Raises:
        CardRefused: ``gateway.upstream``: it says something else than a gateway writes.
    """
    said = kept_of(document).get(UPSTREAM)
    if said is None:
        return None
    try:
        members: Any = said
        until = members.get("valid_until")
        found = Upstream(
            members["issuer"],
            members["payload_sha256"],
            read_stamp(members["verified_at"]),
            None if until is None else read_stamp(until),
            tuple(members["via"]),
        )
        is_named = len(found.issuer) <= MAX_ISSUER and found.issuer.isprintable()
        is_ours = is_named and _DIGEST.fullmatch(found.payload_sha256) is not None
        passed = {_gateway(one) for one in found.via}
        if is_ours and len(passed) == len(found.via) and found.to_json() == said:
            return found
        cause: Exception | None = None
    except (AttributeError, CardRefused, KeyError, TypeError, ValueError) as exc:
        cause = exc
    expected = "expected `upstream` of our extension as a gateway writes it"
    raise CardRefused("gateway.upstream", expected, path="/capabilities/extensions") from cause


def _gateway(url: str) -> str:
    """A gateway's URL as it is compared with others: a slash at its end says nothing."""
    return str(parse_url(url)).rstrip("/")


def resign_card(
    upstream: Report,
    signers: Sequence[Signer],
    *,
    url: str,
    now: datetime,
    options: SigningOptions | None = None,
    previous: bytes | None = None,
) -> tuple[SignedCard, tuple[Finding, ...]]:
    """Make the gateway's copy of a card, and sign it.

    Every endpoint becomes `url`. What is not an endpoint stays. The copy announces no extended
    card, since the gateway has none, and carries none of the upstream's signatures.

    Args:
        upstream: The verdict on the upstream's card.
        signers: The gateway's keys, the older first.
        url: The gateway's endpoint. ``{path}`` stands for the path of each endpoint, and is
            needed where the upstream has endpoints at several URLs.
        now: The time, with its zone.
        options: How it is signed.
        previous: The copy that was made before. It comes back as it is while half of its time is
            ahead, if the payload, the gateway and the signers are the same.

    Returns:
        The signed copy, and a note for each place that still names the upstream's host.

    Raises:
        NotTrusted, NoVerdict: The upstream's card is not trusted, or there is no verdict.
        CardRefused: ``gateway.loop``: it came through this gateway already, or through too many;
            ``gateway.upstream``; ``card.interface_url``: an endpoint is no URL, or has a query
            that ``{path}`` would lose; or `url` is none.
        UsageFault: ``usage.invalid``: two endpoints would become one.
        SigningRefused, SignerFault: As :func:`cardsign.sign.signing.sign_document`.
    """
    document = unsigned(cast("Mapping[str, Json]", trusted_card(upstream).document))
    before = read_upstream(document)
    via = (*(before.via if before else ()), url.replace(PATH, ""))
    if _gateway(via[-1]) in map(_gateway, via[:-1]):
        raise CardRefused("gateway.loop", f"the card came through {via[-1]} already")
    if len(via) > MAX_GATEWAYS:
        raise CardRefused("gateway.loop", f"the card came through {len(via) - 1} gateways already")
    origin = _origin(upstream, now, via)
    moved, hosts = _at_gateway(document, url)
    kept = {name: one for name, one in kept_of(moved).items() if name != "supportedInterfaces"}
    held = None if previous is None else _held(previous, origin)
    if held is not None:
        origin = held
    made = with_kept(_without_extended(moved), {**kept, UPSTREAM: origin.to_json()})
    data = json.dumps(made, ensure_ascii=False, indent=2).encode() + b"\n"
    if previous is not None and held and unsigned(Card.from_bytes(previous).document) == made:
        data = previous
    signed = sign_with_notes(data, signers, options or SigningOptions())
    notes = (
        Finding("gateway.names_upstream", f"this still names {host}", Place(source.pointer))
        for source, host in _named(made, hosts, Source())
    )
    return signed, tuple(notes)


def _origin(upstream: Report, now: datetime, via: tuple[str, ...]) -> Upstream:
    signature = next(one for one in upstream.signatures if one.counts)
    return Upstream(
        upstream.issuer or upstream.subject or "",
        str(signature.payload_sha256),
        now.astimezone(UTC).replace(microsecond=0),
        upstream.valid_until,
        via,
    )


def is_over(copy: bytes, verdict: Report, now: datetime) -> bool:
    """Whether a copy must not be served any more, by the newest verdict on the upstream's card.

    It is over after its `valid_until`, and where a trusted card is another one than was copied.
    Of a card that is not trusted only the issuer's statements count, and only if they speak
    against the payload that was copied: anybody on the way can give any other answer.

    Raises:
        JsonRefused, CardRefused: `copy` is no card; ``gateway.upstream``.
    """
    origin = read_upstream(Card.from_bytes(copy).document)
    if origin is None:  # no gateway has made it, so it is nobody's to take away
        return False
    if origin.is_past(now):
        return True
    copied = [one for one in verdict.signatures if one.payload_sha256 == origin.payload_sha256]
    if verdict.verdict == "trusted":
        return not any(one.counts for one in copied)
    why = {reason.code for one in copied for reason in (*one.reasons, *verdict.reasons)}
    return verdict.verdict == "untrusted" and not _WITHDRAWN.isdisjoint(why)


def is_copy(card: bytes) -> bool:
    """Whether a card says that a gateway has made it; another is nobody's to take away."""
    try:
        return read_upstream(Card.from_bytes(card).document) is not None
    except InputRefused:
        return False


def is_past(copy: bytes, now: datetime) -> bool:
    """Whether a copy has come to its `valid_until`, whatever the upstream's card is by now.

    Raises:
        JsonRefused, CardRefused: As for :func:`is_over`.
    """
    origin = read_upstream(Card.from_bytes(copy).document)
    return origin is not None and origin.is_past(now)


def _at_gateway(document: dict[str, Json], url: str) -> tuple[dict[str, Json], frozenset[str]]:
    """The card with the gateway's endpoints, and the hosts of the upstream's."""
    moved: dict[str, Any] = json.loads(json.dumps(document))
    own = parse_url(url.replace(PATH, "/"))
    below = parse_place(url.partition(PATH)[0]) if PATH in url else None
    found: dict[str, Url] = {}
    made: dict[str, set[Url]] = {}
    for one in interfaces_of(document, any_spelling=True):
        if not isinstance(one.url, str):
            raise CardRefused("card.interface_url", "expected a URL", path=one.pointer)
        theirs = found[one.url] = interface_url(one.url, str(one.binding))
        if theirs == own or (below is not None and below.holds(theirs)):
            raise CardRefused("gateway.loop", f"the card is of {own} already", path=one.pointer)
        if theirs.query and PATH in url:
            what = f"{PATH} would lose its query"
            raise CardRefused("card.interface_url", what, path=one.pointer)
        place: Any = moved
        for token in one.tokens[:-1]:
            place = place[int(token)] if isinstance(place, list) else place[token]
        at = place[one.tokens[-1]] = str(parse_url(url.replace(PATH, theirs.path or "/")))
        made.setdefault(at, set()).add(theirs)
    for at, several in made.items():
        if len(several) > 1:
            raise UsageFault(
                "usage.invalid",
                f"the card has endpoints at {len(several)} URLs, and the gateway's is one: {at}",
                hint=f"Let {PATH} stand for the path of each: --url '{url.rstrip('/')}{PATH}'"
                if PATH not in url
                else "They have the same path on several hosts. No gateway can tell them apart.",
            )
    return moved, frozenset(one.origin.host for one in found.values()) - {own.origin.host}


def _without_extended(document: dict[str, Json]) -> dict[str, Json]:
    """The card without the announcement of an extended one."""
    card = {name: one for name, one in document.items() if name not in _EXTENDED}
    capabilities = card.get("capabilities")
    if isinstance(capabilities, dict):
        left = {name: one for name, one in capabilities.items() if name not in _EXTENDED}
        card["capabilities"] = left
    return card


def _held(previous: bytes, origin: Upstream) -> Upstream | None:
    """What the copy before says, if it is of the same payload and half of its time is ahead."""
    try:
        held = read_upstream(Card.from_bytes(previous).document)
    except InputRefused:  # a damaged copy is made anew
        held = None
    if held is None:
        return None
    same = replace(held, verified_at=origin.verified_at, valid_until=origin.valid_until)
    if same != origin or (held.valid_until is None) != (origin.valid_until is None):
        return None
    if held.valid_until is None:
        return held
    half = held.verified_at + (held.valid_until - held.verified_at) / 2
    return held if held.verified_at <= origin.verified_at < half else None


def _named(value: Json, hosts: frozenset[str], at: Source) -> Iterator[tuple[Source, str]]:
    """Where a card still names one of these hosts."""
    if isinstance(value, str):
        for host in sorted(hosts):
            if host in value.lower():
                yield at, host
                return
    elif isinstance(value, dict):
        for name, child in value.items():
            if name not in _ABOUT:
                yield from _named(child, hosts, Source(at, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _named(child, hosts, Source(at, index))
