"""Findings 1, 4, 7 and 8: what a signature leaves open."""

from __future__ import annotations

from typing import Any

from corpus import WAIVED, Corpus, issuer, pinned, pinning
from crafting import (
    CARD,
    LAX,
    OLD,
    ORIGIN,
    Key,
    dump,
    ec_key,
    entry,
    header_of,
    payload_of,
    signed,
)

from cardsign.card import canonicalize

_COMPAT = "cardsign-compat+jws"
_LOSSY = ("prune-empty", "prune-empty-upgraded")
_PRUNED = (*WAIVED, "coverage.absence_unprovable")


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_deleting, _merged, _uncovered, _useless):
        make(corpus)


def _all_signatures(card: dict[str, Any], key: Key) -> list[Any]:
    """What cardsign's signer writes: compat signatures over lossy payloads, and a full one."""
    compat = [
        entry(payload_of(card, profile), key, header_of(key, typ=_COMPAT)) for profile in _LOSSY
    ]
    return [*compat, entry(payload_of(card), key)]


def _deleting(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        101,
        "deleting",
        "Deleting what only the full signature covers",
        "A card that is signed for other SDKs too carries signatures over its pruned form. An "
        "editor who prunes the card leaves nothing uncovered under those, and takes away whom "
        "the card asks for credentials. So they never count.",
    )
    lossy = attack.policy(issuer(pinned(key), profiles=list(_LOSSY)), name="lossy.toml")
    mutual = {
        **LAX,
        "securitySchemes": {
            **LAX["securitySchemes"],
            "badge": {"mtlsSecurityScheme": {}},
        },
        "securityRequirements": [{"schemes": {"harbour": {"list": ["read"]}, "badge": {}}}],
    }
    signatures = _all_signatures(LAX, key)
    honest = {**LAX, "signatures": signatures}
    for profile, card in zip(_LOSSY, (LAX, OLD), strict=True):
        pruned = canonicalize(card, profile).value
        attack.attack(
            f"served-{profile}",
            f"The payload of {profile} is served as the card",
            {**pruned, "signatures": _all_signatures(card, key)},
            "untrusted",
            "sig.bad",
        )
    requirement = "securityRequirements"
    for id_, title, changes in (
        ("no-requirement", "The requirement is deleted", {requirement: None}),
        ("empty-requirement", "It becomes that of nothing", {requirement: [{}]}),
        ("no-requirements", "The list becomes empty", {requirement: []}),
        ("no-examples", "Only an empty list of a skill is deleted", {"skills": CARD["skills"]}),
    ):
        edited = {k: v for k, v in {**honest, **changes}.items() if v is not None}
        attack.attack(id_, title, edited, "untrusted", "sig.bad")
    only = {**canonicalize(LAX, "prune-empty").value, "signatures": signatures[:1]}
    attack.attack(
        "only-compat",
        "The pruned card with the compat signature that fits it, and no other",
        only,
        "untrusted",
        "sig.compat",
    )
    attack.attack(
        "only-compat-lossy",
        "The same, before a policy that accepts lossy profiles",
        only,
        "untrusted",
        "sig.compat",
        policy=lossy,
    )
    two = {**mutual, "signatures": _all_signatures(mutual, key)}
    weaker = {**two, "securityRequirements": [{"schemes": {"harbour": {"list": ["read"]}}}]}
    attack.attack(
        "half-requirement",
        "Of two schemes that must both be met, one is deleted",
        weaker,
        "untrusted",
        "sig.bad",
    )
    unmarked = entry(payload_of(LAX, "prune-empty"), key)
    attack.attack(
        "unmarked",
        "An unmarked signature over the pruned card, which this policy does not accept",
        {**LAX, "signatures": [unmarked]},
        "untrusted",
        "sig.other_profile",
    )
    attack.twin("honest", "The card as it was signed", honest)
    attack.twin("honest-two", "The one with two schemes", two)
    attack.twin("full-alone", "The full signature alone", {**LAX, "signatures": signatures[2:]})
    rule_1 = signed(LAX, key, profile="rule-1-as-written")
    attack.attack(
        "rule-1-scopes",
        "The other full profile drops the empty list of scopes, so that anybody could add it",
        rule_1,
        "untrusted",
        "coverage.requirement_unsigned",
    )
    harmless = {**CARD, "skills": LAX["skills"], "iconUrl": ""}
    attack.twin(
        "rule-1",
        "It drops only defaults that leave nothing open",
        signed(harmless, key, profile="rule-1-as-written"),
    )


