"""`enforce = "warn"` (E12): what it softens, and everything that it does not."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from authorities import Authority
from internet import Network
from peers import http

import cardsign
from cardsign.card import ExtendedMarker, with_marker
from cardsign.jose import JwkSet
from cardsign.net import Discoverer, DocumentFetcher, UnverifiedCard, endpoints_of
from cardsign.statements import KeysetId, read_keyset
from cardsign.trust import (
    NO_STATES,
    Anchor,
    Issuer,
    IssuerState,
    IssuerStates,
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Policy,
    RollbackFloor,
    TofuAnchor,
    TransientStates,
    TrustedIssuer,
)
from cardsign.urls import CARD_PATH, JWKS_PATH, KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify import VerificationError, VerifiedCard
from tests.jose.statement_making import DAY, NOW, T0, key
from tests.publications import PUBLIC, sign
from tests.support import LastingStates, put
from tests.trust.histories import keyset, release

HOST = "https://tides.example"
GOOD = sign(PUBLIC, key("card"))
UNSIGNED = json.dumps(PUBLIC).encode()
UNKNOWN = sign(PUBLIC, key("mallory"))
KEYS = KeysAnchor(JwkSet.of([key("card").public]), {})
FIRST = keyset("ann", "bob")
PINNED = KeysetAnchor(KeysetId(1, 1, read_keyset(FIRST).digest))


@pytest.fixture
def network(authority: Authority) -> Network:
    """All hosts there are."""
    return Network(authority)


def issuer(anchor: Anchor = KEYS, **how: Any) -> TrustedIssuer:
    """The issuer, which the operator only warns about."""
    places = (parse_place(HOST),)
    return TrustedIssuer(
        "tides", anchor, places, **{"freshness": "waived", "enforce": "warn", **how}
    )


def discoverer(
    network: Network, one: TrustedIssuer | None = None, states: IssuerStates | None = None
) -> Discoverer:
    return Discoverer(
        Policy((one or issuer(),)),
        states or LastingStates(),
        fetcher=DocumentFetcher(network.settings(), now=lambda: NOW),
        now=lambda: NOW,
    )


SOFTENED: dict[str, tuple[bytes, TrustedIssuer, str]] = {
    "unsigned": (UNSIGNED, issuer(), "sig.none"),
    "unsigned, and without a verdict": (UNSIGNED, issuer(unsigned="unknown"), "sig.none"),
    "unsigned, beside a signature that is none": (
        json.dumps({**PUBLIC, "signature": {}}).encode(),
        issuer(),
        "sig.none",
    ),
    "an unknown key": (UNKNOWN, issuer(), "key.unknown"),
    "no evidence": (GOOD, issuer(PINNED, freshness="required"), "trust.freshness_unknown"),
    "no key set": (GOOD, issuer(JwksAnchor(HOST + JWKS_PATH)), "trust.no_keys"),
}


@pytest.mark.parametrize("case", SOFTENED)
def test_what_is_softened(case: str, network: Network, caplog: pytest.LogCaptureFixture) -> None:
    """The card as it came, of another type than a verified one; the verdict is as before."""
    card, one, code = SOFTENED[case]
    answers = {CARD_PATH: http(card)}
    if case == "no evidence":
        answers[KEYSET_PATH.format(epoch=1, version=1)] = http(FIRST)
    network.host("tides.example", answers)
    found = discoverer(network, one)
    before = found.examine(HOST)
    with caplog.at_level(logging.WARNING, "cardsign"):
        unverified = found.discover_or_warn(HOST)
    assert isinstance(unverified, UnverifiedCard)
    assert unverified.untrusted_document["name"] == "Tide tables"
    assert code in [reason.code for reason in unverified.report.reasons]
    assert unverified.report.verdict == before.verdict != "trusted"
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "tides" in caplog.text
    assert code in caplog.text
    with pytest.raises(VerificationError):
        found.discover(HOST)


def test_the_types_have_nothing_in_common() -> None:
    """So that no function takes one for the other."""
    shared = set(VerifiedCard.__mro__) & set(UnverifiedCard.__mro__)
    assert shared == {object}
    for name in ("document", "valid_until", "__getitem__"):
        assert not hasattr(UnverifiedCard, name)


def test_a_trusted_card_is_a_verified_one(network: Network, caplog: Any) -> None:
    """Nothing is logged of it."""
    network.host("tides.example", {CARD_PATH: http(GOOD)})
    with caplog.at_level(logging.WARNING, "cardsign"):
        assert isinstance(discoverer(network).discover_or_warn(HOST), VerifiedCard)
    assert caplog.records == []


# ------------------------------------------------------------------ what is not softened


def changed(card: bytes, **members: Any) -> bytes:
    return json.dumps({**json.loads(card), **members}).encode()


ELSEWHERE = put(PUBLIC, "/supportedInterfaces/0/url", "https://evil.example/a2a")
LEGACY_URL = {**PUBLIC, "url": "https://evil.example/a2a"}
TWICE = UNSIGNED.replace(b"{", b'{"name": "Tide tables", ', 1)
EXTENDED = with_marker(PUBLIC, ExtendedMarker("9f2c61d07be84a15", 1, T0 + DAY))
REFUSED: dict[str, tuple[Callable[[], bytes], TrustedIssuer]] = {
    "strict": (lambda: UNSIGNED, issuer(enforce="strict")),
    "an edited card": (lambda: changed(GOOD, description="Send money."), issuer()),
    "an edited card beside an unknown key": (
        lambda: changed(sign(json.loads(GOOD), key("mallory")), description="Send money."),
        issuer(),
    ),
    "an unsigned card with an endpoint elsewhere": (
        lambda: json.dumps(ELSEWHERE).encode(),
        issuer(),
    ),
    "an unsigned card with a second endpoint elsewhere": (
        lambda: json.dumps(LEGACY_URL).encode(),
        issuer(),
    ),
    "an unknown key's card with an endpoint elsewhere": (
        lambda: sign(ELSEWHERE, key("mallory")),
        issuer(),
    ),
    "a good signature with an endpoint elsewhere": (lambda: sign(ELSEWHERE, key("card")), issuer()),
    "an extended card": (lambda: json.dumps(EXTENDED).encode(), issuer()),
    "no card": (lambda: b'{"url": "https://tides.example/a2a"}', issuer()),
    "a member twice": (lambda: TWICE, issuer()),
    "no JSON": (lambda: b"<html>", issuer()),
    "an issuer without origins": (
        lambda: UNSIGNED,
        TrustedIssuer("tides", KEYS, None, freshness="waived", enforce="warn"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_softened(case: str, network: Network) -> None:
    """It is raised as by `discover`."""
    make, one = REFUSED[case]
    network.host("tides.example", {CARD_PATH: http(make())})
    with pytest.raises(VerificationError):
        discoverer(network, one).discover_or_warn(HOST, expect=Issuer("tides"))


ANSWERS = {
    "nothing": http(b"", status="404 No"),
    "a redirect": http(b"", status="302 There", location="https://evil.example/"),
    "a page": http(b"<html>", content_type="text/html"),
    "a broken server": http(b"{}", status="503 No"),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_where_there_is_no_card(answer: bytes, network: Network) -> None:
    """Nothing to use."""
    network.host("tides.example", {CARD_PATH: answer})
    with pytest.raises(VerificationError):
        discoverer(network).discover_or_warn(HOST)


@pytest.mark.parametrize("after", [UNSIGNED, UNKNOWN], ids=["unsigned", "an unknown key"])
def test_not_after_a_signed_card(after: bytes, network: Network) -> None:
    """Whoever stands between could take the signature away, or sign with a key of their own."""
    host = network.host("tides.example", {CARD_PATH: http(GOOD, cache_control="no-store")})
    found = discoverer(network)
    assert isinstance(found.discover_or_warn(HOST), VerifiedCard)
    host.answers = {CARD_PATH: http(after)}
    with pytest.raises(VerificationError):
        found.discover_or_warn(HOST)


MOVED: dict[str, tuple[str, str]] = {
    "the issuer was renamed": ("policy", "tides-2"),
    "the policy file was moved": ("elsewhere", "tides"),
    "both": ("elsewhere", "tides-2"),
}


@pytest.mark.parametrize(("policy", "name"), MOVED.values(), ids=MOVED)
@pytest.mark.parametrize("after", [UNSIGNED, UNKNOWN], ids=["unsigned", "an unknown key"])
@pytest.mark.parametrize("lasts", [True, False], ids=["in a folder", "in a store of the caller's"])
def test_not_under_another_name(
    after: bytes, policy: str, name: str, lasts: bool, network: Network, tmp_path: Path
) -> None:
    """State begins anew there, and what the origin served before is remembered all the same."""
    states = IssuerStates.create(tmp_path / "states") if lasts else LastingStates()
    host = network.host("tides.example", {CARD_PATH: http(GOOD, cache_control="no-store")})
    before = Policy((issuer(),)).known_as("policy").issuers[0]
    assert isinstance(discoverer(network, before, states).discover_or_warn(HOST), VerifiedCard)
    host.answers = {CARD_PATH: http(after)}
    moved = Policy((replace(issuer(), name=name),)).known_as(policy).issuers[0]

    with pytest.raises(VerificationError):
        discoverer(network, moved, states).discover_or_warn(HOST)


def test_a_signed_card_at_another_host_says_nothing_here(network: Network, tmp_path: Path) -> None:
    """Only the issuer's own origins count."""
    states = IssuerStates.create(tmp_path / "states")
    other = replace(issuer(), name="lamp", places=(parse_place("https://lamp.example"),))
    state = replace(IssuerState.begin(other), signed_before=True)
    states.begin(other, state)
    network.host("tides.example", {CARD_PATH: http(UNSIGNED)})
    assert isinstance(discoverer(network, states=states).discover_or_warn(HOST), UnverifiedCard)
    states.file("", "lamp").write_text("{}")

    with pytest.raises(VerificationError):  # nobody can say what it held
        discoverer(network, states=states).discover_or_warn(HOST)


