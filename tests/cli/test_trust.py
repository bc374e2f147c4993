"""`cardsign trust`: files that stay valid, a lock that is not lost, and the line that decides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.trust.policyfile import read_policy
from tests.cli import peer
from tests.cli.conftest import Cardsign, Ended
from tests.statements.making import DAY
from tests.support import PORTABLE

ORIGIN = ("--origin", "https://tides.example")
BY_URL = ("--jwks-url", "https://keys.example/k")
ADD = ("trust", "add", "tides", "--yes", *ORIGIN)
TRUST, LOCK = Path("trust.toml"), Path("trust.lock")


@pytest.fixture(autouse=True)
def statements(cardsign: Cardsign) -> None:
    """An issuer's files in the folder: k1 to k3, r2, and some that are no good."""
    first = peer.keyset()
    second = peer.keyset(2, first)
    files = {
        "k1": first,
        "k2": second,
        "k3": peer.keyset(3, second),
        "r2": peer.release(second, PORTABLE, seq=7),
        "unsigned": peer.PEER.keyset("ann"),
        "old": peer.keyset(iat=peer.T0 - 370 * DAY, exp=peer.T0 + 20 * DAY),
        "expired": peer.keyset(iat=peer.T0 - 90 * DAY, exp=peer.T0 - DAY),
    }
    for name, data in files.items():
        Path(f"{name}.json").write_bytes(data)


def update(cardsign: Cardsign, *names: str) -> Ended:
    """What `trust update` says to these statements."""
    given = [word for name in names for word in ("--statements", f"{name}.json")]
    return cardsign("trust", "update", "--trust", "trust.toml", *given)


OWN = "home/.config/cardsign/trust.toml"
WHERE: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "an option": (("--trust", "named.toml"), {"CARDSIGN_TRUST": "other.toml"}, "named.toml"),
    "the environment": ((), {"CARDSIGN_TRUST": "other.toml"}, "other.toml"),
    "the working folder": ((), {}, "trust.toml"),
    "the user's own folder": ((), {}, OWN),
    "a relative one is none": ((), {"XDG_CONFIG_HOME": "xdg"}, OWN),
}


@pytest.mark.parametrize(("options", "variables", "name"), WHERE.values(), ids=WHERE)
def test_where_the_policy_is_found(
    cardsign: Cardsign, options: tuple[str, ...], variables: dict[str, str], name: str
) -> None:
    """Option, environment, working folder, user; one that is named and missing is a fault."""
    for path in ("other.toml", "xdg/cardsign/trust.toml", name):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("format = 1\n")
    Path(name).write_text('format = 1\n[limits]\nskew = "x"\n')
    ended = cardsign("trust", "list", *options, **variables)
    assert (ended.status, "policy.malformed" in ended.err) == (2, True)
    assert f"{name}, line 3)" in ended.err
    Path(name).unlink()
    missing = cardsign("trust", "list", *options, **variables).err
    assert ("no policy" if name in ("trust.toml", OWN) else "file.not_found") in missing


def test_comments_stay(cardsign: Cardsign) -> None:
    """What a person wrote around the entries is there after adding, pinning and removing."""
    TRUST.write_text('# mine\nformat = 1  # of 2026\n\n[limits]\nskew = "2m"  # our NTP is good\n')
    cardsign(*ADD, "--keyset", "k1.json")
    TRUST.write_text(TRUST.read_text() + "# about lamps\n")
    cardsign("trust", "add", "lamps", "--origin", "https://lamps.example", *BY_URL)
    update(cardsign, "k2")
    cardsign("trust", "pin", "tides")
    comments = ["# mine", "# of 2026", "# our NTP is good", "# about lamps"]
    assert [one for one in comments if one not in TRUST.read_text()] == []
    assert "version = 2" in TRUST.read_text()

    cardsign("trust", "remove", "tides")
    assert [one for one in comments if one not in TRUST.read_text()] == []
    assert [one.name for one in read_policy(TRUST).issuers] == ["lamps"]


REFUSED = {
    "a statement that its root has not signed": (("unsigned.json",), "statement.unsigned"),
    "a history with a gap": (("k1.json", "--keyset", "k3.json"), "statement.gap"),
    "a release under another keyset": (("k1.json", "--release", "r2.json"), "statement.keyset"),
}


@pytest.mark.parametrize(("words", "code"), REFUSED.values(), ids=REFUSED)
def test_what_add_refuses(cardsign: Cardsign, words: tuple[str, ...], code: str) -> None:
    """A local fault under the right code, and nothing is written anywhere."""
    ended = cardsign(*ADD, "--keyset", *words)
    assert (ended.status, ended.out) == (2, b"")
    assert ended.err.startswith(f"cardsign: {code}: ")
    assert not any(path.exists() for path in (TRUST, LOCK, Path("home")))


def test_several_people_enrol_at_once(cardsign: Cardsign, tmp_path: Path) -> None:
    """Nobody's entry is lost."""
    TRUST.write_text("format = 1\n")
    names = [f"peer{number}" for number in range(3)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    program = (sys.executable, "-m", "cardsign", "trust", "add")
    adding = [
        subprocess.Popen(
            [*program, name, *BY_URL, "--origin", f"https://{name}.example"], env=environment
        )
        for name in names
    ]
    assert [one.wait() for one in adding] == [0, 0, 0]
    assert sorted(one.name for one in read_policy(TRUST).issuers) == names


def test_statements_of_long_ago(cardsign: Cardsign) -> None:
    """One that has expired, or that many retired keys may have signed, is said to be so."""
    gone = cardsign(*ADD, "--keyset", "expired.json")
    assert (gone.status, "has expired" in gone.err) == (0, True)
    words = ("trust", "add", "old", "--yes", "--origin", "https://old.example")
    old = cardsign(*words, "--keyset", "old.json")
    assert (old.status, "has expired" in old.err) == (0, False)
    assert "more than 365 days old" in old.err
    for name, statement, is_old in (("old", "old", True), ("tides", "expired", False)):
        update(cardsign, statement)
        assert ("more than 365 days old" in cardsign("trust", "show", name).err) is is_old
