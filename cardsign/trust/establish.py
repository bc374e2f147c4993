"""Establishing who may speak for an issuer now (rules V4, V5, K8 to K11).

(1) what is remembered and what came along are brought together     :func:`establish`
(2) the anchor's one source gives the keys                          ``_Desk.with_...``
(3) clock, deadlines and floors say what of it holds now
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cardsign.errors import CardRefused, KeyRefused, StateFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement, check_release, effective_revoked
from cardsign.jose.statements import StatementRefused, check_times
from cardsign.jose.succession import RootPin, StatementPin
from cardsign.reasons import Reason
from cardsign.trust.anchors import JwksAnchor, KeysAnchor, KeysetAnchor, TofuAnchor
from cardsign.trust.chain import Walk
from cardsign.trust.contact import make_contact
from cardsign.trust.evidence import Evidence
from cardsign.trust.known import Known, Memo, anchor_digest
from cardsign.trust.origins import Origin, parse_origin
from cardsign.trust.policy import Enrolment, Limits
from cardsign.trust.receiving import Received, receive
from cardsign.trust.releases import Chosen, check_release_floor, choose_release
from cardsign.trust.standing import AcceptedKey, Standing, end_of


def establish(
    enrolment: Enrolment,
    limits: Limits,
    evidence: Evidence,
    memo: Memo,
    *,
    now: datetime,
    historic: bool = False,
) -> Standing:
    """Bring together what is remembered and what came along; keep what is new and lawful.

    Args:
        enrolment: What the policy says of the issuer.
        limits: The policy's.
        evidence: What came along; nothing in it makes this function raise.
        memo: What is remembered; each step is kept there before the next.
        now: Aware; fixed at the start (V1).
        historic: `now` was chosen by the caller: nothing is kept, and nothing can be trusted.

    Raises:
        LocalFault: The memory cannot keep a step, or is of another anchor.
    """
    if memo.known is not None and memo.known.anchor != anchor_digest(enrolment.anchor):
        raise StateFault("state.other_anchor", f"{enrolment.name!r} was met under another anchor")
    keep = (lambda known: None) if historic else memo.keep
    desk = _Desk(enrolment, limits, evidence, now, memo.known, keep)
    if historic:
        desk.blocks.append(Reason.of("time.historic", f"the verdict is about {now.isoformat()}"))
    elif memo.known is not None:
        desk.check_clock(memo.known)
    match enrolment.anchor:
        case KeysAnchor(keys, holders):
            standing = desk.with_keys(keys, holders.get)
        case JwksAnchor(url):
            standing = desk.with_jwks_of(url)
        case KeysetAnchor(pin, issuer):
            standing = desk.with_keyset(pin, issuer)
        case TofuAnchor():
            standing = desk.with_first_contact()
    return replace(standing, notes=(*memo.notes, *standing.notes))


class _Desk:
    """One establishing under way."""

    def __init__(
        self,
        enrolment: Enrolment,
        limits: Limits,
        evidence: Evidence,
        now: datetime,
        known: Known | None,
        keep: Callable[[Known], None],
    ) -> None:
        self.enrolment = enrolment
        self.limits = limits
        self.skew = timedelta(seconds=limits.skew)
        self.evidence = evidence
        self.now = now
        self.remembers = known is not None
        self.known = known or Known(anchor_digest(enrolment.anchor))
        self.keep = keep
        self.hindrances: list[Reason] = []
        self.blocks: list[Reason] = []
        self.notes: list[Reason] = []

    # -------------------------------------------------------------- sources

    def with_keys(self, keys: JwkSet, holder_of: Callable[[str, str], str]) -> Standing:
        """Pinned keys; nothing else is read."""
        accepted = (AcceptedKey(key, holder_of(key.kid, "")) for key in keys.keys)
        return self._standing(accepted, unsupported=keys.unsupported)

    def with_jwks_of(self, url: str) -> Standing:
        """The key set of the one URL: as it came now, else as it is remembered."""
        if self.evidence.jwks_url == url:
            offered = self._offered_jwks()
            if offered is not None:
                self._keep(replace(self.known, jwks=offered))
        if self.known.jwks is None:
            return self._without_source("trust.no_keys", f"the key set at {url} is not at hand")
        return self._bare(self.known.jwks)

    def with_keyset(self, pin: StatementPin | RootPin, issuer: str | None) -> Standing:
        """The newest keyset statement that can be reached from the anchor, and its release."""
        received = receive(self.evidence.untrusted_keysets, self.evidence.untrusted_releases)
        self.notes.extend(received.reasons)
        keyset = self._walk(pin, issuer, received)
        if keyset is None:
            return self._without_source("trust.no_keys", "no keyset statement can be believed")
        chosen = self._choose(keyset, received)
        revoked = self._revoked(keyset, chosen)
        origins = self._origins(keyset)
        if origins is None:
            return self._without_source("trust.no_keys", "the keyset statement names bad origins")
        holds = self._holds_now(keyset)
        ends = self._speaks_until(keyset, chosen, revoked) if holds else None
        return self._standing(
            (
                AcceptedKey(key.public, key.holder, "card" in key.roles, key.nbf, key.exp)
                for key in keyset.keys
            ),
            offered=self._offered_jwks(),
            keyset=keyset,
            release=chosen.release if ends is not None else None,
            release_ends=ends,
            revoked=revoked,
            origins=origins,
        )

    def with_first_contact(self) -> Standing:
        """What was found at first contact; or this is it (threats.md 20)."""
        if self.known.first_contact is None and self.known.jwks is None and self.remembers:
            places = self.enrolment.places or ()
            contact = make_contact(
                self.evidence, self._offered_jwks(), places, now=self.now, skew=self.skew
            )
            if contact.pin or contact.jwks:
                self._keep(replace(self.known, first_contact=contact.pin, jwks=contact.jwks))
            self.notes.extend(contact.reasons)
        if self.known.first_contact is not None:
            return self.with_keyset(self.known.first_contact, None)
        if self.known.jwks is not None:
            return self._bare(self.known.jwks, offered=self._offered_jwks())
        none = "there was no contact yet; the first is made with the card's own origin, over TLS"
        return self._without_source("trust.no_first_contact", none)

    # -------------------------------------------------------------- statements

    def _walk(
        self, pin: StatementPin | RootPin, issuer: str | None, received: Received
    ) -> KeysetStatement | None:
        walk = Walk(self.now, self.skew, self._keep_keyset, self.known.floor)
        held = self.known.keyset
        try:
            if held is None:
                held = walk.from_anchor(pin, issuer, received.keysets)
            if held is not None:
                held = walk.onwards(held, received.keysets)
        except StatementRefused as refusal:
            self.blocks.append(Reason.of(refusal.code, refusal.message, hint=refusal.hint))
        self.notes.extend(walk.reasons)
        return self.known.keyset or held

    def _choose(self, keyset: KeysetStatement, received: Received) -> Chosen:
        """The newest release; a new one is kept."""
        chosen = choose_release(
            self.known.release,
            received.releases,
            keyset,
            self.known.floor,
            now=self.now,
            skew=self.skew,
        )
        self.notes.extend(chosen.reasons)
        release = chosen.release
        if release is not None and release != self.known.release:
            newest = max(self.known.newest_iat, release.iat)
            self._keep(replace(self.known, release=release, newest_iat=newest))
        return chosen

    def _revoked(self, keyset: KeysetStatement, chosen: Chosen) -> frozenset[str]:
        try:
            return effective_revoked(keyset, chosen.release) | chosen.denied
        except StatementRefused as refusal:  # a release of the future, after a fork
            self.blocks.append(Reason.of(refusal.code, refusal.message))
            return keyset.revoked | chosen.denied

    def _holds_now(self, keyset: KeysetStatement) -> bool:
        """A keyset past its end is believed no more, whatever is waived (threats.md 5)."""
        ending = _Ending(keyset.iat, end_of(keyset, self.limits.keyset_age))
        try:
            check_times(ending, now=self.now, skew=self.skew)
        except StatementRefused as refusal:
            message = f"the newest keyset statement {refusal.message}"
            self.blocks.append(Reason.of(refusal.code, message))
            return False
        return True

    def _speaks_until(
        self, keyset: KeysetStatement, chosen: Chosen, revoked: frozenset[str]
    ) -> int | None:
        """When the last signer of the release ends; None if it does not hold now."""
        release = chosen.release
        if chosen.contested is not None:
            self.hindrances.append(chosen.contested)
        if release is None:
            missing = "there is no release statement, so nobody says which cards are current"
            self.hindrances.append(Reason.of("trust.freshness_unknown", missing))
            return None
        ending = _Ending(release.iat, end_of(release, self.limits.release_age))
        try:
            check_release_floor(release, self.known.floor)
        except StatementRefused as refusal:  # evidence against it, which nobody can waive
            self.blocks.append(Reason.of(refusal.code, f"newest release: {refusal.message}"))
            return None
        try:
            counted = check_release(release, keyset, None, now=self.now, skew=self.skew)
            signers = counted.good - revoked
            if not signers:
                raise StatementRefused("statement.revoked", "its signer has been revoked")
            check_times(ending, now=self.now, skew=self.skew)
        except StatementRefused as refusal:
            self.hindrances.append(Reason.of(refusal.code, f"newest release: {refusal.message}"))
            return None
        return max(key.exp for key in keyset.keys if key.public.thumbprint in signers)

    def _origins(self, keyset: KeysetStatement) -> tuple[Origin, ...] | None:
        try:
            return tuple(parse_origin(origin) for origin in keyset.origins)
        except CardRefused as refusal:
            self.notes.append(Reason.of(refusal.code, refusal.message, "/origins"))
            return None

    # -------------------------------------------------------------- time and memory

    def check_clock(self, known: Known) -> None:
        """A clock behind what was signed already revives what has expired (threats.md 19)."""
        newest = max(known.newest_iat, known.floor.newest_iat)
        behind = newest - self.limits.skew - self.now.timestamp()
        if behind > 0:
            when = datetime.fromtimestamp(newest, UTC).isoformat()
            self.blocks.append(
                Reason.of(
                    "time.clock_behind",
                    f"a statement of {when} was seen before, and this clock says "
                    f"{self.now.isoformat()}",
                )
            )

    def _keep_keyset(self, keyset: KeysetStatement) -> None:
        newest = max(self.known.newest_iat, keyset.iat)
        self._keep(replace(self.known, keyset=keyset, newest_iat=newest))

    def _keep(self, known: Known) -> None:
        self.keep(known)
        self.known = known

    def _offered_jwks(self) -> JwkSet | None:
        if self.evidence.untrusted_jwks is None:
            return None
        try:
            return JwkSet.from_bytes(self.evidence.untrusted_jwks)
        except KeyRefused as refusal:
            self.notes.append(Reason.of(refusal.code, refusal.message, hint=refusal.hint))
            return None

    # -------------------------------------------------------------- results

    def _without_source(self, code: str, message: str) -> Standing:
        self.blocks.append(Reason.of(code, message))
        return replace(self._standing(()), has_source=False)

    def _bare(self, jwks: JwkSet, *, offered: JwkSet | None = None) -> Standing:
        """Keys of which nobody has said who holds them or how long they last."""
        keys = (AcceptedKey(key, "") for key in jwks.keys)
        return self._standing(keys, unsupported=jwks.unsupported, offered=offered)

    def _standing(
        self,
        keys: Iterable[AcceptedKey],
        *,
        unsupported: tuple[str, ...] = (),
        offered: JwkSet | None = None,
        keyset: KeysetStatement | None = None,
        release: ReleaseStatement | None = None,
        release_ends: int | None = None,
        revoked: frozenset[str] = frozenset(),
        origins: tuple[Origin, ...] | None = None,
    ) -> Standing:
        if keyset is not None and not self.remembers:
            forgetful = "nothing is remembered of this issuer, so a rollback cannot be seen"
            self.hindrances.append(Reason.of("state.none", forgetful))
        return Standing(
            enrolment=self.enrolment,
            now=self.now,
            limits=self.limits,
            keys=tuple(keys),
            unsupported=unsupported,
            offered=offered,
            revoked=revoked,
            origins=origins,
            keyset=keyset,
            release=release,
            release_ends=release_ends,
            hindrances=tuple(self.hindrances),
            blocks=tuple(self.blocks),
            notes=tuple(self.notes),
            signed_before=self.known.signed_before,
        )


@dataclass(frozen=True, slots=True)
class _Ending:
    iat: int
    exp: int
