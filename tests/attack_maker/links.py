"""Attacks 48, 53 and 58, rules K6 and K9: from one keyset statement to the next."""

from __future__ import annotations

from typing import Any

from chains import drawn_out
from corpus import NOW, Corpus, recipe
from statements import (
    DAY,
    HOUR,
    House,
    Statement,
    junk,
    no,
    yes,
)
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_links, _unrevoked, _bounds):
        make(corpus)


def _links(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        48,
        "links",
        "Successors that do not follow",
        "The roots have signed each of these, by mistake or under a thief. A successor has the "
        "same issuer and epoch, the next number, the digest of the one before, and is no older.",
    )
    house, first = bench.house, bench.first
    for id_, title, code, changes in (
        ("prev-wrong", "prev is of something else", "prev", {"prev": "0" * 64}),
        ("prev-itself", "prev is of the release", "prev", {"prev": bench.release.digest}),
        ("issuer", "Another issuer", "issuer", {"issuer": "ebb.example"}),
        ("issuer-case", "The issuer in other letters", "issuer", {"issuer": "Tides.example"}),
        ("older", "Issued a second before the one before", "rollback", {"iat": NOW - DAY - 1}),
        ("future", "Issued in the future", "not_yet", {"iat": NOW + HOUR}),
        (
            "recovery-changed",
            "Another recovery key, which the old one has not signed",
            "recovery",
            {"recovery": house.quorum(1, "eve")},
        ),
        (
            "recovery-dropped",
            "Recovery is given up without its signature",
            "recovery",
            {"recovery": None},
        ),
        (
            "recovery-threshold",
            "Recovery needs two from now on",
            "recovery",
            {"recovery": house.quorum(2, "rita", "ron")},
        ),
        (
            "epoch",
            "The next epoch, as if the roots could open it",
            "unsigned",
            {"epoch": 2, "version": 1, "prev": None},
        ),
        ("epoch-2", "Version 2 of the next epoch", "gap", {"epoch": 2}),
    ):
        bad = _rotated(bench, label=f"keyset-{id_}", **changes)
        bench.bad_successor(id_, title, f"statement.{code}", bad)
    second = house.after(first)
    loop = house.after(second, version=2, prev=second.digest, label="keyset-1.2-loop")
    bench.steps(
        "loop",
        "A statement 2 that follows upon statement 2",
        bench.step(yes(), first, second, house.release(second)),
        bench.step(yes("statement.fork"), first, second, loop),
        bench.step(no("untrusted", "statement.fork"), loop, house.release(loop), by="card2"),
    )
    lawful = _rotated(bench, label="keyset-1.2-lawful", iat=NOW - DAY)
    bench.honest(
        "same-second", "Issued in the same second", first, lawful, house.release(lawful), by="card2"
    )
    ahead = _rotated(bench, label="keyset-1.2-ahead", iat=NOW + 300)
    bench.honest(
        "within-skew", "Issued 300 s ahead", first, ahead, house.release(ahead), by="card2"
    )
    for id_, title, recovery in (
        ("recovery-lawful", "Another recovery key, signed by the old one", house.quorum(1, "ron")),
        ("recovery-given-up", "Recovery is given up with its signature", None),
    ):
        kept = _rotated(bench, "ann", "rita", label=f"keyset-1.2-{id_}", recovery=recovery)
        bench.honest(id_, title, first, kept, house.release(kept), by="card2")


def _rotated(bench: Bench, *signers: str, label: str = "", **changes: Any) -> Statement:
    """A version 2 whose card key is card2."""
    keys = bench.house.entries("card2", "rel")
    return bench.house.after(bench.first, *signers, label=label, **{"keys": keys, **changes})


def _unrevoked(corpus: Corpus) -> None:
    house = House()
    lost = house.thumbprints("lost")
    bench = Bench(
        corpus,
        53,
        "unrevoked",
        "A revoked key is revoked no longer",
        "Within an epoch the revoked only grow: who could take a name off the list could give a "
        "stolen key its power back.",
        house=house,
        first=house.keyset(revoked=lost),
    )
    for id_, title, names, keys in (
        ("dropped", "It is taken off", (), ("card2", "rel")),
        ("exchanged", "It is taken off and another put on", ("other",), ("card2", "rel")),
        ("back", "It is taken off and is a key again", (), ("card2", "lost", "rel")),
    ):
        changes = {"revoked": house.thumbprints(*names), "keys": house.entries(*keys)}
        bad = house.after(bench.first, label=f"keyset-1.2-{id_}", **changes)
        bench.bad_successor(id_, title, "statement.unrevoked", bad)
    two = house.after(
        bench.first, revoked=house.thumbprints("lost", "card"), keys=house.entries("card2", "rel")
    )
    three = house.after(two, revoked=lost, keys=house.entries("card", "rel"))
    bench.steps(
        "later",
        "It is taken off one version later",
        bench.step(yes(), bench.first, two, house.release(two), by="card2"),
        bench.step(no("untrusted", "statement.unrevoked"), three, house.release(three)),
    )
    bench.honest("grown", "One more is revoked", bench.first, two, house.release(two), by="card2")
    opened = house.reopened(two)
    bench.honest(
        "epoch",
        "A new epoch begins anew, so that a thief's revocations end",
        bench.first,
        two,
        opened,
        house.release(opened, "rel3"),
        by="card3",
    )


def _bounds(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        58,
        "bounds",
        "More than one refresh reads",
        "A chain costs its reader time and memory, so one refresh makes 256 steps and reads 2 MiB "
        "of each kind of statement; one has 64 KiB. What lies beyond is left, said, and comes with "
        "the next refresh; it never makes old statements pass for the newest. What comes twice "
        "takes no room, so that nobody crowds the newest one out with copies.",
    )
    house, first = bench.house, bench.first
    second = _rotated(bench)
    release = house.release(second)
    nothing = junk("keyset", b"{}")
    warned = ("statement.shape",)
    bench.honest(
        "257",
        "The newest statement is the 257th, after one and the same junk",
        first,
        *[nothing] * 255,
        second,
        release,
        by="card2",
        warnings=warned,
    )
    heavy = [bench.padded(first, 64 * 1024 - less) for less in range(33)]
    bench.refused(
        "2-mib",
        "33 statements of 64 KiB before the newest",
        "indeterminate",
        "statement.too_many",
        *heavy,
        second,
        release,
        by="card",
    )
    bench.steps(
        "2-mib-later",
        "The newest comes with the next refresh",
        bench.step(no("indeterminate", "statement.too_many"), *heavy, second, release),
        bench.step(yes(), second, release, by="card2"),
        twin=True,
    )
    bench.honest("31", "31 of them", *heavy[:31], second, release, by="card2")
    bench.honest(
        "one-33-times", "One of them 33 times", *heavy[:1] * 33, second, release, by="card2"
    )
    fat = junk("keyset", recipe((" ", 64 * 1024 + 1)), "fat")
    bench.honest(
        "64-kib",
        "One of 64 KiB and a byte beside it",
        first,
        fat,
        second,
        release,
        by="card2",
        warnings=warned,
    )
    empty = junk("release", b"{}", "no-release")
    bench.honest(
        "17-releases",
        "The release is the 17th",
        first,
        second,
        *[empty] * 16,
        release,
        by="card2",
        warnings=warned,
    )
    chain = [first]
    while len(chain) < 12:
        chain.append(house.after(chain[-1]))
    bench.honest(
        "chain",
        "A chain of twelve, last version first",
        *reversed(chain),
        house.release(chain[-1]),
    )
    drawn_out(bench.attack)
