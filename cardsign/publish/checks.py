"""What an issuer's statements allow it to publish, judged as its verifiers will judge it.

Pure. Statements go along with a card in a generation, and one that was published never vanishes
from it. The card, its keys and its extended cards are held against them before anything is
written, so that a mistake is found here and not by verifiers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Final

from cardsign.card.convert import form_of
from cardsign.card.document import Card
from cardsign.card.extensions import (
    ExtendedMarker,
    check_audience,
    declares_extended_card,
    find_marker,
    with_marker,
)
from cardsign.card.values import Json, jcs
from cardsign.errors import CardRefused, InputRefused, PublishRefused, SignatureRefused
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import read_entry
from cardsign.keys.drafts import SKEW
from cardsign.publish.generation import (
    CARD_FILE,
    LEGACY_FILE,
    RELEASE_FILE,
    Generation,
)
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetStatement, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.times import second, utc
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.supplied import SuppliedStatements
from cardsign.trust.walk import newest_keyset, newest_release
from cardsign.urls import parse_place
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier

_NAMES: Final = {CARD_FILE: "the public card", LEGACY_FILE: "the card for clients of A2A 0.3"}


def check_cards(cards: Mapping[str, bytes], jwks: bytes, now: datetime) -> None:
    """Check cards, by their files in a generation, as one who has nothing but the key set.

    Raises:
        PublishRefused: ``publish.not_verifying`` (also for a card that cannot be read),
            ``publish.extended``, ``publish.legacy``.
        UsageFault: ``publish.audience_name``.
    """
    policy = Policy.from_jwks(JwkSet.from_bytes(jwks), name="the key set to be published")
    verifier = Verifier(policy, clock=lambda: now)
    for file in cards:
        if (audience := _audience_of(file)) is not None:
            check_audience(audience)
    public, marker = _read(cards, CARD_FILE)
    if marker is not None:
        raise PublishRefused(
            "publish.extended",
            f"the public card is marked as the extended card of audience {marker.audience}",
            path="/capabilities/extensions",
            hint="Publish it with --extended, beside a public card that has no marker.",
        )
    for file, data in cards.items():
        audience = _audience_of(file)
        if file == LEGACY_FILE:
            _check_legacy(*_read(cards, file), public)
        elif audience is not None:
            _check_extended(*_read(cards, file), public, audience, now)
        report = verifier.judge(data, Subject(is_holder=True, audience=audience))
        if report.verdict != "trusted":
            reason = report.reasons[0]
            raise _not_verifying(file, reason.code, reason.message, reason.path)


def _audience_of(file: str) -> str | None:
    folder, slash, name = file.partition("/")
    return name.removesuffix(".json") if slash and folder == "extended" else None


def _name_card(file: str) -> str:
    return _NAMES.get(file) or f"the extended card of audience {_audience_of(file)}"


def _read(cards: Mapping[str, bytes], file: str) -> tuple[Card, ExtendedMarker | None]:
    try:
        read = Card.from_bytes(cards[file])
        return read, find_marker(read.document)
    except InputRefused as refusal:
        raise _not_verifying(file, refusal.code, refusal.message, refusal.path) from refusal


def _check_legacy(older: Card, marker: ExtendedMarker | None, public: Card) -> None:
    """Check that older clients are told of the same agent as all others."""
    problem = ""
    if marker is not None or form_of(older.document) == "1.0":
        problem = "it is an extended card" if marker else "its form is that of A2A 1.0"
    for name in ("name", "version"):
        if not problem and older.document.get(name) != public.document.get(name):
            problem = f"its {name} is not that of the public card"
    if problem:
        raise PublishRefused("publish.legacy", f"{_NAMES[LEGACY_FILE]}: {problem}")


def _check_extended(
    card: Card, marker: ExtendedMarker | None, public: Card, audience: str, now: datetime
) -> None:
    """Check that a card may be served now to this audience, and tells it more than the public."""
    path, problem = "", f"the extended card of audience {audience} "
    if not declares_extended_card(public.document):
        path = "/capabilities/extendedAgentCard"
        problem = "there is an extended card, but the public card does not declare one"
        hint = "Set capabilities.extendedAgentCard to true and sign again."
    elif marker is None:
        problem += "has no extended-card marker"
        hint = "Sign it with cardsign sign CARD --extended AUDIENCE --seq N --expires DATE."
    elif marker.audience != audience:
        problem += f"is marked for audience {marker.audience}"
        hint = "Publish it under the audience that it names, or sign it for this one."
    elif marker.exp <= now.timestamp():
        problem += f"expired at {second(marker.exp)}"
        hint = "Sign it again with a later --expires."
    elif _content(with_marker(public.document, marker)) == _content(card.document):
        problem += "says what the public card says"
        hint = "Give the extended card what only authenticated callers may see."
    else:
        return
    raise PublishRefused("publish.extended", problem, path=path, hint=hint)


def _not_verifying(file: str, code: str, message: str, path: str) -> PublishRefused:
    return PublishRefused(
        "publish.not_verifying",
        f"{_name_card(file)} does not verify with the key set to be published: {code}: {message}",
        path=path,
    )


def _content(document: Mapping[str, Json]) -> bytes:
    return jcs({name: value for name, value in document.items() if name != "signatures"})


_NAME: Final = "issuer"
_UNLISTED: Final = frozenset({"card.digest_unlisted", "card.rollback", "card.listed_elsewhere"})


@dataclass(frozen=True, slots=True)
class Issued:
    """An issuer's statements: the whole history of its keyset, and the newest release.

    Attributes:
        keysets: As published, oldest first; at least one.
        release: As published, or None.
    """

    keysets: tuple[bytes, ...]
    release: bytes | None = None

    @classmethod
    def of(cls, generation: Generation) -> Issued | None:
        """What a generation carries, if it carries statements."""
        if not generation.keysets:
            return None
        return cls(tuple(generation.keysets.values()), generation.release)

    def checked(
        self, *, now: datetime | None, before: CheckedIssued | None = None
    ) -> CheckedIssued:
        """The statements as read, each by the right of the one before.

        Args:
            now: Aware; the newest may not be of later. None: as they were when they were issued.
            before: What is published: a release that it holds is taken as one of its own time,
                so that one of a clock that was ahead does not keep out its replacement.

        Raises:
            PublishRefused: ``publish.statements``: they are no history, or the release does not
                speak of its end.
        """
        known = before.release.digest if before and before.release else None
        try:
            keysets = {read_keyset(data): data for data in self.keysets}
            history = tuple(sorted(keysets, key=attrgetter("number")))
            newest_keyset(history, now=now or utc(history[-1].iat), skew=SKEW)
            release = None if self.release is None else read_release(self.release)
            if release is not None:
                own_time = utc(release.iat)
                at = own_time if now is None or release.digest == known else now
                # By the statement that it names, which may be the one before the newest.
                named = [one for one in history if one.digest == release.keyset.digest]
                newest_release([release], (named or history)[-1], now=at, skew=SKEW)
        except StatementRefused as refusal:
            raise _unfit(f"{refusal.code}: {refusal.message}") from refusal
        return CheckedIssued(history, tuple(keysets[one] for one in history), release, self.release)


@dataclass(frozen=True, slots=True)
class CheckedIssued:
    """Statements that were checked; only :meth:`Issued.checked` makes one.

    Attributes:
        keysets: The history, oldest first.
        keyset_bytes: The same, as published.
        release: The newest release, or None.
        release_bytes: The same, as published.
    """

    keysets: tuple[KeysetStatement, ...]
    keyset_bytes: tuple[bytes, ...]
    release: ReleaseStatement | None
    release_bytes: bytes | None

    @property
    def newest(self) -> KeysetStatement:
        """The newest keyset statement."""
        return self.keysets[-1]

    def files(self) -> dict[str, bytes]:
        """The files of a generation that carry them."""
        files = {
            f"keyset/{one.label}.json": data
            for one, data in zip(self.keysets, self.keyset_bytes, strict=True)
        }
        return files if self.release_bytes is None else {**files, RELEASE_FILE: self.release_bytes}

    def withholding(self, before: CheckedIssued | None) -> CheckedIssued:
        """These without the newest keysets that no release names yet.

        A verifier with a keyset and no release that names it reaches no verdict, so the two are
        published together. What was published `before` stays.
        """
        kept = {one.digest for one in before.keysets} if before else set()
        kept |= {self.release.keyset.digest} if self.release else set()
        needed = [index for index, one in enumerate(self.keysets, 1) if one.digest in kept]
        end = max(needed, default=len(self.keysets))
        return replace(self, keysets=self.keysets[:end], keyset_bytes=self.keyset_bytes[:end])

    def check_follows(self, before: CheckedIssued) -> None:
        """Check that these go on where published ones ended.

        Raises:
            PublishRefused: ``publish.statements``: one is missing or another, or the release is
                an older one.
        """
        ours = {one.number: one.digest for one in self.keysets}
        for one in before.keysets:
            if ours.get(one.number) != one.digest:
                raise _unfit(f"keyset {one.label} was published as {one.digest}")
        held = before.release
        if held is not None and (self.release is None or self.release.order < held.order):
            what = "if nobody here has signed it, revoke the release key"
            raise _unfit(f"release {held.seq} was published already; {what}")

    def admitted(self, cards: Mapping[str, bytes], jwks: JwkSet, *, now: datetime) -> JwkSet:
        """Check that verifiers will trust the cards, and return the keys to publish with them.

        Those are the keys that the roots list for cards and that are not revoked.

        Args:
            cards: By their files in a generation.
            jwks: The keys that are to be published.
            now: The time, with its zone.

        Raises:
            PublishRefused: ``publish.release_behind``: the release does not name the newest keyset;
                ``publish.unlisted``: a card is signed with a key of the set that the roots have not
                listed; and as :meth:`check_public`.
        """
        newest, release = self.newest, self.release
        if release is None or release.keyset.digest != newest.digest:
            spoken = (
                f"release {release.seq} names an older one" if release else "no release names it"
            )
            what = f"keyset {newest.label} is the newest, and {spoken}"
            raise PublishRefused("publish.release_behind", what)
        revoked = release.revoked
        listed = JwkSet.of(
            [
                key
                for key in jwks.keys
                if newest.lists(key.thumbprint, "card") and key.thumbprint not in revoked
            ]
        )
        unlisted = {key.kid for key in jwks.keys if listed.find(key.kid) is None}
        for file, data in cards.items():
            name, audience = _name_card(file), _audience_of(file)
            for kid in sorted(unlisted & _list_signers(data)):
                raise PublishRefused(
                    "publish.unlisted",
                    f"{name} is signed with {kid!r}, no card key of keyset {newest.label}",
                    hint="Let the roots list it first: cardsign keyset draft, sign, publish.",
                )
            if audience is None:
                self.check_public(data, name, now=now)
                continue
            _, report = self._verifier(now).judge_extended(
                cards[CARD_FILE],
                data,
                Subject(issuer=_NAME),
                self._evidence(),
                audience=audience,
            )
            _refuse_unless_trusted(report, name)
        return listed

    def check_public(self, card: bytes, name: str, *, now: datetime) -> None:
        """Check that who has come to the newest statement trusts a public card now.

        That everybody comes there, :meth:`Issued.checked` has seen; a long history takes a
        verifier several refreshes, so it is not walked here.

        Raises:
            PublishRefused: ``publish.unlisted``: the release does not list the card;
                ``publish.not_verifying``.
        """
        report = self._verifier(now).judge(card, Subject(issuer=_NAME), self._evidence())
        _refuse_unless_trusted(report, name)

    def _verifier(self, now: datetime) -> Verifier:
        pin = self.newest.id
        try:
            places = tuple(parse_place(origin) for origin in self.newest.origins)
        except CardRefused as refusal:
            raise _unfit(f"the keyset's origins: {refusal.message}") from refusal
        policy = Policy((TrustedIssuer(_NAME, KeysetAnchor(pin), places),))
        return Verifier(policy, lock=Memory(), clock=lambda: now)

    def _evidence(self) -> SuppliedStatements:
        releases = () if self.release_bytes is None else (self.release_bytes,)
        return SuppliedStatements((self.keyset_bytes[-1],), releases)


def _list_signers(card: bytes) -> set[str]:
    """Return the kids of a card's signatures; a malformed one counts for nothing."""
    kids = set()
    for untrusted_entry in Card.from_bytes(card).signatures:
        with contextlib.suppress(SignatureRefused):
            kids.add(read_entry(untrusted_entry).header.kid)
    return kids


def _refuse_unless_trusted(report: Report, name: str) -> None:
    if report.verdict == "trusted":
        return
    reason = report.reasons[0]
    if reason.code in _UNLISTED:
        raise PublishRefused("publish.unlisted", f"{name}: {reason.message}")
    is_over = reason.code in ("statement.expired", "key.expired")
    ours = "Check this machine's clock. If it is right, renew the statement: cardsign keys rotate"
    raise PublishRefused(
        "publish.not_verifying",
        f"{name} would not be trusted: {reason.code}: {reason.message}",
        path=reason.path,
        hint=ours if is_over else reason.hint,
    )


def _unfit(what: str) -> PublishRefused:
    return PublishRefused("publish.statements", what)
