"""The user's credential for a peer, and where it may go.

Decided from the payload of a trusted card and the policy, before anything is loaded or sent
(threat 11). The credential goes to an interface of that payload inside the issuer's origins; the
secret of an OAuth client to the payload's token URL (RFC 6749 4.4), by the same rule.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote_plus, urlencode

from cardsign.card.security import (
    Scheme,
    requirements_of,
    schemes_of,
    security_problems,
)
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import (
    CallFailed,
    CredentialFault,
    FileFault,
    JsonRefused,
)
from cardsign.files import read_secret
from cardsign.net.endpoints import Endpoint
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, OtherStatus, fetch_document
from cardsign.trust.policy import Policy, Subject, TrustedIssuer
from cardsign.urls import Origin, Url, may_stand_at, parse_url

if TYPE_CHECKING:
    from cardsign.verify.verifier import Verifier

MAX_SECRET_CHARS: Final = 8192  # of a credential or a token; common servers take no longer header
MIN_PASSWORD: Final = 4  # characters; a shorter one stands in many words by chance
MAX_WORDS: Final = 200  # characters of a peer's own words in a message
MAX_TOKEN_BYTES: Final = 64 * 1024  # of a server of tokens

_BEARER: Final = re.compile(rf"(?=.{{1,{MAX_SECRET_CHARS}}}\Z)[A-Za-z0-9._~+/-]+=*")  # RFC 6750 2.1
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+")  # RFC 6749 3.3
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")  # a header's name (RFC 9110 5.1)
# Headers that shape the message or its way, or that mean something else: never a credential's.
_NOT_FOR_KEYS: Final = re.compile(
    r"a2a-.*|accept.*|cache-.*|connection|content-.*|cookie2?|date|expect|forwarded|host|if-.*|"
    r"keep-alive|origin|proxy-.*|range|referer|sec-.*|te|trailer|transfer-.*|upgrade|user-agent|"
    r"via|x-forwarded-.*|x-http-method.*",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/(?!/)[^?#]*")
_EXPECTED: Final = "expected env:NAME, or file: and the absolute path of a file"
_UNLOGGED: Final = ContextVar("cardsign_unlogged", default=False)


#: The name of the header in which a credential goes, and ``Bearer`` or ``Basic`` before the
#: credential; an empty scheme for a key by itself.
HeaderForm: TypeAlias = tuple[str, str]
BEARER: Final[HeaderForm] = ("Authorization", "Bearer")
BASIC: Final[HeaderForm] = ("Authorization", "Basic")
_FORMS: Final = {"bearer": BEARER, "basic": BASIC}


def header_value(form: HeaderForm, secret: str) -> str:
    """Return the value of the header that shows a credential.

    Args:
        form: The header's form.
        secret: A bearer token, ``user:password`` for Basic (RFC 7617 2), or a key.

    Raises:
        CredentialFault: ``credential.none``: it has not the form that this takes; the message
            never shows it.
    """
    scheme = form[1]
    if scheme == "Basic":
        if ":" not in secret:
            raise _unusable("Basic takes USER:PASSWORD, with a colon")
        secret = base64.b64encode(secret.encode()).decode()
    elif scheme and not _BEARER.fullmatch(secret):
        raise _unusable("the credential has characters that no bearer token has")
    return f"{scheme} {secret}".strip()


def _unusable(problem: str, path: str = "") -> CredentialFault:
    """Never with the credential, or with what stands in its place by mistake."""
    hint = "Say where to read it: env:NAME or file:/absolute/path"
    return CredentialFault("credential.none", problem, path=path, hint=hint)


def header_form_of(payload: Mapping[str, Json]) -> HeaderForm:
    """Return how a verified card wants a credential.

    The first requirement decides that names a single scheme which goes in a header (A2A 1.0 4.5,
    0.3 5.5). Without requirements the first such scheme of the card does: an agent may want
    nothing for itself, and something for its extended card.

    Raises:
        CredentialFault: ``credential.scheme``: no such scheme; nothing may be guessed.
    """
    for scheme, _ in _schemes_alone(payload):
        if scheme.header is not None and _may_hold_keys(scheme.header):
            return scheme.header, ""
        if scheme.carrier in _FORMS:
            return _FORMS[scheme.carrier]
    raise CredentialFault(
        "credential.scheme", "the card demands nothing that is one credential in a header"
    )


def _schemes_alone(payload: Mapping[str, Json]) -> Iterator[tuple[Scheme, Sequence[str]]]:
    """Yield each scheme that a requirement names alone, with its scopes.

    Without requirements each scheme of the card, without scopes.

    Raises:
        CredentialFault: ``credential.scheme``: the card asks for more than can be read, and no
            credential is sent on a guess.
    """
    for problem in security_problems(payload):
        message = f"the card's requirements cannot be read: {problem.message}"
        raise CredentialFault("credential.scheme", message, path=problem.path)
    declared = schemes_of(payload)
    alternatives = requirements_of(payload, declared)
    requirements = [alternative.schemes for alternative in alternatives if alternative.schemes]
    if not requirements:
        yield from ((scheme, ()) for scheme in declared.values())
    for schemes in requirements:
        name = next(iter(schemes))
        if len(schemes) == 1 and name in declared:
            yield declared[name], schemes[name]


def _may_hold_keys(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not _NOT_FOR_KEYS.fullmatch(name)


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential for one peer, read when it is sent.

    No message repeats what follows the scheme of its URI: it may be the credential, put there by
    mistake.

    Attributes:
        client_id: The OAuth 2.0 client whose secret it is, which gets a token; empty where it is
            shown to the peer itself.
        environment: Where its variable is looked up.
    """

    _uri: str = field(repr=False)
    client_id: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, uri: str, *, environment: Mapping[str, str], client_id: str = "") -> Credential:
        """Read where a credential comes from.

        Args:
            uri: ``env:NAME``, or ``file:/absolute/path`` of a private file.
            environment: As the attribute.
            client_id: As the attribute.

        Raises:
            CredentialFault: ``credential.none``.
        """
        if not _PLACE.fullmatch(uri):
            scheme = uri.partition(":")[0]
            raise _unusable(_EXPECTED, f"{scheme}:..." if scheme in ("env", "file") else "")
        return cls(uri, client_id, environment)

    def secret(self) -> str:
        """Read the credential: one line of printable ASCII.

        Raises:
            CredentialFault: ``credential.none``: there is none, or none that a header holds. The
                message does not show it.
        """
        scheme, _, path = self._uri.partition(":")
        try:
            if scheme == "file":
                data = read_secret(Path(path), max_bytes=MAX_SECRET_CHARS + 2)  # and a line end
                text = data.decode("utf-8", "replace")
            else:
                text = self.environment.get(path, "")
        except FileFault as exc:
            problem = f"the file cannot be used ({exc.code}): it must be yours alone"
        else:
            text = text.removesuffix("\n").removesuffix("\r")
            if 0 < len(text) <= MAX_SECRET_CHARS and text.isascii() and text.isprintable():
                return text
            empty = "the file is empty" if scheme == "file" else "the variable is not set"
            line = f"one line of at most {MAX_SECRET_CHARS} printable ASCII characters"
            problem = f"the credential is not {line}" if text else empty
        raise _unusable(problem, f"{scheme}:...")  # outside, so that no context holds the URI


