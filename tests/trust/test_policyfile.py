"""trust.toml: what it may say, that it denies by default, and that every refusal has its line."""

from __future__ import annotations

import contextlib
import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.profiles import DEFAULT_PROFILES, FULL_PROFILES
from cardsign.errors import UsageFault
from cardsign.jose.jwk import ALGORITHMS, VerifyAlg
from cardsign.jose.keys import PrivateKey
from cardsign.statements.keyset import KeysetId, RootAnchor
from cardsign.tomltext import find_lines, line_of
from cardsign.trust import policy as policies
from cardsign.trust.policyfile import parse_policy
from cardsign.urls import parse_place, parse_url
from tests.support import read_cases

THUMBPRINTS = ("A" * 43, "B" * 42 + "E")
CASES = read_cases(__file__)
DIGEST = "0" * 64


def policy_text(
    *members: str,
    name: str = "acme",
    origins: str = '["https://a.example"]',
    anchor: str = 'jwks = "https://a.example/k"',
) -> str:
    """One issuer: header on line 2, its members from line 5, the anchor's header behind them."""
    lines = ["format = 1", "[[issuer]]", f'name = "{name}"', f"origins = {origins}", *members]
    gap = [] if members else [""]
    return "\n".join([*lines, *gap, "[issuer.anchor]", anchor, ""])


def public(key: PrivateKey) -> str:
    """A public JWK as an inline table."""
    members = key.public.jwk().items()
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in members) + " }"


def parse(text: str, **how: Any) -> policies.Policy:
    """What a policy of this text says."""
    return parse_policy(text.encode("utf-8", "surrogatepass"), **how)


def only(text: str) -> policies.TrustedIssuer:
    """The one entry of a policy."""
    (issuer,) = parse(text).issuers
    return issuer


def test_an_empty_policy_trusts_nobody() -> None:
    """A file that names its format and nothing else denies everything."""
    assert parse("format = 1\n") == policies.Policy()


def test_what_an_entry_says() -> None:
    """By default full signatures, what we sign with, and freshness; else each member arrives."""
    plain = only(policy_text())
    assert (plain.name, plain.places) == ("acme", (parse_place("https://a.example"),))
    assert (plain.profiles, plain.algorithms) == (FULL_PROFILES, tuple(ALGORITHMS))
    assert (plain.freshness, plain.require, plain.is_holder) == ("required", (), False)
    assert (plain.networks, plain.proxy) == ((), None)

    places = ("https://a.example", "https://shared.example/agents/geo/")
    members = ['accept = "sdk"', 'algorithms = ["ES256", "EdDSA"]', 'require = ["publisher"]']
    members += ['freshness = "waived"', 'networks = ["10.0.0.0/8", "fd12::/16"]']
    entry = only(policy_text(*members, origins=json.dumps(places)))
    assert tuple(map(str, entry.places or ())) == places
    assert (entry.profiles, entry.algorithms) == (DEFAULT_PROFILES, ("ES256", "EdDSA"))
    assert (entry.require, entry.freshness) == (("publisher",), "waived")
    assert tuple(map(str, entry.networks)) == ("10.0.0.0/8", "fd12::/16")
    proxied = only(policy_text('proxy = "http://proxy.example:3128"'))
    assert str(proxied.proxy) == "http://proxy.example:3128"


@pytest.mark.parametrize(("members", "limits"), CASES["limits"].items())
def test_limits(members: str, limits: dict[str, int]) -> None:
    """Seconds, or a number and its unit."""
    assert parse(f"format = 1\n[limits]\n{members}\n") == policies.Policy(**limits)


def test_anchors(alice: PrivateKey, bob: PrivateKey) -> None:
    """Each kind of anchor."""

    def anchor(text: str, *members: str) -> policies.Anchor:
        return only(policy_text(*members, anchor=text)).anchor

    pin = f'epoch = 3, version = 12, digest = "{DIGEST}"'
    assert anchor(f"keyset = {{ {pin} }}") == policies.KeysetAnchor(KeysetId(3, 12, DIGEST))
    named = anchor(f'keyset = {{ {pin}, issuer = "tides" }}')
    assert named == policies.KeysetAnchor(KeysetId(3, 12, DIGEST), "tides")
    pairs = frozenset(zip(THUMBPRINTS, ("ann", "bob"), strict=True))
    keys = [f'{{ thumbprint = "{thumbprint}", holder = "{who}" }}' for thumbprint, who in pairs]
    roots = f'roots = {{ issuer = "tides", threshold = 2, keys = [{", ".join(keys)}] }}'
    assert anchor(roots) == policies.KeysetAnchor(RootAnchor(2, pairs), "tides")
    url = "https://a.example/.well-known/jwks.json"
    assert anchor(f'jwks = "{url}"') == parse_url(url)
    held = f'{{ holder = "publisher", public = {public(alice)} }}'
    pinned = anchor(f"keys = [{held}, {{ public = {public(bob)} }}]", 'require = ["publisher"]')
    assert isinstance(pinned, policies.KeysAnchor)
    assert [key.kid for key in pinned.keys.keys] == ["alice", "bob"]
    assert pinned.holders == {"alice": "publisher"}


