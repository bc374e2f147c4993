"""The next release: which cards are current and which keys no longer count; who must be told.

A release lists a new card before it is served and the old one for as long as caches may hold it,
so that none of the orders in which copies expire refuses an honest card (threat 15).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from cardsign import errors
from cardsign.card.document import Card
from cardsign.card.profiles import canonicalize
from cardsign.card.values import Json, jcs
from cardsign.errors import PublishRefused, SigningRefused, StoreFault, UsageFault, of_the_user
from cardsign.issuer import publishing
from cardsign.issuer.publishing import check_complete, check_publishable
from cardsign.issuer.work import RECOVER, Gap, Work, key_holder
from cardsign.jose.jws import Signer
from cardsign.jose.keys import JwkSet, short_kid
from cardsign.keys import agenda, history
from cardsign.keys.agenda import TimelineSettings
from cardsign.keys.history import keep_release, kept_keyset, kept_release
from cardsign.keys.ledger import ENDED, ROTATING, KeyRecord, Role, StoreState, passphrase_variable
from cardsign.keys.store import KeyStore, digest_of
from cardsign.publish.generation import CARD_FILE
from cardsign.publish.publication import SKEW, check_cards
from cardsign.statements.envelope import TYP_RELEASE, Envelope, StatementRefused, check_times
from cardsign.statements.keyset import KeysetId, KeysetStatement, OnlineRole
from cardsign.statements.release import (
    FLOOR_EXTENDED,
    KIND_PUBLIC,
    RELEASE_FORMAT,
    ListedCard,
    ReleaseStatement,
    check_release,
    read_release,
    release_of,
)
from cardsign.statements.signing import sign_statement
from cardsign.times import utc
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH

#: How a root is listed beside others, for hints.
ADD_ROOT: Final = "cardsign keyset draft --add-root HOLDER=KEY"
ATTEMPTS: Final = 5  # at one release; each that fails is one that another process made
#: How long a release is believed. It is renewed at half of it, so a dead cron is seen in time.
RELEASE_LIFETIME: Final = timedelta(days=7)


# Releases as they are drafted.


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """What the next release says that the one before did not.

    Attributes:
        cards: (url, payload digest) of the cards to list; the listed ones stay.
        settled: By url, the digest of the only card that caches can still hold: what was listed
            before it no longer is, and the floor rises to it.
        withdrawn: Urls of which nothing is current any more.
        extended_floor: The least seq of an extended card that is still current, if it rises.
        revoked: Thumbprints; those that are no keys of the keyset are left out.
        audit_head: The digest of the newest line of the key store's log; None leaves it out.
    """

    cards: tuple[tuple[str, str], ...] = ()
    settled: Mapping[str, str] = field(default_factory=dict)
    withdrawn: frozenset[str] = frozenset()
    extended_floor: int | None = None
    revoked: frozenset[str] = frozenset()
    audit_head: str | None = None


def settled_cards(
    listed: Iterable[ListedCard], state: StoreState, settings: TimelineSettings, now: datetime
) -> dict[str, str]:
    """By url, the digest of the only card that caches can still hold, where there is just one.

    It is the one that the newest records show, of publications or of looks at what is live, and the
    first of these is as old as caches may keep a card. What nobody has recorded does not settle: it
    may never have been live.
    """
    turnover = settings.as_published(state).turnover
    shown = {
        card.payload_sha256: (card.since or publication.at) + turnover <= now
        for publication in state.publications
        for card in publication.cards
    }
    return {
        card.url: card.payload_sha256 for card in listed if shown.get(card.payload_sha256, False)
    }


def card_digest(card: bytes) -> str:
    """Return SHA-256 of a card's ``served-as-is`` payload in lower-case hex, as releases list it.

    Raises:
        JsonRefused, CardRefused: It cannot be read in one way only.
        CanonicalizationError: It has no such payload.
    """
    return hashlib.sha256(
        canonicalize(Card.from_bytes(card).document, "served-as-is").data
    ).hexdigest()


def draft_following(
    plan: ReleasePlan,
    keyset: KeysetStatement,
    previous: ReleaseStatement | None,
    *,
    seq: int,
    now: datetime,
    lifetime: timedelta = RELEASE_LIFETIME,
) -> ReleaseStatement:
    """Draft the next release, unsigned; `seq` is higher than any number that was used.

    Raises:
        StatementRefused: What a verifier would refuse however it is signed.
    """
    floor = dict(previous.floor) if previous else {}
    if plan.extended_floor is not None:
        floor[FLOOR_EXTENDED] = max(plan.extended_floor, floor.get(FLOOR_EXTENDED, 0))
    cards = _listed_cards(plan, previous, floor, seq)
    for card in cards:  # no cache holds what was listed before it any more
        if plan.settled.get(card.url) == card.payload_sha256:
            floor[card.url] = max(floor.get(card.url, 0), card.seq)
    # The floor outlives the card: so every later release knows that it was withdrawn.
    for url in plan.withdrawn:
        floor.setdefault(url, seq)
    revoked = plan.revoked
    if previous is not None and previous.keyset == keyset.id:
        revoked = revoked | previous.revoked
    current = (card for card in cards if card.seq >= floor.get(card.url, 0))
    iat = int(now.timestamp())
    payload = jcs(
        {
            "format": RELEASE_FORMAT,
            "issuer": keyset.issuer,
            "keyset": keyset.id.to_json(),
            "seq": seq,
            "iat": iat,
            "exp": iat + int(lifetime.total_seconds()),
            "cards": [asdict(card) for card in current if card.url not in plan.withdrawn],
            "floor": dict(floor),
            "revoked": list[Json](sorted(revoked & {key.public.thumbprint for key in keyset.keys})),
            "audit_head": plan.audit_head,
        }
    )
    return release_of(Envelope(TYP_RELEASE, payload, ()))


def says_something_new(
    draft: ReleaseStatement, previous: ReleaseStatement | None, *, now: datetime
) -> bool:
    """Return whether a release says anything new, or it is time for another one.

    A longer audit log alone is nothing new: each release makes it longer itself.
    """
    if previous is None or is_release_due(previous, draft.keyset, now=now):
        return True
    new, old = (
        (frozenset(release.cards), dict(release.floor), release.revoked)
        for release in (draft, previous)
    )
    return new != old


def is_release_due(release: ReleaseStatement, keyset: KeysetId, *, now: datetime) -> bool:
    """Say whether it is time for another release.

    Half of its time is over, it names an older keyset, or a clock that was ahead signed it, so that
    nobody believes it yet.
    """
    is_early = now.timestamp() < release.iat - SKEW.total_seconds()
    return is_early or release.keyset != keyset or now >= release.renew_at


def _listed_cards(
    plan: ReleasePlan, previous: ReleaseStatement | None, floor: Mapping[str, int], seq: int
) -> list[ListedCard]:
    """Cards that are current and those to come; who was listed first when stays so."""
    listed = {
        (card.url, card.payload_sha256): card
        for card in (previous.cards if previous else ())
        if card.seq >= floor.get(card.url, 0)
    }
    newest = {card.url: card for card in sorted(listed.values(), key=lambda card: card.seq)}
    # To return to a card before the newest is to list it anew: else its floor would let the newer
    # one pass for ever.
    for url, digest in plan.cards:
        if url not in newest or newest[url].payload_sha256 != digest:
            listed[url, digest] = ListedCard(url, KIND_PUBLIC, digest, seq)
    return sorted(listed.values(), key=lambda card: (card.url, card.seq, card.payload_sha256))


# What people and the project add to a release, and whether the next one is due.


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
    lifetime: timedelta = RELEASE_LIFETIME


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
        withdraws: Withdraw the cards of the agent wherever they are listed.
    """
    keyset, previous = work.keyset, work.release
    if keyset is None or not any("release" in key.roles for key in work.store.load().keys):
        return
    roots = [keyset.origins[0] + path for path in (CARD_PATH, LEGACY_CARD_PATH)]
    urls = [keyset.origins[0] + work.path_of(path) for path in (CARD_PATH, LEGACY_CARD_PATH)]
    withdrawn = _list_places(previous, urls, roots) if previous and withdraws else ()
    changes = ReleaseChanges(cards=tuple(cards), by_name=by_name, withdrawn=withdrawn)
    until, why = None, ""
    if is_unwitnessed(work.store, previous):
        until, why = work.now, "no release names the newest revocation in the log yet"
    elif previous is None or is_release_due(previous, keyset.id, now=work.now):
        until = utc(previous.exp) if previous else None
    with suppress(UsageFault):  # which closing the gap meets again
        if draft_release(work, changes) is None:
            return
    close = partial(_close_release_gap, work, changes)
    yield Gap("renew the release", key_holder("release"), until=until, close=close, why=why)


