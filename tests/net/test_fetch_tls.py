"""TLS: the connection goes to the checked address, the certificate must fit the name."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from ipaddress import ip_address

import pytest

from cardsign.errors import FetchFailed
from cardsign.net.connection import IPAddress, tcp_dial
from cardsign.net.fetch import FetchSettings, fetch_document
from cardsign.net.guarded import GuardedTransport
from tests.net.authorities import Authority
from tests.net.peers import CARD, LOCAL, Names, http, serving

HERE = Names(["127.0.0.1"])


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


def test_the_systems_trust_store(authority: Authority) -> None:
    """Without a context given, what counts is this machine's authorities, and ours is none."""
    with serving(http(), authority.server("agent.example")) as peer:
        url = peer.url(scheme="https", host="agent.example")
        with pytest.raises(FetchFailed, match=r"fetch\.tls: .*unable to get local issuer"):
            fetch_document(url, replace(LOCAL, resolver=HERE))
    assert peer.requests == []


CARELESS = {"no names": ssl.CERT_REQUIRED, "no certificates": ssl.CERT_NONE}


@pytest.mark.parametrize("mode", CARELESS.values(), ids=CARELESS)
def test_careless_contexts(mode: ssl.VerifyMode) -> None:
    """A context that checks too little is not used for anything."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = mode
    settings = FetchSettings(ssl_context=context)
    with pytest.raises(FetchFailed, match=r"fetch\.tls: the TLS context does not check"):
        fetch_document("https://agent.example/", settings)
    with pytest.raises(FetchFailed, match=r"fetch\.tls"):
        GuardedTransport(settings)


def test_a_trust_store_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to look at is said, and it heals by itself."""
    monkeypatch.setenv("SSLKEYLOGFILE", "/nowhere/keys.log")
    with pytest.raises(FetchFailed, match=r"fetch\.tls: .*SSLKEYLOGFILE.*No such file"):
        FetchSettings().tls_context()
    monkeypatch.delenv("SSLKEYLOGFILE")
    FetchSettings().tls_context()
