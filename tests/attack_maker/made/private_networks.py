"""Attack 513: the leave to reach an issuer on a private network, and who tries to use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.attack_maker.attack import Attack, issuer, pinned
from tests.attack_maker.signing import ORIGIN, Json, at_url, signed
from tests.attack_maker.stage import HOST, Stage, at, status, tls
from tests.attack_maker.statements import URL

_INSIDE = "10.1.2.3"
_VAULT = "10.1.9.9"
_FORBIDDEN = ("indeterminate", "fetch.forbidden_address", "unknown unknown unknown unknown")


def attack() -> Attack:
    """The policy names a network for one issuer; nothing that others say widens it."""
    attack = Attack(
        513,
        "private-networks",
        "A leave for one issuer and one network",
        "An operator may reach an issuer of its own on a private network. A name that resolves "
        "elsewhere, a redirect, a card or another issuer must not use that leave.",
        source="decision E13",
    )
    attack.tests(
        "tests/net/test_private_networks.py::test_no_network_of_the_policy_holds_a_clouds_metadata",
        "tests/net/test_private_networks.py::test_a_public_card_cannot_name_a_private_peer",
    )
    stage = Stage(attack)
    office = stage.pinned("office.toml", networks=["10.1.0.0/16"])
    nowhere = stage.pinned("nowhere.toml")

    def asked(
        id_: str, title: str, addresses: Sequence[str], *, policy: str = office, reached: bool
    ) -> None:
        world: Json = {"names": {HOST: list(addresses)}, "policy": policy}
        world["servers"] = {at(one): tls() for one in addresses}
        if reached:
            stage.honest(id_, title, **world)
        else:
            stage.refused(id_, title, *_FORBIDDEN, expecting={"reached": []}, **world)

    asked("inside", "The address is in the network", [_INSIDE], reached=True)
    asked("public", "A public address stays one", ["93.184.215.14"], reached=True)
    asked("unnamed", "Without the line", [_INSIDE], policy=nowhere, reached=False)
    for id_, title, addresses in (
        ("other", "Another private network", ["10.2.0.1"]),
        ("mixed", "One of two addresses is elsewhere", [_INSIDE, "10.2.0.1"]),
        ("metadata", "The metadata of a cloud", ["169.254.169.254"]),
        ("loopback", "This machine", ["127.0.0.1"]),
        ("mapped", "In the network, inside an IPv6 address", ["::ffff:10.1.2.3"]),
        ("nat64", "In the network, behind NAT64", ["64:ff9b::a01:203"]),
    ):
        asked(id_, title, addresses, reached=False)

    world: dict[str, Any] = {
        "names": {HOST: [_INSIDE], "vault.example": [_VAULT]},
        "servers": {at(_INSIDE): tls(), at(_VAULT): tls("vault.example")},
        "policy": office,
    }
    only = {"reached": [at(_INSIDE)]}
    for id_, title, where in (
        ("redirect", "It sends us to another private host", "https://vault.example/secret"),
        ("redirect-home", "It sends us to itself", f"{ORIGIN}/secret"),
        ("redirect-address", "It sends us to an address", f"https://{_VAULT}/secret"),
    ):
        stage.refused(
            id_,
            title,
            *("indeterminate", "fetch.status", "unknown unknown unknown unknown"),
            answers={URL: status(302, ["Location", where])},
            expecting=only,
            **world,
        )
    key = stage.house.key("card")
    for id_, title, url in (
        ("endpoint", "A signed card names another private host", "https://vault.example/a2a"),
        ("endpoint-address", "A signed card names a private address", f"https://{_VAULT}/a2a"),
    ):
        stage.refused(
            id_,
            title,
            *("untrusted", "card.origin_mismatch", "yes no unknown yes"),
            answers={URL: stage.said(signed(at_url(url), key), id_)},
            expecting=only,
            **world,
        )
    quay = issuer(pinned(key), name="quay", origins=["https://quay.example"])
    beside = issuer(pinned(key), networks=["10.1.0.0/16"])
    both = attack.policy(beside, quay, name="both.toml")
    other = "https://quay.example/.well-known/agent-card.json"
    stage.refused(
        "neighbour",
        "Another issuer of the policy has an address in that network",
        *_FORBIDDEN,
        url=other,
        asked=[other],
        names={"quay.example": [_INSIDE]},
        servers={at(_INSIDE): tls("quay.example")},
        answers={other: stage.said(stage.card)},
        policy=both,
        expecting={"reached": []},
    )
    return attack
