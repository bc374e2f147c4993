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
from typing import Any, Final, Literal, get_args

from cardsign.errors import CardsignError
from cardsign.files import list_names, make_directory, read_bytes, refuse_links, write_atomic
from cardsign.findings import Finding
from cardsign.jose.keys import JwkSet, SkippedKey
from cardsign.statements.envelope import check_times
from cardsign.statements.keyset import IssuerKey, KeysetId, KeysetStatement, read_keyset
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.times import minute
from cardsign.trust.lock import Floor
from cardsign.trust.policy import KeysAnchor, KeysetAnchor, Policy, TrustedIssuer, user_folder
from cardsign.trust.walk import (
    MAX_CHAIN_BYTES,
    MAX_STEPS,
    NO_STATEMENTS,
    SuppliedStatements,
    Walk,
    choose_release,
    noting,
    read_statements,
)
from cardsign.urls import Origin, Place, Url, parse_origin

#: What a reason is for: see the attributes of :class:`IssuerTrust`.
Weight = Literal["blocks", "hindrances", "notes"]
_WEIGHTS: Final[tuple[Weight, ...]] = get_args(Weight)
#: Reasons that the next question may take away or word differently.
_PASSING: Final = {
    *("statement.not_yet", "statement.expired", "time.clock_behind", "time.historic"),
    "statement.too_many",  # the walk goes on where it ended
}


