"""What runs: `cardsign serve`, and `cardsign verify --serve`, each granian's ASGI server.

It is not granian's WSGI server: a WSGI environ has one name for ``X-Name`` and ``X_Name``, and so
a client's header would pass for the proxy's. The ASGI adapter drops names with an underscore.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from flask import Flask, Response, abort, request
from werkzeug import exceptions

from cardsign.errors import CardsignError, LocalFault, ServeFault, UsageFault, require
from cardsign.files import MAX_INPUT_BYTES, file_stamp
from cardsign.server import mount
from cardsign.server.a2a import NO_STORE, answer_error, json_response
from cardsign.server.app import REFUSAL, create_app
from cardsign.server.settings import DEFAULT_SETTINGS, LOOPBACK, ServerSettings, in_networks
from cardsign.server.site import Publications
from cardsign.server.tokens import read_tokens
from cardsign.trust.policy import SubjectNames
from cardsign.urls import is_this_machine

if TYPE_CHECKING:
    from cardsign.batch import Batch

log = logging.getLogger(__name__)

#: Seconds for the head of a request, and that requests under way are given at a shutdown.
HEADER_SECONDS: Final = 10
SHUTDOWN_SECONDS: Final = 3
#: Connections, idle ones too, beyond which granian accepts none.
BACKPRESSURE: Final = 8192
MAX_CHECKED: Final = 4 * 1024 * 1024  # bytes of settings in the memory of all processes
_SIGNAL_SECONDS: Final = 0.1
#: How long a policy, its lock and its statements count before they are read again.
FRESH_SECONDS: Final = 10.0
#: How long the body of a request may take, after its head. An honest caller has it at hand.
BODY_SECONDS: Final = 5.0
_JUDGED_AT_A_TIME: Final = 4


def serve(
    location: Path, read_settings: Callable[[], ServerSettings], bind: str, *, as_json: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT; says on stderr where, once requests are accepted.

    SIGHUP has settings and tokens read again, but for address, `workers`, `threads`, `access_log`.

    Args:
        location: A publication directory, or a folder of them, one for each agent.
        read_settings: Returns to whom it is served, and how.
        bind: ``HOST:PORT``, of this machine; port 0 is any free one.
        as_json: Say where as one JSON object on stdout as well, for programs that start this.

    Raises:
        UsageFault: ``usage.conflict`` of `bind`; ``usage.not_installed``; ``config.malformed``.
        ServeFault: ``serve.bind``, ``serve.worker_died``, ``serve.token_file``, and others of
            :class:`cardsign.server.site.Publications`.
    """
    log_to_stderr()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which would end a server that only starts
    host, port = split_address(bind, "--bind takes HOST:PORT")
    settings = read_settings()
    # A worker may be started again while the operator's file is broken. No lock: it may be killed.
    checked, reloads = multiprocessing.RawArray("c", MAX_CHECKED), multiprocessing.RawValue("L", 0)
    with (
        tempfile.TemporaryDirectory(prefix="cardsign-metrics-") as counters,
        contextlib.ExitStack() as stack,
    ):
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counters  # before anything imports the library
        check_settings(settings)
        publications = Publications(location, settings)  # fails before anything listens
        address = stack.enter_context(reserve_address(host, port))
        share(settings, checked)
        if not settings.behind_proxy and not in_networks(address[0], LOOPBACK):
            log.warning("slow clients can hold its threads: put a proxy in front (behind_proxy)")
        server = make_server(settings, address)

        def reload(*_: object) -> None:
            nonlocal publications
            try:
                settings = read_settings()
                check_settings(settings, is_running=True)
                newer = Publications(location, settings, previous=publications)
                share(settings, checked)
            except Exception as exc:  # noqa: BLE001  the boundary: the main thread has to go on
                log.error("the settings stay as they were: %s", exc)
                return
            publications.stopped.set()
            publications = newer
            publications.start_watching()
            reloads.value += 1
            log.info("reading settings and tokens again")

        @server.on_startup  # type: ignore[untyped-decorator]
        def start_parent() -> None:
            signal.signal(signal.SIGHUP, reload)  # granian's own would end each worker
            publications.start_watching()
            announce(address, "serving on", as_json=as_json)

        run_server(server, partial(Worker, location, checked, reloads))


def share(settings: ServerSettings, checked: Any) -> None:
    """Write settings into the memory that workers share; ValueError if they are too long."""
    data = pickle.dumps(settings)
    checked[: len(data)] = data


def check_settings(settings: ServerSettings, *, is_running: bool = False) -> None:
    """Check what the settings name, before anything is served by them.

    Args:
        settings: As they were read.
        is_running: Tokens may be gone, which revokes them.

    Raises:
        FileFault: A token file cannot be read.
        ServeFault: ``serve.token_file``.
        UsageFault: ``usage.not_installed``.
    """
    for path in [settings.token_file, *(provider.token_file for provider in settings.providers)]:
        if path is not None and not (is_running and file_stamp(path) is None):
            read_tokens(path)
    if settings.metrics:
        require("prometheus_client", extra="metrics")


