"""Frozen values with some fields changed: `dataclasses.replace`, several times as fast.

A slot changes the parts of a state again and again; without this, a tenth of an estimate of few bins is copying fields.
"""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def replace(value: Value, **changes: object) -> Value:
    """A copy of a frozen dataclass with other fields; what it has cached is not copied.

    Its `__init__` and `__post_init__` are not run, so it is for values that check nothing.

    >>> import numpy as np
    >>> from dpi.mechanism.filtering.gaussians import Gaussians
    >>> replace(Gaussians(np.zeros(1), np.ones(1)), mean=np.full(1, 0.5))
    Gaussians(mean=array([0.5]), variance=array([1.]))
    """
    names = value.__dataclass_fields__  # type: ignore[attr-defined]
    parts = value.__dict__ | changes
    if len(parts) > len(names):
        if not changes.keys() <= names.keys():
            raise TypeError(f"{type(value).__name__} has no fields {sorted(changes.keys() - names.keys())}.")
        for cached in parts.keys() - names.keys():
            del parts[cached]
    new = object.__new__(type(value))
    object.__setattr__(new, "__dict__", parts)
    return new
