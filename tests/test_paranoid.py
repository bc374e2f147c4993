"""``--paranoid``: the definitions alone give the same bytes, verdicts and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cardsign.batch import in_processes
from cardsign.card import (
    PROFILES,
    Card,
    Json,
    Payloads,
    be_paranoid,
    cannot_name_us,
    canonicalize,
    is_paranoid,
    left_open,
    parse_object,
    plain_jcs,
)
from cardsign.card.strictjson import Scanner
from cardsign.cli import run_words
from cardsign.errors import CardsignError, InputRefused, JsonRefused
from cardsign.jose import JwkSet, PrivateKey
from cardsign.sign import SigningOptions, sign_document, sign_with_notes
from cardsign.trust import Holder, Policy, is_bundle
from cardsign.verify import reach_verdict
from tests.attack_runner.corpus import load_attacks
from tests.attack_runner.outcome import deviations
from tests.attack_runner.verifier import judge
from tests.spoilt_cards import EXAMPLES, SHARES, spoilt_card
from tests.support import NOW, PORTABLE, WITH_DEFAULTS, dump, without

ROOT = Path(__file__).parents[1]
CASES = [case for attack in load_attacks() for case in attack.cases]
CARDS = {
    "portable": PORTABLE,
    "with defaults": WITH_DEFAULTS,
    "of 0.3": {"name": "n", "url": "https://a.example", "skills": [], "x": 100.0},
}


@pytest.fixture
def paranoid() -> Iterator[None]:
    """The process takes no fast path while the test runs."""
    be_paranoid()
    yield
    be_paranoid(False)


def payloads_of(data: bytes) -> list[bytes | str]:
    """The bytes of each profile, or why there are none; and what each leaves open."""
    payloads = Payloads(Card.from_bytes(data).document)
    found: list[bytes | str] = []
    for name in PROFILES:
        payload = payloads.of(name)
        found.append(payload.data if payload else str(payloads.payload_or_refusal(name)))
        found.append(repr(left_open(payload).listed) if payload else "")
    return found


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
@pytest.mark.parametrize("alg", ["ES256", "RS256", "EdDSA"])
def test_the_same_signatures_and_verdicts(card: dict[str, object], alg: str) -> None:
    """Byte for byte, with joserfc as the second verifier."""
    key = PrivateKey.generate(alg)  # type: ignore[arg-type]
    policy = Policy.from_jwks(JwkSet.of([key.public]), name="them")
    found = []
    for paranoid in (False, True):
        be_paranoid(paranoid)
        try:
            signed = sign_with_notes(dump(card), [key], SigningOptions(force=True))
            report = reach_verdict(signed.document, expect=Holder(), policy=policy, now=NOW)
            told = signed.payloads, signed.notes
            found.append((signed, payloads_of(signed.document), report.to_json(), *told))
        finally:
            be_paranoid(False)
    assert found[0] == found[1]
    assert found[0][2]["answers"]["integrity"] == "yes"


class Liar:
    """A decoder that reads something else."""

    def raw_decode(self, text: str) -> tuple[dict[str, str], int]:
        """Take the text for read."""
        return {"name": "lie"}, len(text)


def _notes_of(card: bytes) -> set[str]:
    signed = sign_with_notes(card, [PrivateKey.generate("ES256")], SigningOptions())
    return {one.code for one in signed.notes}


def _is_read(card: bytes) -> bool:
    try:
        Card.from_bytes(card)
    except InputRefused:
        return False
    return True


#: What is fast, what it is made to say, and what is true all the same where it is not asked.
LIES: dict[str, tuple[str, Any, Callable[[], bool]]] = {
    "reader": (
        "card.strictjson._FAST",
        Liar(),
        lambda: Card.from_bytes(dump(WITH_DEFAULTS)).document == WITH_DEFAULTS,
    ),
    "reader of statements": (
        "card.strictjson._FAST",
        Liar(),
        lambda: is_bundle(b'{"format":"cardsign-bundle/1"}'),
    ),
    "encoder": (
        "card.serialize._encoder",
        lambda: lambda _: b"lie",
        lambda: Payloads(PORTABLE).data == plain_jcs(PORTABLE),
    ),
    "proof, of the profiles": (
        "card.portable._is_message",
        lambda *_: True,
        lambda: canonicalize(WITH_DEFAULTS, "prune-empty").value != WITH_DEFAULTS,
    ),
    "proof, of the names": (
        "card.portable._is_message",
        lambda *_: True,
        lambda: not _is_read(dump({**PORTABLE, "supported_interfaces": []})),
    ),
    "question for REQUIRED members": (
        "sign.signing.has_all_required",
        lambda _: True,
        lambda: "card.missing_required" in _notes_of(dump(without(PORTABLE, "/version"))),
    ),
    "estimate of the values": (
        "card.document.has_too_many_values",
        lambda _: True,
        lambda: not _is_read(b"{}"),
    ),
    "look for our UUID": (
        "card.extensions._UUID_DIGITS",
        [b"lie"],
        lambda: not cannot_name_us(b"{}"),
    ),
}


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(("fast", "lie", "truth"), LIES.values(), ids=LIES)
def test_nothing_fast_is_asked(
    fast: str, lie: Any, truth: Callable[[], bool], is_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lie changes nothing under the switch; without it, it does, so the lie would be seen."""
    monkeypatch.setattr(f"cardsign.{fast}", lie)
    be_paranoid(is_on)
    try:
        assert truth() is is_on
    finally:
        be_paranoid(False)


