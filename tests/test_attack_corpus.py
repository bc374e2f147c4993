"""The attack corpus, put to our own verifier, and the corpus itself."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jsonschema import Draft202012Validator

from cardsign.card.strictjson import parse_object
from cardsign.errors import JsonRefused
from cardsign.findings import list_codes
from tests.attack_runner.corpus import CORPUS, Attack, Case, load_attacks, read_file
from tests.attack_runner.make import spread
from tests.attack_runner.outcome import Outcome, Traffic, deviations
from tests.attack_runner.verifier import judge
from tests.support import each_case, edited, read_cases

#: The corpus only grows; raise this when it does.
LEAST_CASES = 1860
#: Bytes of all of it; what is larger is written as a recipe.
MOST_BYTES = 3_200_000

ROOT = Path(__file__).resolve().parents[1]
ATTACKS = load_attacks()
CASES = [case for attack in ATTACKS for case in attack.cases]
#: The cases of each attack, and apart from them its transcripts.
SETS = {
    f"{attack.name}{what}": cases
    for attack in ATTACKS
    for what, cases in (("", attack.cases), ("-on-line", attack.transcripts))
    if cases
}

each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=[one.name for one in ATTACKS])
each_set = pytest.mark.parametrize("cases", SETS.values(), ids=SETS)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("case", CASES, ids=[f"attack-{case.id}" for case in CASES])
def test_we_agree_with_the_case(case: Case) -> None:
    """Verdict and reason at every step, and nothing is fetched."""
    assert deviations(case, judge) == []


# ------------------------------------------------------------------ neither yes nor no will do


@each_set
def test_one_answer_to_everything_fails(cases: list[Case]) -> None:
    """To refuse all with every reason there is, to accept all, never to decide: in every attack."""
    every = tuple(list_codes())
    for outcome in (
        Outcome("untrusted", every),
        Outcome("trusted"),
        Outcome("indeterminate", every),
    ):
        answers = [deviations(case, lambda case: [outcome] * len(case.steps)) for case in cases]  # noqa: B023
        assert any(answers), outcome.verdict


@each_set
def test_every_attack_has_an_honest_twin(cases: list[Case]) -> None:
    """An attack ends untrusted; a twin trusted, or at least not refused for an attack's reason."""
    last = {case.id: case.steps[-1]["expect"] for case in cases}
    hostile = [last[case.id] for case in cases if case.is_attack]
    honest = [last[case.id] for case in cases if not case.is_attack]
    assert hostile
    assert all(one["verdict"] != "trusted" for one in hostile)
    assert any(one["verdict"] == "trusted" for one in honest)
    refusals = {one["code"] for one in hostile}
    assert all(one["verdict"] == "trusted" or one["code"] not in refusals for one in honest)


# ------------------------------------------------------------------ the data


def test_the_corpus_is_large_enough() -> None:
    """As many cases as were promised, in no more bytes than a checkout should bear."""
    assert sum(map(len, SETS.values())) >= LEAST_CASES
    assert sum(path.stat().st_size for path in CORPUS.iterdir()) < MOST_BYTES


def test_numbers_and_names_are_unique() -> None:
    """A number names an attack, an id a case."""
    every = [case for cases in SETS.values() for case in cases]
    assert Counter(attack.number for attack in ATTACKS).most_common(1)[0][1] == 1
    assert Counter(case.id for case in every).most_common(1)[0][1] == 1


def test_no_attack_of_the_list_is_left_out() -> None:
    """1 to 74, those on verifiers; what is none of theirs (75 to 84) is tested beside the keys."""
    assert [one.number for one in ATTACKS if one.number < 100] == list(range(1, 75))


@each_attack
def test_what_is_no_data_is_a_test(attack: Attack) -> None:
    """Every attack says something, and every test that one names is there."""
    assert attack.cases or attack.transcripts or attack.tests
    for name in attack.tests:
        file, _, function = name.partition("::")
        if not function:  # a story
            assert (ROOT / file).is_file()
            continue
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert function in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


FORM = Draft202012Validator(json.loads((ROOT / "tests/attack.schema.json").read_bytes()))


@each_attack
def test_the_form_of_an_attack(attack: Attack) -> None:
    """As its schema has it, with codes that exist; and laid out as it was written."""
    text = (CORPUS / f"{attack.name}.json").read_text(encoding="utf-8")
    assert spread(attack.about) + "\n" == text
    FORM.validate(attack.about)
    assert attack.name.startswith(f"{attack.number:03}-")
    for case in (*attack.cases, *attack.transcripts):
        for step in case.steps:
            expect = step["expect"]
            assert {*expect.get("warnings", ()), expect.get("code", "sig.bad")} <= set(list_codes())


@each_case(__file__, "malformed", "edits")
def test_what_is_no_attack_is_seen(edits: list[Any]) -> None:
    """In cases and in transcripts."""
    attack = next(one for one in ATTACKS if one.cases and one.transcripts)
    assert not FORM.is_valid(edited(attack.about, edits))