@dataclass(frozen=True, slots=True)
class Peer:
    """An agent whose public card is trusted: where it is asked, and where a credential may go.

    Attributes:
        card_url: Where its public card was found.
        payload: Of the trusted card, and nothing that was not verified.
        policy: By which the card is trusted.
        issuer: Whose it is; None, or one without origins (by keys alone): then a credential goes
            to the origin of the card's URL.
        settings: How it is reached.
    """

    card_url: str
    payload: Mapping[str, Json]
    policy: Policy
    issuer: TrustedIssuer | None
    settings: FetchSettings = DEFAULT_SETTINGS

    @classmethod
    def of(
        cls, verifier: Verifier, card_url: str, payload: Mapping[str, Json], subject: Subject
    ) -> Peer:
        """Return the peer whose card a verifier trusts.

        Args:
            verifier: By whom the card was judged.
            card_url: As the attribute.
            payload: As the attribute.
            subject: Whose card it should be; nobody: whoever is at home at the URL.
        """
        policy, settings = verifier.policy, verifier.fetcher.settings
        issuer = policy.find(Subject(url=card_url) if subject.is_nobody else subject)
        return cls(card_url, payload, policy, issuer, settings.for_issuer(issuer))

    def is_outside(self, url: Url) -> bool:
        """Return whether a URL lies outside the issuer's places, as the policy has them.

        Rule V4 has held the endpoints themselves against them; a place of another's may lie
        below one.
        """
        issuer = self.issuer
        if issuer is None or issuer.places is None:
            return False
        return not may_stand_at(url, issuer.places, self.policy.reserved_from(issuer))

    def may_show(self, url: Url) -> bool:
        """Return whether a credential may go to a URL of the payload."""
        if self.issuer is None or self.issuer.places is None:
            return url.origin == parse_url(self.card_url).origin
        return not self.is_outside(url)

    def choose(self, endpoints: Sequence[Endpoint], url_of: Callable[[Endpoint], Url]) -> Endpoint:
        """Return the first endpoint that may get a credential.

        Args:
            endpoints: Of the payload.
            url_of: Where an endpoint is asked.

        Raises:
            CredentialFault: ``credential.elsewhere``.
        """
        for endpoint in endpoints:
            if self.may_show(url_of(endpoint)):
                return endpoint
        origins = ", ".join(sorted({str(endpoint.url.origin) for endpoint in endpoints}))
        raise self.elsewhere(f"the card's endpoints are at {origins}")

    def elsewhere(self, problem: str) -> CredentialFault:
        """Return the refusal to send a credential to a place that is not the issuer's."""
        if self.issuer is None or self.issuer.places is None:
            home = f"the origin of {self.card_url}"
        else:
            home = f"the origins of {self.issuer.name}"
        message = f"{problem}, outside {home}; nothing was sent"
        return CredentialFault("credential.elsewhere", message)


