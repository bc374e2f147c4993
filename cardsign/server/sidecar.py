"""``cardsign verify --serve``: verdicts for programs in other languages, on this machine alone."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from flask import Flask, abort, jsonify, request
from werkzeug.exceptions import HTTPException

from cardsign.errors import CardsignError, ServeFault, UsageFault
from cardsign.files import MAX_INPUT_BYTES
from cardsign.server.run import (
    leave_stop_to_parent,
    log_to_stderr,
    make_server,
    make_url,
    reserve_address,
    run_server,
)
from cardsign.server.settings import ServerSettings
from cardsign.trust.policy import SubjectNames
from cardsign.urls import is_this_machine

if TYPE_CHECKING:
    from flask import Response

    from cardsign.batch import Batch

log = logging.getLogger(__name__)

#: How long a policy, its lock and its statements count before they are read again.
FRESH_SECONDS: Final = 10.0


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
    with _bound(where) as address:
        server = make_server(ServerSettings(), address)
        url = f"unix:{address}" if isinstance(address, Path) else make_url(address)
        loader = partial(_load_worker, open_batch, url, os.getpid(), as_json=as_json)
        run_server(server, loader)


def create_verdict_app(
    open_batch: Callable[[], Batch], *, fresh_seconds: float = FRESH_SECONDS
) -> Flask:
    """Return the application that answers ``POST /verify`` with a verdict, as JSON.

    The body is the card as received. `issuer`, `url`, `origin` and `audience` in the query say
    whose card it must be, as for :meth:`cardsign.Verifier.examine`. The status is 200 whatever the
    verdict is.
    """
    app = Flask("cardsign-verdicts", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_INPUT_BYTES
    app.json.sort_keys = False  # type: ignore[attr-defined]
    rules = _Rules(open_batch, fresh_seconds)

    @app.before_request
    def refuse_other_names() -> None:
        # A page in a browser could reach this server by a name of its own (DNS rebinding).
        if not is_this_machine(urlsplit(f"//{request.host}").hostname or ""):
            abort(421)

    @app.post("/verify")
    def verify() -> Response:
        batch, names = rules.read(), request.args.to_dict()
        unknown = names.keys() - SubjectNames.__annotations__.keys()
        if unknown or len(names.keys() & {"issuer", "url", "origin"}) > 1:
            message = "the query takes one of issuer, url and origin, and audience"
            raise UsageFault("usage.invalid", message)
        subject = batch.verifier.subject_of(names) if names else batch.subject  # type: ignore[arg-type]
        report = batch.verifier.judge(request.get_data(), subject, batch.statements)
        return jsonify(report.to_json())

    @app.errorhandler(CardsignError)
    def show_fault(fault: CardsignError) -> tuple[Response, int]:
        return jsonify(error=fault.finding.to_json()), 400

    @app.errorhandler(HTTPException)
    def show_refusal(refusal: HTTPException) -> tuple[Response, int]:
        return jsonify(error={"message": refusal.description}), refusal.code or 500

    return app


class _Rules:
    """The policy and its lock, which are read again after some seconds; broken ones are not taken.

    Other commands raise the lock and fill the cache, while this server goes on for years.
    """

    def __init__(self, open_batch: Callable[[], Batch], fresh_seconds: float) -> None:
        self._open, self._fresh_seconds = open_batch, fresh_seconds
        self._guard = threading.Lock()
        self._batch, self._until = open_batch(), time.monotonic() + fresh_seconds

    def read(self) -> Batch:
        """Return what cards are judged by now."""
        with self._guard:
            if time.monotonic() >= self._until:
                try:
                    self._batch = self._open()
                except CardsignError as fault:
                    log.error("cards are judged by what was read before: %s", fault)
                self._until = time.monotonic() + self._fresh_seconds
            return self._batch


def _load_worker(open_batch: Callable[[], Batch], url: str, parent: int, *, as_json: bool) -> Flask:
    """Return the application in its worker, which ends with the process that has started it."""

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    leave_stop_to_parent()
    log_to_stderr()
    app = create_verdict_app(open_batch)
    threading.Thread(target=end_with_parent, daemon=True).start()
    if as_json:
        print(json.dumps({"url": url}), flush=True)
    log.info("answering POST /verify at %s", url)
    return app


@contextmanager
def _bound(where: str) -> Iterator[tuple[str, int] | Path]:
    """Hold an address of this machine, or take the place of the socket of an earlier run."""
    if "/" in where:
        path = Path(where)
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise ServeFault("serve.bind", "there is a file that is no socket", path=where)
            path.unlink()
        yield path
        return
    host, colon, port = where.rpartition(":")
    host = host.strip("[]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageFault(
            "usage.conflict", f"--serve takes HOST:PORT or the path of a socket, not {where!r}"
        )
    if not is_this_machine(host):
        hint = "Serve other machines through a proxy that authenticates them."
        raise UsageFault("usage.conflict", f"{host} is not this machine", hint=hint)
    with reserve_address(host, int(port)) as address:
        yield address
