"""Verify many cards: one verdict for each, as soon as it is reached.

What happens to one card hides no other: a crash, too little memory or a killed worker process
becomes the result of that one card.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.card.strictjson import MAX_CARD_BYTES, parse_object
from cardsign.errors import FileMissing, InputRefused, LocalFault, StateFault
from cardsign.files import PRIVATE_MODE, make_directory, read_bytes, write_atomic
from cardsign.records import dataclass
from cardsign.trust.policy import CardUrl, Issuer, Policy, PublicSubject
from cardsign.trust.state import NO_STATES, IssuerStates
from cardsign.trust.statements import NO_STATEMENTS, SuppliedStatements
from cardsign.verify.report import Report
from cardsign.verify.verdict import examine_card

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

#: Bytes of address space for each worker process; a card of the largest size needs a tenth.
WORKER_MEMORY: Final = 2 * 1024**3
#: Bytes of a log of checks: 200 for each of 10,000 cards.
MAX_CHECK_LOG_BYTES: Final = 2_000_000
#: Results that may wait for an earlier one, for each worker; it bounds what is held.
_AHEAD: Final = 16

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One file and its verdict.

    Attributes:
        path: The file.
        result: The verdict, or the fault of this machine that prevented one.
    """

    path: Path
    result: Report | LocalFault


def verify_many(
    paths: Iterable[Path],
    *,
    policy: Policy,
    now: datetime,
    expect: PublicSubject | None = None,
    supplied: SuppliedStatements = NO_STATEMENTS,
    states: IssuerStates = NO_STATES,
    jobs: int = 1,
) -> Iterator[BatchResult]:
    """Verify the cards in files, and yield one result for each, in the order given.

    Args:
        paths: The files.
        policy: Whom to trust.
        now: The time of all verdicts, aware.
        expect: Whose cards they all should be. None: each file is judged as a card of the issuer
            that the policy trusts for the card's first interface; see :func:`subject_by_origin`.
        supplied: Statements that came along.
        states: What is remembered of the issuers.
        jobs: Worker processes; 1 verifies in this process.
    """
    files = list(paths)
    examine = partial(
        _examine_file, policy=policy, now=now, expect=expect, supplied=supplied, states=states
    )
    for path, result in zip(files, in_processes(examine, files, jobs), strict=True):
        yield BatchResult(path, result)


def _examine_file(
    path: Path,
    *,
    policy: Policy,
    now: datetime,
    expect: PublicSubject | None,
    supplied: SuppliedStatements,
    states: IssuerStates,
) -> Report:
    untrusted_bytes = read_bytes(path, max_bytes=MAX_CARD_BYTES)
    subject = expect or subject_by_origin(untrusted_bytes, policy)
    return examine_card(
        untrusted_bytes, expect=subject, policy=policy, now=now, supplied=supplied, states=states
    )


def subject_by_origin(untrusted_bytes: bytes, policy: Policy) -> Issuer | None:
    """The trusted issuer whose origin holds the card's first interface, or None.

    The card itself names the interface, so this says only by whose keys to judge it: a verdict
    ``trusted`` means that the card is of that issuer, which the report names. To ask for the card
    of one issuer, name the issuer.
    """
    try:
        first = current_interfaces(Card.from_bytes(untrusted_bytes).document)[:1]
        found = policy.find(CardUrl(str(first[0].url))) if first else None
    except InputRefused:  # no card, or an interface that nobody may call
        return None
    return Issuer(found.name) if found is not None and not found.is_holder else None


# Worker processes.


def in_processes(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int
) -> Iterator[_Result | LocalFault]:
    """Do each task, and yield its result or the fault that ended it, in the order given.

    Args:
        work: Does one task. With several jobs it and its results must be picklable.
        tasks: What to do.
        jobs: How many worker processes; 1 works in this process.
    """
    if jobs <= 1 or len(tasks) <= 1:
        yield from (_attempt(work, task) for task in tasks)
        return
    pool: _Pool[_Task, _Result] = _Pool(work, min(jobs, len(tasks)))
    try:
        yield from pool.results(tasks)
    finally:
        pool.close()


def _attempt(work: Callable[[_Task], _Result], task: _Task) -> _Result | LocalFault:
    """The boundary: nothing that one task raises ends another."""
    try:
        return work(task)
    except LocalFault as fault:
        return fault
    except MemoryError:
        return LocalFault("internal.ended", "there was not enough memory")
    except Exception as crash:  # noqa: BLE001  it becomes the result
        return LocalFault("internal.bug", f"{type(crash).__name__}: {crash}"[:200])


