"""The next release: which cards are current and which keys no longer count; who must be told.

A release lists a new card before it is served and the old one for as long as caches may hold it,
so that none of the orders in which copies expire refuses an honest card (threat 15).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from cardsign import errors
from cardsign.card.document import Card, current_interfaces
from cardsign.card.profiles import canonicalize
from cardsign.errors import PublishRefused, SigningRefused, StoreFault, UsageFault, of_the_user
from cardsign.issuer import publishing
from cardsign.issuer.work import RECOVER, Gap, Work, key_holder
from cardsign.jose.jws import Signer
from cardsign.jose.keys import JwkSet
from cardsign.keys import agenda, history, ledger
from cardsign.keys.agenda import TimelineSettings
from cardsign.keys.ledger import ENDED, KeyRecord, StoreState
from cardsign.keys.store import KeyStore, digest_of
from cardsign.publish.generation import CARD_FILE
from cardsign.publish.publication import SKEW, check_cards
from cardsign.statements import release as releases
from cardsign.statements.envelope import TYP_RELEASE, Envelope, StatementRefused, check_times
from cardsign.statements.keyset import KeysetId, KeysetStatement
from cardsign.statements.release import ListedCard, ReleaseStatement
from cardsign.times import utc
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH

#: How long a release is believed. It is renewed at half of it, so a dead cron is seen in time.
RELEASE_LIFETIME: Final = timedelta(days=7)


# Releases as they are drafted.


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """What the next release says that the one before did not.

    Attributes:
        cards: (url, payload digest) of the cards to list; the listed ones stay.
        settled: By url, the digest of the only card that is still current: what was listed before
            it no longer is, and the floor rises to it.
        withdrawn: Urls of which nothing is current any more.
        extended_floor: The least seq of an extended card that is still current, if it rises.
        revoked: Thumbprints; those that are no keys of the keyset are left out.
        audit_head: The digest of the newest line of the key store's log; None leaves it out.
    """

    cards: tuple[tuple[str, str], ...] = ()
    settled: Mapping[str, str] = field(default_factory=dict)
    withdrawn: tuple[str, ...] = ()
    extended_floor: int | None = None
    revoked: frozenset[str] = frozenset()
    audit_head: str | None = None


def settled_cards(
    listed: Iterable[ListedCard], state: StoreState, settings: TimelineSettings, now: datetime
) -> dict[str, str]:
    """Return by URL the digest of the only card that caches can still hold, if there is just one.

    It is the one that the newest records show, of publications or of looks at what is live, and the
    first of these is as old as caches may keep a card. What nobody has recorded does not settle: it
    may never have been live.
    """
    latest = now - settings.as_published(state).turnover
    shown = {payload for payload, begin in ledger.first_published(state).items() if begin <= latest}
    return {card.url: card.payload_sha256 for card in listed if card.payload_sha256 in shown}


def card_digest(card: bytes) -> str:
    """Return SHA-256 of a card's ``served-as-is`` payload in lower-case hex, as releases list it.

    Raises:
        JsonRefused, CardRefused: It cannot be read in one way only.
        CanonicalizationError: It has no such payload.
    """
    return canonicalize(Card.from_bytes(card).document, "served-as-is").sha256


def draft_following(
    plan: ReleasePlan,
    keyset: KeysetStatement,
    previous: ReleaseStatement | None,
    *,
    seq: int,
    now: datetime,
) -> ReleaseStatement:
    """Draft the next release, unsigned; `seq` is higher than any number that was used.

    Raises:
        StatementRefused: What a verifier would refuse however it is signed.
    """
    floor = dict(previous.floor) if previous else {}
    cards = _listed_cards(plan, previous, floor, seq)
    # No cache holds what was listed before a settled card any more.
    settled = plan.settled.items()
    raised = {card.url: card.seq for card in cards if (card.url, card.payload_sha256) in settled}
    raised[releases.FLOOR_EXTENDED] = plan.extended_floor or 0
    floor |= {url: least for url, least in raised.items() if least > floor.get(url, 0)}
    # The floor outlives the card: so every later release knows that it was withdrawn.
    for url in plan.withdrawn:
        floor.setdefault(url, seq)
    revoked = plan.revoked
    if previous is not None and previous.keyset == keyset.id:
        revoked = revoked | previous.revoked
    current = (card for card in cards if card.seq >= floor.get(card.url, 0))
    iat = int(now.timestamp())
    release = ReleaseStatement(
        envelope=Envelope(TYP_RELEASE, b"", ()),
        issuer=keyset.issuer,
        keyset=keyset.id,
        seq=seq,
        iat=iat,
        exp=iat + int(RELEASE_LIFETIME.total_seconds()),
        cards=tuple(card for card in current if card.url not in plan.withdrawn),
        floor=floor,
        revoked=revoked & {key.public.thumbprint for key in keyset.keys},
        audit_head=plan.audit_head,
    )
    return releases.draft_of(release)


def says_something_new(
    draft: ReleaseStatement, previous: ReleaseStatement | None, *, now: datetime
) -> bool:
    """Return whether a release says anything new, or it is time for another one.

    A longer audit log alone is nothing new: each release makes it longer itself.
    """
    if previous is None or is_release_due(previous, draft.keyset, now=now):
        return True
    old = frozenset(previous.cards), previous.floor, previous.revoked
    return old != (frozenset(draft.cards), draft.floor, draft.revoked)


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
    """Return the cards that are current or to come, each by the release that first listed it."""
    kept = previous.cards if previous else ()
    current = (card for card in kept if card.seq >= floor.get(card.url, 0))
    earlier = sorted(current, key=lambda card: card.seq)
    listed = {(card.url, card.payload_sha256): card for card in earlier}
    newest = {card.url: card.payload_sha256 for card in earlier}
    # To return to a card before the newest is to list it anew: else its floor would let the newer
    # one pass for ever.
    for url, digest in plan.cards:
        if newest.get(url) != digest:
            listed[url, digest] = ListedCard(url, releases.KIND_PUBLIC, digest, seq)
    return sorted(listed.values(), key=lambda card: (card.url, card.seq, card.payload_sha256))


# Whether the next release is due.


def find_release_gap(
    work: Work, cards: Sequence[tuple[str, str]] = (), *, withdraws: bool = False
) -> Iterator[Gap]:
    """Yield that a release has something new to say, where a release key is here to sign it.

    Args:
        work: The key store, and the agent whose cards these are.
        cards: (url, payload digest) of the cards to list.
        withdraws: Withdraw the cards of the agent.
    """
    keyset, previous = work.keyset, work.release
    if keyset is None or not any(key.role == "release" for key in work.store.state.keys):
        return
    own = {keyset.origins[0] + work.path_of(path) for path in (CARD_PATH, LEGACY_CARD_PATH)}
    listed = {card.url for card in previous.cards} if previous and withdraws else set()
    plan, until, why = ReleasePlan(tuple(cards), withdrawn=tuple(sorted(listed & own))), None, ""
    if is_unwitnessed(work.store, previous):
        until, why = work.now, "no release names the newest revocation in the log yet"
    elif previous is not None and is_release_due(previous, keyset.id, now=work.now):
        until = utc(previous.exp)
    with suppress(UsageFault):  # which closing the gap meets again
        if draft_release(work, plan) is None:
            return

    def close() -> list[str]:
        release = sign_next_release(work, plan)
        return [] if release is None else [f"signed release {release.seq}"]

    yield Gap("renew the release", key_holder("release"), until=until, close=close, why=why)


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
    newest = history.kept_keyset(store)
    if newest is None:
        raise StoreFault("keystore.no_keyset", "there is no keyset statement", path=store.place)
    return newest


def is_withdrawn(work: Work, path: str = CARD_PATH) -> bool:
    """Say whether the newest release has withdrawn an agent's card at its usual URL."""
    keyset, release = work.keyset, work.release
    url = keyset.origins[0] + work.path_of(path) if keyset else ""
    return release is not None and release.is_withdrawn(url)


