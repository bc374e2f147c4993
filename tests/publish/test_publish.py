"""Publishing: what makes a generation, what is refused, and what a failure leaves behind."""

from __future__ import annotations

import hashlib
import json
import os
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.errors import FileFault, PublishRefused, ServeFault, UsageFault
from cardsign.files import locked
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.publish.generation import Generation, load_current
from cardsign.publish.publication import Documents, publish_generation
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


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return PrivateKey.generate("ES256")


@pytest.fixture(scope="module")
def stranger() -> PrivateKey:
    return PrivateKey.generate("ES256")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "pub"


def _tree(directory: Path) -> dict[str, bytes | None]:
    """Every entry below a directory, with the bytes of the files."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


# ------------------------------------------------------------------ what is published


def test_a_generation_holds_the_signed_bytes_unchanged(directory: Path, key: PrivateKey) -> None:
    """Under the names that the layout gives; `current` names each file by its digest."""
    generation = publish_cards(directory, key, PUBLIC, "staff")

    assert (generation.number, generation.created) == (1, True)
    files = {f"000001/{name}": data for name, data in generation.files.items()}
    tree = {name: data for name, data in _tree(directory).items() if data is not None}
    current = tree.pop("current")
    assert tree == {".lock": b"", **files}
    assert tree["000001/agent-card.json"] == sign(PUBLIC, key)
    assert json.loads(tree["000001/jwks.json"]) == {"keys": [key.public.jwk()]}
    assert json.loads(current) == {
        "format": 1,
        "generation": 1,
        "published_at": "2026-11-21T12:00:00Z",
        "max_age": 300,
        "files": {
            name: hashlib.sha256(data).hexdigest() for name, data in generation.files.items()
        },
    }
    assert load_current(directory) == replace(generation, created=False)


def test_the_same_content_is_the_same_generation(directory: Path, key: PrivateKey) -> None:
    """Publishing again, even later, changes nothing and says so."""
    exp = NOW + timedelta(days=30)
    first = publish_cards(directory, key, PUBLIC, "staff", exp=exp)
    before = _tree(directory)
    again = publish_cards(directory, key, PUBLIC, "staff", now=NOW + timedelta(days=1), exp=exp)
    assert again == replace(first, created=False)
    assert _tree(directory) == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"card": with_skill(PUBLIC, "new")}, id="another card"),
        pytest.param({"second_key": True}, id="a key more in the set"),
        pytest.param({"extended": "guests"}, id="another audience"),
        pytest.param({"max_age": 60}, id="another max-age"),
    ],
)
def test_other_content_is_the_next_generation(
    directory: Path, key: PrivateKey, stranger: PrivateKey, change: dict[str, Any]
) -> None:
    """Whatever a client could notice makes a new generation, and the old one stays as it was."""

    def put(
        card: dict[str, Any] = PUBLIC,
        second_key: bool = False,
        extended: str = "staff",
        max_age: int = 300,
    ) -> Generation:
        keys = [key.public, stranger.public] if second_key else [key.public]
        return publish_generation(
            Documents(
                sign(card, key),
                JwkSet.of(keys),
                extended={extended: sign(extended_card(PUBLIC, extended), key)},
                max_age=max_age,
            ),
            directory,
            now=NOW,
        )

    put()
    old = {name: data for name, data in _tree(directory).items() if name.startswith("000001")}

    second = put(**change)

    assert (second.number, second.created) == (2, True)
    assert load_current(directory).number == 2
    assert old.items() <= _tree(directory).items()


@pytest.mark.parametrize(
    ("now", "published_at"),
    [
        pytest.param(NOW, NOW + timedelta(seconds=1), id="in the same second"),
        pytest.param(NOW - timedelta(days=1), NOW + timedelta(seconds=1), id="clock set back"),
        pytest.param(
            NOW + timedelta(seconds=5, microseconds=9), NOW + timedelta(seconds=5), id="later"
        ),
        pytest.param(
            (NOW + timedelta(hours=1)).astimezone(timezone(timedelta(hours=5))),
            NOW + timedelta(hours=1),
            id="told in another time zone",
        ),
    ],
)
def test_each_generation_is_dated_later_than_the_one_before(
    directory: Path, key: PrivateKey, now: datetime, published_at: datetime
) -> None:
    """Else If-Modified-Since would answer 304 for a card that was replaced."""
    publish_cards(directory, key)

    second = publish_cards(directory, key, with_skill(PUBLIC, "new"), now=now)

    assert second.published_at == published_at
    assert second.published_at.tzinfo is UTC


# --------------------------------------------------------------------- what is refused


MARKER = ExtendedMarker("staff", seq=1, exp=int(NOW.timestamp()) + 1)


def _edited(card: bytes) -> bytes:
    return card.replace(b"tides.example", b"storm.example")


def _damaged(card: bytes) -> bytes:
    """The card with a marker that does not say when it expires."""
    path = "/capabilities/extensions/0/params/exp"
    return json.dumps(without(json.loads(card), path)).encode()


Making = Callable[[PrivateKey, PrivateKey], tuple[bytes, dict[str, bytes]]]
DENYING = {**PUBLIC, "capabilities": {"extendedAgentCard": False}}


def _beside(card: Callable[[PrivateKey, PrivateKey], bytes]) -> Making:
    """The public card, and another one beside it as that of an audience."""
    return lambda key, stranger: (sign(PUBLIC, key), {"staff": card(key, stranger)})


def _alone(card: Callable[[PrivateKey, PrivateKey], bytes]) -> Making:
    return lambda key, stranger: (card(key, stranger), {})


STAFF = "the extended card of audience staff would not be trusted"
#: What a peer could not use: the cards, the code, and a part of the message.
UNUSABLE: dict[str, tuple[Making, str, str]] = {
    "an unsigned card": (
        _alone(lambda key, stranger: json.dumps(PUBLIC).encode()),
        "publish.not_verifying",
        "the public card would not be trusted: sig.none",
    ),
    "a card signed with a key outside the set": (
        _alone(lambda key, stranger: sign(PUBLIC, stranger)),
        "publish.not_verifying",
        "key.unknown",
    ),
    "a card edited after signing": (
        _alone(lambda key, stranger: _edited(sign(PUBLIC, key))),
        "publish.not_verifying",
        "sig.bad",
    ),
    "bytes that are no card": (
        _alone(lambda key, stranger: b"[]"),
        "publish.not_verifying",
        "json.not_object",
    ),
    "an extended card signed with a key outside the set": (
        _beside(lambda key, stranger: sign(extended_card(PUBLIC, "staff"), stranger)),
        "publish.not_verifying",
        STAFF,
    ),
    "an extended card that the public card denies": (
        lambda key, stranger: (
            sign(DENYING, key),
            {"staff": sign(extended_card(PUBLIC, "staff"), key)},
        ),
        "publish.extended",
        "the public card does not declare one",
    ),
    "the public card for an extended one": (
        _beside(lambda key, stranger: sign(PUBLIC, key)),
        "publish.not_verifying",
        f"{STAFF}: extended.not_marked",
    ),
    "the extended card of another audience": (
        _beside(lambda key, stranger: sign(extended_card(PUBLIC, "crew"), key)),
        "publish.not_verifying",
        "audience staff would not be trusted: extended.audience_mismatch: .*'crew'",
    ),
    "an extended card that expires at this second": (
        _beside(lambda key, stranger: sign(extended_card(PUBLIC, "staff", NOW), key)),
        "publish.not_verifying",
        "extended.expired: the extended card expired at 2026-11-21 12:00 UTC",
    ),
    "an extended card with a malformed marker": (
        _beside(lambda key, stranger: _damaged(sign(extended_card(PUBLIC, "staff"), key))),
        "publish.not_verifying",
        f"{STAFF}: sig.bad",
    ),
    "an extended card for the public one": (
        _alone(lambda key, stranger: sign(extended_card(PUBLIC, "staff"), key)),
        "publish.not_verifying",
        "the public card would not be trusted: extended.served_as_public: .*'staff'",
    ),
    "a public card with a malformed marker": (
        _alone(lambda key, stranger: _damaged(sign(extended_card(PUBLIC, "staff"), key))),
        "publish.not_verifying",
        "the public card would not be trusted: sig.bad",
    ),
}


@pytest.mark.parametrize(("make", "code", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_a_peer_could_not_use_is_refused_and_nothing_is_written(
    directory: Path,
    key: PrivateKey,
    stranger: PrivateKey,
    make: Making,
    code: str,
    words: str,
) -> None:
    """Each refusal names the card and the first reason."""
    card, extended = make(key, stranger)

    with pytest.raises(PublishRefused, match=words) as refused:
        publish_generation(
            Documents(card, JwkSet.of([key.public]), extended=extended), directory, now=NOW
        )

    assert refused.value.code == code
    assert not directory.exists()


#: The older document, whether a stranger signed it, the code, and a part of the message.
UNFIT_OLDER: dict[str, tuple[dict[str, Any], bool, str, str]] = {
    "another version": (
        {**PUBLIC_0_3, "version": "1.1.0"},
        False,
        "publish.legacy",
        "its version is not",
    ),
    "another name": ({**PUBLIC_0_3, "name": "Waves"}, False, "publish.legacy", "its name is not"),
    "no older form": (PUBLIC, False, "publish.legacy", "its form is that of A2A 1.0"),
    "another key": (PUBLIC_0_3, True, "publish.not_verifying", "key.unknown"),
}


@pytest.mark.parametrize(
    ("older", "is_strange", "code", "words"), UNFIT_OLDER.values(), ids=UNFIT_OLDER
)
def test_F2_an_older_document_that_does_not_fit_is_not_published(
    directory: Path,
    key: PrivateKey,
    stranger: PrivateKey,
    older: dict[str, Any],
    is_strange: bool,
    code: str,
    words: str,
) -> None:
    """Nothing is written."""
    signed = sign(older, stranger if is_strange else key)
    documents = Documents(sign(PUBLIC, key), JwkSet.of([key.public]), legacy_card=signed)
    with pytest.raises(PublishRefused, match=words) as refused:
        publish_generation(documents, directory, now=NOW)
    assert refused.value.code == code
    assert not directory.exists()


def test_a_card_that_expires_in_a_second_is_published(directory: Path, key: PrivateKey) -> None:
    """The twin: everything about the extended card is right, if barely."""
    card = sign(with_marker(with_skill(PUBLIC, "tugs"), MARKER), key)
    jwks = JwkSet.of([key.public])

    generation = publish_generation(
        Documents(sign(PUBLIC, key), jwks, extended={"staff": card}), directory, now=NOW
    )

    assert generation.extended == {"staff": card}


@pytest.mark.parametrize(
    "audience", ["", "Staff", "../staff", "staff.json", "a/b", "a" * 65, "größe", "staff\n"]
)
def test_an_audience_that_is_no_plain_name_is_refused(
    directory: Path, key: PrivateKey, audience: str
) -> None:
    """An audience becomes a file's name and a word of the token file."""
    with pytest.raises(UsageFault) as refused:
        publish_generation(
            Documents(
                sign(PUBLIC, key),
                JwkSet.of([key.public]),
                extended={audience: sign(extended_card(PUBLIC, "staff"), key)},
            ),
            directory,
            now=NOW,
        )

    assert refused.value.code == "publish.audience_name"
    assert not directory.exists()


