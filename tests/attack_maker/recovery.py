"""Finding 6 and rule K7: a thief of the root, and what recovery can do."""

from __future__ import annotations

from corpus import NOW, Corpus
from statements import DAY, House, Statement, no, pin, yes
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_recovery, _opened):
        make(corpus)


def _recovery(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        106,
        "recovery",
        "A thief of the root rotates, and recovery wins",
        "Who has stolen the root can rotate to his own keys and everybody follows. The recovery "
        "key is held apart and can do one thing: open the next epoch, which beats every version "
        "of the old one. The thief cannot be rid of it.",
    )
    house, first, release = bench.house, bench.first, bench.release
    stolen = [first]
    mine = {"root": house.quorum(1, "thief"), "keys": house.entries("evil", "rel-evil")}
    stolen.append(house.after(first, "ann", "thief", **mine))
    while len(stolen) < 11:
        stolen.append(house.after(stolen[-1], "thief"))
    evil_release = house.release(stolen[-1], "rel-evil", seq=99)
    opened = house.reopened(first)
    back = house.release(opened, "rel3", label="release-2.1-5")
    ahead = house.after(stolen[-1], "thief", exp=NOW + 399 * DAY)
    ahead_release = house.release(ahead, "rel-evil", seq=100)
    taken = bench.step(yes(), *stolen, evil_release, by="evil")
    bench.steps(
        "ten-rotations",
        "The thief has rotated ten times; his card is worth nothing after recovery",
        taken,
        bench.step(yes(), opened, back, by="card3"),
        bench.step(no("untrusted", "key.unknown"), by="evil"),
    )
    bench.steps(
        "further",
        "He goes on rotating after it",
        taken,
        bench.step(yes(), opened, back, by="card3"),
        bench.step(no("untrusted", "key.unknown"), ahead, ahead_release, by="evil"),
    )
    bench.refused(
        "at-once",
        "His longer chain and recovery come together",
        "untrusted",
        "key.unknown",
        *stolen,
        ahead,
        ahead_release,
        opened,
        back,
        by="evil",
    )
    dropped = house.after(first, "ann", "thief", recovery=None, label="keyset-1.2-dropped", **mine)
    bench.refused(
        "dropped",
        "He drops the recovery key",
        "untrusted",
        "statement.recovery",
        first,
        dropped,
        house.release(dropped, "rel-evil", label="release-dropped"),
        by="evil",
    )
    replaced = house.after(
        first,
        "ann",
        "thief",
        "thief2",
        recovery=house.quorum(1, "thief2"),
        label="keyset-1.2-replaced",
        **mine,
    )
    bench.refused(
        "replaced",
        "He names a recovery key of his own, which signs",
        "untrusted",
        "statement.recovery",
        first,
        replaced,
        house.release(replaced, "rel-evil", label="release-replaced"),
        by="evil",
    )
    fork = house.after(first, "ann", label="keyset-1.2-fork", keys=house.entries("evil2", "rel"))
    bench.steps(
        "forked",
        "He has forked the old epoch, so that nobody can believe either branch",
        bench.step(no("indeterminate", "statement.fork"), first, stolen[1], fork, release),
        bench.step(no("untrusted", "key.unknown"), first, stolen[1], fork, opened, back, by="evil"),
    )
    bench.honest(
        "recovered", "Recovery after ten stolen versions", *stolen, opened, back, by="card3"
    )
    bench.honest(
        "recovered-fork",
        "Recovery of a forked epoch",
        first,
        stolen[1],
        fork,
        opened,
        back,
        by="card3",
    )
    bench.honest(
        "recovered-shuffled",
        "Recovery, before the stolen versions",
        opened,
        back,
        *stolen,
        evil_release,
        by="card3",
        warnings=("statement.keyset",),
    )
    onwards = house.after(opened, "dan", keys=house.entries("card4", "rel3"), label="keyset-2.2")
    bench.honest(
        "onwards",
        "The next epoch goes on",
        first,
        opened,
        onwards,
        house.release(onwards, "rel3"),
        by="card4",
    )
    bench.steps(
        "revocations-end",
        "The thief has revoked the honest keys; the new epoch may name them again",
        bench.step(no("untrusted", "key.unknown"), first, _revoking(house, first)),
        bench.step(yes(), *_restored(house, first)),
        twin=True,
    )


def _revoking(house: House, first: Statement) -> Statement:
    return house.after(
        first,
        keys=house.entries("evil"),
        revoked=house.thumbprints("card", "rel"),
        label="keyset-1.2-revoking",
    )


def _restored(house: House, first: Statement) -> tuple[Statement, Statement]:
    opened = house.reopened(first, keys=house.entries("card", "rel"), label="keyset-2.1-restored")
    return opened, house.release(opened, label="release-2.1-restored")


