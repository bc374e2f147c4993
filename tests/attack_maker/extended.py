"""Attacks 55 and 72: an extended card in another card's place."""

from __future__ import annotations

from typing import Any

from corpus import NOW, Corpus
from crafting import CARD, Json, signed
from statements import DAY, MOST, no, yes
from workbench import Bench

URI = "urn:uuid:46cbbb6f-5ab3-4ee0-a84f-e6e984e30fda"
#: Audiences are random ids, told to each verifier by the issuer.
OURS, THEIRS = "9f2c61d07be84a15", "b1946ac92492d234"
PUBLIC: Json = {**CARD, "capabilities": {"streaming": True, "extendedAgentCard": True}}
SUBJECT = {"issuer": "harbour", "audience": OURS}


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_swaps, _mixed):
        make(corpus)


def marker(params: Json | None = None, **changes: Any) -> Json:
    """The extension that marks an extended card."""
    told = {"kind": "extended", "audience": OURS, "seq": 5, "exp": NOW + 30 * DAY, **changes}
    return {"uri": URI, "params": told if params is None else params}


def marked(*extensions: Any, card: Json = PUBLIC, **members: Any) -> Json:
    """An extended card."""
    capabilities = {**card["capabilities"], "extensions": list(extensions or (marker(),))}
    skill = {"id": "berths", "name": "Berths", "description": "Who lies where", "tags": ["sea"]}
    return {**card, "capabilities": capabilities, "skills": [*card["skills"], skill], **members}


class ExtendedBench(Bench):
    """A house with a public card that is released, and extended cards beside it."""

    def __init__(self, corpus: Corpus, *told: Any) -> None:
        super().__init__(corpus, *told)
        house = self.house
        self.public = ("public", signed(PUBLIC, house.key("card")))
        listed = [house.listing(PUBLIC)]
        self.release = house.release(self.first, cards=listed, floor={house.url: 3, "extended": 4})
        self.both = (self.first, self.release)

    def told(self, label: str, content: Json, by: str = "card") -> tuple[str, Json]:
        """A card, signed."""
        return label, signed(content, self.house.key(by))


def _swaps(corpus: Corpus) -> None:
    bench = ExtendedBench(
        corpus,
        72,
        "extended-swaps",
        "An extended card where another card belongs",
        "Public and extended cards, those of two audiences, and those of two years have one form "
        "and one signer. Each says under its signature what it is, for whom and until when, so "
        "that none passes for another.",
    )
    ours = bench.told("ours", marked())
    beside: dict[str, Any] = {"subject": SUBJECT, "public": bench.public}
    for id_, title, code, content in (
        ("public-as-extended", "The public card where ours belongs", "not_marked", PUBLIC),
        (
            "other-audience",
            "Another audience's card",
            "audience_mismatch",
            marked(marker(audience=THEIRS)),
        ),
        ("expired", "Last year's card, past its end", "expired", marked(marker(exp=NOW))),
        ("rollback", "A card from before the floor", "rollback", marked(marker(seq=3))),
        ("ahead", "A card of a release to come", "ahead", marked(marker(seq=6))),
        ("far-ahead", "A card with the highest number", "ahead", marked(marker(seq=MOST))),
        (
            "out-of-skew",
            "A second after its end: the skew does not help",
            "expired",
            marked(marker(exp=NOW - 1)),
        ),
    ):
        bench.refused(
            id_,
            title,
            "untrusted",
            f"extended.{code}",
            *bench.both,
            card=bench.told(id_, content),
            **beside,
        )
    bench.refused(
        "extended-as-public",
        "Our card where the public one belongs",
        "untrusted",
        "extended.served_as_public",
        *bench.both,
        card=ours,
    )
    bench.refused(
        "extended-at-url",
        "The same at the public card's URL",
        "untrusted",
        "extended.served_as_public",
        *bench.both,
        card=ours,
        subject={"url": bench.house.url},
    )
    listed = bench.house.release(
        bench.first, seq=6, cards=[bench.house.listing(marked())], label="release-lists-extended"
    )
    bench.refused(
        "listed",
        "It is listed as if it were public",
        "untrusted",
        "extended.served_as_public",
        bench.first,
        listed,
        card=ours,
    )
    bench.refused(
        "nobody",
        "Any audience's card, for nobody in particular",
        "untrusted",
        "extended.audience_mismatch",
        *bench.both,
        card=ours,
        public=bench.public,
        subject={**SUBJECT, "audience": THEIRS},
    )
    bench.refused(
        "capitals",
        "Our audience in other letters",
        "untrusted",
        "extended.marker",
        *bench.both,
        card=bench.told("capitals", marked(marker(audience=OURS.upper()))),
        **beside,
    )
    bench.steps(
        "expires",
        "It was good yesterday",
        bench.step(
            yes(),
            *bench.both,
            card=(soon := bench.told("soon", marked(marker(exp=NOW + DAY)))),
            **beside,
        ),
        bench.step(no("untrusted", "extended.expired"), card=soon, now=NOW + DAY, **beside),
    )
    bench.honest(
        "ours", "Our audience's card, beside the public one", *bench.both, card=ours, **beside
    )
    bench.honest(
        "at-floor",
        "Its seq is the floor",
        *bench.both,
        card=bench.told("at-floor", marked(marker(seq=4))),
        **beside,
    )
    bench.honest(
        "theirs",
        "The other audience's card, for them",
        *bench.both,
        card=bench.told("theirs", marked(marker(audience=THEIRS))),
        public=bench.public,
        subject={**SUBJECT, "audience": THEIRS},
    )
    bench.honest("public", "The public card", *bench.both, card=bench.public)


