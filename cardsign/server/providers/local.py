"""Providers that ask no other server: tables of digests, and certificates checked by a proxy."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from cardsign.card.strictjson import Json
from cardsign.errors import CardsignError
from cardsign.files import file_stamp
from cardsign.server.providers.base import (
    Asked,
    Denied,
    Log,
    Now,
    Provider,
    ProviderSettings,
    bearer_of,
    in_networks,
    quoted,
)
from cardsign.server.tokens import TokenTable

LOOK_SECONDS: Final = 1.0  # between two looks at a token file
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
        if held is None or held.path is None or 0 <= now - self._looked_at < LOOK_SECONDS:
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

    def credential(self, request: Asked) -> str | None:
        """What the request holds; None for nothing of this kind."""
        raise NotImplementedError

    def audience(self, request: Asked) -> str | None:
        """As :meth:`Provider.audience`."""
        credential = self.credential(request)
        if credential is None:
            return None
        table = self._follow()
        entry = table.find(credential, now=self._now()) if table else None
        if entry is None:
            raise Denied
        return entry.audience


class StaticToken(TableProvider):
    """Bearer tokens that ``cardsign tokens create`` made (RFC 6750)."""

    def credential(self, request: Asked) -> str | None:
        return bearer_of(request)


class Basic(TableProvider):
    """HTTP Basic (RFC 7617); the password is a token of the table, the user name is free."""

    def credential(self, request: Asked) -> str | None:
        scheme, _, value = request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            text = base64.b64decode(value.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return ""
        return text.partition(":")[2]

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        return f'Basic realm={quoted(realm)}, charset="UTF-8"'


class ApiKey(TableProvider):
    """A key by itself, in a header, the query or a cookie."""

    def credential(self, request: Asked) -> str | None:
        place, key = self.settings.location, self.settings.key
        if place == "header":
            return request.headers.get(key)
        return request.args.get(key) if place == "query" else request.cookies.get(key)

    def challenge(self, realm: str, error: str, scopes: tuple[str, ...]) -> str:
        where = f"in={quoted(self.settings.location)}, name={quoted(self.settings.key)}"
        return f"ApiKey realm={quoted(realm)}, {where}"  # there is no registered scheme


class MutualTls(Provider):
    """A client certificate that the proxy in front has verified, and says in a header.

    The header counts from the proxies of the settings alone, and these must remove it from what
    clients send. NOT checked here: the chain and revocation, which are the proxy's.
    """

    def audience(self, request: Asked) -> str | None:
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
