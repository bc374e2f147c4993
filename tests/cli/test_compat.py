"""Compat signatures and js-instance on the command line: where they are made, and where not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardsign.card.canonical import DEFAULT_PROFILES, canonicalize
from tests.cli.conftest import Cardsign
from tests.support import LAX, OLD


def test_compat_all_serves_the_javascript_client(cardsign: Cardsign, signed: Path) -> None:
    """The card verifies as before; what the profile leaves open is said on stderr."""
    done = cardsign("sign", "card.json", "-o", "js.json", "--compat", "all")
    assert done.status == 0
    resolver = "@a2a-js/sdk 1.0.1 to 1.3.0, its resolver"
    said = [line for line in done.err.splitlines() if "do not notice a change of" in line]
    (lost,) = [line for line in said if line.endswith(f": {resolver}")]
    assert "a change of /securitySchemes, " in lost
    report = cardsign("verify", "js.json", "--jwks", "jwks.json", "--json")
    assert (report.status, report.json["verdict"]) == (0, "trusted")
    found = [one for one in report.json["signatures"] if one["typ"] == "cardsign-compat+jws"]
    assert [(one["verdict"], one["counts"]) for one in found] == [("not-tried", False)] * 2


def test_canonicalize_prints_its_payload(cardsign: Cardsign) -> None:
    """Exactly the bytes."""
    Path("old.json").write_text(json.dumps(OLD))
    printed = cardsign("canonicalize", "old.json", "--profile", "js-instance")
    assert (printed.status, printed.out) == (0, canonicalize(OLD, "js-instance").data)


def test_it_never_counts(cardsign: Cardsign, signed: Path) -> None:
    """Whatever `--profile` names."""
    options = ("--jwks", "jwks.json", "--profile")
    refused = cardsign("verify", signed, *options, "js-instance")
    assert refused.status == 2
    assert "usage.invalid" in refused.err
    assert cardsign("verify", signed, "--accept", "sdk", *options, "prune-empty").status != 2


@pytest.mark.parametrize("name", ["js-instance", "sdk-0.3", "prune-empty"])
def test_compat_takes_no_name_of_a_profile(cardsign: Cardsign, signed: Path, name: str) -> None:
    """One line says what it takes."""
    refused = cardsign("sign", "card.json", "-o", "out.json", "--compat", name)
    assert (refused.status, Path("out.json").exists()) == (2, False)
    assert "is not one of 'safe', 'all', 'none'" in refused.err


def test_a_person_is_told_what_was_made_and_for_whom(cardsign: Cardsign, signed: Path) -> None:
    """In few lines; `--explain` says what each signature leaves open."""
    done = cardsign("sign", "card.json", "-o", "out.json")
    first, *lines = done.err.splitlines()
    assert first.startswith("cardsign: signed card.json with ")
    assert first.endswith(" (ES256): 3 signatures")
    assert lines[0].startswith("  prune-empty: a2a-sdk 1.1.4 to 1.3.0; @a2a-js/sdk 1.0.1 to ")
    assert lines[2] == "  served-as-is: cardsign; RFC 8785 of the card as served, by hand"
    explained = cardsign("sign", "out.json", "-o", "out.json", "--explain").err
    assert explained.startswith("cardsign: out.json is fully signed by ")
    assert "    leaves open: /securityRequirements" in explained
    assert "    covers the whole card\n" in explained
    assert explained.count("a verifier that ignores `typ`") == 1
    quiet = cardsign("sign", "out.json", "-o", "out.json", "--explain", "-q").err
    assert quiet
    assert explained.startswith(quiet)
    assert "a verifier that ignores `typ`" in quiet
    assert cardsign("sign", "out.json", "-o", "out.json", "-q").err == ""


def test_a_card_may_go_nowhere(cardsign: Cardsign, signed: Path) -> None:
    """A device cannot be read again, so what it holds is not compared."""
    assert cardsign("sign", "card.json", "-o", "/dev/null").status == 0


def test_compat_none_makes_full_signatures_alone(cardsign: Cardsign, signed: Path) -> None:
    """And says which SDKs will refuse the card."""
    done = cardsign("sign", "card.json", "-o", "out.json", "--compat", "none")
    assert len(json.loads(Path("out.json").read_text())["signatures"]) == 2
    assert "a2a-sdk 1.1.4 to 1.3.0 will refuse this card" in done.err


def test_inspect_shows_the_default_ones_alone(cardsign: Cardsign) -> None:
    """What a signer would serve."""
    Path("card.json").write_text(json.dumps(LAX))
    described = cardsign("inspect", "card.json", "--json").json
    assert [one["profile"] for one in described["profiles"]] == list(DEFAULT_PROFILES)
