"""Whole tasks of an issuer, each in one call: a rotation, the end of a stolen key, a recovery.

Each does what is due and can be done with the keys that are here. Cut off anywhere and called
again, it goes on. It stops at what needs a person, and says who, what and until when.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from datetime import datetime
from pathlib import Path

from cardsign.config import ProjectConfig
from cardsign.errors import (
    BuildRefused,
    CardRefused,
    CardsignError,
    FileFault,
    FileMissing,
    JsonRefused,
    PassphraseFault,
    PublishRefused,
    ServeFault,
    SignerFault,
    SigningRefused,
    StoreFault,
    UsageFault,
)
from cardsign.files import write_atomic
from cardsign.issuer.cards import sign_cards, to_list, to_publish
from cardsign.issuer.keyset import (
    KeysetDraft,
    draft_keyset_due,
    publish_keyset,
    review_keyset,
    sign_keyset,
    signed_keysets,
)
from cardsign.issuer.publishing import (
    check_ours,
    newest_generation,
    publish_cards,
    still_trusted,
    update_publication,
    usual_max_age,
)
from cardsign.issuer.recovery import RECOVER
from cardsign.issuer.release import (
    ReleaseChanges,
    is_card_withdrawn,
    renew_release,
    take_up_published,
)
from cardsign.issuer.signers import card_signers
from cardsign.jose.algorithms import SIGNING_ALGORITHMS, SigningAlg
from cardsign.jose.keys import PrivateKey
from cardsign.keys.history import StatementHistory, kept_keyset, note_keyset
from cardsign.keys.keyset_drafts import (
    KeysetDue,
    awaits_recovery,
    has_ended,
    keys_elsewhere,
    keyset_due,
    unlisted_roots,
)
from cardsign.keys.lifecycle import TimelineSettings, cards_to_sign
from cardsign.keys.model import (
    KeyRecord,
    Role,
)
from cardsign.keys.rotation import Step, steps
from cardsign.keys.signers.access import Access
from cardsign.keys.stores.base import KeyStore
from cardsign.records import dataclass
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.times import day, utc

_PAST = {
    "prepublish": "prepublished",
    "activate": "activated",
    "retire": "retired",
    "destroy": "destroyed the private key of",
}
# What a person can put right, with another passphrase, another key or another card.
_NEEDS_A_PERSON = (PassphraseFault, SignerFault, SigningRefused, PublishRefused)
# What is written or built is no card now: what is published stays, and so does its release.
_BROKEN_SOURCE = (BuildRefused, CardRefused, JsonRefused, FileFault)


@dataclass(frozen=True, slots=True)
class Task:
    """What is left for a person.

    Attributes:
        who: Whose passphrase or key it takes.
        what: What is to be done, and what hinders it.
        command: The command to type.
        until: When it does harm if nobody does it; None: it does already, or nobody can know.
    """

    who: str
    what: str
    command: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What one call came to.

    Attributes:
        done: What was done, in order, each a short sentence.
        left: What needs a person; empty where nobody is needed.
        ahead: Every step ahead, the next one first.
        renewal: When the roots have to sign next; None where there is no keyset.
    """

    done: tuple[str, ...]
    left: tuple[Task, ...]
    ahead: tuple[Step, ...]
    renewal: KeysetDue | None


@dataclass(frozen=True, slots=True)
class Unlocking:
    """The secrets and keys that a task may use.

    Attributes:
        access: What signers may use.
        passphrase: Gives that of a new key of a role.
        roots: Another key store with root keys, such as on a USB stick; None for none.
        root_access: What its signers may use; None: `access`.
        options: What the commands that are left have to be told again: ``--root-keystore usb``.
    """

    access: Access
    passphrase: Callable[[Role], bytes]
    roots: KeyStore | None = None
    root_access: Access | None = None
    options: str = ""


