"""Which of the user's credentials goes to which endpoint of a verified card, if any does.

Decided from the payload of a trusted card and the user's own entries, before anything is had or
sent (threat 11). A card also says where a client's access tokens come from (RFC 6749 4.4), and
the user which server may see its secret. Both must agree, else nothing is sent.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from cardsign import programs
from cardsign.card.extensions import AUDIENCE
from cardsign.card.security import Scheme, requirements_of, schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import (
    CallFailed,
    CardRefused,
    CredentialFault,
    FileFault,
    FileMissing,
    JsonRefused,
    SignerFault,
    UsageFault,
)
from cardsign.files import bad_settings, read_private, read_settings
from cardsign.keys.signers.base import SignerUri, parse_uri
from cardsign.net.endpoints import Endpoint
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, OtherStatus, fetch_document
from cardsign.urls import Origin, Url, parse_origin

FORMAT: Final = 1
FILE_NAME: Final = "credentials.toml"
MAX_FILE_BYTES: Final = 64 * 1024  # some hundred peers
MAX_SECRET_CHARS: Final = 8192  # of a credential or a token; common servers take no longer header
MIN_PASSWORD: Final = 4  # characters; a shorter one stands in many words by chance
MAX_WORDS: Final = 200  # characters of a peer's own words in a message
PROGRAM_SECONDS: Final = 30.0  # a program may have to ask its own server for a token
MAX_TOKENS: Final = 256  # kept at a time
MAX_TOKEN_BYTES: Final = 64 * 1024  # of a server of tokens
MAX_TOKEN_SECONDS: Final = 3600  # for which a token is used, whatever its server says
MARGIN_SECONDS: Final = 30  # before its end a token is used no more: it may be long on its way

_HEADER_PREFIX: Final = "header:"
HEADER_FORMS: Final = ("bearer", "basic", f"{_HEADER_PREFIX}NAME")

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
_EXPECTED: Final = (
    "expected env:NAME, or file: or exec: and the absolute path of a file or a program"
)
_NOTHING: Final = {
    "env": "the variable is not set",
    "exec": "the program wrote nothing",
    "file": "the file is empty",
}
_UNLOGGED: Final = ContextVar("cardsign_unlogged", default=False)


@dataclass(frozen=True, slots=True)
class HeaderForm:
    """In which header a credential goes, and as what.

    Attributes:
        header: Its name.
        scheme: ``Bearer`` or ``Basic`` before the credential; empty for a key by itself.
    """

    header: str
    scheme: str = ""

    def value(self, secret: str) -> str:
        """The header's value.

        Args:
            secret: A bearer token, ``user:password`` for Basic (RFC 7617 2), or a key.

        Raises:
            CredentialFault: ``credential.none``: it has not the form that this takes; the
                message never shows it.
        """
        if self.scheme == "Basic":
            if ":" not in secret:
                raise _unusable("Basic takes USER:PASSWORD, with a colon")
            secret = base64.b64encode(secret.encode()).decode()
        elif self.scheme and not _BEARER.fullmatch(secret):
            raise _unusable("the credential has characters that no bearer token has")
        return f"{self.scheme} {secret}".strip()


def _unusable(what: str, path: str = "") -> CredentialFault:
    """Never with the credential, or with what stands in its place by mistake."""
    hint = "Name where it is read from: env:NAME, file:/absolute/path or exec:/absolute/path"
    return CredentialFault("credential.none", what, path=path, hint=hint)


BEARER: Final = HeaderForm("Authorization", "Bearer")
BASIC: Final = HeaderForm("Authorization", "Basic")
_FORMS: Final = {"bearer": BEARER, "basic": BASIC}


def parse_header_form(text: str) -> HeaderForm | None:
    """Read one of `HEADER_FORMS`; None where it is none."""
    name = text.removeprefix(_HEADER_PREFIX)
    if name != text:
        return HeaderForm(name) if _may_hold_keys(name) else None
    return _FORMS.get(text)


def header_form_of(payload: Mapping[str, Json]) -> HeaderForm:
    """How a verified card wants one credential.

    The first requirement decides that names a single scheme which goes in a header (A2A 1.0 4.5,
    0.3 5.5). Without requirements the first such scheme of the card does: an agent may want
    nothing for itself, and something for its extended card.

    Raises:
        CredentialFault: ``credential.scheme``: no such scheme; nothing may be guessed.
    """
    declared = schemes_of(payload)
    alternatives = [tuple(names) for names in requirements_of(payload) if names]
    wanted = [names[0] for names in alternatives if len(names) == 1]
    for name in wanted if alternatives else declared:
        scheme = declared.get(name)
        if scheme is not None and scheme.header is not None and _may_hold_keys(scheme.header):
            return HeaderForm(scheme.header)
        if scheme is not None and scheme.carrier in _FORMS:
            return _FORMS[scheme.carrier]
    demanded = ", or ".join([" and ".join(one) for one in alternatives] or declared) or "nothing"
    what = f"of what the card demands ({demanded}) nothing is one credential in a header"
    raise CredentialFault("credential.scheme", what)


def demands_credentials(payload: Mapping[str, Json]) -> bool:
    """Whether every requirement of a card wants a credential."""
    alternatives = list(requirements_of(payload))
    return bool(alternatives) and all(alternatives)


def _may_hold_keys(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not _NOT_FOR_KEYS.fullmatch(name)


@dataclass(frozen=True, slots=True)
class CredentialSource:
    """Where a credential comes from: ``env:NAME``, a private file, or a program.

    ``exec:/absolute/path?arg=A&env=NAME`` runs it without a shell; CARDSIGN_ISSUER and
    CARDSIGN_ORIGIN say for whom. It writes the credential to stdout, with at most one line end.
    No message repeats what follows the scheme: it may be the credential, put there by mistake.
    """

    _uri: SignerUri = field(repr=False)

    @classmethod
    def parse(cls, uri: str) -> CredentialSource:
        """Read the URI of a source.

        Raises:
            CredentialFault: ``credential.none``.
        """
        scheme = uri.partition(":")[0]
        if scheme not in ("env", "exec", "file"):
            raise _unusable(_EXPECTED)
        try:
            parts = parse_uri(uri, *(("arg", "env") if scheme == "exec" else ()))
        except SignerFault as exc:
            why = exc.message
        else:
            is_path = scheme != "env" and PurePosixPath(parts.path).is_absolute()
            is_variable = scheme == "env" and parts.path.isidentifier()
            if not parts.authority and (is_path or is_variable):
                return cls(parts)
            why = _EXPECTED
        # Outside, so that no context holds the URI.
        raise _unusable(why, f"{scheme}:...")

    def secret(self, environment: Mapping[str, str], told: Mapping[str, str]) -> str:
        """The credential: one line of printable ASCII.

        Args:
            environment: Where variables are looked up, and what programs may inherit of.
            told: Variables that say for whom it shall be.

        Raises:
            CredentialFault: ``credential.none``: there is none, or none that a header holds. The
                message shows neither it nor anything that a program said.
        """
        scheme, path = self._uri.text.partition(":")[0], self._uri.path
        limit = MAX_SECRET_CHARS + 2  # and a line end
        try:
            if scheme == "exec":
                inherited = programs.inherited(environment, *self._uri.all("env"))
                arguments = self._uri.all("arg")
                text = programs.run(
                    programs.Program(path, arguments, {**inherited, **told}, PROGRAM_SECONDS, limit)
                ).decode("utf-8", "replace")
            elif scheme == "file":
                text = read_private(Path(path), max_bytes=limit).decode("utf-8", "replace")
            else:
                text = environment.get(path, "")
        except programs.ProgramError as exc:
            what = f"the program {exc.what}; run it yourself to see why"
        except FileFault as exc:
            what = f"the file cannot be used ({exc.code}): it must be yours alone"
        else:
            text = text.removesuffix("\n").removesuffix("\r")
            if 0 < len(text) <= MAX_SECRET_CHARS and text.isascii() and text.isprintable():
                return text
            line = f"one line of at most {MAX_SECRET_CHARS} printable ASCII characters"
            what = f"the credential is not {line}" if text else _NOTHING[scheme]
        # Outside, so that no context holds the URI; what the program wrote is not shown either.
        raise _unusable(what, f"{scheme}:...")


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """The user as a client of an OAuth 2.0 server.

    Attributes:
        id: Where the client's id comes from.
        origin: Of the server; the client's secret goes nowhere else.
    """

    id: CredentialSource
    origin: Origin


@dataclass(frozen=True, slots=True)
class Credential:
    """What opens one peer's doors, not yet had.

    Attributes:
        issuer: The policy's name of whose doors; None for whomever the command line names.
        origin: Where alone it goes.
        source: Where it is had from.
        audience: Of the extended card that it opens; None where it says nothing of one.
        form: How it is shown, whatever the card says; None for as the verified card says.
        client: Where the credential is a client's secret, which gets a token; else None.
    """

    issuer: str | None
    origin: Origin
    source: CredentialSource
    audience: str | None = None
    form: HeaderForm | None = None
    client: OAuthClient | None = None

    def secret(self, environment: Mapping[str, str]) -> str:
        """Have it.

        Raises:
            CredentialFault: ``credential.none``.
        """
        return self.source.secret(environment, self.told)

    @property
    def told(self) -> dict[str, str]:
        """What a program learns of for whom it is."""
        return {"CARDSIGN_ISSUER": self.issuer or "", "CARDSIGN_ORIGIN": str(self.origin)}


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
    def of(cls, credential: Credential, form: HeaderForm, environment: Mapping[str, str]) -> Header:
        """Have the credential, in the form in which it is shown.

        Raises:
            CredentialFault: ``credential.none``.
        """
        secret = credential.secret(environment)
        return cls(credential.origin, form.header, form.value(secret), secret)

    def quotable(self, untrusted_words: str) -> str:
        """What a peer that was sent the credential says, unless it repeats it; one harmless line.

        NOT seen: a credential that is repeated in an encoding.
        """
        if any(one in untrusted_words for one in self._tellings()):
            return "(it repeats the credential)"
        return quotable(untrusted_words)

    def masked(self, untrusted_text: str) -> str:
        """A peer's answer without the credential, where it repeats it as it was sent."""
        for one in self._tellings():
            untrusted_text = untrusted_text.replace(one, "(the credential)")
        return untrusted_text

    def _tellings(self) -> list[str]:
        """What tells the credential, the longest first: it, as it was sent, Basic's password."""
        found = {self._secret, self.value.rpartition(" ")[2]}
        if self.value.startswith("Basic "):
            password = self._secret.partition(":")[2]
            found |= {password} if len(password) >= MIN_PASSWORD else set()
        return sorted(found, key=len, reverse=True)


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
    """Untrusted words as one harmless line of at most :data:`MAX_WORDS` characters."""
    start = untrusted_words[:MAX_WORDS]
    return "".join(char if char.isprintable() else "?" for char in start)


