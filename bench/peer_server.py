"""Many peers on this machine, in a process of their own, each answer of theirs delayed.

``python peer_server.py COUNT`` listens on so many free ports of 127.0.0.1, prints them as a JSON
list, and then reads one JSON request a line on stdin, each of which is answered by a line:

    {"do": "serve", "documents": {port: {path: text}}}    from now on this is served
    {"do": "delay", "seconds": number}                    before each answer
    {"do": "log"}                                         what was asked since: [status, path] each

It serves as a peer's server does, with a strong ETag and 304, and closes each connection. It ends
with its stdin, and imports nothing but Python's own library.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from typing import Any

JOSE = "application/jose+json"
MAX_AGE = {"agent-card.json": 60}  # seconds; of everything else 300


class Peers:
    """What is served at each port, how slowly, and what was asked."""

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, bytes]] = {}
        self.delay = 0.0
        self.log: list[tuple[int, str]] = []

    def do(self, request: dict[str, Any]) -> object:
        """Follow a request."""
        match request["do"]:
            case "serve":
                self.documents = {
                    port: {path: text.encode() for path, text in served.items()}
                    for port, served in request["documents"].items()
                }
            case "delay":
                self.delay = request["seconds"]
            case "log":
                asked, self.log = self.log, []
                return asked
        return True

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of HTTP/1.1, one answer, the end."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            await asyncio.sleep(self.delay)
            port = writer.get_extra_info("sockname")[1]
            writer.write(self.response(head, self.documents.get(str(port), {})))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # who asked has gone
        finally:
            writer.close()

    def response(self, head: str, served: dict[str, bytes]) -> bytes:
        """The answer to a request whose head this is."""
        request, *lines = head.splitlines()
        path = request.split(" ")[1]
        fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        body = served.get(path)
        if body is None:
            return self._answered(404, path, b"", [])
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        name = path.rpartition("/")[2]
        headers = [f"ETag: {tag}", f"Cache-Control: public, max-age={MAX_AGE.get(name, 300)}"]
        if fields.get("if-none-match") == tag:
            return self._answered(304, path, b"", headers)
        kind = JOSE if "/cardsign/" in path else "application/json"
        return self._answered(200, path, body, [*headers, f"Content-Type: {kind}"])

    def _answered(self, status: int, path: str, body: bytes, headers: list[str]) -> bytes:
        self.log.append((status, path))
        length = [] if status == 304 else [f"Content-Length: {len(body)}"]
        lines = [f"HTTP/1.1 {status} -", *headers, *length, "Connection: close", "", ""]
        return "\r\n".join(lines).encode() + body


async def main(count: int) -> None:
    """Serve until stdin ends."""
    peers = Peers()
    servers = [await asyncio.start_server(peers.answer, "127.0.0.1", 0) for _ in range(count)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    stdin = asyncio.StreamReader(limit=2**30)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    while line := await stdin.readline():
        print(json.dumps(peers.do(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
