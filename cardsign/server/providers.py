"""Who a caller is: what every provider of it does, and those that ask no other server.

A provider reads its own credential in a request, and says which card it opens. Several are
alternatives: one that finds nothing of its own in a request says so, and the next one is asked.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from pydantic import AfterValidator, Field, StringConstraints
from werkzeug.wrappers import Request

from cardsign.card.extensions import AUDIENCE
from cardsign.card.security import PROVIDERS, ProviderType, Scheme, schemes_of
from cardsign.card.values import Json
from cardsign.errors import CardsignError
from cardsign.files import file_stamp
from cardsign.server.tokens import TokenTable

Now: TypeAlias = Callable[[], float]
Log: TypeAlias = Callable[[str], None]
Claims: TypeAlias = Mapping[str, Json]

# What a file of settings may say; its reader checks these, and takes a list for a tuple.
Audience = Annotated[str, StringConstraints(pattern=f"^(?:{AUDIENCE.pattern})$")]
_Network = Annotated[str, AfterValidator(lambda text: ipaddress.ip_network(text) and text)]
Networks = Annotated[tuple[_Network, ...], Field(strict=False)]

RETRY_SECONDS: Final = 5  # after which a provider that gave no answer is asked again


#: Whether another host may be waited for. An event loop says no, and asks again in a thread.
WAITS: Final = ContextVar("WAITS", default=True)


class Denied(Exception):
    """The credential is there and opens nothing.

    Attributes:
        scopes: The scopes of which one is missing; None where the credential itself is not valid.
    """

    def __init__(self, scopes: tuple[str, ...] | None = None) -> None:
        super().__init__("the credential opens nothing")
        self.scopes = scopes


class Unreachable(Exception):
    """Nobody could be asked whether the credential is valid."""


class MustWait(Exception):
    """Another host has to be asked, and :data:`WAITS` forbids it here."""


@dataclass(frozen=True, slots=True)
class AudienceRule:
    """Which callers get the card of an audience, by what was said of them.

    Attributes:
        claim: ``scope``, ``groups``, ``uri`` (a SAN of the certificate) or any other.
        value: What it has to be, or has to hold.
        opens: The audience of the extended card.
    """

    claim: str
    value: str
    opens: Audience

    def holds(self, claims: Claims) -> bool:
        """Whether the caller is one of these."""
        said = claims.get(self.claim)
        if self.claim in ("scope", "scp") and isinstance(said, str):
            return self.value in said.split()
        return self.value in said if isinstance(said, list) else said == self.value


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider. Holds no secret, but where to read one; can be pickled.

    Attributes:
        type: Which of the nine.
        opens: The audience of every caller whom no rule names; None for no card.
        rules: The first that holds decides.
        tokens: Of ``static_token``, ``api_key`` and ``basic``: the digests.
        issuer: Of ``oidc``: as tokens name it.
        tenant: Of ``azure_ad``.
        aud: Whom tokens have to be for.
        typ: Of ``oidc``: the values of ``typ``, such as ``at+jwt``; any if empty.
        url: Of ``http_verifier``: who is asked; of ``aws_sigv4``: the origin of STS.
        client: Of ``http_verifier``: where to read ``ID:SECRET``: ``env:NAME``.
        location: Of ``api_key``: ``header``, ``query`` or ``cookie``.
        key: Of ``api_key``: its name there.
        certificate: Of ``mtls``: the header in which the proxy puts the certificate.
        proxies: Of ``mtls``: the networks of proxies whose headers count.
        networks: Private networks in which the provider may be reached.
        insecure_loopback_http: For tests: the provider is on this machine.
    """

    type: ProviderType
    opens: Audience | None = None
    rules: tuple[AudienceRule, ...] = ()
    tokens: TokenTable | None = None
    issuer: str = ""
    tenant: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]*$")] = ""
    aud: str = ""
    typ: Annotated[tuple[str, ...], Field(strict=False)] = ()
    url: str = ""
    client: Annotated[str, StringConstraints(pattern=r"^(env:[A-Za-z_][A-Za-z0-9_]*)?$")] = ""
    location: Literal["header", "query", "cookie"] = "header"
    key: Annotated[str, StringConstraints(pattern=r"^[!-~]{0,64}$")] = ""
    certificate: str = "X-SSL-Client-Cert"
    proxies: Networks = ("127.0.0.0/8", "::1/128")
    networks: Networks = ()
    insecure_loopback_http: bool = False

    @property
    def audiences(self) -> frozenset[str]:
        """Whose cards it opens, but for those that tokens name."""
        return frozenset([*([self.opens] if self.opens else []), *(r.opens for r in self.rules)])

    def audience_of(self, claims: Claims) -> str:
        """Whose card a caller gets.

        Raises:
            Denied: Nobody's; with the scopes that would do.
        """
        for rule in self.rules:
            if rule.holds(claims):
                return rule.opens
        if self.opens is None:
            raise Denied(tuple(r.value for r in self.rules if r.claim in ("scope", "scp")))
        return self.opens


