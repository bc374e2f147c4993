"""Who a caller is: nine kinds of providers, and what every one of them does.

A provider reads its own credential in a request, and says which card it opens. Several are
alternatives: one that finds nothing of its own in a request says so, and the next one is asked.

To add one: give it a scheme in :data:`cardsign.card.security.PROVIDERS`, its needs in
:data:`cardsign.server.settings.NEEDS`, and a class in :data:`CLASSES`.

What a provider asks another host goes through :mod:`cardsign.net`: checked addresses, no
redirects, bounded time and size. What it is asked about is never followed: no URL in a token is,
and of AWS only the host that the operator expects.
"""

from __future__ import annotations

import base64
import hmac
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import ClassVar, Final, TypeAlias, cast
from urllib.parse import parse_qs, unquote, urlencode

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from flask import Request
from werkzeug.exceptions import ServiceUnavailable

from cardsign.card.security import PROVIDERS, ProviderType, Scheme, azure_issuer, schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, elements_of, members_of
from cardsign.errors import (
    CardRefused,
    CardsignError,
    FetchFailed,
    JsonRefused,
    KeyRefused,
    UsageFault,
)
from cardsign.files import file_stamp
from cardsign.jose.jws import MAX_TOKEN_CHARS, check_claims, read_token
from cardsign.jose.keys import PublicKey
from cardsign.net.fetch import FetchSettings, OtherStatus, fetch_document
from cardsign.server.settings import ProviderSettings, ServerSettings, in_networks
from cardsign.server.tokens import Token, digest_token, read_tokens
from cardsign.urls import Headers, Origin, parse_url

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5  # after which it is worth trying again
ASK_SECONDS: Final = 3.0  # for one request: a caller waits for it
KEYS_SECONDS: Final = 600  # for which an issuer's keys are used without asking again
REFRESH_SECONDS: Final = 60  # between two looks for an unknown key
MAX_ANSWER_BYTES: Final = 64 * 1024

IAP_ISSUER: Final = "https://cloud.google.com/iap"
IAP_KEYS: Final = "https://www.gstatic.com/iap/verify/public_key-jwk"
STS_PREFIX: Final = "forge-aws-v1."
#: Codes of an answer that came whole, and cannot be read.
_UNREADABLE_ANSWERS: Final = frozenset({"fetch.content_type", "fetch.encoding", "fetch.too_large"})

Now: TypeAlias = Callable[[], float]
Claims: TypeAlias = Mapping[str, Json]


class Denied(Exception):
    """The credential is there and opens nothing. The message is for the operator's log.

    Attributes:
        is_valid: Whether it is a good one, for whose holder the settings name no card.
    """

    def __init__(self, problem: str, *, is_valid: bool = False) -> None:
        super().__init__(problem)
        self.is_valid = is_valid


@contextmanager
def take_place(places: BoundedSemaphore) -> Iterator[None]:
    """Hold one of the places for requests that wait for slow bodies, or for other hosts.

    Raises:
        ServiceUnavailable: There is none; the client is told to come back.
    """
    if not places.acquire(blocking=False):
        message = "too many requests wait; try again later"
        raise ServiceUnavailable(message, retry_after=RETRY_SECONDS)
    try:
        yield
    finally:
        places.release()


