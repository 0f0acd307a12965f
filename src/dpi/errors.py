"""The errors a user of this package meets.

Every text is one sentence: what was wrong, what is expected. No text, and no attribute that a log would print
by itself, holds a private value: not a row's value, not a user id, not a count made from events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from fractions import Fraction

Spelling = Callable[[str], str | None]
"""How an option is written where an error is read, such as on a command line; None if it has no name there."""


def meant(word: str, known: Iterable[str]) -> str:
    """How a sentence about an unknown name ends: with the known name that is nearest, or with all of them.

    >>> meant("hibrid", ["dpi", "hybrid"]), meant("x", ["dpi", "hybrid"])
    (': did you mean `hybrid`?', '; known are dpi, hybrid.')
    """
    names = list(known)
    close = get_close_matches(word, names, n=1)
    return f": did you mean `{close[0]}`?" if close else f"; known are {', '.join(names)}."


class AboutOptions(Exception):
    """An error that knows which options it is about: `options`, by their names in Python.

    The text names them in backquotes, and begins with the option's name where it is about one: then that is known
    without being said. So whoever shows the error can write the names as they are written there.

    >>> error = OptionError("`per_slot` must be a finite number. Got 'much'.")
    >>> error.option, error.spelled(lambda name: f"--{name.replace('_', '-')}")
    ('per_slot', "`--per-slot` must be a finite number. Got 'much'.")
    >>> StateError("say `change=True`.", options=("change",)).spelled(lambda name: f"--{name}")
    'say `--change`.'
    """

    def __init__(self, text: str = "", *, options: Iterable[str] = ()) -> None:
        super().__init__(text)
        first = re.match(r"`([A-Za-z_]\w*)`", text)
        self.options = tuple(options) or (() if first is None else (first[1],))

    @property
    def option(self) -> str | None:
        """The option that is wrong, or the first of several; None if it is none that has a name."""
        return self.options[0] if self.options else None

    def spelled(self, spelling: Spelling) -> str:
        """Return the text, with the options that it is about written in another way."""
        text = str(self)
        for name in self.options:
            written = spelling(name)
            if written is not None:
                text = re.sub(rf"`{name}(=(True)?)?`", f"`{written}`", text)
        return text


class OptionError(AboutOptions, ValueError):
    """A public option is out of its range or contradicts another one.

    >>> import dpi
    >>> dpi.Ledger(per_slot=-1)
    Traceback (most recent call last):
    dpi.errors.OptionError: ...
    """


class SchemaError(AboutOptions, TypeError):
    """A whole column is of a type that cannot be read; a single bad row never raises this.

    >>> import numpy
    >>> import dpi
    >>> dpi.Slots("1h").numbers(numpy.array([True, False]))
    Traceback (most recent call last):
    dpi.errors.SchemaError: ...
    """


class ClockError(ValueError):
    """The public clock was moved backwards, or a slot was closed out of order.

    >>> import dpi
    >>> clock = dpi.events.slots.Clock(dpi.Slots("1h"), now="2026-01-02")
    >>> clock.advance("2026-01-01")
    Traceback (most recent call last):
    dpi.errors.ClockError: ...
    """


class StateError(AboutOptions, ValueError):
    """Saved state is damaged or belongs to other options.

    >>> import dpi
    >>> dpi.MemoryStore.load(__file__)
    Traceback (most recent call last):
    dpi.errors.StateError: ...
    """


class NewerVersion(StateError):
    """What was saved is of a later version of this program.

    >>> issubclass(NewerVersion, StateError)     # who handles the one handles the other
    True
    """


class OlderState(StateError):
    """What an estimator has saved is of an earlier version of this program: it is derived anew from measurements.

    >>> issubclass(OlderState, StateError)     # who handles the one handles the other
    True
    """


def newer(thing: str) -> NewerVersion:
    """Return the error about what a later version of this program has written.

    >>> str(newer("the store"))
    'the store was written by a newer version of dpi: install that version, or a later one. Nothing was changed.'
    """
    return NewerVersion(
        f"{thing} was written by a newer version of dpi: install that version, or a later one. Nothing was changed."
    )


class StoreError(AboutOptions, OSError):
    """A store cannot be opened, read or written; nothing is known to be lost, and opening it again tells.

    >>> issubclass(StoreError, OSError)     # as for any file that cannot be opened
    True
    """


class StoreBusy(StoreError):
    """Another process writes to the store.

    >>> issubclass(StoreBusy, StoreError)     # who handles the one handles the other
    True
    """


class BudgetExceeded(ValueError):
    """More privacy budget was asked for than is left.

    The amounts are attributes; the text names them only if the budget is public (a stream's total). What is left on
    one user's account is private, so a ledger raises this with `public=False` and its text holds no amount.

    >>> str(BudgetExceeded(Fraction(3, 2), Fraction(1), public=True))
    'the budget is exceeded: requested 1.5, remaining 1, difference 0.5.'
    """

    def __init__(self, requested: Fraction, remaining: Fraction, *, public: bool) -> None:
        self.requested = requested
        self.remaining = remaining
        self.difference = requested - remaining
        text = "an account was asked for more than it has left; debit what `weights` returned for it."
        if public:
            amounts = (f"{float(x):.12g}" for x in (requested, remaining, self.difference))
            text = "the budget is exceeded: requested {}, remaining {}, difference {}.".format(*amounts)
        super().__init__(text)


class WeakPromise(UserWarning):
    """A promise that is worth next to nothing, or an input that is an exception to it.

    >>> import warnings
    >>> import dpi
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     _ = dpi.Stream(domain=dpi.Categories(["DE"]), epsilon=100)
    >>> said[0].category.__name__
    'WeakPromise'
    """
