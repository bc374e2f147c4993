"""The session of one issuer: who may speak for it until the next deadline (V4, V5, K8 to K11)."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Final

from cardsign import files
from cardsign.errors import CardsignError
from cardsign.findings import Finding
from cardsign.jose.keys import JwkSet, SkippedKey
from cardsign.statements.envelope import check_times
from cardsign.statements.keyset import IssuerKey, KeysetId, KeysetStatement, read_keyset
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.times import minute
from cardsign.trust.lock import Floor
from cardsign.trust.policy import KeysAnchor, KeysetAnchor, Policy, TrustedIssuer
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
from cardsign.urls import Origin, Place, parse_origin

#: Reasons that the next question may take away or word differently.
_PASSING: Final = {
    *("statement.not_yet", "statement.expired", "time.clock_behind", "time.historic"),
    "statement.too_many",  # the walk goes on where it ended
}


@dataclass
class IssuerTrust:
    """Who may speak for one issuer, by what right, and what leaves that open.

    A session fills it in; nothing changes it later.

    Attributes:
        policy: Whose ceilings hold.
        issuer: What it says of the issuer.
        reserved: The places of other issuers.
        keys: All keys of the anchor's source; the verdict asks for their times.
        unsupported: The keys of the source that are for another purpose.
        offered: A published key set that the source does not endorse.
        revoked: Thumbprints of keys whose signatures never count.
        origins: Where the keyset statement lets interfaces stand.
        keyset: The newest keyset statement.
        release: The newest release statement, if it is in force.
        deadlines: When these statements end, and the last key that signed the release.
        blocks: Why nothing can be trusted, whatever is waived.
        hindrances: Why it is unknown whether a card is current.
        notes: What else was found; it decides nothing.
    """

    policy: Policy
    issuer: TrustedIssuer
    reserved: tuple[Place, ...]
    keys: tuple[IssuerKey, ...] = ()
    unsupported: tuple[SkippedKey, ...] = ()
    offered: JwkSet | None = None
    revoked: frozenset[str] = frozenset()
    origins: tuple[Origin, ...] | None = None
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    deadlines: tuple[int, ...] = ()
    blocks: list[Finding] = field(default_factory=list)
    hindrances: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    @cached_property
    def keys_by_kid(self) -> Mapping[str, IssuerKey]:
        """The keys by kid, which is a hint and proves nothing."""
        return {key.public.kid: key for key in reversed(self.keys)}

    def next_change(self, now: float) -> float:
        """Return the next time at which a statement or a key begins or ends, Unix seconds."""
        times: list[float] = [*self.deadlines]
        for key in self.keys if self.keyset is not None else ():
            times += (key.nbf - self.policy.skew, key.exp)
        return min((time for time in times if time > now), default=inf)


def end_of(statement: KeysetStatement | ReleaseStatement, policy: Policy) -> int:
    """Return when a statement ends for us: its `exp`, or at the age that a policy allows."""
    age = policy.keyset_age if isinstance(statement, KeysetStatement) else policy.release_age
    return statement.exp if age is None else min(statement.exp, statement.iat + age)


class Session:
    """What one verifier knows of one issuer. For any number of threads.

    Attributes:
        policy: Whose ceilings hold.
        issuer: What it says of the issuer.
        locked: What the lock says of it.
        lock: The lock to name once newer statements were verified than it records; or None.
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
        lock: Path | None = None,
        cache: Path | None = None,
    ) -> None:
        self.policy, self.issuer, self.reserved = policy, issuer, policy.reserved_from(issuer)
        self.locked, self.lock, self.cache = locked or Floor(), lock, cache
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
        trust = IssuerTrust(self.policy, self.issuer, self.reserved)
        if historic:
            trust.blocks.append(Finding("time.historic", f"the verdict is about {now.isoformat()}"))
            copy(self)._ask_anchor(trust, statements, now)
            return trust
        seconds = now.timestamp()
        if self._resolved is not None:
            last, resolved, since, until = self._resolved
            if since <= seconds < until and (last is statements or last == statements):
                return resolved
        keyset, release = self.keyset, self.release
        if self.newest_iat - seconds > self.policy.skew:
            message = f"a statement of {minute(self.newest_iat)} was seen before, "
            message += f"and this clock says {minute(now)}"
            trust.blocks.append(Finding("time.clock_behind", message))
        self._ask_anchor(trust, statements, now)
        used = (statement for statement in (self.keyset, self.release) if statement is not None)
        self.newest_iat = max(self.newest_iat, *(statement.iat for statement in used), 0)
        anchor, is_newer = self.issuer.anchor, (keyset, release) != (self.keyset, self.release)
        if self.cache is not None and is_newer and isinstance(anchor, KeysetAnchor):
            add_to_cache(self.cache, anchor, self.passed, self.release)
        reasons = chain(trust.blocks, trust.hindrances, trust.notes)
        is_passing = any(reason.code in _PASSING for reason in reasons)
        until = seconds if is_passing else trust.next_change(seconds)
        self._resolved = (statements, trust, seconds, until)
        return trust

    def _ask_anchor(
        self, trust: IssuerTrust, statements: SuppliedStatements, now: datetime
    ) -> None:
        """Fill in the result, by the one source of keys that the anchor names."""
        anchor = self.issuer.anchor
        if isinstance(anchor, KeysetAnchor):
            self._use_keyset(trust, anchor, statements, now)
        elif isinstance(anchor, KeysAnchor):
            _use_keys(trust, anchor.keys, anchor.holders)
        else:  # the URL's key set, as it came now, or as this process saw it last
            if statements.jwks_url == str(anchor):
                self.jwks = _read_jwks(trust, statements) or self.jwks
            if self.jwks is not None:
                _use_keys(trust, self.jwks, {})
            else:
                message = f"the key set at {anchor} is not at hand"
                trust.blocks.append(Finding("trust.no_keys", message))

    def _use_keyset(
        self,
        trust: IssuerTrust,
        anchor: KeysetAnchor,
        statements: SuppliedStatements,
        now: datetime,
    ) -> None:
        """Fill in what the newest keyset and the newest release say."""
        releases = self._walk(trust, anchor, statements, now)
        if self.keyset is None:
            no_keys = Finding("trust.no_keys", "no keyset statement can be accepted")
            trust.blocks += (*trust.notes, no_keys)  # the causes first
            return
        trust.keyset = keyset = self.keyset
        self.release, trust.revoked, contested = choose_release(
            self.release, releases, keyset, self.locked, trust.notes, now=now, skew=self.skew
        )
        trust.keys, trust.origins = keyset.keys, tuple(map(parse_origin, keyset.origins))
        trust.offered, end = _read_jwks(trust, statements), end_of(keyset, self.policy)
        trust.deadlines = (end,)
        with noting(trust.blocks):
            name = "the newest keyset statement"
            check_times(keyset.iat, end, now=now, skew=self.skew, name=name)
            if contested is not None:
                trust.hindrances.append(contested)
            self._use_release(trust, keyset, now)
        if self.lock is not None and not trust.blocks and self.floor != self.locked:
            message = f"{self.lock.name} is older than what was verified"
            trust.notes.append(Finding("lock.behind", message))

    def _walk(
        self,
        trust: IssuerTrust,
        anchor: KeysetAnchor,
        statements: SuppliedStatements,
        now: datetime,
    ) -> list[ReleaseStatement]:
        """Go on to the newest keyset; return the releases at hand."""
        keysets = read_statements(statements.untrusted_keysets, read_keyset, trust.notes)
        releases = read_statements(statements.untrusted_releases, read_release, trust.notes)
        after = "" if self.keyset is None else _name(self.keyset)
        cached = NO_STATEMENTS if self.cache is None else read_cache(self.cache, anchor, after)
        kept = read_statements(cached.untrusted_keysets, read_keyset, [])
        walk = Walk([*keysets, *kept], self.locked, now, self.skew, max_steps=MAX_STEPS + len(kept))
        with noting(trust.blocks):
            start = self.keyset or walk.begin(anchor.pin, anchor.issuer)
            if start is not None:
                walk.onward(start)
        trust.notes += walk.reasons
        self.passed += tuple(walk.passed)
        self.keyset = walk.passed[-1] if walk.passed else self.keyset
        cached_releases = read_statements(cached.untrusted_releases, read_release, [])
        newest = self.keyset and self.keyset.id
        return releases + [release for release in cached_releases if release.keyset == newest]

    def _use_release(self, trust: IssuerTrust, keyset: KeysetStatement, now: datetime) -> None:
        """Fill in the newest release, if it is in force."""
        release, name = self.release, "the newest release"
        if release is None:
            message = "there is no release statement, so it is unknown which cards are current"
            trust.hindrances.append(Finding("trust.freshness_unknown", message))
            return
        with noting(trust.blocks, name):
            self.locked.check(release)
            with noting(trust.hindrances, name):
                signers = check_release(
                    release, keyset, None, now=now, skew=self.skew, revoked=trust.revoked
                )
                end = end_of(release, self.policy)
                with noting(trust.hindrances):
                    check_times(release.iat, end, now=now, skew=self.skew, name=name)
                    keys = (key for key in keyset.keys if key.public.thumbprint in signers)
                    trust.deadlines += (end, max(key.exp for key in keys))
                    trust.release = release


