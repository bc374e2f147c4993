"""Publishing: what makes a generation, what is refused, what a failure leaves; and its export."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from cardsign import verify_card
from cardsign.errors import FileFault, ServeFault, UsageFault
from cardsign.files import locked
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.publish.generation import Generation, export_files, load_current, public_files
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.app import create_app
from tests.crash.recording import read_tree
from tests.keys.elsewhere import refusal
from tests.publish.publications import (
    NOW,
    PUBLIC,
    PUBLIC_0_3,
    extended_card,
    failing_after,
    publish_cards,
    sign,
    with_skill,
)
from tests.support import without

KEY, STRANGER, SUCCESSOR = (PrivateKey.generate("ES256") for _ in range(3))
CARD, NEW = sign(PUBLIC, KEY), sign(with_skill(PUBLIC, "new"), KEY)
STAFF, CREW = (sign(extended_card(PUBLIC, name), KEY) for name in ("staff", "crew"))
EXPIRED = sign(extended_card(PUBLIC, "staff", NOW), KEY)
FORGED = sign(extended_card(PUBLIC, "staff"), STRANGER)
SECOND = timedelta(seconds=1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "pub"


def put(directory: Path, card: bytes = CARD, now: datetime = NOW, **more: Any) -> Generation:
    """Publish a card and, unless another set is named, the key that signs it."""
    documents = Documents(card, **{"jwks": JwkSet.of([KEY.public]), **more})
    return publish_generation(documents, directory, now=now)


# What is published.


def test_a_generation_holds_the_signed_bytes_unchanged(directory: Path) -> None:
    """Under the names that the layout gives; `current` names each file by its digest."""
    generation = put(directory, extended={"staff": STAFF})
    assert (generation.number, generation.created) == (1, True)
    tree = read_tree(directory)
    current = json.loads(tree.pop("current") or b"")
    jwks = JwkSet.of([KEY.public]).to_bytes()
    files = {"agent-card.json": CARD, "jwks.json": jwks, "extended/staff.json": STAFF}
    shown = {f"000001/{name}": data for name, data in files.items()}
    assert tree == {".lock": b"", "000001": None, "000001/extended": None, **shown}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert current.pop("files") == digests
    at = "2026-11-21T12:00:00Z"
    assert current == {"format": 1, "generation": 1, "published_at": at, "max_age": 300}
    assert load_current(directory) == replace(generation, created=False)


#: What is different, and the number of the generation that it makes.
CHANGES: dict[str, tuple[dict[str, Any], int]] = {
    "nothing, even later": ({"now": NOW + timedelta(days=1)}, 1),
    "another card": ({"card": NEW}, 2),
    "a key more in the set": ({"jwks": JwkSet.of([KEY.public, STRANGER.public])}, 2),
    "another audience": ({"extended": {"crew": CREW}}, 2),
    "another max-age": ({"max_age": 60}, 2),
}


@pytest.mark.parametrize(("change", "number"), CHANGES.values(), ids=CHANGES)
def test_other_content_is_the_next_generation(
    directory: Path, change: dict[str, Any], number: int
) -> None:
    """Whatever a client could notice makes one, and the old one stays as it was."""
    put(directory, extended={"staff": STAFF})
    old = read_tree(directory)
    again = put(directory, **{"extended": {"staff": STAFF}, **change})
    assert (again.number, again.created) == (number, number == 2)
    assert load_current(directory).number == number
    del old["current"]
    assert old.items() <= read_tree(directory).items()


DATES = {
    "in the same second": (NOW, NOW + SECOND),
    "clock set back": (NOW - timedelta(days=1), NOW + SECOND),
    "later": (NOW + timedelta(seconds=5, microseconds=9), NOW + 5 * SECOND),
    "told in another time zone": (
        (NOW + timedelta(hours=1)).astimezone(timezone(timedelta(hours=5))),
        NOW + timedelta(hours=1),
    ),
}


@pytest.mark.parametrize(("now", "published_at"), DATES.values(), ids=DATES)
def test_each_generation_is_dated_later_than_the_one_before(
    directory: Path, now: datetime, published_at: datetime
) -> None:
    """Else If-Modified-Since would answer 304 for a card that was replaced."""
    put(directory)
    second = put(directory, NEW, now)
    assert (second.published_at, second.published_at.tzinfo) == (published_at, UTC)


# What is refused.


def _damaged(card: bytes) -> bytes:
    """The card with a marker that does not say when it expires."""
    path = "/capabilities/extensions/0/params/exp"
    return json.dumps(without(json.loads(card), path)).encode()


def older(by: PrivateKey = KEY, **changes: Any) -> dict[str, Any]:
    """A card for clients of A2A 0.3."""
    return {"legacy_card": sign({**PUBLIC_0_3, **changes}, by)}


def staff(card: bytes) -> dict[str, Any]:
    """The extended card of an audience."""
    return {"extended": {"staff": card}}


DENYING = sign({**PUBLIC, "capabilities": {"extendedAgentCard": False}}, KEY)
NOT, LEGACY, NAME = "publish.not_verifying", "publish.legacy", "publish.audience_name"
UNTRUSTED = "the extended card of audience staff would not be trusted"
#: What a peer could not use: the card, what is published beside it, the code, and words of it.
UNUSABLE: dict[str, tuple[bytes, dict[str, Any], str, str]] = {
    "an unsigned card": (json.dumps(PUBLIC).encode(), {}, NOT, "not be trusted: sig.none"),
    "a key outside the set": (sign(PUBLIC, STRANGER), {}, NOT, "key.unknown"),
    "edited after signing": (CARD.replace(b"tides.ex", b"storm.ex"), {}, NOT, "sig.bad"),
    "no card": (b"[]", {}, NOT, "json.not_object"),
    "an extended card for the public one": (STAFF, {}, NOT, "served_as_public: .*'staff'"),
    "a public card with a malformed marker": (_damaged(STAFF), {}, NOT, "card would.*sig.bad"),
    "an extended card by a stranger": (CARD, staff(FORGED), NOT, UNTRUSTED),
    "one of another agent": (sign(PUBLIC_0_3, KEY), staff(STAFF), NOT, f"{UNTRUSTED}.*other_agent"),
    "one that the public card denies": (DENYING, staff(STAFF), "publish.extended", "not declare"),
    "the public card for an extended one": (CARD, staff(CARD), NOT, f"{UNTRUSTED}.*not_marked"),
    "the extended card of another audience": (
        CARD,
        staff(CREW),
        NOT,
        "audience_mismatch: .*'crew'",
    ),
    "one that expires at this second": (
        CARD,
        staff(EXPIRED),
        NOT,
        "expired at 2026-11-21 12:00 UTC",
    ),
    "one with a malformed marker": (CARD, staff(_damaged(STAFF)), NOT, f"{UNTRUSTED}: sig.bad"),
    "an older card of another version": (CARD, older(version="1"), LEGACY, "version is not"),
    "an older card of another name": (CARD, older(name="Waves"), LEGACY, "its name is not"),
    "an older card of no older form": (CARD, {"legacy_card": CARD}, LEGACY, "its form is that"),
    "an older card by a stranger": (CARD, older(STRANGER), NOT, "key.unknown"),
}
for name in ("", "Staff", "../staff", "staff.json", "a/b", "a" * 65, "größe", "staff\n"):
    UNUSABLE[f"an audience called {name!r}"] = (CARD, {"extended": {name: STAFF}}, NAME, ".")


@pytest.mark.parametrize(("card", "beside", "code", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_a_peer_could_not_use_is_refused_and_nothing_is_written(
    directory: Path, card: bytes, beside: dict[str, Any], code: str, words: str
) -> None:
    """Each refusal names the card and the first reason. An audience becomes a file's name."""
    assert refusal(put, directory, card, **beside, match=words) == code
    assert not directory.exists()


