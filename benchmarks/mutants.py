"""The mutants of a module: every change that `mutation.py` tries, and how it is put into the program.

A mutant is one change: a comparison and its neighbour (< and <=), an operator and its opposite, a number and the next
one, a negated condition, a value that is not returned, a statement that is left out, `min` for `max`, a comparison in a
statement of SQL. Texts of errors, docstrings, annotations and `__repr__` stay as they are. No file is touched.
"""

from __future__ import annotations

import ast
import copy
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum",
    "floor": "ceil", "ceil": "floor", "zeros": "ones", "argmax": "argmin",
}  # fmt: skip
QUERIES = {"<= ?": "= ?", ">= ?": "> ?", "> ?": ">= ?", " AND ": " OR ", " DESC": "", "slot = ?": "slot <= ?"}


@dataclass(frozen=True)
class Mutant:
    """One change: which node of the module's tree, and which of the changes that it offers."""

    module: str
    line: int
    end: int
    before: str
    after: str
    node: int
    change: int

    @property
    def key(self) -> str:
        """The change in words; the node's number tells equal ones of a line apart."""
        return f"{self.module}:{self.line}.{self.node}: {self.before} → {self.after}"


def changes(node: ast.AST) -> Iterator[Callable[[Any], ast.AST]]:
    """Functions that change a copy of the node, in place or by returning another one."""

    def put(**fields: object) -> Callable[[Any], ast.AST]:
        def change(target: ast.AST) -> ast.AST:
            for name, value in fields.items():
                setattr(target, name, value)
            return target

        return change

    match node:
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                ops = [*node.ops]
                ops[at] = COMPARISONS[type(operator)]()
                yield put(ops=ops)
        case ast.BinOp(left=left, right=right) if not any(map(_is_text, (left, right))):
            if type(node.op) in OPERATORS:
                yield put(op=OPERATORS[type(node.op)]())
        case ast.AugAssign():
            if type(node.op) in OPERATORS:
                yield put(op=OPERATORS[type(node.op)]())
            yield lambda _: ast.Pass()
        case ast.BoolOp():
            yield put(op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp():
            yield lambda target: target.operand
        case ast.Constant(value=bool() as value):
            yield put(value=not value)
        case ast.Constant(value=int() | float() as value):
            yield put(value=value + 1)
        case ast.Constant(value=str() as value) if " WHERE " in value or " ORDER BY " in value:
            for old, new in QUERIES.items():
                if old in value:
                    yield put(value=value.replace(old, new, 1))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield put(test=ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield put(value=ast.Constant(None))
        case ast.Name(id=name) if name in NAMES:
            yield put(id=NAMES[name])
        case ast.Attribute(attr=name) if name in NAMES:
            yield put(attr=NAMES[name])
        case ast.Raise() | ast.Expr(value=ast.Call()) | ast.Break() | ast.Continue():
            yield lambda _: ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield lambda _: ast.Pass()


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def numbered(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may be changed, in a fixed order; what only people read is left out."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "exc", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr | ast.Assert | ast.ImportFrom):
                continue
            if isinstance(child, ast.FunctionDef) and child.name in ("__repr__", "_repr_html_"):
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) in ("__all__", "_MAGIC"):
                continue
            yield from numbered(child)


def path_of(module: str) -> Path:
    """The file of a module: one of dpi, unless its path begins with dpi_research."""
    package = ROOT / "packages/research/src" if module.startswith("dpi_research/") else ROOT / "src/dpi"
    return package / module


def mutants(module: str) -> list[Mutant]:
    """All changes of a module."""
    all_mutants = []
    for number, node in enumerate(numbered(ast.parse(path_of(module).read_text()))):
        for at, change in enumerate(changes(node)):
            after, place = change(copy.deepcopy(node)), node.test if isinstance(node, ast.If | ast.While) else node
            after = after.test if isinstance(after, ast.If | ast.While) else after
            line, end = getattr(place, "lineno", 0), getattr(place, "end_lineno", 0)
            all_mutants.append(Mutant(module, line, end, ast.unparse(place), ast.unparse(after), number, at))
    return all_mutants


def changed(mutant: Mutant) -> CodeType:
    """The code of the module with that change."""
    path = path_of(mutant.module)
    tree = ast.parse(path.read_text())
    node = list(numbered(tree))[mutant.node]
    after = list(changes(node))[mutant.change](copy.copy(node))

    class Put(ast.NodeTransformer):
        def visit(self, visited: ast.AST) -> ast.AST:
            return after if visited is node else self.generic_visit(visited)

    Put().visit(tree)
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


def owner(mutant: Mutant) -> tuple[str, ...] | None:
    """The class and function around a change, outermost function last; None where it is made when modules load."""
    tree = ast.parse(path_of(mutant.module).read_text())
    node = list(numbered(tree))[mutant.node]

    def search(body: list[ast.stmt], path: tuple[str, ...]) -> tuple[str, ...] | None:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                if inner := search(statement.body, (*path, statement.name)):
                    return inner
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                node is n for s in statement.body for n in ast.walk(s)
            ):
                return (*path, statement.name)
        return None

    return search(tree.body, ())


class Hook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Hands out the changed code of one module."""

    def __init__(self, mutant: Mutant) -> None:
        self.name, self.code = _name(mutant.module), changed(mutant)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The module's own place, with this loader."""
        origin = self.code.co_filename
        return importlib.util.spec_from_file_location(name, origin, loader=self) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        exec(self.code, vars(module))  # noqa: S102 - the module's own code, changed


def _name(module: str) -> str:
    name = module.removesuffix(".py").replace("/", ".")
    return name if name.startswith("dpi_research.") else f"dpi.{name}"


def patch(mutant: Mutant, path: tuple[str, ...]) -> None:
    """Put changed code into a function that is loaded: whoever imported it has the change as well."""
    target: Any = sys.modules[_name(mutant.module)]
    for name in path:
        target = vars(target)[name]
    candidates = [target, *(getattr(target, name, None) for name in ("fget", "fset", "func", "__func__"))]
    functions = [f for c in candidates if hasattr(f := getattr(c, "__wrapped__", c), "__code__")]
    new = changed(mutant)
    for name in path:  # of a property's getter and setter, the one that begins last before the change
        inside = [c for c in new.co_consts if isinstance(c, CodeType) and c.co_name == name]
        new = max((c for c in inside if c.co_firstlineno <= mutant.line), key=lambda c: c.co_firstlineno)
    function = next(f for f in functions if f.__code__.co_firstlineno == new.co_firstlineno)
    function.__code__ = new
