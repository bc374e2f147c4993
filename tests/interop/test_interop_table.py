"""The table of docs/reports/interop.md: it says what was found, and no exception goes unnoticed."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import exceptions
import pytest
from exceptions import Exempt
from judge_joserfc import answer
from judges import Judge
from population import random_card
from roster import PROGRAMS, VERIFIERS
from support import LAX, OLD, PORTABLE, dump, put, signed
from table import PAGE, RECORD
from trial import ACCEPTED, ALL, CANNOT_PARSE, OWN_PAYLOAD, Row

from cardsign import JwkSet, PrivateKey

WRITTEN = {"jose": {"own payload": Exempt("of the moon", {"real 1.0": 2, "random 1.0": 5})}}


def record() -> dict[str, Any]:
    """docs/reports/interop.json."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


def recorded_rows() -> list[Row]:
    """The rows of docs/reports/interop.json, as far as our signatures go."""
    return [
        Row(
            "",
            row["class"],
            judged={
                **dict.fromkeys(
                    (f"{v}{suffix}" for suffix in ("", ALL) for v in VERIFIERS), ACCEPTED
                ),
                **row["not accepted"],
            },
        )
        for row in record()["ends"]
        if "not accepted" in row
        for _ in range(row["cards"])
    ]


# ------------------------------------------------------------------ what is committed


def test_the_record_has_the_exceptions_that_were_written_down() -> None:
    """No more and no fewer, to the card."""
    written = exceptions.load()
    assert exceptions.found_in(recorded_rows(), written) == written


def usable(outcome: str) -> bool:
    """Whether some signature could make the verifier accept a card that it can use."""
    return outcome != CANNOT_PARSE and not outcome.startswith("no endpoint")


@pytest.mark.parametrize("suffix", ["", ALL], ids=["by default", "all"])
@pytest.mark.parametrize("verifier", VERIFIERS)
def test_the_page_has_the_totals_of_the_record(verifier: str, suffix: str) -> None:
    """The last cells of a judge's line: how many it accepts, and of how many that it can use."""
    outcomes = [row.judged[verifier + suffix] for row in recorded_rows()]
    accepted = outcomes.count(ACCEPTED)
    share = f"{100 * accepted / sum(map(usable, outcomes)):.1f} %"
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    end = f"| {accepted:,} | {share} |"
    assert any(one.startswith(f"| {verifier} |") and one.endswith(end) for one in lines)


#: The least share of the cards that a verifier can use which it accepts with `--compat all`.
GOALS = {"a2a-js plain": 0.96, "a2a-protocol-types typed": 0.85}


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_with_all_compat_signatures_every_judge_accepts_what_it_can_use(verifier: str) -> None:
    """Whatever it does not accept asks for a payload that is no profile of ours."""
    outcomes = [row.judged[verifier + ALL] for row in recorded_rows()]
    can_use = [one for one in outcomes if usable(one)]
    assert set(can_use) <= {ACCEPTED, OWN_PAYLOAD}
    assert can_use.count(ACCEPTED) >= GOALS.get(verifier, 1) * len(can_use)


def test_every_judge_of_the_roster_is_in_the_record() -> None:
    """A judge that could not be run leaves no trace of a run in the repository."""
    assert list(record()["programs"]) == list(PROGRAMS)
    assert record()["rs256"]["differing"] == []


def test_a_card_is_its_seeds() -> None:
    """The same numbers on every machine need the same cards."""
    assert random_card(7) == random_card(7)
    assert random_card(7) != random_card(8)


# ------------------------------------------------------------------ both directions

FINDINGS: dict[str, tuple[dict[str, dict[str, int]], list[str]]] = {
    "the same": ({"own payload": {"real 1.0": 2, "random 1.0": 5}}, []),
    "one card more": (
        {"own payload": {"real 1.0": 3, "random 1.0": 5}},
        ["jose: own payload: real 1.0: 3 cards, expected 2"],
    ),
    "one card fewer": (
        {"own payload": {"real 1.0": 1, "random 1.0": 5}},
        ["jose: own payload: real 1.0: 1 cards, expected 2"],
    ),
    "another class": (
        {"own payload": {"real 1.0": 2, "random 1.0": 5, "real 0.3": 1}},
        ["jose: own payload: real 0.3: 1 cards, expected 0"],
    ),
    "another reason": (
        {"own payload": {"real 1.0": 2, "random 1.0": 5}, "cannot parse": {"real 1.0": 1}},
        ["jose: cannot parse: real 1.0: 1 cards, expected 0"],
    ),
    "no exception at all": (
        {},
        [
            "jose: own payload: real 1.0: 0 cards, expected 2",
            "jose: own payload: random 1.0: 0 cards, expected 5",
        ],
    ),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_a_deviation_is_told_in_either_direction(case: str) -> None:
    """A judge that accepts more than was written down fails the run as well."""
    counts, told = FINDINGS[case]
    found = {"jose": {why: Exempt("", cards) for why, cards in counts.items()}}
    assert list(exceptions.deviations(found, WRITTEN, ())) == told


def test_a_sample_may_have_fewer_cards_and_no_more() -> None:
    """A quick run tries a tenth of the random cards."""
    for count, told in ((0, 0), (4, 0), (6, 1)):
        found = {"jose": {"own payload": Exempt("", {"real 1.0": 2, "random 1.0": count})}}
        assert len(list(exceptions.deviations(found, WRITTEN, ["random 1.0"]))) == told


def test_a_number_without_an_explanation_fails() -> None:
    """`--propose` writes numbers; that is not yet an explanation."""
    unexplained = {"jose": {"own payload": Exempt("", {"real 1.0": 2})}}
    (told,) = exceptions.deviations(unexplained, unexplained, ())
    assert told.endswith("does not say because of what")


def test_a_judge_that_was_not_asked_is_not_missed() -> None:
    """Where its registry is missing, its exceptions are not looked for."""
    assert list(exceptions.deviations({}, WRITTEN, ())) == []


# ------------------------------------------------------------------ the judges by hand


@pytest.fixture(params=["joserfc", pytest.param("jose", marks=pytest.mark.needs_judges("js"))])
def by_hand(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """A verifier of served-as-is that knows no SDK."""
    with PROGRAMS[request.param].start() as judge:
        yield judge


@pytest.mark.parametrize("card", [PORTABLE, LAX, OLD], ids=["portable", "lax", "of 0.3"])
def test_a_verifier_by_hand_accepts_and_notices_an_edit(
    card: dict[str, Any], alice: PrivateKey, bob: PrivateKey, by_hand: Judge
) -> None:
    """It has no tolerance: what was served is what was signed."""
    ours, keys = signed(card, alice), JwkSet.of([alice.public])

    finding = by_hand.verify(dump(ours), keys)
    assert (finding.outcome, finding.callable) == ("accepted", True)
    assert by_hand.verify(dump(put(ours, "/x", "")), keys).outcome == "refused"
    assert by_hand.verify(dump(ours), JwkSet.of([bob.public])).outcome == "refused"
    assert by_hand.verify(b"[]", keys).outcome == "cannot-parse"


def test_the_judge_by_hand_knows_nothing_of_ours() -> None:
    """A shared mistake could otherwise pass for agreement."""
    source = Path(str(answer.__code__.co_filename)).read_text(encoding="utf-8")
    imported = {
        name.split(".")[0] for node in ast.walk(ast.parse(source)) for name in _imported(node)
    }
    assert "joserfc" in imported
    assert not imported & {"cardsign", "judges", "support"}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
