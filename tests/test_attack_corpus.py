"""The attack corpus, put to our own verifier, and the corpus itself."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from attacks_runner import CORPUS, FORMAT, Attack, Case, Outcome, Verifier, deviations, load, ours
from cryptography.hazmat.primitives.asymmetric import rsa

from cardsign.card.strictjson import parse_object
from cardsign.errors import JsonRefused
from cardsign.reasons import REASONS

#: The corpus only grows; raise this when it does.
LEAST_CASES = 1250
#: Bytes of all of it; what is larger is written as a recipe.
MOST_BYTES = 3_000_000

ATTACKS = load()
CASES = [case for attack in ATTACKS for case in attack.cases]

each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=[one.folder.name for one in ATTACKS])

ABOUT = {"format", "number", "title", "source", "why", "cases"}
CASE = {"id", "kind", "title", "policy", "lock", "memory", "steps"}
STEP = {"card", "public", "subject", "now", "evidence", "historic", "expect"}
EVIDENCE = {"keysets", "releases", "jwks", "jwks_url", "contact"}
REMEMBERED = {"keyset", "release", "newest_iat", "signed_before", "jwks", "first_contact"}
EXPECT = {"verdict", "code", "first", "warnings", "answers", "subject", "card"}
VERDICTS = {"trusted", "untrusted", "invalid", "indeterminate", "none"}


@pytest.fixture
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to reach anybody fails the test."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the verifier tried to connect")

    for name in ("connect", "connect_ex", "sendto", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("_no_network")
@pytest.mark.parametrize("case", CASES, ids=[f"attack-{case.id}" for case in CASES])
def test_we_agree_with_the_case(case: Case) -> None:
    """Verdict and reason at every step, and nothing is fetched."""
    assert deviations(case, ours) == []


# ------------------------------------------------------------------ neither yes nor no will do


def refusing(case: Case) -> Iterable[Outcome]:
    """A verifier that refuses everything, and gives every reason there is."""
    return [Outcome("untrusted", tuple(REASONS)) for _ in case.steps]


def accepting(case: Case) -> Iterable[Outcome]:
    """A verifier that accepts everything without a word."""
    return [Outcome("trusted") for _ in case.steps]


def doubting(case: Case) -> Iterable[Outcome]:
    """A verifier that never decides."""
    return [Outcome("indeterminate", tuple(REASONS)) for _ in case.steps]


@each_attack
@pytest.mark.parametrize("verifier", [refusing, accepting, doubting])
def test_one_answer_to_everything_fails(attack: Attack, verifier: Verifier) -> None:
    """In every directory."""
    assert any(deviations(case, verifier) for case in attack.cases)


@each_attack
def test_every_attack_has_an_honest_twin(attack: Attack) -> None:
    """An attack ends untrusted; a twin trusted, or at least not refused for an attack's reason."""
    last = {case.id: case.steps[-1]["expect"] for case in attack.cases}
    hostile = [last[case.id] for case in attack.cases if case.is_attack]
    honest = [last[case.id] for case in attack.cases if not case.is_attack]
    assert hostile
    assert all(one["verdict"] != "trusted" for one in hostile)
    assert any(one["verdict"] == "trusted" for one in honest)
    refusals = {one["code"] for one in hostile}
    assert all(one["verdict"] == "trusted" or one["code"] not in refusals for one in honest)


# ------------------------------------------------------------------ the data


def test_the_corpus_is_large_enough() -> None:
    """As many cases as were promised, in no more bytes than a checkout should bear."""
    assert len(CASES) >= LEAST_CASES
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < MOST_BYTES


def test_numbers_and_names_are_unique() -> None:
    """A number names a directory, an id a case."""
    assert Counter(attack.number for attack in ATTACKS).most_common(1)[0][1] == 1
    assert Counter(case.id for case in CASES).most_common(1)[0][1] == 1


@each_attack
def test_the_form_of_a_directory(attack: Attack) -> None:
    """As README.md has it; no member unknown, none missing."""
    assert set(attack.about) == ABOUT
    assert attack.about["format"] == FORMAT
    assert attack.folder.name.startswith(f"{attack.number:03}-")
    assert re.fullmatch(r"keys-and-trust \d+|finding \d+|rules? [KV]\d+.*", attack.about["source"])
    for case in attack.cases:
        members = case.members
        assert set(members) <= CASE
        assert {"id", "kind", "title", "policy", "steps"} <= set(members)
        assert re.fullmatch(r"[a-z0-9-]+", members["id"])
        assert members["kind"] in ("attack", "twin")
        assert members["title"]
        memory = members.get("memory", "none")
        if memory not in ("none", "fresh"):
            assert all(set(known) <= REMEMBERED for known in memory.values())
        assert members["steps"]
        for step in members["steps"]:
            _check_step(step)


def _check_step(step: dict[str, Any]) -> None:
    assert set(step) <= STEP
    assert {"card", "subject", "now", "expect"} <= set(step)
    assert set(step.get("evidence", {})) <= EVIDENCE
    assert len(set(step["subject"]) & {"issuer", "origin", "url", "holder"}) <= 1
    expect = step["expect"]
    assert set(expect) <= EXPECT
    assert expect["verdict"] in VERDICTS
    assert ("warnings" if expect["verdict"] == "trusted" else "code") in expect
    codes = {*expect.get("warnings", ()), *([expect["code"]] if "code" in expect else ())}
    assert codes <= set(REASONS)