class Provider:
    """One way to know a caller; subclasses say how.

    Attributes:
        settings: As given.
        scheme: What it wants from a caller, by the table from which cards are built.
    """

    #: Whether it asks other hosts, so that no event loop may wait for it.
    asks_peers = False

    def __init__(self, settings: ProviderSettings, now: Now, log: Log) -> None:
        self.settings = settings
        self._now, self._log = now, log
        told: dict[str, Json] = {"issuer": settings.issuer, "tenant": settings.tenant}
        told |= {"in": settings.location, "name": settings.key}
        derived: Json = {settings.type: dict(PROVIDERS[settings.type](told))}
        (self.scheme,) = schemes_of({"securitySchemes": derived}).values()

    def gives(self, scheme: Scheme) -> bool:
        """Whether a caller who does what a scheme of the card says is known here."""
        return self.scheme.gives(scheme)

    def audience(self, request: Request) -> str | None:
        """Whose card the caller gets; None where the request holds no credential of this kind.

        Raises:
            Denied: The credential is not valid, or opens no card.
            Unreachable: Nobody could say.
        """
        raise NotImplementedError

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        """The value of ``WWW-Authenticate`` that asks for the credential."""
        more = f", error={quoted(error)}" if error else ""
        more += f", scope={quoted(' '.join(scopes))}" if scopes else ""
        return f"Bearer realm={quoted(realm)}{more}"


def bearer_of(request: Request) -> str | None:
    """The bearer token of a request (RFC 6750 2.1); None for none."""
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text is; of IPv4 also where a socket of IPv6 writes it as ``::ffff:``."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def in_networks(text: str, networks: tuple[str, ...]) -> bool:
    """Whether a text is an address of one of the networks."""
    address = address_of(text)
    return address is not None and any(address in ipaddress.ip_network(one) for one in networks)


