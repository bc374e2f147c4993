"""Which addresses may be asked, and how names become addresses."""

from __future__ import annotations

import socket
import threading
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import Names

from cardsign.errors import FetchFailed
from cardsign.net.connection import Loopback, check_address, resolve, system_resolver

FORBIDDEN = {
    "loopback": "127.0.0.1",
    "the rest of loopback": "127.255.255.254",
    "IPv6 loopback": "::1",
    "the unspecified address": "0.0.0.0",
    "this network": "0.255.255.255",
    "the unspecified IPv6 address": "::",
    "private, 10/8": "10.0.0.1",
    "private, the first of 172.16/12": "172.16.0.0",
    "private, the last of 172.16/12": "172.31.255.255",
    "private, 192.168/16": "192.168.1.1",
    "unique local": "fc00::1",
    "a provider's customers, the first": "100.64.0.0",
    "a provider's customers, the last": "100.127.255.255",
    "a provider's metadata service": "100.100.100.200",
    "the clouds' metadata service": "169.254.169.254",
    "the clouds' metadata service over IPv6": "fd00:ec2::254",
    "a cloud's service at a public address": "168.63.129.16",
    "a cloud's metadata among protocol assignments": "192.0.0.192",
    "IPv6 link-local": "fe80::1",
    "IPv6 link-local with a zone": "fe80::1%1",
    "deprecated site-local": "fec0::1",
    "documentation, 192.0.2/24": "192.0.2.1",
    "documentation, 198.51.100/24": "198.51.100.1",
    "documentation, 203.0.113/24": "203.0.113.1",
    "IPv6 documentation": "2001:db8::1",
    "the newer IPv6 documentation": "3fff::1",
    "AS112, 192.31.196/24": "192.31.196.1",
    "AS112, 192.175.48/24": "192.175.48.1",
    "AS112 over IPv6": "2620:4f:8000::1",
    "AMT": "192.52.193.1",
    "a 6to4 relay": "192.88.99.1",
    "benchmarks, the first": "198.18.0.0",
    "benchmarks, the last": "198.19.255.255",
    "multicast": "224.0.0.1",
    "multicast, the last": "239.255.255.255",
    "IPv6 multicast, link scope": "ff02::1",
    "IPv6 multicast, global scope": "ff0e::1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "loopback, mapped": "::ffff:127.0.0.1",
    "metadata, mapped": "::ffff:169.254.169.254",
    "loopback, IPv4-compatible": "::7f00:1",
    "loopback behind NAT64": "64:ff9b::7f00:1",
    "private behind NAT64": "64:ff9b::10.0.0.1",
    "NAT64 for local use": "64:ff9b:1::1",
    "loopback through 6to4": "2002:7f00:1::",
    "6to4, whatever is in it": "2002:5db8:d70e::1",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "ORCHID": "2001:20::1",
    "discard-only": "100::1",
    "segment routing": "5f00::1",
    "never given out": "4000::1",
}

PUBLIC = {
    "a public address": "93.184.215.14",
    "a public IPv6 address": "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
    "a public address, mapped": "::ffff:93.184.215.14",
    "a public address behind NAT64": "64:ff9b::93.184.215.14",
    "before 10/8": "9.255.255.255",
    "after 10/8": "11.0.0.0",
    "before 100.64/10": "100.63.255.255",
    "after 100.64/10": "100.128.0.0",
    "after 127/8": "128.0.0.0",
    "before 169.254/16": "169.253.255.255",
    "after 169.254/16": "169.255.0.0",
    "before 172.16/12": "172.15.255.255",
    "after 172.16/12": "172.32.0.0",
    "before 198.18/15": "198.17.255.255",
    "after 198.18/15": "198.20.0.0",
    "before multicast": "223.255.255.255",
    "the first IPv6 addresses of a registry": "2001:200::1",
    "beside documentation": "2001:db9::1",
    "after 6to4": "2003::1",
}


