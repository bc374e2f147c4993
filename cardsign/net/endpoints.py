"""How a trusted peer may be called: its endpoints, the user's credential, its extended card.

All of it is decided from the payload of a trusted card and the policy, before anything is loaded
or sent (threat 11). Rule V4 has held each endpoint against the places of the policy and the
issuer's statement. The credential goes to an endpoint inside the issuer's origins; the secret of
an OAuth client to the payload's token URL (RFC 6749 4.4), by the same rule.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, quote_plus, urlencode

from cardsign.card.document import Interface, current_interfaces
from cardsign.card.extensions import declares_extended_card
from cardsign.card.schema import A2aVersion
from cardsign.card.security import Scheme, requirements_of, schemes_of, security_problems
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH, parse_object
from cardsign.card.values import Json, members_of
from cardsign.errors import CallFailed, CardRefused, FileFault, JsonRefused, UsageFault
from cardsign.files import read_secret
from cardsign.net import fetch
from cardsign.net.discovery import Discovery
from cardsign.net.fetch import FetchSettings
from cardsign.trust.policy import Policy, Subject, TrustedIssuer
from cardsign.urls import EXTENDED_PATH, Headers, Origin, Url, may_stand_at, parse_url
from cardsign.verify.report import Report, VerificationError, ask_again
from cardsign.verify.verdict import beside_its_public_card

if TYPE_CHECKING:
    from cardsign.verify.verifier import Verifier

JSONRPC: Final = "JSONRPC"
HTTP_JSON: Final = "HTTP+JSON"

# HTTP+JSON puts the tenant into the path: it must be one segment of it, which leads nowhere. It
# goes into every request.
_TENANT: Final = re.compile(r"(?!\.\.?\Z)[^/\\?#%]{0,256}")

# Of the versions that are spoken here.
_VERSION: Final = re.compile(r"(?:0\.3|1)(?:\.[0-9]+)*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One interface that we can speak to.

    Attributes:
        url: Where.
        binding: ``JSONRPC`` or ``HTTP+JSON``.
        version: ``protocolVersion`` as the card has it.
        tenant: To be named in every request (A2A 1.0 8.3.2); empty where there is none.
    """

    url: Url
    binding: str
    version: str
    tenant: str = ""

    @property
    def a2a_version(self) -> A2aVersion:
        """Which A2A it speaks."""
        return "1.0" if self.version.startswith("1") else "0.3"

    def for_messages(self) -> Url:
        """Return where a message is sent."""
        return self._below("/message:send" if self.a2a_version == "1.0" else "/v1/message:send")

    def for_extended_card(self) -> Url:
        """Return where the extended card is asked for."""
        return self._below(EXTENDED_PATH if self.a2a_version == "1.0" else "/v1/card")

    def _below(self, path: str) -> Url:
        """Return a URL of HTTP+JSON below this one, without its query; of JSON-RPC, this one."""
        if self.binding == JSONRPC:
            return self.url
        has_tenant = self.tenant and self.a2a_version == "1.0"
        tenant = f"/{quote(self.tenant, safe='')}" if has_tenant else ""
        return replace(self.url, path=self.url.path.rstrip("/") + tenant + path, query="")


def endpoints_of(payload: Mapping[str, Any]) -> tuple[Endpoint, ...]:
    """Return every endpoint of a verified payload that we can speak to, in the card's order.

    Those of ``supportedInterfaces`` (A2A 1.0 4.4.6), or else of ``url`` and
    ``additionalInterfaces`` (A2A 0.3 5.5); other bindings and versions are left out, and so is a
    tenant that is not one plain segment of a path.

    Args:
        payload: Of a trusted card.

    Raises:
        CallFailed: ``call.no_interface``: none is left.
    """
    endpoints = tuple(filter(None, map(_readable, current_interfaces(payload))))
    if not endpoints:
        message = f"no endpoint of the card speaks A2A 1.0 or 0.3 over {JSONRPC} or {HTTP_JSON}"
        raise CallFailed("call.no_interface", message)
    return endpoints