@pytest.mark.parametrize("audience", ["a", "staff-2", "0", "a" * 64])
@pytest.mark.parametrize("card", [PUBLIC, PUBLIC_0_3], ids=["1.0", "0.3"])
def test_what_a_peer_can_use_is_published(
    directory: Path, audience: str, card: dict[str, Any]
) -> None:
    """The twin of the refusals above, if barely: the card expires in a second."""
    extended = {audience: sign(extended_card(card, audience, NOW + SECOND), KEY)}
    assert put(directory, sign(card, KEY), extended=extended).extended == extended


# The directory.


@pytest.mark.parametrize("name", ["notes.txt", "src/", "12/"])
def test_a_directory_with_anything_else_in_it_is_left_alone(directory: Path, name: str) -> None:
    """A mistyped -o must not mix a publication into somebody's files."""
    directory.mkdir()
    (directory / name).mkdir() if name.endswith("/") else (directory / name).touch()
    code = refusal(put, directory, match="does not belong there")
    assert (code, len(os.listdir(directory))) == ("publish.other_publisher", 1)


def test_a_stray_file_in_a_publication_hinders_nothing(directory: Path) -> None:
    """Such as a file browser leaves; else it would hinder a revocation."""
    put(directory)
    (directory / ".DS_Store").write_bytes(b"x")
    assert put(directory, NEW).number == 2
    assert (directory / ".DS_Store").exists()