class Provider:
    """One way to know a caller, who sends a credential as the scheme of the provider says.

    Args:
        settings: What the operator says of it.
        hosts: The places of those who wait for another host.
        now: Unix seconds.

    Attributes:
        settings: As given.
        name: What the log calls it.
        scheme: What it wants from a caller, by the table from which cards are built.

    Raises:
        UsageFault: ``config.malformed``: a secret is not in its variable.
    """

    #: The statuses that are about our own credential, or about how often we ask.
    refusals_of_us: ClassVar[tuple[int, ...]] = (401, 403, 408, 429)
    #: The types of schemes whose callers send another credential, although it travels alike.
    refused_types: ClassVar[tuple[str, ...]] = ()
    #: Whether what another host answers concerns one token alone; else a host that says anything
    #: but what it was asked for is not asked again for a while.
    asks_about_token: ClassVar[bool] = True

    def __init__(self, settings: ProviderSettings, hosts: BoundedSemaphore, now: Now) -> None:
        self.settings, self._hosts, self._now = settings, hosts, now
        self.name = f"{settings.type} {settings.issuer}".rstrip()
        self._secret = read_secret(settings.client or settings.secret)
        self._failed: dict[Origin, float] = {}  # when each host could not be reached last
        members: dict[str, Json] = {"issuer": settings.issuer, "tenant": settings.tenant}
        members |= {"in": settings.location, "name": settings.key}
        derived: Json = {settings.type: dict(PROVIDERS[settings.type](members))}
        (self.scheme,) = schemes_of({"securitySchemes": derived}).values()

    def gives(self, scheme: Scheme) -> bool:
        """Return whether a caller who does what a scheme of the card says is known here."""
        return scheme.type not in self.refused_types and self.scheme.gives(scheme)

    def find_audience(self, request: Request) -> str | None:
        """Return whose card the caller gets; None where the request holds no such credential.

        Raises:
            Denied: The credential is not valid, or opens no card.
            ServiceUnavailable: Nobody could say, or too many others wait for the one who could.
        """
        credential = self.read_credential(request)
        return None if credential is None else self.check(credential)

    def read_credential(self, request: Request) -> str | None:
        """Return what the request holds; None for nothing of this kind."""
        if self.scheme.type == "apiKey":
            place, name = (str(self.scheme.members[member]) for member in ("in", "name"))
            if place == "header":
                return request.headers.get(name)
            return (request.args if place == "query" else request.cookies).get(name)
        scheme, _, text = request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() != self.scheme.carrier:
            return None
        if scheme.lower() != "basic":
            return text.strip()  # RFC 6750 2.1
        try:  # RFC 7617; the user's name is free
            return base64.b64decode(text.strip(), validate=True).decode().partition(":")[2]
        except ValueError:
            return ""

    def check(self, credential: str) -> str:
        """Return whose card a credential opens.

        Raises:
            Denied, ServiceUnavailable: As :meth:`find_audience`.
        """
        raise NotImplementedError

    def choose_audience(self, claims: Claims) -> str:
        """Return the audience of the first rule that holds, or the one of all callers.

        Raises:
            Denied: There is none.
        """
        for rule in self.settings.rules:
            value = claims.get(rule.claim)
            if rule.claim in ("scope", "scp") and isinstance(value, str):
                value = [*value.split()]
            if rule.value in value if isinstance(value, list) else rule.value == value:
                return rule.opens
        if self.settings.opens is None:
            raise Denied("no rule names this caller", is_valid=True)
        return self.settings.opens

    def challenge(self, error: str) -> str:
        """Return the value of ``WWW-Authenticate`` that asks for the credential."""
        # Of a key or a certificate no registered scheme is; the card says how to send either.
        scheme = {"apiKey": "ApiKey", "mutualTLS": "Mutual-TLS"}.get(self.scheme.type or "", "")
        scheme = scheme or ("Basic" if self.scheme.carrier == "basic" else "Bearer")
        shown = f', error="{error}"' if error and scheme == "Bearer" else ""
        return f'{scheme} realm="extended-agent-card"{shown}'

    def ask(self, url: str, *, form: bytes | None = None, headers: Headers = ()) -> dict[str, Json]:
        """Return the JSON object that another host answers with.

        Args:
            url: Where it is asked.
            form: What is posted; None for GET.
            headers: More of the request, such as our own credential.

        Raises:
            Denied: It says no to the token, or what cannot be read.
            ServiceUnavailable: It gives no answer, or none to us.
        """
        asked = parse_url(url)
        # Callers must not queue up behind a host that does not answer.
        if 0 <= self._now() - self._failed.get(asked.origin, -math.inf) < RETRY_SECONDS:
            raise ServiceUnavailable(f"{asked.origin} gave no answer a moment ago")
        named = filter(None, (self.settings.url, self.settings.issuer))
        origins = frozenset(parse_url(text).origin for text in named)
        reach = FetchSettings(
            total_timeout=ASK_SECONDS,
            max_bytes=MAX_ANSWER_BYTES,
            insecure_loopback_http=self.settings.insecure_loopback_http,
            origins=origins,
            networks=self.settings.networks,
        )
        try:
            answer = fetch_document(url, reach, headers=headers, body=form)
            return parse_object(answer.untrusted_body, max_bytes=MAX_ANSWER_BYTES)
        except OtherStatus as exc:
            problem = f"{asked.origin} answers {exc.status}"
            if not self.asks_about_token:
                raise self.fail(url, problem) from exc
            if 400 <= exc.status < 500 and exc.status not in self.refusals_of_us:
                raise Denied(problem) from exc
            raise ServiceUnavailable(problem) from exc
        except (FetchFailed, JsonRefused) as exc:
            is_answer = isinstance(exc, JsonRefused) or exc.code in _UNREADABLE_ANSWERS
            if self.asks_about_token and is_answer:
                raise Denied(f"the answer about it cannot be read ({exc.code})") from exc
            shown = str(replace(asked, query=""))  # a query may hold a secret
            raise self.fail(url, str(exc).replace(str(asked), shown)) from exc

    def fail(self, url: str, problem: str) -> ServiceUnavailable:
        """Return what is raised where a host gave no answer; it is not asked for a while."""
        asked = parse_url(url)
        self._failed[asked.origin] = self._now()
        return ServiceUnavailable(f"asking {replace(asked, query='')}: {problem}")


