"""How a command ends: one line on standard error and an exit code, never a traceback; with `--json` also a document.

A traceback of a private command could show rows. So what is printed of an error of this package is its text, which by
rule holds no private value (`dpi.errors`), and of any other error its type and where it happened, not its text.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import ParamSpec

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


class Failure(Exception):
    """Why a command ends, in one line without a private value, and its exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(" ".join(text.split()))
        self.code = code
        self.as_json = False

    def tell(self, *, as_json: bool) -> int:
        """Print the line and, where a document was asked for, one that holds it; return the exit code."""
        print(f"dpi: error: {self}", file=sys.stderr)
        if as_json or self.as_json:
            print(json.dumps({"error": str(self)}, ensure_ascii=False), flush=True)
        return self.code


def exit_on_error(command: Callable[P, None], spelling: Spelling = lambda option: None) -> Callable[P, None]:
    """Return the command, with errors as a `Failure`: the one place that maps them.

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
        except (BrokenPipeError, typer.Exit):  # of the first, the reader of our output has gone; typer ends quietly
            raise
        except Exception as error:
            failure = _failure(error, spelling)
            failure.as_json = options.get("json") is True
            raise failure from None

    return ended


def _failure(error: Exception, spelling: Spelling) -> Failure:
    """Return what is printed of an error, and the exit code."""
    match error:
        case Failure():
            return error
        case AboutOptions():
            code = USAGE if isinstance(error, OptionError | SchemaError) else STORE
            return Failure(error.spelled(spelling), code)
        case ClockError() | BudgetExceeded():
            return Failure(str(error), USAGE)
        case OSError():
            return Failure(f"{error.filename or 'a file'}: {error.strerror or 'cannot be used'}.", STORE)
    return Failure(f"a fault of this program: {type(error).__name__} {_place(error.__traceback__)}.", FAULT)


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


def check_folder(path: Path, option: str) -> None:
    """Refuse a file that has no folder to lie in, before anything is done for it."""
    if not path.absolute().parent.is_dir():
        raise OptionError(f"`{option}` must lie in a folder that exists. Got {str(path)!r}.")


def usage_failure(error: typer.TyperException) -> Failure | None:
    """Return what is wrong with how a command was called, and where its help is; None if the help was shown."""
    context: typer.Context | None = getattr(error, "ctx", None)
    text = error.format_message() if type(error).__name__ != "NoArgsIsHelpError" else ""
    if not text:
        return None
    help_ = "" if context is None else f" See `{context.command_path} --help`."
    line = " ".join(text.split())
    return Failure(f"{line}{'' if line.endswith(('.', '?')) else '.'}{help_}", error.exit_code)


def _place(trace: TracebackType | None) -> str:
    """File and line of the last call, which are public."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
