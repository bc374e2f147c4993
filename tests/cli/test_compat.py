"""The opt-in profiles on the command line: where they can be named, and where not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardsign.card import DEFAULT_PROFILES, OPT_IN_PROFILES, canonicalize
from tests.cli.conftest import Cardsign
from tests.support import LAX, OLD


def test_sign_serves_what_compat_names(cardsign: Cardsign, signed: Path) -> None:
    """The card verifies as before; what the profile leaves open is said on stderr."""
    done = cardsign("sign", "card.json", "-o", "js.json", "--compat", "js-instance")
    assert done.status == 0
    assert "verifiers of js-instance will not notice changes of /securitySchemes" in done.err
    report = cardsign("verify", "js.json", "--jwks", "jwks.json", "--json")
    assert (report.status, report.json["verdict"]) == (0, "trusted")
    found = [one for one in report.json["signatures"] if one["profiles"] == ["js-instance"]]
    assert [(one["verdict"], one["counts"]) for one in found] == [("valid", False)]


@pytest.mark.parametrize("profile", OPT_IN_PROFILES)
def test_canonicalize_prints_their_payloads(cardsign: Cardsign, profile: str) -> None:
    """Exactly the bytes."""
    Path("old.json").write_text(json.dumps(OLD))
    printed = cardsign("canonicalize", "old.json", "--profile", profile)
    assert (printed.status, printed.out) == (0, canonicalize(OLD, profile).data)


@pytest.mark.parametrize("profile", OPT_IN_PROFILES)
@pytest.mark.parametrize(
    "command", [("verify", "--jwks", "jwks.json"), ("sign", "-o", "other.json")]
)
def test_they_cannot_be_chosen_as_profiles(
    cardsign: Cardsign, signed: Path, command: tuple[str, ...], profile: str
) -> None:
    """Neither as what counts nor as what is served by default."""
    name, *options = command
    refused = cardsign(name, signed, *options, "--profile", profile)
    assert refused.status == 2
    assert "usage.invalid" in refused.err
    accept = ("--accept", "sdk") if name == "verify" else ()
    assert cardsign(name, signed, *options, *accept, "--profile", "prune-empty").status != 2


def test_inspect_shows_the_default_ones_alone(cardsign: Cardsign) -> None:
    """What a signer would serve."""
    Path("card.json").write_text(json.dumps(LAX))
    described = cardsign("inspect", "card.json", "--json").json
    assert [one["profile"] for one in described["profiles"]] == list(DEFAULT_PROFILES)
