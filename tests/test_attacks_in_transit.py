"""What an editor in transit can do to a card that was signed well, and what he gets for it.

He holds no key. He may edit, delete, rename, repeat and reorder anything, signatures included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cardsign.card.document import Card, unsigned
from cardsign.card.profiles import DEFAULT_PROFILES, FULL_PROFILES, canonicalize
from cardsign.card.schema import CARD_1_0, Field, Message
from cardsign.card.values import append, split
from cardsign.errors import CanonicalizationError
from cardsign.jose.keys import PrivateKey
from cardsign.verify.report import Report
from tests.support import (
    DUAL,
    LAX,
    PORTABLE,
    WITH_DEFAULTS,
    at,
    by_another_sdk,
    codes,
    dump,
    each_card,
    examine,
    one_signature,
    pointers,
    put,
    signed,
    without,
)

LOSSY = tuple(profile for profile in DEFAULT_PROFILES if profile not in FULL_PROFILES)


def assert_noticed(report: Report, pointer: str | None = None) -> None:
    """Invalid, or at least not trusted, with the place in what is uncovered."""
    assert report.verdict in ("invalid", "untrusted")
    assert report.card is None
    if report.verdict == "untrusted" and pointer is not None:
        assert any(
            pointer == where or pointer.startswith(where + "/") for where in report.uncovered
        )


# ------------------------------------------------------------------ 1: deleting


@each_card
@pytest.mark.parametrize("profile", LOSSY)
def test_a_lossy_payload_served_as_the_card(
    card: dict[str, Any], profile: str, alice: PrivateKey
) -> None:
    """Our own compat signatures attest the pruned card, and still it is not trusted."""
    honest = signed(card, alice, compat="all")
    assert examine(honest, alice).verdict == "trusted"
    pruned = canonicalize(card, profile)
    full = [canonicalize(card, name).data for name in FULL_PROFILES]

    report = examine({**pruned.value, "signatures": honest["signatures"]}, alice)

    if pruned.data in full:  # nothing but defaults was dropped, if anything
        assert report.verdict == "trusted"
    else:
        assert_noticed(report)
        assert "sig.bad" in codes(report)


def test_the_requirement_cannot_be_taken_away(alice: PrivateKey) -> None:
    """The finding itself: the endpoint stays, the scope-less requirement is gone."""
    honest = signed(LAX, alice)
    for edited in (
        without(honest, "/securityRequirements"),
        put(honest, "/securityRequirements", []),
        put(honest, "/securityRequirements", [{}]),
        put(honest, "/securityRequirements", [{"schemes": {}}]),
    ):
        report = examine(edited, alice)
        assert report.verdict == "untrusted"
        assert codes(report)[0] == "sig.bad"
        assert [one.verdict for one in report.signatures] == ["invalid", "invalid", "valid"]


def test_a_compat_typ_cannot_be_edited_away(alice: PrivateKey) -> None:
    """The typ is in the protected header: changing it breaks the signature."""
    compat = signed(LAX, alice)["signatures"][-1]
    full = signed(PORTABLE, alice)["signatures"][0]
    pruned = canonicalize(LAX, "prune-empty").value
    entry = {"protected": full["protected"], "signature": compat["signature"]}

    assert examine({**pruned, "signatures": [entry]}, alice).verdict == "invalid"


@each_card
def test_every_single_removal(card: dict[str, Any], alice: PrivateKey) -> None:
    """Not trusted, unless a full payload is unchanged by it (C7)."""
    honest = signed(card, alice, compat="all")
    kept = [canonicalize(card, name).data for name in FULL_PROFILES]
    removed = 0
    for pointer in pointers(card):
        edited = without(honest, pointer)
        report = examine(edited, alice)
        unchanged = {canonicalize(edited, name).data for name in FULL_PROFILES} & set(kept)
        if report.verdict == "trusted":
            assert report.card is not None
            assert canonicalize(report.card, "served-as-is").data in unchanged
        else:
            assert report.verdict in ("invalid", "untrusted"), pointer
            assert not unchanged or "coverage.requirement_unsigned" in codes(report), pointer
            assert "sig.bad" in codes(report), pointer
            removed += 1
    assert removed > 20


# ------------------------------------------------------------------ 4: two publications merged


def test_two_publications_merged(alice: PrivateKey) -> None:
    """The type-tagged scheme of one and the wrapped one of the other, each signed honestly."""

    def flows(host: str) -> dict[str, Any]:
        credentials = {"tokenUrl": f"https://{host}.example/token", "scopes": {"r": "R"}}
        return {"flows": {"clientCredentials": credentials}}

    flat, wrapped = {"type": "oauth2", **flows("old")}, {"oauth2SecurityScheme": flows("new")}
    first = signed(put(PORTABLE, "/securitySchemes/harbour", flat), alice)
    second = signed(put(PORTABLE, "/securitySchemes/harbour", wrapped), alice)
    merged = put(first, "/securitySchemes/harbour", {**flat, **wrapped})
    merged["signatures"] = [*first["signatures"], *second["signatures"]]
    assert examine(first, alice).verdict == examine(second, alice).verdict == "trusted"

    for profiles in (FULL_PROFILES, DEFAULT_PROFILES, LOSSY):
        assert_noticed(examine(merged, alice, profiles=profiles))


def test_two_publications_merged_by_a_signer_of_lossy_payloads(alice: PrivateKey) -> None:
    """The same where the signatures are unmarked and both lossy profiles are accepted."""
    flat = {"type": "http", "scheme": "Basic"}
    wrapped = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
    first = put(PORTABLE, "/securitySchemes/harbour", flat)
    second = put(PORTABLE, "/securitySchemes/harbour", wrapped)
    merged = put(PORTABLE, "/securitySchemes/harbour", {**flat, **wrapped})
    merged["signatures"] = [
        one_signature(first, alice, "prune-empty-upgraded"),
        one_signature(second, alice, "prune-empty"),
    ]

    report = examine(merged, alice, profiles=DEFAULT_PROFILES)

    assert report.verdict == "untrusted"
    assert [one.profile for one in report.signatures] == ["prune-empty-upgraded", "prune-empty"]
    left_open = [set(one.uncovered) for one in report.signatures]
    assert left_open[0] & left_open[1] == set()  # all is covered by one or the other: no matter


# ------------------------------------------------------------------ 7: every path of the schema


def specimens(message: Message) -> list[dict[str, Any]]:
    """Messages with every member of the schema set, one for each alternative of a oneof."""
    plain: dict[str, Any] = {}
    varied: list[dict[str, Any]] = []
    for field in message.fields.values():
        if field.name == "signatures":
            continue
        first, *others = values(field)
        if field.oneof:
            varied.extend({field.name: value} for value in (first, *others))
        else:
            plain[field.name] = first
            varied.extend({field.name: value} for value in others)
    if not any(field.oneof for field in message.fields.values()):
        varied.insert(0, {})
    return [{**plain, **one} for one in varied]


def values(field: Field) -> list[Any]:
    """Values that a field may have, which together hold every member below it."""
    if field.message is None:
        ones: list[Any] = [{"string": "x", "bool": True, "free": {"a": [1]}}[field.kind]]
    else:
        ones = specimens(field.message)
    if field.shape == "list":
        return [ones]
    return [{f"k{n}": one for n, one in enumerate(ones)}] if field.shape == "map" else ones


(SPECIMEN,) = specimens(CARD_1_0)
EVERY_PATH = put(SPECIMEN, "/supportedInterfaces/0/url", "https://tides.example/a2a")
EVERY_PATH_LAX = put({**EVERY_PATH, "x-berth": {"pier": 4}}, "/description", "")


def objects(card: Any) -> Iterator[str]:
    """The pointers of all objects, the root's included."""
    yield ""
    yield from (where for where in pointers(card) if isinstance(at(card, where), dict))