# How a release comes about: drafted, signed, checked as a verifier will, numbered and kept.


def list_named(work: Work, cards: Iterable[tuple[str | None, bytes]]) -> list[tuple[str, str]]:
    """Return URL and payload digest of cards that a person names, each with its URL or the usual.

    Raises:
        PublishRefused: The issuer's own keys do not verify a card, such as an edited one.
        StoreFault: ``keystore.no_keyset``.
    """
    keyset, listed = needed_keyset(work.store), []
    keys = JwkSet.of(key.public for key in keyset.keys if "card" in key.roles)
    for url, card in cards:
        place = f"the card at {url or CARD_PATH}"
        try:
            check_cards({CARD_FILE: card}, keys, work.now)
        except PublishRefused as refusal:
            raise errors.place_below(refusal, place, PublishRefused) from refusal
        interfaces = current_interfaces(Card.from_bytes(card).document)
        if url in [interface.url for interface in interfaces]:
            message = f"{url} is where the agent answers, not where its card is"
            hint = f"For the issuer's {CARD_PATH} leave the URL out: --card FILE"
            raise UsageFault("usage.invalid", message, hint=hint)
        with of_the_user(place):
            listed.append((url or keyset.origins[0] + CARD_PATH, card_digest(card)))
    return listed


def draft_release(work: Work, plan: ReleasePlan, *, force: bool = False) -> ReleaseStatement | None:
    """Draft the next release; None if it would say nothing new and `force` is not given.

    Listed cards stay listed. Keys that the key store has revoked are revoked at once. Once the
    published card is the only one that caches can hold, the floor rises to it.

    Raises:
        UsageFault: The plan does not fit, or the keyset has expired.
        StoreFault: ``keystore.no_keyset``.
    """
    store, now, state = work.store, work.now, work.store.state
    keyset, previous = needed_keyset(store), work.release
    check_in_force(keyset, "the newest keyset statement", now, "sign a newer keyset")
    cards = previous.cards if previous else ()
    urls = {card.url for card in cards}.union(previous.floor if previous else ())
    if unlisted := [url for url in plan.withdrawn if url not in urls]:
        raise UsageFault("usage.conflict", f"no card is listed at {unlisted[0]!r} to be withdrawn")
    plan = replace(
        plan,
        settled=plan.settled or settled_cards(cards, state, work.config.timeline, now),
        # A retired key is still listed until the next keyset; a copy of it is good for nothing.
        revoked=frozenset(key.thumbprint for key in state.keys if key.state in ENDED),
        audit_head=state.head,
    )
    with of_the_user("the release"):
        draft = draft_following(plan, keyset, previous, seq=state.release_seq + 1, now=now)
    is_due = force or is_unwitnessed(store, previous)
    return draft if is_due or says_something_new(draft, previous, now=now) else None


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


