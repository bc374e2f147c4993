"""Which addresses may be asked, and how a name becomes addresses: once, and within a time.

A URL that a stranger chose must not reach what only this machine can reach: its own services,
its network, a cloud's metadata. What decides is the address that the connection is then made
to, never the text of the URL. NOT seen: a translation prefix (RFC 6052) that the network's
operator chose from its own addresses, and what stands behind a public address.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, Literal, TypeAlias

from cardsign.errors import FetchFailed

IPAddress: TypeAlias = IPv4Address | IPv6Address
IPNetwork: TypeAlias = IPv4Network | IPv6Network

Resolver: TypeAlias = Callable[[str], Sequence[IPAddress]]
"""The addresses of a host name, best first; raises ``OSError`` where there are none."""

Loopback: TypeAlias = Literal["refused", "allowed", "required"]
"""What to do with this machine's own addresses; "required" refuses all others instead."""

# IANA's special-purpose registries and what they leave out, written down because `is_global`
# depends on the version of Python and says yes to multicast, 6to4, and more.
_NOT_PUBLIC: Final = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "an address of this very host"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "an address within a provider's network"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "a cloud's internal service"),  # Azure's; public only in form
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "for documentation only"),
        ("192.31.196.0/24", "a sink for stray DNS queries"),
        ("192.52.193.0/24", "a multicast relay"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private address"),
        ("192.175.48.0/24", "a sink for stray DNS queries"),
        ("198.18.0.0/15", "for benchmarks only"),
        ("198.51.100.0/24", "for documentation only"),
        ("203.0.113.0/24", "for documentation only"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "reserved or broadcast"),
        ("::/128", "an address of this very host"),
        ("::1/128", "a loopback address"),
        ("2001::/23", "reserved for protocols, or a Teredo tunnel"),
        ("2001:db8::/32", "for documentation only"),
        ("2002::/16", "a 6to4 tunnel"),
        ("2620:4f:8000::/48", "a sink for stray DNS queries"),
        ("3fff::/20", "for documentation only"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("ff00::/8", "a multicast address"),
    )
)
# Where clouds keep the credentials of a machine. Some are within private networks, so they are
# refused before the operator's `networks` is looked at.
_METADATA: Final = tuple(
    map(
        ip_network,
        (
            "100.100.100.200/32",  # Alibaba Cloud
            "169.254.0.0/16",  # all link-local addresses: AWS, Azure, Google, Oracle and others
            "fd00:42::42/128",  # Scaleway
            "fd00:c1::a9fe:a9fe/128",  # Oracle
            "fd00:ec2::23/128",  # AWS, for pods
            "fd00:ec2::254/128",  # AWS
            "fd20:ce::254/128",  # Google
        ),
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")  # all that IANA has given out (RFC 4291 2.4)
_NAT64: Final = IPv6Network("64:ff9b::/96")  # RFC 6052 2.1: what DNS64 gives for IPv4 hosts
_LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def _not_public_hint(address: IPAddress) -> str:
    """How the operator lets one issuer be there; the network is the smallest that fits."""
    network = ip_network(f"{address}/{24 if address.version == 4 else 64}", strict=False)
    return (
        f'If this is a network of your own, allow it for this issuer: networks = ["{network}"] in '
        "a policy file that you name with --trust."
    )


def check_address(
    address: IPAddress, *, loopback: Loopback = "refused", networks: Sequence[IPNetwork] = ()
) -> None:
    """Refuse an address that a stranger must not make us connect to.

    An IPv4 address inside an IPv6 one (mapped, or NAT64's well-known prefix) is judged by itself,
    and is never loopback enough for "allowed"; 6to4 and Teredo are refused whole. The metadata
    services of clouds are refused even within `networks`.

    Args:
        address: That the connection would be made to.
        loopback: What to do with this machine's own addresses.
        networks: Where the operator lets the issuer's own hosts be.

    Raises:
        FetchFailed: ``fetch.forbidden_address``.
    """
    is_loopback = any(address in network for network in _LOOPBACK)
    if is_loopback and loopback != "refused":
        return
    if any((_embedded(address) or address) in network for network in _METADATA):
        message = f"{address} is a metadata address of clouds, which is never asked"
        hint = "Name the address of an agent."
        raise FetchFailed("fetch.forbidden_address", message, hint=hint)
    if loopback != "required" and any(address in network for network in networks):
        return
    if loopback == "required":
        message = f"{address} is not this machine, and plain http goes no further"
        raise FetchFailed("fetch.forbidden_address", message, hint="Use https.")
    if objection := _objection(address):
        hint = "" if is_loopback else _not_public_hint(address)
        raise FetchFailed("fetch.forbidden_address", f"{address} is {objection}", hint=hint)


def resolve(
    host: str,
    *,
    resolver: Resolver,
    timeout: float,
    loopback: Loopback = "refused",
    networks: Sequence[IPNetwork] = (),
) -> tuple[IPAddress, ...]:
    """Return the addresses of a host, every one of them checked.

    A name is resolved once, so that no second answer can differ from the checked one; a
    single forbidden address refuses the host. An address in brackets or as a dotted quad is
    its own answer.

    Args:
        host: As in :class:`cardsign.urls.Origin`.
        resolver: Asked in a thread of its own, which is left behind when it takes too long.
        timeout: Seconds.
        loopback: See :func:`check_address`.
        networks: See :func:`check_address`.

    Raises:
        FetchFailed: ``fetch.forbidden_address``, or ``fetch.failed`` where there is no
            address.
        OSError: What the resolver raises; ``TimeoutError`` after `timeout`.
    """
    addresses = look_up(host, resolver=resolver, timeout=timeout)
    for address in addresses:
        check_address(address, loopback=loopback, networks=networks)
    return addresses


def look_up(host: str, *, resolver: Resolver, timeout: float) -> tuple[IPAddress, ...]:
    """Return the addresses of a host, of which none is checked; else as :func:`resolve`."""
    addresses = _literal(host) or _ask(resolver, host, timeout)
    if not addresses:
        raise FetchFailed("fetch.failed", f"{host} has no address")
    return tuple(dict.fromkeys(addresses))


def system_resolver(host: str) -> list[IPAddress]:
    """Resolve with ``getaddrinfo``, in its order (RFC 6724); it knows no time limit.

    Raises:
        OSError: The name has no address.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [ip_address(str(sockaddr[0])) for *_, sockaddr in found]


def _objection(address: IPAddress) -> str:
    """What speaks against an address; empty for a public one."""
    if (within := _embedded(address)) is not None:
        objection = _objection(within)
        return f"{within} in an IPv6 coat, {objection}" if objection else ""
    for network, what in _NOT_PUBLIC:
        if address in network:
            return what
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return "not a global unicast address"
    # A newer Python may know of networks that were set aside since this was written.
    return "" if address.is_global and not address.is_multicast else "not a public address"


def _embedded(address: IPAddress) -> IPv4Address | None:
    """The IPv4 address that a connection to this IPv6 address ends at, if it is such a coat."""
    if isinstance(address, IPv4Address):
        return None
    return IPv4Address(address.packed[-4:]) if address in _NAT64 else address.ipv4_mapped


def _literal(host: str) -> tuple[IPAddress, ...]:
    try:
        return (ip_address(host.strip("[]")),)
    except ValueError:
        return ()


def _ask(resolver: Resolver, host: str, timeout: float) -> Sequence[IPAddress]:
    """Run the resolver in a daemon thread, since nothing can interrupt ``getaddrinfo``."""
    answer: Future[Sequence[IPAddress]] = Future()

    def run() -> None:
        try:
            answer.set_result(resolver(host))
        except OSError as exc:
            answer.set_exception(exc)

    threading.Thread(target=run, name=f"resolve {host}", daemon=True).start()
    return answer.result(timeout)
