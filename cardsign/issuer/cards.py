"""The cards of an issuer as ``cardsign.toml`` names them: signed, listed and published."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Final, cast

from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.card.convert import CardForm, convert_card
from cardsign.card.document import Card, render, unsigned
from cardsign.card.extensions import (
    FIELDS_URI,
    ExtendedMarker,
    check_audience,
    find_marker,
    with_marker,
)
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.card.values import Json, members_of
from cardsign.config import BuildSettings, ProjectCard
from cardsign.errors import (
    BuildRefused,
    CardRefused,
    FileFault,
    FileMissing,
    InputRefused,
    JsonRefused,
    PublishRefused,
    StoreFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import read_bytes, write_atomic
from cardsign.issuer.publishing import (
    describe_publication,
    explain_refused_card,
    find_update_gap,
    is_unrecorded,
    newest_generation,
    publish_cards,
)
from cardsign.issuer.release import find_release_gap, is_card_withdrawn
from cardsign.issuer.signers import CardSigners, NotOpened, card_signers
from cardsign.issuer.work import NEEDS_A_PERSON, NOTICE, UNLISTED, Gap, Work, key_holder
from cardsign.jose.jwks import JwkSet
from cardsign.keys.drafts import card_digest
from cardsign.keys.history import kept_keyset, kept_release
from cardsign.keys.lifecycle import cards_to_sign
from cardsign.keys.model import PUBLISHED
from cardsign.publish.generation import CARD_FILE, Generation
from cardsign.publish.publication import Documents, published_card
from cardsign.sign.signing import SignedCard, SigningOptions, self_check, sign_with_notes
from cardsign.times import utc
from cardsign.urls import LEGACY_CARD_PATH

#: As long as a keyset statement may live; a year and a month to spare for an annual renewal.
MAX_LIFETIME: Final = timedelta(days=400)
_SPAN: Final = re.compile(r"([1-9][0-9]{0,3})d")


def sign_cards(work: Work) -> list[tuple[ProjectCard, SignedCard]]:
    """Sign the cards of a project with every card key that signs now, and write what changed.

    All cards are signed before one is written. Returns and raises as :func:`sign_sources`.
    """
    chosen = card_signers(work.store, work.access, now=work.now)
    signed = sign_sources(work, chosen)
    for card, signing in signed:
        if signing.document != read_signed(card):
            write_atomic(card.signed, signing.document)
            written = read_signed(card) or b""
            marker = find_marker(Card.from_bytes(written).document)
            self_check(written, chosen.signers, marker=marker)
    return signed


def sign_sources(work: Work, chosen: CardSigners) -> list[tuple[ProjectCard, SignedCard]]:
    """Sign the cards of a project in memory.

    Signatures that are there and still right stay, so nobody is asked for a passphrase where
    nothing is to be signed, and what is written again is the same to the byte.

    Returns:
        Each card with what was signed, whose ``changed`` says whether the file is another.

    Raises:
        FileFault: A card cannot be read.
        BuildRefused: As :func:`cardsign.build.assemble.build_card`.
        SigningRefused, SignerFault, PassphraseFault, StoreFault: As
            :func:`cardsign.issuer.signers.card_signers`.
        InputRefused: As :func:`cardsign.sign.signing.sign_document`.
        UsageFault: ``usage.invalid``: ``expires`` is no date, past, or too far ahead;
            ``config.not_allowed``: ``signed`` names a file that is no card.
    """
    signed = []
    for card in work.config.cards:
        _check_replaceable(card)
        source = read_source(card, work.config.build)
        earlier = read_signed(card)
        with of_the_user(str(card.source)):
            marker = _marker(work, card, source, earlier)
            options = SigningOptions(
                own_kids=chosen.own_kids, extended=marker, file=str(card.source)
            )
            document = earlier if earlier and _says_the_same(source, earlier, marker) else source
            signing = sign_with_notes(document, chosen.signers, options)
        signed.append((card, signing))
    return signed


def read_source(card: ProjectCard, build: BuildSettings) -> bytes:
    """A card of the project before it is signed: read, or built; its skills selected; converted.

    Raises:
        FileFault, BuildRefused: It cannot be read, or not be built.
        InputRefused: It is to be converted or its skills selected, and it is no card.
        UsageFault: ``config.malformed``: a selected skill is not in it.
    """
    if card.build:
        options = replace(BuildOptions.of(build), agent=card.agent)
        data = build_card(card.build, options).document
    else:
        data = read_bytes(card.source, max_bytes=MAX_CARD_BYTES)
    if card.legacy is None and not card.skills:
        return data
    with of_the_user(str(card.source)):
        document = Card.from_bytes(data).document
        if card.skills:
            document = _selected(document, card)
        if card.legacy is not None:
            document = convert_card(document, cast(CardForm, card.legacy)).document
        return render(document)


def _selected(document: Mapping[str, Json], card: ProjectCard) -> dict[str, Json]:
    """The card with the skills that its audience may see, and nothing that is kept of the others.

    Raises:
        UsageFault: ``config.malformed``: a selected skill is not in it.
    """
    listed = document.get("skills")
    skills = (
        [skill for skill in listed if isinstance(skill, dict)] if isinstance(listed, list) else []
    )
    ids = [str(skill.get("id")) for skill in skills]
    if unknown := [skill for skill in card.skills if skill not in ids]:
        raise UsageFault(
            "config.malformed",
            f"'skills' of a [[card]] names {unknown[0]!r}, which is no skill of this card",
            path=str(card.source),
            hint=f"Its skills are {', '.join(ids[:20])}.",
        )
    shown: list[Json] = [skill for skill in skills if skill.get("id") in card.skills]
    chosen: dict[str, Json] = {**document, "skills": shown}
    chosen.pop("signatures", None)  # they are of the whole card
    capabilities = document.get("capabilities")
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    if isinstance(capabilities, dict) and isinstance(extensions, list):
        kept = [_kept(skill, card.skills) for skill in extensions]
        chosen["capabilities"] = {**capabilities, "extensions": [skill for skill in kept if skill]}
    return chosen


def _kept(extension: Json, skills: Collection[str]) -> Json:
    """Our extension with what it keeps of these skills, None for nothing; any other as it is."""
    if not isinstance(extension, dict) or extension.get("uri") != FIELDS_URI:
        return extension
    params = members_of(extension.get("params"))
    of_skills = params.get("skills")
    if not isinstance(of_skills, dict):
        return extension
    kept = {name: value for name, value in of_skills.items() if name in skills}
    params = {**params, "skills": kept}
    params = params if kept else {name: param for name, param in params.items() if name != "skills"}
    return {**extension, "params": params} if params else None


def _check_replaceable(card: ProjectCard) -> None:
    """Only a card is written over: cardsign.toml may name a key, a statement or a setting.

    Raises:
        UsageFault: ``config.not_allowed``: there is something else.
    """
    try:
        data = read_bytes(card.signed, max_bytes=MAX_CARD_BYTES)
        is_card = Card.from_bytes(data).has_endpoint
    except FileMissing:
        return
    except InputRefused:
        is_card = False
    if not is_card:
        raise UsageFault(
            "config.not_allowed",
            "'signed' of a [[card]] names a file that is no card, and would replace it",
            path=str(card.signed),
            hint="Name another file in cardsign.toml, or remove this one yourself.",
        )


def read_signed(card: ProjectCard) -> bytes | None:
    """The signed form of a card, as it was written last; None where there is none."""
    try:
        return read_bytes(card.signed, max_bytes=MAX_CARD_BYTES)
    except FileMissing:
        return None


def to_list(cards: Sequence[ProjectCard]) -> tuple[tuple[str | None, bytes], ...]:
    """What a release lists of a project's cards: the public ones, once they are signed."""
    signed = [(card.legacy, read_signed(card)) for card in cards if card.audience is None]
    return tuple(
        (LEGACY_CARD_PATH if older else None, data) for older, data in signed if data is not None
    )