def make_server(settings: ServerSettings, address: tuple[str, int] | Path) -> Any:
    """Return granian's server at an address, or at a socket that is its owner's alone."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    stderr = {"class": "logging.StreamHandler", "stream": "ext://sys.stderr"}
    where: dict[str, Any] = {"uds": address, "uds_permissions": 0o600}
    if not isinstance(address, Path):
        where = {"address": address[0], "port": address[1]}
    server: Any = Granian(
        "cardsign",
        **where,
        interface=Interfaces.ASGINL,
        workers=settings.workers,
        backpressure=BACKPRESSURE,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_SECONDS * 1000),
        websockets=False,
        respawn_failed_workers=settings.workers > 1,  # if it is alone, the service ends
        workers_kill_timeout=SHUTDOWN_SECONDS,
        log_level=LogLevels.error,
        log_access=settings.access_log,
        # It would talk on stdout, which is for data.
        log_dictconfig={"handlers": {"console": stderr, "access": stderr}},
        # No path can forge a line, nor write to a terminal; what a query holds is the client's.
        log_access_format="%(addr)s [%(time)s] %(method)s %(path).256a %(status)d %(dt_ms).1f ms",
    )
    server.main_loop_interrupt = SignalFlag()
    return server


def run_server(server: Any, load: Callable[[], Any]) -> None:
    """Serve what `load` returns in a worker, until SIGTERM or SIGINT.

    A terminal sends SIGINT to the workers as well, and systemd SIGTERM. So they may end before the
    parent has told them to, which is no fault while it stops.

    Raises:
        ServeFault: ``serve.worker_died``.
    """

    def is_news(record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("Unexpected exit"):
            return True
        time.sleep(2 * _SIGNAL_SECONDS)  # until the parent has seen a signal that both have got
        return server.workers > 1 and not server.interrupt_signal  # of one the fault below tells

    logging.getLogger("_granian").addFilter(is_news)
    try:
        server.serve(target_loader=load, wrap_loader=False)
    except SystemExit as exc:  # granian's way to say that the worker ended unasked
        if not server.interrupt_signal:
            raise ServeFault("serve.worker_died", "the worker process ended by itself") from exc


class SignalFlag:
    """What the parent waits for: a signal, or the end of a worker.

    granian has a `threading.Event` here, which its signal handler sets. A handler that runs
    while the event holds its lock waits for itself, and a signal that another thread receives
    does not wake the main thread. Either way the server would never stop.
    """

    is_set = False

    def set(self) -> None:
        """End the wait."""
        self.is_set = True

    def clear(self) -> None:
        """Let the next wait last until `set` is called again."""
        self.is_set = False

    def wait(self) -> None:
        """Wait until the flag is set."""
        while not self.is_set:
            time.sleep(_SIGNAL_SECONDS)


class Worker:
    """The ASGI application of one worker, made anew when settings are read again.

    It is made in the worker's process, which need not be a fork.

    Args:
        location: What is served, as :class:`cardsign.server.site.Publications` has it.
        checked: The settings that the parent has read and checked, pickled.
        reloads: Counts how often it has.
    """

    def __init__(self, location: Path, checked: Any, reloads: Any) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it is for the parent
        log_to_stderr()
        for name in ("cardsign.events", "cardsign.server.site"):  # the parent says it once
            logging.getLogger(name).disabled = True
        self._location, self._checked = location, checked
        self._reloads, self._loaded = reloads, reloads.value
        self._app = self._load()
        settings: ServerSettings = self._app.extensions["cardsign"].settings
        self._threads = ThreadPoolExecutor(settings.threads, "cardsign")
        follow_parent(self._reload)

    async def __call__(self, scope: mount.Scope, receive: mount.Receive, send: mount.Send) -> None:
        """Answer a request, in a thread if it needs one."""
        environ = mount.make_environ(scope, receive)
        # Another thread exchanges the application. It is read once, so that the settings by which
        # it answers also decide whether it may wait: if not, that would stop the event loop.
        app = self._app
        settings = app.extensions["cardsign"].settings
        threads = self._threads if mount.needs_thread(environ, settings) else None
        await mount.answer_by_wsgi(app, environ, send, threads)

    def _load(self, previous: Publications | None = None) -> Flask:
        settings = pickle.loads(self._checked[:])  # noqa: S301  of our own parent
        publications = Publications(self._location, settings, previous=previous)
        app = create_app(publications)
        publications.wait_for_others()
        publications.start_watching()
        return app

    def _reload(self) -> None:
        """Read settings and tokens again if the parent has."""
        if self._reloads.value == self._loaded:
            return
        self._loaded, replaced = self._reloads.value, self._app.extensions["cardsign"]
        try:
            self._app = self._load(replaced)
            replaced.stopped.set()
        except Exception:  # the boundary: a worker goes on whatever its settings say
            log.exception("still serving by the settings that were read before")


def announce(address: tuple[str, int] | Path, words: str, *, as_json: bool) -> None:
    """Say where requests are answered, once they are: in a line, and perhaps as JSON on stdout."""
    family, url = socket.AF_UNIX, f"unix:{address}"
    if not isinstance(address, Path):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        url = make_url(address)

    def wait_and_say() -> None:
        with socket.socket(family) as client:
            while client.connect_ex(str(address) if isinstance(address, Path) else address):
                time.sleep(0.02)
        if as_json:
            print(json.dumps({"url": url}), flush=True)
        log.info("%s %s", words, url)

    threading.Thread(target=wait_and_say, daemon=True).start()


def follow_parent(look: Callable[[], None] = lambda: None) -> None:
    """Look once a second, and end this worker when its parent was killed.

    A worker left alone would go on answering at the port, and nothing would stop it.
    """
    parent = os.getppid()

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(1)
            look()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def log_to_stderr() -> None:
    """Write what the server has to say to stderr, a line each; events as the JSON that they are."""

    def add_prefix(record: logging.LogRecord) -> bool:
        warning = "warning: " if record.levelno == logging.WARNING else ""
        # The message of an event is JSON.
        record.prefix = "" if record.name == "cardsign.events" else f"cardsign: {warning}"
        return True

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(add_prefix)
    handler.setFormatter(logging.Formatter("%(prefix)s%(message)s"))
    logger = logging.getLogger("cardsign")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    logging.getLogger("flask-limiter").handlers = [handler]  # it logs that Redis cannot be reached


def split_address(text: str, expected: str) -> tuple[str, int]:
    """Return the host and the port of ``HOST:PORT``.

    Raises:
        UsageFault: ``usage.conflict``: it is none; the message begins with what is expected.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageFault("usage.conflict", f"{expected}, not {text!r}")
    return host.strip("[]"), int(port)


