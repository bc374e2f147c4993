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
import logging
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from flask import Request

from cardsign.card.security import Scheme, azure_issuer
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import CardRefused, CardsignError, FetchFailed, JsonRefused, KeyRefused
from cardsign.jose.jwt import MAX_TOKEN_CHARS, TokenRefused, check_claims, read_token
from cardsign.jose.keys import PublicKey
from cardsign.net.fetch import FetchSettings, OtherStatus, PrivateAccess, fetch_document
from cardsign.server.places import RETRY_SECONDS, Busy, Places
from cardsign.server.providers import (
    Claims,
    Denied,
    Now,
    Provider,
    Unreachable,
    bearer_token,
    read_secret,
)
from cardsign.server.settings import ProviderSettings
from cardsign.urls import Origin, parse_url

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 3.0  # for one request: a caller waits for it
KEYS_SECONDS: Final = 600  # for which an issuer's keys are used without asking again
REFRESH_SECONDS: Final = 60  # between two looks for an unknown key
MAX_KNOWN: Final = 4096  # introspected tokens
ANSWER_SECONDS: Final = 30  # for which an introspected token counts: revocation comes through
MAX_ANSWER_BYTES: Final = 64 * 1024

IAP_ISSUER: Final = "https://cloud.google.com/iap"
IAP_KEYS: Final = "https://www.gstatic.com/iap/verify/public_key-jwk"
STS_PREFIX: Final = "forge-aws-v1."
#: Of a region that cannot be there STS is not looked for; one of another form is named by `url`.
_STS_HOST: Final = re.compile(
    r"sts\.(?:(?:af|ap|ca|eu|il|me|mx|sa|us)(?:-gov)?-"
    r"(?:central|north|south|east|west|northeast|northwest|southeast|southwest)-[1-9]\.)?"
    r"amazonaws\.com"
)
#: Codes of an answer that came whole, and cannot be read.
_UNREADABLE: Final = frozenset({"fetch.content_type", "fetch.encoding", "fetch.too_large"})


class RemoteProvider(Provider):
    """A provider that asks another host, and remembers for a while that it could not connect."""

    def __init__(self, settings: ProviderSettings, hosts: Places, now: Now) -> None:
        super().__init__(settings, hosts, now)
        self._failed: dict[Origin, float] = {}  # when each host could not be reached last

    def ask(
        self, url: str, *, form: bytes | None = None, authorization: str | None = None
    ) -> dict[str, Json]:
        """Return the JSON object that another host answers with.

        Args:
            url: Where it is asked.
            form: What is posted; None for GET.
            authorization: Our own credential, likewise.

        Raises:
            FetchFailed: It answers with another status than 200, or what is no JSON.
            JsonRefused: It answers with what is no strict JSON.
            Unreachable: It gives no answer.
        """
        origin = parse_url(url).origin
        # Callers must not queue up behind a host that does not answer.
        if 0 <= self._now() - self._failed.get(origin, -math.inf) < RETRY_SECONDS:
            raise Unreachable(f"{origin} gave no answer a moment ago")
        networks = tuple(map(ipaddress.ip_network, self.settings.networks))
        reach = FetchSettings(
            connect_timeout=ASK_SECONDS,
            total_timeout=ASK_SECONDS,
            max_bytes=MAX_ANSWER_BYTES,
            insecure_loopback_http=self.settings.insecure_loopback_http,
            access=PrivateAccess(frozenset({origin}), networks) if networks else None,
        )
        try:
            headers = (("Authorization", authorization),) if authorization else ()
            answer = fetch_document(url, reach, headers=headers, body=form)
        except FetchFailed as exc:
            if isinstance(exc, OtherStatus) or exc.code in _UNREADABLE:
                raise
            raise self.fail(url, exc) from exc
        return parse_object(answer.untrusted_body, max_bytes=MAX_ANSWER_BYTES)

    def ask_about_token(
        self,
        url: str,
        own: Collection[int],
        *,
        form: bytes | None = None,
        authorization: str | None = None,
    ) -> dict[str, Json]:
        """Return what another host says of one token; its errors concern that token alone.

        Args:
            url: As for :meth:`ask`.
            own: The statuses that are about our own credential.
            form: Likewise.
            authorization: Likewise.

        Raises:
            Denied: It says no, or what cannot be read.
            Unreachable: It gives no answer, or none to us.
            Busy: Too many others wait for an answer.
        """
        try:
            with self._hosts:
                return self.ask(url, form=form, authorization=authorization)
        except OtherStatus as exc:
            problem = f"{parse_url(url).origin} answers {exc.status}"
            if 400 <= exc.status < 500 and exc.status not in (*own, 408, 429):
                raise Denied(problem) from exc
            raise Unreachable(problem) from exc
        except (FetchFailed, JsonRefused) as exc:
            raise Denied(f"the answer about it cannot be read ({exc.code})") from exc

    def fail(self, url: str, cause: CardsignError | str) -> Unreachable:
        """Return what is raised where a host gave no answer; it is not asked for a while."""
        asked = parse_url(url)
        self._failed[asked.origin] = self._now()
        shown = str(replace(asked, query=""))  # a query may hold a secret
        why = cause if isinstance(cause, str) else f"{cause.code}: {cause.message}"
        return Unreachable(f"asking {shown}: {why.replace(str(asked), shown)}")


