"""Counterparts of the providers, each a real server on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import PrivateKey

#: The members of a token that stand in its header.
HEADER = ("alg", "kid", "typ", "crit", "b64")


@dataclass
class Counterpart:
    """A server whose answers a test chooses by path; it remembers what it was asked.

    Attributes:
        url: Its origin.
        answers: A document by path, or a status and a JSON value, or what makes them of the form.
        headers: Of every answer.
        asked: The paths, in order.
        authorizations: Of each request.
    """

    url: str
    answers: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    asked: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)


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
            if isinstance(answer, bytes):
                status, body = 200, answer
            else:
                status, value = answer(form) if isinstance(answer, Callable) else answer
                body = json.dumps(value).encode()
            self.send_response(status)
            for name, text in served.headers.items():
                self.send_header(name, text)
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
    """An OpenID Connect issuer: discovery, keys, and tokens, whatever they say."""

    def __init__(self, served: Counterpart) -> None:
        self.served, self.url = served, served.url
        self.keys: dict[str, PrivateKey] = {}
        self.add_key("k1")
        configuration = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        served.answers["/.well-known/openid-configuration"] = (200, configuration)

    def add_key(self, kid: str) -> None:
        """A new key, which is published."""
        self.keys[kid] = PrivateKey.generate("ES256", kid=kid)
        self.publish()

    def publish(self) -> None:
        """Publish all keys that there are."""
        keys = [dict(key.public.jwk()) for key in self.keys.values()]
        self.served.answers["/keys"] = (200, {"keys": keys})

    def token(self, *, now: float | None = None, is_forged: bool = False, **members: Any) -> str:
        """A token of ten minutes for the tides; a member is changed, or left out by None.

        ``exp`` and ``nbf`` count seconds from `now`. A forged one is signed by a key of nobody.
        """
        begin = int(time.time() if now is None else now)
        whole = {"alg": "ES256", "kid": "k1", "iss": self.url, "aud": "https://tides.example"}
        whole |= {"exp": 600, **members}
        for name in ("exp", "nbf"):
            if isinstance(whole.get(name), int):
                whole[name] += begin
        shown = {name: value for name, value in whole.items() if value is not None}
        header = {name: shown.pop(name) for name in HEADER if name in shown}
        signed = ".".join(encode_base64url(json.dumps(part).encode()) for part in (header, shown))
        key = self.keys.get(str(whole["kid"]), self.keys["k1"])
        key = PrivateKey.generate("ES256") if is_forged else key
        return f"{signed}.{encode_base64url(key.sign(signed.encode()))}"