def test_the_specimen_is_what_it_should_be() -> None:
    """It holds every name of the schema, and the default profiles agree on it."""
    names = {split(where)[-1] for where in pointers(EVERY_PATH)}
    pending, seen = [CARD_1_0], set[str]()
    while pending:
        message = pending.pop()
        for field in message.fields.values():
            if field.name != "signatures":
                assert field.name in names
                if field.message and field.message.name not in seen:
                    seen.add(field.message.name)
                    pending.append(field.message)
    assert len(seen) > 15
    assert len({canonicalize(EVERY_PATH, profile).data for profile in DEFAULT_PROFILES}) == 1
    assert len({canonicalize(EVERY_PATH_LAX, profile).data for profile in DEFAULT_PROFILES}) > 1
    assert Card.from_bytes(dump(EVERY_PATH)).a2a_version == "1.0"


SPECIMENS = {"portable": EVERY_PATH, "not portable": EVERY_PATH_LAX}


@pytest.fixture(scope="module", params=SPECIMENS.values(), ids=SPECIMENS)
def honest(request: pytest.FixtureRequest, alice: PrivateKey) -> dict[str, Any]:
    """The specimen, signed by us and trusted."""
    card = signed(request.param, alice)
    assert examine(card, alice).verdict == "trusted"
    return card