def _merged(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        104,
        "merged",
        "Parts of two publications in one card",
        "If integrity may come from one signature and coverage from another, two honest cards "
        "merge into one that nobody signed. All four answers are those of one signature.",
    )
    both = attack.policy(
        issuer(pinned(key), profiles=["served-as-is", *_LOSSY]), name="all-profiles.toml"
    )
    lossy = attack.policy(issuer(pinned(key), profiles=list(_LOSSY)), name="lossy.toml")
    stranger = ec_key("stranger")
    flat, wrapped = (_oauth(kind) for kind in ("flat", "wrapped"))
    first = {**CARD, "securitySchemes": {"harbour": flat}}
    second = {**CARD, "securitySchemes": {"harbour": wrapped}}
    merged = {**CARD, "securitySchemes": {"harbour": {**flat, **wrapped}}}
    upgraded = entry(payload_of(first, "prune-empty-upgraded"), key)
    pruned = entry(payload_of(second, "prune-empty"), key)
    unsigned = "coverage.requirement_unsigned"
    for id_, title, policy, code in (
        (
            "schemes",
            "The scheme of one and that of the other",
            "trust.toml",
            "sig.other_profile",
        ),
        ("schemes-all", "The same, where every profile is accepted", both, unsigned),
        ("schemes-lossy", "The same, where only lossy ones are", lossy, unsigned),
    ):
        card = {**merged, "signatures": [upgraded, pruned]}
        attack.attack(id_, title, card, "untrusted", code, policy=policy)
    edited = {**LAX, "x-berth": {"pier": 66}}
    attack.attack(
        "stranger-covers",
        "A stranger's signature covers all, the enrolled key's a part",
        {**edited, "signatures": [entry(payload_of(edited), stranger), pruned_of(LAX, key)]},
        "untrusted",
        "coverage.uncovered",
        policy=both,
    )
    old, new = signed({**CARD, "version": "1.1.0"}, key), signed(CARD, key)
    attack.attack(
        "mixed-halves",
        "The header of one signature and the value of the other",
        {
            **CARD,
            "signatures": [
                {
                    "protected": new["signatures"][0]["protected"],
                    "signature": old["signatures"][0]["signature"],
                }
            ],
        },
        "invalid",
        "sig.bad",
    )
    for id_, title, card, profile in (
        ("first", "The first publication", first, "prune-empty-upgraded"),
        ("second", "The second", second, "prune-empty"),
    ):
        attack.twin(id_, title, signed(card, key, profile=profile), *_PRUNED, policy=lossy)
    attack.twin("full", "Both schemes in one card that was signed whole", signed(merged, key))


def pruned_of(card: dict[str, Any], key: Key) -> dict[str, Any]:
    """A signature over the pruned card."""
    return entry(payload_of(card, "prune-empty"), key)


def _oauth(kind: str) -> dict[str, Any]:
    url = "https://old.example/token" if kind == "flat" else "https://new.example/token"
    flows = {"clientCredentials": {"tokenUrl": url, "scopes": {"read": "Read"}}}
    return (
        {"type": "oauth2", "flows": flows}
        if kind == "flat"
        else {"oauth2SecurityScheme": {"flows": flows}}
    )


