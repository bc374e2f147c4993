"""The registry of codes and the code that uses them say the same."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files

from cardsign.findings import SEVERITIES, CodeText, describe_code, list_codes, severity_of

GROUPS = {code.partition(".")[0] for code in list_codes() if "." in code}
CODE = re.compile(rf"(?:{'|'.join(sorted(GROUPS))})\.[a-z0-9_-]+")
#: "card.json" is a file and no code.
FILE_ENDINGS = (".json", ".jsonl", ".jwks", ".key", ".pem", ".toml", ".lock", ".md", ".py")


def test_the_codes_that_are_used_are_those_registered(trees: Mapping[str, ast.Module]) -> None:
    """A misspelt one would have neither meaning nor hint; another would never be said."""
    texts = {
        str(node.value)
        for module, tree in trees.items()
        if module != "cardsign"  # names of modules
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
    }
    used = {text for text in texts if CODE.fullmatch(text) and not text.endswith(FILE_ENDINGS)}
    assert used == set(list_codes())


def test_a_code_is_described_as_the_whole_registry_has_it() -> None:
    """One table is parsed at a time, so its form is narrower than that of TOML."""
    registry = tomllib.loads(files("cardsign").joinpath("codes.toml").read_text("utf-8"))
    assert list(registry) == list(list_codes())
    for code, members in registry.items():
        text = describe_code(code)
        assert {name: getattr(text, name) for name in members} == members
        assert severity_of(code) == text.severity
        assert text.severity in SEVERITIES
    assert describe_code("sig.no-such-code") == CodeText()
