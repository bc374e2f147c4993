"""Resolving an issuer: who may speak for it now (rules V4, V5, K8 to K11).

(1) what is remembered and what was supplied are brought together   :func:`resolve_issuer`
(2) the anchor's one source gives the keys                          ``_Resolution.by_...``
(3) clock, deadlines and rollback floors say what of it holds now
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import inf
from operator import attrgetter
from threading import Lock
from typing import Final, Literal, TypeAlias

from cardsign.errors import CardRefused, KeyRefused, StateFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.log import logger
from cardsign.reasons import Reason
from cardsign.records import dataclass
from cardsign.statements.envelope import StatementRefused, check_past, check_times
from cardsign.statements.keyset import KeysetId, KeysetStatement
from cardsign.statements.release import ReleaseStatement, check_release, effective_revoked
from cardsign.statements.succession import RootPin, check_first
from cardsign.trust.policy import (
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    TofuAnchor,
    TrustedIssuer,
)
from cardsign.trust.state import IssuerState, pin_of, rollback_floor
from cardsign.trust.statements import (
    NO_STATEMENTS,
    Chosen,
    SuppliedStatements,
    Walk,
    check_release_floor,
    choose_release,
    receive,
)
from cardsign.urls import Origin, Place, Url, is_this_machine, may_stand_at, parse_origin

# Who may speak for an issuer at one time, and what of it is known to be current. Data only.


@dataclass(frozen=True, slots=True)
class AcceptedKey:
    """A key that the anchor's source names; whether it may sign cards now is said besides.

    Attributes:
        public: The key.
        holder: Who holds it; empty where nobody said.
        signs_cards: It has the role card.
        nbf: It does not count before, Unix seconds; None without a statement.
        exp: It does not count from then on, Unix seconds; None without a statement.
    """

    public: PublicKey
    holder: str
    signs_cards: bool = True
    nbf: int | None = None
    exp: int | None = None


#: What a reason does to a verdict: ``blocks`` lets nothing be trusted whatever the policy waives,
#: ``hinders`` leaves it open whether a card is current, ``notes`` decides nothing.
Weight: TypeAlias = Literal["blocks", "hinders", "notes"]


@dataclass(frozen=True)  # without slots: what a verdict looks up is made once
class IssuerTrust:
    """Who may speak for one issuer at one time, by what right, and why not.

    Attributes:
        issuer: What the policy says of it.
        now: The time of the verdict.
        limits: The policy's.
        keys: All keys of the anchor's source.
        has_source: The source was to be had; if not, nothing can be said of any key.
        unsupported: Kids of keys of the source that are of a type we do not know.
        offered: Keys that are published somewhere and that the anchor's source does not endorse.
        revoked: Thumbprints of keys whose signatures never count.
        origins: Where the keyset statement lets interfaces stand; None without one.
        keyset: The newest keyset statement, or None.
        release: The newest release statement, if it speaks for that keyset now; or None.
        release_ends: When the last of the keys ends that signed that release, Unix seconds.
        weighed: Every reason that was found, in the order of finding.
        signed_before: A card of this issuer with a good signature was seen.
        reserved: The places of the policy's other issuers.
        state: What is remembered of the issuer now; None where nothing can be.
    """

    issuer: TrustedIssuer
    now: datetime
    limits: Limits
    keys: tuple[AcceptedKey, ...] = ()
    has_source: bool = True
    unsupported: tuple[str, ...] = ()
    offered: JwkSet | None = None
    revoked: frozenset[str] = frozenset()
    origins: tuple[Origin, ...] | None = None
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    release_ends: int | None = None
    weighed: tuple[tuple[Weight, Reason], ...] = ()
    signed_before: bool = False
    reserved: tuple[Place, ...] = ()
    state: IssuerState | None = None

    def reasons(self, weight: Weight) -> tuple[Reason, ...]:
        """The reasons of one weight, in the order of finding."""
        return tuple(reason for its_weight, reason in self.weighed if its_weight == weight)

    @property
    def blocks(self) -> tuple[Reason, ...]:
        """Why nothing can be trusted, whatever the policy waives."""
        return self.reasons("blocks")

    @property
    def hindrances(self) -> tuple[Reason, ...]:
        """Why it is not known whether a card is current."""
        return self.reasons("hinders")

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What else was found; it decides nothing."""
        return self.reasons("notes")

    def find(self, kid: str) -> AcceptedKey | None:
        """The key that the source publishes under a kid, which is only a hint."""
        return self._by_kid.get(kid)

    @cached_property
    def _by_kid(self) -> dict[str, AcceptedKey]:
        return {key.public.kid: key for key in reversed(self.keys)}

    def at(self, now: datetime) -> IssuerTrust:
        """The same at another time, at which nothing else in it has changed."""
        other = copy(self)
        object.__setattr__(other, "now", now)
        return other

    def may_stand_at(self, url: Url) -> bool:
        """Whether the policy lets a card of this issuer stand at a URL."""
        places = self.issuer.places
        return places is None or may_stand_at(url, places, self.reserved)

    @property
    def skew(self) -> timedelta:
        """How far the issuer's clock may be ahead of ours."""
        return timedelta(seconds=self.limits.skew)

    @property
    def clock_is_behind(self) -> bool:
        """This machine's clock is known to be wrong, so that no time can be held against a key."""
        return any(reason.code == "time.clock_behind" for reason in self.blocks)

    @property
    def deadlines(self) -> tuple[int, ...]:
        """When what is said here ends, Unix seconds; what has ended is said of nothing any more."""
        ends = []
        if self.keyset is not None:
            ends.append(end_of(self.keyset, self.limits.keyset_age))
        if self.release is not None:
            ends.append(end_of(self.release, self.limits.release_age))
        if self.release_ends is not None:
            ends.append(self.release_ends)
        return tuple(end for end in ends if end > self.now.timestamp())

    @cached_property
    def fingerprint(self) -> tuple[object, ...]:
        """Equal where one card gets one verdict, but for the time."""
        return (
            self.issuer.name,
            self.has_source,
            tuple((key.public, key.signs_cards) for key in self.keys),
            self.revoked,
            self.keyset.digest if self.keyset else None,
            self.release.digest if self.release else None,
            tuple((weight, one.code) for weight, one in self.weighed if weight != "notes"),
            self.notes,
        )


