"""The rules of the house that no linter knows: rooms, borders, sizes, what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import cardsign

Trees = Mapping[str, ast.Module]

#: A room may import what stands in a row above. Rooms of one row do not know each other.
ROWS = (
    ("html", "lazy", "lru", "times"),
    ("programs",),
    ("errors",),
    ("reasons",),
    ("files", "urls"),
    ("card",),
    ("jose",),
    ("diff", "lint", "statements"),
    ("keys", "trust"),
    ("config", "verify"),
    ("sign",),
    ("explain",),
    ("net",),
    ("build",),
    ("publish",),
    ("check", "contract", "gateway", "inputs"),
    ("issuer", "projects", "verifier"),
    ("batch", "rehearsal"),
    ("api",),
    ("cardsign",),
    ("integrations", "server", "testing"),
    ("cli",),
    ("__main__",),
)
RANK = {room: rank for rank, row in enumerate(ROWS) for room in row}
OUTERMOST = ("cardsign.cli", "cardsign.server", "cardsign.integrations", "cardsign.testing.plugin")

#: Who may import what comes from elsewhere; a module stands for what is below it as well.
BORDERS = {
    "rfc8785": ("cardsign.card.serialize",),
    "joserfc": ("cardsign.jose",),
    "socket": ("cardsign.net", "cardsign.server.run"),
    "http.client": ("cardsign.net",),
    "urllib.request": ("cardsign.net",),
    "httpx": ("cardsign.net", "cardsign.integrations"),
    "a2a": ("cardsign.integrations",),
    "httpcore": ("cardsign.net",),
    "distributed": ("cardsign.batch",),
    "fsspec": ("cardsign.inputs",),
    "anyio": ("cardsign.net",),
    "requests": (),
    "sqlalchemy": ("cardsign.keys.stores",),
    "psycopg": (),  # SQLAlchemy drives it
    "subprocess": ("cardsign.programs",),
    "flask": ("cardsign.server",),
    "granian": ("cardsign.server",),
    "limits": ("cardsign.server.traffic",),
    "prometheus_client": ("cardsign.server.traffic",),
    "click": ("cardsign.cli",),
    "rich": ("cardsign.cli",),
    "yaml": ("cardsign.build.reading",),
}
CLOCK = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
CLOCK |= {("date", "today"), ("time", "time"), ("time", "time_ns")}

MODULE_LINES = 700
FUNCTION_LINES = 60


def within(module: str, package: str) -> bool:
    """Whether a dotted name is that package or lies below it."""
    return module == package or module.startswith(package + ".")


def imported(tree: ast.Module) -> Iterator[str]:
    """Every dotted name that a module imports, wherever in it: functions and TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: relative imports hide the room"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def graph(trees: Trees) -> dict[str, set[str]]:
    """Which module of ours imports which."""
    return {
        importer: {
            name if name in trees else name.rpartition(".")[0]
            for name in imported(tree)
            if within(name, "cardsign")
        }
        for importer, tree in trees.items()
    }


def room(module: str) -> str:
    """The room that a module stands in."""
    return module.split(".")[1] if "." in module else module


def wrong_way(trees: Trees) -> list[str]:
    """The imports that go to the right, or to a neighbour of the same row."""
    found = []
    for importer, imports in graph(trees).items():
        for name in sorted(imports):
            rooms = room(importer), room(name)
            if rooms[0] != rooms[1] and RANK[rooms[0]] <= RANK[rooms[1]]:
                found.append(f"{importer} imports {name}")
    return found


#: The one import that closes a cycle: ``Policy.load`` loads the reader of its own file when it is
#: called, so that a policy made in Python needs no pydantic.
LATE = ("cardsign.trust.policy", "cardsign.trust.disk")


def cycle(trees: Trees) -> list[str]:
    """One cycle among the modules, or nothing."""
    imports = graph(trees)
    imports.get(LATE[0], set()).discard(LATE[1])
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def over_the_border(trees: Trees) -> list[str]:
    """The imports of a foreign module where it does not belong."""
    return [
        f"{importer} imports {name}"
        for importer, tree in trees.items()
        for name in imported(tree)
        for foreign, allowed in BORDERS.items()
        if within(name, foreign) and not any(within(importer, one) for one in allowed)
    ]


#: Where one broad handler stands, such as :meth:`cardsign.net.discovery.Discoverer.look_up`.
BOUNDARIES = ("cardsign.batch", "cardsign.net.discovery", "cardsign.inputs")


def broad_handlers(trees: Trees) -> list[str]:
    """`except:`, `except Exception` and `except BaseException` below cli and server.

    Three are boundaries by name: what goes wrong with one peer, card or store hides no other.
    """
    found = [
        (module, node.lineno)
        for module, tree in _inner(trees)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and (node.type is None or _broad(node.type))
    ]
    allowed = [next((one for one in found if one[0] == name), None) for name in BOUNDARIES]
    return [f"{module}, line {line}" for module, line in found if (module, line) not in allowed]


