"""The attack that compat signatures must not open: a lossy payload served as the card.

It is a card by itself, all of it is signed, and what it lost, such as the requirement to
authenticate, is gone without a trace. Only the marked typ tells it from what was published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from experiment import ALGORITHMS, NOW, VERIFIERS, Attack, Row, serve
from explanations import payloads
from judges import Judge
from samples import Sample
from support import DUAL, LAX, OLD, codes, dump, examine, signed

from cardsign import CardsignError, JwkSet, Policy, PrivateKey, canonicalize, examine_card
from cardsign.card.canonical import DEFAULT_PROFILES, FULL_PROFILES, Payloads
from cardsign.jose.jws import TYP_COMPAT, sign_payload
from cardsign.sign.signing import SigningOptions, sign_document

LOSSY = ("prune-empty", "prune-empty-upgraded", "js-instance")


@pytest.fixture(params=ALGORITHMS)
def attacks(
    request: pytest.FixtureRequest, rows: Mapping[str, tuple[Row, ...]]
) -> list[tuple[str, Attack]]:
    """Every lossy payload of a card that we sign which has lost something, with the file."""
    return [(row.file, attack) for row in rows[request.param] for attack in row.attacks]


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_we_never_trust_one(attacks: list[tuple[str, Attack]]) -> None:
    """Not one, of any card."""
    assert len(attacks) > 100
    assert [file for file, attack in attacks if attack.ours == "trusted"] == []


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_the_sdks_take_them(attacks: list[tuple[str, Attack]]) -> None:
    """The attack is real: what we did not mark would be trusted by whoever reads it so."""
    signed = [one for _, one in attacks if one.ours != "invalid"]
    assert {one.ours for one in signed} == {"untrusted"}
    for verifier in VERIFIERS[:2]:
        assert all(verifier in one.accepted_by for one in signed)
    # Fewer than before E8: what loses a scheme or a scope is not signed by default.
    assert sum(one.security_lost for one in signed) > 30
    # Nothing signs the others: their payload has no endpoint.
    assert {one.accepted_by for _, one in attacks if one.ours == "invalid"} == {()}


@pytest.mark.needs_shared
@pytest.mark.parametrize("accepted", [FULL_PROFILES, DEFAULT_PROFILES], ids=["full", "all"])
def test_nor_under_any_policy_where_every_compat_signature_was_insisted_on(
    accepted: tuple[str, ...], samples: tuple[Sample, ...], alice: PrivateKey
) -> None:
    """Each lossy payload, whether the signer makes its signature or a careless one would."""
    policy = Policy.from_jwks(JwkSet.of([alice.public]), name="alice", accept="sdk", only=accepted)
    options = SigningOptions(compat="none", drop_foreign=True, force=True)
    verdicts = set()
    for sample in samples:
        try:
            document = json.loads(sign_document(sample.data, [alice], options))
        except CardsignError:
            continue
        lossy = list(payloads(document, LOSSY))
        document["signatures"] += [sign_payload(each.data, alice, typ=TYP_COMPAT) for each in lossy]
        full = {canonicalize(document, profile).data for profile in FULL_PROFILES}
        for payload in lossy:
            served = serve(payload, document)
            report = examine_card(served, policy=policy, now=NOW)
            # What differs from the card only in what an accepted profile leaves out, such as
            # defaults, has a payload that a full signature covers.
            read = (Payloads(payload.value).of(profile) for profile in accepted)
            is_full = any(one is not None and one.data in full for one in read)
            is_card = isinstance(payload.value.get("name"), str)  # one is forced, with a number
            expected = is_full and payload.names_an_endpoint and is_card
            assert (report.verdict == "trusted") == expected, sample.file
            verdicts.add((expected, report.verdict))
    assert (True, "trusted") in verdicts
    # Each has its signature, and typ says that it does not count.
    assert {one for is_full, one in verdicts if not is_full} == {"untrusted"}


CARDS: dict[str, dict[str, Any]] = {"lax": LAX, "of 0.3": OLD, "of both generations": DUAL}


@pytest.mark.needs_judges("py")
@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_a_compat_payload_is_told_by_its_typ(
    card: dict[str, Any], alice: PrivateKey, sdk: Judge
) -> None:
    """a2a-sdk accepts it; we name what it is, and hand out no card."""
    ours = signed(card, alice)
    payload = canonicalize(card, "prune-empty-upgraded")
    served = serve(payload, ours)
    assert payload.data != canonicalize(card, "served-as-is").data

    assert sdk.verify(served, JwkSet.of([alice.public])).outcome == "accepted"
    report = examine(served, alice)
    assert (report.verdict, report.card) == ("untrusted", None)
    # Of the same key, the full signatures that went along fit no longer.
    assert {"sig.bad", "sig.compat"} <= set(codes(report))
    assert examine(dump(ours), alice).verdict == "trusted"