def _uncovered(corpus: Corpus) -> None:
    attack = corpus.attack(
        107,
        "uncovered-names",
        "Names that only some readers know",
        "A list of dangerous names is never complete: Go takes `Url` for `url`, others read "
        "`endpoint`. Whatever the signature does not cover fails the card, at any depth.",
    )
    key = ec_key("harbour-1")
    attack.policy(issuer(pinned(key), profiles=["prune-empty"]))
    honest = signed(CARD, key, profile="prune-empty")
    evil = "https://evil.example/a2a"
    for name, value in (
        ("Url", evil),
        ("endpoint", evil),
        ("interfaces", [{"url": evil}]),
        ("authentication", {"schemes": ["none"]}),
        ("protocolVersion", "0.2"),
        ("supportsAuthenticatedExtendedCard", True),
        ("jwks_uri", "https://evil.example/jwks.json"),
        ("additionalInterfaces", [{"url": evil, "transport": "GRPC"}]),
    ):
        id_ = name.replace("_", "-").lower()
        card = {**honest, name: value}
        attack.attack(id_, f"`{name}` is added", card, "untrusted", "coverage.uncovered")
    for id_, title, added in (
        (
            "supported-capitals",
            "`SupportedInterfaces` is added beside the right name",
            {"SupportedInterfaces": [{"url": evil}]},
        ),
        ("url-twice", "`url` and `URL` are added", {"url": evil, "URL": evil}),
    ):
        attack.attack(id_, title, {**honest, **added}, "invalid", "card.two_spellings")
    skill = {**CARD["skills"][0], "inputSchema": {"type": "object"}}
    attack.attack(
        "skill-member",
        "`inputSchema` is added to a skill",
        {**honest, "skills": [skill]},
        "untrusted",
        "coverage.uncovered",
    )
    whole = signed(CARD, key)
    full = attack.policy(issuer(pinned(key)), name="full.toml")
    verified = attack.file("verified.json", dump(CARD))
    for id_, title, changes, code in (
        (
            "empty-interface-first",
            "An empty interface is put before the first",
            {"supportedInterfaces": [{}, *CARD["supportedInterfaces"]]},
            "coverage.uncovered",
        ),
        (
            "empty-requirement-first",
            "An empty requirement is put before the first: no credentials at all",
            {"securityRequirements": [{}, *CARD["securityRequirements"]]},
            "coverage.requirement_unsigned",
        ),
        (
            "empty-scheme",
            "A second scheme, empty",
            {"securitySchemes": {**CARD["securitySchemes"], "none": {}}},
            "coverage.requirement_unsigned",
        ),
        ("empty-tag", "An empty tag", {"skills": [_tagged("sea", "")]}, "coverage.uncovered"),
    ):
        attack.attack(id_, title, {**whole, **changes}, "untrusted", code, policy=full)
        attack.twin(
            f"{id_}-lossy",
            f"{title}: borne with by who accepts a lossy profile, who gets the card without it",
            {**honest, **changes},
            *_PRUNED,
            code,
            expecting={"card": verified},
        )
    attack.twin("honest", "The card as it was signed", honest, *_PRUNED)
    snake = {**honest, "default_input_modes": honest["defaultInputModes"]}
    del snake["defaultInputModes"]
    attack.twin(
        "snake", "One member in its other spelling, which the profile reads", snake, *_PRUNED
    )


def _tagged(*tags: str) -> dict[str, Any]:
    return {**CARD["skills"][0], "tags": list(tags)}


def _useless(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        108,
        "useless",
        "Signatures over a payload without an endpoint",
        "A signature that leaves the endpoint open authorises every endpoint. A payload must name "
        "one, in a place where a client would look for it.",
    )
    lossy = attack.policy(issuer(pinned(key), profiles=list(_LOSSY)), name="lossy.toml")
    pruned = signed(OLD, key, profile="prune-empty")
    attack.attack(
        "old-url",
        "A 0.3 card under a profile of 1.0 members, its `url` changed",
        {**pruned, "url": "https://evil.example/"},
        "untrusted",
        "card.no_interface",
        policy=lossy,
    )
    for id_, title, changes, code in (
        ("no-member", "No interfaces", {"supportedInterfaces": None}, "card.no_interface"),
        ("empty-list", "An empty list", {"supportedInterfaces": []}, "card.no_interface"),
        (
            "no-url",
            "An interface without a url",
            {"supportedInterfaces": [{}]},
            "card.interface_url",
        ),
        ("empty-url", "An empty url", _interface(""), "card.interface_url"),
        ("null-url", "A url that is null", _interface(None), "card.interface_url"),
        ("list-url", "A url that is a list", _interface([f"{ORIGIN}/a2a"]), "card.interface_url"),
        (
            "no-list",
            "Interfaces that are no list",
            {"supportedInterfaces": {"url": ORIGIN}},
            "card.interface_url",
        ),
    ):
        card = {k: v for k, v in {**CARD, **changes}.items() if v is not None}
        attack.attack(id_, f"{title}, signed", signed(card, key), "untrusted", code)
    attack.twin("endpoint", "A card with an endpoint", signed(CARD, key))
    attack.twin("old", "A 0.3 card with its `url`, under a full profile", signed(OLD, key))
    upgraded = signed(OLD, key, profile="prune-empty-upgraded")
    attack.twin(
        "old-lossy", "The same under a profile that holds it", upgraded, *_PRUNED, policy=lossy
    )


def _interface(url: Any) -> dict[str, Any]:
    return {"supportedInterfaces": [{**CARD["supportedInterfaces"][0], "url": url}]}