def end_of(statement: KeysetStatement | ReleaseStatement, most: int | None) -> int:
    """When a statement ends for us: at its `exp`, or earlier where the policy says so.

    Args:
        statement: Which.
        most: Seconds after its `iat` for which the policy believes it; None: until its `exp`.
    """
    return statement.exp if most is None else min(statement.exp, statement.iat + most)


# First contact: what is kept of an issuer of whom nothing was known (threat 20).


def make_contact(
    supplied: SuppliedStatements,
    offered: JwkSet | None,
    places: tuple[Place, ...],
    *,
    now: datetime,
    skew: timedelta,
) -> tuple[KeysetId | None, JwkSet | None, tuple[Reason, ...]]:
    """Learn from the card's own origin over TLS, and from nobody else."""
    home = supplied.contact
    if home is None or not _is_at_home(home, places):
        return None, None, ()
    keysets, _, _ = receive(supplied.untrusted_keysets, ())
    reasons = []
    firsts = []
    for statement in sorted(keysets, key=attrgetter("number")):
        try:
            check_first(statement, RootPin.of(statement.root))
            check_past(statement.iat, now, skew)
        except StatementRefused as refusal:
            reasons.append(Reason.of(refusal.code, refusal.message))
        else:
            firsts.append(statement)
    if firsts:
        first = firsts[0]
        if any(one.number == first.number and one.digest != first.digest for one in firsts):
            both = f"{home} gives two keyset statements {first.epoch}.{first.version}"
            reasons.append(Reason.of("statement.fork", f"{both}; neither is believed"))
            return None, None, tuple(reasons)
        pin = first.id
        met = f"first contact with {home}, keyset {pin.epoch}.{pin.version}: {pin.digest}"
        return pin, None, (*reasons, Reason.of("trust.tofu_first", met))
    if offered is None or not offered.keys or supplied.untrusted_keysets:
        return None, None, tuple(reasons)
    bare = f"first contact with {home}: it has no keyset, so its bare keys are kept; "
    bare += "a rotation will need a person"
    return None, offered, (Reason.of("trust.tofu_first", bare),)