def test_not_where_the_lock_says_that_the_issuer_signs(network: Network) -> None:
    """Its floors come from statements that were verified; here none of them has vanished."""
    served = {CARD_PATH: UNSIGNED, KEYSET_PATH.format(epoch=1, version=1): FIRST}
    network.host("tides.example", {path: http(body) for path, body in served.items()})
    one = issuer(PINNED)
    floors = {"tides": RollbackFloor(read_keyset(FIRST).id)}
    policy = Policy((one,)).known_as("policy", floors)
    with pytest.raises(VerificationError):
        discoverer(network, policy.issuers[0]).discover_or_warn(HOST)


def test_not_without_a_memory(network: Network) -> None:
    """Nobody could know whether the cards were signed before."""
    network.host("tides.example", {CARD_PATH: http(UNSIGNED)})
    for states in (NO_STATES, TransientStates()):  # the next process would begin anew
        with pytest.raises(TypeError, match=r"IssuerStates\.create"):
            discoverer(network, states=states).discover_or_warn(HOST)
        with pytest.raises(TypeError, match=r"IssuerStates\.create"):
            asyncio.run(discoverer(network, states=states).adiscover_or_warn(HOST))
        with pytest.raises(TypeError, match=r"IssuerStates\.create"):
            cardsign.discover_or_warn(HOST, policy=Policy((issuer(),)), states=states)


