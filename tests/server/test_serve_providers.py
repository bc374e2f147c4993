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

from cardsign.card.security import PROVIDERS as SCHEMES
from cardsign.card.security import ProviderType, schemes_of
from cardsign.errors import FetchFailed, ServeFault, UsageFault
from cardsign.jose.keys import PrivateKey
from cardsign.server.providers import Places, make_providers
from cardsign.server.settings import AudienceRule, ProviderSettings, ServerSettings
from cardsign.server.tokens import create_token
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.identity import Counterpart, Issuer, counterpart, unsigned
from tests.server.served import serve as serve_app
from tests.server.served import write_tokens

AUD = "https://tides.example"
PATH = "/a2a/extendedAgentCard"
CARD = "/.well-known/agent-card.json"
BEARER_REALM = 'Bearer realm="extended-agent-card"'
DISCOVERY = "/.well-known/openid-configuration"
HARBOUR = {"harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
DOOR = {"key": {"apiKeySecurityScheme": {"location": "header", "name": "door"}}}


class Asked:
    """A server that is asked for its extended card, and what it says to the operator."""

    def __init__(self, directory: Path, settings: ServerSettings, lines: list[str]) -> None:
        self.ahead, self.lines, self.begin = 0.0, lines, len(lines)
        self.client = serve_app(directory, settings, now=lambda: time.time() + self.ahead)

    @property
    def log(self) -> list[str]:
        """What it said."""
        return self.lines[self.begin :]

    def ask(self, **headers: str) -> Any:
        """Ask for the extended card."""
        return self.client.get(PATH, headers=headers)

    def bearer(self, token: str) -> Any:
        """Ask with a bearer token."""
        return self.ask(Authorization=f"Bearer {token}")


Serve = Callable[..., Asked]


@pytest.fixture
def serve(tmp_path: Path, key: PrivateKey, log: list[str]) -> Serve:
    """Publish cards for two audiences, with these schemes, and serve them."""

    def make(
        *providers: ProviderSettings,
        schemes: dict[str, Any] = HARBOUR,
        are_together: bool = False,
    ) -> Asked:
        demanded = [{"schemes": {name: {}}} for name in schemes]
        if are_together:
            demanded = [{"schemes": {name: {} for name in schemes}}]
        card = {**PUBLIC, "securitySchemes": schemes, "securityRequirements": demanded}
        publish_cards(tmp_path / "pub", key, card, "staff", "crew", now=datetime.now(UTC))
        return Asked(tmp_path / "pub", ServerSettings(providers=providers), log)

    return make


@pytest.fixture
def peer() -> Iterator[Counterpart]:
    with counterpart() as served:
        yield served


@pytest.fixture
def issuer(peer: Counterpart) -> Issuer:
    return Issuer(peer)


def provider(kind: ProviderType, **settings: Any) -> ProviderSettings:
    """A provider on this machine."""
    return ProviderSettings(type=kind, insecure_loopback_http=True, **settings)


def oidc(issuer: Issuer, **more: Any) -> ProviderSettings:
    """The provider of an issuer; every caller gets the card of the staff."""
    return provider("oidc", issuer=issuer.url, **{"opens": "staff", "aud": AUD, **more})


def audience_of(answer: Any) -> str:
    """Whose card an answer is."""
    assert answer.status_code == 200, answer.data
    extensions = json.loads(answer.data)["capabilities"]["extensions"]
    (audience,) = [one["params"]["audience"] for one in extensions if "audience" in one["params"]]
    return audience


# ------------------------------------------------------------------ OpenID Connect


def test_a_token_of_the_cards_own_issuer_opens_the_card(serve: Serve, issuer: Issuer) -> None:
    """With three settings: type, issuer, aud; discovery and keys are asked once."""
    schemes = {"sso": {"openIdConnectSecurityScheme": {"openIdConnectUrl": issuer.url + DISCOVERY}}}
    served = serve(oidc(issuer), schemes=schemes)
    for _ in range(3):
        assert audience_of(served.bearer(issuer.token())) == "staff"
    assert issuer.served.asked == [DISCOVERY, "/keys"]
    missing = served.ask()
    assert missing.status_code == 401
    assert missing.headers["WWW-Authenticate"] == BEARER_REALM


def stolen(issuer: Issuer) -> str:
    """A token by a key of nobody, under a kid of the issuer."""
    published = issuer.served.answers["/keys"]
    own = issuer.keys["k1"]
    issuer.add_key("k1")
    token = issuer.token()
    issuer.keys["k1"], issuer.served.answers["/keys"] = own, published
    return token


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def under_header(issuer: Issuer, **header: Any) -> str:
    """A token that the issuer's key has signed, whatever its header says."""
    head = encoded(json.dumps({"alg": "ES256", "kid": "k1", **header}).encode())
    signing_input = f"{head}.{issuer.token().split('.')[1]}"
    numbers = decode_dss_signature(
        issuer.keys["k1"].private_key.sign(signing_input.encode(), ec.ECDSA(SHA256()))
    )
    return f"{signing_input}.{encoded(b''.join(one.to_bytes(32) for one in numbers))}"


def changed(token: str) -> str:
    header, payload, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return f"{header}.{encoded(json.dumps({**claims, 'sub': 'admin'}).encode())}.{signature}"


#: A token, and what the operator's log says of it.
BAD: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "another issuer": (lambda i: i.token(iss="https://evil.example"), "iss"),
    "no issuer": (lambda i: i.token(iss=None), ""),
    "another audience": (lambda i: i.token(aud="https://waves.example"), "aud"),
    "no audience": (lambda i: i.token(aud=None), ""),
    "an audience that holds ours as a part": (lambda i: i.token(aud=f"{AUD}.evil.example"), ""),
    "expired": (lambda i: i.token(exp=int(time.time()) - 3600), "expired"),
    "no end": (lambda i: i.token(exp=None), ""),
    "an end that is no number": (lambda i: i.token(exp="9999999999"), ""),
    "not valid yet": (lambda i: i.token(nbf=int(time.time()) + 3600), ""),
    "a beginning that is no number": (lambda i: i.token(nbf="0"), ""),
    "a kid that is not published": (lambda i: i.token(header={"kid": "k9"}), "names no key of its"),
    "no kid": (lambda i: i.token(header={"kid": None}), ""),
    "the algorithm none": (lambda i: unsigned(i.token()), ""),
    "a signature of another key": (stolen, ""),
    "changed claims": (lambda i: changed(i.token()), "signature"),
    "crit": (lambda i: under_header(i, crit=["x"]), ""),
    "b64": (lambda i: under_header(i, b64=True), ""),
    "the algorithm of another key": (lambda i: under_header(i, alg="RS256"), ""),
    "more than three parts": (lambda i: i.token() + ".x", ""),
    "two parts": (lambda i: i.token().rpartition(".")[0], ""),
    "words": (lambda i: "friend", "three parts"),
    "nothing": (lambda i: "", ""),
}


