"""Attacks 54 and 57, finding 15: which card is current today."""

from __future__ import annotations

from typing import Any

from corpus import Corpus
from crafting import CARD, signed
from live_sources import of_two_ages
from statements import MOST, House, no, yes
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_rollback, _forward, _published):
        make(corpus)


def _rollback(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        54,
        "card-rollback",
        "An old card, signed as well as ever",
        "An old card may name an endpoint that has been given up, or ask for less than the new "
        "one. Its signature is good for ever; whether it is current the release says: its digest "
        "is listed, for this URL, and not below the floor.",
    )
    house, first = bench.house, bench.first
    new_card, new = _edition(house, "2.0.0")
    listing = house.listing(new, seq=6)
    only_new = house.release(
        first, seq=6, cards=[listing], floor={house.url: 6}, label="release-new"
    )
    raised = house.release(
        first, seq=7, cards=[house.listing(), listing], floor={house.url: 6}, label="release-raised"
    )
    nothing = house.release(first, seq=6, cards=[], floor={}, label="release-nothing")
    held = bench.step(yes(), first, bench.release)
    bench.refused(
        "unlisted",
        "The release lists the new card only",
        "untrusted",
        "card.digest_unlisted",
        first,
        only_new,
    )
    bench.refused(
        "below-floor",
        "It is listed still, below the floor",
        "untrusted",
        "card.rollback",
        first,
        raised,
    )
    bench.refused(
        "nothing-listed", "No card is current", "untrusted", "card.digest_unlisted", first, nothing
    )
    bench.refused(
        "old-release",
        "The old release is shown as well",
        "untrusted",
        "card.digest_unlisted",
        first,
        bench.release,
        only_new,
    )
    bench.steps(
        "replayed",
        "After the new one was seen, the old card and release are shown",
        held,
        bench.step(yes(), only_new, card=new_card),
        bench.step(no("untrusted", "card.digest_unlisted"), bench.release),
    )
    seen = bench.lock("seen", first, only_new)
    bench.refused(
        "replayed-lock",
        "The same before one who has only a lock",
        "indeterminate",
        "statement.rollback",
        first,
        bench.release,
        lock=seen,
        memory="none",
    )
    newer = bench.lock("newer", first, raised)
    bench.refused(
        "lock-above-memory",
        "His memory ends where the lock has seen more, and nothing new comes",
        "indeterminate",
        "statement.rollback",
        lock=newer,
        memory={"harbour": {"keyset": bench.file(first), "release": bench.file(bench.release)}},
    )
    waived = bench.policy("waived.toml", freshness="waived")
    bench.refused(
        "waived",
        "Freshness is waived, and a release speaks against it all the same",
        "untrusted",
        "card.rollback",
        first,
        raised,
        policy=waived,
    )
    early_card, _ = _edition(house, "3.0.0")
    bench.refused(
        "unreleased",
        "A signed card that was never released",
        "untrusted",
        "card.digest_unlisted",
        first,
        only_new,
        card=early_card,
    )
    unescaped = ("indented", house.card().replace(b"\n", b"\n\t"))
    bench.honest("new", "The new card", first, only_new, card=new_card)
    bench.honest(
        "reindented", "The card re-indented on its way", first, bench.release, card=unescaped
    )
    bench.steps(
        "updated",
        "The new card after the old one",
        held,
        bench.step(yes(), only_new, card=new_card),
        twin=True,
    )
    bench.honest(
        "lock",
        "The new one before one who has only a lock",
        first,
        only_new,
        card=new_card,
        lock=seen,
        memory="none",
    )


def _edition(house: House, version: str, by: str = "card") -> tuple[tuple[str, bytes], Any]:
    """A later card of the house: to be served, and as its content."""
    content = {**CARD, "version": version}
    return (f"card-{version}", signed(content, house.key(by))), content


