"""The cards that somebody names (files, folders, URLs, standard input), and the verdict on each.

What happens to one card hides no other. One function does the work: in this process, in worker
processes (``-j``), or on the workers of a Dask cluster (extra ``cluster``).
"""

from __future__ import annotations

import os
import pickle
import re
import shlex
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from cardsign.card.document import Card, current_interfaces
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import FileFault, InputRefused, LocalFault, UsageFault, require
from cardsign.files import file_faults, leads_outside, read_bytes, walk
from cardsign.statements.envelope import MAX_STATEMENT_BYTES
from cardsign.trust.policy import Policy, Subject
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements, sort_statement
from cardsign.urls import JWKS_PATH, STATEMENTS_PATH, is_this_machine, is_url, without_userinfo
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier


def read_card(name: str, folder: str = "") -> bytes | None:
    """Return the bytes of a card on this machine; None for a URL.

    Args:
        name: A file, a URL, or ``-`` for standard input.
        folder: The folder that was named in its place; empty where the card itself was.

    Raises:
        FileFault: The file cannot be read, or leads out of its folder.
    """
    if name == "-":
        return sys.stdin.buffer.read(MAX_CARD_BYTES + 1)  # an empty card has a verdict, too
    if is_url(name):
        return None
    # A stranger's folder may link to the user's own files, and messages would show a piece.
    if folder and os.path.islink(name) and leads_outside(folder, name):
        raise FileFault("file.not_plain", "this link leads out of the folder", path=name)
    return read_bytes(name, max_bytes=MAX_CARD_BYTES, is_found=bool(folder), is_cut=True)