@pytest.mark.parametrize(("name", "number"), [(".new", 1), ("000001", 2)])
def test_a_link_in_the_directory_is_not_followed(directory: Path, name: str, number: int) -> None:
    """It is replaced or passed over, and nothing is written where it leads."""
    elsewhere = directory.with_name("elsewhere")
    elsewhere.mkdir()
    directory.mkdir()
    (directory / name).symlink_to(elsewhere)
    os.utime(elsewhere, (0, 0))
    assert put(directory).created
    assert (list(elsewhere.iterdir()), elsewhere.stat().st_mtime) == ([], 0)
    assert load_current(directory).number == number


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "cut short": lambda data: data[:-2],
    "one bit changed": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "replaced by a list": lambda data: b"[1]",
}


@pytest.mark.parametrize("name", ["current", "000001/jwks.json", "000001/extended/staff.json"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_found_out_and_fixed(
    directory: Path, name: str, damage: Callable[[bytes], bytes | None]
) -> None:
    """Every byte that matters is under a digest, from `current` down; none of it is served."""
    put(directory, **staff(STAFF))
    data = damage((directory / name).read_bytes())
    (directory / name).unlink()
    if data is not None:
        (directory / name).write_bytes(data)
    is_empty = name == "current" and data is None
    code = "serve.no_generation" if is_empty else "serve.corrupt_generation"
    assert refusal(load_current, directory) == code
    fixed = put(directory, **staff(STAFF))
    assert (fixed.number, load_current(directory).files) == (2, fixed.files)


def _rewrite_current(directory: Path, **members: object) -> None:
    """Change what `current` says as one would who can write to the directory."""
    path = directory / "current"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **members}))


DIGESTS = {"jwks.json": hashlib.sha256(JwkSet.of([KEY.public]).to_bytes()).hexdigest()}
EXTENDED = {**DIGESTS, "extended/staff.json": hashlib.sha256(STAFF).hexdigest()}
OUTSIDE = {"agent-card.json": hashlib.sha256(CARD).hexdigest(), **DIGESTS}
OUTSIDE["extended/../../../secret.json"] = hashlib.sha256(b"{}").hexdigest()
#: What `current` says of one generation, and why that is damage.
NONSENSE: dict[str, tuple[dict[str, object], str]] = {
    "it is another generation's": ({"generation": 2}, "it is missing"),
    "its max-age is negative": ({"max_age": -1}, "max_age"),
    "its time is none": ({"published_at": "yesterday"}, "published_at"),
    "it names no key set": ({"files": {}}, "no card and key set"),
    "its format is a string": ({"format": "1"}, "format"),
    "it names an extended card alone": ({"files": EXTENDED}, "no card and key set"),
    "it reaches outside its folder": ({"files": OUTSIDE}, "which no generation has"),
}


@pytest.mark.parametrize(("members", "words"), NONSENSE.values(), ids=NONSENSE)
def test_a_manifest_that_says_nonsense_is_refused(
    directory: Path, members: dict[str, object], words: str
) -> None:
    """Whoever withdraws a card withdraws every form of it: the twin has none."""
    put(directory, **staff(STAFF))
    directory.with_name("secret.json").write_text("{}")
    _rewrite_current(directory, **members)
    assert refusal(load_current, directory, match=words) == "serve.corrupt_generation"
    _rewrite_current(directory, generation=1, max_age=1, published_at=str(NOW), format=1)
    _rewrite_current(directory, files=DIGESTS)
    assert load_current(directory).card == b""


