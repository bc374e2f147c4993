"""Verify many cards by the same policy: one verdict for each, as soon as it is reached.

A crash becomes the result of the one card that it happened to. The work is done in this process,
in worker processes (``-j``), or on the workers of a Dask cluster (extra ``cluster``).
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.errors import InputRefused, LocalFault, UsageFault, install_hint
from cardsign.files import MAX_INPUT_BYTES
from cardsign.findings import Finding, ScanResult
from cardsign.inputs import Inputs, read_object
from cardsign.trust.policy import KeysetAnchor, Policy, Subject
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import is_this_machine, is_url
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier

if TYPE_CHECKING:  # what a card in hand does not need, such as an HTTP client
    from concurrent.futures import Executor

#: Several cards, one exit status: the last of these that any of them has.
_WEIGHT: Final = (0, 3, 1, 2)  # trusted, no verdict, not trusted, a fault of this machine

#: Tasks of a chunk at most: a message for each would cost half as much as a verification.
CHUNK: Final = 32

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
#: How the bytes of a card on this machine are had, by its name; None: the verifier asks for it.
Read: TypeAlias = Callable[[str], bytes | None]
_Card: TypeAlias = tuple[str, bytes | LocalFault | None]
#: What does the work, how many workers it has, and what it raises where they were killed.
_Workers: TypeAlias = "tuple[Executor, int, type[Exception]]"
_READ: Final[Read] = Inputs().read


def heaviest(statuses: Iterable[int]) -> int:
    """Return the exit status of several cards: 2 beats 1 beats 3 beats 0."""
    return max(statuses, key=_WEIGHT.index, default=0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One card and its result.

    Attributes:
        name: How the caller named the card, or the URL that answered.
        result: The verdict, or the fault of this machine that prevented one.
        untrusted_bytes: The file or answer, if it is the card itself; empty otherwise.
    """

    name: str
    result: Report | LocalFault
    untrusted_bytes: bytes = field(default=b"", repr=False)

    @property
    def verdict(self) -> str:
        """The verdict, or ``fault``."""
        return "fault" if isinstance(self.result, LocalFault) else self.result.verdict

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Why, the weightiest first; a fault is its own reason."""
        if isinstance(self.result, LocalFault):
            return (self.result.finding,)
        return self.result.reasons

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``cardsign verify --json`` prints."""
        if isinstance(self.result, LocalFault):
            return {"input": self.name, "error": self.reasons[0].to_json()}
        return {"input": self.name, **self.result.to_json()}

    def to_scan_result(self) -> ScanResult:
        """Return what code scanning is told of the card."""
        report = self.result
        if isinstance(report, LocalFault):
            return ScanResult(self.name, self.reasons, is_fault=True)
        verdict = report.verdict
        reasons = [replace(why, message=f"{verdict}: {why.message}") for why in self.reasons]
        passed = f"trusted: the card is that of {report.subject}" if verdict == "trusted" else ""
        return ScanResult(self.name, reasons, passed=passed)


@dataclass(frozen=True, slots=True)
class Batch:
    """By what the cards of one command are judged.

    Attributes:
        verifier: The policy, and how peers are reached.
        subject: Whose card each should be. Nobody: a URL is judged as a card of the issuer that
            the policy trusts for it, and of a file nothing is trusted unless `by_origin`.
        by_origin: Judge a file as a card of the issuer that the policy trusts for its first
            interface; see :func:`subject_by_origin`.
        statements: Statements that came along.
        at: A time of the caller's choice, by which nothing is trusted.
    """

    verifier: Verifier
    subject: Subject = field(default_factory=Subject)
    by_origin: bool = False
    statements: SuppliedStatements = NO_STATEMENTS
    at: datetime | None = None

    def examine(self, name: str, untrusted_bytes: bytes | None = None) -> Outcome:
        """Return the verdict on a card in hand, or at a URL.

        Args:
            name: How the verdict calls the card.
            untrusted_bytes: The card as received. None: `name` is a URL or an object of a store,
                and is asked for it.

        Raises:
            LocalFault: The object cannot be read.
        """
        if untrusted_bytes is None:
            if is_url(name):
                peer = self.verifier.look_up(name, self.subject, self.statements, at=self.at)
                return Outcome(peer.url, peer.report, peer.untrusted_card)
            untrusted_bytes = read_object(name, max_bytes=MAX_INPUT_BYTES)
        name = "(stdin)" if name == "-" else name
        subject = self.subject
        if subject.is_nobody and self.by_origin:
            subject = subject_by_origin(untrusted_bytes, self.verifier.policy)
        report = self.verifier.judge(untrusted_bytes, subject, self.statements, at=self.at)
        return Outcome(name, report, untrusted_bytes)

    def examine_beside(
        self, public: str, untrusted_public: bytes, extended: str, untrusted_extended: bytes
    ) -> Iterator[Outcome]:
        """Yield the verdicts on a public card and on its extended card, which needs it.

        Where there is no public card to look at, the verdict on that is the only one. `subject`
        names the audience.

        Args:
            public: The name of the public card, or a URL, which is asked.
            untrusted_public: The public card as received; empty for a URL.
            extended: The name of the extended card.
            untrusted_extended: The extended card as received.

        Raises:
            UsageFault: ``usage.conflict``: nothing says whose both cards should be.
            LocalFault: As :meth:`examine`.
        """
        asked, statements = replace(self.subject, audience=None), self.statements
        if is_url(public):
            peer = self.verifier.look_up(public, asked, statements, at=self.at)
            public, untrusted_public = peer.url, peer.untrusted_card
            if not untrusted_public:
                yield Outcome(public, peer.report)
                return
            statements = statements.joined(peer.supplied)
            asked = Subject(url=public) if asked.is_nobody else asked
        if asked.is_nobody:
            raise UsageFault(
                "usage.conflict",
                "--extended asks whether two cards are of one subject, and nobody is named",
                hint="Name the subject with --issuer, --origin or --jwks.",
            )
        reports = self.verifier.judge_extended(
            untrusted_public,
            untrusted_extended,
            asked,
            statements,
            audience=self.subject.audience or "",
            at=self.at,
        )
        yield Outcome(public, reports[0], untrusted_public)
        yield Outcome(extended, reports[1], untrusted_extended)


