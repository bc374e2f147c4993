"""Running the application under granian: one process that listens, one that watches it."""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cardsign.errors import ServeFault
from cardsign.server.events import to_stderr
from cardsign.server.host import Host
from cardsign.server.rsgi import Gate, RsgiApplication, Witness
from cardsign.server.settings import ServerSettings

if TYPE_CHECKING:
    from multiprocessing.synchronize import Lock

    from cardsign.server.metrics import Metrics

#: Seconds that requests under way are given at a shutdown.
SHUTDOWN_SECONDS: Final = 3
_START_SECONDS: Final = 30.0
_RESPAWN_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.02

# granian would talk on stdout, which is for data.
_LOG_HANDLER: Final = {"class": "logging.StreamHandler", "stream": "ext://sys.stderr"}
_LOG_CONFIG: Final[dict[str, Any]] = {
    "handlers": {"console": _LOG_HANDLER, "access": _LOG_HANDLER},
}


def serve(
    directory: Path, settings: ServerSettings, host: str, port: int, *, as_json: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT; says on stderr where, once requests are accepted.

    Args:
        directory: A publication directory, or a folder of them, one for each agent.
        settings: To whom it is served, and how.
        host: A name or address of this machine.
        port: 0 for any free one.
        as_json: Say where as one JSON object on stdout as well, for programs that start this.

    Raises:
        UsageFault: ``usage.not_installed``: metrics are wanted; ``config.malformed``: no rate, or
            no storage for it.
        ServeFault: ``serve.bind``, ``serve.worker_died``, and what
            :class:`cardsign.server.Host` raises.
        FileFault: A published file cannot be read.
    """
    Host(directory, settings, log=_unsaid, events=_unsaid)  # fail before listening
    if settings.rate:
        from cardsign.server.traffic import RateLimit

        RateLimit(settings.rate, settings.rate_storage, _unsaid)
    with _counted(settings), _reserved(host, port) as (address, free_port):
        make = partial(Host, directory, settings)
        _run(make, address, free_port, as_json, settings.workers)


@contextlib.contextmanager
def _counted(settings: ServerSettings) -> Iterator[None]:
    """A folder for the counters of all workers, where metrics are wanted."""
    if not settings.metrics:
        yield
        return
    from cardsign.server.metrics import FOLDER, check_installed

    check_installed()
    with tempfile.TemporaryDirectory(prefix="cardsign-metrics-") as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


def _run(make: Callable[[], Host], address: str, port: int, as_json: bool, workers: int) -> None:
    from granian import Granian
    from granian.constants import Interfaces, Loops
    from granian.log import LogLevels

    server = Granian(
        "cardsign",
        address=address,
        port=port,
        interface=Interfaces.RSGI,
        loop=Loops.auto,  # uvloop where it is installed (extra `fast`)
        websockets=False,
        workers=workers,
        respawn_failed_workers=workers > 1,  # if it is alone, the service ends
        respawn_interval=_RESPAWN_SECONDS,
        log_level=LogLevels.error,
        log_dictconfig=_LOG_CONFIG,
        workers_kill_timeout=SHUTDOWN_SECONDS,
    )
    try:
        unsaid = multiprocessing.Lock()  # whichever worker takes it says where; nobody releases it
        loader = partial(_load, make, (address, port), os.getpid(), as_json, unsaid)
        server.serve(target_loader=loader, wrap_loader=False)
    except SystemExit as exc:  # granian's way to say that the worker ended unasked
        raise ServeFault("serve.worker_died", "the worker process ended by itself") from exc


def _load(
    make: Callable[[], Host],
    address: tuple[str, int],
    parent: int,
    as_json: bool,
    unsaid: Lock,
) -> Any:
    """Make the RSGI application; called in the worker process, which need not be a fork."""
    live = make()
    watched = (live, address, parent, as_json, unsaid)
    threading.Thread(target=_watch, args=watched, daemon=True).start()
    settings = live.settings
    application: Host | Metrics = live
    witnesses: list[Witness] = []
    gate: Gate | None = None
    if settings.rate:
        from cardsign.server.traffic import RateGate

        gate = RateGate(settings, now=time.time)
    if settings.access_log:
        from cardsign.server.traffic import AccessLog

        witnesses.append(AccessLog(settings, now=time.time))
    if settings.metrics:
        from cardsign.server.metrics import Metrics

        application = metrics = Metrics(live)
        witnesses.append(metrics.count)
    return RsgiApplication(
        application,
        prepared=live.prepared,
        at_once=application.at_once,
        may_wait=live.may_wait,
        gate=gate,
        witnesses=tuple(witnesses),
    )


def _unsaid(line: str) -> None:
    """The worker will say it."""


def _watch(live: Host, address: tuple[str, int], parent: int, as_json: bool, unsaid: Lock) -> None:
    """Say once, for all workers, when requests are accepted; end this one if its parent is killed.

    A worker left alone would go on answering at the port, and nothing would stop it.
    """
    deadline = time.monotonic() + _START_SECONDS
    while not _accepts(address) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    if unsaid.acquire(block=False):
        _say(live, _url(address), as_json)
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _say(live: Host, url: str, as_json: bool) -> None:
    number, count = live.number, len(live.agents)
    if as_json:
        said = {"generation": number} if number else {"agents": count}
        print(json.dumps({**said, "url": url}), flush=True)
    what = f"generation {number}" if number else f"{count} agents"
    to_stderr(f"serving {what} on {url}")


def _accepts(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _reserved(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Hold an address that no other process listens on, for granian to listen on.

    granian binds with SO_REUSEPORT, by which a second server would start without a word and
    get a share of the requests. This socket is bound without it, so that it fails beside
    anybody else; it never listens, and lets granian in afterwards.
    """
    try:
        family, _, _, _, wanted = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        held = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        raise ServeFault("serve.bind", f"{host} is no address of this machine: {exc}") from exc
    with held:
        try:
            _bind(held, wanted)
        except OSError as exc:
            where = _url((host, port)).removeprefix("http://")
            if exc.errno == errno.EADDRINUSE:
                raise ServeFault(
                    "serve.bind",
                    f"{where} is in use",
                    hint="Stop the other server or choose another port with --bind.",
                ) from exc
            raise ServeFault("serve.bind", f"{where} cannot be bound: {exc.strerror}") from exc
        address, free_port, *_ = held.getsockname()
        if sys.platform == "linux":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        else:
            held.close()  # elsewhere granian's socket would not be let in
        yield address, free_port


def _bind(held: socket.socket, address: Any) -> None:
    """Bind alone if possible, else beside the remains of closed connections (TIME_WAIT)."""
    try:
        held.bind(address)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            raise
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)


def _url(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
