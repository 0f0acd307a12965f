"""Computing cases on several cores, each once: a result is a file, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import cast

from dpi._version import __version__
from dpi.errors import WeakPromise
from dpi_research.datasets import DATASETS, FOLDER
from dpi_research.reproduce.experiment import Case, Experiment, Value

Progress = Callable[[str], None]
"""Is told which case is over."""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")


@dataclass(frozen=True)
class Result:
    """The rows of one case, the seconds of processor time that they took, and the digest of the code they are of."""

    rows: tuple[dict[str, Value], ...]
    seconds: float
    code: str


@dataclass(frozen=True)
class Outcome:
    """All results of an experiment, in the order of its cases."""

    experiment: Experiment
    results: tuple[Result, ...]
    missing: tuple[str, ...]
    """Data sets that were not found, so that their cases are not here."""

    @property
    def rows(self) -> list[dict[str, Value]]:
        """Of all cases."""
        return [row for result in self.results for row in result.rows]

    @property
    def codes(self) -> list[str]:
        """Digests of the code that the results came from."""
        return sorted({result.code for result in self.results})

    @property
    def seconds(self) -> float:
        """Of one core."""
        return sum(result.seconds for result in self.results)


def run(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    quick: bool = False,
    fresh: bool = False,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Every case of the experiments, from `folder` if it is kept there; `fresh` computes it again."""
    for label in _computed(_todo(experiments, folder, quick, fresh), processes):
        if progress is not None:
            progress(label)
    outcomes = []
    for experiment in experiments:
        possible, missing = _possible(experiment.cases(quick))
        results = tuple(cast("Result", _kept(_file(folder, experiment.name, case))) for case in possible)
        outcomes.append(Outcome(experiment, results, missing))
    return outcomes


def left(experiments: Sequence[Experiment], folder: Path, *, quick: bool = False, fresh: bool = False) -> int:
    """How many cases `run` will compute."""
    return len(_todo(experiments, folder, quick, fresh))


def _todo(experiments: Sequence[Experiment], folder: Path, quick: bool, fresh: bool) -> list[tuple[Path, Case]]:
    """The cases whose data is there and that are not kept, or all of them; each with the file of its result."""
    files = [
        (_file(folder, experiment.name, case), case)
        for experiment in experiments
        for case in _possible(experiment.cases(quick))[0]
    ]
    return [(file, case) for file, case in files if fresh or _kept(file) is None]


def _possible(cases: Sequence[Case]) -> tuple[list[Case], tuple[str, ...]]:
    """The cases whose data is there, and the data that is not."""
    needed = dict.fromkeys(case.data for case in cases if case.data is not None)
    missing = tuple(name for name in needed if not _at_hand(name))
    return [case for case in cases if case.data not in missing], missing


def _at_hand(name: str) -> bool:
    folder = os.environ.get(FOLDER)
    return folder is not None and (Path(folder) / DATASETS[name].stored).is_file()


def _file(folder: Path, name: str, case: Case) -> Path:
    return folder / "results" / name / f"{case.digest}.json"


def _kept(file: Path) -> Result | None:
    """A kept result; none if there is none, or only a part of one."""
    try:
        kept = json.loads(file.read_text())
        return Result(tuple(kept["rows"]), float(kept["seconds"]), str(kept["code"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _computed(todo: Sequence[tuple[Path, Case]], processes: int) -> Iterator[str]:
    """Compute and keep; yields each label as it is over."""
    if processes == 1 or len(todo) < 2:
        for file, case in todo:
            yield _compute(file, case, case.code)
        return
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")  # the cores are taken by processes
    context = get_context("spawn")  # a fork would copy locks that threads hold
    pool = ProcessPoolExecutor(processes, context, initializer=_end_at_once)
    try:
        futures: list[Future[str]] = [pool.submit(_compute, file, case, case.code) for file, case in todo]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _end_at_once() -> None:
    """Ctrl-C, which a terminal sends to all processes, ends a worker where it is: it holds nothing but half a result.

    An exception would be caught, sent back as a result, and the worker would go on; the pool could then wait for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _compute(file: Path, case: Case, code: str) -> str:
    """Compute and keep a case; its code was read by whoever chose the file, and a worker need not read it again."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromise)  # what was published at ε = 100 is computed at ε = 100
        rows = case.make(**case.options)
    seconds = time.process_time() - start
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    kept = {"program": __version__, "code": code, "options": dict(case.options), "seconds": seconds, "rows": rows}
    part.write_text(json.dumps(kept, ensure_ascii=False))
    part.replace(file)
    return case.label