@pytest.mark.parametrize(("make", "reason"), BAD.values(), ids=BAD)
def test_any_other_token_is_refused(
    serve: Serve,
    issuer: Issuer,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[Issuer], str],
    reason: str,
) -> None:
    """401 with invalid_token; the log says why, without the token, and the caller is not told."""
    caplog.set_level("INFO", "cardsign.server")
    served = serve(oidc(issuer))
    assert audience_of(served.bearer(under_header(issuer))) == "staff"  # as the test signs it
    token = make(issuer)
    answer = served.bearer(token)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == f'{BEARER_REALM}, error="invalid_token"'
    assert answer.json["error"]["message"] == "the credential is not valid"
    assert served.client.get(CARD).status_code == 200
    (line,) = [text for text in caplog.messages if text.startswith("refused a credential")]
    assert line.startswith(f"refused a credential (oidc {issuer.url}): ")
    assert reason in line
    assert not token or token not in caplog.text


def test_an_identity_aware_proxy_signs_for_its_callers(serve: Serve, issuer: Issuer) -> None:
    """In a header of its own, with keys at a fixed URL."""
    more = {"aud": AUD, "issuer": issuer.url, "url": f"{issuer.url}/keys", "opens": "staff"}
    name = "X-Goog-Iap-Jwt-Assertion"
    scheme = {"apiKeySecurityScheme": {"location": "header", "name": name}}
    served = serve(provider("gcp_iap", **more), schemes={"iap": scheme})
    assert audience_of(served.ask(**{name.upper(): issuer.token()})) == "staff"
    assert served.ask(**{name: "x"}).status_code == 401
    refused = served.bearer(issuer.token())
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"] == 'ApiKey realm="extended-agent-card"'


