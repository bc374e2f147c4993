"""Who gets an extended card: each provider against a real counterpart on loopback."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from werkzeug.test import Client

from cardsign.card.security import PROVIDERS as SCHEMES
from cardsign.card.security import (
    DeclaredProvider,
    ProviderType,
    provider_schemes,
    schemes_of,
)
from cardsign.errors import FetchFailed, ServeFault, UsageFault
from cardsign.jose.keys import PrivateKey
from cardsign.server.providers import Places, Provider, make_providers
from cardsign.server.settings import AudienceRule, ProviderSettings, ServerSettings
from cardsign.server.tokens import create_token
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.identity import Counterpart, Issuer, counterpart, unsigned
from tests.server.served import Served, write_tokens

AUD = "https://tides.example"
PATH = "/a2a/extendedAgentCard"
CARD = "/.well-known/agent-card.json"


class Asked(Served):
    """A server that is asked for its extended card."""

    def ask(self, **headers: str) -> Any:
        """Ask for the extended card; underscores in names are dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.get(PATH, headers=named)

    def bearer(self, token: str) -> Any:
        """Ask with a bearer token."""
        return self.ask(Authorization=f"Bearer {token}")


Serve = Callable[..., Asked]


@pytest.fixture
def serve(tmp_path: Path, key: PrivateKey) -> Serve:
    """Publish cards for two audiences, with these schemes, and serve them."""

    def make(
        *providers: ProviderSettings,
        schemes: dict[str, Any] | None = None,
        demanded: list[Any] | None = None,
    ) -> Asked:
        wanted = schemes or {"harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        either = demanded or [{"schemes": {name: {}}} for name in wanted]
        card = {**PUBLIC, "securitySchemes": wanted, "securityRequirements": either}
        publish_cards(tmp_path / "pub", key, card, "staff", "crew", now=datetime.now(UTC))
        return Asked(tmp_path / "pub", ServerSettings(providers=providers), time.time)

    return make


@pytest.fixture
def peer() -> Iterator[Counterpart]:
    with counterpart() as served:
        yield served


@pytest.fixture
def issuer(peer: Counterpart) -> Issuer:
    return Issuer(peer)


def oidc(issuer: Issuer, **more: Any) -> ProviderSettings:
    """The provider of an issuer; every caller gets the card of the staff."""
    chosen = {"opens": "staff", "aud": AUD, **more}
    return ProviderSettings(type="oidc", issuer=issuer.url, insecure_loopback_http=True, **chosen)


def audience_of(answer: Any) -> str:
    """Whose card an answer is."""
    assert answer.status_code == 200, answer.data
    extensions = json.loads(answer.data)["capabilities"]["extensions"]
    (audience,) = [one["params"]["audience"] for one in extensions if "audience" in one["params"]]
    return audience


# ------------------------------------------------------------------ OpenID Connect


def test_a_token_of_the_cards_own_issuer_opens_the_card(serve: Serve, issuer: Issuer) -> None:
    """With three settings: type, issuer, aud; discovery and keys are asked once."""
    url = f"{issuer.url}/.well-known/openid-configuration"
    schemes = {"sso": {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}}
    served = serve(oidc(issuer), schemes=schemes)
    for _ in range(3):
        assert audience_of(served.bearer(issuer.token())) == "staff"
    assert issuer.served.asked == ["/.well-known/openid-configuration", "/keys"]
    missing = served.ask()
    assert missing.status_code == 401
    assert missing.headers["WWW-Authenticate"] == 'Bearer realm="sso"'


def stolen(issuer: Issuer) -> str:
    """A token by a key of nobody, under a kid of the issuer."""
    published = issuer.served.answers["/keys"]
    own = issuer.keys["k1"]
    issuer.add_key("k1")
    token = issuer.token()
    issuer.keys["k1"], issuer.served.answers["/keys"] = own, published
    return token


def under_header(issuer: Issuer, **header: Any) -> str:
    """A token that the issuer's key has signed, whatever its header says."""
    signing_input = f"{_header(**header)}.{issuer.token().split('.')[1]}"
    numbers = decode_dss_signature(
        issuer.keys["k1"].private_key.sign(signing_input.encode(), ec.ECDSA(SHA256()))
    )
    return f"{signing_input}.{_encoded(b''.join(one.to_bytes(32) for one in numbers))}"


BAD: dict[str, Callable[[Issuer], str]] = {
    "another issuer": lambda i: i.token(iss="https://evil.example"),
    "no issuer": lambda i: i.token(iss=None),
    "another audience": lambda i: i.token(aud="https://waves.example"),
    "no audience": lambda i: i.token(aud=None),
    "an audience that holds ours as a part": lambda i: i.token(aud=f"{AUD}.evil.example"),
    "expired": lambda i: i.token(exp=int(time.time()) - 3600),
    "no end": lambda i: i.token(exp=None),
    "an end that is no number": lambda i: i.token(exp="9999999999"),
    "not valid yet": lambda i: i.token(nbf=int(time.time()) + 3600),
    "a beginning that is no number": lambda i: i.token(nbf="0"),
    "a kid that is not published": lambda i: i.token(header={"kid": "k9"}),
    "no kid": lambda i: i.token(header={"kid": None}),
    "the algorithm none": lambda i: unsigned(i.token()),
    "a signature of another key": stolen,
    "changed claims": lambda i: _changed(i.token()),
    "crit": lambda i: under_header(i, crit=["x"]),
    "b64": lambda i: under_header(i, b64=True),
    "the algorithm of another key": lambda i: under_header(i, alg="RS256"),
    "more than three parts": lambda i: i.token() + ".x",
    "two parts": lambda i: i.token().rpartition(".")[0],
    "words": lambda i: "friend",
    "nothing": lambda i: "",
}


def _header(**more: Any) -> str:
    return _encoded(json.dumps({"alg": "ES256", "kid": "k1", **more}).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _changed(token: str) -> str:
    header, payload, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    text = json.dumps({**claims, "sub": "admin"}).encode()
    return f"{header}.{_encoded(text)}.{signature}"


#: What the operator's log says of some of them.
REASONS = {
    "another audience": "aud",
    "expired": "expired",
    "another issuer": "iss",
    "a kid that is not published": "names no key of its issuer",
    "changed claims": "signature",
    "words": "three parts",
}


@pytest.mark.parametrize("name", BAD)
def test_any_other_token_is_refused(
    serve: Serve, issuer: Issuer, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """401 with invalid_token; the log says why, without the token, and the caller is not told."""
    caplog.set_level("INFO", "cardsign.server")
    served = serve(oidc(issuer))
    assert audience_of(served.bearer(under_header(issuer))) == "staff"  # as the test signs it
    token = BAD[name](issuer)
    answer = served.bearer(token)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="harbour", error="invalid_token"'
    assert answer.json["error"]["message"] == "the credential is not valid"
    assert served.client.get(CARD).status_code == 200
    (line,) = [text for text in caplog.messages if text.startswith("refused a credential")]
    assert line.startswith(f"refused a credential (oidc {issuer.url}): ")
    assert REASONS.get(name, "") in line
    assert not token or token not in caplog.text


def test_the_kind_of_a_token_may_be_demanded(serve: Serve, issuer: Issuer) -> None:
    """An ID token is no access token (RFC 9068)."""
    served = serve(oidc(issuer, typ=("at+jwt",)))
    assert served.bearer(issuer.token(header={"typ": "application/at+jwt"})).status_code == 200
    assert served.bearer(issuer.token(header={"typ": "JWT"})).status_code == 401


def test_a_verified_token_ends_with_its_time_and_with_its_key(serve: Serve, issuer: Issuer) -> None:
    """Once the issuer's new set is known."""
    served = serve(oidc(issuer))
    brief, long = issuer.token(), issuer.token(exp=int(time.time()) + 3600)
    assert (served.bearer(brief).status_code, served.bearer(long).status_code) == (200, 200)
    served.ahead = 601 + 60
    assert (served.bearer(brief).status_code, served.bearer(long).status_code) == (401, 200)
    del issuer.keys["k1"]
    issuer.add_key("k2")
    served.ahead += 601
    assert served.bearer(long).status_code == 401
    assert served.bearer(issuer.token(kid="k2", exp=int(time.time()) + 3600)).status_code == 200


def test_a_new_key_is_asked_for_once_a_minute(serve: Serve, issuer: Issuer) -> None:
    """So that unknown kids cannot make us flood the issuer."""
    served = serve(oidc(issuer))
    assert served.bearer(issuer.token()).status_code == 200
    issuer.add_key("k2")
    assert served.bearer(issuer.token(kid="k2")).status_code == 401
    served.ahead = 61
    assert served.bearer(issuer.token(kid="k2")).status_code == 200
    count = len(issuer.served.asked)
    for number in range(5):
        assert served.bearer(issuer.token(header={"kid": f"x{number}"})).status_code == 401
    assert len(issuer.served.asked) == count


def test_a_configuration_of_another_issuer_is_not_believed(serve: Serve, issuer: Issuer) -> None:
    """It would let that one's keys speak for ours."""
    told = {"issuer": "https://evil.example", "jwks_uri": f"{issuer.url}/keys"}
    issuer.served.answers["/.well-known/openid-configuration"] = (200, told)
    assert serve(oidc(issuer)).bearer(issuer.token()).status_code == 503


@pytest.mark.parametrize("is_there", [True, False], ids=["500", "nobody listens"])
def test_an_issuer_that_gives_no_answer_is_503(
    serve: Serve, issuer: Issuer, is_there: bool
) -> None:
    """For extended cards alone; it is not asked by every caller, and the operator hears why."""
    url = issuer.url if is_there else issuer.url.rpartition(":")[0] + ":1"
    configuration = f"{url}/.well-known/openid-configuration"
    working = issuer.served.answers["/.well-known/openid-configuration"]
    issuer.served.answers["/.well-known/openid-configuration"] = (500, {})
    served = serve(oidc(issuer).model_copy(update={"issuer": url}))
    token = issuer.token()
    for _ in range(3):
        answer = served.bearer(token)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert answer.json["error"]["status"] == "UNAVAILABLE"
    assert served.client.get(CARD).status_code == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    bearer = {"Authorization": f"Bearer {token}"}
    assert served.client.post("/a2a", json=call, headers=bearer).status_code == 503
    assert len(issuer.served.asked) == (1 if is_there else 0)
    problem = f"warning: could not check a credential (oidc {url}): "
    assert served.log[0].startswith(f"{problem}asking {configuration}: ")
    assert ("fetch." in served.log[0]) == (not is_there)
    assert served.log[1:] == [f"{problem}{url} gave no answer a moment ago"] * 3
    assert token not in "".join(served.log)
    issuer.served.answers["/.well-known/openid-configuration"] = working
    served.ahead = 6
    assert served.bearer(token).status_code == (200 if is_there else 503)


#: Seconds, whether the issuer answers, the status of a caller, and how often keys were asked for.
KEYS_IN_TIME = [
    (0, True, 200, 1),
    (539, True, 200, 1),  # whatever the issuer says of caches
    (541, False, 200, 2),  # one caller asks before they end, and has his card in any case
    (542, False, 200, 2),
    (550, False, 200, 3),
    (560, True, 200, 4),
    (1150, True, 200, 5),
    (1751, False, 503, 6),  # keys beyond their time may have been revoked
    (1752, False, 503, 6),
    (1757, True, 200, 7),
]


def test_keys_are_good_for_ten_minutes(serve: Serve, issuer: Issuer) -> None:
    """Whoever asks; a token that is none asks for nothing."""
    issuer.served.headers["Cache-Control"] = "no-store"
    keys, token = issuer.served.answers["/keys"], issuer.token(exp=int(time.time()) + 3600)
    served = serve(oidc(issuer))
    for junk in ("", "x", "x.y.z", unsigned(issuer.token())):
        assert served.bearer(junk).status_code == 401
    assert issuer.served.asked == []
    for served.ahead, is_well, status, asked in KEYS_IN_TIME:
        issuer.served.answers["/keys"] = keys if is_well else (500, {})
        assert served.bearer(token).status_code == status, served.ahead
        assert issuer.served.asked.count("/keys") == asked, served.ahead


# ------------------------------------------------------------------ who gets which card


def test_scopes_and_claims_choose_the_card(serve: Serve, issuer: Issuer) -> None:
    """The first rule that holds; 403 names the missing scope in the challenge and in words."""
    rules = (
        AudienceRule(claim="groups", value="sailors", opens="crew"),
        AudienceRule(claim="scope", value="card.read", opens="staff"),
    )
    served = serve(oidc(issuer, opens=None, rules=rules))
    assert audience_of(served.bearer(issuer.token(groups=["x", "sailors"]))) == "crew"
    assert audience_of(served.bearer(issuer.token(scope="a card.read"))) == "staff"
    for scope in (None, "", "card.readonly", "card read"):
        answer = served.bearer(issuer.token(scope=scope))
        assert answer.status_code == 403
        assert answer.headers["WWW-Authenticate"] == (
            'Bearer realm="harbour", error="insufficient_scope", scope="card.read"'
        )
        assert "card.read" in answer.json["error"]["message"]
        assert answer.json["error"]["status"] == "PERMISSION_DENIED"


def test_several_providers_are_alternatives(serve: Serve, tmp_path: Path, issuer: Issuer) -> None:
    """Any one will do; a dead one harms no caller of another; each has its challenge."""
    key, line = create_token("crew")
    keys = ProviderSettings(
        type="api_key", token_file=write_tokens(tmp_path, line), key="X-Api-Key"
    )
    schemes = {
        "harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "x-api-key"}},
    }
    served = serve(oidc(issuer), keys, schemes=schemes)
    assert audience_of(served.bearer(issuer.token())) == "staff"
    assert audience_of(served.ask(X_Api_Key=key)) == "crew"
    assert served.ask().headers.getlist("WWW-Authenticate") == [
        'Bearer realm="harbour"',
        'ApiKey realm="key", in="header", name="X-Api-Key"',
    ]
    issuer.served.answers.clear()
    served.ahead = 700
    both = served.ask(X_Api_Key=key, Authorization=f"Bearer {issuer.token()}")
    assert audience_of(both) == "crew"
    assert served.bearer(issuer.token()).status_code == 503


def test_a_card_that_demands_what_no_provider_takes_is_refused(
    serve: Serve, issuer: Issuer, key: PrivateKey
) -> None:
    """At the start; while it runs the last good generation stays (threat 26)."""
    basic = {"door": {"httpAuthSecurityScheme": {"scheme": "basic"}}}
    with pytest.raises(ServeFault) as caught:
        serve(oidc(issuer), schemes=basic)
    assert caught.value.code == "serve.schemes"
    url = "https://another.example/.well-known/openid-configuration"
    elsewhere = {"sso": {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}}
    with pytest.raises(ServeFault, match="'sso'"):
        serve(oidc(issuer), schemes=elsewhere)


def test_schemes_that_are_demanded_together_open_the_card_together(
    serve: Serve, tmp_path: Path, issuer: Issuer
) -> None:
    """Each alone gets 401. Both have to be of one audience. Another alternative is enough."""
    token, line = create_token("staff")
    table = write_tokens(tmp_path, line)
    key = ProviderSettings(type="api_key", token_file=table, key="door")
    rules = (AudienceRule(claim="scope", value="crew", opens="crew"),)
    schemes = {
        "harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "door"}},
    }
    together = [{"schemes": {"harbour": {}, "key": {}}}]
    served = serve(oidc(issuer, rules=rules), key, schemes=schemes, demanded=together)
    bearer = f"Bearer {issuer.token()}"
    assert audience_of(served.ask(Authorization=bearer, door=token)) == "staff"
    for alone in ({"Authorization": bearer}, {"door": token}):
        answer = served.ask(**alone)
        assert answer.status_code == 401
        assert "together" in answer.json["error"]["message"]
    assert served.ask(Authorization=bearer, door="wrong").status_code == 401
    of_another = f"Bearer {issuer.token(scope='crew')}"
    assert served.ask(Authorization=of_another, door=token).status_code == 401
    either = [*together, {"schemes": {"key": {}}}]
    served = serve(oidc(issuer), key, schemes=schemes, demanded=either)
    assert served.ask(Authorization=bearer).status_code == 401
    assert audience_of(served.ask(door=token)) == "staff"


# ------------------------------------------------------------------ who gives no answer


def introspection(peer: Counterpart) -> ProviderSettings:
    """Every active token opens the card of the staff."""
    url = f"{peer.url}/introspect"
    return ProviderSettings(
        type="http_verifier", url=url, opens="staff", insecure_loopback_http=True
    )


@pytest.mark.parametrize(
    "answer",
    [
        *((status, {}) for status in (400, 404, 422, 500, 503)),
        (200, [1]),
        (200, {}),
        (200, {"active": False}),
        (200, {"active": "true"}),
        (200, {"active": True, "exp": 10**18}),  # beyond all numbers
        (200, {"active": True, "exp": "later"}),
    ],
    ids=str,
)
def test_one_callers_token_shuts_nobody_else_out(
    serve: Serve, peer: Counterpart, answer: tuple[int, Any]
) -> None:
    """What the server says to one token is about that token."""
    good = (200, {"active": True})
    peer.answers["/introspect"] = lambda form: good if form["token"] == ["good"] else answer
    served = serve(introspection(peer))
    refused = served.bearer("bad").status_code
    assert refused == (503 if answer[0] >= 500 else 401)
    assert served.bearer("good").status_code == 200


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 503])
def test_a_server_that_refuses_us_is_unreachable(
    serve: Serve, peer: Counterpart, status: int
) -> None:
    """The token may be good: 503, and a line for the operator."""
    peer.answers["/introspect"] = (status, {})
    served = serve(introspection(peer))
    for ahead in (0.0, 6.0, 12.0):
        served.ahead = ahead
        answer = served.bearer("good")
        assert answer.status_code == 503
        wanted = "your token cannot be checked now; try again in 5 s"
        assert answer.json["error"]["message"] == wanted
    said = f"warning: could not check a credential (http_verifier): {peer.url} answers {status}"
    assert served.log == [said] * 3


@pytest.mark.parametrize("token", ["", "x" * (16 * 1024 + 1)], ids=["empty", "too long"])
def test_a_token_that_can_be_none_is_refused_here(
    serve: Serve, peer: Counterpart, token: str
) -> None:
    served = serve(introspection(peer))
    assert served.bearer(token).status_code == 401
    assert peer.asked == []


def test_odd_keys_of_an_issuer_are_skipped(serve: Serve, issuer: Issuer) -> None:
    """Each is a line; its tokens are refused, and those of the good key are not."""
    good = issuer.keys["k1"].as_dict(private=False)
    weak = {"kty": "RSA", "kid": "weak", "n": _encoded(b"\xff" * 128), "e": "AQAB"}
    zero = {**good, "kid": "zero", "x": "AA" + good["x"]}
    twice = [{**good, "kid": "twice"}, {**good, "kid": "twice"}]
    secret = {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"}
    keys = [weak, secret, zero, *twice, {**good, "kid": None}, "words", good]
    issuer.served.answers["/keys"] = (200, {"keys": keys})
    served = serve(oidc(issuer))
    assert served.bearer(issuer.token()).status_code == 200
    for kid in ("weak", "oct", "zero", "twice"):
        assert served.bearer(issuer.token(header={"kid": kid})).status_code == 401
    skipped = [line for line in served.log if "skipped key" in line]
    assert len(skipped) == 6
    assert not any("c2VjcmV0" in line for line in skipped)


def test_oauth_metadata_names_the_issuer_of_the_settings(serve: Serve, issuer: Issuer) -> None:
    """Where the card declares OAuth without saying whose (RFC 9728)."""
    flows = {"clientCredentials": {"tokenUrl": "https://x.example", "scopes": {"card.read": ""}}}
    served = serve(oidc(issuer), schemes={"door": {"oauth2SecurityScheme": {"flows": flows}}})
    metadata = served.client.get("/.well-known/oauth-protected-resource/a2a").json
    assert metadata["authorization_servers"] == [issuer.url]
    assert metadata["scopes_supported"] == ["card.read"]
    plain = serve(oidc(issuer))
    assert plain.client.get("/.well-known/oauth-protected-resource/a2a").status_code == 404


# ------------------------------------------------------------------ the other providers


def test_a_token_may_be_introspected(
    serve: Serve, peer: Counterpart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By RFC 7662, with our own credential; a token that was revoked ends at once."""
    monkeypatch.setenv("VERIFIER", "us:s3cret")
    active: dict[str, Any] = {"good": {"active": True, "scope": "card.read", "aud": AUD}}

    def introspect(form: dict[str, list[str]]) -> tuple[int, Any]:
        return 200, active.get(form["token"][0], {"active": False})

    peer.answers["/introspect"] = introspect
    settings = ProviderSettings(
        type="http_verifier",
        url=f"{peer.url}/introspect",
        client="env:VERIFIER",
        aud=AUD,
        rules=(AudienceRule(claim="scope", value="card.read", opens="staff"),),
        insecure_loopback_http=True,
    )
    served = serve(settings)
    assert audience_of(served.bearer("good")) == "staff"
    assert peer.authorizations == ["Basic " + base64.b64encode(b"us:s3cret").decode()]
    assert served.bearer("bad").status_code == 401
    active["other"] = {"active": True, "aud": "https://waves.example"}
    assert served.bearer("other").status_code == 401
    active["idle"] = {"active": True, "aud": [AUD], "scope": ""}
    assert served.bearer("idle").status_code == 403
    active.clear()
    assert served.bearer("good").status_code == 401
    peer.answers["/introspect"] = (500, {})
    assert served.bearer("good again").status_code == 503


def sts_token(url: str) -> str:
    """A pre-signed URL as a token."""
    return "forge-aws-v1." + base64.urlsafe_b64encode(url.encode()).rstrip(b"=").decode()


def test_aws_says_who_signed(serve: Serve, peer: Counterpart) -> None:
    """STS itself; nobody else is asked."""
    who = {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:role/peer", "UserId": "x"}
    told = {"GetCallerIdentityResponse": {"GetCallerIdentityResult": who}}
    peer.answers["/"] = (200, told)
    settings = ProviderSettings(
        type="aws_sigv4",
        url=peer.url,
        rules=(AudienceRule(claim="account", value="123456789012", opens="staff"),),
        insecure_loopback_http=True,
    )
    served = serve(settings)
    query = "?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Signature=ab"
    assert audience_of(served.bearer(sts_token(f"{peer.url}/{query}"))) == "staff"
    with counterpart() as stranger:
        for url in (
            f"{stranger.url}/{query}",
            f"https://sts.amazonaws.com.evil.example/{query}",
            f"{peer.url}/x{query}",
            f"{peer.url}/?Action=GetSessionToken&X-Amz-Signature=ab",
            f"{peer.url}/?Action=GetCallerIdentity",
            "no url",
        ):
            assert served.bearer(sts_token(url)).status_code == 401
        assert stranger.asked == []
    assert peer.asked == ["/"]
    peer.answers["/"] = (403, {"Error": {}})
    assert served.bearer(sts_token(f"{peer.url}/{query}")).status_code == 401
    peer.answers["/"] = (503, {"Error": {}})
    assert served.bearer(sts_token(f"{peer.url}/{query}")).status_code == 503
    (line,) = served.log
    assert line.endswith(f"(aws_sigv4): {peer.url} answers 503")


@pytest.mark.parametrize(
    ("host", "is_asked"),
    [
        ("sts.amazonaws.com", True),
        ("sts.eu-central-1.amazonaws.com", True),
        ("sts.us-gov-west-1.amazonaws.com", True),
        ("sts.aa-nowhere-1.amazonaws.com", False),
        ("sts.us-east-1-x.amazonaws.com", False),
        ("sts.us--1.amazonaws.com", False),
        ("sts.xamazonaws.com", False),
    ],
)
def test_only_hosts_of_sts_are_asked(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, host: str, is_asked: bool
) -> None:
    asked = list[str]()

    def fetch(url: str, *_: Any, **__: Any) -> Any:
        asked.append(url)
        raise FetchFailed("fetch.timeout", f"{url} did not answer")

    monkeypatch.setattr("cardsign.server.providers.fetch_document", fetch)
    rule = AudienceRule(claim="account", value="1", opens="staff")
    served = serve(ProviderSettings(type="aws_sigv4", rules=(rule,)))
    url = f"https://{host}/?Action=GetCallerIdentity&X-Amz-Signature=ab"
    assert served.bearer(sts_token(url)).status_code == (503 if is_asked else 401)
    assert bool(asked) is is_asked
    assert "Signature" not in "".join(served.log)


def test_an_identity_aware_proxy_signs_for_its_callers(serve: Serve, issuer: Issuer) -> None:
    """In a header of its own, with keys at a fixed URL."""
    settings = ProviderSettings(
        type="gcp_iap",
        aud=AUD,
        issuer=issuer.url,
        url=f"{issuer.url}/keys",
        opens="staff",
        insecure_loopback_http=True,
    )
    name = "X-Goog-Iap-Jwt-Assertion"
    schemes = {"iap": {"apiKeySecurityScheme": {"location": "header", "name": name}}}
    served = serve(settings, schemes=schemes)
    assert audience_of(served.ask(X_Goog_IAP_JWT_Assertion=issuer.token())) == "staff"
    assert served.bearer(issuer.token()).status_code == 401
    assert served.ask(X_Goog_IAP_JWT_Assertion="x").status_code == 401


@pytest.mark.parametrize("location", ["header", "query", "cookie"])
def test_an_api_key_opens_the_card_from_its_own_place(
    serve: Serve, tmp_path: Path, location: str
) -> None:
    """And from no other."""
    key, line = create_token("staff")
    table = write_tokens(tmp_path, line)
    settings = ProviderSettings(type="api_key", token_file=table, location=location, key="door")
    schemes = {"key": {"apiKeySecurityScheme": {"location": location, "name": "door"}}}
    client = Client(serve(settings, schemes=schemes).client.application, use_cookies=False)

    def asks(secret: str) -> dict[str, int]:
        requests: dict[str, dict[str, Any]] = {
            "header": {"headers": {"door": secret}},
            "query": {"query_string": {"door": secret}},
            "cookie": {"environ_overrides": {"HTTP_COOKIE": f"door={secret}"}},
        }
        return {
            place: client.get(PATH, **request).status_code for place, request in requests.items()
        }

    refused = dict.fromkeys(("header", "query", "cookie"), 401)
    assert asks(key) == refused | {location: 200}
    assert asks("wrong") == refused


def test_basic_takes_a_token_as_its_password(serve: Serve, tmp_path: Path) -> None:
    """RFC 7617; the user name is free."""
    token, line = create_token("staff")
    settings = ProviderSettings(type="basic", token_file=write_tokens(tmp_path, line))
    served = serve(settings, schemes={"door": {"httpAuthSecurityScheme": {"scheme": "basic"}}})

    def ask(text: str) -> Any:
        return served.ask(Authorization="Basic " + base64.b64encode(text.encode()).decode())

    assert audience_of(ask(f"peer:{token}")) == "staff"
    assert ask("peer:wrong").status_code == 401
    assert ask("peer").status_code == 401
    unreadable = served.ask(Authorization="Basic %%%")
    assert unreadable.status_code == 401
    assert "the credential is not valid" in unreadable.text  # and not that none was sent
    challenge = served.ask().headers["WWW-Authenticate"]
    assert challenge == 'Basic realm="door", charset="UTF-8"'


SPIFFE = "spiffe://tides.example/agent/peer"


MESH = {"mesh": {"mtlsSecurityScheme": {}}}
VERIFIED = {"X-SSL-Client-Verify": "SUCCESS"}


@pytest.fixture
def mesh(serve: Serve) -> Callable[..., Any]:
    """Ask with a certificate as the proxy of a mesh hands it on; only the peer is known there."""
    settings = ProviderSettings(
        type="mtls", rules=(AudienceRule(claim="uri", value=SPIFFE, opens="staff"),)
    )
    client = serve(settings, schemes=MESH).client

    def ask(text: str, address: str = "127.0.0.1", **headers: str) -> Any:
        headers = {"X-SSL-Client-Cert": text, **VERIFIED, **headers}
        return client.get(PATH, headers=headers, environ_overrides={"REMOTE_ADDR": address})

    return ask


def certificate(*uris: str, ended: bool = False) -> str:
    """A client certificate as nginx hands it on: escaped PEM."""
    return escaped(make_certificate(*uris, ended=ended))


def escaped(certificate: x509.Certificate) -> str:
    return quote(certificate.public_bytes(Encoding.PEM).decode())


def sequence(der: bytes) -> str:
    """A certificate as RFC 9440 has it."""
    return f":{base64.b64encode(der).decode()}:"


def make_certificate(*uris: str, ended: bool = False, extensions: int = 0) -> x509.Certificate:
    """A certificate with these URIs; the SPIFFE id of the peer if there are none."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "peer")])
    end = datetime.now(UTC) + timedelta(days=-1 if ended else 1)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 1, end - timedelta(days=9), end
    ).add_extension(
        x509.SubjectAlternativeName([*map(x509.UniformResourceIdentifier, uris or (SPIFFE,))]),
        critical=False,
    )
    for number in range(extensions):
        kind = x509.ObjectIdentifier(f"1.2.3.{number + 1}")
        builder = builder.add_extension(x509.UnrecognizedExtension(kind, b"\x05\x00"), False)
    return builder.sign(key, SHA256())


def test_a_client_certificate_is_known_by_its_spiffe_id(mesh: Callable[..., Any]) -> None:
    """As the proxy says it, and from the proxy alone (B24)."""
    assert audience_of(mesh(certificate())) == "staff"
    assert mesh(certificate("spiffe://tides.example/agent/other")).status_code == 403
    assert mesh(certificate(ended=True)).status_code == 401
    assert mesh(certificate(), "192.0.2.7").status_code == 401
    assert mesh("no certificate").status_code == 401
    for verified in ("", "NONE", "SUCCESS,FAILED", "FAILED:expired"):
        assert mesh(certificate(), **{"X-SSL-Client-Verify": verified}).status_code == 401


def _twice_extended() -> str:
    """One extension twice, which no builder makes."""
    der = make_certificate(extensions=2).public_bytes(Encoding.DER)
    return sequence(der.replace(b"\x06\x03\x2a\x03\x02", b"\x06\x03\x2a\x03\x01"))


def _nameless() -> str:
    """A common name that is no UTF-8."""
    der = make_certificate().public_bytes(Encoding.DER)
    return sequence(der.replace(b"\x0c\x04peer", b"\x0c\x04\xff\xff\xff\xff"))


def _two_sequences(between: str) -> str:
    one, other = (make_certificate(uri) for uri in (SPIFFE, f"{SPIFFE}/other"))
    texts = [sequence(each.public_bytes(Encoding.DER)) for each in (one, other)]
    return between.join(texts)


UNFIT_CERTIFICATES: dict[str, Callable[[], str]] = {
    "an extension twice": _twice_extended,
    "a common name that is no text": _nameless,
    "two headers": lambda: f"{certificate()},{certificate(SPIFFE + '/other')}",
    "one beside an empty header": lambda: f"{certificate()},",
    "two in one": lambda: certificate() + certificate(SPIFFE + "/other"),
    "two headers of RFC 9440": lambda: _two_sequences(", "),
    "two in one of RFC 9440": lambda: _two_sequences(""),
    "other characters between": lambda: _two_sequences(" ").partition(" ")[0] + " ",
    "two SPIFFE ids": lambda: certificate(SPIFFE, f"{SPIFFE}/other"),
    "a SPIFFE id and another URI": lambda: certificate("https://x.example", SPIFFE),
}


@pytest.mark.parametrize("make", UNFIT_CERTIFICATES.values(), ids=UNFIT_CERTIFICATES)
def test_a_certificate_that_is_not_clear_opens_nothing(
    mesh: Callable[..., Any], make: Callable[[], str]
) -> None:
    """401 for what cannot be read, and for what may be another's; its twins are below."""
    assert mesh(make()).status_code == 401
    honest = make_certificate(extensions=2)
    assert mesh(sequence(honest.public_bytes(Encoding.DER))).status_code == 200
    assert mesh(escaped(honest)).status_code == 200


def test_a_secret_of_the_proxy_stands_for_its_address(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a server shows the client's own address, as uvicorn does; the address is no proof."""
    monkeypatch.setenv("PROXY", "s3cret")
    settings = ProviderSettings(type="mtls", opens="staff", secret="env:PROXY")
    client = serve(settings, schemes=MESH).client
    for address in ("192.0.2.7", "127.0.0.1"):
        for secret, status in (("s3cret", 200), ("guess", 401), ("", 401)):
            headers = {"X-SSL-Client-Cert": certificate(), "X-Proxy-Secret": secret, **VERIFIED}
            over = {"REMOTE_ADDR": address}
            answer = client.get(PATH, headers=headers, environ_overrides=over)
            assert answer.status_code == status
    monkeypatch.delenv("PROXY")
    with pytest.raises(UsageFault, match="PROXY is not set"):
        serve(settings, schemes=MESH)


def test_no_certificate_counts_where_a_client_may_write_the_headers_of_the_proxy(
    serve: Serve,
) -> None:
    """Granian's WSGI server has one name for `X_SSL_Client_Verify` and the proxy's own header."""
    client = serve(ProviderSettings(type="mtls", opens="staff"), schemes=MESH).client
    headers = {"X-SSL-Client-Cert": certificate(), **VERIFIED}
    for server, status in (("Granian", 401), ("gunicorn", 200)):
        over = {"REMOTE_ADDR": "127.0.0.1", "SERVER_SOFTWARE": server}
        answer = client.get(PATH, headers=headers, environ_overrides=over)
        assert answer.status_code == status


# ------------------------------------------------------------------ the one table of schemes


SETTINGS: dict[str, dict[str, Any]] = {
    "static_token": {"token_file": "tokens"},
    "http_verifier": {"url": "https://login.example/introspect"},
    "oidc": {"issuer": "https://login.example/t1/", "aud": AUD},
    "azure_ad": {"tenant": "0000-1111", "aud": AUD},
    "gcp_iap": {"aud": AUD},
    "aws_sigv4": {},
    "api_key": {"location": "header", "key": "X-Api-Key", "token_file": "tokens"},
    "basic": {"token_file": "tokens"},
    "mtls": {},
}


def made(kind: Any) -> Provider:
    """A provider with what its kind needs."""
    rules = (AudienceRule(claim="account", value="1", opens="staff"),)
    provider = ProviderSettings(type=kind, rules=rules, **SETTINGS[kind])
    (only,) = make_providers(ServerSettings(providers=(provider,)), Places(16), time.time)
    return only


def test_every_provider_of_the_table_is_served() -> None:
    """And no other: a build that advertises one can be served."""
    assert set(SETTINGS) == set(SCHEMES) == set(get_args(ProviderType))


@pytest.mark.parametrize("kind", SETTINGS)
def test_G15_a_provider_takes_the_scheme_that_the_table_derives(kind: Any) -> None:
    """What a build writes into the card is what the server takes."""
    settings = SETTINGS[kind]
    told = {"name" if name == "key" else name: value for name, value in settings.items()}
    derived = provider_schemes([DeclaredProvider(kind, None, told)])
    (scheme,) = schemes_of({"securitySchemes": dict(derived.schemes)}).values()
    assert made(kind).gives(scheme)
    for other in {"gcp_iap", "api_key", "basic", "mtls"} - {kind}:  # the others take any bearer
        assert not made(other).gives(scheme)
