"""Which code a result came from: the modules that its experiment is made of, as they are."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("dpi", "dpi_audit", "dpi_research")
"""Whose code decides a result."""


@cache
def code(module: str, function: str) -> str:
    """A digest of a function of a module, and of all of these packages that it uses.

    Of the module itself that is what the function names, directly or not, and of modules that these statements import,
    and those import, everything. Comments, docstrings and layout do not count, nor do other functions of the module: a
    sentence that is mended, or a figure that is drawn otherwise, leaves a result as it is. What is imported inside a
    function counts like the rest.

    >>> code("dpi.exact.integers", "proportional") == code("dpi.exact.integers", "proportional")
    True
    >>> code("dpi.exact.integers", "proportional") == code("dpi.exact.integers", "wide_sum")
    False
    """
    own = _source(module)
    assert own is not None  # noqa: S101 - the function was imported from there
    used = ast.Module(_used(_tree(own), function), [])
    counted = {module: ast.dump(used)}
    todo = list(_imported(used))
    while todo:
        name = todo.pop()
        if name not in counted:
            source = _source(name)
            if source is not None:
                counted[name], imported = _counted(source)
                todo += imported
    return hashlib.sha256("\n".join(f"{name}\t{counted[name]}" for name in sorted(counted)).encode()).hexdigest()[:16]


def _used(tree: ast.Module, function: str) -> list[ast.stmt]:
    """The statements of a module that a function needs: those that bind what it names, and those that bind nothing."""
    bound = [_bound(statement) for statement in tree.body]
    wanted = [not names or function in names for names in bound]
    while True:
        named = {name for one, it in zip(tree.body, wanted, strict=True) if it for name in _named(one)}
        more = [it or bool(names & named) for it, names in zip(wanted, bound, strict=True)]
        if more == wanted:
            return [one for one, it in zip(tree.body, wanted, strict=True) if it]
        wanted = more


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module gives a meaning; none for one that does something else."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(alias.asname or alias.name).split(".")[0] for alias in names}
        case ast.Assign(targets=targets):
            return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.If(body=body, orelse=orelse):
            return {name for one in (*body, *orelse) for name in _bound(one)}
    return set()


def _named(statement: ast.stmt) -> Iterator[str]:
    return (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _source(module: str) -> bytes | None:
    """The text of a module; none for a name that is no module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # a name inside a module that is no package
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).read_bytes()


@cache  # experiments share most of their modules
def _counted(source: bytes) -> tuple[str, tuple[str, ...]]:
    """What counts of a module, and every name in it that may be a module of these packages."""
    tree = _tree(source)
    return ast.dump(tree), tuple(_imported(tree))


def _tree(source: bytes) -> ast.Module:
    """The statements of a module without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)]
    return tree


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Every name that may be a module of these packages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] in PACKAGES)
