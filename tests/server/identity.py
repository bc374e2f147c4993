"""Counterparts of the providers, each a real server on loopback."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import ECKey


class Counterpart:
    """A server whose answers a test chooses by path; it remembers what it was asked.

    Attributes:
        url: Its origin.
        answers: A status and a JSON value by path, or what makes them of the form.
        headers: Of every answer.
        asked: The paths, in order.
        authorizations: Of each request.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Any] = {}
        self.headers = {"Content-Type": "application/json"}
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []


@contextmanager
def counterpart() -> Iterator[Counterpart]:
    """Run one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            form = parse_qs(self.rfile.read(size).decode())
            path = self.path.partition("?")[0]
            served.asked.append(path)
            served.authorizations.append(self.headers.get("Authorization"))
            answer = served.answers.get(path, (404, {}))
            status, value = answer(form) if isinstance(answer, Callable) else answer
            body = json.dumps(value).encode()
            self.send_response(status)
            for name, said in served.headers.items():
                self.send_header(name, said)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Counterpart(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Issuer:
    """An OpenID Connect issuer: discovery, keys, and tokens that joserfc signs."""

    def __init__(self, served: Counterpart) -> None:
        self.served = served
        self.url = served.url
        self.keys: dict[str, ECKey] = {}
        self.add_key("k1")
        configuration = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        served.answers["/.well-known/openid-configuration"] = (200, configuration)

    def add_key(self, kid: str) -> None:
        """A new key, which is published."""
        self.keys[kid] = ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})
        self.publish()

    def publish(self) -> None:
        """Publish all keys that there are."""
        keys = [one.as_dict(private=False) for one in self.keys.values()]
        self.served.answers["/keys"] = (200, {"keys": keys})

    def token(self, *, kid: str = "k1", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token of ten minutes, for the tides, but for what is said otherwise."""
        usual = {
            "iss": self.url,
            "aud": "https://tides.example",
            "sub": "peer",
            "exp": int(time.time()) + 600,
        }
        members = {k: v for k, v in {**usual, **claims}.items() if v is not None}
        named = {"alg": "ES256", "kid": kid, **(header or {})}
        shown = {name: value for name, value in named.items() if value is not None}
        return jwt.encode(shown, members, self.keys[kid])


def unsigned(token: str) -> str:
    """The same token by the algorithm `none`."""
    header = base64.urlsafe_b64encode(b'{"alg":"none","kid":"k1"}').rstrip(b"=").decode()
    return f"{header}.{token.split('.')[1]}."