def _broad(caught: ast.expr) -> bool:
    names = {node.id for node in ast.walk(caught) if isinstance(node, ast.Name)}
    return bool(names & {"Exception", "BaseException"})


#: Where the public functions have their defaults, the time among them.
DEFAULTS = "cardsign.api"


def clock_readers(trees: Trees) -> list[str]:
    """Where the clock is asked below the outermost rooms, instead of being an argument."""
    return [
        f"{module}, line {node.lineno}"
        for module, tree in _inner(trees)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and (_last(node.value), node.attr) in CLOCK
        if module != DEFAULTS
    ]


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _inner(trees: Trees) -> Iterator[tuple[str, ast.Module]]:
    for module, tree in trees.items():
        if not any(within(module, package) for package in OUTERMOST):
            yield module, tree


def long_functions(trees: Trees) -> list[str]:
    """Functions that do not fit on a screen."""
    return [
        f"{module}.{node.name}: {length} lines"
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    ]


def test_every_room_has_its_place(trees: Trees) -> None:
    """A new room is entered in ROWS before anything may import it, and an old one leaves them."""
    assert {room(module) for module in trees} == set(RANK)


def test_the_page_has_the_same_rooms_and_their_order(root: Path) -> None:
    """All but the front door."""
    page = (root / "docs/concepts/architecture.md").read_text(encoding="utf-8")
    told = " < ".join(", ".join(row) for row in ROWS if row not in (("cardsign",), ("__main__",)))
    assert f"`{told}`" in " ".join(page.split())
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert set(" ".join(rows).replace("`", "").split()) == set(RANK) - {"cardsign", "__main__"}


RULES = [wrong_way, cycle, over_the_border, broad_handlers, clock_readers, long_functions]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_rules(rule, trees: Trees) -> None:
    """No module breaks a rule."""
    assert rule(trees) == []


BREACHES = {
    "an import to the right": (wrong_way, {"card.a": "import cardsign.jose.b", "jose.b": ""}),
    "a name imported to the right": (
        wrong_way,
        {"card.a": "from cardsign.jose import b", "jose.b": ""},
    ),
    "a package imported to the right": (
        wrong_way,
        {"card.a": "from cardsign.jose import Name", "jose": ""},
    ),
    "the facade imported from below": (
        wrong_way,
        {"verify": "from cardsign import x", "": "x = 1"},
    ),
    "an import in a function": (
        wrong_way,
        {"trust.a": "def f():\n  import cardsign.sign", "sign": ""},
    ),
    "an import for types only": (
        wrong_way,
        {"keys.a": "if TYPE_CHECKING:\n  from cardsign.verify import X", "verify": ""},
    ),
    "keys that know trust": (wrong_way, {"keys.a": "import cardsign.trust.b", "trust.b": ""}),
    "trust that knows keys": (wrong_way, {"trust.b": "import cardsign.keys.a", "keys.a": ""}),
    "a cycle within a room": (
        cycle,
        {"card.a": "import cardsign.card.b", "card.b": "from cardsign.card.a import X"},
    ),
    "rfc8785 outside serialize": (over_the_border, {"card.a": "import rfc8785"}),
    "joserfc outside jose": (over_the_border, {"keys.a": "from joserfc import jws"}),
    "a socket outside net": (over_the_border, {"trust.a": "from urllib import request"}),
    "a client outside net": (over_the_border, {"cli.a": "import httpx"}),
    "a program outside its signer": (over_the_border, {"keys.a": "import subprocess"}),
    "a database outside its store": (over_the_border, {"keys.a": "import sqlalchemy as sa"}),
    "flask outside the server": (over_the_border, {"publish": "from flask import Flask"}),
    "a bare except": (broad_handlers, {"net.a": "try: f()\nexcept: pass"}),
    "a broad except": (broad_handlers, {"net.a": "try: f()\nexcept (E, Exception): pass"}),
    "the time of day": (clock_readers, {"keys.a": "now = datetime.datetime.now(UTC)"}),
    "a clock that is handed on": (clock_readers, {"keys.a": "f(clock=time.time)"}),
    "a long function": (long_functions, {"sign": "def f():\n" + "  x()\n" * FUNCTION_LINES}),
}


@pytest.mark.parametrize(("rule", "sources"), BREACHES.values(), ids=BREACHES)
def test_a_breach_is_seen(rule, sources: dict[str, str]) -> None:
    """Each rule can fail."""
    trees = {f"cardsign.{name}".rstrip("."): ast.parse(text) for name, text in sources.items()}
    assert rule(trees)


