"""Publishing: cards, a key set and the issuer's statements become the next generation.

Each card is judged as its verifiers will judge it. Some of them have nothing but the key set,
others know the issuer by its statements. These go along with a card in a generation, and one that
was published never vanishes from it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Final

from cardsign import errors, files
from cardsign.card.document import Card, current_interfaces
from cardsign.card.extensions import check_audience, declares_extended_card
from cardsign.card.profiles import canonicalize
from cardsign.card.values import Json
from cardsign.errors import FileFault, PublishRefused, SignatureRefused, UsageFault
from cardsign.findings import Finding, Place
from cardsign.jose.jws import check_entry, read_entry
from cardsign.jose.keys import JwkSet
from cardsign.keys.ledger import Publication, PublishedCard
from cardsign.publish import generation as generations
from cardsign.publish.generation import CARD_FILE, JWKS_FILE, LEGACY_FILE, RELEASE_FILE, Generation
from cardsign.sign import note_interfaces
from cardsign.statements.envelope import StatementRefused, check_past
from cardsign.statements.keyset import KeysetStatement, check_step, read_keyset
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.times import utc
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import parse_place
from cardsign.verify.verdict import beside_its_public_card
from cardsign.verify.verifier import Verifier

# What may be published.


#: The clocks of the issuer's own hosts may differ by so much.
SKEW: Final = timedelta(minutes=5)

_NAMES: Final = {CARD_FILE: "the public card", LEGACY_FILE: "the card for clients of A2A 0.3"}
_DECLARED: Final = "/capabilities/extendedAgentCard"
_UNLISTED: Final = frozenset(
    {"card.digest_unlisted", "card.rollback", "card.listed_elsewhere", "key.unknown"}
)


def check_cards(cards: Mapping[str, bytes], jwks: JwkSet, now: datetime) -> None:
    """Check cards, by their files in a generation, as a verifier does that has only the key set.

    Raises:
        PublishRefused: ``publish.not_verifying`` (also for a card that cannot be read, and for an
            extended card without marker, of another audience, or in the place of the public one),
            ``publish.extended``, ``publish.legacy``.
        UsageFault: ``publish.audience_name``.
        KeyRefused: The key set is larger than others would read.
    """
    for file in cards:
        if (audience := _audience_of(file)) is not None:
            check_audience(audience)
    policy = Policy.from_jwks(JwkSet.from_bytes(jwks.to_bytes()), name="the published key set")
    _check_trusted(cards, Verifier(policy, clock=lambda: now))
    documents = {file: Card.from_bytes(data).document for file, data in cards.items()}
    public, older = documents.pop(CARD_FILE), documents.pop(LEGACY_FILE, None)
    if older is not None:
        _check_legacy(older, public)
    if documents and not declares_extended_card(public):
        message = "there is an extended card, but the public card does not declare one"
        hint = "Set capabilities.extendedAgentCard to true and sign again."
        raise PublishRefused("publish.extended", message, path=_DECLARED, hint=hint)


def note_publication(generation: Generation, earlier: Generation | None) -> Iterator[Finding]:
    """Yield warnings of what readers of a generation will miss or refuse.

    Args:
        generation: What is published now.
        earlier: What was published before, of which readers keep the key set for a while.
    """
    for data in generation.cards.values():
        yield from note_interfaces(Card.from_bytes(data).document)
    public = Card.from_bytes(generation.card).document if generation.card else {}
    if not generation.extended and declares_extended_card(public):
        message = "the public card declares an extended one, but none is named by --extended"
        yield Finding("publish.extended", message, Place(_DECLARED), severity="warning")
    # A key store waits until readers have the next key.
    old = earlier if generation.card and not generation.publisher else None
    if old and not published_card(CARD_FILE, generation.card, JwkSet.from_bytes(old.jwks)).kids:
        message = f"no key of the key set published before ({', '.join(old.kids)}) signs this "
        message += "card: partners that keep that set refuse the card until they fetch the new one "
        message += "(see: cardsign help publish.new_key)"
        yield Finding("publish.new_key", message)


def _audience_of(file: str) -> str | None:
    folder, slash, name = file.partition("/")
    return name.removesuffix(".json") if slash and folder == "extended" else None


def _check_legacy(older: Mapping[str, Json], public: Mapping[str, Json]) -> None:
    """Check that older clients are told of the same agent as all others."""
    is_older = Card.from_object(older).a2a_version == "0.3"
    problem = "" if is_older else "its form is that of A2A 1.0"
    for name in ("name", "version"):
        if not problem and older.get(name) != public.get(name):
            problem = f"its {name} is not that of the public card"
    if problem:
        raise PublishRefused("publish.legacy", f"{_NAMES[LEGACY_FILE]}: {problem}")


def _check_trusted(
    cards: Mapping[str, bytes], verifier: Verifier, evidence: SuppliedStatements = NO_STATEMENTS
) -> None:
    """Check that a verifier that knows one issuer trusts each card; `cards` is by file name."""
    (issuer,), has_statements = verifier.policy.issuers, evidence is not NO_STATEMENTS
    public = verifier.judge(cards[CARD_FILE], Subject(issuer.name), evidence)
    for file, data in cards.items():
        subject = Subject(issuer.name, audience=_audience_of(file))
        report = verifier.judge(data, subject, evidence)
        if subject.audience is not None:
            report = beside_its_public_card(report, public)
        if report.verdict != "trusted":
            card = _NAMES.get(file, f"the extended card of audience {subject.audience}")
            raise _untrusted(report.reasons[0], card, has_statements=has_statements)


def _untrusted(reason: Finding, card: str, *, has_statements: bool) -> PublishRefused:
    """Return the refusal of a card that a verifier would not trust, with what its issuer can do."""
    if has_statements and reason.code in _UNLISTED:
        return PublishRefused("publish.unlisted", f"{card}: {reason.message}")
    # Of a verdict's hints those about a signature are for verifiers: "ask its issuer".
    hint = reason.hint if has_statements else ""
    if reason.code in ("statement.expired", "key.expired"):
        hint = "Check this machine's clock. If it is right, renew the statement: "
        hint += "cardsign keys rotate"
    elif reason.code == "card.origin_mismatch":
        hint = "Correct the card, or the origins: cardsign keyset draft --origin OLD --origin NEW"
    elif reason.code == "extended.served_as_public":
        hint = "Name the public card as CARD, and this one beside it: --extended AUDIENCE=FILE"
    elif reason.code == "extended.other_agent":
        hint = "Give it an endpoint of the public card, and sign it again."
    elif reason.code.startswith("extended."):
        hint = "Sign it for its audience: "
        hint += "cardsign sign CARD --extended AUDIENCE --seq N --expires DATE"
    problem = f"{card} would not be trusted: {reason.code}: {reason.message}"
    return PublishRefused("publish.not_verifying", problem, path=reason.path, hint=hint)


def _unfit(problem: str) -> PublishRefused:
    return PublishRefused("publish.statements", problem)


@dataclass(frozen=True, slots=True)
class Issued:
    """An issuer's statements: the whole history of its keyset, and the newest release.

    Attributes:
        keysets: As published, oldest first; at least one.
        release: As published, or None.
    """

    keysets: tuple[bytes, ...]
    release: bytes | None = None

    def checked(
        self, *, now: datetime | None, published: CheckedIssued | None = None
    ) -> CheckedIssued:
        """Return the statements as read, each by the right of the one before.

        Args:
            now: Aware; the newest may not be of later. None: as they were when they were issued.
            published: What is published: a release that it holds is taken as one of its own time,
                so that one of a clock that was ahead does not keep out its replacement.

        Raises:
            PublishRefused: ``publish.statements``: they are no history, or the release does not
                speak of its end.
        """
        digest = published.release.digest if published and published.release else None
        try:
            read = {read_keyset(data): data for data in self.keysets}
            history = tuple(sorted(read, key=attrgetter("number")))
            for previous, keyset in zip((None, *history), history, strict=False):
                check_step(keyset, previous)
            check_past(history[-1].iat, now or utc(history[-1].iat), SKEW)
            release = None
            if self.release is not None:
                release = read_release(self.release)
                at = utc(release.iat) if now is None or release.digest == digest else now
                # By the statement that it names, which may be the one before the newest.
                named = [keyset for keyset in history if keyset.digest == release.keyset.digest]
                check_release(release, (named or history)[-1], None, now=at, skew=SKEW)
                check_past(release.iat, at, SKEW)
        except StatementRefused as refusal:
            raise _unfit(f"{refusal.code}: {refusal.message}") from refusal
        return CheckedIssued({keyset: read[keyset] for keyset in history}, release, self.release)


@dataclass(frozen=True, slots=True)
class CheckedIssued:
    """Statements that were checked; only :meth:`Issued.checked` makes one.

    Attributes:
        keysets: The history, oldest first, each with its bytes as published.
        release: The newest release, or None.
        release_bytes: The same, as published.
    """

    keysets: Mapping[KeysetStatement, bytes]
    release: ReleaseStatement | None
    release_bytes: bytes | None

    @property
    def newest(self) -> KeysetStatement:
        """The newest keyset statement."""
        return [*self.keysets][-1]

    def files(self) -> dict[str, bytes]:
        """Return the files of a generation that carry them."""
        keysets = {f"keyset/{keyset.label}.json": data for keyset, data in self.keysets.items()}
        release = {} if self.release_bytes is None else {RELEASE_FILE: self.release_bytes}
        return keysets | release

    def withholding(self, published: CheckedIssued | None) -> CheckedIssued:
        """Return these without the newest keysets that no release names yet.

        A verifier with a keyset and no release that names it reaches no verdict, so the two are
        published together. What is `published` stays.
        """
        needed = {keyset.digest for keyset in published.keysets} if published else set()
        needed |= {self.release.keyset.digest} if self.release else set()
        history = [*self.keysets]
        while history and history[-1].digest not in needed:
            history.pop()
        kept = history or self.keysets
        return replace(self, keysets={keyset: self.keysets[keyset] for keyset in kept})

    def check_follows(self, published: CheckedIssued) -> None:
        """Check that these go on where published ones ended.

        Raises:
            PublishRefused: ``publish.statements``: one is missing or another, or the release is
                an older one.
        """
        ours = {keyset.number: keyset.digest for keyset in self.keysets}
        for keyset in published.keysets:
            if ours.get(keyset.number) != keyset.digest:
                raise _unfit(f"keyset {keyset.label} was published as {keyset.digest}")
        last = published.release
        if last is not None and (self.release is None or self.release.order < last.order):
            message = "if nobody here has signed it, revoke the release key"
            raise _unfit(f"release {last.seq} was published already; {message}")

    def list_keys(self, jwks: JwkSet) -> JwkSet:
        """Return those of some keys that the roots list for cards and that are not revoked.

        Raises:
            PublishRefused: ``publish.release_behind``: the release does not name the newest keyset.
        """
        newest, release = self.newest, self.release
        if release is None or release.keyset.digest != newest.digest:
            message = f"no release names keyset {newest.label}, the newest"
            raise PublishRefused("publish.release_behind", message)
        listed = (key for key in jwks.keys if newest.lists(key.thumbprint, "card"))
        return JwkSet.of([key for key in listed if key.thumbprint not in release.revoked])

    def check_trusted(self, cards: Mapping[str, bytes], *, now: datetime) -> None:
        """Check that a verifier with the newest statement trusts some cards, by their files.

        That everybody comes there, :meth:`Issued.checked` has seen; a long history takes a
        verifier several refreshes, so it is not walked here.

        Raises:
            PublishRefused: ``publish.unlisted``: the release does not list the public card, or the
                keyset not the key of a card; ``publish.not_verifying``.
        """
        places = tuple(map(parse_place, self.newest.origins))
        policy = Policy((TrustedIssuer("issuer", KeysetAnchor(self.newest.id), places),))
        verifier = Verifier(policy, lock=Memory(), clock=lambda: now)
        releases = () if self.release_bytes is None else (self.release_bytes,)
        _check_trusted(cards, verifier, SuppliedStatements((self.keysets[self.newest],), releases))


# The next generation.


#: Seconds that a consumer may use what it fetched without asking again. Short, because it
#: bounds how long a withdrawn card or key lives on; asking again costs only a 304.
DEFAULT_MAX_AGE: Final = 300

# A clock may be set back so far. What was published later than that has a wrong time, and all
# waits of a key rotation would run from it.
_AHEAD: Final = timedelta(days=2)
_LOCK: Final = ".lock"
_LOCK_PATIENCE: Final = 60.0  # seconds; a publication takes less
_STAGING: Final = ".new"


@dataclass(frozen=True, slots=True)
class Documents:
    """What is to be published together.

    Attributes:
        card: The signed public card.
        jwks: The keys to publish; those of the key store, where one is named beside the documents.
        extended: The signed extended cards, by the audience that their markers name.
        legacy_card: The same agent, of the same version, as a signed card of A2A 0.3 or 0.2.
        issued: The issuer's statements; None for those that are published already, if any are.
        max_age: Seconds for which caches may keep what is served.
        publisher: Whose publication it is.
    """

    card: bytes
    jwks: JwkSet = field(default_factory=lambda: JwkSet.of([]))
    extended: Mapping[str, bytes] = field(default_factory=dict)
    legacy_card: bytes | None = None
    issued: Issued | None = None
    max_age: int = DEFAULT_MAX_AGE
    publisher: generations.Publisher | None = None

    def cards(self) -> dict[str, bytes]:
        """Return the cards by their files in a generation."""
        older = {} if self.legacy_card is None else {LEGACY_FILE: self.legacy_card}
        extended = {f"extended/{name}.json": card for name, card in sorted(self.extended.items())}
        return {CARD_FILE: self.card, **older, **extended}


def publish_generation(
    documents: Documents,
    directory: Path,
    *,
    now: datetime,
    drops_others: bool = True,
    writes: bool = True,
) -> Generation:
    """Make the next generation, unless the newest one is the same already.

    Every card must be trusted by one who has nothing but the key set as it is published, and,
    where there are statements, by one who has the newest. Keys that these do not list are left
    out, and a keyset that no release names yet is withheld.

    Args:
        documents: What is published.
        directory: Made if absent. A damaged generation in it counts as different.
        now: Aware UTC; recorded as the time of publication. No marker may have expired then.
        drops_others: Stop publishing the extended cards that are not named here.
        writes: False to compare alone: what would be published is returned.

    Returns:
        The newest generation; its ``created`` says whether it is new.

    Raises:
        KeyRefused: The key set is larger than others would read.
        PublishRefused: As :func:`cardsign.publish.publication.check_cards`, ``publish.statements``,
            ``publish.release_behind``, ``publish.unlisted``; ``publish.extended``: an extended card
            would go silently, while the public card declares one.
        UsageFault: ``publish.audience_name``; ``publish.other_publisher``.
        FileFault: ``publish.other_publisher`` where the directory holds anything else.
        ServeFault: ``serve.newer_format``.
    """
    cards, keys, issued = documents.cards(), documents.jwks, documents.issued
    check_cards(cards, keys, now)
    with _locked(directory, writes=writes):
        newest = generations.newest_generation(directory)
        if newest is not None and not drops_others:
            _refuse_to_drop(newest, documents)
        published = statements_in(newest)
        if published is None or issued is None:  # else only their history counts
            check_publisher(newest, documents.publisher, directory)
        statements = published if issued is None else _following(issued, published, now)
        if statements is not None:
            keys = statements.list_keys(keys)
            statements.check_trusted(cards, now=now)
            check_cards(cards, keys, now)
        content = {**cards, JWKS_FILE: keys.to_bytes()} | (statements.files() if statements else {})
        generation = Generation(0, now, documents.max_age, content, publisher=documents.publisher)
        return _commit(directory, generation, newest, writes=writes)


def _refuse_to_drop(newest: Generation, documents: Documents) -> None:
    """Refuse to drop a published extended card while the public card declares one."""
    missing = [audience for audience in newest.extended if audience not in documents.extended]
    if missing and declares_extended_card(Card.from_bytes(documents.card).document):
        message = f"the extended card of audience {missing[0]} is published, and is not named now"
        hint = "If it is yours, name it: --extended NAME=FILE, or [[card]] of cardsign.toml. Else "
        hint += "drop it: cardsign publish --drop-others"
        raise PublishRefused("publish.extended", message, hint=hint)


def publish_statements(
    issued: Issued | None,
    directory: Path,
    *,
    now: datetime,
    publisher: generations.Publisher | None = None,
    ended: frozenset[str] = frozenset(),
    withdraws: bool = False,
    writes: bool = True,
) -> Generation | None:
    """Make the next generation of what is published already and of newer statements.

    Keys that have ended leave the published key set, even if a published card needs them.

    This is how a release comes before the card that needs it. The published cards are not judged
    again: a revocation must not wait until a card is signed again.

    Args:
        issued: The issuer's statements; None for those that are published, of whatever form.
        directory: The publication directory.
        now: Aware UTC; recorded as the time of publication.
        publisher: The key store whose statements these are. Where statements are published, only
            their history counts; where none are, a directory of another one is refused.
        ended: Thumbprints of the keys that have ended.
        withdraws: Publish the cards no longer.
        writes: False to compare alone: what would be published is returned.

    Returns:
        The newest generation; None where there is none.

    Raises:
        PublishRefused: ``publish.statements``: they do not follow the published ones.
        UsageFault: ``publish.other_publisher``.
        FileFault, ServeFault: As :func:`publish_generation`.
    """
    if generations.newest_generation(directory) is None:
        return None
    with _locked(directory, writes=writes):
        newest = generations.load_current(directory)
        published = statements_in(newest) if issued is not None else None
        if published is None:
            check_publisher(newest, publisher, directory)
        dropped = newest.cards if withdraws else {}
        content = {name: data for name, data in newest.files.items() if name not in dropped}
        if issued is not None:
            statements = _following(issued, published, now)
            if published is not None or statements.release is not None:
                content |= statements.files()
        keys = JwkSet.from_bytes(newest.jwks).keys
        if any(key.thumbprint in ended for key in keys):
            keys = tuple(key for key in keys if key.thumbprint not in ended)
            content[JWKS_FILE] = JwkSet.of(keys).to_bytes()
        owner = newest.publisher or publisher
        if owner and publisher and published is not None:  # whose statements these lead on from
            owner = publisher.model_copy(update={"issuer": publisher.issuer or owner.issuer})
        generation = Generation(0, now, newest.max_age, content, publisher=owner)
        return _commit(directory, generation, newest, writes=writes)


def check_publisher(
    newest: Generation | None, publisher: generations.Publisher | None, directory: Path
) -> None:
    """Refuse a directory that holds the publications of another key store, or another issuer.

    A project folder may come from a stranger, and name another publisher's directory.

    Raises:
        UsageFault: ``publish.other_publisher``.
    """
    owner = newest.publisher if newest else None
    message = ""
    if owner and (publisher is None or publisher.keystore != owner.keystore):
        message = "this directory holds the publications of another key store"
    elif owner and publisher and len({owner.issuer, publisher.issuer} - {None}) > 1:
        message = f"this directory holds the publications of {owner.issuer}, not {publisher.issuer}"
    if message:
        raise UsageFault("publish.other_publisher", message, path=str(directory))


def statements_in(newest: Generation | None) -> CheckedIssued | None:
    """Return the statements in a generation; None where there are none.

    Raises:
        PublishRefused: ``publish.statements``: they are no history.
    """
    if newest is None or not newest.keysets:
        return None
    return Issued(tuple(newest.keysets.values()), newest.release).checked(now=None)


def _following(issued: Issued, published: CheckedIssued | None, now: datetime) -> CheckedIssued:
    """Return the newer statements that follow the published ones."""
    statements = issued.checked(now=now, published=published).withholding(published)
    if published is not None:
        statements.check_follows(published)
    return statements


# The directory.


def _commit(
    directory: Path, generation: Generation, newest: Generation | None, *, writes: bool
) -> Generation:
    """Write a generation that says something new: a folder, renamed whole, then pointed to."""
    published_at = generation.published_at.astimezone(UTC).replace(microsecond=0)
    if newest and newest.published_at - published_at <= _AHEAD:
        same = replace(newest, number=generation.number, published_at=generation.published_at)
        if generation == same:
            return newest
        # A cache tells changes by whole seconds, and clocks are set back.
        published_at = max(published_at, newest.published_at + timedelta(seconds=1))
    number = generations.last_number(directory) + 1
    generation = replace(generation, number=number, published_at=published_at, created=True)
    if not writes:
        return generation
    staging = directory / _STAGING
    # What a publication left that was killed; the lock says that it is not under way. A link that
    # somebody laid there is not followed.
    shutil.rmtree(staging, ignore_errors=True)
    with contextlib.suppress(OSError):
        staging.unlink()
    folder = staging / generation.folder
    try:
        for name, data in generation.files.items():
            files.make_directory((folder / name).parent)
            files.write_atomic(folder / name, data)
        files.write_atomic(staging / files.CURRENT_FILE, generation.manifest())
        files.sync_directory(folder)
        with files.file_faults(directory, "file.unwritable"):
            folder.rename(directory / generation.folder)
            files.sync_directory(directory)
            # Should this fail, the folder stays, unnamed, and its number is not used again.
            (staging / files.CURRENT_FILE).replace(directory / files.CURRENT_FILE)
        files.sync_directory(directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    # A server of several publications looks at their folder all the time, at each once a minute.
    with contextlib.suppress(OSError):  # another user's folder
        os.utime(directory.parent)
    return generation


@contextlib.contextmanager
def _locked(directory: Path, *, writes: bool) -> Iterator[None]:
    """Make the directory if needed, and let no other process publish into it meanwhile.

    A directory of somebody's files is refused. In a publication directory a file of another name
    does no harm, and hinders no revocation.
    """
    names = files.list_names(directory)
    for name in names if files.CURRENT_FILE not in names else ():
        if name not in (_LOCK, _STAGING) and not generations.FOLDER.fullmatch(name):
            message = f"this folder holds {name!r}, which does not belong there: "
            message += "move it, or name an empty folder"
            raise FileFault("publish.other_publisher", message, path=str(directory))
    if not writes:
        yield
        return
    files.make_directory(directory)
    busy = FileFault("file.busy", "another process publishes here", path=str(directory))
    with files.locked(directory / _LOCK, patience=_LOCK_PATIENCE, busy=busy):
        yield


# What a key store notes.


def publication_of(generation: Generation) -> Publication:
    """Describe a generation for the key store that its keys are of.

    What is no card is left out: somebody else has put it there, and nothing waits for it.
    """
    jwks, cards = JwkSet.from_bytes(generation.jwks), list[PublishedCard]()
    for name, card in generation.cards.items():
        with contextlib.suppress(errors.InputRefused):
            cards.append(published_card(name, card, jwks))
    about = generation.number, generation.published_at, generation.max_age, generation.kids
    return Publication(*about, tuple(cards))


def published_card(name: str, card: bytes, jwks: JwkSet) -> PublishedCard:
    """Describe a card for the record of its publication.

    Its `kids` are those of the keys that have signed all of it, as it is served.

    Args:
        name: Its file in the publication.
        card: The card, as published.
        jwks: The keys that are published beside it.

    Raises:
        JsonRefused, CardRefused: The bytes are no Agent Card that can be read one way only.
        CanonicalizationError: It has no `served-as-is` payload.
    """
    read = Card.from_bytes(card)
    payload, kids = canonicalize(read.document, "served-as-is"), dict[str, None]()
    for untrusted_entry in read.signatures:
        with contextlib.suppress(SignatureRefused):
            entry = read_entry(untrusted_entry)
            if key := jwks.find(entry.kid):
                check_entry(entry, payload.data, key)
                kids[key.kid] = None
    endpoints = (interface.url for interface in current_interfaces(read.document))
    url = next((endpoint for endpoint in endpoints if isinstance(endpoint, str)), None)
    return PublishedCard(name=name, url=url, payload_sha256=payload.sha256, kids=tuple(kids))
