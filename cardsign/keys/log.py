"""The log of a key store: one line a commit, and what its events make of the store's state.

::

    {"actor": "ann@host", "events": [{"event": "entered", ...}, ...], "prev": "<SHA-256 of the
     line before>", "seq": 7, "time": "2026-11-21T22:00:00Z"}

The state is the fold of the events, so the log is its own audit. A line is read as strictly as a
stranger's file, since a stranger may have written it. An event or a member that this cardsign does
not know is refused: a newer one may have noted there that a key is revoked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from typing import Any, Final, TypeAlias

from cardsign.card.strictjson import parse_object
from cardsign.errors import JsonRefused, KeyRefused, StoreFault
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.keys.model import (
    ENDED,
    REVOCATION_REASONS,
    ROLES,
    TRANSITIONS,
    HeldStatement,
    KeyRecord,
    Publication,
    PublishedCard,
    StoreState,
)
from cardsign.times import read_stamp, stamp

Event: TypeAlias = Mapping[str, Any]

MAX_LINE_BYTES: Final = 1024 * 1024  # a publication of 1000 extended cards has some 300 KiB
MAX_PLACE_CHARS: Final = 1024  # of a path or URL that a message shows

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*:.*")  # RFC 3986 3.1, in lower case

_LINE: Final = frozenset({"actor", "events", "prev", "seq", "time"})
#: What each event may have besides its name.
_MEMBERS: Final[Mapping[str, str]] = {
    "entered": "public roles custody state holder blob",
    "moved": "key to stops reason",
    "stolen": "custody",
    "replaced": "key",
    "resealed": "key custody blob",
    "published": "generation at max_age kids cards replaces",
    "handed-out": "without",
    "keyset": "epoch version digest blob",
    "release": "seq digest blob",
    "left": "to",
}
_COUNTS: Final = frozenset({"generation", "max_age", "epoch", "version", "seq"})
_DIGESTS: Final = frozenset({"blob", "digest", "payload_sha256"})
_TEXTS: Final = frozenset({"name", "url", "holder", "custody", "replaces", "to"})  # or null
_LISTS: Final = frozenset({"kids", "roles", "without"})
_TIME_OF: Final = {"active": "activated", "retiring": "stops_signing"}  # else the state's own name


def write_line(state: StoreState, events: Iterable[Event], now: datetime, actor: str) -> bytes:
    """Return the line that tells of `events` as the next after `state`, without its end."""
    members = {
        "actor": actor,
        "events": list(events),
        "prev": state.head,
        "seq": state.seq + 1,
        "time": stamp(now),
    }
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")


def read_line(
    state: StoreState, untrusted_line: bytes, where: str
) -> tuple[StoreState, Mapping[str, Any]]:
    """Return what a line makes of the state before it, and its members.

    Raises:
        StoreFault: ``keystore.audit_broken``: it does not continue the log; ``keystore.corrupt``;
            ``keystore.newer_format``; or as :func:`fold`.
    """
    number = state.seq + 1
    try:
        members: Mapping[str, Any] = parse_object(untrusted_line, max_bytes=MAX_LINE_BYTES)
        if members.keys() - _LINE:
            raise _newer("it has members that are unknown here")
        if (type(members["seq"]), members["seq"], members["prev"]) != (int, number, state.head):
            raise StoreFault("keystore.audit_broken", "it does not continue the line before it")
        if not members["events"] or not isinstance(members["actor"], str):
            raise ValueError("it has no events, or no actor")
        after = fold_all(state, members["events"], read_stamp(members["time"]))
    except JsonRefused as exc:
        hint = _IN_CONFLICT if untrusted_line.startswith((b"<<<<<<<", b"=======")) else ""
        message = f"line {number} of the log is not strict JSON: {exc.message}"
        raise StoreFault("keystore.corrupt", message, path=where, hint=hint) from exc
    except (KeyRefused, StoreFault, ValueError, KeyError, TypeError, AttributeError) as exc:
        code = exc.code if isinstance(exc, StoreFault) else "keystore.corrupt"
        problem = f"it has no {exc}" if isinstance(exc, KeyError) else getattr(exc, "message", exc)
        message = f"line {number} of the log: {problem}"
        raise StoreFault(code, message, path=where) from exc
    return replace(after, seq=number, head=hashlib.sha256(untrusted_line).hexdigest()), members


_IN_CONFLICT: Final = (
    "Two machines have changed the key store. Keep the log of the one that has published, "
    "with git checkout --ours or --theirs; then cardsign keys rotate does the rest again."
)


def _newer(problem: str) -> StoreFault:
    return StoreFault("keystore.newer_format", f"{problem}: a newer cardsign wrote it")


# What each event does.


def fold_all(state: StoreState, events: Iterable[Event], at: datetime) -> StoreState:
    """Return what some events make of a state, one after the other."""
    for event in events:
        state = fold(state, event, at)
    return state


def fold(state: StoreState, event: Event, at: datetime) -> StoreState:
    """Return what an event makes of a state.

    Raises:
        StoreFault: ``keystore.newer_format``, ``keystore.unknown_key``,
            ``keystore.illegal_transition``, ``keystore.duplicate_key``.
        KeyRefused, ValueError, KeyError, TypeError: It is no event that cardsign writes.
    """
    name = event["event"]
    if name not in _MEMBERS:
        raise _newer(f"the event {str(name)[:40]!r} is unknown here")
    if unknown := event.keys() - {"event", *_MEMBERS[name].split()}:
        raise _newer(f"`{min(unknown)[:40]}` of the event {name!r} is unknown here")
    _check_values(event)
    return _FOLDS[name](state, event, at)


def _check_values(members: Mapping[str, Any]) -> None:
    for name, value in members.items():
        if name in _COUNTS and (type(value) is not int or value < 0):  # a bool is an int as well
            raise ValueError(f"`{name}`: {value!r:.40} is not a count")
        if name in _DIGESTS and not (isinstance(value, str) and _DIGEST.fullmatch(value)):
            raise ValueError(f"`{name}`: {value!r:.40} is not a SHA-256 in lower-case hex")
        texts = value if name in _LISTS else [value] if name in _TEXTS else []
        if not isinstance(texts, list | tuple) or not all(
            isinstance(text, str | None) for text in texts
        ):
            raise ValueError(f"`{name}`: {value!r:.40} is not a text, or a list of them")


def _enter(state: StoreState, event: Event, at: datetime) -> StoreState:
    public = PublicKey.from_jwk(event["public"], algorithms=SIGNING_ALGORITHMS)
    roles, blob, custody = tuple(event["roles"]), event.get("blob"), str(event["custody"])
    if not roles or roles != tuple(role for role in ROLES if role in roles):
        raise ValueError(f"`roles` is no list in the order {', '.join(ROLES)}")
    if not _URI.fullmatch(custody) or custody.startswith("file:") is (blob is None):
        raise ValueError("`custody` is not where such a key is")
    if event["state"] not in ("generated", "prepublished", "active"):
        raise ValueError("`state` is none in which a key begins")
    holder = event.get("holder")
    key = KeyRecord(public, event["state"], roles, custody, at, holder, blob=blob)
    if key.rotates and key.state != "generated":
        key = key.at(prepublished=at)
    if key.state == "active":
        key = key.at(activated=at)
    for other in state.keys:
        if key.names & other.names:
            message = f"the store has a key of this kid or thumbprint already, {other.kid!r}"
            raise StoreFault("keystore.duplicate_key", message)
    return _with_keys(replace(state, keys=(*state.keys, key)), at)


def _move(state: StoreState, event: Event, at: datetime) -> StoreState:
    key, to = state.find(event["key"]), event["to"]
    ways = TRANSITIONS[key.state]
    if to not in ways:
        legal = f", only {' or '.join(ways)}" if ways else ": its state is final"
        message = f"a key that is {key.state} cannot become {str(to)[:20]}{legal}"
        raise StoreFault("keystore.illegal_transition", message)
    time = read_stamp(event["stops"]) if to == "retiring" else at
    times: dict[str, datetime | None] = {_TIME_OF.get(to, str(to)): time}
    moved = key.at(to, **times)
    if to == "revoked":
        if event["reason"] not in REVOCATION_REASONS:
            raise ValueError("`reason` is none for a revocation")
        moved = replace(moved, revoked_because=event["reason"])
    return _with_keys(state.replacing([moved]), at)


def _with_keys(state: StoreState, at: datetime) -> StoreState:
    """Return a state whose keys have changed: one is active in each line, and marks are set."""
    active = [key for key in state.keys if key.state == "active" and key.rotates]
    for first, other in combinations(active, 2):
        if first.succeeds(other):
            raise ValueError(f"two keys are active, {first.kid!r} and {other.kid!r}")
    return _marked(state, at)


def _replace(state: StoreState, event: Event, at: datetime) -> StoreState:
    return state.replacing([state.find(event["key"]).at(replaced=at)])


def _reseal(state: StoreState, event: Event, at: datetime) -> StoreState:
    key, custody = state.find(event["key"]), str(event["custody"])
    if key.private != "held" or not custody.startswith("file:"):
        raise ValueError("it changes a private key that is not here")
    return state.replacing([replace(key, custody=custody, blob=event["blob"])])


def _report_theft(state: StoreState, event: Event, at: datetime) -> StoreState:
    group = str(event["custody"])
    keys = [key for key in state.keys if key.group == group and key.state not in ENDED]
    state = replace(state, stolen=state.stolen | {group})
    return state.replacing(replace(key, is_stolen=True) for key in keys)


def _publish(state: StoreState, event: Event, at: datetime) -> StoreState:
    for card in event["cards"]:
        _check_values(card)
    cards = tuple(
        PublishedCard(card["name"], card["payload_sha256"], tuple(card["kids"]), card["url"])
        for card in event["cards"]
    )
    arguments = event["generation"], read_stamp(event["at"]), event["max_age"], tuple(event["kids"])
    publication = Publication(*arguments, cards, told=event["max_age"])
    earlier = {other.series: other for other in state.publications}.get(publication.series)
    if earlier is not None:
        publication = _after(earlier, publication)
    gone = (publication.series, event.get("replaces"))
    others = (other for other in state.publications if other.series not in gone)
    after = replace(state, publications=(*others, *([publication] if cards else [])))
    # As another series may have been published later, it is then that the newest had been.
    return _marked(after, max((other.at for other in after.publications), default=publication.at))


def _after(earlier: Publication, publication: Publication) -> Publication:
    """Return a publication that follows another one of its series, with what caches know of it."""
    shown_since = {
        (card.url, card.payload_sha256): card.since or earlier.at for card in earlier.cards
    }
    cards = [
        replace(card, since=shown_since.get((card.url, card.payload_sha256), publication.at))
        for card in publication.cards
    ]
    return replace(publication, cards=tuple(cards), told=max(publication.told, earlier.told))


def _hand_out(state: StoreState, event: Event, at: datetime) -> StoreState:
    return state.replacing(state.find(name).at(dropped=at) for name in event["without"])


def _keep_keyset(state: StoreState, event: Event, at: datetime) -> StoreState:
    kept = HeldStatement((event["epoch"], event["version"]), event["digest"], event["blob"])
    _check_follows(kept, state.keysets[-1] if state.keysets else None)
    return replace(state, keysets=(*state.keysets, kept))


def _keep_release(state: StoreState, event: Event, at: datetime) -> StoreState:
    kept = HeldStatement((event["seq"],), event["digest"], event["blob"])
    _check_follows(kept, state.release)
    return replace(state, release=kept)


def _check_follows(kept: HeldStatement, newest: HeldStatement | None) -> None:
    if newest is not None and kept.number <= newest.number:
        message = f"statement {newest.label} is kept by now, so {kept.label} is not the next"
        raise StoreFault("keystore.changed", message)


def _leave(state: StoreState, event: Event, at: datetime) -> StoreState:
    to = event["to"]
    if to is not None and not (0 < len(to) <= MAX_PLACE_CHARS and to.isprintable()):
        raise ValueError("`to` is not the name of a place")
    return replace(state, moved_to=to)


_FOLDS: Final[Mapping[str, Callable[[StoreState, Event, datetime], StoreState]]] = {
    "entered": _enter,
    "moved": _move,
    "stolen": _report_theft,
    "replaced": _replace,
    "resealed": _reseal,
    "published": _publish,
    "handed-out": _hand_out,
    "keyset": _keep_keyset,
    "release": _keep_release,
    "left": _leave,
}


# The marks from which waits run: since when something holds; they go when it ceases to hold.


def _marked(state: StoreState, at: datetime) -> StoreState:
    newest = state.publications
    changed = list[KeyRecord]()
    for key in state.keys:
        is_in = [key.kid in publication.kids for publication in newest]
        if key.state in ENDED:  # its other marks stay as they were
            if not was_given_out(state, key) and any(is_in) is (key.times.dropped is not None):
                changed.append(key.at(dropped=None if any(is_in) else at))
            continue
        drains = bool(newest) and key.state == "retiring" and "card" in key.roles
        relieved = drains and not (unsigned_cards(state, key) or signed_cards(state, key))
        seen = _since(key.times.seen, bool(newest) and all(is_in), at)
        since = _since(key.times.relieved, relieved, at)
        if (seen, since) != (key.times.seen, key.times.relieved):
            changed.append(key.at(seen=seen, relieved=since))
    return state.replacing(changed) if changed else state


def _since(mark: datetime | None, holds: bool, at: datetime) -> datetime | None:
    return (mark or at) if holds else None


def was_given_out(state: StoreState, key: KeyRecord) -> bool:
    """Whether a stolen key may be in key sets of which no publication is on record."""
    return (
        key.revoked_because == "compromised"
        and "card" in key.roles
        and key.times.prepublished is not None
        and not state.keysets
        and not state.publications
    )


def unsigned_cards(state: StoreState, key: KeyRecord) -> tuple[PublishedCard, ...]:
    """Return the published cards that no active key has signed which succeeds `key`."""
    successors = {
        other.kid for other in state.keys if other.state == "active" and other.succeeds(key)
    }
    return tuple(card for card in published_cards(state) if successors.isdisjoint(card.kids))


def signed_cards(state: StoreState, key: KeyRecord) -> tuple[PublishedCard, ...]:
    """Return the published cards that `key` has signed."""
    return tuple(card for card in published_cards(state) if key.kid in card.kids)


def published_cards(state: StoreState) -> tuple[PublishedCard, ...]:
    """Return the cards of the newest publication of each series."""
    return tuple(card for publication in state.publications for card in publication.cards)
