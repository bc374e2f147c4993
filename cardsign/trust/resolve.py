"""Resolving an issuer: who may speak for it now (rules V4, V5, K8 to K11).

(1) what is remembered and what was supplied are brought together   :func:`resolve_issuer`
(2) the anchor's one source gives the keys                          ``_Resolution.by_...``
(3) clock, deadlines and rollback floors say what of it holds now
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from math import inf
from typing import Any, Final, Literal, TypeAlias, cast

from cardsign.errors import CardRefused, KeyRefused, StateFault
from cardsign.findings import Finding
from cardsign.jose.jwks import JwkSet
from cardsign.statements.envelope import StatementRefused, check_times
from cardsign.statements.keyset import IssuerKey, KeysetId, KeysetStatement, RootAnchor
from cardsign.statements.release import ReleaseStatement, check_release, effective_revoked
from cardsign.times import minute
from cardsign.trust.keyset_choice import (
    Chosen,
    Walk,
    check_release_floor,
    choose_release,
    receive,
)
from cardsign.trust.policy import (
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    RollbackFloor,
    TrustedIssuer,
)
from cardsign.trust.state import IssuerState, pin_of, rollback_floor
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import Origin, Place, Url, may_stand_at, parse_origin

_LOG: Final = logging.getLogger(__name__)

#: What a reason does to a verdict: ``blocks`` lets nothing be trusted whatever the policy waives,
#: ``hinders`` leaves it open whether a card is current, ``notes`` decides nothing.
Weight: TypeAlias = Literal["blocks", "hinders", "notes"]


@dataclass(frozen=True)  # without slots: what a verdict looks up is made once
class IssuerTrust:
    """Who may speak for one issuer at one time, by what right, and why not.

    Attributes:
        keys: All keys of the anchor's source; their times are for the verdict to ask.
        has_source: Whether the source was to be had; if not, nothing can be said of any key.
        unsupported: Kids of keys of the source that are of an unknown type.
        offered: Keys that are published somewhere and that the anchor's source does not endorse.
        revoked: Thumbprints of keys whose signatures never count.
        origins: Where the keyset statement lets interfaces stand; None without one.
        keyset: The newest keyset statement.
        release: The newest release statement, if it speaks for that keyset now.
        release_ends: When the last of the keys ends that signed that release, Unix seconds.
        found: Every reason that was found, in the order of finding.
        reserved: The places of the policy's other issuers.
        state: What is remembered of the issuer now; None where nothing can be.
    """

    issuer: TrustedIssuer
    now: datetime
    limits: Limits
    keys: tuple[IssuerKey, ...] = ()
    has_source: bool = True
    unsupported: tuple[str, ...] = ()
    offered: JwkSet | None = None
    revoked: frozenset[str] = frozenset()
    origins: tuple[Origin, ...] | None = None
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    release_ends: int | None = None
    found: tuple[tuple[Weight, Finding], ...] = ()
    reserved: tuple[Place, ...] = ()
    state: IssuerState | None = None

    def _of(self, weight: Weight) -> tuple[Finding, ...]:
        return tuple(reason for its_weight, reason in self.found if its_weight == weight)

    @cached_property
    def blocks(self) -> tuple[Finding, ...]:
        """Why nothing can be trusted, whatever the policy waives."""
        return self._of("blocks")

    @cached_property
    def hindrances(self) -> tuple[Finding, ...]:
        """Why it is not known whether a card is current."""
        return self._of("hinders")

    @cached_property
    def notes(self) -> tuple[Finding, ...]:
        """What else was found; it decides nothing."""
        return self._of("notes")

    def find(self, kid: str) -> IssuerKey | None:
        """The key that the source publishes under a kid, which is only a hint."""
        return self._by_kid.get(kid)

    @cached_property
    def _by_kid(self) -> dict[str, IssuerKey]:
        return {key.public.kid: key for key in reversed(self.keys)}

    def at(self, now: datetime) -> IssuerTrust:
        """The same at another time, at which nothing else in it has changed.

        It takes every cached property along, so none of them may depend on `now`.
        """
        other = object.__new__(IssuerTrust)
        vars(other).update(vars(self), now=now, _at_first=self)
        return other

    def may_stand_at(self, url: Url) -> bool:
        """Whether the policy lets a card of this issuer stand at a URL."""
        places = self.issuer.places
        return places is None or may_stand_at(url, places, self.reserved)

    @property
    def clock_is_behind(self) -> bool:
        """This machine's clock is known to be wrong, so that no time can be held against a key."""
        return any(reason.code == "time.clock_behind" for reason in self.blocks)

    @property
    def deadlines(self) -> tuple[int, ...]:
        """When what is said here ends, Unix seconds; what has ended is said of nothing any more."""
        ends = [] if self.release_ends is None else [self.release_ends]
        if self.keyset is not None:
            ends.append(end_of(self.keyset, self.limits.keyset_age))
        if self.release is not None:
            ends.append(end_of(self.release, self.limits.release_age))
        return tuple(end for end in ends if end > self.now.timestamp())

    @cached_property
    def fingerprint(self) -> bytes:
        """Equal where one card gets one verdict, but for the time."""
        if (at_first := vars(self).get("_at_first")) is not None:
            return cast(IssuerTrust, at_first).fingerprint
        said = (
            self.issuer.name,
            self.has_source,
            [(key.public, key.signs_cards) for key in self.keys],
            sorted(self.revoked),
            self.keyset.digest if self.keyset else None,
            self.release.digest if self.release else None,
            [(weight, one.code) for weight, one in self.found if weight != "notes"],
            self.notes,
        )
        return hashlib.sha256(repr(said).encode()).digest()