def _forward(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        57,
        "fast-forward",
        "A thief numbers his release as high as numbers go",
        "No release can be higher, so honest ones would be refused for ever. Releases are ordered "
        "by epoch and keyset version first: the roots end it with a new version.",
    )
    house, first = bench.house, bench.first
    evil_card, evil = _edition(house, "6.6.6")
    high = house.release(first, seq=MOST, cards=[house.listing(evil)], label="release-most")
    honest = house.release(first, "rel2", seq=6, label="release-6")
    second = house.after(
        first, keys=house.entries("card", "rel2"), revoked=house.thumbprints("rel")
    )
    ended = house.release(second, "rel2", seq=6, label="release-1.2-6")
    opened = house.reopened(first, keys=house.entries("card", "rel3"))
    begun = house.release(opened, "rel3", seq=6, label="release-2.1-6")
    stuck = bench.step(no("untrusted", "card.digest_unlisted"), first, high)
    bench.steps(
        "stuck",
        "The next honest release comes too low",
        bench.step(yes(), first, bench.release),
        stuck,
        bench.step(no("untrusted", "statement.rollback"), honest),
    )
    past = house.release_members(first, seq=MOST)
    text = _text(past).replace(str(MOST).encode(), str(MOST + 1).encode())
    beyond = house.release_of(past, payload=text, label="release-past-most")
    bench.refused(
        "past-most",
        "A number that not every reader holds",
        "indeterminate",
        "statement.shape",
        first,
        beyond,
    )
    second_evil = house.release(
        second, "rel", seq=MOST, cards=[house.listing(evil)], label="release-1.2-most"
    )
    bench.steps(
        "again",
        "Once the roots have revoked his key he tries again",
        stuck,
        bench.step(yes(), second, ended),
        bench.step(no("untrusted", "card.digest_unlisted"), second_evil, card=evil_card),
    )
    bench.steps(
        "back",
        "He shows his high release after the new version",
        stuck,
        bench.step(yes(), second, ended),
        bench.step(no("untrusted", "card.digest_unlisted"), high, card=evil_card),
    )
    bench.steps(
        "version", "A new version ends it", stuck, bench.step(yes(), second, ended), twin=True
    )
    bench.steps("epoch", "A new epoch ends it", stuck, bench.step(yes(), opened, begun), twin=True)
    top = house.release(first, seq=MOST, label="release-most-honest")
    bench.honest("most", "The highest number is a number", first, top)


def _text(members: Any) -> bytes:
    from cardsign.card import jcs

    return jcs(members)


def _published(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        115,
        "publication",
        "Card and release change at different times",
        "Caches hold the old card while the new release is out, and the other way about. So a "
        "release lists old and new while either may be met, and its floor rises later. What has "
        "passed below the floor is an old card, however it was cached.",
    )
    house, first = bench.house, bench.first
    new_card, new = _edition(house, "2.0.0")
    both = house.release(
        first, seq=6, cards=[house.listing(), house.listing(new, seq=6)], label="release-6-both"
    )
    raised = house.release(
        first,
        seq=7,
        cards=[house.listing(), house.listing(new, seq=6)],
        floor={house.url: 6},
        label="release-7-raised",
    )
    gone = house.release(
        first,
        seq=8,
        cards=[house.listing(new, seq=6)],
        floor={house.url: 6},
        label="release-8-gone",
    )
    old_first = bench.step(yes(), first, bench.release)
    overlap = bench.step(yes(), both), bench.step(yes(), both, card=new_card)
    bench.steps(
        "raised",
        "The old card after the floor has risen",
        old_first,
        *overlap,
        bench.step(no("untrusted", "card.rollback"), raised),
    )
    bench.steps(
        "gone",
        "The old card after it is listed no more",
        old_first,
        *overlap,
        bench.step(no("untrusted", "card.digest_unlisted"), gone),
    )
    bench.steps(
        "early",
        "The new card before its release",
        old_first,
        bench.step(no("untrusted", "card.digest_unlisted"), card=new_card),
    )
    bench.steps(
        "re-listed",
        "Later a release lists it as if it were new: an entry keeps the seq of its first listing",
        old_first,
        bench.step(yes(), raised, card=new_card),
        bench.step(no("untrusted", "card.rollback"), raised),
    )
    bench.steps("overlap", "Old and new card during the overlap", old_first, *overlap, twin=True)
    bench.steps(
        "after",
        "The new card afterwards",
        old_first,
        *overlap,
        bench.step(yes(), raised, card=new_card),
        bench.step(yes(), gone, card=new_card),
        twin=True,
    )
    of_two_ages(bench.attack)
