"""Proposing an entry of the policy from what a partner gave: a card, or a list of agents.

Neither is verified. What is proposed here is shown to a person, and adds no issuer by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cardsign.card.canonical import FULL_PROFILES, OPT_IN_PROFILES, PROFILES, Payloads, ProfileName
from cardsign.card.coverage import left_open
from cardsign.card.document import Card
from cardsign.card.interfaces import interfaces_of
from cardsign.card.strictjson import Json
from cardsign.errors import (
    CanonicalizationError,
    CardRefused,
    InputRefused,
    SignatureRefused,
    UsageFault,
)
from cardsign.files import read_bytes, read_toml
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import Entry, check_entry, read_entry
from cardsign.jose.keys import PublicKey
from cardsign.reasons import hint_for
from cardsign.trust.lock import ISSUER_NAME
from cardsign.trust.policy import ACCEPTED, Accept
from cardsign.urls import Origin, interface_url, parse_url

_MAX_SHOWN: Final = 8  # members that are named one by one
_LOSSY: Final = tuple(name for name in ACCEPTED["sdk"] if name not in FULL_PROFILES)
_NO_POLICY: Final = (
    "No policy accepts that. Ask the issuer to sign the whole card as well: cardsign sign."
)
#: Bytes of a list of agents; one has about 100.
MAX_AGENTS_BYTES: Final = 256 * 1024


def look_at(
    card: Card, keys: JwkSet | None, *, accept: Accept | None = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read a partner's card for what an entry that trusts it would have to say.

    Nothing of the card is verified.

    Args:
        card: The card, as its partner gave it.
        keys: The partner's keys; only with them can be said by which rule a signature was made.
        accept: What the entry is to say; None for the least that admits the card's signatures.

    Returns:
        The members `origins` and `accept`, as far as the card suggests them; and what a person
        should know, a sentence each.

    Raises:
        UsageFault: ``card.not_agent_card``: it is a JWK Set.
        InputRefused: ``trust.not_trustable``: no entry could trust it by its signatures; the hint
            holds what to tell its issuer.
    """
    if "keys" in card.document and "name" not in card.document:
        raise UsageFault(
            "card.not_agent_card",
            "this is a JWK Set, not a card",
            hint="Name the partner's card with --like, and its keys with --jwks.",
        )
    least, says = _accept(card, keys)
    is_unknown = keys is None and bool(card.document.get("signatures"))
    is_too_narrow = least == "sdk" and accept == "full"
    if is_too_narrow or (least is None and not is_unknown):
        raise InputRefused(
            "trust.not_trustable",
            "no entry of a policy could trust a card like this, so nothing was added",
            hint=" ".join((*says, "Leave out --accept full.") if is_too_narrow else says),
        )
    origins = list(dict.fromkeys(str(one) for one in _origins(card.document)))
    members = {"origins": origins, "accept": accept or least}
    return {name: one for name, one in members.items() if one}, tuple(says)


def _origins(document: Mapping[str, Json]) -> Iterator[Origin]:
    for interface in interfaces_of(document):
        try:
            yield interface_url(str(interface.url), str(interface.binding)).origin
        except CardRefused:
            continue  # verify refuses the card for it


def _accept(card: Card, keys: JwkSet | None) -> tuple[Accept | None, list[str]]:
    entries = card.document.get("signatures")
    if not isinstance(entries, list) or not entries:
        said = "The card is not signed. It is not trusted until its issuer signs it."
        return None, [said]
    payloads = Payloads(card)
    if keys is None:
        return _without_keys(payloads)
    faults = []
    fitting: set[str] = set()
    for untrusted_entry in entries:
        try:
            entry = read_entry(untrusted_entry, algorithms=ALGORITHMS)
            key = keys.find(entry.header.kid)
            if key is None:
                faults.append(f"No key of the set has the kid {entry.header.kid!r}.")
            elif found := _fitting(entry, key, payloads):
                fitting |= found
            else:
                faults.append(_why_none(entry, key, card.document))
        except SignatureRefused as refusal:
            faults.append(f"A signature is refused ({refusal.code}). {hint_for(refusal.code)}")
    if fitting & set(FULL_PROFILES):
        return "full", []
    for profile in _LOSSY:
        if profile in fitting:
            return _leaving_open(payloads, profile)
    for profile in OPT_IN_PROFILES:
        if profile in fitting:
            return None, [f"The signature was made by the rule {profile}. {_NO_POLICY}"]
    return None, list(dict.fromkeys(faults))


def _fitting(entry: Entry, key: PublicKey, payloads: Payloads) -> set[str]:
    """The profiles by which a signature fits."""
    made = {profile: payloads.of(profile) for profile in PROFILES}
    return {
        profile
        for profile, payload in made.items()
        if payload is not None and _fits(entry, payload.data, key)
    }