def to_publish(cards: Sequence[tuple[ProjectCard, bytes]]) -> Documents:
    """Return the signed cards of a project, of which the first is the public one."""
    (_, public), *others = cards
    older = next((data for card, data in others if card.legacy), None)
    extended = {card.audience: data for card, data in others if card.audience}
    return Documents(public, extended=extended, legacy_card=older)


def expiry(text: str, now: datetime) -> int:
    """When a card ends that is signed now, in seconds since 1970.

    Args:
        text: ``YYYY-MM-DD``, with all of that day; ``YYYY-MM-DDThh:mm:ss``, in UTC where no
            offset is given; or ``90d``, as many days from now.
        now: The time, with its zone.

    Raises:
        UsageFault: ``usage.invalid``: it is none of these, past, or beyond :data:`MAX_LIFETIME`.
    """
    span, most = _SPAN.fullmatch(text), now + MAX_LIFETIME
    try:
        end = now + timedelta(days=int(span[1])) if span else _moment(text)
    except OverflowError:  # beyond the last day that a calendar has
        end = most + timedelta(1)
    except ValueError as exc:
        raise UsageFault("usage.invalid", f"expires takes an ISO date, not {text!r}") from exc
    if end <= now:
        raise UsageFault("usage.invalid", f"expires {text!r} is past")
    if end > most:
        days = MAX_LIFETIME.days
        raise UsageFault("usage.invalid", f"expires {text!r} is more than {days} days ahead")
    return int(end.timestamp())


