"""What the commands that publish share: the statements to go with it, the record, the talk."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cardsign.cli.options import project_config
from cardsign.cli.talk import safe, say
from cardsign.errors import LocalFault, PublishRefused, ServeFault
from cardsign.generation import Generation, load_current
from cardsign.issued import CheckedIssued, Issued
from cardsign.keys.ledger import Ledger
from cardsign.keys.opening import AnyStore
from cardsign.publish import publish_statements
from cardsign.recorded import publication_of


def issued_of(store: AnyStore) -> Issued | None:
    """The statements of a store, to be published; None where there are none."""
    keysets, release = Ledger.beside(store).to_publish()
    return Issued(keysets, release) if keysets else None


def newest_of(publication: Path | None) -> Generation | None:
    """What is published, there or where ``cardsign.toml`` says; None if nothing is."""
    directory = publication or project_config().publish
    try:
        return load_current(directory) if directory else None
    except ServeFault as fault:
        if fault.code == "serve.no_generation":
            return None
        raise


def published_by(publication: Path | None) -> CheckedIssued | None:
    """The statements that are published; None if none are.

    Raises:
        PublishRefused: ``publish.statements``: they are no history.
    """
    generation = newest_of(publication)
    issued = Issued.of(generation) if generation else None
    return issued.published() if issued else None


def check_publishable(
    store: AnyStore,
    publication: Path | None,
    *,
    keyset: bytes | None = None,
    release: bytes | None = None,
    now: datetime,
) -> None:
    """Refuse a statement that what is published will not go on with, before it is kept.

    Raises:
        PublishRefused: ``publish.statements``.
    """
    issued, before = issued_of(store), published_by(publication)
    if before is None:
        return
    keysets = (*(issued.keysets if issued else ()), *([keyset] if keyset else ()))
    candidate = Issued(keysets, release or (issued.release if issued else None))
    candidate.checked(now=now, before=before).check_follows(before)


def publish_newest(
    store: AnyStore, publication: Path | None, *, now: datetime, without_release: bool = False
) -> Generation | None:
    """Put the newest statements into what is published, where something is.

    It goes on record if what was published before is: else nobody knows whether that is live.

    Raises:
        PublishRefused: As :func:`cardsign.publish.publish_statements`.
    """
    directory = publication or project_config().publish
    issued = issued_of(store)
    if directory is None or issued is None:
        return None
    before = newest_of(publication)
    generation = publish_statements(
        issued, directory=directory, now=now, without_release=without_release
    )
    if before is None or generation is None:
        say(f"nothing is published in {directory} yet; the statements will go with the first card")
        return None
    if _recorded(store, generation) & {before.number, generation.number - 1}:
        on_record(store, generation)
    if generation.created:
        say(f"published generation {generation.number} in {directory}")
    tell_withheld(store, generation)
    _tell_of_keys(store, generation)
    _tell_of_cards(generation, now)
    return generation


def _recorded(store: AnyStore, generation: Generation) -> set[int]:
    """The numbers of the generations of the same card that are on record."""
    series = publication_of(generation).series
    return {one.generation for one in store.load().publications if one.series == series}


def on_record(store: AnyStore, generation: Generation) -> None:
    """Let the key store note what is published: all waits of a key rotation run from there.

    Raises:
        LocalFault: As :meth:`KeyOperations.record_publication`, with what to do.
    """
    try:
        store.record_publication(publication_of(generation), now=datetime.now(UTC))
    except LocalFault as fault:
        raise type(fault)(
            fault.code,
            f"generation {generation.number} is published, but not on record: {fault.message}",
            path=fault.path,
            hint="Mend this and publish the same again; no key rotation goes on before.",
        ) from fault


def tell_withheld(store: AnyStore, generation: Generation) -> None:
    """Say which keyset statement is not published yet, and what it waits for."""
    newest = Ledger.beside(store).newest_keyset()
    number = f"{newest.epoch}.{newest.version}" if newest else ""
    if number and number not in generation.keysets:
        say(f"keyset {number} is withheld from what is published until a release speaks of it")
        say("  next: cardsign release renew")


def _tell_of_keys(store: AnyStore, generation: Generation) -> None:
    """Say which keys the published key set lacks, or holds no longer with right."""
    ours = {key.kid for key in store.published_keys()}
    gone = {key.kid for key in store.state.keys} - ours
    for kid in sorted(ours.difference(generation.kids)):
        say(f"the published key set lacks {kid}: cardsign publish")
    for kid in sorted(gone.intersection(generation.kids)):
        say(f"the published key set still holds {kid}: cardsign publish")


def _tell_of_cards(generation: Generation, now: datetime) -> None:
    """Say if the card that was published before is trusted no more by what is published now."""
    issued = Issued.of(generation)
    if issued is None:
        return
    try:
        issued.published().check_cards(generation.card, {}, now=now)
    except PublishRefused as refusal:
        say(f"the published card is not trusted now: {safe(refusal.message, limit=400)}")
        say("  next: sign it again, list it and publish it")