def rotate_keys(
    store: KeyStore,
    config: ProjectConfig,
    unlocking: Unlocking,
    *,
    now: datetime,
    draft: Path,
    only_cards: bool = False,
) -> Progress:
    """Do all that is due, and say what needs a person.

    That is: publish a draft that enough have signed; take every due step of the keys; make their
    successors; draft the next keyset, sign it with the root keys that are here and publish it;
    sign the cards again; renew the release; publish.

    Args:
        store: The key store.
        config: The project: its issuer, cards, publication directory and timeline. Without
            cards, those that are published are signed again.
        unlocking: What it may use.
        now: The time, with its zone, in whole seconds.
        draft: Where a draft of the next keyset statement is or goes.
        only_cards: Leave the keys as they are: build, sign, list and publish the cards.

    Raises:
        StoreFault, FileFault, UsageFault: As the single steps; what was done stays done.
    """
    work = Work(store, config, unlocking, now, draft)
    work.leave_out_strangers()
    progress = work.rotate(only_cards)
    if progress.renewal is None:  # without a keyset, or at the end, there is nothing to wait for
        return progress
    return work.warned(progress, store.state.keys)


@dataclass(slots=True)
class Work:
    """One call: the store, what may be used, and what came of it."""

    store: KeyStore
    config: ProjectConfig
    unlocking: Unlocking
    now: datetime
    draft: Path
    done: list[str] = field(default_factory=list)
    left: list[Task] = field(default_factory=list)
    awaits_roots: bool = False  # the call that follows their signature does what waits for it
    astray: tuple[Task, ...] = ()  # what is published is not what this key store has led to
    is_forked: bool = False

    def leave_out_strangers(self) -> None:
        """Publish nothing where what is published is not ours, and say so; go on with the rest.

        Where the same roots have signed two statements of one number, nothing more is signed.
        """
        folder = self.config.publish
        try:
            check_ours(self.store, folder)
        except (UsageFault, ServeFault, FileFault) as fault:
            move = f"mv {shlex.quote(str(folder))} ELSEWHERE; then {self.again}"
            what = "find out who wrote what is published, and move it away if nobody here did"
            what += f": {fault.message}"
        except PublishRefused as fault:
            move, self.is_forked = "cardsign keys rotate --keystore DIR", True
            what = f"go on with the key store that has published: {fault.message}"
        else:
            return
        self.astray = (Task("you", what, move),)
        self.config = replace(self.config, publish=None)

    def rotate(self, only_cards: bool = False) -> Progress:
        """Everything, in the order in which one step allows the next."""
        if self._has_ended():
            self._keys()
            self.update()
            self.left.clear()  # nobody is to sign any more
            self.done.append("this issuer has ended; no statement follows")
        elif not self.is_forked:
            if not only_cards:
                self._publish_signed()
            if not only_cards or self._awaits_recovery():
                self._unlisted_roots()
            if not self._awaits_recovery():
                self._keys_and_cards(only_cards)
        state, keyset = self.store.load(), kept_keyset(self.store)
        over = keyset is None or self._has_ended() or self._awaits_recovery()
        return Progress(
            tuple(self.done),
            tuple(dict.fromkeys((*self.astray, *self.left))),
            steps(state, self.config.timeline, self.now),
            None
            if keyset is None or over
            else keyset_due(state, keyset, now=self.now, settings=self.config.timeline),
        )

    def _keys_and_cards(self, only_cards: bool) -> None:
        if not only_cards:
            self._keys()
            self._keyset()
            self._keys()  # a key that the roots have listed just now may be due
        self._cards()

    def _has_ended(self) -> bool:
        return has_ended(self.store.load(), kept_keyset(self.store))

    def _awaits_recovery(self) -> bool:
        """Whether a key that is made now would not be in the statement that is to be published."""
        keyset = kept_keyset(self.store)
        return keyset is not None and awaits_recovery(self.store.load(), keyset)

    def warned(self, progress: Progress, records: Sequence[KeyRecord]) -> Progress:
        """Add which revoked keys verifiers still trust, and until when if nobody goes on."""
        command = progress.left[0].command if progress.left else self.again
        told: list[Task] = []
        release, until = StatementHistory.of(self.store).newest_release(), self.keyset_ends()
        kept: dict[datetime | None, list[KeyRecord]] = {}
        for key in still_trusted(self.store, self.config.publish, records):
            end = until
            if end and (sooner := _end(release)) and "release" not in key.roles:
                end = min(end, sooner)  # only the holder of a release key can prolong that
            kept.setdefault(end, []).append(key)
        for end, keys in kept.items():
            names = ", ".join(key.named for key in keys)
            what = f"verifiers still trust {names}: nothing that is published revokes them yet"
            told.append(Task("you", what, command, end))
        return replace(progress, left=(*progress.left, *told))

    @property
    def again(self) -> str:
        """The command that goes on."""
        return f"cardsign keys rotate {self.unlocking.options}".rstrip()

    # Keys.

    def _keys(self) -> None:
        """Every due step of a key, and every successor that is due."""
        timeline, now = self.config.timeline, self.now
        while (taken := self.store.tick(now=now, settings=timeline)) and taken.key is not None:
            self.done.append(f"{_PAST[taken.action]} {taken.key.named}")
        here, elsewhere = successors_due(self.store, timeline, now)
        for step in elsewhere:
            what = f"make the next {step.alg} {step.role} key where the active one is"
            self.needs("you", what, "cardsign keys import --custody URI", None)
        for step in here:
            try:
                made = make_successor(self.store, step, self.unlocking.passphrase, now)
            except PassphraseFault as fault:
                what = f"make the next {step.alg} {step.role} key: {fault.message}; "
                what += f"set CARDSIGN_{step.role.upper()}_PASSPHRASE"
                self.needs(key_holder(step.role), what, self.again, None)
            else:
                if made is not None:
                    self.done.append(f"made {made.named}, the next {step.alg} {step.role} key")

    # The keyset statement.

    def _publish_signed(self) -> None:
        self.take_up()
        if (keyset := kept_keyset(self.store)) is not None:
            note_keyset(self.store, keyset, now=self.now)
            for signed in signed_keysets(self.store, self.draft, self.unlocking.roots):
                self._publish_keyset(signed)

    def take_up(self) -> None:
        """Keep what another operator's copy of this key store has published since, and say so."""
        taken = take_up_published(self.store, self.config.publish, now=self.now)
        for label in taken.keysets:
            self.done.append(f"took keyset {label} from what is published")
        if taken.keysets and (names := self._keys_elsewhere()):
            self.done.append(f"{names}, which another copy of this key store has made")

    def _keys_elsewhere(self) -> str:
        """Which keys another copy of this key store has, as a sentence without its end."""
        keyset = kept_keyset(self.store)
        found = keys_elsewhere(self.store.load(), keyset) if keyset else ()
        names = ", ".join(key.named for key in found)
        return f"keyset {keyset.label} lists {names}" if keyset and names else ""

    def _unlisted_roots(self) -> None:
        """Ask for the statement of a recovery that was begun: until then the old roots count."""
        keyset = kept_keyset(self.store)
        for root in unlisted_roots(self.store.load(), keyset) if keyset else ():
            what = f"publish the keyset that lists {root.named}, or draft one with --add-root; "
            what += "retire the key if nobody wants it"
            self.needs("you", what, "cardsign keyset publish FILE", None)

    def _waiting_draft(self) -> tuple[KeysetDraft, tuple[str, ...]] | None:
        """The draft that is due; None too where no statement can follow without a recovery."""
        try:
            return draft_keyset_due(self.store, self.draft, now=self.now)
        except UsageFault as fault:
            if not fault.code.startswith("statement."):
                raise
            what = f"open a new epoch, since no keyset can follow this one: {fault.message}"
            self.needs("the holder of the recovery key", what, RECOVER, self.keyset_ends())
            return None

    def _keyset(self) -> None:
        """Draft the statement that is due, sign it with the roots that are here, publish it."""
        self.awaits_roots = False
        waiting = self._waiting_draft()
        if waiting is None:
            return
        (draft, additions), file = waiting, self.draft
        until = self.keyset_ends()
        if additions:
            what = (
                f"ask who drafted keyset {draft.number} in {file}, and sign it by the digest that "
                "they tell you; remove the file if nobody did. It says what nobody here has "
                "drafted: " + "; ".join(additions)
            )
            self.needs("each root holder", what, f"cardsign keyset show {file}", until)
            return
        if draft.previous is not None and self.now.timestamp() >= draft.previous.exp:
            # Nobody renewed it, or this clock is ahead. A keyset of a wrong, later time would
            # be refused by all, and neither a keyset nor a recovery could follow it until then.
            what = (
                f"sign keyset {draft.number}, digest {draft.statement.digest}, if it is "
                f"{day(self.now)}: keyset {draft.previous.label} has "
                "ended by this machine's clock, which may be ahead"
            )
            self.needs("each root holder", what, self._sign(file, draft.statement.digest), None)
            return
        ours, apart, told = self.unlocking.access, self.unlocking.root_access, len(self.left)
        for store, access in ((self.store, ours), (self.unlocking.roots, apart or ours)):
            signed = None if store is None else self._signed_by(store, access, draft, until)
            if signed is not None:
                draft = signed
                write_atomic(file, draft.data, plain=True)
        if draft.is_complete:
            self._publish_keyset(draft)
            return
        self._ask(draft, file, {task.who for task in self.left[told:]})

    def _ask(self, draft: KeysetDraft, file: Path, asked: set[str]) -> None:
        """Say which root holders have to sign; who works here brings the root key."""
        self.awaits_roots, until = True, self.keyset_ends()
        absent = {key.holder for key in self.store.state.keys} if not self.unlocking.roots else ()
        for one in draft.signings:
            holders = sorted({key.holder for key in one.quorum.keys} - one.signed - asked)
            if not one.missing or not holders:
                continue
            what = f"sign keyset {draft.number}, digest {draft.statement.digest}"
            sign = self._sign(file, draft.statement.digest)
            if one.missing < len(holders):
                who = f"{one.missing} of these root holders: {', '.join(holders)}"
                self.needs(who, what, sign, until)
                continue
            if ours := [name for name in holders if name in absent]:
                where = "with the root key, which is not here"
                self.needs(", ".join(ours), f"{what}, {where}", f"{self.again} {_ROOTS}", until)
            if others := [name for name in holders if name not in absent]:
                self.needs(", ".join(others), what, sign, until)

    def _sign(self, file: Path, digest: str) -> str:
        """What a root holder types, whose key store is DIR."""
        return f"cardsign keyset sign {file} --digest {digest} --keystore DIR; then {self.again}"

    def _signed_by(
        self, store: KeyStore, access: Access, draft: KeysetDraft, until: datetime | None
    ) -> KeysetDraft | None:
        """The draft with the signatures of a store's roots; None if none of them has to sign."""
        signed = {one.kid for one in draft.statement.envelope.signatures}
        wanted = {key.public.thumbprint for one in draft.signings for key in one.quorum.keys}
        here = [
            key
            for key in store.load().keys
            if key.thumbprint in wanted - signed and key.state == "active"
        ]
        if not here:
            return None
        try:
            reviewed = review_keyset(store, draft.statement, now=self.now)
            made = sign_keyset(store, reviewed, access, digest=draft.statement.digest)
        except _NEEDS_A_PERSON as fault:
            what = f"sign keyset {draft.number}, digest {draft.statement.digest}: {fault.message}"
            if isinstance(fault, PassphraseFault):
                what += "; set CARDSIGN_ROOT_PASSPHRASE"
            holder = here[0].holder or "who holds the root key"
            self.needs(holder, what, self.again, until)
            return None
        self.done.append(f"signed keyset {draft.number} with {here[0].named}")
        return replace(draft, statement=made.statement)

    def _publish_keyset(self, draft: KeysetDraft) -> None:
        try:
            told = publish_keyset(
                self.store,
                draft.statement,
                self.unlocking.access,
                now=self.now,
                directory=self.config.publish,
                settings=self.config.timeline,
                name=str(self.draft),
                is_overtaken=True,
            )
        except _NEEDS_A_PERSON as fault:
            what = f"sign the release that goes with keyset {draft.number}: {fault.message}"
            self.needs(key_holder("release"), what, self.again, self.keyset_ends())
            return
        # Each holder keeps what the next draft is held against.
        if self.unlocking.roots is not None:
            roots = self.unlocking.roots
            publish_keyset(roots, draft.statement, b"", now=self.now, is_overtaken=True)
        if told.is_new:
            is_told = told.published and draft.number in told.published.generation.keysets
            self.done.append(f"{'published' if is_told else 'kept'} keyset {draft.number}")
        if told.release is not None:
            self.done.append(f"signed release {told.release.seq}, which names it")

    def keyset_ends(self) -> datetime | None:
        return _end(kept_keyset(self.store))

    # Cards, release, publication.

    def _cards(self) -> None:
        """Sign the cards, list them, publish them; without them, what can go without them."""
        signed: tuple[bytes, dict[str, bytes], bytes | None] | None = None
        try:
            signed = self._signed_cards()
        except _BROKEN_SOURCE as fault:
            what = f"repair {fault.path or 'the cards'}; what is published stays: {fault.message}"
            self.needs("you", what, self.again, self._cards_end())
        except (*_NEEDS_A_PERSON, StoreFault) as fault:
            if isinstance(fault, StoreFault) and fault.code not in _UNLISTED:
                raise
            self._hindered("card", "sign the cards", fault, self._cards_end())
        else:
            if not self.astray and (signed is None or self.config.publish is None):
                self._cards_elsewhere()
        self.release(to_list(self.config.cards) if signed else ())
        withdrawn = is_card_withdrawn(self.store)
        if signed is not None and self.config.publish is not None and not withdrawn:
            try:
                published = publish_cards(
                    self.store,
                    signed[0],
                    directory=self.config.publish,
                    now=self.now,
                    extended=signed[1],
                    legacy_card=signed[2],
                    max_age=usual_max_age(self.config.timeline),
                    settings=self.config.timeline,
                    issuer=self.config.issuer,
                    signers=lambda: card_signers(self.store, self.unlocking.access, now=self.now),
                )
            except _NEEDS_A_PERSON as refusal:
                what = f"publish the cards: {refusal.code}: {refusal.message}"
                self.needs("you", what, f"{refusal.hint or self.again}", None)
            else:
                if published.generation.created:
                    self.done.append(f"published generation {published.generation.number}")
                return
        self.update()

    def _cards_elsewhere(self) -> None:
        """Cards that were published from another place than the project names."""
        cards = () if is_card_withdrawn(self.store) else cards_to_sign(self.store.load(), self.now)
        if cards:
            names = ", ".join(card.url or card.name for card in cards)
            what = f"sign these published cards again, and publish them: {names}"
            command = "cardsign sign CARD -o SIGNED; cardsign publish SIGNED"
            self.needs(key_holder("card"), what, command, self._cards_end())

    def _signed_cards(self) -> tuple[bytes, dict[str, bytes], bytes | None] | None:
        """The cards signed by the keys that sign now; None where none is to be published."""
        has_key = any("card" in key.roles for key in self.store.load().keys)
        if not has_key or is_card_withdrawn(self.store):
            return None
        if self.config.cards:
            access, build = self.unlocking.access, self.config.build
            made = sign_cards(self.store, self.config.cards, access, now=self.now, build=build)
            self.done += [
                f"updated the signatures of {card.source.name}"
                for card, signing in made
                if signing.changed
            ]
            return to_publish([(card, signing.document) for card, signing in made])
        if (newest := newest_generation(self.config.publish)) is None:
            return None
        chosen = card_signers(self.store, self.unlocking.access, now=self.now)
        signed = [chosen.sign(card) for card in (newest.card, *newest.extended.values())]
        if any(one.changed for one in signed):
            self.done.append("updated the signatures of the published cards")
        documents = [one.document for one in signed]
        return documents[0], dict(zip(newest.extended, documents[1:], strict=True)), None

    def release(self, cards: Sequence[tuple[str | None, bytes]]) -> None:
        keyset = kept_keyset(self.store)
        if keyset is None or not any("release" in key.roles for key in self.store.load().keys):
            return
        if self.is_forked:
            return
        try:
            renewed = renew_release(
                self.store,
                self.unlocking.access,
                now=self.now,
                directory=self.config.publish,
                settings=self.config.timeline,
                changes=ReleaseChanges(cards=tuple(cards), by_name=False),
            )
        except (*_NEEDS_A_PERSON, UsageFault) as fault:
            if isinstance(fault, UsageFault) and not fault.code.startswith("statement."):
                raise
            until = _end(StatementHistory.of(self.store).newest_release())
            self._hindered("release", "renew the release", fault, until)
            return
        if renewed.is_new:
            self.done.append(f"signed release {renewed.release.seq}")

    def update(self) -> None:
        """Put statements and the end of keys into what is published; the cards stay."""
        if (published := update_publication(self.store, self.config.publish, now=self.now)) is None:
            return
        if published.generation.created:
            self.done.append(f"published generation {published.generation.number}")
        if published.refusal is not None:
            self._hindered("card", "sign the published card again", published.refusal, None)

    def _cards_end(self) -> datetime | None:
        """When the published cards need another signature at the latest."""
        ends = [key.times.stops_signing for key in self.store.state.keys if key.state == "retiring"]
        return min((end for end in ends if end is not None), default=None)

    def _hindered(
        self, role: Role, what: str, fault: CardsignError, until: datetime | None
    ) -> None:
        """A task for the holder of the passphrase, unless it waits for the roots."""
        if fault.code not in _UNLISTED:
            self.needs(key_holder(role), f"{what}: {fault.message}", self.again, until)
        elif not self.awaits_roots and (names := self._keys_elsewhere()):
            what += f" with the other copy of this key store: {names}, which this one lacks"
            self.needs("you", what, "cardsign keys rotate --keystore DIR", until)
        elif not self.awaits_roots:
            self.needs(key_holder(role), f"{what}: {fault.message}", self.again, until)

    def needs(self, who: str, what: str, command: str, until: datetime | None) -> None:
        self.left.append(Task(who, what, command, until))


