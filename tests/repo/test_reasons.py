"""The registry of reason codes and the code that uses them say the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from cardsign.reasons import REASONS

TESTS = Path(__file__).parents[1]
GROUPS = {code.partition(".")[0] for code in REASONS}
CODE = re.compile(rf"(?:{'|'.join(sorted(GROUPS))})\.[a-z0-9_]+")
#: "card.json" is a file and no code.
FILE_ENDINGS = (".json", ".jsonl", ".jwks", ".key", ".pem", ".toml", ".lock", ".md", ".py")


#: The registry itself, and the facade, which names modules.
NOT_USING = ("cardsign.reasons", "cardsign")


def codes_in(trees: Iterable[ast.Module]) -> set[str]:
    """Every string literal that has the form of a code."""
    return {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CODE.fullmatch(node.value)
        and not node.value.endswith(FILE_ENDINGS)
    }


def used(trees: Mapping[str, ast.Module]) -> set[str]:
    """The codes that the package uses, outside the registry."""
    return codes_in(tree for module, tree in trees.items() if module not in NOT_USING)


def test_every_code_that_is_used_is_registered(trees: Mapping[str, ast.Module]) -> None:
    """A misspelt code would have neither meaning nor hint."""
    assert used(trees) - set(REASONS) == set()


def test_every_registered_code_is_used(trees: Mapping[str, ast.Module]) -> None:
    """The registry promises nothing that the program never says."""
    assert set(REASONS) - used(trees) == set()


def test_every_registered_code_is_met_by_a_test() -> None:
    """In a test, or as the expected reason of an attack or a vector."""
    kinds = ("*.py", "*.json")
    said = [path.read_text() for kind in kinds for path in TESTS.rglob(kind)]
    met = {
        code for text in said for code in re.findall(rf"[\"'` ]({CODE.pattern})\\?[\"'`: ]", text)
    }

    assert set(REASONS) - met == set()


def test_a_code_is_told_from_other_strings() -> None:
    """The search sees a code where it is spelt wrongly, and takes no file name for one."""
    tree = ast.parse('raise CardRefused("card.tyyype", "card.json")\nx = "see card.type", "a.b"')
    assert codes_in([tree]) == {"card.tyyype"}


def test_meaning_is_a_sentence_and_a_hint_stands_beside_it() -> None:
    """Each code says what it means and what to do."""
    vague = [one.code for one in REASONS.values() if not (one.meaning.endswith(".") and one.hint)]
    assert vague == []
