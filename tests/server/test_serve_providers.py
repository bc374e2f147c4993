"""Who gets an extended card, where a story cannot say it: odd keys, secrets, logs.

`credentials.txt`, `certificates.txt`, `oidc.txt` and `asked.txt` of `exchanges` have the rest.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, get_args

import pytest
from werkzeug.test import Client

from cardsign.card.security import PROVIDERS as SCHEMES
from cardsign.card.security import ProviderType, schemes_of
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import PrivateKey
from cardsign.server.providers import make_providers
from cardsign.server.settings import AudienceRule, ProviderSettings, ServerSettings
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.identity import Issuer, counterpart
from tests.server.served import serve
from tests.support import read_cases

AUD = "https://tides.example"
PATH = "/a2a/extendedAgentCard"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, key: PrivateKey) -> Path:
    """What is published: cards for callers with a certificate, or with any other credential."""
    folder = tmp_path_factory.mktemp("cards")
    plain = {**PUBLIC, "securitySchemes": {}, "securityRequirements": []}
    publish_cards(folder, key, plain, "staff", now=datetime.now(UTC))
    return folder


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with counterpart() as served:
        yield Issuer(served)


def serve_by(folder: Path, kind: ProviderType, **settings: Any) -> Client:
    """A server with one provider, which is on this machine."""
    made = ProviderSettings(type=kind, insecure_loopback_http=True, **settings)
    return serve(folder, ServerSettings(providers=(made,)))


def serve_oidc(folder: Path, issuer: Issuer) -> Callable[[str], int]:
    """The status of who asks with a token of the issuer."""
    client = serve_by(folder, "oidc", issuer=issuer.url, aud=AUD, opens="staff")
    return lambda token: client.get(PATH, headers={"Authorization": f"Bearer {token}"}).status_code


#: What the operator's log says of a token, and the token; the settings of each provider, and which
#: of them take the scheme that its type writes into a card.
CASES = read_cases(__file__)
PROVIDERS = CASES["providers"]


@pytest.mark.parametrize(("words", "members"), CASES["reasons"].items(), ids=CASES["reasons"])
def test_the_log_says_why_a_token_is_refused(
    folder: Path,
    issuer: Issuer,
    caplog: pytest.LogCaptureFixture,
    words: str,
    members: dict[str, Any],
) -> None:
    """Without the token."""
    caplog.set_level("INFO", "cardsign.server")
    token = issuer.token(**members)
    assert serve_oidc(folder, issuer)(token) == 401
    (line,) = (text for text in caplog.messages if text.startswith("refused a credential"))
    assert line.startswith(f"refused a credential (oidc {issuer.url}): ")
    assert words in line
    assert token not in caplog.text


def test_odd_keys_of_an_issuer_are_skipped(folder: Path, issuer: Issuer, log: list[str]) -> None:
    """Each is a line; its tokens are refused, and those of the good key are not."""
    good = dict(issuer.keys["k1"].public.jwk())
    weak = {"kty": "RSA", "kid": "weak", "n": encode_base64url(b"\xff" * 128), "e": "AQAB"}
    zero = {**good, "kid": "zero", "x": "AA" + str(good["x"])}
    twice = [{**good, "kid": "twice"}] * 2
    secret = {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"}
    keys = [weak, secret, zero, *twice, {**good, "kid": None}, "words", good]
    issuer.served.answers["/keys"] = (200, {"keys": keys})
    ask = serve_oidc(folder, issuer)
    assert ask(issuer.token()) == 200
    for kid in ("weak", "oct", "zero", "twice"):
        assert ask(issuer.token(kid=kid)) == 401
    skipped = [line for line in log if "skipped key" in line]
    assert len(skipped) == 7
    assert not any("c2VjcmV0" in line for line in skipped)


def test_our_own_credential_is_shown_to_the_server_that_is_asked(
    folder: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    """By RFC 7662; what the query of a URL holds is in no line of the log."""
    monkeypatch.setenv("VERIFIER", "us:s3cret")
    issuer.served.answers["/introspect"] = (200, {"active": True})
    more = {"client": "env:VERIFIER", "opens": "staff"}
    bearer = {"Authorization": "Bearer opaque"}
    client = serve_by(folder, "http_verifier", url=f"{issuer.url}/introspect?key=s3cret", **more)
    assert client.get(PATH, headers=bearer).status_code == 200
    ours = "Basic " + base64.b64encode(b"us:s3cret").decode()
    assert issuer.served.authorizations == [ours]
    dead = serve_by(folder, "http_verifier", url="http://127.0.0.1:1/?key=s3cret", **more)
    assert dead.get(PATH, headers=bearer).status_code == 503
    assert ["asking http://127.0.0.1:1/: fetch." in line for line in log] == [True]
    assert "s3cret" not in log[0]


# ------------------------------------------------------------------ the one table of schemes

RULES = (AudienceRule(claim="account", value="123456789012", opens="staff"),)


def takers_of(scheme: Any) -> set[str]:
    """The types of providers, of all that there are, which take a scheme of a card."""
    chosen = [ProviderSettings(type=k, rules=RULES, **s) for k, (s, _) in PROVIDERS.items()]
    made = make_providers(ServerSettings(providers=tuple(chosen)), BoundedSemaphore(4), time.time)
    (parsed,) = schemes_of({"securitySchemes": {"s": scheme}}).values()
    return {provider.settings.type for provider in made if provider.gives(parsed)}


@pytest.mark.parametrize("kind", sorted({*get_args(ProviderType), *SCHEMES}))
def test_G15_a_provider_takes_the_scheme_that_the_table_derives(kind: Any) -> None:
    """What a build writes into the card is what the server takes, and no other has it."""
    settings, takers = PROVIDERS[kind]
    members = {"name" if name == "key" else name: value for name, value in settings.items()}
    assert takers_of(SCHEMES[kind](members)) == set(takers)


def test_a_signed_request_is_no_token_of_oauth() -> None:
    """Who asks as an OAuth scheme says has no pre-signed URL of AWS."""
    bearer = set(PROVIDERS["static_token"][1])
    assert takers_of({"oauth2SecurityScheme": {"flows": {}}}) == bearer - {"aws_sigv4"}
