"""Peers inside a company network (E13): reached as the operator says, for that issuer only.

Nothing that a stranger says can use the operator's leave: attack 513 tries each address, redirect
and endpoint; the other ways are tests here.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from cardsign.errors import FetchFailed
from cardsign.jose.keys import JwkSet
from cardsign.net.connection import IPAddress, check_address, tcp_dial
from cardsign.net.fetch import FetchSettings
from cardsign.net.guarded import GuardRefused
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysAnchor, KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import CARD_PATH, JWKS_PATH, parse_origin, parse_place, parse_url
from cardsign.verify.verifier import Verifier
from tests.net.authorities import Authority
from tests.net.internet import Network
from tests.net.peers import LOCAL, http, read_head, speaking
from tests.net.ways_to_ask import SOON, Call, called
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import NOW, key
from tests.support import codes, each_case, put, read_cases
from tests.trust.histories import keyset

INSIDE = "https://tides.example"  # resolves to a private address
VAULT = "https://vault.example"  # another host of the same network, which nobody enrolled
OFFICE = ip_network("10.1.0.0/16")
CARD = sign(PUBLIC, key("card"))
KEYS = KeysAnchor(JwkSet.of([key("card").public]), {})
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def issuer(name: str = "tides", origin: str = INSIDE, **how: Any) -> TrustedIssuer:
    """An issuer whose key is pinned."""
    how = {"anchor": KEYS, "freshness": "waived", **how}
    return TrustedIssuer(name, places=(parse_place(origin),), **how)


def verifier(settings: FetchSettings, *issuers: TrustedIssuer) -> Verifier:
    return Verifier(Policy(issuers), lock=Memory(), net=settings, clock=lambda: NOW)


def verdict(
    settings: FetchSettings, *issuers: TrustedIssuer, url: str = INSIDE, whose: str | None = None
) -> str:
    """The verdict on what is at a URL, with its codes where it is not trusted."""
    subject = Subject(issuer=whose) if whose else None
    report = verifier(settings, *issuers).look_up(url, subject).report
    return (
        report.verdict
        if report.verdict == "trusted"
        else " ".join((report.verdict, *codes(report)))
    )


CODE = "fetch.forbidden_address"
FORBIDDEN = f"indeterminate {CODE}"


@pytest.fixture
def office(network: Network) -> Network:
    """The agent and a vault, at private addresses."""
    answers = {CARD_PATH: http(CARD), "/secret": http(b"{}")}
    for name, address in (("tides.example", "10.1.2.3"), ("vault.example", "10.1.9.9")):
        network.host(name, answers).address = ip_address(address)
    return network


# ------------------------------------------------------------------ by networks

METADATA = read_cases(__file__)["metadata"]["addresses"]
EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))


@pytest.mark.parametrize("text", METADATA)
def test_no_network_of_the_policy_holds_a_clouds_metadata(text: str, network: Network) -> None:
    """Whatever the operator wrote, and the hint does not advise to write it."""
    address = ip_address(text)
    with pytest.raises(FetchFailed, match="metadata") as refused:
        check_address(address, networks=EVERYTHING)
    hint = "Name the address of an agent."
    assert (refused.value.code, refused.value.hint) == (CODE, hint)
    if text.startswith(("fd", "100.")):
        check_address(ip_address(int(address) + 1), networks=EVERYTHING)
    network.resolves("tides.example", [text])
    assert verdict(network.settings(), issuer(networks=EVERYTHING)) == FORBIDDEN
    assert network.dialled == []


def test_real_sockets(authority: Authority) -> None:
    """On loopback, over TLS, with nothing of ours replaced but the authority."""
    tls = authority.server("localhost")

    def speak(connection: socket.socket) -> None:
        with tls.wrap_socket(connection, server_side=True) as secured:
            read_head(secured)
            secured.sendall(http(sign(card, key("card"))))

    settings = replace(LOCAL, insecure_loopback_http=False, ssl_context=authority.client())
    with speaking(speak) as port:
        origin = f"https://localhost:{port}"
        card = put(PUBLIC, "/supportedInterfaces/0/url", origin)
        card["supportedInterfaces"] = card["supportedInterfaces"][:1]
        here = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
        allowed = issuer(origin=origin, networks=here)
        assert verdict(settings, allowed, url=origin) == "trusted"
        assert verdict(settings, issuer(origin=origin), url=origin) == FORBIDDEN


# ------------------------------------------------------------------ who tries to use the leave


def test_the_leave_is_one_issuers_for_its_own_origins(office: Network) -> None:
    """The hint names the line without which nothing is dialled.

    No other issuer has it, neither in the same network, nor at the origin itself, nor out of what
    is kept; a subject that is named adds no origin.
    """
    office.resolves("other.example", ["10.1.2.3"])
    inside, other = issuer(networks=(OFFICE,)), issuer("other", "https://other.example")
    assert verdict(office.settings(), inside) == "trusted"
    third = issuer("third", "https://third.example", networks=(OFFICE,))
    them = verifier(office.settings(), inside, other, third)
    assert them.look_up(INSIDE).report.verdict == "trusted"
    office.forget()
    secret = f"{VAULT}/secret"
    for url, named in ((INSIDE, "other"), (INSIDE, "third"), (secret, None), (secret, "tides")):
        report = them.look_up(url, Subject(issuer=named) if named else None).report
        assert codes(report) == [CODE]
    assert verdict(office.settings(), inside, other, url="https://other.example") == FORBIDDEN
    report = verifier(office.settings(), issuer()).look_up(INSIDE).report
    assert (codes(report), "networks = " in report.reasons[0].hint) == ([CODE], True)
    assert office.dialled == []


def test_a_public_card_cannot_name_a_private_peer(office: Network) -> None:
    """A public issuer, whom the policy lets stand anywhere, is not called inside by its card."""
    public = TrustedIssuer("public", KEYS, None, freshness="waived")
    inside = issuer(networks=(OFFICE,))
    for url, whose in ((f"{INSIDE}/a2a", public), (f"{VAULT}/secret", inside)):
        with pytest.raises(GuardRefused, match=r"fetch\.forbidden_address"):
            called("GET", url, office.settings().for_issuer(whose))
    assert office.dialled == []
    settings = office.settings().for_issuer(inside)
    assert called("GET", f"{INSIDE}{CARD_PATH}", settings).status_code == 200
    assert office.dialled == ["tides.example:443"]


def test_a_statement_cannot_send_us_inside(office: Network) -> None:
    """An issuer whose statements name other origins is asked at its own alone."""
    first = keyset("ann", "bob", origins=[INSIDE, VAULT])
    anchor = KeysetAnchor(KeysetId(1, 1, read_keyset(first).digest))
    verdict(office.settings(), issuer(anchor=anchor, freshness="required", networks=(OFFICE,)))
    assert set(office.dialled) == {"tides.example:443"}


def test_the_jwks_url_is_the_operators_too(office: Network) -> None:
    """It stands in the policy, so its origin is reached for this issuer; its answer adds none."""
    jwks = http(JwkSet.of([key("card").public]).to_bytes())
    office.hosts["vault.example"].answers = {JWKS_PATH: jwks}
    anchor = parse_url(VAULT + JWKS_PATH)
    assert verdict(office.settings(), issuer(anchor=anchor, networks=(OFFICE,))) == "trusted"
    assert office.dialled == ["tides.example:443", "vault.example:443"]
    assert verdict(office.settings(), issuer(anchor=anchor)).startswith("indeterminate ")


def test_plain_http_stays_on_this_machine(office: Network) -> None:
    """Neither a network nor a proxy of the policy carries it."""
    settings, url = replace(office.settings(), insecure_loopback_http=True), "http://tides.example"
    for how in ({"networks": (OFFICE,)}, {"proxy": parse_origin("http://10.1.0.1:3128")}):
        assert verdict(settings, issuer(origin=url, **how), url=url) == FORBIDDEN
    assert office.dialled == []


# ------------------------------------------------------------------ by a proxy


@dataclass
class Proxy:
    """A proxy on this machine: real sockets up to it, the small internet behind it.

    Attributes:
        origin: For the policy.
        asked: The authority of each CONNECT.
        heads: Each request as it came.
    """

    origin: Any = None
    asked: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
    behind: Callable[[str], Callable[[socket.socket], object]] | None = None

    def speak(self, connection: socket.socket) -> None:
        head = read_head(connection)
        self.heads.append(head)
        method, authority, _ = head.split(b"\r\n")[0].split()
        assert method == b"CONNECT"
        self.asked.append(authority.decode())
        connection.sendall(self.answer)
        if self.behind is not None:
            self.behind(authority.decode().partition(":")[0])(connection)


@pytest.fixture
def proxy(office: Network) -> Iterator[Proxy]:
    """Knows every host of the office."""
    proxy = Proxy(behind=lambda name: office.hosts[name].serve)
    with speaking(proxy.speak) as port:
        proxy.origin = parse_origin(f"http://127.0.0.1:{port}")
        yield proxy


def outside(network: Network) -> FetchSettings:
    """A machine that cannot resolve the office's names, and reaches the proxy by real sockets."""

    def resolve(host: str) -> list[IPAddress]:
        raise AssertionError(f"{host} was looked up here")

    def dial(address: IPAddress, port: int, timeout: float) -> socket.socket:
        assert address.is_loopback, f"{address} was dialled directly"
        return tcp_dial(address, port, timeout)

    return replace(network.settings(), resolver=resolve, dial=dial)


