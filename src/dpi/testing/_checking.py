"""How a check says no: with a sentence, also where assertions are switched off, and without a test framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

Subject = ParamSpec("Subject")


def require(holds: object, otherwise: str) -> None:
    """Raise `AssertionError` with a sentence unless something holds."""
    if not holds:
        raise AssertionError(otherwise)


@contextmanager
def refused(error: type[Exception], otherwise: str) -> Iterator[None]:
    """Raise `AssertionError` with a sentence unless what is done inside raises this error."""
    try:
        yield
    except error:
        return
    raise AssertionError(otherwise)


def run_checks(checks: Iterable[Callable[Subject, None]], *subject: Subject.args, **options: Subject.kwargs) -> None:
    """Run checks one after the other; the first one that fails, or raises anything, names itself."""
    for check in checks:
        try:
            check(*subject, **options)
        except Exception as error:
            what = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            raise AssertionError(f"{check.__name__}: {what}") from error
