"""``cardsign verify`` of many cards: a folder, several processes, one line each, a summary."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign, Store


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


def test_a_link_of_a_stranger_s_folder_shows_nothing_of_its_target(
    cardsign: Cardsign, folder: Path
) -> None:
    """Nor is a pipe waited for. Each is a fault of that name, told once; the others are judged."""
    Path("private.txt").write_text("hunter2 is my password")
    Path("elsewhere").mkdir()
    Path("elsewhere/more.json").write_text("hunter2")
    (folder / "outside.json").symlink_to(Path("private.txt").absolute())
    (folder / "dangling.json").symlink_to("nothing")
    (folder / "loop.json").symlink_to("loop.json")
    os.mkfifo(folder / "pipe.json")
    (folder / "inside.json").symlink_to("good0.json")
    (folder / "CAPITAL.JSON").write_bytes((folder / "good0.json").read_bytes())
    (folder / "linked").symlink_to(Path("elsewhere").absolute())
    (folder / "linked.json").symlink_to(Path("elsewhere").absolute())

    ended = cardsign("verify", folder, "--jwks", "jwks.json", "-j", "3")

    assert "hunter2" not in ended.text + ended.err
    assert "more.json" not in ended.text
    assert ended.status == 2
    for name, code in (
        ("outside", "file.not_plain"),
        ("dangling", "file.not_found"),
        ("loop", "file.unreadable"),
        ("pipe", "file.not_plain"),
    ):
        (told,) = [line for line in ended.err.splitlines() if f"{name}.json" in line]
        assert code in told
    assert "cardsign: 2 linked folders not looked into" in ended.err
    assert "trusted: cards/inside.json" in ended.text
    assert "trusted: cards/CAPITAL.JSON" in ended.text
    assert "17 cards: 11 trusted, 2 not trusted, 4 not verified" in ended.err


# Results that are kept.


def test_results_are_appended_and_decide_nothing(cardsign: Cardsign, signed: Path) -> None:
    """A file of a stranger's folder may say anything, also of a card that was changed."""
    good = signed.read_bytes()
    run = ("verify", signed, "--jwks", "jwks.json", "--results", "out.jsonl")
    first = cardsign(*run)
    signed.write_text(json.dumps({**json.loads(good), "description": "Something else."}))
    evil = signed.read_bytes()
    (line,) = Path("out.jsonl").read_text().splitlines()
    planted = {
        **json.loads(line),
        "sha256": hashlib.sha256(evil).hexdigest(),
        "judged_at": "2999-01-01T00:00:00+00:00",
        "valid_until": None,
    }
    Path("out.jsonl").write_text(json.dumps(planted) + "\nno line of ours\n")
    before = Path("out.jsonl").read_bytes()
    edited = cardsign(*run)
    after = Path("out.jsonl").read_bytes()

    assert (first.status, first.text, planted["verdict"]) == (0, "", "trusted")
    assert (edited.status, edited.err) == (1, "cardsign: 1 card: 1 not trusted\n")
    assert after.startswith(before)
    appended = json.loads(after.removeprefix(before))
    assert (appended["input"], appended["verdict"]) == (str(signed), "invalid")
    assert appended["sha256"] == planted["sha256"]


# Objects of stores.


@pytest.mark.needs_dask
def test_objects_are_found_and_read(cardsign: Cardsign, folder: Path, s3: Store) -> None:
    """A folder of a store, and a pattern."""
    for file in folder.rglob("*"):
        if file.is_file():
            s3.put(f"found/{file.relative_to(folder).as_posix()}", file.read_bytes())
    whole = cardsign("verify", "s3://cards/found/", "--jwks", "jwks.json")
    some = cardsign("verify", "s3://cards/found/good*.json", "--jwks", "jwks.json")

    assert (whole.status, whole.err) == (1, "cardsign: 11 cards: 9 trusted, 2 not trusted\n")
    assert (some.status, some.err) == (0, "cardsign: 9 cards: 9 trusted\n")


@pytest.mark.needs_dask
def test_a_bad_object_hides_no_other(cardsign: Cardsign, signed: Path, s3: Store) -> None:
    """One that is missing, hostile or huge has its own verdict."""
    names = [
        s3.put("mixed/a.json", signed.read_bytes()),
        "s3://cards/mixed/absent.json",
        s3.put("mixed/deep.json", b"[" * 100_000),
        s3.put("mixed/huge.json", b" " * 6_000_000),
        s3.put("mixed/z.json", signed.read_bytes()),
    ]
    ended = cardsign("verify", *names, "--jwks", "jwks.json", "--json")

    found = [json.loads(line) for line in ended.text.splitlines()]
    assert [one["input"] for one in found] == names
    codes = [one.get("verdict") or one["error"]["code"] for one in found]
    assert codes == ["trusted", "file.not_found", "invalid", "invalid", "trusted"]


def test_a_file_is_named_by_its_path(cardsign: Cardsign, signed: Path) -> None:
    """By a URL no rule for files would hold: links out of a folder, pipes, devices."""
    ended = cardsign("verify", signed.resolve().as_uri(), "--jwks", "jwks.json")

    assert ended.status == 2
    assert f"Give {signed.resolve()}" in ended.err


@pytest.mark.needs_dask
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("s3://nobody/x.json", "file.not_found"),
        ("s3://cards/none*.json", "usage.invalid"),
        ("gs://bucket/a.json", "usage.not_installed"),
        ("memory://bucket/a.json", "file.not_found"),
        ("s3::file://bucket/a.json", "file.not_found"),
        ("s3://a::file:///etc/passwd", "usage.invalid"),
    ],
)
@pytest.mark.usefixtures("s3")
def test_a_store_that_cannot_be_asked_is_a_fault(
    cardsign: Cardsign, signed: Path, name: str, code: str
) -> None:
    """One line with what to do, and never a traceback."""
    ended = cardsign("verify", name, "--jwks", "jwks.json")
    assert (ended.status, code in ended.err) == (2, True), ended.err