def test_a_newer_format_is_neither_read_nor_overwritten(directory: Path) -> None:
    """An older cardsign must not publish over what it does not understand."""
    put(directory)
    (directory / "current").write_text('{"format": 2}')
    before = read_tree(directory)
    for act in (load_current, put):
        assert refusal(act, directory, match="format 2 is newer") == "serve.newer_format"
    assert read_tree(directory) == before


LEFT: dict[str, tuple[Callable[[Path], object], int]] = {
    "a folder that never became current": (lambda d: (d / "000007").mkdir(), 8),
    "a current whose folder is gone": (lambda d: _rewrite_current(d, generation=41), 42),
    "a current that is garbage": (lambda d: (d / "current").write_text("?"), 2),
}


@pytest.mark.parametrize(("leave", "number"), LEFT.values(), ids=LEFT)
def test_a_number_is_never_used_twice(
    directory: Path, leave: Callable[[Path], object], number: int
) -> None:
    """Whatever is damaged, the next number is above all that were ever given."""
    put(directory)
    leave(directory)
    assert put(directory, NEW).number == number


def test_processes_that_publish_at_once_take_turns(directory: Path) -> None:
    """Each gets a number of its own, and the last one is current."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        numbers = pool.map(lambda age: put(directory, max_age=age).number, range(8))
    assert sorted(numbers) == list(range(1, 9))
    assert load_current(directory).number == 8


# Failures; `tests/crash` refuses and kills each change of a publication.


def test_a_generation_is_durable_before_it_is_current(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may keep the pointer and lose the folder, if neither was synced before."""
    put(directory)
    sync, kept = os.fsync, []

    def noting(descriptor: int) -> None:
        sync(descriptor)
        if os.path.samestat(os.fstat(descriptor), directory.stat()):
            kept.append((load_current(directory).number, (directory / "000002").is_dir()))

    monkeypatch.setattr(os, "fsync", noting)
    put(directory, NEW)
    assert kept == [(1, True), (2, True)]