def read_credentials(path: Path) -> tuple[Credential, ...]:
    """Read the user's ``credentials.toml``; one that is not there holds none.

    Raises:
        UsageFault: ``config.malformed``.
        FileFault: ``file.permissions``: others have access to it, or it is a link;
            ``file.unreadable``.
    """
    try:
        data = read_private(path, max_bytes=MAX_FILE_BYTES)
    except FileMissing:
        return ()
    types = {"format": int, "credential": list}
    entries = read_settings(data, path, members=types, format=FORMAT).get("credential", [])
    found: dict[tuple[object, ...], Credential] = {}
    for number, entry in enumerate(entries, start=1):
        one = _read_entry(entry, path, f"[[credential]] number {number}")
        if found.setdefault((one.issuer, one.origin, one.audience), one) is not one:
            raise bad_settings(path, f"[[credential]] number {number} is there twice")
    return tuple(found.values())


def _read_entry(entry: Any, path: Path, which: str) -> Credential:
    """One entry; `client` and `token_origin` make its credential a client's secret."""
    if not isinstance(entry, dict) or not all(isinstance(one, str) for one in entry.values()):
        raise bad_settings(path, f"{which}: every member is a text")
    for name in sorted(entry.keys() - {"issuer", "audience", "send", *_READERS}):
        raise bad_settings(path, f"{which}: unknown member {name!r}")
    for name in ("issuer", "origin", "source"):
        if not entry.get(name):
            raise bad_settings(path, f"{which}: {name!r} is missing")
    form = parse_header_form(entry["send"]) if "send" in entry else None
    if "send" in entry and form is None:
        raise bad_settings(path, f"{which}: expected send to be one of {', '.join(HEADER_FORMS)}")
    if not AUDIENCE.fullmatch(entry.get("audience", "x")):
        raise bad_settings(path, f"{which}: expected audience to be {AUDIENCE.pattern}")
    of_client = {"client", "token_origin"} & entry.keys()
    if of_client and (len(of_client) == 1 or form):
        raise bad_settings(path, f"{which}: client and token_origin go together, without send")
    read: dict[str, Any] = {}
    for name, reader in _READERS.items():
        try:
            read[name] = reader(entry[name]) if name in entry else None
        except (CardRefused, CredentialFault) as exc:
            raise bad_settings(path, f"{which}: {name}: {exc.message}") from exc
    client = OAuthClient(read["client"], read["token_origin"]) if of_client else None
    return Credential(
        entry["issuer"], read["origin"], read["source"], entry.get("audience"), form, client
    )


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "origin": parse_origin,
    "source": CredentialSource.parse,
    "client": CredentialSource.parse,
    "token_origin": parse_origin,
}


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
            replace(settings, max_bytes=MAX_TOKEN_BYTES),
            form=urlencode(form).encode(),
            authorization=f"Basic {base64.b64encode(pair.encode()).decode()}",
        )
        answer = parse_object(found.untrusted_body, max_bytes=MAX_TOKEN_BYTES, max_depth=8)
    except OtherStatus as exc:
        if exc.status not in (400, 401, 403):
            raise
        what = f"{request.url} answered {exc.status} to the client's credentials"
        failure = CallFailed("credential.refused", what)
    except JsonRefused as exc:
        failure = _no_token(request.url, f"is not strict JSON ({exc.code})")
    else:
        names = "access_token", "token_type", "expires_in"
        token, kind, lasts = (answer.get(name) for name in names)
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise _no_token(request.url, "is of another type than bearer")
        if not isinstance(token, str) or not _BEARER.fullmatch(token):
            raise _no_token(request.url, "holds no bearer token")
        if isinstance(lasts, bool) or not isinstance(lasts, int):
            return token, 0
        return token, max(0, min(lasts, MAX_TOKEN_SECONDS) - MARGIN_SECONDS)
    raise failure  # outside, so that no context quotes the answer


