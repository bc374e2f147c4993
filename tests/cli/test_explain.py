"""``cardsign explain`` on the command line: what a person reads, and the page that shows it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey
from tests.cli.conftest import Cardsign
from tests.support import LAX, OLD, PORTABLE, by_another_sdk, dump, put, signed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "explain.md"
BLOCK = re.compile(r"^```(json|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _keys(cardsign: Cardsign, alice: PrivateKey) -> None:
    """`jwks.json` in the empty folder that `cardsign` makes."""
    Path("jwks.json").write_bytes(JwkSet.of([alice.public]).to_bytes())


def written(card: Any, name: str = "card.json") -> str:
    """The card as a file; its name."""
    Path(name).write_bytes(card if isinstance(card, bytes) else dump(card))
    return name


def test_the_page_shows_what_is_printed(cardsign: Cardsign) -> None:
    """Line by line."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    ((_, card),) = [block for block in blocks if block[0] == "json"]
    key = PrivateKey.generate("ES256", kid="harbour-2026")
    Path("jwks.json").write_bytes(JwkSet.of([key.public]).to_bytes())
    received = json.loads(card)
    entry = sign_payload(json.dumps(received).encode(), key, typ="JOSE")
    written({**received, "signatures": [entry]})
    ((_, run),) = [block for block in blocks if block[0] == "console"]
    command, _, shown = run.partition("\n")
    ended = cardsign(*command.removeprefix("$ cardsign ").split())
    assert (ended.status, ended.text) == (1, shown)


def test_a_header_member_without_a_value_is_none(cardsign: Cardsign) -> None:
    """JSON's null says as little as a member that is not there."""
    header = base64.urlsafe_b64encode(b'{"alg":"ES256","kid":null}').decode()
    card = {**PORTABLE, "signatures": [{"protected": header.rstrip("="), "signature": "AAAA"}]}
    ended = cardsign("explain", written(card), "--jwks", "jwks.json")
    assert "signature 0: alg ES256, kid none, typ none\n" in ended.text


STATUSES: dict[str, tuple[Any, int]] = {
    "our own signatures": (lambda key: signed(LAX, key), 0),
    "one that only js-instance verifies": (lambda key: by_another_sdk(OLD, key, "js-instance"), 0),
    "none at all": (lambda key: PORTABLE, 0),
    "one that fits nothing": (lambda key: {**signed(LAX, key), "name": "Other"}, 1),
    "one that is no object": (lambda key: {**LAX, "signatures": [None]}, 1),
    "seventeen": (lambda key: {**LAX, "signatures": signed(LAX, key)["signatures"][:1] * 17}, 1),
    "a card that cannot be read": (lambda key: b'{"name": "a", "name": "b"}', 1),
    "no JSON": (lambda key: b"<html>", 1),
}


@pytest.mark.parametrize(("card", "status"), STATUSES.values(), ids=STATUSES)
def test_the_status_says_whether_there_is_something_to_complain_of(
    card: Any, status: int, cardsign: Cardsign, alice: PrivateKey
) -> None:
    """And the explanation is printed all the same, as text and as JSON."""
    name = written(card(alice))
    text = cardsign("explain", name, "--jwks", "jwks.json")
    data = cardsign("explain", name, "--jwks", "jwks.json", "--json")
    assert (text.status, data.status) == (status, status)
    assert text.text.startswith("card.json: ")
    assert (text.err, data.err) == ("", "")
    assert data.json["schema"] == "cardsign.explanation/1"


BY_OTHERS = ["prune-empty", "js-instance"]


@pytest.mark.parametrize("profile", BY_OTHERS)
def test_no_signature_by_another_profile_is_called_tampered_with(
    profile: str, cardsign: Cardsign, alice: PrivateKey
) -> None:
    """What somebody else's SDK made is no accusation; a changed card is one."""
    card = put(LAX, "/description", "Ebbe für alle")
    accusing = re.compile(r"tamper|changed|sig\.bad|spelling")
    honest = cardsign(
        "explain", written(by_another_sdk(card, alice, profile)), "--jwks", "jwks.json"
    )
    assert not accusing.search(honest.text.lower())
    assert f"fits {profile}" in honest.text
    edited = {**by_another_sdk(card, alice, profile), "name": "Other"}
    told = cardsign("explain", written(edited), "--jwks", "jwks.json")
    assert accusing.search(told.text.lower())