@dataclass(frozen=True)
class IssuerTrust:
    """Who may speak for one issuer, by what right, and what leaves that open.

    Attributes:
        policy: Whose ceilings hold.
        issuer: What it says of the issuer.
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

    policy: Policy
    issuer: TrustedIssuer
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
        ends = (end_of(statement, self.policy) for statement in used)
        return (*ends, *([] if self.release_ends is None else [self.release_ends]))

    def next_change(self, now: float) -> float:
        """Return the next time at which a statement or a key begins or ends, Unix seconds."""
        times: list[float] = [*self.deadlines]
        for key in self.keys if self.keyset is not None else ():
            times += (key.nbf - self.policy.skew, key.exp)
        return min((time for time in times if time > now), default=inf)


def end_of(statement: KeysetStatement | ReleaseStatement, policy: Policy) -> int:
    """Return when a statement ends for us: its `exp`, or at the age that a policy allows."""
    is_keyset = isinstance(statement, KeysetStatement)
    age = policy.keyset_age if is_keyset else policy.release_age
    return statement.exp if age is None else min(statement.exp, statement.iat + age)


class Session:
    """What one verifier knows of one issuer. For any number of threads.

    Attributes:
        policy: Whose ceilings hold.
        issuer: What it says of the issuer.
        locked: What the lock says of it.
        behind: What is noted once more was verified than the lock records, if anything.
        keyset: The newest keyset statement so far.
        release: The newest release statement so far.
        jwks: The newest key set of a `jwks` anchor so far.
        passed: The keyset statements from the anchor to the newest, in order.
        verdicts: The last trusted verdict on each URL, for :mod:`cardsign.verify.verifier`.
        cards: URLs at which a trusted card was seen; it may not vanish from there.
        guard: Held by whoever asks.
    """

    def __init__(
        self,
        policy: Policy,
        issuer: TrustedIssuer,
        locked: Floor | None = None,
        *,
        behind: Finding | None = None,
        cache: Path | None = None,
    ) -> None:
        self.policy, self.issuer, self.reserved = policy, issuer, policy.reserved_from(issuer)
        self.locked, self.behind, self.cache = locked or Floor(), behind, cache
        self.skew = timedelta(seconds=policy.skew)
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
            reason = Finding("time.historic", f"the verdict is about {now.isoformat()}")
            apart._reasons["blocks"].append(reason)
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
            add_to_cache(self.cache, anchor, self.passed, self.release)
        is_passing = any(reason.code in _PASSING for reason in chain(*self._reasons.values()))
        until = seconds if is_passing else trust.next_change(seconds)
        self._resolved = (statements, trust, seconds, until)
        return trust

    def _ask_anchor(self, statements: SuppliedStatements, now: datetime) -> IssuerTrust:
        """Return the result, by the one source of keys that the anchor names."""
        anchor = self.issuer.anchor
        if isinstance(anchor, KeysAnchor):
            return self._by_keys(anchor.keys, anchor.holders)
        if isinstance(anchor, Url):
            return self._by_jwks(str(anchor), statements)
        return self._by_keyset(anchor, statements, now)

    def _by_jwks(self, url: str, statements: SuppliedStatements) -> IssuerTrust:
        """Return the keys of the URL's set: as it came now, or as this process saw it last."""
        if statements.jwks_url == url:
            self.jwks = self._read_jwks(statements) or self.jwks
        if self.jwks is None:
            return self._without_source(f"the key set at {url} is not at hand")
        return self._by_keys(self.jwks, {})

    def _by_keys(self, jwks: JwkSet, holders: Mapping[str, str]) -> IssuerTrust:
        """Return the keys of a set, as far as they say themselves that they may be used."""
        keys = (
            IssuerKey(key, ("card",), holders.get(key.kid, ""), key.nbf, key.exp)
            for key in jwks.keys
        )
        revoked = frozenset(key.thumbprint for key in jwks.keys if key.revoked)
        return self._trust(keys, unsupported=jwks.skipped, revoked=revoked)

    def _by_keyset(
        self, anchor: KeysetAnchor, statements: SuppliedStatements, now: datetime
    ) -> IssuerTrust:
        """Return what the newest keyset and the newest release say."""
        releases = self._walk(anchor, statements, now)
        if self.keyset is None:
            return self._without_source("no keyset statement can be accepted")
        keyset, locked, reasons, notes = self.keyset, self.locked, self._reasons, list[Finding]()
        self.release, revoked, contested = choose_release(
            self.release, releases, keyset, locked, notes, now=now, skew=self.skew
        )
        reasons["notes"] += notes
        ends = None
        if not self._is_over(keyset, now, "blocks", "the newest keyset statement"):
            if contested is not None:
                reasons["hindrances"].append(contested)
            ends = self._release_ends(keyset, revoked, now)
        if self.behind is not None and not reasons["blocks"] and self.floor != self.locked:
            reasons["notes"].append(self.behind)
        return self._trust(
            keyset.keys,
            offered=self._read_jwks(statements),
            keyset=keyset,
            release=self.release if ends is not None else None,
            release_ends=ends,
            revoked=revoked,
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
        cached = NO_STATEMENTS if self.cache is None else read_cache(self.cache, anchor, after)
        kept = read_statements(cached.untrusted_keysets, read_keyset, [], self.keyset)
        steps = MAX_STEPS + len(kept)
        walk = Walk([*keysets, *kept], self.locked, now, self.skew, max_steps=steps)
        with noting(self._reasons["blocks"]):
            start = self.keyset or walk.begin(anchor.pin, anchor.issuer)
            if start is not None:
                walk.onward(start)
        self._reasons["notes"] += (*notes, *walk.reasons)
        self.passed += tuple(walk.passed)
        self.keyset = walk.passed[-1] if walk.passed else self.keyset
        cached_releases = read_statements(cached.untrusted_releases, read_release, [])
        newest = self.keyset and self.keyset.id
        return releases + [release for release in cached_releases if release.keyset == newest]

    def _release_ends(
        self, keyset: KeysetStatement, revoked: frozenset[str], now: datetime
    ) -> int | None:
        """Return when the last signer of the release ends; None if it is not in force."""
        release, reasons, name = self.release, self._reasons, "the newest release"
        if release is None:
            message = "there is no release statement, so it is unknown which cards are current"
            reasons["hindrances"].append(Finding("trust.freshness_unknown", message))
            return None
        with noting(reasons["blocks"], name):
            self.locked.check(release)
            with noting(reasons["hindrances"], name):
                signers = check_release(
                    release, keyset, None, now=now, skew=self.skew, revoked=revoked
                )
                if not self._is_over(release, now, "hindrances", name):
                    keys = (key for key in keyset.keys if key.public.thumbprint in signers)
                    return max(key.exp for key in keys)
        return None

    def _is_over(
        self,
        statement: KeysetStatement | ReleaseStatement,
        now: datetime,
        weight: Weight,
        name: str,
    ) -> bool:
        """Return whether a statement is not in force, and weigh why."""
        end = end_of(statement, self.policy)
        count = len(self._reasons[weight])
        with noting(self._reasons[weight]):
            check_times(statement.iat, end, now=now, skew=self.skew, name=name)
        return len(self._reasons[weight]) > count

    def _check_clock(self, now: datetime) -> None:
        """Block everything if the clock is behind what was signed already."""
        if self.newest_iat - now.timestamp() > self.policy.skew:
            message = f"a statement of {minute(self.newest_iat)} was seen before, "
            message += f"and this clock says {minute(now)}"
            self._reasons["blocks"].append(Finding("time.clock_behind", message))

    def _read_jwks(self, statements: SuppliedStatements) -> JwkSet | None:
        if statements.untrusted_jwks is not None:
            with noting(self._reasons["notes"]):
                return JwkSet.from_bytes(statements.untrusted_jwks)
        return None

    def _without_source(self, message: str) -> IssuerTrust:
        self._reasons["blocks"].append(Finding("trust.no_keys", message))
        return self._trust((), has_source=False)

    def _trust(self, keys: Iterable[IssuerKey], **members: Any) -> IssuerTrust:
        reasons: dict[Any, Any] = {weight: tuple(self._reasons[weight]) for weight in _WEIGHTS}
        return IssuerTrust(
            self.policy, self.issuer, tuple(keys), reserved=self.reserved, **reasons, **members
        )


# Signed statements kept in the user's cache folder (decision F6, L6). What is read is verified
# again, so a poisoned file costs time and nothing else. Whatever cannot be read is empty. A file is
# written once under a name that says what is in it, so no process takes back what another kept.

#: Bytes of all files that are read of an anchor: more than a walk reads.
MAX_CACHE_BYTES: Final = 8 * 1024 * 1024
_ODD: Final = (OSError, ValueError, TypeError, AttributeError, RecursionError, CardsignError)


def user_cache() -> Path | None:
    """Return the cache in the user's cache folder; None where this user has none."""
    folder = user_folder("CACHE")
    return None if folder is None else folder / "statements"


def read_cache(cache: Path, anchor: KeysetAnchor, after: str = "") -> SuppliedStatements:
    """Return the statements kept for an anchor, oldest first, without what is odd.

    Of the files of keysets only those are read whose names come after that one.
    """
    folder, remaining = cache / cache_name(anchor), MAX_CACHE_BYTES
    keysets, releases, names = list[bytes](), list[bytes](), list[str]()
    with suppress(*_ODD):
        refuse_links(cache, folder / "file")
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


def add_to_cache(
    cache: Path,
    anchor: KeysetAnchor,
    passed: Sequence[KeysetStatement],
    release: ReleaseStatement | None,
) -> None:
    """Keep those keysets that are not kept yet, and a release in place of older ones.

    Keysets beyond those that a walk reads are not kept. Nothing happens where the folder cannot
    be written.
    """
    folder, kept = cache / cache_name(anchor), read_cache(cache, anchor)
    present = {*kept.untrusted_keysets, *kept.untrusted_releases}
    with suppress(OSError, CardsignError):
        make_directory(folder, mode=0o700)
        refuse_links(cache, folder / "file")
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
    roots = repr((anchor.issuer, pin.threshold, sorted(pin.holders)))
    return hashlib.sha256(roots.encode()).hexdigest()


def _name(keyset: KeysetStatement) -> str:
    return f"{keyset.epoch:016}.{keyset.version:016}.{keyset.digest}.json"


def _write(path: Path, statements: Sequence[KeysetStatement | ReleaseStatement]) -> None:
    texts = [statement.envelope.to_bytes().decode() for statement in statements]
    write_atomic(path, json.dumps(texts).encode(), mode=0o600, plain=True)