@pytest.mark.parametrize("text", FORBIDDEN.values(), ids=FORBIDDEN)
def test_forbidden(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stranger makes us connect to what is not public, even if Python took it for that."""
    for family in (IPv4Address, IPv6Address):
        monkeypatch.setattr(family, "is_global", True)
        monkeypatch.setattr(family, "is_multicast", False)
    with pytest.raises(FetchFailed) as refused:
        check_address(ip_address(text))

    assert refused.value.code == "fetch.forbidden_address"
    assert refused.value.message.startswith(f"{ip_address(text)} is ")


@pytest.mark.parametrize("text", PUBLIC.values(), ids=PUBLIC)
def test_public(text: str) -> None:
    """What is public may be asked, up to the very edge."""
    check_address(ip_address(text))


LOOPBACK = [
    pytest.param("127.0.0.1", "allowed", True, id="loopback where it is allowed"),
    pytest.param("127.8.9.10", "allowed", True, id="all of loopback where it is allowed"),
    pytest.param("::1", "allowed", True, id="IPv6 loopback where it is allowed"),
    pytest.param("93.184.215.14", "allowed", True, id="public where loopback is allowed"),
    pytest.param("10.0.0.1", "allowed", False, id="private where loopback is allowed"),
    pytest.param("169.254.169.254", "allowed", False, id="metadata where loopback is allowed"),
    pytest.param("0.0.0.0", "allowed", False, id="unspecified where loopback is allowed"),
    pytest.param("::", "allowed", False, id="unspecified IPv6 where loopback is allowed"),
    pytest.param("::ffff:127.0.0.1", "allowed", False, id="mapped where loopback is allowed"),
    pytest.param("64:ff9b::7f00:1", "allowed", False, id="NAT64 where loopback is allowed"),
    pytest.param("127.0.0.1", "required", True, id="loopback where it is required"),
    pytest.param("::1", "required", True, id="IPv6 loopback where it is required"),
    pytest.param("93.184.215.14", "required", False, id="public where loopback is required"),
    pytest.param("10.0.0.1", "required", False, id="private where loopback is required"),
]


@pytest.mark.parametrize(("text", "loopback", "accepted"), LOOPBACK)
def test_loopback(text: str, loopback: Loopback, accepted: bool) -> None:
    """The exception for test servers opens loopback and nothing else."""
    if accepted:
        check_address(ip_address(text), loopback=loopback)
    else:
        with pytest.raises(FetchFailed, match="forbidden_address"):
            check_address(ip_address(text), loopback=loopback)


@given(st.ip_addresses())
def test_accepted_means_global(address) -> None:
    """Nothing passes that Python itself calls private or multicast."""
    try:
        check_address(address)
    except FetchFailed:
        return
    assert address.is_global
    assert not address.is_multicast


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:", "64:ff9b::"]))
def test_a_coat_changes_nothing(address: IPv4Address, coat: str) -> None:
    """An IPv4 address within an IPv6 one is judged as if it stood alone."""

    def judged(text: str) -> bool:
        try:
            check_address(ip_address(text))
        except FetchFailed:
            return False
        return True

    assert judged(f"{coat}{address}") == judged(str(address))


def test_a_newer_python_knows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python calls private is refused although our table does not know of it."""
    check_address(ip_address("93.184.215.14"))
    monkeypatch.setattr(IPv4Address, "is_global", False)
    with pytest.raises(FetchFailed, match="not a public address"):
        check_address(ip_address("93.184.215.14"))


def test_names_keep_the_resolvers_order() -> None:
    """The addresses come as the resolver prefers them, each once."""
    names = Names(["2606:2800::1", "93.184.215.14", "2606:2800::1"])
    found = resolve("agent.example", resolver=names, timeout=5)
    assert [str(address) for address in found] == ["2606:2800::1", "93.184.215.14"]
    assert names.asked == ["agent.example"]


@pytest.mark.parametrize("host", ["93.184.215.14", "[2606:2800::1]"])
def test_an_address_is_not_looked_up(host: str) -> None:
    """A host that is an address is its own answer."""
    names = Names(["10.0.0.1"])
    assert resolve(host, resolver=names, timeout=5) == (ip_address(host.strip("[]")),)
    assert names.asked == []


def test_no_address() -> None:
    """A resolver that answers nothing is an error, not a success."""
    with pytest.raises(FetchFailed, match=r"fetch\.failed: agent\.example has no address"):
        resolve("agent.example", resolver=Names([]), timeout=5)


def test_unknown_name() -> None:
    """What the resolver says comes through its thread."""

    def unknown(host: str) -> list[IPv4Address]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(socket.gaierror, match="not known"):
        resolve("agent.example", resolver=unknown, timeout=5)


def test_slow_resolver() -> None:
    """A resolver that hangs is left behind in time."""

    never = threading.Event()

    def slow(host: str) -> list[IPv4Address]:
        never.wait()
        return [IPv4Address("93.184.215.14")]

    with pytest.raises(TimeoutError):
        resolve("agent.example", resolver=slow, timeout=0.1)
    never.set()


def test_system_resolver_asks_the_system() -> None:
    """The system knows this machine's own name."""
    assert all(address.is_loopback for address in system_resolver("localhost"))
    assert system_resolver("localhost")


def test_system_resolver_reads_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of both families are read, and a zone does not hide what an address is."""
    stream = socket.SOCK_STREAM
    answer = [
        (socket.AF_INET6, stream, 6, "", ("fe80::1%lo", 0, 0, 1)),
        (socket.AF_INET, stream, 6, "", ("93.184.215.14", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer)
    found = system_resolver("agent.example")
    assert found == [ip_address("fe80::1%lo"), ip_address("93.184.215.14")]
    with pytest.raises(FetchFailed, match="link-local"):
        check_address(found[0])
