"""A live peer on this machine, until the shell or script that started it ends; prints its URL.

``PEER=$(python examples/live_peer.py)``: Harbour Office is set up in a temporary folder as any
issuer is, by the commands below. Its cards are served in front of its agent, which asks for a place
and then says when the water comes. It is here to be verified and called: a real one has a name,
TLS, a root key that lies elsewhere, and a recovery key.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIServer, make_server

from cardsign.server.mount import mount_cards

CARD = Path(__file__).parent / "cards" / "harbour.json"
ENDPOINT = "/a2a"  # of the card
CARDSIGN = [sys.executable, "-m", "cardsign"]


def agent(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a call of JSON-RPC at the card's endpoint, without any check of what comes."""
    if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != ("POST", ENDPOINT):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"not found\n"]
    call = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    message = call["params"].get("message")  # none where the task itself is asked for
    task: dict[str, Any] = {"id": "7f3a", "contextId": "c1"}
    if message is None or "taskId" in message:
        task["status"] = {"state": "TASK_STATE_COMPLETED"}
        task["artifacts"] = [{"artifactId": "a1", "parts": [{"text": "At 14:20."}]}]
    else:
        question = {"messageId": "m1", "role": "ROLE_AGENT", "parts": [{"text": "At which place?"}]}
        task["status"] = {"state": "TASK_STATE_INPUT_REQUIRED", "message": question}
    result = task if message is None else {"task": task}
    answer = {"jsonrpc": "2.0", "id": call["id"], "result": result}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


def publish(folder: Path, address: str) -> None:
    """Everything that an issuer does once."""
    card = CARD.read_text().replace("https://harbour.example", address)
    (folder / "card.json").write_text(card.replace('"streaming": true', '"streaming": false'))
    passphrase = {"CARDSIGN_PASSPHRASE": secrets.token_urlsafe(16)}
    for command in (
        f"init --issuer {address} --recovery-out recovery.key --keystore keys",
        "sign card.json -o signed.json",
        "release renew --card signed.json",
        "publish signed.json",
    ):
        subprocess.run(
            [*CARDSIGN, *command.split()],
            check=True,
            cwd=folder,
            env=os.environ | passphrase,
            capture_output=True,
        )


def serve_in_background(folder: Path, server: WSGIServer) -> None:
    """Serve for as long as the process that started this one lives."""
    parent = os.getppid()
    if os.fork():
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # so that nobody waits for the end of what this prints
        os.dup2(nowhere, stream)
    server.set_app(mount_cards(agent, folder / "public"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while is_alive(parent):
        time.sleep(0.5)
    shutil.rmtree(folder)
    os._exit(0)


def is_alive(process: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> None:
    """Set up, serve, say where."""
    server = make_server("127.0.0.1", 0, agent)
    address = f"http://127.0.0.1:{server.server_port}"
    folder = Path(tempfile.mkdtemp(prefix="cardsign-peer-"))
    publish(folder, address)
    print(address, flush=True)
    serve_in_background(folder, server)


if __name__ == "__main__":
    main()
