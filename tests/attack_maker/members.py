"""Rules K2 to K4: a lawful successor but for one member. All of it is refused whole."""

from __future__ import annotations

import json
from typing import Any

from corpus import NOW, Corpus
from crafting import Json, b64
from statements import DAY, MOST, House, Statement, compact
from workbench import Bench

from cardsign.card import jcs


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_payload, _members, _quorums, _keys):
        make(corpus)


def _payload(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        202,
        "payload",
        "A payload that two readers read differently",
        "A statement's identity is the digest of its payload, so one statement must have one "
        "spelling: the octets received are RFC 8785 or nothing, although the roots signed them.",
    )
    house, lawful = bench.house, _rotated(bench)
    members, good = lawful.members, jcs(lawful.members)
    swapped = {name: members[name] for name in sorted(members, reverse=True)}
    for id_, title, code, payload in (
        ("indented", "Indented", "not_canonical", json.dumps(members, indent=1).encode()),
        ("order", "Members in another order", "not_canonical", compact(swapped)),
        (
            "escaped",
            "A letter as an escape",
            "not_canonical",
            good.replace(b"tides.", b"t\\u0069des."),
        ),
        (
            "float",
            "A number as 2.0",
            "not_canonical",
            good.replace(b'"version":2', b'"version":2.0'),
        ),
        (
            "exponent",
            "A number as 2e0",
            "not_canonical",
            good.replace(b'"version":2', b'"version":2e0'),
        ),
        ("newline", "A line break behind it", "not_canonical", good + b"\n"),
        ("twice", "A member twice", "shape", good[:-1] + b',"version":3}'),
        (
            "twice-escaped",
            "A member twice, once in escapes",
            "shape",
            good[:-1] + b',"versio\\u006e":3}',
        ),
        ("list", "A list of two statements", "shape", b"[" + good + b"," + good + b"]"),
        ("surrogate", "A lone surrogate", "shape", good.replace(b"tides.", b"tides\\ud800.")),
        ("nan", "NaN", "shape", good.replace(b'"version":2', b'"version":NaN')),
        ("latin-1", "Not UTF-8", "shape", good.replace(b"tides.", b"tid\xe9s.")),
    ):
        bad = house.keyset_of(members, label=f"keyset-1.2-{id_}", payload=payload)
        bench.bad_successor(id_, title, f"statement.{code}", bad)
    _twin(bench, "The same members as RFC 8785 writes them", lawful)


def _rotated(bench: Bench, **changes: Any) -> Statement:
    """A lawful version 2, whose card key is card2."""
    keys = bench.house.entries("card2", "rel")
    return bench.house.after(bench.first, **{"keys": keys, **changes})


def _twin(bench: Bench, title: str, lawful: Statement, **more: Any) -> None:
    release = bench.house.release(lawful)
    bench.honest("lawful", title, bench.first, lawful, release, by="card2", **more)


def _members(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        213,
        "statement-members",
        "Members that a statement does not have",
        "What a reader does not know it cannot obey, and what it passes over somebody else "
        "obeys. A statement has exactly its members, each in its one form.",
        source="rule K2",
    )
    house = bench.house
    for id_, title, code, changes in (
        ("unknown", "A member that nobody knows", "members", {"not_before": NOW + DAY}),
        ("cards", "With the cards of the old format", "members", {"cards": []}),
        ("missing", "Without revoked", "members", {"revoked": None}),
        ("newer", "Of a format to come", "format", {"format": "cardsign-keyset/2"}),
        ("release-format", "Of the release's format", "format", {"format": "cardsign-release/1"}),
        ("zero", "Epoch 0", "members", {"epoch": 0}),
        ("text-version", "The version as text", "members", {"version": "2"}),
        ("true-version", "The version as true", "members", {"version": True}),
        ("past-2-53", "A version of 2^53", "shape", {"version": MOST + 1}),
        ("no-prev", "prev is null in version 2", "members", {"prev": None}),
        ("capital-digest", "prev in capitals", "members", {"prev": bench.first.digest.upper()}),
        ("no-origins", "No origins", "members", {"origins": []}),
        ("wildcard", "An origin with a wildcard", "members", {"origins": ["https://*.example"]}),
        ("path", "An origin with a path", "members", {"origins": ["https://tides.example/"]}),
        ("backwards", "It ends before it begins", "time_span", {"exp": NOW - 2 * DAY}),
        ("401-days", "It lives for 401 days", "time_span", {"exp": NOW + 400 * DAY}),
        ("revoked-text", "revoked is a text", "members", {"revoked": "none"}),
        (
            "revoked-order",
            "revoked in another order",
            "members",
            {"revoked": ["B" * 42 + "A", "A" * 43]},
        ),
        ("revoked-kid", "revoked by a kid", "members", {"revoked": ["card"]}),
    ):
        members = {**_rotated(bench).members, **changes}
        if id_ == "missing":
            del members["revoked"]
        bad = (
            _unbounded(house, members, id_)
            if id_ == "past-2-53"
            else house.keyset_of(members, label=f"keyset-1.2-{id_}")
        )
        bench.bad_successor(id_, title, f"statement.{code}", bad)
    longest = _rotated(bench, exp=NOW + 399 * DAY)
    _twin(bench, "A rotation that lives for 400 days", longest)


