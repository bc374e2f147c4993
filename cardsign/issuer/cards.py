"""The cards of an issuer as ``cardsign.toml`` names them: signed, listed and published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, cast

from cardsign import errors
from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.card import extensions
from cardsign.card.convert import convert_card
from cardsign.card.document import Card, list_origins, render, unsigned
from cardsign.card.schema import A2aVersion
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.card.values import Json, elements_of, members_of, objects_in
from cardsign.config import BuildSettings, ProjectCard
from cardsign.errors import InputRefused, UsageFault, of_the_user
from cardsign.files import CONFIG_FILE, read_bytes, write_atomic
from cardsign.findings import Finding
from cardsign.issuer import publishing
from cardsign.issuer.release import card_digest, find_release_gap, is_withdrawn
from cardsign.issuer.work import NEEDS_A_PERSON, NOTICE, Gap, Work, card_signers, key_holder
from cardsign.jose.jws import Signer
from cardsign.jose.keys import JwkSet
from cardsign.keys import agenda, history, ledger
from cardsign.keys.signers import Access
from cardsign.publish.generation import CARD_FILE
from cardsign.publish.publication import Documents, publication_of, published_card, statements_in
from cardsign.sign import SignedCard, SigningOptions, sign_document, sign_with_notes
from cardsign.times import read_span, second, utc
from cardsign.tomltext import bad_settings
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH

#: As long as a keyset statement may live; a year and a month to spare for an annual renewal.
MAX_LIFETIME: Final = timedelta(days=400)


def sign_cards(work: Work) -> list[tuple[ProjectCard, SignedCard]]:
    """Sign the cards of a project with every card key that signs now, and write what changed.

    All cards are signed before one is written. Returns and raises as :func:`sign_sources`.
    """
    signed = sign_sources(work, card_signers(work.store, work.access, now=work.now))
    for card, signing in signed:
        if signing.document != read_signed(card):
            write_atomic(card.signed, signing.document)
    return signed


def sign_sources(work: Work, signers: Sequence[Signer]) -> list[tuple[ProjectCard, SignedCard]]:
    """Sign the cards of a project in memory.

    Signatures that are there and still right stay, so nobody is asked for a passphrase where
    nothing is to be signed, and what is written again is the same to the byte.

    Returns:
        Each card with what was signed, whose ``changed`` says whether the file is another.

    Raises:
        FileFault: A card cannot be read.
        BuildRefused: As :func:`cardsign.build.assemble.build_card`.
        SigningRefused, SignerFault, PassphraseFault, StoreFault: As
            :func:`cardsign.issuer.work.card_signers`.
        InputRefused: As :func:`cardsign.sign.sign_document`;
            ``card.origin_mismatch``: the keyset statement does not allow an interface.
        UsageFault: ``config.malformed``: ``expires`` is past, or too far ahead;
            ``config.not_allowed``: ``signed`` names a file that is not a card.
    """
    signed = []
    for card in work.config.cards:
        earlier = read_signed(card)
        changes = list[Finding]()
        source = read_source(card, work.config.build, changes)
        _check_origins(work, card, source)
        with of_the_user(str(card.source)):
            marker = _marker(work, card, source, earlier, {signer.public.kid for signer in signers})
            own_kids = history.list_own_kids(work.store)
            options = SigningOptions(own_kids=own_kids, extended=marker, file=str(card.source))
            document = earlier if earlier and _says_the_same(source, earlier, marker) else source
            signing = sign_with_notes(document, signers, options)
        signed.append((card, replace(signing, notes=(*changes, *signing.notes))))
    return signed


def _check_origins(work: Work, card: ProjectCard, source: bytes) -> None:
    """Refuse a card with an interface where the newest keyset statement allows none."""
    keyset, path = work.keyset, str(card.source)
    with of_the_user(path):
        origins = list_origins(Card.from_bytes(source).document) if keyset else []
    for origin in origins:
        if keyset and origin not in keyset.origins:
            allowed = ", ".join(keyset.origins)
            message = f"it has an interface at {origin}, and keyset {keyset.label} allows {allowed}"
            every = dict.fromkeys((*keyset.origins, *origins))
            draft = "cardsign keyset draft " + " ".join(f"--origin {name}" for name in every)
            hint = "Correct it, or let the roots allow it, first the origin at which the card "
            hint += f"itself is served: {draft}"
            raise errors.CardRefused("card.origin_mismatch", message, path=path, hint=hint)


def read_source(card: ProjectCard, build: BuildSettings, changes: list[Finding]) -> bytes:
    """Return a card of the project before it is signed: read or built, and converted.

    `changes` takes what an older form cannot say.

    Raises:
        FileFault, BuildRefused: It cannot be read, or not be built.
        InputRefused: It is to be converted or its skills selected, and it is no card.
        UsageFault: ``config.malformed``: a selected skill is not in it.
    """
    if card.build:
        options = BuildOptions(agent=card.agent, settings=build)
        data = build_card(card.build, options).document
    else:
        data = read_bytes(card.source, max_bytes=MAX_CARD_BYTES)
    if card.legacy is None and not card.skills:
        return data
    with of_the_user(str(card.source)):
        document = Card.from_bytes(data).document
        if card.skills:
            document = _select_skills(document, card)
        if card.legacy is not None:
            document = convert_card(document, cast(A2aVersion, card.legacy), changes)
        return render(document)


def _select_skills(document: Mapping[str, Json], card: ProjectCard) -> dict[str, Json]:
    """Return the card with the skills that its audience may see, and nothing kept of the others.

    Raises:
        UsageFault: ``config.malformed``: a selected skill is not in it.
    """
    skills = {str(skill.get("id")): skill for _, skill in objects_in(document.get("skills"))}
    if unknown := [skill for skill in card.skills if skill not in skills]:
        message = f"'skills' of a [[card]] names {unknown[0]!r}, which is not a skill of this card"
        raise UsageFault("config.malformed", message, path=str(card.source))
    shown: list[Json] = [skill for name, skill in skills.items() if name in card.skills]
    kept = extensions.kept_of(document)
    of_skills = members_of(kept.pop("skills", None))
    if of_shown := {name: of_skills[name] for name in of_skills if name in card.skills}:
        kept["skills"] = of_shown
    chosen = {**document, "skills": shown}
    chosen.pop("signatures", None)  # they are of the whole card
    return extensions.with_kept(chosen, kept)


def read_signed(card: ProjectCard) -> bytes | None:
    """Return the signed form of a card, as it was written last; None where there is none.

    Only a card is read, and written over: cardsign.toml may name a key, or a statement.

    Raises:
        UsageFault: ``config.not_allowed``: there is something else.
    """
    with suppress(InputRefused):
        try:
            data = read_bytes(card.signed, max_bytes=MAX_CARD_BYTES)
        except errors.FileMissing:
            return None
        if Card.from_bytes(data).a2a_version != "none":
            return data
    message = "'signed' of a [[card]] names a file that is not a card, and would replace it"
    hint = "Name another file in cardsign.toml, or remove this one yourself."
    raise UsageFault("config.not_allowed", message, path=str(card.signed), hint=hint)


def list_signed_cards(work: Work, *, again: bool = False) -> tuple[tuple[str, str], ...]:
    """Return URL and payload digest of an agent's public cards, once they are signed.

    One that a person has withdrawn stays so, unless it is to be listed `again`.
    """
    keyset, listed = work.keyset, []
    for card in work.config.cards:
        path = LEGACY_CARD_PATH if card.legacy else CARD_PATH
        signed = read_signed(card) if keyset and card.audience is None else None
        if keyset and signed is not None and (again or not is_withdrawn(work, path)):
            with of_the_user(str(card.signed)):
                listed.append((keyset.origins[0] + work.path_of(path), card_digest(signed)))
    return tuple(listed)


def expiry(text: str, now: datetime) -> int:
    """Return when a card that is signed now ends, in seconds since 1970.

    Args:
        text: As for :func:`cardsign.card.extensions.read_end`.
        now: The time, aware.

    Raises:
        UsageFault: ``usage.invalid``: as there, or beyond :data:`MAX_LIFETIME`.
    """
    end = extensions.read_end(text, now)
    if end > now + MAX_LIFETIME:
        message = f"expires {text!r} is more than {MAX_LIFETIME.days} days ahead"
        raise UsageFault("usage.invalid", message)
    return int(end.timestamp())


def find_end(card: ProjectCard, now: datetime) -> int:
    """Return when an extended card of the settings ends, if it is signed now.

    Raises:
        UsageFault: ``config.malformed``: as :func:`expiry`.
    """
    try:
        return expiry(card.expires or "", now)
    except UsageFault as fault:
        message = f"the card of audience {card.audience}: {fault.message}"
        raise bad_settings(Path(CONFIG_FILE), message) from fault


def _marker(
    work: Work, card: ProjectCard, source: bytes, earlier: bytes | None, signing_kids: set[str]
) -> extensions.ExtendedMarker | None:
    """Return what makes a card that of an audience: the marker that it has, while that will do.

    A card that renews itself has the time of a new one whenever it has to be signed anyway, so that
    its holder is needed with the roots, who renew a keyset at two thirds of its time.
    """
    if card.audience is None:
        return None
    end, lifetime = find_end(card, work.now), _lifetime(card)
    own, kids = _find_own_marker(work, earlier) if earlier else (None, frozenset())
    if earlier and own and own.audience == card.audience and _says_the_same(source, earlier, own):
        is_early = lifetime and work.now < utc(own.exp) - lifetime / 3 and signing_kids <= kids
        if own.exp == end or (is_early and own.exp <= end):
            return own
    return extensions.ExtendedMarker(card.audience, max(1, work.store.state.release_seq), end)


def _lifetime(card: ProjectCard) -> timedelta | None:
    """Return how long a card lasts from its signing, such as ``90d``; None if it ends on a date."""
    seconds = read_span(card.expires or "")
    return timedelta(seconds=seconds) if seconds else None


def _find_own_marker(
    work: Work, untrusted_card: bytes
) -> tuple[extensions.ExtendedMarker | None, frozenset[str]]:
    """Return the marker of a card that was signed here, and by which keys.

    Else anybody may have written it.
    """
    kids = published_card("", untrusted_card, _own_keys(work)).kids
    marker = extensions.find_marker(Card.from_bytes(untrusted_card).document) if kids else None
    return marker, frozenset(kids)


def _says_the_same(source: bytes, signed: bytes, marker: extensions.ExtendedMarker | None) -> bool:
    """Return whether a signed card is what would be signed now, with the source's signatures."""
    try:
        old = Card.from_bytes(signed).document
        new = Card.from_bytes(source).document
        new = new if marker is None else extensions.with_marker(new, marker)
    except InputRefused:
        return False
    kept, needed = (elements_of(document.get("signatures")) for document in (old, new))
    # To the order of the members, and the type of the numbers.
    is_same = repr(unsigned(old)) == repr(unsigned(new))
    return is_same and all(signature in kept for signature in needed)


