"""Attack 59 and finding 20: first use, first contact, and what comes after."""

from __future__ import annotations

from corpus import NOW, Corpus, jwk_set, trusted
from crafting import CARD, ORIGIN, signed
from live_memory import met_elsewhere
from statements import DAY, House, no, yes
from workbench import Bench


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_first_use, _contact):
        make(corpus)


def _first_use(corpus: Corpus) -> None:
    house = House()
    bench = Bench(
        corpus,
        59,
        "first-use",
        "First use, and what comes after",
        "Trust on first use keeps what it met: after that, only a chain of statements changes it. "
        "A change without proof is refused, and so is a return to what was left with proof.",
        house=house,
        anchor={"tofu": True},
    )
    first, release = bench.first, bench.release
    met = bench.step(yes("trust.tofu_first"), first, release, contact=ORIGIN)
    second = house.after(first, keys=house.entries("card2", "rel"))
    newest = house.release(second, seq=6)
    stranger = House()
    theirs = stranger.keyset(
        label="keyset-theirs", keys=[stranger.entry("card"), stranger.entry("rel")]
    )
    evil = ("by-stranger", signed(CARD, stranger.key("card").called("tides-new")))
    named = stranger.keyset(
        label="keyset-theirs-named",
        keys=[
            {**stranger.entry("card"), "public": stranger.key("card").jwk(kid="tides-new")},
            stranger.entry("rel"),
        ],
    )
    their_release = stranger.release(named, label="release-theirs")
    bench.steps(
        "unproven",
        "All keys change, without proof, at the card's own origin",
        met,
        bench.step(
            no("untrusted", "statement.unsigned"), named, their_release, card=evil, contact=ORIGIN
        ),
    )
    bench.steps(
        "unproven-set",
        "The new key is in the key set, too",
        met,
        bench.step(
            no("untrusted", "trust.key_changed"),
            named,
            their_release,
            card=evil,
            contact=ORIGIN,
            jwks=jwk_set(stranger.key("card").called("tides-new")),
        ),
    )
    bench.steps(
        "reverted",
        "After a change with proof the old card and statements are shown",
        met,
        bench.step(yes(), second, newest, by="card2", contact=ORIGIN),
        bench.step(no("untrusted", "key.unknown"), first, release, contact=ORIGIN),
    )
    bench.steps(
        "vanished",
        "The keyset vanishes, and the stranger's key set is all there is",
        met,
        bench.step(
            no("untrusted", "trust.key_changed"),
            card=evil,
            contact=ORIGIN,
            jwks=jwk_set(stranger.key("card").called("tides-new")),
        ),
    )
    bench.steps(
        "higher",
        "The stranger's statement has a higher number",
        met,
        bench.step(
            no("untrusted", "statement.unsigned"),
            stranger.keyset(label="keyset-theirs-2", version=2, prev=first.digest),
            card=evil,
            contact=ORIGIN,
        ),
    )
    bench.refused(
        "stateless",
        "Without memory every use is a first one: there is none",
        "indeterminate",
        "trust.no_first_contact",
        first,
        release,
        contact=ORIGIN,
        memory="none",
    )
    bench.steps("met", "First use", met, twin=True)
    bench.steps(
        "again", "Second use", met, bench.step(yes(), first, release, contact=ORIGIN), twin=True
    )
    bench.steps(
        "offline",
        "Second use, with nothing at hand",
        met,
        bench.step(yes(), now=NOW + DAY),
        twin=True,
    )
    bench.steps(
        "proven",
        "Change with proof",
        met,
        bench.step(yes(), second, newest, by="card2", contact=ORIGIN),
        twin=True,
    )
    bench.steps(
        "proven-elsewhere",
        "The proof comes in a bundle: it proves itself",
        met,
        bench.step(yes(), first, second, newest, by="card2"),
        twin=True,
    )
    unproven = bench.step(
        no("untrusted", "key.unknown"),
        theirs,
        stranger.release(theirs, label="release-theirs-2"),
        by="card2",
        contact=ORIGIN,
    )
    bench.steps(
        "harmless",
        "The honest card after a stranger's attempt",
        met,
        unproven,
        bench.step(yes()),
        twin=True,
    )