_ROOTS = "--root-keystore DIR"
# That no key may sign yet, or that none of the card does now: the next keyset lists other keys.
_UNLISTED = ("sign.no_key", "publish.not_verifying", "keystore.not_listed")


def _end(statement: KeysetStatement | ReleaseStatement | None) -> datetime | None:
    return None if statement is None else utc(statement.exp)


def key_holder(role: Role) -> str:
    return f"the person with the passphrase of the {role} key"


# Successors of keys.


def successors_due(
    store: KeyStore, settings: TimelineSettings, now: datetime
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The successors to make: in this key store, and wherever else an active key is kept."""
    state = store.state
    here: list[Step] = []
    elsewhere: list[Step] = []
    for step in steps(state, settings, now):
        if step.action == "generate" and step.is_due(now):
            active = [key for key in state.active_keys(step.role) if key.alg == step.alg]
            is_here = all(key.custody.startswith("file:") for key in active)
            (here if is_here else elsewhere).append(step)
    return tuple(here), tuple(elsewhere)


def make_successor(
    store: KeyStore,
    step: Step,
    passphrase: Callable[[Role], bytes],
    now: datetime,
    new_key: Callable[[SigningAlg], PrivateKey] = PrivateKey.generate,
    random: Callable[[int], bytes] = os.urandom,
) -> KeyRecord | None:
    """Make the key that a step asks for; None if another process was faster.

    Raises:
        PassphraseFault: ``passphrase.wrong``: the passphrase is not that of the key before it.
    """
    secret = passphrase(step.role)
    for key in store.state.active_keys(step.role):
        if key.alg == step.alg and key.custody.startswith("file:"):
            check_opens(store, key, secret)
    alg = next(one for one in SIGNING_ALGORITHMS if one == step.alg)
    private = new_key(alg)
    try:
        return store.add_key(
            private,
            secret,
            now=now,
            random=random,
            roles=(step.role,),
            expect_generation=store.state.generation,
        )
    except StoreFault as fault:
        if fault.code != "keystore.changed":
            raise
        return None


def check_opens(store: KeyStore, key: KeyRecord, passphrase: bytes) -> None:
    """Check that a passphrase is that of a key; one whose file is not here cannot tell."""
    try:
        store.signer(key, passphrase)
    except FileMissing:
        return
    except PassphraseFault as fault:
        role = " and ".join(key.roles)
        what = (
            f"this is not the passphrase of {key.named}, which the next {role} key is to have too"
        )
        raise PassphraseFault(fault.code, what) from fault