class StaticTokens(Provider):
    """Tokens whose digests stand in a file with the audience of each, wherever they are sent.

    The file is read again when it changes. One that is gone revokes all tokens; a malformed one
    leaves the last good ones.
    """

    def __init__(self, settings: ProviderSettings, hosts: BoundedSemaphore, now: Now) -> None:
        super().__init__(settings, hosts, now)
        self._tokens: dict[str, Token] = {}
        self._stamp: object = ()
        self._refresh()

    def check(self, credential: str) -> str:
        """As :meth:`Provider.check`."""
        self._refresh()
        token = self._tokens.get(digest_token(credential))
        if token is None or (token.expires and token.expires.timestamp() <= self._now()):
            raise Denied("the token is unknown, revoked or expired")
        return token.audience

    def _refresh(self) -> None:
        path = cast(Path, self.settings.token_file)
        if (current := file_stamp(path)) == self._stamp:
            return
        self._stamp = current
        if current is None:
            log.error("%s is not there: no token opens anything", path)
        try:
            self._tokens = read_tokens(path) if current else {}
        except CardsignError as exc:
            log.error("the tokens stay as they were: %s", exc)


_MAX_CERTIFICATE: Final = 16 * 1024  # characters


class MutualTls(Provider):
    """A client certificate that the proxy in front has verified, and says in a header.

    The header counts only from the proxy: by a secret that the proxy says with it, or else by the
    address of the connection. NOT checked here: the chain and revocation, which are the proxy's.
    """

    def find_audience(self, request: Request) -> str | None:
        """As :meth:`Provider.find_audience`."""
        untrusted_text = request.headers.get("X-SSL-Client-Cert", "")
        if not untrusted_text:
            return None
        # Its WSGI server lets `X_SSL_Client_Verify` pass for `X-SSL-Client-Verify`.
        if request.environ.get("SERVER_SOFTWARE") == "Granian":
            raise Denied("granian's WSGI server takes a client's headers for those of the proxy")
        if not self._is_from_proxy(request):
            raise Denied("the certificate does not come from the proxy")
        if request.headers.get("X-SSL-Client-Verify") != "SUCCESS":
            raise Denied("the proxy does not say that it verified the certificate")
        # Two headers are joined by a comma: one of them may be the client's own.
        if len(untrusted_text) > _MAX_CERTIFICATE or "," in untrusted_text:
            raise Denied("there is more than one certificate, or a long one")
        try:
            (certificate,) = x509.load_pem_x509_certificates(unquote(untrusted_text).encode())
            begins = certificate.not_valid_before_utc.timestamp()
            ends = certificate.not_valid_after_utc.timestamp()
            claims = _read_claims(certificate)
        except Exception as exc:  # of a library, which a stranger's certificate may surprise
            raise Denied(f"the certificate cannot be read ({type(exc).__name__})") from exc
        if not begins <= self._now() < ends:
            raise Denied("the certificate is not valid now")
        # A SPIFFE certificate has one URI and no more (X509-SVID 2): else whose it is is not clear.
        uris = [str(uri).lower() for uri in elements_of(claims["uri"])]
        if len(uris) > 1 and any(uri.startswith("spiffe:") for uri in uris):
            raise Denied("the certificate has a SPIFFE id beside another URI")
        return self.choose_audience(claims)

    def _is_from_proxy(self, request: Request) -> bool:
        if self._secret:
            secret = request.headers.get("X-Proxy-Secret", "")
            return hmac.compare_digest(secret.encode(), self._secret.encode())
        return in_networks(request.environ.get("REMOTE_ADDR", ""), self.settings.proxies)


