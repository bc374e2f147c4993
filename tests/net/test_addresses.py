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
from tests.support import read_cases

ADDRESSES = read_cases(__file__)["addresses"]


@pytest.mark.parametrize("text", ADDRESSES["forbidden"].split())
def test_forbidden(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stranger makes us connect to what is not public, even if Python took it for that."""
    for family in (IPv4Address, IPv6Address):
        monkeypatch.setattr(family, "is_global", True)
        monkeypatch.setattr(family, "is_multicast", False)
    with pytest.raises(FetchFailed) as refused:
        check_address(ip_address(text))

    assert refused.value.code == "fetch.forbidden_address"
    assert refused.value.message.startswith(f"{ip_address(text)} is ")


@pytest.mark.parametrize("text", ADDRESSES["public"].split())
def test_public(text: str) -> None:
    """What is public may be asked, up to the very edge."""
    check_address(ip_address(text))


@pytest.mark.parametrize(("loopback", "texts"), read_cases(__file__)["loopback"].items())
def test_loopback(loopback: Loopback, texts: tuple[str, str]) -> None:
    """The exception for test servers opens loopback and nothing else."""
    accepted, refused = (map(ip_address, text.split()) for text in texts)
    for address in accepted:
        check_address(address, loopback=loopback)
    for address in refused:
        with pytest.raises(FetchFailed, match="forbidden_address"):
            check_address(address, loopback=loopback)


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