def open_signers(work: Work, thumbprints: set[str]) -> tuple[Signer, ...]:
    """Open the keys of a store among `thumbprints` that can sign."""
    keys = (key for key in work.store.state.keys if key.state in ("active", "retiring"))
    return tuple(
        work.store.signer(key, work.access) for key in keys if key.thumbprint in thumbprints
    )


def sign_next_release(
    work: Work, plan: ReleasePlan, *, force: bool = False
) -> ReleaseStatement | None:
    """Sign and keep the next release if there is anything new to say; it is not published.

    Args:
        work: The key store with the release key, and where its statements are published.
        plan: What the release says beyond the key store.
        force: Sign one even if nothing is new.

    Returns:
        The new release; None if there is nothing new to say.

    Raises:
        UsageFault, StoreFault: As :func:`draft_release`.
        SigningRefused: ``sign.no_key``.
        PublishRefused: As :func:`cardsign.issuer.publishing.check_publishable`.
        StoreFault: ``keystore.changed``: another process was faster; ``file.busy``.
    """
    keyset, previous = needed_keyset(work.store), work.release
    draft = draft_release(work, plan, force=force)
    if draft is None:
        return None
    able = {key.public.thumbprint for key in keyset.keys if "release" in key.roles}
    signers = open_signers(work, able - draft.revoked)
    if not signers:
        message = "no release key of the newest keyset statement is here"
        hint = "The roots can list one: cardsign keyset draft."
        raise SigningRefused("sign.no_key", message, path=work.store.place, hint=hint)
    data = releases.sign_release(draft.envelope.payload, signers)
    signed = releases.read_release(data)
    releases.check_release(signed, keyset, previous, now=work.now, skew=SKEW)
    publishing.check_publishable(work, release=data)
    history.keep_release(work.store, signed, data, now=work.now)
    return signed


# Keys that were revoked: who still trusts them, and what a thief may have besides.


