"""Who a caller is: what every provider of it does, and those that ask no other server.

A provider reads its own credential in a request, and says which card it opens. Several are
alternatives: one that finds nothing of its own in a request says so, and the next one is asked.

To add one: give it a scheme in :data:`cardsign.card.security.PROVIDERS`, its needs in
:data:`cardsign.server.settings.NEEDS`, and a class in :func:`make_providers`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import os
import re
from collections.abc import Callable, Mapping, Set
from typing import Final, TypeAlias
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from flask import Request

from cardsign.card.security import PROVIDERS, ProviderType, Scheme, schemes_of
from cardsign.card.values import Json
from cardsign.errors import UsageFault
from cardsign.server.places import Places
from cardsign.server.settings import ProviderSettings, ServerSettings
from cardsign.server.tokens import TokenFile

Now: TypeAlias = Callable[[], float]
Claims: TypeAlias = Mapping[str, Json]


class Denied(Exception):
    """The credential is there and opens nothing. The message is for the operator's log.

    Attributes:
        scopes: The scopes of which one is missing; None where the credential itself is not valid.
    """

    def __init__(self, reason: str, scopes: tuple[str, ...] | None = None) -> None:
        super().__init__(reason)
        self.scopes = scopes


class Unreachable(Exception):
    """Nobody could be asked whether the credential is valid. The message is for the log."""


class Provider:
    """One way to know a caller: a bearer token, unless a subclass says otherwise.

    Args:
        settings: What the operator says of it.
        hosts: Places for who waits for another host.
        now: Unix seconds.

    Attributes:
        settings: As given.
        scheme: What it wants from a caller, by the table from which cards are built.
    """

    def __init__(self, settings: ProviderSettings, hosts: Places, now: Now) -> None:
        self.settings, self._hosts, self._now = settings, hosts, now
        members: dict[str, Json] = {"issuer": settings.issuer, "tenant": settings.tenant}
        members |= {"in": settings.location, "name": settings.key}
        derived: Json = {settings.type: dict(PROVIDERS[settings.type](members))}
        (self.scheme,) = schemes_of({"securitySchemes": derived}).values()

    @property
    def name(self) -> str:
        """What the log calls it."""
        return f"{self.settings.type} {self.settings.issuer}".rstrip()

    @property
    def audiences(self) -> Set[str]:
        """Whose cards it opens."""
        opens = [self.settings.opens, *(rule.opens for rule in self.settings.rules)]
        return {audience for audience in opens if audience is not None}

    def gives(self, scheme: Scheme) -> bool:
        """Return whether a caller who does what a scheme of the card says is known here."""
        return self.scheme.gives(scheme)

    def find_audience(self, request: Request) -> str | None:
        """Return whose card the caller gets; None where the request holds no such credential.

        Raises:
            Denied: The credential is not valid, or opens no card.
            Unreachable: Nobody could say.
            Busy: Too many others wait for the one who could.
        """
        raise NotImplementedError

    def choose_audience(self, claims: Claims) -> str:
        """Return the audience of the first rule that holds, or the one of all callers.

        Raises:
            Denied: There is none; with the scopes that would do.
        """
        for rule in self.settings.rules:
            value = claims.get(rule.claim)
            if rule.claim in ("scope", "scp") and isinstance(value, str):
                value = [*value.split()]
            if rule.value in value if isinstance(value, list) else rule.value == value:
                return rule.opens
        if self.settings.opens is None:
            scopes = (rule.value for rule in self.settings.rules if rule.claim in ("scope", "scp"))
            raise Denied("no rule names this caller", tuple(scopes))
        return self.settings.opens

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        """Return the value of ``WWW-Authenticate`` that asks for the credential."""
        more = f", error={quote(error)}" if error else ""
        more += f", scope={quote(' '.join(scopes))}" if scopes else ""
        return f"Bearer realm={quote(realm)}{more}"


class StaticTokens(Provider):
    """Bearer tokens (RFC 6750) whose digests stand in a file, with the audience of each."""

    def __init__(self, settings: ProviderSettings, hosts: Places, now: Now) -> None:
        super().__init__(settings, hosts, now)
        if settings.token_file is None:
            raise TypeError("this provider needs a token file")
        self._tokens = TokenFile(settings.token_file, now)

    @property
    def audiences(self) -> Set[str]:
        """As :attr:`Provider.audiences`."""
        return self._tokens.audiences

    def find_audience(self, request: Request) -> str | None:
        """As :meth:`Provider.find_audience`."""
        credential = self.read_credential(request)
        if credential is None:
            return None
        token = self._tokens.find(credential)
        if token is None:
            raise Denied("the token is unknown, revoked or expired")
        return token.audience

    def read_credential(self, request: Request) -> str | None:
        """Return the token that the request holds; None for nothing of this kind."""
        return bearer_token(request)


class BasicTokens(StaticTokens):
    """Tokens as the password of HTTP Basic (RFC 7617); the user name is free."""

    def read_credential(self, request: Request) -> str | None:
        """As :meth:`StaticTokens.read_credential`."""
        scheme, _, value = request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        """As :meth:`Provider.challenge`."""
        return f'Basic realm={quote(realm)}, charset="UTF-8"'


class ApiKeys(StaticTokens):
    """Tokens by themselves, in a header, the query or a cookie."""

    def read_credential(self, request: Request) -> str | None:
        """As :meth:`StaticTokens.read_credential`."""
        key = self.settings.key
        if self.settings.location == "header":
            return request.headers.get(key)
        values = request.args if self.settings.location == "query" else request.cookies
        return values.get(key)

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        """As :meth:`Provider.challenge`; no registered scheme is for this."""
        where = f"in={quote(self.settings.location)}, name={quote(self.settings.key)}"
        return f"ApiKey realm={quote(realm)}, {where}"


#: What a certificate that cannot be read raises, as it is loaded or as its parts are looked at.
_UNREADABLE: Final = (
    ValueError,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
_MAX_CERTIFICATE: Final = 16 * 1024  # characters
_BYTE_SEQUENCE: Final = re.compile(r":([A-Za-z0-9+/=]+):")  # RFC 9440 2.1


class MutualTls(Provider):
    """A client certificate that the proxy in front has verified, and says in a header.

    The header counts only from the proxy: by a secret that the proxy says with it, or else by the
    address of the connection. NOT checked here: the chain and revocation, which are the proxy's.
    """

    def __init__(self, settings: ProviderSettings, hosts: Places, now: Now) -> None:
        super().__init__(settings, hosts, now)
        self._secret = read_secret(settings.secret)

    def find_audience(self, request: Request) -> str | None:
        """As :meth:`Provider.find_audience`."""
        untrusted_text = request.headers.get(self.settings.certificate, "")
        if not untrusted_text:
            return None
        if not self._is_from_proxy(request):
            raise Denied("the certificate does not come from the proxy")
        if request.headers.get("X-SSL-Client-Verify") != "SUCCESS":
            raise Denied("the proxy does not say that it verified the certificate")
        try:
            certificate = _read_certificate(untrusted_text)
            begins = certificate.not_valid_before_utc.timestamp()
            ends = certificate.not_valid_after_utc.timestamp()
            claims = _read_claims(certificate)
        except _UNREADABLE as exc:
            raise Denied(f"the certificate cannot be read ({type(exc).__name__})") from exc
        if not begins <= self._now() < ends:
            raise Denied("the certificate is not valid now")
        return self.choose_audience(claims)

    def _is_from_proxy(self, request: Request) -> bool:
        if self._secret:
            secret = request.headers.get("X-Proxy-Secret", "")
            return hmac.compare_digest(secret.encode(), self._secret.encode())
        return in_networks(request.environ.get("REMOTE_ADDR", ""), self.settings.proxies)

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        """As :meth:`Provider.challenge`; no header can answer it, and it names the way."""
        return f"Mutual-TLS realm={quote(realm)}"


def _read_certificate(untrusted_text: str) -> x509.Certificate:
    """Return the one certificate of the header: escaped PEM as of nginx, or as RFC 9440 has it."""
    # Two headers are joined by a comma: one of them may be the client's own.
    if len(untrusted_text) > _MAX_CERTIFICATE or "," in untrusted_text:
        raise Denied("there is more than one certificate, or a long one")
    if untrusted_text.startswith(":"):
        match = _BYTE_SEQUENCE.fullmatch(untrusted_text)
        if match is None:
            raise Denied("the certificate is not one byte sequence")
        return x509.load_der_x509_certificate(base64.b64decode(match[1], validate=True))
    (certificate,) = x509.load_pem_x509_certificates(unquote(untrusted_text).encode())
    return certificate


def _read_claims(certificate: x509.Certificate) -> Claims:
    """Return what rules may name: SANs (a SPIFFE id is a `uri`), common name, fingerprint."""
    uris, hosts = list[Json](), list[Json]()
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris += names.get_values_for_type(x509.UniformResourceIdentifier)
        hosts += names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        pass
    # A SPIFFE certificate has one URI and no more (X509-SVID 2): else whose it is is not clear.
    if len(uris) > 1 and any(str(uri).lower().startswith("spiffe:") for uri in uris):
        raise Denied("the certificate has a SPIFFE id beside another URI")
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return {
        "uri": uris,
        "dns": hosts,
        "cn": [str(name.value) for name in common],
        "fingerprint": certificate.fingerprint(SHA256()).hex(),
    }


def make_providers(settings: ServerSettings, hosts: Places, now: Now) -> tuple[Provider, ...]:
    """Return the providers of a server; its own token file comes before all others.

    Raises:
        UsageFault: ``config.malformed``: a secret is not in its variable.
    """
    from cardsign.server.remote import AwsSts, Introspection, Jwt

    classes: dict[ProviderType, type[Provider]] = {
        "static_token": StaticTokens,
        "http_verifier": Introspection,
        "oidc": Jwt,
        "azure_ad": Jwt,
        "gcp_iap": Jwt,
        "aws_sigv4": AwsSts,
        "api_key": ApiKeys,
        "basic": BasicTokens,
        "mtls": MutualTls,
    }
    chosen = list(settings.providers)
    if settings.token_file is not None:
        chosen.insert(0, ProviderSettings(type="static_token", token_file=settings.token_file))
    return tuple(classes[provider.type](provider, hosts, now) for provider in chosen)


def bearer_token(request: Request) -> str | None:
    """Return the bearer token of a request (RFC 6750 2.1); None for none."""
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def read_secret(source: str) -> str:
    """Return what the variable of ``env:NAME`` holds; nothing if no variable is named.

    Raises:
        UsageFault: ``config.malformed``: it holds nothing.
    """
    name = source.removeprefix("env:")
    if name and not os.environ.get(name):
        problem = f"the settings name {source}, and the variable {name} is not set"
        raise UsageFault("config.malformed", problem, hint=f"Set {name} for the server.")
    return os.environ.get(name, "") if name else ""


def in_networks(text: str, networks: tuple[str, ...]) -> bool:
    """Return whether a text is an address of one of the networks."""
    address = parse_address(text)
    return address is not None and any(
        address in ipaddress.ip_network(network) for network in networks
    )


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in a text; of IPv4 also where a socket of IPv6 writes ``::ffff:``."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def quote(text: str) -> str:
    """Return a quoted-string (RFC 9110 5.6.4)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
