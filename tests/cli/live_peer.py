"""A peer on this machine, over plain http, with an extended card: what commands are tried on."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.jose.keys import JwkSet
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.app import create_app
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.cli.peer import AUDIENCE, T0
from tests.publish.publications import PUBLIC, sign, with_skill
from tests.statements.making import DAY, key


@dataclass
class LivePeer:
    """The peer.

    Attributes:
        origin: Where he is.
        token: What opens his extended card.
        overrides: Answers that stand before his server's, by path.
        seen: What requests said in ``Authorization``, by path.
    """

    origin: str
    token: str
    card: dict[str, Any]
    overrides: dict[str, Callable[[Request], Response]] = field(default_factory=dict)
    seen: list[tuple[str, str]] = field(default_factory=list)

    def extended(self, audience: str = AUDIENCE) -> bytes:
        """A good extended card of an audience."""
        marker = ExtendedMarker(audience, 1, T0 + 5 * DAY)
        return sign(with_marker(with_skill(self.card, "pilots"), marker), key("card"))

    def serve(self, path: str, body: bytes, status: int = 200, **headers: str) -> None:
        """Answer otherwise at a path."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        self.overrides[path] = lambda request: Response(
            body, status, fields, content_type="application/json"
        )

    def serve_called(self, path: str, card: bytes) -> None:
        """Answer a JSON-RPC call with this card."""

        def answer(request: Request) -> Response:
            call_id = json.dumps(json.loads(request.data)["id"]).encode()
            body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, card)
            return Response(body, content_type="application/json")

        self.overrides[path] = answer

    def write_policy(self, path: str = "trust.toml", *origins: str) -> None:
        """A policy that pins his key, for his origin and others."""
        public = ", ".join(
            f"{name} = {json.dumps(value)}" for name, value in key("card").public.jwk().items()
        )
        places = json.dumps([self.origin, *origins])
        Path(path).write_text(
            f'format = 1\n[[issuer]]\nname = "tides"\norigins = {places}\n'
            f'freshness = "waived"\n[issuer.anchor]\nkeys = [{{ public = {{ {public} }} }}]\n'
        )


@contextlib.contextmanager
def live_peer(folder: Path) -> Iterator[LivePeer]:
    """Publish, and serve by our own server."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        one = {"url": f"{origin}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {**PUBLIC, "supportedInterfaces": [one]}
        token, line = create_token(AUDIENCE)
        peer = LivePeer(origin, token, card)
        publish_generation(
            Documents(
                sign(card, key("card")),
                JwkSet.of([key("card").public]),
                extended={AUDIENCE: peer.extended()},
            ),
            folder,
            now=datetime.now(UTC),
        )
        (folder.parent / "peer-tokens").write_text(line)
        app = create_app(folder, ServerSettings(token_file=folder.parent / "peer-tokens"))

        def answer(environ: Any, start_response: Any) -> Any:
            request = Request(environ)
            peer.seen.append((request.path, request.headers.get("Authorization", "")))
            override = peer.overrides.get(request.path)
            return (override(request) if override else app)(environ, start_response)

        host, port = listening.getsockname()
        server = make_server(host, port, answer, threaded=True, fd=listening.fileno())
        server.log = lambda *words: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield peer
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
