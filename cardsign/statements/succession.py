"""By what right a keyset statement speaks: the first one, the next one, recovery (K5 to K8).

Each check is of one step and knows no other statement than those given. The caller stores each
step before the next, bounds the walk, and asks the last statement alone for its times.
"""

from __future__ import annotations

from cardsign.records import dataclass
from cardsign.statements.envelope import Counted, StatementRefused, count
from cardsign.statements.keyset import KeysetId, KeysetStatement, Quorum


@dataclass(frozen=True, slots=True)
class RootPin:
    """An anchor: a statement with exactly this root set.

    Attributes:
        threshold: The root's threshold.
        holders: (thumbprint, holder) of every root key. The holders belong to the pin: who has
            two keys of one holder could otherwise relabel one and count twice. A lone
            thumbprint is a pin of one pair with threshold 1, so it is no part of a larger set.
    """

    threshold: int
    holders: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, root: Quorum) -> RootPin:
        """The pin that fits exactly this root set."""
        return cls(
            root.threshold, frozenset((key.public.thumbprint, key.holder) for key in root.keys)
        )


def check_step(statement: KeysetStatement, previous: KeysetStatement | None) -> None:
    """Check that a statement is signed and follows, or is signed by its own root where none does.

    Raises:
        StatementRefused: As the check that is made.
    """
    if previous is None:
        check_first(statement, RootPin.of(statement.root))
    elif statement.epoch == previous.epoch:
        check_successor(previous, statement)
    else:
        check_recovery(previous, statement)


def check_first(statement: KeysetStatement, anchor: KeysetId | RootPin) -> Counted:
    """Check that a statement is one that the anchor means, and is signed by its own root (K8).

    Raises:
        StatementRefused: ``statement.anchor``; ``statement.unsigned``.
    """
    found = statement.id if isinstance(anchor, KeysetId) else RootPin.of(statement.root)
    if found != anchor:
        raise StatementRefused("statement.anchor", f"expected {anchor}, found {found}")
    counted = _counted(statement, statement.root)
    _require(statement.root, counted, "its own root")
    return counted


def check_successor(current: KeysetStatement, following: KeysetStatement) -> Counted:
    """Check that `following` is the version after `current`, within its epoch (K6).

    Raises:
        StatementRefused: ``statement.issuer``; ``statement.recovery``: another epoch, or
            `recovery` changed without its own signatures; ``statement.fork``: the same version
            with another payload; ``statement.rollback``: not newer; ``statement.gap``: a
            version was left out; ``statement.prev``; ``statement.unrevoked``;
            ``statement.unsigned``.
    """
    _check_newer(current, following)
    if following.epoch != current.epoch:
        raise StatementRefused(
            "statement.recovery",
            f"epoch {following.epoch} after {current.epoch}, which only recovery can open",
            path="/epoch",
        )
    if following.version != current.version + 1:
        raise StatementRefused(
            "statement.gap",
            f"version {following.version}, expected {current.version + 1}",
            path="/version",
        )
    if following.prev != current.digest:
        raise StatementRefused(
            "statement.prev",
            f"expected {current.digest}, the digest of the one before",
            path="/prev",
        )
    if following.iat < current.iat:
        raise StatementRefused(
            "statement.rollback", f"issued before {current.iat}, as was the one before", path="/iat"
        )
    if restored := current.revoked - following.revoked:
        raise StatementRefused(
            "statement.unrevoked", f"{min(restored)} is no longer revoked", path="/revoked"
        )
    return _check_successors_signatures(current, following)


def check_recovery(current: KeysetStatement, following: KeysetStatement) -> Counted:
    """Check that `following` opens the epoch after that of `current` (K7).

    It beats every version of the old epoch, so neither `prev` nor `iat` binds it to one, and it
    may drop what a thief has revoked. `current` is the statement held, of any version.

    Raises:
        StatementRefused: ``statement.issuer``; ``statement.fork``; ``statement.rollback``;
            ``statement.gap``: not version 1 of the epoch after; ``statement.recovery``: no
            key can open an epoch; ``statement.unsigned``.
    """
    _check_newer(current, following)
    if current.recovery is None:
        raise StatementRefused("statement.recovery", "the statement held names no recovery keys")
    if following.number != (current.epoch + 1, 1):
        raise StatementRefused(
            "statement.gap",
            f"version {following.version} of epoch {following.epoch}, "
            f"expected 1 of {current.epoch + 1}",
            path="/epoch",
        )
    counted = _counted(following, current.recovery, following.root)
    _require(current.recovery, counted, "the recovery keys held")
    _require(following.root, counted, "its own root")
    return counted


def _check_newer(current: KeysetStatement, following: KeysetStatement) -> None:
    """Of the same issuer, and of a higher number."""
    if following.issuer != current.issuer:
        raise StatementRefused("statement.issuer", f"expected {current.issuer!r}", path="/issuer")
    held, offered = current.number, following.number
    if offered == held and following.digest != current.digest:
        raise StatementRefused(
            "statement.fork",
            f"there are two keysets {held[0]}.{held[1]}: {current.digest}, which was already seen, "
            f"and {following.digest}",
        )
    if offered <= held:
        seen = f"is older than keyset {held[0]}.{held[1]}, which was already seen"
        what = "is not a newer one: it was already seen" if offered == held else seen
        raise StatementRefused(
            "statement.rollback", f"keyset {offered[0]}.{offered[1]} {what}", path="/version"
        )


def _check_successors_signatures(current: KeysetStatement, following: KeysetStatement) -> Counted:
    is_changed = following.recovery != current.recovery
    if is_changed and current.recovery is None:
        raise StatementRefused(
            "statement.recovery", "recovery was given up and cannot be set", path="/recovery"
        )
    held = [current.recovery] if is_changed and current.recovery else []
    counted = _counted(following, current.root, following.root, *held)
    _require(current.root, counted, "the root before")
    _require(following.root, counted, "its own root")
    if is_changed and current.recovery:
        signed = len(current.recovery.holders(counted))
        if signed < current.recovery.threshold:
            raise StatementRefused(
                "statement.recovery",
                f"recovery was changed with {signed} of {current.recovery.threshold} signatures "
                "of the recovery before",
                path="/recovery",
            )
    return counted


def _counted(statement: KeysetStatement, *quorums: Quorum) -> Counted:
    return count(statement.envelope, (key.public for quorum in quorums for key in quorum.keys))


def _require(quorum: Quorum, counted: Counted, whose: str) -> None:
    signed = quorum.holders(counted)
    if len(signed) < quorum.threshold:
        bad = f"; {len(counted.bad)} by known keys are bad" if counted.bad else ""
        raise StatementRefused(
            "statement.unsigned",
            f"signed by {len(signed)} holders of {whose}, expected {quorum.threshold}{bad}",
            path="/signatures",
        )
