"""Verify many cards by the same policy: one verdict for each, in the order given.

What happens to one card hides no other. One function does the work: in this process, in worker
processes (``-j``), or on the workers of a Dask cluster (extra ``cluster``).
"""

from __future__ import annotations

import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

from cardsign.card.document import Card, current_interfaces
from cardsign.errors import InputRefused, LocalFault, UsageFault, require
from cardsign.inputs import read_card
from cardsign.trust.policy import Policy, Subject
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import is_this_machine
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier

if TYPE_CHECKING:  # what a card in hand does not need, such as an HTTP client
    from concurrent.futures import Executor, Future

#: Several cards, one exit status: the last of these that any of them has.
_WEIGHT: Final = (0, 3, 1, 2)  # trusted, no verdict, not trusted, a fault of this machine

#: Cards of a task at most: a message for each would cost half as much as a verification.
CHUNK: Final = 16
#: Tasks whose cards have been read and whose results are not used yet; more than workers of ``-j``.
AHEAD: Final = 96

#: The bytes of a card; the fault that kept them from being read; None: a URL, to be asked.
_Data: TypeAlias = bytes | LocalFault | None
_View = TypeVar("_View")


def heaviest(statuses: Iterable[int]) -> int:
    """Return the exit status of several cards: 2 beats 1 beats 3 beats 0."""
    return max(statuses, key=_WEIGHT.index, default=0)


class Outcome(NamedTuple):
    """One card and its result.

    Attributes:
        name: How the caller named the card, or the URL that answered.
        result: The verdict, or the fault of this machine that prevented one.
    """

    name: str
    result: Report | LocalFault

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``cardsign verify --json`` prints."""
        if isinstance(self.result, LocalFault):
            return {"input": self.name, "error": self.result.finding.to_json()}
        return {"input": self.name, **self.result.to_json()}


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

    def examine(self, name: str, untrusted_bytes: bytes | None = None) -> tuple[str, Report]:
        """Return the verdict on a card in hand, or on the card at the URL `name`; and its name."""
        if untrusted_bytes is None:
            peer = self.verifier.look_up(name, self.subject, self.statements, at=self.at)
            return peer.url, peer.report
        subject = self.subject
        if subject.is_nobody and self.by_origin:
            named = subject_by_origin(untrusted_bytes, self.verifier.policy)
            subject = replace(named, audience=subject.audience)
        report = self.verifier.judge(untrusted_bytes, subject, self.statements, at=self.at)
        return "(stdin)" if name == "-" else name, report


def attempt(batch: Batch, name: str, data: _Data) -> Outcome:
    """Return the outcome of one card; a fault or crash is its result."""
    try:
        if isinstance(data, LocalFault):
            raise data
        return Outcome(*batch.examine(name, data))
    except LocalFault as exc:
        fault = exc
    except Exception as crash:  # noqa: BLE001  it becomes the result
        fault = LocalFault("internal.bug", f"{type(crash).__name__}: {crash}"[:200])
    fault.finding = fault.finding.at(fault.path or name)
    return Outcome(name, fault)


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
    cards: Sequence[tuple[str, str]],
    batch: Batch,
    view: Callable[[Outcome], _View],
    *,
    jobs: int = 1,
    cluster: str | None = None,
) -> Iterator[_View]:
    """Verify cards, and yield what is wanted of each outcome, in the order given.

    Args:
        cards: As :func:`cardsign.inputs.list_cards` returns them. Files are read here, and a
            worker asks URLs.
        batch: By what they are judged. Workers have their own clock.
        view: Makes of an outcome what is wanted; a worker calls it, and sends nothing else.
        jobs: Worker processes; 1 verifies in this process.
        cluster: The scheduler of a Dask cluster: ``tls://host:8786``, with the certificates of
            Dask's own settings; or ``tcp://`` and a loopback address.

    Raises:
        UsageFault: ``usage.invalid``: plain TCP to another machine; ``usage.not_installed``.
        LocalFault: ``cluster.unreachable``: no scheduler, or no worker; ``internal.ended``: a
            worker was killed, so the cards that follow have no outcome.
    """
    jobs = min(jobs, len(cards))
    if cluster is None and jobs <= 1:
        yield from (view(attempt(batch, *_read(card))) for card in cards)
        return
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    work, size = partial(_work, pickle.dumps((batch, view))), min(CHUNK, len(cards) // AHEAD + 1)
    tasks: deque[Future[list[_View]]] = deque()
    opened = _cluster(cluster) if cluster else ProcessPoolExecutor(jobs, initializer=_begin_work)
    with opened as pool:
        try:
            for start in range(0, len(cards), size):
                tasks.append(pool.submit(work, [*map(_read, cards[start : start + size])]))
                if len(tasks) > AHEAD:
                    yield from tasks.popleft().result()
            for task in tasks:
                yield from task.result()
        except BrokenProcessPool as exc:
            raise LocalFault("internal.ended", "a worker was killed") from exc


def _read(card: tuple[str, str]) -> tuple[str, _Data]:
    try:
        return card[0], read_card(*card)
    except LocalFault as fault:
        return card[0], fault


# What workers do: they are sent policy, lock, statements, and the cards of this machine.


@lru_cache(1)
def _unpickled(sent: bytes) -> tuple[Batch, Callable[[Outcome], Any]]:
    rules: tuple[Batch, Any] = pickle.loads(sent)  # noqa: S301  by our own client
    return rules


def _work(sent: bytes, cards: Sequence[tuple[str, _Data]]) -> list[Any]:
    batch, view = _unpickled(sent)
    return [view(attempt(batch, name, data)) for name, data in cards]


def _begin_work() -> None:
    """Let a worker end without a word at Ctrl-C, and with its parent, however that ends."""
    from multiprocessing import parent_process

    def end_with_parent() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=end_with_parent, daemon=True).start()


#: Seconds to wait for the scheduler of a cluster, and for its first worker.
PATIENCE: Final = 20
_TLS: Final = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"


@contextmanager
def _cluster(url: str) -> Iterator[Executor]:
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
        why = f"{url} needs certificates, and the environment names none"
        raise UsageFault("usage.invalid", why, hint=f"Set {_TLS}.")
    try:
        with dask.Client(url, security=security, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=PATIENCE)
            yield client.get_executor(pure=False)
    except (OSError, RuntimeError, dask.CancelledError, dask.KilledWorker) as exc:
        raise LocalFault("cluster.unreachable", str(exc)[:200], path=url) from exc
