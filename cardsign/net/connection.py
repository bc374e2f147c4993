"""Connecting to addresses that were checked, within one deadline, and to no other.

A URL that a stranger chose must not reach what only this machine can reach: its own services,
its network, a cloud's metadata. What decides is the address that the connection is then made
to, never the text of the URL. NOT seen: a translation prefix (RFC 6052) that the network's
operator chose from its own addresses, and what stands behind a public address.

httpcore's own timeouts are each for one read or write, so that a peer who sends a byte now
and then could keep us for ever; here every step gets what is left of the whole.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread
import httpcore

from cardsign.errors import FetchFailed
from cardsign.trust.policy import Network

IPAddress: TypeAlias = IPv4Address | IPv6Address

#: The addresses of a host name, best first; raises ``OSError`` where there are none.
Resolver: TypeAlias = Callable[[str], Sequence[IPAddress]]

#: What to do with this machine's own addresses; "required" refuses all others instead.
Loopback: TypeAlias = Literal["refused", "allowed", "required"]

# IANA's special-purpose registries and what they leave out, written down because `is_global`
# depends on the version of Python and says yes to multicast, 6to4, and more.
_SPECIAL: Final = (
    # Loopback, private and link-local addresses.
    "127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fe80::/10 "
    # This very host, a provider's network, Azure's own service, multicast and reserved; protocols
    # and Teredo.
    "0.0.0.0/8 ::/128 100.64.0.0/10 168.63.129.16/32 224.0.0.0/4 ff00::/8 240.0.0.0/4 192.0.0.0/24 "
    "2001::/23 "
    # Documentation and benchmarks; relays, tunnels and sinks of stray DNS queries.
    "192.0.2.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20 "
    "192.52.193.0/24 192.88.99.0/24 2002::/16 192.31.196.0/24 192.175.48.0/24 2620:4f:8000::/48"
)
_NOT_PUBLIC: Final = [ip_network(network) for network in _SPECIAL.split()]
# Where clouds keep the credentials of a machine: Alibaba, all link-local addresses (AWS, Azure,
# Google, Oracle and others), Scaleway, Oracle, AWS for pods, AWS, Google. Some are within private
# networks, so they are refused before the operator's `networks` is looked at.
_OF_CLOUDS: Final = (
    "100.100.100.200/32 169.254.0.0/16 fd00:42::42/128 fd00:c1::a9fe:a9fe/128 "
    "fd00:ec2::23/128 fd00:ec2::254/128 fd20:ce::254/128"
)
_METADATA: Final = [ip_network(network) for network in _OF_CLOUDS.split()]
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")  # all that IANA has given out (RFC 4291 2.4)
_NAT64: Final = IPv6Network("64:ff9b::/96")  # RFC 6052 2.1: what DNS64 gives for IPv4 hosts
_LOOPBACK: Final = _NOT_PUBLIC[:2]


def check_address(
    address: IPAddress, *, loopback: Loopback = "refused", networks: Sequence[Network] = ()
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
    end = address  # where a connection to it ends
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped or address
        end = IPv4Address(address.packed[-4:]) if address in _NAT64 else mapped
    is_loopback = _is_in(_LOOPBACK, address)
    objection, hint = "", ""
    if is_loopback and loopback != "refused":
        return
    if _is_in(_METADATA, end):
        objection = "a metadata address of clouds, which is never asked"
        hint = "Name the address of an agent."
    elif loopback == "required":
        objection, hint = "not this machine, and plain http goes no further", "Use https."
    elif not _is_in(networks, address) and not _is_public(end):
        objection = "not a public address"
        if not is_loopback:
            network = ip_network(f"{address}/{24 if address.version == 4 else 64}", strict=False)
            where = f'networks = ["{network}"] in a policy file that you name with --trust'
            hint = f"If this is a network of your own, allow it in the issuer's entry: {where}. "
            hint += "A new issuer is added first by what curl fetches from it: --keyset or --jwks."
    if objection:
        raise FetchFailed("fetch.forbidden_address", f"{address} is {objection}", hint=hint)


def _is_in(networks: Sequence[Network], address: IPAddress) -> bool:
    return any(address in network for network in networks)


def _is_public(address: IPAddress) -> bool:
    """Return whether anybody may be asked there, by our table and by Python's."""
    is_unicast = address.version == 4 or address in _GLOBAL_UNICAST
    is_global = is_unicast and address.is_global and not address.is_multicast
    return is_global and not _is_in(_NOT_PUBLIC, address)