def _list_places(
    release: ReleaseStatement, urls: Sequence[str], roots: Sequence[str]
) -> tuple[str, ...]:
    """Return at which of its own `urls` and of `roots` of the host an agent's cards are listed.

    At a root those of another agent may be listed, which then is not the place of this one.
    """
    payloads = {card.payload_sha256 for card in release.cards if card.url in urls}
    others = {card.url for card in release.cards if card.payload_sha256 not in payloads}
    listed = {card.url for card in release.cards} - others
    return tuple(url for url in dict.fromkeys((*urls, *roots)) if url in listed)


def _close_release_gap(work: Work, changes: ReleaseChanges) -> list[str]:
    check_complete(work)
    release = sign_next_release(work, changes)
    return [] if release is None else [f"signed release {release.seq}"]


def is_unwitnessed(store: KeyStore, release: ReleaseStatement | None) -> bool:
    """Say whether a key was revoked after the line of the log that a release names.

    Whoever can write the log could take that line away again, and nobody else would know.
    """
    for line in reversed(store.read_lines() if release else ()):
        if release and digest_of(line) == release.audit_head:
            return False
        for event in json.loads(line)["events"]:  # the store has checked its log
            if event["event"] == "stolen" or event.get("to") == "revoked":
                return True
    return False


def needed_keyset(store: KeyStore) -> KeysetStatement:
    """Return the newest keyset statement of a store.

    Raises:
        StoreFault: ``keystore.no_keyset``, or as :func:`cardsign.keys.history.kept_keysets`.
    """
    newest = kept_keyset(store)
    if newest is None:
        raise StoreFault("keystore.no_keyset", "no keyset statement is kept", path=store.place)
    return newest


