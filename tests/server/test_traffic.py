"""How often a client may ask, and what the access log says."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from urllib.parse import unquote

import pytest
from exchange import Fields, asked, scope_of
from publications import NOW
from served import Site
from werkzeug.wrappers import Response

from cardsign.errors import UsageFault
from cardsign.server.host import Host
from cardsign.server.run import RsgiApplication, serve
from cardsign.server.settings import ServerSettings
from cardsign.server.traffic import RateLimit, client_of, log_answer

CARD = "/.well-known/agent-card.json"


class Around:
    """A site with traffic around it."""

    def __init__(self, site: Site, **settings: Any) -> None:
        self.log: list[str] = []
        self.lines: list[str] = []
        read, now = ServerSettings(**settings), lambda: 1_800_000_000.5
        host = Host(site.directory, site.client.application._settings, now=NOW.timestamp)
        self.application = RsgiApplication(
            host,
            at_once=host.at_once,
            gate=RateLimit(read, now=now, log=self.log.append).refuse if read.rate else None,
            witnesses=(partial(log_answer, read, now=now, write=self.lines.append),)
            if read.access_log
            else (),
            clock=lambda: 0.0,
        )

    def get(
        self,
        path: str = CARD,
        address: str = "192.0.2.1",
        *,
        method: str = "GET",
        **headers: str,
    ) -> Response:
        """Ask from an address."""
        where, _, query = path.partition("?")
        fields = Fields(*((name.lower(), value) for name, value in headers.items()))
        request = {"path": unquote(where), "query_string": query, "headers": fields}
        got = asked(self.application, method=method, client=f"{address}:4711", **request)
        return Response(got.body, got.status, got.headers)


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
    ("method", "path", "is_on"),
    [
        pytest.param("POST", "/metrics", True, id="a card may name this path"),
        pytest.param("POST", "/healthz", True, id="or this one"),
        pytest.param("GET", "/metrics", False, id="metrics are off"),
        pytest.param("GET", "/healthz", False, id="probes are off"),
        pytest.param("HEAD", "/readyz", False, id="likewise, HEAD"),
    ],
)
def test_who_only_asks_where_a_probe_would_is_limited_and_logged(
    site: Site, method: str, path: str, is_on: bool
) -> None:
    """Else tokens could be guessed there without end; the twin is a probe that is on."""
    around = Around(site, rate="1/day", access_log=True, health=is_on, metrics=is_on)
    assert [around.get(path, method=method).status_code for _ in range(2)][1] == 429
    assert len(around.lines) == 2
    probe = Around(site, rate="1/day", access_log=True, metrics=True)
    for one in ("GET", "HEAD"):
        for where in ("/healthz", "/readyz", "/metrics"):
            assert probe.get(where, method=one).status_code != 429
    assert probe.lines == []


def test_a_refusal_of_head_has_no_body(site: Site) -> None:
    """The log says 0 bytes; the length is that of the answer to GET."""
    around = Around(site, rate="1/day", access_log=True)
    around.get()
    whole = around.get()
    head = asked(around.application, method="HEAD", path=CARD, client="192.0.2.1:4711")
    assert (head.status, head.body) == (429, b"")
    assert ("Content-Length", str(len(whole.data))) in head.headers
    assert json.loads(around.lines[-1])["bytes"] == 0


@pytest.mark.parametrize(("most", "status"), [(3, 200), (4, 429)], ids=["full", "with room"])
def test_O18_counters_are_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch, most: int, status: int
) -> None:
    """When they are full, counting begins anew: nobody new is refused, and a line says so."""
    monkeypatch.setattr("cardsign.server.traffic.MAX_COUNTERS", most)
    around = Around(site, rate="1/day")
    clients = [f"192.0.2.{number}" for number in (1, 2, 3)]
    assert [around.get(address=one).status_code for one in clients] == [200] * 3
    assert around.get(address=clients[0]).status_code == status
    told = [f"rate limits are counted anew after {most} counters"]
    assert around.log == (told if status == 200 else [])


def test_several_rates_hold_together(site: Site) -> None:
    """The first that is used up refuses."""
    around = Around(site, rate="9/day; 1/hour")
    assert [around.get().status_code for _ in range(2)] == [200, 429]


def test_without_a_rate_nobody_is_refused(site: Site) -> None:
    """It is switched off."""
    around = Around(site)
    assert {around.get().status_code for _ in range(50)} == {200}
    assert around.lines == []


def test_a_storage_without_answer_refuses_nobody(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator is told once, not at each request."""
    from limits.errors import StorageError
    from limits.strategies import MovingWindowRateLimiter

    def fail(*_: Any) -> bool:
        raise StorageError(ConnectionError("no"))

    monkeypatch.setattr(MovingWindowRateLimiter, "hit", fail)
    around = Around(site, rate="1/day")
    assert {around.get().status_code for _ in range(5)} == {200}
    assert len(around.log) == 1
    assert around.log[0].startswith("rate limits are not counted")