def _mixed(corpus: Corpus) -> None:
    bench = ExtendedBench(
        corpus,
        55,
        "mix-and-match",
        "The public card of one release with the extended card of another",
        "Both cards are genuine, and together they are what nobody published: the endpoint of one "
        "year with the requirements of another. Both are held against one release.",
    )
    house, first = bench.house, bench.first
    old_public, old = bench.public, bench.told("extended-5", marked(marker(seq=5)))
    content = {**PUBLIC, "version": "2.0.0"}
    new_public, new = (
        bench.told("public-7", content),
        bench.told("extended-7", marked(marker(seq=7), version="2.0.0")),
    )
    seven = house.release(
        first,
        seq=7,
        cards=[house.listing(content, seq=7)],
        floor={house.url: 7, "extended": 7},
        label="release-7",
    )
    overlap = house.release(
        first,
        seq=7,
        cards=[house.listing(PUBLIC), house.listing(content, seq=7)],
        floor={house.url: 3, "extended": 4},
        label="release-7-overlap",
    )
    held = bench.step(yes(), *bench.both, card=old, public=old_public, subject=SUBJECT)
    for id_, title, code, card, public, brought in (
        (
            "new-old",
            "The new public card with the old extended one",
            "extended.rollback",
            old,
            new_public,
            (first, seven),
        ),
        (
            "old-new",
            "The old public card with the new extended one",
            "extended.public_untrusted",
            new,
            old_public,
            (first, seven),
        ),
        (
            "old-old",
            "Both of the old release",
            "extended.rollback",
            old,
            old_public,
            (first, seven),
        ),
        (
            "unreleased",
            "The old pair's release, with the new extended card",
            "extended.ahead",
            new,
            old_public,
            bench.both,
        ),
    ):
        bench.refused(
            id_, title, "untrusted", code, *brought, card=card, public=public, subject=SUBJECT
        )
    bench.steps(
        "old-new-held",
        "To one who has seen the new release, both old ones are shown with theirs",
        held,
        bench.step(yes(), seven, card=new, public=new_public, subject=SUBJECT),
        bench.step(
            no("untrusted", "extended.rollback"),
            bench.release,
            card=old,
            public=old_public,
            subject=SUBJECT,
        ),
    )
    bench.steps("old", "The old pair under the old release", held, twin=True)
    bench.honest(
        "new",
        "The new pair under the new release",
        first,
        seven,
        card=new,
        public=new_public,
        subject=SUBJECT,
    )
    bench.honest(
        "overlap",
        "New and old during the overlap, which the issuer allows",
        first,
        overlap,
        card=old,
        public=new_public,
        subject=SUBJECT,
    )