def end_of(statement: KeysetStatement | ReleaseStatement, most: int | None) -> int:
    """When a statement ends for us: at its `exp`, or `most` seconds after its `iat`, if earlier."""
    return statement.exp if most is None else min(statement.exp, statement.iat + most)


def resolve_issuer(
    issuer: TrustedIssuer,
    limits: Limits,
    supplied: SuppliedStatements,
    state: IssuerState | None,
    *,
    now: datetime,
    keep: Callable[[IssuerState], None] = lambda state: None,
    historic: bool = False,
    reserved: tuple[Place, ...] = (),
) -> IssuerTrust:
    """Bring together what is remembered and what was supplied; keep what is new and lawful.

    Where that was done before, nothing was kept, and no time has come since that matters, the
    result is that of before. Nothing in `supplied` makes this function raise.

    Args:
        issuer: What the policy says of it, with the rollback floor of this verification.
        supplied: What came along, unverified.
        state: What is remembered; None where nothing can be.
        now: Aware; fixed at the start (V1).
        keep: Keeps a step durably before the next; by default nothing is kept.
        historic: The caller chose `now`: nothing is kept, and nothing can be trusted.
        reserved: The places of the policy's other issuers within those of this one.

    Raises:
        StateFault: ``state.other_anchor``: the state is of another policy, anchor or origins, or
            a step leads past the pin.
        LocalFault: A step cannot be kept.
    """
    if state is not None and not state.is_of(issuer):
        raise StateFault(
            "state.other_anchor",
            f"{issuer.name!r} is remembered under another policy, anchor or origins",
        )
    # Floor and notes by themselves: equal issuers may have two floors, and equal states two notes.
    notes = () if state is None else state.notes
    about = (issuer, issuer.floor, state, notes, reserved, limits, supplied)
    if not historic and (before := _resolved_before(about, now)) is not None:
        return before
    resolution = _Resolution(issuer, limits, supplied, state, now, keep, historic, reserved)
    trust = resolution.result()
    lasts = not any(reason.code in _TIMED for _, reason in trust.found)
    is_small = supplied.size <= MAX_RESOLVED_BYTES
    if lasts and is_small and not historic and (state is None or not resolution.has_kept):
        _ = trust._by_kid, trust.blocks, trust.hindrances, trust.notes  # made once, for all times
        sizes = [kept[0][-1].size for kept in list(_RESOLVED.values())]
        if len(sizes) >= MAX_RESOLVED or sum(sizes) + supplied.size > MAX_RESOLVED_BYTES:
            _RESOLVED.clear()
        _RESOLVED[issuer.policy, issuer.name] = (about, trust, _until(trust))
    return trust


_About: TypeAlias = tuple[
    TrustedIssuer,
    RollbackFloor | None,
    IssuerState | None,
    tuple[Finding, ...],
    tuple[Place, ...],
    Limits,
    SuppliedStatements,
]
#: Reasons that another time takes away or words anew.
_TIMED: Final = frozenset(
    {"statement.not_yet", "statement.expired", "time.clock_behind", "time.historic"}
)


