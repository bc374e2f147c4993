"""The profiles: which bytes a signature on a card covers.

A2A 1.0 contradicts itself (8.4.1 against 8.4.2 and 8.4.3) and no SDK reproduces its example,
so each reading has a name. All of them drop the top-level `signatures`, apply a rule, and
write what is left as RFC 8785 (JCS).

By default a signer serves the full ones, and the lossy ones where they are safe for the card
(:func:`cardsign.sign.plan.payloads_to_sign`). A verifier may accept all four:

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
    :mod:`cardsign.card.js_client`: the card as the client of @a2a-js/sdk holds it,
    mostly ``prune-empty`` without `securitySchemes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from cardsign.card import tree
from cardsign.card.document import Card, unsigned
from cardsign.card.interfaces import interfaces_of
from cardsign.card.js_client import as_js_client
from cardsign.card.rules import as_written, prune_empty, upgrade
from cardsign.card.schema import CARD_1_0
from cardsign.card.tree import Node
from cardsign.card.values import Json, jcs, split
from cardsign.card.values import pointer as join
from cardsign.errors import CanonicalizationError

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
        """The payload under one of :data:`PROFILES`, or why there is none."""
        if profile not in self._made:
            try:
                self._made[profile] = make_payload(profile, self)
            except CanonicalizationError as refusal:
                self._made[profile] = refusal.with_traceback(None)
        return self._made[profile]

    def of(self, profile: ProfileName) -> Payload | None:
        """The payload, or None where the profile has none for this card."""
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
        return tree.read(self.members)

    @cached_property
    def pruned(self) -> Node:
        """What ``prune-empty`` leaves, which is also that of a card with nothing to upgrade.

        Raises:
            RuleRefusal: The rule refuses the card.
        """
        return prune_empty(self.tree, CARD_1_0)


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
        left_open_known: What :func:`cardsign.card.coverage.left_open` has found of it before.
    """

    profile: ProfileName
    data: bytes
    value: dict[str, Json]
    received: Node | None = None
    rewritten: Node | None = None
    left_open_known: dict[bool, Any] = field(default_factory=dict, repr=False)

    @property
    def is_whole_card(self) -> bool:
        """Whether the profile changed nothing, so that all of the card is covered."""
        return self.rewritten is None

    @property
    def sha256(self) -> str:
        """SHA-256 of `data` in hex, by which statements and reports name a payload."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def names_an_endpoint(self) -> bool:
        """Whether a client could be built: some interface (1.0) or the card (0.3) has a url."""
        interfaces = interfaces_of(self.value)
        return any(
            bool(interface.url)
            for interface in interfaces
            if interface.member != "additionalInterfaces"
        )

    def received_at(self, pointer: str) -> str:
        """Where the value at a pointer of the payload stood in the card; the pointer itself
        where there is no such value, or the profile has put it in."""
        node: Node | None = self.rewritten
        for token in split(pointer):
            if node is not None and isinstance(node.value, dict):
                node = node.value.get(token)
            elif node is not None and isinstance(node.value, list) and token.isdecimal():
                node = node.value[int(token)]
            else:
                return pointer
        if node is None or self.received is None:
            return pointer
        tokens = tree.find(self.received, node.origin)
        return pointer if tokens is None else join(*tokens)


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
    if profile not in PROFILES:
        names = ", ".join(PROFILES)
        raise CanonicalizationError(
            "canonical.unknown_profile", f"no profile is called {profile!r}; known are {names}"
        )
    if isinstance(document, bytes):
        document = Card.from_bytes(document).document
    elif not isinstance(document, Mapping):
        raise TypeError(
            f"expected a card's bytes or its parsed object, not {type(document).__name__}: "
            f"canonicalize(Path('card.json').read_bytes(), {profile!r})"
        )
    return make_payload(profile, Payloads(document))


def make_payload(profile: ProfileName, received: Payloads) -> Payload:
    """Return the payload of a card that is read already.

    Raises:
        CanonicalizationError: The profile has none for it.
    """
    try:
        rewrite = PROFILES[profile]
        rewritten = None if rewrite is None else rewrite(received)
        if rewritten is None or rewritten is received.tree:  # nothing was changed
            return Payload(profile, received.data, received.members)
        value = tree.write(rewritten)
        assert isinstance(value, dict)  # noqa: S101 - every rewrite maps an object to an object
        return Payload(profile, jcs(value), value, received.tree, rewritten)
    except tree.RuleRefusal as refusal:
        tokens = tree.find(received.tree, refusal.node.origin) or ()
        message = f"{profile} has no payload for this card: {refusal}"
        raise CanonicalizationError("canonical.no_form", message, path=join(*tokens)) from refusal
    except RecursionError as refusal:  # an object of Python's: what is read has fewer levels
        raise CanonicalizationError(
            "canonical.no_form", "the value is nested too deeply"
        ) from refusal
    except CanonicalizationError as refusal:
        message = f"{profile} has no payload for this card: {refusal.message}"
        raise CanonicalizationError(refusal.code, message, path=refusal.path) from refusal


def _prune_upgraded(card: Payloads) -> Node:
    upgraded = upgrade(card.tree)
    return card.pruned if upgraded is card.tree else prune_empty(upgraded, CARD_1_0)


# -------------------------------------------------------------------------- the table


# A new row has its name in ProfileName too. Whom it serves stands in VERIFIERS; whether it may be
# safe, and which signatures are dropped first, in sign/plan.py.
#: How each profile makes the payload of a card without `signatures`; None takes it as it is.
PROFILES: Final[dict[ProfileName, Callable[[Payloads], Node] | None]] = {
    "served-as-is": None,
    "rule-1-as-written": lambda card: as_written(card.tree, CARD_1_0),
    "prune-empty": lambda card: card.pruned,
    "prune-empty-upgraded": _prune_upgraded,
    "js-instance": lambda card: as_js_client(card.tree),
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
        checked: The version that the tests ask.
        profile: What it verifies by.
        wants_typ: It refuses a header without `typ`.
        converts: It converts members of a wrong type where its profile has no payload.
    """

    name: str
    checked: str
    profile: ProfileName
    wants_typ: bool = False
    converts: bool = False


VERIFIERS: Final = (
    SdkVerifier("a2a-sdk 1.1.4 to 1.3.0", "1.3.0", "prune-empty-upgraded"),
    SdkVerifier(
        "@a2a-js/sdk 1.0.1 to 1.3.0, given the plain JSON",
        "1.3.0",
        "prune-empty",
        wants_typ=True,
        converts=True,
    ),
    SdkVerifier("@a2a-js/sdk 1.0.1 to 1.3.0, its resolver", "1.3.0", "js-instance", wants_typ=True),
    SdkVerifier("RFC 8785 of the card as served, by hand", "1.8.0", "served-as-is"),
)

#: The Rust SDK, which the tests ask as well, and of which `inspect` predicts nothing.
RUST: Final = "a2a-protocol-types 0.15.0 (Rust), given the plain JSON"
RUST_PROFILE: Final[ProfileName] = "rule-1-as-written"
RUST_ALG: Final = "ES256"  # it verifies no other