def is_card_withdrawn(work: Work) -> bool:
    """Say whether the newest release has withdrawn an agent's public card at its usual URL."""
    keyset, release = work.keyset, work.release
    if keyset is None or release is None:
        return False
    return release.is_withdrawn(keyset.origins[0] + work.path_of(CARD_PATH))


# How a release comes about: drafted, signed, checked as a verifier will, numbered and kept.


def draft_release(
    work: Work, changes: ReleaseChanges, *, force: bool = False
) -> ReleaseStatement | None:
    """Draft the next release; None if it would say nothing new and `force` is not given.

    Listed cards stay listed. Keys that the key store has revoked are revoked at once. Once the
    published card is the only one that caches can hold, the floor rises to it.

    Raises:
        UsageFault: The changes do not fit, or the keyset has expired.
        PublishRefused: The issuer's own keys do not verify a card that a person named.
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
    settled = settled_cards(cards, state, work.config.timeline, now)
    plan = ReleasePlan(
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
        draft = draft_following(plan, keyset, previous, seq=seq, now=now, lifetime=lifetime)
    is_due = force or is_unwitnessed(store, previous)
    return draft if is_due or says_something_new(draft, previous, now=now) else None


def _check_verifying(changes: ReleaseChanges, keyset: KeysetStatement, now: datetime) -> None:
    """Refuse to list a card that the issuer's own keys do not verify, such as an edited one."""
    keys = JwkSet.of(key.public for key in keyset.keys if "card" in key.roles)
    for url, card in changes.cards:
        try:
            check_cards({CARD_FILE: card}, keys, now)
        except PublishRefused as refusal:
            place = f"the card at {url or CARD_PATH}"
            raise errors.place_below(refusal, place, PublishRefused) from refusal


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
            digest = card_digest(card)
        if changes.by_name or previous is None or not previous.is_withdrawn(url):
            listed.append((url, digest))
    return listed


def check_in_force(statement: KeysetStatement, name: str, now: datetime, todo: str) -> None:
    """Check the times of an issuer's own keyset statement, and say what helps.

    Raises:
        UsageFault: ``statement.expired``, ``statement.not_yet``; `todo` says what helps.
    """
    try:
        check_times(statement.iat, statement.exp, now=now, skew=SKEW, name=name)
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
        keyset, previous = needed_keyset(work.store), work.release
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


# Keys that were revoked: who still trusts them, and what a thief may have besides.


def find_untold_revocations(work: Work, *, is_recovering: bool) -> Iterator[Gap]:
    """Yield the revoked keys that verifiers still trust, and what tells them; that comes first."""
    state, keyset = work.store.load(), work.keyset
    revoked = [key for key in state.keys if key.state == "revoked"]
    trusted = find_still_trusted(work, revoked)
    why, command = explain_trust(work, trusted) if trusted else ("", "")
    is_told_here = bool(trusted) and not is_recovering
    gaps = [*find_release_gap(work), *publishing.find_update_gap(work)] if is_told_here else []
    if gaps:  # the first one tells the verifiers
        gaps[0] = gaps[0]._replace(why=why or gaps[0].why, until=work.now)
    if trusted and not any(gap.close for gap in gaps):
        gaps.append(Gap(why, command=command, until=work.now))
    roots = [*_find_stolen_roots(work, keyset)]
    can_tell = any("release" in key.roles and key.state not in ENDED for key in state.keys)
    # No release can stop a thief whom no release key opposes; the recovery key does.
    yield from (*gaps, *roots) if can_tell or keyset is None else (*roots, *gaps)
    yield from publishing.find_removal_gap(work)
    if not is_recovering:
        thumbprints = [key.thumbprint for key in revoked if key not in trusted]
        yield from _find_told_revocations(work, thumbprints)


