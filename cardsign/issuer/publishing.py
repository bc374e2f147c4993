"""What is published, beside what the key store keeps: publishing, recording, adopting.

The key store records every publication, because all waits of a key rotation run from there.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from cardsign import errors
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.config import ProjectConfig
from cardsign.errors import PublishRefused, StoreFault, UsageFault
from cardsign.files import CONFIG_FILE, CURRENT_FILE, read_bytes
from cardsign.findings import counted
from cardsign.issuer.work import NEEDS_A_PERSON, Gap, Work
from cardsign.jose.keys import JwkSet, PublicKey
from cardsign.keys import agenda, history, ledger
from cardsign.keys.store import KeyStore, digest_of
from cardsign.net.fetch import FetchSettings, fetch_document
from cardsign.publish import generation as generations
from cardsign.publish import publication as publications
from cardsign.publish.generation import Generation, newest_generation
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetStatement, check_step
from cardsign.statements.release import ReleaseStatement
from cardsign.tomltext import bad_settings
from cardsign.urls import CARD_PATH, JWKS_PATH

#: Numbers that a published release may leave out: a thief who signs the last number of all must
#: leave some for the issuer.
MAX_LEAP: Final = 1_000_000


# What is published.


def needed_publication(config: ProjectConfig) -> Path:
    """Return the publication directory that the settings name.

    Raises:
        UsageFault: ``usage.conflict``: they name none.
    """
    if config.publish is None:
        hint = "Name one: cardsign publish -o DIR"
        raise UsageFault("usage.conflict", "no publication directory is named", hint=hint)
    return config.publish


def published_statements(directory: Path | None) -> publications.CheckedIssued | None:
    """Return the statements that are published, also by a damaged generation; None if none are.

    Raises:
        PublishRefused: ``publish.statements``: they are no history.
    """
    if directory is None:
        return None
    if generation := newest_generation(directory):
        return publications.statements_in(generation)
    for keysets, release in generations.read_statements_left(directory):
        with suppress(PublishRefused):
            if keysets:
                return publications.Issued(keysets, release).checked(now=None)
    return None


def list_changes(generation: Generation, earlier: Generation | None) -> dict[str, str]:
    """Return for each file that is not as before whether it is ``new``, ``changed`` or ``gone``."""
    old, new = earlier.files if earlier else {}, generation.files
    changes = {name: "changed" if name in old else "new" for name in new}
    changes = {name: change for name, change in changes.items() if old.get(name) != new[name]}
    return changes | {name: "gone" for name in old if name not in new}


def list_published_keys(generation: Generation | None) -> tuple[PublicKey, ...]:
    """Return the keys of the key set of a generation, if there is one."""
    return JwkSet.from_bytes(generation.jwks).keys if generation else ()


def _list_ended(
    work: Work, generation: Generation, *, only_revoked: bool = False
) -> frozenset[str]:
    """Return the thumbprints of published keys that have ended.

    Those are the keys that were revoked here, and those that the newest keyset does not list, such
    as the ones that were lost before a recovery. Where another copy of this key store may have
    published a newer keyset, only the revoked ones count.
    """
    state, keyset = work.store.state, None if only_revoked else work.keyset
    revoked = {key.thumbprint for key in state.keys if key.state == "revoked"}
    published = {key.thumbprint for key in list_published_keys(generation)}
    unlisted = {name for name in published if keyset and not keyset.lists(name, "card")}
    return frozenset((published & revoked) | unlisted)


# What a key store has to publish: cards with its key set, and the issuer's statements.


def _publisher_of(store: KeyStore, issuer: str | None = None) -> generations.Publisher | None:
    """Return what a publication directory remembers of the key store that it belongs to.

    The first line of the audit log outlives backups and moves, and no other key store has it.
    """
    lines = store.read_lines()
    return generations.Publisher(keystore=digest_of(lines[0]), issuer=issuer) if lines else None


def _statements_of(store: KeyStore) -> publications.Issued | None:
    keysets, release = history.statements_to_publish(store)
    return publications.Issued(keysets, release) if keysets else None


def publish_cards(
    work: Work, documents: publications.Documents, *, writes: bool = True
) -> Generation:
    """Publish signed cards with the keys and the statements of the key store, which records it.

    A directory of another issuer is refused.

    Args:
        work: The key store, and where its cards are published.
        documents: The cards.
        writes: False to compare alone; nothing is written.

    Returns:
        The newest generation; its ``created`` says whether this call made it.

    Raises:
        CardsignError: As :func:`publish_documents`; nothing is published.
        LocalFault: As :func:`record_generation`.
    """
    newest, store = work.published, work.store
    issued, publisher = _statements_of(store), _publisher_of(store, work.config.issuer)
    documents = replace(documents, jwks=store.state.jwks(), issued=issued, publisher=publisher)
    generation = publish_documents(
        documents, work.config, now=work.now, drops_others=work.drops_others, writes=writes
    )
    if writes:
        record_generation(work, generation, newest)
    return generation


def publish_documents(
    documents: publications.Documents,
    config: ProjectConfig,
    *,
    now: datetime,
    drops_others: bool = False,
    writes: bool = True,
) -> Generation:
    """Publish signed cards with the keys and statements that are given.

    Args:
        documents: The cards, and the keys: the old ones too, for as long as caches need them.
            Without a publisher, a directory of any key store is refused.
        config: Names the publication directory, which is made if absent.
        now: The time, with its zone.
        drops_others: Publish no longer the extended cards that are not named here.
        writes: False to compare alone; nothing is written.

    Returns:
        The newest generation; its ``created`` says whether this call made it.

    Raises:
        PublishRefused, UsageFault, KeyRefused, FileFault, ServeFault: As
            :func:`cardsign.publish.publication.publish_generation`; nothing is published.
        UsageFault: As :func:`needed_publication`.
    """
    directory = needed_publication(config)
    # No longer than rotation assumes.
    max_age = min(publications.DEFAULT_MAX_AGE, config.timeline.max_age)
    older, is_named = documents.legacy_card, any(card.legacy for card in config.cards)
    if older is None and is_named and (newest := newest_generation(directory)):
        older = newest.legacy_card
    documents = replace(documents, max_age=max_age, legacy_card=older)
    return publications.publish_generation(
        documents, directory, now=now, drops_others=drops_others, writes=writes
    )


def update_publication(
    work: Work, *, with_statements: bool = True, withdraws: bool = False, writes: bool = True
) -> Generation | None:
    """Put the newest statements into what is published, and take ended keys out of it.

    The cards stay as they are.

    Args:
        work: Whose statements go along, and where to.
        with_statements: False to take revoked keys out alone, whatever is wrong with the
            statements, and whoever has published them.
        withdraws: Publish the cards no longer.
        writes: False to compare alone; nothing is written.

    Returns:
        The newest generation; None where nothing is published yet.

    Raises:
        PublishRefused, FileFault, ServeFault: As
            :func:`cardsign.publish.publication.publish_statements`.
        LocalFault: As :func:`record_generation`.
    """
    directory, store = work.config.publish, work.store
    earlier = newest_generation(directory)
    if directory is None or earlier is None:
        return None
    generation = publications.publish_statements(
        _statements_of(store) if with_statements else None,
        directory,
        now=work.now,
        publisher=_publisher_of(store),
        ended=_list_ended(work, earlier, only_revoked=not with_statements),
        withdraws=withdraws,
        writes=writes,
    )
    if generation is not None and writes:
        record_generation(work, generation, earlier)
    return generation


def describe_generation(work: Work, generation: Generation | None) -> list[str]:
    """Return what was done, if a generation is new."""
    if generation is None or not generation.created:
        return []
    agent = work.agent
    return [f"published generation {generation.number}" + (f" of {agent}" if agent else "")]


def find_publication_gap(
    work: Work,
    task: str,
    publish: Callable[..., Generation | None],
    *,
    until: datetime | None = None,
) -> Iterator[Gap]:
    """Yield that `publish` would make another generation, or that the newest is not on record.

    Args:
        work: Whose publication it is.
        task: What is to be done, in words.
        publish: Publishes; with ``writes=False`` it compares alone.
        until: When it does harm if nobody does it.
    """
    try:
        generation = publish(writes=False)
    except (*NEEDS_A_PERSON, errors.FileFault, UsageFault) as fault:
        command = fault.finding.fix or work.again
        yield Gap(task, command=command, why=f"{fault.code}: {fault.message}")
        return
    if generation is None:
        return
    publication = publications.publication_of(generation)
    # What a live URL serves is recorded once it does: see `find_live_gap`.
    is_noted = work.config.live or not agenda.record_publication(work.store.state, publication)
    if generation.created or not is_noted:
        yield Gap(task, until=until, close=lambda: describe_generation(work, publish()))


def find_update_gap(work: Work) -> Iterator[Gap]:
    """Yield that statements, or the end of keys, are not in what is published."""
    update = partial(update_publication, work)
    yield from find_publication_gap(work, "update what is published", update)


def find_stale_publications(work: Work) -> Iterator[Gap]:
    """Yield what servers would go on serving, although the settings no longer publish there.

    That is the folder of an agent that the settings no longer name, and the publication of an only
    agent whose folder has become that of several, which hides them all. Nobody else may know
    whether the agent is gone, so a person withdraws its card, if it is listed, and moves it away.
    """
    config, keyset, release = work.config, work.keyset, work.release
    folder = config.publish.parent if work.agent and config.publish else config.publish
    if folder is None:
        return
    own = [folder / CURRENT_FILE] if work.agent else []
    # Of another name nothing is served, such as what another process is about to publish.
    for current in (*own, *sorted(folder.glob(f"[a-z0-9]*/{CURRENT_FILE}"))):
        place = current.parent
        with suppress(UsageFault, errors.ServeFault, errors.FileFault):  # others publish there
            publications.check_publisher(newest_generation(place), _publisher_of(work.store), place)
            if place.name in work.agents or not current.is_file():
                continue
            path = CARD_PATH if place == folder else work.path_of(CARD_PATH, place.name)
            url = keyset.origins[0] + path if keyset else ""
            is_listed = release is not None and any(card.url == url for card in release.cards)
            withdraw = work.command(f"release renew --withdraw {url}") + "; " if is_listed else ""
            stale = current if place == folder else place
            task = f"move away {stale}, which may still be served: cardsign.toml names no agent "
            command = f"{withdraw}mv {shlex.quote(str(stale))} ELSEWHERE"
            yield Gap(f"{task}for it", command=command, until=work.now)


def find_removal_gap(work: Work) -> Iterator[Gap]:
    """Yield that a revoked key is published; whatever else is wrong there, it can be taken out."""
    take_out = partial(update_publication, work, with_statements=False)
    with suppress(errors.ServeFault, errors.FileFault, UsageFault):  # which other gaps report
        newest = work.published
        if newest and _list_ended(work, newest, only_revoked=True) and take_out(writes=False):
            task = "take ended keys out of what is published"
            yield from find_publication_gap(work, task, take_out, until=work.now)


# The record of what is published.


def record_generation(work: Work, generation: Generation, replaced: Generation | None) -> None:
    """Let the key store record what is published, in the place of the one that it `replaced`.

    Where the settings name a live URL, it is recorded once that serves it: :func:`find_live_gap`.

    Raises:
        LocalFault: As :meth:`KeyStore.commit`, with what to do.
    """
    if work.config.live is not None and generation.card:
        return
    publication = publications.publication_of(generation)
    earlier = publications.publication_of(replaced) if replaced else None
    try:
        work.store.commit(agenda.record_publication, publication, now=work.now, replaced=earlier)
    except errors.LocalFault as fault:
        message = f"generation {generation.number} is published, but not on record: {fault.message}"
        hint = "Fix this and publish the same again; key rotation waits for it."
        raise type(fault)(fault.code, message, path=fault.path, hint=hint) from fault


def find_live_gap(work: Work) -> Iterator[Gap]:
    """Yield that the live URL serves the newest generation, and nobody has seen it, or not yet."""
    generation, live = work.published, work.config.live
    if live is None or generation is None:
        return
    publication = publications.publication_of(generation)
    if generation.card and not agenda.record_publication(work.store.state, publication):
        return

    def record() -> list[str]:
        seen, earlier = replace(publication, at=work.now), _find_recorded(work)
        work.store.commit(agenda.record_publication, seen, now=work.now, replaced=earlier)
        return [f"saw generation {generation.number} at {live}"]

    settings = FetchSettings(insecure_loopback_http=work.access.policy.insecure_loopback_http)
    for path, data in ((JWKS_PATH, generation.jwks), (CARD_PATH, generation.card)):
        why = "it serves another one"
        try:
            served = fetch_document(live + work.path_of(path), settings).untrusted_body
        except errors.FetchFailed as fault:
            served, why = b"", fault.message
        if served != data:
            why = f"{path} of generation {generation.number} is not live yet: {why}"
            yield Gap(f"deploy generation {generation.number} to {live}", why=why)
            return
    if generation.card:  # of a withdrawn card nothing is left to wait for
        yield Gap(f"record that {live} serves generation {generation.number}", close=record)


def _find_recorded(work: Work) -> ledger.Publication | None:
    """Return the newest recorded publication whose generation is in this publication directory."""
    for publication in reversed(work.store.state.publications):
        card = publication.cards[0]
        with suppress(errors.FileFault, errors.InputRefused):
            folder = needed_publication(work.config) / f"{publication.generation:06d}"
            data = read_bytes(folder / card.name, max_bytes=MAX_CARD_BYTES, plain=True)
            recorded = publications.published_card(card.name, data, JwkSet.of([]))
            if recorded.payload_sha256 == card.payload_sha256:
                return publication
    return None


# Whether what is published is ours, and has come as far as the key store.


def check_ours(work: Work) -> publications.CheckedIssued | None:
    """Return the statements that are published, if those of this key store have led to them.

    Where there are none to compare, the publication has to be of this key store.

    Raises:
        UsageFault: ``publish.other_publisher``: others have signed them, or nobody has.
        PublishRefused: ``publish.statements``: the same roots have signed another statement of
            one number.
    """
    kept = {keyset.number: keyset.digest for keyset in history.kept_keysets(work.store)}
    directory, published, why = work.config.publish, None, ""
    path = str(directory)
    try:
        published = published_statements(directory) if kept else None
    except PublishRefused as refusal:
        why = refusal.message
    if directory and not (published or why):
        publications.check_publisher(work.published, _publisher_of(work.store), directory)
    # However far one of both is behind, they have a keyset in common.
    common = [keyset for keyset in published.keysets if keyset.number in kept] if published else []
    forked = [keyset for keyset in common if keyset.digest != kept[keyset.number]]
    if published and forked == common:
        why = f"keyset {forked[0].label} is another" if forked else "it has no keyset of ours"
    if why:
        message = f"{path} is not what this key store has published: {why}"
        hint = f"Find out who wrote it. Move it away. Then publish anew: {work.again}"
        raise UsageFault("publish.other_publisher", message, path=path, hint=hint)
    if forked:
        message = f"the roots have signed two keysets {forked[0].label}: {path} has "
        message += f"{forked[0].digest}, and this key store keeps {kept[forked[0].number]}"
        hint = "Verifiers may have the published one: go on with the key store that published it, "
        hint += "as cardsign keys rotate --keystore DIR does."
        raise PublishRefused("publish.statements", message, path=path, hint=hint)
    return published


def find_setting_gaps(work: Work) -> Iterator[Gap]:
    """Yield that the settings are of another issuer, or name no place although others rely on it.

    Releases that nobody publishes end all trust. Of a release with a floor a card was published.
    """
    try:
        check_issuer(work.config, work.keyset)
    except UsageFault as fault:
        yield Gap(f"correct cardsign.toml, or name the other key store: {fault.message}")
    release = work.release
    if release and work.config.publish is None and (work.store.state.publications or release.floor):
        message = (
            "say where to publish, as no verifier sees what has been signed since: this key store "
        )
        message += "has published, and no cardsign.toml here names `publish`. Go to the folder of "
        message += "that file, in cron too, or name the directory"
        yield Gap(message, command=work.command("release renew --publication DIR"))


def check_issuer(config: ProjectConfig, keyset: KeysetStatement | None) -> None:
    """Refuse settings that are not of the keyset's issuer.

    Raises:
        UsageFault: ``config.malformed``.
    """
    if keyset and config.issuer not in (None, *keyset.origins):
        origins = ", ".join(keyset.origins)
        message = f"'issuer' is {config.issuer}, and the key store (keyset {keyset.label}) is of "
        message += f"{origins}: one of the two is the wrong one"
        raise bad_settings(Path(CONFIG_FILE), message)


def check_unclaimed(work: Work) -> None:
    """Refuse to begin a key store where another one has published.

    Once there is a keyset, that tells whose statements are published.

    Raises:
        UsageFault: As :func:`check_ours`.
    """
    if not (work.store.read_lines() and work.store.load().keysets):
        for part in work.by_agent():
            check_ours(part)


def check_publishable(
    work: Work, *, keyset: bytes | None = None, release: bytes | None = None
) -> None:
    """Refuse a statement that does not follow what is published, before it is kept.

    Raises:
        PublishRefused: ``publish.statements``, or as :func:`check_ours`.
        StoreFault: ``keystore.changed``: another process was faster.
    """
    issued, seq = _statements_of(work.store), work.store.state.seq
    keysets = (*(issued.keysets if issued else ()), *([keyset] if keyset else ()))
    try:
        for part in work.by_agent():
            check_ours(part)
            if release and find_adoptable(part):
                why = "more is published than this key store knows"
                raise PublishRefused("publish.statements", why, hint=f"See: {work.again} --adopt")
            if published := published_statements(part.config.publish):
                candidate = publications.Issued(keysets, release)
                # A release that names a new keyset is newer than all before: so it ends a thief's
                # fast-forward.
                ends = replace(published, release=None) if keyset else published
                candidate.checked(now=work.now, published=published).check_follows(ends)
    except PublishRefused as refusal:
        if work.store.load().seq != seq:  # whoever publishes has written into the log before
            raise StoreFault("keystore.changed", "others have signed meanwhile") from refusal
        raise


def find_adoptable(work: Work) -> dict[str, Callable[[], object]]:
    """Return what our own keys have signed and the log lacks, with what adds each to it.

    Of a keyset the log takes what it revokes, of a release its number and floors. A key, a signer,
    a path, or what a release revokes is never taken. A publication that is not ours has nothing.

    Raises:
        PublishRefused, UsageFault: As :func:`check_ours`.
    """
    published, store = check_ours(work), work.store
    keysets, adoptable = [*history.kept_keysets(store)], dict[str, Callable[[], object]]()
    if published is None:
        return adoptable
    with suppress(StatementRefused):
        for keyset, data in published.keysets.items():
            if keyset.id > keysets[-1].id:
                check_step(keyset, keysets[-1])
                keysets.append(keyset)
                text = f"keyset {keyset.label}, which revokes {counted(len(keyset.revoked), 'key')}"
                adoptable[text] = partial(history.keep_keyset, store, keyset, data, now=work.now)
        release, signed = published.release, published.release_bytes
        if release and signed and _is_further(store, release, keysets):
            text = f"the number of release {release.seq}, and its floors"
            adoptable[text] = partial(history.keep_release, store, release, signed, now=work.now)
    return adoptable


def _is_further(
    store: KeyStore, release: ReleaseStatement, keysets: Sequence[KeysetStatement]
) -> bool:
    """Say whether a release is newer than that of the log, and not signed by revoked keys alone."""
    state, newest = store.state, history.kept_release(store)
    if newest is None and history.awaits_recovery(state, keysets[-1]):
        return False  # the first release of a new key store begins anew, in the next epoch
    if newest is not None and (release.seq <= newest.seq or release.order < newest.order):
        return False
    revoked = {key.thumbprint for key in state.keys if key.state == "revoked"}
    is_signed = not history.check_signed(release, keysets) <= revoked | keysets[-1].revoked
    return is_signed and release.seq - state.release_seq <= MAX_LEAP


def name_keys_elsewhere(work: Work) -> str:
    """Return which keys another copy of a key store has, as a sentence without its end."""
    keyset = work.keyset
    elsewhere = history.keys_elsewhere(work.store.state, keyset) if keyset else ()
    names = ", ".join(key.named for key in elsewhere)
    return f"keyset {keyset.label} lists {names}" if keyset and names else ""
