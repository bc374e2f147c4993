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
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from flask import Request

from cardsign.card.security import Scheme
from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import CardRefused, FetchFailed, JsonRefused, KeyRefused
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.jose.jwt import LEEWAY, TokenRefused, UnknownKey, check_claims, read_token
from cardsign.net.fetch import FetchSettings, PrivateAccess, fetch_document
from cardsign.net.fetcher import DocumentFetcher
from cardsign.server.providers.base import (
    RETRY_SECONDS,
    Claims,
    Denied,
    KnownCredentials,
    Now,
    Provider,
    ProviderSettings,
    Unreachable,
    bearer_of,
)
from cardsign.urls import Origin, parse_url

SECONDS: Final = 3.0  # for one request: a caller waits for it
KEYS_SECONDS: Final = 600  # for which keys are used without asking again
ANSWER_SECONDS: Final = 30  # for which an introspected token counts: revocation comes through
MAX_ANSWER_BYTES: Final = 64 * 1024
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"

IAP_ISSUER: Final = "https://cloud.google.com/iap"
IAP_KEYS: Final = "https://www.gstatic.com/iap/verify/public_key-jwk"
IAP_HEADER: Final = "X-Goog-IAP-JWT-Assertion"
STS_PREFIX: Final = "forge-aws-v1."
_STS_HOST: Final = re.compile(r"sts\.(?:[a-z]{2}(?:-[a-z]+)+-[0-9]\.)?amazonaws\.com")


class RemoteProvider(Provider):
    """A provider that asks another host, and remembers for a while that it gave no answer."""

    asks_peers = True

    def __init__(self, settings: ProviderSettings, now: Now) -> None:
        super().__init__(settings)
        self._now = now
        self._known = KnownCredentials(now)
        self._failed_at = float("-inf")

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
            max_bytes=MAX_ANSWER_BYTES,
            insecure_loopback_http=ours.insecure_loopback_http,
            access=access,
        )

    def check_reachable(self) -> None:
        """Raise at once while the last failure is fresh: callers must not queue up behind it."""
        if 0 <= self._now() - self._failed_at < RETRY_SECONDS:
            raise Unreachable

    def unreachable(self) -> Unreachable:
        """What is raised where nobody answered."""
        self._failed_at = self._now()
        return Unreachable()


class Jwt(RemoteProvider):
    """Tokens that their issuer signed: ``oidc``, ``azure_ad``, ``gcp_iap``."""

    def __init__(self, settings: ProviderSettings, now: Now) -> None:
        if settings.type == "azure_ad":
            issuer = f"https://login.microsoftonline.com/{settings.tenant}/v2.0"
            settings = replace(settings, issuer=issuer)
        elif settings.type == "gcp_iap":
            settings = replace(settings, issuer=settings.issuer or IAP_ISSUER)
        super().__init__(settings, now)
        self._discovery = settings.issuer.rstrip("/") + DISCOVERY_PATH
        self._keys_url = (settings.url or IAP_KEYS) if settings.type == "gcp_iap" else settings.url
        reached = self.reach(*filter(None, (settings.issuer, self._keys_url)))
        self._access = reached.access
        self._fetcher = DocumentFetcher(
            reached,
            now=lambda: datetime.fromtimestamp(now(), UTC),
            ceiling=KEYS_SECONDS,
        )
        self._keys: tuple[bytes, JwkSet] = (b"", JwkSet(()))
        self._lock = Lock()

    def gives(self, scheme: Scheme) -> bool:
        if self.settings.type == "gcp_iap":
            return (scheme.header or "").lower() == IAP_HEADER.lower()
        if scheme.type == "openIdConnect":
            return scheme.members.get("openIdConnectUrl") == self._discovery
        return scheme.carrier == "bearer"

    def audience(self, request: Request) -> str | None:
        is_iap = self.settings.type == "gcp_iap"
        token = request.headers.get(IAP_HEADER) if is_iap else bearer_of(request)
        return None if token is None else self.settings.audience_of(self.claims(token))

    def claims(self, untrusted_token: str) -> Claims:
        """The claims of a valid token."""
        digest = hashlib.sha256(untrusted_token.encode("utf-8", "surrogateescape")).digest()
        version, keys = self._current_keys()
        if (known := self._known.get(digest, version)) is not None:
            return known
        ours = self.settings
        try:
            try:
                claims = read_token(untrusted_token, keys, types=ours.typ)
            except UnknownKey:  # the issuer may have a new one; asked at most once a minute
                version, keys = self._current_keys(fresh=True)
                claims = read_token(untrusted_token, keys, types=ours.typ)
            check_claims(claims, issuer=ours.issuer, audience=ours.aud, now=self._now())
        except TokenRefused as exc:
            raise Denied from exc
        end = claims["exp"]
        if isinstance(end, int | float):  # which was checked
            self._known.put(digest, claims, end + LEEWAY, version)
        return claims

    def _current_keys(self, *, fresh: bool = False) -> tuple[bytes, JwkSet]:
        """The issuer's keys, and the digest of the set that they are from."""
        body = self._asked(self._keys_url or self._discovered(), fresh=fresh)
        digest = hashlib.sha256(body).digest()
        with self._lock:
            if self._keys[0] != digest:
                try:
                    self._keys = digest, JwkSet.from_bytes(body)
                except KeyRefused as exc:
                    raise self.unreachable() from exc
            return self._keys

    def _discovered(self) -> str:
        """The URL of the keys, as the issuer's configuration says it."""
        try:
            told = parse_object(self._asked(self._discovery), max_bytes=MAX_ANSWER_BYTES)
            url = told.get("jwks_uri")
            # Else one issuer could speak with the keys of another (OpenID Connect Discovery 4.3).
            if told.get("issuer") != self.settings.issuer or not isinstance(url, str):
                raise self.unreachable()
            if (
                self.settings.networks
                and parse_url(url).origin != parse_url(self._discovery).origin
            ):
                raise self.unreachable()
        except (JsonRefused, CardRefused) as exc:
            raise self.unreachable() from exc
        return url

    def _asked(self, url: str, *, fresh: bool = False) -> bytes:
        access = self._access
        kept = self._fetcher.kept(url, max_bytes=MAX_JWKS_BYTES, access=access)
        if kept is not None and not fresh:
            return kept
        self.check_reachable()
        answer = self._fetcher.fetch(url, max_bytes=MAX_JWKS_BYTES, fresh=fresh, access=access)
        if answer.outcome != "found":  # keys beyond their time may have been revoked
            raise self.unreachable()
        return answer.untrusted_body


