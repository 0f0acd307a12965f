"""Which code a result came from: the modules that its experiment is made of, as they are."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "dpi"


@cache
def code(module: str) -> str:
    """A digest of a module and of all of this package that it imports, directly or not.

    Comments, docstrings and layout do not count: a sentence that is mended leaves a result as it is. What is imported
    inside a function counts like the rest.

    >>> code("dpi.exact.integers") == code("dpi.exact.integers") != code("dpi.exact.dilogarithm")
    True
    """
    found: dict[str, str] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        if name not in found:
            source = _source(name)
            if source is not None:
                found[name], imported = _counted(source)
                todo += imported
    return hashlib.sha256("\n".join(f"{name}\t{found[name]}" for name in sorted(found)).encode()).hexdigest()[:16]


def _source(module: str) -> bytes | None:
    """The text of a module; none for a name that is no module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # a name inside a module that is no package
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).read_bytes()


@cache  # experiments share most of their modules
def _counted(source: bytes) -> tuple[str, tuple[str, ...]]:
    """What counts of a module, and every name in it that may be a module of this package."""
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
    """Every name that may be a module of this package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == PACKAGE)
