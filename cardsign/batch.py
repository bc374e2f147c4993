"""Verify many cards by the same policy: one verdict for each, as soon as it is reached.

A crash becomes the result of the one card that it happened to. The work is done in this process,
in worker processes (``-j``), or on the workers of a Dask cluster (extra ``cluster``).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    InputRefused,
    LocalFault,
    UsageFault,
    install_hint,
)
from cardsign.files import MAX_INPUT_BYTES
from cardsign.findings import Finding, ScanResult
from cardsign.inputs import Inputs, read_object
from cardsign.trust.lock import Floor, Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import is_url
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier

if TYPE_CHECKING:  # an HTTP client, which a card in hand does not need
    from cardsign.net.discovery import Discovery

#: Several cards, one exit status: the last of these that any of them has.
_WEIGHT: Final = (EXIT_OK, EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_LOCAL_FAULT)

#: Tasks of a chunk at most: a message for each would cost half as much as a verification.
CHUNK: Final = 32

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
#: How the bytes of a card on this machine are had, by its name; None: the verifier asks for it.
Read = Callable[[str], bytes | None]
_READ: Final[Read] = Inputs().read


def heaviest(statuses: Iterable[int]) -> int:
    """Return the exit status of several cards: 2 beats 1 beats 3 beats 0."""
    return max(statuses, key=_WEIGHT.index, default=EXIT_OK)


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

    def __reduce__(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        """Return the batch as data, with the statements that lead to each issuer's newest keyset.

        It is what a worker of a cluster is sent, which reads no policy, lock or cache of its own.
        """
        verifier, statements = self.verifier, self.statements
        for issuer in verifier.policy.issuers:
            if isinstance(issuer.anchor, KeysetAnchor):
                session = verifier.session(issuer)
                session.resolve(NO_STATEMENTS, verifier.clock())
                statements = session.seen.joined(statements)
        policy, floors = replace(verifier.policy), dict(verifier.floors)
        is_loopback = verifier.net is not None and verifier.net.insecure_loopback_http
        how = (self.subject, self.by_origin, statements, self.at)
        return _unpack, (policy, floors, is_loopback, *how)

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
                peer = self.look_up(name)
                return Outcome(peer.url, peer.report, peer.untrusted_card)
            untrusted_bytes = read_object(name, max_bytes=MAX_INPUT_BYTES)
        name = "(stdin)" if name == "-" else name
        subject = self.subject
        if subject.is_nobody and self.by_origin:
            subject = subject_by_origin(untrusted_bytes, self.verifier.policy)
        report = self.verifier.judge(untrusted_bytes, subject, self.statements, at=self.at)
        return Outcome(name, report, untrusted_bytes)

    def look_up(self, url: str) -> Discovery:
        """Return the verdict on the card at a URL, and what was received.

        Raises:
            LocalFault: As :meth:`examine`.
        """
        return self.verifier.look_up(url, self.subject, self.statements, at=self.at)

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
        view: What is wanted of an outcome. A worker makes it and sends nothing else, so for a
            cluster it is of a module that the worker has.
        read: Reads a card of this machine; :meth:`cardsign.inputs.Inputs.read`.
        jobs: Worker processes; 1 verifies in this process.
        cluster: The scheduler of a Dask cluster: ``tls://host:8786``, with the certificates of
            Dask's own settings; or ``tcp://`` and a loopback address.

    Raises:
        UsageFault: ``usage.invalid``: plain TCP to another machine, or TLS without certificates;
            ``usage.not_installed``.
        LocalFault: ``cluster.unreachable``: no scheduler, no worker, or none of this version.
    """
    if cluster is None:
        results = in_processes(partial(_see, view, batch, read), names, jobs)
    else:
        results = _on_cluster(names, cluster, batch, view, read)
    for name, result in zip(names, results, strict=True):
        if isinstance(result, LocalFault):  # it ended the task that should have made the view
            result.finding = result.finding.at(result.path or name)
            yield view(Outcome(name, result))
        else:
            yield result


def _see(view: Callable[[Outcome], _Result], batch: Batch, read: Read, name: str) -> _Result:
    return view(batch.examine(name, read(name)))


def attempt(work: Callable[[_Task], _Result], task: _Task) -> _Result | LocalFault:
    """Return the result of one task; an exception of one ends no other."""
    try:
        return work(task)
    except LocalFault as fault:
        return fault
    except Exception as crash:  # noqa: BLE001  it becomes the result
        return LocalFault("internal.bug", f"{type(crash).__name__}: {crash}"[:200])


# In worker processes, and in threads.


