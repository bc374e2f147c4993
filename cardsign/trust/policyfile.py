"""`trust.toml` -> :class:`~cardsign.trust.policy.Policy`; `docs/formats.md` specifies the file.

Every refusal says the line, what was expected there and what to do, for the file is written by
hand and a policy that is misread protects nobody.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from cardsign.errors import CardRefused, InputRefused, KeyRefused, UsageFault
from cardsign.files import read_bytes
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.jose.succession import RootPin, StatementPin
from cardsign.trust.anchors import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor, TofuAnchor
from cardsign.trust.lock import POLICY_FILE
from cardsign.trust.origins import parse_url
from cardsign.trust.places import Place, parse_place
from cardsign.trust.policy import Enrolment, Limits, Policy
from cardsign.trust.policylines import Lines, Location
from cardsign.trust.policytables import (
    AnchorTable,
    IssuerTable,
    MisplacedError,
    PinnedKey,
    RootSet,
    TrustFile,
    closest,
    read_tables,
)
from cardsign.trust.subject import CardUrl

#: Bytes. Some thousand issuers; one has about 300.
MAX_POLICY_BYTES: Final = 1024 * 1024


def read_policy(path: Path) -> tuple[Policy, str]:
    """Read a policy file: the policy, and the text in which it stands.

    Raises:
        UsageFault: ``policy.malformed``.
        FileFault: It cannot be read.
    """
    data = read_bytes(path, max_bytes=MAX_POLICY_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise _malformed(str(path), "this is not UTF-8", line) from exc
    return parse_policy(text, source=str(path)), text


def parse_policy(text: str, *, source: str = POLICY_FILE) -> Policy:
    """Read the text of a policy; its enrolments stand in the order of the text.

    Args:
        text: TOML 1.0.
        source: What errors call the text.

    Raises:
        UsageFault: ``policy.malformed``, with the line.
    """
    try:
        members = tomllib.loads(text)
        lines = Lines.of(text)
    except (ValueError, RecursionError) as exc:
        raise _not_toml(source, text, exc) from exc
    try:
        return _policy(read_tables(members))
    except MisplacedError as wrong:
        line = lines.line_of(wrong.at)
        raise _malformed(source, wrong.message, line, wrong.hint) from wrong


def _policy(file: TrustFile) -> Policy:
    enrolments = tuple(
        _enrolment(table, ("issuer", index)) for index, table in enumerate(file.issuer)
    )
    named: dict[str, int] = {}
    placed: dict[Place, str] = {}
    for index, one in enumerate(enrolments):
        if one.name in named:
            _misplace(("issuer", index, "name"), f"two issuers have the name {one.name!r}")
        named[one.name] = index
        for nth, place in enumerate(one.places or ()):
            if place in placed:
                _misplace(
                    ("issuer", index, "origins", nth),
                    f"{place} belongs to {placed[place]!r} already",
                    "Keep issuers of one origin apart by path prefixes, such as "
                    '"https://host/agents/name/".',
                )
            placed[place] = one.name
    policy = Policy(enrolments, Limits(**file.limits.model_dump()))
    for index, one in enumerate(enrolments):
        _check_cards(policy, one, ("issuer", index, "cards"))
    return policy


def _check_cards(policy: Policy, enrolment: Enrolment, at: Location) -> None:
    """Each card is this issuer's, so that looking at it says something about him."""
    for index, url in enumerate(enrolment.cards):
        if url in enrolment.cards[:index]:
            _misplace((*at, index), f"{url!r} stands here twice")
        with _placed((*at, index)):
            owner = policy.find(CardUrl(url))
        if owner is not enrolment:
            whose = "nobody's `origins` hold it" if owner is None else f"{owner.name!r} holds it"
            _misplace((*at, index), f"{url!r} is no card of {enrolment.name!r}: {whose}")


def _enrolment(table: IssuerTable, at: Location) -> Enrolment:
    places = []
    for index, text in enumerate(table.origins):
        with _placed((*at, "origins", index)):
            places.append(parse_place(text))
    for index, holder in enumerate(table.require):
        if holder in table.require[:index]:
            _misplace((*at, "require", index), f"{holder!r} stands here twice")
    anchor = _anchor(table, at)
    if isinstance(anchor, KeysAnchor):
        _check_holders(table, anchor, at)
    return Enrolment(
        table.name,
        anchor,
        tuple(places),
        tuple(table.profiles),
        table.freshness,
        tuple(table.algorithms),
        tuple(table.require),
        table.unsigned,
        cards=tuple(table.cards),
        peer=table.peer,
    )


