"""The profiles: which bytes a signature on a card covers, and what of the card it leaves open.

A2A 1.0 contradicts itself (8.4.1 against 8.4.2 and 8.4.3) and no SDK reproduces its example,
so each reading has a name. All of them drop the top-level `signatures`, apply a rule, and
write what is left as RFC 8785 (JCS).

By default a signer serves the full ones, and the lossy ones where they are safe for the card
(:func:`cardsign.sign.payloads_to_sign`). A verifier may accept all four:

``served-as-is`` (full)
    Nothing else is removed.
``rule-1-as-written`` (full)
    A2A 1.0 8.4.1 rule 1 on what is present: null and non-REQUIRED, non-`optional` defaults of
    schema members go; everything else stays, unknown members and free-form content untouched.
``prune-empty`` (lossy)
    Only 1.0 schema members, under either proto3 JSON spelling; proto defaults go; then null,
    "", [] and {} recursively, in lists and free-form content too.
``prune-empty-upgraded`` (lossy)
    :func:`cardsign.card.rules.upgrade` first, then ``prune-empty``.

No verifier of ours accepts this one. A signer serves it with `compat="all"`; by default only of a
card of A2A 0.3, where it is safe:

``js-instance`` (compat only)
    :func:`cardsign.card.rules.as_js_client`: the card as the client of @a2a-js/sdk holds it,
    mostly ``prune-empty`` without `securitySchemes`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

from cardsign.card import rules
from cardsign.card.document import DEFAULT_TRANSPORT, Card, Interface, interfaces_of, unsigned
from cardsign.card.rules import Node, RuleRefusal, Tokens, find, write
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.security import flat_requirements, unwrapped
from cardsign.card.values import Json, jcs, members_of, pointer
from cardsign.errors import CanonicalizationError, check_types

#: The names of the profiles, as options, policies and verdicts spell them.
ProfileName: TypeAlias = Literal[
    "served-as-is",
    "rule-1-as-written",
    "prune-empty",
    "prune-empty-upgraded",
    "js-instance",
]
#: Compat signatures that are made: those that are safe for the card, all that it can have, none.
Compat: TypeAlias = Literal["safe", "all", "none"]


class Payloads:
    """The payloads of one card, made when first asked for, and what their rules share.

    A card may repeat one signature sixteen times; the work of making its payloads is done once.

    Args:
        card: The card, or its document as for :func:`canonicalize`.

    Attributes:
        members: The card's members but for `signatures`; they are the caller's values.
    """

    def __init__(self, card: Card | Mapping[str, Json]) -> None:
        self.members = unsigned(card.document if isinstance(card, Card) else card)
        self._made: dict[str, Payload | CanonicalizationError] = {}

    def payload_or_refusal(self, profile: ProfileName) -> Payload | CanonicalizationError:
        """Return the payload under one of :data:`PROFILES`, or the refusal to make one."""
        if profile not in self._made:
            self._made[profile] = self._make(profile)
        return self._made[profile]

    def _make(self, profile: ProfileName) -> Payload | CanonicalizationError:
        try:
            rewrite = PROFILES[profile]
            if rewrite is None or (rewritten := rewrite(self)) is self.tree:  # nothing was changed
                return Payload(profile, self.data, self.members)
            value = write(rewritten)
            assert isinstance(value, dict)  # noqa: S101 - every rewrite maps an object to an object
            return Payload(profile, jcs(value), value, self.tree, rewritten)
        except RuleRefusal as refusal:
            path, problem = pointer(*(find(self.tree, refusal.node.origin) or ())), str(refusal)
        except CanonicalizationError as refusal:
            path, problem = "", refusal.message
        except RecursionError:  # an object of Python's: what is read has fewer levels
            path, problem = "", "the value is nested too deeply"
        message = f"{profile} has no payload for this card: {problem}"
        return CanonicalizationError("canonical.no_form", message, path=path)

    def of(self, profile: ProfileName) -> Payload | None:
        """Return the payload, or None where the profile has none for this card."""
        payload = self.payload_or_refusal(profile)
        return payload if isinstance(payload, Payload) else None

    @cached_property
    def data(self) -> bytes:
        """Its RFC 8785 bytes.

        Raises:
            CanonicalizationError: It has none.
        """
        return jcs(self.members)

    @cached_property
    def tree(self) -> Node:
        """Its nodes, which all payloads share as far as their profiles change nothing."""
        return rules.read(self.members)

    @cached_property
    def pruned(self) -> Node:
        """What ``prune-empty`` leaves, which is also that of a card with nothing to upgrade.

        Raises:
            RuleRefusal: The rule refuses the card.
        """
        return rules.prune_empty(self.tree, CARD_1_0)


@dataclass(frozen=True, eq=False)
class Payload:
    """What a signature under one profile covers.

    Attributes:
        profile: The profile's name.
        data: The bytes before base64url.
        value: The JSON object that `data` spells; not to be changed, for the card may share it. A
            trusted verdict hands it to its caller for good.
        received: The nodes of the card of which it was made; None if the profile changed nothing.
        rewritten: What the profile made of them, or None. Each node knows the received one that it
            stands for.
    """

    profile: ProfileName
    data: bytes
    value: dict[str, Json]
    received: Node | None = None
    rewritten: Node | None = None

    @cached_property
    def uncovered(self) -> tuple[Uncovered, ...]:
        """What it does not hold of its card, in the card's order; `signatures` are not looked at.

        What its rule drops by value has an excuse for those who accept its profile.
        """
        if self.received is None or self.rewritten is None:  # nothing was changed
            return ()
        walk = _Walk(self, self.rewritten)
        return tuple(walk.parts(self.received, (), (CARD_1_0, CARD_0_3), False))

    @property
    def sha256(self) -> str:
        """SHA-256 of `data` in hex, by which statements and reports name a payload."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def names_an_endpoint(self) -> bool:
        """Whether a client could be built: some interface (1.0) or the card (0.3) has a url."""
        interfaces = interfaces_of(self.value)
        return any(entry.url for entry in interfaces if entry.member != "additionalInterfaces")


