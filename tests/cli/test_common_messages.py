"""Messages that people meet: where to allow a network, and no password of a URL in any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import peer
from tests.cli.conftest import Cardsign
from tests.statements.making import key
from tests.support import PORTABLE, dump, signed

JWKS = ("--jwks", "jwks.json")
PASSWORD = "hunter2"
SECRET_URL = f"https://me:{PASSWORD}@tides.example/x"


@pytest.fixture(autouse=True)
def _card_of_secrets(cardsign: Cardsign) -> None:
    """A card with a password in the URL of every place that has one, and the keys for it."""
    peer.write_cards()
    scheme = {"openIdConnectSecurityScheme": {"openIdConnectUrl": SECRET_URL}}
    flows = {"clientCredentials": {"tokenUrl": SECRET_URL, "scopes": {"a": SECRET_URL}}}
    interface = {**PORTABLE["supportedInterfaces"][0], "url": SECRET_URL}
    card = {
        **PORTABLE,
        "supportedInterfaces": [interface],
        "documentationUrl": SECRET_URL,
        "iconUrl": SECRET_URL,
        "provider": {"organization": SECRET_URL, "url": SECRET_URL},
        "securitySchemes": {"oidc": scheme, "oauth": {"oauth2SecurityScheme": {"flows": flows}}},
        "securityRequirements": [{"schemes": {"oidc": {}}}],
    }
    Path("card.json").write_bytes(dump(signed(card, key("card"))))
    other = {**card, "documentationUrl": f"{SECRET_URL}/2", "description": "See " + SECRET_URL}
    Path("other.json").write_bytes(dump(other))


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "card.json", *JWKS),
        ("lint", "card.json"),
        ("diff", "card.json", "other.json"),
        ("verify", "card.json", *JWKS),
        ("verify", "card.json", *JWKS, "--verbose"),
        ("verify", SECRET_URL, *JWKS),
        ("verify", "https://me:hun/hunter2@tides.example", *JWKS),
        ("sign", "other.json", "--key", "file:absent.pem"),
        ("fetch", SECRET_URL),
        ("fetch", "me:hunter2@agent.example"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_command_repeats_the_password_of_a_url(
    cardsign: Cardsign, words: tuple[str, ...], form: str
) -> None:
    """Whatever it says of the card, or of the URL that it refuses."""
    options = {"text": (), "json": ("--json",), "sarif": ("--format", "sarif")}[form]
    ended = cardsign(*words, *options)
    told = ended.text + ended.err
    if form == "json" and "card.json" in words and words[0] == "verify":  # data for programs
        verdict = ended.json
        assert PASSWORD in json.dumps(verdict.pop("card"))
        told = json.dumps(verdict) + ended.err
    assert told
    assert PASSWORD not in told


def test_what_a_signature_covers_is_printed_as_it_is(cardsign: Cardsign) -> None:
    """The twin: bytes that are data for programs are not changed."""
    words = ("canonicalize", "card.json", "--profile", "served-as-is")
    plain, as_json = cardsign(*words), cardsign(*words, "--json")
    assert PASSWORD.encode() in plain.out
    assert as_json.json["payload"].encode() == plain.out


def test_a_private_address_is_refused_with_what_allows_it(cardsign: Cardsign) -> None:
    """A network of one's own is named in a policy."""
    ended = cardsign("verify", "https://192.168.3.9", *JWKS)
    assert ended.status == 3
    assert "fetch.forbidden_address: 192.168.3.9 is a private address\n" in ended.text
    assert 'networks = ["192.168.3.0/24"] in a policy file that you name with --trust' in ended.text
