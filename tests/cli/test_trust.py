"""`cardsign trust`: files that stay valid, a memory that is not lost, and the line that decides."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardsign import sign_card
from cardsign.card.canonical import canonicalize
from cardsign.card.values import jcs
from cardsign.jose.jwks import JwkSet
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE
from cardsign.statements.keyset import KeysetStatement, read_keyset
from cardsign.statements.signing import sign_statement
from cardsign.trust.disk import read_policy
from tests.cli.conftest import Cardsign, Ended
from tests.jose.statement_making import (
    DAY,
    URL,
    entry,
    key,
    keyset_members,
    release_members,
    thumbprint,
)
from tests.support import PORTABLE

ORIGIN = ("--origin", "https://tides.example")
BY_URL = ("--jwks-url", "https://keys.example/k")
BY_URL = ("--jwks-url", "https://keys.example/k")
TRUST, LOCK = Path("trust.toml"), Path("trust.lock")


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of an issuer's files, made an hour ago: k1 to k3, r1, r2, a card, a key set."""
    folder = tmp_path_factory.mktemp("peer")
    now = int(time.time()) - 3600
    keys = [
        entry(name, role, nbf=now - DAY, exp=now + 300 * DAY)
        for name, role in (("card", "card"), ("rel", "release"))
    ]
    keysets: list[KeysetStatement] = []
    for version in (1, 2, 3):
        prev = keysets[-1].digest if keysets else None
        times = {"iat": now + version, "exp": now + 90 * DAY}
        members = keyset_members(version=version, prev=prev, keys=keys, **times)
        data = sign_statement(jcs(members), map(key, ("ann", "bob")), TYP_KEYSET)
        (folder / f"k{version}.json").write_bytes(data)
        keysets.append(read_keyset(data))
    digest = hashlib.sha256(canonicalize(PORTABLE, "served-as-is").data).hexdigest()
    listed = {"url": URL, "kind": "public", "payload_sha256": digest, "seq": 5}
    for number, keyset in enumerate(keysets, 1):
        times = {"iat": now + 10, "exp": now + 7 * DAY}
        members = release_members(keyset, cards=[listed], floor={URL: 5}, seq=5 + number, **times)
        data = sign_statement(jcs(members), [key("rel")], TYP_RELEASE)
        (folder / f"r{number}.json").write_bytes(data)
    (folder / "card.json").write_bytes(sign_card(json.dumps(PORTABLE).encode(), [key("card")]))
    (folder / "jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    alias = {"keys": [key("card").public.jwk(), {**key("card").public.jwk(), "kid": "alias"}]}
    (folder / "alias.json").write_text(json.dumps(alias))
    for name, age, exp in (("old", 370, 20), ("expired", 90, -1)):
        times = {"iat": now - age * DAY, "exp": now + exp * DAY}
        payload = jcs(keyset_members(keys=keys, **times))
        data = sign_statement(payload, map(key, ("ann", "bob")), TYP_KEYSET)
        (folder / f"{name}.json").write_bytes(data)
    unsigned = sign_statement(jcs(keyset_members(iat=now, exp=now + DAY)), [key("ann")], TYP_KEYSET)
    (folder / "unsigned.json").write_bytes(unsigned)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home that commands have; not there yet."""
    return tmp_path / "home"


@pytest.fixture
def enrolled(cardsign: Cardsign, peer: Path) -> Ended:
    """`tides`, by version 1 of its keyset and the release under it."""
    assert cardsign("trust", "init").status == 0
    ended = cardsign(
        *("trust", "add", "tides", "--yes", *ORIGIN, "--keyset", peer / "k1.json"),
        *("--release", peer / "r1.json"),
    )
    assert ended.status == 0
    return ended


def files(home: Path) -> dict[str, bytes]:
    """Policy, lock and memory as they are now, lock files left out."""
    paths: Iterator[Path] = (path for path in (TRUST, LOCK, *home.rglob("*.json")))
    return {str(path): path.read_bytes() for path in paths if path.exists()}


# ------------------------------------------------------------------ init, list


def test_the_commented_example_is_right(cardsign: Cardsign) -> None:
    """Who removes the marks of comment from what init writes has a policy."""
    cardsign("trust", "init")
    lines = TRUST.read_text().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("# [limits]"))
    text = "\n".join(lines[:first] + [line.removeprefix("# ") for line in lines[first:]])
    TRUST.write_text(text.replace('digest = "..."', f'digest = "{"0" * 64}"'))
    assert [one["name"] for one in cardsign("trust", "list", "--json").json] == ["acme-geo"]


def test_a_new_machine(
    cardsign: Cardsign, enrolled: Ended, peer: Path, home: Path, tmp_path: Path
) -> None:
    """With policy and lock from version control state begins empty; the lock's floors hold."""
    moved = tmp_path / "elsewhere"
    ended = cardsign("trust", "init", "--state", moved, "--json")
    assert ended.json["begun"] == ["tides"]
    known = cardsign("trust", "known", "show", "tides", "--state", moved, "--json").json
    assert (known["policy"], known["keyset"]) == (str(TRUST.resolve()), None)
    assert "floor" not in known
    assert cardsign("trust", "show", "tides", "--json", "--state", moved).json["lock"] is not None


WHERE = {
    "an option": (("--trust", "named.toml"), {}, "named.toml"),
    "the environment": ((), {"CARDSIGN_TRUST": "named.toml"}, "named.toml"),
    "the option before the environment": (
        ("--trust", "named.toml"),
        {"CARDSIGN_TRUST": "other.toml"},
        "named.toml",
    ),
    "the working folder": ((), {}, "trust.toml"),
}


@pytest.mark.parametrize(("options", "variables", "name"), WHERE.values(), ids=WHERE)
def test_where_the_policy_is_found(
    cardsign: Cardsign, options: tuple[str, ...], variables: dict[str, str], name: str
) -> None:
    """Option, environment, working folder; one that is named and missing is a fault."""
    for path in ("named.toml", "trust.toml", "other.toml"):
        Path(path).write_text("format = 1\n")
    Path(name).write_text('format = 1\n[limits]\nskew = "x"\n')
    ended = cardsign("trust", "list", *options, **variables)
    assert (ended.status, "policy.malformed" in ended.err) == (2, True)
    assert f"({name}, line 3)" in ended.err
    Path(name).unlink()
    if name != "trust.toml":
        assert "file.not_found" in cardsign("trust", "list", *options, **variables).err


def test_the_policy_of_the_user(cardsign: Cardsign, home: Path, tmp_path: Path) -> None:
    """Last of all the XDG folder; a relative one is none."""
    for folder, variables in (
        (home / ".config/cardsign", {}),
        (tmp_path / "xdg/cardsign", {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}),
        (home / ".config/cardsign", {"XDG_CONFIG_HOME": "xdg"}),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trust.toml").write_text("format = 1\n")
        assert cardsign("trust", "list", **variables).status == 0
        (folder / "trust.toml").unlink()
        assert cardsign("trust", "list", **variables).status == 2


# ------------------------------------------------------------------------ add


def test_what_is_compared_over_another_channel(enrolled: Ended, peer: Path) -> None:
    """Issuer, number, digest, the root's thumbprints and holders; stdout has that alone."""
    digest = read_keyset((peer / "k1.json").read_bytes()).digest

    assert f"digest      {digest}" in enrolled.text
    assert "keyset      1.1" in enrolled.text
    assert "threshold   2 of 3" in enrolled.text
    for name in ("ann", "bob", "cat"):
        assert f"root key    {thumbprint(name)}  {name}" in enrolled.text
    assert "another channel" in enrolled.err


def test_what_enrolling_writes(cardsign: Cardsign, enrolled: Ended, home: Path, peer: Path) -> None:
    """The pin in the policy, floors in the lock, the statements in the memory."""
    one = read_policy(TRUST)[0].issuers[0]
    keyset = read_keyset((peer / "k1.json").read_bytes())
    shown = cardsign("trust", "show", "tides", "--json").json

    assert one.freshness == "required"
    assert shown["anchor"]["keyset"]["digest"] == keyset.digest
    assert shown["anchor"]["keyset"]["issuer"] == "tides.example"
    assert shown["lock"]["keyset"] == {"epoch": 1, "version": 1, "digest": keyset.digest}
    assert (shown["lock"]["release"]["seq"], shown["state"]["release"]["seq"]) == (6, 6)
    assert shown["state"]["keyset"]["version"] == 1
    assert shown["state_fault"] is None
    folder = home / ".local/state/cardsign"
    (file,) = folder.glob("tides.*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_of_several_statements_the_newest_is_pinned(cardsign: Cardsign, peer: Path) -> None:
    """In whatever order they are named."""
    cardsign("trust", "init")
    named = [word for n in (3, 1, 2) for word in ("--keyset", peer / f"k{n}.json")]
    ended = cardsign("trust", "add", "tides", "--yes", *ORIGIN, *named, "--json")
    assert ended.json["keyset"]["version"] == 3


def test_the_root_set_is_pinned(cardsign: Cardsign, peer: Path) -> None:
    """With its holders, its threshold and the issuer."""
    cardsign("trust", "init")
    cardsign("trust", "add", "tides", "--yes", *ORIGIN, "--keyset", peer / "k1.json", "--roots")
    (one,) = cardsign("trust", "list", "--json").json
    roots = one["anchor"]["roots"]

    assert (roots["issuer"], roots["threshold"]) == ("tides.example", 2)
    assert {key["thumbprint"]: key["holder"] for key in roots["keys"]} == {
        thumbprint(name): name for name in ("ann", "bob", "cat")
    }


def test_comments_stay(cardsign: Cardsign, peer: Path) -> None:
    """What a person wrote around the entries is there after adding, pinning and removing."""
    TRUST.write_text('# mine\nformat = 1  # of 2026\n\n[limits]\nskew = "2m"  # our NTP is good\n')
    cardsign("trust", "add", "tides", "--yes", *ORIGIN, "--keyset", peer / "k1.json")
    TRUST.write_text(TRUST.read_text() + "# about lamps\n")
    cardsign("trust", "add", "lamps", "--origin", "https://lamps.example", *BY_URL)
    cardsign("trust", "pin", "tides", "--keyset", peer / "k2.json")
    comments = ["# mine", "# of 2026", "# our NTP is good", "# about lamps"]
    assert [one for one in comments if one not in TRUST.read_text()] == []
    assert "version = 2" in TRUST.read_text()

    cardsign("trust", "remove", "tides")
    assert [one for one in comments if one not in TRUST.read_text()] == []
    assert [one.name for one in read_policy(TRUST)[0].issuers] == ["lamps"]
    cardsign("trust", "remove", "lamps")
    assert read_policy(TRUST)[0].issuers == ()
    assert "[[issuer]]" not in TRUST.read_text()


def refused(peer: Path) -> dict[str, tuple[tuple[object, ...], str]]:
    """What `add NAME` is given besides, and the code."""
    k1 = ("--keyset", peer / "k1.json")
    return {
        "a holder without keys": (("new", *ORIGIN, *k1, "--holder", "a=b"), "usage.conflict"),
        "one holder required twice": (
            ("new", *ORIGIN, *k1, "--require", "ann", "--require", "ann"),
            "policy.malformed",
        ),
        "one key of two holders": (
            ("new", *ORIGIN, "--jwks", peer / "alias.json", "--holder", "alias=ann"),
            "policy.malformed",
        ),
        "a statement that its root has not signed": (
            ("new", *ORIGIN, "--keyset", peer / "unsigned.json"),
            "statement.unsigned",
        ),
        "a history with a gap": (
            ("new", *ORIGIN, *k1, "--keyset", peer / "k3.json"),
            "statement.gap",
        ),
        "a release under another keyset": (
            ("new", *ORIGIN, *k1, "--release", peer / "r2.json"),
            "statement.keyset",
        ),
        "a release for a keyset": (
            ("new", *ORIGIN, "--keyset", peer / "r1.json"),
            "statement.typ",
        ),
    }


@pytest.mark.parametrize("case", list(refused(Path())))
def test_what_add_refuses(cardsign: Cardsign, peer: Path, home: Path, case: str) -> None:
    """A local fault under the right code, and nothing is written anywhere."""
    cardsign("trust", "init")
    before = files(home)
    words, code = refused(peer)[case]
    ended = cardsign("trust", "add", *words)

    assert (ended.status, ended.out) == (2, b"")
    assert ended.err.startswith(f"cardsign: {code}: ")
    assert files(home) == before


def test_several_people_enrol_at_once(cardsign: Cardsign, tmp_path: Path) -> None:
    """Nobody's entry is lost, neither in the policy nor in the lock."""
    cardsign("trust", "init")
    names = [f"peer{number}" for number in range(4)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    adding = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "cardsign", "trust", "add", name, *BY_URL),
                *("--origin", f"https://{name}.example"),
            ],
            env=environment,
        )
        for name in names
    ]
    assert [one.wait() for one in adding] == [0, 0, 0, 0]
    assert sorted(one.name for one in read_policy(TRUST)[0].issuers) == names
    assert sorted(json.loads(LOCK.read_bytes())["issuers"]) == names


