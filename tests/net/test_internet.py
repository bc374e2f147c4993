"""The small internet itself: what it says that it saw is what was sent."""

from __future__ import annotations

import socket

import pytest
from authorities import Authority
from internet import Network, Request, Takeover
from peers import CARD, http, serving

from cardsign.errors import FetchFailed
from cardsign.net import fetch_document


def test_what_was_asked_is_written_down(authority: Authority) -> None:
    """Names, connections, requests and bytes, each where it went and nowhere else."""
    network = Network(authority)
    peer = network.host("agent.example", {"/card.json": http()})
    other = network.host("other.example", http())

    assert (
        fetch_document("https://agent.example/card.json", network.settings()).untrusted_body == CARD
    )

    assert network.names == ["agent.example"]
    assert network.dialled == ["agent.example:443"]
    assert (peer.targets, other.targets) == (["GET /card.json"], [])
    assert network.told(b"cardsign/") == {"agent.example"}
    assert network.told(b"never sent") == set()
    network.forget()
    assert (network.names, network.dialled, peer.targets) == ([], [], [])
    assert network.told(b"cardsign/") == set()


def test_unknown_paths_hosts_and_addresses(authority: Authority) -> None:
    """What is not there is not there, and was asked for all the same."""
    network = Network(authority)
    network.host("agent.example", {})
    network.resolves("moved.example", ["93.185.1.1"])
    for url, code in (
        ("https://agent.example/nothing", "fetch.status"),
        ("https://nobody.example/", "fetch.failed"),
        ("https://moved.example/", "fetch.failed"),
    ):
        with pytest.raises(FetchFailed) as refused:
            fetch_document(url, network.settings())
        assert refused.value.code == code
    assert network.names == ["agent.example", "nobody.example", "moved.example"]
    assert network.dialled == ["agent.example:443", "93.185.1.1:443"]


def test_answers_made_on_the_way(authority: Authority) -> None:
    """An answer may depend on the request, or take the connection over."""
    network = Network(authority)

    def echo(request: Request) -> bytes:
        return http(request.headers["host"].encode())

    def speak(connection: socket.socket) -> None:
        connection.sendall(http(b"{}"))

    network.host("agent.example", {"/echo": echo, "/speak": Takeover(speak)})
    assert (
        fetch_document("https://agent.example/echo", network.settings()).untrusted_body
        == b"agent.example"
    )
    assert fetch_document("https://agent.example/speak", network.settings()).untrusted_body == b"{}"


def test_a_relayed_server(authority: Authority) -> None:
    """A plain server of this machine becomes a host with a name and a certificate."""
    network = Network(authority)
    with serving(http()) as plain:
        network.relay("agent.example", plain.port)
        assert (
            fetch_document("https://agent.example/card.json", network.settings()).untrusted_body
            == CARD
        )
    assert network.told(b"GET /card.json HTTP/1.1") == {"agent.example"}
    assert plain.requests[0].startswith(b"GET /card.json")