def find_untold_revocations(work: Work, *, is_recovering: bool) -> Iterator[Gap]:
    """Yield the revoked keys that verifiers still trust, and what tells them; that comes first."""
    state, keyset = work.store.state, work.keyset
    revoked = [key for key in state.keys if key.state == "revoked"]
    trusted = find_still_trusted(work, revoked)
    gaps = _find_telling_gaps(work, trusted, is_recovering=is_recovering) if trusted else []
    others, roots = history.stolen_with(state, keyset)
    if keyset and roots and not history.unlisted_roots(state, keyset):  # else a recovery waits
        gap = _make_root_gap(work, keyset, ", ".join(key.named for key in roots))
        # No release can stop a thief whom no release key opposes; the recovery key does.
        can_tell = any(key.role == "release" and key.state not in ENDED for key in state.keys)
        gaps.insert(len(gaps) if can_tell else 0, gap)
    yield from gaps
    yield from publishing.find_removal_gap(work)
    if not is_recovering:
        thumbprints = [key.thumbprint for key in revoked if key not in trusted]
        yield from _find_told_releases(work, state, thumbprints)
    if names := ", ".join(key.named for key in others if not key.rotates):
        message = f"{names} may be stolen too: sign the next keyset with other root keys"
        yield Gap(message, command=work.again)


def _find_telling_gaps(
    work: Work, trusted: Sequence[KeyRecord], *, is_recovering: bool
) -> list[Gap]:
    """Return what tells verifiers of revoked keys that they trust; a recovery does it itself."""
    names, gaps = ", ".join(key.named for key in trusted), list[Gap]()
    why, command = f"verifiers still trust {names}: ", work.again
    if work.keyset is not None:
        why += "nothing that is published revokes them yet"
    elif work.published or work.store.state.publications:
        why += "still in the published key set"
        if not work.config.publish:  # a card that no stolen key has signed takes the key set along
            command = "; ".join([command, *work.list_signing_commands()])
    else:
        why = f"verifiers may still trust {names}: key sets that were handed out still list them; "
        why += "write another, and give it to all who have the old one"
        command = work.command("keys jwks -o jwks.json")
    if not is_recovering:
        gaps = [*find_release_gap(work), *publishing.find_update_gap(work)]
        if gaps:  # closing the first one tells the verifiers
            gaps[0] = gaps[0]._replace(why=why, until=work.now)
    if not any(gap.close for gap in gaps):
        gaps.append(Gap(why, command=command, until=work.now))
    return gaps


def _find_told_releases(work: Work, state: StoreState, thumbprints: list[str]) -> Iterator[Gap]:
    """Yield the release keys whose revocation waited until verifiers know of these keys."""
    ended = agenda.end_told_releases(state, thumbprints)
    if names := ", ".join(state.find(str(event["key"])).named for event in ended):

        def close() -> list[str]:
            work.store.commit(agenda.end_told_releases, thumbprints, now=work.now)
            return [f"revoked {names}"]

        yield Gap(f"revoke {names}", close=close)


def find_still_trusted(work: Work, revoked: Sequence[KeyRecord]) -> list[KeyRecord]:
    """Return the keys that are revoked in the store, but in nothing that verifiers are given."""
    keyset, release = work.keyset, work.release
    with suppress(PublishRefused):  # no history, as the steps that publish report
        if published := publishing.published_statements(work.config.publish):
            keyset, release = published.newest, published.release
    if keyset is None:  # then nothing but the key sets says which keys count
        trusted = {key.thumbprint for key in publishing.list_published_keys(work.published)}
        trusted |= {key.thumbprint for key in agenda.list_copied(work.store.state)}
    else:
        trusted = {key.public.thumbprint for key in keyset.keys} - keyset.revoked
        trusted -= release.revoked if release is not None else frozenset()
    return [key for key in revoked if key.thumbprint in trusted]


def _make_root_gap(work: Work, keyset: KeysetStatement, names: str) -> Gap:
    """Return the gap of roots that may be stolen, and without which nothing can be signed."""
    message = f"no keyset can be signed without {names}, which may be stolen too: "
    if keyset.recovery is None:
        message += "there is no recovery key, so list another root, then revoke this one"
        return Gap(message, command=work.command("keyset draft --add-root HOLDER=KEY"))
    message += "the recovery key has to open a new epoch, under new passphrases"
    recover = work.command(f"{RECOVER} -o next.json --yes")
    command = f"{recover}; {work.command('keyset publish next.json')}; {work.again}"
    return Gap(message, "the holder of the recovery key", command, awaits_roots=True)