def canonicalize(document: Mapping[str, Json] | bytes, profile: ProfileName) -> Payload:
    """Make the payload of a card under a profile.

    Args:
        document: The card's bytes, which are parsed strictly; or the card as parsed by
            :func:`cardsign.card.strictjson.parse_object`, unknown members included; not changed.
        profile: A name of :data:`PROFILES`.

    Raises:
        JsonRefused: The bytes are not one strict JSON object.
        CardRefused: The bytes are no card that can be read one way only.
        CanonicalizationError: The profile is unknown, or has no payload for this card (most
            of those that imitate an SDK refuse schema members of the wrong JSON type, as it
            does).
    """
    example = "canonicalize(Path('card.json').read_bytes(), 'served-as-is').data"
    check_types(example, document=(document, bytes | Mapping), profile=(profile, str))
    if profile not in PROFILES:
        message = f"no profile is called {profile!r}; known are {', '.join(PROFILES)}"
        raise CanonicalizationError("canonical.unknown_profile", message)
    if isinstance(document, bytes):
        document = Card.from_bytes(document).document
    payload = Payloads(document).payload_or_refusal(profile)
    if isinstance(payload, CanonicalizationError):
        raise payload
    return payload


def _prune_upgraded(card: Payloads) -> Node:
    upgraded = rules.upgrade(card.tree)
    return card.pruned if upgraded is card.tree else rules.prune_empty(upgraded, CARD_1_0)


# The profiles. A new row has its name in ProfileName too. VERIFIERS says whom it serves, and
# sign.py whether it may be safe.

#: How each profile makes the payload of a card without `signatures`; None takes it as it is.
PROFILES: Final[dict[ProfileName, Callable[[Payloads], Node] | None]] = {
    "served-as-is": None,
    "rule-1-as-written": lambda card: rules.as_written(card.tree, CARD_1_0),
    "prune-empty": lambda card: card.pruned,
    "prune-empty-upgraded": _prune_upgraded,
    "js-instance": lambda card: rules.as_js_client(card.tree),
}
#: These lose nothing of meaning.
FULL_PROFILES: Final[tuple[ProfileName, ...]] = ("served-as-is", "rule-1-as-written")
#: Those that count for an issuer with `accept = "sdk"` (ACCEPTED in trust/policy.py).
DEFAULT_PROFILES: Final[tuple[ProfileName, ...]] = (
    *FULL_PROFILES,
    "prune-empty",
    "prune-empty-upgraded",
)


