"""Access tokens by OAuth 2.0 client credentials (RFC 6749 4.4), from the URL of a verified card.

A card decides where its issuer's tokens come from. The user decides which server may see the
client's secret. Both must agree, else nothing is sent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote_plus, urlencode

from cardsign.card.security import Scheme, requirements_of, schemes_of
from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import CallFailed, CredentialFault, JsonRefused
from cardsign.lru import Lru
from cardsign.net.fetch import FetchSettings, OtherStatus, fetch_document
from cardsign.records import dataclass
from cardsign.urls import Origin, Url

MAX_TOKENS: Final = 256  # kept at a time, each of at most MAX_TOKEN_CHARS
MAX_TOKEN_CHARS: Final = 8192  # common servers take no longer header
MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_SECONDS: Final = 3600  # for which a token is used, whatever its server says
MARGIN_SECONDS: Final = 30  # before its end a token is used no more: it may be long on its way

_TOKEN: Final = re.compile(rf"(?=.{{1,{MAX_TOKEN_CHARS}}}\Z)[A-Za-z0-9._~+/-]+=*")  # RFC 6750 2.1
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+")  # RFC 6749 3.3


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What a token is asked for.

    Attributes:
        url: The ``tokenUrl`` of a verified card.
        scopes: Of the card's requirement, sorted; may be empty.
    """

    url: Url
    scopes: tuple[str, ...]


def token_request_of(
    payload: Mapping[str, Json], origin: Origin, settings: FetchSettings
) -> TokenRequest:
    """Where a verified card has its tokens from, and with which scopes.

    The first requirement decides that names a single `oauth2` scheme with a `clientCredentials`
    flow. Without requirements the first such scheme of the card does, without scopes. An OpenID
    Connect scheme names no token URL, and none is looked for elsewhere.

    Args:
        payload: Of a trusted card.
        origin: The only place where the user lets the client's secret go.
        settings: Whether plain http to this machine is allowed.

    Raises:
        CredentialFault: ``credential.scheme``: no such scheme; ``credential.elsewhere``: its
            token URL stands at another origin.
        FetchFailed: ``fetch.url``: its token URL is none, or none of https.
    """
    declared = schemes_of(payload)
    alternatives = [one for one in requirements_of(payload) if one]
    wanted = (
        [next(iter(one.items())) for one in alternatives if len(one) == 1]
        if alternatives
        else [(name, frozenset[str]()) for name in declared]
    )
    for name, scopes in wanted:
        text = _token_url(declared.get(name))
        if text is None:
            continue
        if not all(map(_SCOPE.fullmatch, scopes)):
            raise CredentialFault("credential.scheme", "the card demands a scope that is none")
        url = settings.target(text)
        if url.origin != origin:
            what = f"the card's token URL stands at {url.origin}, and the client's secret is for "
            raise CredentialFault("credential.elsewhere", f"{what}{origin}; nothing was sent")
        return TokenRequest(url, tuple(sorted(scopes)))
    raise CredentialFault(
        "credential.scheme", "the card demands no OAuth 2.0 token by client credentials"
    )


def _token_url(scheme: Scheme | None) -> str | None:
    flows = scheme.members.get("flows") if scheme is not None and scheme.type == "oauth2" else None
    flow = flows.get("clientCredentials") if isinstance(flows, dict) else None
    url = flow.get("tokenUrl") if isinstance(flow, dict) else None
    return url if isinstance(url, str) else None


def get_token(
    request: TokenRequest, client_id: str, secret: str, settings: FetchSettings
) -> tuple[str, float]:
    """Ask for a token once, by HTTP Basic (RFC 6749 2.3.1).

    Returns:
        The token, and for how many seconds from now it may be used; 0 for this once.

    Raises:
        CallFailed: ``credential.refused``: the server refuses the client; ``call.error``: it
            answered no bearer token. No word of the answer is shown.
        FetchFailed: As :func:`cardsign.net.fetch_document`.
    """
    form = {"grant_type": "client_credentials"}
    if request.scopes:
        form["scope"] = " ".join(request.scopes)
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    try:
        found = fetch_document(
            str(request.url),
            replace(settings, max_bytes=MAX_ANSWER_BYTES),
            form=urlencode(form).encode(),
            authorization=f"Basic {base64.b64encode(pair.encode()).decode()}",
        )
        answer = parse_object(found.untrusted_body, max_bytes=MAX_ANSWER_BYTES, max_depth=8)
    except OtherStatus as exc:
        if exc.status not in (400, 401, 403):
            raise
        failure = CallFailed(
            "credential.refused", f"{request.url} answered {exc.status} to the client's credentials"
        )
    except JsonRefused as exc:
        failure = _no_token(request.url, f"is not strict JSON ({exc.code})")
    else:
        return _read(answer, request.url)
    raise failure  # outside, so that no context quotes the answer


def _read(answer: Mapping[str, Json], url: Url) -> tuple[str, float]:
    token, kind, lasts = (answer.get(name) for name in ("access_token", "token_type", "expires_in"))
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise _no_token(url, "is of another type than bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise _no_token(url, "holds no bearer token")
    if isinstance(lasts, bool) or not isinstance(lasts, int):
        return token, 0
    return token, max(0, min(lasts, MAX_SECONDS) - MARGIN_SECONDS)


def _no_token(url: Url, what: str) -> CallFailed:
    return CallFailed("call.error", f"the answer of {url} {what}")


class TokenCache:
    """Tokens that still hold, for any number of threads."""

    def __init__(self) -> None:
        self._tokens: Lru[tuple[object, TokenRequest], tuple[str, float]] = Lru(MAX_TOKENS)

    def get(
        self,
        client: object,
        request: TokenRequest,
        settings: FetchSettings,
        ask: Callable[[], tuple[str, float]],
    ) -> str:
        """A token that still holds, or a new one.

        Args:
            client: Whose token it is.
            request: What it is for.
            settings: Whose clock counts.
            ask: Gets a new token, and the seconds for which it holds.
        """
        key, now = (client, request), settings.clock()
        token, end = self._tokens.get(key) or ("", now)
        if now < end:
            return token
        token, lasts = ask()
        self._tokens.drop(key)
        if lasts > 0:
            self._tokens.put(key, (token, now + lasts))
        return token

    def drop(self, client: object) -> None:
        """Forget a client's tokens: its peer refuses one."""
        for key in self._tokens.listed():
            if key[0] == client:
                self._tokens.drop(key)