REFUSED: list[tuple[str, int, str]] = [
    *((policy_text(member), 5, message) for member, message in CASES["issuer"].items()),
    *((policy_text(anchor=anchor), 7, message) for anchor, message in CASES["anchor"].items()),
    *((case["text"], case["line"], case["message"]) for case in CASES["policy"].values()),
    ("format = 1\nx = " + "[" * 9000, 0, "nested"),
    (policy_text(origins='["a"' + ', "a"' * 1024 + "]"), 4, "at most 1024"),
]


@pytest.mark.parametrize(("text", "line", "message"), REFUSED, ids=lambda cell: str(cell)[:60])
def test_what_is_refused(text: str, line: int, message: str) -> None:
    """The code, the file, the line (of what is no TOML in the message), and what was expected."""
    with pytest.raises(UsageFault) as refused:
        parse(text, source="here.toml")
    fault = refused.value
    assert (fault.code, fault.path, fault.exit_status) == ("policy.malformed", "here.toml", 2)
    assert (fault.finding.place.line or 0) == line
    assert message in f"{fault.message} {fault.hint}"


OPERATORS = ['networks = ["10.0.0.0/8", "fd12::/16"]', 'proxy = "http://proxy.example:3128"']


@pytest.mark.parametrize("member", OPERATORS)
def test_what_only_the_operators_own_policy_may_say(member: str) -> None:
    """A policy that was merely found is refused with the line and the way out (E6, E13)."""
    text = policy_text(member)
    assert parse(text).issuers

    with pytest.raises(UsageFault) as refused:
        parse(text, source="trust.toml", is_own=False)

    fault = refused.value
    assert (fault.code, fault.finding.place.line, fault.exit_status) == ("config.not_allowed", 5, 2)
    assert "found in the working directory" in fault.message
    assert "--trust trust.toml" in fault.finding.hint


def test_a_private_key_is_refused_and_not_repeated(alice: PrivateKey) -> None:
    """It is compromised; the public one beside it is read."""
    for members, code in (('d = "AAAA", ', "key.private_material"), ("", "")):
        key = public(alice).replace("{", "{ " + members, 1)
        text = policy_text(anchor=f"keys = [\n  {{ public = {key} }},\n]")
        if not code:
            assert only(text)
            continue
        with pytest.raises(UsageFault) as refused:
            parse(text)
        assert code in refused.value.message
        assert "AAAA" not in f"{refused.value.message} {refused.value.finding.hint}"
        assert refused.value.finding.place.line == 7


def test_one_key_under_two_kids(alice: PrivateKey) -> None:
    """It would stand for two holders, and one signature for two of `require`."""
    key = public(alice).replace(f', kid = "{alice.public.kid}"', "")[1:]
    entries = [f'{{ holder = "{who}", public = {{ kid = "{who}", {key} }}' for who in ("a", "b")]
    with pytest.raises(UsageFault, match=r"hold one key") as refused:
        parse(policy_text(anchor="keys = [\n  " + ",\n  ".join(entries) + ",\n]"))
    assert (refused.value.code, refused.value.finding.place.line) == ("policy.malformed", 6)


def test_the_tables_follow_the_registries() -> None:
    """What the schema offers is what the engine accepts."""
    assert get_args(policies.Accept) == tuple(policies.ACCEPTED)
    assert get_args(VerifyAlg) == tuple(ALGORITHMS)


# ------------------------------------------------------------------- lines

LAID_OUT = Path(__file__).with_name("laid-out.toml").read_text()
#: Places, with their lines; what is not there has the line of what is around it.
PLACES = """
limits.skew:3 issuer.0:5 issuer.0.name:6 issuer.0.origins:7 issuer.0.origins.2:7 issuer.0.anchor:12
issuer.0.anchor.keys.0.holder:13 issuer.0.anchor.keys.1.public.kty:13 issuer.1:15 issuer.1.name:16
issuer.1.anchor.keys.0.public.kty:20 issuer.1.anchor.keys.1.holder:22
issuer.1.anchor.keys.1.lists.1:23 issuer.1.anchor.keys.1.last:31 z:1 x.name:1
issuer.0.require:5 issuer.1.anchor.jwks:15 nothing:1 a]b.[c:32 a]b.[c.d:33
"""


@pytest.mark.parametrize("place", PLACES.split())
def test_a_place_has_its_line(place: str) -> None:
    """Through comments and strings; what a value holds has the line of the value."""
    tomllib.loads(LAID_OUT)
    names, _, line = place.partition(":")
    location = tuple(int(name) if name.isdigit() else name for name in names.split("."))
    assert line_of(find_lines(LAID_OUT), location) == int(line)


@given(st.text(max_size=60) | st.text("[]{}=,.\"'#\n ab1", max_size=60))
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    """Nothing but our own fault comes out."""
    with contextlib.suppress(UsageFault):
        parse("format = 1\n" + text)
