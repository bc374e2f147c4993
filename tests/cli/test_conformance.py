"""`cardsign conformance`: what a verifier gets wrong is said, and what is right is not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cardsign

TESTS = Path(__file__).parents[1]


@pytest.fixture
def kit() -> str:
    """Two files of attacks and one vector."""
    for name in ("attacks/001-alg-none.json", "attacks/002-alg-spelling.json"):
        Path("kit/attacks").mkdir(parents=True, exist_ok=True)
        shutil.copy(TESTS / name, "kit/attacks")
    Path("kit/vectors/cards").mkdir(parents=True)
    shutil.copy(TESTS / "vectors/cards/01-portable-es256.json", "kit/vectors/cards")
    return "kit"


@pytest.mark.parametrize(
    ("verifier", "problem"),
    [
        ("true", "an attack is trusted"),
        ("false", "an honest card is not trusted"),
        (
            "sh -c 'cat > /dev/null; echo a slip of mine >&2; exit 7'",
            "with status 7 a slip of mine",
        ),
    ],
    ids=["trusts all", "trusts nothing", "fails"],
)
def test_a_verifier_that_is_wrong_is_told(
    cardsign: Cardsign, kit: str, verifier: str, problem: str
) -> None:
    """Each case by its name; the exit status is 1."""
    ended = cardsign("conformance", kit, "--verifier", verifier)
    wrong = [line for line in ended.text.splitlines() if line.startswith("wrong: ")]
    assert ended.status == 1
    assert wrong
    assert all(line.endswith(problem) for line in wrong)


def test_cardsign_is_right_about_a_few(cardsign: Cardsign, kit: str) -> None:
    """Its own command is what is checked where no other is named."""
    Path("kit/attacks/002-alg-spelling.json").unlink()
    ended = cardsign("conformance", kit, "--json")
    assert (ended.status, ended.json["wrong"], ended.json["cases"] > 1) == (0, [], True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("kit", "--verifier", "no-such-program {keys}"), "no program 'no-such-program'"),
        (("kit", "--verifier", "sh 'x"), "names no command"),
        (("kit", "--verifier", ""), "names no command"),
        (("home",), "it holds no cases"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    cardsign: Cardsign, kit: str, words: tuple[str, ...], why: str
) -> None:
    """With what to name instead."""
    Path("home").mkdir(exist_ok=True)
    ended = cardsign("conformance", *words)
    assert (ended.status, why in ended.err) == (2, True), ended.err


ATTACK = "kit/attacks/001-alg-none.json"


def spoil(**files: Any) -> None:
    """Let the first case alone stay, with a card of these files: the last."""
    attack = json.loads(Path(ATTACK).read_bytes())
    case = attack["cases"][0]
    case["steps"][0]["card"] = list(files)[-1]
    changed = {**attack, "files": {**attack["files"], **files}, "cases": [case]}
    Path(ATTACK).write_text(json.dumps(changed))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 100_000, "no file of the corpus"),
        (b"[]", "no file of the corpus"),
        (b'{"cases": [{}]}', "lacks 'files'"),
        ({"pieces": [{"text": "x", "times": 3_000_000_000}]}, "more than 67108864 bytes"),
        ({"pieces": [{"text": "x", "times": "y"}]}, "no file of the corpus"),
        ({"of": "itself", "replace": []}, "no file of the corpus"),
        ({"unknown": 1}, "no such description"),
    ],
    ids=range(7),
)
def test_a_file_that_is_none_of_the_corpus_is_named(
    cardsign: Cardsign, kit: str, content: bytes | dict[str, Any], why: str
) -> None:
    """Its end is no fault of this program, and costs neither time nor memory."""
    if isinstance(content, bytes):
        Path(ATTACK).write_bytes(content)
    else:
        spoil(itself=content)
    ended = cardsign("conformance", kit, "--verifier", "true")
    assert (ended.status, why in ended.err) == (2, True), ended.err
    assert ATTACK in ended.err
    assert "internal" not in ended.err


@pytest.mark.parametrize("place", [ATTACK, "kit/vectors/cards/01-portable-es256.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_not_read(cardsign: Cardsign, kit: str, place: str, kind: str) -> None:
    """A pipe would be waited for, and a device has no end."""
    Path(place).unlink()
    os.mkfifo(place) if kind == "pipe" else Path(place).symlink_to("/dev/zero")
    ended = cardsign("conformance", kit, "--verifier", "true")
    assert (ended.status, "file.not_plain" in ended.err, place in ended.err) == (2, True, True)


@pytest.mark.parametrize("origin", ["--jwks=//x", "https://$(id)", "'; id //"])
def test_an_origin_that_is_none_reaches_no_command(
    cardsign: Cardsign, kit: str, origin: str
) -> None:
    """DIR may come from a stranger; the verifier is the user's."""
    attack = json.loads(Path(ATTACK).read_bytes())
    for name, described in attack["files"].items():
        if "lines" in described:
            lines = [
                f'origins = ["{origin}"]' if line.startswith("origins = ") else line
                for line in described["lines"]
            ]
            attack["files"][name] = {"lines": lines}
    Path(ATTACK).write_text(json.dumps(attack))
    ended = cardsign("conformance", kit, "--verifier", "sh -c 'echo \"$0\" >&2; exit 7' {origin}")
    assert "https://tides.example" in ended.text
    assert origin not in ended.text
