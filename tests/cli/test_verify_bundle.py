"""`cardsign bundle`, and bundles as cards and as evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import peer
from tests.cli.conftest import Cardsign
from tests.jose.statement_making import key
from tests.support import PORTABLE, dump, signed


@pytest.fixture
def bundled(cardsign: Cardsign) -> Path:
    """An enrolled peer's `bundle.json`."""
    peer.enrol(cardsign)
    made = cardsign("bundle", "signed.json", "--statements", "statements", "-o", "bundle.json")
    assert (made.status, made.out) == (0, b"")
    assert "no trust" in made.err
    return Path("bundle.json")


def test_a_bundle_is_judged_with_the_statements_in_it(cardsign: Cardsign, bundled: Path) -> None:
    """As the card and the statements by themselves would be."""
    verdict = cardsign("verify", bundled, "--issuer", "tides", "--json")
    assert (verdict.status, verdict.json["verdict"]) == (0, "trusted")
    assert verdict.json["input"] == "bundle.json"
    assert verdict.json["statements"]["release"]["number"] == "42"
    assert verdict.json["card"] == PORTABLE
    piped = cardsign("verify", "-", "--issuer", "tides", "--json", stdin=bundled.read_bytes())
    assert piped.json["card"] == PORTABLE


def test_a_bundle_brings_no_trust(cardsign: Cardsign, bundled: Path) -> None:
    """Without a policy nothing in it counts, nor by a policy that pins another keyset."""
    nobody = cardsign("verify", bundled, "--trust", "trust.toml", "--json")
    assert (nobody.status, peer.codes(nobody)[0]) == (3, "trust.no_expectation")
    other = peer.keyset(issuer="other.example")
    peer.write_policy(peer.keyset_anchor(other), "other.toml")
    asked = ("--trust", "other.toml", "--no-state", "--issuer", "tides")
    elsewhere = cardsign("verify", bundled, *asked, "--json")
    assert (elsewhere.status, peer.codes(elsewhere)[0]) == (3, "trust.no_keys")
    Path("trust.toml").unlink()
    without = cardsign("verify", bundled, "--issuer", "tides", "--json")
    assert (without.status, peer.codes(without)[0]) == (3, "trust.no_anchor")


def test_the_statements_of_one_bundle_are_not_another_cards(
    cardsign: Cardsign, bundled: Path
) -> None:
    """Two files of one command are two matters."""
    ended = cardsign("verify", bundled, "signed.json", "--issuer", "tides", "--no-state", "--json")
    opened, alone = (json.loads(line) for line in ended.text.splitlines())
    assert opened["statements"]["keyset"]["number"] == "1.1"
    assert (alone["statements"]["keyset"], alone["reasons"][0]["code"]) == (None, "trust.no_keys")


def test_a_bundle_is_evidence_for_another_card(cardsign: Cardsign, bundled: Path) -> None:
    """--statements takes its statements and leaves its card."""
    verdict = cardsign(
        "verify", "signed.json", "--issuer", "tides", "--statements", bundled, "--json"
    )
    assert verdict.status == 0
    again = cardsign("bundle", "signed.json", "--statements", bundled)
    assert again.out == bundled.read_bytes()


def test_a_bundle_that_is_none_is_an_invalid_card(cardsign: Cardsign, bundled: Path) -> None:
    """It says that it is one, so it is not judged as a card; as a file of ours it is a fault."""
    broken = {**json.loads(bundled.read_bytes()), "jwks": "{}"}
    Path("broken.json").write_bytes(dump(broken))
    verdict = cardsign("verify", "broken.json", "--issuer", "tides", "--json")
    assert (verdict.status, verdict.json["verdict"]) == (1, "invalid")
    assert peer.codes(verdict) == ["bundle.malformed"]
    assert verdict.json["subject"] == "tides"
    supplied = cardsign("verify", "signed.json", "--statements", "broken.json")
    assert (supplied.status, "bundle.malformed" in supplied.err) == (2, True)


def test_a_card_cannot_pass_for_a_bundle_nor_a_bundle_for_a_card(
    cardsign: Cardsign, bundled: Path
) -> None:
    """One file has one meaning."""
    both = {**signed(PORTABLE, key("card")), **json.loads(bundled.read_bytes())}
    Path("both.json").write_bytes(dump(both))
    verdict = cardsign("verify", "both.json", "--issuer", "tides", "--json")
    assert (verdict.status, peer.codes(verdict)) == (1, ["bundle.malformed"])


REFUSED = {
    "nothing to bundle": (["signed.json"], 2, "usage.conflict"),
    "a card for a statement": (
        ["signed.json", "--statements", "unsigned.json"], 2, "statement.shape",
    ),
    "a statement for a card": (
        ["statements/1.1.json", "--statements", "statements"], 1, "card.not_agent_card",
    ),
    "two releases": (
        ["signed.json", "--statements", "statements", "--statements", "newer.json"],
        2,
        "usage.conflict",
    ),
    "no such card": (["absent.json", "--statements", "statements"], 2, "file.not_found"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "status", "code"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_bundle_is_refused(
    cardsign: Cardsign, bundled: Path, arguments: list[str], status: int, code: str
) -> None:
    """Nothing is written, and an older file stays."""
    Path("newer.json").write_bytes(peer.release(peer.keyset(), PORTABLE, seq=43))
    before = bundled.read_bytes()
    ended = cardsign("bundle", *arguments, "-o", bundled)
    assert (ended.status, code in ended.err) == (status, True)
    assert bundled.read_bytes() == before
