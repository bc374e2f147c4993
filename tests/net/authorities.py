"""Certificates for peers on this machine, made at run time."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Issuer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


class Authority:
    """A certificate authority of this run only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._issuer = _certificate("Throw-away CA", None)

    def client(self) -> ssl.SSLContext:
        """A client's context that trusts this authority alone."""
        return ssl.create_default_context(cadata=self.pem())

    def pem(self) -> str:
        """Its certificate, for a file of trusted ones."""
        return self._issuer[0].public_bytes(serialization.Encoding.PEM).decode()

    def server(self, *names: str, **how: Any) -> ssl.SSLContext:
        """A server's context with a certificate, as :meth:`certificate` has it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate(*names, **how))
        return context

    def certificate(
        self, *names: str, days: tuple[int, int] = (-1, 1), self_signed: bool = False
    ) -> Path:
        """A file with a certificate for these names, valid between these days, and its key."""
        issuer = None if self_signed else self._issuer
        certificate, key = _certificate(names[0], issuer, names, days)
        file = self._folder / f"{x509.random_serial_number():x}.pem"
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        private = key.private_bytes(pem, form, serialization.NoEncryption())
        file.write_bytes(certificate.public_bytes(pem) + private)
        return file


def _certificate(
    name: str, issuer: Issuer | None, names: tuple[str, ...] = (), days: tuple[int, int] = (-1, 1)
) -> Issuer:
    """A certificate for a server's names, or, without any, one of an authority."""
    key, is_authority = ec.generate_private_key(ec.SECP256R1()), not names
    public = key.public_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer_name, signer = (issuer[0].subject, issuer[1]) if issuer else (subject, key)
    begin, end = (datetime.now(UTC) + timedelta(days=day) for day in days)
    builder = x509.CertificateBuilder(
        issuer_name, subject, public, x509.random_serial_number(), begin, end
    )
    # digitalSignature of servers, keyCertSign and cRLSign of an authority
    usage = (not is_authority, *[False] * 4, is_authority, is_authority, False, False)
    extensions: list[x509.ExtensionType] = [
        x509.BasicConstraints(ca=is_authority, path_length=None),
        x509.KeyUsage(*usage),
        x509.SubjectKeyIdentifier.from_public_key(public),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
    ]
    if names:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        extensions.append(x509.SubjectAlternativeName(map(_general_name, names)))
        extensions.append(x509.ExtendedKeyUsage(both))
    for number, extension in enumerate(extensions):
        builder = builder.add_extension(extension, critical=number < 2)
    return builder.sign(signer, hashes.SHA256()), key


def _general_name(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