def test_an_enrolled_peer_is_reached_by_the_proxy(
    call: Call, office: Network, proxy: Proxy
) -> None:
    """By CONNECT, with TLS to the peer itself: the proxy learns its name and nothing else.

    So do clients of httpx, with and without an event loop; a secret header is the peer's alone.
    """
    assert verdict(outside(office), issuer(proxy=proxy.origin)) == "trusted"
    settings = outside(office).for_issuer(issuer(proxy=proxy.origin))
    secret = {"Authorization": "Bearer tok-5a1d"}
    assert call("GET", f"{INSIDE}{CARD_PATH}", settings, headers=secret).content == CARD
    assert proxy.asked == ["tides.example:443"] * 2
    assert not any(word in b"".join(proxy.heads) for word in (b"agent-card", b"tok-5a1d"))
    assert office.hosts["tides.example"].targets == [f"GET {CARD_PATH}"] * 2
    assert office.told(b"tok-5a1d") == {"tides.example"}


def test_others_do_not_go_by_the_proxy(network: Network, proxy: Proxy) -> None:
    """Another issuer, or a URL that is not the issuer's, is asked directly or not at all."""
    home = "https://public.example"
    network.host("public.example", {CARD_PATH: http(CARD)})
    issuers = (issuer(proxy=proxy.origin), issuer("public", home))
    for url, whose in ((home, None), (home, "tides"), (f"{VAULT}/secret", "tides")):
        verdict(network.settings(), *issuers, url=url, whose=whose)
    assert proxy.asked == []
    assert set(network.dialled) == {"public.example:443"}


