"""Attacks 69 to 74: names, hosts and generations. 72, the extended card, is elsewhere."""

from __future__ import annotations

from typing import Any

from corpus import WAIVED, Corpus, issuer, pinned, pinning
from crafting import CARD, LAX, OLD, ORIGIN, at_url, ec_key, signed


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_confusables, _homographs, _outside, _replay, _generations):
        make(corpus)


def _confusables(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        69,
        "confusable-names",
        "Names that look alike",
        "What a person cannot tell apart are different bytes, and any change breaks the signature. "
        "Which issuer it is, the policy's own name says, never the card.",
    )
    evil = ec_key("evil-1")
    good = signed(CARD, key)
    composed = signed({**CARD, "name": "Tide tables of H\u00e5n\u00f8y"}, key)
    for id_, title, card in (
        ("cyrillic", "A Cyrillic а", {**good, "name": "Tide t\u0430bles"}),
        ("zero-width", "A zero-width space", {**good, "name": "Tide\u200b tables"}),
        ("bidi", "A right-to-left override", {**good, "name": "\u202eTide tables"}),
        ("tag", "Invisible tag characters", {**good, "name": "Tide tables\U000e0065\U000e0076"}),
        ("full-width", "Full-width letters", {**good, "name": "\uff34ide tables"}),
        (
            "decomposed",
            "A letter taken apart",
            {**composed, "name": "Tide tables of Ha\u030an\u00f8y"},
        ),
        ("soft-hyphen", "A soft hyphen", {**good, "name": "Tide ta\u00adbles"}),
    ):
        attack.attack(id_, title, card, "invalid", "sig.bad")
    for id_, title, organization in (
        ("same-provider", "A stranger calls himself by our provider's name", "Harbour office"),
        ("issuer-name", "A stranger calls himself as the policy calls the issuer", "harbour"),
    ):
        provider = {**CARD["provider"], "organization": organization}
        card = signed({**CARD, "provider": provider}, evil)
        attack.attack(id_, title, card, "untrusted", "key.unknown")
    attack.twin("plain", "The name as it was signed", good)
    attack.twin("composed", "A name with letters composed", composed)
    apart = signed({**CARD, "name": "Tide tables of Ha\u030an\u00f8y"}, key)
    attack.twin("apart", "Taken apart when it was signed", apart)
    cyrillic = signed({**CARD, "name": "Tide t\u0430bles"}, key)
    attack.twin("own-choice", "The issuer himself may write a Cyrillic а", cyrillic)


def _homographs(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        70,
        "homograph-hosts",
        "Hosts that look or resolve alike",
        "Origins are compared in one strict grammar, in which each has one spelling; what is "
        "outside it is refused rather than interpreted. Each card here is signed by the right key.",
    )
    for id_, title, url, code in (
        ("port", "Another port", "https://tides.example:8443/a2a", "card.origin_mismatch"),
        ("http", "Without TLS", "http://tides.example/a2a", "card.origin_mismatch"),
        (
            "punycode",
            "A look-alike as Punycode",
            "https://xn--tdes-7vd.example/a2a",
            "card.origin_mismatch",
        ),
        (
            "unicode",
            "A look-alike in Unicode",
            "https://t\u0456des.example/a2a",
            "card.interface_url",
        ),
        (
            "full-width",
            "Full-width letters",
            "https://\uff54ides.example/a2a",
            "card.interface_url",
        ),
        ("capitals", "Capitals", "https://Tides.Example/a2a", "card.interface_url"),
        (
            "trailing-dot",
            "A dot behind the host",
            "https://tides.example./a2a",
            "card.interface_url",
        ),
        ("escaped-dot", "An escaped dot", "https://tides%2eexample/a2a", "card.interface_url"),
        (
            "other-dot",
            "The ideographic full stop",
            "https://tides\u3002example/a2a",
            "card.interface_url",
        ),
        (
            "port-zero",
            "A port with a leading zero",
            "https://tides.example:0443/a2a",
            "card.interface_url",
        ),
    ):
        attack.attack(id_, title, signed(at_url(url), key), "untrusted", code)
    for id_, title, origin in (
        ("asked-punycode", "Asked about the look-alike", "https://xn--tdes-7vd.example"),
        ("asked-port", "Asked about another port", "https://tides.example:8443"),
        ("asked-suffix", "Asked about a longer name", "https://tides.example.evil.example"),
    ):
        attack.attack(
            id_,
            title,
            signed(CARD, key),
            "indeterminate",
            "trust.no_anchor",
            subject={"origin": origin},
        )
    asked = {"origin": ORIGIN}
    attack.twin("asked", "Asked about the right origin", signed(CARD, key), subject=asked)
    default = signed(at_url("https://tides.example:443/a2a"), key)
    attack.twin("default-port", "The default port, spelled out", default, subject=asked)
    xn = attack.policy(
        issuer(pinned(key), origins=["https://xn--hfen-loa.example"]), name="xn.toml"
    )
    attack.twin(
        "enrolled-punycode",
        "A host that is enrolled as Punycode",
        signed(at_url("https://xn--hfen-loa.example/a2a"), key),
        policy=xn,
    )