class Introspection(RemoteProvider):
    """Opaque tokens about which their server is asked: ``http_verifier`` (RFC 7662)."""

    def gives(self, scheme: Scheme) -> bool:
        return scheme.carrier == "bearer" and scheme.type != "openIdConnect"

    def audience(self, request: Request) -> str | None:
        token = bearer_of(request)
        return None if token is None else self.settings.audience_of(self.claims(token))

    def claims(self, untrusted_token: str) -> Claims:
        """What the server says of an active token."""
        digest = hashlib.sha256(untrusted_token.encode("utf-8", "surrogateescape")).digest()
        if (known := self._known.get(digest)) is not None:
            return known
        self.check_reachable()
        form = {"token": untrusted_token, "token_type_hint": "access_token"}
        try:
            answer = fetch_document(
                self.settings.url,
                self.reach(self.settings.url),
                form=urlencode(form).encode(),
                authorization=self._authorization(),
            )
            claims = parse_object(answer.untrusted_body, max_bytes=MAX_ANSWER_BYTES)
        except (FetchFailed, JsonRefused) as exc:
            raise self.unreachable() from exc
        now = self._now()
        end = claims.get("exp", now + ANSWER_SECONDS)
        if claims.get("active") is not True or not isinstance(end, int | float) or end <= now:
            raise Denied
        meant = claims.get("aud")
        if self.settings.aud and self.settings.aud not in (
            meant if isinstance(meant, list) else [meant]
        ):
            raise Denied
        self._known.put(digest, claims, min(end, now + ANSWER_SECONDS))
        return claims

    def _authorization(self) -> str | None:
        """Who we are, for the server (RFC 6749 2.3.1)."""
        name = self.settings.client.removeprefix("env:")
        secret = os.environ.get(name, "") if name else ""
        return "Basic " + base64.b64encode(secret.encode()).decode() if secret else None


class AwsSts(RemoteProvider):
    """A pre-signed GetCallerIdentity request as a bearer token: ``aws_sigv4``.

    STS itself says who signed it. Its host is compared with the one that is expected.
    """

    def gives(self, scheme: Scheme) -> bool:
        return scheme.type == "http" and scheme.carrier == "bearer"

    def audience(self, request: Request) -> str | None:
        token = bearer_of(request)
        if token is None or not token.startswith(STS_PREFIX):
            return None
        return self.settings.audience_of(self.claims(token))

    def claims(self, untrusted_token: str) -> Claims:
        """``account``, ``arn`` and ``sub``, as STS says them."""
        url = self._checked_url(untrusted_token.removeprefix(STS_PREFIX))
        self.check_reachable()
        try:
            answer = fetch_document(url, self.reach(url))
            told = parse_object(answer.untrusted_body, max_bytes=MAX_ANSWER_BYTES)
            response = told.get("GetCallerIdentityResponse")
            result = response.get("GetCallerIdentityResult") if isinstance(response, dict) else None
            if not isinstance(result, dict):
                raise Denied
        except FetchFailed as exc:
            if exc.code == "fetch.status":  # STS knows it, and says no
                raise Denied from exc
            raise self.unreachable() from exc
        except JsonRefused as exc:
            raise self.unreachable() from exc
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