@pytest.mark.parametrize("audience", ["a", "staff-2", "0", "a" * 64])
@pytest.mark.parametrize("card", [PUBLIC, PUBLIC_0_3], ids=["1.0", "0.3"])
def test_an_audience_that_is_a_plain_name_is_published(
    directory: Path, key: PrivateKey, audience: str, card: dict[str, Any]
) -> None:
    """The twin of the refusals above, whichever version declares the extended card."""
    assert publish_cards(directory, key, card, audience).extended.keys() == {audience}


# ------------------------------------------------------------------------ the directory


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(lambda d: (d / "notes.txt").write_text("mine"), id="a file"),
        pytest.param(lambda d: (d / "src").mkdir(), id="a folder"),
        pytest.param(lambda d: (d / "12").mkdir(), id="a number without six digits"),
    ],
)
def test_a_directory_with_anything_else_in_it_is_left_alone(
    directory: Path, key: PrivateKey, put: Callable[[Path], object]
) -> None:
    """A mistyped -o must not mix a publication into somebody's files."""
    directory.mkdir()
    put(directory)
    before = sorted(os.listdir(directory))

    with pytest.raises(FileFault, match="is no file of one") as refused:
        publish_cards(directory, key)

    assert refused.value.code == "publish.other_publisher"
    assert sorted(os.listdir(directory)) == before