# Cards as they are to be published.


def _find_signed(work: Work) -> Documents | None:
    """Return the cards that are to be published; None where none is.

    Where the settings name no cards, the published ones are signed again with the current keys.

    Raises:
        PassphraseFault: ``passphrase.none``: one has to be signed again.
    """
    has_key = any(key.role == "card" for key in work.store.state.keys)
    if not has_key or (is_withdrawn(work) and not _is_switched_off(work)):
        return None
    if not work.config.cards:
        return _sign_published(work, None)
    signed_cards = sign_sources(work, card_signers(work.store, None, now=work.now))
    if any(signing.document != read_signed(card) for card, signing in signed_cards):
        raise errors.PassphraseFault("passphrase.none", "a card is not written yet")
    (_, public), *others = signed_cards
    older = next((signing.document for card, signing in others if card.legacy), None)
    extended = {card.audience: signing.document for card, signing in others if card.audience}
    return Documents(public.document, extended=extended, legacy_card=older)


def _is_switched_off(work: Work) -> bool:
    """Say whether what is published shows that an agent was switched off at its source."""
    newest = work.published
    return newest is not None and not newest.card


def _sign_published(work: Work, access: Access | bytes | None) -> Documents | None:
    """Sign the published cards again, in memory; None where there are none, or not all are ours.

    Raises:
        As :func:`cardsign.issuer.work.card_signers` and :func:`cardsign.sign.sign_document`.
    """
    newest = work.published
    cards = newest.cards if newest else {}
    if not (newest and cards and all(_is_ours(work, *card) for card in cards.items())):
        return None
    signers = card_signers(work.store, access, now=work.now)
    options = SigningOptions(own_kids=history.list_own_kids(work.store))
    signed = {name: sign_document(cards[name], signers, options) for name in cards}
    again = replace(newest, files=signed)
    return Documents(again.card, extended=again.extended, legacy_card=again.legacy_card)


