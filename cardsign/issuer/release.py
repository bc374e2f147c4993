"""The next release: which cards are current, signed by the online release key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from cardsign.errors import SigningRefused, StoreFault, UsageFault, of_the_user
from cardsign.issuer.publishing import check_complete, check_publishable
from cardsign.issuer.work import Gap, Work, end_of, key_holder
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import Signer
from cardsign.keys import drafts
from cardsign.keys.history import keep_release, kept_keyset, kept_release
from cardsign.keys.model import ENDED, Role
from cardsign.keys.store import KeyStore, digest_of
from cardsign.publish.checks import check_cards
from cardsign.publish.generation import CARD_FILE
from cardsign.statements.envelope import TYP_RELEASE, StatementRefused, check_times
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.statements.signing import sign_statement
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH

ATTEMPTS: Final = 5  # at one release; each that fails is one that another process made


@dataclass(frozen=True, slots=True)
class ReleaseChanges:
    """What a release says beyond what the key store knows.

    Attributes:
        cards: Signed cards to list, each with its URL, or its path at the issuer's first origin;
            None: the usual one.
        by_name: A person named these cards. Else a URL that was withdrawn stays so.
        raise_floor: Let older cards at these URLs end now, and not when caches are rid of them.
        withdrawn: URLs at which no card is current any more.
        extended_floor: Extended cards that were made for an earlier release end.
        lifetime: How long it is valid.
    """

    cards: tuple[tuple[str | None, bytes], ...] = ()
    by_name: bool = True
    raise_floor: bool = False
    withdrawn: tuple[str, ...] = ()
    extended_floor: int | None = None
    lifetime: timedelta = drafts.RELEASE_LIFETIME


def find_release_gap(
    work: Work,
    cards: Sequence[tuple[str | None, bytes]] = (),
    *,
    by_name: bool = False,
    withdraws: bool = False,
) -> Iterator[Gap]:
    """Yield that a release has something new to say, where a release key is here to sign it.

    Args:
        work: The key store, and the agent whose cards these are.
        cards: To be listed, each with its URL, or its path at the issuer's first origin.
        by_name: List them again where they were withdrawn.
        withdraws: Withdraw the listed cards of the agent.
    """
    keyset, previous = kept_keyset(work.store), kept_release(work.store)
    if keyset is None or not any("release" in key.roles for key in work.store.load().keys):
        return
    urls = [keyset.origins[0] + work.config.path_of(path) for path in (CARD_PATH, LEGACY_CARD_PATH)]
    listed = {card.url for card in previous.cards} if previous and withdraws else set()
    withdrawn = tuple(url for url in urls if url in listed)
    changes = ReleaseChanges(cards=tuple(cards), by_name=by_name, withdrawn=withdrawn)
    until, why = None, ""
    if is_unwitnessed(work.store, previous):
        until, why = work.now, "no release names the newest revocation in the log yet"
    elif previous is None or is_release_due(previous, keyset, now=work.now):
        until = end_of(previous)
    with suppress(UsageFault):  # which closing the gap meets again
        if draft_release(work, changes) is None:
            return
    close = partial(_close_release_gap, work, changes)
    yield Gap("renew the release", key_holder("release"), until=until, close=close, why=why)


def _close_release_gap(work: Work, changes: ReleaseChanges) -> list[str]:
    check_complete(work)
    release = sign_next_release(work, changes)
    return [] if release is None else [f"signed release {release.seq}"]


def is_unwitnessed(store: KeyStore, release: ReleaseStatement | None) -> bool:
    """Say whether a key was revoked after the line of the log that a release names.

    Who can write the log could take that line away again, and nobody else would know of it.
    """
    for line in reversed(store.read_lines() if release else ()):
        if release and digest_of(line) == release.audit_head:
            return False
        for event in json.loads(line)["events"]:  # the store has checked its log
            if event["event"] == "stolen" or event.get("to") == "revoked":
                return True
    return False


def is_release_due(release: ReleaseStatement, keyset: KeysetStatement, *, now: datetime) -> bool:
    """Say whether it is time for another release.

    Half of its time is over, it names an older keyset, or a clock that was ahead signed it.
    """
    is_outdated = release.keyset.digest != keyset.digest
    return is_outdated or now >= release.renew_at or drafts.is_early(release, now=now)


def needed_keyset(store: KeyStore) -> KeysetStatement:
    """Return the newest keyset statement of a store.

    Raises:
        StoreFault: ``keystore.no_keyset``, or as :func:`.kept_keysets`.
    """
    newest = kept_keyset(store)
    if newest is None:
        raise StoreFault("keystore.no_keyset", "no keyset statement is kept", path=store.place)
    return newest


def is_card_withdrawn(work: Work) -> bool:
    """Say whether the newest release has withdrawn an agent's public card at its usual URL."""
    keyset, release = kept_keyset(work.store), kept_release(work.store)
    if keyset is None or release is None:
        return False
    return release.is_withdrawn(keyset.origins[0] + work.config.path_of(CARD_PATH))


# How a release comes about: drafted, signed, checked as a verifier will, numbered and kept.


