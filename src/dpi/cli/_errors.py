"""How a command ends: one line on standard error and an exit code, never a traceback.

A traceback of a private command could show rows. So what is printed of an error of this package is its text, which by
rule holds no private value (`dpi.errors`), and of any other error its type and where it happened, not its text.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import NoReturn, ParamSpec

import typer

from dpi.cli.signals import Interrupted
from dpi.errors import AboutOptions, BudgetExceeded, ClockError, OptionError, SchemaError, Spelling, WeakPromise

FOUND = 1
"""A check found something wrong."""
USAGE = 2
"""Wrong options, or columns that cannot be read."""
STORE = 3
"""A store or a file that cannot be used: busy, its key lost, newer, damaged, started with other options."""
FAULT = 70
"""A fault of this program."""

P = ParamSpec("P")


def exit_on_error(command: Callable[P, None], spelling: Spelling = lambda option: None) -> Callable[P, None]:
    """Return the command, with errors as one line and an exit code: the one place that maps them.

    An option that an error names is written as `spelling` says.
    """

    @wraps(command)
    def ended(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            with _warnings_noted():
                command(*arguments, **options)
        except Interrupted as stop:
            print(f"dpi: {stop}", file=sys.stderr)
            raise typer.Exit(stop.code) from None
        except AboutOptions as error:
            fail(error.spelled(spelling), USAGE if isinstance(error, OptionError | SchemaError) else STORE)
        except (ClockError, BudgetExceeded) as error:
            fail(str(error), USAGE)
        except BrokenPipeError:
            raise  # the reader of our output has gone; typer ends quietly
        except OSError as error:
            fail(f"{error.filename or 'a file'}: {error.strerror or 'cannot be used'}.", STORE)
        except typer.Exit:
            raise
        except Exception as error:
            fail(f"a fault of this program: {type(error).__name__} {_place(error.__traceback__)}.", FAULT)

    return ended


@contextmanager
def _warnings_noted() -> Iterator[None]:
    """Warnings about the promise are one line each, said once; any other is for those who write the program."""
    said = set[str]()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, WeakPromise) and str(message) not in said:
            said.add(str(message))
            print(f"dpi: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", WeakPromise)
        warnings.showwarning = show
        yield


def fail(text: str, code: int) -> NoReturn:
    """Print one line and end."""
    print(f"dpi: error: {' '.join(text.split())}", file=sys.stderr)
    raise typer.Exit(code)


def check_folder(path: Path, option: str) -> None:
    """Refuse a file that has no folder to lie in, before anything is done for it."""
    if not path.absolute().parent.is_dir():
        raise OptionError(f"`{option}` must lie in a folder that exists. Got {str(path)!r}.")


def usage_error(error: typer.TyperException) -> int:
    """Tell in one line what is wrong with how a command was called, and where its help is; the exit code."""
    context: typer.Context | None = getattr(error, "ctx", None)
    text = error.format_message() if type(error).__name__ != "NoArgsIsHelpError" else ""
    if text:  # without, the help was shown
        help_ = "" if context is None else f" See `{context.command_path} --help`."
        line = " ".join(text.split())
        print(f"dpi: error: {line}{'' if line.endswith(('.', '?')) else '.'}{help_}", file=sys.stderr)
    return error.exit_code


def _place(trace: TracebackType | None) -> str:
    """File and line of the last call, which are public."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
