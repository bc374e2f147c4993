"""Enrolment: the anchor that is proposed for an issuer, its comparison, and what is written then.

Nothing but a comparison over another channel shows that a first statement is genuine, so
:func:`add_issuers` lets the caller compare before it writes. What is written is `trust.toml`
(:mod:`cardsign.trust.policyfile`) and its lock, together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from cardsign.errors import FetchFailed, KeyRefused, UsageFault, of_the_user
from cardsign.files import read_bytes
from cardsign.findings import Finding
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet
from cardsign.statements.envelope import DIGEST, StatementRefused
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor, read_keyset
from cardsign.statements.release import ReleaseStatement
from cardsign.tomltext import read_toml
from cardsign.trust import walk
from cardsign.trust.lock import Floor, check_entry, raise_lock, read_floors, read_lock
from cardsign.trust.policy import Anchor, KeysAnchor, KeysetAnchor, Policy, TrustedIssuer
from cardsign.trust.policyfile import edit_policy, with_issuer, with_pin, without_issuer
from cardsign.trust.session import Session, add_to_cache, read_cache
from cardsign.urls import JWKS_PATH, Origin, parse_url

#: No warnings to who adds an issuer: without a current release there is nothing to compare.
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
    supplied: walk.SuppliedStatements,
    *,
    policy: Policy,
    roots: bool,
    now: datetime,
    reasons: Sequence[Finding] = (),
) -> Proposal:
    """Pin the newest keyset statement to which these lead, or with `roots` its root set.

    They begin with the lowest one that its own root has signed. Only a person can say whether
    that one is genuine.

    Args:
        supplied: Keyset statements, and releases under the newest.
        policy: To which it is added.
        roots: Pin the root set.
        now: The time.
        reasons: What is known to be missing.

    Raises:
        StatementRefused: There is no keyset statement that could be pinned.
    """
    keysets = walk.read_statements(supplied.untrusted_keysets, read_keyset, [])
    lowest = min((keyset.id for keyset in keysets), default=KeysetId(1, 1, ""))
    session = Session(policy, TrustedIssuer("new", KeysetAnchor(lowest), None))
    trust, keyset = session.resolve(supplied, now), session.keyset
    notes = (*reasons, *trust.notes)
    if keyset is None:
        cause = next(iter(notes), Finding("statement.gap", "there is no keyset statement"))
        raise StatementRefused(cause.code, cause.message)
    every = dict.fromkeys((*trust.blocks, *trust.hindrances, *notes))
    warnings = [why for why in every if why.code not in _NO_DOUBT]
    return Proposal(
        KeysetAnchor(RootAnchor.of(keyset.root) if roots else keyset.id, keyset.issuer),
        keyset,
        session.release,
        tuple(f"{why.code}: {why.message}. {why.hint}" for why in warnings),
        tuple(why for why in warnings if why.code != "statement.expired"),
        frozenset(statement.digest for statement in session.passed),
    )


def propose_published(
    origin: Origin, ask: walk.Ask, *, policy: Policy, roots: bool, now: datetime
) -> Proposal:
    """Pin the newest keyset statement that an origin publishes now, or the keys of one without any.

    Raises:
        FetchFailed: ``trust.no_keys``: it publishes nothing that could be pinned.
    """
    refresh = walk.Refresh(str(origin), ask)
    supplied, reasons = refresh.run(None)
    try:
        if refresh.misfits and not supplied.untrusted_keysets:
            unclear = f"{refresh.misfits[0].message}, and a host without statements answers 404"
            reasons = (Finding("statement.shape", unclear),)
        if supplied != walk.NO_STATEMENTS or reasons or roots:
            return propose_keyset(supplied, policy=policy, roots=roots, now=now, reasons=reasons)
        answer = ask(f"{origin}{JWKS_PATH}", MAX_JWKS_BYTES)
        reasons = (walk.no_answer(answer),) if answer.outcome == "failed" else ()
        if answer.outcome != "found":
            neither = "it publishes neither a keyset statement nor a key set"
            raise UsageFault("jwks.malformed", neither)
        proposal = propose_keys(JwkSet.from_bytes(answer.untrusted_body))
    except (StatementRefused, KeyRefused, UsageFault) as refusal:
        cause = next(iter(reasons), refusal.finding)
        keys = "Add it by keys instead: --jwks FILE or --jwks-url URL. Neither shows revocation."
        hint = cause.hint if supplied != walk.NO_STATEMENTS else cause.fix or keys
        message = f"nothing was added, for nothing of {origin} could be pinned: {cause.message}"
        raise FetchFailed("trust.no_keys", message, hint=hint) from refusal
    pinned = f"{origin} publishes no keyset statement, so its current keys are pinned"
    return replace(proposal, seen_at=answer.url, warnings=(*proposal.warnings, pinned))


def propose_keys(jwks: JwkSet) -> Proposal:
    """Pin the keys of a set.

    Raises:
        UsageFault: ``jwks.malformed``: there is no key.
    """
    if not jwks.keys:
        raise UsageFault("jwks.malformed", "the set holds no key to pin")
    skipped = (f"the key {kid!r} was left out: {message}" for kid, _, message in jwks.skipped)
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
        message = "there is no keyset statement to compare the digest with, so nothing was added"
        hint = "Ask the issuer where its keyset statement is: the digest is that of one."
        raise UsageFault("usage.conflict", message, hint=hint)
    if digest not in proposal.digests:
        message = f"keyset {keyset.label} has the digest {keyset.digest}, and you gave {digest}"
        earlier = " If it is of an earlier keyset, name that too: --keyset FILE"
        hint = _DO_NOT_ADD + (earlier if keyset.version > 1 else "")
        raise StatementRefused("statement.digest", message, hint=hint)
    for doubt in proposal.doubts:
        raise StatementRefused(doubt.code, doubt.message, hint=_DO_NOT_ADD)


_DO_NOT_ADD: Final = "Do not add it. Ask the issuer over another channel which digest is right."


def add_issuers(
    policy: Policy,
    entries: Sequence[tuple[Mapping[str, Any], Proposal]],
    *,
    compare: Callable[[], None] = lambda: None,
    cache: Path | None = None,
    dry_run: bool = False,
) -> None:
    """Add issuers to a policy and its lock, all of them or none: check, compare, then write.

    The lock is written first: an entry without a policy means nothing. Where there is no policy
    yet, one is begun.

    Args:
        policy: The policy.
        entries: The members of each new ``[[issuer]]`` without its anchor, and its anchor.
        compare: Raises where a person does not agree; nothing was written before.
        cache: The folder of kept statements; None for nowhere.
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

    added = {members["name"]: proposal for members, proposal in entries}
    edit = partial(edit_policy, policy.file, with_all, added)
    locked = read_floors(edit(dry_run=True), [policy.lock])
    floors: dict[str, Floor] = {}
    for name, proposal in added.items():
        if (keyset := proposal.keyset) is not None:
            floors[name] = floor = Floor().with_statements(keyset, proposal.release)
            pin = locked.get(name, floor).raised_to(floor, name).keyset or keyset.id
            if pin != keyset.id:
                message = f"the lock has keyset {pin.label} of {name!r}, newer than {keyset.label}"
                hint = "Give the newest keyset too: --keyset FILE. If it is another issuer now: "
                hint += f"cardsign trust forget {name}"
                raise UsageFault("statement.rollback", message, path=str(policy.lock), hint=hint)
    compare()
    if dry_run:
        return
    raise_lock(policy.lock, floors)
    edit()
    for proposal in added.values():  # so that the first verdict needs no network
        anchor, keyset = proposal.anchor, proposal.keyset
        if cache is not None and keyset is not None and isinstance(anchor, KeysetAnchor):
            add_to_cache(cache, anchor, [keyset], proposal.release)


