"""Publishing: cards and a key set become the next generation."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cardsign.card.canonical import Payloads, canonicalize
from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.errors import FileFault, ServeFault, SignatureRefused, UsageFault
from cardsign.files import (
    file_faults,
    list_names,
    locked,
    make_directory,
    sync_directory,
    write_atomic,
)
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import read_entry
from cardsign.keys.ledger import Publication, PublishedCard
from cardsign.publish.checks import CheckedIssued, Issued, check_cards
from cardsign.publish.generation import (
    CARD_FILE,
    CURRENT_FILE,
    FOLDER,
    JWKS_FILE,
    LEGACY_FILE,
    Generation,
    Publisher,
    find_current,
    is_card,
    load_current,
    tell_servers,
)
from cardsign.verify.signature import matching_payload

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
    publisher: Publisher | None = None

    def cards(self) -> dict[str, bytes]:
        """The cards by their files in a generation."""
        cards = {CARD_FILE: self.card}
        if self.legacy_card is not None:
            cards[LEGACY_FILE] = self.legacy_card
        return cards | {
            f"extended/{name}.json": self.extended[name] for name in sorted(self.extended)
        }


def publish_generation(
    documents: Documents, directory: Path, *, now: datetime, writes: bool = True
) -> Generation:
    """Make the next generation, unless the newest one is the same already.

    Every card must be trusted by one who has nothing but the key set as it is published, and,
    where there are statements, by one who has the newest. Keys that these do not list are left
    out, and a keyset that no release names yet is withheld.

    Args:
        documents: What is published.
        directory: Made if absent. A damaged generation in it counts as different.
        now: Aware UTC; recorded as the time of publication. No marker may have expired then.
        writes: False to compare alone: what would be published is returned.

    Returns:
        The newest generation; its ``created`` says whether it is new.

    Raises:
        KeyRefused: The key set is larger than others would read.
        PublishRefused: As :func:`cardsign.publish.checks.check_cards`, ``publish.statements``,
            ``publish.release_behind``, ``publish.unlisted``.
        UsageFault: ``publish.audience_name``; ``publish.other_publisher``.
        FileFault: ``publish.other_publisher`` where the directory holds anything else.
        ServeFault: ``serve.newer_format``.
    """
    cards, keys, issued = documents.cards(), documents.jwks, documents.issued
    check_cards(cards, keys, now)
    with _locked(directory, writes=writes):
        newest = _newest(directory)
        published = _published(newest)
        if published is None or issued is None:  # else only their history counts
            check_publisher(newest, documents.publisher, directory)
        statements = published if issued is None else _following(issued, published, now)
        if statements is not None:
            keys = statements.list_keys(keys)
            statements.check_trusted(cards, now=now)
            check_cards(cards, keys, now)
        files = {**cards, JWKS_FILE: keys.to_bytes()} | (statements.files() if statements else {})
        generation = Generation(0, now, documents.max_age, files, publisher=documents.publisher)
        return _commit(directory, generation, newest, writes=writes)


def publish_statements(
    issued: Issued | None,
    directory: Path,
    *,
    now: datetime,
    publisher: Publisher | None = None,
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
    if not directory.exists():
        return None
    with _locked(directory, writes=writes):
        newest = _newest(directory)
        if newest is None:
            return None
        published = _published(newest) if issued is not None else None
        if published is None:
            check_publisher(newest, publisher, directory)
        files = {
            name: data for name, data in newest.files.items() if not (withdraws and is_card(name))
        }
        if issued is not None:
            statements = _following(issued, published, now)
            if published is not None or statements.release is not None:
                files |= statements.files()
        keys = JwkSet.from_bytes(newest.jwks).keys
        if any(key.thumbprint in ended for key in keys):
            kept = [key for key in keys if key.thumbprint not in ended]
            files[JWKS_FILE] = JwkSet.of(kept).to_bytes()
        owner = newest.publisher or publisher
        generation = Generation(0, now, newest.max_age, files, publisher=owner)
        return _commit(directory, generation, newest, writes=writes)


def check_publisher(
    newest: Generation | None, publisher: Publisher | None, directory: Path
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


def _published(newest: Generation | None) -> CheckedIssued | None:
    """The statements that are published; None where there are none."""
    issued = Issued.of(newest) if newest else None
    return issued.checked(now=None) if issued else None


def _following(issued: Issued, before: CheckedIssued | None, now: datetime) -> CheckedIssued:
    """The newer statements that follow the published ones."""
    statements = issued.checked(now=now, before=before).withholding(before)
    if before is not None:
        statements.check_follows(before)
    return statements


# ---------------------------------------------------------------------- the directory


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
    number = _last_number(directory) + 1
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
            make_directory((folder / name).parent)
            write_atomic(folder / name, data)
        write_atomic(staging / CURRENT_FILE, generation.manifest())
        sync_directory(folder)
        with file_faults(directory, "file.unwritable"):
            folder.rename(directory / generation.folder)
            sync_directory(directory)
            # Should this fail, the folder stays, unnamed, and its number is not used again.
            (staging / CURRENT_FILE).replace(directory / CURRENT_FILE)
        sync_directory(directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    tell_servers(directory)
    return generation


def _last_number(directory: Path) -> int:
    """The highest number ever given, whether or not `current` came to name it."""
    numbers = [int(name) for name in list_names(directory) if FOLDER.fullmatch(name)]
    with contextlib.suppress(ServeFault):
        numbers.append(find_current(directory))
    return max(numbers, default=0)


def _newest(directory: Path) -> Generation | None:
    """The newest generation; None where there is none, or only a damaged one."""
    try:
        return load_current(directory)
    except ServeFault as exc:
        if exc.code == "serve.newer_format":
            raise
        return None


def _refuse_foreign_entries(directory: Path) -> None:
    """Refuse a directory of somebody's files.

    In a publication directory a file of another name does no harm, and hinders no revocation.
    """
    names = list_names(directory)
    for name in names if CURRENT_FILE not in names else ():
        if name not in (_LOCK, _STAGING) and not FOLDER.fullmatch(name):
            raise FileFault(
                "publish.other_publisher",
                f"the publication directory holds {name!r}, which cardsign did not write",
                path=str(directory),
                hint="Publish into a directory of its own: cardsign publish CARD -o DIR",
            )


@contextlib.contextmanager
def _locked(directory: Path, *, writes: bool) -> Iterator[None]:
    """Make the directory if needed, and let no other process publish into it meanwhile."""
    _refuse_foreign_entries(directory)
    if not writes:
        yield
        return
    make_directory(directory)
    busy = FileFault("file.busy", "another process publishes here", path=str(directory))
    with locked(directory / _LOCK, patience=_LOCK_PATIENCE, busy=busy):
        yield


# ------------------------------------------------------------------- what a key store notes


def publication_of(generation: Generation) -> Publication:
    """Describe a generation for the key store that its keys are of.

    Raises:
        InputRefused: It is not as :func:`publish_generation` makes them.
    """
    jwks = JwkSet.from_bytes(generation.jwks)
    cards = {name: data for name, data in generation.files.items() if is_card(name)}
    return Publication(
        generation.number,
        generation.published_at,
        generation.max_age,
        generation.kids,
        tuple(published_card(name, card, jwks) for name, card in cards.items()),
    )


def published_card(name: str, card: bytes, jwks: JwkSet) -> PublishedCard:
    """Describe a card for the record of its publication.

    Args:
        name: Its file in the publication.
        card: The card, as published.
        jwks: The keys that are published beside it.

    Raises:
        JsonRefused, CardRefused: The bytes are no Agent Card that can be read one way only.
        CanonicalizationError: It has no `served-as-is` payload.
    """
    read = Card.from_bytes(card)
    payloads, kids = Payloads(read), dict[str, None]()
    for untrusted_entry in read.signatures:
        with contextlib.suppress(SignatureRefused):
            entry = read_entry(untrusted_entry)
            key = jwks.find(entry.header.kid)
            if key is not None and matching_payload(entry, key, payloads):
                kids[key.kid] = None
    endpoints = (interface.url for interface in current_interfaces(read.document))
    return PublishedCard(
        name=name,
        url=next((interface for interface in endpoints if isinstance(interface, str)), None),
        payload_sha256=canonicalize(read.document, "served-as-is").sha256,
        kids=tuple(kids),
    )
