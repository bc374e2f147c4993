"""docs/reports/attacks.md: it says what was found, and a share of it is found again here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from attack_page import cell, page, plain, record
from attack_table import PAGE, RECORD
from attack_trial import ASKED, MAX_PUT, Answer, Panel, Result, put, put_on_line
from judges import Version
from roster import VERIFIERS

from tests.attack_runner.corpus import Case, load_attacks

ATTACKS = load_attacks()
CASES = [(attack.number, case) for attack in ATTACKS for case in attack.cases]
TRANSCRIPTS = [(attack.number, case) for attack in ATTACKS for case in attack.transcripts]
#: Each such case is put to the others again: a minute's work is left to `make attacks`.
STEP = 9


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """docs/reports/attacks.json."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def results(recorded: dict[str, Any]) -> list[Result]:
    """What it says, as the run had it."""
    return [
        _result(attack.number, said)
        for attack in ATTACKS
        for said in recorded["attacks"].get(attack.name, ())
    ]


def _result(number: int, said: dict[str, Any]) -> Result:
    answers: dict[str, Answer] = {name: said.get(name, "n/a") for name in ASKED}
    right, on_line = said["cardsign"] == "right", said.get("on line", False)
    why = said.get("not put", "")
    return Result(number, said["case"], said["kind"], right, answers, why, on_line)


@pytest.fixture(scope="module")
def versions(recorded: dict[str, Any]) -> dict[str, Version]:
    """The programs that were asked."""
    return {name: Version(**version) for name, version in recorded["programs"].items()}


def test_the_record_has_every_case(results: list[Result]) -> None:
    """In the order of the corpus, and we are right in each."""
    found = {
        on_line: [(one.attack, one.id, one.kind) for one in results if one.on_line is on_line]
        for on_line in (False, True)
    }
    there = {
        on_line: [(number, case.members["id"], case.members["kind"]) for number, case in cases]
        for on_line, cases in ((False, CASES), (True, TRANSCRIPTS))
    }
    assert found == there
    assert all(one.right for one in results)


def test_the_page_is_that_of_the_record(
    results: list[Result], versions: dict[str, Version]
) -> None:
    """Both were written by one run, and nobody has edited them since."""
    assert page(ATTACKS, results, versions) == PAGE.read_text(encoding="utf-8")
    assert record(ATTACKS, results, versions) == RECORD.read_text(encoding="utf-8")


def test_every_verifier_was_asked(versions: dict[str, Version]) -> None:
    """A program that could not be run leaves no trace of a run in the repository."""
    assert set(versions) == {VERIFIERS[name].program for name in ASKED}


@pytest.mark.needs_judges
def test_a_share_of_it_is_found_again(results: list[Result]) -> None:
    """Verifiers answer as they are said to."""
    at_hand = [one for one in results if not one.on_line][::STEP]
    on_line = [one for one in results if one.on_line][::STEP]
    with Panel() as panel:
        found = [panel.result(number, case) for number, case in CASES[::STEP]]
        found += [panel.fetched(number, case) for number, case in TRANSCRIPTS[::STEP]]
    assert [plain(one) for one in found] == [plain(one) for one in (*at_hand, *on_line)]


# ------------------------------------------------------------------ what is put to them


def _case(name: str) -> Case:
    [case] = [case for _, case in CASES if case.id == name]
    return case


NOT_PUT = {
    "071-foreign-interface/only": "policy",
    "103-no-subject/nobody": "policy",
    "061-stripping/vanished": "memory",
    "068-encodings/latin-1": "bytes",
    "067-sizes/fifty-megabytes": "size",
    "067-sizes/jwks-deep": "keys",
}


@pytest.mark.parametrize(("name", "why"), NOT_PUT.items(), ids=NOT_PUT)
def test_what_is_not_put_to_others(name: str, why: str) -> None:
    """It could not be, or it would be no fair question."""
    assert put(_case(name)) == (None, why)


@pytest.mark.parametrize(
    ("name", "is_put"),
    [
        ("033-redirects/same-origin", True),
        ("037-wrong-answers/html-card", True),
        ("036-endless/silence", True),
        ("036-endless/endless-body", False),
        ("031-rebinding/once", False),
        ("038-certificates/expired", False),
        ("035-spellings/userinfo", False),
        ("039-storm/storm", False),
        ("113-withheld/header-year", False),
    ],
)
def test_which_transcripts_are_put_to_a_resolver(name: str, is_put: bool) -> None:
    """Where one server says something, once, and comes to an end."""
    [case] = [case for _, case in TRANSCRIPTS if case.id == name]
    request, why_not = put_on_line(case)
    assert (request is not None, why_not) == (is_put, "" if is_put else "network")


def test_what_is_put_to_others() -> None:
    """The card as it is, the keys that the policy means, the algorithms that it names."""
    case = _case("006-rsa-variant/ps256")
    request, why_not = put(case)
    assert request is not None
    assert why_not == ""
    assert request["card"].encode() == case.input(case.steps[0]["card"])
    assert request["algorithms"] == ["PS256"]
    assert [key["alg"] for key in request["jwks"]["keys"]] == ["PS256"]

    request, _ = put(_case("016-weak-rsa/beside"))
    assert request is not None
    assert len(request["jwks"]["keys"]) == 2
    assert all(len(one["card"]) <= MAX_PUT for one in _requests())


def _requests() -> Iterator[dict[str, Any]]:
    for _, case in CASES:
        request, _ = put(case)
        if request is not None:
            yield request


# ------------------------------------------------------------------ the cells


@pytest.mark.parametrize(
    ("hostile", "honest", "text"),
    [
        (["refuses", "fails"], ["accepts"], "refuses 2"),
        (["accepts", "refuses"], ["accepts"], "**accepts 1 of 2**"),
        (["refuses", "n/a"], ["refuses", "accepts"], "refuses 1; honest 1 of 2"),
        (["n/a"], ["accepts"], "n/a"),
    ],
)
def test_a_cell(hostile: list[Answer], honest: list[Answer], text: str) -> None:
    """What was put is counted, and refusing the honest as well is said."""

    def made(kind: str, answers: list[Answer]) -> list[Result]:
        return [Result(1, "x", kind, True, {"a": one}, "") for one in answers]

    assert cell(made("attack", hostile), made("twin", honest), "a") == text