ADDITIONS = {
    "a vendor's member": ("x-vendor", {"a": 1}),
    "an empty one": ("x-empty", {}),
    "a null": ("x-null", None),
    "a 0.3 member": ("security", [{"none": []}]),
    "a prototype": ("__proto__", {"url": "https://evil.example"}),
}


@pytest.mark.parametrize(("name", "value"), ADDITIONS.values(), ids=ADDITIONS)
def test_an_unknown_member_added_anywhere(
    name: str, value: Any, honest: dict[str, Any], alice: PrivateKey
) -> None:
    """To every object of the card, map and free-form content included."""
    tried = 0
    for where in objects(unsigned(honest)):
        pointer = append(where, name)
        assert_noticed(examine(put(honest, pointer, value), alice), pointer)
        tried += 1
    assert tried > 30


def respellings(name: str) -> set[str]:
    """The name as Go's and protobuf's readers also take it, and as a typist might."""
    snake = "".join("_" + c.lower() if c.isupper() else c for c in name)
    return {name[0].upper() + name[1:], name.upper(), snake, name + "_", "_" + name} - {name}


def renamed(card: dict[str, Any], pointer: str, name: str) -> dict[str, Any]:
    """The card with one member under another name, in its old place."""
    parent, _, _ = pointer.rpartition("/")
    owner = at(card, parent) if parent else card
    *_, old = split(pointer)
    changed = {name if member == old else member: value for member, value in owner.items()}
    return put(card, parent, changed) if parent else changed


def test_an_empty_element_first_in_any_list(honest: dict[str, Any], alice: PrivateKey) -> None:
    """The first interface is the preferred one to a raw reader, and pruning drops it."""
    tried = 0
    for where in pointers(unsigned(honest)):
        value = at(honest, where)
        if isinstance(value, list):
            for empty in ({}, "", [], None):
                report = examine(put(honest, where, [empty, *value]), alice)
                assert_noticed(report, f"{where}/0")
                tried += 1
    assert tried > 40


NEEDED, SKILLS = PORTABLE["securityRequirements"], PORTABLE["skills"]
#: What today's verifiers let through, by name (threats 7 and 17): the member that is edited, its
#: value then, and where that differs.
NOTORIOUS: dict[str, tuple[str, Any, str]] = {
    "a scope-less requirement": (
        "/securityRequirements",
        [*NEEDED, {"schemes": {"harbour": {"list": []}}}],
        "/1",
    ),
    "no requirement as an alternative": ("/securityRequirements", [*NEEDED, {}], "/1"),
    "an empty skill": ("/skills", [*SKILLS, {}], "/1"),
    "an empty scheme": ("/securitySchemes/tls", {"mtlsSecurityScheme": {}}, ""),
    "an extension that is not required": ("/capabilities/extensions", [{"required": False}], ""),
}


@pytest.mark.parametrize(("pointer", "value", "added"), NOTORIOUS.values(), ids=NOTORIOUS)
def test_what_others_let_through(pointer: str, value: Any, added: str, alice: PrivateKey) -> None:
    """Added beside one honest portable signature.

    Accepting the lossy profiles means to put up with it; it is named, and not handed on.
    """
    honest = signed(PORTABLE, alice)
    edited = put(honest, pointer, value)
    assert_noticed(examine(edited, alice), pointer + added)
    assert examine(honest, alice, profiles=DEFAULT_PROFILES).verdict == "trusted"
    report = examine(edited, alice, profiles=DEFAULT_PROFILES)
    assert (report.verdict, report.card) == ("trusted", PORTABLE)
    assert pointer + added in report.uncovered


# ------------------------------------------------------------------ C7: additions and alterations