def _readable(interface: Interface) -> Endpoint | None:
    """Return an interface as an endpoint; None where it is none that we can speak to."""
    silent = "1.0" if interface.written_in == "1.0" else "0.3.0"
    match (interface.url, interface.binding, interface.version or silent, interface.tenant or ""):
        case (str(url), "JSONRPC" | "HTTP+JSON" as binding, str(version), str(tenant)):
            is_plain = tenant.isprintable() and _TENANT.fullmatch(tenant)
            with suppress(CardRefused):  # checked before, unless no policy bounds the places
                if is_plain and _VERSION.fullmatch(version):
                    return Endpoint(parse_url(url), binding, version, tenant)
    return None


# The user's credential.

MAX_SECRET_CHARS: Final = 8192  # of a credential or a token; common servers take no longer header
MAX_WORDS: Final = 200  # characters of a peer's own words in a message

_BEARER: Final = re.compile(rf"(?=.{{1,{MAX_SECRET_CHARS}}}\Z)[A-Za-z0-9._~+/-]+=*")  # RFC 6750 2.1
# A header's name (RFC 9110 5.1); none that shapes the message or its way, or means something else.
_KEY_HEADER: Final = re.compile(
    r"(?!(?:a2a-.*|accept.*|cache-.*|connection|content-.*|cookie2?|date|expect|forwarded|host|"
    r"if-.*|keep-alive|origin|proxy-.*|range|referer|sec-.*|te|trailer|transfer-.*|upgrade|"
    r"user-agent|via|x-forwarded-.*|x-http-method.*)\Z)[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/(?!/)[^?#]*")


#: The name of the header in which a credential goes, and ``Bearer`` or ``Basic`` before the
#: credential; an empty scheme for a key by itself.
HeaderForm: TypeAlias = tuple[str, str]
BEARER: Final[HeaderForm] = ("Authorization", "Bearer")
BASIC: Final[HeaderForm] = ("Authorization", "Basic")