def _outside(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        71,
        "foreign-interface",
        "An interface at somebody else's host",
        "The right key may sign a wrong card, by mistake or by force. Calls and credentials go to "
        "the interfaces, so each of them must stand where the policy allows.",
    )
    home = CARD["supportedInterfaces"][0]
    prefix = attack.policy(
        issuer(pinned(key), origins=[f"{ORIGIN}/agents/tides/"]), name="prefix.toml"
    )

    def interfaces(*urls: str) -> dict[str, Any]:
        return signed({**CARD, "supportedInterfaces": [{**home, "url": url} for url in urls]}, key)

    for id_, title, card in (
        ("only", "The only one", interfaces("https://evil.example/a2a")),
        (
            "last",
            "The last of three",
            interfaces(home["url"], home["url"], "https://evil.example/"),
        ),
        ("subdomain", "A host below ours", interfaces("https://a.tides.example/a2a")),
        ("parent", "The host above ours", interfaces("https://example/a2a")),
        ("suffix", "A host that begins as ours", interfaces("https://tides.example.evil.example/")),
        ("prefix", "A host that ends as ours", interfaces("https://eviltides.example/")),
    ):
        attack.attack(id_, title, card, "untrusted", "card.origin_mismatch")
    for id_, title, url in (
        ("beside-prefix", "Another agent of this host", f"{ORIGIN}/agents/ebb/a2a"),
        ("above-prefix", "The host's root", f"{ORIGIN}/"),
        ("longer-prefix", "A path that begins as ours", f"{ORIGIN}/agents/tides2/a2a"),
    ):
        attack.attack(
            id_, title, interfaces(url), "untrusted", "card.origin_mismatch", policy=prefix
        )
    for id_, title, url in (
        ("dots", "A path that climbs out", f"{ORIGIN}/agents/tides/../ebb/a2a"),
        ("escaped-dots", "The same, escaped", f"{ORIGIN}/agents/tides/%2e%2e/ebb/a2a"),
        ("escaped-slash", "An escaped slash", f"{ORIGIN}/agents/tides%2f..%2febb/a2a"),
    ):
        attack.attack(id_, title, interfaces(url), "untrusted", "card.interface_url", policy=prefix)
    attack.twin("home", "At home", interfaces(home["url"]))
    attack.twin("three", "Three at home", interfaces(home["url"], f"{ORIGIN}/", f"{ORIGIN}/rest"))
    below = interfaces(f"{ORIGIN}/agents/tides/a2a")
    attack.twin("below-prefix", "Below the prefix", below, policy=prefix)
    exact = interfaces(f"{ORIGIN}/agents/tides")
    attack.twin("prefix-itself", "The prefix without its slash", exact, policy=prefix)


def _replay(corpus: Corpus) -> None:
    attack = corpus.attack(
        73,
        "replay",
        "A genuine card at another host",
        "Anybody can copy a signed card. A verdict is about one subject: the card of one issuer, "
        "served by another, is not the other's.",
    )
    key, other = ec_key("harbour-1"), ec_key("lighthouse-1")
    attack.policy(
        issuer(pinned(key)),
        issuer(pinned(other), name="lighthouse", origins=["https://light.example"]),
    )
    ours = signed(CARD, key)
    for id_, title, subject, verdict, code in (
        (
            "stranger-origin",
            "At a host of nobody",
            {"origin": "https://evil.example"},
            "indeterminate",
            "trust.no_anchor",
        ),
        (
            "stranger-url",
            "At a URL of nobody",
            {"url": "https://evil.example/card.json"},
            "indeterminate",
            "trust.no_anchor",
        ),
        (
            "other-origin",
            "At an enrolled host of another",
            {"origin": "https://light.example"},
            "untrusted",
            "key.not_enrolled",
        ),
        (
            "other-issuer",
            "Asked about another issuer",
            {"issuer": "lighthouse"},
            "untrusted",
            "key.not_enrolled",
        ),
        (
            "other-url",
            "At a URL of another",
            {"url": "https://light.example/.well-known/agent-card.json"},
            "untrusted",
            "key.not_enrolled",
        ),
    ):
        attack.attack(id_, title, ours, verdict, code, subject=subject)
    resigned = signed(CARD, other)
    attack.attack(
        "countersigned",
        "The other issuer signs our card as his",
        resigned,
        "untrusted",
        "card.origin_mismatch",
        subject={"issuer": "lighthouse"},
    )
    added = {**ours, "signatures": [*ours["signatures"], *resigned["signatures"]]}
    attack.attack(
        "both-signatures",
        "He adds his signature to ours, and serves it as his",
        added,
        "untrusted",
        "card.origin_mismatch",
        subject={"origin": "https://light.example"},
    )
    attack.twin("ours", "Asked about us", ours)
    attack.twin("ours-both", "Asked about us, his signature beside ours", added)
    home = {"url": f"{ORIGIN}/.well-known/agent-card.json"}
    attack.twin("our-url", "At our URL", ours, subject=home)
    light = signed(at_url("https://light.example/a2a"), other)
    attack.twin(
        "his", "His own card at his host", light, subject={"origin": "https://light.example"}
    )