def _unbounded(house: House, members: Json, id_: str) -> Statement:
    """RFC 8785 has no integer beyond 2^53-1, so it is written by hand."""
    text = jcs({**members, "version": MOST}).replace(str(MOST).encode(), str(MOST + 1).encode())
    told = {**members, "version": 2}
    return house.keyset_of(told, label=f"keyset-1.2-{id_}", payload=text)


def _quorums(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        203,
        "quorums",
        "Thresholds that say less than they seem to",
        "Roots and recovery keys are held by people. A set that one key, one person or an online "
        "key can fill by himself is no quorum, whatever number it names.",
    )
    house = bench.house
    ann = house.key("ann")
    padded_x = {"public": ann.jwk(x=b64(b"\0" + _coordinate(ann))), "holder": "bob"}
    again = {"public": ann.jwk(kid="ann-2"), "holder": "bob"}
    many = house.quorum(1, "ann", *(f"root{n}" for n in range(16)))
    sixteen = house.quorum(1, "ann", *(f"root{n}" for n in range(15)))
    two = house.quorum(1, "ann:ann", "bob:ann")
    for id_, title, code, changes in (
        ("zero", "Threshold 0", "members", {"root": {**house.quorum(1, "ann"), "threshold": 0}}),
        ("too-high", "Threshold 2 of one holder", "threshold", {"root": house.quorum(2, "ann")}),
        (
            "one-holder",
            "Threshold 2 of one holder's two keys",
            "threshold",
            {"root": {**two, "threshold": 2}},
        ),
        ("17-holders", "17 holders", "threshold", {"root": many}),
        ("empty", "A root without keys", "threshold", {"root": {"threshold": 1, "keys": []}}),
        ("same-key", "One key under two names", "bad_key", {"root": _and(house, 2, again)}),
        ("alias", "One key in two encodings", "bad_key", {"root": _and(house, 2, padded_x)}),
        ("root-null", "No root", "members", {"root": None}),
        (
            "recovery-is-root",
            "The recovery key is a root, too",
            "bad_key",
            {"recovery": house.quorum(1, "ann")},
        ),
        (
            "recovery-is-online",
            "The recovery key signs cards",
            "bad_key",
            {"recovery": house.quorum(1, "card2")},
        ),
        (
            "root-is-online",
            "A root key signs releases",
            "bad_key",
            {"root": house.quorum(1, "ann", "rel")},
        ),
        (
            "holder-capitals",
            "A holder in capitals, so that Ann is not ann",
            "members",
            {"root": house.quorum(2, "ann", "bob:Ann")},
        ),
        ("no-holder", "A root key without holder", "members", {"root": _without_holder(house)}),
        ("root-revoked", "A root key is revoked", "bad_key", {"revoked": house.thumbprints("ann")}),
    ):
        bad = _rotated(bench, **changes)
        bench.bad_successor(
            id_, title, f"statement.{code}", bad.sent(bad.data, f"keyset-1.2-{id_}")
        )
    _twin(bench, "16 holders, of whom one must sign", _rotated(bench, root=sixteen))
    held = _rotated(bench, root=two)
    release = house.release(held)
    bench.honest("two-keys", "One holder with two keys", bench.first, held, release, by="card2")
    same = house.after(
        bench.first,
        "ann",
        "rita",
        keys=house.entries("card2", "rel"),
        recovery=house.quorum(1, "rita:ann"),
        label="keyset-1.2-same-holder",
    )
    bench.honest(
        "holder-repeats",
        "One person holds a root and a recovery key",
        bench.first,
        same,
        house.release(same),
        by="card2",
    )