@pytest.mark.parametrize(("rate", "storage"), [("often", "memory://"), ("1/day", "nowhere://x")])
def test_a_rate_that_cannot_be_counted_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch, rate: str, storage: str
) -> None:
    """At the start, before anything listens; the setting is named, its value, and a right one."""
    monkeypatch.setattr("granian.Granian.serve", None)  # what listens would never come back
    settings = ServerSettings(rate=rate, rate_storage=storage)
    with pytest.raises(UsageFault) as caught:
        serve(site.directory, settings, "127.0.0.1", 0)
    assert caught.value.code == "config.malformed"
    wrong = "rate = 'often'" if rate == "often" else "rate_storage = 'nowhere://x'"
    assert str(caught.value).startswith(f"config.malformed: {wrong}: ")
    assert "100/minute" in caught.value.hint or "redis://HOST:6379" in caught.value.hint


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
    where = f"[{address}]:4711" if ":" in address else f"{address}:4711"
    fields = Fields(*([("x-forwarded-for", said)] if said else []))
    expected = client.replace("2001:db8:0:0::/64", "2001:db8::/64")
    assert client_of(scope_of(client=where, headers=fields), ("10.0.0.0/8",)) == expected


def test_a_line_of_the_log_holds_no_secret(site: Site) -> None:
    """Neither the token nor the query; the path of an extended card is not one."""
    around = Around(site, access_log=True)
    token = site.bearer()["Authorization"]
    answer = around.get(f"/a2a/extendedAgentCard?key={token[7:]}", Authorization=token)
    assert json.loads(around.lines[0]) == {
        "time": "2027-01-15T08:00:00.500+00:00",
        "client": "192.0.2.1",
        "method": "GET",
        "path": "/a2a/extendedAgentCard",
        "status": 200,
        "bytes": len(answer.data),
        "ms": 0.0,
    }
    assert token[7:] not in around.lines[0]


def test_a_path_cannot_forge_a_line(site: Site) -> None:
    """Line ends are escaped, and it is cut off."""
    around = Around(site, access_log=True)
    around.get("/x%0a%7b" + "y" * 9999)
    (line,) = around.lines
    assert "\n" not in line
    assert len(line) < 500


def test_refused_requests_are_logged(site: Site) -> None:
    """With their status."""
    around = Around(site, access_log=True, rate="1/day")
    around.get()
    around.get()
    assert [json.loads(line)["status"] for line in around.lines] == [200, 429]


def test_an_answer_at_once_is_limited_and_logged_too(site: Site) -> None:
    """What is answered from memory, and a caller who is known, as much as what Flask answers."""
    around = Around(site, access_log=True, rate="3/day")
    around.application._application = None  # whoever asks Flask fails
    around.get()
    around.get("/a2a/extendedAgentCard", **site.bearer())
    around.get(**{"If-None-Match": "*"})
    around.get()
    assert [json.loads(line)["status"] for line in around.lines] == [200, 200, 304, 429]
