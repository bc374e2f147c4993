"""``cardsign verify --serve``: verdicts for programs in other languages, on this machine alone.

A request is read whole before a thread judges it, so that a slow sender keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from flask import Flask, abort, jsonify, request
from werkzeug import exceptions

from cardsign.errors import CardsignError, LocalFault, UsageFault, closest
from cardsign.files import MAX_INPUT_BYTES
from cardsign.server.a2a import NO_STORE, json_response
from cardsign.server.app import REFUSAL
from cardsign.server.mount import Receive, Scope, Send, answer_by_wsgi, make_environ, read_ahead
from cardsign.trust.policy import SubjectNames
from cardsign.urls import is_this_machine

if TYPE_CHECKING:
    from flask import Response

    from cardsign.batch import Batch

log = logging.getLogger(__name__)

#: How long a policy, its lock and its statements count before they are read again.
FRESH_SECONDS: Final = 10.0
#: How long the body of a request may take, after its head. An honest caller has it at hand.
BODY_SECONDS: Final = 5.0
_JUDGED_AT_A_TIME: Final = 4
#: Faults of the caller; any other is one of this machine.
_ASKED_WRONGLY: Final = ("usage.invalid", "policy.unknown_issuer")


def create_verdict_app(open_batch: Callable[[], Batch]) -> Flask:
    """Return the application that answers ``POST /verify`` with a verdict, as JSON.

    The body is the card as received. `issuer`, `url`, `origin` and `audience` in the query say
    whose card it must be, as for :meth:`cardsign.Verifier.examine`. The status is 200 whatever the
    verdict is, and 503 while the policy or its lock cannot be read, as that of ``GET /healthz``.
    """
    app = Flask("cardsign-verdicts", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    rules, read_at, guard = open_batch(), time.monotonic(), threading.Lock()

    def read_rules() -> Batch:
        # Other commands raise the lock and fill the cache, while this server goes on for years.
        nonlocal rules, read_at
        with guard:
            if time.monotonic() >= read_at + FRESH_SECONDS:
                rules, read_at = open_batch(), time.monotonic()
            return rules

    @app.before_request
    def refuse() -> None:
        # A page in a browser could reach this server by a name of its own (DNS rebinding).
        if not is_this_machine(urlsplit(f"//{request.host}").hostname or ""):
            abort(421)
        if REFUSAL in request.environ:
            raise request.environ[REFUSAL]

    @app.get("/healthz")
    def show_health() -> Response:
        try:
            read_rules()
        except CardsignError as fault:
            failing: Any = {"status": "failing", "error": fault.finding.to_json()}
            return json_response(failing, 503, NO_STORE)
        return json_response({"status": "ok"}, 200, NO_STORE)

    @app.post("/verify")
    def verify() -> Response:
        batch, names = read_rules(), request.args.to_dict()
        for name in names.keys() - SubjectNames.__annotations__.keys():
            near = closest(name, SubjectNames.__annotations__)
            raise _bad_question(f"the query has the unknown parameter {name!r}{near}")
        if len(named := names.keys() & {"issuer", "url", "origin"}) > 1:
            raise _bad_question(f"the query has {' and '.join(sorted(named))}")
        subject = batch.verifier.subject_of(names) if names else batch.subject  # type: ignore[arg-type]
        if subject.is_nobody:
            raise _bad_question("the query has none of the parameters issuer, url and origin")
        report = batch.verifier.judge(request.get_data(), subject, batch.statements)
        return jsonify(report.to_json())

    @app.errorhandler(CardsignError)
    def show_fault(fault: CardsignError) -> tuple[Response, int]:
        is_ours = isinstance(fault, LocalFault) and fault.code not in _ASKED_WRONGLY
        if is_ours:
            log.error("%s", fault)
        return jsonify(error=fault.finding.to_json()), 503 if is_ours else 400

    @app.errorhandler(exceptions.HTTPException)
    def show_http_error(error: exceptions.HTTPException) -> tuple[Response, int, dict[str, str]]:
        allowed = ", ".join(getattr(error, "valid_methods", None) or ())
        shown = jsonify(error={"code": str(error.code), "message": error.name})
        return shown, error.code or 500, {"Allow": allowed} if allowed else {}

    return app


def _bad_question(message: str) -> UsageFault:
    hint = "Name whose card it must be by one of issuer=NAME, origin=ORIGIN and url=URL."
    return UsageFault("usage.invalid", message, hint=hint)


class WholeRequests:
    """The ASGI application that reads a request whole, and then has `app` answer it.

    A client that sends nothing holds a connection, and no thread. A card waits for one of a few
    threads, and a question about health for none.
    """

    def __init__(self, app: Flask) -> None:
        self._app, self._threads = app, ThreadPoolExecutor(_JUDGED_AT_A_TIME, "cardsign")
        # Also a question about health may have to read the policy, from a disk that is slow.
        self._others = ThreadPoolExecutor(1, "cardsign-health")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a body that is too long or too slow is not read to its end."""
        environ, body = make_environ(scope), b""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body, _, is_whole = await read_ahead(receive, MAX_INPUT_BYTES)
            if len(body) > MAX_INPUT_BYTES:
                environ[REFUSAL] = exceptions.RequestEntityTooLarge()
            elif not is_whole:
                environ[REFUSAL] = exceptions.ClientDisconnected()
        except TimeoutError:
            environ[REFUSAL] = exceptions.RequestTimeout()
        environ |= {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        threads = self._threads if scope["method"] == "POST" else self._others
        await answer_by_wsgi(self._app, environ, send, threads)
