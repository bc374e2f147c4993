"""docs/reports/measurements.* are what a run finds out today, but for date and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from experiment import Row, signatures_of_others
from measure import PAGE, RECORD, Measurement

#: What may differ: when it was, and with what.
HEAD = ("measured_on", "versions")


def tables(page: str) -> str:
    """The page from its first section on."""
    return page.partition("\n## ")[2]


def findings(record: str) -> dict[str, object]:
    """The record without its head."""
    return {name: value for name, value in json.loads(record).items() if name not in HEAD}


@pytest.fixture(scope="module")
def measured(rows: Mapping[str, tuple[Row, ...]], shared: Path) -> Measurement:
    """This run's findings."""
    return Measurement("1970-01-01", {"an SDK": "0"}, rows, signatures_of_others(shared))


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_the_record_is_what_was_found_out(measured: Measurement) -> None:
    """`make measure` would change no outcome of any file."""
    assert findings(RECORD.read_text(encoding="utf-8")) == findings(measured.record())


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_the_page_is_what_was_found_out(measured: Measurement) -> None:
    """`make measure` would change no table and no sentence."""
    assert tables(PAGE.read_text(encoding="utf-8")) == tables(measured.page())


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_both_algorithms_find_the_same(measured: Measurement) -> None:
    """No outcome hangs on the algorithm; if one did, the page would name the file."""
    assert measured.differing == []
    first, second = measured.rows
    changed = (replace(measured.rows[second][0], refused="x"), *measured.rows[second][1:])
    other = replace(measured, rows={first: measured.rows[first], second: changed})
    assert other.differing == [changed[0].file]
    assert f"another outcome for {changed[0].file}, in all tables" in other.page()


def test_the_head_says_when_and_with_what() -> None:
    """The committed files name date and versions, and they agree."""
    page, record = PAGE.read_text(encoding="utf-8"), json.loads(RECORD.read_text(encoding="utf-8"))
    assert f"Measured on {record['measured_on']} with:" in page
    assert {"cardsign", "a2a-sdk", "@a2a-js/sdk"} == set(record["versions"])
    for name, version in record["versions"].items():
        assert f"| {name} | {version} |" in page