def header_form_of(payload: Mapping[str, Json]) -> HeaderForm:
    """Return how a verified card wants a credential.

    The first requirement decides that names a single scheme which goes in a header (A2A 1.0 4.5,
    0.3 5.5). Without requirements the first such scheme of the card does: an agent may want
    nothing for itself, and something for its extended card.

    Raises:
        UsageFault: ``credential.scheme``: no such scheme; nothing may be guessed.
    """
    for scheme, _ in _schemes_alone(payload):
        if scheme.header is not None and _KEY_HEADER.fullmatch(scheme.header):
            return scheme.header, ""
        if scheme.carrier in ("bearer", "basic"):
            return BASIC if scheme.carrier == "basic" else BEARER
    message = "the card demands nothing that is one credential in a header"
    raise UsageFault("credential.scheme", message)


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
    requirements = [need.schemes for need in requirements_of(payload, declared) if need.schemes]
    for schemes in requirements or [{name: ()} for name in declared]:
        name = next(iter(schemes))
        if len(schemes) == 1 and name in declared:
            yield declared[name], schemes[name]


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential for one peer, read when it is sent.

    No message repeats what follows the scheme of its URI: it may be the credential, put there by
    mistake.

    Attributes:
        uri: ``env:NAME``, or ``file:/absolute/path`` of a private file.
        client_id: The OAuth 2.0 client whose secret it is, which gets a token; empty where it is
            shown to the peer itself.

    Raises:
        UsageFault: ``credential.none``: the URI is none of these.
    """

    uri: str = field(repr=False)
    client_id: str = ""

    def __post_init__(self) -> None:
        if not _PLACE.fullmatch(self.uri):
            message = "expected env:NAME, or file: and the absolute path of a file"
            raise UsageFault("credential.none", message)

    def secret(self) -> str:
        """Read the credential: one line of printable ASCII.

        Raises:
            UsageFault: ``credential.none``: there is none, or none that a header holds. The
                message does not show it.
        """
        scheme, _, place = self.uri.partition(":")
        problem = f"it is not one line of 1 to {MAX_SECRET_CHARS} printable ASCII characters"
        text = os.environ.get(place, "") if scheme == "env" else ""
        if scheme == "env" and place not in os.environ:
            problem = "the environment variable that it names is not set"
        try:
            if scheme == "file":
                data = read_secret(Path(place), max_bytes=MAX_SECRET_CHARS + 2)  # and a line end
                text = data.decode("utf-8", "replace")
        except FileFault as exc:
            problem = f"the file cannot be used: {exc.message} ({exc.code})"
        text = text.removesuffix("\n").removesuffix("\r")
        if 0 < len(text) <= MAX_SECRET_CHARS and text.isascii() and text.isprintable():
            return text
        raise UsageFault("credential.none", problem)  # outside, so that no context holds the URI


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
    settings: FetchSettings

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
            raise UsageFault("credential.elsewhere", f"the policy has no issuer for {card_url}")
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

    def choose(self, url_of: Callable[[Endpoint], Url]) -> Endpoint:
        """Return the first endpoint of the payload that may get a credential.

        Args:
            url_of: Where an endpoint is asked.

        Raises:
            CallFailed: ``call.no_interface``.
            UsageFault: ``credential.elsewhere``.
        """
        endpoints = endpoints_of(self.payload)
        for endpoint in endpoints:
            if self.may_show(url_of(endpoint)):
                return endpoint
        origins = ", ".join(sorted({str(endpoint.url.origin) for endpoint in endpoints}))
        raise self.elsewhere(f"the card's endpoints are at {origins}")

    def elsewhere(self, problem: str) -> UsageFault:
        """Return the refusal to send a credential to a place that is not the issuer's."""
        message = f"{problem}, outside the origins of {self.issuer.name}; nothing was sent"
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
                raise UsageFault("credential.none", "Basic takes USER:PASSWORD, with a colon")
            shown = base64.b64encode(secret.encode()).decode()
        elif scheme and not _BEARER.fullmatch(secret):
            problem = "the credential has characters that no bearer token has"
            raise UsageFault("credential.none", problem)
        return cls(origin, name, f"{scheme} {shown}".strip(), secret)

    def masked(self, untrusted_text: str) -> str:
        """Return a peer's answer without the credential, where it repeats that as it was sent.

        It, or Basic's password, or it as it stands in the header. NOT seen: a credential that is
        repeated in another encoding.
        """
        words = {self._secret, self.value.rpartition(" ")[2]}
        if self.value.startswith("Basic "):
            words.add(self._secret.partition(":")[2])
        for word in sorted(filter(None, words), key=len, reverse=True):
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
    return Header.of(url.origin, BEARER, _get_token(credential, peer))


def _get_token(client: Credential, peer: Peer) -> str:
    """Ask for a token by HTTP Basic (RFC 6749 2.3.1), as a verified card says.

    The first requirement decides that names a single `oauth2` scheme with a `clientCredentials`
    flow. Without requirements the first such scheme of the card does, without scopes. An OpenID
    Connect scheme names no token URL, and none is looked for elsewhere.

    Raises:
        UsageFault: ``credential.scheme``: no such scheme; ``credential.elsewhere``: the
            client's secret must not go to its token URL.
        CallFailed: ``credential.refused``: the server refuses the client; ``call.error``: it
            answered no bearer token. No word of the answer is shown.
        FetchFailed: As :func:`cardsign.net.fetch.fetch_document`.
    """
    for scheme, scopes in _schemes_alone(peer.payload):
        flow = members_of(members_of(scheme.members.get("flows")).get("clientCredentials"))
        token_url, asked = flow.get("tokenUrl"), " ".join(sorted({*scopes}))
        if scheme.type == "oauth2" and isinstance(token_url, str):
            break
    else:
        message = "the card demands no OAuth 2.0 token by client credentials"
        raise UsageFault("credential.scheme", message)
    url = peer.settings.target(token_url)
    if not peer.may_show(url):
        raise peer.elsewhere(f"the card's token URL is at {url.origin}")
    form = {"grant_type": "client_credentials", **({"scope": asked} if asked else {})}
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret())}"
    authorization = Header.of(url.origin, BASIC, pair)
    headers, body = ((authorization.name, authorization.value),), urlencode(form).encode()
    try:
        answer = fetch.fetch_document(str(url), peer.settings, headers=headers, body=body)
    except fetch.OtherStatus as exc:
        if exc.status not in (400, 401, 403):
            raise
        message = f"{url} answered {exc.status} to the client's credentials"
        raise CallFailed("credential.refused", message) from None
    members = strict_object(answer.untrusted_body, max_bytes=MAX_ANSWER_BYTES, max_depth=8)
    token, kind = members.get("access_token"), members.get("token_type")
    if isinstance(token, str) and _BEARER.fullmatch(token) and str(kind).lower() == "bearer":
        return token
    raise CallFailed("call.error", f"the answer of {url} holds no bearer token")