@dataclass(frozen=True, slots=True)
class Header:
    """A credential on its way: for requests to this origin alone.

    Attributes:
        origin: Where alone it goes.
        name: The header's name.
        value: Its value; kept out of ``repr``.
    """

    origin: Origin
    name: str
    value: str = field(repr=False)
    _secret: str = field(repr=False)

    @classmethod
    def of(cls, origin: Origin, form: HeaderForm, secret: str) -> Header:
        """Make the header in which a credential is shown.

        Raises:
            CredentialFault: ``credential.none``: it has not the form that this takes.
        """
        return cls(origin, form[0], header_value(form, secret), secret)

    def quotable(self, untrusted_words: str) -> str:
        """Return a harmless line of what a peer says, unless it repeats the credential.

        NOT seen: a credential that is repeated in an encoding.
        """
        if any(word in untrusted_words for word in self._tellings()):
            return "(it repeats the credential)"
        return quotable(untrusted_words)

    def masked(self, untrusted_text: str) -> str:
        """Return a peer's answer without the credential, where it repeats that as it was sent."""
        for word in self._tellings():
            untrusted_text = untrusted_text.replace(word, "(the credential)")
        return untrusted_text

    def _tellings(self) -> list[str]:
        """What tells the credential, the longest first: it, as it was sent, Basic's password."""
        words = {self._secret, self.value.rpartition(" ")[2]}
        if self.value.startswith("Basic "):
            password = self._secret.partition(":")[2]
            words |= {password} if len(password) >= MIN_PASSWORD else set()
        return sorted(words, key=len, reverse=True)


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep what a peer answers within out of httpcore's log: it may repeat a credential."""
    token = _UNLOGGED.set(True)
    try:
        yield
    finally:
        _UNLOGGED.reset(token)


# At DEBUG this logger, and no other on the way, writes every header of an answer.
logging.getLogger("httpcore.http11").addFilter(lambda _: not _UNLOGGED.get())