def test_the_kind_of_a_token_may_be_demanded(serve: Serve, issuer: Issuer) -> None:
    """An ID token is no access token (RFC 9068)."""
    served = serve(oidc(issuer, typ=("at+jwt",)))
    for typ, status in (("application/at+jwt", 200), ("JWT", 401)):
        assert served.bearer(issuer.token(header={"typ": typ})).status_code == status


def test_a_verified_token_ends_with_its_time_and_with_its_key(serve: Serve, issuer: Issuer) -> None:
    """Once the issuer's new set is known."""
    served = serve(oidc(issuer))
    brief, long = issuer.token(), issuer.token(exp=int(time.time()) + 3600)
    for served.ahead, status in ((0, 200), (661, 401)):
        assert served.bearer(brief).status_code == status
        assert served.bearer(long).status_code == 200
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
    for served.ahead, status in ((0, 401), (61, 200)):
        assert served.bearer(issuer.token(kid="k2")).status_code == status
    count = len(issuer.served.asked)
    for number in range(5):
        assert served.bearer(issuer.token(header={"kid": f"x{number}"})).status_code == 401
    assert len(issuer.served.asked) == count


def test_a_configuration_of_another_issuer_is_not_believed(serve: Serve, issuer: Issuer) -> None:
    """It would let that one's keys speak for ours."""
    told = {"issuer": "https://evil.example", "jwks_uri": f"{issuer.url}/keys"}
    issuer.served.answers[DISCOVERY] = (200, told)
    assert serve(oidc(issuer)).bearer(issuer.token()).status_code == 503


@pytest.mark.parametrize("is_there", [True, False], ids=["500", "nobody listens"])
def test_an_issuer_that_gives_no_answer_is_503(
    serve: Serve, issuer: Issuer, is_there: bool
) -> None:
    """For extended cards alone; it is not asked by every caller, and the operator hears why."""
    url = issuer.url if is_there else issuer.url.rpartition(":")[0] + ":1"
    working, issuer.served.answers[DISCOVERY] = issuer.served.answers[DISCOVERY], (500, {})
    served = serve(oidc(issuer).model_copy(update={"issuer": url}))
    token = issuer.token()
    for _ in range(3):
        answer = served.bearer(token)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert answer.json["error"]["status"] == "UNAVAILABLE"
    assert served.client.get(CARD).status_code == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    by_rpc = served.client.post("/a2a", json=call, headers={"Authorization": f"Bearer {token}"})
    assert (by_rpc.status_code, by_rpc.headers["Retry-After"]) == (503, "5")
    assert by_rpc.json is not None
    assert by_rpc.json["error"]["code"] == -32000
    assert len(issuer.served.asked) == (1 if is_there else 0)
    problem = f"warning: could not check a credential (oidc {url}): "
    assert served.log[0].startswith(f"{problem}asking {url}{DISCOVERY}: ")
    assert ("fetch." in served.log[0]) == (not is_there)
    assert served.log[1:] == [f"{problem}{url} gave no answer a moment ago"] * 3
    assert token not in "".join(served.log)
    issuer.served.answers[DISCOVERY] = working
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


