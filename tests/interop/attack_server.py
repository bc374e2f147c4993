"""What a transcript's servers say, on a real port of this machine and without TLS.

For clients of others, which bring a network of their own: where a transcript is about names,
addresses, certificates or several hosts, it cannot be put to them so.
"""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from typing import Any, Final

from tests.attack_runner.corpus import Case
from tests.attack_runner.world import Certificates, World

#: The one host that is served, whatever name it is asked by.
HOST: Final = "tides.example"
_GOOD: Final = {"certificate": {"names": [HOST]}}


def is_servable(case: Case) -> bool:
    """Whether all that matters of a transcript is what one good server says, once, and ends."""
    [step, *more] = case.steps
    served = step["servers"].get("93.184.215.14:443")
    plain = step["names"].get(HOST) == ["93.184.215.14"] and served == _GOOD
    said = step["answers"].values()
    ends = not any(isinstance(one.get("then"), dict) for one in said)
    return not more and "repeat" not in step and plain and ends and _is_at_home(step)


def _is_at_home(step: dict[str, Any]) -> bool:
    url = step["url"]
    return url in (f"https://{HOST}", f"https://{HOST}/.well-known/agent-card.json")


@contextlib.contextmanager
def served(case: Case, certificates: Certificates) -> Iterator[str]:
    """Serve the first step of a case; gives the origin."""
    world = World(case, certificates)
    world.change(case.steps[0])

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                world.answer(self.request, "https", HOST)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
