"""`trust.lock`: a floor for each issuer whose anchor is a keyset (decision F6).

An entry can only refuse. The file is JSON with one block for each issuer, sorted by name, so that
git merges entries of different issuers. It is read strictly: a name that stands twice, which a
careless merge leaves behind, is refused like a conflict marker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from cardsign.card.strictjson import parse_object
from cardsign.card.values import jcs
from cardsign.errors import FileFault, FileMissing, JsonRefused, UsageFault
from cardsign.files import locked, read_bytes, write_atomic
from cardsign.statements import envelope as read
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetId, KeysetStatement, keyset_id
from cardsign.statements.release import ReleaseStatement, check_order
from cardsign.trust.policy import ISSUER_NAME, KeysetAnchor, Policy, TrustedIssuer

LOCK_FORMAT: Final = "cardsign-lock/1"
#: Bytes. As many issuers as a policy may have; one has about 400.
MAX_LOCK_BYTES: Final = 8 * 1024 * 1024
#: Seconds to wait for another process that edits the lock.
PATIENCE: Final = 10.0
#: The number of no release; the first one has a higher one.
NO_RELEASE: Final = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Floor:
    """What the lock says of one issuer; statements below it are refused.

    Attributes:
        keyset: The newest keyset statement that was verified; None where the anchor is a root set
            and no statement has been verified yet.
        newest_iat: The highest signed `iat`, Unix seconds.
        recovery: Digest of the recovery keys and threshold in that keyset statement. It lets a
            recovery be followed where the statements up to the lock are no longer available.
        release: Epoch, keyset version and seq of the newest release that revoked a key or raised a
            floor; :data:`NO_RELEASE` where there is none.
        digest: SHA-256 of the payload of that release.
        revoked: The keys that it revokes, until a higher keyset version confirms or drops them.
        floor: The floors that it sets, by URL.
    """

    keyset: KeysetId | None = None
    newest_iat: int = 0
    recovery: str | None = None
    release: tuple[int, int, int] = NO_RELEASE
    digest: str = ""
    revoked: frozenset[str] = frozenset()
    floor: Mapping[str, int] = field(default_factory=dict, hash=False)

    def check(self, release: ReleaseStatement) -> None:
        """Check a release as :func:`cardsign.statements.release.check_order` does."""
        check_order(release, self.release, self.digest, self.revoked, self.floor)

    def with_statements(self, keyset: KeysetStatement, release: ReleaseStatement | None) -> Floor:
        """Return this floor, raised to verified statements.

        A release that neither revokes a key nor raises a floor beyond what is locked leaves the
        entry as it is, `newest_iat` included, so that daily releases make no difference in git.
        """
        raised = self
        if release is not None and self.release < release.order:
            order, digest, floor = release.order, release.digest, release.floor
            new = Floor(release=order, digest=digest, revoked=release.revoked, floor=floor)
            united = self._with_newer_release(new)
            is_same = self.release[:2] == order[:2]
            earlier = (self.revoked, self.floor) if is_same else (frozenset(), {})
            raised = united if (united.revoked, united.floor) != earlier else self
        if keyset.id == self.keyset and raised is self:
            return self
        newest_iat = max(self.newest_iat, keyset.iat, release.iat if release is not None else 0)
        recovery = recovery_digest(keyset)
        return replace(raised, keyset=keyset.id, newest_iat=newest_iat, recovery=recovery)

    def raised_to(self, other: Floor, name: str) -> Floor:
        """Return the higher of two floors of one issuer, member by member.

        Raises:
            UsageFault: ``statement.fork``: one number with two digests.
        """
        keysets = [floor.keyset for floor in (self, other) if floor.keyset is not None]
        numbered: dict[str, Sequence[tuple[tuple[int, ...], str]]] = {
            "keyset": [(keyset.number, keyset.digest) for keyset in keysets],
            "release": [(self.release, self.digest), (other.release, other.digest)],
        }
        for kind, pairs in numbered.items():
            numbers, digests = {number for number, _ in pairs}, {digest for _, digest in pairs}
            if len(numbers) < len(digests):
                number, both = ".".join(map(str, pairs[0][0])), f"{pairs[0][1]} here and "
                hint = "Ask the issuer which is theirs: a thief of their roots signed the other. "
                hint += f"If the name was another issuer's: cardsign trust forget {name} --yes"
                message = f"{kind} {number} of {name!r} is {both}{pairs[1][1]} there"
                raise UsageFault("statement.fork", message, hint=hint)
        keyset = max(keysets, key=lambda pin: pin.number, default=None)
        recovery = self.recovery if keyset == self.keyset else other.recovery
        newest_iat = max(self.newest_iat, other.newest_iat)
        raised = self._with_newer_release(other)
        return replace(raised, keyset=keyset, newest_iat=newest_iat, recovery=recovery)

    def _with_newer_release(self, other: Floor) -> Floor:
        """Return this floor with the newer release of two, and what the older says.

        Under one keyset revocations grow and floors rise. Where the newer release has lost one,
        somebody has un-revoked a key, and the union refuses that release.
        """
        newer, older = (self, other) if self.release >= other.release else (other, self)
        revoked, floor = newer.revoked, newer.floor
        if newer.release[:2] == older.release[:2]:
            revoked |= older.revoked
            urls = {**older.floor, **newer.floor}
            floor = {url: max(newer.floor.get(url, 0), older.floor.get(url, 0)) for url in urls}
        number, digest = newer.release, newer.digest
        return replace(self, release=number, digest=digest, revoked=revoked, floor=dict(floor))

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in the file."""
        release: dict[str, Any] = {}
        if self.release != NO_RELEASE:
            numbers = zip(("epoch", "keyset_version", "seq"), self.release, strict=True)
            release = {**dict(numbers), "digest": self.digest}
            optional = {"revoked": sorted(self.revoked), "floor": dict(self.floor)}
            release |= {name: value for name, value in optional.items() if value}
        return {
            "keyset": None if self.keyset is None else self.keyset.to_json(),
            "newest_iat": self.newest_iat,
            "release": release or None,
            **({} if self.recovery is None else {"recovery": self.recovery}),
        }


