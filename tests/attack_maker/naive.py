"""Findings 3, 17, 21, 23, 24 and 27: what else a naive verifier of one card lets through."""

from __future__ import annotations

import json
from typing import Any

from corpus import WAIVED, Corpus, issuer, pinned, pinning
from crafting import (
    CARD,
    LAX,
    ORIGIN,
    at_url,
    dump,
    ec_key,
    entry,
    header_of,
    payload_of,
    signed,
)


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_subject, _views, _current, _holders, _claims, _envelopes):
        make(corpus)


def _subject(corpus: Corpus) -> None:
    attack = corpus.attack(
        103,
        "no-subject",
        "A verdict about nobody",
        "Who asks for one agent and is handed another's genuine card must not hear `trusted`. "
        "Each question names its subject; two agents of one host have places of their own.",
    )
    tides, ebb = ec_key("tides-1"), ec_key("ebb-1")
    attack.policy(
        issuer(pinned(tides), name="tides", origins=["https://host.example/agents/tides/"]),
        issuer(pinned(ebb), name="ebb", origins=["https://host.example/agents/ebb/"]),
        issuer(pinned(ec_key("host-1")), name="host", origins=["https://host.example"]),
    )
    card = signed(at_url("https://host.example/agents/tides/a2a"), tides)
    url = "https://host.example/agents/{}/agent-card.json"
    attack.attack(
        "nobody", "Nobody is named", card, "indeterminate", "trust.no_expectation", subject={}
    )
    for id_, title, subject in (
        ("swapped", "The card of one agent at the URL of another", {"url": url.format("ebb")}),
        ("swapped-name", "Asked about the other by name", {"issuer": "ebb"}),
        ("host", "At the URL of the host's own agent", {"url": "https://host.example/card.json"}),
        ("origin", "Asked about the whole origin", {"origin": "https://host.example"}),
    ):
        attack.attack(id_, title, card, "untrusted", "key.not_enrolled", subject=subject)
    attack.attack(
        "unknown-name",
        "Asked about an issuer whom the policy does not name",
        card,
        "indeterminate",
        "trust.no_anchor",
        subject={"issuer": "flood"},
    )
    first = attack.step("same", card, _trusted("tides"), subject={"issuer": "tides"})
    again = attack.step(
        "same-other",
        card,
        {"verdict": "untrusted", "code": "key.not_enrolled"},
        subject={"issuer": "ebb"},
    )
    attack.case(
        "warm",
        "attack",
        "The same bytes, just trusted for one, are asked about for another",
        [first, again],
        memory="fresh",
    )
    attack.twin("by-name", "Asked about by name", card, subject={"issuer": "tides"})
    attack.twin("by-url", "At its own URL", card, subject={"url": url.format("tides")})


def _trusted(subject: str) -> dict[str, Any]:
    return {"verdict": "trusted", "warnings": list(WAIVED), "subject": subject}


