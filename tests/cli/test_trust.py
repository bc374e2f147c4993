"""`cardsign trust`: files that stay valid, a lock that is not lost, and the line that decides."""

from __future__ import annotations

import hashlib
import json
import os
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
from cardsign.trust.policytext import EMPTY_POLICY
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
    ended = cardsign(
        *("trust", "add", "tides", "--yes", *ORIGIN, "--keyset", peer / "k1.json"),
        *("--release", peer / "r1.json"),
    )
    assert ended.status == 0
    return ended


def files(home: Path) -> dict[str, bytes]:
    """Policy, lock and cache as they are now."""
    paths: Iterator[Path] = (path for path in (TRUST, LOCK, *home.rglob("*.json")))
    return {str(path): path.read_bytes() for path in paths if path.exists()}


# ---------------------------------------------------------------------- list


def test_the_commented_example_is_right(cardsign: Cardsign) -> None:
    """Who removes the marks of comment from what a new policy begins with has a policy."""
    lines = EMPTY_POLICY.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("# [limits]"))
    text = "\n".join(lines[:first] + [line.removeprefix("# ") for line in lines[first:]])
    TRUST.write_text(text.replace('digest = "..."', f'digest = "{"0" * 64}"'))
    assert [one["name"] for one in cardsign("trust", "list", "--json").json] == ["acme-geo"]


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
        assert "trusts no issuer" in cardsign("trust", "list", **variables).err
        (folder / "trust.toml").unlink()
        assert "no policy" in cardsign("trust", "list", **variables).err


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
    """The pin in the policy, and floors in the lock."""
    one = read_policy(TRUST).issuers[0]
    keyset = read_keyset((peer / "k1.json").read_bytes())
    shown = cardsign("trust", "show", "tides", "--json").json

    assert one.freshness == "required"
    assert shown["anchor"]["keyset"]["digest"] == keyset.digest
    assert shown["anchor"]["keyset"]["issuer"] == "tides.example"
    assert shown["lock"]["keyset"] == {"epoch": 1, "version": 1, "digest": keyset.digest}
    assert shown["lock"]["release"]["seq"] == 6


def test_of_several_statements_the_newest_is_pinned(cardsign: Cardsign, peer: Path) -> None:
    """In whatever order they are named."""
    named = [word for n in (3, 1, 2) for word in ("--keyset", peer / f"k{n}.json")]
    ended = cardsign("trust", "add", "tides", "--yes", *ORIGIN, *named, "--json")
    assert ended.json["keyset"]["version"] == 3


def test_the_root_set_is_pinned(cardsign: Cardsign, peer: Path) -> None:
    """With its holders, its threshold and the issuer."""
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
    update(cardsign, peer, "k2")
    cardsign("trust", "pin", "tides")
    comments = ["# mine", "# of 2026", "# our NTP is good", "# about lamps"]
    assert [one for one in comments if one not in TRUST.read_text()] == []
    assert "version = 2" in TRUST.read_text()

    cardsign("trust", "remove", "tides")
    assert [one for one in comments if one not in TRUST.read_text()] == []
    assert [one.name for one in read_policy(TRUST).issuers] == ["lamps"]
    cardsign("trust", "remove", "lamps")
    assert read_policy(TRUST).issuers == ()
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
    before = files(home)
    words, code = refused(peer)[case]
    ended = cardsign("trust", "add", *words)

    assert (ended.status, ended.out) == (2, b"")
    assert ended.err.startswith(f"cardsign: {code}: ")
    assert files(home) == before