def _moment(text: str) -> datetime:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def _marker(
    work: Work, card: ProjectCard, source: bytes, before: bytes | None
) -> ExtendedMarker | None:
    """What makes it the card of an audience; the one that it has, while that will do."""
    if card.audience is None or card.expires is None:
        return None
    check_audience(card.audience)
    end = expiry(card.expires, work.now)
    own = _find_own_marker(work, before) if before else None
    if before and own and own.audience == card.audience and _says_the_same(source, before, own):
        remaining, whole = own.exp - work.now.timestamp(), end - work.now.timestamp()
        if own.exp == end or (_SPAN.fullmatch(card.expires) and whole / 2 < remaining <= whole):
            return own
    return ExtendedMarker(card.audience, max(1, work.store.load().release_seq), end)


def _find_own_marker(work: Work, untrusted_card: bytes) -> ExtendedMarker | None:
    """Return the marker of a card that was signed here; else anybody may have written it."""
    keys = JwkSet.of([key.public for key in work.store.load().keys if key.state in PUBLISHED])
    if not published_card("", untrusted_card, keys).kids:
        return None
    return find_marker(Card.from_bytes(untrusted_card).document)


def _says_the_same(source: bytes, signed: bytes, marker: ExtendedMarker | None) -> bool:
    """Whether a signed card is what would be signed now, with every signature of the source."""
    try:
        old = Card.from_bytes(signed).document
        new = Card.from_bytes(source).document
        new = new if marker is None else with_marker(new, marker)
    except InputRefused:
        return False
    kept, wanted_signatures = old.get("signatures"), new.get("signatures")
    signatures = kept if isinstance(kept, list) else []
    return _unsigned(old) == _unsigned(new) and all(
        signature in signatures
        for signature in (wanted_signatures if isinstance(wanted_signatures, list) else [])
    )


def _unsigned(document: Mapping[str, Json]) -> str:
    """The card without its signatures, to the order of its members and the type of its numbers."""
    return repr(unsigned(document))


# What the cards of a project lack: to be signed, listed and published.

# What is written or built is no card now: what is published stays, and so does its release.
_BROKEN_SOURCE: Final = (BuildRefused, CardRefused, JsonRefused, FileFault)


def find_card_gaps(work: Work, *, is_astray: bool = False) -> Iterator[Gap]:
    """Yield what the cards lack, and without them what the rest of what is published does.

    Where the settings name no cards, those that are published are signed again. `is_astray`: what
    is published is not this key store's, so nobody knows where its cards are.
    """
    store, config = work.store, work.config
    signed: Documents | None = None
    if (unlisted := _find_unlisted_card(work)) is not None:
        yield from find_release_gap(work)
        yield from find_update_gap(work)
        yield unlisted
        return
    try:
        signed = _find_signed(work)
    except _BROKEN_SOURCE as fault:
        message = f"repair {fault.path or 'the cards'}; what is published stays: {fault.message}"
        yield Gap(message)
    except (*NEEDS_A_PERSON, StoreFault) as fault:
        if isinstance(fault, StoreFault) and fault.code not in UNLISTED:
            raise
        close = partial(_sign_again, work)
        yield Gap("sign the cards", key_holder("card"), until=_harmful_from(work), close=close)
    else:
        is_here = signed is not None and config.publish is not None
        if not (is_here or is_astray or is_card_withdrawn(store)):
            yield from _find_cards_elsewhere(work)
    yield from find_release_gap(work, to_list(config.cards) if signed else ())
    if signed is not None and config.publish is not None and not is_card_withdrawn(store):
        yield from _find_publication_gap(work, signed)
    else:
        yield from _find_statement_gap(work)


def _harmful_from(work: Work) -> datetime | None:
    """Return when it harms that cards wait: now, if verifiers do not trust what is published."""
    return work.now if explain_refused_card(work) else None


def _find_unlisted_card(work: Work) -> Gap | None:
    """Return the gap of a published card that no release of ours lists, as after a recovery.

    Whoever had the lost keys may have put it there, so a person looks at it before it is signed.
    """
    newest, release = newest_generation(work.config.publish), kept_release(work.store)
    is_listed = bool(work.config.cards or (release and (release.cards or release.floor)))
    if newest is None or kept_keyset(work.store) is None or is_listed:
        return None
    card = shlex.quote(str(work.config.publish / newest.folder / CARD_FILE))  # type: ignore[operator]
    command = f"cardsign sign {card} -o signed.json && cardsign release renew --card signed.json"
    message = f"look at the published card, {card}, and sign, list and publish it if it is yours"
    return Gap(message, command=f"{command} && cardsign publish signed.json", until=work.now)


def _find_statement_gap(work: Work) -> Iterator[Gap]:
    """Yield what is published lacks where no card is published with it."""
    updates = [*find_update_gap(work)]
    yield from updates
    if not updates and (refusal := explain_refused_card(work)):
        refuse, who = partial(_refuse, refusal), key_holder("card")
        yield Gap("sign the published card again", who, until=work.now, close=refuse)


