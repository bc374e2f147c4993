"""A live peer on this machine, until the shell that started it ends; prints its URL.

``PEER=$(python examples/live_peer.py)``: Harbour Office is set up in a temporary folder as any
issuer is, by the commands below, and served by ``cardsign serve``. It is here to be verified: a
real one has a name, TLS, a root key that lies elsewhere, and a recovery key.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CARD = Path(__file__).parent / "cards" / "harbour.json"
CARDSIGN = [sys.executable, "-m", "cardsign"]


def publish(folder: Path, address: str) -> None:
    """Everything that an issuer does once."""
    (folder / "card.json").write_text(CARD.read_text().replace("https://harbour.example", address))
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


def serve_with_the_shell(folder: Path, port: int) -> None:
    """Serve in the background for as long as the session's first process lives."""
    command = [*CARDSIGN, "serve", str(folder / "public"), "--bind", f"127.0.0.1:{port}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    if not any("serving" in line for line in server.stderr):
        raise SystemExit("live_peer: cardsign serve did not start")
    shell = os.getsid(0)
    if os.fork():
        return
    for stream in (0, 1, 2):  # so that nobody waits for the end of what this prints
        os.close(stream)
    while is_alive(shell):
        time.sleep(0.5)
    os.kill(server.pid, signal.SIGTERM)
    shutil.rmtree(folder)


def is_alive(process: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> None:
    """Set up, serve, say where."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    folder = Path(tempfile.mkdtemp(prefix="cardsign-peer-"))
    publish(folder, address)
    print(address, flush=True)
    serve_with_the_shell(folder, port)


if __name__ == "__main__":
    main()
