"""docs/reports/interop.json: its exceptions were written down, and every judge accepts the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.interop.interop_page import is_usable
from tests.interop.roster import VERIFIERS
from tests.interop.table import RECORD
from tests.interop.trial import ACCEPTED, ALL, OWN_PAYLOAD, Row, found_in, load_exceptions


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


def test_the_record_has_the_exceptions_that_were_written_down() -> None:
    """No more and no fewer, to the card."""
    written = load_exceptions()
    assert found_in(recorded_rows(), written) == written


#: The least share of the cards that a verifier can use which it accepts with `--compat all`.
GOALS = {"a2a-js plain": 0.96, "a2a-protocol-types": 0.998}


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_with_all_compat_signatures_every_judge_accepts_what_it_can_use(verifier: str) -> None:
    """Whatever it does not accept asks for a payload that is no profile of ours."""
    outcomes = [row.judged[verifier + ALL] for row in recorded_rows()]
    can_use = [one for one in outcomes if is_usable(one)]
    assert set(can_use) <= {ACCEPTED, OWN_PAYLOAD}
    assert can_use.count(ACCEPTED) >= GOALS.get(verifier, 1) * len(can_use)