def _refuse(refusal: PublishRefused) -> list[str]:
    raise refusal


def _find_cards_elsewhere(work: Work) -> Iterator[Gap]:
    """Yield cards that were published from another place than the project names."""
    if cards := cards_to_sign(work.store.load(), work.now):
        names = ", ".join(card.url or card.name for card in cards)
        message = f"sign these published cards again, and publish them: {names}"
        command = "cardsign sign CARD -o SIGNED; cardsign publish SIGNED"
        command += "" if work.config.publish else " -o DIR"
        yield Gap(message, key_holder("card"), command)


def find_ending_cards(work: Work) -> Iterator[Gap]:
    """Yield extended cards that have ended or soon end; soon is at most a quarter of their time."""
    state = work.store.load()
    first = {
        card.payload_sha256: card.since or publication.at
        for publication in state.publications
        for card in publication.cards
    }
    newest = newest_generation(work.config.publish)
    cards = [read_signed(card) for card in work.config.cards if card.audience is not None]
    cards += newest.extended.values() if newest else ()
    ends: dict[str, datetime] = {}
    for untrusted_card in filter(None, cards):
        with suppress(InputRefused):  # which signing and publishing refuse as well
            marker = find_marker(Card.from_bytes(untrusted_card).document)
            if marker is None:
                continue
            end = utc(marker.exp)
            at = first.get(card_digest(untrusted_card))
            if end <= work.now + (min(NOTICE, (end - at) / 4) if at else timedelta()):
                ends[marker.audience] = min(end, ends.get(marker.audience, end))
    for audience, end in ends.items():
        message = f"sign the extended card of audience {audience} again, with a later `expires`"
        yield Gap(message, command="cardsign sign; cardsign publish", until=end)


def _find_publication_gap(work: Work, signed: Documents) -> Iterator[Gap]:
    try:
        generation = _publish(work, signed, writes=False)
    except NotOpened:
        until, close = _harmful_from(work), partial(_publish_now, work)
        yield Gap("publish the cards", key_holder("card"), until=until, close=close)
    except (*NEEDS_A_PERSON, FileFault) as fault:
        why = f"{fault.code}: {fault.message}"
        yield Gap("publish the cards", command=fault.finding.fix, why=why)
        yield from _find_statement_gap(work)
    else:
        if generation.created or is_unrecorded(work, generation):
            until, close = _harmful_from(work), partial(_publish_now, work)
            yield Gap("publish the cards", until=until, close=close)


def _publish(work: Work, signed: Documents, *, writes: bool = True) -> Generation:
    """Publish cards; the card of A2A 0.3 that stays published is signed with the keys of now."""
    newest = newest_generation(work.config.publish)
    stays = newest is not None and signed.legacy_card is None and not work.drops_others
    if newest is not None and newest.legacy_card is not None and stays:
        signers = card_signers(work.store, work.access if writes else None, now=work.now)
        signed = replace(signed, legacy_card=signers.sign(newest.legacy_card))
    return publish_cards(work, signed, writes=writes)


def _publish_now(work: Work) -> list[str]:
    signed = _find_signed(work)
    return describe_publication(None if signed is None else _publish(work, signed))


def _find_signed(work: Work) -> Documents | None:
    """Return the cards that are to be published; None where none is.

    Raises:
        NotOpened: One has to be signed again.
    """
    store, config = work.store, work.config
    has_key = any("card" in key.roles for key in store.load().keys)
    if not has_key or is_card_withdrawn(store):
        return None
    if config.cards:
        signed_cards = sign_sources(work, card_signers(store, None, now=work.now))
        if any(signing.document != read_signed(card) for card, signing in signed_cards):
            raise NotOpened("passphrase.none", "a card is not written yet")
        return to_publish([(card, signing.document) for card, signing in signed_cards])
    if (newest := newest_generation(config.publish)) is None:
        return None
    return _sign_published(newest, card_signers(store, None, now=work.now))


def _sign_published(newest: Generation, signers: CardSigners) -> Documents:
    extended = {name: signers.sign(card) for name, card in newest.extended.items()}
    return Documents(signers.sign(newest.card), extended=extended)


def _sign_again(work: Work) -> list[str]:
    """Sign the cards of the project, or those that are published, which go out signed at once."""
    if work.config.cards:
        signed_cards = sign_cards(work)
        return [
            f"updated the signatures of {card.source.name}"
            for card, signing in signed_cards
            if signing.changed
        ]
    if (newest := newest_generation(work.config.publish)) is None:
        return []
    signers = card_signers(work.store, work.access, now=work.now)
    generation = _publish(work, _sign_published(newest, signers))
    return ["updated the signatures of the published cards", *describe_publication(generation)]
