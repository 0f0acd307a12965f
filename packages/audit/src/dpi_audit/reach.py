"""What an analyst can reach besides the releases: every other byte must be equal on neighbouring streams.

Two streams are forced to the same releases. Then whatever still differs was made from private data: a number in a log
line, a count in an error text, a hint in a `repr`. A *surface* is a function that looks at a session after a slot and
returns named bytes; the command line, a store's public files or an HTTP response are further surfaces.

**What it cannot find.** A surface nobody lists, and time: see `dpi_audit.timing`.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from dpi.errors import OptionError
from dpi.histogram.compression import counts
from dpi_audit.exact import Finding
from dpi_audit.neighbours import Neighbours
from dpi_audit.session import StreamSession

Surface = Callable[[StreamSession], Mapping[str, bytes]]
MARKER = b"zq-private"
"""Part of the user's id in most neighbours: it must be in no byte at all."""

T = TypeVar("T")


@dataclass(frozen=True)
class Reach:
    """What was compared, and what differed: names of surfaces with the step, never their bytes."""

    neighbours: str
    compared: int
    """Bytes of each side."""
    surfaces: tuple[str, ...]
    differences: tuple[str, ...]

    @property
    def finding(self) -> Finding:
        """A difference tells the streams apart for sure; nothing is claimed to be lost here."""
        where = "; ".join(self.differences[:3]) or f"{self.compared:,} bytes of {len(self.surfaces)} surfaces are equal"
        return Finding(math.inf if self.differences else Fraction(0), Fraction(0), f"{self.neighbours}: {where}")


def captured(action: Callable[[], T]) -> tuple[T | None, dict[str, bytes]]:
    """The result of an action, and all it let out: errors with their causes, log records, warnings, prints.

    >>> captured(lambda: print("three", end=""))[1]["stdout"]
    b'three'
    """
    records: list[str] = []
    handler = _Keep(records)
    root, level = logging.getLogger(), logging.getLogger().level
    out, err, error, result = io.StringIO(), io.StringIO(), "", None
    root.addHandler(handler)
    root.setLevel(1)
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            warnings.simplefilter("always")
            try:
                result = action()
            except Exception as problem:
                error = "\n".join(_chain(problem))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return result, {
        "error": error.encode(),
        "log": "\n".join(records).encode(),
        "warnings": "\n".join(f"{w.category.__name__}: {w.message}" for w in warned).encode(),
        "stdout": out.getvalue().encode(),
        "stderr": err.getvalue().encode(),
    }


class _Keep(logging.Handler):
    """Keeps what a log would print, its arguments included."""

    def __init__(self, records: list[str]) -> None:
        super().__init__(1)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(f"{record.levelname} {record.name} {record.getMessage()}")


def _chain(problem: BaseException | None) -> Iterator[str]:
    while problem is not None:
        yield f"{type(problem).__name__}: {problem} {getattr(problem, '__notes__', '')}"
        problem = problem.__cause__ or (None if problem.__suppress_context__ else problem.__context__)


def releases(session: StreamSession) -> dict[str, bytes]:
    """A release as text: JSON, `repr`, HTML."""
    release = session.last
    if release is None:
        raise OptionError("a release is looked at after the first slot.")
    return {"json": release.to_json().encode(), "repr": repr(release).encode(), "html": release._repr_html_().encode()}


def descriptions(session: StreamSession) -> dict[str, bytes]:
    """What a stream says of itself."""
    stream = session.stream
    said = {
        "repr": repr(stream),
        "html": stream._repr_html_(),
        "guarantee": stream.guarantee,
        "digest": stream.digest,
    }
    return {name: text.encode() for name, text in said.items()}


def refusals(session: StreamSession) -> dict[str, bytes]:
    """What the stream says to calls that it must refuse, made with the slot's own rows."""
    users, values = [user for user, _ in session.rows], [value for _, value in session.rows]
    calls: dict[str, Callable[[], object]] = {
        "wrong slot": lambda: session.attempt(users, values, slot=10**6),
        "lengths": lambda: session.attempt([*users, "one more"], values),
        "no column": lambda: session.attempt(users, 5),
        "nested column": lambda: session.attempt(
            pl.Series([[str(user)] for user in users], dtype=pl.List(pl.String)), values
        ),
        "two dimensions": lambda: session.attempt(np.zeros((len(users), 2)), values),
        "counts": lambda: session.stream.release_counts(counts([1], per_user=1)),
        "damaged file": lambda: _load_damaged(session),
    }
    seen: dict[str, bytes] = {}
    for name, call in calls.items():
        _, out = captured(call)
        seen |= {f"{name}, {kind}": data for kind, data in out.items()}
    return seen


def _load_damaged(session: StreamSession) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        session.stream.save(path)
        path.write_bytes(path.read_bytes()[:-1])
        session.stream.load(path)


SURFACES: tuple[Surface, ...] = (releases, descriptions, refusals)


def compare(
    open_session: Callable[[], StreamSession],
    neighbours: Neighbours,
    *,
    surfaces: Sequence[Surface] = SURFACES,
    marker: bytes = MARKER,
) -> Reach:
    """Run both streams on one transcript, and compare every surface after every slot."""
    sides = open_session(), open_session()
    compared, names, differences = 0, dict[str, None](), list[str]()
    for step, rows in enumerate(zip(neighbours.one, neighbours.other, strict=True)):
        looked = [captured(lambda s=s, r=r: s.look(r)) for s, r in zip(sides, rows, strict=True)]  # type: ignore[misc]
        law, other = looked[0][0], looked[1][0]
        if law is None or other is None:
            differences.append(f"step {step}: a look at the slot failed")
            break
        output = law.worst(other).output
        forced = [captured(lambda s=s: s.force(output))[1] for s in sides]  # type: ignore[misc] # noqa: B023 - called at once
        seen = []
        for side, session in enumerate(sides):
            here = {f"before the release, {kind}": data for kind, data in looked[side][1].items()}
            here |= {f"at the release, {kind}": data for kind, data in forced[side].items()}
            for surface in surfaces:
                here |= {f"{surface.__name__}, {name}": data for name, data in surface(session).items()}
            seen.append(here)
        for name in {**seen[0], **seen[1]}:
            names[name] = None
            one, two = (side.get(name) for side in seen)
            compared += len(one or b"")
            if one != two:
                differences.append(f"step {step}: {name} differs")
            elif one is not None and marker in one:
                differences.append(f"step {step}: {name} holds an id")
    return Reach(neighbours.name, compared, tuple(names), tuple(differences))


def process(
    command: Sequence[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """What a program lets out: its output, its complaints, and its exit code. For surfaces made of commands."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)  # noqa: S603 - the caller's own program
    return {"stdout": done.stdout, "stderr": done.stderr, "exit code": str(done.returncode).encode()}


def files(folder: Path, pattern: str = "**/*") -> dict[str, bytes]:
    """All files of a folder, by name. For surfaces made of public files."""
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
