"""Verify many cards by the same policy: one verdict for each, in the order given.

What happens to one card hides no other. One function does the work: in this process, in worker
processes (``-j``), or on the workers of a Dask cluster (extra ``cluster``).
"""

from __future__ import annotations

import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from functools import lru_cache, partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from cardsign.errors import LocalFault, UsageFault, require
from cardsign.inputs import Data, read_data
from cardsign.urls import is_this_machine

#: Cards of a task at most: a message for each would cost half as much as a verification.
CHUNK: Final = 16
#: Tasks whose cards have been read and whose results are not used yet; more than workers of ``-j``.
AHEAD: Final = 96


def verify_many(
    cards: Sequence[tuple[str, str]],
    verify: Callable[[str, Data], Any],
    *,
    jobs: int = 1,
    cluster: str | None = None,
) -> Iterator[Any]:
    """Verify cards, and yield each result, in the order given.

    Args:
        cards: As :func:`cardsign.inputs.list_cards` returns them. Files are read here, and a
            worker asks URLs.
        verify: Returns the result on a name and its :data:`cardsign.inputs.Data`, and raises
            nothing. Workers are sent it once, with policy, lock and statements.
        jobs: Worker processes; 1 verifies in this process.
        cluster: The scheduler of a Dask cluster: ``tls://host:8786``, with the certificates of
            Dask's own settings; or ``tcp://`` and a loopback address.

    Raises:
        UsageFault: ``usage.invalid``: plain TCP to another machine; ``usage.not_installed``.
        LocalFault: ``cluster.unreachable``: no scheduler, or no worker; ``internal.ended``: a
            worker was killed, so the cards that follow have no result.
    """
    if cluster is None and min(jobs, len(cards)) <= 1:
        yield from (verify(*read_data(*card)) for card in cards)
        return
    work, size = partial(_work, pickle.dumps(verify)), min(CHUNK, len(cards) // AHEAD + 1)
    tasks: deque[futures.Future[list[Any]]] = deque()
    with _cluster(cluster, work) if cluster else _processes(jobs, work) as submit:
        try:
            for start in range(0, len(cards), size):
                tasks.append(submit([read_data(*card) for card in cards[start : start + size]]))
                if len(tasks) > AHEAD:
                    yield from tasks.popleft().result()
            for task in tasks:
                yield from task.result()
        finally:
            for task in tasks:  # of a reader who has left, or whose run has ended
                task.cancel()


#: What was sent, read once by each worker and not for each task.
_unpickled: Final = lru_cache(1)(pickle.loads)


#: Set in a worker by Ctrl-C.
_stopped: Final = Event()
#: Cards that were read, and the results on them.
Task: TypeAlias = Sequence[tuple[str, Data]]
Work: TypeAlias = Callable[[Task], list[Any]]


def _work(sent: bytes, cards: Task) -> list[Any]:
    verify, results = _unpickled(sent), []
    for card in cards:
        if _stopped.is_set():
            raise SystemExit
        results.append(verify(*card))
    return results


@contextmanager
def _processes(count: int, work: Work) -> Iterator[Callable[[Task], futures.Future[list[Any]]]]:
    """Yield what hands a task to the next worker process that is free.

    Each has a pipe and a thread of its own. The pools of the standard library have one pipe for
    all answers, and wait for ever for the rest of an answer whose worker was killed.
    """
    from multiprocessing import Pipe, Process

    idle, workers = SimpleQueue[Any](), list[Process]()

    def ask(task: Task) -> list[Any]:
        connection = idle.get()
        try:
            connection.send(task)
            results: list[Any] = connection.recv()
        except (EOFError, OSError) as exc:
            raise LocalFault("internal.ended", "a worker was killed") from exc
        finally:
            idle.put(connection)
        return results

    try:
        for _ in range(count):
            connection, remote = Pipe()
            workers.append(Process(target=_answer, args=(remote, work), daemon=True))
            workers[-1].start()
            remote.close()
            idle.put(connection)
        with futures.ThreadPoolExecutor(count) as pool:
            yield lambda task: pool.submit(ask, task)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _answer(connection: Any, work: Work) -> None:
    """Answer tasks, until Ctrl-C after the card in hand, or the end of the parent."""
    from multiprocessing import parent_process

    def end_with_parent() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, lambda *_: _stopped.set())
    Thread(target=end_with_parent, daemon=True).start()
    while True:
        connection.send(work(connection.recv()))


#: Seconds to wait for the scheduler of a cluster, and for its first worker.
PATIENCE: Final = 20


@contextmanager
def _cluster(url: str, work: Work) -> Iterator[Callable[[Task], futures.Future[list[Any]]]]:
    parts = urlsplit(url)
    is_here = parts.scheme == "tcp" and is_this_machine(parts.hostname or "")
    if not is_here and (parts.scheme != "tls" or not parts.hostname):
        why = "anybody who can read or change what is sent to a cluster decides its verdicts"
        hint = "Give tls://HOST:8786; plain tcp:// is for 127.0.0.1, ::1 and localhost."
        raise UsageFault("usage.invalid", f"{url!r}: {why}", hint=hint)
    dask = require("distributed", extra="cluster")
    security = dask.Security(require_encryption=not is_here)
    if not is_here and security.get_connection_args("client")["ssl_context"] is None:
        # A client without one would wait long, and then end with a traceback.
        hint = "Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY."
        raise UsageFault("usage.invalid", "it needs certificates", path=url, hint=hint)
    try:
        with dask.Client(url, security=security, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=PATIENCE)
            yield partial(client.get_executor(pure=False).submit, work)
    except (OSError, RuntimeError, dask.CancelledError, dask.KilledWorker) as exc:
        raise LocalFault("cluster.unreachable", str(exc)[:200], path=url) from exc