def list_cards(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the cards that are named; of a folder, the ``*.json`` in it and below.

    Each is a name and a folder, as :func:`read_card` takes them.

    Hidden files are left out, statements, the key sets of an exported site, and links to folders.

    Raises:
        UsageFault: ``usage.invalid``: a folder holds no card.
        FileFault: ``file.unreadable``.
    """
    cards: list[tuple[str, str]] = []
    for name in names:
        if is_url(name) or not os.path.isdir(name):
            cards.append((name, ""))
            continue
        below = sorted(_cards_below(str(Path(name))))
        if not below:
            hint = "Name a folder that holds cards (*.json), or name the cards."
            raise UsageFault("usage.invalid", "the folder holds no card", path=name, hint=hint)
        cards += ((path, name) for path in below)
    return cards


def _cards_below(folder: str) -> Iterator[str]:
    def unreadable(exc: OSError) -> None:
        with file_faults(exc.filename, "file.unreadable"):
            raise exc

    for place, _, files in walk(folder, onerror=unreadable):
        shown = (entry for entry in files if not entry.startswith("._"))  # what macOS adds
        for path in (os.path.join(place, entry) for entry in shown):
            url_path = path.replace(os.sep, "/")
            is_exported = STATEMENTS_PATH in url_path or url_path.endswith(JWKS_PATH)
            if url_path.lower().endswith(".json") and not (is_exported or _is_statement(path)):
                yield path


def _is_statement(path: str) -> bool:
    """Return whether a file is a statement; only one whose name or folder suggests it is read."""
    *folders, name = Path(path).parts
    if name.startswith(("keyset", "release")) or {"statements", "keyset"}.intersection(folders):
        with suppress(InputRefused, LocalFault):
            sort_statement(read_bytes(path, max_bytes=MAX_STATEMENT_BYTES, plain=True))
            return True
    return False


# The verdict on one of them.

#: The bytes of a card, the fault that kept them from being read, or None for a URL.
Data: TypeAlias = bytes | LocalFault | None


def read_data(name: str, folder: str) -> tuple[str, Data]:
    """Return the name, and what :func:`read_card` returns or raises."""
    try:
        return name, read_card(name, folder)
    except LocalFault as fault:
        return name, fault


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
    """What the cards of one command are judged by.

    Attributes:
        verifier: The policy, and how peers are reached.
        subject: Whose card each should be. Nobody: a URL is judged as a card of the issuer that
            the policy trusts for it, and of a file nothing is trusted unless `by_origin`.
        by_origin: Judge a file as a card of the issuer that the policy trusts for its first
            interface; see :func:`subject_by_origin`.
        statements: Statements that came along.
        at: A time of the caller's choice, by which nothing is trusted.
        jwks: How the keys were named by which alone the card is judged; None where they were not.
    """

    verifier: Verifier
    subject: Subject = field(default_factory=Subject)
    by_origin: bool = False
    statements: SuppliedStatements = NO_STATEMENTS
    at: datetime | None = None
    jwks: str | None = None

    def examine(self, name: str, untrusted_bytes: bytes | None = None) -> tuple[str, Report]:
        """Return the verdict on a card in hand, or on the card at the URL `name`; and its name."""
        if untrusted_bytes is None:
            peer = self.verifier.look_up(name, self.subject, self.statements, at=self.at)
            return peer.url, self.fill_in(peer.url, peer.report)
        subject = self.subject
        if subject.is_nobody and self.by_origin:
            named = subject_by_origin(untrusted_bytes, self.verifier.policy)
            subject = replace(named, audience=subject.audience)
        report = self.verifier.judge(untrusted_bytes, subject, self.statements, at=self.at)
        return "(stdin)" if name == "-" else name, self.fill_in(name, report)

    def fill_in(self, name: str, report: Report) -> Report:
        """Return a report whose hints have the names that are known, in place of placeholders."""
        policy, net, known = self.verifier.policy, self.verifier.net, dict[str, str]()
        if report.issuer is not None:
            here = " --insecure-loopback-http" if net and net.insecure_loopback_http else ""
            known["NAME"] = f"{report.issuer}{policy.option}{here}"
        if not name.startswith(("-", "(")):  # standard input, and what a caller sent, have none
            known["CARD"] = shlex.quote(without_userinfo(name))
        if self.jwks is not None and os.path.exists(self.jwks):
            known["--jwks FILE"] = f"--jwks {shlex.quote(self.jwks)}"
        fill = partial(_PLACEHOLDER.sub, lambda match: known.get(match[0], match[0]))
        reasons = (replace(reason, fix=fill(reason.hint)) for reason in report.reasons)
        return replace(report, reasons=tuple(reasons))


#: What hints have in place of names that only the caller knows.
_PLACEHOLDER: Final = re.compile(r"\b(?:CARD|NAME)\b|--jwks FILE")


def attempt(batch: Batch, name: str, data: Data) -> Outcome:
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


# The verdicts on many of them.

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
        cards: As :func:`list_cards` returns them. Files are read here, and a
            worker asks URLs.
        verify: Returns the result on a name and its :data:`Data`, and raises
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
            for task in tasks:  # the reader has left, or the run has failed
                task.cancel()


#: What was sent, read once by each worker and not for each task.
_unpickled: Final = lru_cache(1)(pickle.loads)


#: Cards that were read, and the results on them.
Task: TypeAlias = Sequence[tuple[str, Data]]
Work: TypeAlias = Callable[[Task], list[Any]]


def _work(sent: bytes, cards: Task) -> list[Any]:
    verify = _unpickled(sent)
    return [verify(*card) for card in cards]


@contextmanager
def _processes(count: int, work: Work) -> Iterator[Callable[[Task], futures.Future[list[Any]]]]:
    """Yield what hands a task to the next worker process that is free.

    Each has a pipe and a thread of its own. The pools of the standard library have one pipe for
    all answers, and wait for ever for the rest of an answer whose worker was killed.
    """
    from multiprocessing import Pipe, Process

    idle, workers = SimpleQueue[Any](), list[Process]()

    def ask(task: Task) -> list[Any]:
        connection, worker = idle.get()
        try:
            connection.send(task)
            results: list[Any] = connection.recv()
        except (EOFError, OSError) as exc:
            worker.join(1)
            if worker.exitcode == -signal.SIGINT:  # Ctrl-C, which has not come here yet
                raise KeyboardInterrupt from exc
            raise LocalFault("internal.ended", "a worker was killed") from exc
        finally:
            idle.put((connection, worker))
        return results

    try:
        for _ in range(count):
            connection, remote = Pipe()
            workers.append(Process(target=_answer, args=(remote, work), daemon=True))
            workers[-1].start()
            remote.close()
            idle.put((connection, workers[-1]))
        with futures.ThreadPoolExecutor(count) as pool:
            yield lambda task: pool.submit(ask, task)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _answer(connection: Any, work: Work) -> None:
    """Answer tasks, until Ctrl-C or the end of the parent, however that comes."""
    from multiprocessing import parent_process

    def end_with_parent() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a traceback of each worker helps nobody
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
