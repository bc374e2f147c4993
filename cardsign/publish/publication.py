"""Publishing: cards and a key set become the next generation.

A key store keeps whose signatures its cards carry, and tells when the published keys change next.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.card.canonical import Payloads, canonicalize
from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.errors import FileFault, ServeFault, SignatureRefused, UsageFault
from cardsign.files import (
    list_names,
    locked,
    make_directory,
    remove,
    rename,
    sync_directory,
    write_atomic,
)
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import read_entry
from cardsign.keys.agenda import next_change
from cardsign.keys.lifecycle import TimelineSettings, record_publication
from cardsign.keys.log import fold_all
from cardsign.keys.model import Publication, PublishedCard, StoreState
from cardsign.publish.checks import CheckedIssued, Issued, check_cards
from cardsign.publish.generation import (
    CARD_FILE,
    CURRENT_FILE,
    FOLDER,
    JWKS_FILE,
    LEGACY_FILE,
    MANIFEST_FILE,
    MAX_MAX_AGE,
    MAX_NUMBER,
    Generation,
    Publisher,
    is_card,
    load_current,
    read_pointer,
    tell_servers,
)
from cardsign.verify.signature import matching_payload

#: Seconds that a consumer may use what it fetched without asking again. Short, because it
#: bounds how long a withdrawn card or key lives on; asking again costs only a 304.
DEFAULT_MAX_AGE: Final = 300

#: When the published keys change next, once a generation is published; None: unknown.
NextChange: TypeAlias = Callable[[Generation], datetime | None]

# A clock may be set back so far. What was published later than that has a wrong time, and all
# waits of a key rotation would run from it.
_AHEAD: Final = timedelta(days=2)
_LOCK: Final = ".lock"
_LOCK_PATIENCE: Final = 60.0  # seconds; a publication takes less
_STAGING: Final = ".new"
# What `write_atomic` leaves beside `current` when it is killed.
_LEFTOVER: Final = re.compile(r"\.current\.[0-9a-f]+\.tmp")


def publish_generation(
    card: bytes,
    *,
    jwks: JwkSet,
    extended: Mapping[str, bytes],
    directory: Path,
    now: datetime,
    max_age: int = DEFAULT_MAX_AGE,
    issued: Issued | None = None,
    sequence: int | None = None,
    next_change: NextChange = lambda _: None,
    publisher: Publisher | None = None,
    legacy_card: bytes | None = None,
    writes: bool = True,
) -> Generation:
    """Make the next generation, unless the newest one is the same already.

    Every card must be trusted by one who has nothing but the key set as it is published. An
    extended card must say in its marker for whom it is, and a public one must have none.

    Args:
        card: The signed public card.
        jwks: The keys to publish.
        extended: The signed extended cards, by the audience that their markers name.
        directory: Made if absent. A damaged generation in it counts as different.
        now: Aware UTC; recorded as the time of publication. No marker may have expired then.
        max_age: Seconds, 0 to :data:`cardsign.publish.generation.MAX_MAX_AGE`.
        issued: The issuer's statements. With them, or where the newest generation carries some,
            which stay then, a verifier that has the newest must trust the cards, and keys that
            it does not list are left out. A keyset that no release names yet is withheld.
        sequence: How often `jwks` has changed, if that is known; it is published with it.
        next_change: When the published keys are to change next, once a generation is published.
        publisher: Whose publication it is.
        legacy_card: The same agent, of the same version, as a signed card of A2A 0.3 or 0.2.
        writes: False to compare alone: what would be published is returned.

    Returns:
        The newest generation; its ``created`` says whether it is new.

    Raises:
        KeyRefused: The key set is larger than others would read.
        PublishRefused: As :func:`cardsign.publish.checks.check_cards`, ``publish.statements``,
            ``publish.release_behind``, ``publish.unlisted``.
        UsageFault: ``publish.audience_name``; ``publish.other_publisher``.
        FileFault: ``publish.other_publisher`` where the directory holds anything else.
        ServeFault: ``serve.newer_format``; ``serve.corrupt_generation``: the numbers are used up.
    """
    cards = {CARD_FILE: card} | ({} if legacy_card is None else {LEGACY_FILE: legacy_card})
    cards |= {f"extended/{name}.json": data for name, data in sorted(extended.items())}
    check_cards(cards, _key_file(jwks, 0, sequence, max_age), now)
    _refuse_foreign_entries(directory)
    with _locked(directory) if writes else contextlib.nullcontext():
        newest = _newest(directory)
        before = _published(newest)
        if before is None or issued is None:  # else only their history counts
            _check_publisher(newest, publisher, directory)
        statements = before if issued is None else _following(issued, before, now)
        keys = statements.admitted(cards, jwks, now=now) if statements else jwks
        left_out = len(jwks.keys) - len(keys.keys)
        files = {**cards, JWKS_FILE: _key_file(keys, left_out, sequence, max_age)}
        files |= statements.files() if statements else {}
        kids = tuple(key.kid for key in keys.keys)
        generation = _next(directory, newest, files, kids, max_age, now, next_change, publisher)
        return _committed(directory, generation) if writes else generation


def publish_statements(
    issued: Issued | None,
    *,
    directory: Path,
    now: datetime,
    publisher: Publisher | None = None,
    ended: frozenset[str] = frozenset(),
    sequence: int | None = None,
    writes: bool = True,
) -> Generation | None:
    """Make the next generation of what is published already and of newer statements.

    Keys that have ended leave the published key set, even if a published card needs them.

    This is how a release comes before the card that needs it. The published cards are not judged
    again: a revocation must not wait until a card is signed again. A keyset that no
    release names yet is withheld, unless it was published before.

    Args:
        issued: The issuer's statements; None for none.
        directory: The publication directory.
        now: Aware UTC; recorded as the time of publication.
        publisher: Whose statements these are. Where statements are published, only their history
            counts; where none are, a directory that holds another's cards is refused.
        ended: Kids of revoked keys; `sequence` is how often the key set has changed.
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
    _refuse_foreign_entries(directory)
    with _locked(directory) if writes else contextlib.nullcontext():
        newest = _newest(directory)
        if newest is None:
            return None
        before = _published(newest)
        if before is None:
            _check_publisher(newest, publisher, directory)
        files, kids = dict(newest.files), newest.kids
        if issued is not None:
            statements = _following(issued, before, now)
            if before is not None or statements.release is not None:
                replaced = newest.statement_files
                kept = {name: data for name, data in files.items() if name not in replaced}
                files = kept | statements.files()
        if ended.intersection(kids):
            held = JwkSet.from_bytes(newest.jwks)
            keys = JwkSet.of([key for key in held.keys if key.kid not in ended])
            kids = tuple(key.kid for key in keys.keys)
            files[JWKS_FILE] = keys.to_bytes(sequence=sequence, refresh_hint=newest.max_age)
        max_age, changes_at = newest.max_age, newest.changes_at
        whose = newest.publisher or publisher
        generation = _next(
            directory, newest, files, kids, max_age, now, lambda _: changes_at, whose
        )
        return _committed(directory, generation) if writes else generation


