"""How a trusted peer may be called: its endpoints, the user's credential, and one strict answer.

All of it is decided from the payload of a trusted card and the policy, before anything is loaded
or sent (threat 11). Rule V4 has held each endpoint against the places of the policy and the
issuer's statement. The credential goes to an endpoint inside the issuer's origins; the secret of
an OAuth client to the payload's token URL (RFC 6749 4.4), by the same rule.
"""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast
from urllib.parse import quote, quote_plus, urlencode

from cardsign.card.interfaces import Interface, current_interfaces
from cardsign.card.security import Scheme, requirements_of, schemes_of, security_problems
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import CallFailed, CardRefused, FileFault, JsonRefused, UsageFault
from cardsign.files import read_secret
from cardsign.net import fetch
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings
from cardsign.trust.policy import Policy, Subject, TrustedIssuer
from cardsign.urls import EXTENDED_PATH, Origin, Url, may_stand_at, parse_url

if TYPE_CHECKING:
    from cardsign.verify.verifier import Verifier

A2AVersion = Literal["1.0", "0.3", "0.2"]

JSONRPC: Final = "JSONRPC"
HTTP_JSON: Final = "HTTP+JSON"
#: What is spoken here; gRPC is not.
BINDINGS: Final = (JSONRPC, HTTP_JSON)

MAX_TENANT: Final = 256  # characters; it goes into every request
# HTTP+JSON puts the tenant into the path: it must be one segment of it, which leads nowhere.
_TENANT: Final = re.compile(rf"(?!\.\.?\Z)[^/\\?#%]{{0,{MAX_TENANT}}}")

A2A_VERSIONS: Final[tuple[A2AVersion, ...]] = ("1.0", "0.3", "0.2")

