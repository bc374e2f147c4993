"""The session of one issuer: who may speak for it until the next deadline (V4, V5, K8 to K11)."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

from cardsign.errors import CardsignError, KeyRefused, UsageFault
from cardsign.files import list_names, make_directory, read_bytes, refuse_links, write_atomic
from cardsign.findings import Finding
from cardsign.jose.keys import JwkSet, SkippedKey
from cardsign.statements.envelope import StatementRefused, check_times
from cardsign.statements.keyset import IssuerKey, KeysetId, KeysetStatement, read_keyset
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.times import minute
from cardsign.trust.lock import Floor
from cardsign.trust.policy import (
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    TrustedIssuer,
    user_folder,
)
from cardsign.trust.walk import (
    MAX_CHAIN_BYTES,
    MAX_STEPS,
    NO_STATEMENTS,
    ReleaseChoice,
    SuppliedStatements,
    Walk,
    choose_release,
    explain_refusal,
    read_statements,
)
from cardsign.urls import Origin, Place, parse_origin

#: What a reason is for: see the attributes of :class:`IssuerTrust`.
Weight = Literal["blocks", "hindrances", "notes"]
#: Reasons that the next question may take away or word differently.
_PASSING: Final = {
    *("statement.not_yet", "statement.expired", "time.clock_behind", "time.historic"),
    "statement.too_many",  # the walk goes on where it ended
}


@dataclass(frozen=True)
class IssuerTrust:
    """Who may speak for one issuer, by what right, and what leaves that open.

    Attributes:
        issuer: What the policy says.
        limits: The policy's ceilings.
        keys: All keys of the anchor's source; the verdict asks for their times.
        has_source: Whether the source answered.
        unsupported: The keys of the source that are for another purpose.
        offered: A published key set that the source does not endorse.
        revoked: Thumbprints of keys whose signatures never count.
        origins: Where the keyset statement lets interfaces stand.
        keyset: The newest keyset statement.
        release: The newest release statement, if it is in force.
        release_ends: When the last key ends that signed the release.
        blocks: Why nothing can be trusted, whatever is waived.
        hindrances: Why it is unknown whether a card is current.
        notes: What else was found; it decides nothing.
        reserved: The places of other issuers.
    """

    issuer: TrustedIssuer
    limits: Limits
    keys: tuple[IssuerKey, ...] = ()
    has_source: bool = True
    unsupported: tuple[SkippedKey, ...] = ()
    offered: JwkSet | None = None
    revoked: frozenset[str] = frozenset()
    origins: tuple[Origin, ...] | None = None
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    release_ends: int | None = None
    blocks: tuple[Finding, ...] = ()
    hindrances: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    reserved: tuple[Place, ...] = ()

    @cached_property
    def keys_by_kid(self) -> Mapping[str, IssuerKey]:
        """The keys by kid, which is a hint and proves nothing."""
        return {key.public.kid: key for key in reversed(self.keys)}

    @cached_property
    def deadlines(self) -> tuple[int, ...]:
        """When the statements end, Unix seconds."""
        used = (statement for statement in (self.keyset, self.release) if statement is not None)
        ends = (end_of(statement, self.limits) for statement in used)
        return (*ends, *([] if self.release_ends is None else [self.release_ends]))

    def next_change(self, now: float) -> float:
        """Return the next time at which a statement or a key begins or ends, Unix seconds."""
        times: list[float] = [*self.deadlines]
        for key in self.keys if self.keyset is not None else ():
            times += (key.nbf - self.limits.skew, key.exp)
        return min((time for time in times if time > now), default=inf)


def end_of(statement: KeysetStatement | ReleaseStatement, limits: Limits) -> int:
    """Return when a statement ends for us: its `exp`, or at the age that a policy allows."""
    is_keyset = isinstance(statement, KeysetStatement)
    age = limits.keyset_age if is_keyset else limits.release_age
    return statement.exp if age is None else min(statement.exp, statement.iat + age)


class Session:
    """What one verifier knows of one issuer. For any number of threads.

    Attributes:
        issuer: What the policy says of it.
        locked: What the lock says of it.
        behind: What is noted once more was verified than the lock records, if anything.
        keyset: The newest keyset statement so far.
        release: The newest release statement so far.
        jwks: The newest key set of a `jwks` anchor so far.
        passed: The keyset statements from the anchor to the newest, in order.
        verdicts: The last trusted verdict on each subject, for :mod:`cardsign.verify.verifier`.
        cards: URLs at which a trusted card was seen; it may not vanish from there.
        guard: Held by whoever asks.
    """

    def __init__(
        self,
        issuer: TrustedIssuer,
        limits: Limits,
        reserved: tuple[Place, ...] = (),
        locked: Floor | None = None,
        *,
        behind: Finding | None = None,
        cache: StatementCache | None = None,
    ) -> None:
        self.issuer, self.limits, self.reserved = issuer, limits, reserved
        self.locked, self.behind, self.cache = locked or Floor(), behind, cache
        self.skew = timedelta(seconds=limits.skew)
        self.newest_iat = self.locked.newest_iat
        self.keyset: KeysetStatement | None = None
        self.release: ReleaseStatement | None = None
        self.jwks: JwkSet | None = None
        self.passed: tuple[KeysetStatement, ...] = ()
        self.verdicts: dict[Any, Any] = {}
        self.cards: set[str] = set()
        self.guard = threading.RLock()
        self._resolved: tuple[SuppliedStatements, IssuerTrust, float, float] | None = None
        self._reasons: defaultdict[Weight, list[Finding]] = defaultdict(list)

    @property
    def floor(self) -> Floor:
        """The lock's entry, raised to what this session has verified."""
        if self.keyset is None:
            return self.locked
        return self.locked.with_statements(self.keyset, self.release)

    @property
    def seen(self) -> SuppliedStatements:
        """The statements from the anchor to the newest keyset, and the newest release."""
        releases = (self.release,) if self.release is not None else ()
        return SuppliedStatements(
            tuple(keyset.envelope.to_bytes() for keyset in self.passed),
            tuple(release.envelope.to_bytes() for release in releases),
        )

    def resolve(
        self, statements: SuppliedStatements, now: datetime, *, historic: bool = False
    ) -> IssuerTrust:
        """Return who may speak for the issuer now.

        The same statements until the next deadline give the same object. Nothing in them raises.
        A time of the caller's choice leaves nothing behind.
        """
        if historic:
            apart = copy(self)
            apart._reasons = defaultdict(list)
            message = f"the verdict is about {now.isoformat()}"
            apart._weigh("blocks", Finding("time.historic", message))
            return apart._ask_anchor(statements, now)
        seconds = now.timestamp()
        if self._resolved is not None:
            last, trust, since, until = self._resolved
            if since <= seconds < until and (last is statements or last == statements):
                return trust
        self._reasons.clear()
        keyset, release = self.keyset, self.release
        self._check_clock(now)
        trust = self._ask_anchor(statements, now)
        used = (statement for statement in (self.keyset, self.release) if statement is not None)
        self.newest_iat = max(self.newest_iat, *(statement.iat for statement in used), 0)
        anchor, is_newer = self.issuer.anchor, (keyset, release) != (self.keyset, self.release)
        if self.cache is not None and is_newer and isinstance(anchor, KeysetAnchor):
            self.cache.keep(anchor, self.passed, self.release)
        is_passing = any(reason.code in _PASSING for reason in chain(*self._reasons.values()))
        until = seconds if is_passing else trust.next_change(seconds)
        self._resolved = (statements, trust, seconds, until)
        return trust

    def _ask_anchor(self, statements: SuppliedStatements, now: datetime) -> IssuerTrust:
        """Return the result, by the one source of keys that the anchor names."""
        anchor = self.issuer.anchor
        if isinstance(anchor, KeysAnchor):
            return self._by_keys(anchor.keys, anchor.holders)
        if isinstance(anchor, JwksAnchor):
            return self._by_jwks(anchor.url, statements)
        return self._by_keyset(anchor, statements, now)

    def _by_jwks(self, url: str, statements: SuppliedStatements) -> IssuerTrust:
        """Return the keys of the URL's set: as it came now, or as this process saw it last."""
        if statements.jwks_url == url:
            self.jwks = self._read_jwks(statements) or self.jwks
        if self.jwks is None:
            hint = "Verify the URL of the card, or give the keys: cardsign verify CARD --jwks FILE."
            hint += " For verify --serve, which fetches nothing, pin keys or a keyset: cardsign "
            hint += f"trust remove {self.issuer.name}, then cardsign trust add URL"
            return self._without_source(f"the key set at {url} is not at hand", hint)
        return self._by_keys(self.jwks, {})

    def _by_keys(self, jwks: JwkSet, holders: Mapping[str, str]) -> IssuerTrust:
        """Return the keys of a set, as far as they say themselves that they may be used."""
        keys = (
            IssuerKey(key, ("card",), holders.get(key.kid, ""), key.validity.nbf, key.validity.exp)
            for key in jwks.keys
        )
        revoked = frozenset(key.thumbprint for key in jwks.keys if key.validity.revoked)
        return self._trust(keys, unsupported=jwks.skipped, revoked=revoked)

    def _by_keyset(
        self, anchor: KeysetAnchor, statements: SuppliedStatements, now: datetime
    ) -> IssuerTrust:
        """Return what the newest keyset and the newest release say."""
        releases = self._walk(anchor, statements, now)
        if self.keyset is None:
            return self._without_source("no keyset statement can be accepted")
        keyset, locked = self.keyset, self.locked.release
        choice = choose_release(self.release, releases, keyset, locked, now=now, skew=self.skew)
        self._weigh("notes", *choice.notes)
        self.release = choice.release
        ends = None if self._is_over(keyset, now) else self._release_ends(keyset, choice, now)
        is_raised = not self._reasons["blocks"] and self.floor != self.locked
        if self.behind is not None and is_raised:
            self._weigh("notes", self.behind)
        return self._trust(
            keyset.keys,
            offered=self._read_jwks(statements),
            keyset=keyset,
            release=self.release if ends is not None else None,
            release_ends=ends,
            revoked=choice.revoked,
            origins=tuple(map(parse_origin, keyset.origins)),
        )

    def _walk(
        self, anchor: KeysetAnchor, statements: SuppliedStatements, now: datetime
    ) -> list[ReleaseStatement]:
        """Go on to the newest keyset; return the releases at hand."""
        notes: list[Finding] = []
        keysets = read_statements(statements.untrusted_keysets, read_keyset, notes, self.keyset)
        releases = read_statements(statements.untrusted_releases, read_release, notes)
        after = "" if self.keyset is None else _name(self.keyset)
        cached = NO_STATEMENTS if self.cache is None else self.cache.get(anchor, after)
        kept = read_statements(cached.untrusted_keysets, read_keyset, [], self.keyset)
        steps = MAX_STEPS + len(kept)
        walk = Walk([*keysets, *kept], self.locked, now, self.skew, max_steps=steps)
        try:
            start = self.keyset or walk.begin(anchor.pin, anchor.issuer)
            if start is not None:
                walk.onward(start)
        except StatementRefused as refusal:
            self._weigh("blocks", explain_refusal(refusal))
        self._weigh("notes", *notes, *walk.reasons)
        self.passed += tuple(walk.passed)
        self.keyset = walk.passed[-1] if walk.passed else self.keyset
        cached_releases = read_statements(cached.untrusted_releases, read_release, [])
        newest = self.keyset and self.keyset.id
        return releases + [release for release in cached_releases if release.keyset == newest]

    def _release_ends(
        self, keyset: KeysetStatement, choice: ReleaseChoice, now: datetime
    ) -> int | None:
        """Return when the last signer of the release ends; None if it is not in force."""
        release = choice.release
        if choice.contested is not None:
            self._weigh("hindrances", choice.contested)
        if release is None:
            message = "there is no release statement, so it is unknown which cards are current"
            self._weigh("hindrances", Finding("trust.freshness_unknown", message))
            return None
        weight: Weight = "blocks"
        try:
            if self.locked.release is not None:
                self.locked.release.check(release)
            weight = "hindrances"
            signers = check_release(
                release, keyset, None, now=now, skew=self.skew, revoked=choice.revoked
            )
        except StatementRefused as refusal:
            self._weigh(weight, explain_refusal(refusal, "the newest release"))
            return None
        if self._is_over(release, now):
            return None
        return max(key.exp for key in keyset.keys if key.public.thumbprint in signers)

    def _is_over(self, statement: KeysetStatement | ReleaseStatement, now: datetime) -> bool:
        """Return whether a statement is not in force, and weigh why."""
        is_keyset, end = isinstance(statement, KeysetStatement), end_of(statement, self.limits)
        name = "the newest keyset statement" if is_keyset else "the newest release"
        try:
            check_times(statement.iat, end, now=now, skew=self.skew, name=name)
        except StatementRefused as refusal:
            self._weigh("blocks" if is_keyset else "hindrances", explain_refusal(refusal))
            return True
        return False

    def _check_clock(self, now: datetime) -> None:
        """Block everything if the clock is behind what was signed already."""
        newest = self.newest_iat
        if newest - now.timestamp() <= self.limits.skew:
            return
        message = f"a statement of {minute(newest)} was seen before, and this clock says "
        hint = ""
        if newest == self.locked.newest_iat:
            hint = "Set the clock. If it is right, the lock is wrong: restore trust.lock from "
            hint += "version control."
        self._weigh("blocks", Finding("time.clock_behind", message + minute(now), fix=hint))

    def _read_jwks(self, statements: SuppliedStatements) -> JwkSet | None:
        if statements.untrusted_jwks is None:
            return None
        try:
            return JwkSet.from_bytes(statements.untrusted_jwks)
        except KeyRefused as refusal:
            self._weigh("notes", explain_refusal(refusal))
            return None

    def _weigh(self, weight: Weight, *reasons: Finding) -> None:
        self._reasons[weight].extend(reasons)

    def _without_source(self, message: str, hint: str = "") -> IssuerTrust:
        self._weigh("blocks", Finding("trust.no_keys", message, fix=hint))
        return self._trust((), has_source=False)

    def _trust(self, keys: Iterable[IssuerKey], **members: Any) -> IssuerTrust:
        return IssuerTrust(
            self.issuer,
            self.limits,
            tuple(keys),
            blocks=tuple(self._reasons["blocks"]),
            hindrances=tuple(self._reasons["hindrances"]),
            notes=tuple(self._reasons["notes"]),
            reserved=self.reserved,
            **members,
        )


