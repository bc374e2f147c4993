"""How often a client may ask, and what the access log says."""

from __future__ import annotations

import json
import logging
from ipaddress import ip_network
from typing import Any

import pytest
from werkzeug.test import Client

from cardsign.server.app import find_address
from cardsign.server.run import AccessLine
from tests.publish.publications import NOW
from tests.server.served import Site, serve

CARD = "/.well-known/agent-card.json"


PROXIES = (ip_network("10.0.0.0/8"),)


class Around:
    """A site whose requests are counted."""

    def __init__(self, site: Site, **settings: Any) -> None:
        chosen = site.settings.model_copy(update=settings)
        self.client: Client = serve(site.directory, chosen, now=NOW.timestamp)

    def get(
        self, path: str = CARD, address: str = "192.0.2.1", *, method: str = "GET", **headers: str
    ) -> Any:
        """Ask from an address."""
        over = {"REMOTE_ADDR": address}
        return self.client.open(path, method=method, headers=headers, environ_overrides=over)


def test_O13_a_client_that_asks_too_often_is_told_when_to_come_back(site: Site) -> None:
    """429 with Retry-After; another client and the probes are not concerned."""
    around = Around(site, rate="2/day")
    assert [around.get().status_code for _ in range(4)] == [200, 200, 429, 429]
    refused = around.get()
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json["error"]["status"] == "RESOURCE_EXHAUSTED"
    assert refused.headers["Cache-Control"] == "no-store"
    assert around.get(address="192.0.2.2").status_code == 200
    assert [around.get("/healthz").status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "/metrics", id="a card may name this path"),
        pytest.param("POST", "/healthz", id="or this one"),
        pytest.param("GET", "/metrics", id="metrics are off"),
    ],
)
def test_who_only_asks_where_a_probe_would_is_limited(site: Site, method: str, path: str) -> None:
    """Else tokens could be guessed there without end; the twin is a probe."""
    around = Around(site, rate="1/day")
    assert [around.get(path, method=method).status_code for _ in range(2)][1] == 429
    probe = Around(site, rate="1/day")
    for one in ("GET", "HEAD"):
        for where in ("/healthz", "/readyz"):
            assert [probe.get(where, method=one).status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize(("most", "status"), [(3, 200), (4, 429)], ids=["full", "with room"])
def test_O18_counters_are_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch, most: int, status: int
) -> None:
    """When they are full, counting begins anew: nobody new is refused, and a line says so."""
    monkeypatch.setattr("cardsign.server.app.MAX_COUNTERS", most)
    around = Around(site, rate="1/day")
    clients = [f"192.0.2.{number}" for number in (1, 2, 3)]
    assert [around.get(address=one).status_code for one in clients] == [200] * 3
    assert around.get(address=clients[0]).status_code == status
    said = [line for line in site.log if "anew" in line]
    told = [f"warning: rate limits are counted anew after {most} counters"]
    assert said == (told if status == 200 else [])


def test_an_extended_card_counts_as_much_as_the_public_one(site: Site) -> None:
    """So a limit bounds the guessing of tokens."""
    around = Around(site, rate="2/day")
    assert around.get("/a2a/extendedAgentCard", Authorization="Bearer a").status_code == 401
    assert around.get(**{"If-None-Match": "*"}).status_code == 304
    assert around.get("/a2a/extendedAgentCard", **site.bearer()).status_code == 429


def test_several_rates_hold_together(site: Site) -> None:
    """The first that is used up refuses."""
    around = Around(site, rate="9/day; 1/hour")
    assert [around.get().status_code for _ in range(2)] == [200, 429]


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


def test_limits_count_the_client_that_a_proxy_names(site: Site) -> None:
    """Behind one, every request comes from its address."""
    around = Around(site, rate="1/day", proxies=PROXIES)
    asked = [
        around.get(address="10.0.0.1", **{"X-Forwarded-For": client}).status_code
        for client in ("192.0.2.1", "192.0.2.2", "192.0.2.1")
    ]
    assert asked == [200, 200, 429]


def test_a_line_of_the_log_says_who_asked_for_what() -> None:
    """Without headers and query. A path forges no line: line ends are escaped, and it is cut off.

    `test_serve_process.py` has a real server write it.
    """
    request = {"addr": "192.0.2.1", "time": "2027-01-15 08:00:00 +0000", "method": "GET"}
    request |= {"path": CARD, "query_string": "t=1", "status": 200, "dt_ms": 0.44}
    assert json.loads(line_of(request)) == {
        "time": "2027-01-15 08:00:00 +0000",
        "client": "192.0.2.1",
        "method": "GET",
        "path": CARD,
        "status": 200,
        "ms": 0.4,
    }
    forged = line_of(request | {"path": '/x\n{"client":"me"}' + "y" * 9999})
    assert "\n" not in forged
    assert len(forged) < 500


def line_of(request: dict[str, Any]) -> str:
    """A line of the access log, of what granian hands to the log."""
    return AccessLine().format(logging.makeLogRecord({"msg": "", "args": request}))
