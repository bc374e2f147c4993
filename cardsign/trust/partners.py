"""Proposing an entry of the policy from what a partner gave: a card, or a list of agents.

Both are a stranger's word. What is proposed here is shown to a person, and adds nobody by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cardsign.card.canonical import FULL_PROFILES, OPT_IN_PROFILES, PROFILES, ProfileName
from cardsign.card.coverage import Payloads
from cardsign.card.document import Card
from cardsign.card.interfaces import interfaces_of
from cardsign.card.strictjson import Json
from cardsign.errors import CanonicalizationError, CardRefused, SignatureRefused, UsageFault
from cardsign.files import read_bytes, read_toml
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import Entry, check_entry, read_entry
from cardsign.jose.keys import PublicKey
from cardsign.reasons import hint_for
from cardsign.records import dataclass
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


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a card suggests for the entry of its issuer. Nothing of it was verified.

    Attributes:
        origins: Where its interfaces stand.
        accept: The least that admits its signatures; None where it cannot be said or none does.
        says: What a person should know, a sentence each: what stays unsigned, what is not known,
            or what to ask the partner's engineer for.
        is_trustable: Whether an entry could trust the card by its signatures; also True where
            that cannot be said without keys.
    """

    origins: tuple[str, ...]
    accept: Accept | None
    says: tuple[str, ...]
    is_trustable: bool


def look_at(untrusted_card: bytes, keys: JwkSet | None) -> Likeness:
    """Read a partner's card for what an entry that trusts it would have to say.

    Args:
        untrusted_card: The card.
        keys: The partner's keys, if they are known: only with them can be said by which rule a
            signature was made.

    Raises:
        InputRefused: It is no card that can be read.
    """
    card = Card.from_bytes(untrusted_card)
    if "keys" in card.document and "name" not in card.document:
        raise CardRefused(
            "card.not_agent_card",
            "this is a JWK Set, not a card",
            hint="Name the partner's card with --like, and its keys with --jwks.",
        )
    origins = tuple(dict.fromkeys(str(one) for one in _origins(card.document)))
    accept, says = _accept(card, keys)
    is_trustable = accept is not None or (keys is None and bool(card.document.get("signatures")))
    return Likeness(origins, accept, tuple(says), is_trustable)


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
    payloads = Payloads(card.document)
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
    accepted = payloads.left_open(payload, accept_lossy=True)
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


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """An agent of a list.

    Attributes:
        name: As an issuer of a policy may be called.
        url: Where its card is asked for.
        origin: Of that URL.
    """

    name: str
    url: str
    origin: str


def read_agents(path: Path) -> tuple[ListedAgent, ...]:
    """Read the agents of a TOML file's ``[[a2a.external_agents]]``, each with `name` and `url`.

    Other members are not looked at.

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
        if (first := numbers.setdefault(agent.name, number)) != number:
            both = f"agents {first} and {number} would both be named {agent.name!r}"
            raise UsageFault(
                "usage.invalid", both, path=str(path), hint="Give each agent a name of its own."
            )
    return agents


def _agent(path: Path, number: int, listed: Any) -> ListedAgent:
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
    return ListedAgent(own, str(parsed), str(parsed.origin))


def _not_read(path: Path, message: str) -> UsageFault:
    hint = "Write [[a2a.external_agents]] with name = and url = for each agent."
    return UsageFault("usage.invalid", message, path=str(path), hint=hint)