def _fits(entry: Entry, payload: bytes, key: PublicKey) -> bool:
    try:
        check_entry(entry, payload, key)
    except SignatureRefused as refusal:
        if refusal.code != "sig.bad":
            raise
        return False
    return True


def _why_none(entry: Entry, key: PublicKey, document: Mapping[str, Json]) -> str:
    """What was signed instead of a payload: JSON as a library writes it, or another card."""
    unsigned = {name: value for name, value in document.items() if name != "signatures"}
    for separators in ((",", ":"), (", ", ": ")):
        for ascii_only in (True, False):
            text = json.dumps(unsigned, separators=separators, ensure_ascii=ascii_only)
            if _fits(entry, text.encode("utf-8", "surrogatepass"), key):
                return (
                    "The signature covers JSON that is not canonical. Sign the bytes of RFC 8785, "
                    "which `cardsign canonicalize CARD` prints."
                )
    return (
        "The card was changed after it was signed, or is not the one signed, or its signer wrote "
        "JSON in a way of its own."
    )


def _leaving_open(payloads: Payloads, profile: ProfileName) -> tuple[Accept | None, list[str]]:
    payload = payloads.made(profile)
    if isinstance(payload, CanonicalizationError):
        raise payload
    accepted = left_open(payload, accept_lossy=True)
    pointers = accepted.listed.pointers
    shown = ", ".join(pointers[:_MAX_SHOWN]) + (" and more" if len(pointers) > _MAX_SHOWN else "")
    if accepted.fails:
        part = accepted.first[0].source.shown
        return None, [
            f"The signature is good, but made by the SDKs' rule {profile}, which leaves {shown} "
            f"unsigned; of these {part} counts. {_NO_POLICY}"
        ]
    said = f"The signature was made by the SDKs' rule {profile}"
    return "sdk", [f"{said}. It leaves {shown} unsigned." if shown else f"{said}."]


def _without_keys(payloads: Payloads) -> tuple[Accept | None, list[str]]:
    made = {one: payloads.of(one) for one in ACCEPTED["sdk"]}
    if len({one.data if one else None for one in made.values()}) == 1:
        return "full", ["All rules sign the same bytes of this card: all of it."]
    return None, [
        "By which rule the card was signed cannot be seen without keys: name them with --jwks "
        "FILE. If an SDK signed it, add --accept sdk."
    ]


def read_agents(path: Path) -> tuple[dict[str, Any], ...]:
    """Read the agents of a TOML file's ``[[a2a.external_agents]]``, each with `name` and `url`.

    Other members are not looked at.

    Returns:
        The members of an entry of the policy for each, with freshness waived: nothing else can be
        expected of an agent of which only a URL is known.

    Raises:
        UsageFault: ``usage.invalid``: there are none, one lacks a name or a URL, or two would get
            one name.
        FileFault: It cannot be read.
    """
    data = read_bytes(path, max_bytes=MAX_AGENTS_BYTES)
    try:
        members: Any = read_toml(data)
    except ValueError as exc:
        raise _not_read(path, f"this is no TOML: {exc}") from exc
    section = members.get("a2a")
    listed = section.get("external_agents") if isinstance(section, dict) else None
    if not isinstance(listed, list) or not listed:
        raise _not_read(path, "there is no [[a2a.external_agents]]")
    agents = tuple(_agent(path, number, one) for number, one in enumerate(listed, 1))
    numbers: dict[str, int] = {}
    for number, agent in enumerate(agents, 1):
        if (first := numbers.setdefault(agent["name"], number)) != number:
            both = f"agents {first} and {number} would both be named {agent['name']!r}"
            raise _not_read(path, both, "Give each agent a name of its own.")
    return agents


def _agent(path: Path, number: int, listed: Any) -> dict[str, Any]:
    name = listed.get("name") if isinstance(listed, dict) else None
    url = listed.get("url") if isinstance(listed, dict) else None
    if not isinstance(name, str) or not isinstance(url, str):
        raise _not_read(path, f"agent {number} lacks a `name` or a `url`")
    own = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:64]
    try:
        parsed = parse_url(url)
    except CardRefused as refusal:
        raise _not_read(path, f"the URL of agent {number}: {refusal.message}") from refusal
    if not ISSUER_NAME.fullmatch(own):
        own = parsed.origin.host.strip("[]").replace(":", "-")
    at_url = {"origins": [str(parsed.origin)], "cards": [str(parsed)]}
    return {"name": own, **at_url, "freshness": "waived"}


def _not_read(path: Path, message: str, hint: str = "") -> UsageFault:
    form = "Write [[a2a.external_agents]] with name = and url = for each agent."
    return UsageFault("usage.invalid", message, path=str(path), hint=hint or form)
