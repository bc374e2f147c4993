"""The profiles: which bytes a signature on a card covers.

A2A 1.0 contradicts itself (8.4.1 against 8.4.2 and 8.4.3) and no SDK reproduces its example,
so each reading has a name. All of them drop the top-level `signatures` and end in RFC 8785
(JCS). The other rules:

``served-as-is`` (full)
    Nothing else is removed.
``rule-1-as-written`` (full)
    A2A 1.0 8.4.1 rule 1 on what is present: null and non-REQUIRED, non-`optional` defaults of
    schema members go; everything else stays, unknown members and free-form content untouched.
``prune-empty`` (lossy)
    Only 1.0 schema members, under either proto3 JSON spelling; proto defaults go; then null,
    "", [] and {} recursively, in lists and free-form content too.
``prune-empty-upgraded`` (lossy)
    :mod:`cardsign.card.upgraded` first, then ``prune-empty``.

This is the only module that uses rfc8785.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import rfc8785

from cardsign.card import node as tree
from cardsign.card.node import Node
from cardsign.card.schema import CARD_1_0, Field, Message
from cardsign.card.strictjson import Json
from cardsign.card.upgraded import upgrade
from cardsign.errors import CanonicalizationError


@dataclass(frozen=True, slots=True)
class Payload:
    """What a signature under one profile covers.

    Attributes:
        profile: The profile's name.
        data: The canonical bytes (RFC 8785, UTF-8), before base64url.
        value: The JSON object that `data` spells.
        destinations: For each value of the received document that is in the payload, its
            JSON pointer there -> its pointers in `value`. What is missing is not covered.
    """

    profile: str
    data: bytes
    value: dict[str, Json]
    destinations: Mapping[str, tuple[str, ...]]

    @property
    def names_an_endpoint(self) -> bool:
        """Whether a client could be built: some interface (1.0) or the card (0.3) has a url."""
        interfaces = self.value.get("supportedInterfaces")
        if isinstance(interfaces, list) and any(
            isinstance(one, dict) and one.get("url") for one in interfaces
        ):
            return True
        return bool(self.value.get("url"))


@dataclass(frozen=True, slots=True)
class Profile:
    """A named rule that makes the payload; `full` ones lose nothing of meaning."""

    name: str
    full: bool
    summary: str
    rewrite: Callable[[Node], Node]


def canonicalize(document: Mapping[str, Json], profile: str) -> Payload:
    """Make the payload of a card under a profile.

    Args:
        document: The card as parsed by :func:`cardsign.card.strictjson.parse_object`,
            unknown members included; not changed.
        profile: A name of :data:`PROFILES`.

    Raises:
        CanonicalizationError: The profile is unknown, or has no payload for this card
            (`prune-empty` refuses schema members of the wrong JSON type).
    """
    rule = PROFILES.get(profile)
    if rule is None:
        known = ", ".join(PROFILES)
        raise CanonicalizationError(
            "canonical.unknown_profile", f"no profile is called {profile!r}; known are {known}"
        )
    unsigned = {name: value for name, value in document.items() if name != "signatures"}
    rewritten = rule.rewrite(tree.read(unsigned))
    value = tree.write(rewritten)
    assert isinstance(value, dict)  # noqa: S101 - every rewrite maps an object to an object
    return Payload(profile, jcs(value), value, tree.destinations(rewritten))


def jcs(value: Json) -> bytes:
    """RFC 8785 bytes of a JSON value that came through the strict reader.

    Raises:
        CanonicalizationError: A number or string has no canonical form (not finite, beyond
            +-(2^53-1), a lone surrogate), or the value is nested too deeply.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as exc:
        # rfc8785 0.1.4 lets UnicodeError and RecursionError through.
        raise CanonicalizationError(
            "canonical.no_form", f"the value has no RFC 8785 form: {exc}"
        ) from exc


# ------------------------------------------------------------ rule 1 as it is written


def _rule_1(node: Node, message: Message) -> Node:
    if not isinstance(node.value, dict):
        return node  # a wrong type is not a default: nothing is lost by keeping it
    kept = {}
    for name, child in node.value.items():
        field = message.fields.get(name)
        if field is None:
            kept[name] = child
        elif child.value is not None and (field.required or not field.is_default(child.value)):
            kept[name] = _each(child, field, _rule_1)
    return Node(kept, node.source)