def _check_publisher(
    newest: Generation | None, publisher: Publisher | None, directory: Path
) -> None:
    """Refuse a directory that holds the publications of another key store, or another issuer.

    A project folder may come from a stranger, and name another publisher's directory.
    """
    held = newest.publisher if newest else None
    if held is None:
        return
    if publisher is None or publisher.keystore != held.keystore:
        what = "this directory holds the publications of another key store"
    elif None not in (held.issuer, publisher.issuer) and held.issuer != publisher.issuer:
        what = f"this directory holds the publications of {held.issuer}, not {publisher.issuer}"
    else:
        return
    raise UsageFault("publish.other_publisher", what, path=str(directory))


def _key_file(keys: JwkSet, left_out: int, sequence: int | None, max_age: int) -> bytes:
    """The key set as it is published, as if the keys left out had not been made yet."""
    if not 0 <= max_age <= MAX_MAX_AGE:
        raise UsageFault("usage.conflict", f"max_age is {max_age}, not 0 to {MAX_MAX_AGE} seconds")
    counted = None if sequence is None else sequence - left_out
    return keys.to_bytes(sequence=counted, refresh_hint=max_age)


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


def _next(
    directory: Path,
    newest: Generation | None,
    files: dict[str, bytes],
    kids: tuple[str, ...],
    max_age: int,
    now: datetime,
    next_change: NextChange,
    publisher: Publisher | None,
) -> Generation:
    if newest is not None and newest.published_at - now > _AHEAD:
        newest = None
    # The key set tells max_age, too.
    is_same = newest is not None and (newest.files, newest.publisher) == (files, publisher)
    if newest and is_same and newest.changes_at == next_change(newest):
        return newest
    # The highest number ever given, whether or not `current` came to name it.
    numbers = [int(name) for name in list_names(directory) if FOLDER.fullmatch(name)]
    with contextlib.suppress(ServeFault):
        numbers.append(read_pointer(directory)[0])
    number = max(numbers, default=0)
    if number >= MAX_NUMBER:
        raise ServeFault(
            "serve.corrupt_generation",
            f"no generation can follow {number}",
            path=str(directory),
            hint="Move the directory away, and publish again.",
        )
    published_at = now.astimezone(UTC).replace(microsecond=0)
    if newest:  # a cache tells changes by whole seconds, and clocks are set back
        published_at = max(published_at, newest.published_at + timedelta(seconds=1))
    generation = Generation(
        number=number + 1,
        published_at=published_at,
        max_age=max_age,
        files=files,
        kids=kids,
        created=True,
        publisher=publisher,
    )
    return replace(generation, changes_at=next_change(generation))


