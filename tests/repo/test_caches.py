"""Each cache and table that lasts has a bound with a name, and the threat model lists it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROW = re.compile(r"^\| [^|]+ \| (\d+) ?(KiB|MiB|) \| `([\w.]+)\.(\w+)` \|$", re.MULTILINE)
UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2}
#: What a process keeps for longer than one call is made by one of these.
MAKERS = {"Lru", "OrderedDict", "lru_cache", "defaultdict"}
#: Dictionaries that grow while a process runs and are bounded by something else.
ELSEWHERE = {
    "lru": "what each module that makes one says",
    "net.fetcher": "what is being asked at this moment, one for each thread",
    "trust.state": "a lock for each issuer of the policy, which has MAX_ISSUERS at most",
}
#: Functions whose results are all kept: their arguments are our own constants and types.
OF_OUR_OWN = {
    *("net.fetch.user_agent", "config._model", "card.serialize._encoder"),
    *("card.document._known", "card.profiles.rules._default", "card.schema._message"),
    *("card.schema._hints", "card.schema.snake"),
    *("jose.jwk._small_primes", "jose.jwk._product_of_small_primes"),
    *("jose.jwk._powers_of_the_flaw", "keys.model._adapter", "statements.keyset._wordlist"),
}


def listed(root: Path) -> list[tuple[int, str, str]]:
    """The rows of the page: the bound in numbers, its module, its name."""
    text = (root / "docs/concepts/threat-model.md").read_text(encoding="utf-8")
    rows = ROW.findall(text.partition("## Resources")[2].partition("\n## ")[0])
    return [(int(number) * UNITS[unit], module, name) for number, unit, module, name in rows]


def made(tree: ast.AST) -> Iterator[str]:
    """What in a module makes a cache or table that lasts, or is a kind of one."""
    for node in ast.walk(tree):
        named = [node.func] if isinstance(node, ast.Call) else []
        for one in node.bases if isinstance(node, ast.ClassDef) else named:
            called = ast.unparse(one).partition("[")[0].rpartition(".")[2]
            if called in MAKERS:
                yield called


def kept_for_ever(tree: ast.AST) -> Iterator[str]:
    """The functions of a module whose results are all kept."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            ast.unparse(one) in ("cache", "functools.cache", "lru_cache")
            for one in node.decorator_list
        ):
            yield node.name


def test_O18_the_page_has_every_bound(root: Path) -> None:
    """Each row is the constant that it names."""
    rows = listed(root)
    assert len(rows) > 10
    found = {
        (module, name): getattr(import_module(f"cardsign.{module}"), name)
        for _, module, name in rows
    }
    assert found == {(module, name): number for number, module, name in rows}


def test_O18_every_cache_is_on_the_page(root: Path, trees: dict[str, ast.Module]) -> None:
    """A module with a cache has a row, or a reason why it needs none."""
    named = {module for _, module, _ in listed(root)} | ELSEWHERE.keys()
    caching = {name.removeprefix("cardsign.") for name, tree in trees.items() if [*made(tree)]}
    assert caching - named == set()
    assert ELSEWHERE.keys() <= caching


def test_O18_what_is_kept_for_ever_is_our_own(trees: dict[str, ast.Module]) -> None:
    """No result that depends on an input is kept without a bound."""
    found = {
        f"{name.removeprefix('cardsign.')}.{one}"
        for name, tree in trees.items()
        for one in kept_for_ever(tree)
    }
    assert found == OF_OUR_OWN


@pytest.mark.parametrize(
    ("code", "caches", "functions"),
    [
        ("self._held: OrderedDict[str, int] = OrderedDict()", ["OrderedDict"], []),
        ("_HELD: Final = Lru[str, int](4)", ["Lru"], []),
        ("class Cache(Lru[str, int]): ...", ["Lru"], []),
        ("@functools.lru_cache(maxsize=4)\ndef f(text): ...", ["lru_cache"], []),
        ("@cache\ndef f(text): ...", [], ["f"]),
        ("@lru_cache\ndef f(text): ...", [], ["f"]),
        ("held = dict()\ndef f(text): ...", [], []),
    ],
)
def test_O18_a_new_cache_would_be_seen(code: str, caches: list[str], functions: list[str]) -> None:
    """So that the tests above can fail."""
    tree = ast.parse(code)
    assert ([*made(tree)], [*kept_for_ever(tree)]) == (caches, functions)