def _no_token(url: Url, what: str) -> CallFailed:
    return CallFailed("call.error", f"the answer of {url} {what}")


class TokenCache:
    """Tokens that still hold, for any number of threads."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[object, TokenRequest], tuple[str, float]] = {}

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
        self._tokens.pop(key, None)
        if lasts > 0:
            if len(self._tokens) >= MAX_TOKENS:
                self._tokens.clear()
            self._tokens[key] = (token, now + lasts)
        return token

    def drop(self, client: object) -> None:
        """Forget a client's tokens: its peer refuses one."""
        for key in list(self._tokens):
            if key[0] == client:
                self._tokens.pop(key, None)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where to go, with what.

    Attributes:
        endpoint: Of the verified payload.
        credential: For that endpoint's origin; None to go without.
    """

    endpoint: Endpoint
    credential: Credential | None


@dataclass(frozen=True, slots=True)
class CredentialStore:
    """A user's credentials for peers.

    Attributes:
        credentials: The user's; may be empty.
        environment: Where their sources are looked up.
        tokens: Those that were got with them.
    """

    credentials: tuple[Credential, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: TokenCache = field(default_factory=TokenCache, repr=False, compare=False)

    def for_extended(
        self, issuer: str, endpoints: tuple[Endpoint, ...], audience: str | None
    ) -> Destination:
        """Where to ask for the extended card of an audience; None: the one the entry names.

        Of several endpoints the card's first decides, of several entries the one that names the
        audience.

        Raises:
            CredentialFault: ``credential.none``, ``credential.elsewhere``.
            UsageFault: ``usage.conflict``: no audience is named, or several are.
        """
        own = [
            one for one in self._of(issuer) if audience is None or one.audience in (None, audience)
        ]
        if not own:
            whom = f" for audience {audience}" if audience else ""
            raise CredentialFault("credential.none", f"there is no credential for {issuer}{whom}")
        destinations = _destinations(own, endpoints, issuer)
        first = destinations[0].endpoint
        here = [one.credential for one in destinations if one.endpoint == first and one.credential]
        named = [one for one in here if one.audience is not None]
        if audience is None and len(named) != 1:
            many = "several audiences have a credential" if named else "no audience is named"
            raise UsageFault(
                "usage.conflict",
                f"{many} for {issuer}: which extended card is meant?",
                hint="Name it with --audience ID, as the issuer gave it to you.",
            )
        return Destination(first, (named or here)[0])

    def for_call(self, issuer: str, endpoints: tuple[Endpoint, ...]) -> Destination:
        """Where to call, with the user's credential if there is one, else without.

        Only entries without an audience count: what opens an extended card is not shown to
        the agent itself, which may be somebody else's.

        Raises:
            CredentialFault: ``credential.elsewhere``: there is one, and no endpoint stands
                where it belongs; the peer is not called without it either.
        """
        own = [one for one in self._of(issuer) if one.audience is None]
        return _destinations(own, endpoints, issuer)[0] if own else Destination(endpoints[0], None)

    def is_for_extended_alone(self, issuer: str) -> bool:
        """Whether every credential for an issuer is for extended cards."""
        own = self._of(issuer)
        return bool(own) and all(one.audience is not None for one in own)

    def open(
        self,
        destination: Destination,
        payload: Mapping[str, Json],
        settings: FetchSettings = DEFAULT_SETTINGS,
    ) -> Header | None:
        """Have the destination's credential, in the form that the payload or the entry says.

        Args:
            destination: Where it goes.
            payload: Of the trusted card; alone says where a client's tokens come from.
            settings: How that server is reached, if one is asked.

        Raises:
            CredentialFault: ``credential.none``, ``credential.scheme``, ``credential.elsewhere``.
            CallFailed: ``credential.refused``, ``call.error``: there is no token for the client.
            FetchFailed: The server of tokens could not be asked, or must not be.
        """
        credential = destination.credential
        if credential is None:
            return None
        if credential.client is None:
            form = credential.form or header_form_of(payload)
            return Header.of(credential, form, self.environment)
        request = token_request_of(payload, credential.client.origin, settings)
        client_id = credential.client.id

        def ask() -> tuple[str, float]:
            with unlogged():
                name = client_id.secret(self.environment, credential.told)
                return get_token(request, name, credential.secret(self.environment), settings)

        token = self.tokens.get(credential, request, settings, ask)
        return Header(credential.origin, BEARER.header, BEARER.value(token), token)

    def _of(self, issuer: str) -> list[Credential]:
        return [one for one in self.credentials if one.issuer in (None, issuer)]


def _destinations(
    own: Sequence[Credential], endpoints: Sequence[Endpoint], issuer: str
) -> list[Destination]:
    """Every way to bring one of the credentials where it belongs, in the order of endpoints."""
    found = [
        Destination(endpoint, one)
        for endpoint in endpoints
        for one in own
        if endpoint.url.origin == one.origin
    ]
    if not found:
        belongs = ", ".join(sorted({str(one.origin) for one in own}))
        stands = ", ".join(sorted({str(one.url.origin) for one in endpoints}))
        raise CredentialFault(
            "credential.elsewhere",
            f"the credential for {issuer} belongs to {belongs}, and the card's endpoints stand at "
            f"{stands}; nothing was sent",
        )
    return found
