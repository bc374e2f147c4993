"""Which tests reach which lines, so that a mutant is put before those tests alone.

As a pytest plugin (``-p reach``) this writes the file that ``CARDSIGN_REACH`` names:
every test that passed, its seconds, and the lines of ``cardsign`` that ran in it. Lines that only
importing runs are reached by no test in particular.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import coverage
import pytest

VARIABLE: Final = "CARDSIGN_REACH"
_SECONDS: Final[dict[str, float]] = {}
_RUNNING: Final[list[coverage.Coverage]] = []


def pytest_configure() -> None:
    """Begin to watch; threads that a test starts are watched as well."""
    watching = coverage.Coverage(data_file=None, source=["cardsign"], concurrency=["thread"])
    watching.start()
    _RUNNING.append(watching)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What runs from here on belongs to this test."""
    _RUNNING[0].switch_context(item.nodeid)
    yield
    _RUNNING[0].switch_context("")
    return None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the seconds of a test's phases."""
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0) + report.duration


def pytest_sessionfinish() -> None:
    """Write down what was reached."""
    watching = _RUNNING.pop()
    watching.stop()
    data = watching.get_data()
    tests = list(_SECONDS)
    number = {test: index for index, test in enumerate(tests)}
    lines: dict[str, dict[int, list[int]]] = {}
    for file in data.measured_files():
        reached = {
            line: sorted(number[test] for test in contexts if test)
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        lines[str(Path(file).relative_to(Path.cwd()))] = reached
    found = {"tests": tests, "seconds": [_SECONDS[test] for test in tests], "lines": lines}
    Path(os.environ[VARIABLE]).write_text(json.dumps(found), encoding="utf-8")


def tests_that_reach(reach: dict[str, Any], path: str, line: int, source: bytes) -> list[str]:
    """The tests that run the statement around this line, quickest first."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    begins = max((node.lineno for node in around), default=line)
    lines = reach["lines"].get(path, {})
    numbers = {one for at in range(begins, line + 1) for one in lines.get(str(at), ())}
    return [reach["tests"][one] for one in sorted(numbers, key=reach["seconds"].__getitem__)]