def draft_release(
    work: Work, changes: ReleaseChanges, *, force: bool = False
) -> ReleaseStatement | None:
    """Draft the next release; None if it would say nothing new and `force` is not given.

    Listed cards stay listed. Keys that the key store has revoked are revoked at once. Once the
    published card is the only one that caches can hold, the floor rises to it.

    Raises:
        UsageFault: The changes do not fit, the keyset has expired, or the issuer's own keys do not
            verify a card that a person named (``publish.not_verifying``).
        StoreFault: ``keystore.no_keyset``.
    """
    store, now, state = work.store, work.now, work.store.load()
    keyset, previous = needed_keyset(store), kept_release(store)
    check_in_force(keyset, "the newest keyset statement", now, "sign a newer keyset")
    urls = {card.url for card in previous.cards}.union(previous.floor) if previous else set()
    if unlisted := [url for url in changes.withdrawn if url not in urls]:
        raise UsageFault("usage.conflict", f"no card is listed at {unlisted[0]!r} to be withdrawn")
    if changes.by_name:
        _check_verifying(changes, keyset, now)
    listed = _list_digests(changes, keyset, previous)
    cards = previous.cards if previous else ()
    settled = drafts.settled_cards(cards, state, work.config.timeline, now)
    plan = drafts.ReleasePlan(
        cards=tuple(listed),
        settled=dict(listed) if changes.raise_floor else settled,
        withdrawn=frozenset(changes.withdrawn),
        extended_floor=changes.extended_floor,
        # A retired key is still listed until the next keyset; a copy of it is good for nothing.
        revoked=frozenset(key.thumbprint for key in state.keys if key.state in ENDED),
        audit_head=state.head,
    )
    seq, lifetime = state.release_seq + 1, changes.lifetime
    with of_the_user("the release"):
        draft = drafts.draft_following(plan, keyset, previous, seq=seq, now=now, lifetime=lifetime)
    is_due = force or is_unwitnessed(store, previous)
    return draft if is_due or drafts.says_something_new(draft, previous, now=now) else None


def _check_verifying(changes: ReleaseChanges, keyset: KeysetStatement, now: datetime) -> None:
    """Refuse to list a card that the issuer's own keys do not verify, such as an edited one."""
    keys = JwkSet.of(key.public for key in keyset.keys if "card" in key.roles)
    for url, card in changes.cards:
        with of_the_user(f"the card at {url or CARD_PATH}"):
            check_cards({CARD_FILE: card}, keys, now)


def _list_digests(
    changes: ReleaseChanges, keyset: KeysetStatement, previous: ReleaseStatement | None
) -> list[tuple[str, str]]:
    """Return URL and digest of the cards to list.

    Cron has the project's cards at hand; it must not undo what a person has decided.
    """
    listed = []
    for path, card in changes.cards:
        url = path or CARD_PATH
        url = keyset.origins[0] + url if url.startswith("/") else url
        with of_the_user(f"the card at {url}"):
            digest = drafts.card_digest(card)
        if changes.by_name or previous is None or not previous.is_withdrawn(url):
            listed.append((url, digest))
    return listed


def check_in_force(statement: KeysetStatement, name: str, now: datetime, todo: str) -> None:
    """Check the times of an issuer's own keyset statement, and say what helps.

    Raises:
        UsageFault: ``statement.expired``, ``statement.not_yet``; `todo` says what helps.
    """
    try:
        check_times(statement.iat, statement.exp, now=now, skew=drafts.SKEW, what=name)
    except StatementRefused as refusal:
        hint = f"Check this machine's clock. If it is right, {todo}: cardsign keys rotate"
        raise UsageFault(refusal.code, refusal.message, hint=hint) from refusal


def open_signers(work: Work, roles: tuple[Role, ...], thumbprints: set[str]) -> tuple[Signer, ...]:
    """Open the keys of a store among `thumbprints` that have one of the roles and can sign."""
    return tuple(
        work.store.signer(record, work.access)
        for record in work.store.state.keys
        if record.thumbprint in thumbprints
        and set(roles).intersection(record.roles)
        and record.state in ("active", "retiring")
    )


def sign_next_release(
    work: Work, changes: ReleaseChanges, *, force: bool = False
) -> ReleaseStatement | None:
    """Sign and keep the next release if there is anything new to say; it is not published.

    Args:
        work: The key store with the release key, and where its statements are published.
        changes: What the release says beyond the key store.
        force: Sign one even if nothing is new.

    Returns:
        The new release; None if there is nothing new to say.

    Raises:
        UsageFault, StoreFault: As :func:`draft_release`.
        SigningRefused: ``sign.no_key``.
        PublishRefused: As :func:`cardsign.issuer.publishing.check_publishable`.
        StoreFault: ``keystore.changed``: others were faster in every attempt; ``file.busy``.
    """
    for attempt in range(ATTEMPTS):
        keyset, previous = needed_keyset(work.store), kept_release(work.store)
        draft = draft_release(work, changes, force=force)
        if draft is None:
            break
        able = {key.public.thumbprint for key in keyset.keys} - draft.revoked
        signers = open_signers(work, ("release",), able)
        if not signers:
            raise SigningRefused(
                "sign.no_key",
                "no release key of the newest keyset statement is here",
                path=work.store.place,
                hint="The roots can list one: cardsign keyset draft.",
            )
        data = sign_statement(draft.envelope.payload, signers, TYP_RELEASE)
        signed = read_release(data)
        check_release(signed, keyset, previous, now=work.now, skew=timedelta())
        check_publishable(work, release=data)
        try:
            keep_release(work.store, signed, data, now=work.now)
        except StoreFault as fault:
            if fault.code != "keystore.changed" or attempt == ATTEMPTS - 1:
                raise
        else:
            return signed
    return None