_VERSION: Final = re.compile(r"(0\.2|0\.3|1)(?:\.[0-9]+)*")
_BY_VERSION: Final[dict[str, A2AVersion]] = {"0.2": "0.2", "0.3": "0.3", "1": "1.0"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One interface that we can speak to.

    Attributes:
        url: Where.
        binding: ``JSONRPC`` or ``HTTP+JSON``.
        a2a_version: Which A2A it speaks; 0.2 and 0.3 differ in the place of the extended card.
        tenant: To be named in every request (A2A 1.0 8.3.2); empty where there is none.
        version: ``protocolVersion`` as the card has it.
    """

    url: Url
    binding: str
    a2a_version: A2AVersion
    tenant: str
    version: str

    def for_messages(self) -> Url:
        """Return where a message is sent."""
        if self.binding == JSONRPC:
            return self.url
        if self.a2a_version != "1.0":
            return self._below("/v1/message:send")
        return self._below(f"{self._tenant_path}/message:send")

    def for_extended_card(self) -> Url:
        """Return where the extended card is asked for."""
        if self.a2a_version == "0.2":  # beside the endpoint's own path, whatever its binding
            parent = self.url.path.rstrip("/").rpartition("/")[0]
            path = f"{parent}/agent/authenticatedExtendedCard"
            return replace(self.url, path=path, query="")
        if self.binding == JSONRPC:
            return self.url
        if self.a2a_version == "0.3":
            return self._below("/v1/card")
        return self._below(self._tenant_path + EXTENDED_PATH)

    def _below(self, path: str) -> Url:
        """Return a URL below this one; its query, if it has any, is left out."""
        return replace(self.url, path=self.url.path.rstrip("/") + path, query="")

    @property
    def _tenant_path(self) -> str:
        """What HTTP+JSON puts before its own paths."""
        return f"/{quote(self.tenant, safe='')}" if self.tenant else ""


def endpoints_of(
    payload: Mapping[str, object], spoken: Collection[A2AVersion] = A2A_VERSIONS
) -> tuple[Endpoint, ...]:
    """Return every endpoint of a verified payload that we can speak to, in the card's order.

    Those of ``supportedInterfaces`` (A2A 1.0 4.4.6), or else of ``url`` and
    ``additionalInterfaces`` (A2A 0.3 5.5); other bindings and versions are left out, and so is a
    tenant that is not one plain segment of a path.

    Args:
        payload: Of a trusted card.
        spoken: The generations of A2A that the caller speaks.

    Raises:
        CallFailed: ``call.no_interface``: none is left.
    """
    interfaces = current_interfaces(cast(Mapping[str, Json], payload))
    readable = [endpoint for endpoint in map(_readable, interfaces) if endpoint is not None]
    fitting = tuple(endpoint for endpoint in readable if endpoint.a2a_version in spoken)
    if not fitting:
        older = ", ".join(sorted({endpoint.a2a_version for endpoint in readable}))
        message = (
            f"the agent speaks A2A {older}" if older else "no endpoint of the card can be called"
        )
        spoken_here = f"A2A {', '.join(spoken)} over {' or '.join(BINDINGS)}"
        raise CallFailed("call.no_interface", f"{message}; {spoken_here} is needed here")
    return fitting


def _readable(interface: Interface) -> Endpoint | None:
    """Return an interface as an endpoint; None where it is none that we can speak to."""
    silent = "1.0" if interface.written_in == "1.0" else "0.3.0"
    match (interface.url, interface.binding, interface.version or silent, interface.tenant or ""):
        case (str(url), str(binding), str(version), str(tenant)):
            spoken = _VERSION.fullmatch(version)
            is_plain = tenant.isprintable() and _TENANT.fullmatch(tenant)
            if spoken is None or binding not in BINDINGS or not is_plain:
                return None
            try:
                where = parse_url(url)
            except CardRefused:  # checked before, unless no policy bounds the places
                return None
            return Endpoint(where, binding, _BY_VERSION[spoken[1]], tenant, version)
    return None


# The user's credential.

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


def _unusable(problem: str, path: str = "") -> UsageFault:
    """Never with the credential, or with what stands in its place by mistake."""
    hint = "Say where to read it: env:NAME or file:/absolute/path"
    return UsageFault("credential.none", problem, path=path, hint=hint)


def header_form_of(payload: Mapping[str, Json]) -> HeaderForm:
    """Return how a verified card wants a credential.

    The first requirement decides that names a single scheme which goes in a header (A2A 1.0 4.5,
    0.3 5.5). Without requirements the first such scheme of the card does: an agent may want
    nothing for itself, and something for its extended card.

    Raises:
        UsageFault: ``credential.scheme``: no such scheme; nothing may be guessed.
    """
    for scheme, _ in _schemes_alone(payload):
        if scheme.header is not None and _may_hold_keys(scheme.header):
            return scheme.header, ""
        if scheme.carrier in _FORMS:
            return _FORMS[scheme.carrier]
    raise UsageFault(
        "credential.scheme", "the card demands nothing that is one credential in a header"
    )


def _schemes_alone(payload: Mapping[str, Json]) -> Iterator[tuple[Scheme, Sequence[str]]]:
    """Yield each scheme that a requirement names alone, with its scopes.

    Without requirements each scheme of the card, without scopes.

    Raises:
        UsageFault: ``credential.scheme``: the card asks for more than can be read, and no
            credential is sent on a guess.
    """
    for problem in security_problems(payload):
        message = f"the card's requirements cannot be read: {problem.message}"
        raise UsageFault("credential.scheme", message, path=problem.path)
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
        uri: ``env:NAME``, or ``file:/absolute/path`` of a private file.
        client_id: The OAuth 2.0 client whose secret it is, which gets a token; empty where it is
            shown to the peer itself.
        environment: Where its variable is looked up.

    Raises:
        UsageFault: ``credential.none``: the URI is none of these.
    """

    uri: str = field(repr=False)
    client_id: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def __post_init__(self) -> None:
        if not _PLACE.fullmatch(self.uri):
            scheme = self.uri.partition(":")[0]
            raise _unusable(_EXPECTED, f"{scheme}:..." if scheme in ("env", "file") else "")

    def secret(self) -> str:
        """Read the credential: one line of printable ASCII.

        Raises:
            UsageFault: ``credential.none``: there is none, or none that a header holds. The
                message does not show it.
        """
        scheme, _, path = self.uri.partition(":")
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
        issuer: Whose it is; for one without places (by keys alone) a credential goes to the
            origin of the card's URL.
        settings: How it is reached.
    """

    card_url: str
    payload: Mapping[str, Json]
    policy: Policy
    issuer: TrustedIssuer
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

        Raises:
            UsageFault: ``credential.elsewhere``: the policy has no such issuer.
        """
        policy, settings = verifier.policy, verifier.fetcher.settings
        issuer = policy.find(Subject(url=card_url) if subject.is_nobody else subject)
        if issuer is None:
            message = f"the policy has no issuer for {card_url}; nothing was sent"
            raise UsageFault("credential.elsewhere", message)
        return cls(card_url, payload, policy, issuer, settings.for_issuer(issuer))

    def is_outside(self, url: Url) -> bool:
        """Return whether a URL lies outside the issuer's places, as the policy has them.

        Rule V4 has held the endpoints themselves against them; a place of another's may lie
        below one.
        """
        return not may_stand_at(url, self.issuer.places, self.policy.reserved_from(self.issuer))

    def may_show(self, url: Url) -> bool:
        """Return whether a credential may go to a URL of the payload."""
        if self.issuer.places is None:
            return url.origin == parse_url(self.card_url).origin
        return not self.is_outside(url)

    def choose(self, endpoints: Sequence[Endpoint], url_of: Callable[[Endpoint], Url]) -> Endpoint:
        """Return the first endpoint that may get a credential.

        Args:
            endpoints: Of the payload.
            url_of: Where an endpoint is asked.

        Raises:
            UsageFault: ``credential.elsewhere``.
        """
        for endpoint in endpoints:
            if self.may_show(url_of(endpoint)):
                return endpoint
        origins = ", ".join(sorted({str(endpoint.url.origin) for endpoint in endpoints}))
        raise self.elsewhere(f"the card's endpoints are at {origins}")

    def elsewhere(self, problem: str) -> UsageFault:
        """Return the refusal to send a credential to a place that is not the issuer's."""
        is_bounded = self.issuer.places is not None
        home = f"origins of {self.issuer.name}" if is_bounded else f"origin of {self.card_url}"
        message = f"{problem}, outside the {home}; nothing was sent"
        return UsageFault("credential.elsewhere", message)


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

        Args:
            origin: As the attribute.
            form: The header's form.
            secret: A bearer token, ``user:password`` for Basic (RFC 7617 2), or a key.

        Raises:
            UsageFault: ``credential.none``: it has not the form that this takes; the message
                never shows it.
        """
        name, scheme = form
        shown = secret
        if scheme == "Basic":
            if ":" not in secret:
                raise _unusable("Basic takes USER:PASSWORD, with a colon")
            shown = base64.b64encode(secret.encode()).decode()
        elif scheme and not _BEARER.fullmatch(secret):
            raise _unusable("the credential has characters that no bearer token has")
        return cls(origin, name, f"{scheme} {shown}".strip(), secret)

    def masked(self, untrusted_text: str) -> str:
        """Return a peer's answer without the credential, where it repeats that as it was sent.

        It, or Basic's password, or it as it stands in the header. NOT seen: a credential that is
        repeated in another encoding.
        """
        words = {self._secret, self.value.rpartition(" ")[2]}
        if self.value.startswith("Basic "):
            password = self._secret.partition(":")[2]
            words |= {password} if len(password) >= MIN_PASSWORD else set()
        for word in sorted(words, key=len, reverse=True):
            untrusted_text = untrusted_text.replace(word, "(the credential)")
        return untrusted_text


def quotable(untrusted_words: str, header: Header | None) -> str:
    """Return a peer's words as one harmless line of at most :data:`MAX_WORDS` characters.

    Args:
        untrusted_words: As received.
        header: The credential that the peer was sent, which is masked.
    """
    start = (header.masked(untrusted_words) if header else untrusted_words)[:MAX_WORDS]
    return "".join(char if char.isprintable() else "?" for char in start)


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


def find_token_url(peer: Peer) -> tuple[Url, tuple[str, ...]]:
    """Return where a verified card has its tokens from, and the scopes to ask for, sorted.

    The first requirement decides that names a single `oauth2` scheme with a `clientCredentials`
    flow. Without requirements the first such scheme of the card does, without scopes. An OpenID
    Connect scheme names no token URL, and none is looked for elsewhere.

    Raises:
        UsageFault: ``credential.scheme``: no such scheme; ``credential.elsewhere``: the
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
            raise UsageFault("credential.scheme", "the card demands a scope that is none")
        url = peer.settings.target(token_url)
        if not peer.may_show(url):
            raise peer.elsewhere(f"the card's token URL is at {url.origin}")
        return url, tuple(sorted({*scopes}))
    raise UsageFault(
        "credential.scheme", "the card demands no OAuth 2.0 token by client credentials"
    )


def open_credential(credential: Credential | str, peer: Peer, url: Url) -> Header:
    """Load a credential, or get a token with it, in the form that a verified card wants.

    Args:
        credential: The user's; a text as for :class:`Credential`, of this environment.
        peer: For whom; the card says in which form, and where a client's tokens come from.
        url: To which it is sent, an endpoint that :meth:`Peer.choose` has allowed.

    Raises:
        UsageFault: ``credential.none``, ``credential.scheme``, ``credential.elsewhere``.
        CallFailed: ``credential.refused``, ``call.error``: there is no token for the client.
        FetchFailed: The server of tokens could not be asked, or must not be.
    """
    if isinstance(credential, str):
        credential = Credential(credential)
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
        answer = fetch.fetch_document(
            str(url),
            replace(settings, max_bytes=MAX_TOKEN_BYTES),
            headers=(("Authorization", Header.of(url.origin, BASIC, pair).value),),
            body=urlencode(form).encode(),
        )
        members = parse_object(answer.untrusted_body, max_bytes=MAX_TOKEN_BYTES, max_depth=8)
    except fetch.OtherStatus as exc:
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


# What a peer answers.

_MEMBERS: Final = frozenset({"jsonrpc", "id", "result", "error"})


class PeerError(CallFailed):
    """The peer answered a well-formed error.

    Attributes:
        rpc_code: Its code; -32007 says that no extended card is configured.
        untrusted_words: Its message, as received.
    """

    def __init__(self, rpc_code: int, untrusted_words: str) -> None:
        super().__init__("call.error", f"the peer answered error {rpc_code}")
        self.rpc_code = rpc_code
        self.untrusted_words = untrusted_words


def result_of(untrusted_answer: Mapping[str, Json], call_id: str) -> dict[str, Json]:
    """Return the object that a JSON-RPC call resulted in; nothing in it has been checked.

    Args:
        untrusted_answer: As :func:`strict_object` has read it.
        call_id: Of the request.

    Raises:
        CallFailed: ``call.error``: not an answer to this call.
        PeerError: It is an error.
    """
    answer = untrusted_answer
    if answer.get("jsonrpc") != "2.0" or set(answer) - _MEMBERS:
        raise _refused("expected jsonrpc 2.0, id, and result or error, and no other member")
    if ("result" in answer) == ("error" in answer):
        raise _refused("expected exactly one of result and error")
    error = answer.get("error")
    # Where a request cannot be read its id is not known (JSON-RPC 2.0 5).
    if answer.get("id", ...) != call_id and not (error and answer.get("id", ...) is None):
        raise _refused("its id is not that of the request")
    if "error" in answer:
        if not isinstance(error, dict):
            raise _refused("its error is not an object")
        code, words = error.get("code"), error.get("message", "")
        if isinstance(code, bool) or not isinstance(code, int) or not isinstance(words, str):
            raise _refused("its error lacks an integer code or a message of text")
        raise PeerError(code, words)
    result = answer["result"]
    if not isinstance(result, dict):
        raise _refused("its result is not an object")
    return result


def strict_object(untrusted_body: bytes, *, max_bytes: int, max_depth: int) -> dict[str, Json]:
    """Return the one object that every reader sees in an answer.

    Raises:
        CallFailed: ``call.error``; what it is raised in holds no word of the answer.
    """
    try:
        return parse_object(untrusted_body, max_bytes=max_bytes, max_depth=max_depth)
    except JsonRefused as exc:
        code = exc.code
    raise _refused(f"it is not strict JSON ({code})")  # outside, so that no context quotes it


def _refused(problem: str) -> CallFailed:
    return CallFailed(
        "call.error",
        f"the answer is none to this call: {problem}",
        hint="Ask the issuer to fix the server: it must answer one strict JSON-RPC object.",
    )


#: Statuses by which a peer wants another credential, or one at all.
UNAUTHORISED: Final = (401, 403)


def refused_credential(
    status: int, challenges: Iterable[str], url: Url, header: Header | None
) -> CallFailed:
    """Return the error for a peer that wants another credential, or one at all.

    Its challenges are shown and never followed (threat 11).
    """
    shown = quotable(", ".join(challenges), header)
    asks = f"; it says it wants: {shown}" if shown else ""
    sent = "the credential" if header else "a request without credential"
    hint = "" if header else "Name one with --credential env:NAME or file:/PATH."
    return CallFailed("credential.refused", f"{url} answered {status} to {sent}{asks}", hint=hint)
