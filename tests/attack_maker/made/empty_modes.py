"""Attack 411: an empty list that no payload holds, and that some readers take for "none"."""

from __future__ import annotations

from tests.attack_maker.attack import Attack, issuer, pinned
from tests.attack_maker.signing import CARD, Json, ec_key, entry, payload_of, signed

_RULE_1 = "rule-1-as-written"


def attack() -> Attack:
    """Empty modes are put into a skill whose signature covers the pruned card."""
    attack = Attack(
        411,
        "empty-modes",
        "Empty lists of modes are added to a skill",
        "A skill without modes has those of the card. Pruning drops an empty list before it is "
        "signed, so that anybody can add one; whoever reads it again takes it for no mode at all.",
    )
    key = ec_key("harbour-1")
    attack.policy(issuer(pinned(key)))
    honest = entry(payload_of(CARD, _RULE_1), key)
    uncovered = ("untrusted", "coverage.uncovered", "yes yes unknown no")
    for id_, title, added in (
        ("input", "No input modes", {"inputModes": []}),
        ("output", "No output modes", {"outputModes": []}),
        ("both", "Neither", {"inputModes": [], "outputModes": []}),
    ):
        attack.attack(id_, title, {**_with(added), "signatures": [honest]}, *uncovered)
    attack.twin("absent", "The skill says nothing of modes", {**CARD, "signatures": [honest]})
    empty = _with({"inputModes": []})
    attack.twin("signed", "The issuer signed the empty list itself", signed(empty, key))
    return attack


def _with(added: Json) -> Json:
    return {**CARD, "skills": [{**CARD["skills"][0], **added}]}
