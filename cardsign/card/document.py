"""A card as it was received: a JSON document, its A2A version, its signatures, its interfaces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cardsign.card.schema import ANY_CARD, A2aVersion, DocumentVersion, Message, fold
from cardsign.card.strictjson import object_or_none, parse_object
from cardsign.card.values import Json, children_of, count_values, kind_of, members_of, pointer
from cardsign.errors import CardRefused, JsonRefused
from cardsign.urls import Origin, Place, Url, interface_url, may_stand_at

#: The claims of a JWT (RFC 7519 4.1) by which a token can be told from a card.
TOKEN_CLAIMS: Final = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})

#: Values of a card but for its `signatures`, containers and the root included. The largest of 100
#: public cards has 1,865. To make and compare five payloads costs some 0.1 ms a value, so without
#: this limit 256 KiB of ``{}`` would cost a reader ten seconds.
MAX_CARD_VALUES: Final = 10_000
MAX_SIGNATURES: Final = 16  # entries: payloads by algorithms, by old and new key


@dataclass(frozen=True, slots=True)
class Card:
    """A card that could be read without ambiguity. Nothing about it has been verified.

    Attributes:
        document: The JSON object as received, unknown members and nulls included.
        a2a_version: ``1.0`` if it has `supportedInterfaces` (either spelling), ``0.3`` if it has
            `url` or a `protocolVersion` of 0.x, ``mixed`` for both, ``none`` for neither.
        signatures: The entries of `signatures`, each still to be read; empty if there is none.
    """

    document: Mapping[str, Json]
    a2a_version: DocumentVersion
    signatures: tuple[Json, ...]

    @classmethod
    def from_bytes(cls, untrusted_bytes: bytes) -> Card:
        """Read a card.

        Args:
            untrusted_bytes: The card as received.

        Raises:
            JsonRefused: As :func:`~cardsign.card.strictjson.parse_object`, then
                ``json.too_many_values``, without a place.
            CardRefused: ``card.two_spellings``, ``card.signatures_shape`` or
                ``card.signatures_too_many``.
        """
        document = parse_object(untrusted_bytes)
        # Each value but the root takes a byte and a separator, so few cards need the count.
        is_small = len(untrusted_bytes) <= 2 * MAX_CARD_VALUES
        if not is_small and count_values(unsigned(document)) > MAX_CARD_VALUES:
            message = f"the card is made of more than {MAX_CARD_VALUES} values"
            raise JsonRefused("json.too_many_values", message)
        return cls.from_object(document)

    @classmethod
    def from_object(cls, document: Mapping[str, Json]) -> Card:
        """Read a card from parsed JSON.

        What only bytes can show is not checked here: duplicate members, the size, numbers
        that lost precision. Prefer :meth:`from_bytes` for anything that came from outside.

        Raises:
            CardRefused: As for :meth:`from_bytes`.
        """
        _refuse_two_spellings(document, ANY_CARD, ())
        return cls(document, _a2a_version(document), _signatures(document))


def check_is_agent_card(payload: Mapping[str, Json]) -> None:
    """Refuse what is no card: a key signs tokens, links and events too.

    A card has a `name` that is a non-empty string, and `skills` that are a list or
    `capabilities` that are an object. Its other members are not looked at.

    Raises:
        CardRefused: ``card.not_agent_card``.
    """
    name = payload.get("name")
    if not isinstance(name, str) or not name:
        lacking = "a `name` that is a non-empty string"
    elif not isinstance(payload.get("skills"), list) and not isinstance(
        payload.get("capabilities"), dict
    ):
        lacking = "both a list of `skills` and an object of `capabilities`"
    else:
        return
    check_no_other_kind(payload)
    raise CardRefused("card.not_agent_card", f"the object lacks {lacking}")


def check_no_other_kind(payload: Mapping[str, Json]) -> None:
    """Refuse (``card.not_agent_card``) a JWK Set or task, which people name in place of a card."""
    if "name" in payload:
        return  # a card, whose other members may have any name
    if "skill_id" in payload:
        message = "this is a task or response of a contract, not a card"
        raise CardRefused("card.not_agent_card", message)
    if isinstance(payload.get("keys"), list):
        raise CardRefused("card.not_agent_card", "this is a key set (a JWK Set), not a card")


def unsigned(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return the members of a card but for its signatures; their values are the caller's."""
    return {name: value for name, value in document.items() if name != "signatures"}


def render(document: Mapping[str, Json]) -> bytes:
    """Return a card as we write it: UTF-8, two spaces, member order kept, a newline at the end."""
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False).encode() + b"\n"