def _use_keys(trust: IssuerTrust, jwks: JwkSet, holders: Mapping[str, str]) -> None:
    """Fill in the keys of a set, as far as they say themselves that they may be used."""
    trust.keys = tuple(
        IssuerKey(key, ("card",), holders.get(key.kid, ""), key.nbf, key.exp) for key in jwks.keys
    )
    trust.unsupported = jwks.skipped
    trust.revoked = frozenset(key.thumbprint for key in jwks.keys if key.revoked)


def _read_jwks(trust: IssuerTrust, statements: SuppliedStatements) -> JwkSet | None:
    if statements.untrusted_jwks is not None:
        with noting(trust.notes):
            return JwkSet.from_bytes(statements.untrusted_jwks)
    return None


# Signed statements kept in the user's cache folder (decision F6, L6). What is read is verified
# again, so a poisoned file costs time and nothing else. Whatever cannot be read is empty. A file is
# written once under a name that says what is in it, so no process takes back what another kept.

#: Bytes of all files that are read of an anchor: more than a walk reads.
MAX_CACHE_BYTES: Final = 8 * 1024 * 1024
_ODD: Final = (OSError, ValueError, TypeError, AttributeError, RecursionError, CardsignError)


def user_cache() -> Path | None:
    """Return the cache in the user's cache folder; None where this user has none."""
    folder = files.user_folder("CACHE")
    return None if folder is None else folder / "statements"


def read_cache(cache: Path, anchor: KeysetAnchor, after: str = "") -> SuppliedStatements:
    """Return the statements kept for an anchor, oldest first, without what is odd.

    Of the files of keysets only those are read whose names come after that one.
    """
    folder, remaining = cache / cache_name(anchor), MAX_CACHE_BYTES
    keysets, releases, names = list[bytes](), list[bytes](), list[str]()
    with suppress(*_ODD):
        files.refuse_links(cache, folder / "file")
        names = [name for name in files.list_names(folder) if "-" in name or name > after]
    for path in map(folder.joinpath, names):
        with suppress(*_ODD):
            if hasattr(os, "geteuid") and path.lstat().st_uid != os.geteuid():
                continue
            data = files.read_bytes(path, max_bytes=remaining, plain=True)
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
        files.make_directory(folder, mode=0o700)
        files.refuse_links(cache, folder / "file")
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
    files.write_atomic(path, json.dumps(texts).encode(), mode=0o600, plain=True)
