"""Who a client is, how many are counted, and what the access log says of them.

`exchanges/traffic.txt` has the limits.
"""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from cardsign.server.app import find_address
from cardsign.server.run import make_server
from cardsign.server.settings import ServerSettings
from tests.server.served import Site, serve
from tests.support import each_case

CARD = "/.well-known/agent-card.json"
PROXIES = (ip_network("10.0.0.0/8"),)


@pytest.mark.parametrize(("most", "status"), [(3, 200), (4, 429)], ids=["full", "with room"])
def test_O18_counters_are_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch, most: int, status: int
) -> None:
    """When they are full, counting begins anew: nobody new is refused, and a line says so."""
    monkeypatch.setattr("cardsign.server.app.MAX_COUNTERS", most)
    client = serve(site.directory, ServerSettings(rate="1/day"))
    asked = [
        client.get(CARD, environ_overrides={"REMOTE_ADDR": f"192.0.2.{number}"}).status_code
        for number in (1, 2, 3, 1)
    ]
    assert asked == [200, 200, 200, status]
    said = [line for line in site.log if "anew" in line]
    told = [f"warning: rate limits are counted anew after {most} counters"]
    assert said == (told if status == 200 else [])


@each_case(__file__, "addresses", "address", "said", "client")
def test_a_client_is_known_by_its_address(address: str, said: str, client: str) -> None:
    """What the operator's own proxies say counts, and nothing else."""
    assert find_address(address, said, PROXIES) == client


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