def with_signatures(
    document: Mapping[str, Json], signatures: Sequence[Json], written: bytes | None
) -> bytes:
    """Return a card with these signatures, otherwise as it was written where that can be kept.

    Args:
        document: The card; its own `signatures` are replaced.
        signatures: What goes in, at least one.
        written: The bytes that `document` was read from; None where it was changed since.

    Returns:
        The bytes of the card.
    """
    spliced = None if written is None else _spliced(written, document, signatures)
    signed = {**document, "signatures": list(signatures)}
    # The last brace of a strict object closes it, so a member put there changes no other. The
    # last `"signatures"` need not begin the last member: it may stand deeper, or more may follow.
    if spliced is None or ("signatures" in document and object_or_none(spliced) != signed):
        return render(signed)
    return spliced


def _spliced(written: bytes, document: Mapping[str, Json], signatures: Sequence[Json]) -> bytes:
    """Return the written card with these signatures in place of those at its end."""
    end = written.rfind(b'"signatures"' if "signatures" in document else b"}")
    body = written[:end].rstrip().removesuffix(b",")
    comma = b"" if body.endswith(b"{") else b","
    return body + comma + render({"signatures": list(signatures)}).removeprefix(b"{")


def _a2a_version(document: Mapping[str, Json]) -> DocumentVersion:
    listed = document.get("supportedInterfaces"), document.get("supported_interfaces")
    is_1_0 = listed != (None, None)
    version = document.get("protocolVersion")
    is_0_3 = document.get("url") is not None or (
        isinstance(version, str) and version.startswith("0.")
    )
    if is_1_0:
        return "mixed" if is_0_3 else "1.0"
    return "0.3" if is_0_3 else "none"


def _signatures(document: Mapping[str, Json]) -> tuple[Json, ...]:
    signatures = document.get("signatures")
    if signatures is None:
        return ()
    if not isinstance(signatures, list):
        expected = f"expected a list of signature objects, found {kind_of(signatures)}"
        raise CardRefused("card.signatures_shape", expected, path="/signatures")
    if len(signatures) > MAX_SIGNATURES:
        text = f"{len(signatures)} signatures; at most {MAX_SIGNATURES} are read"
        raise CardRefused("card.signatures_too_many", text, path="/signatures")
    return tuple(signatures)


def _refuse_two_spellings(
    value: Mapping[str, Json], message: Message, tokens: tuple[str | int, ...]
) -> None:
    """Refuse two names in one object that a lenient reader takes for one schema name.

    Go's encoding/json folds case, protobuf JSON parsers accept snake_case: which of the two
    such a reader takes depends on their order.
    """
    if message.leaves.issuperset(value):  # true of most objects
        return
    spelled: dict[str, str] = {}
    for name, child in value.items():
        field = message.fields.get(name) or message.folded.get(fold(name))
        if field is None:
            continue
        if spelled.setdefault(field.name, name) != name:
            both = f"{spelled[field.name]!r} and {name!r} are two spellings of one schema name"
            raise CardRefused("card.two_spellings", both, path=pointer(*tokens, name))
        if field.message is None:
            continue
        if isinstance(child, dict) and field.shape != "map":
            _refuse_two_spellings(child, field.message, (*tokens, name))
            continue
        for token, element in children_of(child):
            if isinstance(element, dict):
                _refuse_two_spellings(element, field.message, (*tokens, name, token))


# The interfaces of a card: where its agent can be called, whichever A2A version it is in.


#: What a card of A2A 0.3 speaks at its `url` where it does not say (A2A 0.3 5.5).
DEFAULT_TRANSPORT: Final = "JSONRPC"

#: What names the binding of an interface, by the member under which it stands.
BINDING_MEMBERS: Final = {
    "supportedInterfaces": "protocolBinding",
    "url": "preferredTransport",
    "additionalInterfaces": "transport",
}
# No two of these fall together: in an object of these names alone, each is read one way only.
_NAMES: Final = ANY_CARD.fields.keys() | {*BINDING_MEMBERS.values(), "tenant"}
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
    member: str
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
    for member, value in root.items():
        if member not in BINDING_MEMBERS or value is None:
            continue
        name = spelled_name(document, member)
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
                    (name, str(index), spelled_name(members_of(element), "url")),
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


def spelled_name(value: Mapping[str, Json], member: str) -> str:
    """Return the name of a member of the schema as it is spelled there."""
    if member in value or _NAMES.issuperset(value):
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
    message = f"the interface at {url} lies outside {owner} {', '.join(map(str, allowed))}"
    return CardRefused("card.origin_mismatch", message, path=where)