#: Results; each holds the statements on which it rests, some 20 KiB.
MAX_RESOLVED: Final = 1024
#: Bytes of the statements supplied for all of them; a long history has 2 MiB.
MAX_RESOLVED_BYTES: Final = 16 * 1024 * 1024
#: What was resolved before, one result for each issuer of each policy, and until when it holds.
_RESOLVED: Final[dict[tuple[str, str], tuple[_About, IssuerTrust, float]]] = {}


def _resolved_before(about: _About, now: datetime) -> IssuerTrust | None:
    """The result of before, as of now."""
    before = _RESOLVED.get((about[0].policy, about[0].name))
    if before is None:
        return None
    kept, trust, until = before
    if about != kept:
        return None
    return trust.at(now) if trust.now <= now and now.timestamp() < until else None


def _until(trust: IssuerTrust) -> float:
    """The next time at which a statement or a key of it begins or ends, Unix seconds."""
    times: list[float] = [*trust.deadlines]
    for key in trust.keyset.keys if trust.keyset is not None else ():
        times += (key.nbf - trust.limits.skew, key.exp)
    return min((time for time in times if time > trust.now.timestamp()), default=inf)


@dataclass()
class _Resolution:
    """One issuer being resolved."""

    issuer: TrustedIssuer
    limits: Limits
    supplied: SuppliedStatements
    given: IssuerState | None
    now: datetime
    write: Callable[[IssuerState], None]
    historic: bool
    reserved: tuple[Place, ...]
    found: list[tuple[Weight, Finding]] = field(default_factory=list)
    has_kept: bool = False

    def __post_init__(self) -> None:
        self.skew = timedelta(seconds=self.limits.skew)
        self.state = self.given or IssuerState.begin(self.issuer)
        self.floor = rollback_floor(self.issuer, self.given)

    def result(self) -> IssuerTrust:
        """Everything, from top to bottom."""
        self.weigh("notes", *self.state.notes)
        if self.historic:
            historic = Finding("time.historic", f"the verdict is about {self.now.isoformat()}")
            self.weigh("blocks", historic)
        else:
            self.check_clock()
        match self.issuer.anchor:
            case KeysAnchor(keys, holders):
                accepted = [
                    IssuerKey(key, ("card",), holders.get(key.kid, "")) for key in keys.keys
                ]
                return self._trust(accepted, unsupported=keys.unsupported)
            case JwksAnchor(url):
                return self.by_jwks_of(url)
            case KeysetAnchor(pin, issuer):
                return self.by_keyset(pin, issuer)

    def weigh(self, weight: Weight, *reasons: Finding) -> None:
        self.found.extend((weight, reason) for reason in reasons)

    def refused(self, weight: Weight, refusal: StatementRefused, what: str = "") -> None:
        message = f"{what}: {refusal.message}" if what else refusal.message
        self.weigh(weight, Finding(refusal.code, message, fix=refusal.finding.fix))

    def by_jwks_of(self, url: str) -> IssuerTrust:
        """The key set of the one URL: as it came now, else as it is remembered."""
        if self.supplied.jwks_url == url and (offered := self._offered_jwks()) is not None:
            if self.supplied.jwks_once:
                return self._bare(offered)
            self._keep(replace(self.state, jwks=offered))
        if self.state.jwks is None:
            missing = f"the key set at {url} is not at hand"
            hint = "Verify the URL of the card, or give the keys: cardsign verify CARD --jwks FILE"
            return self._without_source("trust.no_keys", missing, hint=hint)
        return self._bare(self.state.jwks)

    def by_keyset(self, pin: KeysetId | RootAnchor, issuer: str | None) -> IssuerTrust:
        """The newest keyset statement that can be reached from the anchor, and its release."""
        supplied = self.supplied
        keysets, releases, reasons = receive(
            supplied.untrusted_keysets, supplied.untrusted_releases, self.state.keyset
        )
        self.weigh("notes", *reasons)
        keyset = self._choose_keyset(pin, issuer, keysets)
        if keyset is None:
            return self._without_source("trust.no_keys", "no keyset statement can be accepted")
        chosen = self._choose_release(keyset, releases)
        revoked = self._revoked(keyset, chosen)
        try:
            origins = tuple(parse_origin(origin) for origin in keyset.origins)
        except CardRefused as refusal:
            self.weigh("notes", refusal.finding.at("/origins"))
            return self._without_source("trust.no_keys", "the keyset statement names bad origins")
        # A keyset past its end is accepted no more, whatever is waived (threat 5).
        holds = self._holds(keyset, self.limits.keyset_age, "blocks", "the newest keyset statement")
        ends = self._speaks_until(keyset, chosen, revoked) if holds else None
        offered = self._offered_jwks()
        if self.given is None and self.issuer.floor is None:
            forgetful = "nothing is remembered of this issuer, so a rollback cannot be seen"
            self.weigh("hinders", Finding("state.none", forgetful))
        return self._trust(
            keyset.keys,
            offered=offered,
            keyset=keyset,
            release=chosen.release if ends is not None else None,
            release_ends=ends,
            revoked=revoked,
            origins=origins,
        )

    def _choose_keyset(
        self, pin: KeysetId | RootAnchor, issuer: str | None, keysets: Sequence[KeysetStatement]
    ) -> KeysetStatement | None:
        walk = Walk(self.now, self.skew, self._keep_keyset, self.floor)
        try:
            held = self.state.keyset or walk.from_anchor(pin, issuer, keysets)
            if held is not None:
                walk.onwards(held, keysets)
        except StatementRefused as refusal:
            self.refused("blocks", refusal)
        self.weigh("notes", *walk.reasons)
        return self.state.keyset  # each step of the walk is kept

    def _choose_release(
        self, keyset: KeysetStatement, releases: Sequence[ReleaseStatement]
    ) -> Chosen:
        """The newest release; a new one is kept."""
        held = self.state.release
        chosen = choose_release(held, releases, keyset, self.floor, now=self.now, skew=self.skew)
        self.weigh("notes", *chosen.reasons)
        release = chosen.release
        if release is not None and release != held:
            newest = max(self.state.newest_iat, release.iat)
            self._keep(replace(self.state, release=release, newest_iat=newest))
            self._tell("%s: an older release than %s is refused from now on", str(release.seq))
        return chosen

    def _revoked(self, keyset: KeysetStatement, chosen: Chosen) -> frozenset[str]:
        try:
            return effective_revoked(keyset, chosen.release) | chosen.denied
        except StatementRefused as refusal:  # a release of the future, after a fork
            self.refused("blocks", refusal)
            return keyset.revoked | chosen.denied

    def _holds(
        self,
        statement: KeysetStatement | ReleaseStatement,
        age: int | None,
        weight: Weight,
        what: str,
    ) -> bool:
        """Whether a statement is in force now; the reason why not has this weight."""
        try:
            exp = end_of(statement, age)
            check_times(statement.iat, exp, now=self.now, skew=self.skew, what=what)
        except StatementRefused as refusal:
            self.refused(weight, refusal)
            return False
        return True

    def _speaks_until(
        self, keyset: KeysetStatement, chosen: Chosen, revoked: frozenset[str]
    ) -> int | None:
        """When the last signer of the release ends; None if it does not hold now."""
        release, what = chosen.release, "the newest release"
        if chosen.contested is not None:
            self.weigh("hinders", chosen.contested)
        if release is None:
            missing = "there is no release statement, so it is unknown which cards are current"
            self.weigh("hinders", Finding("trust.freshness_unknown", missing))
            return None
        try:
            check_release_floor(release, self.floor)
        except StatementRefused as refusal:  # it speaks against the card, and no policy waives that
            self.refused("blocks", refusal, what)
            return None
        try:
            counted = check_release(release, keyset, None, now=self.now, skew=self.skew)
            signers = counted.good - revoked
            if not signers:
                raise StatementRefused("statement.revoked", "its signer has been revoked")
        except StatementRefused as refusal:
            self.refused("hinders", refusal, what)
            return None
        if not self._holds(release, self.limits.release_age, "hinders", what):
            return None
        return max(key.exp for key in keyset.keys if key.public.thumbprint in signers)

    def check_clock(self) -> None:
        """A clock behind what was signed already revives what has expired (threat 19)."""
        newest = max(self.state.newest_iat, self.floor.newest_iat)
        behind = newest - self.now.timestamp()
        if behind <= self.limits.skew:
            return
        message, hint = f"a statement of {minute(newest)} was seen before", ""
        if behind > _MOST_BEHIND:
            name, holds = self.issuer.name, "the state"
            hint = "Restore the state from a backup. Or begin it anew: cardsign trust known forget "
            hint += f"{name}, then cardsign trust init."
            if newest == self.floor.newest_iat:
                holds = "trust.lock"
                hint = "Restore trust.lock from version control or a backup. Or delete what it "
                hint += f"says of {name!r}, then: cardsign trust pin {name}"
            message = f"{holds} is wrong: it says that {message}"
        message += f", and this clock says {minute(self.now)}"
        self.weigh("blocks", Finding("time.clock_behind", message, fix=hint))

    def _keep_keyset(self, keyset: KeysetStatement) -> None:
        before, pin = self.state.keyset, pin_of(self.issuer.anchor)
        # The pin was moved ahead of what is held: every way on leads through it (K8).
        if before is not None and pin is not None and before.id < pin < keyset.id:
            past = f"the statements of {self.issuer.name!r} lead past the pin of its anchor"
            raise StateFault("state.other_anchor", past)
        self._keep(self.state.with_keyset(keyset))
        self._tell("%s: keyset %s is trusted from now on", keyset.label)

    def _tell(self, message: str, what: str) -> None:
        """Log what is remembered from now on; without states nothing is."""
        if self.given is not None and not self.historic:
            _LOG.info(message, self.issuer.name, what)

    def _keep(self, state: IssuerState) -> None:
        if not self.historic:
            self.write(state)
        self.state = state
        self.has_kept = True

    def _offered_jwks(self) -> JwkSet | None:
        if self.supplied.untrusted_jwks is None:
            return None
        try:
            return JwkSet.from_bytes(self.supplied.untrusted_jwks)
        except KeyRefused as refusal:
            self.weigh("notes", Finding(refusal.code, refusal.message, fix=refusal.finding.fix))
            return None

    def _without_source(self, code: str, message: str, *, hint: str = "") -> IssuerTrust:
        self.weigh("blocks", Finding(code, message, fix=hint))
        return self._trust((), has_source=False)

    def _bare(self, jwks: JwkSet) -> IssuerTrust:
        """Keys of which nothing says who holds them or how long they last."""
        keys = [IssuerKey(key) for key in jwks.keys]
        return self._trust(keys, unsupported=jwks.unsupported)

    def _trust(self, keys: Sequence[IssuerKey], **more: Any) -> IssuerTrust:
        return IssuerTrust(
            self.issuer,
            self.now,
            self.limits,
            tuple(keys),
            found=tuple(self.found),
            reserved=self.reserved,
            state=None if self.given is None else self.state,
            **more,
        )