def _is_ours(work: Work, name: str, untrusted_card: bytes) -> bool:
    """Say whether a published card may be signed again without a person who looks at it.

    Whoever can write to the publication may have put it there, signed with a stolen key, and cron
    records whatever it finds. So either our newest release must list the card, or a key that was
    not stolen and has not ended must have signed all of it; else an old card could come back.
    """
    release = work.release
    try:
        card = published_card(name, untrusted_card, _own_keys(work))
    except InputRefused:
        return False
    listed = {entry.payload_sha256 for entry in release.cards} if release else set()
    return card.payload_sha256 in listed or bool(card.kids)


def _own_keys(work: Work) -> JwkSet:
    """Return the keys whose signature shows that a card is ours."""
    state = work.store.state
    keys = (key for key in state.published_keys() if key.groups.isdisjoint(state.stolen))
    return JwkSet.of(key.public for key in keys if not key.is_stolen)


def _sign_again(work: Work) -> list[str]:
    """Sign the cards of the project, or those that are published, which go out signed at once."""
    if not work.config.cards and (documents := _sign_published(work, work.access)):
        generation = publishing.publish_cards(work, documents)
        done = publishing.describe_generation(work, generation)
        return ["updated the signatures of the published cards", *done]
    return [
        f"updated the signatures of {work.agent or card.source.name}"
        for card, signing in sign_cards(work)
        if signing.changed
    ]


