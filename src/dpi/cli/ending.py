"""How a command ends: one line on standard error and an exit code, never a traceback.

A traceback of a private command could show rows. So what is printed of an error of this package is its text, which by
rule holds no private value (`dpi.errors`), and of any other error its type and where it happened, not its text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import NoReturn, ParamSpec

import typer

from dpi.cli.interruption import Interrupted
from dpi.errors import BudgetExceeded, ClockError, OptionError, SchemaError, StateError, StoreError

FOUND = 1
"""A check found something wrong."""
USAGE = 2
"""Wrong options, or columns that cannot be read."""
STORE = 3
"""A store or a file that cannot be used: busy, its key lost, newer, damaged, started with other options."""
FAULT = 70
"""A fault of this program."""

_SPELLINGS = {
    "`change=True`": "`--change`",
    "`separate=True`": "`--separate`",
    "`charge_lost=True` (`--charge-lost`)": "`--charge-lost`",
    "`new_witness=True`": "`--new-witness`",
    "(`witness=`)": "(`--witness`)",
    "another `name`": "another `--name`",
    "epsilon_units": "epsilon",
}
"""What the package says in Python, as it is said here."""

P = ParamSpec("P")


def plainly(command: Callable[P, None]) -> Callable[P, None]:
    """The command, with errors as one line and an exit code: the one place that maps them."""

    @wraps(command)
    def ended(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            command(*arguments, **options)
        except Interrupted as stop:
            print(f"dpi: {stop}", file=sys.stderr)
            raise typer.Exit(stop.code) from None
        except (OptionError, SchemaError, ClockError, BudgetExceeded) as error:
            fail(str(error), USAGE)
        except (StateError, StoreError) as error:
            fail(str(error), STORE)
        except BrokenPipeError:
            raise  # the reader of our output has gone; typer ends quietly
        except OSError as error:
            fail(f"{error.filename or 'a file'}: {error.strerror or 'cannot be used'}.", STORE)
        except typer.Exit:
            raise
        except Exception as error:
            fail(f"a fault of this program: {type(error).__name__} {_place(error.__traceback__)}.", FAULT)

    return ended


def fail(text: str, code: int) -> NoReturn:
    """Print one line and end."""
    for python, here in _SPELLINGS.items():
        text = text.replace(python, here)
    print(f"dpi: error: {' '.join(text.split())}", file=sys.stderr)
    raise typer.Exit(code)


def _place(trace: TracebackType | None) -> str:
    """File and line of the last call, which are public."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