@each_card
def test_an_addition_shows_what_was_added(card: dict[str, Any], alice: PrivateKey) -> None:
    """Where a lossy signature is left, the verdict names the place and the loss."""
    honest = signed(card, alice)

    report = examine({**honest, "x-evil": 1}, alice)

    assert report.verdict in ("invalid", "untrusted")
    if report.verdict == "untrusted":
        assert "/x-evil" in report.uncovered
        assert "coverage.uncovered" in codes(report)
    if len(honest["signatures"]) > 1 and report.verdict == "untrusted":
        assert codes(report)[0] == "sig.bad"
        assert "sig.coverage_reduced" in codes(report)


def test_an_alteration_of_what_the_compat_signature_leaves_open(alice: PrivateKey) -> None:
    """Full ones break, the compat one stays: uncovered, and the lost coverage is told."""
    report = examine(put(signed(LAX, alice), "/x-berth/pier", 5), alice)

    assert report.verdict == "untrusted"
    assert "/x-berth" in report.uncovered
    assert codes(report)[:3] == ["sig.bad", "sig.bad", "sig.coverage_reduced"]
    assert report.profile == "prune-empty"


def test_two_unmarked_signatures_and_an_edited_url(alice: PrivateKey) -> None:
    """Signed under two profiles by somebody else: the url was covered by one of them only."""
    card = by_another_sdk(DUAL, alice, "prune-empty", "served-as-is")
    assert examine(card, alice).verdict == "trusted"

    for profiles in (FULL_PROFILES, DEFAULT_PROFILES):
        report = examine({**card, "url": "https://evil.example"}, alice, profiles=profiles)
        assert report.verdict == "untrusted"
        assert "/url" in report.uncovered
        assert "sig.coverage_reduced" in codes(report)


def test_a_default_may_be_added_where_rule_1_drops_it(alice: PrivateKey) -> None:
    """A full payload is unchanged, so the card is trusted, and the broken signature reported."""
    report = examine(put(signed(WITH_DEFAULTS, alice), "/capabilities/extensions", []), alice)

    assert report.verdict == "trusted"
    assert codes(report) == ["sig.bad", "sig.coverage_reduced", "trust.freshness_waived"]
    assert report.card == PORTABLE


def test_a_security_default_may_not_be_added(alice: PrivateKey) -> None:
    """The twin: to some readers an empty list of requirements lifts those of the card."""
    report = examine(put(signed(WITH_DEFAULTS, alice), "/skills/0/securityRequirements", []), alice)

    assert report.verdict == "untrusted"
    assert report.uncovered == ("/skills/0/securityRequirements",)
    assert "coverage.requirement_unsigned" in codes(report)


# ------------------------------------------------------------------ 3: another subject


def test_swapped_signatures_of_two_cards(alice: PrivateKey) -> None:
    """A signature belongs to its payload, not to the key's other cards."""
    one, other = signed(PORTABLE, alice), signed({**PORTABLE, "name": "Winds"}, alice)

    for card, entries in ((one, other), (other, one)):
        swapped = {**card, "signatures": entries["signatures"]}
        assert examine(swapped, alice).verdict == "invalid"


# ------------------------------------------------------------------ what does no harm


@each_card
def test_order_and_white_space_do_not_matter(card: dict[str, Any], alice: PrivateKey) -> None:
    """Registries re-indent and sort; the verdict and the card handed on stay."""

    def reversed_order(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: reversed_order(v) for k, v in reversed(value.items())}
        if isinstance(value, list):
            return [reversed_order(v) for v in value]
        return value

    honest = signed(card, alice)
    for document in (
        json.dumps(reversed_order(honest), indent="\t"),
        json.dumps(honest, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
        "\r\n " + json.dumps(honest) + " \t\n",
    ):
        report = examine(document.encode(), alice)
        assert (report.verdict, report.card) == ("trusted", card)


@each_card
def test_the_order_of_signatures_does_not_matter(card: dict[str, Any], alice: PrivateKey) -> None:
    """Nor does a repetition of one."""
    honest = signed(card, alice)
    entries = honest["signatures"]

    for order in (entries[::-1], [*entries, *entries]):
        report = examine({**honest, "signatures": order}, alice)
        assert (report.verdict, report.profile) == ("trusted", "served-as-is")


def test_a_profile_without_payload_hides_none_of_the_others(alice: PrivateKey) -> None:
    """A type-confused card has no lossy payload; its full signature is judged all the same."""
    card = put(PORTABLE, "/capabilities/streaming", "yes")
    with pytest.raises(CanonicalizationError):
        canonicalize(card, "prune-empty")

    assert examine(by_another_sdk(card, alice, "served-as-is"), alice).verdict == "trusted"