def _read_claims(certificate: x509.Certificate) -> Claims:
    """Return what rules may name: SANs (a SPIFFE id is a `uri`) and the fingerprint."""
    names = x509.SubjectAlternativeName([])
    with suppress(x509.ExtensionNotFound):
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    hosts = names.get_values_for_type(x509.DNSName)
    fingerprint = certificate.fingerprint(SHA256()).hex()
    return {"uri": [*uris], "dns": [*hosts], "fingerprint": fingerprint}


class Jwt(Provider):
    """Tokens that their issuer signed: ``oidc``, ``azure_ad``, ``gcp_iap``."""

    asks_about_token = False  # but for its keys

    def __init__(self, settings: ProviderSettings, hosts: BoundedSemaphore, now: Now) -> None:
        issuer, url = settings.issuer, settings.url
        if settings.type == "azure_ad":
            issuer = azure_issuer({"tenant": settings.tenant})
        elif settings.type == "gcp_iap":
            issuer, url = issuer or IAP_ISSUER, url or IAP_KEYS
        super().__init__(settings.model_copy(update={"issuer": issuer, "url": url}), hosts, now)
        self._lock = Lock()
        self._keys: dict[str, PublicKey] = {}
        self._asked_at = -math.inf

    def check(self, credential: str) -> str:
        """As :meth:`Provider.check`."""
        try:
            claims = read_token(credential, self._find_key, types=self.settings.typ)
            check_claims(
                claims, issuer=self.settings.issuer, audience=self.settings.aud, now=self._now()
            )
        except ValueError as exc:
            raise Denied(str(exc)) from exc
        return self.choose_audience(claims)

    def _find_key(self, kid: str) -> PublicKey | None:
        """Return the key of a kid; an unknown one may be new, which is asked once a minute."""
        age = self._now() - self._asked_at
        if not 0 <= age < (KEYS_SECONDS if kid in self._keys else REFRESH_SECONDS):
            with take_place(self._hosts), self._lock:  # who waits for the other has a place too
                if not 0 <= self._now() - self._asked_at < REFRESH_SECONDS:
                    self._refresh_keys()
        elif age >= KEYS_SECONDS - REFRESH_SECONDS and not self._lock.locked():
            # One caller asks before the keys end, so that none must wait; they are good till then.
            with suppress(ServiceUnavailable), take_place(self._hosts), self._lock:
                self._refresh_keys()
        return self._keys.get(kid)

    def _refresh_keys(self) -> None:
        """Ask the issuer for its keys; odd ones are skipped and logged.

        Strictness about a whole set is for the keys of cards: here one odd key among an issuer's
        many would lock out every caller.
        """
        url, keys_url = str(self.scheme.members.get("openIdConnectUrl")), self.settings.url
        if not keys_url:
            configuration = self.ask(url)
            keys_url = str(configuration.get("jwks_uri"))
            # Else one issuer could speak with the keys of another (OpenID Connect Discovery 4.3).
            if configuration.get("issuer") != self.settings.issuer:
                raise self.fail(url, "it names another issuer")
        try:
            document = self.ask(keys_url)
        except CardRefused as exc:  # what its configuration names is not a URL
            raise self.fail(url, str(exc)) from exc
        entries = [*map(members_of, elements_of(document.get("keys")))]
        kids = Counter(str(entry.get("kid")) for entry in entries)
        keys: dict[str, PublicKey] = {}
        for index, entry in enumerate(entries):
            kid = entry.get("kid")
            try:
                if not isinstance(kid, str) or kids[kid] > 1:
                    raise KeyRefused("key.malformed", "it has no kid of its own")
                keys[kid] = PublicKey.from_jwk(entry)
            except KeyRefused as exc:
                log.warning("provider %s: skipped key %d of the issuer: %s", self.name, index, exc)
        self._keys, self._asked_at = keys, self._now()