# Which SDK verifies by which profile, with the versions that were checked. `sign` reads here whom
# a signature serves, `inspect` predicts from it what each SDK says. The tests hold every row
# against the SDK itself; a new release that differs is a failing test.


@dataclass(frozen=True, slots=True)
class SdkVerifier:
    """One way in which an SDK verifies a card, if it holds the keys and knows them by their kid.

    Attributes:
        name: The package, the versions that behave alike, and the path where it has several.
        profile: What it verifies by.
        is_js: It refuses a header without `typ`, and converts members of a wrong type where its
            profile has no payload.
    """

    name: str
    profile: ProfileName
    is_js: bool = False


VERIFIERS: Final = (
    SdkVerifier("a2a-sdk 1.1.4 to 1.3.0", "prune-empty-upgraded"),
    SdkVerifier("@a2a-js/sdk 1.0.1 to 1.3.0, given the plain JSON", "prune-empty", is_js=True),
    SdkVerifier("@a2a-js/sdk 1.0.1 to 1.3.0, its resolver", "js-instance", is_js=True),
    SdkVerifier("RFC 8785 of the card as served, by hand", "served-as-is"),
)

#: The Rust SDK, which the tests ask as well, and of which `inspect` predicts nothing.
RUST: Final = "a2a-protocol-types 0.15.0 (Rust), given the plain JSON"
RUST_PROFILE: Final[ProfileName] = "rule-1-as-written"
RUST_ALG: Final = "ES256"  # it verifies no other


# What a payload leaves open, read off the rewriting that made it, never off a comparison of
# pointers. A payload without `rewritten` is that of a profile that changed nothing: all of the card
# is covered. Of any other, each received value for which a node of `rewritten` stands is covered,
# and the walk here finds the rest. Every uncovered member or element at any depth counts against
# the card, except the closed table of `Excuse`.


#: Why an uncovered part does not count against the card: it is a schema default outside the
#: security members; a 0.3 member equal to what the covered 1.0 data gives; or an empty value that
#: the accepted lossy profile drops. The table is closed.
Excuse: TypeAlias = Literal["SCHEMA_DEFAULT", "SAME_AS_1_0", "DROPPED_BY_VALUE"]


@dataclass(frozen=True, slots=True)
class Uncovered:
    """One part of the received document that a payload does not hold.

    Attributes:
        node: The topmost value of which nothing is covered.
        tokens: Where that value stands in the card.
        security: Whether it stands in a member that says who may call, and how.
        excuse: Why it may be passed over, or None where it must not.
    """

    node: Node
    tokens: Tokens
    security: bool
    excuse: Excuse | None

    @property
    def pointer(self) -> str:
        """The JSON pointer of that value."""
        return pointer(*self.tokens)


#: Pointers that a report lists of one card; more would help nobody, and their number is given.
MAX_LISTED: Final = 100


def list_pointers(parts: Sequence[Uncovered]) -> tuple[str, ...]:
    """Return where uncovered parts stand, as far as a report shows that."""
    return tuple(part.pointer for part in parts[:MAX_LISTED])


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """What a payload leaves open, as reports say it: all that the table does not call harmless.

    Attributes:
        pointers: Where that is, in the card's order; the first :data:`MAX_LISTED`.
        count: How many places there are.
        first: As many of the parts as have pointers here; those that fail the card come first.
        fails: Something of it has no excuse.
    """

    pointers: tuple[str, ...]
    count: int
    first: tuple[Uncovered, ...]
    fails: bool