#: Seconds before a keyset statement ends: roots are offline, and their holders may be away.
KEYSET_NOTICE: Final = 14 * 24 * 3600


def look_ahead(session: Session, now: datetime) -> tuple[IssuerTrust, tuple[Finding, ...]]:
    """Return who may speak for an issuer by what is known here, and what needs a person.

    Nothing is asked.
    """
    issuer, limits = session.issuer, session.limits
    trust = session.resolve(NO_STATEMENTS, now)
    if isinstance(issuer.anchor, JwksAnchor):  # its keys are asked for with each card
        return trust, ()
    alarms = [*trust.blocks, *(trust.hindrances if issuer.freshness == "required" else ())]
    keyset, release = trust.keyset, trust.release
    ending = []
    if release is not None and now >= release.renew_at:
        ending.append(f"release {release.seq} is past half of its time, and no newer one was seen")
    if keyset is not None:
        remaining = end_of(keyset, limits) - now.timestamp()
        if 0 < remaining <= KEYSET_NOTICE:
            ending.append(f"keyset {keyset.label} ends in {remaining / 86400:.1f} days")
    hint = f"Look for a newer one: cardsign peers verify {issuer.name}. "
    hint += "If there is none, ask the issuer."
    alarms += [Finding("peer.statement_ends", ends, fix=hint) for ends in ending]
    return trust, tuple(dict.fromkeys(alarms))