@pytest.mark.parametrize(("more", "rest"), [(0, ""), (4, ", /x0 and 3 more")])
def test_what_a_profile_leaves_out_is_named_or_counted(
    cardsign: Cardsign, more: int, rest: str
) -> None:
    """The first of it by name."""
    card = {**LAX, **{f"x{number}": "" for number in range(more)}}
    text = cardsign("explain", written(card)).text
    (line,) = (one for one in text.splitlines() if one.startswith("    prune-empty "))
    assert line.endswith(f"; not in it: /securityRequirements, /iconUrl, /x-berth{rest}")


def test_what_a_card_says_reaches_no_terminal_raw(cardsign: Cardsign, alice: PrivateKey) -> None:
    """Not in a name, a value, a kid, a header member, nor in the lines of a broken text."""
    evil = "\x1b[31m\u202e"
    card = {**signed(LAX, alice), f"x{evil}": evil, "signatures": []}
    texts = [
        cardsign("explain", written(card)).text,
        cardsign("explain", written(b'{"a": "' + evil[4:].encode() + b'" x}')).text,
        cardsign("explain", written({**card, "signatures": signed(LAX, alice)["signatures"]}),
                 "--jwks", "jwks.json").text,
    ]  # fmt: skip
    for text in texts:
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "\\u001b" in texts[0]
    assert "\\u{202e}" in texts[0]


def test_predictions_are_called_so(cardsign: Cardsign, alice: PrivateKey) -> None:
    """In the text by their heading, in JSON one by one; without keys there are none."""
    name = written(signed(PORTABLE, alice))
    text = cardsign("explain", name, "--jwks", "jwks.json").text
    heading = text.index("would accept it (predicted):")
    assert text.index("a2a-sdk") > heading
    data = cardsign("explain", name, "--jwks", "jwks.json", "--json").json
    assert data["predictions"]
    assert "predicted" not in cardsign("explain", name).text


def test_the_card_may_come_from_standard_input(cardsign: Cardsign, alice: PrivateKey) -> None:
    """As a pipe gives it."""
    card = cardsign("explain", "-", "--jwks", "jwks.json", stdin=dump(signed(LAX, alice)))
    assert (card.status, "signature 2: " in card.text) == (0, True)


def test_a_changed_card_fits_no_known_spelling(cardsign: Cardsign, alice: PrivateKey) -> None:
    """The twin of the page's card: how many were tried is said, and nothing is advised."""
    edited = {**by_another_sdk(LAX, alice, "served-as-is"), "name": "Other"}
    text = cardsign("explain", written(edited), "--jwks", "jwks.json").text
    assert "    fits none of 5 known spellings of this card\n" in text
    assert "in another spelling" not in text


FAULTS: dict[str, tuple[list[str], str]] = {
    "no such card": (["absent.json"], "file.not_found"),
    "no such key set": (["card.json", "--jwks", "absent.json"], "file.not_found"),
    "a card for a key set": (["card.json", "--jwks", "card.json"], "jwks.malformed"),
    "no card": ([], "usage.invalid"),
}


@pytest.mark.parametrize(("arguments", "code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_user_is_status_2(
    arguments: list[str], code: str, cardsign: Cardsign
) -> None:
    """Nothing is said about the card then."""
    written(LAX)
    ended = cardsign("explain", *arguments)
    assert (ended.status, ended.out, code in ended.err) == (2, b"", True)


def test_a_trusted_issuer_gives_the_keys(cardsign: Cardsign, alice: PrivateKey) -> None:
    """Those of its anchor; a name that the policy does not have is a fault."""
    written(signed(PORTABLE, alice))
    origin = "https://tides.example"
    assert cardsign("trust", "init").status == 0
    added = cardsign("trust", "add", "tides", "--origin", origin, "--yes", "--jwks", "jwks.json")
    assert added.status == 0, added.err
    by_name = cardsign("explain", "card.json", "--issuer", "tides")
    assert by_name.status == 0, by_name.err
    assert by_name.text == cardsign("explain", "card.json", "--jwks", "jwks.json").text
    assert by_name.text.splitlines()[1].startswith("  1 of 1 signatures fit this card")
    assert cardsign("explain", "card.json", "--issuer", "nobody").status == 2
    both = cardsign("explain", "card.json", "--issuer", "tides", "--jwks", "jwks.json")
    assert (both.status, "both name the keys" in both.err) == (2, True)
