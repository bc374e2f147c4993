"""Attacks 31 and 32 as transcripts: what a resolver says."""

from __future__ import annotations

from corpus import JWKS_URL, Corpus, jwk_set
from crafting import CARD, Json, ec_key, signed
from stage import (
    HOME,
    HOST,
    INDETERMINATE,
    Stage,
    at,
    tls,
    turns,
)
from statements import URL

FORBIDDEN = "fetch.forbidden_address"


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_rebinding, _mixed):
        make(corpus)


def _rebinding(corpus: Corpus) -> None:
    attack = corpus.attack(
        31,
        "rebinding",
        "The name has another address when it is asked for again",
        "Whoever checks the address that a name has, and then connects to the name, has checked "
        "nothing: the second answer is another one. A name is resolved once for each request, and "
        "the connection goes to the address that was checked.",
    )
    stage = Stage(attack)
    pin, by_url, by_keyset = stage.pinned(), stage.by_url(), stage.by_keyset()
    attack.standard = pin
    within = {at("127.0.0.1"): tls(), at("10.0.0.1"): tls()}
    at_home = {"reached": [at(HOME)]}
    for id_, title, first, second in (
        ("loopback-first", "This machine, then public", ["127.0.0.1"], [HOME]),
        ("inside-first", "The network inside, then public", ["10.0.0.1"], [HOME]),
        ("both-first", "Public and this machine, then public", [HOME, "127.0.0.1"], [HOME]),
    ):
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            FORBIDDEN,
            policy=pin,
            servers=within,
            names={HOST: turns(first, second)},
            expecting={"reached": [], "lookups": {HOST: 1}},
        )
    evil = ec_key(stage.house.key("card").kid)
    theirs = {JWKS_URL: stage.said(jwk_set(evil), "theirs"), URL: stage.said(signed(CARD, evil))}
    for id_, title, policy, answers in (
        ("key-set", "Public for the card, this machine for the key set", by_url, theirs),
        ("statements", "Public for the card, this machine for the statements", by_keyset, {}),
    ):
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            "trust.no_keys",
            policy=policy,
            servers=within,
            names={HOST: turns([HOME], ["127.0.0.1"])},
            answers=answers,
            expecting=at_home,
        )
    stage.honest(
        "once",
        "Public, then this machine: nobody asks twice",
        policy=pin,
        servers=within,
        names={HOST: turns([HOME], ["127.0.0.1"])},
        expecting={**at_home, "lookups": {HOST: 1}},
    )
    moved = "93.184.215.15"
    stage.honest(
        "moved",
        "A name that lawfully moves between two requests",
        policy=by_url,
        names={HOST: turns([HOME], [moved])},
        servers={at(moved): tls()},
        expecting={"reached": [at(HOME), at(moved)]},
    )


def _mixed(corpus: Corpus) -> None:
    attack = corpus.attack(
        32,
        "mixed-addresses",
        "One address of several is inside",
        "A client that tries one address after another ends at the one inside as soon as the "
        "public one does not answer. One forbidden address refuses the host.",
    )
    stage = Stage(attack)
    pin = stage.pinned()
    attack.standard = pin
    servers = {at("10.0.0.1"): tls(), at("::1"): tls(), at("169.254.169.254"): tls()}
    for id_, title, addresses in (
        ("last", "Public, then inside", [HOME, "10.0.0.1"]),
        ("first", "Inside, then public", ["10.0.0.1", HOME]),
        ("middle", "Inside between two public ones", [HOME, "10.0.0.1", "93.184.215.15"]),
        ("v6", "A public one, and this machine in IPv6", [HOME, "::1"]),
        ("mapped", "A public one, and a mapped one inside", [HOME, "::ffff:169.254.169.254"]),
        ("dead-public", "A public one that nobody answers at", ["93.184.215.99", "10.0.0.1"]),
    ):
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            FORBIDDEN,
            policy=pin,
            names={HOST: addresses},
            servers=servers,
            expecting={"reached": []},
        )
    v6 = "2606:2800:21f::14"
    for id_, title, addresses in (
        ("several", "Two public ones", [HOME, "93.184.215.15"]),
        ("dead-first", "Two public ones, and only the second answers", ["93.184.215.99", HOME]),
        ("v6-first", "A public one in IPv6 that does not answer, and one in IPv4", [v6, HOME]),
    ):
        stage.honest(id_, title, policy=pin, names={HOST: addresses})
    nobody: Json = {"names": {HOST: []}}
    stage.refused(
        "none",
        "No address at all",
        INDETERMINATE,
        "fetch.failed",
        policy=pin,
        **nobody,
        expecting={"reached": []},
    )