def test_what_is_refused_is_scanned_once(paranoid: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte with a fault at its end is not to cost two of the slow readings."""
    scanned = []

    class Counted(Scanner):
        def document(self) -> dict[str, Json]:
            scanned.append(self)
            return super().document()

    monkeypatch.setattr("cardsign.card.strictjson.Scanner", Counted)
    with pytest.raises(JsonRefused):
        parse_object(b'{"a":1,"a":2}')
    assert len(scanned) == 1


@pytest.mark.parametrize("share", range(SHARES))
def test_payloads_of_random_cards(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every profile makes the same, or refuses in the same words; as many values are too many."""
    monkeypatch.setattr("cardsign.card.document.MAX_CARD_VALUES", 40)
    usual: list[list[bytes | str]] = []
    for be_plain in (False, True):
        be_paranoid(be_plain)
        try:
            found = [_found_in(seed) for seed in range(share, EXAMPLES, SHARES)]
        finally:
            be_paranoid(False)
        assert found == (usual or found)
        usual = found
    assert {len(one) for one in found} == {1, 2 * len(PROFILES)}


def _found_in(seed: int) -> list[bytes | str]:
    try:
        return payloads_of(dump(spoilt_card(seed)))
    except CardsignError as refusal:
        return [str(refusal)]


def test_a_signature_is_checked_by_joserfc_too(
    paranoid: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check of ours that says yes to everything is not enough."""
    key, other = PrivateKey.generate("ES256"), PrivateKey.generate("ES256", kid="k")
    policy = Policy.from_jwks(JwkSet.of([key.public]), name="them")
    signed = json.loads(sign_document(dump(PORTABLE), [key], SigningOptions()))
    signed["signatures"][0]["signature"] = json.loads(
        sign_document(dump(PORTABLE), [other], SigningOptions())
    )["signatures"][0]["signature"]
    monkeypatch.setattr("cardsign.jose.algorithms.Algorithm.fits", lambda *_: True)
    report = reach_verdict(dump(signed), expect=Holder(), policy=policy, now=NOW)
    assert report.verdict == "invalid"


def test_the_list_of_shortcuts_is_whole() -> None:
    """Whoever reads it sees each module that asks the switch, and a test that exists of each."""
    listed = str(import_module("cardsign.card.paranoid").__doc__)
    switched, others = listed.split("The switch does not turn off")
    asking = {
        path.relative_to(ROOT / "cardsign").as_posix()
        for path in (ROOT / "cardsign").rglob("*.py")
        if re.search(r"(?<!def )is_paranoid\(\)", path.read_text(encoding="utf-8"))
    }
    assert set(re.findall(r"^``([\w/]+\.py)``:", switched, re.MULTILINE)) == asking - {"batch.py"}
    for entry in re.split(r"^``\w+/", switched, flags=re.MULTILINE)[1:]:
        assert "::test_" in entry, entry
    for file, name in re.findall(r"``(tests/\S+)::(\w+)``", switched + others):
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), name


@pytest.mark.thorough
def test_every_attack_says_the_same(paranoid: None) -> None:
    """The corpus once by the plain path."""
    assert is_paranoid()
    for case in CASES:
        assert deviations(case, judge) == [], case.id


def test_workers_are_told(paranoid: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that begin as new processes, and so with the switch as it was at first."""
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    assert list(in_processes(cannot_name_us, [b"{}"] * 2, 2)) == [False] * 2
    be_paranoid(False)
    assert list(in_processes(cannot_name_us, [b"{}"] * 2, 2)) == [True] * 2


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Carry out a command in this process; its status and what it writes to stdout."""
    return lambda *words: (run_words(words), capsys.readouterr().out)


def test_the_command_line(run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """The option holds for the one command, and its answer is the same."""
    asked = _asked(tmp_path, (key := PrivateKey.generate("ES256")), key)
    plain, usual = (run(*asked, "--json", *more) for more in (["--paranoid"], []))
    assert (plain[0], usual[0]) == (0, 0)
    assert json.loads(plain[1])["answers"] == json.loads(usual[1])["answers"]
    assert not is_paranoid()


def test_the_command_takes_no_fast_path(
    run: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check of ours that says yes to everything is believed without the option alone."""
    other, key = (PrivateKey.generate("ES256", kid="k") for _ in range(2))
    asked = _asked(tmp_path, other, key)
    monkeypatch.setattr("cardsign.jose.algorithms.Algorithm.fits", lambda *_: True)
    assert run(*asked, "--paranoid")[0] == 1
    assert run(*asked)[0] == 0


def test_options_that_are_refused_leave_nothing_behind(
    run: Callable[..., tuple[int, str]],
) -> None:
    """The next command of the process takes the fast paths again."""
    assert run("verify", "card.json", "--paranoid", "-j", "many")[0] == 2
    assert not is_paranoid()


def _asked(folder: Path, signer: PrivateKey, trusted: PrivateKey) -> list[str]:
    """The command that verifies a card of `signer` by the key set of `trusted`."""
    card, jwks = folder / "card.json", folder / "jwks.json"
    card.write_bytes(sign_document(dump(PORTABLE), [signer], SigningOptions()))
    jwks.write_text(json.dumps({"keys": [trusted.public.jwk()]}))
    return ["verify", str(card), "--jwks", str(jwks)]