def test_a_stray_file_in_a_publication_hinders_nothing(directory: Path, key: PrivateKey) -> None:
    """Such as a file browser leaves; else it would hinder a revocation."""
    publish_cards(directory, key)
    (directory / ".DS_Store").write_bytes(b"x")
    assert publish_cards(directory, PrivateKey.generate("ES256")).number == 2
    assert (directory / ".DS_Store").exists()


@pytest.mark.parametrize("name", [".new", "000001"])
def test_a_link_in_the_directory_is_not_followed(
    directory: Path, key: PrivateKey, name: str, tmp_path: Path
) -> None:
    """It is replaced or passed over, and nothing is written where it leads."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    directory.mkdir()
    (directory / name).symlink_to(elsewhere)
    os.utime(elsewhere, (0, 0))
    assert publish_cards(directory, key).created
    assert (list(elsewhere.iterdir()), elsewhere.stat().st_mtime) == ([], 0)
    assert load_current(directory).number == (2 if name == "000001" else 1)


@pytest.mark.parametrize("name", ["current", "000001/jwks.json", "000001/extended/staff.json"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: None, id="gone"),
        pytest.param(lambda data: data[:-2], id="cut short"),
        pytest.param(lambda data: bytes([data[0] ^ 1]) + data[1:], id="one bit changed"),
        pytest.param(lambda data: b"[1]", id="replaced by a list"),
    ],
)
def test_a_damaged_file_is_found_out_and_fixed(
    directory: Path, key: PrivateKey, name: str, damage: Callable[[bytes], bytes | None]
) -> None:
    """Every byte that matters is under a digest, from `current` down; none of it is served."""
    publish_cards(directory, key, PUBLIC, "staff")
    path = directory / name
    data = damage(path.read_bytes())
    path.unlink()
    if data is not None:
        path.write_bytes(data)

    with pytest.raises(ServeFault) as refused:
        load_current(directory)

    is_empty = name == "current" and data is None
    is_nothing = "serve.no_generation" if is_empty else "serve.corrupt_generation"
    assert refused.value.code == is_nothing
    fixed = publish_cards(directory, key, PUBLIC, "staff")
    assert fixed.number == 2
    assert load_current(directory).files == fixed.files


def _rewrite_current(directory: Path, **members: object) -> None:
    """Change what `current` says as one would who can write to the directory."""
    path = directory / "current"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **members}))


def test_an_extended_card_without_the_public_one_is_damage(
    directory: Path, key: PrivateKey
) -> None:
    """Who withdraws a card withdraws every form of it; the twin has none."""
    publish_cards(directory, key, PUBLIC, "staff")
    files = json.loads((directory / "current").read_bytes())["files"]
    del files["agent-card.json"]
    _rewrite_current(directory, files=files)
    with pytest.raises(ServeFault, match="names no card"):
        load_current(directory)
    del files["extended/staff.json"]
    _rewrite_current(directory, files=files)
    assert load_current(directory).card == b""


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"generation": 2}, id="it is another generation's"),
        pytest.param({"max_age": -1}, id="its max-age is negative"),
        pytest.param({"published_at": "yesterday"}, id="its time is none"),
        pytest.param({"files": {}}, id="it names no key set"),
        pytest.param({"format": "1"}, id="its format is a string"),
    ],
)
def test_a_manifest_that_says_nonsense_is_refused(
    directory: Path, key: PrivateKey, members: dict[str, object]
) -> None:
    """Whatever stands there, it is told as damage."""
    publish_cards(directory, key)
    _rewrite_current(directory, **members)

    with pytest.raises(ServeFault) as refused:
        load_current(directory)

    assert refused.value.code == "serve.corrupt_generation"


def test_a_manifest_cannot_reach_outside_its_folder(
    directory: Path, key: PrivateKey, tmp_path: Path
) -> None:
    """A name that is no file of a generation is never opened, whatever digest stands by it."""
    publish_cards(directory, key)
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    files = json.loads((directory / "current").read_bytes())["files"]
    entry = hashlib.sha256(b"{}").hexdigest()
    _rewrite_current(directory, files={**files, "extended/../../../secret.json": entry})

    with pytest.raises(ServeFault, match="which no generation has"):
        load_current(directory)


def test_a_newer_format_is_neither_read_nor_overwritten(directory: Path, key: PrivateKey) -> None:
    """An older cardsign must not publish over what it does not understand."""
    publish_cards(directory, key)
    (directory / "current").write_text('{"format": 2}')
    before = _tree(directory)

    for act in (lambda: load_current(directory), lambda: publish_cards(directory, key)):
        with pytest.raises(ServeFault, match="format 2 is newer") as refused:
            act()
        assert refused.value.code == "serve.newer_format"
    assert _tree(directory) == before


@pytest.mark.parametrize(
    ("put", "number"),
    [
        pytest.param(lambda d: (d / "000007").mkdir(), 8, id="a folder that never became current"),
        pytest.param(
            lambda d: _rewrite_current(d, generation=41),
            42,
            id="a current whose folder is gone",
        ),
        pytest.param(lambda d: (d / "current").write_text("?"), 2, id="a current that is garbage"),
    ],
)
def test_a_number_is_never_used_twice(
    directory: Path, key: PrivateKey, put: Callable[[Path], object], number: int
) -> None:
    """Whatever is damaged, the next number is above all that were ever given."""
    publish_cards(directory, key)
    put(directory)

    assert publish_cards(directory, key, with_skill(PUBLIC, "new")).number == number


def test_processes_that_publish_at_once_take_turns(directory: Path, key: PrivateKey) -> None:
    """Each gets a number of its own, and the last one is current."""
    cards = [with_skill(PUBLIC, f"skill-{index}") for index in range(8)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        numbers = list(pool.map(lambda card: publish_cards(directory, key, card).number, cards))

    assert sorted(numbers) == list(range(1, 9))
    assert load_current(directory).number == 8


# ------------------------------------------------------------------------- failures


def test_a_generation_is_durable_before_it_is_current(
    directory: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may keep the pointer and lose the folder, if neither was synced before."""
    publish_cards(directory, key)
    sync, kept = os.fsync, []

    def noting(descriptor: int) -> None:
        sync(descriptor)
        if os.path.samestat(os.fstat(descriptor), directory.stat()):
            kept.append((load_current(directory).number, (directory / "000002").is_dir()))

    monkeypatch.setattr(os, "fsync", noting)
    publish_cards(directory, key, with_skill(PUBLIC, "new"))

    assert kept == [(1, True), (2, True)]


