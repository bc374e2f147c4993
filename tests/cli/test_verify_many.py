"""``cardsign verify`` of many cards: a folder, several processes, one line each, a summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign


@pytest.fixture
def folder(cardsign: Cardsign, signed: Path) -> Path:
    """A folder with nine good cards, an unsigned one below, one that is no JSON, and a text."""
    folder = Path("cards")
    (folder / "below").mkdir(parents=True)
    for number in range(9):
        (folder / f"good{number}.json").write_bytes(signed.read_bytes())
    (folder / "below" / "unsigned.json").write_bytes(Path("card.json").read_bytes())
    (folder / "broken.json").write_bytes(b"{")
    (folder / "notes.txt").write_bytes(b"no card")
    return folder


SUMMARY = "cardsign: 11 cards: 9 trusted, 2 not trusted\n"


@pytest.mark.parametrize("jobs", [(), ("-j", "3")], ids=["one process", "three processes"])
def test_a_folder_is_verified_with_its_folders(
    cardsign: Cardsign, folder: Path, jobs: tuple[str, ...]
) -> None:
    """A line for each trusted card, all of each other, and a summary on stderr."""
    ended = cardsign("verify", folder, "--jwks", "jwks.json", *jobs)

    assert (ended.status, ended.err) == (1, SUMMARY)
    trusted = [line for line in ended.text.splitlines() if line.startswith("trusted: ")]
    assert [line.split()[1] for line in trusted] == [f"cards/good{n}.json" for n in range(9)]
    assert "cards/below/unsigned.json" in ended.text
    assert "json.syntax" in ended.text
    assert "notes.txt" not in ended.text


def test_quiet_shows_only_what_is_not_trusted(cardsign: Cardsign, folder: Path) -> None:
    """No summary, and nothing of a trusted card."""
    ended = cardsign("verify", folder, "--jwks", "jwks.json", "--quiet")

    assert (ended.status, ended.err) == (1, "")
    assert "good" not in ended.text
    assert "unsigned.json" in ended.text


def test_json_lines_have_one_object_for_each_card(cardsign: Cardsign, folder: Path) -> None:
    """In the order of the names, whatever process was first."""
    ended = cardsign("verify", folder, "--jwks", "jwks.json", "--json", "-j", "2")

    lines = [json.loads(line) for line in ended.text.splitlines()]
    assert [one["input"] for one in lines] == sorted(one["input"] for one in lines)
    assert {one["verdict"] for one in lines} == {"trusted", "untrusted", "invalid"}
    assert len(lines) == 11


def test_a_card_that_cannot_be_read_hides_no_other(cardsign: Cardsign, signed: Path) -> None:
    """It is counted, named on stderr, and the exit status is that of a fault."""
    ended = cardsign("verify", "signed.json", "absent.json", "signed.json", "--jwks", "jwks.json")

    assert ended.status == 2
    assert ended.text.count("trusted: signed.json") == 2
    assert "file.not_found" in ended.err
    assert "3 cards: 2 trusted, 1 not verified because of a fault here" in ended.err


def test_a_folder_without_cards_is_a_usage_fault(cardsign: Cardsign, signed: Path) -> None:
    """A check of nothing must not succeed."""
    Path("empty").mkdir()
    ended = cardsign("verify", "empty", "--jwks", "jwks.json")
    assert (ended.status, "usage.invalid" in ended.err) == (2, True)


def test_the_subject_of_each_file_is_whom_the_policy_trusts_there(
    cardsign: Cardsign, signed: Path
) -> None:
    """By the origin of its interface; with --issuer, by that name alone."""
    origin = "https://tides.example"
    for name, place in (("tides", origin), ("other", "https://other.example")):
        words = ("trust", "add", name, "--origin", place, "--jwks", "jwks.json")
        assert cardsign(*words).status == 0
    Path("copy.json").write_bytes(signed.read_bytes())

    ended = cardsign("verify", "signed.json", "copy.json")
    named = cardsign("verify", "signed.json", "copy.json", "--issuer", "other")

    assert (ended.status, ended.text.count("(tides)")) == (0, 2)
    assert named.status == 1