# ------------------------------------------------------- show, remove, pin, known


def test_showing(cardsign: Cardsign, enrolled: Ended, home: Path) -> None:
    """Policy, lock and memory; what is wrong with the memory is part of the answer."""
    shown = cardsign("trust", "show", "tides")
    assert shown.status == 0
    assert "anchor      keyset = { epoch = 1, version = 1" in shown.text
    assert "  release     6, until" in shown.text
    cardsign("trust", "add", "met", "--origin", "https://met.example", *BY_URL)
    assert "lock        nothing seen yet" in cardsign("trust", "show", "met").text
    cardsign("trust", "known", "forget", "tides", "--yes")
    LOCK.unlink()
    assert "state       state.missing" in cardsign("trust", "show", "tides").text
    assert cardsign("trust", "show", "tides", "--json").json["state_fault"] == "state.missing"


def test_pinning_what_leads_on(cardsign: Cardsign, enrolled: Ended, peer: Path) -> None:
    """Policy, lock and memory move together, and the memory still counts under the new pin."""
    moved = cardsign(
        *("trust", "pin", "tides", "--keyset", peer / "k3.json", "--keyset", peer / "k2.json"),
        "--json",
    )
    assert (moved.status, moved.json["changed"]) == (0, True)
    assert moved.json["keyset"]["version"] == 3
    shown = cardsign("trust", "show", "tides", "--json").json
    assert [shown["anchor"]["keyset"]["version"], shown["lock"]["keyset"]["version"]] == [3, 3]
    assert (shown["state"]["keyset"]["version"], shown["state_fault"]) == (3, None)
    assert cardsign("trust", "pin", "tides", "--json").json["changed"] is False


