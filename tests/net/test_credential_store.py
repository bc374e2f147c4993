"""Which credential goes to which endpoint: by issuer and origin, and never by the card's word."""

from __future__ import annotations

import pytest

from cardsign.errors import CardsignError, UsageFault
from cardsign.net import (
    BASIC,
    Credential,
    CredentialSource,
    CredentialStore,
    Destination,
    Endpoint,
    demands_credentials,
)
from cardsign.urls import parse_origin, parse_url

TIDES, CDN = "https://tides.example", "https://cdn.example"
A, B = "aaaa", "bbbb"


def at(url: str) -> Endpoint:
    return Endpoint(parse_url(url), "JSONRPC", "1.0", "", "1.0")


def has(
    origin: str = TIDES, issuer: str | None = "tides", audience: str | None = None
) -> Credential:
    return Credential(issuer, parse_origin(origin), CredentialSource.parse("env:T"), audience)


HERE, THERE, THERE_TOO = at(f"{TIDES}/a2a"), at(f"{CDN}/a2a"), at(f"{CDN}/b")


def test_the_entry_of_the_audience_goes_first() -> None:
    """One without audience serves all of them, where there is none of its own."""
    plain, own = has(), has(audience=A)
    store = CredentialStore((plain, own))
    assert store.for_extended("tides", (HERE,), A) == Destination(HERE, own)
    assert store.for_extended("tides", (HERE,), B) == Destination(HERE, plain)
    assert store.for_extended("tides", (HERE,), None) == Destination(HERE, own)
    assert store.for_call("tides", (HERE,)) == Destination(HERE, plain)


def test_what_opens_an_extended_card_is_not_shown_to_the_agent_itself() -> None:
    """Whatever the order of the file; an entry without audience is, and so is --credential."""
    own, plain, given = has(audience=A), has(), has(issuer=None)
    assert CredentialStore((own,)).for_call("tides", (HERE,)) == Destination(HERE, None)
    assert CredentialStore((own, has(audience=B))).for_call("tides", (THERE,)) == Destination(
        THERE, None
    )
    assert CredentialStore((own, plain)).for_call("tides", (HERE,)) == Destination(HERE, plain)
    assert CredentialStore((given,)).for_call("tides", (HERE,)) == Destination(HERE, given)
    assert CredentialStore((own,)).is_for_extended_alone("tides")
    assert not CredentialStore((own, plain)).is_for_extended_alone("tides")
    assert not CredentialStore().is_for_extended_alone("tides")


def test_the_first_endpoint_at_which_a_credential_belongs() -> None:
    """The card's order among those; others are not asked."""
    store = CredentialStore((has(CDN, audience=A),))
    assert store.for_extended("tides", (HERE, THERE, THERE_TOO), A).endpoint == THERE
    assert CredentialStore((has(CDN),)).for_call("tides", (HERE, THERE)).endpoint == THERE
    assert CredentialStore().for_call("tides", (HERE, THERE)) == Destination(HERE, None)


def test_the_credential_of_the_command_line_is_for_whom_it_names() -> None:
    """It has no issuer, and one origin all the same."""
    given = has(issuer=None)
    assert CredentialStore((given,)).for_extended("anybody", (THERE, HERE), A) == Destination(
        HERE, given
    )


REFUSED = {
    "nobody's": ((), (HERE,), A, "credential.none"),
    "another issuer's": ((has(issuer="others"),), (HERE,), A, "credential.none"),
    "another audience's": ((has(audience=B),), (HERE,), A, "credential.none"),
    "another origin's": ((has(CDN, audience=A),), (HERE,), A, "credential.elsewhere"),
    "the same host's, another port": (
        (has(f"{TIDES}:8443", audience=A),),
        (HERE,),
        A,
        "credential.elsewhere",
    ),
    "no audience": ((has(),), (HERE,), None, "usage.conflict"),
    "two audiences": ((has(audience=A), has(audience=B)), (HERE,), None, "usage.conflict"),
}


@pytest.mark.parametrize(("own", "endpoints", "audience", "code"), REFUSED.values(), ids=REFUSED)
def test_no_errand(
    own: tuple[Credential, ...], endpoints: tuple[Endpoint, ...], audience: str | None, code: str
) -> None:
    """Nothing is sent, and it is a fault of this machine: the card may be sound."""
    with pytest.raises(CardsignError) as caught:
        CredentialStore(own).for_extended("tides", endpoints, audience)
    assert caught.value.code == code
    assert caught.value.exit_status == 2


def test_an_entry_may_say_how_it_is_shown() -> None:
    """The user's word goes before the card's, also where the card says nothing."""
    basic = Credential("tides", parse_origin(TIDES), CredentialSource.parse("env:T"), None, BASIC)
    header = CredentialStore((basic,), {"T": "me:pass"}).open(Destination(HERE, basic), {})
    assert header is not None
    assert header.value == "Basic bWU6cGFzcw=="
    assert CredentialStore().open(Destination(HERE, None), {}) is None


@pytest.mark.parametrize(
    ("secret", "told", "shown"),
    [
        ("me:passw0rd", "passw0rd", True),
        ("me:passw0rd", "bWU6cGFzc3cwcmQ=", True),
        ("me:passw0rd", "me:passw0rd", True),
        ("me:passw0rd", "me and my pass", False),
        ("me:at", "at noon", False),
    ],
)
def test_a_password_that_is_repeated(secret: str, told: str, shown: bool) -> None:
    """By itself, with its user, or as it was sent; one of two letters stands in many words."""
    basic = Credential("tides", parse_origin(TIDES), CredentialSource.parse("env:T"), None, BASIC)
    header = CredentialStore((basic,), {"T": secret}).open(Destination(HERE, basic), {})
    assert header is not None
    assert (header.quotable(f"so {told}!") == "(it repeats the credential)") is shown
    assert header.masked(f"so {told}!") == ("so (the credential)!" if shown else f"so {told}!")


def test_what_a_card_demands() -> None:
    """A requirement that is empty lets everybody in (A2A 1.0 4.5)."""
    named = {"schemes": {"harbour": {"list": []}}}
    assert demands_credentials({"securityRequirements": [named]})
    assert demands_credentials({"security": [{"harbour": []}]})
    assert not demands_credentials({"securityRequirements": [named, {}]})
    assert not demands_credentials({"security": [{}]})
    assert not demands_credentials({"securitySchemes": {"harbour": {}}})


def test_a_conflict_names_the_option() -> None:
    """What to do is said."""
    with pytest.raises(UsageFault) as caught:
        CredentialStore((has(),)).for_extended("tides", (HERE,), None)
    assert "--audience" in caught.value.hint