KEPT = {
    "to the left": {"verify": "from cardsign.card.a import X", "card.a": "X = 1"},
    "within a room": {"card.b": "from cardsign.card import a", "card.a": ""},
    "the server's own clock": {"server.app": "import flask, time\nnow = time.time()"},
    "a duration": {"net.a": "import httpx, time\nstart = time.monotonic()"},
    "a narrow except": {"net.a": "try: f()\nexcept (OSError, ValueError): pass"},
}


@pytest.mark.parametrize("sources", KEPT.values(), ids=KEPT)
def test_what_is_allowed_passes(sources: dict[str, str]) -> None:
    """No rule is stricter than it says."""
    trees = {f"cardsign.{name}": ast.parse(text) for name, text in sources.items()}
    assert [breach for rule in RULES for breach in rule(trees)] == []


def speaking_of_themselves(trees: Trees) -> list[str]:
    """Modules whose docstring sends the reader to the page that he is on."""
    return [
        module
        for module, tree in trees.items()
        if f":mod:`{module}`" in (ast.get_docstring(tree) or "")
    ]


def test_no_docstring_sends_its_reader_to_itself(trees: Trees) -> None:
    """A module says "below", not its own name."""
    assert speaking_of_themselves(trees) == []
    assert speaking_of_themselves({"cardsign.a": ast.parse('"""See :mod:`cardsign.a`."""')})


def test_modules_can_be_read_in_one_sitting(root: Path, trees: Trees) -> None:
    """No module is over the limit: one that is has more than one subject."""
    lengths = {}
    for module in trees:
        path = root / module.replace(".", "/")
        # A folder that git has left behind, with what was compiled in it, is no package.
        package = path / "__init__.py"
        path = package if package.exists() else path.with_suffix(".py")
        lengths[module] = len(path.read_text(encoding="utf-8").splitlines())
    too_long = {module: lines for module, lines in lengths.items() if lines > MODULE_LINES}
    assert too_long == {}


def facades(trees: Trees) -> dict[str, ast.Module]:
    """The packages that list public names, by their dotted names."""
    return {
        name: tree for name, tree in trees.items() if "cardsign.lazy.lazy_names" in imported(tree)
    }


def told_to_type_checkers(tree: ast.Module) -> set[tuple[str, str]]:
    """(module, name) of everything that a facade imports under TYPE_CHECKING."""
    return {
        (node.module or "", alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


def test_facades_tell_everybody_the_same(trees: Trees) -> None:
    """Type checkers and the running program find the same names in the same modules."""
    found = facades(trees)
    assert len(found) > 10
    for package, tree in found.items():
        told = told_to_type_checkers(tree)
        asked = import_module(package)
        assert asked.__all__ == sorted(name for _, name in told), package
        for module, name in told:
            assert getattr(asked, name) is getattr(import_module(module), name), name


def test_a_facade_tells_no_name_that_it_does_not_import() -> None:
    """Neither a name that nobody has, nor what it imports for itself."""
    for name in ("nothing", "lazy_names"):
        with pytest.raises(AttributeError, match=f"has no attribute {name!r}"):
            vars(cardsign)["__getattr__"](name)


def test_no_facade_exports_the_name_of_a_module_or_room(trees: Trees) -> None:
    """A name means one thing: Python would take the module instead, once it is loaded."""
    rooms = {room(module) for module in trees}
    for name, tree in facades(trees).items():
        below = {one.rpartition(".")[2] for one in trees if one.rpartition(".")[0] == name}
        exported = {exported for _, exported in told_to_type_checkers(tree)}
        assert exported & (below | rooms) == set(), name


def test_no_two_files_of_tests_share_a_name(tracked: list[Path]) -> None:
    """pytest imports them by their bare names, and would take one for the other."""
    names = Counter(path.name for path in tracked if path.match("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


HEAVY = {"flask", "werkzeug", "click", "rich", "granian", "httpx", "sqlalchemy", "psycopg"}


def loaded_by(module: str) -> set[str]:
    """Which heavy libraries an import of the module loads, in an interpreter of its own."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split()) & HEAVY


@pytest.mark.parametrize("module", ["cardsign", "cardsign.verify", "cardsign.sign"])
def test_a_light_import_stays_light(module: str) -> None:
    """A verdict or a signature is reached without a web framework or a terminal library."""
    assert loaded_by(module) == set()


def test_a_heavy_import_is_seen() -> None:
    """The probe can fail: the server does load its framework."""
    assert "flask" in loaded_by("cardsign.server.app")


def test_what_the_package_promises_is_there() -> None:
    """Every public name can be had and is named once; ruff (RUF022) keeps them sorted."""
    names = cardsign.__all__
    assert len(names) == len(set(names)) > 0
    assert [name for name in names if not hasattr(cardsign, name)] == []