def in_processes(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int
) -> Iterator[_Result | LocalFault]:
    """Do each task, and yield its result or the fault that ended it, in the order given.

    Where a worker is killed, each task that is not done has the fault ``internal.ended``.

    Args:
        work: Does one task. With several jobs it is picklable, and so are its results.
        tasks: What to do; with several jobs picklable.
        jobs: How many worker processes; 1 works in this process.
    """
    if jobs <= 1 or len(tasks) <= 1:
        yield from (attempt(work, task) for task in tasks)
        return
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    count, done = min(jobs, len(tasks)), 0
    pool = ProcessPoolExecutor(count, initializer=_begin, initargs=(work,))
    try:
        chunk = max(1, min(CHUNK, len(tasks) // (4 * count)))
        for result in pool.map(_do, tasks, chunksize=chunk):
            done += 1
            yield result
    except BrokenProcessPool:
        for _ in tasks[done:]:
            yield LocalFault("internal.ended", "its worker was ended")
    finally:
        pool.shutdown(cancel_futures=True)


_work: Callable[[Any], Any]  # of this worker process


def _begin(work: Callable[[Any], Any]) -> None:
    """Make a process a worker, which Ctrl-C ends without a word."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _do(task: Any) -> Any:
    return attempt(_work, task)


def in_threads(
    work: Callable[[_Task], _Result], tasks: Sequence[_Task], threads: int
) -> Iterator[tuple[_Task, _Result | LocalFault]]:
    """Do each task, and yield it with its result, or the fault that ended it, as it is done.

    An executor would keep the process until a silent peer's time is over; these threads do not.
    """
    waiting, done = SimpleQueue[_Task](), SimpleQueue[tuple[_Task, _Result | LocalFault]]()
    for task in tasks:
        waiting.put(task)

    def work_off() -> None:
        with suppress(Empty):
            while True:
                task = waiting.get_nowait()
                done.put((task, attempt(work, task)))

    for _ in range(min(threads, len(tasks))):
        Thread(target=work_off, daemon=True).start()
    try:
        for _ in tasks:
            yield done.get()
    finally:
        with suppress(Empty):  # nothing is begun for whoever has had enough
            while True:
                waiting.get_nowait()


# On the workers of a Dask cluster, which are sent policy, lock, statements, time and cards as data.
# They read from object stores and ask URLs. What one learns of an issuer is forgotten with its
# chunk. Whoever can reach a scheduler runs programs on every worker and here, so the way is TLS or
# loopback.


#: Seconds to wait for the scheduler, and for its first worker.
PATIENCE: Final = 20
_TLS: Final = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"


def _on_cluster(
    names: Sequence[str], cluster: str, batch: Batch, view: Callable[[Outcome], _Result], read: Read
) -> Iterator[_Result | LocalFault]:
    import pickle

    _check_address(cluster)
    sent, now = pickle.dumps((view, batch)), batch.verifier.clock()
    with closing(_connected(cluster)) as client:
        from distributed import CancelledError, KilledWorker

        def submit(chunk: Sequence[str]) -> Any:
            cards = [(name, attempt(read, name)) for name in chunk]
            return client.submit(_judge, sent, now, cards, pure=False)

        block = CHUNK * 4 * _check_workers(client, cluster)  # which bounds what is held here
        try:
            for start in range(0, len(names), block):
                ends = range(start, min(start + block, len(names)), CHUNK)
                begun = [(names[at : at + CHUNK], submit(names[at : at + CHUNK])) for at in ends]
                for chunk, future in begun:
                    try:
                        yield from future.result()
                    except KilledWorker:  # which of them ends workers, each shows alone
                        yield from (_alone(submit([name]), KilledWorker) for name in chunk)
        except (OSError, CancelledError) as exc:
            raise _unreachable(cluster, f"it was lost: {exc}") from exc


def _alone(future: Any, lost: type[Exception]) -> Any:
    try:
        return future.result()[0]
    except lost:
        return LocalFault("internal.ended", "its worker was ended")


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
        raise UsageFault("usage.not_installed", why, hint=install_hint("cluster")) from exc
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
    workers = client.scheduler_info(n_workers=-1)["workers"]
    for worker in workers:
        _check_address(worker)
    try:
        versions = set(client.run(_version).values())
    except ModuleNotFoundError:  # there is a worker without cardsign
        versions = set()
    if versions != {_version()}:
        raise _unreachable(cluster, f"it needs workers, each with cardsign {_version()}")
    return len(workers)


def _unreachable(cluster: str, why: str) -> LocalFault:
    return LocalFault("cluster.unreachable", why[:200], path=cluster)


# On a worker.


def _version() -> str:
    from importlib.metadata import version

    return version("cardsign")


def _unpack(policy: Policy, floors: dict[str, Floor], is_loopback: bool, *how: Any) -> Batch:
    from cardsign.net.fetch import FetchSettings

    net = FetchSettings(insecure_loopback_http=is_loopback)
    return Batch(Verifier(policy, lock=Memory(floors), cache=Memory(), net=net), *how)


def _judge(
    sent: bytes, now: datetime, cards: Sequence[tuple[str, bytes | LocalFault | None]]
) -> list[Any]:
    """Return the views of a chunk, or the fault that took the place of one."""
    import pickle

    view, batch = pickle.loads(sent)  # noqa: S301  by our own client
    batch.verifier.clock = lambda: now

    def see(card: tuple[str, bytes | LocalFault | None]) -> Any:
        name, data = card
        if isinstance(data, LocalFault):
            raise data
        return view(batch.examine(name, data))

    return [attempt(see, card) for card in cards]