def _and(house: House, threshold: int, key: Json) -> Json:
    quorum = house.quorum(threshold, "ann")
    return {**quorum, "keys": [*quorum["keys"], key]}


def _without_holder(house: House) -> Json:
    return {"threshold": 1, "keys": [{"public": house.key("ann").jwk()}]}


def _coordinate(key: Any) -> bytes:
    return int(key.native.public_key().public_numbers().x).to_bytes(32)


def _keys(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        204,
        "keys-member",
        "Keys that are not what they seem",
        "An online key stands once, in its one encoding, with its algorithm, role and time. A "
        "second spelling of a key would escape revocation; a private half, or a weak key, is "
        "nobody's alone.",
    )
    house = bench.house
    card2 = house.key("card2")
    listed = house.entry("card2")
    padded = card2.jwk(x=b64(b"\0" + _coordinate(card2)))
    for id_, title, code, keys in (
        ("alias", "A coordinate with a leading zero", "bad_key", [{**listed, "public": padded}]),
        (
            "private",
            "With its private half",
            "bad_key",
            [{**listed, "public": card2.jwk(d="AAAA")}],
        ),
        ("extra-member", "With certificates", "bad_key", [{**listed, "public": card2.jwk(x5c=[])}]),
        ("no-alg", "Without alg", "bad_key", [{**listed, "public": card2.jwk(alg=None)}]),
        (
            "other-alg",
            "With another key type's alg",
            "bad_key",
            [{**listed, "public": card2.jwk(alg="RS256")}],
        ),
        ("encryption", "For encryption", "bad_key", [{**listed, "public": card2.jwk(use="enc")}]),
        (
            "off-curve",
            "A point off the curve",
            "bad_key",
            [{**listed, "public": card2.jwk(y=card2.jwk()["x"])}],
        ),
        (
            "twice",
            "Twice, with two times",
            "bad_key",
            [listed, {**listed, "exp": NOW + 9999 * DAY}],
        ),
        (
            "two-kids",
            "One key under two kids",
            "bad_key",
            [listed, {**listed, "public": card2.jwk(kid="other")}],
        ),
        (
            "one-kid",
            "Two keys under one kid",
            "bad_key",
            [listed, {**listed, "public": house.key("x").jwk(kid="card2")}],
        ),
        ("no-role", "Without a role", "members", [{**listed, "roles": []}]),
        ("root-role", "With the role root", "members", [{**listed, "roles": ["card", "root"]}]),
        ("no-end", "Without an end", "members", [{n: v for n, v in listed.items() if n != "exp"}]),
        (
            "ends-first",
            "It ends before it begins",
            "time_span",
            [{**listed, "nbf": NOW, "exp": NOW - 1}],
        ),
        ("state", "With a state of its own", "members", [{**listed, "state": "active"}]),
    ):
        bad = _rotated(bench, keys=[*keys, house.entry("rel")])
        bench.bad_successor(
            id_, title, f"statement.{code}", bad.sent(bad.data, f"keyset-1.2-{id_}")
        )
    revoked = _rotated(bench, revoked=house.thumbprints("card2"))
    bench.bad_successor(
        "listed-and-revoked",
        "Listed and revoked at once",
        "statement.bad_key",
        revoked.sent(revoked.data, "keyset-1.2-revoked"),
        verdict="untrusted",
    )
    _twin(bench, "The same key in its one form", _rotated(bench))
    both = _rotated(bench, keys=[house.entry("card2", "card", "release")])
    bench.honest(
        "both-roles",
        "One key for cards and releases",
        bench.first,
        both,
        house.release(both, "card2"),
        by="card2",
    )