def test_pinning_what_does_not_lead_on(
    cardsign: Cardsign, enrolled: Ended, peer: Path, home: Path
) -> None:
    """A gap is not jumped: the pin stays, and what is missing is said."""
    before = files(home)
    ended = cardsign("trust", "pin", "tides", "--keyset", peer / "k3.json")
    assert (ended.status, "statement.gap" in ended.err) == (0, True)
    assert "version = 1" in TRUST.read_text()
    assert files(home) == before


def test_pinning_below_the_lock(cardsign: Cardsign, enrolled: Ended, peer: Path) -> None:
    """Others have seen a newer one: an older one is no pin."""
    cardsign("trust", "pin", "tides", "--keyset", peer / "k2.json")
    TRUST.write_text(TRUST.read_text().replace("version = 2", "version = 1"))
    k1, k2 = (read_keyset((peer / f"k{n}.json").read_bytes()).digest for n in (1, 2))
    TRUST.write_text(TRUST.read_text().replace(k2, k1))
    cardsign("trust", "known", "forget", "tides", "--yes")
    ended = cardsign("trust", "pin", "tides", "--keyset", peer / "k1.json")
    assert (ended.status, "statement.rollback" in ended.err) == (2, True)


def test_statements_of_long_ago(cardsign: Cardsign, peer: Path) -> None:
    """One that has expired, or that many retired keys may have signed, is said to be so."""
    cardsign("trust", "init")
    gone = cardsign("trust", "add", "gone", "--yes", *ORIGIN, "--keyset", peer / "expired.json")
    assert (gone.status, "has expired" in gone.err) == (0, True)
    old = cardsign(
        *("trust", "add", "old", "--yes", "--origin", "https://old.example"),
        *("--keyset", peer / "old.json"),
    )
    assert (old.status, "has expired" in old.err) == (0, False)
    assert "more than 365 days old" in old.err
    for name, is_old in (("old", True), ("gone", False)):
        for command in ("pin", "show"):
            ended = cardsign("trust", command, name)
            assert ("more than 365 days old" in ended.err) is is_old


