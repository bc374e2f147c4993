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


SUMMARY = "cardsign: 11 cards: 9 trusted, 2 not trusted\n"


@pytest.mark.parametrize("jobs", [(), ("-j", "3")], ids=["one process", "three processes"])
def test_a_folder_is_verified_with_its_folders(
    cardsign: Cardsign, folder: Path, jobs: tuple[str, ...]
) -> None:
    """A line for each trusted card, all of each other, and a summary on stderr."""
    ended = cardsign("verify", folder, "--jwks", "jwks.json", *jobs)

    assert (ended.status, ended.err) == (1, SUMMARY)
    trusted = [line for line in ended.text.splitlines() if line.startswith("trusted: ")]
    names = [line.removeprefix("trusted: ").partition(",")[0] for line in trusted]
    assert names == [f"cards/good{n}.json" for n in range(9)]
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

    assert (ended.status, ended.text.count(", a card of tides")) == (0, 2)
    assert named.status == 1


@pytest.mark.parametrize("jobs", [(), ("-j", "3")], ids=["one process", "three processes"])
def test_a_link_of_a_stranger_s_folder_shows_nothing_of_its_target(
    cardsign: Cardsign, folder: Path, jobs: tuple[str, ...]
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

    ended = cardsign("verify", folder, "--jwks", "jwks.json", *jobs)

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


def test_one_link_that_leads_out_is_a_fault(cardsign: Cardsign, signed: Path) -> None:
    """Alone in its folder, too; a link that the user names is followed."""
    Path("few").mkdir()
    Path("few/one.json").symlink_to(signed.absolute())
    ended = cardsign("verify", "few", "--jwks", "jwks.json")
    assert (ended.status, ended.err.count("file.not_plain")) == (2, 1)
    assert cardsign("verify", "few/one.json", "--jwks", "jwks.json").status == 0


@pytest.mark.parametrize("password", ["PW", "P/W", "P@W"])
@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_a_password_in_a_url_is_not_repeated(
    cardsign: Cardsign, signed: Path, password: str, form: str
) -> None:
    """The URL is refused, and shown without it."""
    url = f"https://user:{password}@host.example/"
    ended = cardsign("verify", url, "--jwks", "jwks.json", "--format", form)
    assert ended.status == 3
    assert password not in ended.text + ended.err
    assert "https://...@host.example/" in ended.text


# Lists, and a run that goes on.


def test_a_list_names_cards(cardsign: Cardsign, folder: Path) -> None:
    """One a line; remarks and empty lines are none."""
    Path("list.txt").write_text("# ours\ncards/good1.json\n\n  cards/good2.json\n")
    ended = cardsign("verify", "cards/good0.json", "--list", "list.txt", "--jwks", "jwks.json")
    assert (ended.status, ended.err) == (0, "cardsign: 3 cards: 3 trusted\n")


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


def test_every_card_is_judged_in_each_run(cardsign: Cardsign, folder: Path) -> None:
    """One that cannot be read has no line, and counts."""
    run = ("verify", "cards", "cards/late.json", "--jwks", "jwks.json", "--results", "out.jsonl")
    for jobs in ("1", "2"):
        ended = cardsign(*run, "-j", jobs)
        assert (ended.status, ended.text) == (2, "")
        assert "file.not_found" in ended.err
        assert "12 cards: 9 trusted, 2 not trusted, 1 not verified" in ended.err
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    names = [one["input"] for one in lines]
    assert len(names) == 22
    assert names[:11] == names[11:]


def test_a_file_of_results_that_cannot_be_written_is_a_fault(
    cardsign: Cardsign, signed: Path
) -> None:
    """Before any card is judged."""
    ended = cardsign("verify", signed, "--jwks", "jwks.json", "--results", "none/out.jsonl")
    assert (ended.status, "file.unwritable" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--cluster", "tcp://scheduler:8786"), "usage.invalid"),
        (("--cluster", "tcp://127.0.0.1:1", "-j", "2"), "usage.conflict"),
        (("--results", "out.jsonl", "--format", "sarif"), "usage.conflict"),
        (("--results", "out.jsonl", "-o", "payload.json"), "usage.conflict"),
    ],
)
def test_what_does_not_go_together_is_refused(
    cardsign: Cardsign, folder: Path, options: tuple[str, ...], code: str
) -> None:
    """Nothing is sent or written before."""
    ended = cardsign("verify", "cards/good0.json", "--jwks", "jwks.json", *options)
    assert (ended.status, code in ended.err) == (2, True)
    assert not Path("out.jsonl").exists()


def test_no_card_at_all_is_refused(cardsign: Cardsign, folder: Path) -> None:
    """An empty list is no success."""
    Path("list.txt").write_text("# none\n")
    ended = cardsign("verify", "--list", "list.txt", "--jwks", "jwks.json")
    assert (ended.status, "usage.invalid" in ended.err) == (2, True)


# Objects of stores.


