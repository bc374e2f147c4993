"""The makers of mutants make faults, each in one place, and the tests of an area decide."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.mutation import run
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.page import page_of

FAULTS = {
    "a comparison": ("a < b", "(a <= b)"),
    "membership": ("a in b", "(a not in b)"),
    "identity": ("a is None", "(a is not None)"),
    "a negation": ("not a", "(a)"),
    "and": ("a and b", "(a or b)"),
    "an operand left out": ("a or b", "(b)"),
    "a number, one more": ("2", "(3)"),
    "a number, one less": ("2", "(1)"),
    "a truth": ("True", "False"),
    "a word": ("'ES256'", "'ES256~'"),
    "a sum": ("a + b", "(a - b)"),
    "any": ("any(a)", "all(a)"),
    "a branch of an expression": ("b if a else c", "b if (not (a)) else c"),
    "a result": ("a()", "return None"),
}
HARMLESS = {
    "a docstring": '"""Says what."""',
    "an annotation": "x: Literal['a']",
    "a text for people": "(g, 'expected a list')",
    "a pointer": "('/keys')",
    "an f-string": "f'{a}'",
    "an import": "import json",
}


def faults(source: str) -> set[str]:
    """The module under each of its mutants."""
    data = source.encode()
    return {one.applied(data).decode() for one in mutants_of("x.py", data)}


@pytest.mark.parametrize(("before", "after"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_made(before: str, after: str) -> None:
    """Each kind, and nothing around it changes."""
    made = faults(f"def é(a, b, c):\n    return {before}\n")
    result = after if after == "return None" else f"return {after}"
    assert f"def é(a, b, c):\n    {result}\n" in made


def test_statements_are_left_out_and_exceptions_swallowed() -> None:
    """A raise, a call, a continue, and what a handler does."""
    source = "for a in b:\n    try:\n        f(a)\n    except E:\n        continue\n"
    made = faults(source)
    assert source.replace("f(a)", "pass") in made
    assert source.replace("continue", "pass") in made


@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS)
def test_what_only_people_read_is_left_alone(code: str) -> None:
    """No mutant is made of it."""
    assert not faults(f"{code}\n") - {"pass\n"}


def test_a_mutant_is_named_by_what_stays() -> None:
    """Lines above may move; the name says module, function and change."""
    above, below = (
        mutants_of("x.py", text) for text in (b"def f():\n  f(1)", b"\ndef f():\n  f(1)")
    )
    assert [one.name for one in above] == [one.name for one in below]
    assert "x.py f: 1 -> (2)" in [one.name for one in above]


def test_a_sample_is_that_of_its_seed() -> None:
    """No mutant twice, every kind likely, and never more than there are."""
    mutants = [Mutant("x.py", at, "f", "constant", "1", "2", at, at + 1) for at in range(100)]
    mutants.append(Mutant("x.py", 0, "f", "not", "not a", "a", 0, 5))
    drawn = run.sample(mutants, 20, Random(1))
    assert drawn == run.sample(mutants, 20, Random(1)) != run.sample(mutants, 20, Random(2))
    assert len(set(drawn)) == 20
    assert mutants[-1] in drawn
    assert len(run.sample(mutants, 1000, Random(1))) == len(mutants)


def test_the_tests_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sees is killed, what none sees survives, and the checkout stays as it is."""
    source = b"LEAST = 3\n\n\ndef large(n):\n    return n >= LEAST\n"
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    for folder in ("cardsign", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cardsign/__init__.py").touch()
    (tmp_path / "cardsign/some.py").write_bytes(source)
    (tmp_path / "tests/test_some.py").write_text(
        "from cardsign.some import large\n\n\ndef test_large():\n"
        "    assert large(4)\n    assert not large(2)\n"
    )
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "COPIED", ("cardsign", "tests", "pyproject.toml"))
    wanted = {"3 -> (4)", "3 -> (2)", "n >= LEAST -> (n > LEAST)"}
    drawn = [
        one
        for one in mutants_of("cardsign/some.py", source)
        if one.name.partition(": ")[2] in wanted
    ]
    results = run.examine(run.Area((), ("tests",)), drawn, 1)
    assert {one.mutant.after: one.verdict for one in results} == {
        "(4)": "survived",
        "(2)": "killed",
        "(n > LEAST)": "survived",
    }
    assert (tmp_path / "cardsign/some.py").read_bytes() == source


def test_the_page_says_what_is_not_argued() -> None:
    """A survivor is listed with its reason, or with the want of one."""
    survivors = [{"line": 3, "operator": "not", "name": name} for name in ("one", "two")]
    row = {"date": "2026-11-22", "seed": 1, "mutants": 9, "sample": 3, "killed": 1, "timeout": 0}
    figures = {"jose": {**row, "survived": 2, "survivors": survivors}}
    page = page_of(figures, {"survivors": {"one": "Equivalent."}, "mended": []})
    assert "`one`  \n  Equivalent." in page
    assert "`two`  \n  **not argued yet**" in page


def test_what_is_recorded_of_one_area_leaves_the_others(tmp_path: Path) -> None:
    """A run of one area replaces its own entry alone."""
    file = tmp_path / "recorded.json"
    run.record(file, "jose", {"drawn": ["a"]})
    run.record(file, "net", {"drawn": ["b"]})
    run.record(file, "jose", {"drawn": ["c"]})
    assert json.loads(file.read_text()) == {"jose": {"drawn": ["c"]}, "net": {"drawn": ["b"]}}


@pytest.mark.parametrize("name", run.AREAS)
def test_every_area_has_modules_and_tests(name: str) -> None:
    """A pattern that fits nothing would draw nothing, and say that nothing survived."""
    area = run.AREAS[name]
    assert all(any(run.ROOT.glob(pattern)) for pattern in (*area.modules, *area.tests))


def test_every_module_is_in_one_area() -> None:
    """A room that no area names would never be looked at."""
    drawn = Counter(
        path
        for area in run.AREAS.values()
        for path in {found for pattern in area.modules for found in run.ROOT.glob(pattern)}
    )
    modules = set((run.ROOT / "cardsign").rglob("*.py"))
    assert set(drawn) == modules
    assert {path.name for path, times in drawn.items() if times > 1} == set()
