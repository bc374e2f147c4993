"""Verify cards by the same policy: one verdict for each, as soon as it is reached.

What happens to one card hides no other: a crash, too little memory or a killed worker process
becomes the result of that one card.
"""

from __future__ import annotations

import os
import signal
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.card.strictjson import be_paranoid, is_paranoid
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    BundleRefused,
    CardRefused,
    FileFault,
    FileMissing,
    InputRefused,
    LocalFault,
    ServeFault,
    UsageFault,
)
from cardsign.files import read_bytes
from cardsign.objects import is_object, list_objects, read_object
from cardsign.reasons import Reason
from cardsign.records import dataclass
from cardsign.trust.bundle import MAX_BUNDLE_BYTES, is_bundle, read_bundle
from cardsign.trust.disk import PolicyFile
from cardsign.trust.keyset_choice import NO_STATEMENTS, SuppliedStatements
from cardsign.trust.policy import CardUrl, Issuer, Policy, PublicSubject
from cardsign.trust.state import NO_STATES, IssuerStates
from cardsign.urls import JWKS_PATH, STATEMENTS_PATH, is_url
from cardsign.verify.extended import examine_extended
from cardsign.verify.report import Report
from cardsign.verify.verdict import examine_card

if TYPE_CHECKING:  # an HTTP client and processes, which a card in hand does not need
    from concurrent.futures import Future, ProcessPoolExecutor

    from cardsign.net.discovery import Discoverer, Discovery

#: Bytes of address space for each worker process; a card of the largest size needs a tenth.
WORKER_MEMORY: Final = 2 * 1024**3
#: Chunks of tasks that are begun for each worker before the first is done; it bounds what is held.
_AHEAD: Final = 4
#: Tasks of a chunk at most.
CHUNK: Final = 32

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

#: Several cards, one exit status: the last of these that any of them has.
_WEIGHT: Final = (EXIT_OK, EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_LOCAL_FAULT)


