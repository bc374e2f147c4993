"""TLS: the connection goes to the checked address, the certificate must fit the name."""

from __future__ import annotations

import itertools
import socket
import ssl
import time
from dataclasses import replace
from ipaddress import ip_address

import pytest
from authorities import Authority
from peers import CARD, IMPATIENT, LOCAL, Names, http, serving, speaking

from cardsign.errors import FetchFailed
from cardsign.net.connection import IPAddress, tcp_dial
from cardsign.net.fetch import FetchSettings, fetch_document

HERE = Names(["127.0.0.1"])


def test_honest_peer(authority: Authority) -> None:
    """The name is resolved once, asked for by SNI, and held against the certificate."""
    names = Names(["127.0.0.1"])
    with serving(http(), authority.server("agent.example")) as peer:
        url = peer.url(scheme="https", host="agent.example")
        fetched = fetch_document(
            url, replace(LOCAL, resolver=names, ssl_context=authority.client())
        )

    assert (fetched.url, fetched.untrusted_body) == (url, CARD)
    assert names.asked == ["agent.example"]
    assert peer.server_names == ["agent.example"]


def test_an_address_in_the_certificate(authority: Authority) -> None:
    """A host that is an address needs a certificate for that address."""
    with serving(http(), authority.server("127.0.0.1")) as peer:
        url = peer.url(scheme="https")
        assert (
            fetch_document(url, replace(LOCAL, ssl_context=authority.client())).untrusted_body
            == CARD
        )
    assert peer.server_names == [None]


def test_an_ipv6_address_in_the_certificate(authority: Authority) -> None:
    """The brackets are the URL's, not the host's."""

    asked = []

    def nearby(address: IPAddress, port: int, timeout: float) -> socket.socket:
        asked.append(str(address))
        return tcp_dial(ip_address("127.0.0.1"), port, timeout)

    with serving(http(), authority.server("::1")) as peer:
        url = peer.url(scheme="https", host="[::1]")
        context = authority.client()
        fetch_document(url, replace(LOCAL, ssl_context=context, dial=nearby))
    assert asked == ["::1"]


BAD_CERTIFICATES = {
    "another name": ("evil.example", {}, "Hostname mismatch"),
    "the address instead of the name": ("127.0.0.1", {}, "Hostname mismatch"),
    "a name one label below": ("a.agent.example", {}, "Hostname mismatch"),
    "expired": ("agent.example", {"days": (-9, -1)}, "expired"),
    "not yet valid": ("agent.example", {"days": (1, 9)}, "not yet valid"),
    "self-signed": ("agent.example", {"self_signed": True}, "self-signed"),
}


@pytest.mark.parametrize(("name", "made", "words"), BAD_CERTIFICATES.values(), ids=BAD_CERTIFICATES)
def test_bad_certificates(name: str, made, words: str, authority: Authority) -> None:
    """A certificate that does not fit ends it before anything is asked."""
    with serving(http(), authority.server(name, **made)) as peer:
        url = peer.url(scheme="https", host="agent.example")
        with pytest.raises(FetchFailed, match=rf"fetch\.tls: .*{words}"):
            fetch_document(url, replace(LOCAL, resolver=HERE, ssl_context=authority.client()))
    assert peer.requests == []


def test_the_systems_trust_store(authority: Authority) -> None:
    """Without a context given, what counts is this machine's authorities, and ours is none."""
    with serving(http(), authority.server("agent.example")) as peer:
        url = peer.url(scheme="https", host="agent.example")
        with pytest.raises(FetchFailed, match=r"fetch\.tls: .*unable to get local issuer"):
            fetch_document(url, replace(LOCAL, resolver=HERE))
    assert peer.requests == []


def careless(*, names: bool, certificates: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = names
    if not certificates:
        context.verify_mode = ssl.CERT_NONE
    return context


CARELESS = {
    "no names": careless(names=False, certificates=True),
    "no certificates": careless(names=False, certificates=False),
}


@pytest.mark.parametrize("context", CARELESS.values(), ids=CARELESS)
def test_careless_contexts(context: ssl.SSLContext) -> None:
    """A context that checks too little is not used."""
    with pytest.raises(FetchFailed, match=r"fetch\.tls: the TLS context does not check"):
        fetch_document("https://agent.example/", FetchSettings(ssl_context=context))


def in_the_clear(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\nsaid-by-the-peer")


def test_a_peer_without_tls() -> None:
    """A peer who answers in the clear is a TLS error, and his words are not repeated."""
    with speaking(in_the_clear) as port, pytest.raises(FetchFailed) as refused:
        fetch_document(f"https://127.0.0.1:{port}/", LOCAL)
    assert refused.value.code == "fetch.tls"
    assert "said-by" not in str(refused.value)


def drip_a_record(connection: socket.socket) -> None:
    connection.sendall(b"\x16\x03\x03\x40\x00")  # a handshake record of 16 KiB begins
    for byte in itertools.repeat(b"\0"):
        connection.sendall(byte)
        time.sleep(0.02)


def test_a_handshake_byte_by_byte() -> None:
    """The limit holds over the whole handshake, not over each byte of it."""
    settings = replace(LOCAL, connect_timeout=0.3)
    with speaking(drip_a_record) as port, pytest.raises(FetchFailed, match=r"fetch\.timeout"):
        fetch_document(f"https://127.0.0.1:{port}/", settings)


def drip_within_tls(connection: socket.socket) -> None:
    connection.sendall(http(b"", content_length="999"))
    while True:
        connection.sendall(b" ")
        time.sleep(0.02)


def test_a_body_byte_by_byte(authority: Authority) -> None:
    """The deadline holds within TLS as well."""
    tls, context = authority.server("127.0.0.1"), authority.client()
    with serving(drip_within_tls, tls) as peer, pytest.raises(FetchFailed, match=r"\.timeout"):
        fetch_document(peer.url(scheme="https"), replace(IMPATIENT, ssl_context=context))
    assert len(peer.requests) == 1