def resolve(host: str, *, resolver: Resolver, timeout: float) -> tuple[IPAddress, ...]:
    """Return the addresses of a host, none of them checked.

    An address is its own answer.

    Args:
        host: As in :class:`cardsign.urls.Origin`.
        resolver: Asked in a thread of its own, which is left behind when it takes too long.
        timeout: Seconds.

    Raises:
        FetchFailed: ``fetch.failed``: there is no address.
        OSError: What the resolver raises; ``TimeoutError`` after `timeout`.
    """
    with contextlib.suppress(ValueError):
        return (ip_address(host.strip("[]")),)
    answer: Future[Sequence[IPAddress]] = Future()

    def ask() -> None:
        try:
            answer.set_result(resolver(host))
        except OSError as exc:
            answer.set_exception(exc)

    # A daemon thread, since nothing can interrupt `getaddrinfo`.
    threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
    addresses = answer.result(timeout)
    if not addresses:
        raise FetchFailed("fetch.failed", f"{host} has no address")
    return tuple(dict.fromkeys(addresses))


def system_resolver(host: str) -> list[IPAddress]:
    """Resolve with ``getaddrinfo``, in its order (RFC 6724); it knows no time limit.

    Raises:
        OSError: The name has no address.
    """
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [ip_address(str(sockaddr[0])) for *_, sockaddr in answers]


#: Monotonic time in seconds.
Clock: TypeAlias = Callable[[], float]

#: Connect to an address and port within so many seconds; raises ``OSError``.
Dial: TypeAlias = Callable[[IPAddress, int, float], socket.socket]


def tcp_dial(address: IPAddress, port: int, timeout: float) -> socket.socket:
    """Open a TCP connection; the address is no name, so nothing is looked up.

    Raises:
        OSError: There is no connection; ``TimeoutError`` after `timeout` seconds.
    """
    return socket.create_connection((str(address), port), timeout)


#: Return the seconds that are left until everything must be over, or a smaller limit for one step;
#: always more than 0. Raises ``TimeoutError`` where none are left.
Remaining: TypeAlias = Callable[[float | None], float]


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose every read, write and handshake ends with a deadline.

    A shorter `timeout` for one of them holds too. Foreign errors pass as they are: ``OSError``,
    with ``TimeoutError`` and ``ssl.SSLError``.
    """

    def __init__(self, connected: socket.socket, remaining: Remaining) -> None:
        self._socket, self._remaining = connected, remaining

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived, at most `max_bytes`; empty at the end."""
        self._socket.settimeout(self._remaining(timeout))
        return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`."""
        while buffer:
            self._socket.settimeout(self._remaining(timeout))
            buffer = buffer[self._socket.send(buffer) :]

    def close(self) -> None:
        """Close the connection without waiting for the peer."""
        self._socket.close()

    def shut_down(self) -> None:
        """End what another thread reads or writes; that thread then closes the connection."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Do the handshake; Python holds the time limit over the whole of it."""
        try:
            self._socket.settimeout(self._remaining(timeout))
            # Wrapped first, so that `shut_down` ends the handshake too.
            self._socket = ssl_context.wrap_socket(
                self._socket, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._socket.do_handshake()
        except OSError:
            self.close()  # httpcore forgets a stream whose handshake failed
            raise
        return self


_Result = TypeVar("_Result")


async def in_thread(work: Callable[[], _Result]) -> _Result:
    """Do blocking work in a thread that no other request waits for.

    A caller that is cancelled leaves at once; the work must be bounded in time by itself.
    """
    limiter = anyio.CapacityLimiter(1)
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