@each_attack
def test_no_two_cases_are_the_same(attack: Attack) -> None:
    """What is given differs, or the case says nothing of its own."""
    given = []
    for case in attack.cases:
        about = [case.members["policy"], case.members.get("lock"), case.members.get("memory")]
        steps = [{k: v for k, v in step.items() if k != "expect"} for step in case.steps]
        given.append(repr((about, steps)))
    assert len(set(given)) == len(given)


@each_attack
def test_every_file_is_used(attack: Attack) -> None:
    """And every file that is named is there; .json is strict JSON, .bin is not."""
    there = {path.name for path in attack.folder.iterdir()}
    named = {name for case in attack.cases for name in case.files()}
    assert named == there - {"attack.json"}
    for name in named:
        if not name.endswith(".toml"):
            data = (attack.folder / name).read_bytes()
            assert Path(name).suffix == (".json" if is_strict(data) else ".bin"), name


def is_strict(data: bytes) -> bool:
    """Whether bytes are one strict JSON object."""
    try:
        parse_object(data)
    except JsonRefused:
        return False
    return True


#: A private member with more than a placeholder in it.
PRIVATE = re.compile(rb'"?\b(?:d|p|q|dp|dq|qi|k|priv)"?\s*[:=]\s*"[A-Za-z0-9_-]{5,}"')


def test_no_private_key_is_in_it() -> None:
    """Where an attack is about private members, they hold placeholders."""
    guilty = [path.name for path in _files() if PRIVATE.search(path.read_bytes())]
    assert guilty == []
    assert PRIVATE.search(b'{"kty": "EC", "d": "AAAAAAAAAA"}')
    assert PRIVATE.search(b'public = { d = "AAAAAAAAAA" }')


def _files() -> Iterator[Path]:
    return (path for path in CORPUS.rglob("*") if path.is_file())


def test_a_modulus_is_refused_before_it_becomes_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 16 is about time: no arithmetic of RSA sees such a number."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("RSA arithmetic was done")

    [attack] = [one for one in ATTACKS if one.number == 16]
    monkeypatch.setattr(rsa.RSAPublicNumbers, "public_key", refuse)
    for case in attack.cases:
        if case.is_attack and not case.id.endswith("beside"):  # which has a good key too
            assert deviations(case, ours) == []
        else:
            with pytest.raises(AssertionError, match="arithmetic"):
                deviations(case, ours)


# ------------------------------------------------------------------ the runner


def outcome(**members: Any) -> Outcome:
    """What `trusted` below expects, changed."""
    good: dict[str, Any] = {
        "verdict": "trusted",
        "codes": ("trust.freshness_waived",),
        "answers": {"integrity": "yes"},
        "subject": "harbour",
        "card": {"name": "x"},
    }
    return Outcome(**{**good, **members})


@pytest.mark.parametrize(
    "members",
    [
        {"verdict": "untrusted"},
        {"codes": ("trust.freshness_waived", "sig.bad")},
        {"answers": {"integrity": "no"}},
        {"answers": None},
        {"subject": "evil"},
        {"card": {"name": "y"}},
        {"card": None},
    ],
    ids=str,
)
def test_the_runner_sees_what_is_wrong_with_a_trusted_card(
    members: dict[str, Any], tmp_path: Path
) -> None:
    """Each member of `expect` is compared."""
    case = _case(
        tmp_path,
        {
            "verdict": "trusted",
            "warnings": ["trust.freshness_waived"],
            "answers": {"integrity": "yes"},
            "subject": "harbour",
            "card": "verified.json",
        },
    )
    assert deviations(case, lambda _: [outcome()]) == []
    assert deviations(case, lambda _: [outcome(**members)]) != []


@pytest.mark.parametrize(
    ("codes", "first", "agrees"),
    [
        (("sig.bad",), False, True),
        (("key.unknown", "sig.bad"), False, True),
        (("key.unknown", "sig.bad"), True, False),
        (("sig.bad", "key.unknown"), True, True),
        (("key.unknown",), False, False),
        ((), False, False),
    ],
)
def test_the_runner_sees_the_reason(
    codes: tuple[str, ...], first: bool, agrees: bool, tmp_path: Path
) -> None:
    """Among the reasons, or before all others."""
    case = _case(tmp_path, {"verdict": "invalid", "code": "sig.bad", "first": first})
    found = deviations(case, lambda _: [Outcome("invalid", codes)])
    assert (found == []) is agrees


def test_the_runner_sees_a_card_that_nobody_should_get(tmp_path: Path) -> None:
    """Whatever else is as it should be; and outcomes that are missing."""
    case = _case(tmp_path, {"verdict": "invalid", "code": "sig.bad"})
    assert deviations(case, lambda _: [Outcome("invalid", ("sig.bad",), card={})]) != []
    assert deviations(case, lambda _: []) != []


def test_an_input_is_made_of_its_pieces(tmp_path: Path) -> None:
    """As README.md has it."""
    case = _case(tmp_path, {})
    pieces = [{"text": "ä[", "times": 2}, {"base64": "/w=="}, {"file": "verified.json"}]
    assert case.input({"pieces": pieces}) == "ä[ä[".encode() + b'\xff{"name": "x"}'


def _case(folder: Path, expect: dict[str, Any]) -> Case:
    (folder / "verified.json").write_bytes(b'{"name": "x"}')
    return Case(folder, {"id": "x", "kind": "attack", "steps": [{"expect": expect}]})