@contextlib.contextmanager
def reserve_address(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Hold an address that no other process listens on, for granian to listen on.

    granian binds with SO_REUSEPORT, by which a second server would start without a word and
    get a share of the requests. This socket is bound without it, so that it fails beside
    anybody else; it never listens, and lets granian in afterwards.
    """
    with contextlib.ExitStack() as stack:
        try:
            family, _, _, _, sockaddr = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            reserved = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            # Beside the remains of closed connections (TIME_WAIT), but not beside one who listens.
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(sockaddr)
            address, free_port, *_ = reserved.getsockname()
            if sys.platform == "linux":
                # So that it fails beside a server that does not listen yet: a name, and no file.
                starting = stack.enter_context(socket.socket(socket.AF_UNIX))
                starting.bind(f"\0cardsign {address} {free_port}")
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            else:
                reserved.close()  # elsewhere granian's socket would not be let in
        except (OSError, UnicodeError) as exc:
            message = f"{make_url((host, port))} cannot be bound: {exc}"
            raise ServeFault("serve.bind", message) from exc
        yield address, free_port


def make_url(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# Verdicts for programs in other languages, on this machine alone.


def serve_verdicts(open_batch: Callable[[], Batch], where: str, *, as_json: bool = False) -> None:
    """Answer ``POST /verify`` until SIGTERM or SIGINT. Nothing is fetched.

    Args:
        open_batch: Reads the policy and all that goes with it. Can be pickled.
        where: ``HOST:PORT`` of this machine, or the path of a socket, which is its owner's alone.
        as_json: Say where as one JSON object on stdout as well, once requests are answered.

    Raises:
        UsageFault: ``usage.conflict``: it is no address of this machine.
        ServeFault: ``serve.bind``; ``serve.worker_died``.
        LocalFault: As `open_batch`.
    """
    open_batch()  # what is wrong with it is said before anything listens
    with hold_place(where) as address:
        server = make_server(DEFAULT_SETTINGS, address)

        @server.on_startup  # type: ignore[untyped-decorator]
        def start_parent() -> None:
            log_to_stderr()
            server.bind_uds = None  # granian would remove whatever is there at the end
            announce(address, "answering POST /verify at", as_json=as_json)

        run_server(server, partial(_load_verdicts, open_batch, isinstance(address, Path)))


def _load_verdicts(open_batch: Callable[[], Batch], by_socket: bool) -> mount.AsgiApp:
    log_to_stderr()
    follow_parent()
    return answer_whole_requests(create_verdict_app(open_batch, by_socket=by_socket))


def create_verdict_app(open_batch: Callable[[], Batch], *, by_socket: bool = False) -> Flask:
    """Return the application that answers ``POST /verify`` with a verdict, as JSON.

    The body is the card as received. `issuer`, `url`, `origin` and `audience` in the query say
    whose card it must be, as for :meth:`cardsign.Verifier.examine`. The status is 200 whatever the
    verdict is, and 503 while the policy or its lock cannot be read, as that of ``GET /healthz``.
    """
    app = Flask("cardsign-verdicts", static_folder=None)
    app.before_request(partial(_refuse_strangers, by_socket))
    app.register_error_handler(CardsignError, _show_fault)
    app.register_error_handler(exceptions.HTTPException, answer_error)

    @lru_cache(maxsize=1)
    def read_at(_: int) -> Batch:
        return open_batch()

    def read_rules() -> Batch:
        # Other commands raise the lock and fill the cache, while this server goes on for years.
        return read_at(int(time.monotonic() / FRESH_SECONDS))

    @app.get("/healthz")
    def show_health() -> Response:
        read_rules()
        return json_response({"status": "ok"}, 200, NO_STORE)

    @app.post("/verify")
    def verify() -> Response:
        batch, names = read_rules(), cast(SubjectNames, request.args.to_dict())
        subject = batch.subject
        try:
            if names or subject.is_nobody:
                subject = batch.verifier.subject_of(names, needed=True)
        except TypeError as exc:
            raise UsageFault("usage.invalid", str(exc)) from exc
        report = batch.verifier.judge(request.get_data(), subject, batch.statements)
        return json_response(report.to_json(), 200, ())

    return app


def _refuse_strangers(by_socket: bool) -> None:
    # A page in a browser could reach a port by a name of its own (DNS rebinding), but no socket.
    if not by_socket and not is_this_machine(urlsplit(f"//{request.host}").hostname or ""):
        abort(421)
    if REFUSAL in request.environ:
        raise request.environ[REFUSAL]


def _show_fault(fault: CardsignError) -> Response:
    # These two are mistakes of the caller; every other LocalFault is ours.
    is_callers = fault.code in ("usage.invalid", "policy.unknown_issuer")
    if is_ours := isinstance(fault, LocalFault) and not is_callers:
        log.error("%s", fault)
    return json_response({"error": fault.finding.to_json()}, 503 if is_ours else 400, NO_STORE)


def answer_whole_requests(app: Flask) -> mount.AsgiApp:
    """Return the ASGI application that reads a request whole, and then has `app` answer it.

    A client that sends nothing holds a connection, and no thread. A card waits for one of a few
    threads, and a question about health for none.
    """
    judging = ThreadPoolExecutor(_JUDGED_AT_A_TIME, "cardsign")
    # Also a question about health may have to read the policy, from a disk that is slow.
    others = ThreadPoolExecutor(1, "cardsign-health")

    async def answer(scope: mount.Scope, receive: mount.Receive, send: mount.Send) -> None:
        """Answer a request; a body that is too long or too slow is not read to its end."""
        environ, body = mount.make_environ(scope), b""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body, _, is_whole = await mount.read_ahead(receive, MAX_INPUT_BYTES)
            if len(body) > MAX_INPUT_BYTES:
                environ[REFUSAL] = exceptions.RequestEntityTooLarge()
            elif not is_whole:
                environ[REFUSAL] = exceptions.ClientDisconnected()
        except TimeoutError:
            environ[REFUSAL] = exceptions.RequestTimeout()
        environ |= {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        threads = judging if scope["method"] == "POST" else others
        await mount.answer_by_wsgi(app, environ, send, threads)

    return answer


@contextlib.contextmanager
def hold_place(where: str) -> Iterator[tuple[str, int] | Path]:
    """Hold an address of this machine, or take the place of a socket at which nobody listens."""
    if "/" not in where:
        host, port = split_address(where, "--serve takes HOST:PORT or a path with a slash")
        if not is_this_machine(host):
            hint = "Serve other machines through a proxy that authenticates them."
            raise UsageFault("usage.conflict", f"{host} is not this machine", hint=hint)
        with reserve_address(host, port) as address:
            yield address
        return
    path = Path(where)
    try:
        with socket.socket(socket.AF_UNIX) as client, socket.socket(socket.AF_UNIX) as trial:
            client.setblocking(False)
            if path.is_socket() and client.connect_ex(where) == errno.ECONNREFUSED:
                path.unlink()
            trial.bind(where)  # since granian says nothing of use
        path.unlink()
    except (OSError, ValueError) as exc:
        hint = "Name a socket of your own, in a folder that is there."
        raise ServeFault("serve.bind", str(exc), path=where, hint=hint) from exc
    yield path