def _is_at_home(contact: str, places: tuple[Place, ...]) -> bool:
    try:
        origin = parse_origin(contact)
    except CardRefused:
        return False
    secure = origin.scheme == "https" or is_this_machine(origin.host)
    return secure and any(
        place.origin == origin and place.holds(Url(origin, place.prefix, "")) for place in places
    )


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
    result is that of before.

    Args:
        issuer: What the policy says of the issuer, with the rollback floor of this verification.
        limits: The policy's.
        supplied: What came along; nothing in it makes this function raise.
        state: What is remembered; None where nothing can be.
        now: Aware; fixed at the start (V1).
        keep: Keeps a step durably before the next; by default nothing is kept.
        historic: `now` was chosen by the caller: nothing is kept, and nothing can be trusted.
        reserved: The places of the policy's other issuers within those of this one.

    Raises:
        StateFault: ``state.other_anchor``: the state is of another policy, anchor or origins, or
            a step leads past the pin.
        LocalFault: A step cannot be kept.
    """
    if state is not None and not state.is_of(issuer):
        raise StateFault(
            "state.other_anchor",
            f"{issuer.name!r} was met under another policy, anchor or origins",
        )
    about = (issuer, state, reserved, limits, supplied)
    if not historic and (known := _RESOLVED.find(about, now)) is not None:
        return known
    resolution = _Resolution(issuer, limits, supplied, state, now, keep, historic)
    trust = replace(resolution.result(), reserved=reserved)
    if not historic and (state is None or not resolution.has_kept):
        _RESOLVED.keep(about, trust)
    return trust


_About: TypeAlias = tuple[
    TrustedIssuer, IssuerState | None, tuple[Place, ...], Limits, SuppliedStatements
]
#: Reasons that another time takes away or words anew.
_TIMED: Final = frozenset(
    {"statement.not_yet", "statement.expired", "time.clock_behind", "time.historic"}
)


class _Resolved:
    """What was resolved before, one result for each issuer of each policy; for any threads."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, str], tuple[_About, IssuerTrust, float]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def find(self, about: _About, now: datetime) -> IssuerTrust | None:
        """The result of before, as of now."""
        before = self._found.get((about[0].policy, about[0].name))
        if before is None:
            return None
        then, trust, until = before
        is_same = all(one is other for one, other in zip(about[:3], then[:3], strict=True))
        if not is_same or about[3:] != then[3:]:
            return None
        return trust.at(now) if trust.now <= now and now.timestamp() < until else None

    def keep(self, about: _About, trust: IssuerTrust) -> None:
        """Keep a result if it holds for longer than this moment."""
        if any(reason.code in _TIMED for _, reason in trust.weighed):
            return
        name = about[0].policy, about[0].name
        with self._lock:
            if (before := self._found.pop(name, None)) is not None:
                self._bytes -= before[0][-1].size
            self._found[name] = about, trust, _until(trust)
            self._bytes += about[-1].size
            while len(self._found) > MAX_RESOLVED or self._bytes > MAX_RESOLVED_BYTES:
                _, oldest = self._found.popitem(last=False)
                self._bytes -= oldest[0][-1].size


def _until(trust: IssuerTrust) -> float:
    """The next time at which a statement or a key of it begins or ends, Unix seconds."""
    times: list[float] = [*trust.deadlines]
    for key in trust.keyset.keys if trust.keyset is not None else ():
        times += (key.nbf - trust.limits.skew, key.exp)
    return min((time for time in times if time > trust.now.timestamp()), default=inf)


