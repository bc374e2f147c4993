"""What may be published: each card is judged as its verifiers will judge it.

Pure. Some verifiers have nothing but the key set, others know the issuer by its statements. These
go along with a card in a generation, and one that was published never vanishes from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from cardsign.card.convert import form_of
from cardsign.card.document import Card
from cardsign.card.extensions import check_audience, declares_extended_card
from cardsign.card.values import Json
from cardsign.errors import PublishRefused
from cardsign.findings import Finding, Place
from cardsign.jose.jwks import JwkSet
from cardsign.publish.generation import CARD_FILE, LEGACY_FILE, RELEASE_FILE, Generation, is_card
from cardsign.sign.plan import note_interfaces
from cardsign.statements.envelope import StatementRefused, check_past
from cardsign.statements.keyset import KeysetStatement, check_step, read_keyset
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.times import utc
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.supplied import SuppliedStatements
from cardsign.urls import parse_place
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier

#: The clocks of the issuer's own hosts may differ by so much.
SKEW: Final = timedelta(minutes=5)

_NAMES: Final = {CARD_FILE: "the public card", LEGACY_FILE: "the card for clients of A2A 0.3"}
_ISSUER: Final = "issuer"
_UNLISTED: Final = frozenset(
    {"card.digest_unlisted", "card.rollback", "card.listed_elsewhere", "key.unknown"}
)


def check_cards(cards: Mapping[str, bytes], jwks: JwkSet, now: datetime) -> None:
    """Check cards, by their files in a generation, as one who has nothing but the key set.

    Raises:
        PublishRefused: ``publish.not_verifying`` (also for a card that cannot be read, and for an
            extended card without marker, of another audience, or in the place of the public one),
            ``publish.extended``, ``publish.legacy``.
        UsageFault: ``publish.audience_name``.
        KeyRefused: The key set is larger than others would read.
    """
    policy = Policy.from_jwks(JwkSet.from_bytes(jwks.to_bytes()), name="the published key set")
    verifier = Verifier(policy, clock=lambda: now)
    documents = dict[str, Mapping[str, Json]]()
    for file, data in cards.items():
        audience = _audience_of(file)
        if audience is not None:
            check_audience(audience)
        _require_trusted(verifier.judge(data, Subject(is_holder=True, audience=audience)), file)
        documents[file] = Card.from_bytes(data).document
    public, older = documents.pop(CARD_FILE), documents.pop(LEGACY_FILE, None)
    if older is not None:
        _check_legacy(older, public)
    if documents and not declares_extended_card(public):
        raise PublishRefused(
            "publish.extended",
            "there is an extended card, but the public card does not declare one",
            path="/capabilities/extendedAgentCard",
            hint="Set capabilities.extendedAgentCard to true and sign again.",
        )


def note_publication(generation: Generation) -> Iterator[Finding]:
    """Yield warnings of what readers of a generation will miss or refuse."""
    cards = {
        name: Card.from_bytes(data) for name, data in generation.files.items() if is_card(name)
    }
    for card in cards.values():
        yield from note_interfaces(card.document)
    public = cards.get(CARD_FILE)
    if public and not generation.extended and declares_extended_card(public.document):
        message = "the public card declares an extended card, and none is published"
        place = Place("/capabilities/extendedAgentCard")
        yield Finding("publish.extended", message, place, severity="warning")


def _audience_of(file: str) -> str | None:
    folder, slash, name = file.partition("/")
    return name.removesuffix(".json") if slash and folder == "extended" else None


def _name_card(file: str) -> str:
    return _NAMES.get(file) or f"the extended card of audience {_audience_of(file)}"


def _check_legacy(older: Mapping[str, Json], public: Mapping[str, Json]) -> None:
    """Check that older clients are told of the same agent as all others."""
    problem = "its form is that of A2A 1.0" if form_of(older) == "1.0" else ""
    for name in ("name", "version"):
        if not problem and older.get(name) != public.get(name):
            problem = f"its {name} is not that of the public card"
    if problem:
        raise PublishRefused("publish.legacy", f"{_NAMES[LEGACY_FILE]}: {problem}")


def _require_trusted(report: Report, file: str, *, by_statements: bool = False) -> None:
    if report.verdict == "trusted":
        return
    reason = report.reasons[0]
    if by_statements and reason.code in _UNLISTED:
        raise PublishRefused("publish.unlisted", f"{_name_card(file)}: {reason.message}")
    # Of a verdict's hints those about a signature are for verifiers: "ask its issuer".
    hint = reason.hint if by_statements else ""
    if reason.code in ("statement.expired", "key.expired"):
        hint = "Check this machine's clock. If it is right, renew the statement: "
        hint += "cardsign keys rotate"
    elif reason.code == "card.origin_mismatch":
        hint = "Correct the card, or the origins: cardsign keyset draft --origin ORIGIN"
    elif reason.code.startswith("extended."):
        hint = "Sign it for its audience: "
        hint += "cardsign sign CARD --extended AUDIENCE --seq N --expires DATE"
    problem = f"{_name_card(file)} would not be trusted: {reason.code}: {reason.message}"
    raise PublishRefused("publish.not_verifying", problem, path=reason.path, hint=hint)


def _unfit(what: str) -> PublishRefused:
    return PublishRefused("publish.statements", what)


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
        """Return what a generation carries, if it carries statements."""
        keysets = tuple(generation.keysets.values())
        return cls(keysets, generation.release) if keysets else None

    def checked(
        self, *, now: datetime | None, before: CheckedIssued | None = None
    ) -> CheckedIssued:
        """Return the statements as read, each by the right of the one before.

        Args:
            now: Aware; the newest may not be of later. None: as they were when they were issued.
            before: What is published: a release that it holds is taken as one of its own time,
                so that one of a clock that was ahead does not keep out its replacement.

        Raises:
            PublishRefused: ``publish.statements``: they are no history, or the release does not
                speak of its end.
        """
        digest_before = before.release.digest if before and before.release else None
        try:
            read = {read_keyset(data): data for data in self.keysets}
            history = tuple(sorted(read, key=attrgetter("number")))
            for previous, keyset in zip((None, *history), history, strict=False):
                check_step(keyset, previous)
            check_past(history[-1].iat, now or utc(history[-1].iat), SKEW)
            release = None
            if self.release is not None:
                release = read_release(self.release)
                at = utc(release.iat) if now is None or release.digest == digest_before else now
                # By the statement that it names, which may be the one before the newest.
                named = [keyset for keyset in history if keyset.digest == release.keyset.digest]
                check_release(release, (named or history)[-1], None, now=at, skew=SKEW)
                check_past(release.iat, at, SKEW)
        except StatementRefused as refusal:
            raise _unfit(f"{refusal.code}: {refusal.message}") from refusal
        return CheckedIssued({keyset: read[keyset] for keyset in history}, release, self.release)


@dataclass(frozen=True, slots=True)
class CheckedIssued:
    """Statements that were checked; only :meth:`Issued.checked` makes one.

    Attributes:
        keysets: The history, oldest first, each with its bytes as published.
        release: The newest release, or None.
        release_bytes: The same, as published.
    """

    keysets: Mapping[KeysetStatement, bytes]
    release: ReleaseStatement | None
    release_bytes: bytes | None

    @property
    def newest(self) -> KeysetStatement:
        """The newest keyset statement."""
        return [*self.keysets][-1]

    def files(self) -> dict[str, bytes]:
        """The files of a generation that carry them."""
        files = {f"keyset/{keyset.label}.json": data for keyset, data in self.keysets.items()}
        return files if self.release_bytes is None else {**files, RELEASE_FILE: self.release_bytes}

    def withholding(self, before: CheckedIssued | None) -> CheckedIssued:
        """These without the newest keysets that no release names yet.

        A verifier with a keyset and no release that names it reaches no verdict, so the two are
        published together. What was published `before` stays.
        """
        needed = {keyset.digest for keyset in before.keysets} if before else set()
        needed |= {self.release.keyset.digest} if self.release else set()
        history = [*self.keysets]
        while history and history[-1].digest not in needed:
            history.pop()
        kept = history or self.keysets
        return replace(self, keysets={keyset: self.keysets[keyset] for keyset in kept})

    def check_follows(self, before: CheckedIssued) -> None:
        """Check that these go on where published ones ended.

        Raises:
            PublishRefused: ``publish.statements``: one is missing or another, or the release is
                an older one.
        """
        ours = {keyset.number: keyset.digest for keyset in self.keysets}
        for keyset in before.keysets:
            if ours.get(keyset.number) != keyset.digest:
                raise _unfit(f"keyset {keyset.label} was published as {keyset.digest}")
        last = before.release
        if last is not None and (self.release is None or self.release.order < last.order):
            message = "if nobody here has signed it, revoke the release key"
            raise _unfit(f"release {last.seq} was published already; {message}")

    def list_keys(self, jwks: JwkSet) -> JwkSet:
        """Return those of some keys that the roots list for cards and that are not revoked.

        Raises:
            PublishRefused: ``publish.release_behind``: the release does not name the newest keyset.
        """
        newest, release = self.newest, self.release
        if release is None or release.keyset.digest != newest.digest:
            named = (
                f"release {release.seq} names an older one" if release else "no release names it"
            )
            message = f"keyset {newest.label} is the newest, and {named}"
            raise PublishRefused("publish.release_behind", message)
        listed = (key for key in jwks.keys if newest.lists(key.thumbprint, "card"))
        return JwkSet.of([key for key in listed if key.thumbprint not in release.revoked])

    def check_trusted(self, cards: Mapping[str, bytes], *, now: datetime) -> None:
        """Check that who has come to the newest statement trusts some cards, by their files.

        That everybody comes there, :meth:`Issued.checked` has seen; a long history takes a
        verifier several refreshes, so it is not walked here.

        Raises:
            PublishRefused: ``publish.unlisted``: the release does not list the public card, or the
                keyset not the key of a card; ``publish.not_verifying``.
        """
        places = tuple(map(parse_place, self.newest.origins))
        policy = Policy((TrustedIssuer(_ISSUER, KeysetAnchor(self.newest.id), places),))
        verifier = Verifier(policy, lock=Memory(), clock=lambda: now)
        releases = () if self.release_bytes is None else (self.release_bytes,)
        evidence = SuppliedStatements((self.keysets[self.newest],), releases)
        subject, public = Subject(issuer=_ISSUER), cards[CARD_FILE]
        for file, data in cards.items():
            if (audience := _audience_of(file)) is None:
                report = verifier.judge(data, subject, evidence)
            else:
                _, report = verifier.judge_extended(
                    public, data, subject, evidence, audience=audience
                )
            _require_trusted(report, file, by_statements=True)