def _opened(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        207,
        "epochs",
        "An epoch that nobody may open",
        "Recovery beats everything, so it is the most worth forging. It needs the recovery keys "
        "last held and the new root, and opens the very next epoch at version 1, or nothing.",
    )
    house, first, release = bench.house, bench.first, bench.release
    for id_, title, code, signers, changes in (
        ("no-recovery", "Only the new root signs", "unsigned", ("dan",), {}),
        ("old-root", "The old root signs instead", "unsigned", ("ann", "dan"), {}),
        ("no-root", "The new root does not sign", "unsigned", ("rita",), {}),
        (
            "stranger",
            "A stranger signs as recovery",
            "unsigned",
            ("ron", "dan"),
            {"recovery": house.quorum(1, "ron")},
        ),
        ("recovery-twice", "The recovery key signs twice", "unsigned", ("rita", "rita"), {}),
        ("epoch-3", "Epoch 3 after epoch 1", "gap", ("rita", "dan"), {"epoch": 3}),
        (
            "version-2",
            "It begins at version 2",
            "gap",
            ("rita", "dan"),
            {"version": 2, "prev": first.digest},
        ),
        (
            "prev",
            "It names a statement before it",
            "members",
            ("rita", "dan"),
            {"prev": first.digest},
        ),
        ("issuer", "It is another issuer's", "issuer", ("rita", "dan"), {"issuer": "ebb.example"}),
        ("future", "It is of tomorrow", "not_yet", ("rita", "dan"), {"iat": NOW + DAY}),
        (
            "as-root",
            "The recovery key makes itself the root",
            "bad_key",
            ("rita",),
            {"root": house.quorum(1, "rita")},
        ),
    ):
        keys = house.entries("card2", "rel")
        bad = house.reopened(first, *signers, keys=keys, label=f"keyset-{id_}", **changes)
        bench.bad_successor(id_, title, f"statement.{code}", bad)
    two = house.reopened(first, keys=house.entries("card2", "rel"), label="keyset-2.1-other")
    opened = house.reopened(first, label="keyset-2.1")
    back = house.release(opened, "rel3")
    bench.refused(
        "two-openings",
        "Two statements open the epoch, both by the recovery key",
        "indeterminate",
        "statement.fork",
        first,
        opened,
        two,
        release,
    )
    lowered = house.after(
        opened,
        "dan",
        keys=house.entries("card2", "rel"),
        epoch=1,
        version=2,
        prev=first.digest,
        label="keyset-1.2-lowered",
    )
    bench.steps(
        "lowered",
        "After recovery the old epoch is continued by the old root",
        bench.step(yes(), first, opened, back, by="card3"),
        bench.step(
            yes("statement.keyset"),
            lowered,
            house.after(first, label="keyset-1.2-late"),
            release,
            by="card3",
        ),
        bench.step(
            no("untrusted", "key.unknown"),
            first,
            house.after(first, label="keyset-1.2-late"),
            release,
        ),
    )
    bench.honest(
        "lawful", "The next epoch, by recovery key and new root", first, opened, back, by="card3"
    )
    older = house.reopened(first, iat=NOW - 9 * DAY, exp=NOW + 30 * DAY, label="keyset-2.1-older")
    bench.honest(
        "older",
        "It may be older than what it ends",
        first,
        older,
        house.release(older, "rel3", label="release-older"),
        by="card3",
    )
    third = house.reopened(
        opened,
        "rita",
        "don",
        root=house.quorum(1, "don"),
        keys=house.entries("card4", "rel3"),
        label="keyset-3.1",
    )
    bench.honest(
        "again", "A second recovery", first, opened, third, house.release(third, "rel3"), by="card4"
    )
    _replaced(bench)
    _without_recovery(bench)


def _replaced(bench: Bench) -> None:
    house, first = bench.house, bench.first
    changed = house.after(
        first, "ann", "rita", recovery=house.quorum(1, "ron"), label="keyset-1.2-changed"
    )
    by_old = house.reopened(
        changed, "rita", "dan", keys=house.entries("card2", "rel"), label="keyset-2.1-by-old"
    )
    bench.steps(
        "replaced-key",
        "A recovery key opens the epoch that was replaced lawfully before",
        bench.step(
            yes("statement.unsigned"),
            first,
            changed,
            house.release(changed, label="release-changed"),
            by_old,
        ),
        bench.step(
            no("untrusted", "statement.unsigned"),
            by_old,
            house.release(by_old, label="release-by-old"),
            by="card2",
        ),
    )
    by_new = house.reopened(
        changed, "ron", "dan", keys=house.entries("card2", "rel"), label="keyset-2.1-by-new"
    )
    bench.honest(
        "new-recovery",
        "By the recovery key that replaced the first",
        first,
        changed,
        by_new,
        house.release(by_new, label="release-by-new"),
        by="card2",
    )


def _without_recovery(bench: Bench) -> None:
    none = House()
    final = none.keyset(recovery=None, label="keyset-final")
    finality = bench.policy("final.toml", pin(final))
    reopened = none.reopened(final, "rita", "dan", label="keyset-final-2.1")
    set_later = none.after(
        final,
        "ann",
        "rita",
        recovery=none.quorum(1, "rita"),
        keys=none.entries("card2", "rel"),
        label="keyset-final-1.2",
    )
    known = none.release(final, label="release-final")
    for id_, title, bad, by in (
        ("never", "Without a recovery key somebody opens an epoch all the same", reopened, "card3"),
        ("set-later", "The root sets a recovery key where there never was one", set_later, "card2"),
    ):
        bench.refused(
            id_,
            title,
            "untrusted",
            "statement.recovery",
            final,
            bad,
            none.release(bad, "rel3" if by == "card3" else "rel", label=f"release-{id_}"),
            card=(id_, none.card(by)),
            policy=finality,
        )
    bench.honest(
        "never-needed",
        "An issuer without recovery",
        final,
        known,
        card=("final", none.card()),
        policy=finality,
    )