class Jwt(RemoteProvider):
    """Tokens that their issuer signed: ``oidc``, ``azure_ad``, ``gcp_iap``."""

    def __init__(self, settings: ProviderSettings, hosts: Places, now: Now) -> None:
        update: dict[str, str] = {}
        if settings.type == "azure_ad":
            update["issuer"] = azure_issuer({"tenant": settings.tenant})
        elif settings.type == "gcp_iap":
            update["issuer"] = settings.issuer or IAP_ISSUER
            update["url"] = settings.url or IAP_KEYS
        super().__init__(settings.model_copy(update=update), hosts, now)
        self._lock = Lock()
        self._keys: dict[str, PublicKey] = {}
        self._asked_at = self._hurried_at = -math.inf

    def find_audience(self, request: Request) -> str | None:
        """As :meth:`Provider.find_audience`."""
        header = self.scheme.header
        token = request.headers.get(header) if header else bearer_token(request)
        if token is None:
            return None
        try:
            claims = read_token(token, self._find_key, types=self.settings.typ)
            check_claims(
                claims, issuer=self.settings.issuer, audience=self.settings.aud, now=self._now()
            )
        except TokenRefused as exc:
            raise Denied(str(exc)) from exc
        return self.choose_audience(claims)

    def _find_key(self, kid: str) -> PublicKey | None:
        """Return the key of a kid; an unknown one may be new, which is asked once a minute."""
        if self._is_due(kid):
            with self._hosts, self._lock:  # who waits for the other has a place too
                if self._is_due(kid):
                    self._refresh_keys()
        elif (
            self._now() - self._asked_at >= KEYS_SECONDS - REFRESH_SECONDS
            and not self._lock.locked()
        ):  # one caller asks before the keys end, so that none must wait; they are good till then
            with suppress(Busy, Unreachable), self._hosts, self._lock:
                self._refresh_keys()
        return self._keys.get(kid)

    def _is_due(self, kid: str) -> bool:
        """Return whether the issuer has to be asked before a kid can be looked up."""
        now = self._now()
        if not 0 <= now - self._asked_at < KEYS_SECONDS:
            return True
        return kid not in self._keys and not 0 <= now - self._hurried_at < REFRESH_SECONDS

    def _refresh_keys(self) -> None:
        """Ask the issuer for its keys."""
        if 0 <= self._now() - self._asked_at < KEYS_SECONDS:  # it is asked for an unknown kid
            self._hurried_at = self._now()
        url = self.settings.url or str(self.scheme.members.get("openIdConnectUrl"))
        try:
            if not self.settings.url:
                url = self._find_url(url, self.ask(url))
            self._keys = self._read_keys(self.ask(url))
        except (FetchFailed, JsonRefused) as exc:
            raise self.fail(url, exc) from exc
        self._asked_at = self._now()

    def _find_url(self, url: str, configuration: Mapping[str, Json]) -> str:
        """Return the URL of the keys, as the issuer's configuration says it."""
        keys_url = configuration.get("jwks_uri")
        # Else one issuer could speak with the keys of another (OpenID Connect Discovery 4.3).
        if configuration.get("issuer") != self.settings.issuer or not isinstance(keys_url, str):
            raise self.fail(url, "it names another issuer, or no keys")
        try:
            is_elsewhere = parse_url(keys_url).origin != parse_url(url).origin
        except CardRefused as exc:
            raise self.fail(url, exc) from exc
        if is_elsewhere and self.settings.networks:
            raise self.fail(url, "its keys are on another host than the issuer")
        return keys_url

    def _read_keys(self, document: dict[str, Json]) -> dict[str, PublicKey]:
        """Return the usable keys of an issuer by kid; odd ones are skipped and logged.

        Strictness about a whole set is for the keys of cards: here one odd key among an issuer's
        many would lock out every caller.
        """
        entries = document.get("keys")
        keys: dict[str, PublicKey] = {}
        kids = Counter[Json]()
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            members = entry if isinstance(entry, dict) else {}
            kid = members.get("kid")
            try:
                if not isinstance(kid, str):
                    raise KeyRefused("key.malformed", "it has no kid")
                kids[kid] += 1
                if kids[kid] > 1:
                    raise KeyRefused("jwks.duplicate_kid", "its kid is there twice")
                keys[kid] = PublicKey.from_jwk(members)
            except KeyRefused as exc:
                log.warning("provider %s: skipped key %d of the issuer: %s", self.name, index, exc)
        return {kid: key for kid, key in keys.items() if kids[kid] == 1}


