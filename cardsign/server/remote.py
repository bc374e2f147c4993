"""Providers that ask another host: OpenID Connect and its presets, introspection, AWS STS.

What they ask goes through :mod:`cardsign.net`: checked addresses, no redirects, bounded time and
size. What they are asked about is never followed: no URL in a token is, and of AWS only the host
that the operator expects.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from werkzeug.wrappers import Request

from cardsign.card.security import ProviderType, Scheme, azure_issuer
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import CardRefused, CardsignError, FetchFailed, JsonRefused, KeyRefused
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.jose.jwt import MAX_TOKEN_CHARS, TokenRefused, check_claims, read_token
from cardsign.jose.keys import PublicKey
from cardsign.net.fetch import FetchSettings, OtherStatus, PrivateAccess, fetch_document
from cardsign.net.fetcher import DocumentFetcher
from cardsign.server.events import to_stderr
from cardsign.server.providers import (
    RETRY_SECONDS,
    WAITS,
    Claims,
    Denied,
    Log,
    MustWait,
    MutualTls,
    Now,
    Provider,
    ProviderSettings,
    TableProvider,
    Unreachable,
    bearer_of,
)
from cardsign.server.tokens import TokenTable
from cardsign.times import utc
from cardsign.urls import Origin, Url, parse_url

SECONDS: Final = 3.0  # for one request: a caller waits for it
KEYS_SECONDS: Final = 600  # for which keys are used without asking again, at most
LEAST_KEYS_SECONDS: Final = 60  # at least, whatever the issuer says of caches
SAY_SECONDS: Final = 60  # between two lines about one host that fails
MAX_KNOWN: Final = 4096  # introspected tokens
ANSWER_SECONDS: Final = 30  # for which an introspected token counts: revocation comes through
MAX_ISSUER_BYTES: Final = 64 * 1024

IAP_ISSUER: Final = "https://cloud.google.com/iap"
IAP_KEYS: Final = "https://www.gstatic.com/iap/verify/public_key-jwk"
STS_PREFIX: Final = "forge-aws-v1."
#: Of a region that cannot be there STS is not looked for; one of another form is named by `url`.
_STS_HOST: Final = re.compile(
    r"sts\.(?:(?:af|ap|ca|eu|il|me|mx|sa|us)(?:-gov)?-"
    r"(?:central|north|south|east|west|northeast|northwest|southeast|southwest)-[1-9]\.)?"
    r"amazonaws\.com"
)
#: Of what a caller sent; 401 and 403 are about our own credential, 429 about how often we ask.
_BAD: Final = frozenset(range(400, 500)) - {401, 403, 408, 429}
#: Codes of an answer that came whole, and cannot be read.
_UNREADABLE: Final = frozenset({"fetch.content_type", "fetch.encoding", "fetch.too_large"})


class RemoteProvider(Provider):
    """A provider that asks another host, and remembers for a while that it gave no answer."""

    asks_peers = True

    def __init__(self, settings: ProviderSettings, now: Now, log: Log) -> None:
        super().__init__(settings, now, log)
        #: When each host gave no answer last, and when that was said last; few hosts are asked.
        self._failed: dict[Origin, float] = {}
        self._said: dict[Origin, float] = {}

    def reach(self, *urls: str) -> FetchSettings:
        """How these URLs are reached, and private networks for their origins alone."""
        ours = self.settings
        networks = tuple(ipaddress.ip_network(one) for one in ours.networks)
        access = None
        if networks:
            origins: set[Origin] = {parse_url(one).origin for one in urls}
            access = PrivateAccess(frozenset(origins), networks)
        return FetchSettings(
            connect_timeout=SECONDS,
            total_timeout=SECONDS,
            max_bytes=MAX_ISSUER_BYTES,
            insecure_loopback_http=ours.insecure_loopback_http,
            access=access,
        )

    def check_reachable(self, url: str) -> None:
        """Raise at once while the last failure is fresh: callers must not queue up behind it.

        Raises:
            Unreachable: It is.
            MustWait: It is not, and nobody may wait here for an answer.
        """
        if 0 <= self._now() - self._failed.get(parse_url(url).origin, -math.inf) < RETRY_SECONDS:
            raise Unreachable
        if not WAITS.get():
            raise MustWait

    def unreachable(self, url: str, cause: CardsignError | str) -> Unreachable:
        """What is raised where nobody answered; the operator is told, callers are not."""
        asked = parse_url(url)
        self._failed[asked.origin] = self._now()
        self.say(asked, cause, "callers get 503")
        return Unreachable()

    def say(self, asked: Url, cause: CardsignError | str, outcome: str) -> None:
        """One line in a minute about a host. A query may hold a secret and is left out."""
        if 0 <= self._now() - self._said.get(asked.origin, -math.inf) < SAY_SECONDS:
            return
        self._said[asked.origin] = self._now()
        shown = str(replace(asked, query=""))
        why = cause if isinstance(cause, str) else f"{cause.code}: {cause.message}"
        named = f"provider {self.settings.type} {self.settings.issuer}".rstrip()
        self._log(f"{named}: asking {shown}: {why.replace(str(asked), shown)}; {outcome}")

    def answer_about(
        self, url: str, no: frozenset[int], *, form: bytes | None = None, who: str | None = None
    ) -> dict[str, Json]:
        """What a server says about one credential.

        Args:
            url: Where it is asked.
            no: The statuses by which it says that the credential is not valid.
            form: As for :func:`cardsign.net.fetch.fetch_document`.
            who: Our own credential, likewise.

        Raises:
            Denied: It says no, or what cannot be read: another credential may fare better.
            Unreachable: It gives no answer, or none to us.
        """
        self.check_reachable(url)
        try:
            answer = fetch_document(url, self.reach(url), form=form, authorization=who)
            return parse_object(answer.untrusted_body, max_bytes=MAX_ISSUER_BYTES)
        except OtherStatus as exc:
            if exc.status not in no:
                raise self.unreachable(url, exc) from exc
            raise Denied from exc
        except (FetchFailed, JsonRefused) as exc:
            if exc.code not in _UNREADABLE and isinstance(exc, FetchFailed):
                raise self.unreachable(url, exc) from exc
            self.say(parse_url(url), exc, "the caller gets 401")
            raise Denied from exc


class Jwt(RemoteProvider):
    """Tokens that their issuer signed: ``oidc``, ``azure_ad``, ``gcp_iap``."""

    def __init__(self, settings: ProviderSettings, now: Now, log: Log) -> None:
        if settings.type == "azure_ad":
            settings = replace(settings, issuer=azure_issuer({"tenant": settings.tenant}))
        elif settings.type == "gcp_iap":
            settings = replace(settings, issuer=settings.issuer or IAP_ISSUER)
        super().__init__(settings, now, log)
        self._discovery = str(self.scheme.members.get("openIdConnectUrl"))
        self._keys_url = (settings.url or IAP_KEYS) if settings.type == "gcp_iap" else settings.url
        reached = self.reach(*filter(None, (settings.issuer, self._keys_url)))
        self._access = reached.access
        self._fetcher = DocumentFetcher(
            reached,
            now=lambda: utc(now()),
            ceiling=KEYS_SECONDS,
        )
        #: What each URL answered last, and when: an issuer may forbid every cache.
        self._held: dict[str, tuple[bytes, float]] = {}
        self._keys: tuple[bytes, JwkSet] = (b"", JwkSet(()))

    def audience(self, request: Request) -> str | None:
        header = self.scheme.header
        token = request.headers.get(header) if header else bearer_of(request)
        return None if token is None else self.settings.audience_of(self.claims(token))

    def claims(self, untrusted_token: str) -> Claims:
        """The claims of a valid token; the issuer is asked only for one that is in order."""
        ours = self.settings

        def find(kid: str) -> PublicKey | None:
            # It may be new; that is asked for at most once a minute.
            return self._current_keys().find(kid) or self._current_keys(fresh=True).find(kid)

        try:
            claims = read_token(untrusted_token, find, types=ours.typ)
            check_claims(claims, issuer=ours.issuer, audience=ours.aud, now=self._now())
        except TokenRefused as exc:
            raise Denied from exc
        return claims

    def _current_keys(self, *, fresh: bool = False) -> JwkSet:
        """The issuer's keys."""
        url = self._keys_url or self._discovered()
        body = self._asked(url, fresh=fresh)
        read, keys = self._keys
        if read != body:
            try:
                keys = JwkSet.from_bytes(body)
            except KeyRefused as exc:
                raise self.unreachable(url, exc) from exc
            self._keys = body, keys
        return keys

    def _discovered(self) -> str:
        """The URL of the keys, as the issuer's configuration says it."""
        asked = self._discovery
        body = self._asked(asked)
        try:
            told = parse_object(body, max_bytes=MAX_ISSUER_BYTES)
            url = told.get("jwks_uri")
            # Else one issuer could speak with the keys of another (OpenID Connect Discovery 4.3).
            if told.get("issuer") != self.settings.issuer or not isinstance(url, str):
                raise self.unreachable(asked, "it names another issuer, or no keys")
            if parse_url(url).origin != parse_url(asked).origin and self.settings.networks:
                raise self.unreachable(asked, "its keys are on another host than the issuer")
        except (JsonRefused, CardRefused) as exc:
            raise self.unreachable(asked, exc) from exc
        return url

    def _asked(self, url: str, *, fresh: bool = False) -> bytes:
        access, now = self._access, self._now()
        held, at = self._held.get(url, (b"", -math.inf))
        is_due = not 0 <= now - at < LEAST_KEYS_SECONDS
        if not is_due and (not fresh or self._fetcher.is_cooling(url)):
            return held
        kept = self._fetcher.kept(url, max_bytes=MAX_JWKS_BYTES, access=access)
        if kept is not None and not fresh:
            return kept
        self.check_reachable(url)
        answer = self._fetcher.fetch(url, max_bytes=MAX_JWKS_BYTES, fresh=fresh, access=access)
        if answer.outcome != "found":  # keys beyond their time may have been revoked
            raise self.unreachable(url, answer.failure or answer.outcome)
        self._held[url] = answer.untrusted_body, now
        return answer.untrusted_body