def _find_told_revocations(work: Work, thumbprints: Sequence[str]) -> Iterator[Gap]:
    """Yield the end of each release key of whose revocation the verifiers have been told."""
    state = work.store.state
    ended = agenda.end_told_releases(state, thumbprints)
    if not ended:
        return
    names = ", ".join(state.find(str(event["key"])).named for event in ended)

    def close() -> list[str]:
        work.store.commit(agenda.end_told_releases, thumbprints, now=work.now)
        return [f"revoked {names}"]

    yield Gap(f"revoke {names}", close=close)


def find_still_trusted(work: Work, revoked: Sequence[KeyRecord]) -> list[KeyRecord]:
    """Return the keys that are revoked in the store, but in nothing that verifiers are given."""
    try:
        published = publishing.published_statements(work.config.publish)
    except PublishRefused:  # no history, as the steps that publish report
        published = None
    keyset, release = work.keyset, work.release
    if published is not None:
        keyset, release = published.newest, published.release
    if keyset is None:  # then nothing but the key sets says which keys count
        offered = publishing.list_published_keys(work.published)
        copied = [
            key
            for key in revoked
            if key.revoked_because == "compromised"
            and key.is_given_out
            and key.times.dropped is None
        ]
        return [key for key in revoked if key.public in offered or key in copied]
    trusted = {key.public.thumbprint for key in keyset.keys} - keyset.revoked
    trusted -= release.revoked if release is not None else frozenset()
    return [key for key in revoked if key.thumbprint in trusted]


def explain_trust(work: Work, keys: Sequence[KeyRecord]) -> tuple[str, str]:
    """Return why verifiers still trust these revoked keys, and the command that ends it."""
    names = ", ".join(key.named for key in keys)
    if work.keyset is not None:
        why = f"verifiers still trust {names}: nothing that is published revokes them yet"
        return why, work.again
    offered = publishing.list_published_keys(work.published)
    if not work.store.state.publications and all(key.public not in offered for key in keys):
        why = f"verifiers may still trust {names}: key sets that were handed out still list them; "
        why += "write another, and give it to all who have the old one"
        return why, work.command("keys jwks -o jwks.json")
    why = f"verifiers still trust {names}: still in the published key set"
    if work.config.publish is None:
        return why, "cardsign publish SIGNED -o DIR"
    return why, work.again


def find_endangered(work: Work) -> Iterator[Gap]:
    """Yield the keys that a thief may have taken with a stolen one, and that the issuer ends."""
    others, _ = history.stolen_with(work.store.load(), work.keyset)
    if names := ", ".join(key.named for key in others if "release" in key.roles):
        message = f"revoke {names} later: it first has to sign the release that revokes the others"
        yield Gap(message, key_holder("release"), work.again)
    if names := ", ".join(key.named for key in others if not key.rotates):
        message = f"{names} may be stolen too: sign the next keyset with other root keys"
        yield Gap(message, command=work.again)


def _find_stolen_roots(work: Work, keyset: KeysetStatement | None) -> Iterator[Gap]:
    """Yield the roots that may be stolen, and without which nothing can be signed."""
    state = work.store.load()
    _, roots = history.stolen_with(state, keyset)
    if keyset is None or not roots or history.unlisted_roots(state, keyset):
        return  # in the last case a recovery waits already
    stolen = [short_kid(key.kid) for key in state.keys if key.revoked_because == "compromised"]
    beside = f", stored with {', '.join(stolen)}" if stolen else ""
    message = f"{', '.join(key.named for key in roots)}{beside}, may be stolen too; "
    message += f"no keyset can be signed without {'it' if len(roots) == 1 else 'them'}"
    if keyset.recovery:
        message += ", so the recovery key has to open a new epoch"
        who, command = "the holder of the recovery key", RECOVER
        if any(key.rotates for key in state.keys):  # else others publish what is signed here
            recover = " ".join(filter(None, (f"{RECOVER} -o next.json --yes", work.options)))
            command = f"{recover}; {work.command('keyset publish next.json')}; {work.again}"
        new: list[Role] = ["root", *(role for role in ROTATING if _is_lost(state, role))]
        variables = ", ".join(map(passphrase_variable, new))
        message += f", under new passphrases: type them when asked, or set {variables}"
        yield Gap(message, who, command, awaits_roots=True)
    else:
        message += ", and there is no recovery key: list another root, then revoke this one"
        yield Gap(message, command=ADD_ROOT)


def _is_lost(state: StoreState, role: OnlineRole) -> bool:
    """Say whether the thief has, or had, all keys of a role."""
    keys = [key for key in state.keys if role in key.roles]
    return bool(keys) and all(key.is_stolen or key.state in ENDED for key in keys)