def test_a_variable_is_no_leave(
    office: Network, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables that HTTP clients read change no way, with and without a policy's proxy."""
    tried: list[bytes] = []
    with speaking(lambda connection: tried.append(connection.recv(1))) as port:
        for name in PROXIES:
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "tides.example")
        assert verdict(outside(office), issuer(proxy=proxy.origin)) == "trusted"
        assert verdict(office.settings(), issuer(networks=(OFFICE,))) == "trusted"
        assert verdict(office.settings(), issuer()) == FORBIDDEN
    assert tried == []


def test_a_proxy_cannot_answer_for_the_peer(
    office: Network, proxy: Proxy, authority: Authority
) -> None:
    """Its certificate is held against the peer's name: also where it ends TLS itself."""
    tls = authority.server("tides.example", self_signed=True)

    def speak(connection: socket.socket) -> None:
        with tls.wrap_socket(connection, server_side=True) as secured:
            read_head(secured)
            secured.sendall(http(CARD))

    for behind in (speak, office.hosts["vault.example"].serve):
        proxy.behind = lambda name, behind=behind: behind
        assert verdict(outside(office), issuer(proxy=proxy.origin)) == "indeterminate fetch.tls"


@each_case(__file__, "proxies", "answer", "code")
def test_a_proxy_that_does_not_connect(
    answer: str, code: str, office: Network, proxy: Proxy
) -> None:
    """One of our own errors, without its words and in time; nobody is asked directly instead."""
    done = threading.Event()
    proxy.answer, proxy.behind = answer.replace("LONG", "x" * 200_000).encode(), None
    settings = outside(office)
    if code == "fetch.timeout":
        proxy.behind = lambda name: lambda connection: done.wait(60)
        settings = replace(settings, total_timeout=SOON)
    report = verifier(settings, issuer(proxy=proxy.origin)).look_up(INSIDE).report
    done.set()
    assert codes(report) == [code]
    assert report.reasons[0].message.isprintable()
    assert "password" not in report.reasons[0].message
    assert proxy.asked == ["tides.example:443"]