def move_pin(
    policy: Policy, name: str, now: datetime, cache: Path | None, *, dry_run: bool = False
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
        message = f"the anchor of {name!r} is not a single keyset statement, so no pin can be moved"
        hint = f"Anchor it anew: cardsign trust remove {name}, then cardsign trust add URL"
        raise UsageFault("usage.conflict", message, path=str(policy.path), hint=hint)
    floors = read_floors(policy, [policy.lock])
    check_entry(policy, issuer, floors, policy.lock)
    pin = floors[name].keyset or anchor.pin
    if pin.number <= anchor.pin.number:
        return anchor.pin, False
    edit = partial(edit_policy, policy.file, lambda text: with_pin(text, name, pin), [name])
    moved = edit(dry_run=dry_run).issuer(name)
    if cache is not None and not dry_run:
        Session(policy, moved, floors[name], cache=cache).resolve(read_cache(cache, anchor), now)
    return pin, True


def remove_issuer(policy: Policy, name: str, *, dry_run: bool = False) -> None:
    """Remove an issuer from a policy; its entry in the lock stays.

    Raises:
        UsageFault: ``policy.unknown_issuer``, ``policy.malformed``.
        FileFault: The policy cannot be read or written.
    """
    policy.issuer(name)
    edit_policy(policy.file, lambda text: without_issuer(text, name), [name], dry_run=dry_run)


def forget_issuer(policy: Policy, name: str, *, dry_run: bool = False) -> None:
    """Remove what the lock has of an issuer, which may be in the policy no more.

    Raises:
        UsageFault: ``usage.conflict``: the policy anchors it at a keyset, so the entry is needed;
            ``policy.unknown_issuer``: the lock has no such entry.
        FileFault: Policy or lock cannot be read or written.
    """
    anchors = {issuer.name: issuer.anchor for issuer in policy.issuers}
    if isinstance(anchors.get(name), KeysetAnchor):
        message = f"{name!r} is trusted by its keyset, which needs the entry"
        hint = f"Remove the issuer first: cardsign trust remove {name}"
        raise UsageFault("usage.conflict", message, path=str(policy.lock), hint=hint)
    if name not in read_lock(policy.lock):
        message = f"the lock has no entry for {name!r}"
        raise UsageFault("policy.unknown_issuer", message, path=str(policy.lock))
    if not dry_run:
        raise_lock(policy.lock, {name: None})


# A list of agents. What is proposed is shown to a person, and adds no issuer by itself.


#: Bytes of a list of agents; one has about 100.
MAX_AGENTS_BYTES: Final = 256 * 1024


def read_agents(path: Path) -> tuple[dict[str, Any], ...]:
    """Read the agents of a TOML file's ``[[a2a.external_agents]]``, each with `name` and `url`.

    Other members are not looked at.

    Returns:
        The members of an entry of the policy for each.

    Raises:
        UsageFault: ``usage.invalid``: there are none, or one lacks a name or a URL.
            ``card.interface_url``.
        FileFault: It cannot be read.
    """
    data, entries = read_bytes(path, max_bytes=MAX_AGENTS_BYTES), []
    try:
        with of_the_user(str(path)):
            document: Any = read_toml(data)
            for agent in document["a2a"]["external_agents"]:
                name, url = agent["name"].lower(), parse_url(agent["url"])
                name = re.sub(r"[^a-z0-9._-]+", "-", name).strip("-._")[:64] or url.origin.host
                entries.append({"name": name, "origins": [str(url.origin)], "cards": [str(url)]})
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        message = "this is not a list of agents, each with a name and a URL"
        hint = "Write [[a2a.external_agents]] with name = and url = for each agent; "
        hint += f"see agent {len(entries) + 1}."
        raise UsageFault("usage.invalid", message, path=str(path), hint=hint) from exc
    return tuple(entries)