@pytest.mark.needs_dask
def test_objects_are_found_and_read(cardsign: Cardsign, folder: Path, s3: Store) -> None:
    """A folder of a store, a pattern, and an object that is not there."""
    for file in folder.rglob("*"):
        if file.is_file():
            s3.put(f"found/{file.relative_to(folder).as_posix()}", file.read_bytes())
    whole = cardsign("verify", "s3://cards/found/", "--jwks", "jwks.json")
    some = cardsign("verify", "s3://cards/found/good*.json", "--jwks", "jwks.json")
    absent = cardsign("verify", "s3://cards/found/absent.json", "--jwks", "jwks.json")
    nowhere = cardsign("verify", "s3://nobody/x.json", "--jwks", "jwks.json")
    empty = cardsign("verify", "s3://cards/found/x*.json", "--jwks", "jwks.json")

    assert (whole.status, whole.err) == (1, SUMMARY)
    assert (some.status, some.err) == (0, "cardsign: 9 cards: 9 trusted\n")
    assert (absent.status, "file.not_found" in absent.err) == (2, True)
    assert (nowhere.status, "file.not_found" in nowhere.err) == (2, True)
    assert (empty.status, "usage.invalid" in empty.err) == (2, True)


@pytest.mark.needs_dask
def test_a_bad_object_hides_no_other(cardsign: Cardsign, signed: Path, s3: Store) -> None:
    """One that is missing, hostile or huge has its own verdict; a list in the store names them."""
    names = [
        s3.put("mixed/a.json", signed.read_bytes()),
        "s3://cards/mixed/absent.json",
        s3.put("mixed/deep.json", b"[" * 100_000),
        s3.put("mixed/huge.json", b" " * 6_000_000),
        s3.put("mixed/z.json", signed.read_bytes()),
    ]
    listed = s3.put("mixed.txt", "\n".join(names).encode())
    ended = cardsign("verify", "--list", listed, "--jwks", "jwks.json", "--json")

    found = [json.loads(line) for line in ended.text.splitlines()]
    assert [one["input"] for one in found] == names
    codes = [one.get("verdict") or one["error"]["code"] for one in found]
    assert codes == ["trusted", "file.not_found", "invalid", "invalid", "trusted"]


@pytest.mark.needs_dask
@pytest.mark.parametrize("near", ["/etc/passwd", "jwks.json", "file:///etc/passwd", "-"])
def test_a_list_from_a_store_names_nothing_of_this_machine(
    cardsign: Cardsign, signed: Path, s3: Store, near: str
) -> None:
    """Who writes the list would see a piece of the user's own file in a message."""
    good = s3.put("honest.json", signed.read_bytes())
    bad = cardsign("verify", "--list", s3.put("bad.txt", near.encode()), "--jwks", "jwks.json")
    fine = cardsign("verify", "--list", s3.put("good.txt", good.encode()), "--jwks", "jwks.json")

    assert (bad.status, "usage.invalid" in bad.err, bad.text) == (2, True, "")
    assert fine.status == 0, fine.err


def test_a_file_is_named_by_its_path(cardsign: Cardsign, signed: Path) -> None:
    """By a URL no rule for files would hold: links out of a folder, pipes, devices."""
    ended = cardsign("verify", signed.resolve().as_uri(), "--jwks", "jwks.json")

    assert ended.status == 2
    assert f"Give {signed.resolve()}" in ended.err


@pytest.mark.needs_dask
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("gs://bucket/a.json", "usage.not_installed"),
        ("memory://bucket/a.json", "file.not_found"),
        ("s3::file://bucket/a.json", "file.not_found"),
        ("s3://a::file:///etc/passwd", "usage.invalid"),
    ],
)
def test_a_store_that_cannot_be_asked_is_a_fault(
    cardsign: Cardsign, signed: Path, name: str, code: str
) -> None:
    """One line with what to do, and never a traceback."""
    ended = cardsign("verify", name, "--jwks", "jwks.json")
    assert (ended.status, code in ended.err) == (2, True), ended.err


def test_what_an_issuer_publishes_beside_its_cards_is_no_card(
    cardsign: Cardsign, folder: Path
) -> None:
    """Statements and key sets of an exported site are counted; elsewhere they are judged."""
    site = folder / "site/.well-known"
    (site / "cardsign/keyset").mkdir(parents=True)
    card = (folder / "good0.json").read_bytes()
    (site / "agent-card.json").write_bytes(card)
    for name in ("jwks.json", "cardsign/release.json", "cardsign/keyset/1.1.json"):
        (site / name).write_text('{"keys": []}')

    ended = cardsign("verify", folder / "site", "--jwks", "jwks.json")
    assert ended.status == 0
    assert "2 statements not looked into" in ended.err
    assert "1 key set not looked into" in ended.err

    (folder / "objects.json").write_text("{}")
    above = cardsign("verify", folder, "--jwks", "jwks.json")
    assert "1 upload list not looked into" in above.err

    (folder / "site/release.json").write_text('{"keys": []}')
    assert cardsign("verify", folder / "site", "--jwks", "jwks.json").status == 1