def left_open(payload: Payload, *, accept_lossy: bool = False) -> LeftOpen:
    """Return what a payload leaves open, summed up once.

    Args:
        payload: It knows the card of which it was made.
        accept_lossy: The subject's policy accepts the payload's lossy profile, so what its rule
            drops by value is excused (rule V6). Unknown, renamed and 0.3 members are not.
    """
    harmless = ("SCHEMA_DEFAULT", "SAME_AS_1_0")
    parts = [part for part in payload.uncovered if part.excuse not in harmless]
    failing = [part for part in parts if part.excuse is None or not accept_lossy]
    accepted = [part for part in parts if part.excuse is not None and accept_lossy]
    first = (*failing[:MAX_LISTED], *accepted)[:MAX_LISTED]
    return LeftOpen(list_pointers(parts), len(parts), first, bool(failing))


#: Members of a skill without which the card's own default holds; an empty list says "none".
_INHERITED: Final = frozenset({"inputModes", "outputModes"})
#: The messages, and the fields, of A2A 1.0 and 0.3 at a place; None where a schema ends.
_Messages: TypeAlias = tuple[Message | None, Message | None]
_Fields: TypeAlias = tuple[Field | None, Field | None]


class _Walk:
    """Goes down the card, by both schemas, as far as the payload holds something of it."""

    def __init__(self, payload: Payload, rewritten: Node) -> None:
        self.payload = payload
        self.is_lossy = payload.profile not in FULL_PROFILES
        self.held = rules.by_origin(rewritten)

    def parts(
        self, node: Node, tokens: Tokens, messages: _Messages, security: bool
    ) -> Iterator[Uncovered]:
        """Yield what is not held of a message."""
        current, old = messages
        for token, child in node.children():
            is_held = child in self.held
            if is_held and not isinstance(child.value, dict | list):
                continue
            name, place = str(token), (*tokens, token)
            field = current.spelled.get(name) if current else None
            old_field = old.fields.get(name) if old else None
            fields = [entry for entry in (field, old_field) if entry is not None]
            secure = security or any(entry.security for entry in fields)
            if not is_held:
                excuse = self._excuse(node, child, place, secure, (field, old_field))
                yield Uncovered(child, place, secure, excuse)
                continue
            below = (field.message if field else None, old_field.message if old_field else None)
            has_elements = any(entry.shape == "map" or entry.kind == "free" for entry in fields)
            if has_elements or isinstance(child.value, list):
                yield from self._elements(child, place, below, secure, field)
            else:
                yield from self.parts(child, place, below, secure)

    def _elements(
        self, node: Node, tokens: Tokens, messages: _Messages, security: bool, field: Field | None
    ) -> Iterator[Uncovered]:
        """Yield what is not held of a field's list or map of messages, or of free-form content."""
        for token, child in node.children():
            place = (*tokens, token)
            if child not in self.held:
                is_dropped = self.is_lossy and field is not None and _is_empty(child, field)
                yield Uncovered(child, place, security, "DROPPED_BY_VALUE" if is_dropped else None)
            elif field is not None and field.kind == "free":  # at any depth
                yield from self._elements(child, place, messages, security, field)
            elif isinstance(child.value, dict):
                yield from self.parts(child, place, messages, security)
            else:
                yield from self._elements(child, place, messages, security, None)

    def _excuse(
        self, owner: Node, node: Node, tokens: Tokens, security: bool, by_version: _Fields
    ) -> Excuse | None:
        field, old_field = by_version
        exact = field if field is not None and field.name == tokens[-1] else None
        fields = [entry for entry in (exact, old_field) if entry is not None]
        # Rule 1 reads a default as if the member were not there. Where absence means the card's
        # own default, an empty list or null may say "none".
        is_default = exact is not None and not exact.required and exact.is_default(node.value)
        if (is_default or (node.value is None and fields)) and not (
            security or any(entry.name in _INHERITED for entry in fields)
        ):
            return "SCHEMA_DEFAULT"
        beside = self.held[owner].value
        if says_the_same(node, tokens, self.payload, beside if isinstance(beside, dict) else {}):
            return "SAME_AS_1_0"
        if self.is_lossy and field is not None and _is_empty(node, field, whole=True):
            return "DROPPED_BY_VALUE"
        return None