def subject_by_origin(untrusted_bytes: bytes, policy: Policy) -> Subject:
    """Return the trusted issuer whose origin holds the card's first interface, or nobody.

    The card itself names the interface, so this says only by whose keys to judge it: a verdict
    ``trusted`` means that the card is of that issuer, which the report names. To ask for the card
    of one issuer, name the issuer.
    """
    try:
        first = current_interfaces(Card.from_bytes(untrusted_bytes).document)[:1]
        issuer = policy.find(Subject(url=str(first[0].url))) if first else None
    except InputRefused:  # no card, or an interface that nobody may call
        return Subject()
    return Subject() if issuer is None or issuer.is_holder else Subject(issuer=issuer.name)


def verify_many(
    names: Sequence[str],
    batch: Batch,
    *,
    view: Callable[[Outcome], _Result],
    read: Read = _READ,
    jobs: int = 1,
    cluster: str | None = None,
) -> Iterator[_Result]:
    """Verify cards, and yield a view of each result, in the order given.

    Args:
        names: Files, which are read here; objects and URLs, which a worker reads.
        batch: By what they are judged.
        view: What is wanted of an outcome. A worker makes it and sends nothing else, so with
            several jobs or a cluster it is of a module that the worker has.
        read: Reads a card of this machine; :meth:`cardsign.inputs.Inputs.read`.
        jobs: Worker processes; 1 verifies in this process.
        cluster: The scheduler of a Dask cluster: ``tls://host:8786``, with the certificates of
            Dask's own settings; or ``tcp://`` and a loopback address.

    Raises:
        UsageFault: ``usage.invalid``: plain TCP to another machine, or TLS without certificates;
            ``usage.not_installed``.
        LocalFault: ``cluster.unreachable``: no scheduler, no worker, or none of this version.
    """
    opened: AbstractContextManager[_Workers | None] = nullcontext()
    if cluster is not None:
        opened, batch = _cluster(cluster), _with_statements(batch)
    elif min(jobs, len(names)) > 1:
        opened = _processes(min(jobs, len(names)))
    with opened as workers:
        if workers is None:
            cards = ((name, attempt(read, name)) for name in names)
            results: Iterator[Any] = (_see(view, batch, card) for card in cards)
        else:
            results = _in_chunks(workers, names, view, batch, read)
        for name, result in zip(names, results, strict=True):
            if isinstance(result, LocalFault):  # it ended the task that should have made the view
                result.finding = result.finding.at(result.path or name)
                yield view(Outcome(name, result))
            else:
                yield result


def _see(view: Callable[[Outcome], _Result], batch: Batch, card: _Card) -> _Result | LocalFault:
    """Return the view of one card, or the fault that ended it."""
    name, data = card
    if isinstance(data, LocalFault):
        return data
    return attempt(lambda name: view(batch.examine(name, data)), name)


def attempt(work: Callable[[_Task], _Result], task: _Task) -> _Result | LocalFault:
    """Return the result of one task; an exception of one ends no other."""
    try:
        return work(task)
    except LocalFault as fault:
        return fault
    except Exception as crash:  # noqa: BLE001  it becomes the result
        return LocalFault("internal.bug", f"{type(crash).__name__}: {crash}"[:200])


def in_threads(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], threads: int
) -> Iterator[tuple[_Task, _Result | LocalFault]]:
    """Do each task, and yield it with its result, or the fault that ended it, as it is done.

    An executor would keep the process until a silent peer's time is over; these threads do not.
    """
    waiting, done = deque(tasks), SimpleQueue[tuple[_Task, _Result | LocalFault]]()

    def work_off() -> None:
        with suppress(IndexError):
            while True:
                task = waiting.popleft()
                done.put((task, attempt(work, task)))

    for _ in range(min(threads, len(tasks))):
        Thread(target=work_off, daemon=True).start()
    for _ in tasks:
        yield done.get()


