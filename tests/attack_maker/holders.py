"""Finding 10: two keys of one holder."""

from __future__ import annotations

from corpus import NOW, Corpus
from crafting import CARD, LAX, entry, header_of, payload_of
from statements import House
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register it."""
    _holders(corpus)


def _holders(corpus: Corpus) -> None:
    house = House()
    pair = [
        house.entry("card"),
        house.entry("card2"),
        house.entry("registry", holder="registry"),
        house.entry("spent", holder="registry", exp=NOW),
        house.entry("clerk", "release", holder="registry"),
    ]
    first = house.keyset(keys=[*pair, *house.entries("rel")])
    bench = Bench(
        corpus,
        110,
        "holders",
        "Two keys of one pipeline as two signers",
        "While a key is rotated one pipeline signs with two. A policy names the holders who must "
        "all have signed, and each counts once, over the same payload.",
        house=house,
        first=first,
        require=["harbour", "registry"],
    )
    payload = payload_of(CARD)
    release = bench.release
    denied = house.release(first, seq=6, revoked=house.thumbprints("registry"), label="release-6")

    def by(*names: str) -> tuple[str, object]:
        entries = [entry(payload, house.key(name)) for name in names]
        return "-".join(("by", *names)), {**CARD, "signatures": entries}

    for id_, title, names in (
        ("rotation", "Old and new key of one holder", ("card", "card2")),
        ("one", "One holder of two", ("card",)),
        ("other", "Only the other", ("registry",)),
        ("twice", "One key twice", ("card", "card")),
        ("stranger", "One holder and a stranger", ("card", "eve")),
        ("spent", "The other holder's key is past its time", ("card", "spent")),
        ("role", "The other holder's release key", ("card", "clerk")),
    ):
        bench.refused(id_, title, "untrusted", "threshold.unmet", first, release, card=by(*names))
    bench.refused(
        "revoked",
        "The other holder's key is revoked",
        "untrusted",
        "threshold.unmet",
        first,
        denied,
        card=by("card", "registry"),
    )
    other = entry(payload_of({**CARD, "version": "9"}), house.key("registry"))
    split = ("split", {**CARD, "signatures": [entry(payload, house.key("card")), other]})
    bench.refused(
        "split",
        "The other has signed another card",
        "untrusted",
        "threshold.unmet",
        first,
        release,
        card=split,
    )
    lossy = {
        **LAX,
        "signatures": [
            entry(payload_of(LAX), house.key("card")),
            entry(payload_of(LAX, "prune-empty"), house.key("registry")),
        ],
    }
    policy = bench.policy(
        "lossy.toml", require=["harbour", "registry"], profiles=["served-as-is", "prune-empty"]
    )
    listed = house.release(first, seq=6, cards=[house.listing(LAX)], label="release-6-lax")
    bench.refused(
        "profiles",
        "Each has signed another payload of the card",
        "untrusted",
        "threshold.unmet",
        first,
        listed,
        card=("profiles", lossy),
        policy=policy,
    )
    compat = entry(
        payload, house.key("registry"), header_of(house.key("registry"), typ="cardsign-compat+jws")
    )
    bench.refused(
        "compat",
        "The other's is a compat signature",
        "untrusted",
        "threshold.unmet",
        first,
        release,
        card=("compat", {**CARD, "signatures": [entry(payload, house.key("card")), compat]}),
    )
    for id_, title, names in (
        ("both", "Both holders", ("card", "registry")),
        ("rotating", "Both, while one rotates", ("card", "card2", "registry")),
    ):
        bench.honest(id_, title, first, release, card=by(*names))
    bench.honest(
        "not-required",
        "One holder, where the policy requires one",
        first,
        release,
        card=by("card2"),
        policy=bench.policy("one.toml", require=["harbour"]),
    )