class Introspection(RemoteProvider):
    """Opaque tokens about which their server is asked: ``http_verifier`` (RFC 7662)."""

    def __init__(self, settings: ProviderSettings, now: Now, log: Log) -> None:
        super().__init__(settings, now, log)
        #: What was said of tokens, by the digest of each, and until when that counts.
        self._known: dict[bytes, tuple[Claims, float]] = {}

    def gives(self, scheme: Scheme) -> bool:
        return super().gives(scheme) and scheme.type != "openIdConnect"

    def audience(self, request: Request) -> str | None:
        token = bearer_of(request)
        return None if token is None else self.settings.audience_of(self.claims(token))

    def claims(self, untrusted_token: str) -> Claims:
        """What the server says of an active token."""
        if not 0 < len(untrusted_token) <= MAX_TOKEN_CHARS:
            raise Denied
        digest = hashlib.sha256(untrusted_token.encode("utf-8", "surrogateescape")).digest()
        known, until = self._known.get(digest, ({}, 0.0))
        if self._now() < until:
            return known
        form = {"token": untrusted_token, "token_type_hint": "access_token"}
        encoded = urlencode(form, errors="surrogateescape").encode()
        secret = os.environ.get(self.settings.client.removeprefix("env:"), "")
        who = "Basic " + base64.b64encode(secret.encode()).decode() if secret else None
        claims = self.answer_about(self.settings.url, _BAD, form=encoded, who=who)
        now = self._now()
        end = claims.get("exp", now + ANSWER_SECONDS)
        if claims.get("active") is not True or not isinstance(end, int | float) or end <= now:
            raise Denied
        meant = claims.get("aud")
        if self.settings.aud and self.settings.aud not in (
            meant if isinstance(meant, list) else [meant]
        ):
            raise Denied
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[digest] = claims, min(end, now + ANSWER_SECONDS)
        return claims


