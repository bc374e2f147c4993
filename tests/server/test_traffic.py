"""Who a client is, how many are counted, and what the access log says of them.

`exchanges/traffic.txt` has the limits.
"""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from cardsign.server.run import make_server
from cardsign.server.settings import ServerSettings
from cardsign.server.traffic import find_address
from tests.server.served import Site, serve

CARD = "/.well-known/agent-card.json"


PROXIES = (ip_network("10.0.0.0/8"),)


@pytest.mark.parametrize(("most", "status"), [(3, 200), (4, 429)], ids=["full", "with room"])
def test_O18_counters_are_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch, most: int, status: int
) -> None:
    """When they are full, counting begins anew: nobody new is refused, and a line says so."""
    monkeypatch.setattr("cardsign.server.traffic.MAX_COUNTERS", most)
    client = serve(site.directory, ServerSettings(rate="1/day"))
    asked = [
        client.get(CARD, environ_overrides={"REMOTE_ADDR": f"192.0.2.{number}"}).status_code
        for number in (1, 2, 3, 1)
    ]
    assert asked == [200, 200, 200, status]
    said = [line for line in site.log if "anew" in line]
    told = [f"warning: rate limits are counted anew after {most} counters"]
    assert said == (told if status == 200 else [])


@pytest.mark.parametrize(
    ("address", "said", "client"),
    [
        pytest.param("192.0.2.1", "", "192.0.2.1", id="nobody in front"),
        pytest.param("192.0.2.1", "198.51.100.9", "192.0.2.1", id="a client says so itself"),
        pytest.param("10.0.0.1", "198.51.100.9", "198.51.100.9", id="the proxy says so"),
        pytest.param("10.0.0.1", "1.1.1.1, 198.51.100.9", "198.51.100.9", id="a forged beginning"),
        pytest.param("10.0.0.1", "198.51.100.9, 10.0.0.2", "198.51.100.9", id="two proxies"),
        pytest.param("10.0.0.1", "", "10.0.0.1", id="a silent proxy"),
        pytest.param("10.0.0.1", "x", "unknown", id="words"),
        pytest.param("10.0.0.1", "198.51.100.9:4711", "198.51.100.9", id="an address with a port"),
        pytest.param("10.0.0.1", "[2001:db8::1]:4711", "2001:db8:0:0::/64", id="likewise, IPv6"),
        pytest.param("10.0.0.1", "198.51.100.9:x", "unknown", id="what is no port"),
        pytest.param("::ffff:192.0.2.7", "", "192.0.2.7", id="IPv4 at a socket of IPv6"),
        pytest.param("::ffff:10.0.0.1", "198.51.100.9", "198.51.100.9", id="a proxy there"),
        pytest.param("2001:db8::1:2:3:4", "", "2001:db8:0:0::/64", id="a network of IPv6"),
    ],
)
def test_a_client_is_known_by_its_address(address: str, said: str, client: str) -> None:
    """What the operator's own proxies say counts, and nothing else."""
    expected = client.replace("2001:db8:0:0::/64", "2001:db8::/64")
    assert find_address(address, said, PROXIES) == expected


def test_a_line_of_the_log_says_who_asked_for_what() -> None:
    """Without the query. A path forges no line: it is escaped, and cut off.

    `test_serve_process.py` has a real server write it.
    """
    form = make_server(ServerSettings(), ("127.0.0.1", 0)).log_access_format
    request = {"addr": "192.0.2.1", "time": "2027-01-15 08:00:00 +0000", "method": "GET"}
    request |= {"path": CARD, "query_string": "t=1", "status": 200, "dt_ms": 0.44}
    line = f"192.0.2.1 [2027-01-15 08:00:00 +0000] GET '{CARD}' 200 0.4 ms"
    assert form % request == line
    forged = form % {**request, "path": "/x\n\x1b[2J\u202e" + "y" * 9999}
    assert forged.isprintable()
    assert forged.isascii()
    assert len(forged) < 400
