"""Attack 47 and rule K5: whose signatures count, and how often."""

from __future__ import annotations

import hashlib
import json

from corpus import Corpus
from crafting import P256_ORDER, Json, Key, b64, entry
from statements import (
    KEYSET,
    House,
    no,
    seal,
    yes,
)
from workbench import Bench

from cardsign.card import jcs
from cardsign.jose import base64url


def build(corpus: Corpus) -> None:
    """Register it."""
    _thresholds(corpus)


def _thresholds(corpus: Corpus) -> None:
    house = House()
    roots = house.quorum(2, "ann", "bob", "cat")
    first = house.keyset("ann", "bob", root=roots)
    bench = Bench(
        corpus,
        47,
        "thresholds",
        "One key that counts for two",
        "A rotation needs the threshold of the roots before and of the roots it names. Signatures "
        "count one by one: by recomputed thumbprint, once a key, once a holder, whatever a header "
        "calls the key.",
        house=house,
        first=first,
    )
    fresh = house.quorum(2, "dan", "eva", "fay")
    moved = {"root": fresh, "keys": house.entries("card2", "rel")}
    for id_, title, signers in (
        ("new-only", "Only the new roots", ("dan", "eva")),
        ("old-only", "Only the old roots", ("ann", "bob")),
        ("one-each", "One of each", ("ann", "dan")),
        ("old-and-one", "The old roots and one new one", ("ann", "bob", "dan")),
        ("strangers", "Three strangers", ("x", "y", "z")),
        ("online", "The online keys", ("card", "rel")),
        ("recovery", "The recovery key with the new roots", ("rita", "dan", "eva")),
    ):
        bad = house.after(first, *signers, label=f"keyset-1.2-{id_}", **moved)
        bench.bad_successor(id_, title, "statement.unsigned", bad)
    _doubled(bench)
    paired = house.quorum(2, "ann", "bob:ann", "cat")
    grown = house.after(first, "ann", "cat", root=paired, label="keyset-1.2-paired")
    release = house.release(grown, label="release-paired")
    for id_, title, signers, verdict in (
        ("holder-twice", "Two keys of one holder", ("ann", "bob"), "statement.unsigned"),
        (
            "holder-thrice",
            "Two keys of one holder, one of them twice",
            ("ann", "bob", "ann"),
            "statement.unsigned",
        ),
    ):
        bad = house.after(
            grown, *signers, keys=house.entries("card2", "rel"), label=f"keyset-1.3-{id_}"
        )
        honest = bench.step(yes("statement.unsigned"), first, grown, release, bad)
        theirs = bench.step(no("untrusted", verdict), bad, house.release(bad), by="card2")
        bench.steps(id_, title, honest, theirs)
    lawful = house.after(first, "ann", "cat", "dan", "fay", label="keyset-1.2-lawful", **moved)
    bench.honest(
        "lawful",
        "Two of the old roots and two of the new",
        first,
        lawful,
        house.release(lawful),
        by="card2",
    )
    two = house.after(
        grown, "bob", "cat", keys=house.entries("card2", "rel"), label="keyset-1.3-two-holders"
    )
    bench.honest(
        "two-holders",
        "Two holders, one with his second key",
        first,
        grown,
        two,
        house.release(two),
        by="card2",
    )
    kept = house.after(
        first,
        "ann",
        "x",
        "bob",
        "ann",
        keys=house.entries("card2", "rel"),
        label="keyset-1.2-beside",
    )
    bench.honest(
        "beside",
        "Enough roots beside a stranger and a repetition",
        first,
        kept,
        house.release(kept),
        by="card2",
    )


def _doubled(bench: Bench) -> None:
    house, first = bench.house, bench.first
    alone = house.after(first, "ann", keys=house.entries("card2", "rel"))
    payload, ann = jcs(alone.members), house.key("ann")
    one = alone.parts["signatures"][0]
    other = seal(payload, ann, KEYSET)
    header = {"typ": KEYSET, "kid": ann.thumbprint, "alg": "ES256"}
    bob = house.key("bob").thumbprint
    for id_, title, second in (
        ("key-twice", "One signature twice", one),
        ("signs-twice", "One key signs twice", other),
        (
            "header-order",
            "One key signs twice, under another header's bytes",
            entry(payload, ann, header),
        ),
        (
            "own-name",
            "The second time under its name in the set",
            seal(payload, ann, KEYSET, kid="ann"),
        ),
        (
            "as-bob",
            "The second time under another root's name",
            seal(payload, ann, KEYSET, kid=bob),
        ),
        ("lower-s", "The second time with the other s", _turned(one)),
        (
            "alias",
            "The second time under the thumbprint of an alias",
            seal(payload, ann, KEYSET, kid=_alias(ann)),
        ),
    ):
        signatures = {"signatures": [one, second]}
        bad = alone.sent({**alone.parts, **signatures}, f"keyset-1.2-{id_}")
        bench.bad_successor(id_, title, "statement.unsigned", bad)


def _alias(key: Key) -> str:
    """The thumbprint of the same key with a leading zero in x."""
    numbers = {**key.numbers, "x": b64(b"\0" + base64url.decode(key.numbers["x"]))}
    text = json.dumps(numbers, sort_keys=True, separators=(",", ":"))
    return b64(hashlib.sha256(text.encode()).digest())


def _turned(signature: Json) -> Json:
    raw = base64url.decode(signature["signature"])
    s = P256_ORDER - int.from_bytes(raw[32:])
    return {**signature, "signature": b64(raw[:32] + s.to_bytes(32))}