class AwsSts(RemoteProvider):
    """A pre-signed GetCallerIdentity request as a bearer token: ``aws_sigv4``.

    STS itself says who signed it. Its host is compared with the one that is expected.
    """

    def gives(self, scheme: Scheme) -> bool:
        return super().gives(scheme) and scheme.type == "http"

    def audience(self, request: Request) -> str | None:
        token = bearer_of(request)
        if token is None or not token.startswith(STS_PREFIX):
            return None
        return self.settings.audience_of(self.claims(token))

    def claims(self, untrusted_token: str) -> Claims:
        """``account``, ``arn`` and ``sub``, as STS says them."""
        url = self._checked_url(untrusted_token.removeprefix(STS_PREFIX))
        told = self.answer_about(url, _BAD | {401, 403})  # no other server is asked who it is
        response = told.get("GetCallerIdentityResponse")
        result = response.get("GetCallerIdentityResult") if isinstance(response, dict) else None
        if not isinstance(result, dict):
            raise Denied
        found: dict[str, Json] = {"account": result.get("Account"), "arn": result.get("Arn")}
        return {**found, "sub": result.get("UserId")}

    def _checked_url(self, untrusted_text: str) -> str:
        try:
            padded = untrusted_text + "=" * (-len(untrusted_text) % 4)
            url = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
            origin, query = parse_url(url).origin, parse_qs(urlsplit(url).query)
        except (binascii.Error, UnicodeDecodeError, CardRefused, ValueError) as exc:
            raise Denied from exc
        expected = self.settings.url
        is_expected = (
            origin == parse_url(expected).origin
            if expected
            else origin.scheme == "https"
            and origin.port == 443
            and _STS_HOST.fullmatch(origin.host)
        )
        if not is_expected or query.get("Action") != ["GetCallerIdentity"]:
            raise Denied
        if urlsplit(url).path != "/" or "X-Amz-Signature" not in query:
            raise Denied
        return url


#: By type: the settings that it cannot do without, and who knows its callers. What its scheme is
#: stands in :data:`cardsign.card.security.PROVIDERS`.
KNOWERS: Final[Mapping[ProviderType, tuple[tuple[str, ...], type[Provider]]]] = {
    "static_token": (("tokens",), TableProvider),
    "http_verifier": (("url",), Introspection),
    "oidc": (("issuer", "aud"), Jwt),
    "azure_ad": (("tenant", "aud"), Jwt),
    "gcp_iap": (("aud",), Jwt),
    "aws_sigv4": ((), AwsSts),
    "api_key": (("tokens", "key"), TableProvider),
    "basic": (("tokens",), TableProvider),
    "mtls": ((), MutualTls),
}


def make_providers(
    settings: Sequence[ProviderSettings],
    tokens: TokenTable | None,
    now: Now,
    log: Log = to_stderr,
) -> tuple[Provider, ...]:
    """The providers of a server; a token table is a ``static_token`` before all others."""
    tables = () if tokens is None else (ProviderSettings("static_token", tokens=tokens),)
    return tuple(KNOWERS[one.type][1](one, now, log) for one in (*tables, *settings))