def _is_empty(node: Node, field: Field, *, whole: bool = False) -> bool:
    """Return whether prune-empty leaves nothing of a value because of what it is, not of its names.

    `whole` says that it is the field's list or map itself, not one element of it.
    """
    value = node.value
    if value is None:
        return True
    if whole and field.shape != "one":
        is_one = isinstance(value, field.expected[0])
        return is_one and all(_is_empty(c, field) for _, c in node.children())
    if field.message is not None:
        spelled = field.message.spelled
        return isinstance(value, dict) and all(
            name in spelled and _is_empty(child, spelled[name], whole=True)
            for name, child in value.items()
        )
    if field.kind == "free":
        return rules.without_empties(node).is_empty
    return value == "" or (value is False and not field.presence)


# SAME_AS_1_0: does a 0.3 member say what the covered 1.0 data says? It is held against the
# payload and never against the card, whose 1.0 data may be left open as well.


_CONNECTION: Final = frozenset({"url", "preferredTransport", "protocolVersion"})
_VERSION: Final = re.compile(r"(?P<minor>[0-9]+\.[0-9]+)(?:\.[0-9]+)?")


def says_the_same(node: Node, tokens: Tokens, payload: Payload, beside: Mapping[str, Node]) -> bool:
    """Return whether a 0.3 member equals what the payload's 1.0 data gives.

    False for every member that A2A 0.3.0 does not define at that place. `beside` is what the
    payload holds of the skill or security scheme in which the member stands.
    """
    match tokens:
        case (str(name),) if name in _CONNECTION:
            return any(
                _same_connection(payload, interface) for interface in _old_interfaces(payload)
            )
        case ("additionalInterfaces",):
            old = {jcs({"url": i.url, "transport": i.binding}) for i in _old_interfaces(payload)}
            value = write(node)
            return isinstance(value, list) and old.issuperset(map(jcs, value))
        case ("supportsAuthenticatedExtendedCard",):
            flag = members_of(payload.value.get("capabilities")).get("extendedAgentCard")
            return isinstance(node.value, bool) and node.value is (flag is True)
        case ("security",):
            return write(node) == flat_requirements(payload.value)
        case ("skills", _, "security"):
            required = beside.get("securityRequirements")
            owner = {} if required is None else {"securityRequirements": write(required)}
            return write(node) == flat_requirements(owner)
        case ("securitySchemes", _, str(member)):
            scheme = {name: child.value for name, child in beside.items()}
            pair = unwrapped(scheme) if len(scheme) == 1 else None
            flat: dict[str, Node] = {"type": Node(pair[0]), **pair[1]} if pair else {}
            # Not `==`: to Python 1 is True, to JSON it is not.
            return member in flat and jcs(write(flat[member])) == jcs(write(node))
    return False


def _old_interfaces(payload: Payload) -> list[Interface]:
    """Return the 1.0 interfaces of the payload that speak 0.x.

    One without a version counts as 0.3: a2a-sdk's server repeats it so in members of 0.3.
    """
    return [
        replace(interface, version=interface.version or "0.3")
        for interface in interfaces_of(payload.value)
        if interface.written_in == "1.0" and str(interface.version or "0.3").startswith("0.")
    ]


def _same_connection(payload: Payload, interface: Interface) -> bool:
    """Return whether one covered 0.x interface gives all three members of a connection."""
    card = payload.received.value if payload.received is not None else None
    assert isinstance(card, dict)  # noqa: S101 - a card is an object, and something is left out
    own = {name: write(card[name]) for name in _CONNECTION if name in card}
    transport, version = own.get("preferredTransport"), own.get("protocolVersion")
    return (
        own.get("url") == interface.url
        and (DEFAULT_TRANSPORT if transport is None else transport) == interface.binding
        and _same_version(interface.version if version is None else version, interface.version)
    )


def _same_version(version: Json, other: Json) -> bool:
    """Return whether two versions are one, as 0.3 and 0.3.0 are (A2A 1.0 3.6)."""
    matches = [_VERSION.fullmatch(v) for v in (version, other) if isinstance(v, str)]
    versions = [match["minor"] for match in matches if match]
    return len(versions) == 2 and versions[0] == versions[1]