def test_a_store_that_takes_no_more_bytes_keeps_what_it_has(
    directory: Path, key: PrivateKey
) -> None:
    """As object storage that is mounted may do; the next publication mends it."""
    publish_cards(directory, key)
    before = _tree(directory)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))  # bytes: no whole card
    try:
        with pytest.raises(FileFault, match="File too large") as refused:
            publish_cards(directory, key, with_skill(PUBLIC, "new"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert refused.value.code == "file.unwritable"
    assert _tree(directory) == before
    assert publish_cards(directory, key, with_skill(PUBLIC, "new")).number == 2
    assert load_current(directory).number == 2


@pytest.mark.parametrize("operations", range(7))
def test_a_store_that_fails_in_the_middle_keeps_what_it_has(
    operations: int, directory: Path, key: PrivateKey
) -> None:
    """Of a generation that did not become whole no reader learns; the next one takes its place."""
    publish_cards(directory, key)
    with failing_after(operations), pytest.raises(FileFault, match="Input/output") as refused:
        publish_cards(directory, key, with_skill(PUBLIC, "new"), "staff", "crew")
    assert refused.value.code == "file.unwritable"
    assert load_current(directory).number == 1
    again = publish_cards(directory, key, with_skill(PUBLIC, "new"))
    assert load_current(directory).files == again.files


def test_what_a_killed_publication_left_is_swept(directory: Path, key: PrivateKey) -> None:
    """The next publication starts from nothing, and is not refused for the remains."""
    (directory / ".new" / "000001").mkdir(parents=True)
    (directory / ".new" / "000001" / "agent-card-0.3.json").write_text("half a ca")
    (directory / ".new" / "current").write_text("{")

    generation = publish_cards(directory, key)

    assert sorted(os.listdir(directory)) == [".lock", "000001", "current"]
    assert {*os.listdir(directory / "000001")} == {"agent-card.json", "jwks.json"}
    assert load_current(directory).files == generation.files


def test_a_publication_that_another_process_holds_is_busy(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits a minute, and then says so; nothing is published."""
    monkeypatch.setattr("cardsign.publish.publication._LOCK_PATIENCE", 0)
    busy = FileFault("file.busy", "held by this test")
    tmp_path.joinpath("public").mkdir()
    with (
        locked(tmp_path / "public/.lock", patience=0, busy=busy),
        pytest.raises(FileFault, match="another process publishes") as refused,
    ):
        publish_cards(tmp_path / "public", key)
    assert refused.value.code == "file.busy"
    assert not (tmp_path / "public/current").exists()


def test_a_directory_of_an_impossible_name_is_a_fault(tmp_path: Path, key: PrivateKey) -> None:
    """Not an exception of Python's."""
    with pytest.raises(FileFault) as caught:
        publish_cards(tmp_path / "a\0b", key)
    assert caught.value.code == "file.unwritable"
