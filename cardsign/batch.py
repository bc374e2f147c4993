"""Verify many cards by the same policy: one verdict for each, as soon as it is reached.

What happens to one card hides no other: a crash, too little memory or a killed worker becomes the
result of that one card. The work is done in this process, in worker processes (``-j``), or on the
workers of a Dask cluster (extra ``cluster``).
"""

from __future__ import annotations

import hashlib
import json
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from cardsign.card.strictjson import parse_object
from cardsign.errors import (
    FileMissing,
    InputRefused,
    LocalFault,
    StateFault,
    UsageFault,
)
from cardsign.files import PRIVATE_MODE, make_directory, read_bytes, write_atomic
from cardsign.inputs import Inputs
from cardsign.trust.state import NO_STATES, IssuerState, TransientStates
from cardsign.verifier import Outcome, Verifier

if TYPE_CHECKING:  # processes, which a single card does not need
    from concurrent.futures import Future, ProcessPoolExecutor

#: Chunks of tasks that are begun for each worker before the first is done; it bounds what is held.
_AHEAD: Final = 4
#: Tasks of a chunk at most.
CHUNK: Final = 32

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
#: How the bytes of a card on this machine are had, by its name; None: the verifier asks for it.
Read = Callable[[str], bytes | None]
_READ: Final[Read] = Inputs().read


def verify_many(
    names: Sequence[str],
    verifier: Verifier,
    *,
    view: Callable[[Outcome], _Result],
    read: Read = _READ,
    jobs: int = 1,
) -> Iterator[_Result]:
    """Verify cards, and yield a view of what came of each, in the order given.

    Args:
        names: Files, URLs, and objects of stores.
        verifier: By what they are judged.
        view: What is wanted of an outcome. A worker process makes it and sends nothing else.
        read: Reads a card of this machine; :meth:`cardsign.inputs.Inputs.read`.
        jobs: Worker processes; 1 verifies in this process.
    """
    see = partial(_see, view, verifier, read)
    for name, result in zip(names, in_processes(see, names, jobs), strict=True):
        yield _shown(view, name, result)


def _see(view: Callable[[Outcome], _Result], verifier: Verifier, read: Read, name: str) -> _Result:
    return view(verifier.examine(name, read(name)))


def _shown(view: Callable[[Outcome], _Result], name: str, result: _Result | LocalFault) -> _Result:
    """The view of one card, also where a fault ended the task that should have made it."""
    if isinstance(result, LocalFault):
        result.finding = result.finding.at(result.path or name)
        return view(Outcome(name, result))
    return result


def attempt(work: Callable[[_Task], _Result], task: _Task) -> _Result | LocalFault:
    """The boundary: nothing that one task raises ends another."""
    try:
        return work(task)
    except LocalFault as fault:
        return fault
    except MemoryError:
        return LocalFault("internal.ended", "there was not enough memory")
    except Exception as crash:  # noqa: BLE001  it becomes the result
        return LocalFault("internal.bug", f"{type(crash).__name__}: {crash}"[:200])


# In worker processes, and in threads.


#: Bytes of address space for each worker process; a card of the largest size needs a tenth.
WORKER_MEMORY: Final = 2 * 1024**3