# What the cards lack.


def find_card_gaps(work: Work) -> Iterator[Gap]:
    """Yield what the cards lack, and without them what the rest of what is published does."""
    signed: Documents | None = None
    listed: tuple[tuple[str, str], ...] = ()
    gaps: list[Gap] = []
    try:
        signed = _find_signed(work)
        listed = list_signed_cards(work, again=_is_switched_off(work)) if signed else ()
    except (*NEEDS_A_PERSON, errors.StoreFault) as fault:
        if isinstance(fault, errors.StoreFault) and fault.code != "keystore.not_listed":
            raise
        gaps.append(_make_signing_gap(work))
    except (InputRefused, errors.FileFault, UsageFault) as fault:  # nobody can sign that now
        if fault.code == "build.switched_off":
            yield from _find_withdrawal(work, fault)
            return
        gaps.append(_make_repair_gap(work, fault))
    yield from (*gaps, *find_release_gap(work, listed))
    if signed is not None and work.config.publish is not None:
        publish = partial(publishing.publish_cards, work, signed)
        until = work.now if _is_refused(work) else None
        gaps += publishing.find_publication_gap(work, "publish the cards", publish, until=until)
        yield from gaps
    if not (gaps or is_withdrawn(work) or (work.config.cards and work.config.publish)):
        yield from _find_cards_elsewhere(work)
    if signed is None or any(gap.close is None for gap in gaps):
        yield from publishing.find_update_gap(work)


def _is_refused(work: Work) -> bool:
    """Say whether verifiers do not trust the published card, which is not withdrawn."""
    newest = work.published
    try:
        issued = statements_in(newest)
        if issued and newest and newest.card and not is_withdrawn(work):
            issued.check_trusted({CARD_FILE: newest.card}, now=work.now)
    except errors.PublishRefused:
        return True
    return False


def _make_repair_gap(work: Work, fault: errors.CardsignError) -> Gap:
    place = str(fault.finding.place) or "cardsign.toml"
    message = f"repair {place}: {fault.message}; until then what is published stays"
    if fault.code == "card.origin_mismatch":
        message += f". {fault.finding.fix}; sign and publish the draft as that prints"
    return Gap(f"{message}. Then: {work.again}")


def _find_withdrawal(work: Work, fault: errors.CardsignError) -> Iterator[Gap]:
    """Yield what still shows the cards of an agent that its source switches off.

    No key is needed to take them out of what is published.
    """
    newest = work.published
    name = work.agent or "the agent"

    def withdraw() -> list[str]:
        generation = publishing.update_publication(work, with_statements=False, withdraws=True)
        done = f"withdrew the card of {name}: {fault.message} ({fault.path})"
        return [done, *publishing.describe_generation(work, generation)]

    if newest is not None and newest.card:
        task = f"withdraw the card of {name}"
        yield Gap(task, why=fault.message, until=work.now, close=withdraw)
    yield from find_release_gap(work, withdraws=True)
    yield from publishing.find_update_gap(work)


