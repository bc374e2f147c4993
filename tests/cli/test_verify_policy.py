"""`cardsign verify` with a policy: subjects, statements, memory, time, and what `--jwks` means."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.cli.verify import read_time
from tests.cli import peer
from tests.cli.conftest import Cardsign, Ended
from tests.statements.making import DAY, key
from tests.support import PORTABLE, WITH_DEFAULTS, by_another_sdk, dump, signed


@pytest.fixture
def enrolled(cardsign: Cardsign) -> tuple[bytes, bytes]:
    """A peer in ./trust.toml, with his cards and statements; the statements are returned."""
    return peer.enrol(cardsign)


def verify(cardsign: Cardsign, *arguments: str) -> Ended:
    """One card, by default with the peer as subject and his statements, as JSON."""
    return cardsign("verify", *arguments, "--json")


WHOLE = ("signed.json", "--issuer", "tides", "--statements", "statements")


# ------------------------------------------------------------------ subject and statements


def test_statements_make_all_four_answers_yes(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes]
) -> None:
    """The verdict names the policy's issuer, the statements it rests on, and when it ends."""
    said = verify(cardsign, *WHOLE)
    assert said.status == 0
    assert set(said.json["answers"].values()) == {"yes"}
    assert said.json["issuer"] == "tides"
    assert said.json["statements"]["keyset"]["number"] == "1.1"
    assert said.json["statements"]["release"]["number"] == "42"
    ends = datetime.fromtimestamp(peer.T0 + 7 * DAY, UTC)
    assert said.json["valid_until"] == ends.isoformat()
    first = "trusted: signed.json, a card of tides (by ./trust.toml, found in this folder)"
    until = f"until {ends:%Y-%m-%d %H:%M:%S} UTC (in 6 days)"
    assert cardsign("verify", *WHOLE).text.splitlines() == [
        first,
        f'  "Tide tables", version 1.2.0; {until}',
    ]
    shown = cardsign("verify", *WHOLE, "--verbose").text.splitlines()
    assert shown[:3] == [first, "  issuer      tides", '  card says   "Tide tables", version 1.2.0']
    assert f"  valid {until}" in shown
    assert any(line.startswith("  statements  keyset 1.1 until ") for line in shown)


def test_a_folder_may_hold_more_than_statements(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes]
) -> None:
    """What else lies there is left out; a file that is named must be a statement."""
    said = verify(cardsign, *WHOLE)
    shutil.copy("signed.json", "statements/card.json")
    Path("statements/notes.json").write_text("none of JSON")
    mixed = verify(cardsign, *WHOLE)
    assert (mixed.status, mixed.json["statements"]) == (0, said.json["statements"])
    named = verify(cardsign, *WHOLE[:3], "--statements", "statements/card.json")
    assert (named.status, "statement.shape" in named.err) == (2, True)


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_a_file_name_that_is_no_text(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes], form: str
) -> None:
    """Its octets are escaped, so that a strict parser reads what is printed."""
    name = os.fsdecode(b"h\xff.json")
    shutil.copy("signed.json", name)
    ended = cardsign("verify", name, *WHOLE[1:], "--format", form)
    assert ended.status == 0
    assert b"\\ud" not in ended.out
    assert {"sarif": b"h%FF.json", "json": rb"h\\u{dcff}.json"}.get(
        form, rb"h\u{dcff}.json"
    ) in ended.out
    if form == "json":
        assert ended.json["input"] == r"h\u{dcff}.json"


# ------------------------------------------------------------------ time


TIMES = {
    "a date is its first second in UTC": ("2026-01-31", "2026-01-31T00:00:00+00:00"),
    "a time of UTC": ("2026-01-31T18:00:00Z", "2026-01-31T18:00:00+00:00"),
    "a time elsewhere": ("2026-01-31T18:00:00+02:00", "2026-01-31T16:00:00+00:00"),
}


@pytest.mark.parametrize(("text", "moment"), TIMES.values(), ids=TIMES)
def test_another_time_is_read(text: str, moment: str) -> None:
    """ISO 8601, in UTC; transcripts have what is refused."""
    assert read_time(text).isoformat() == moment


def test_another_time_is_never_trusted_nor_kept(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes]
) -> None:
    """Four times yes, and yet no verdict; the text says that the time was chosen."""
    then = datetime.fromtimestamp(peer.T0 + 60, UTC).isoformat()
    said = verify(cardsign, *WHOLE, "--at", then)
    assert (said.status, said.json["verdict"]) == (3, "indeterminate")
    assert set(said.json["answers"].values()) == {"yes"}
    assert "time.historic" in peer.codes(said)
    assert "  historic    about " in cardsign("verify", *WHOLE, "--at", then, "-v").text
    assert verify(cardsign, "signed.json", "--issuer", "tides").status == 3


