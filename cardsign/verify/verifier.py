"""`Verifier`: policy, lock, cache and clock, and one session for each issuer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

from cardsign.card.profiles import Payloads
from cardsign.card.strictjson import parse_object
from cardsign.errors import UsageFault, check_types, closest
from cardsign.jose.keys import JwkSet
from cardsign.times import ANY_TIME
from cardsign.trust.lock import Floor, Memory, check_entry, raise_lock, read_floors
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, SubjectNames, TrustedIssuer
from cardsign.trust.session import IssuerTrust, Session, user_cache
from cardsign.trust.walk import NO_STATEMENTS, Statements, SuppliedStatements, read_supplied
from cardsign.urls import card_url, parse_url
from cardsign.verify.report import Report, VerifiedCard, logged, trusted_card
from cardsign.verify.signature import Inquiry
from cardsign.verify.verdict import judge_card

if TYPE_CHECKING:  # an HTTP client, which a card in hand does not need
    from cardsign.net.discovery import Discovery
    from cardsign.net.endpoints import Credential
    from cardsign.net.fetch import DocumentFetcher, FetchSettings

#: URLs of one issuer whose last verdict is kept.
MAX_VERDICTS: Final = 256
_SUPPLIED: Final = "read_supplied([keyset, release]) of cardsign.trust.walk"
LockPaths: TypeAlias = Path | str | Sequence[Path | str]


def _now() -> datetime:
    return datetime.now(UTC)


class Verifier:
    """Verifies cards by one policy, for any number of threads.

    ::

        verifier = Verifier("trust.toml")
        card = verifier.discover("https://agent.example")

    Args:
        policy: A `trust.toml`, or a policy made in code.
        lock: The lock file, or several, of which only the last may be written. By default the
            `trust.lock` beside the policy file. `Memory()` remembers for as long as the verifier
            lives.
        cache: A folder of signed statements, or `Memory()` for none. By default the user's cache
            folder, for a policy that is a file.
        net: How peers are reached.
        clock: Returns the time of a verdict, aware.

    Raises:
        TypeError: A policy made in code anchors an issuer at a keyset, and `lock` is not given.
        UsageFault: ``policy.malformed``; ``lock.malformed``, ``lock.other_anchor``;
            ``statement.fork``: two lock files disagree about an issuer. What is asked about an
            issuer without its entry raises ``lock.missing``.
        FileFault: A file is a link, or cannot be read.
    """

    def __init__(
        self,
        policy: Policy | Path | str,
        *,
        lock: LockPaths | Memory | None = None,
        cache: Path | str | Memory | None = None,
        net: FetchSettings | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        example = "Verifier('trust.toml', lock='trust.lock', cache=Memory())"
        places = Path | str | Memory | None
        check_types(example, lock=(lock, places | Sequence), cache=(cache, places))
        check_types("clock=lambda: datetime.now(UTC)", clock=(clock, Callable))
        if net is not None:
            from cardsign.net.fetch import FetchSettings

            check_types("net=FetchSettings(total_timeout=5.0)", net=(net, FetchSettings))
        self.policy = policy if isinstance(policy, Policy) else Policy.load(policy)
        #: The lock files, of which the last may be written; none where the floors are in memory.
        self.lock_paths = _lock_paths(self.policy, lock)
        #: What the lock says, by issuer.
        self.floors: Mapping[str, Floor] = (
            lock.floors if isinstance(lock, Memory) else read_floors(self.policy, self.lock_paths)
        )
        #: The folder of kept statements; None for nowhere.
        self.cache = _find_cache(self.policy, cache)
        self.clock, self.net = clock, net
        self._sessions: dict[int, Session] = {}
        self._guard = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process gets, which begins its own sessions by its own clock."""
        kept = ("policy", "lock_paths", "floors", "cache", "net")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, clock=_now, _sessions={}, _guard=threading.Lock())

    def verify(
        self,
        data: bytes,
        *,
        statements: Statements = NO_STATEMENTS,
        **subject: Unpack[SubjectNames],
    ) -> VerifiedCard:
        """Return a card if it is trusted. Nothing is fetched.

        Say whose card it must be with one of `issuer`, `url` and `origin`. A policy that only pins
        keys needs none of them.

        Args:
            data: The card as received, UTF-8 JSON, before any conversion.
            statements: Keyset and release statements that came with it: the path of their folder,
                or a list of their bytes.
            subject: `issuer`, the policy's own name of the issuer; `url`, from which the card
                came; or `origin`, that of its issuer, such as ``https://agent.example``. For an
                extended card also `audience`, the id of the audience that it must be for.

        Raises:
            NotTrusted: The card was checked and refused; its `report` says what.
            NoVerdict: What would decide it is missing; its `report` says what.
            CardRefused: `url` or `origin` is not a URL that is accepted.
            UsageFault: ``policy.unknown_issuer``.
            TypeError: `data` is not bytes, or nothing says whose card it is.
        """
        asked, supplied = self.subject_of(subject, needed=True), read_supplied(statements)
        return trusted_card(self.judge(data, asked, supplied, stop_early=True))

    def examine(
        self,
        data: bytes,
        *,
        statements: Statements = NO_STATEMENTS,
        at: datetime | None = None,
        **subject: Unpack[SubjectNames],
    ) -> Report:
        """Return the verdict with everything that led to it. Nothing is fetched.

        No verdict is raised; other errors are those of :meth:`verify`.

        Args:
            data: The card as received.
            statements: As for :meth:`verify`.
            at: A time of your choice; nothing is trusted by such a verdict.
            subject: As for :meth:`verify`.
        """
        asked, supplied = self.subject_of(subject, needed=True), read_supplied(statements)
        return self.judge(data, asked, supplied, at=at)

    def discover(self, url: str, *, issuer: str | None = None) -> VerifiedCard:
        """Fetch the card at a URL and what shows that it is current; return it if it is trusted.

        A peer is asked at most as often as HTTP and a ceiling of five minutes allow. Where it
        gives no answer, the verdict rests on its last one until that ends.

        Args:
            url: The card's URL, or the agent's host such as ``https://agent.example``.
            issuer: The policy's own name of the issuer; if None, the one it has for `url`.

        Raises:
            NotTrusted: The card was checked and refused; its `report` says what.
            NoVerdict: The peer gave no answer, or what would decide it is missing.
            CardRefused: `url` is not a URL that is accepted.
            UsageFault: ``policy.unknown_issuer``.
        """
        parse_url(url)
        return trusted_card(self.look_up(url, self.subject_of({"issuer": issuer})).report)

    async def adiscover(self, url: str, *, issuer: str | None = None) -> VerifiedCard:
        """Do what :meth:`discover` does, in a thread of its own.

        A task that is cancelled returns at once; the work goes on until its deadline.
        """
        from cardsign.net.connection import in_thread

        return await in_thread(partial(self.discover, url, issuer=issuer))

    def discover_extended(
        self, url: str, *, audience: str, credential: Credential | str, issuer: str | None = None
    ) -> VerifiedCard:
        """Fetch the extended card of an agent, and return it if it is trusted.

        The public card is discovered first. Only if it is trusted is the credential sent, once,
        to one of its endpoints inside the issuer's origins.

        Args:
            url: As for :meth:`discover`.
            audience: The id that the issuer gave to this verifier.
            credential: Where to read it, ``env:NAME`` or ``file:/PATH``.
            issuer: As for :meth:`discover`.

        Raises:
            NotTrusted, NoVerdict: Of the public card, or of the extended one.
            UsageFault, CallFailed, FetchFailed: The extended card was not fetched.
        """
        from cardsign.net.endpoints import Credential, look_up_extended

        parse_url(url)
        example = "discover_extended(url, audience='9f2c61d07be84a15', credential='env:TOKEN')"
        check_types(example, audience=(audience, str), credential=(credential, Credential | str))
        credential = Credential(credential) if isinstance(credential, str) else credential
        subject = self.subject_of({"issuer": issuer})
        public = self.look_up(url, subject)
        answer = look_up_extended(self, public, credential, audience=audience, subject=subject)
        return trusted_card(answer.report)

    async def adiscover_extended(
        self, url: str, *, audience: str, credential: Credential | str, issuer: str | None = None
    ) -> VerifiedCard:
        """Do what :meth:`discover_extended` does, in a thread of its own."""
        from cardsign.net.connection import in_thread

        ask = partial(self.discover_extended, url, audience=audience, credential=credential)
        return await in_thread(partial(ask, issuer=issuer))

    # What the methods above are made of.

    def look_up(
        self,
        url: str,
        subject: Subject | None = None,
        statements: SuppliedStatements = NO_STATEMENTS,
        *,
        at: datetime | None = None,
        fresh: bool = False,
    ) -> Discovery:
        """Return the verdict on the card at a URL, and what was received.

        Args:
            url: As for :meth:`discover`.
            subject: Whose card it must be; None: the issuer that the policy has for the URL.
            statements: What is at hand besides.
            at: As for :meth:`examine`.
            fresh: Ask every cache on the way to look again, at most once per cooldown.
        """
        from cardsign.net.discovery import look_up

        subject = self.subject_of({}) if subject is None else subject
        check_types("look_up(url, Subject('bank'))", subject=(subject, Subject))
        check_types("look_up(url, at=datetime.now(UTC))", at=(at, datetime | None))
        check_types(_SUPPLIED, statements=(statements, SuppliedStatements))
        return look_up(self, url, subject, statements, at=at, fresh=fresh)

    def judge(
        self,
        data: bytes,
        subject: Subject,
        statements: SuppliedStatements = NO_STATEMENTS,
        *,
        at: datetime | None = None,
        stop_early: bool = False,
    ) -> Report:
        """Return the verdict on a card about a subject, which may be nobody."""
        check_types("verify(Path('card.json').read_bytes(), ...)", data=(data, bytes))
        check_types(_SUPPLIED, statements=(statements, SuppliedStatements))
        now, historic = self.clock() if at is None else at, at is not None
        check_types("at=datetime.now(UTC)", at=(now, datetime))
        if now.tzinfo is None:
            raise ValueError("the time of a verdict needs a zone: datetime.now(UTC)")
        issuer = self.policy.find(subject)
        if issuer is None:
            inquiry = Inquiry(subject, self.policy, None, now)
            return logged(judge_card(data, inquiry, stop_early=stop_early, historic=historic))
        session = self.session(issuer)
        with session.guard:
            trust = session.resolve(statements, now, historic=historic)
        matter = (data, stop_early, trust)
        is_kept = subject.url is not None and not historic
        if is_kept and (report := _remembered(session, subject, matter, now)) is not None:
            return report
        inquiry = Inquiry(subject, self.policy, trust, now)
        report = judge_card(data, inquiry, stop_early=stop_early, historic=historic)
        if is_kept and report.verdict == "trusted":
            if len(session.verdicts) >= MAX_VERDICTS:
                session.verdicts.clear()
            # Without the card, which is the caller's to change.
            session.verdicts[subject] = (matter, replace(report, card=None))
        return logged(report)

    def session(self, issuer: TrustedIssuer) -> Session:
        """Return the session of an issuer of the policy."""
        check_types("session(policy.issuer('bank'))", issuer=(issuer, TrustedIssuer))
        session = self._sessions.get(id(issuer))
        if session is None:
            with self._guard:
                session = self._sessions.setdefault(id(issuer), self._begin(issuer))
        return session

    def _begin(self, issuer: TrustedIssuer) -> Session:
        lock = self.lock_paths[-1] if self.lock_paths else None
        if lock is not None:
            check_entry(self.policy, issuer, self.floors, lock)
        floor = self.floors.get(issuer.name) if isinstance(issuer.anchor, KeysetAnchor) else None
        return Session(self.policy, issuer, floor, lock=lock, cache=self.cache)

    @cached_property
    def fetcher(self) -> DocumentFetcher:
        """What asks peers for documents, and keeps them."""
        from cardsign.net.fetch import DEFAULT_SETTINGS, DocumentFetcher

        return DocumentFetcher(self.net or DEFAULT_SETTINGS, now=self.clock)

    def raise_lock(self, *, dry_run: bool = False) -> tuple[str, ...]:
        """Raise the lock to what was verified; return the issuers whose entry changed.

        Args:
            dry_run: Write nothing.

        Raises:
            UsageFault: ``lock.missing``: there is no file to write; ``config.not_allowed``: the
                policy was only found; ``statement.fork``.
            FileFault: The lock cannot be written.
        """
        if not self.lock_paths:
            raise UsageFault("lock.missing", "this verifier has no lock file to raise")
        if not self.policy.is_own:
            message = "a policy found in the working directory cannot raise its lock"
            hint = f"Name the policy: --trust {self.policy.path}"
            raise UsageFault("config.not_allowed", message, hint=hint)
        floors: dict[str, Floor] = {}
        for issuer in self.policy.issuers:
            session = self._sessions.get(id(issuer))
            if session is None or session.keyset is None:
                continue
            with session.guard:
                if not session.resolve(NO_STATEMENTS, self.clock()).blocks:
                    floors[issuer.name] = session.floor
        return raise_lock(self.lock_paths[-1], floors, dry_run=dry_run)

    def subject_of(self, names: SubjectNames, *, needed: bool = False) -> Subject:
        """Return the subject that a caller names; of a policy that only pins keys, their holder.

        A URL without a path is that of the host's card, as everywhere.
        """
        check_subject(names)
        subject = Subject(**names)
        if subject.url is not None:
            subject = replace(subject, url=card_url(subject.url))
        if subject.issuer is not None:
            self.policy.issuer(subject.issuer)
        if sum(name is not None for name in (subject.issuer, subject.origin, subject.url)) > 1:
            raise TypeError("give one of issuer, origin and url")
        issuers = self.policy.issuers
        if subject.is_nobody and len(issuers) == 1 and issuers[0].is_holder:
            return replace(subject, issuer=issuers[0].name)
        if subject.is_nobody and needed:
            raise TypeError("say whose card it is: issuer='NAME' or url='https://...'")
        return subject