def recovery_digest(keyset: KeysetStatement) -> str | None:
    """Return what a lock remembers of the recovery keys of a statement."""
    if keyset.recovery is None:
        return None
    return hashlib.sha256(jcs(read.to_json(keyset.recovery))).hexdigest()


class Memory:
    """Stands for no file: as `lock` the floors to start from, as `cache` that nothing is kept.

    Args:
        floors: What a lock would say at the start, by issuer.
    """

    def __init__(self, floors: Mapping[str, Floor] | None = None) -> None:
        self.floors = dict(floors or {})


def read_floors(policy: Policy, paths: Sequence[Path]) -> dict[str, Floor]:
    """Return the floors of one or several lock files, the highest of each issuer.

    Raises:
        UsageFault: ``lock.malformed``; ``statement.fork``: two files name one number with two
            digests; ``lock.other_anchor``: an issuer whose anchor is not a keyset has an entry.
        FileFault: A file is a link or device, or cannot be read.
    """
    floors: dict[str, Floor] = {}
    for path in paths:
        for name, floor in read_lock(path).items():
            floors[name] = floors.get(name, floor).raised_to(floor, name)
    for issuer in policy.issuers:
        if not isinstance(issuer.anchor, KeysetAnchor) and issuer.name in floors:
            message = f"the lock has an entry for {issuer.name!r}, whose anchor is not a keyset"
            hint = f"If the change is meant: cardsign trust forget {issuer.name}{policy.option}"
            raise UsageFault("lock.other_anchor", message, path=str(paths[-1]), hint=hint)
    return floors


def check_entry(
    policy: Policy, issuer: TrustedIssuer, floors: Mapping[str, Floor], path: Path
) -> None:
    """Refuse to judge an issuer whose anchor is a keyset and who has no entry in the lock.

    Raises:
        UsageFault: ``lock.missing``.
    """
    if isinstance(issuer.anchor, KeysetAnchor) and issuer.name not in floors:
        message, option = f"no entry for {issuer.name!r}, whose anchor is a keyset", policy.option
        hint = f"Restore {path.name} from version control. Else: cardsign trust remove "
        hint += f"{issuer.name}{option}; cardsign trust add URL{option}"
        raise UsageFault("lock.missing", message, path=str(path), hint=hint)


