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
            tree = _tree(name)
            if tree is not None:
                found[name] = ast.dump(tree)
                todo += _imported(tree)
    return hashlib.sha256("\n".join(f"{name}\t{found[name]}" for name in sorted(found)).encode()).hexdigest()[:16]


def _tree(module: str) -> ast.Module | None:
    """The module's statements without its docstrings; none for a name that is no module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # a name inside a module that is no package
        return None
    if spec is None or spec.origin is None:
        return None
    tree = ast.parse(Path(spec.origin).read_bytes())
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
