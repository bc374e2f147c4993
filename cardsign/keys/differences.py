"""What a keyset statement changes, in sentences for those who are asked to sign it.

Made from the statement that a signer holds himself: nothing that the draft's author says about
his draft is shown (threats.md 22).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from cardsign.jose.keyset import KeysetStatement, Quorum, StatementKey

Sign = Literal["+", "-", "~", "="]


@dataclass(frozen=True, slots=True)
class Difference:
    """One line: what is added, removed, changed, or (``=``) only to be known."""

    sign: Sign
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.text}"


def differences(before: KeysetStatement | None, after: KeysetStatement) -> tuple[Difference, ...]:
    """Say what changes from one statement to another, the gravest first.

    Args:
        before: The signer's own; None if he holds none, so that all of it is new.
        after: The draft.
    """
    return tuple(_differences(before, after))


def _differences(before: KeysetStatement | None, after: KeysetStatement) -> Iterator[Difference]:
    what = f"keyset {after.epoch}.{after.version} of {after.issuer}"
    if before is None:
        yield Difference("+", f"{what}: nothing is held here to compare it with")
    elif after.epoch != before.epoch:
        held = f"{before.epoch}.{before.version}"
        yield Difference("~", f"{what} opens a new epoch and ends everything after {held}")
    else:
        yield Difference("=", f"{what} follows {before.epoch}.{before.version}, held here")
    yield from _quorum("root", before.root if before else None, after.root)
    yield from _quorum("recovery", before.recovery if before else None, after.recovery)
    if after.recovery is None:
        yield Difference("=", "recovery: none; the theft of the root is final")
    yield from _texts("origin", before.origins if before else (), after.origins)
    yield from _keys(before.keys if before else (), after.keys)
    yield from _texts("revoked", sorted(before.revoked) if before else (), sorted(after.revoked))
    yield Difference("~", f"believed from {_day(after.iat)} until {_day(after.exp)}")


def _quorum(name: str, before: Quorum | None, after: Quorum | None) -> Iterator[Difference]:
    if before == after:
        return
    yield Difference("~", f"{name}: {_size(before)} -> {_size(after)}")
    old, new = _members(before), _members(after)
    yield from _texts(name, [one for one in old if one not in new], [])
    yield from _texts(name, [], [one for one in new if one not in old])


def _size(quorum: Quorum | None) -> str:
    if quorum is None:
        return "none"
    return f"{quorum.threshold} of {len({key.holder for key in quorum.keys})}"


def _members(quorum: Quorum | None) -> list[str]:
    keys = quorum.keys if quorum else ()
    return [f"{key.public.alg} {key.public.thumbprint} held by {key.holder}" for key in keys]


def _keys(
    before: tuple[StatementKey, ...], after: tuple[StatementKey, ...]
) -> Iterator[Difference]:
    old = {key.public.thumbprint: key for key in before}
    new = {key.public.thumbprint: key for key in after}
    for name, key in old.items():
        if name not in new:
            yield Difference("-", f"key {_key(key)}")
    for name, key in new.items():
        if name not in old:
            yield Difference("+", f"key {_key(key)}")
        elif key != old[name]:
            yield Difference("~", f"key before: {_key(old[name])}")
            yield Difference("~", f"key after: {_key(key)}")


def _key(key: StatementKey) -> str:
    """All of it; the kid, which its owner chooses freely, last and in quotes."""
    public = key.public
    name = "" if public.kid == public.thumbprint else f", kid {json.dumps(public.kid)}"
    return (
        f"{public.alg} {public.thumbprint} for {' and '.join(key.roles)}, held by "
        f"{key.holder}, {_day(key.nbf)} to {_day(key.exp)}{name}"
    )


def _texts(
    name: str, before: list[str] | tuple[str, ...], after: list[str] | tuple[str, ...]
) -> Iterator[Difference]:
    for text in before:
        if text not in after:
            yield Difference("-", f"{name} {text}")
    for text in after:
        if text not in before:
            yield Difference("+", f"{name} {text}")


def _day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