def quoted(text: str) -> str:
    """A quoted-string (RFC 9110 5.6.4)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


TABLE_SECONDS: Final = 1.0  # between two looks at a token file
_VERIFIED_HEADER: Final = "X-SSL-Client-Verify"
_MAX_CERTIFICATE: Final = 16 * 1024  # characters
_BYTE_SEQUENCE: Final = re.compile(r":([A-Za-z0-9+/=]+):")  # RFC 9440 2.1
#: What a certificate that cannot be read raises, as it is loaded or as its parts are looked at.
_UNREADABLE: Final = (
    ValueError,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class TableProvider(Provider):
    """A credential whose digest stands in a table, with the audience that it opens.

    Of ``static_token`` a bearer token (RFC 6750), of ``basic`` the password, of ``api_key`` the
    key by itself: in a header, the query or a cookie.

    A table from a file follows it: what was revoked opens nothing a second later. A file that is
    broken or gone leaves the last good table, and is a line for the operator.
    """

    def __init__(self, settings: ProviderSettings, now: Now, log: Log) -> None:
        super().__init__(settings, now, log)
        self._table = settings.tokens
        path = settings.tokens and settings.tokens.path
        self._looked_at, self._stamp = now(), path and file_stamp(path)
        self._complaint = ""

    def _follow(self) -> TokenTable | None:
        held, now = self._table, self._now()
        if held is None or held.path is None or 0 <= now - self._looked_at < TABLE_SECONDS:
            return held
        self._looked_at, stamp = now, file_stamp(held.path)
        if stamp != self._stamp or stamp is None:
            try:
                self._table = TokenTable.read(held.path)
                self._stamp, self._complaint = stamp, ""
                self._log(f"took up {len(self._table.entries)} tokens of {held.path}")
            except CardsignError as exc:
                if self._complaint != str(exc):
                    self._complaint = str(exc)
                    self._log(f"the tokens stay as they were: {exc}")
        return self._table

    def audience(self, request: Request) -> str | None:
        """As :meth:`Provider.audience`."""
        credential = self._credential(request)
        if credential is None:
            return None
        table = self._follow()
        entry = table.find(credential, now=self._now()) if table else None
        if entry is None:
            raise Denied
        return entry.audience

    def _credential(self, request: Request) -> str | None:
        """What the request holds; None for nothing of this kind."""
        kind, place, key = self.settings.type, self.settings.location, self.settings.key
        if kind == "static_token":
            return bearer_of(request)
        if kind == "basic":
            return _password_of(request)
        if place == "header":
            return request.headers.get(key)
        return request.args.get(key) if place == "query" else request.cookies.get(key)

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        if self.settings.type == "basic":
            return f'Basic realm={quoted(realm)}, charset="UTF-8"'
        if self.settings.type == "api_key":  # for which there is no registered scheme
            where = f"in={quoted(self.settings.location)}, name={quoted(self.settings.key)}"
            return f"ApiKey realm={quoted(realm)}, {where}"
        return super().challenge(realm, error, scopes)


def _password_of(request: Request) -> str | None:
    """The password of HTTP Basic (RFC 7617), which is a token; the user name is free."""
    scheme, _, value = request.headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


class MutualTls(Provider):
    """A client certificate that the proxy in front has verified, and says in a header.

    The header counts from the proxies of the settings alone, and these must remove it from what
    clients send. NOT checked here: the chain and revocation, which are the proxy's.
    """

    def audience(self, request: Request) -> str | None:
        untrusted_text = request.headers.get(self.settings.certificate, "")
        if not untrusted_text:
            return None
        if not in_networks(request.environ.get("REMOTE_ADDR", ""), self.settings.proxies):
            return None  # anybody can send a header
        if request.headers.get(_VERIFIED_HEADER) != "SUCCESS":
            raise Denied  # a proxy that does not say so may not have looked
        try:
            certificate = _read(untrusted_text)
            start = certificate.not_valid_before_utc.timestamp()
            end = certificate.not_valid_after_utc.timestamp()
            claims = _claims(certificate)
        except _UNREADABLE as exc:
            raise Denied from exc
        if not start <= self._now() < end:
            raise Denied
        return self.settings.audience_of(claims)

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        return f"Mutual-TLS realm={quoted(realm)}"  # no header can answer it; it names the way


def _read(untrusted_text: str) -> x509.Certificate:
    """The one certificate of the header: escaped PEM as of nginx, or as RFC 9440 has it."""
    # Two headers are joined by a comma: one of them may be the client's own.
    if len(untrusted_text) > _MAX_CERTIFICATE or "," in untrusted_text:
        raise Denied
    if untrusted_text.startswith(":"):
        found = _BYTE_SEQUENCE.fullmatch(untrusted_text)
        if found is None:
            raise Denied
        return x509.load_der_x509_certificate(base64.b64decode(found[1], validate=True))
    (certificate,) = x509.load_pem_x509_certificates(unquote(untrusted_text).encode())
    return certificate


def _claims(certificate: x509.Certificate) -> dict[str, Json]:
    """What rules may name: SANs (a SPIFFE id is a `uri`), the common name, the fingerprint."""
    uris, hosts = list[Json](), list[Json]()
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris += names.get_values_for_type(x509.UniformResourceIdentifier)
        hosts += names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        pass
    # A SPIFFE certificate has one URI and no more (X509-SVID 2): else whose it is is not clear.
    if len(uris) > 1 and any(str(one).lower().startswith("spiffe:") for one in uris):
        raise Denied
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return {
        "uri": uris,
        "dns": hosts,
        "cn": [str(one.value) for one in common],
        "fingerprint": certificate.fingerprint(SHA256()).hex(),
    }