def test_a_store_that_takes_no_more_bytes_keeps_what_it_has(directory: Path) -> None:
    """As object storage that is mounted may do; the next publication mends it."""
    put(directory)
    before = read_tree(directory)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))  # bytes: no whole card
    try:
        code = refusal(put, directory, NEW, match="File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (code, read_tree(directory)) == ("file.unwritable", before)
    assert put(directory, NEW).number == load_current(directory).number == 2


def test_what_a_killed_publication_left_is_swept(directory: Path) -> None:
    """The next publication starts from nothing, and is not refused for the remains."""
    (directory / ".new" / "000001").mkdir(parents=True)
    (directory / ".new" / "000001" / "agent-card-0.3.json").write_text("half a ca")
    (directory / ".new" / "current").write_text("{")
    generation = put(directory)
    assert sorted(os.listdir(directory)) == [".lock", "000001", "current"]
    assert {*os.listdir(directory / "000001")} == {"agent-card.json", "jwks.json"}
    assert load_current(directory).files == generation.files


def test_a_publication_that_another_process_holds_is_busy(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits a minute, and then says so; nothing is published."""
    monkeypatch.setattr("cardsign.publish.publication._LOCK_PATIENCE", 0)
    directory.mkdir()
    with locked(directory / ".lock", patience=0, busy=ServeFault("file.busy", "by this test")):
        assert refusal(put, directory, match="another process publishes") == "file.busy"
    assert not (directory / "current").exists()


def test_a_directory_of_an_impossible_name_is_a_fault(tmp_path: Path) -> None:
    """Not an exception of Python's."""
    with pytest.raises(FileFault, match=r"file\.unwritable"):
        put(tmp_path / "a\0b")


# The public files of a generation for hosts that serve files.


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    """A card with an extended one."""
    return publish_cards(tmp_path / "pub", KEY, PUBLIC, "staff")


@pytest.fixture
def out(generation: Generation, tmp_path: Path) -> Path:
    """The folder of an export."""
    export_files(generation, tmp_path / "out")
    return tmp_path / "out"


def headers_of(text: str) -> dict[str, dict[str, str]]:
    """The headers that a `_headers` file gives to each path."""
    headers, path = dict[str, dict[str, str]](), ""
    for line in text.splitlines():
        if line.startswith(" "):
            name, _, value = line.strip().partition(": ")
            headers[path][name] = value
        else:
            path = line
            headers[path] = {}
    return headers


def test_every_public_path_of_the_server_is_a_file(out: Path, generation: Generation) -> None:
    """With the same bytes and headers but those that the host makes itself; nginx is told, too."""
    paths = tuple(public_files(generation))
    site, nginx = out / "site", (out / "nginx.conf").read_text()
    headers = headers_of((site / "_headers").read_text())
    client = create_app(out.parent / "pub").test_client()
    assert set(headers) == set(paths)
    assert "/.well-known/agent-card.json" in paths
    for path in paths:
        answer = client.get(path)
        assert (site / path[1:]).read_bytes() == answer.data
        own = {"Content-Length", "ETag", "Last-Modified", "Date"}
        assert headers[path] == {k: v for k, v in answer.headers.items() if k not in own}
        block = nginx.partition(f"location = {path} {{")[2].partition("}\nlocation")[0]
        assert f"add_header Cache-Control '{headers[path]['Cache-Control']}'" in block
    # Caches keep no answer that a statement is not there.
    assert 'add_header Cache-Control "no-store" always;' in nginx


def test_no_extended_card_leaves(out: Path, generation: Generation) -> None:
    """Not in the site, and not beside it."""
    marker = b'"id":"staff"'
    assert marker in generation.extended["staff"].replace(b" ", b"")
    for file in out.rglob("*"):
        assert "extended" not in file.name
        assert file.is_dir() or marker not in file.read_bytes().replace(b" ", b"")


def test_an_export_replaces_its_own_files_alone(out: Path, generation: Generation) -> None:
    """With the same bytes, so that an upload finds nothing to do."""
    (out / "site/index.html").write_text("ours")
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    export_files(generation, out)
    assert before == {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "name", ["nginx.conf", "site", "site/_headers", "site/.well-known/agent-card.json"]
)
def test_no_export_goes_through_a_link(out: Path, generation: Generation, name: str) -> None:
    """Somebody else's clone may have planted one; the typed directory itself may be a link."""
    out.rename(out.with_name("real"))
    out.symlink_to("real")
    export_files(generation, out)
    place, target = out / name, out.with_name("target")
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    target.mkdir() if name == "site" else target.write_text("precious")
    place.symlink_to(target)
    with pytest.raises(FileFault, match=r"file\.not_plain"):
        export_files(generation, out)
    assert not list(target.iterdir()) if name == "site" else target.read_text() == "precious"


@pytest.mark.parametrize("operations", range(6))
def test_a_host_that_fails_in_the_middle_serves_a_card_that_verifies(
    operations: int, out: Path, tmp_path: Path
) -> None:
    """While keys change hands, as a new card by a new key is exported; a new try mends it."""
    both, only = JwkSet.of([KEY.public, SUCCESSOR.public]), JwkSet.of([SUCCESSOR.public])
    new = sign(with_skill(PUBLIC, "new"), SUCCESSOR)
    for step in (Documents(new, both), Documents(new, only)):
        following = publish_generation(step, tmp_path / "keys", now=NOW)
        with failing_after(operations, "replace", "rename"), suppress(FileFault):
            export_files(following, out)
        card, keys = (out / "site/.well-known" / name for name in ("agent-card.json", "jwks.json"))
        assert verify_card(card.read_bytes(), jwks=json.loads(keys.read_bytes()))
        export_files(following, out)
        assert (card.read_bytes(), keys.read_bytes()) == (following.card, following.jwks)


def test_a_publication_directory_is_refused(generation: Generation, tmp_path: Path) -> None:
    """It holds the extended cards, and must not become the root of a host."""
    with pytest.raises(UsageFault, match="extended cards"):
        export_files(generation, tmp_path / "pub")
