"""What a key store has to publish: cards with its key set, and the issuer's statements.

The key store notes every publication, because all waits of a key rotation run from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card
from cardsign.config import ProjectConfig
from cardsign.errors import (
    FetchFailed,
    FileFault,
    LocalFault,
    PublishRefused,
    ServeFault,
    UsageFault,
)
from cardsign.issuer.work import Gap, Work
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.keys.history import kept_keyset, kept_keysets, kept_release, statements_to_publish
from cardsign.keys.lifecycle import record_publication as record_publication_events
from cardsign.keys.model import KeyRecord
from cardsign.keys.signers.access import Access
from cardsign.keys.store import KeyStore, digest_of
from cardsign.net.fetch import FetchSettings, fetch_document
from cardsign.publish.checks import CheckedIssued, Issued
from cardsign.publish.generation import (
    CARD_FILE,
    Generation,
    Publisher,
    load_current,
    read_statements_left,
)
from cardsign.publish.publication import (
    DEFAULT_MAX_AGE,
    Documents,
    publication_of,
    publish_generation,
    publish_statements,
)
from cardsign.urls import CARD_PATH, JWKS_PATH


def list_changes(generation: Generation, before: Generation | None) -> dict[str, str]:
    """Return for each file that is not as before whether it is ``new``, ``changed`` or ``gone``."""
    old, new = before.files if before else {}, generation.files
    changes = {name: "changed" if name in old else "new" for name in new}
    changes = {name: change for name, change in changes.items() if old.get(name) != new[name]}
    return changes | {name: "gone" for name in old if name not in new}


def _with_published(
    documents: Documents, newest: Generation | None, *, drops_others: bool
) -> Documents:
    """Return documents with what stays of the newest generation.

    Raises:
        PublishRefused: ``publish.extended``: an extended card would go silently, while the public
            card declares one.
    """
    if newest is None or drops_others:
        return documents
    missing = [audience for audience in newest.extended if audience not in documents.extended]
    if missing and declares_extended_card(Card.from_bytes(documents.card).document):
        raise PublishRefused(
            "publish.extended",
            f"the extended card of audience {missing[0]} is published, and is not named now",
            hint="Name it with --extended NAME=FILE or in cardsign.toml, or drop what is not "
            "named: --drop-others.",
        )
    return replace(documents, legacy_card=documents.legacy_card or newest.legacy_card)


def publish_cards(
    work: Work, documents: Documents, *, max_age: int | None = None, writes: bool = True
) -> Generation:
    """Publish signed cards with the key set and the statements of a key store.

    Args:
        work: Whose keys and statements go along, and where to. A directory of another issuer is
            refused, and one that is absent is made.
        documents: The cards; what goes along is the key store's.
        max_age: Seconds for which caches may keep what is served [default: 300, or less where
            rotation assumes less].
        writes: False to compare alone; nothing is written.

    Returns:
        The newest generation; its ``created`` says whether this call made it.

    Raises:
        PublishRefused: ``publish.extended``: an extended card would go silently.
        PublishRefused, UsageFault, KeyRefused, FileFault, ServeFault: As
            :func:`cardsign.publish.publication.publish_generation`; nothing is published.
        UsageFault: As :func:`needed_publication`.
        LocalFault: As :func:`record_publication`.
    """
    store, directory = work.store, needed_publication(work.config)
    newest = newest_generation(directory)
    documents = replace(
        _with_published(documents, newest, drops_others=work.drops_others),
        jwks=store.state.jwks(),
        issued=_statements_of(store),
        max_age=_usual_age(work.config) if max_age is None else max_age,
        publisher=_publisher_of(store, work.config.issuer),
    )
    generation = publish_generation(documents, directory, now=work.now, writes=writes)
    if writes:
        record_publication(work, generation, newest)
    return generation


def publish_by_keys(
    documents: Documents,
    config: ProjectConfig,
    *,
    now: datetime,
    drops_others: bool = False,
    max_age: int | None = None,
    writes: bool = True,
) -> Generation:
    """Publish signed cards with the keys beside them, by whom no key store is kept.

    Args:
        documents: The cards and the keys; after a change of keys, the old ones for as long as
            caches need.
        config: Names the publication directory. One of a key store is refused.
        now: The time, with its zone.
        drops_others: Publish no longer what is published and not named here.
        max_age: As for :func:`publish_cards`.
        writes: Likewise.

    Raises:
        PublishRefused, UsageFault, KeyRefused, FileFault, ServeFault: As :func:`publish_cards`.
    """
    directory = needed_publication(config)
    newest = newest_generation(directory)
    documents = _with_published(documents, newest, drops_others=drops_others)
    age = _usual_age(config) if max_age is None else max_age
    documents = replace(documents, max_age=age)
    return publish_generation(documents, directory, now=now, writes=writes)


def _usual_age(config: ProjectConfig) -> int:
    return min(DEFAULT_MAX_AGE, config.timeline.max_age)


def update_publication(work: Work, *, writes: bool = True) -> Generation | None:
    """Put the newest statements into what is published, and take revoked keys out of it.

    The cards stay as they are. The key store notes the new generation if it has noted the one
    before: otherwise it is unknown whether that is live.

    Args:
        work: Whose statements go along, and where to.
        writes: False to compare alone; nothing is written.

    Returns:
        The newest generation; None where nothing is published yet.

    Raises:
        PublishRefused, FileFault, ServeFault: As
            :func:`cardsign.publish.publication.publish_statements`.
        LocalFault: As :func:`record_publication`.
    """
    directory = work.config.publish
    earlier = newest_generation(directory)
    if directory is None or earlier is None:
        return None
    generation = publish_statements(
        _statements_of(work.store),
        directory,
        now=work.now,
        publisher=_publisher_of(work.store),
        ended=_ended_kids(work),
        writes=writes,
    )
    if generation is None:
        return None
    series = publication_of(generation).series
    noted = {
        publication.generation
        for publication in work.store.load().publications
        if publication.series == series
    }
    if writes and noted & {earlier.number, generation.number - 1}:
        record_publication(work, generation)
    return generation


def find_update_gap(work: Work) -> Iterator[Gap]:
    """Yield that statements, or the end of keys, are not in what is published."""
    try:
        generation = update_publication(work, writes=False)
    except (PublishRefused, FileFault, UsageFault) as fault:
        yield from find_removal_gap(work)
        yield Gap("update what is published", command=fault.finding.fix, why=fault.message)
        return
    if generation is None:
        return
    if generation.created:
        yield Gap("update what is published", close=partial(_update, work))
    elif is_unrecorded(work, generation, of_same_number=True):
        yield Gap("record what is published", close=partial(_update, work))


def explain_refused_card(work: Work) -> PublishRefused | None:
    """Return why verifiers do not trust the published card; None if they do, or it is withdrawn."""
    generation = newest_generation(work.config.publish)
    issued = Issued.of(generation) if generation else None
    if generation is None or issued is None:
        return None
    try:
        checked = issued.checked(now=None)
        release, url = checked.release, checked.newest.origins[0] + CARD_PATH
        if release is None or not release.is_withdrawn(url):
            checked.check_trusted({CARD_FILE: generation.card}, now=work.now)
    except PublishRefused as refusal:
        return refusal
    return None


def _update(work: Work) -> list[str]:
    return describe_publication(update_publication(work))


def describe_publication(generation: Generation | None) -> list[str]:
    """Return what was done, if a generation is new."""
    is_new = generation is not None and generation.created
    return [f"published generation {generation.number}"] if generation and is_new else []


def find_removal_gap(work: Work) -> Iterator[Gap]:
    """Yield that a revoked key is published; whatever else is wrong there, it can be taken out."""
    try:
        newest = newest_generation(work.config.publish)
    except (ServeFault, FileFault):  # which the steps that publish tell
        return
    ended = _ended_kids(work)
    owner = newest.publisher if newest else None
    is_ours = owner is not None and owner.keystore == _publisher_of(work.store).keystore
    if newest is not None and is_ours and not ended.isdisjoint(newest.kids):
        close = partial(_remove_keys, work, ended)
        yield Gap("take revoked keys out of what is published", until=work.now, close=close)


def _remove_keys(work: Work, ended: frozenset[str]) -> list[str]:
    directory, publisher = needed_publication(work.config), _publisher_of(work.store)
    generation = publish_statements(None, directory, now=work.now, publisher=publisher, ended=ended)
    if generation is not None:
        record_publication(work, generation)
    return describe_publication(generation)


def _ended_kids(work: Work) -> frozenset[str]:
    keys = work.store.load().keys
    return frozenset(key.kid for key in keys if key.state == "revoked" and "card" in key.roles)


def is_unrecorded(work: Work, generation: Generation, *, of_same_number: bool = False) -> bool:
    """Say whether the key store has not noted a generation; or only not as it is now."""
    if work.config.live is not None:
        return False  # see :func:`find_live_gap`
    publication, state = publication_of(generation), work.store.load()
    numbers = {
        noted.generation for noted in state.publications if noted.series == publication.series
    }
    if of_same_number and numbers.isdisjoint({generation.number - 1, generation.number}):
        return False
    return bool(record_publication_events(state, publication))


def record_publication(
    work: Work, generation: Generation, before: Generation | None = None
) -> None:
    """Let the key store note what is published, in the place of the generation before.

    Where the settings name a live URL, it is noted once that serves it: :func:`find_live_gap`.

    Raises:
        LocalFault: As :meth:`KeyStore.apply`, with what to do.
    """
    if work.config.live is not None:
        return
    try:
        replaced = publication_of(before) if before else None
        publication = publication_of(generation)
        work.store.apply(record_publication_events, publication, now=work.now, replaced=replaced)
    except LocalFault as fault:
        raise type(fault)(
            fault.code,
            f"generation {generation.number} is published, but not on record: {fault.message}",
            path=fault.path,
            hint="Fix this and publish the same again; key rotation waits for it.",
        ) from fault


def find_live_gap(work: Work) -> Iterator[Gap]:
    """Yield that the live URL serves the newest generation, and nobody has seen it, or not yet."""
    generation = newest_generation(work.config.publish)
    if work.config.live is None or generation is None:
        return
    if not record_publication_events(work.store.load(), publication_of(generation)):
        return
    try:
        check_live(work, generation)
    except PublishRefused as refusal:
        message = f"deploy generation {generation.number} to {work.config.live}"
        yield Gap(message, why=refusal.message, command=work.again)
    else:
        message = f"record that {work.config.live} serves generation {generation.number}"
        yield Gap(message, close=partial(_record_live, work, generation))


def _record_live(work: Work, generation: Generation) -> list[str]:
    seen = replace(publication_of(generation), at=work.now)
    work.store.apply(record_publication_events, seen, now=work.now)
    return [f"saw generation {generation.number} at {work.config.live}"]


def check_live(work: Work, generation: Generation) -> None:
    """Check that the live URL serves this generation's card and key set.

    Raises:
        PublishRefused: ``publish.not_live``.
    """
    access, live = work.access, work.config.live
    is_loopback = isinstance(access, Access) and access.policy.insecure_loopback_http
    settings = FetchSettings(insecure_loopback_http=is_loopback)
    for path, data in ((JWKS_PATH, generation.jwks), (CARD_PATH, generation.card)):
        try:
            is_live = fetch_document(f"{live}{path}", settings).untrusted_body == data
            why = "it serves another one"
        except FetchFailed as fault:
            is_live, why = False, fault.message
        if not is_live:
            message = f"{path} of generation {generation.number} is not live yet: {why}"
            raise PublishRefused("publish.not_live", message, path=live or "")


# What is published, beside what is kept.


def _publisher_of(store: KeyStore, issuer: str | None = None) -> Publisher:
    """What a publication directory remembers of the key store that it belongs to.

    The first line of the audit log outlives backups and moves, and no other key store has it.
    """
    return Publisher(keystore=digest_of(store.read_lines()[0]), issuer=issuer)


def _statements_of(store: KeyStore) -> Issued | None:
    """The statements of a store, to be published; None where there are none."""
    keysets, release = statements_to_publish(store)
    return Issued(keysets, release) if keysets else None


def needed_publication(config: ProjectConfig) -> Path:
    """The publication directory that the settings name.

    Raises:
        UsageFault: ``usage.conflict``: they name none.
    """
    if config.publish is None:
        hint = "Name one: cardsign publish -o DIR"
        raise UsageFault("usage.conflict", "no publication directory is named", hint=hint)
    return config.publish


def newest_generation(directory: Path | None) -> Generation | None:
    """The newest generation of a publication directory; None if there is none.

    A damaged one counts as none, because publishing again repairs it.
    """
    try:
        return load_current(directory) if directory else None
    except ServeFault as fault:
        if fault.code in ("serve.no_generation", "serve.corrupt_generation"):
            return None
        raise


def published_statements(directory: Path | None) -> CheckedIssued | None:
    """The statements that are published, also by a damaged generation; None if none are.

    Raises:
        PublishRefused: ``publish.statements``: they are no history.
    """
    if directory is None:
        return None
    if generation := newest_generation(directory):
        issued = Issued.of(generation)
        return issued.checked(now=None) if issued else None
    for keysets, release in read_statements_left(directory):
        with suppress(PublishRefused):
            if keysets:
                return Issued(keysets, release).checked(now=None)
    return None


def check_ours(work: Work) -> None:
    """Refuse a publication to which the statements of this key store have not led.

    Raises:
        UsageFault: ``publish.other_publisher``: others have signed it, or nobody has.
        PublishRefused: ``publish.statements``: the same roots have signed another statement of
            one number.
    """
    directory = work.config.publish
    kept = {keyset.number: keyset for keyset in kept_keysets(work.store)}
    if not kept or directory is None:
        return
    path = str(directory)
    message = f"{path} is not what this key store has published"
    try:
        published = published_statements(directory)
    except PublishRefused as refusal:
        why = f"{message}: {refusal.message}"
        raise UsageFault("publish.other_publisher", why, path=path, hint=_MOVE_IT) from refusal
    keysets = published.keysets if published else ()
    # However far one of both is behind, they have a keyset in common.
    if keysets and all(keyset.number not in kept for keyset in keysets):
        why = f"{message}: no keyset of it is kept here"
        raise UsageFault("publish.other_publisher", why, path=path, hint=_MOVE_IT)
    for keyset in keysets:
        ours = kept.get(keyset.number, keyset)
        if ours.digest == keyset.digest:
            continue
        if keyset.number == min(kept):
            why = f"{message}: keyset {keyset.label} is another"
            raise UsageFault("publish.other_publisher", why, path=path, hint=_MOVE_IT)
        raise PublishRefused(
            "publish.statements",
            f"the roots have signed two keysets {keyset.label}: {path} has {keyset.digest}, and "
            f"this key store keeps {ours.digest}",
            path=path,
            hint="Verifiers may have the published one: go on with the key store that published "
            "it, as cardsign keys rotate --keystore DIR does.",
        )


#: What helps where a stranger has written what is published.
_MOVE_IT: Final = (
    "Find out who wrote it. Move it to another place. Then publish anew: cardsign keys rotate"
)


def check_publishable(
    work: Work, *, keyset: bytes | None = None, release: bytes | None = None
) -> None:
    """Refuse a statement that does not follow what is published, before it is kept.

    Raises:
        PublishRefused: ``publish.statements``, or as :func:`check_ours`.
    """
    check_ours(work)
    published = published_statements(work.config.publish)
    if published is None:
        return
    issued = _statements_of(work.store)
    keysets = (*(issued.keysets if issued else ()), *([keyset] if keyset else ()))
    # A new key store, after a loss, has signed no release yet.
    newest = release or (issued.release if issued else None) or published.release_bytes
    candidate = Issued(keysets, newest)
    # A release that names a new keyset is newer than all before: so it ends a thief's fast-forward.
    ends = replace(published, release=None) if keyset else published
    candidate.checked(now=work.now, before=published).check_follows(ends)


def still_trusted(work: Work, revoked: Sequence[KeyRecord]) -> list[KeyRecord]:
    """Return the keys that are revoked in the store, but in nothing that verifiers are given."""
    try:
        published = published_statements(work.config.publish)
    except PublishRefused:  # no history, as the steps that publish have said
        published = None
    keyset, release = kept_keyset(work.store), kept_release(work.store)
    if published is not None and published.keysets:
        keyset, release = published.newest, published.release
    if keyset is None:
        return _in_key_sets(work, revoked)
    trusted = {key.public.thumbprint for key in keyset.keys} - keyset.revoked
    trusted -= release.revoked if release is not None else frozenset()
    return [key for key in revoked if key.thumbprint in trusted]


def _in_key_sets(work: Work, revoked: Sequence[KeyRecord]) -> list[KeyRecord]:
    """The revoked keys in a published key set; without statements nothing else revokes them."""
    published = _published_keys(work.config.publish)
    return [
        key
        for key in revoked
        if key.public in published
        or ("card" in key.roles and key.times.prepublished and not key.times.dropped)
    ]


def _published_keys(directory: Path | None) -> tuple[PublicKey, ...]:
    """The keys of the published key set."""
    generation = newest_generation(directory)
    return JwkSet.from_bytes(generation.jwks).keys if generation else ()


def explain_trust(work: Work, keys: Sequence[KeyRecord]) -> tuple[str, str]:
    """Say why verifiers still trust these revoked keys, and the command that ends it."""
    names = ", ".join(key.named for key in keys)
    state = work.store.state
    if kept_keyset(work.store) is not None:
        why = f"verifiers still trust {names}: nothing that is published revokes them yet"
        return why, work.again
    published = _published_keys(work.config.publish)
    if not state.publications and all(key.public not in published for key in keys):
        why = f"verifiers may still trust {names}: key sets that were handed out still contain it; "
        why += "write another, and give it to all who have the old one"
        return why, "cardsign keys jwks -o jwks.json"
    why = f"verifiers still trust {names}: the published key set still contains it"
    if work.config.publish is None:
        return why, "cardsign publish SIGNED -o DIR"
    return why, work.again