def _views(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        117,
        "views",
        "An endpoint that two readers take for two hosts",
        "URL parsers disagree on what stands before the host and where it ends. Only one strict "
        "grammar is read, in every member that some reader takes for an endpoint.",
    )
    for id_, title, url in (
        ("userinfo", "Our host as a user name", "https://tides.example@evil.example/a2a"),
        ("password", "Our host and a password", "https://tides.example:443@evil.example/"),
        ("backslash", "A backslash", "https://tides.example\\@evil.example/"),
        ("backslashes", "Backslashes for slashes", "https:\\\\tides.example\\a2a"),
        ("tab", "A tab", "https://tides.exam\tple/a2a"),
        ("newline", "A line break before it", "\nhttps://tides.example/a2a"),
        ("fragment", "A fragment", "https://tides.example#@evil.example/"),
        ("no-scheme", "No scheme", "//tides.example/a2a"),
        ("one-slash", "One slash", "https:/tides.example/a2a"),
        ("other-scheme", "Another scheme", "ftp://tides.example/a2a"),
        ("javascript", "A script", "javascript:alert(1)"),
        ("escaped-host", "An escaped slash in the host", "https://tides.example%2f@evil.example/"),
        ("space", "A space", "https://tides.example /a2a"),
    ):
        card = signed(at_url(url), key)
        attack.attack(id_, title, card, "untrusted", "card.interface_url")
    for id_, title, url, code in (
        ("grpc", "A gRPC target elsewhere", "evil.example:443", "card.origin_mismatch"),
        (
            "grpc-dns",
            "A gRPC target with a resolver",
            "dns:///tides.example:443",
            "card.interface_url",
        ),
        ("grpc-path", "A gRPC target with a path", "tides.example:443/x", "card.interface_url"),
    ):
        card = signed(at_url(url, protocolBinding="GRPC"), key)
        attack.attack(id_, title, card, "untrusted", code)
    bare = signed(at_url("tides.example:443"), key)
    attack.attack(
        "target-not-grpc",
        "Such a target where no gRPC is named",
        bare,
        "untrusted",
        "card.interface_url",
    )
    capital = [{"URL": "https://evil.example/", "protocolBinding": "JSONRPC"}]
    attack.attack(
        "capital-url",
        "`URL` alone, which Go reads",
        signed({**CARD, "supportedInterfaces": capital}, key),
        "untrusted",
        "card.origin_mismatch",
    )
    attack.twin("plain", "A plain URL", signed(CARD, key))
    grpc = signed(at_url("tides.example:443", protocolBinding="GRPC"), key)
    attack.twin("grpc-home", "A gRPC target at home", grpc)
    query = signed(at_url("https://tides.example/a2a?v=1"), key)
    attack.twin("query", "A query", query)


def _current(corpus: Corpus) -> None:
    attack = corpus.attack(
        121,
        "current-without-evidence",
        "Pinned keys say nothing of today",
        "With keys alone neither revocation nor rollback can be seen. `current` is unknown then, "
        "and unknown is not yes: only a policy that waives it by name trusts such a card.",
    )
    key = ec_key("harbour-1")
    required = attack.policy(issuer(pinned(key), freshness="required"), name="required.toml")
    fetched = attack.policy(
        issuer({"jwks": f"{ORIGIN}/.well-known/jwks.json"}, freshness="required"), name="jwks.toml"
    )
    unsaid = attack.policy(issuer(pinned(key), freshness=None), name="unsaid.toml")
    attack.policy(issuer(pinned(key)))
    good = signed(CARD, key)
    unknown = {"answers": {"integrity": "yes", "authorised": "yes", "current": "unknown"}}
    for id_, title, policy in (
        ("required", "The policy requires freshness", required),
        ("unsaid", "It says nothing, which requires it", unsaid),
    ):
        attack.attack(
            id_,
            title,
            good,
            "indeterminate",
            "trust.freshness_unknown",
            policy=policy,
            expecting=unknown,
        )
    attack.attack(
        "jwks",
        "A key set from the right URL is no evidence either",
        good,
        "indeterminate",
        "trust.freshness_unknown",
        jwks=dump({"keys": [key.jwk()]}),
        policy=fetched,
        expecting=unknown,
    )
    edited = {**good, "version": "9"}
    attack.attack(
        "edited",
        "A changed card is invalid, waived or not",
        edited,
        "invalid",
        "sig.bad",
        policy=required,
    )
    attack.twin("waived", "The policy waives it, and the verdict says so", good, expecting=unknown)