#: Seconds. No clock that runs is this far behind: a time beyond is a fault of the file that has it.
_MOST_BEHIND: Final = 100 * 365 * 24 * 3600
# How an issuer stands by what is remembered of it alone, and what will need a person soon.


#: Seconds before a keyset statement ends: roots are offline, and their holders may be away.
KEYSET_NOTICE: Final = 14 * 24 * 3600


def resolve_remembered(
    issuer: TrustedIssuer, limits: Limits, state: IssuerState, *, now: datetime
) -> tuple[IssuerTrust, tuple[Finding, ...]]:
    """Look at what is remembered of an issuer; nothing is asked and nothing kept.

    Returns:
        Who may speak for it, by what is remembered; and what keeps every card of it from being
        trusted, then what soon will.
    """
    trust = resolve_issuer(issuer, limits, NO_STATEMENTS, state, now=now)
    alarms = [*trust.blocks, *(trust.hindrances if issuer.freshness == "required" else ())]
    seconds = now.timestamp()
    keyset, release = trust.keyset, trust.release
    ending = []
    if release is not None and now >= release.renew_at:
        ending.append(f"release {release.seq} is past half of its time, and no newer one was seen")
    if keyset is not None:
        left = end_of(keyset, limits.keyset_age) - seconds
        if 0 < left <= KEYSET_NOTICE:
            number = keyset.label
            ending.append(f"keyset {number} ends in {left / 86400:.1f} days")
    hint = "Look for a newer one: cardsign peers verify. If there is none, ask the issuer."
    alarms += [Finding("peer.statement_ends", ends, fix=hint) for ends in ending]
    return trust, tuple(dict.fromkeys(alarms))