def in_processes(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int
) -> Iterator[_Result | LocalFault]:
    """Do each task, and yield its result or the fault that ended it, in the order given.

    Args:
        work: Does one task. With several jobs its results must be picklable.
        tasks: What to do; with several jobs picklable.
        jobs: How many worker processes; 1 works in this process.
    """
    if jobs <= 1 or len(tasks) <= 1:
        yield from (attempt(work, task) for task in tasks)
        return
    from concurrent.futures.process import BrokenProcessPool

    # A message for each task would cost half as much as a verification.
    size = max(1, min(CHUNK, len(tasks) // (_AHEAD * jobs)))
    waiting = deque(tasks[at : at + size] for at in range(0, len(tasks), size))
    while waiting:
        pool = _pool(work, min(jobs, len(waiting)))
        begun: deque[tuple[Sequence[_Task], Future[list[_Result | LocalFault]]]] = deque()
        try:
            while waiting or begun:
                while waiting and len(begun) < _AHEAD * jobs:
                    begun.append((waiting[0], pool.submit(_serve, waiting[0])))
                    waiting.popleft()
                results = begun[0][1].result()
                begun.popleft()
                yield from results
        except BrokenProcessPool:
            pass  # a worker died: which task ended it, the rest of this loop finds out
        finally:
            pool.shutdown(cancel_futures=True)
        for some, future in begun:
            is_done = future.done() and not future.cancelled() and future.exception() is None
            yield from future.result() if is_done else (_alone(work, task) for task in some)


def _alone(work: Callable[[_Task], _Result], task: _Task) -> _Result | LocalFault:
    """Do one task in a process of its own, which no other can end."""
    from concurrent.futures.process import BrokenProcessPool

    with _pool(work, 1) as pool:
        try:
            result: _Result | LocalFault = pool.submit(_serve, [task]).result()[0]
        except BrokenProcessPool:
            return LocalFault("internal.ended", "its process was ended")
    return result


def _pool(work: Callable[[Any], Any], size: int) -> ProcessPoolExecutor:
    """Worker processes; forked where that is possible, so that the work is not pickled."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    return ProcessPoolExecutor(size, context, initializer=_begin, initargs=(work,))


_work: Callable[[Any], Any]  # of this worker process


def _begin(work: Callable[[Any], Any]) -> None:
    """Make a process a worker: Ctrl-C ends it without a word, and so does too much memory."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(ImportError, ValueError, OSError):  # not on Windows; or a lower limit holds
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (WORKER_MEMORY, hard))


def _serve(tasks: Sequence[Any]) -> list[Any]:
    return [attempt(_work, task) for task in tasks]


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
                done.put((task, attempt(work, task)))

    for _ in range(min(threads, len(tasks))):
        Thread(target=run, name="peer", daemon=True).start()
    try:
        for _ in tasks:
            yield done.get()
    finally:
        with suppress(Empty):  # nothing more is begun
            while True:
                waiting.get_nowait()


# On the workers of a Dask cluster. They are sent policy, issuer state, time and cards as data, and
# read none of their own; they read from object stores and ask URLs. What one learns of an issuer
# is forgotten with its chunk. Who can reach a scheduler runs programs on every worker and here, so
# the way is TLS or loopback.


#: Seconds to wait for the scheduler, and between two looks whether it still has a worker.
PATIENCE: Final = 20
_TLS: Final = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"
_ENDED: Final = (LocalFault("internal.ended", "its worker was ended"),)

_Card = tuple[str, bytes | LocalFault | None]


def verify_on_cluster(
    names: Sequence[str],
    verifier: Verifier,
    *,
    cluster: str,
    view: Callable[[Outcome], _Result],
    read: Read = _READ,
) -> Iterator[_Result]:
    """Verify cards as :func:`verify_many` does, on the workers of a cluster.

    The chunk of a worker that is lost is done again by another. A card that ends every worker
    which it is given to has the fault ``internal.ended``.

    Args:
        names: Files, which are read here; objects and URLs, which a worker reads.
        verifier: By what they are judged. What is remembered of its issuers is sent along.
        cluster: The scheduler: ``tls://host:8786``, with the certificates of Dask's own settings;
            or ``tcp://`` and a loopback address.
        view: What is wanted of an outcome; a worker makes it, so it is of a module it has.
        read: As for :func:`verify_many`.

    Raises:
        UsageFault: ``usage.invalid``: plain TCP to another machine, or TLS without certificates;
            ``usage.not_installed``.
        LocalFault: ``cluster.unreachable``: no scheduler, no worker, or none of this version.
    """
    import pickle

    _check_address(cluster)
    states: dict[str, IssuerState] = {}
    for issuer in verifier.policy.issuers:
        with verifier.states.of(issuer) as state:
            if state is not None:
                states[issuer.name] = state
    sent = pickle.dumps((view, replace(verifier, now=_no_time, states=NO_STATES), states))
    waiting = deque(names[at : at + CHUNK] for at in range(0, len(names), CHUNK))
    begun: deque[tuple[list[_Card], datetime, Any]] = deque()
    with closing(_connected(cluster)) as client:
        ahead = _AHEAD * _check_workers(client, cluster)
        while waiting or begun:
            while waiting and len(begun) < ahead:
                cards = [(one, attempt(read, one)) for one in waiting.popleft()]
                at = verifier.now()
                begun.append((cards, at, client.submit(_judge, sent, at, cards, pure=False)))
            cards, at, future = begun.popleft()
            results = _results(client, future)
            if results is None:  # one of the chunk ended its workers: which, each shows alone
                alone = (client.submit(_judge, sent, at, [one], pure=False) for one in cards)
                results = [(_results(client, one) or _ENDED)[0] for one in alone]
            for (name, _), result in zip(cards, results, strict=True):
                yield _shown(view, name, result)


def _check_address(cluster: str) -> None:
    """Check that what is sent to an address stays on this machine or is encrypted."""
    parts = urlsplit(cluster)
    host = parts.hostname or ""
    try:
        is_here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_here = False
    if not host or (parts.scheme, is_here) not in {("tls", False), ("tls", True), ("tcp", True)}:
        why = "anybody who can read or change what is sent to a cluster decides its verdicts"
        hint = (
            f"Give tls://HOST:8786, with {_TLS}; plain tcp:// is for 127.0.0.1, ::1 and localhost."
        )
        raise UsageFault("usage.invalid", f"{cluster!r}: {why}", hint=hint)


def _connected(cluster: str) -> Any:
    try:
        from distributed import Client, Security
    except ImportError as exc:
        why = f"the library distributed cannot be loaded: {exc}"
        hint = "pip install 'cardsign[cluster]'"
        raise UsageFault("usage.not_installed", why, hint=hint) from exc
    security = None
    if cluster.startswith("tls:"):
        security = Security(require_encryption=True)
        try:
            context = security.get_connection_args("client")["ssl_context"]
        except OSError as exc:  # ssl.SSLError is one as well
            raise _unreachable(cluster, f"its certificates cannot be read: {exc}") from exc
        if context is None:  # a client without one would wait a minute before it says so
            why = f"{cluster} needs certificates, and the environment names none"
            raise UsageFault("usage.invalid", why, hint=f"Set {_TLS}.")
    try:
        return Client(cluster, security=security, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as exc:
        raise _unreachable(cluster, f"the scheduler cannot be reached: {exc}") from exc


def _check_workers(client: Any, cluster: str) -> int:
    """Check what runs on each worker, and the way to it; return how many there are."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as exc:
        raise _unreachable(cluster, "it has no worker") from exc
    workers = _workers(client)
    for worker in workers:
        _check_address(worker)
    try:
        found = set(client.run(_version).values())
    except ModuleNotFoundError:  # there is a worker without cardsign
        found = set()
    if found != {_version()}:
        raise _unreachable(cluster, f"it needs workers, each with cardsign {_version()}")
    return len(workers)


def _unreachable(cluster: str, why: str) -> LocalFault:
    return LocalFault("cluster.unreachable", why[:200], path=cluster)


def _workers(client: Any) -> list[str]:
    return list(client.scheduler_info(n_workers=-1)["workers"])


def _results(client: Any, future: Any) -> list[Any] | None:
    """What came of a chunk; None where every worker that tried it was ended."""
    from distributed import KilledWorker

    while True:
        try:
            results: list[Any] = future.result(timeout=PATIENCE)
            return results
        except KilledWorker:
            return None
        except TimeoutError as exc:
            if not _workers(client):
                where = client.scheduler.addr
                raise _unreachable(where, "it has no worker any more") from exc
        except OSError as exc:
            raise _unreachable(client.scheduler.addr, f"it was lost: {exc}") from exc


# On a worker.


def _version() -> str:
    from importlib.metadata import version

    return version("cardsign")


def _no_time() -> datetime:
    raise AssertionError("a chunk brings the time that it is judged at")


def _judge(sent: bytes, at: datetime, cards: Sequence[_Card]) -> list[Any]:
    """The views of a chunk, or the fault that took the place of one."""
    import pickle

    view, verifier, states = pickle.loads(sent)  # noqa: S301  by our own client
    verifier = replace(verifier, states=TransientStates(states), now=lambda: at)

    def see(card: _Card) -> Any:
        name, data = card
        if isinstance(data, LocalFault):
            raise data
        return view(verifier.examine(name, data))

    return [attempt(see, card) for card in cards]


# What the last check of each card came to.


#: Bytes of a log of checks: 200 for each of 10,000 cards.
MAX_CHECK_LOG_BYTES: Final = 2_000_000


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


def _check_log(folder: Path, policy: str) -> Path:
    digest = hashlib.sha256(policy.encode(errors="surrogatepass")).hexdigest()
    return folder / "checks" / f"{digest[:16]}.json"


def read_checks(folder: Path, policy: str) -> dict[str, LastCheck]:
    """The last checks of the cards of one policy, by URL; empty where nothing was ever checked.

    They are kept for people; no verdict rests on them.

    Args:
        folder: The folder of the issuer states.
        policy: The policy's identity.

    Raises:
        StateFault: ``state.corrupt``.
        FileFault: They cannot be read.
    """
    file = _check_log(folder, policy)
    try:
        data = read_bytes(file, max_bytes=MAX_CHECK_LOG_BYTES)
        cards = parse_object(data, max_bytes=MAX_CHECK_LOG_BYTES)["cards"]
        return {url: _last_check(one) for url, one in dict(cards).items()}  # type: ignore[arg-type]
    except FileMissing:
        return {}
    except (InputRefused, KeyError, TypeError, ValueError) as error:
        raise StateFault(
            "state.corrupt",
            "the log of checks cannot be read",
            path=str(file),
            hint="Remove it; the next cardsign peers verify writes it anew.",
        ) from error


def add_checks(folder: Path, policy: str, checks: Mapping[str, LastCheck]) -> None:
    """Put these checks in place of earlier ones of the same cards; as :func:`read_checks`."""
    known = read_checks(folder, policy) | dict(checks)
    cards = {
        url: {"at": one.at.isoformat(), "verdict": one.verdict, "code": one.code}
        for url, one in sorted(known.items())
    }
    file = _check_log(folder, policy)
    make_directory(file.parent, mode=0o700)
    text = json.dumps({"format": 1, "cards": cards}, indent=1)
    write_atomic(file, text.encode(), mode=PRIVATE_MODE)


def _last_check(members: Any) -> LastCheck:
    at = datetime.fromisoformat(members["at"])
    if at.tzinfo is None:
        raise ValueError("no zone")
    return LastCheck(at, str(members["verdict"]), str(members["code"]))
