"""Finding 18: memory that is lost, and the lock beside the policy."""

from __future__ import annotations

from corpus import Corpus
from crafting import CARD, Json
from live_memory import lost
from statements import Statement, lock, no, yes
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register it."""
    _memory(corpus)


def _memory(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        118,
        "lost-memory",
        "Memory that is lost is not new",
        "An ephemeral machine forgets, and a deleted file looks like first contact. Without "
        "memory nobody can see that he is shown old statements: what is current is unknown, "
        "unless a lock that is committed beside the policy says what was seen.",
    )
    house, first = bench.house, bench.first
    second = house.after(
        first, keys=house.entries("card2", "rel"), revoked=house.thumbprints("card")
    )
    newest = house.release(second, seq=6)
    empty = house.release(first, seq=6, cards=[], label="release-6-empty")
    bench.refused(
        "forgetful",
        "Old statements to one who remembers nothing",
        "indeterminate",
        "state.none",
        first,
        bench.release,
        memory="none",
    )
    bench.refused(
        "forgetful-new",
        "Nor are the newest any better to him",
        "indeterminate",
        "state.none",
        first,
        second,
        newest,
        by="card2",
        memory="none",
    )
    bench.steps(
        "forgets-again",
        "He forgets from one time to the next: the second time he is shown the old ones",
        bench.step(
            no("indeterminate", "state.none"), first, second, newest, by="card2", memory="none"
        ),
        bench.step(no("indeterminate", "state.none"), first, bench.release, memory="none"),
    )
    bench.refused(
        "forgetful-against",
        "What speaks against a card needs no memory",
        "untrusted",
        "card.digest_unlisted",
        first,
        empty,
        memory="none",
    )
    bench.refused(
        "forgetful-revoked",
        "Nor does a revoked key",
        "untrusted",
        "key.unknown",
        first,
        second,
        newest,
        memory="none",
    )
    bench.steps(
        "unsigned-later",
        "A signed card was seen, and the issuer's next one is not signed",
        bench.step(
            yes(),
            first,
            bench.release,
            policy=(lenient := bench.policy("lenient.toml", unsigned="unknown")),
        ),
        bench.step(
            no("untrusted", "card.signature_vanished"), card=("unsigned", CARD), policy=lenient
        ),
    )
    remembered = {"harbour": {"keyset": bench.file(second), "release": bench.file(newest)}}
    bench.honest(
        "remembered", "Nothing is shown to one who remembers", by="card2", memory=remembered
    )
    _locks(bench, second, newest, remembered)
    lost(bench.attack)


def _locks(bench: Bench, second: Statement, newest: Statement, remembered: Json) -> None:
    house, first = bench.house, bench.first
    empty = house.release(first, seq=6, cards=[], label="release-6-none")
    locks = {
        "second": lock(second, newest),
        "release": lock(first, empty),
        "keyset": lock(second),
        "nobody": b'{"format": "cardsign-lock/1", "issuers": {}}\n',
        "spoilt": b'{"format": "cardsign-lock/1", "issuers": {"harbour": {}}}\n',
        "newer": b'{"format": "cardsign-lock/2", "issuers": {}}\n',
        "garbage": b"format = 1\n",
        "truncated": lock(second, newest)[:200],
        "twice": b'{"format": "cardsign-lock/1", "issuers": {}, "issuers": {}}\n',
    }
    named = {name: bench.place(f"{name}.lock", data) for name, data in locks.items()}
    for id_, title, code, which, brought in (
        (
            "lock-keyset",
            "A lock has seen a newer keyset",
            "statement.rollback",
            "keyset",
            (first, bench.release),
        ),
        (
            "lock-both",
            "A lock has seen a newer keyset and its release",
            "statement.rollback",
            "second",
            (first, bench.release),
        ),
        (
            "lock-release",
            "A lock has seen a newer release",
            "statement.rollback",
            "release",
            (first, bench.release),
        ),
        (
            "lock-keyset-only",
            "The keyset is the newest, and its release is withheld",
            "trust.freshness_unknown",
            "second",
            (first, second),
        ),
        (
            "lock-nobody",
            "A lock that does not name the issuer",
            "state.none",
            "nobody",
            (first, bench.release),
        ),
    ):
        by = "card2" if id_ == "lock-keyset-only" else "card"
        bench.refused(
            id_, title, "indeterminate", code, *brought, by=by, lock=named[which], memory="none"
        )
    bench.refused(
        "lock-and-memory",
        "A lock has seen more than the memory",
        "indeterminate",
        "statement.rollback",
        lock=named["second"],
        memory={"harbour": {"keyset": bench.file(first), "release": bench.file(bench.release)}},
    )
    for id_, title in (
        ("spoilt", "A lock with a member missing"),
        ("newer", "A lock of a format to come"),
        ("garbage", "A lock that is no JSON"),
        ("truncated", "A lock cut short"),
        ("twice", "A lock that says one thing twice"),
    ):
        bench.refused(
            id_,
            f"{title}: a fault of this machine, and no verdict",
            "none",
            "lock.malformed",
            first,
            bench.release,
            lock=named[id_],
            memory="none",
        )
    bench.honest(
        "lock-newest",
        "The newest to one with a lock",
        first,
        second,
        newest,
        by="card2",
        lock=named["second"],
        memory="none",
    )
    third = house.after(second, revoked=house.thumbprints("card"), label="keyset-1.3")
    bench.honest(
        "lock-older",
        "More than the lock has seen",
        first,
        second,
        third,
        house.release(third, seq=7),
        by="card2",
        lock=named["second"],
        memory="none",
    )
    bench.honest(
        "lock-with-memory",
        "A memory that has seen more than the lock",
        by="card2",
        lock=bench.lock("first", first, bench.release),
        memory=remembered,
    )
