"""What an analyst can reach besides the releases: every other byte must be equal on neighbouring streams.

Two streams are forced to the same releases. Then whatever still differs was made from private data: a number in a log
line, a count in an error text, a hint in a `repr`. A *surface* is a function that looks at a session after a slot and
returns named bytes; the command line, a store's public files or an HTTP response are further surfaces.

**What it cannot find.** A surface nobody lists. Time is looked at by itself (`time_to_release`): a slot is published at
a fixed public delay, so the time that the program took is not seen. This is a second line: if it were seen, would one
ordinary user show? A user with very many rows does: work grows with rows.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import polars as pl

from dpi.errors import OptionError
from dpi.histogram.compression import counts
from dpi.store.export import export
from dpi.store.sql import SQLStore
from dpi_audit._distinguishers import Floats
from dpi_audit.empirical import ERROR, incomplete_beta
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


def capture(action: Callable[[], T]) -> tuple[T | None, dict[str, bytes]]:
    """Return the result of an action, and all it let out: errors with their causes, log records, warnings, prints.

    >>> capture(lambda: print("three", end=""))[1]["stdout"]
    b'three'
    """
    handler = _Keep()
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
        "log": "\n".join(handler.records).encode(),
        "warnings": "\n".join(f"{w.category.__name__}: {w.message}" for w in warned).encode(),
        "stdout": out.getvalue().encode(),
        "stderr": err.getvalue().encode(),
    }


class _Keep(logging.Handler):
    """Keeps what a log would print, its arguments included."""

    def __init__(self) -> None:
        super().__init__(1)
        self.records = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(f"{record.levelname} {record.name} {record.getMessage()}")


def _chain(problem: BaseException | None) -> Iterator[str]:
    while problem is not None:
        yield f"{type(problem).__name__}: {problem} {getattr(problem, '__notes__', '')}"
        problem = problem.__cause__ or (None if problem.__suppress_context__ else problem.__context__)


def releases(session: StreamSession) -> dict[str, bytes]:
    """Return a release as text: JSON, `repr`, HTML."""
    release = session.last
    if release is None:
        raise OptionError("a release is looked at after the first slot.")
    return {"json": release.to_json().encode(), "repr": repr(release).encode(), "html": release._repr_html_().encode()}


def descriptions(session: StreamSession) -> dict[str, bytes]:
    """Return what a stream says of itself."""
    stream = session.stream
    said = {"repr": repr(stream), "html": stream._repr_html_(), "guarantee": stream.guarantee, "digest": stream.digest}
    return {name: text.encode() for name, text in said.items()}


def refusals(session: StreamSession) -> dict[str, bytes]:
    """Return what the stream says to calls that it must refuse, made with the slot's own rows."""
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
        _, out = capture(call)
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
        looked = [capture(lambda s=s, r=r: s.look(r)) for s, r in zip(sides, rows, strict=True)]  # type: ignore[misc]
        law, other = looked[0][0], looked[1][0]
        if law is None or other is None:
            differences.append(f"step {step}: a look at the slot failed")
            break
        output = law.worst(other).output
        forced = [capture(lambda s=s: s.force(output))[1] for s in sides]  # type: ignore[misc] # noqa: B023 - called at once
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


def run_process(
    command: Sequence[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Return what a program lets out: its output, its complaints, its exit code. For surfaces made of commands."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)  # noqa: S603 - the caller's own program
    return {"stdout": done.stdout, "stderr": done.stderr, "exit code": str(done.returncode).encode()}


def read_files(folder: Path, pattern: str = "**/*") -> dict[str, bytes]:
    """Return all files of a folder, by name. For surfaces made of public files."""
    paths = sorted(path for path in folder.glob(pattern) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def exported(session: StreamSession) -> dict[str, bytes]:
    """Return the file that `dpi export` writes of the session's store, after every slot: a surface."""
    store = session.stream.store
    if not store.durable:
        raise OptionError("an export is made of a store on disk: audit a `StoredSession`.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "public.db"
        export(cast("SQLStore", store), path)
        return {"file": path.read_bytes()}


_RESAMPLED, _POWER = 200, 0.9


@dataclass(frozen=True)
class Timing:
    """Medians of the two streams, an interval for their ratio, and what the test would have seen."""

    seconds: tuple[float, float]
    ratio: tuple[float, float]
    """Wrong with probability at most `error`."""
    factor: float
    """Medians are to lie within this factor of each other."""
    power: float
    """The smallest true factor that the test finds in at least nine of ten repetitions; infinite if there is none."""
    error: float = ERROR

    @property
    def apart(self) -> bool:
        """Whether the medians are certainly further apart than `factor`."""
        return self.ratio[0] > self.factor or self.ratio[1] < 1 / self.factor


def time_to_release(run: Callable[[bool], object], *, repeats: int = 60, factor: float = 1.5, seed: int = 0) -> Timing:
    """Time `run(with_user)` in a random order, so that a drift of the machine hits both streams alike."""
    chance = np.random.default_rng(seed)
    order = chance.permutation(np.repeat([True, False], repeats))
    for side in (True, False):
        run(side)
    taken: dict[bool, list[float]] = {True: [], False: []}
    for side in order:
        start = time.perf_counter()
        run(bool(side))
        taken[bool(side)].append(time.perf_counter() - start)
    one, other = np.array(taken[True]), np.array(taken[False])
    medians = float(np.median(one)), float(np.median(other))
    return Timing(medians, _interval(one, other), factor, _power(one, other, factor, chance))


def _interval(one: Floats, other: Floats) -> tuple[float, float]:
    """Return an interval for the ratio of medians, from order statistics of each sample: it assumes no law of times."""
    (a, b), (c, d) = (_median_interval(sample) for sample in (one, other))
    return a / d, b / c


def _median_interval(sample: Floats) -> tuple[float, float]:
    """Return the k-th smallest and largest time, with k as large as 2·P(Binomial(n, ½) < k) ≤ error/2 allows."""
    ordered, at = np.sort(sample), _median_rank(sample.size)
    return float(ordered[at]), float(ordered[-1 - at])


@cache
def _median_rank(size: int) -> int:
    k = 0  # P(Binomial(n, ½) ≤ k) = I_½(n - k, k + 1)
    while k + 1 < size // 2 and 4 * incomplete_beta(size - k, k + 1, 0.5) <= ERROR:
        k += 1
    return max(k - 1, 0)


def _power(one: Floats, other: Floats, factor: float, chance: np.random.Generator) -> float:
    """Resample from the second stream's times, slow one side down, and see when the test says so."""
    pooled = np.concatenate([one / np.median(one), other / np.median(other)])
    for true in factor * 1.1 ** np.arange(1, 30):
        rejections = 0
        for _ in range(_RESAMPLED):
            slow, plain = (chance.choice(pooled, size=x.size) for x in (one, other))
            rejections += _interval(slow * true, plain)[0] > factor
        if rejections >= _POWER * _RESAMPLED:
            return float(true)
    return math.inf