# What a peer answers.


def read_answer(
    untrusted_answer: Mapping[str, Json], call_id: str
) -> dict[str, Json] | tuple[int, str]:
    """Return the object that a JSON-RPC call resulted in, or the code and message of its error.

    Neither is checked.

    Args:
        untrusted_answer: As :func:`strict_object` has read it.
        call_id: Of the request.

    Raises:
        CallFailed: ``call.error``: not an answer to this call.
    """
    match untrusted_answer:
        case {"jsonrpc": "2.0", "id": str(answered), "result": dict(result), **more}:
            if answered == call_id and not more:
                return result
        case {"jsonrpc": "2.0", "id": answered, "error": {"code": int(code), **about}, **more}:
            words = about.get("message", "")
            # Where a request cannot be read its id is not known (JSON-RPC 2.0 5).
            is_ours = answered in (call_id, None) and not more
            if is_ours and isinstance(words, str) and not isinstance(code, bool):
                return code, words
    expected = "expected jsonrpc 2.0, the id of the call, and a result or an error"
    raise CallFailed("call.error", f"the answer is none to this call: {expected}")


def strict_object(untrusted_body: bytes, *, max_bytes: int, max_depth: int) -> dict[str, Json]:
    """Return the one object that every reader sees in an answer.

    Raises:
        CallFailed: ``call.error``; what it is raised in holds no word of the answer.
    """
    try:
        return parse_object(untrusted_body, max_bytes=max_bytes, max_depth=max_depth)
    except JsonRefused as exc:
        code = exc.code
    # Outside, so that no context quotes it.
    raise CallFailed("call.error", f"the answer is not strict JSON ({code})")


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
    return CallFailed("credential.refused", f"{url} answered {status} to {sent}{asks}")


# The extended card.

MAX_ANSWER_BYTES: Final = MAX_CARD_BYTES + 16 * 1024  # a card, some members around it, white space
_METHODS: Final = {"1.0": "GetExtendedAgentCard", "0.3": "agent/getAuthenticatedExtendedCard"}
# Ties an answer to its call, of which each connection has one.
_CALL_ID: Final = "cardsign"
# Errors by which a peer says that there is no extended card (A2A 1.0 5.4, 0.3 8.2).
_NO_CARD: Final = frozenset({-32004, -32007, -32601})