def _make_signing_gap(work: Work) -> Gap:
    """Return the gap of cards that wait for the card key, the first of which may end meanwhile."""
    signed = filter(None, (read_signed(card) for card in work.config.cards if card.audience))
    markers = filter(None, (_find_own_marker(work, card)[0] for card in signed))
    until = min((utc(marker.exp) for marker in markers), default=None)
    until = work.now if _is_refused(work) else until
    return Gap("sign the cards", key_holder("card"), until=until, close=partial(_sign_again, work))


def _find_cards_elsewhere(work: Work) -> Iterator[Gap]:
    """Yield cards, and the next key, that are published from another place than the project names.

    After a recovery whoever had the lost keys may have put one there: a person looks at it first.
    """
    state, newest = work.store.state, work.published
    if newest is not None:  # whether it is live yet does not matter
        events = agenda.record_publication(state, publication_of(newest))
        state = ledger.fold_all(state, events, work.now)
    unsigned_cards = (card for card in ledger.published_cards(state) if not card.kids)
    if cards := dict.fromkeys((*agenda.cards_to_sign(state, work.now), *unsigned_cards)):
        urls = (card.name if card.name.startswith("extended/") else card.url for card in cards)
        names = ", ".join(dict.fromkeys(filter(None, urls)))
        message = f"sign these published cards again, if they are yours, and publish them: {names}"
        if work.config.publish and newest:
            message += f" (in {work.config.publish / newest.folder})"
        yield Gap(message, key_holder("card"), "; ".join(work.list_signing_commands()))
        return
    turned = work.now - timedelta(seconds=work.config.timeline.rotate_every)
    for step in agenda.steps(state, work.config.timeline, work.now):
        if step.due is not None or step.action != "activate":
            continue
        active = [key for key in state.active_keys(step.key.role) if key.succeeds(step.key)]
        begun = [key.times.activated or key.created for key in active if not key.times.replaced]
        if all(time <= turned for time in begun):  # so it waits for nothing else
            message = f"publish your card with a key set that lists the next key, {step.key.named}"
            publish = work.command("publish SIGNED" + ("" if work.config.publish else " -o DIR"))
            yield Gap(message, command=publish)


def list_due_cards(work: Work) -> Iterator[agenda.Renewal]:
    """Yield when each extended card that is published has to be signed again.

    One that `keys rotate` renews is due when a third of its time is left; another one within
    14 days of its end, and at most a quarter of the time since it was published.
    """
    begun, newest = ledger.first_published(work.store.state), work.published
    lifetimes = {card.audience: _lifetime(card) for card in work.config.cards}
    for audience, untrusted_card in (newest.extended if newest else {}).items():
        with suppress(InputRefused):  # which publishing refuses as well
            if marker := extensions.find_marker(Card.from_bytes(untrusted_card).document):
                end, begin = utc(marker.exp), begun.get(card_digest(untrusted_card), work.now)
                lifetime = lifetimes.get(audience)
                notice = lifetime / 3 if lifetime else min(NOTICE, (end - begin) / 4)
                yield agenda.Renewal(audience, end - notice, end, f"it ends at {second(end)}")


def find_ending_cards(work: Work) -> Iterator[Gap]:
    """Yield extended cards that have ended or soon end, and that `keys rotate` does not renew."""
    named = {card.audience: _lifetime(card) for card in work.config.cards}
    for audience, due, ends, _ in list_due_cards(work):
        if named.get(audience) or due > work.now or (audience in named and ends <= work.now):
            continue  # one of the project that has ended cannot be signed, which is said already
        message = f"sign the extended card of audience {audience} again, to end later"
        sign = work.command(f"sign CARD -o FILE --extended {audience} --seq N --expires DATE")
        publish = work.command(f"publish SIGNED --extended {audience}=FILE")
        # The person first sets a later `expires` in cardsign.toml.
        command = work.again if audience in named else f"{sign}; {publish}"
        yield Gap(message, command=command, until=ends)