def test_not_from_anywhere_else(network: Network) -> None:
    """A copy at another origin is no card of the issuer, whoever is named."""
    network.host("mirror.example", {CARD_PATH: http(UNSIGNED)})
    for expect in (None, Issuer("tides")):
        with pytest.raises(VerificationError):
            discoverer(network).discover_or_warn("https://mirror.example", expect=expect)


def test_not_for_an_issuer_that_is_only_named_like_it(network: Network) -> None:
    """The entry is that of the URL and of the name."""
    network.host("tides.example", {CARD_PATH: http(UNSIGNED)})
    found = discoverer(network)
    with pytest.raises(VerificationError):
        found.discover_or_warn(HOST, expect=Issuer("acme"))


STATEMENTS: dict[str, dict[str, bytes]] = {
    "a release of other cards": {RELEASE_PATH: release(FIRST)},
    "a keyset by nobody": {
        KEYSET_PATH.format(epoch=1, version=1): keyset("mallory", "bob"),
    },
    "a release by nobody": {RELEASE_PATH: release(FIRST, "mallory")},
}


@pytest.mark.parametrize("case", STATEMENTS)
def test_not_where_a_statement_speaks_against_it(case: str, network: Network) -> None:
    """A release that does not list the card, or a statement that is not lawful."""
    lawful = {KEYSET_PATH.format(epoch=1, version=1): FIRST, RELEASE_PATH: release(FIRST)}
    documents = {CARD_PATH: GOOD, **lawful, **STATEMENTS[case]}
    network.host("tides.example", {path: http(body) for path, body in documents.items()})
    with pytest.raises(VerificationError):
        discoverer(network, issuer(PINNED, freshness="required")).discover_or_warn(HOST)