def read_lock(path: Path) -> dict[str, Floor]:
    """Return the entries of one lock file, by issuer; none where there is no file.

    Raises:
        UsageFault: ``lock.malformed``: conflict markers, another format, anything unexpected.
        FileFault: It is a link or a device, or cannot be read.
    """
    try:
        data = read_bytes(path, max_bytes=MAX_LOCK_BYTES, plain=True)
    except FileMissing:
        return {}
    try:
        members = parse_object(data, max_bytes=MAX_LOCK_BYTES, max_depth=8)
        document = read.document(members, LOCK_FORMAT, {"issuers": _floors})
        issuers: dict[str, Floor] = document["issuers"]
        return issuers
    except (JsonRefused, StatementRefused) as refusal:
        hint = "Restore it from version control, or take either side of a conflict. Then: cardsign "
        hint += f"trust update --trust {path.with_suffix('.toml')}"
        if refusal.code == "statement.format":
            hint = "Upgrade cardsign: a newer one wrote the lock." if "format" in members else ""
        message = ": ".join(filter(None, (refusal.path, refusal.message)))
        line = refusal.finding.place.line
        raise UsageFault("lock.malformed", message, path=str(path), line=line, hint=hint) from None


def raise_lock(
    path: Path, floors: Mapping[str, Floor | None], *, dry_run: bool = False
) -> tuple[str, ...]:
    """Raise the entries of these issuers; alone among processes, and never below what is there.

    The folder itself is locked, so that no lock file is left beside files that git tracks.

    Args:
        path: The lock.
        floors: What was verified of each; None, which only `trust forget` gives, removes its entry.
        dry_run: Write nothing.

    Returns:
        The issuers whose entry was changed. A fork writes nothing.

    Raises:
        UsageFault: ``statement.fork``, ``lock.malformed``.
        FileFault: It cannot be read or written.
    """
    busy = FileFault("file.busy", "another process is editing the lock", path=str(path))
    with locked(path, patience=PATIENCE, busy=busy, by_directory=True):
        entries = read_lock(path)
        changed: dict[str, Floor | None] = {**entries}
        for name, floor in floors.items():
            changed[name] = floor and entries.get(name, floor).raised_to(floor, name)
        names = tuple(name for name in floors if entries.get(name) != changed[name])
        if names and not dry_run:
            issuers = {name: floor.to_json() for name, floor in changed.items() if floor}
            document = {"format": LOCK_FORMAT, "issuers": issuers}
            text = json.dumps(document, indent=2, sort_keys=True) + "\n"
            write_atomic(path, text.encode(), plain=True)
    return names


def _floors(value: Any, place: str) -> dict[str, Floor]:
    if not isinstance(value, dict):
        raise read.refused(place, "an object")
    for name in value:
        read.text(name, place, form=ISSUER_NAME, expected="an issuer's name")
    return {name: _floor(entry, f"{place}/{name}") for name, entry in value.items()}


def _floor(entry: Any, place: str) -> Floor:
    members = read.record(entry, place, _FLOOR, may_lack=("recovery",))
    release = members.pop("release") or {}
    return Floor(**members, **release)


def _release(entry: Any, place: str) -> dict[str, Any]:
    members = read.record(entry, place, _RELEASE, may_lack=("revoked", "floor"))
    names = ("epoch", "keyset_version", "seq")
    return {"release": tuple(members.pop(name) for name in names), **members}


_RELEASE: Final[read.Readers] = {
    "epoch": read.integer,
    "keyset_version": read.integer,
    "seq": read.integer,
    "digest": read.digest,
    "revoked": read.revoked,
    "floor": read.numbers,
}
_FLOOR: Final[read.Readers] = {
    "keyset": partial(read.optional, keyset_id),
    "newest_iat": partial(read.time, least=0),
    "recovery": read.digest,
    "release": partial(read.optional, _release),
}