def _serve(work: Callable[[Any], Any], tasks: Connection) -> None:
    """What a worker process does until it is told no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers
    _limit_memory()
    with suppress(EOFError, OSError):
        while True:
            tasks.send(_attempt(work, tasks.recv()))


def _limit_memory() -> None:
    """Let a worker run out of memory before this machine does."""
    with suppress(ImportError, ValueError, OSError):  # not on Windows; or a lower limit holds
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (WORKER_MEMORY, hard))


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    index: int | None = None  # of the task that it does


class _Pool(Generic[_Task, _Result]):
    """Worker processes; one that dies fails its task and is replaced."""

    def __init__(self, work: Callable[[_Task], _Result], size: int) -> None:
        import multiprocessing  # which one card does not need

        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        self._work = work
        self._workers = [self._start() for _ in range(size)]

    def results(self, tasks: Sequence[_Task]) -> Iterator[_Result | LocalFault]:
        """Each task's result, in order."""
        from multiprocessing.connection import wait

        waiting = deque(range(len(tasks)))
        done: dict[int, _Result | LocalFault] = {}
        for index in range(len(tasks)):
            while index not in done:
                for worker in self._workers:
                    if worker.index is None and waiting and waiting[0] < index + self._window:
                        self._give(worker, waiting.popleft(), tasks, done)
                busy = [worker for worker in self._workers if worker.index is not None]
                ready = wait([worker.pipe for worker in busy])
                for worker in busy:
                    if worker.pipe in ready:
                        self._take(worker, done)
            yield done.pop(index)

    @property
    def _window(self) -> int:
        return _AHEAD * len(self._workers)

    def _give(
        self,
        worker: _Worker,
        index: int,
        tasks: Sequence[_Task],
        done: dict[int, _Result | LocalFault],
    ) -> None:
        worker.index = index
        try:
            worker.pipe.send(tasks[index])
        except OSError:  # it died while it had nothing to do
            self._replace(worker, done)

    def _take(self, worker: _Worker, done: dict[int, _Result | LocalFault]) -> None:
        try:
            result: _Result | LocalFault = worker.pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            self._replace(worker, done)
            return
        if worker.index is not None:
            done[worker.index] = result
        worker.index = None

    def _replace(self, worker: _Worker, done: dict[int, _Result | LocalFault]) -> None:
        if worker.index is not None:
            worker.process.join(timeout=1)
            why = f"its process ended with status {worker.process.exitcode}"
            done[worker.index] = LocalFault("internal.ended", why)
        self._end(worker)
        self._workers[self._workers.index(worker)] = self._start()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(self._work, theirs), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            self._end(worker)

    @staticmethod
    def _end(worker: _Worker) -> None:
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()


# Threads, for what waits for others.


def in_threads(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], threads: int
) -> Iterator[tuple[_Task, _Result | LocalFault]]:
    """Do each task, and yield it with its result, or the fault that ended it, as it is done.

    The threads are daemons, for which nothing waits: a caller that reads no further is not kept by
    a peer that does not answer.
    """
    waiting: SimpleQueue[_Task] = SimpleQueue()
    done: SimpleQueue[tuple[_Task, _Result | LocalFault]] = SimpleQueue()
    for task in tasks:
        waiting.put(task)

    def run() -> None:
        with suppress(Empty):
            while True:
                task = waiting.get_nowait()
                done.put((task, _attempt(work, task)))

    for _ in range(min(threads, len(tasks))):
        Thread(target=run, name="peer", daemon=True).start()
    try:
        for _ in tasks:
            yield done.get()
    finally:
        with suppress(Empty):  # nothing more is begun
            while True:
                waiting.get_nowait()


# What the last check of each card came to.


@dataclass(frozen=True, slots=True)
class LastCheck:
    """What the last check of one card came to.

    Attributes:
        at: When, in UTC.
        verdict: Its verdict, or ``fault``.
        code: The first reason's code; empty where there is none.
    """

    at: datetime
    verdict: str
    code: str


class CheckLog:
    """The last check of each card of one policy, in the folder of the issuer states.

    It is kept for people; no verdict rests on it.

    Args:
        folder: The folder of the issuer states.
        policy: The policy's identity.
    """

    def __init__(self, folder: Path, policy: str) -> None:
        digest = hashlib.sha256(policy.encode(errors="surrogatepass")).hexdigest()
        self._file = folder / "checks" / f"{digest[:16]}.json"

    def read(self) -> dict[str, LastCheck]:
        """The last checks by URL; empty where nothing was ever checked.

        Raises:
            StateFault: ``state.corrupt``.
            FileFault: It cannot be read.
        """
        try:
            data = read_bytes(self._file, max_bytes=MAX_CHECK_LOG_BYTES)
            cards = parse_object(data, max_bytes=MAX_CHECK_LOG_BYTES)["cards"]
            return {url: _last_check(one) for url, one in dict(cards).items()}  # type: ignore[arg-type]
        except FileMissing:
            return {}
        except (InputRefused, KeyError, TypeError, ValueError) as error:
            raise StateFault(
                "state.corrupt",
                "the log of checks cannot be read",
                path=str(self._file),
                hint="Remove it; the next cardsign peers verify writes it anew.",
            ) from error

    def add(self, checks: Mapping[str, LastCheck]) -> None:
        """Put these checks in place of earlier ones of the same cards.

        Raises:
            StateFault, FileFault: As :meth:`read`, or it cannot be written.
        """
        cards = {
            url: {"at": one.at.isoformat(), "verdict": one.verdict, "code": one.code}
            for url, one in sorted((self.read() | dict(checks)).items())
        }
        make_directory(self._file.parent, mode=0o700)
        text = json.dumps({"format": 1, "cards": cards}, indent=1)
        write_atomic(self._file, text.encode(), mode=PRIVATE_MODE)


def _last_check(members: Any) -> LastCheck:
    at = datetime.fromisoformat(members["at"])
    if at.tzinfo is None:
        raise ValueError("no zone")
    return LastCheck(at, str(members["verdict"]), str(members["code"]))