# ------------------------------------------------------------------ faults of this machine


def _break_the_policy() -> None:
    Path("trust.toml").write_text("format = 1\nisuer = []\n")


def _break_the_lock() -> None:
    Path("trust.lock").write_text("{}")


FAULTS = {
    "a lock that is lost": (lambda: Path("trust.lock").unlink(), (), "lock.missing"),
    "a policy that cannot be understood": (_break_the_policy, (), "policy.malformed"),
    "a lock that cannot be understood": (_break_the_lock, (), "lock.malformed"),
    "a policy that is not there": (lambda: None, ("--trust", "absent.toml"), "file.not_found"),
    "an issuer whom nobody enrols": (lambda: None, ("--issuer", "moon"), "policy.unknown_issuer"),
    "a folder without a statement": (
        lambda: shutil.copytree(".", "cards", ignore=shutil.ignore_patterns("statements", "home")),
        ("--statements", "cards"),
        "usage.conflict",
    ),
}


@pytest.mark.parametrize(("break_it", "options", "code"), FAULTS.values(), ids=FAULTS)
def test_a_local_fault_is_said_once_and_is_no_verdict(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes], break_it, options, code: str
) -> None:
    """However many cards there are, and in no format."""
    break_it()
    subject = () if "--issuer" in options else ("--issuer", "tides")
    for form, count in (("text", 0), ("json", 1), ("sarif", 2)):  # id, and descriptor
        asked = (*subject, *options, "--format", form)
        one = cardsign("verify", "signed.json", *asked, "-o", "out.json")
        many = cardsign("verify", "signed.json", "signed.json", "unsigned.json", *asked)
        assert (one.status, many.status) == (2, 2)
        assert one.text.count(code) == count
        assert '"results": []' in one.text or form != "sarif"
        assert (one.err.count(code), many.err.count(code)) == (1, 1)
        assert '"trusted"' not in many.text
        assert "trusted: " not in many.text
        assert not Path("out.json").exists()


# ------------------------------------------------------------------ options


CONFLICTS = {
    "two subjects": ["--issuer", "tides", "--origin", "https://tides.example"],
    "pinned keys and statements": ["--jwks", "jwks.json", "--statements", "statements"],
    "two formats": ["--json", "--format", "sarif"],
    "an extended card for nobody": ["--extended", "signed.json"],
    "an audience without its card": ["--audience", "x"],
    "an extended card of nobody": ["--extended", "signed.json", "--audience", "x"],
    "two cards and one output": ["unsigned.json", "-o", "out.json"],
    "standard input twice": ["-", "-"],
    "an output in place of the card": ["--issuer", "tides", "-o", "signed.json"],
    "an output in place of the card, spelt otherwise": [
        "--issuer", "tides", "-o", "statements/../signed.json",
    ],
    "two things on stdout": ["--issuer", "tides", "-o", "-", "--json"],
    "a profile that the policy does not accept": [
        "--issuer", "tides", "--profile", "prune-empty",
    ],
}  # fmt: skip


@pytest.mark.parametrize("options", CONFLICTS.values(), ids=CONFLICTS)
def test_options_that_contradict_one_another_are_refused(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes], options: list[str]
) -> None:
    """Before anything is looked at."""
    ended = cardsign("verify", "signed.json", *options)
    assert (ended.status, "usage.conflict" in ended.err, ended.results) == (2, True, b"")
    assert not Path("out.json").exists()


def test_a_profile_narrows_the_policy(cardsign: Cardsign, enrolled: tuple[bytes, bytes]) -> None:
    """A card that is signed for another accepted profile only is refused then."""
    by_rule_1 = by_another_sdk(WITH_DEFAULTS, key("card"), "rule-1-as-written")
    Path("other.json").write_bytes(dump(by_rule_1))
    Path("newer.json").write_bytes(peer.release(enrolled[0], WITH_DEFAULTS, seq=43))
    named = ("other.json", *WHOLE[1:], "--statements", "newer.json")
    assert verify(cardsign, *named).status == 0
    narrowed = verify(cardsign, *named, "--profile", "served-as-is")
    assert (narrowed.status, peer.codes(narrowed)[0]) == (1, "sig.other_profile")


# ------------------------------------------------------------------ the verified payload


