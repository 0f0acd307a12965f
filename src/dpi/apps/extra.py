"""scikit-learn, which comes with the extra `apps`: imported when it is first used."""

from __future__ import annotations

from types import ModuleType

from dpi._version import how_to_install
from dpi.errors import OptionError


def learn(module: str) -> ModuleType:
    """A module of scikit-learn; says what to install if there is none."""
    from importlib import import_module

    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise OptionError(f"this needs scikit-learn: {how_to_install('apps')}.") from None