def _holders(corpus: Corpus) -> None:
    attack = corpus.attack(
        123,
        "required-holders",
        "One signature that counts for two",
        "Where a policy requires two holders, each counts once, by the key that it really is and "
        "over the same payload. Names, repetitions and unknown entries are not counted.",
    )
    key, second, registry = ec_key("harbour-1"), ec_key("harbour-2"), ec_key("registry-1")
    anchor = pinned(key, second)
    anchor["keys"] += pinned(registry, holder="registry")["keys"]
    require = ["harbour", "registry"]
    attack.policy(issuer(anchor, require=require))
    lossy = attack.policy(
        issuer(anchor, require=require, profiles=["served-as-is", "prune-empty"]), name="lossy.toml"
    )
    payload, pruned = payload_of(LAX), payload_of(LAX, "prune-empty")
    ours, rotated, theirs = (entry(payload, one) for one in (key, second, registry))
    stranger = entry(payload, ec_key("stranger"))

    def card(*entries: Any) -> dict[str, Any]:
        return {**LAX, "signatures": list(entries)}

    renamed = entry(payload, key, header_of(key, kid=registry.kid))
    for id_, title, entries, policy in (
        ("alone", "One holder has signed", [ours], "trust.toml"),
        ("thrice", "One signature, three times", [ours] * 3, "trust.toml"),
        ("twice", "Two signatures by one key", [ours, entry(payload, key)], "trust.toml"),
        ("rotation", "The old and the new key of one holder", [ours, rotated], "trust.toml"),
        ("stranger", "One holder and a stranger", [ours, stranger], "trust.toml"),
        ("renamed", "One key under both names", [ours, renamed], "trust.toml"),
        (
            "other-payload",
            "Two holders over two payloads",
            [ours, entry(pruned, registry)],
            lossy,
        ),
    ):
        attack.attack(id_, title, card(*entries), "untrusted", "threshold.unmet", policy=policy)
    attack.twin("both", "Both holders over the same payload", card(ours, theirs))
    crowd = card(stranger, rotated, theirs, ours)
    attack.twin("crowd", "Both, and others besides", crowd)


def _claims(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        124,
        "claims",
        "A card's own words about who it is",
        "Names in a card are claims. The verdict puts forward the policy's name of the issuer, "
        "and nothing that a card says can take its place, whatever it does to a terminal.",
    )
    evil = ec_key("evil-1")
    words = {
        "ansi": "\x1b[2K\x1b[1Gverdict: trusted",
        "bidi": "\u202eecived detsurt\u202c",
        "markup": "[bold green]trusted[/]",
        "html": "<script>alert(1)</script>",
        "lines": "harbour\n\nverdict: trusted",
    }
    for id_, text in words.items():
        card = signed({**CARD, "name": text, "description": text}, evil)
        title = f"A stranger's card with {id_} in its name"
        attack.attack(
            id_, title, card, "untrusted", "key.unknown", expecting={"subject": "harbour"}
        )
    for id_, text in words.items():
        card = {**CARD, "name": text}
        attack.twin(
            f"{id_}-signed",
            f"The issuer's own card with {id_} in its name: trusted, under the policy's name",
            signed(card, key),
            expecting={
                "subject": "harbour",
                "card": attack.file(f"{id_}-signed.verified.json", dump(card)),
            },
        )


def _envelopes(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        127,
        "envelopes",
        "The answer of a protocol instead of a card",
        "An agent hands out its extended card inside a JSON-RPC answer. The answer is no card: "
        "what is verified is what was taken out of it, strictly.",
    )
    good = signed(CARD, key)
    answer = {"jsonrpc": "2.0", "id": 1, "result": good}
    error = {"code": -32007, "message": "no card"}
    for id_, title, document in (
        ("result", "An answer that holds the signed card", answer),
        ("error", "An error", {"jsonrpc": "2.0", "id": 1, "error": error}),
        ("both", "A result and an error", {**answer, "error": error}),
    ):
        attack.attack(id_, title, document, "untrusted", "sig.none")
    attack.attack(
        "merged",
        "A card with the answer's members beside its own",
        {**signed(LAX, key), "jsonrpc": "2.0", "result": {"name": "evil"}},
        "invalid",
        "sig.bad",
    )
    twice = json.dumps(answer)[:-1] + ', "result": {}}'
    attack.attack("two-results", "Two results", twice.encode(), "invalid", "json.duplicate_member")
    batch = json.dumps([answer]).encode()
    attack.attack("batch", "A batch of answers", batch, "invalid", "json.not_object")
    attack.twin("card", "The card itself", good)