def heaviest(statuses: Iterable[int]) -> int:
    """The exit status of several cards: 2 beats 1 beats 3 beats 0."""
    return max(statuses, key=_WEIGHT.index, default=EXIT_OK)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One card and what came of it.

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
    def reasons(self) -> tuple[Reason, ...]:
        """Why, the weightiest first; a fault is its own reason."""
        if isinstance(self.result, LocalFault):
            return (Reason.from_error(self.result),)
        return self.result.reasons

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and column at which the card could not be read, each from 1."""
        if not self.untrusted_bytes:
            return None
        try:
            Card.from_bytes(self.untrusted_bytes)
        except InputRefused as refusal:
            first = self.reasons[0].code if self.reasons else ""
            if refusal.code == first and refusal.line is not None and refusal.column is not None:
                return refusal.line, refusal.column
        return None

    def to_json(self) -> dict[str, Any]:
        """The object that ``cardsign verify --json`` prints."""
        if isinstance(self.result, LocalFault):
            return {"input": self.name, "error": self.reasons[0].to_json()}
        return {"input": self.name, **self.result.to_json()}


@dataclass(slots=True, eq=False)
class Verifier:
    """Everything on which verdicts rest but the cards.

    Attributes:
        policy: Whom to trust.
        now: The time of a verdict, aware.
        expect: Whose card each should be. None: a URL is judged as a card of the issuer that the
            policy trusts for it, and of a file nothing is trusted unless `by_origin`.
        by_origin: Judge a file as a card of the issuer that the policy trusts for its first
            interface; see :func:`subject_by_origin`.
        states: What is remembered of the issuers.
        supplied: Statements that came along.
        historic: `now` is a time of the caller's choice: nothing is trusted or kept.
        insecure_loopback_http: Ask this machine too, and without TLS.
        file: Where the policy is from, if from a file.
    """

    policy: Policy
    now: Callable[[], datetime]
    expect: PublicSubject | None = None
    by_origin: bool = False
    states: IssuerStates = NO_STATES
    supplied: SuppliedStatements = NO_STATEMENTS
    historic: bool = False
    insecure_loopback_http: bool = False
    file: PolicyFile | None = None
    _discoverer: Discoverer | None = field(default=None, init=False)

    def examine(self, name: str, untrusted_bytes: bytes) -> Outcome:
        """The verdict on a card in hand, or on the one in a bundle.

        Raises:
            LocalFault: Issuer states are lost, corrupt or cannot be written.
        """
        opened = self._opened(name, untrusted_bytes)
        if isinstance(opened, Outcome):
            return opened
        card, supplied = opened
        expect = self.expect
        if expect is None and self.by_origin:
            expect = subject_by_origin(card, self.policy)
        report = examine_card(
            card,
            expect=expect,
            policy=self.policy,
            now=self.now(),
            supplied=supplied,
            states=self.states,
            historic=self.historic,
        )
        is_card = card is untrusted_bytes
        return Outcome(name, self._explained(report), untrusted_bytes if is_card else b"")

    def examine_url(self, url: str) -> Outcome:
        """The verdict on the card at a URL.

        Raises:
            LocalFault: As :meth:`examine`.
        """
        found = self.look_up(url)
        return Outcome(found.url, found.report, found.untrusted_card)

    def look_up(self, url: str, *, fresh: bool = False) -> Discovery:
        """The verdict on the card at a URL, and what was received.

        Raises:
            LocalFault: As :meth:`examine`.
        """
        if self._discoverer is None:
            from cardsign.net.discovery import Discoverer
            from cardsign.net.fetch import FetchSettings
            from cardsign.net.fetcher import DocumentFetcher

            settings = FetchSettings(insecure_loopback_http=self.insecure_loopback_http)
            fetcher = DocumentFetcher(settings, now=self.now)
            self._discoverer = Discoverer(self.policy, self.states, fetcher=fetcher, now=self.now)
        found = self._discoverer.look_up(
            url, expect=self.expect, supplied=self.supplied, historic=self.historic, fresh=fresh
        )
        return (
            replace(found, report=self._explained(found.report)) if found.untrusted_card else found
        )

    def examine_beside(
        self,
        public: str,
        untrusted_public: bytes,
        extended: str,
        untrusted_extended: bytes,
        audience: str,
    ) -> Iterator[Outcome]:
        """The verdicts on a public card and on its extended card, which needs it.

        Where there is no public card to look at, the verdict on that is the only one.

        Args:
            public: The name of the public card, or a URL, which is asked.
            untrusted_public: The public card or its bundle; empty for a URL.
            extended: The name of the extended card.
            untrusted_extended: The extended card as received.
            audience: The id of the audience, as the issuer gave it.

        Raises:
            UsageFault: ``usage.conflict``: nothing says whose both cards should be.
            LocalFault: As :meth:`examine`.
        """
        expect = self.expect
        if is_url(public):
            found = self.look_up(public)
            public, card, supplied = found.url, found.untrusted_card, found.supplied
            if not card:
                yield Outcome(public, found.report)
                return
            expect, supplied = expect or CardUrl(public), self.supplied.joined(supplied)
        else:
            opened = self._opened(public, untrusted_public)
            if isinstance(opened, Outcome):
                yield opened
                return
            card, supplied = opened
        if expect is None:
            raise UsageFault(
                "usage.conflict",
                "--extended asks whether two cards are of one subject, and nobody is named",
                hint="Name the subject with --issuer, --origin or --jwks.",
            )
        reports = examine_extended(
            card,
            untrusted_extended,
            of=expect,
            audience=audience,
            policy=self.policy,
            now=self.now(),
            supplied=supplied,
            states=self.states,
            historic=self.historic,
        )
        is_bundled = bool(untrusted_public) and card is not untrusted_public
        yield Outcome(public, self._explained(reports[0]), b"" if is_bundled else card)
        yield Outcome(extended, self._explained(reports[1]), untrusted_extended)

    def _opened(
        self, name: str, untrusted_bytes: bytes
    ) -> tuple[bytes, SuppliedStatements] | Outcome:
        """The card and what came with it; or the verdict where its bundle cannot be opened."""
        if not is_bundle(untrusted_bytes):
            return untrusted_bytes, self.supplied
        try:
            card, bundled = read_bundle(untrusted_bytes)
        except BundleRefused as refusal:
            try:
                entry = self.policy.find(self.expect)
            except CardRefused:  # a URL that nobody may ask is nobody's
                entry = None
            report = Report.unread(refusal, entry.name if entry else name, self.now())
            issuer = entry.name if entry and not entry.is_holder else None
            return Outcome(name, replace(report, issuer=issuer, historic=self.historic))
        return card, self.supplied.joined(bundled)

    def _explained(self, report: Report) -> Report:
        """Without a policy, say first that this is what is missing."""
        if self.policy.issuers or self.file is not None or report.verdict != "indeterminate":
            return report
        missing = Reason.of("trust.no_anchor", "there is no policy, so no issuer is trusted")
        others = (one for one in report.reasons if one.code != missing.code)
        return replace(report, reasons=(missing, *others))


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


# Files of folders.


def expand_folders(names: Iterable[str]) -> tuple[list[str], dict[str, str], Counter[str]]:
    """Put the ``*.json`` of a folder and below, or of a store, in its place.

    Returns:
        The names; of those that were found in a folder, that folder; and how many of what was
        passed over: links to folders, and what an exported site has beside its cards.

    Raises:
        UsageFault: ``usage.invalid``: a folder holds none, or a file is named by a URL;
            ``usage.not_installed``.
        FileFault: ``file.unreadable``.
    """
    named = list(names)
    expanded: list[str] = []
    folders: dict[str, str] = {}
    passed = Counter[str]()
    for name in named:
        if is_object(name):
            expanded += list_objects(name)
            continue
        if name.startswith("file:"):
            why, hint = "a file is named by its path", f"Give {unquote(urlsplit(name).path)}"
            raise UsageFault("usage.invalid", why, path=name, hint=hint)
        if is_url(name) or not Path(name).is_dir():
            expanded.append(name)
            continue
        _refuse_publication(name)
        found: list[str] = []
        for place, below, files in os.walk(name, onerror=_unreadable):
            passed["linked folder"] += sum(
                os.path.islink(os.path.join(place, one)) for one in below
            )
            paths = (os.path.join(place, one) for one in files if one.lower().endswith(".json"))
            for path in paths:
                if (other := _published(path)) is not None:
                    passed[other] += 1
                else:
                    found.append(path)
        if not found:
            hint = "Name a folder that holds cards, or name the cards."
            raise UsageFault("usage.invalid", "the folder holds no *.json", path=name, hint=hint)
        found = sorted(str(Path(one)) for one in found)
        expanded += found
        folders |= dict.fromkeys(set(found).difference(named), name)
    return expanded, folders, passed


def _refuse_publication(name: str) -> None:
    """Refuse what `publish` writes: most of its cards are old ones, and nobody serves them now."""
    from cardsign.publish.generation import (  # a folder of cards needs none
        CARD_FILE,
        read_pointer,
    )

    try:
        number, _ = read_pointer(Path(name))
    except (ServeFault, FileFault):
        return
    raise UsageFault(
        "usage.invalid",
        "this is a publication, which keeps the cards of earlier times too",
        path=name,
        hint=f"Verify its newest card: cardsign verify {Path(name, f'{number:06d}', CARD_FILE)}",
    )


def _published(path: str) -> str | None:
    """What a file is that an issuer publishes beside its cards; None for all others."""
    url_path = Path(path).as_posix()
    if STATEMENTS_PATH in url_path:
        return "statement"
    if url_path.endswith("/objects.json") and Path(path).with_name("site").is_dir():
        return "upload list"
    return "key set" if url_path.endswith(JWKS_PATH) else None


def _unreadable(exc: OSError) -> None:
    why = f"the operating system says: {exc.strerror}"
    raise FileFault("file.unreadable", why, path=str(exc.filename)) from exc


def _check_within(name: str, folder: str) -> None:
    """Check that what a folder holds under this name is a plain file, or a link to one in it.

    A stranger's folder may link to the user's own files, of which messages would show a piece.

    Raises:
        FileFault: ``file.not_plain``, ``file.not_found``, ``file.unreadable``.
    """
    try:
        # The walk that found it has followed no link, and this is none: it needs no resolving.
        if os.name == "posix" and stat.S_ISREG(os.lstat(name).st_mode):
            return
        target = os.path.realpath(name, strict=True)
        is_plain = stat.S_ISREG(os.stat(target).st_mode)
    except FileNotFoundError as exc:
        raise FileMissing("file.not_found", "this link leads nowhere", path=name) from exc
    except OSError as exc:
        why = f"the operating system says: {exc.strerror}"
        raise FileFault("file.unreadable", why, path=name) from exc
    if not Path(target).is_relative_to(os.path.realpath(folder)):
        raise FileFault("file.not_plain", "this link leads out of the folder", path=name)
    if not is_plain:
        raise FileFault("file.not_plain", "this is a device or pipe", path=name)


# Many at once.


def verify_many(
    names: Sequence[str],
    verifier: Verifier,
    *,
    view: Callable[[Outcome], _Result],
    folders: Mapping[str, str] | None = None,
    given: Mapping[str, bytes] | None = None,
    jobs: int = 1,
) -> Iterator[_Result]:
    """Verify cards, and yield a view of what came of each, in the order given.

    Args:
        names: Files, bundles, URLs, and objects of stores (:mod:`cardsign.objects`).
        verifier: By what they are judged.
        view: What is wanted of an outcome. A worker process makes it and sends nothing else.
        folders: The folder of a name that only a folder brought; see :func:`expand_folders`.
        given: What was read already, by name: ``-`` is standard input.
        jobs: Worker processes; 1 verifies in this process.
    """
    see = partial(_see, view, verifier, folders or {}, given or {})
    for name, result in zip(names, in_processes(see, names, jobs), strict=True):
        yield shown(view, name, result)


def shown(view: Callable[[Outcome], _Result], name: str, result: _Result | LocalFault) -> _Result:
    """The view of one card, also where a fault ended the task that should have made it."""
    if isinstance(result, LocalFault):
        result.path = result.path or name
        return view(Outcome(name, result))
    return result


def _see(
    view: Callable[[Outcome], _Result],
    verifier: Verifier,
    folders: Mapping[str, str],
    given: Mapping[str, bytes],
    name: str,
) -> _Result:
    return view(judge(verifier, name, read_card(name, folders, given)))


def read_card(name: str, folders: Mapping[str, str], given: Mapping[str, bytes]) -> bytes | None:
    """The bytes of a card on this machine; None for a URL or an object of a store.

    Raises:
        LocalFault: The file cannot be read, or leads out of its folder.
    """
    if name in given:
        return given[name]
    if is_url(name) or is_object(name):
        return None
    if name in folders:
        _check_within(name, folders[name])
    return read_bytes(name, max_bytes=MAX_BUNDLE_BYTES)


def judge(verifier: Verifier, name: str, untrusted_bytes: bytes | None) -> Outcome:
    """What comes of a card in hand, or of one that is to be fetched.

    Raises:
        LocalFault: As :meth:`Verifier.examine`; or the object cannot be read.
    """
    if untrusted_bytes is None:
        if is_url(name):
            return verifier.examine_url(name)
        untrusted_bytes = read_object(name, max_bytes=MAX_BUNDLE_BYTES)
    return verifier.examine("(stdin)" if name == "-" else name, untrusted_bytes)


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


def _pool(work: Callable[[Any], Any], size: int) -> ProcessPoolExecutor:
    """Worker processes; forked where that is possible, so that the work is not pickled."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    return ProcessPoolExecutor(size, context, initializer=_begin, initargs=(work, is_paranoid()))


_work: Callable[[Any], Any]  # of this worker process


def _begin(work: Callable[[Any], Any], paranoid: bool) -> None:
    """Make a process a worker: Ctrl-C ends it without a word, and so does too much memory."""
    global _work
    _work = work
    be_paranoid(paranoid)
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