def test_what_is_there_already(cardsign: Cardsign, enrolled: Ended, home: Path, peer: Path) -> None:
    """A name or an origin is given once; the lock of another anchor is not taken over."""
    before = files(home)
    again = cardsign("trust", "add", "tides", "--origin", "https://b.example", *BY_URL)
    assert "already" in again.err
    origin = cardsign("trust", "add", "other", *ORIGIN, *BY_URL)
    assert "usage.conflict" in origin.err
    assert "already trusted as 'tides'" in origin.err
    assert "cardsign trust remove tides" in origin.err
    assert "policy.malformed" not in origin.err
    assert files(home) == before
    cardsign("trust", "remove", "tides")
    anchor = cardsign("trust", "add", "tides", *ORIGIN, *BY_URL)
    assert (anchor.status, "lock.other_anchor" in anchor.err) == (2, True)
    assert cardsign("trust", "forget", "tides", "--yes").status == 0
    assert cardsign("trust", "add", "tides", *ORIGIN, *BY_URL).status == 0


def test_an_issuer_that_comes_back_is_no_older(
    cardsign: Cardsign, enrolled: Ended, peer: Path
) -> None:
    """What the lock has of it goes on to hold."""
    update(cardsign, peer, "k2")
    cardsign("trust", "remove", "tides")
    add = ("trust", "add", "tides", "--yes", *ORIGIN, "--keyset")
    older = cardsign(*add, peer / "k1.json")
    assert (older.status, "statement.rollback" in older.err) == (2, True)
    assert "cardsign trust forget tides" in older.err
    assert cardsign(*add, peer / "k2.json").status == 0


def update(cardsign: Cardsign, peer: Path, *names: str) -> Ended:
    """What `trust update` says to these statements."""
    given = [word for name in names for word in ("--statements", peer / f"{name}.json")]
    return cardsign("trust", "update", "--trust", "trust.toml", *given)


def test_several_people_enrol_at_once(cardsign: Cardsign, tmp_path: Path) -> None:
    """Nobody's entry is lost."""
    TRUST.write_text("format = 1\n")
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
    assert sorted(one.name for one in read_policy(TRUST).issuers) == names


# ------------------------------------------------------- show, remove, pin, forget


def test_showing(cardsign: Cardsign, enrolled: Ended, peer: Path) -> None:
    """Policy, lock, and the statements that are known here."""
    shown = cardsign("trust", "show", "tides")
    assert shown.status == 0
    assert "anchor      keyset = { epoch = 1, version = 1" in shown.text
    assert "  release     6, until" in shown.text
    empty = {"XDG_CACHE_HOME": str(Path("empty").absolute())}
    assert (
        "none here yet: cardsign trust update" in cardsign("trust", "show", "tides", **empty).text
    )
    cardsign("trust", "add", "met", "--origin", "https://met.example", *BY_URL)
    assert "lock        no entry" in cardsign("trust", "show", "met").text


@pytest.mark.parametrize("command", [("show",), ("remove",), ("pin",)])
def test_an_unknown_issuer(
    cardsign: Cardsign, enrolled: Ended, home: Path, command: tuple[str, ...]
) -> None:
    """Nobody of that name: a local fault, and nothing is changed."""
    before = files(home)
    ended = cardsign("trust", *command, "nobody")
    assert (ended.status, "policy.unknown_issuer" in ended.err) == (2, True)
    assert files(home) == before


def test_removing_keeps_the_entry_in_the_lock(cardsign: Cardsign, enrolled: Ended) -> None:
    """Until it is forgotten, which is asked about first; an entry without a policy is listed."""
    removed = cardsign("trust", "remove", "tides", "--json")
    assert removed.json == {"removed": "tides", "locked": True}
    assert list(json.loads(LOCK.read_bytes())["issuers"]) == ["tides"]
    assert "cardsign trust forget tides" in cardsign("trust", "list").err
    unsure = cardsign("trust", "forget", "tides")
    assert (unsure.status, "usage.unanswered" in unsure.err) == (2, True)
    assert cardsign("trust", "forget", "tides", "--yes").status == 0
    assert json.loads(LOCK.read_bytes())["issuers"] == {}
    again = cardsign("trust", "forget", "tides", "--yes")
    assert (again.status, "policy.unknown_issuer" in again.err) == (2, True)


def test_an_entry_that_is_needed_is_not_forgotten(cardsign: Cardsign, enrolled: Ended) -> None:
    """Or the next verdict would be a local fault."""
    before = LOCK.read_bytes()
    ended = cardsign("trust", "forget", "tides", "--yes")
    assert (ended.status, "cardsign trust remove tides" in ended.err) == (2, True)
    assert LOCK.read_bytes() == before


