"""Finding 2 and rule K8: where a walk begins."""

from __future__ import annotations

from corpus import NOW, Corpus
from statements import (
    DAY,
    HOUR,
    House,
    no,
    pin,
    yes,
)
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_pins, _first):
        make(corpus)


def _pins(corpus: Corpus) -> None:
    house = House()
    roots = house.quorum(2, "ann", "bob", "cat")
    first = house.keyset("ann", "bob", root=roots)
    bench = Bench(
        corpus,
        102,
        "pins",
        "One of three roots writes his own beginning",
        "Who pins one thumbprint of three lets one thief be the whole root. A pin is one "
        "statement, or the whole root set with threshold and holders. And a root that was "
        "retired can still fork its old days; who remembers the newest statement, in his "
        "memory or in the lock, is not misled.",
        house=house,
        first=first,
    )
    whole = bench.policy("roots.toml", house.root_pin(2, ann="ann", bob="bob", cat="cat"))
    lone = bench.policy("lone.toml", house.root_pin(1, ann="ann"))
    low = bench.policy("low.toml", house.root_pin(1, ann="ann", bob="bob", cat="cat"))
    sole = house.keyset("ann", root=house.quorum(1, "ann"), label="keyset-1.1-sole")
    low_first = house.keyset(
        "ann", root=house.quorum(1, "ann", "bob", "cat"), label="keyset-1.1-low"
    )
    relabelled = house.quorum(2, "ann", "bob:bill", "cat")
    named = house.keyset("ann", "bob", root=relabelled, label="keyset-1.1-relabelled")
    short = house.keyset("ann", root=roots, label="keyset-1.1-one-signature")
    other = house.keyset("ann", "bob", root=roots, iat=NOW - HOUR, label="keyset-1.1-other")
    for id_, title, policy, bad, code in (
        ("sole-root", "One thief of three roots as sole root", whole, sole, "anchor"),
        (
            "sole-root-pin",
            "The same, where statement 1 itself is pinned",
            "trust.toml",
            sole,
            "anchor",
        ),
        ("threshold", "The three roots with threshold 1", whole, low_first, "anchor"),
        ("holders", "The three roots, one under another holder", whole, named, "anchor"),
        ("one-signature", "The right set, signed by one of them", whole, short, "unsigned"),
        (
            "other-payload",
            "The right roots, another payload than is pinned",
            "trust.toml",
            other,
            "anchor",
        ),
        ("lone-of-three", "One thumbprint pinned, and a set of three", lone, first, "anchor"),
        (
            "verifier-lower",
            "The verifier pinned a lower threshold than the set has",
            low,
            first,
            "anchor",
        ),
    ):
        bench.refused(
            id_,
            title,
            "indeterminate",
            f"statement.{code}",
            bad,
            house.release(bad, label=f"release-{bad.label}"),
            policy=policy,
            expecting={"answers": {"authorised": "unknown"}},
        )
    fresh = house.quorum(1, "dan")
    second = house.after(first, "ann", "bob", "dan", root=fresh)
    forged = house.after(
        first, "ann", "cat", keys=house.entries("card2", "rel"), label="keyset-1.2-forged"
    )
    third = house.after(forged, "ann", "cat", label="keyset-1.3-forged")
    release, evil = house.release(second), house.release(third, label="release-forged")
    seen = bench.lock("seen", second, release)
    bench.refused(
        "retired-lock",
        "Retired roots write another version 2 and 3, and a lock names the true 2",
        "indeterminate",
        "statement.fork",
        first,
        forged,
        third,
        evil,
        by="card2",
        lock=seen,
        memory="none",
    )
    bench.steps(
        "retired-memory",
        "The same before one who remembers the true 2",
        bench.step(yes(), first, second, release),
        bench.step(no("untrusted", "statement.prev"), first, forged, third, evil, by="card2"),
    )
    bench.refused(
        "retired-stateless",
        "The same before one who remembers nothing and has no lock: he is told so",
        "indeterminate",
        "state.none",
        first,
        forged,
        third,
        evil,
        by="card2",
        memory="none",
    )
    bench.honest("whole-set", "The whole root set pinned", first, second, release, policy=whole)
    bench.honest("statement", "Statement 1 pinned", first, second, release)
    only = house.keyset(label="keyset-1.1-lone")
    bench.honest(
        "lone",
        "One thumbprint pinned, which is the whole set",
        only,
        house.release(only, label="release-lone"),
        policy=lone,
    )
    pinned = bench.policy("second.toml", pin(second))
    bench.honest(
        "later", "Version 2 pinned: version 1 is not needed", second, release, policy=pinned
    )


def _first(corpus: Corpus) -> None:
    house = House()
    bench = Bench(
        corpus,
        218,
        "first-statement",
        "Where a walk begins",
        "A pinned root set fits every statement that these roots sign. The walk begins with the "
        "lowest; where two have its number, it has no beginning, whichever comes first.",
        source="rule K8",
        house=house,
        anchor=house.root_pin(1, ann="ann"),
    )
    one = bench.first
    twin = house.keyset(keys=house.entries("card2", "rel"), label="keyset-1.1-twin")
    release, evil = bench.release, house.release(twin, label="release-twin")
    for id_, title, brought, by in (
        ("two", "Two statements 1 by the pinned roots", (one, twin, release), "card"),
        ("two-turned", "The same, the other first", (twin, one, release), "card"),
        ("two-theirs", "The same, with the other's release and card", (twin, one, evil), "card2"),
    ):
        bench.refused(id_, title, "indeterminate", "statement.fork", *brought, by=by)
    for id_, title, brought in (
        (
            "other-issuer",
            "The pinned roots sign for another issuer",
            (house.keyset(issuer="ebb.example", label="keyset-other-issuer"),),
        ),
        (
            "future",
            "Statement 1 is of tomorrow",
            (house.keyset(iat=NOW + DAY, label="keyset-future"),),
        ),
    ):
        code = {"other-issuer": "issuer", "future": "not_yet"}[id_]
        bench.refused(id_, title, "indeterminate", f"statement.{code}", *brought)
    bench.honest("one", "One statement 1", one, release)
    two = house.after(one)
    three = house.after(two)
    bench.honest("lowest", "A chain without its beginning", three, two, house.release(three))
