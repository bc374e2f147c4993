"""The programs of the tests of serving: `cardsign serve` as an operator runs it, nginx, Redis."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.net.authorities import Authority
from tests.support import workers_of

ROOT = Path(__file__).resolve().parents[2]
#: Seconds, for what happens at once on an idle machine; far more than any busy one takes.
PATIENCE = 120.0


def blocks(language: str, guide: str = "serve.md") -> list[str]:
    """The files of one kind that a guide shows."""
    text = (ROOT / "docs/guides" / guide).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool]) -> None:
    """Until something has come about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    """Until a process listens on a port."""

    def is_listening() -> bool:
        assert process.poll() is None, "it ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    wait_until(is_listening)


def is_gone(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@contextlib.contextmanager
def ended(
    process: subprocess.Popen[Any], how: signal.Signals = signal.SIGTERM
) -> Iterator[subprocess.Popen[Any]]:
    """A process, ended with all that it started."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        process.communicate(timeout=PATIENCE)


@contextlib.contextmanager
def launched(
    command: list[str], folder: Path, port: int, **environment: str
) -> Iterator[subprocess.Popen[Any]]:
    """A program, run in a folder, once it listens on the port."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with ended(process):
        wait_for(port, process)
        yield process


def started(
    module: str, folder: Path, port: int, **environment: str
) -> contextlib.AbstractContextManager[subprocess.Popen[Any]]:
    """A module of Python with its arguments, likewise."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", *module.split()]
    return launched(command, folder, port, PYTHONPATH=path, **environment)


@dataclass
class Running:
    """A running `cardsign serve`.

    Attributes:
        process: The parent process; leader of a process group of its own.
        url: Where it says that it serves.
        log_path: What it writes to stderr.
    """

    process: subprocess.Popen[str]
    url: str
    log_path: Path

    @property
    def port(self) -> int:
        """Of its address."""
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> list[str]:
        """The lines of stderr."""
        return self.log_path.read_text().splitlines()

    @property
    def workers(self) -> set[int]:
        """The processes that answer."""
        return workers_of(self.process.pid)

    def get(self, path: str = "/.well-known/agent-card.json", **headers: str) -> httpx.Response:
        """An answer over a connection of its own, by whichever worker takes it."""
        return httpx.get(self.url + path, headers=headers, trust_env=False, timeout=PATIENCE)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; the exit status, and what else was said on stdout."""
        self.process.send_signal(how)
        out, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out


@contextlib.contextmanager
def running(
    folder: Path, settings: str = "", *, bind: str = "127.0.0.1:0", **environment: str
) -> Iterator[Running]:
    """`cardsign serve` of what is published in `pub`, killed at the end if it still runs."""
    (folder / "serve.toml").write_text(f"format = 1\n{settings}")
    command = [sys.executable, "-m", "cardsign", "serve", "pub", "--settings", "serve.toml"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--bind", bind, "--json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        with ended(process, signal.SIGKILL):
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            yield Running(process, json.loads(line)["url"], folder / "log")


# ------------------------------------------------------------------ nginx


@contextlib.contextmanager
def nginx(folder: Path, authority: Authority, config: str, **changes: str) -> Iterator[str]:
    """nginx with a file of the guide, its places moved here; the URL."""
    port, own = free_port(), str(authority.certificate("127.0.0.1", "tides.example"))
    (folder / "clients.pem").write_text(authority.pem())
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/tides.pem": own,
        "/etc/ssl/private/tides.key": own,
        "/etc/ssl/clients.pem": str(folder / "clients.pem"),
        **changes,
    }.items():
        config = config.replace(old, new)
    with run_nginx(folder, config, port):
        yield f"https://127.0.0.1:{port}"


@contextlib.contextmanager
def run_nginx(folder: Path, config: str, port: int) -> Iterator[None]:
    """nginx with these servers, once it listens on the port."""
    places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    config = "\n".join([*(f"{place}_temp_path {folder}/{place};" for place in places), config])
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log stderr; worker_processes 1; {user}\n"
        f"events {{}}\nhttp {{ access_log off; {config} }}\n"
    )
    command = [str(shutil.which("nginx")), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    tried = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
    with launched(command, folder, port):
        yield


def asking(authority: Authority, certificate: Path | None = None) -> httpx.Client:
    """A client that trusts the authority, perhaps with a certificate of its own."""
    context = authority.client()
    if certificate is not None:
        context.load_cert_chain(certificate)
    return httpx.Client(verify=context, trust_env=False, timeout=PATIENCE)


# ------------------------------------------------------------------ Redis


def redis(folder: Path, port: int) -> contextlib.AbstractContextManager[subprocess.Popen[Any]]:
    """A Redis of our own, which keeps nothing."""
    command = [str(shutil.which("redis-server")), "--port", str(port), "--bind", "127.0.0.1"]
    return launched([*command, "--save", "", "--appendonly", "no"], folder, port)