# Signed statements kept in the user's cache folder (decision F6, L6). What is read is verified
# again, so a poisoned file costs time and nothing else. Whatever cannot be read is empty. A file is
# written once under a name that says what is in it, so no process takes back what another kept.

#: Bytes of all files that are read of an anchor: more than a walk reads.
MAX_CACHE_BYTES: Final = 8 * 1024 * 1024
_ODD: Final = (OSError, ValueError, TypeError, AttributeError, RecursionError, CardsignError)


class StatementCache:
    """The cache in one folder, with a folder for each anchor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_user(cls) -> StatementCache | None:
        """Return the cache in the user's cache folder; None where this user has none."""
        with suppress(UsageFault):
            return cls(user_folder("CACHE") / "statements")
        return None

    def get(self, anchor: KeysetAnchor, after: str = "") -> SuppliedStatements:
        """Return the statements kept for an anchor, oldest first, without what is odd.

        Of the files of keysets only those are read whose names come after that one.
        """
        folder, remaining = self.folder / cache_name(anchor), MAX_CACHE_BYTES
        keysets, releases, names = list[bytes](), list[bytes](), list[str]()
        with suppress(*_ODD):
            refuse_links(self.folder, folder / "file")
            names = [name for name in list_names(folder) if "-" in name or name > after]
        for path in map(folder.joinpath, names):
            with suppress(*_ODD):
                if hasattr(os, "geteuid") and path.lstat().st_uid != os.geteuid():
                    continue
                data = read_bytes(path, max_bytes=remaining, plain=True)
                remaining -= len(data)
                statements = releases if "-" in path.name else keysets
                statements += [text.encode() for text in json.loads(data)]
        return SuppliedStatements(tuple(keysets), tuple(releases))

    def keep(
        self,
        anchor: KeysetAnchor,
        passed: Sequence[KeysetStatement],
        release: ReleaseStatement | None,
    ) -> None:
        """Keep those keysets that are not kept yet, and a release in place of older ones.

        Keysets beyond those that a walk reads are not kept. Nothing happens where the folder
        cannot be written.
        """
        folder, kept = self.folder / cache_name(anchor), self.get(anchor)
        present = {*kept.untrusted_keysets, *kept.untrusted_releases}
        with suppress(OSError, CardsignError):
            make_directory(folder, mode=0o700)
            refuse_links(self.folder, folder / "file")
            keysets = [keyset for keyset in passed if keyset.envelope.to_bytes() not in present]
            if keysets and sum(map(len, kept.untrusted_keysets)) < MAX_CHAIN_BYTES:
                _write(folder / _name(keysets[-1]), keysets)
            if release is not None and release.envelope.to_bytes() not in present:
                name = "-".join(f"{number:016}" for number in release.order)
                _write(folder / f"{name}-{release.digest}.json", [release])
                for older in folder.glob("*-*.json"):
                    if older.name < name:
                        older.unlink()


def cache_name(anchor: KeysetAnchor) -> str:
    """Return the name under which the cache holds the statements of an anchor."""
    pin = anchor.pin
    if isinstance(pin, KeysetId):
        return pin.digest
    pairs = " ".join(sorted(f"{thumbprint}:{holder}" for thumbprint, holder in pin.holders))
    return hashlib.sha256(f"roots {anchor.issuer} {pin.threshold} {pairs}".encode()).hexdigest()


def _name(keyset: KeysetStatement) -> str:
    return f"{keyset.epoch:016}.{keyset.version:016}.{keyset.digest}.json"


def _write(path: Path, statements: Sequence[KeysetStatement | ReleaseStatement]) -> None:
    texts = [statement.envelope.to_bytes().decode() for statement in statements]
    write_atomic(path, json.dumps(texts).encode(), mode=0o600, plain=True)