class Introspection(Provider):
    """Opaque tokens about which their server is asked: ``http_verifier`` (RFC 7662)."""

    refused_types = ("openIdConnect",)

    def check(self, credential: str) -> str:
        """As :meth:`Provider.check`."""
        if not 0 < len(credential) <= MAX_TOKEN_CHARS:
            raise Denied("the token is empty or too long")
        form = {"token": credential, "token_type_hint": "access_token"}
        body = urlencode(form, errors="surrogateescape").encode()
        ours = base64.b64encode(self._secret.encode()).decode()
        headers = (("Authorization", f"Basic {ours}"),) if ours else ()
        with take_place(self._hosts):
            claims = self.ask(self.settings.url, form=body, headers=headers)
        expires, audience = claims.get("exp", math.inf), claims.get("aud")
        if claims.get("active") is not True:
            raise Denied("its server says that it is not active")
        if not isinstance(expires, int | float) or expires <= self._now():
            raise Denied("exp has passed")
        required = self.settings.aud
        if required and required not in (audience if isinstance(audience, list) else [audience]):
            raise Denied("aud is another audience")
        return self.choose_audience(claims)


class AwsSts(Provider):
    """A pre-signed GetCallerIdentity request as a bearer token: ``aws_sigv4``.

    STS itself says who signed it. Its host is compared with the one that is expected.
    """

    refusals_of_us = (408, 429)  # it gets no credential of ours
    refused_types = ("oauth2", "openIdConnect")

    def read_credential(self, request: Request) -> str | None:
        """As :meth:`Provider.read_credential`."""
        token = super().read_credential(request)
        return token if token and token.startswith(STS_PREFIX) else None

    def check(self, credential: str) -> str:
        """As :meth:`Provider.check`."""
        url = self._check_url(credential.removeprefix(STS_PREFIX))
        with take_place(self._hosts):
            answer = self.ask(url)
        response = members_of(answer.get("GetCallerIdentityResponse"))
        result = members_of(response.get("GetCallerIdentityResult"))
        return self.choose_audience({"account": result.get("Account"), "arn": result.get("Arn")})

    def _check_url(self, untrusted_text: str) -> str:
        """Return the URL in a token, if it asks the expected STS who signed it, and no more."""
        try:
            padded = untrusted_text + "=" * (-len(untrusted_text) % 4)
            text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
            url = parse_url(text)
        except (ValueError, CardRefused) as exc:
            raise Denied("the token holds no URL") from exc
        if url.origin != parse_url(self.settings.url).origin or url.path != "/":
            raise Denied("the token names another host than STS")
        query = parse_qs(url.query.removeprefix("?"))
        if query.get("Action") != ["GetCallerIdentity"] or "X-Amz-Signature" not in query:
            raise Denied("the token is not a signed GetCallerIdentity request")
        return text


#: The nine kinds of callers.
CLASSES: Final[dict[ProviderType, type[Provider]]] = {
    "static_token": StaticTokens,
    "http_verifier": Introspection,
    "oidc": Jwt,
    "azure_ad": Jwt,
    "gcp_iap": Jwt,
    "aws_sigv4": AwsSts,
    "api_key": StaticTokens,
    "basic": StaticTokens,
    "mtls": MutualTls,
}


def make_providers(
    settings: ServerSettings, hosts: BoundedSemaphore, now: Now
) -> tuple[Provider, ...]:
    """Return the providers of a server; its own token file comes before all others.

    Raises:
        UsageFault: ``config.malformed``: a secret is not in its variable.
    """
    chosen = list(settings.providers)
    if settings.token_file is not None:
        chosen.insert(0, ProviderSettings(type="static_token", token_file=settings.token_file))
    return tuple(CLASSES[provider.type](provider, hosts, now) for provider in chosen)


def read_secret(source: str) -> str:
    """Return what the variable of ``env:NAME`` holds; nothing if no variable is named.

    Raises:
        UsageFault: ``config.malformed``: it holds nothing.
    """
    name = source.removeprefix("env:")
    if name and not os.environ.get(name):
        problem = f"the settings name {source}, and the variable {name} is not set"
        raise UsageFault("config.malformed", problem, hint=f"Set {name} for the server.")
    return os.environ.get(name, "") if name else ""