@pytest.mark.parametrize("known", [1, 3], ids=["behind the pin", "past the pin"])
def test_a_pin_that_a_colleague_has_moved(
    cardsign: Cardsign, enrolled: Ended, peer: Path, known: int
) -> None:
    """Every other machine takes it over; from behind, the walk has to come through it."""

    def verified(*names: str) -> Ended:
        given = [word for name in names for word in ("--statements", peer / f"{name}.json")]
        card = (peer / "card.json", "--issuer", "tides", "--json")
        return cardsign("verify", *card, *given)

    lock = LOCK.read_bytes()
    if known == 3:
        assert verified("k2", "k3", "r3").json["statements"]["keyset"]["number"] == "1.3"
        LOCK.write_bytes(lock)  # it was not committed
    colleague = {"XDG_STATE_HOME": str(Path("colleague").absolute())}
    assert cardsign("trust", "init", **colleague).status == 0
    asked = ("trust", "pin", "tides", "--keyset", peer / "k1.json", "--keyset", peer / "k2.json")
    assert cardsign(*asked, **colleague).status == 0
    assert "version = 2" in TRUST.read_text()
    if known == 1:
        short = verified()
        assert (short.status, short.json["verdict"]) == (3, "indeterminate")
        assert "statement.rollback" in short.text
        assert verified("k3", "r3").status == 3
        assert verified("k2", "r2").json["verdict"] == "trusted"
    else:
        assert verified().json["verdict"] == "trusted"
    assert cardsign("trust", "known", "show", "tides", "--json").json["keyset"]["version"] >= 2


