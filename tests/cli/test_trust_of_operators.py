"""What only the operator's own policy may say: how an issuer is reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign
from tests.trust.policies import policy_text

MEMBERS = {"networks": 'networks = ["10.0.0.0/8"]', "proxy": 'proxy = "http://proxy.example:3128"'}


@pytest.mark.parametrize("member", MEMBERS)
def test_a_policy_that_was_only_found_is_refused(cardsign: Cardsign, member: str) -> None:
    """By every command that would use it, before anything is asked or remembered (E6)."""
    Path("trust.toml").write_text(policy_text(MEMBERS[member]))

    for command in (("verify", "https://a.example/"), ("trust", "list"), ("trust", "update")):
        ended = cardsign(*command)
        assert (ended.status, ended.out) == (2, b"")
        assert "config.not_allowed" in ended.err
        assert "(trust.toml, line 5)" in ended.err
        assert "--trust trust.toml" in ended.err
    assert not list(Path().glob("home/**/*.json"))
    assert not Path("trust.lock").exists()


@pytest.mark.parametrize("member", MEMBERS)
def test_a_policy_that_is_named_may_say_it(cardsign: Cardsign, member: str, tmp_path: Path) -> None:
    """The twins: by the option, by the variable, or in the user's configuration."""
    text = policy_text(MEMBERS[member])
    Path("trust.toml").write_text(text)
    listing = ("trust", "list", "--json")

    assert cardsign(*listing, "--trust", "trust.toml").json[0][member]
    assert cardsign(*listing, CARDSIGN_TRUST="trust.toml").json[0][member]
    Path("trust.toml").unlink()
    own = tmp_path / "home" / ".config" / "cardsign"
    own.mkdir(parents=True)
    (own / "trust.toml").write_text(text)
    assert cardsign(*listing).json[0][member]
