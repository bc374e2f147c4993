"""The registry of codes and the code that uses them say the same."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files

from cardsign.findings import CodeText, describe_code, list_codes

GROUPS = {code.partition(".")[0] for code in list_codes() if "." in code}
CODE = re.compile(rf"(?:{'|'.join(sorted(GROUPS))})\.[a-z0-9_-]+")
#: "card.json" is a file and no code.
FILE_ENDINGS = (".json", ".jsonl", ".jwks", ".key", ".pem", ".toml", ".lock", ".md", ".py")


#: The registry itself, and the facade, which names modules.
NOT_USING = ("cardsign.findings", "cardsign")


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
    assert used(trees) - set(list_codes()) == set()


def test_every_registered_code_is_used(trees: Mapping[str, ast.Module]) -> None:
    """The registry promises nothing that the program never says."""
    assert set(list_codes()) - used(trees) == set()


def test_a_code_is_described_as_the_whole_registry_has_it() -> None:
    """One table is parsed at a time, so its form is narrower than that of TOML."""
    registry = tomllib.loads(files("cardsign").joinpath("codes.toml").read_text("utf-8"))
    assert list(registry) == list(list_codes())
    for code, members in registry.items():
        text = describe_code(code)
        assert {name: getattr(text, name) for name in members} == {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in members.items()
        }
        assert text.title.endswith(".")
    assert describe_code("sig.no-such-code") == CodeText()