def _each(node: Node, field: Field, rewrite: Callable[[Node, Message], Node]) -> Node:
    """Apply a message rewrite to the message, messages or map values that a field holds."""
    if field.message is None:
        return node
    if field.shape == "one":
        return rewrite(node, field.message)
    if field.shape == "list" and isinstance(node.value, list):
        return Node([rewrite(child, field.message) for child in node.value], node.source)
    if field.shape == "map" and isinstance(node.value, dict):
        entries = {key: rewrite(child, field.message) for key, child in node.value.items()}
        return Node(entries, node.source)
    return node


# ------------------------------------------------------------------------ prune-empty


def _prune_empty(node: Node, message: Message) -> Node:
    by_name = {f.name: f for f in message.fields.values()}
    by_name.update({f.snake_name: f for f in message.fields.values()})
    if isinstance(node.value, list | str) and all(
        isinstance(child.value, str) and child.value not in by_name for _, child in node.children()
    ):
        # Both SDKs read a string, or a list of unknown words, as a message without members.
        return Node({})
    _expect(node, dict, f"an object ({message.name})")
    kept: dict[str, Node] = {}
    chosen: str | None = None
    for name, child in node.children():
        field = by_name.get(name)
        if field is None or child.value is None:
            continue
        if field.name in kept and field.shape == "one":
            _refuse(child, f"{field.name} is there under both its spellings")
        if field.oneof and chosen is not None:
            _refuse(child, f"{message.name} may hold one of {chosen} and {field.name}, not both")
        chosen = field.name if field.oneof else chosen
        # A list or map that comes again replaces the first, as a 0.3 `url` does under
        # prune-empty-upgraded beside `supported_interfaces`.
        kept[field.name] = _prune_field(child, field)
    survivors = {name: child for name, child in kept.items() if not child.is_empty}
    return Node(survivors, node.source)


def _prune_field(node: Node, field: Field) -> Node:
    if field.shape == "list":
        _expect(node, list, "a list")
        elements = [_prune_one(child, field) for _, child in node.children()]
        return Node([child for child in elements if not child.is_empty], node.source)
    if field.shape == "map":
        _expect(node, dict, "an object")
        entries = {key: _prune_one(child, field) for key, child in node.children()}
        return Node({k: v for k, v in entries.items() if not v.is_empty}, node.source)
    if field.kind == "bool" and node.value is False and not field.presence:
        return Node(None)
    return _prune_one(node, field)


def _prune_one(node: Node, field: Field) -> Node:
    if field.message is not None:
        return _prune_empty(node, field.message)
    if field.kind == "string":
        _expect(node, str, "a string")
    elif field.kind == "bool":
        _expect(node, bool, "true or false")
    else:
        _expect(node, dict, "an object")
        return _prune_free(node)
    return node


def _prune_free(node: Node) -> Node:
    if isinstance(node.value, dict):
        entries = {key: _prune_free(child) for key, child in node.value.items()}
        return Node({k: v for k, v in entries.items() if not v.is_empty}, node.source)
    if isinstance(node.value, list):
        elements = [_prune_free(child) for child in node.value]
        return Node([child for child in elements if not child.is_empty], node.source)
    return node


def _expect(node: Node, kind: type, wording: str) -> None:
    if not isinstance(node.value, kind):
        _refuse(node, f"expected {wording}")


def _refuse(node: Node, problem: str) -> None:
    raise CanonicalizationError(
        "canonical.no_form",
        f"prune-empty has no payload for this card: {problem}",
        path=node.source or "",
    )


# --------------------------------------------------------------------------- the table


def _as_it_is(node: Node) -> Node:
    return node


def _upgraded(node: Node) -> Node:
    return _prune_empty(upgrade(node), CARD_1_0)


PROFILES: Final[dict[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile(
            "served-as-is",
            True,
            "the document without `signatures`, nothing else removed",
            _as_it_is,
        ),
        Profile(
            "rule-1-as-written",
            True,
            "A2A 1.0 8.4.1 rule 1: null and non-REQUIRED defaults of schema members removed",
            partial(_rule_1, message=CARD_1_0),
        ),
        Profile(
            "prune-empty",
            False,
            "1.0 schema members only, then every empty value removed",
            partial(_prune_empty, message=CARD_1_0),
        ),
        Profile(
            "prune-empty-upgraded",
            False,
            "0.3 members rewritten to 1.0 as a2a-sdk does, then prune-empty",
            _upgraded,
        ),
    )
}

FULL_PROFILES: Final = tuple(name for name, rule in PROFILES.items() if rule.full)
DEFAULT_PROFILES: Final = tuple(PROFILES)