def test_odd_keys_of_an_issuer_are_skipped(serve: Serve, issuer: Issuer) -> None:
    """Each is a line; its tokens are refused, and those of the good key are not."""
    good = issuer.keys["k1"].as_dict(private=False)
    weak = {"kty": "RSA", "kid": "weak", "n": encoded(b"\xff" * 128), "e": "AQAB"}
    zero = {**good, "kid": "zero", "x": "AA" + good["x"]}
    twice = [{**good, "kid": "twice"}] * 2
    secret = {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"}
    keys = [weak, secret, zero, *twice, {**good, "kid": None}, "words", good]
    issuer.served.answers["/keys"] = (200, {"keys": keys})
    served = serve(oidc(issuer))
    assert served.bearer(issuer.token()).status_code == 200
    for kid in ("weak", "oct", "zero", "twice"):
        assert served.bearer(issuer.token(header={"kid": kid})).status_code == 401
    skipped = [line for line in served.log if "skipped key" in line]
    assert len(skipped) == 7
    assert not any("c2VjcmV0" in line for line in skipped)


def test_oauth_metadata_names_the_issuer_of_the_settings(serve: Serve, issuer: Issuer) -> None:
    """Where the card declares OAuth without saying whose (RFC 9728)."""
    flows = {"clientCredentials": {"tokenUrl": "https://x.example", "scopes": {"card.read": ""}}}
    served = serve(oidc(issuer), schemes={"door": {"oauth2SecurityScheme": {"flows": flows}}})
    metadata = served.client.get("/.well-known/oauth-protected-resource/a2a").json
    assert metadata["authorization_servers"] == [issuer.url]
    plain = serve(oidc(issuer))
    assert plain.client.get("/.well-known/oauth-protected-resource/a2a").status_code == 404


# ------------------------------------------------------------------ who gets which card


def test_scopes_and_claims_choose_the_card(serve: Serve, issuer: Issuer) -> None:
    """The first rule that holds; who is known and has no card gets 403."""
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
        challenge = f'{BEARER_REALM}, error="insufficient_scope"'
        assert answer.headers["WWW-Authenticate"] == challenge
        assert answer.json["error"]["status"] == "PERMISSION_DENIED"


def test_a_dead_provider_harms_no_caller_of_another(
    serve: Serve, tmp_path: Path, issuer: Issuer
) -> None:
    """Any one will do."""
    key, line = create_token("crew")
    keys = provider("api_key", token_file=write_tokens(tmp_path, line), key="Door")
    served = serve(oidc(issuer), keys, schemes=HARBOUR | DOOR)
    assert audience_of(served.bearer(issuer.token())) == "staff"
    assert audience_of(served.ask(door=key)) == "crew"
    issuer.served.answers.clear()
    served.ahead = 700
    assert audience_of(served.ask(door=key, Authorization=f"Bearer {issuer.token()}")) == "crew"
    assert served.bearer(issuer.token()).status_code == 503


ELSEWHERE = {"openIdConnectUrl": f"https://another.example{DISCOVERY}"}
DOORS: dict[str, tuple[dict[str, Any], str]] = {
    "another way": ({"door": {"httpAuthSecurityScheme": {"scheme": "basic"}}}, "'door'"),
    "another issuer": ({"door": {"openIdConnectSecurityScheme": ELSEWHERE}}, "'door'"),
    "two at once": (HARBOUR | DOOR, "'harbour' with 'key'"),
}


@pytest.mark.parametrize(("schemes", "words"), DOORS.values(), ids=DOORS)
def test_a_card_that_demands_what_no_provider_takes_is_refused(
    serve: Serve, tmp_path: Path, issuer: Issuer, schemes: dict[str, Any], words: str
) -> None:
    """Its callers would be turned away (threat 26), or get its card for a part of what it says."""
    door = provider("api_key", token_file=write_tokens(tmp_path), key="Door")
    with pytest.raises(ServeFault, match=f"the public card demands {words}, and") as caught:
        serve(oidc(issuer), door, schemes=schemes, are_together=True)
    assert caught.value.code == "serve.schemes"


def test_who_takes_a_part_of_what_the_card_demands_opens_nothing(
    serve: Serve, tmp_path: Path, peer: Counterpart
) -> None:
    """Nor is he asked; one who takes it all opens the card."""
    peer.answers["/introspect"] = (200, {"active": True})
    token, line = create_token("crew")
    all_of_it = provider("static_token", token_file=write_tokens(tmp_path, line))
    part = provider("http_verifier", url=f"{peer.url}/introspect", opens="staff")
    schemes = HARBOUR | {"sso": {"openIdConnectSecurityScheme": ELSEWHERE}}
    served = serve(part, all_of_it, schemes=schemes, are_together=True)
    assert audience_of(served.bearer(token)) == "crew"
    assert served.bearer("of nobody").status_code == 401
    assert peer.asked == []


# ------------------------------------------------------------------ introspection


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        *(((status, {}), 401) for status in (400, 404, 422)),
        *(((status, {}), 503) for status in (401, 403, 408, 429, 500, 503)),
        ((200, [1]), 401),
        ((200, {}), 401),
        ((200, {"active": False}), 401),
        ((200, {"active": "true"}), 401),
        ((200, {"active": True, "exp": 10**18}), 401),  # beyond all numbers
        ((200, {"active": True, "exp": "later"}), 401),
    ],
    ids=str,
)
def test_one_callers_token_shuts_nobody_else_out(
    serve: Serve, peer: Counterpart, answer: tuple[int, Any], status: int
) -> None:
    """What its server says to one token is about that token, or about us: it may be good then."""
    good = (200, {"active": True})
    peer.answers["/introspect"] = lambda form: good if form["token"] == ["good"] else answer
    served = serve(provider("http_verifier", url=f"{peer.url}/introspect", opens="staff"))
    for _ in range(3):
        refused = served.bearer("bad")
        assert refused.status_code == status
        assert served.bearer("good").status_code == 200
    if status == 503:
        message = "your token cannot be checked now; try again later"
        assert refused.json["error"]["message"] == message
        problem = "warning: could not check a credential (http_verifier): "
        assert served.log == [f"{problem}{peer.url} answers {answer[0]}"] * 3


