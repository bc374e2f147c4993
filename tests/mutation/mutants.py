"""Mutants: small faults that somebody could make, each one place of one module.

A mutant replaces the bytes of one node of the syntax tree and nothing else, so line numbers and
everything around it stay. Left alone is what only people read: annotations, docstrings, f-strings,
texts that hold a space, and the JSON pointers by which refusals say where.
"""

from __future__ import annotations

import ast
import copy
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_FOR_PEOPLE: Final = re.compile(r" |^/[a-z_]")
_TWINS: Final = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault.

    Attributes:
        path: The module, from the checkout's root.
        line: Where, from 1.
        function: In which function or class, dotted; ``module`` outside of any.
        operator: What kind of fault.
        before: The code that is replaced.
        after: What it is replaced by.
        start: Offset of its first byte.
        end: Offset after its last byte.
    """

    path: str
    line: int
    function: str
    operator: str
    before: str
    after: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """What stays the same when lines above it are edited."""
        return f"{self.path} {self.function}: {_line(self.before)} -> {_line(self.after)}"

    def applied(self, source: bytes) -> bytes:
        """The module with the fault."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Every mutant of a module, in the order of its text."""
    lines = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]
    found: dict[tuple[int, int, str], Mutant] = {}
    for node, function in _nodes(ast.parse(source), ()):
        for change in (
            one for kinds, make in _KINDS if isinstance(node, kinds) for one in make(node)
        ):
            start = lines[change.first.lineno - 1] + change.first.col_offset
            end = lines[(change.last.end_lineno or 0) - 1] + (change.last.end_col_offset or 0)
            where = path, change.first.lineno, ".".join(function) or "module"
            what = change.operator, source[start:end].decode(), change.after
            mutant = Mutant(*where, *what, start, end)
            # What only a type checker reads is no fault that a test could see.
            is_typing = what[1] == "TYPE_CHECKING"
            if what[1] != change.after and not is_typing and _compiles(mutant.applied(source)):
                found.setdefault((start, end, change.after), mutant)
    return sorted(found.values(), key=lambda one: (one.start, one.end, one.after))


def _compiles(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _line(code: str) -> str:
    return " ".join(code.split())


# ------------------------------------------------------------------ where


def _nodes(node: ast.AST, function: tuple[str, ...]) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """The nodes that may be changed, each with the names of what encloses it."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_inert(child):
                continue
            inside = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inside = (*function, child.name)
            yield child, inside
            yield from _nodes(child, inside)


def _is_inert(node: ast.AST) -> bool:
    """Whether nothing in it can change behaviour: docstrings, imports, types, f-strings."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
        return True
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "__slots__"):
        return True
    return isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr)


# ------------------------------------------------------------------ what


@dataclass(frozen=True, slots=True)
class _Change:
    """A kind of fault, the nodes from the first to the last of which it replaces, and by what."""

    operator: str
    first: ast.expr | ast.stmt
    last: ast.expr | ast.stmt
    after: str

    @classmethod
    def of(cls, operator: str, node: ast.expr | ast.stmt, after: str) -> _Change:
        return cls(operator, node, node, after)


def _comparison(node: ast.Compare) -> Iterator[_Change]:
    for index, operator in enumerate(node.ops):
        changed = copy.deepcopy(node)
        changed.ops[index] = _COMPARISONS[type(operator)]()
        yield _Change.of("comparison", node, f"({ast.unparse(changed)})")


def _condition(node: ast.If | ast.While | ast.IfExp) -> Iterator[_Change]:
    if not isinstance(node.test, ast.Compare | ast.UnaryOp):  # these are changed by themselves
        yield _Change.of("condition", node.test, f"(not ({ast.unparse(node.test)}))")


def _boolean(node: ast.BoolOp) -> Iterator[_Change]:
    changed = copy.deepcopy(node)
    changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield _Change.of("and/or", node, f"({ast.unparse(changed)})")
    for left_out in node.values:
        left = [value for value in node.values if value is not left_out]
        kept = ast.BoolOp(node.op, left) if len(left) > 1 else left[0]
        yield _Change.of("operand", node, f"({ast.unparse(kept)})")


def _negation(node: ast.UnaryOp) -> Iterator[_Change]:
    if isinstance(node.op, ast.Not):
        yield _Change.of("not", node, f"({ast.unparse(node.operand)})")


def _arithmetic(node: ast.BinOp) -> Iterator[_Change]:
    if type(node.op) in _OPERATORS:
        changed = ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right)
        yield _Change.of("operator", node, f"({ast.unparse(changed)})")


def _constant(node: ast.Constant) -> Iterator[_Change]:
    value = node.value
    if isinstance(value, bool):
        yield _Change.of("constant", node, repr(not value))
    elif isinstance(value, int):
        yield from (_Change.of("constant", node, f"({value + by})") for by in (1, -1))
    elif isinstance(value, str) and not _FOR_PEOPLE.search(value):
        yield _Change.of("constant", node, repr(f"{value}~"))


def _call(node: ast.Call) -> Iterator[_Change]:
    if isinstance(node.func, ast.Name) and node.func.id in _TWINS:
        yield _Change.of("call", node.func, _TWINS[node.func.id])


def _result(node: ast.Return) -> Iterator[_Change]:
    if node.value is not None and ast.unparse(node.value) != "None":
        yield _Change.of("return", node, "return None")


def _deletion(node: ast.stmt) -> Iterator[_Change]:
    yield _Change.of("deletion", node, "pass")


def _handler(node: ast.Try) -> Iterator[_Change]:
    for handler in node.handlers:
        yield _Change("except", handler.body[0], handler.body[-1], "pass")


_KINDS: Final[tuple[tuple[type | tuple[type, ...], Callable[..., Iterator[_Change]]], ...]] = (
    (ast.Compare, _comparison),
    ((ast.If, ast.While, ast.IfExp), _condition),
    (ast.BoolOp, _boolean),
    (ast.UnaryOp, _negation),
    (ast.BinOp, _arithmetic),
    (ast.Constant, _constant),
    (ast.Call, _call),
    (ast.Return, _result),
    ((ast.Raise, ast.Expr, ast.AugAssign, ast.Continue, ast.Break, ast.Delete), _deletion),
    (ast.Try, _handler),
)
