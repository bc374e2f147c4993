"""``cardsign verify`` of objects in stores; ``transcripts/verify-*.txt`` have files and folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign, Store

pytestmark = pytest.mark.needs_dask


def test_objects_are_found_and_read(cardsign: Cardsign, signed: Path, s3: Store) -> None:
    """A folder of a store, and a pattern."""
    for name in ("good0", "good1", "below/good2"):
        s3.put(f"found/{name}.json", signed.read_bytes())
    s3.put("found/below/unsigned.json", Path("card.json").read_bytes())
    s3.put("found/notes.txt", b"no card")
    whole = cardsign("verify", "s3://cards/found/", "--jwks", "jwks.json")
    some = cardsign("verify", "s3://cards/found/good*.json", "--jwks", "jwks.json")

    assert (whole.status, whole.err) == (1, "cardsign: 4 cards: 3 trusted, 1 not trusted\n")
    assert (some.status, some.err) == (0, "cardsign: 2 cards: 2 trusted\n")


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

    verdicts = [json.loads(line) for line in ended.text.splitlines()]
    assert [verdict["input"] for verdict in verdicts] == names
    codes = [verdict.get("verdict") or verdict["error"]["code"] for verdict in verdicts]
    assert codes == ["trusted", "file.not_found", "invalid", "invalid", "trusted"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("s3://nobody/x.json", "file.not_found"),
        ("s3://cards/none*.json", "usage.invalid"),
        ("gs://bucket/a.json", "usage.not_installed"),
        ("memory://bucket/a.json", "file.not_found"),
        ("s3::file://bucket/a.json", "file.not_found"),
        ("s3://a::file:///etc/passwd", "file.not_found"),
    ],
)
@pytest.mark.usefixtures("s3")
def test_a_store_that_cannot_be_asked_is_a_fault(cardsign: Cardsign, name: str, code: str) -> None:
    """One line with what to do, and never a traceback."""
    Path("jwks.json").write_text('{"keys": []}')
    ended = cardsign("verify", name, "--jwks", "jwks.json")
    assert (ended.status, code in ended.err) == (2, True), ended.err