@each_set
def test_no_two_cases_are_the_same(cases: list[Case]) -> None:
    """What is given differs, or the case says nothing of its own."""
    given = []
    for case in cases:
        about = [case.members["policy"], case.members.get("lock"), case.members.get("memory")]
        steps = [{k: v for k, v in step.items() if k != "expect"} for step in case.steps]
        given.append(repr((about, steps)))
    assert len(set(given)) == len(given)


@each_attack
def test_the_files_of_an_attack(attack: Attack) -> None:
    """All are used; .json is strict JSON, .bin is not. A case with one that is absent cannot run.

    None holds a private key: where an attack is about private members, they are placeholders.
    """
    used = {text for case in (*attack.cases, *attack.transcripts) for text in texts(case.members)}
    assert set(attack.files) <= used
    assert not PRIVATE.search((CORPUS / f"{attack.name}.json").read_bytes())
    for name in attack.files:
        data = attack.file(name)
        assert not PRIVATE.search(data), name
        if not name.endswith(".toml"):
            assert Path(name).suffix == (".json" if is_strict(data) else ".bin"), name


def texts(value: Any) -> Iterator[str]:
    """All strings in a JSON value, such as the names of files."""
    if isinstance(value, str):
        yield value
    children = value.values() if isinstance(value, dict) else value
    for child in children if isinstance(value, dict | list) else ():
        yield from texts(child)


def is_strict(data: bytes) -> bool:
    """Whether bytes are one strict JSON object."""
    try:
        parse_object(data)
    except JsonRefused:
        return False
    return True


#: A private member with more than a placeholder in it.
PRIVATE = re.compile(rb'"?\b(?:d|p|q|dp|dq|qi|k|priv)"?\s*[:=]\s*"[A-Za-z0-9_-]{5,}"')


def test_a_private_key_would_be_found() -> None:
    """In JSON as in TOML."""
    assert PRIVATE.search(b'{"kty": "EC", "d": "AAAAAAAAAA"}')
    assert PRIVATE.search(b'public = { d = "AAAAAAAAAA" }')


def test_a_modulus_is_refused_before_it_becomes_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 16 is about time: no arithmetic of RSA sees such a number."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("RSA arithmetic was done")

    [attack] = [one for one in ATTACKS if one.number == 16]
    monkeypatch.setattr(rsa.RSAPublicNumbers, "public_key", refuse)
    for case in attack.cases:
        if case.is_attack and not case.id.endswith("beside"):  # which has a good key too
            assert deviations(case, judge) == []
        else:
            with pytest.raises(AssertionError, match="arithmetic"):
                deviations(case, judge)


# ------------------------------------------------------------------ the runner


def _deviations(expect: dict[str, Any], *outcomes: Outcome) -> list[str]:
    """What the runner says of a case of one step."""
    attack = Attack("x", {"files": {"verified.json": {"text": '{"name": "x"}'}}})
    case = Case(attack, {"id": "x", "kind": "attack", "steps": [{"expect": expect}]})
    return deviations(case, lambda _: outcomes)


@each_case(__file__, "said", "name", "edits", "agrees")
def test_the_runner_sees_what_a_verifier_says(
    name: str, edits: list[dict[str, Any]], agrees: bool
) -> None:
    """Each member of `expect` is compared, and nobody gets a card who should not."""
    expect, outcome = read_cases(__file__)["expectations"][name]
    outcomes = [Outcome(**outcome | edit) for edit in edits]
    assert (_deviations(expect, *outcomes) == []) is agrees


@pytest.mark.parametrize("old", ["x", "{", ""], ids=["absent", "twice", "empty"])
def test_an_edit_must_be_clear(old: str) -> None:
    """What is replaced occurs once."""
    with pytest.raises(ValueError, match="once"):
        read_file({"a": {"text": "{{"}, "bad": {"of": "a", "replace": [[old, "y"]]}}, "bad")


TIDES = "https://tides.example"
DONE = Traffic(
    lookups=("tides.example",),
    reached=("93.184.215.14:443",),
    requests=((f"{TIDES}/a", "GET /a HTTP/1.1\r\n\r\n"),),
    taken=9,
)


@each_case(__file__, "traffics", "agreeing", "contrary")
def test_the_runner_sees_what_is_done_on_the_network(
    agreeing: dict[str, Any], contrary: dict[str, Any]
) -> None:
    """Each member of `expect` that is about it is compared; a look-up tells somebody something."""
    base, done = {"verdict": "invalid", "asked": [f"{TIDES}/a"]}, Outcome("invalid", traffic=DONE)
    assert _deviations({**base, **agreeing}, done) == []
    assert _deviations({**base, **contrary}, done) != []
    strange = Outcome("invalid", traffic=Traffic(lookups=("evil.example",)))
    assert _deviations(base, strange) != []


@pytest.mark.parametrize("name", read_cases(__file__)["contents"])
def test_a_file_is_what_it_is_said_to_hold(name: str) -> None:
    """As README.md has it, in each of its forms; the table has a character for a byte."""
    tables = read_cases(__file__)
    assert [read_file(tables["files"], name).decode("latin-1")] == tables["contents"][name]
