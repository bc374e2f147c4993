"""The live peer of the guides: what it answers, and when it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import httpx

SCRIPT = 'PEER=$("$0" examples/live_peer.py) && echo "$PEER" && read -r'


def is_served(url: str) -> bool:
    """Whether somebody listens there."""
    try:
        httpx.get(url)
    except httpx.ConnectError:
        return False
    return True


def test_a_live_peer_answers_404_and_ends_with_its_script(root: Path) -> None:
    """Nothing but its card, statements and endpoint is there, while the script runs."""
    with subprocess.Popen(
        ["bash", "-c", SCRIPT, sys.executable],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as script:
        assert script.stdin
        assert script.stdout
        url = script.stdout.readline().strip()
        assert [
            httpx.get(url + "/.well-known/agent-card.json").status_code,
            httpx.get(url + "/a2a").status_code,
            httpx.post(url + "/nowhere", json={}).status_code,
        ] == [200, 404, 404]
        script.stdin.write("end\n")
    deadline = time.monotonic() + 20
    while is_served(url):
        assert time.monotonic() < deadline, f"{url} outlives the script that started it"
        time.sleep(0.1)
