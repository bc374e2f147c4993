"""docs/reports/attacks.json: a share of what it says of other verifiers is found again here."""

from __future__ import annotations

import json

import pytest
from attack_page import plain
from attack_table import RECORD
from attack_trial import Panel

from tests.attack_runner.corpus import load_attacks

#: Each such case is put to the others again: a minute's work is left to `nox -s attacks`.
STEP = 9


@pytest.mark.needs_judges
def test_other_verifiers_answer_as_the_record_says() -> None:
    """At hand and over a network."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))["attacks"]
    said = {
        (name, case["case"], case.get("on line", False)): case
        for name, cases in record.items()
        for case in cases
    }
    different = []
    with Panel() as panel:
        for ask, kind in ((panel.result, "cases"), (panel.fetched, "transcripts")):
            cases = [case for one in load_attacks() for case in getattr(one, kind)]
            for case in cases[::STEP]:
                key = (case.attack.name, case.members["id"], kind == "transcripts")
                if plain(ask(case.attack.number, case)) != said[key]:
                    different.append(case.id)
    assert different == []