def _anchor(table: IssuerTable, at: Location) -> Anchor:
    anchor, at = table.anchor, (*at, "anchor")
    named = sorted(anchor.model_fields_set)
    if len(named) != 1:
        kinds = ", ".join(AnchorTable.model_fields)
        found = " and ".join(named) if named else "none"
        _misplace(at, f"an issuer has one anchor, found {found}", f"Name exactly one of {kinds}.")
    if anchor.keyset is not None:
        pin = StatementPin(anchor.keyset.epoch, anchor.keyset.version, anchor.keyset.digest)
        return KeysetAnchor(pin, anchor.keyset.issuer)
    if anchor.roots is not None:
        return KeysetAnchor(_roots(anchor.roots, (*at, "roots")), anchor.roots.issuer)
    if anchor.keys is not None:
        return _keys(anchor.keys, table.algorithms, (*at, "keys"))
    if anchor.jwks is not None:
        with _placed((*at, "jwks")):
            if parse_url(anchor.jwks).origin.scheme != "https":
                raise CardRefused("card.interface_url", "expected a URL that begins with https://")
        return JwksAnchor(anchor.jwks)
    return TofuAnchor()


def _roots(table: RootSet, at: Location) -> RootPin:
    thumbprints = [key.thumbprint for key in table.keys]
    for index, thumbprint in enumerate(thumbprints):
        if thumbprint in thumbprints[:index]:
            _misplace((*at, "keys", index), f"the key {thumbprint} stands here twice")
    holders = len({key.holder for key in table.keys})
    if table.threshold > holders:
        _misplace(
            (*at, "threshold"),
            f"{table.threshold} of {holders} holders can never sign",
            "A holder counts once, however many keys he has.",
        )
    return RootPin(table.threshold, frozenset((key.thumbprint, key.holder) for key in table.keys))


def _keys(tables: list[PinnedKey], algorithms: Iterable[str], at: Location) -> KeysAnchor:
    keys: list[PublicKey] = []
    holders = dict[str, str]()
    allowed = tuple(algorithms)
    for index, table in enumerate(tables):
        with _placed((*at, index, "public")):
            key = PublicKey.from_jwk(table.public, algorithms=tuple(ALGORITHMS))
        if key.alg not in allowed:
            _misplace(
                (*at, index, "public"),
                f"this is a key for {key.alg}, and `algorithms` is {', '.join(allowed)}",
                f'Write algorithms = ["{key.alg}"] in this [[issuer]] if its cards may be signed '
                "so, or remove the key.",
            )
        twins = [one for one in keys if one.thumbprint == key.thumbprint]
        if any(holders.get(one.kid) != table.holder for one in twins):
            _misplace(
                (*at, index, "public"),
                f"the key {key.thumbprint} stands here twice, with two holders",
                "One key is one holder's, under whatever kids: name one of the two.",
            )
        keys.append(key)
        if table.holder is not None:
            holders[key.kid] = table.holder
    with _placed(at):
        return KeysAnchor(JwkSet.of(keys), holders)


def _check_holders(table: IssuerTable, anchor: KeysAnchor, at: Location) -> None:
    known = sorted(set(anchor.holders.values()))
    for index, holder in enumerate(table.require):
        if holder not in known:
            _misplace(
                (*at, "require", index),
                f"no pinned key is held by {holder!r}{closest(holder, known)}",
                f"Holders are {', '.join(known)}." if known else "Give each key its `holder`.",
            )


@contextmanager
def _placed(at: Location) -> Iterator[None]:
    """Place what the readers of keys and URLs refuse."""
    try:
        yield
    except KeyRefused as exc:
        member = f"{exc.path.lstrip('/')}: " if exc.path else ""
        raise MisplacedError(at, f"{member}{exc.message} ({exc.code})", exc.hint) from exc
    except InputRefused as exc:
        raise MisplacedError(at, exc.message, exc.hint) from exc


def _misplace(at: Location, message: str, hint: str = "") -> NoReturn:
    raise MisplacedError(at, message, hint)


def _malformed(source: str, message: str, line: int | None, hint: str = "") -> UsageFault:
    return UsageFault("policy.malformed", message, path=source, line=line, hint=hint)


def _not_toml(source: str, text: str, exc: Exception) -> UsageFault:
    if isinstance(exc, RecursionError):
        return _malformed(source, "values are nested too deeply", 1)
    message = str(exc)
    place = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", message)
    line = int(place[1]) if place else text.rstrip().count("\n") + 1
    shown = message[: place.start()] if place else message
    return _malformed(source, f"this is not TOML: {shown[:1].lower()}{shown[1:]}", line)