# ---------------------------------------------------------------------- the directory


def _committed(directory: Path, generation: Generation) -> Generation:
    """Write a new generation: its folder under another name, renamed, then pointed to."""
    if not generation.created:
        return generation
    staging = directory / _STAGING
    # What a publication left that was killed; the lock says that it is not under way.
    shutil.rmtree(staging, ignore_errors=True)
    for name in filter(_LEFTOVER.fullmatch, list_names(directory)):
        remove(directory / name)
    try:
        make_directory(staging)
        for name, data in {**generation.files, MANIFEST_FILE: generation.manifest()}.items():
            make_directory((staging / name).parent)
            write_atomic(staging / name, data)
        sync_directory(staging)
        rename(staging, directory / generation.folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    sync_directory(directory)
    # Should this fail, the folder stays, whole but unnamed, and its number is not used again.
    write_atomic(directory / CURRENT_FILE, generation.pointer())
    tell_servers(directory)
    return generation


def _newest(directory: Path) -> Generation | None:
    """The newest generation; None where there is none, or only a damaged one."""
    try:
        return load_current(directory)
    except ServeFault as exc:
        if exc.code == "serve.newer_format":
            raise
        return None


def _refuse_foreign_entries(directory: Path) -> None:
    for name in list_names(directory):
        path = directory / name
        is_passing = name == _STAGING or _LEFTOVER.fullmatch(name)  # it may be gone by now
        is_file = name in (CURRENT_FILE, _LOCK) and path.is_file()
        is_ours = is_passing or is_file or (FOLDER.fullmatch(name) and path.is_dir())
        if path.is_symlink() or not is_ours:
            raise FileFault(
                "publish.other_publisher",
                f"the publication directory holds {name!r}, which cardsign did not write",
                path=str(directory),
                hint="Publish into a directory of its own: cardsign publish CARD -o DIR",
            )


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Make the directory if needed, and let no other process publish into it meanwhile."""
    make_directory(directory)
    busy = FileFault("file.busy", "another process publishes here", path=str(directory))
    with locked(directory / _LOCK, patience=_LOCK_PATIENCE, busy=busy):
        yield


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


def next_change_by(state: StoreState, settings: TimelineSettings, now: datetime) -> NextChange:
    """Say when the next card key is due to be activated or dropped, once a generation is recorded.

    Args:
        state: Of the store that the published keys are of.
        settings: What is assumed of caches.
        now: The time, with its zone.
    """

    def by(generation: Generation) -> datetime | None:
        at = generation.published_at
        recorded = fold_all(state, record_publication(state, publication_of(generation)), at)
        due = next_change(recorded, settings, now)
        return due and max(due, generation.published_at)

    return by


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
    endpoints = (one.url for one in current_interfaces(read.document))
    return PublishedCard(
        name=name,
        url=next((one for one in endpoints if isinstance(one, str)), None),
        payload_sha256=canonicalize(read.document, "served-as-is").sha256,
        kids=tuple(kids),
    )