def test_the_next_tool_gets_what_was_signed(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes]
) -> None:
    """The octets whose digest the verdict and the release name."""
    said = verify(cardsign, *WHOLE, "-o", "verified.json")
    written = Path("verified.json").read_bytes()
    assert json.loads(written) == said.json["card"] == PORTABLE
    sha256 = hashlib.sha256(written).hexdigest()
    assert sha256 == said.json["signatures"][0]["payload_sha256"] == peer.digest(PORTABLE)
    piped = cardsign("verify", *WHOLE, "-o", "-")
    assert piped.out == written
    assert piped.err.startswith("trusted: signed.json, a card of tides (by ./trust.toml, ")


def test_nothing_is_written_of_a_card_that_is_not_trusted(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes]
) -> None:
    """Neither a file nor standard output; and what cannot be written is no verdict."""
    for card in ("unsigned.json", "absent.json"):
        assert cardsign("verify", card, *WHOLE[1:], "-o", "out.json").status != 0
        assert cardsign("verify", card, *WHOLE[1:], "-o", "-").out == b""
    assert not Path("out.json").exists()
    ended = verify(cardsign, *WHOLE, "-o", "absent/out.json")
    assert (ended.status, "file.unwritable" in ended.err, ended.results) == (2, True, b"")


# ------------------------------------------------------------------ extended cards


@pytest.mark.parametrize(
    ("audience", "status", "code"),
    [(peer.AUDIENCE, 0, None), ("other", 1, "extended.audience_mismatch")],
)
def test_an_extended_card_is_verified_beside_its_public_one(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes], audience: str, status: int, code: str | None
) -> None:
    """Two verdicts, the weightiest status; -o has the extended card, if it is trusted."""
    marked = with_marker(PORTABLE, ExtendedMarker(audience, 42, peer.T0 + 30 * DAY))
    Path("extended.json").write_bytes(dump(signed(marked, key("card"))))
    beside = ("--extended", "extended.json", "--audience", peer.AUDIENCE)
    ended = verify(cardsign, *WHOLE, *beside, "-o", "out.json")
    said = [json.loads(line) for line in ended.text.splitlines()]
    assert [one["input"] for one in said] == ["signed.json", "extended.json"]
    assert (ended.status, said[0]["verdict"]) == (status, "trusted")
    assert [reason["code"] for reason in said[1]["reasons"]][:1] == ([code] if code else [])
    assert Path("out.json").exists() is (status == 0)
    if status == 0:
        assert peer.AUDIENCE in Path("out.json").read_text()
    without = verify(cardsign, "https://me@tides.example/", *WHOLE[1:], *beside)
    assert (without.status, without.json["card"]) == (3, None)  # one verdict, of the public one


# ------------------------------------------------------------------ starting up


#: Libraries and rooms that a verdict by keys can do without.
UNNEEDED = {
    *("flask", "werkzeug", "granian", "httpx", "httpcore", "pydantic"),
    *("tomllib", "multiprocessing", "tempfile"),
    *("cardsign.keys", "cardsign.net", "cardsign.issuer", "cardsign.inspect", "cardsign.lint"),
}


def test_verifying_loads_what_it_needs(enrolled: tuple[bytes, bytes]) -> None:
    """A verdict by keys needs no server, HTTP client, key store, validator or settings file."""
    program = (
        "import sys; from cardsign.cli.main import run_words\n"
        "status = run_words(sys.argv[1:]); print(status, *sys.modules)"
    )
    words = ["verify", "signed.json", "--jwks", "jwks.json"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], check=True, capture_output=True, text=True
    )
    status, *loaded = done.stdout.splitlines()[-1].split()
    assert status == "0"
    assert "cardsign.verify.verdict" in loaded
    assert UNNEEDED.intersection(loaded) == set()


# ------------------------------------------------------------------ the lock


def test_a_verdict_reads_the_lock_and_says_when_it_is_behind(
    cardsign: Cardsign, enrolled: tuple[bytes, bytes]
) -> None:
    """`trust update` records what was verified, and then the note is gone."""
    second = peer.keyset(2, enrolled[0])
    Path("statements/1.2.json").write_bytes(second)
    Path("statements/release.json").write_bytes(peer.release(second, PORTABLE))
    before = Path("trust.lock").read_bytes()
    for _ in range(2):
        said = verify(cardsign, *WHOLE)
        assert (said.status, peer.codes(said)) == (0, ["lock.behind"])
    assert Path("trust.lock").read_bytes() == before
    (hint,) = [reason["hint"] for reason in said.json["reasons"]]
    assert hint == "Bring the lock up to date: cardsign trust update tides --trust trust.toml"

    update = ("trust", "update", "--trust", "trust.toml", "--statements", "statements")
    assert cardsign(*update).status == 0
    assert json.loads(Path("trust.lock").read_bytes())["issuers"]["tides"]["keyset"]["version"] == 2
    assert peer.codes(verify(cardsign, *WHOLE)) == []
