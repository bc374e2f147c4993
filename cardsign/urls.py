"""One strict URL grammar, in one normal form, for everything that is compared or asked.

URL parsers disagree about backslashes, userinfo, tabs, IDN and `host:port`, and servers about
empty segments, parameters and needless escapes. Two spellings of one place would let a card stand
where its issuer may not. So what is not in the normal form is refused rather than interpreted
(RFC 3986, RFC 6454). Only a default port and a long IPv6 address are accepted and rewritten.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeAlias

from cardsign.errors import CardRefused, check_types
from cardsign.findings import cut

#: Where an origin serves what it publishes: what servers offer and verifiers ask for.
CARD_PATH: Final = "/.well-known/agent-card.json"  # A2A 1.0 8.2
LEGACY_CARD_PATH: Final = "/.well-known/agent.json"  # A2A up to 0.2
JWKS_PATH: Final = "/.well-known/jwks.json"
STATEMENTS_PATH: Final = "/.well-known/cardsign/"
RELEASE_PATH: Final = f"{STATEMENTS_PATH}release.json"
KEYSET_PATH: Final = STATEMENTS_PATH + "keyset/{epoch}.{version}.json"
#: The name of one of several agents of a host, and where its paths begin.
AGENT_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
AGENT_PATH: Final = "/agents/{name}"
AGENT_PATH_PATTERN: Final = r"^/[^{}<>]*\{name\}[^{}<>]*$"
#: What an interface adds to its URL where the extended card is asked for by REST.
EXTENDED_PATH: Final = "/extendedAgentCard"
#: The headers of a message in their order, each a name and a value without the space around it.
#: Those that were received have names in lower case.
Headers: TypeAlias = tuple[tuple[str, str], ...]

MAX_URL_LENGTH: Final = 2048  # characters; longer ones are refused by common HTTP stacks

_LABEL: Final = r"(?!-)[a-z0-9-]{1,63}(?<!-)"
_URL: Final = re.compile(
    r"(?P<scheme>https?)://"
    # DNS knows no longer name than one of 253 characters (RFC 1035 2.3.4).
    rf"(?P<host>(?![^:/?]{{254}}){_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]{{2,45}}\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,=:@%/-]*)?"
    r"(?P<query>\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
)
_AUTHORITY: Final = re.compile(r"[^/?]+:[0-9]+")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Dot segments and empty ones. (`;` is no character of a path: servlet containers cut it off.)
_LOOSE_SEGMENT: Final = re.compile(r"/\.{1,2}(?:/|$)|//")
# The only escapes that change nothing when a server undoes them: of bytes beyond ASCII, and of
# ASCII characters that a path cannot hold otherwise. Capital digits, as RFC 3986 6.2.2.1 has it.
_ESCAPE: Final = re.compile(r"%(?![89A-F][0-9A-F]|2[023]|3[CEF]|5[BDE]|60|7[BCD])")


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port (RFC 6454 4); the default port is filled in."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        suffix = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{suffix}"


@dataclass(frozen=True, slots=True)
class Url:
    """A URL inside the strict grammar: its origin, path and query."""

    origin: Origin
    path: str
    query: str

    def __str__(self) -> str:
        return f"{self.origin}{self.path}{self.query}"


def parse_url(untrusted_text: str) -> Url:
    """Read a URL, or refuse it.

    Accepted: ``http`` or ``https`` in lower case, a lower-case ASCII host name (IDN as
    ``xn--``) or address, a port without leading zeros, a path without dot segments, empty
    segments and parameters, and with escapes of only what no path can hold otherwise; a query.
    Refused with everything else: userinfo, fragments, a trailing dot in the host, numeric host
    forms that are no dotted quad, IPv4 addresses written as IPv6, white space, control and
    non-ASCII characters.

    Raises:
        CardRefused: ``card.interface_url``.
    """
    check_types("parse_url('https://agent.example')", url=(untrusted_text, str))
    try:
        return _read_url(untrusted_text)
    except ValueError as exc:
        shown = cut(without_userinfo(untrusted_text), 80)
        forms = "https://host, https://host:port or https://host/path in lower case"
        raise CardRefused("card.interface_url", f"{shown!r} is not written as {forms}") from exc


def _read_url(text: str) -> Url:
    match = _URL.fullmatch(text) if len(text) <= MAX_URL_LENGTH else None
    path = (match["path"] or "/") if match else ""
    if match is None or _LOOSE_SEGMENT.search(path) or _ESCAPE.search(path):
        raise ValueError("not in the normal form")
    scheme, host = match["scheme"], match["host"]
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    last = host.rpartition(".")[2]
    if host.startswith("["):
        address = IPv6Address(host[1:-1])
        if address.ipv4_mapped is not None:
            raise ValueError("two spellings of one machine")
        host = f"[{address.compressed}]"
    elif last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last):  # else read as a number
        host = str(IPv4Address(host))
    if port > 65535:
        raise ValueError("no such port")
    return Url(Origin(scheme, host, port), path, match["query"] or "")


def card_url(url: str) -> str:
    """Return where the card of a host is looked for first; of any other URL the URL itself."""
    try:
        parsed = parse_url(url)
    except CardRefused:
        return url
    bare = parsed.path == "/" and not parsed.query
    return str(replace(parsed, path=CARD_PATH) if bare else parsed)


def parse_origin(untrusted_text: str) -> Origin:
    """Read ``scheme://host[:port]``, with nothing but a slash behind it.

    Raises:
        CardRefused: ``card.interface_url``.
    """
    url = parse_url(untrusted_text)
    if url.path != "/" or url.query:
        message = "this is an origin and a path, where an origin alone is expected"
        raise CardRefused("card.interface_url", message, hint=f"Write {url.origin}")
    return url.origin


def check_secure(origin: Origin) -> None:
    """Refuse an origin whose answers anybody on the way could change.

    Raises:
        CardRefused: ``card.interface_url``.
    """
    if origin.scheme != "https" and not is_this_machine(origin.host):
        message = "expected a URL that begins with https://; http:// is only for this machine"
        raise CardRefused("card.interface_url", message)


def interface_url(untrusted_url: str, binding: str) -> Url:
    """Return the URL of an interface; a GRPC one may be ``host:port``, which is read as https.

    Raises:
        CardRefused: ``card.interface_url``.
    """
    is_authority = binding.upper() == "GRPC" and _AUTHORITY.fullmatch(untrusted_url)
    return parse_url(f"https://{untrusted_url}" if is_authority else untrusted_url)


def is_url(text: str) -> bool:
    """Return whether a person means a URL by this, rather than a file."""
    return text.startswith(("https://", "http://"))


def without_userinfo(untrusted_text: str) -> str:
    """Return the text of a URL without what may be a password.

    A URL inside the strict grammar has no userinfo and comes back as it is.
    """
    prefix, at, after = untrusted_text.rpartition("@")
    if not at or _URL.fullmatch(untrusted_text):
        return untrusted_text
    scheme, slashes, _ = prefix.partition("//")
    return f"{scheme}{slashes}...@{after}" if slashes else f"...@{after}"


def without_passwords(untrusted_text: str) -> str:
    """Return a text without what may be passwords of the URLs in it.

    Of a URL of another kind than HTTP, such as a database's, a user name alone stays.
    """
    # A path made of a URL has lost one slash.
    text = re.sub(r"(?i)\b(https?:/)(?!/)[^\s/@]*@", r"\1...@", untrusted_text)
    return _WITH_SCHEME.sub(_without_password, text)


# Each begins where a scheme can, so that no character of a long text is looked at twice.
_WITH_SCHEME: Final = re.compile(r"(?<![^\W_])(?<![+.-])(?:[^\W_]|[+.-])*://[^\s\"<>]*")


def _without_password(match: re.Match[str]) -> str:
    url = match[0]
    has_password = ":" in url.partition("://")[2].rpartition("@")[0]
    return without_userinfo(url) if has_password or is_url(url) else url


# Where an issuer's cards and interfaces may stand: an origin, or a path below one.


@dataclass(frozen=True, slots=True)
class Place:
    """An origin and a path prefix, which begins and ends with a slash."""

    origin: Origin
    prefix: str = "/"

    def __str__(self) -> str:
        return f"{self.origin}{self.prefix if self.prefix != '/' else ''}"

    def holds(self, url: Url) -> bool:
        """Return whether a URL is here: below the prefix, or the prefix without its last slash."""
        return url.origin == self.origin and f"{url.path}/".startswith(self.prefix)


def is_this_machine(host: str) -> bool:
    """Return whether plain HTTP to a host cannot be overheard; only an explicit option asks it."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def may_stand_at(url: Url, own: tuple[Place, ...] | None, reserved: tuple[Place, ...]) -> bool:
    """Return whether a URL is in a place of one's own that is at least as narrow as any other's.

    The places of others are held against it without regard to case: a server that ignores it
    must not give away what is reserved.

    Args:
        url: Which.
        own: An issuer's places; None for one who may stand anywhere.
        reserved: The places of all other issuers.
    """
    if own is None:
        return True
    folded = Url(url.origin, url.path.lower(), "")
    others = (Place(place.origin, place.prefix.lower()) for place in reserved)
    narrowest = max((len(place.prefix) for place in own if place.holds(url)), default=0)
    other = max((len(place.prefix) for place in others if place.holds(folded)), default=0)
    return 0 < narrowest >= other


def parse_place(untrusted_text: str) -> Place:
    """Read ``https://host``, or ``https://host/path/`` for what lies below that path.

    Raises:
        CardRefused: ``card.interface_url``: outside the strict grammar, or with a query.
    """
    url = parse_url(untrusted_text)
    if url.query:
        raise CardRefused("card.interface_url", f"{untrusted_text!r} has a query: no place has one")
    return Place(url.origin, url.path if url.path.endswith("/") else f"{url.path}/")