def test_a_changed_key_of_first_contact(network: Network) -> None:
    """The key that was kept is gone: that is no unknown key."""
    keys = JwkSet.of([key("card").public]).to_bytes()
    host = network.host(
        "tides.example",
        {
            CARD_PATH: http(GOOD, cache_control="no-store"),
            JWKS_PATH: http(keys, cache_control="no-store"),
        },
    )
    found = discoverer(network, issuer(TofuAnchor()))
    found.discover_or_warn(HOST)
    others = JwkSet.of([key("mallory").public]).to_bytes()
    host.answers = {CARD_PATH: http(UNKNOWN), JWKS_PATH: http(others)}
    with pytest.raises(VerificationError):
        found.discover_or_warn(HOST)


def test_a_policy_of_the_working_directory_cannot_say_it(tmp_path: Path) -> None:
    """Only one that the operator names."""
    from cardsign.errors import UsageFault
    from cardsign.trust import read_policy

    file = tmp_path / "trust.toml"
    public = ", ".join(f'{k} = "{v}"' for k, v in key("card").public.jwk().items())
    file.write_text(
        f'format = 1\n[[issuer]]\nname = "tides"\norigins = ["{HOST}"]\nenforce = "warn"\n'
        f"[issuer.anchor]\nkeys = [{{ public = {{ {public} }} }}]\n"
    )
    assert read_policy(file)[0].issuers[0].enforce == "warn"
    with pytest.raises(UsageFault, match="enforce"):
        read_policy(file, is_own=False)


def test_no_credential_and_no_call(network: Network) -> None:
    """What calls takes the payload of a verified card; there is none."""
    network.host("tides.example", {CARD_PATH: http(UNSIGNED)})
    card = discoverer(network).discover_or_warn(HOST)
    assert isinstance(card, UnverifiedCard)
    assert card.report.card is None
    with pytest.raises(AttributeError):
        endpoints_of(card.document)  # type: ignore[attr-defined]


def test_not_outside_the_origins_that_the_issuer_states(network: Network) -> None:
    """A keyset statement that was verified narrows what the policy allows."""
    other = keyset("ann", "bob", origins=["https://other.example"])
    anchor = KeysetAnchor(KeysetId(1, 1, read_keyset(other).digest))
    path = KEYSET_PATH.format(epoch=1, version=1)
    network.host("tides.example", {CARD_PATH: http(UNKNOWN), path: http(other)})
    with pytest.raises(VerificationError):
        discoverer(network, issuer(anchor, freshness="required")).discover_or_warn(HOST)