# By an executor, whose workers are sent policy, lock, statements, time and the cards of this
# machine as data; they read from object stores and ask URLs themselves.


@contextmanager
def _processes(jobs: int) -> Iterator[_Workers]:
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    pool = ProcessPoolExecutor(jobs, initializer=_begin_work)
    try:
        yield pool, jobs, BrokenProcessPool
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_work() -> None:
    """Let a worker end without a word at Ctrl-C, and with its parent, however that ends."""
    from multiprocessing import parent_process

    def end_with_parent() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=end_with_parent, daemon=True).start()


def _in_chunks(
    workers: _Workers,
    names: Sequence[str],
    view: Callable[[Outcome], _Result],
    batch: Batch,
    read: Read,
) -> Iterator[_Result | LocalFault]:
    """Yield the results of workers, for whom a few chunks of cards are read ahead.

    Where workers were killed, each card that is not done has the fault ``internal.ended``.
    """
    import pickle

    executor, count, lost = workers
    sent, done, begun = pickle.dumps((view, batch)), 0, deque[Any]()
    size = min(CHUNK, len(names) // (4 * count) + 1)
    try:
        for start in range(0, len(names), size):
            cards = [(name, attempt(read, name)) for name in names[start : start + size]]
            begun.append(executor.submit(_judge, sent, batch.verifier.clock(), cards))
            while len(begun) > 4 * count or (begun and start + size >= len(names)):
                for result in begun.popleft().result():
                    done += 1
                    yield result
    except lost:
        for _ in names[done:]:
            yield LocalFault("internal.ended", "its worker was ended")


@lru_cache(1)
def _unpickled(sent: bytes) -> tuple[Callable[[Outcome], Any], Batch]:
    import pickle

    view, batch = pickle.loads(sent)  # noqa: S301  by our own client
    return view, batch


def _judge(sent: bytes, now: datetime, cards: Sequence[_Card]) -> list[Any]:
    """Return the views of a chunk, or the fault that took the place of one."""
    view, batch = _unpickled(sent)
    batch.verifier.clock = lambda: now
    return [_see(view, batch, card) for card in cards]


# On a Dask cluster. Whoever can reach a scheduler runs programs on every worker and here, so the
# way is TLS or loopback.

#: Seconds to wait for the scheduler, and for its first worker.
PATIENCE: Final = 20
_TLS: Final = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"


@contextmanager
def _cluster(url: str) -> Iterator[_Workers]:
    from importlib.metadata import PackageNotFoundError, version

    _check_address(url)
    try:
        from distributed import CancelledError, Client, KilledWorker, Security
    except ImportError as exc:
        why = f"the library distributed cannot be loaded: {exc}"
        raise UsageFault("usage.not_installed", why, hint=install_hint("cluster")) from exc
    try:
        security = Security(require_encryption=True) if url.startswith("tls:") else None
        if security and security.get_connection_args("client")["ssl_context"] is None:
            # A client without one would wait long, and then end with a traceback.
            why = f"{url} needs certificates, and the environment names none"
            raise UsageFault("usage.invalid", why, hint=f"Set {_TLS}.")
        client = Client(url, security=security, timeout=PATIENCE, set_as_default=False)
        with closing(client):
            client.wait_for_workers(1, timeout=PATIENCE)
            workers = client.scheduler_info(n_workers=-1)["workers"]
            for worker in workers:
                _check_address(worker)
            own = version("cardsign")
            if set(client.run(version, "cardsign").values()) != {own}:
                raise RuntimeError(f"it needs workers, each with cardsign {own}")
            yield client.get_executor(pure=False), len(workers), KilledWorker
    except (OSError, RuntimeError, PackageNotFoundError, CancelledError) as exc:
        raise LocalFault("cluster.unreachable", str(exc)[:200], path=url) from exc


def _check_address(url: str) -> None:
    """Check that what is sent to an address stays on this machine or is encrypted."""
    parts = urlsplit(url)
    is_here = parts.scheme == "tcp" and is_this_machine(parts.hostname or "")
    if not is_here and (parts.scheme != "tls" or not parts.hostname):
        why = "anybody who can read or change what is sent to a cluster decides its verdicts"
        hint = "Give tls://HOST:8786; plain tcp:// is for 127.0.0.1, ::1 and localhost."
        raise UsageFault("usage.invalid", f"{url!r}: {why}", hint=hint)


def _with_statements(batch: Batch) -> Batch:
    """Return the batch with the statements that lead to each issuer's newest keyset.

    A worker of a cluster has no cache.
    """
    verifier, statements = batch.verifier, batch.statements
    for issuer in verifier.policy.issuers:
        if isinstance(issuer.anchor, KeysetAnchor):
            session = verifier.session(issuer)
            session.resolve(NO_STATEMENTS, verifier.clock())
            statements = session.seen.joined(statements)
    sent = copy(verifier)
    sent.cache, sent.clock = None, verifier.clock
    return replace(batch, verifier=sent, statements=statements)