def test_pinning_what_the_lock_records(cardsign: Cardsign, enrolled: Ended, peer: Path) -> None:
    """The policy follows the lock, and only it."""
    assert cardsign("trust", "pin", "tides", "--json").json["changed"] is False
    assert update(cardsign, peer, "k3", "k2").status == 0
    moved = cardsign("trust", "pin", "tides", "--json")
    assert (moved.status, moved.json["changed"]) == (0, True)
    assert moved.json["keyset"]["version"] == 3
    shown = cardsign("trust", "show", "tides", "--json").json
    assert [shown["anchor"]["keyset"]["version"], shown["lock"]["keyset"]["version"]] == [3, 3]


def test_a_gap_is_not_jumped(cardsign: Cardsign, enrolled: Ended, peer: Path) -> None:
    """The lock stays."""
    before = LOCK.read_bytes()
    update(cardsign, peer, "k3")
    assert LOCK.read_bytes() == before


def test_a_root_set_has_no_pin_to_move(cardsign: Cardsign, peer: Path) -> None:
    """Its lock rises all the same; pinned keys and a URL have neither."""
    cardsign("trust", "add", "tides", "--yes", *ORIGIN, "--keyset", peer / "k1.json", "--roots")
    assert update(cardsign, peer, "k1", "k2").status == 0
    shown = cardsign("trust", "show", "tides", "--json").json
    assert shown["lock"]["keyset"]["version"] == 2
    cardsign("trust", "add", "met", "--origin", "https://b.example", *BY_URL)
    for name in ("tides", "met"):
        assert "usage.conflict" in cardsign("trust", "pin", name).err


def test_statements_of_long_ago(cardsign: Cardsign, peer: Path) -> None:
    """One that has expired, or that many retired keys may have signed, is said to be so."""
    gone = cardsign("trust", "add", "gone", "--yes", *ORIGIN, "--keyset", peer / "expired.json")
    assert (gone.status, "has expired" in gone.err) == (0, True)
    old = cardsign(
        *("trust", "add", "old", "--yes", "--origin", "https://old.example"),
        *("--keyset", peer / "old.json"),
    )
    assert (old.status, "has expired" in old.err) == (0, False)
    assert "more than 365 days old" in old.err
    for name, is_old in (("old", True), ("gone", False)):
        update(cardsign, peer, name)
        ended = cardsign("trust", "show", name)
        assert ("more than 365 days old" in ended.err) is is_old


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


def test_a_runner_with_an_empty_cache(cardsign: Cardsign, enrolled: Ended, peer: Path) -> None:
    """The lock is its memory."""
    statements = ("--statements", peer / "k1.json", "--statements", peer / "r1.json")
    words = ("verify", peer / "card.json", "--issuer", "tides", *statements, "--json")
    empty = {"XDG_CACHE_HOME": str(Path("runner").absolute())}
    assert cardsign(*words, **empty).status == 0
    update(cardsign, peer, "k1", "k2")
    older = cardsign(*words, XDG_CACHE_HOME=str(Path("another").absolute()))
    assert older.status == 3
    assert "statement.rollback" in [reason["code"] for reason in older.json["reasons"]]


def test_all_that_is_wrong_with_a_policy_is_shown_at_once(cardsign: Cardsign) -> None:
    """Each with its line and what to do; with --json on stdout too."""
    Path("trust.toml").write_text('format = 1\n[limits]\nskew = "x"\nsignaturs = 4\n[[issuer]]\n')
    ended = cardsign("trust", "list", "--json")

    assert ended.status == 2
    assert [f"(trust.toml, line {line})" in ended.err for line in (3, 4, 5)] == [True] * 3
    assert "did you mean 'signatures'?" in ended.err
    found = [ended.json["error"], *ended.json["more"]]
    assert [one["code"] for one in found] == ["policy.malformed"] * 5
