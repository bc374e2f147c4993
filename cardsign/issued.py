"""What an issuer's statements allow him to publish, judged as his verifiers will judge it.

Pure. Statements go along with a card in a generation, and one that was published never vanishes
from it. The card, its keys and its extended cards are held against them before anything is
written: a slip is found here and not by whoever relies on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cardsign.errors import CardRefused, PublishRefused
from cardsign.generation import RELEASE_FILE, Generation, keyset_file
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keyset import KeysetStatement, read_keyset
from cardsign.jose.release import ReleaseStatement, read_release
from cardsign.jose.statements import StatementRefused
from cardsign.jose.succession import StatementPin
from cardsign.trust.anchors import KeysetAnchor
from cardsign.trust.enrolling import newest_keyset, newest_release
from cardsign.trust.evidence import Evidence
from cardsign.trust.known import TransientMemory
from cardsign.trust.places import parse_place
from cardsign.trust.policy import Enrolment, Policy
from cardsign.trust.subject import Issuer
from cardsign.verdict import Report
from cardsign.verify import examine_card, examine_extended

#: The issuer's own statements may be as old as the clocks of his hosts differ.
SKEW: Final = timedelta(minutes=5)

_NAME: Final = "issuer"
_UNLISTED: Final = frozenset({"card.digest_unlisted", "card.rollback", "card.listed_elsewhere"})


@dataclass(frozen=True, slots=True)
class Issued:
    """An issuer's statements: all of the history of his keyset, and the newest release.

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

    def checked(self, *, now: datetime) -> CheckedIssued:
        """The statements as read, each by the right of the one before.

        Raises:
            PublishRefused: ``publish.statements``: they are no history, or the release does not
                speak of its end.
        """
        try:
            keysets = sorted(
                map(read_keyset, self.keysets), key=lambda one: (one.epoch, one.version)
            )
            newest = newest_keyset(keysets, now=now, skew=SKEW)
            release = None if self.release is None else read_release(self.release)
            if release is not None:
                _check_release(release, keysets, now)
        except StatementRefused as refusal:
            raise _unfit(f"{refusal.code}: {refusal.message}") from refusal
        return CheckedIssued(self, tuple(keysets), newest, release)


@dataclass(frozen=True, slots=True)
class CheckedIssued:
    """Statements that were checked; only :meth:`Issued.checked` makes one."""

    issued: Issued
    keysets: tuple[KeysetStatement, ...]
    newest: KeysetStatement
    release: ReleaseStatement | None

    def files(self) -> dict[str, bytes]:
        """The files of a generation that carry them."""
        files = {}
        for data in self.issued.keysets:
            statement = read_keyset(data)
            files[keyset_file(statement.epoch, statement.version)] = data
        return (
            files if self.issued.release is None else {**files, RELEASE_FILE: self.issued.release}
        )

    def check_follows(self, before: CheckedIssued) -> None:
        """Check that these go on where published ones ended.

        Raises:
            PublishRefused: ``publish.statements``: one is missing or another, or the release is
                an older one.
        """
        ours = {(one.epoch, one.version): one.digest for one in self.keysets}
        for one in before.keysets:
            if ours.get((one.epoch, one.version)) != one.digest:
                raise _unfit(f"keyset {one.epoch}.{one.version} was published as {one.digest}")
        held = before.release
        if held is not None and (self.release is None or self.release.order < held.order):
            raise _unfit(f"release {held.seq} was published already")

    def check_keys(self, jwks: JwkSet) -> None:
        """Check that the roots have listed every key of a key set, to sign cards.

        Raises:
            PublishRefused: ``publish.key_unlisted``.
        """
        listed = {key.public.thumbprint for key in self.newest.keys if "card" in key.roles}
        if self.release is not None:
            listed -= self.release.revoked
        for key in jwks.keys:
            if key.thumbprint not in listed:
                number = f"{self.newest.epoch}.{self.newest.version}"
                raise PublishRefused(
                    "publish.key_unlisted", f"keyset {number} lists no card key {key.thumbprint}"
                )

    def check_cards(self, card: bytes, extended: Mapping[str, bytes], *, now: datetime) -> None:
        """Check that who has come to the newest statement trusts the cards now.

        That everybody comes there, :meth:`Issued.checked` has seen; a long history takes a
        verifier several refreshes, so it is not walked here.

        Raises:
            PublishRefused: ``publish.unlisted``: no release lists the public card;
                ``publish.not_verifying``.
        """
        if self.release is None or self.release.keyset.digest != self.newest.digest:
            number = f"{self.newest.epoch}.{self.newest.version}"
            raise PublishRefused("publish.unlisted", f"no release speaks of keyset {number}")
        report = examine_card(
            card,
            expect=Issuer(_NAME),
            evidence=self._evidence(),
            memory=TransientMemory(),
            policy=self._policy(),
            now=now,
        )
        _refuse_unless_trusted(report, "the public card")
        for audience, data in extended.items():
            _, report = examine_extended(
                card,
                data,
                of=Issuer(_NAME),
                audience=audience,
                evidence=self._evidence(),
                memory=TransientMemory(),
                policy=self._policy(),
                now=now,
            )
            _refuse_unless_trusted(report, f"the extended card of audience {audience}")

    def _policy(self) -> Policy:
        pin = StatementPin(self.newest.epoch, self.newest.version, self.newest.digest)
        try:
            places = tuple(parse_place(origin) for origin in self.newest.origins)
        except CardRefused as refusal:
            raise _unfit(f"the keyset's origins: {refusal.message}") from refusal
        return Policy((Enrolment(_NAME, KeysetAnchor(pin), places),))

    def _evidence(self) -> Evidence:
        release = self.issued.release
        newest = self.files()[keyset_file(self.newest.epoch, self.newest.version)]
        return Evidence((newest,), () if release is None else (release,))


def _check_release(
    release: ReleaseStatement, keysets: Sequence[KeysetStatement], now: datetime
) -> None:
    """Check a release by the statement that it names, which may be the one before the newest."""
    named = [one for one in keysets if one.digest == release.keyset.digest]
    newest_release([release], named[0] if named else keysets[-1], now=now, skew=SKEW)


def _refuse_unless_trusted(report: Report, name: str) -> None:
    if report.verdict == "trusted":
        return
    reason = report.reasons[0]
    if reason.code in _UNLISTED:
        raise PublishRefused("publish.unlisted", f"{name}: {reason.message}")
    raise PublishRefused(
        "publish.not_verifying",
        f"{name} would not be trusted: {reason.code}: {reason.message}",
        path=reason.path,
        hint=reason.hint,
    )


def _unfit(what: str) -> PublishRefused:
    return PublishRefused("publish.statements", what)
