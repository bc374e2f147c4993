"""`cardsign trust`: files that stay valid, a lock that is not lost, and the line that decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.statements.keyset import read_keyset
from cardsign.trust.disk import read_policy
from tests.cli import peer
from tests.cli.conftest import Cardsign, Ended
from tests.jose.statement_making import DAY, thumbprint
from tests.support import PORTABLE

ORIGIN = ("--origin", "https://tides.example")
BY_URL = ("--jwks-url", "https://keys.example/k")
ADD = ("trust", "add", "tides", "--yes", *ORIGIN)
TRUST, LOCK = Path("trust.toml"), Path("trust.lock")


@pytest.fixture(autouse=True)
def statements(cardsign: Cardsign) -> bytes:
    """An issuer's files in the folder: k1 to k3, r1 and r2, and some that are no good."""
    first = peer.keyset()
    second = peer.keyset(2, first)
    files = {
        "k1": first,
        "k2": second,
        "k3": peer.keyset(3, second),
        "r1": peer.release(first, PORTABLE, seq=6),
        "r2": peer.release(second, PORTABLE, seq=7),
        "unsigned": peer.PEER.keyset("ann"),
        "old": peer.keyset(iat=peer.T0 - 370 * DAY, exp=peer.T0 + 20 * DAY),
        "expired": peer.keyset(iat=peer.T0 - 90 * DAY, exp=peer.T0 - DAY),
    }
    for name, data in files.items():
        Path(f"{name}.json").write_bytes(data)
    return first


@pytest.fixture
def enrolled(cardsign: Cardsign) -> Ended:
    """`tides`, by version 1 of its keyset and the release under it."""
    ended = cardsign(*ADD, "--keyset", "k1.json", "--release", "r1.json")
    assert ended.status == 0, ended.err
    return ended


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


def test_what_enrolling_shows_and_writes(
    cardsign: Cardsign, enrolled: Ended, statements: bytes
) -> None:
    """Issuer, number, digest and roots, to be compared; the pin in the policy, floors in a lock."""
    digest = read_keyset(statements).digest
    assert f"digest      {digest}" in enrolled.text
    assert "threshold   2 of 3" in enrolled.text
    for name in ("ann", "bob", "cat"):
        assert f"root key    {thumbprint(name)}  {name}" in enrolled.text
    assert "another channel" in enrolled.err

    shown = cardsign("trust", "show", "tides", "--json").json
    assert (shown["freshness"], shown["anchor"]["keyset"]["digest"]) == ("required", digest)
    assert shown["lock"]["keyset"] == {"epoch": 1, "version": 1, "digest": digest}
    assert shown["lock"]["release"]["seq"] == 6
    text = cardsign("trust", "show", "tides").text
    assert "anchor      keyset = { epoch = 1, version = 1" in text
    assert "  release     6, until" in text
    empty = cardsign("trust", "show", "tides", XDG_CACHE_HOME=str(Path("empty").absolute()))
    assert "none here yet: cardsign trust update" in empty.text


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
    "a release for a keyset": (("r1.json",), "statement.typ"),
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


def test_removing_keeps_the_entry_in_the_lock(cardsign: Cardsign, enrolled: Ended) -> None:
    """Until it is forgotten, which is asked about first; one that is needed is not forgotten."""
    forget = ("trust", "forget", "tides", "--yes")
    needed = cardsign(*forget)
    assert (needed.status, "cardsign trust remove tides" in needed.err) == (2, True)
    removed = cardsign("trust", "remove", "tides", "--json")
    assert removed.json == {"removed": "tides", "locked": True}
    assert list(json.loads(LOCK.read_bytes())["issuers"]) == ["tides"]
    assert "cardsign trust forget tides" in cardsign("trust", "list").err
    unsure = cardsign("trust", "forget", "tides")
    assert (unsure.status, "usage.unanswered" in unsure.err) == (2, True)
    assert cardsign(*forget).status == 0
    assert json.loads(LOCK.read_bytes())["issuers"] == {}
    again = cardsign(*forget)
    assert (again.status, "policy.unknown_issuer" in again.err) == (2, True)


def test_pinning_what_the_lock_records(cardsign: Cardsign, enrolled: Ended) -> None:
    """The policy follows the lock, and only it."""
    assert cardsign("trust", "pin", "tides", "--json").json["changed"] is False
    assert update(cardsign, "k3", "k2").status == 0
    moved = cardsign("trust", "pin", "tides", "--json").json
    assert (moved["changed"], moved["keyset"]["version"]) == (True, 3)
    shown = cardsign("trust", "show", "tides", "--json").json
    assert [shown["anchor"]["keyset"]["version"], shown["lock"]["keyset"]["version"]] == [3, 3]


def test_a_root_set_has_no_pin_to_move(cardsign: Cardsign) -> None:
    """Its holders and threshold are pinned, and its lock rises all the same."""
    cardsign(*ADD, "--keyset", "k1.json", "--roots")
    assert update(cardsign, "k1", "k2").status == 0
    shown = cardsign("trust", "show", "tides", "--json").json
    roots = shown["anchor"]["roots"]
    assert (roots["issuer"], roots["threshold"]) == ("tides.example", 2)
    assert {key["thumbprint"]: key["holder"] for key in roots["keys"]} == {
        thumbprint(name): name for name in ("ann", "bob", "cat")
    }
    assert shown["lock"]["keyset"]["version"] == 2
    assert "usage.conflict" in cardsign("trust", "pin", "tides").err


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


def test_all_that_is_wrong_with_a_policy_is_shown_at_once(cardsign: Cardsign) -> None:
    """Each with its line and what to do; with --json on stdout too."""
    TRUST.write_text('format = 1\n[limits]\nskew = "x"\nsignaturs = 4\n[[issuer]]\n')
    ended = cardsign("trust", "list", "--json")
    assert ended.status == 2
    assert [f"(trust.toml, line {line})" in ended.err for line in (3, 4, 5)] == [True] * 3
    assert "did you mean 'signatures'?" in ended.err
    found = [ended.json["error"], *ended.json["more"]]
    assert [one["code"] for one in found] == ["policy.malformed"] * 5
