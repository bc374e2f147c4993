"""The interfaces of a card: where its agent can be called, whichever A2A version it is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from cardsign.card.schema import CARD_0_3, CARD_1_0, A2aVersion, fold
from cardsign.card.values import Json, members_of, pointer
from cardsign.errors import CardRefused
from cardsign.urls import Origin, Place, Url, interface_url, may_stand_at

InterfaceMember = Literal["supportedInterfaces", "url", "additionalInterfaces"]

#: What a card of A2A 0.3 speaks at its `url` where it does not say (A2A 0.3 5.5).
DEFAULT_TRANSPORT: Final = "JSONRPC"

_MEMBERS: Final[dict[str, InterfaceMember]] = {name: name for name in get_args(InterfaceMember)}
#: What names the binding of an interface, by the member under which it stands.
BINDING_MEMBERS: Final[dict[InterfaceMember, str]] = {
    "supportedInterfaces": "protocolBinding",
    "url": "preferredTransport",
    "additionalInterfaces": "transport",
}
# No two of these fall together: in an object of these names alone, each is read one way only.
_NAMES: Final = (
    CARD_1_0.fields.keys() | CARD_0_3.fields.keys() | {*BINDING_MEMBERS.values(), "tenant"}
)
_FOLDED: Final = {fold(name): name for name in _NAMES}


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface as the card has it. No value has been checked, not even its JSON type.

    Attributes:
        tokens: The reference tokens (RFC 6901) of its url in the document; of the whole member
            where that is no list.
        member: Under which member it stands, in the schema's own spelling.
        url: None where it has none.
        binding: `protocolBinding`, `transport` or `preferredTransport`; for `url` the default.
        version: The `protocolVersion` that it speaks; for a 0.3 interface the card's own.
        tenant: None where it has none.
    """

    tokens: tuple[str, ...]
    member: InterfaceMember
    url: Json
    binding: Json = None
    version: Json = None
    tenant: Json = None

    @property
    def written_in(self) -> A2aVersion:
        """The A2A version whose form it has; `version` says which one is spoken there."""
        return "1.0" if self.member == "supportedInterfaces" else "0.3"

    @property
    def pointer(self) -> str:
        """Where its url stands in the document, as a JSON pointer."""
        return pointer(*self.tokens)


def interfaces_of(
    document: Mapping[str, Json], *, any_spelling: bool = False
) -> Iterator[Interface]:
    """Yield every interface that a document names, in document order.

    Args:
        document: A card as received, or a payload made of one. Nothing about it is checked.
        any_spelling: Read member names as the most lenient reader does, without case and
            underscores; else only as the schemas spell them.
    """
    root = _by_name(document, any_spelling)
    for schema_name, value in root.items():
        member = _MEMBERS.get(schema_name)
        if member is None or value is None:
            continue
        name = _spelled(document, member)
        if member == "url":
            binding, version = root.get("preferredTransport"), root.get("protocolVersion")
            transport = DEFAULT_TRANSPORT if binding is None else binding
            yield Interface((name,), member, value, transport, version)
        elif not isinstance(value, list):
            yield Interface((name,), member, None)
        else:
            for index, element in enumerate(value):
                entry = _by_name(members_of(element), any_spelling)
                binding = entry.get(BINDING_MEMBERS[member])
                if any_spelling and binding is None:  # some readers take the other form's name
                    binding = entry.get("protocolBinding") or entry.get("transport")
                speaks = entry if member == "supportedInterfaces" else root
                yield Interface(
                    (name, str(index), _spelled(members_of(element), "url")),
                    member,
                    entry.get("url"),
                    binding,
                    speaks.get("protocolVersion") if isinstance(element, dict) else None,
                    entry.get("tenant"),
                )


def current_interfaces(document: Mapping[str, Json]) -> tuple[Interface, ...]:
    """Return what a client calls: the 1.0 interfaces, or else those of 0.3, with `url` first."""
    interfaces = tuple(interfaces_of(document))
    current = tuple(interface for interface in interfaces if interface.written_in == "1.0")
    return current or tuple(sorted(interfaces, key=lambda interface: interface.member != "url"))


def list_origins(document: Mapping[str, Json]) -> list[str]:
    """Return the origins of every interface, in any spelling, each once.

    Raises:
        CardRefused: ``card.interface_url``.
    """
    urls = (
        interface_url(str(interface.url), str(interface.binding))
        for interface in interfaces_of(document, any_spelling=True)
    )
    return list(dict.fromkeys(str(url.origin) for url in urls))


def _by_name(value: Mapping[str, Json], any_spelling: bool) -> Mapping[str, Json]:
    """Return the members by the schema's names."""
    if not any_spelling or _NAMES.issuperset(value):
        return value
    return {_FOLDED.get(fold(name), name): child for name, child in value.items()}


def _spelled(value: Mapping[str, Json], member: str) -> str:
    """Return the name of a member of the schema as it is spelled there."""
    if member in value:
        return member
    return next((name for name in value if _FOLDED.get(fold(name)) == member), member)


# Where they may stand.


def check_interfaces(
    payload: Mapping[str, Json],
    places: tuple[Place, ...] | None,
    origins: tuple[Origin, ...] | None = None,
    reserved: tuple[Place, ...] = (),
) -> None:
    """Hold every interface of a payload, in any spelling, against where it may stand (rule V4).

    Args:
        payload: The object that the signature covers.
        places: Where the verifier's policy allows interfaces; None for anywhere.
        origins: Where the issuer's keyset statement does, besides; None without a statement.
            Where both are None, a url must be a non-empty string and its grammar is not looked at.
        reserved: Where other issuers' interfaces may stand: not here, where that is narrower.

    Raises:
        CardRefused: ``card.no_interface`` (there must be one), ``card.interface_url``,
            ``card.origin_mismatch``.
    """
    has_interface = False
    for interface in interfaces_of(payload, any_spelling=True):
        has_interface = True
        if not isinstance(interface.url, str) or not interface.url:
            expected = "expected a list of interfaces, each with a non-empty string as url"
            raise CardRefused("card.interface_url", expected, path=interface.pointer)
        if places is None and origins is None:
            continue
        try:
            url = interface_url(interface.url, str(interface.binding))
        except CardRefused as refusal:
            raise CardRefused(refusal.code, refusal.message, path=interface.pointer) from refusal
        if not may_stand_at(url, places, reserved):
            raise _outside(url, places or (), "the policy's", interface.pointer)
        if origins is not None and url.origin not in origins:
            raise _outside(url, origins, "the keyset statement's", interface.pointer)
    if not has_interface:
        raise CardRefused("card.no_interface", "the card names no endpoint")


def _outside(url: Url, allowed: Iterable[object], owner: str, where: str) -> CardRefused:
    return CardRefused(
        "card.origin_mismatch",
        f"the interface at {url} lies outside {owner} {', '.join(map(str, allowed))}",
        path=where,
    )