def test_a_token_may_be_introspected(
    serve: Serve, peer: Counterpart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By RFC 7662, with our own credential; a token that was revoked ends at once."""
    monkeypatch.setenv("VERIFIER", "us:s3cret")
    active: dict[str, Any] = {
        "good": {"active": True, "scope": "card.read", "aud": AUD},
        "other": {"active": True, "aud": "https://waves.example"},
        "idle": {"active": True, "aud": [AUD], "scope": ""},
    }
    peer.answers["/introspect"] = lambda form: (200, active.get(form["token"][0], {}))
    rules = (AudienceRule(claim="scope", value="card.read", opens="staff"),)
    more = {"client": "env:VERIFIER", "aud": AUD, "rules": rules}
    served = serve(provider("http_verifier", url=f"{peer.url}/introspect", **more))
    for token in ("", "x" * (16 * 1024 + 1)):  # which can be none, and is refused here
        assert served.bearer(token).status_code == 401
    assert peer.asked == []
    assert audience_of(served.bearer("good")) == "staff"
    assert peer.authorizations == ["Basic " + base64.b64encode(b"us:s3cret").decode()]
    for token, status in (("bad", 401), ("other", 401), ("idle", 403)):
        assert served.bearer(token).status_code == status
    active.clear()
    assert served.bearer("good").status_code == 401


# ------------------------------------------------------------------ AWS

ACCOUNT = (AudienceRule(claim="account", value="123456789012", opens="staff"),)
QUERY = "?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Signature=ab"


def sts_token(url: str) -> str:
    """A pre-signed URL as a token."""
    return f"forge-aws-v1.{encoded(url.encode())}"


def test_aws_says_who_signed(serve: Serve, peer: Counterpart) -> None:
    """STS itself; nobody else is asked."""
    who = {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:role/peer", "UserId": "x"}
    peer.answers["/"] = (200, {"GetCallerIdentityResponse": {"GetCallerIdentityResult": who}})
    served = serve(provider("aws_sigv4", url=peer.url, rules=ACCOUNT))
    token = sts_token(f"{peer.url}/{QUERY}")
    assert audience_of(served.bearer(token)) == "staff"
    with counterpart() as stranger:
        for url in (
            f"{stranger.url}/{QUERY}",
            f"https://sts.amazonaws.com.evil.example/{QUERY}",
            f"{peer.url}/x{QUERY}",
            f"{peer.url}/?Action=GetSessionToken&X-Amz-Signature=ab",
            f"{peer.url}/?Action=GetCallerIdentity",
            "no url",
        ):
            assert served.bearer(sts_token(url)).status_code == 401
        assert stranger.asked == []
    assert peer.asked == ["/"]
    for status, answered in ((403, 401), (503, 503)):
        peer.answers["/"] = (status, {"Error": {}})
        assert served.bearer(token).status_code == answered
    (line,) = served.log
    assert line.endswith(f"(aws_sigv4): {peer.url} answers 503")


@pytest.mark.parametrize(
    ("host", "is_asked"),
    [
        ("sts.eu-central-1.amazonaws.com", True),
        ("sts.amazonaws.com", False),
        ("sts.us-east-1.amazonaws.com", False),
        ("sts.eu-central-1.amazonaws.com.evil.example", False),
        ("sts.eu-central-1.amazonaws.com:8443", False),
        ("sts.eu-central-1.xamazonaws.com", False),
    ],
)
def test_only_the_host_of_sts_is_asked(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, host: str, is_asked: bool
) -> None:
    asked = list[str]()

    def fetch(url: str, *_: Any, **__: Any) -> Any:
        asked.append(url)
        raise FetchFailed("fetch.timeout", f"{url} did not answer")

    monkeypatch.setattr("cardsign.server.providers.fetch_document", fetch)
    url = "https://sts.eu-central-1.amazonaws.com"
    served = serve(ProviderSettings(type="aws_sigv4", url=url, rules=ACCOUNT))
    status = served.bearer(sts_token(f"https://{host}/{QUERY}")).status_code
    assert (status, bool(asked)) == (503 if is_asked else 401, is_asked)
    assert "Signature" not in "".join(served.log)


# ------------------------------------------------------------------ client certificates

SPIFFE = "spiffe://tides.example/agent/peer"
MESH = {"mesh": {"mtlsSecurityScheme": {}}}
VERIFIED = {"X-SSL-Client-Verify": "SUCCESS"}


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


def certificate(*uris: str, **how: Any) -> str:
    """A client certificate as nginx hands it on: escaped PEM."""
    return quote(make_certificate(*uris, **how).public_bytes(Encoding.PEM).decode())


def edited(old: bytes, new: bytes) -> str:
    """A certificate that no builder makes."""
    der = make_certificate(extensions=2).public_bytes(Encoding.DER)
    assert old in der
    text = base64.encodebytes(der.replace(old, new)).decode()
    return quote(f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n")


OTHER = f"{SPIFFE}/other"
#: What the proxy says, and what its caller gets.
CERTIFICATES: dict[str, tuple[Callable[[], str], dict[str, str], int]] = {
    "the peer's": (certificate, {}, 200),
    "with extensions": (lambda: certificate(extensions=2), {}, 200),
    "another's": (lambda: certificate("spiffe://tides.example/agent/other"), {}, 403),
    "one that has ended": (lambda: certificate(ended=True), {}, 401),
    "no certificate": (lambda: "no certificate", {}, 401),
    "not from the proxy": (certificate, {"REMOTE_ADDR": "192.0.2.7"}, 401),
    **{
        f"verified: {said!r}": (certificate, {"HTTP_X_SSL_CLIENT_VERIFY": said}, 401)
        for said in ("", "NONE", "SUCCESS,FAILED", "FAILED:expired")
    },
    # Granian's WSGI server has one name for `X_SSL_Client_Verify` and the proxy's own header.
    "by Granian's WSGI server": (certificate, {"SERVER_SOFTWARE": "Granian"}, 401),
    "by gunicorn": (certificate, {"SERVER_SOFTWARE": "gunicorn"}, 200),
    "an extension twice": (
        lambda: edited(b"\x06\x03\x2a\x03\x02", b"\x06\x03\x2a\x03\x01"),
        {},
        401,
    ),
    "two headers": (lambda: f"{certificate()},{certificate(OTHER)}", {}, 401),
    "one beside an empty header": (lambda: f"{certificate()},", {}, 401),
    "two in one": (lambda: certificate() + certificate(OTHER), {}, 401),
    "two SPIFFE ids": (lambda: certificate(SPIFFE, OTHER), {}, 401),
    "a SPIFFE id and another URI": (lambda: certificate("https://x.example", SPIFFE), {}, 401),
}


@pytest.mark.parametrize(("make", "environ", "status"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_a_client_certificate_is_known_by_its_spiffe_id(
    serve: Serve, make: Callable[[], str], environ: dict[str, str], status: int
) -> None:
    """As the proxy says it, and from the proxy alone (B24); whose it is must be clear."""
    rules = (AudienceRule(claim="uri", value=SPIFFE, opens="staff"),)
    served = serve(ProviderSettings(type="mtls", rules=rules), schemes=MESH)
    said = {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_SSL_CLIENT_VERIFY": "SUCCESS"}
    over = {**said, "HTTP_X_SSL_CLIENT_CERT": make(), **environ}
    assert served.client.get(PATH, environ_overrides=over).status_code == status
    assert served.ask().headers["WWW-Authenticate"] == 'Mutual-TLS realm="extended-agent-card"'


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


# ------------------------------------------------------------------ the one table of schemes


SETTINGS: dict[str, dict[str, Any]] = {
    "static_token": {"token_file": "tokens"},
    "http_verifier": {"url": "https://login.example/introspect"},
    "oidc": {"issuer": "https://login.example/t1/", "aud": AUD},
    "azure_ad": {"tenant": "0000-1111", "aud": AUD},
    "gcp_iap": {"aud": AUD},
    "aws_sigv4": {"url": "https://sts.amazonaws.com"},
    "api_key": {"location": "header", "key": "X-Api-Key", "token_file": "tokens"},
    "basic": {"token_file": "tokens"},
    "mtls": {},
}


def takers_of(schemes: Any) -> set[str]:
    """The types of providers, of all that there are, which take the only scheme of a card."""
    chosen = [ProviderSettings(type=name, rules=ACCOUNT, **SETTINGS[name]) for name in SETTINGS]
    made = make_providers(ServerSettings(providers=tuple(chosen)), Places(4), time.time)
    (scheme,) = schemes_of({"securitySchemes": schemes}).values()
    return {one.settings.type for one in made if one.gives(scheme)}


BEARER = {"static_token", "http_verifier", "oidc", "azure_ad", "aws_sigv4"}


@pytest.mark.parametrize("kind", sorted({*get_args(ProviderType), *SCHEMES}))
def test_G15_a_provider_takes_the_scheme_that_the_table_derives(kind: Any) -> None:
    """What a build writes into the card is what the server takes, and no other has it."""
    told = {"name" if name == "key" else name: value for name, value in SETTINGS[kind].items()}
    others = {"oidc": {"static_token"}, "azure_ad": {"static_token"}}.get(kind, set[str]())
    is_plain = kind in ("static_token", "http_verifier", "aws_sigv4")  # a bearer token of anybody
    assert takers_of({kind: SCHEMES[kind](told)}) == (BEARER if is_plain else {kind} | others)


def test_a_signed_request_is_no_token_of_oauth() -> None:
    """Who asks as an OAuth scheme says has no pre-signed URL of AWS."""
    assert takers_of({"door": {"oauth2SecurityScheme": {"flows": {}}}}) == BEARER - {"aws_sigv4"}