def quotable(untrusted_words: str) -> str:
    """Return untrusted words as one harmless line of at most :data:`MAX_WORDS` characters."""
    start = untrusted_words[:MAX_WORDS]
    return "".join(char if char.isprintable() else "?" for char in start)


def find_token_url(peer: Peer) -> tuple[Url, tuple[str, ...]]:
    """Return where a verified card has its tokens from, and the scopes to ask for, sorted.

    The first requirement decides that names a single `oauth2` scheme with a `clientCredentials`
    flow. Without requirements the first such scheme of the card does, without scopes. An OpenID
    Connect scheme names no token URL, and none is looked for elsewhere.

    Raises:
        CredentialFault: ``credential.scheme``: no such scheme; ``credential.elsewhere``: the
            client's secret must not go to its token URL.
        FetchFailed: ``fetch.url``: its token URL is none, or none of https.
    """
    for scheme, scopes in _schemes_alone(peer.payload):
        flows = scheme.members.get("flows") if scheme.type == "oauth2" else None
        flow = flows.get("clientCredentials") if isinstance(flows, dict) else None
        token_url = flow.get("tokenUrl") if isinstance(flow, dict) else None
        if not isinstance(token_url, str):
            continue
        if not all(map(_SCOPE.fullmatch, scopes)):
            raise CredentialFault("credential.scheme", "the card demands a scope that is none")
        url = peer.settings.target(token_url)
        if not peer.may_show(url):
            raise peer.elsewhere(f"the card's token URL is at {url.origin}")
        return url, tuple(sorted({*scopes}))
    raise CredentialFault(
        "credential.scheme", "the card demands no OAuth 2.0 token by client credentials"
    )


def open_credential(credential: Credential, peer: Peer, url: Url) -> Header:
    """Load a credential, or get a token with it, in the form that a verified card wants.

    Args:
        credential: The user's.
        peer: For whom; the card says in which form, and where a client's tokens come from.
        url: To which it is sent, an endpoint that :meth:`Peer.choose` has allowed.

    Raises:
        CredentialFault: ``credential.none``, ``credential.scheme``, ``credential.elsewhere``.
        CallFailed: ``credential.refused``, ``call.error``: there is no token for the client.
        FetchFailed: The server of tokens could not be asked, or must not be.
    """
    if not credential.client_id:
        return Header.of(url.origin, header_form_of(peer.payload), credential.secret())
    token_url, scopes = find_token_url(peer)
    with unlogged():
        token = _get_token(token_url, scopes, credential, peer.settings)
    return Header.of(url.origin, BEARER, token)


def _get_token(url: Url, scopes: Sequence[str], client: Credential, settings: FetchSettings) -> str:
    """Ask for a token, by HTTP Basic (RFC 6749 2.3.1).

    Raises:
        CallFailed: ``credential.refused``: the server refuses the client; ``call.error``: it
            answered no bearer token. No word of the answer is shown.
        FetchFailed: As :func:`cardsign.net.fetch.fetch_document`.
    """
    form = {"grant_type": "client_credentials"}
    if scopes:
        form["scope"] = " ".join(scopes)
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret())}"
    problem = "holds no bearer token"
    try:
        answer = fetch_document(
            str(url),
            replace(settings, max_bytes=MAX_TOKEN_BYTES),
            headers=(("Authorization", header_value(BASIC, pair)),),
            body=urlencode(form).encode(),
        )
        members = parse_object(answer.untrusted_body, max_bytes=MAX_TOKEN_BYTES, max_depth=8)
    except OtherStatus as exc:
        if exc.status not in (400, 401, 403):
            raise
        message = f"{url} answered {exc.status} to the client's credentials"
        raise CallFailed("credential.refused", message) from None
    except JsonRefused as exc:
        problem, members = f"is not strict JSON ({exc.code})", {}
    token, kind = members.get("access_token"), members.get("token_type")
    if isinstance(token, str) and _BEARER.fullmatch(token) and str(kind).lower() == "bearer":
        return token
    raise CallFailed("call.error", f"the answer of {url} {problem}")