class Introspection(RemoteProvider):
    """Opaque tokens about which their server is asked: ``http_verifier`` (RFC 7662)."""

    def __init__(self, settings: ProviderSettings, hosts: Places, now: Now) -> None:
        super().__init__(settings, hosts, now)
        self._secret = read_secret(settings.client)
        #: What was said of tokens, by the digest of each, and until when that counts.
        self._known: dict[bytes, tuple[Claims, float]] = {}

    def gives(self, scheme: Scheme) -> bool:
        """As :meth:`Provider.gives`."""
        return super().gives(scheme) and scheme.type != "openIdConnect"

    def find_audience(self, request: Request) -> str | None:
        """As :meth:`Provider.find_audience`."""
        token = bearer_token(request)
        return None if token is None else self.choose_audience(self._introspect(token))

    def _introspect(self, untrusted_token: str) -> Claims:
        """Return what the server says of an active token."""
        if not 0 < len(untrusted_token) <= MAX_TOKEN_CHARS:
            raise Denied("the token is empty or too long")
        digest = hashlib.sha256(untrusted_token.encode("utf-8", "surrogateescape")).digest()
        claims, until = self._known.get(digest, ({}, 0.0))
        if self._now() < until:
            return claims
        form = {"token": untrusted_token, "token_type_hint": "access_token"}
        encoded = urlencode(form, errors="surrogateescape").encode()
        authorization = None
        if self._secret:
            authorization = f"Basic {base64.b64encode(self._secret.encode()).decode()}"
        claims = self.ask_about_token(
            self.settings.url, (401, 403), form=encoded, authorization=authorization
        )
        now = self._now()
        expires = claims.get("exp", now + ANSWER_SECONDS)
        if claims.get("active") is not True:
            raise Denied("its server says that it is not active")
        if not isinstance(expires, int | float) or expires <= now:
            raise Denied("exp has passed")
        audience, wanted_audience = claims.get("aud"), self.settings.aud
        if wanted_audience and wanted_audience not in (
            audience if isinstance(audience, list) else [audience]
        ):
            raise Denied("aud is another audience")
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[digest] = claims, min(expires, now + ANSWER_SECONDS)
        return claims


class AwsSts(RemoteProvider):
    """A pre-signed GetCallerIdentity request as a bearer token: ``aws_sigv4``.

    STS itself says who signed it. Its host is compared with the one that is expected.
    """

    def gives(self, scheme: Scheme) -> bool:
        """As :meth:`Provider.gives`."""
        return super().gives(scheme) and scheme.type == "http"

    def find_audience(self, request: Request) -> str | None:
        """As :meth:`Provider.find_audience`."""
        token = bearer_token(request)
        if token is None or not token.startswith(STS_PREFIX):
            return None
        url = self._check_url(token.removeprefix(STS_PREFIX))
        answer = self.ask_about_token(url, ())  # no other server is asked who it is
        response = answer.get("GetCallerIdentityResponse")
        result = response.get("GetCallerIdentityResult") if isinstance(response, dict) else None
        if not isinstance(result, dict):
            raise Denied("STS does not say who signed the request")
        claims = {"account": result.get("Account"), "arn": result.get("Arn")}
        return self.choose_audience({**claims, "sub": result.get("UserId")})

    def _check_url(self, untrusted_text: str) -> str:
        """Return the URL in a token, if it asks the expected STS who signed it, and no more."""
        try:
            padded = untrusted_text + "=" * (-len(untrusted_text) % 4)
            url = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
            origin, query = parse_url(url).origin, parse_qs(urlsplit(url).query)
        except (binascii.Error, UnicodeDecodeError, CardRefused, ValueError) as exc:
            raise Denied("the token holds no URL") from exc
        expected = self.settings.url
        if expected:
            is_expected = origin == parse_url(expected).origin
        else:
            is_https = origin.scheme == "https" and origin.port == 443
            is_expected = is_https and _STS_HOST.fullmatch(origin.host) is not None
        if not is_expected or urlsplit(url).path != "/":
            raise Denied("the token names another host than STS")
        if query.get("Action") != ["GetCallerIdentity"] or "X-Amz-Signature" not in query:
            raise Denied("the token is no signed GetCallerIdentity request")
        return url