def check_subject(names: SubjectNames, *others: str) -> None:
    """Raise `TypeError` for keyword arguments that name no subject; there are `others` besides."""
    check_types("subject_of({'issuer': 'bank'})", names=(names, Mapping))
    for name, value in names.items():
        if name not in SubjectNames.__annotations__:
            similar = closest(name, [*SubjectNames.__annotations__, *others])
            raise TypeError(f"unexpected keyword argument {name!r}{similar}")
        check_types("verify(data, issuer='bank')", **{name: (value, str | None)})


def inquire_by(keys: JwkSet, name: str, audience: str | None = None) -> Inquiry:
    """Return the question whether the holder of these keys has signed, at no time in particular.

    Args:
        keys: All that is known of the holder.
        name: What the holder is called.
        audience: Of an extended card.
    """
    policy = Policy.from_jwks(keys, name=name)
    issuer = policy.issuers[0]
    trust = Session(policy, issuer).resolve(NO_STATEMENTS, ANY_TIME)
    return Inquiry(Subject(issuer.name, audience=audience), policy, trust, ANY_TIME)


def _remembered(
    session: Session, subject: Subject, matter: tuple[bytes, bool, IssuerTrust], now: datetime
) -> Report | None:
    """Return the last verdict on a subject, if it is about the same bytes and keys."""
    kept = session.verdicts.get(subject)
    if kept is None or kept[0][2] is not matter[2] or kept[0][:2] != matter[:2]:
        return None
    (untrusted_bytes, *_), report = kept
    ends = report.valid_until
    if now < report.checked_at or (ends is not None and now >= ends):
        return None
    received = Payloads(parse_object(untrusted_bytes, max_bytes=len(untrusted_bytes)))
    payload = None if report.profile in (None, "served-as-is") else received.of(report.profile)
    card = payload.value if payload else received.members
    remembered: Report = replace(report, checked_at=now, card=card)
    return remembered


def _lock_paths(policy: Policy, lock: LockPaths | Memory | None) -> tuple[Path, ...]:
    if isinstance(lock, str | Path):
        return (Path(lock),)
    if lock is not None:
        return () if isinstance(lock, Memory) else tuple(map(Path, lock))
    if policy.path is not None:
        return (policy.lock,)
    if any(isinstance(issuer.anchor, KeysetAnchor) for issuer in policy.issuers):
        example = "Verifier(policy, lock='trust.lock')"
        memory = "lock=Memory() to remember for as long as this verifier lives"
        raise TypeError(f"a keyset must be remembered: {example}, or {memory}")
    return ()


def _find_cache(policy: Policy, cache: Path | str | Memory | None) -> Path | None:
    if isinstance(cache, Memory) or (cache is None and policy.path is None):
        return None
    return user_cache() if cache is None else Path(cache)
