"""A gateway's copy of a card: verified, its endpoints the gateway's, signed with the gateway's key.

The copy says in our extension where it came from. Whoever trusts the gateway trusts what it says of
the upstream. The upstream's own signature does not come along: it covers other endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from cardsign.card.document import interfaces_of, render, spelled_name
from cardsign.card.extensions import EXTENDED_FLAGS, UPSTREAM, kept_of, with_kept
from cardsign.card.schema import fold
from cardsign.card.values import Json, elements_of, members_of, value_at
from cardsign.errors import CardRefused, UsageFault
from cardsign.findings import cut
from cardsign.jose.jws import Signer
from cardsign.sign import SignedCard, SigningOptions, sign_with_notes
from cardsign.times import stamp
from cardsign.urls import Url, interface_url, parse_place, parse_url
from cardsign.verify.report import Report, trusted_card

#: Gateways through which a card may have passed. More is a loop, or nobody knows any more.
MAX_GATEWAYS: Final = 4
#: What stands for the path of each endpoint in the gateway's URL.
PATH: Final = "{path}"

#: The members that announce an extended card, which a gateway has none of; as `fold` spells them.
_EXTENDED: Final = {*map(fold, ("extendedAgentCard", *EXTENDED_FLAGS))}


def read_via(document: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the gateways that a card came through as it says itself, the first one first.

    Nothing is verified: verify the card first.

    Raises:
        CardRefused: ``gateway.upstream``: it says something else than a gateway writes.
    """
    upstream = kept_of(document).get(UPSTREAM)
    if upstream is None:
        return ()
    urls = tuple(map(str, elements_of(members_of(upstream).get("via"))))
    with suppress(CardRefused):
        if urls and len(set(map(_gateway, urls))) == len(urls):
            return urls
    expected = "expected `upstream` of our extension as a gateway writes it"
    raise CardRefused("gateway.upstream", expected, path="/capabilities/extensions")


def _gateway(url: str) -> str:
    """Return a gateway's URL as it is compared with others: a slash at its end says nothing."""
    return str(parse_url(url)).rstrip("/")


def resign_card(
    upstream: Report,
    signers: Sequence[Signer],
    *,
    url: str,
    now: datetime,
    options: SigningOptions | None = None,
) -> SignedCard:
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

    Returns:
        The signed copy.

    Raises:
        NotTrusted, NoVerdict: The upstream's card is not trusted, or there is no verdict.
        CardRefused: ``gateway.loop``: it came through this gateway already, or through too many;
            ``gateway.upstream``; ``card.interface_url``: an endpoint is not a URL, or has a query
            that ``{path}`` would lose; or `url` is not one.
        UsageFault: ``usage.invalid``: two endpoints would become one.
        SigningRefused, SignerFault: As :func:`cardsign.sign.sign_document`.
    """
    card = trusted_card(upstream).document
    via = (*read_via(card), url.replace(PATH, ""))
    if _gateway(via[-1]) in map(_gateway, via[:-1]) or len(via) > MAX_GATEWAYS:
        gateways = cut(", ".join(via[:-1]))
        raise CardRefused("gateway.loop", f"the card came through {gateways} already")
    _move_endpoints(card, url)
    for owner in (card, members_of(card.get(spelled_name(card, "capabilities")))):
        for name in [name for name in owner if fold(name) in _EXTENDED]:
            del owner[name]
    copy = with_kept(card, {**kept_of(card), UPSTREAM: _origin(upstream, now, via)})
    return sign_with_notes(render(copy), signers, options or SigningOptions())


def _origin(upstream: Report, now: datetime, via: tuple[str, ...]) -> dict[str, Json]:
    """Return the member ``upstream`` of our extension; see `docs/guides/gateway.md`."""
    fitting = (entry for entry in upstream.signatures if entry.profile == upstream.profile)
    signature = next(entry for entry in fitting if entry.counts)
    until = upstream.valid_until
    return {
        "issuer": upstream.issuer or upstream.subject or "",
        "payload_sha256": signature.payload_sha256,
        "verified_at": stamp(now),
        **({} if until is None else {"valid_until": stamp(until)}),
        "via": list(via),
    }


def _move_endpoints(card: dict[str, Any], url: str) -> None:
    """Let every endpoint of a card be the gateway's."""
    own = parse_url(url.replace(PATH, "/"))
    below = parse_place(url.partition(PATH)[0]) if PATH in url else None
    targets: dict[str, set[Url]] = {}
    for interface in [*interfaces_of(card, any_spelling=True)]:
        theirs = interface_url(str(interface.url), str(interface.binding))
        if theirs == own or (below is not None and below.holds(theirs)):
            message = f"the card is of {own} already"
            raise CardRefused("gateway.loop", message, path=interface.pointer)
        if theirs.query and PATH in url:
            message = f"{PATH} would lose its query"
            raise CardRefused("card.interface_url", message, path=interface.pointer)
        place: Any = value_at(card, interface.tokens[:-1])
        at = place[interface.tokens[-1]] = str(parse_url(url.replace(PATH, theirs.path or "/")))
        targets.setdefault(at, set()).add(theirs)
    for at, urls in targets.items():
        if len(urls) > 1:
            message = f"the card has endpoints at {len(urls)} URLs, and the gateway's is one: {at}"
            hint = f"Let {PATH} stand for the path of each: --url '{url.rstrip('/')}{PATH}'"
            if PATH in url:
                hint = "They have the same path on several hosts. No gateway can tell them apart."
            raise UsageFault("usage.invalid", message, hint=hint)
