"""Attack 46 and rule K8: statements left out, shown again, or told twice."""

from __future__ import annotations

from typing import Any

from corpus import NOW, Corpus
from statements import (
    DAY,
    House,
    Statement,
    no,
    yes,
)
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_sequence, _fork):
        make(corpus)


def _sequence(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        46,
        "sequence",
        "Statements left out, repeated and shown again",
        "Each statement follows upon the one before. What is left out cannot be vouched for, and "
        "what was once exceeded is never gone back to, whoever has signed it.",
    )
    house, one = bench.house, bench.first
    two = house.after(one)
    three = house.after(two, keys=house.entries("card", "rel3"))
    newest = house.release(three, "rel3")
    old = house.release(two)
    bench.refused(
        "skipped",
        "Version 2 is withheld: the release speaks of a keyset that nobody can reach",
        "indeterminate",
        "statement.gap",
        one,
        three,
        newest,
    )
    bench.steps(
        "skipped-held",
        "The same to one who was content with version 1",
        bench.step(yes(), one, bench.release),
        bench.step(no("indeterminate", "statement.gap"), three, newest, now=NOW + 7 * DAY),
    )
    held = bench.step(yes(), one, two, three, newest)
    bench.steps(
        "rollback",
        "Version 2 and its release are shown to one who holds version 3",
        held,
        bench.step(yes("statement.keyset"), one, two, old),
        bench.step(
            no("indeterminate", "statement.expired"),
            one,
            two,
            _later(house, two),
            now=NOW + 8 * DAY,
        ),
    )
    for id_, title, brought, seen in (
        (
            "rollback-lock",
            "A lock names version 3, and 2 is the newest to be had",
            (one, two, old),
            three,
        ),
        (
            "replay-lock",
            "A lock names version 2, and only version 1 is shown",
            (one, bench.release),
            two,
        ),
    ):
        named = bench.lock(id_, seen)
        bench.refused(
            id_, title, "indeterminate", "statement.rollback", *brought, lock=named, memory="none"
        )
    bench.steps(
        "replayed",
        "Version 3 again, after version 3: nothing happens",
        held,
        bench.step(yes(), three, three, newest),
        twin=True,
    )
    bench.honest("all", "The whole chain", one, two, three, newest)
    bench.honest("shuffled", "The whole chain in another order", three, newest, one, two)
    twice = (one, two, one, two, three, newest, two, one)
    bench.honest("repeated", "The whole chain with repetitions", *twice)
    bench.steps(
        "filled",
        "What was missing comes later",
        bench.step(no("indeterminate", "statement.gap"), one, three, newest),
        bench.step(yes(), two, three, newest),
        twin=True,
    )
    named = bench.lock("newest", three, newest)
    bench.honest(
        "lock",
        "No memory, and a lock that names the newest",
        one,
        two,
        three,
        newest,
        lock=named,
        memory="none",
    )


def _later(house: House, keyset: Statement) -> Statement:
    times = {"iat": NOW + 7 * DAY, "exp": NOW + 14 * DAY}
    return house.release(keyset, seq=9, **times)


def _fork(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        208,
        "forks",
        "Two statements of one number",
        "Who holds enough roots can tell two verifiers two stories. Ours is kept and both are "
        "shown; where neither is ours, neither is believed, in whatever order they come. What "
        "the roots have not signed is no second story, and must change nothing.",
        source="rule K8, keys-and-trust 46",
    )
    house, one = bench.house, bench.first
    ours = house.after(one, label="keyset-1.2-ours")
    theirs = _rotated(bench, label="keyset-1.2-theirs")
    release, evil = (
        house.release(ours, label="release-ours"),
        house.release(theirs, label="release-theirs"),
    )
    for id_, title, brought in (
        ("unheld", "Both are new to us", (one, ours, theirs, release)),
        ("unheld-turned", "Both are new to us, the other first", (one, theirs, ours, release)),
        ("unheld-both-releases", "Both come with a release", (one, theirs, ours, evil, release)),
    ):
        bench.refused(id_, title, "indeterminate", "statement.fork", *brought)
    bench.steps(
        "held",
        "The other one is shown to who holds ours: it is refused and shown",
        bench.step(yes(), one, ours, release),
        bench.step(yes("statement.fork"), theirs),
        bench.step(no("untrusted", "statement.fork"), theirs, evil, by="card2"),
    )
    further = house.after(theirs, label="keyset-1.3-theirs")
    bench.steps(
        "further",
        "The other one comes with a successor",
        bench.step(yes(), one, ours, release),
        bench.step(
            no("untrusted", "statement.prev"),
            theirs,
            further,
            house.release(further, label="release-further"),
            by="card2",
        ),
    )
    for id_, title, brought, by in (
        ("lock", "A lock names ours, and the other one is shown", (one, theirs, evil), "card2"),
        ("lock-honest", "The same with the honest card", (one, theirs, evil), "card"),
    ):
        named = bench.lock("ours", ours)
        bench.refused(
            id_,
            title,
            "indeterminate",
            "statement.fork",
            *brought,
            by=by,
            lock=named,
            memory="none",
        )
    eve = _rotated(bench, "eve", label="keyset-1.2-eve")
    first_by_eve = house.keyset("eve", keys=house.entries("card2", "rel"), label="keyset-1.1-eve")
    for id_, title, bad in (
        ("junk-successor", "Of two successors the roots have signed one", eve),
        ("junk-first", "A second statement 1 that the roots have not signed", first_by_eve),
    ):
        bench.honest(
            id_,
            title,
            one,
            bad,
            ours,
            release,
            warnings=("statement.unsigned", "statement.anchor"),
        )
        bench.refused(
            f"{id_}-alone",
            f"{title}, and only the other one comes",
            "untrusted",
            "statement.unsigned",
            one,
            bad,
            house.release(bad, label=f"release-{id_}"),
            by="card2",
        )
    stripped = ours.sent(
        {**ours.parts, "signatures": eve.parts["signatures"]}, "keyset-1.2-stripped"
    )
    bench.honest(
        "stripped",
        "The same payload once more, with a stranger's signature instead",
        one,
        stripped,
        ours,
        release,
    )
    again = house.keyset_of(ours.members, "ann", "eve", label="keyset-1.2-signed-again")
    bench.honest("signed-again", "One payload, signed twice: no fork", one, again, ours, release)


def _rotated(bench: Bench, *signers: str, label: str = "", **changes: Any) -> Statement:
    """A version 2 whose card key is card2."""
    keys = bench.house.entries("card2", "rel")
    return bench.house.after(bench.first, *signers, label=label, **{"keys": keys, **changes})