def _generations(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        74,
        "generations",
        "A card of A2A 0.3 under the rules of 1.0",
        "Members of one generation mean nothing in the other: a 0.3 card has its endpoint in "
        "`url`, which a payload of 1.0 members does not hold. What the signature leaves open, and "
        "what some reader would take for an endpoint, is looked at in both.",
    )
    lossy = attack.policy(
        issuer(pinned(key), profiles=["prune-empty", "prune-empty-upgraded"]), name="lossy.toml"
    )
    old, new = signed(OLD, key), signed(LAX, key)
    evil = "https://evil.example/a2a"
    added = {"url": evil, "preferredTransport": "JSONRPC"}
    interface = {**CARD["supportedInterfaces"][0], "url": evil}
    for id_, title, card in (
        ("url-changed", "The `url` of a 0.3 card is changed", {**old, "url": evil}),
        ("url-added", "`url` is added to a 1.0 card", {**new, **added}),
        (
            "interfaces-added",
            "Interfaces of 1.0 to a 0.3 card",
            {**old, "supportedInterfaces": [interface]},
        ),
        ("version-changed", "A 0.3 card says that it is of 1.0", {**old, "protocolVersion": "1.0"}),
    ):
        attack.attack(id_, title, card, "invalid", "sig.bad")
    pruned = signed(OLD, key, profile="prune-empty")
    for id_, title, card in (
        (
            "lossy-honest-url",
            "A payload of 1.0 members alone holds no endpoint of a 0.3 card",
            pruned,
        ),
        ("lossy-url", "So its `url` could be changed", {**pruned, "url": evil}),
    ):
        attack.attack(id_, title, card, "untrusted", "card.no_interface", policy=lossy)
    mixed = {**signed(CARD, key, profile="prune-empty"), **added}
    attack.attack(
        "lossy-url-added",
        "`url` is added to a 1.0 card under a profile that does not hold it",
        mixed,
        "untrusted",
        "coverage.uncovered",
        policy=lossy,
    )
    for id_, title, card in (
        ("signed-url", "The right key has signed a 0.3 card of another host", {**OLD, "url": evil}),
        ("signed-both", "A card of both, its `url` elsewhere", {**CARD, **added}),
        (
            "signed-additional",
            "An additional interface of 0.3 elsewhere",
            {**OLD, "additionalInterfaces": [{"url": evil, "transport": "JSONRPC"}]},
        ),
        ("signed-snake", "Interfaces in the other spelling elsewhere", _snake(interface)),
    ):
        attack.attack(id_, title, signed(card, key), "untrusted", "card.origin_mismatch")
    attack.twin("old", "A 0.3 card under a full profile", old)
    attack.twin("new", "A 1.0 card", new)
    dual = {**CARD, "url": CARD["supportedInterfaces"][0]["url"], "protocolVersion": "0.3.0"}
    attack.twin("both", "A card of both, at home in both", signed(dual, key))
    upgraded = signed(OLD, key, profile="prune-empty-upgraded")
    attack.twin(
        "old-lossy",
        "A 0.3 card under the lossy profile that reads it",
        upgraded,
        *WAIVED,
        "coverage.absence_unprovable",
        policy=lossy,
    )


def _snake(interface: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in CARD.items() if name != "supportedInterfaces"}
    return {**kept, "supported_interfaces": [interface]}
