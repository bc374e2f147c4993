"""Which addresses may be asked, and how names become addresses."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import FetchFailed
from cardsign.net.connection import IPAddress, Loopback, check_address, resolve, system_resolver
from tests.net.peers import Names

FORBIDDEN = """
    0.0.0.0 0.255.255.255 :: 127.0.0.1 127.255.255.254 ::1
    10.0.0.1 172.16.0.0 172.31.255.255 192.168.1.1 fc00::1
    100.64.0.0 100.127.255.255 100.100.100.200 169.254.169.254 fd00:ec2::254 168.63.129.16
    192.0.0.192 fe80::1 fe80::1%1 fec0::1
    192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1 198.18.0.0 198.19.255.255
    192.31.196.1 192.175.48.1 2620:4f:8000::1 192.52.193.1 192.88.99.1
    224.0.0.1 239.255.255.255 ff02::1 ff0e::1 240.0.0.1 255.255.255.255
    ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::7f00:1 64:ff9b::7f00:1 64:ff9b::10.0.0.1
    64:ff9b:1::1 2002:7f00:1:: 2002:5db8:d70e::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
    2001:20::1 100::1 5f00::1 4000::1
"""
# The last before and the first after each network, and public addresses in an IPv6 coat.
PUBLIC = """
    93.184.215.14 2606:2800:21f:cb07:6820:80da:af6b:8b2c ::ffff:93.184.215.14
    64:ff9b::93.184.215.14 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 128.0.0.0
    169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 198.17.255.255 198.20.0.0
    223.255.255.255 2001:200::1 2001:db9::1 2003::1
"""


@pytest.mark.parametrize("text", FORBIDDEN.split())
def test_forbidden(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stranger makes us connect to what is not public, even if Python took it for that."""
    for family in (IPv4Address, IPv6Address):
        monkeypatch.setattr(family, "is_global", True)
        monkeypatch.setattr(family, "is_multicast", False)
    with pytest.raises(FetchFailed) as refused:
        check_address(ip_address(text))

    assert refused.value.code == "fetch.forbidden_address"
    assert refused.value.message.startswith(f"{ip_address(text)} is ")


@pytest.mark.parametrize("text", PUBLIC.split())
def test_public(text: str) -> None:
    """What is public may be asked, up to the very edge."""
    check_address(ip_address(text))


#: What may be asked, and what may not, where loopback is allowed or required.
LOOPBACK: dict[Loopback, tuple[str, str]] = {
    "allowed": (
        "127.0.0.1 127.8.9.10 ::1 93.184.215.14",
        "10.0.0.1 169.254.169.254 0.0.0.0 :: ::ffff:127.0.0.1 64:ff9b::7f00:1",
    ),
    "required": ("127.0.0.1 ::1", "93.184.215.14 10.0.0.1"),
}


@pytest.mark.parametrize("loopback", LOOPBACK)
def test_loopback(loopback: Loopback) -> None:
    """The exception for test servers opens loopback and nothing else."""
    accepted, refused = LOOPBACK[loopback]
    for text in accepted.split():
        check_address(ip_address(text), loopback=loopback)
    for text in refused.split():
        with pytest.raises(FetchFailed, match="forbidden_address"):
            check_address(ip_address(text), loopback=loopback)


def is_refused(address: IPAddress) -> bool:
    try:
        check_address(address)
    except FetchFailed:
        return True
    return False


@given(st.ip_addresses())
def test_accepted_means_global(address: IPAddress) -> None:
    """Nothing passes that Python itself calls private or multicast."""
    assert is_refused(address) or (address.is_global and not address.is_multicast)


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:", "64:ff9b::"]))
def test_a_coat_changes_nothing(address: IPv4Address, coat: str) -> None:
    """An IPv4 address within an IPv6 one is judged as if it stood alone."""
    assert is_refused(ip_address(f"{coat}{address}")) == is_refused(address)


def test_a_newer_python_knows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python calls private is refused although our table does not know of it."""
    check_address(ip_address("93.184.215.14"))
    monkeypatch.setattr(IPv4Address, "is_global", False)
    with pytest.raises(FetchFailed, match="not a public address"):
        check_address(ip_address("93.184.215.14"))


def test_names_become_addresses() -> None:
    """As the resolver prefers them, each once; an address is not looked up, none is an error."""
    names = Names(["2606:2800::1", "93.184.215.14", "2606:2800::1"])
    addresses = resolve("agent.example", resolver=names, timeout=5)
    assert [str(address) for address in addresses] == ["2606:2800::1", "93.184.215.14"]
    for host in ("93.184.215.14", "[2606:2800::1]"):
        assert resolve(host, resolver=names, timeout=5) == (ip_address(host.strip("[]")),)
    assert names.asked == ["agent.example"]
    with pytest.raises(FetchFailed, match=r"fetch\.failed: agent\.example has no address"):
        resolve("agent.example", resolver=Names([]), timeout=5)
    with pytest.raises(OSError, match="no such name"):
        resolve("agent.example", resolver=nowhere, timeout=5)


def nowhere(host: str) -> list[IPAddress]:
    raise OSError("no such name")


def test_system_resolver_reads_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of both families are read, and a zone does not hide what an address is."""
    assert {address.is_loopback for address in system_resolver("localhost")} == {True}
    stream = socket.SOCK_STREAM
    answer = [
        (socket.AF_INET6, stream, 6, "", ("fe80::1%lo", 0, 0, 1)),
        (socket.AF_INET, stream, 6, "", ("93.184.215.14", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer)
    found = system_resolver("agent.example")
    assert found == [ip_address("fe80::1%lo"), ip_address("93.184.215.14")]
    with pytest.raises(FetchFailed, match="not a public"):
        check_address(found[0])