def test_a_root_set_moves_on(cardsign: Cardsign, peer: Path) -> None:
    """Pinned roots that are still the same stay; what is held moves."""
    cardsign("trust", "init")
    cardsign("trust", "add", "tides", "--yes", *ORIGIN, "--keyset", peer / "k1.json", "--roots")
    ended = cardsign("trust", "pin", "tides", "--keyset", peer / "k2.json", "--json")
    assert (ended.json["changed"], ended.json["keyset"]["version"]) == (False, 2)
    assert cardsign("trust", "show", "tides", "--json").json["lock"]["keyset"]["version"] == 2


def test_statements_that_come_along(
    cardsign: Cardsign, enrolled: Ended, peer: Path, tmp_path: Path
) -> None:
    """Files and folders are read; without them a machine without memory has no key."""
    folder = tmp_path / "wellknown/keyset"
    folder.mkdir(parents=True)
    for name in ("k1.json", "r1.json", "card.json"):
        (folder / name).write_bytes((peer / name).read_bytes())
    asked = ("verify", peer / "card.json", "--issuer", "tides", "--no-state")
    assert cardsign(*asked).status == 3
    ended = cardsign(*asked, "--statements", tmp_path / "wellknown")
    assert (ended.status, "of 3 files 1 are no statements" in ended.err) == (0, True)
    named = ("--statements", peer / "k1.json", "--statements", peer / "r1.json")
    assert cardsign(*asked, *named).status == 0


@pytest.mark.parametrize("name", ["card.json", "jwks.json", "empty"])
def test_what_is_no_statement(
    cardsign: Cardsign, enrolled: Ended, peer: Path, tmp_path: Path, name: str
) -> None:
    """Named as such on the command line: a local fault that names it."""
    (tmp_path / "empty").mkdir()
    path = tmp_path / "empty" if name == "empty" else peer / name
    words = ("--issuer", "tides", "--statements", path)
    ended = cardsign("verify", peer / "card.json", *words)
    assert ended.status == 2
    assert name in ended.err


def test_a_runner_without_memory(cardsign: Cardsign, enrolled: Ended, peer: Path) -> None:
    """The lock is its memory: without an entry there, rollback cannot be seen."""
    statements = ("--statements", peer / "k1.json", "--statements", peer / "r1.json")
    words = ("verify", peer / "card.json", "--issuer", "tides", "--no-state", *statements)
    assert cardsign(*words).status == 0
    cardsign("trust", "pin", "tides", "--keyset", peer / "k2.json")
    older = cardsign(*words, "--json")
    assert older.status == 3
    LOCK.unlink()
    TRUST.write_text(
        TRUST.read_text()
        .replace("version = 2", "version = 1")
        .replace(*(read_keyset((peer / f"k{n}.json").read_bytes()).digest for n in (2, 1)))
    )
    forgetful = cardsign(*words, "--json")
    assert forgetful.status == 3
    assert "state.none" in [reason["code"] for reason in forgetful.json["reasons"]]


def test_a_lost_memory_is_a_fault(cardsign: Cardsign, enrolled: Ended, peer: Path) -> None:
    """Not first contact; with a lock it would begin anew."""
    cardsign("trust", "known", "forget", "tides", "--yes")
    words = ("verify", peer / "card.json", "--issuer", "tides")
    LOCK.unlink()
    ended = cardsign(*words)
    assert ended.status == 2
    assert "state.missing" in ended.err