def look_up_extended(
    verifier: Verifier,
    public: Discovery,
    credential: Credential | str,
    *,
    audience: str,
    subject: Subject,
) -> Discovery:
    """Ask for the extended card beside a public one, and reach a verdict about it.

    Where copies of two ages may explain the verdict (threat 15), the public card is looked up
    once more, past every cache. The credential is not sent again.

    Args:
        verifier: By whom the public card was judged.
        public: The result of looking up the public card.
        credential: The user's; it goes to one endpoint inside the issuer's origins.
        audience: The id that the issuer gave to this verifier.
        subject: Whose card the public one should be, as it was judged.

    Raises:
        VerificationError: The public card is not trusted, or has no verdict; nothing was sent.
        UsageFault: ``credential.none``, ``credential.elsewhere``, ``credential.scheme``;
            nothing was sent.
        CallFailed: There is no extended card, or no endpoint to ask for one;
            ``credential.refused``; the answer is none.
        FetchFailed: The peer could not be asked, or must not be.
    """
    payload = public.report.card
    if payload is None:
        raise VerificationError.of(public.report)
    subject = Subject(url=public.url) if subject.is_nobody else subject
    peer = Peer.of(verifier, public.url, payload, subject)
    if not declares_extended_card(payload):
        raise CallFailed("call.no_extended", f"the card at {public.url} declares no extended card")
    endpoint = peer.choose(Endpoint.for_extended_card)
    header = open_credential(credential, peer, endpoint.for_extended_card())
    untrusted_card = ask_for_extended_card(endpoint, header, peer.settings)

    def judge(public: Discovery) -> Report:
        asked = replace(subject, audience=audience)
        report = verifier.judge(untrusted_card, asked, public.supplied)
        return beside_its_public_card(report, public.report)

    report = judge(public)
    if ask_again(report):
        report = judge(verifier.look_up(public.url, subject, fresh=True))
    return Discovery(str(endpoint.for_extended_card()), report, untrusted_card, public.supplied)


def ask_for_extended_card(
    endpoint: Endpoint, header: Header | None, settings: FetchSettings
) -> bytes:
    """Ask one endpoint for the extended card that a credential opens.

    By JSON-RPC ``GetExtendedAgentCard`` (A2A 1.0 9.4.11), ``GET /extendedAgentCard`` (11.3), or
    what 0.3 calls the same.

    Args:
        endpoint: One of the verified payload.
        header: The credential, for the endpoint's origin; None to ask without.
        settings: How it is reached; its limits of time hold, and not that of bytes.

    Returns:
        The card. In a JSON-RPC answer white space and the spelling of numbers are not kept; no
        payload depends on either. Nothing in it has been checked.

    Raises:
        UsageFault: ``credential.elsewhere``; nothing was sent.
        CallFailed: ``credential.refused``, ``call.no_extended``, ``call.error``.
        FetchFailed: As :func:`cardsign.net.fetch.fetch_document`.
    """
    url, version = endpoint.for_extended_card(), endpoint.a2a_version
    headers: Headers = (("A2A-Version", version),)
    if header is not None:
        if url.origin != header.origin:
            message = f"{url.origin} is not where the credential belongs, {header.origin}"
            raise UsageFault("credential.elsewhere", message)
        headers = (*headers, (header.name, header.value))
    body = None
    if endpoint.binding == JSONRPC:
        params = {"params": {"tenant": endpoint.tenant}} if endpoint.tenant else {}
        call = {"jsonrpc": "2.0", "id": _CALL_ID, "method": _METHODS[version], **params}
        body = json.dumps(call, separators=(",", ":")).encode()
    there = replace(settings, max_bytes=MAX_ANSWER_BYTES)
    try:
        answer = fetch.fetch_document(
            str(url), there, headers=headers, body=body, content_type="application/json"
        )
    except fetch.OtherStatus as exc:
        if exc.status in UNAUTHORISED:
            raise refused_credential(exc.status, exc.challenges, url, header) from None
        if exc.status in (404, 410):
            message = f"{url} gives no extended card: it answered {exc.status}"
            raise CallFailed("call.no_extended", message) from None
        raise
    if body is None:
        return answer.untrusted_body
    limits = {"max_bytes": MAX_ANSWER_BYTES, "max_depth": MAX_DEPTH + 1}
    result = read_answer(strict_object(answer.untrusted_body, **limits), _CALL_ID)
    if isinstance(result, tuple):
        number, untrusted_words = result
        code = "call.no_extended" if number in _NO_CARD else "call.error"
        words = quotable(untrusted_words, header)
        raise CallFailed(code, f"{url} gives no extended card: error {number}: {words}")
    return json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode()
