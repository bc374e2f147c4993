"""Adding a trusted issuer: the anchor that is proposed, its comparison, and what is written.

Nothing but a comparison over another channel shows that
a first statement is genuine, so :func:`add_issuers` lets the caller compare before it writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from cardsign.errors import FetchFailed, KeyRefused, UsageFault, closest, of_the_user
from cardsign.files import read_bytes
from cardsign.findings import Finding
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet
from cardsign.statements.envelope import DIGEST, StatementRefused
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor, read_keyset
from cardsign.statements.release import ReleaseStatement
from cardsign.tomltext import read_toml
from cardsign.trust.lock import (
    Floor,
    check_entry,
    forget_entry,
    raise_lock,
    read_floors,
    read_lock,
)
from cardsign.trust.policy import (
    ISSUER_NAME,
    Anchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    Policy,
    TrustedIssuer,
)
from cardsign.trust.policyfile import edit_policy, with_issuer, with_pin, without_issuer
from cardsign.trust.session import Session, StatementCache
from cardsign.trust.walk import (
    NO_STATEMENTS,
    Ask,
    Refresh,
    SuppliedStatements,
    no_answer,
    read_statements,
)
from cardsign.urls import JWKS_PATH, Origin, parse_url

#: Of a release that is missing or over there is nothing to compare.
_NO_DOUBT: Final = ("refresh.next_unknown", "trust.freshness_unknown")


@dataclass(frozen=True, slots=True)
class Proposal:
    """An anchor for a new issuer, and the statements on which it rests.

    Attributes:
        anchor: What would be trusted beforehand.
        keyset: The keyset statement that it pins, if any.
        release: A release statement under it, if any.
        warnings: What a person should know before saying yes.
        doubts: What did not fit; none of it is passed over where a digest or files were given.
        digests: Of `keyset`, and of those from which it was seen to follow lawfully.
        seen_at: The URL at which the keys were found that are pinned, if they were looked for.
    """

    anchor: Anchor
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    warnings: tuple[str, ...] = ()
    doubts: tuple[Finding, ...] = ()
    digests: frozenset[str] = frozenset()
    seen_at: str = ""


def propose_keyset(
    supplied: SuppliedStatements,
    *,
    limits: Limits,
    roots: bool,
    now: datetime,
    reasons: Sequence[Finding] = (),
) -> Proposal:
    """Pin the newest keyset statement to which these lead, or with `roots` its root set.

    They begin with the lowest one that its own root has signed. Only a person can say whether
    that one is genuine.

    Args:
        supplied: Keyset statements, and releases under the newest.
        limits: Of the policy.
        roots: Pin the root set.
        now: The time.
        reasons: What is known to be missing.

    Raises:
        StatementRefused: There is no keyset statement that could be pinned.
    """
    notes = [*reasons]
    keysets = read_statements(supplied.untrusted_keysets, read_keyset, notes)
    lowest = min(keysets, key=lambda keyset: keyset.number, default=None)
    keyset = None
    if lowest is not None:
        session = Session(TrustedIssuer("new", KeysetAnchor(lowest.id), None), limits)
        trust = session.resolve(supplied, now)
        keyset, notes = session.keyset, [*reasons, *trust.notes]
    if keyset is None:
        cause = notes[0] if notes else Finding("statement.gap", "there is no keyset statement")
        raise StatementRefused(cause.code, cause.message)
    every = dict.fromkeys((*trust.blocks, *trust.hindrances, *notes))
    warnings = [why for why in every if why.code not in _NO_DOUBT]
    return Proposal(
        KeysetAnchor(RootAnchor.of(keyset.root) if roots else keyset.id, keyset.issuer),
        keyset,
        session.release,
        tuple(f"{why.code}: {why.message}" for why in warnings),
        tuple(why for why in warnings if why.code != "statement.expired"),
        frozenset(statement.digest for statement in session.passed),
    )


def propose_published(
    origin: Origin, ask: Ask, *, limits: Limits, roots: bool, now: datetime
) -> Proposal:
    """Pin the newest keyset statement that an origin publishes now, or the keys of one without any.

    Raises:
        FetchFailed: ``trust.no_keys``: it publishes nothing that could be pinned.
    """
    refresh = Refresh(str(origin), ask)
    supplied, reasons = refresh.run(None)
    if refresh.misfits and not supplied.untrusted_keysets:
        unclear = f"{refresh.misfits[0]}, and a host without statements answers 404"
        raise _nothing_published(origin, Finding("statement.shape", unclear))
    if supplied == NO_STATEMENTS and not reasons and not roots:
        return _propose_published_keys(origin, ask)
    try:
        return propose_keyset(supplied, limits=limits, roots=roots, now=now, reasons=reasons)
    except StatementRefused as refusal:
        raise _nothing_published(origin, next(iter(reasons), refusal.finding)) from refusal


def _propose_published_keys(origin: Origin, ask: Ask) -> Proposal:
    """Pin the keys that an origin without any keyset statement publishes now."""
    answer = ask(f"{origin}{JWKS_PATH}", MAX_JWKS_BYTES)
    if answer.outcome == "failed":
        raise _nothing_published(origin, no_answer(answer))
    if answer.outcome == "absent":
        neither = "it publishes neither a keyset statement nor a key set"
        raise _nothing_published(origin, Finding("jwks.malformed", neither))
    try:
        proposal = propose_keys(JwkSet.from_bytes(answer.untrusted_body))
    except (KeyRefused, UsageFault) as refusal:
        raise _nothing_published(origin, refusal.finding) from refusal
    pinned = f"{origin} publishes no keyset statement, so its current keys are pinned"
    return replace(proposal, seen_at=answer.url, warnings=(*proposal.warnings, pinned))


def _nothing_published(origin: Origin, cause: Finding) -> FetchFailed:
    hint = "Add it by keys instead: --jwks FILE or --jwks-url URL. Neither shows revocation."
    if cause.code == "refresh.no_answer":
        hint = cause.fix
    message = f"nothing that {origin} publishes could be pinned: {cause.message}"
    return FetchFailed("trust.no_keys", message, hint=hint)


def propose_keys(jwks: JwkSet) -> Proposal:
    """Pin the keys of a set.

    Raises:
        UsageFault: ``jwks.malformed``: there is no key.
    """
    if not jwks.keys:
        raise UsageFault("jwks.malformed", "the set holds no key to pin")
    skipped = (f"the key {key.kid!r} was left out: {key.message}" for key in jwks.skipped)
    return Proposal(KeysAnchor(JwkSet.of(jwks.keys)), warnings=tuple(skipped))


def read_digest(text: str) -> str:
    """Read a digest as its issuer told it: in hex, with or without ``sha256:``, spaces and colons.

    Raises:
        UsageFault: ``usage.invalid``: it is no whole digest.
    """
    digest = re.sub(r"[\s:]+", "", text.strip().lower().removeprefix("sha256:"))
    if not DIGEST.fullmatch(digest):
        message = f"a digest has 64 hex digits; you gave {text[:80]!r}"
        raise UsageFault("usage.invalid", message, hint="Ask the issuer for the whole digest.")
    return digest


def check_told(proposal: Proposal, digest: str) -> None:
    """Compare a proposed keyset with the digest that its issuer told over another channel (E14).

    That may be the digest of an earlier keyset: it stays good, since each step from there to the
    newest must be lawful by the one before, its own roots first.

    Args:
        proposal: What would be pinned.
        digest: As :func:`read_digest` returns it.

    Raises:
        StatementRefused: ``statement.digest``, or why not all of the statements fit.
        UsageFault: ``usage.conflict``: no keyset is proposed.
    """
    keyset = proposal.keyset
    if keyset is None:
        raise UsageFault("usage.conflict", "--digest goes with a keyset statement")
    if digest not in proposal.digests:
        message = f"keyset {keyset.label} has the digest {keyset.digest}, and you gave {digest}"
        raise StatementRefused("statement.digest", message, hint=_DO_NOT_ADD)
    for doubt in proposal.doubts:
        raise StatementRefused(doubt.code, doubt.message, hint=_DO_NOT_ADD)


_DO_NOT_ADD: Final = "Do not add it. Ask the issuer over another channel which digest is right."


def add_issuers(
    policy: Policy,
    entries: Sequence[tuple[Mapping[str, Any], Proposal]],
    *,
    compare: Callable[[], None] = lambda: None,
    cache: StatementCache | None = None,
    dry_run: bool = False,
) -> None:
    """Add issuers to a policy and its lock, all of them or none: check, compare, then write.

    The lock is written first: an entry without a policy means nothing. Where there is no policy
    yet, one is begun.

    Args:
        policy: The policy.
        entries: The members of each new ``[[issuer]]`` without its anchor, and its anchor.
        compare: Raises where a person does not agree; nothing was written before.
        cache: Where the statements are kept; None for nowhere.
        dry_run: Check and compare, and write nothing.

    Raises:
        UsageFault: ``policy.malformed``, ``usage.conflict``; what
            `compare` raises; ``lock.malformed``, ``lock.other_anchor``; ``statement.rollback``
            or ``statement.fork``: the lock has a newer or another statement of that name.
        FileFault: Something cannot be written.
    """

    def with_all(text: str) -> str:
        for members, proposal in entries:
            text = with_issuer(text, members, proposal.anchor)
        return text

    edit = partial(edit_policy, policy.file, with_all, lambda old, new: new[: -len(entries)] == old)
    locked = read_floors(edit(dry_run=True), [policy.lock])
    floors: dict[str, Floor] = {}
    for members, proposal in entries:
        name, keyset = members["name"], proposal.keyset
        if keyset is not None:
            floors[name] = floor = Floor().with_statements(keyset, proposal.release)
            highest = locked.get(name, floor).raised_to(floor, name).keyset
            if highest is not None and highest != keyset.id:
                message = (
                    f"the lock has keyset {highest.label} of {name!r}, and this is {keyset.label}"
                )
                hint = f"If it is another issuer now: cardsign trust forget {name}"
                raise UsageFault("statement.rollback", message, path=str(policy.lock), hint=hint)
    compare()
    if dry_run:
        return
    raise_lock(policy.lock, floors)
    edit()
    for _, proposal in entries:  # so that the first verdict needs no network
        anchor, keyset = proposal.anchor, proposal.keyset
        if cache is not None and keyset is not None and isinstance(anchor, KeysetAnchor):
            cache.keep(anchor, [keyset], proposal.release)


def move_pin(
    policy: Policy, name: str, now: datetime, cache: StatementCache | None, *, dry_run: bool = False
) -> tuple[KeysetId, bool]:
    """Move an issuer's pin forward to the keyset statement that the lock records.

    What the cache has for the old pin is kept for the new one, from there on.

    Returns:
        The statement that is pinned now, and whether the policy said otherwise before.

    Raises:
        UsageFault: ``usage.conflict``: the anchor is no single statement; ``lock.missing``.
        FileFault: Lock or policy cannot be read or written.
    """
    issuer = policy.issuer(name)
    anchor = issuer.anchor
    if not isinstance(anchor, KeysetAnchor) or isinstance(anchor.pin, RootAnchor):
        raise UsageFault(
            "usage.conflict",
            f"the anchor of {name!r} is no single keyset statement, so there is no pin to move",
            path=str(policy.path),
            hint=f"Anchor it anew: cardsign trust remove {name}, then cardsign trust add URL",
        )
    floors = read_floors(policy, [policy.lock])
    check_entry(policy, issuer, floors, policy.lock)
    pin = floors[name].keyset or anchor.pin
    if pin.number <= anchor.pin.number:
        return anchor.pin, False
    moved = replace(issuer, anchor=KeysetAnchor(pin, anchor.issuer))
    if not dry_run:
        edit_policy(
            policy.file,
            lambda text: with_pin(text, name, pin),
            lambda old, new: new == tuple(moved if other == issuer else other for other in old),
        )
        if cache is not None:
            session = Session(moved, policy.limits, locked=floors[name], cache=cache)
            session.resolve(cache.get(anchor), now)
    return pin, True


def remove_issuer(policy: Policy, name: str, *, dry_run: bool = False) -> bool:
    """Remove an issuer from a policy; its entry in the lock stays.

    Returns:
        Whether the lock has an entry for it.

    Raises:
        UsageFault: ``policy.unknown_issuer``, ``policy.malformed``; ``lock.malformed``.
        FileFault: Policy or lock cannot be read or written.
    """
    policy.issuer(name)
    is_locked = name in read_lock(policy.lock)
    if not dry_run:
        edit_policy(
            policy.file,
            lambda text: without_issuer(text, name),
            lambda old, new: new == tuple(other for other in old if other.name != name),
        )
    return is_locked


def forget_issuer(policy: Policy, name: str, *, dry_run: bool = False) -> None:
    """Remove what the lock has of an issuer, which may be in the policy no more.

    Raises:
        UsageFault: ``usage.conflict``: the policy anchors it at a keyset, so the entry is needed;
            ``policy.unknown_issuer``: the lock has no such entry.
        FileFault: Policy or lock cannot be read or written.
    """
    anchors = {issuer.name: issuer.anchor for issuer in policy.issuers}
    if isinstance(anchors.get(name), KeysetAnchor):
        raise UsageFault(
            "usage.conflict",
            f"{name!r} is trusted by its keyset, which needs the entry",
            path=str(policy.lock),
            hint=f"Remove the issuer first: cardsign trust remove {name}",
        )
    entries = read_lock(policy.lock)
    if name not in entries:
        message = f"the lock has no entry for {name!r}{closest(name, entries)}"
        raise UsageFault("policy.unknown_issuer", message, path=str(policy.lock))
    if not dry_run:
        forget_entry(policy.lock, name)


# A list of agents. What is proposed is shown to a person, and adds no issuer by itself.


#: Bytes of a list of agents; one has about 100.
MAX_AGENTS_BYTES: Final = 256 * 1024


def read_agents(path: Path) -> tuple[dict[str, Any], ...]:
    """Read the agents of a TOML file's ``[[a2a.external_agents]]``, each with `name` and `url`.

    Other members are not looked at.

    Returns:
        The members of an entry of the policy for each.

    Raises:
        UsageFault: ``usage.invalid``: there are none, one lacks a name or a URL, or two would get
            one name. ``card.interface_url``.
        FileFault: It cannot be read.
    """
    data, file = read_bytes(path, max_bytes=MAX_AGENTS_BYTES), str(path)
    try:
        with of_the_user(file):
            document: Any = read_toml(data)
            listed = document["a2a"]["external_agents"]
            agents = [(agent["name"].lower(), parse_url(agent["url"])) for agent in listed]
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        message = "this is no list of agents, each with a name and a URL"
        hint = "Write [[a2a.external_agents]] with name = and url = for each agent."
        raise UsageFault("usage.invalid", message, path=file, hint=hint) from exc
    entries: dict[str, dict[str, Any]] = {}
    for called, url in agents:
        name = re.sub(r"[^a-z0-9._-]+", "-", called).strip("-._")[:64]
        if not ISSUER_NAME.fullmatch(name):
            name = url.origin.host.strip("[]").replace(":", "-")
        if name in entries:
            hint = "Give each agent a name of its own."
            message = f"two agents would be named {name!r}"
            raise UsageFault("usage.invalid", message, path=file, hint=hint)
        entries[name] = {"name": name, "origins": [str(url.origin)], "cards": [str(url)]}
    return tuple(entries.values())