#: Results; each holds the statements on which it rests, some 20 KiB.
MAX_RESOLVED: Final = 1024
#: Bytes of the statements supplied for them; a long history has 2 MiB.
MAX_RESOLVED_BYTES: Final = 16 * 1024 * 1024
_RESOLVED: Final = _Resolved()


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
    weighed: list[tuple[Weight, Reason]] = field(default_factory=list)
    has_kept: bool = False

    def __post_init__(self) -> None:
        self.skew = timedelta(seconds=self.limits.skew)
        self.state = self.given or IssuerState.begin(self.issuer)
        self.floor = rollback_floor(self.issuer, self.given)

    def result(self) -> IssuerTrust:
        """Everything, from top to bottom."""
        self.note(*self.state.notes)
        if self.historic:
            self.block(Reason.of("time.historic", f"the verdict is about {self.now.isoformat()}"))
        else:
            self.check_clock()
        match self.issuer.anchor:
            case KeysAnchor(keys, holders):
                return self.by_keys(keys, holders.get)
            case JwksAnchor(url):
                return self.by_jwks_of(url)
            case KeysetAnchor(pin, issuer):
                return self.by_keyset(pin, issuer)
            case TofuAnchor():
                return self.by_first_contact()

    def block(self, *reasons: Reason) -> None:
        """Nothing can be trusted."""
        self.weighed.extend(("blocks", reason) for reason in reasons)

    def hinder(self, *reasons: Reason) -> None:
        """It is not known whether a card is current."""
        self.weighed.extend(("hinders", reason) for reason in reasons)

    def note(self, *reasons: Reason) -> None:
        """Found, and decides nothing."""
        self.weighed.extend(("notes", reason) for reason in reasons)

    def by_keys(self, keys: JwkSet, holder_of: Callable[[str, str], str]) -> IssuerTrust:
        """Pinned keys; nothing else is read."""
        accepted = (AcceptedKey(key, holder_of(key.kid, "")) for key in keys.keys)
        return self._trust(accepted, unsupported=keys.unsupported)

    def by_jwks_of(self, url: str) -> IssuerTrust:
        """The key set of the one URL: as it came now, else as it is remembered."""
        if self.supplied.jwks_url == url:
            offered = self._offered_jwks()
            if offered is not None:
                self._keep(replace(self.state, jwks=offered))
        if self.state.jwks is None:
            missing = f"the key set at {url} is not at hand"
            hint = "Verify the URL of the card, or give the keys: cardsign verify CARD --jwks FILE"
            return self._without_source("trust.no_keys", missing, hint=hint)
        return self._bare(self.state.jwks)

    def by_keyset(self, pin: KeysetId | RootPin, issuer: str | None) -> IssuerTrust:
        """The newest keyset statement that can be reached from the anchor, and its release."""
        supplied = self.supplied
        keysets, releases, reasons = receive(
            supplied.untrusted_keysets, supplied.untrusted_releases, self.state.keyset
        )
        self.note(*reasons)
        keyset = self._walk(pin, issuer, keysets)
        if keyset is None:
            return self._without_source("trust.no_keys", "no keyset statement can be believed")
        chosen = self._choose(keyset, releases)
        revoked = self._revoked(keyset, chosen)
        origins = self._origins(keyset)
        if origins is None:
            return self._without_source("trust.no_keys", "the keyset statement names bad origins")
        holds = self._holds_now(keyset)
        ends = self._speaks_until(keyset, chosen, revoked) if holds else None
        return self._trust(
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

    def by_first_contact(self) -> IssuerTrust:
        """What was found at first contact; or this is it (threat 20)."""
        if self.state.first_contact is None and self.state.jwks is None and self.given is not None:
            places = self.issuer.places or ()
            pin, jwks, reasons = make_contact(
                self.supplied, self._offered_jwks(), places, now=self.now, skew=self.skew
            )
            if pin or jwks:
                found = f"keyset {pin.epoch}.{pin.version}" if pin else "a key set"
                self._tell("first contact with %s: %s found there is trusted from now on", found)
                self._keep(replace(self.state, first_contact=pin, jwks=jwks))
            self.note(*reasons)
        if self.state.first_contact is not None:
            return self.by_keyset(self.state.first_contact, None)
        if self.state.jwks is not None:
            return self._bare(self.state.jwks, offered=self._offered_jwks())
        none = "there was no contact yet; the first is made with the card's own origin, over TLS"
        return self._without_source("trust.no_first_contact", none)

    def _walk(
        self, pin: KeysetId | RootPin, issuer: str | None, keysets: Sequence[KeysetStatement]
    ) -> KeysetStatement | None:
        walk = Walk(self.now, self.skew, self._keep_keyset, self.floor)
        held = self.state.keyset
        try:
            if held is None:
                held = walk.from_anchor(pin, issuer, keysets)
            if held is not None:
                held = walk.onwards(held, keysets)
        except StatementRefused as refusal:
            self.block(Reason.of(refusal.code, refusal.message, hint=refusal.hint))
        self.note(*walk.reasons)
        return self.state.keyset or held

    def _choose(self, keyset: KeysetStatement, releases: Sequence[ReleaseStatement]) -> Chosen:
        """The newest release; a new one is kept."""
        chosen = choose_release(
            self.state.release,
            releases,
            keyset,
            self.floor,
            now=self.now,
            skew=self.skew,
        )
        self.note(*chosen.reasons)
        release = chosen.release
        if release is not None and release != self.state.release:
            newest = max(self.state.newest_iat, release.iat)
            self._tell("%s: an older release than %s is refused from now on", str(release.seq))
            self._keep(replace(self.state, release=release, newest_iat=newest))
        return chosen

    def _revoked(self, keyset: KeysetStatement, chosen: Chosen) -> frozenset[str]:
        try:
            return effective_revoked(keyset, chosen.release) | chosen.denied
        except StatementRefused as refusal:  # a release of the future, after a fork
            self.block(Reason.of(refusal.code, refusal.message))
            return keyset.revoked | chosen.denied

    def _holds_now(self, keyset: KeysetStatement) -> bool:
        """A keyset past its end is believed no more, whatever is waived (threat 5)."""
        exp = end_of(keyset, self.limits.keyset_age)
        try:
            what = "the newest keyset statement"
            check_times(keyset.iat, exp, now=self.now, skew=self.skew, what=what)
        except StatementRefused as refusal:
            self.block(Reason.of(refusal.code, refusal.message))
            return False
        return True

    def _speaks_until(
        self, keyset: KeysetStatement, chosen: Chosen, revoked: frozenset[str]
    ) -> int | None:
        """When the last signer of the release ends; None if it does not hold now."""
        release = chosen.release
        if chosen.contested is not None:
            self.hinder(chosen.contested)
        if release is None:
            missing = "there is no release statement, so nobody says which cards are current"
            self.hinder(Reason.of("trust.freshness_unknown", missing))
            return None
        try:
            check_release_floor(release, self.floor)
        except StatementRefused as refusal:  # it speaks against the card, and no policy waives that
            self.block(Reason.of(refusal.code, f"newest release: {refusal.message}"))
            return None
        try:
            counted = check_release(release, keyset, None, now=self.now, skew=self.skew)
            signers = counted.good - revoked
            if not signers:
                raise StatementRefused("statement.revoked", "its signer has been revoked")
        except StatementRefused as refusal:
            self.hinder(Reason.of(refusal.code, f"newest release: {refusal.message}"))
            return None
        try:
            exp = end_of(release, self.limits.release_age)
            what = "the newest release"
            check_times(release.iat, exp, now=self.now, skew=self.skew, what=what)
        except StatementRefused as refusal:
            self.hinder(Reason.of(refusal.code, refusal.message))
            return None
        return max(key.exp for key in keyset.keys if key.public.thumbprint in signers)

    def _origins(self, keyset: KeysetStatement) -> tuple[Origin, ...] | None:
        try:
            return tuple(parse_origin(origin) for origin in keyset.origins)
        except CardRefused as refusal:
            self.note(Reason.of(refusal.code, refusal.message, "/origins"))
            return None

    def check_clock(self) -> None:
        """A clock behind what was signed already revives what has expired (threat 19)."""
        newest = max(self.state.newest_iat, self.floor.newest_iat)
        behind = newest - self.limits.skew - self.now.timestamp()
        if behind > 0:
            when = datetime.fromtimestamp(newest, UTC).isoformat()
            self.block(
                Reason.of(
                    "time.clock_behind",
                    f"a statement of {when} was seen before, and this clock says "
                    f"{self.now.isoformat()}",
                )
            )

    def _keep_keyset(self, keyset: KeysetStatement) -> None:
        before, pin = self.state.keyset, pin_of(self.issuer.anchor)
        if before is not None and pin is not None and before.id < pin < keyset.id:
            past = f"the statements of {self.issuer.name!r} lead past the pin of its anchor"
            raise StateFault("state.other_anchor", past)
        self._tell("%s: keyset %s is trusted from now on", f"{keyset.epoch}.{keyset.version}")
        self._keep(self.state.with_keyset(keyset))

    def _tell(self, message: str, what: str) -> None:
        """Log what is remembered from now on; without states nothing is."""
        if self.given is not None and not self.historic:
            logger(__name__).info(message, self.issuer.name, what)

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
            self.note(Reason.of(refusal.code, refusal.message, hint=refusal.hint))
            return None

    def _without_source(self, code: str, message: str, *, hint: str = "") -> IssuerTrust:
        self.block(Reason.of(code, message, hint=hint))
        return replace(self._trust(()), has_source=False)

    def _bare(self, jwks: JwkSet, *, offered: JwkSet | None = None) -> IssuerTrust:
        """Keys of which nobody has said who holds them or how long they last."""
        keys = (AcceptedKey(key, "") for key in jwks.keys)
        return self._trust(keys, unsupported=jwks.unsupported, offered=offered)

    def _trust(
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
    ) -> IssuerTrust:
        if keyset is not None and self.given is None and self.issuer.floor is None:
            forgetful = "nothing is remembered of this issuer, so a rollback cannot be seen"
            self.hinder(Reason.of("state.none", forgetful))
        return IssuerTrust(
            issuer=self.issuer,
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
            weighed=tuple(self.weighed),
            signed_before=self.state.signed_before,
            state=None if self.given is None else self.state,
        )


# How an issuer stands by what is remembered of it alone, and what will need a person soon.


#: Seconds before a keyset statement ends: roots are offline, and their holders may be away.
KEYSET_NOTICE: Final = 14 * 24 * 3600


def outlook(
    issuer: TrustedIssuer, limits: Limits, state: IssuerState, *, now: datetime
) -> tuple[IssuerTrust, tuple[Reason, ...]]:
    """Look at what is remembered of an issuer; nothing is asked and nothing kept.

    Args:
        issuer: What the policy says of it.
        limits: The policy's.
        state: What is remembered.
        now: Aware.

    Returns:
        Who may speak for it, by what is remembered; and what keeps every card of it from being
        trusted, then what soon will.
    """
    trust = resolve_issuer(issuer, limits, NO_STATEMENTS, state, now=now)
    alarms = list(trust.blocks)
    if issuer.freshness == "required":
        alarms.extend(trust.hindrances)
    seconds = now.timestamp()
    keyset, release = trust.keyset, trust.release
    if release is not None and seconds - release.iat >= (release.exp - release.iat) / 2:
        late = f"release {release.seq} is past half of its time, and no newer one was seen"
        alarms.append(
            Reason.of(
                "peer.statement_ends",
                late,
                hint="Look for a newer one: cardsign peers verify. If there is none, ask the "
                "issuer.",
            )
        )
    if keyset is not None:
        left = end_of(keyset, limits.keyset_age) - seconds
        if 0 < left <= KEYSET_NOTICE:
            ends = f"keyset {keyset.epoch}.{keyset.version} ends in {left / 86400:.1f} days"
            alarms.append(
                Reason.of(
                    "peer.statement_ends",
                    ends,
                    hint="Look for a newer one: cardsign peers verify. If there is none, ask the "
                    "issuer.",
                )
            )
    return trust, tuple(dict.fromkeys(alarms))