def _contact(corpus: Corpus) -> None:
    house = House()
    bench = Bench(
        corpus,
        120,
        "first-contact",
        "First contact with the wrong one",
        "A registry or mirror that supplies both key and card supplies whatever it likes. First "
        "contact is with the card's own origin, over TLS, and learns a keyset if there is one; "
        "a bare key only where there is none, and then a lawful rotation needs a person.",
        house=house,
        anchor={"tofu": True},
    )
    first, release = bench.first, bench.release
    for id_, title, contact in (
        ("mirror", "From a mirror", "https://registry.example"),
        ("subdomain", "From a name below the origin's", "https://mirror.tides.example"),
        ("parent", "From a name above it", "https://example"),
        ("http", "Without TLS", "http://tides.example"),
        ("port", "From another port", "https://tides.example:8443"),
        (
            "userinfo",
            "From a host that is a user's name there",
            "https://tides.example@evil.example",
        ),
        ("file", "From a file or bundle", None),
    ):
        bench.refused(
            id_, title, "indeterminate", "trust.no_first_contact", first, release, contact=contact
        )
    below = bench.policy("path.toml", {"tofu": True}, origins=[f"{ORIGIN}/agents/"])
    at = (
        "below",
        signed(
            {
                **CARD,
                "supportedInterfaces": [
                    {**CARD["supportedInterfaces"][0], "url": f"{ORIGIN}/agents/a2a"}
                ],
            },
            house.key("card"),
        ),
    )
    bench.refused(
        "shared-host",
        "The issuer has a path of a shared host, and the host itself is met",
        "untrusted",
        "card.origin_mismatch",
        first,
        house.release(first, label="release-below"),
        contact=ORIGIN,
        policy=below,
    )
    bench.steps(
        "own",
        "From the card's own origin",
        bench.step(yes("trust.tofu_first"), first, release, contact=ORIGIN),
        twin=True,
    )
    bench.steps(
        "own-path",
        "For a path of it",
        bench.step(
            yes("trust.tofu_first"),
            first,
            house.release(
                first,
                cards=[house.listing(_content(at), url=f"{ORIGIN}/agents/agent-card.json")],
                floor={},
                label="release-at-path",
            ),
            card=at,
            contact=ORIGIN,
            policy=below,
        ),
        twin=True,
    )
    bench.steps(
        "mirror-later",
        "A mirror after first contact: it cannot spoil what is known",
        bench.step(yes("trust.tofu_first"), first, release, contact=ORIGIN),
        bench.step(yes(), first, release, contact="https://registry.example"),
        twin=True,
    )
    _bare(bench)
    met_elsewhere(bench.attack)


def _bare(bench: Bench) -> None:
    house, first = bench.house, bench.first
    bare = bench.policy("bare.toml", {"tofu": True}, freshness="waived")
    keys = jwk_set(house.key("card"))
    warned = trusted("trust.freshness_waived", "trust.tofu_first")
    met = bench.step(warned, jwks=keys, contact=ORIGIN, policy=bare)
    bench.refused(
        "mirror-bare",
        "A bare key from a mirror",
        "indeterminate",
        "trust.no_first_contact",
        jwks=keys,
        contact="https://registry.example",
        policy=bare,
    )
    bench.refused(
        "bare-required",
        "A bare key says nothing of today",
        "indeterminate",
        "trust.freshness_unknown",
        jwks=keys,
        contact=ORIGIN,
    )
    spoilt = first.sent(b"{}", "keyset-spoilt")
    bench.refused(
        "spoilt-keyset",
        "A keyset that is spoilt, and a bare key: no falling back",
        "indeterminate",
        "trust.no_first_contact",
        spoilt,
        jwks=keys,
        contact=ORIGIN,
        policy=bare,
    )
    forged = house.keyset("eve", label="keyset-forged")
    bench.refused(
        "unsigned-keyset",
        "A keyset that its own root has not signed, and a bare key",
        "indeterminate",
        "trust.no_first_contact",
        forged,
        jwks=keys,
        contact=ORIGIN,
        policy=bare,
    )
    future = house.keyset(iat=NOW + DAY, label="keyset-future")
    bench.refused(
        "future-keyset",
        "A keyset of tomorrow is not learnt",
        "indeterminate",
        "trust.no_first_contact",
        future,
        contact=ORIGIN,
    )
    bench.refused(
        "no-keys",
        "An empty key set",
        "indeterminate",
        "trust.no_first_contact",
        jwks=jwk_set(),
        contact=ORIGIN,
        policy=bare,
    )
    bench.steps(
        "bare-changed",
        "The bare key changes",
        met,
        bench.step(
            no("untrusted", "trust.key_changed"),
            by="card2",
            jwks=jwk_set(house.key("card2")),
            contact=ORIGIN,
            policy=bare,
        ),
    )
    bench.steps(
        "bare-exchanged",
        "Another key under the bare key's name",
        met,
        bench.step(
            no("invalid", "sig.bad"),
            card=("exchanged", signed(CARD, house.key("card2").called("card"))),
            jwks=jwk_set(house.key("card2").called("card")),
            contact=ORIGIN,
            policy=bare,
        ),
    )
    unrelated = house.keyset(keys=house.entries("card2", "rel"), label="keyset-after-bare")
    bench.steps(
        "bare-upgraded",
        "A keyset appears later, which nothing endorses",
        met,
        bench.step(
            no("untrusted", "key.unknown"),
            unrelated,
            house.release(unrelated, label="release-after-bare"),
            by="card2",
            contact=ORIGIN,
            policy=bare,
        ),
    )
    bench.steps("bare", "A bare key, as there is no keyset", met, twin=True)
    bench.steps(
        "bare-kept",
        "The bare key later",
        met,
        bench.step(trusted("trust.freshness_waived"), policy=bare),
        twin=True,
    )


def _content(card: tuple[str, dict[str, object]]) -> dict[str, object]:
    return {name: value for name, value in card[1].items() if name != "signatures"}
