"""Mutation: changes one expression of a critical module at a time, and asks whether a test notices.

    python benchmarks/mutation.py                       # every module of mutation.toml
    python benchmarks/mutation.py budget/ledger.py chain.py --sample 100 --seed 1 --report out.json

All runs are forks of a process that has the tests collected, so nothing is loaded twice: the change (`mutants.py`) is
put into the function's code. Where it is made while modules load, or the tests do not pass unchanged in such a fork, an
import hook hands it out, in a process of its own.
A first run notes which test executes which line; a mutant is shown to the tests of its lines, the fastest first, until
one fails. Hypothesis draws the same examples for all and does not shrink. What survives is listed; `mutation.toml`
says which tests are asked, and explains survivors that no test can kill.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from mutants import ROOT, Hook, Mutant, mutants, owner, patch, path_of

HEAVY = ("numpy", "polars", "hypothesis", "pytest", "cryptography", "mpmath", "z3", "pandas", "pyarrow", "zoneinfo")
MEMORY = 8 << 30
"""Bytes that a run may take: a mutant that wants more has failed."""
COLLECTING = 60
"""Seconds that loading and collecting tests may take, on a machine that does other things as well."""
SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
TESTS: dict[str, list[str]] = SETTINGS["tests"]
"""The modules, and the tests that are asked about each, besides its own examples."""


def _forget() -> None:
    """Empty all caches: a test that finds a value of another one there would seem not to run the lines that make it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dpi."):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


Coverage = dict[str, tuple[float, list[int]]]
"""For each test its seconds, and the lines that it runs in the module."""


class Plugin:
    """Holds a session with its tests collected; all runs of tests are forks of it."""

    def __init__(self, loop: Callable[[Any], None]) -> None:
        self.loop = loop

    def pytest_sessionstart(self) -> None:
        """The same examples for every mutant, and no time spent on small ones."""
        from hypothesis import HealthCheck, Phase, settings

        phases, checks = (Phase.explicit, Phase.generate), [HealthCheck.too_slow]
        settings.register_profile(
            "mutation", deadline=None, derandomize=True, database=None, phases=phases, suppress_health_check=checks
        )
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: Any) -> bool:
        """Instead of running the tests once."""
        self.loop(session)
        return True


def served(files: Sequence[str], loop: Callable[[Any], None]) -> None:
    """Collect the tests of some files, and hand the session to `loop`."""
    import pytest

    pytest.main([*files, "-x", "-q", "-p", "no:cacheprovider", "--assert=plain"], plugins=[Plugin(loop)])


def passed(session: Any, items: Sequence[Any]) -> bool:
    """Whether the tests pass; the first failure ends it."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return False
    return True


def traced(session: Any, file: str) -> Coverage | None:
    """The lines of a file that each test runs; None if a test fails."""
    seen: Coverage = {}
    for item in session.items:
        lines: set[int] = set()

        def local(frame: FrameType, event: str, argument: object, lines: set[int] = lines) -> object:
            lines.add(frame.f_lineno)
            return local

        def begun(frame: FrameType, event: str, argument: object, local: Any = local) -> Any:
            return local if frame.f_code.co_filename == file else None

        _forget()
        start = time.monotonic()
        threading.settrace(begun)  # a service answers in threads
        sys.settrace(begun)
        good = passed(session, [item])
        sys.settrace(None)
        threading.settrace(None)
        if not good:
            return None
        seen[item.nodeid] = (time.monotonic() - start, sorted(lines))
    return seen


def chosen_tests(mutant: Mutant, coverage: Coverage) -> tuple[list[str], float]:
    """The tests that run a mutant's lines (all, where an import runs them), the fastest first, and their seconds."""
    span = set(range(mutant.line, mutant.end + 1))
    seconds = {name: took for name, (took, lines) in coverage.items() if span & set(lines)}
    seconds = seconds or {name: took for name, (took, _) in coverage.items()}
    return sorted(seconds, key=seconds.__getitem__), 10 + 2 * sum(seconds.values())


def in_order(session: Any, names: Sequence[str]) -> list[Any]:
    """The collected tests of these names."""
    by_name = {item.nodeid: item for item in session.items}
    return [by_name[name] for name in names]


def in_place(mutant: Mutant, path: tuple[str, ...], coverage: Coverage, session: Any) -> object:
    """Whether the tests pass with a function's code changed."""
    names, seconds = chosen_tests(mutant, coverage)

    def work() -> object:
        patch(mutant, path)
        return passed(session, in_order(session, names))

    return forked(work, seconds)


def anew(mutant: Mutant, coverage: Coverage) -> object:
    """Whether the tests pass where the changed module is loaded in its place."""
    names, seconds = chosen_tests(mutant, coverage)
    seconds += COLLECTING
    files = [*dict.fromkeys(name.partition("::")[0] for name in names)]

    def work() -> object:
        sys.meta_path.insert(0, Hook(mutant))
        good: list[bool] = []
        try:
            served(files, lambda session: good.append(passed(session, in_order(session, names))))
        except Warning:  # such as of a file that was left open: an error in tests
            return False
        return good == [True]

    return forked(work, seconds)


def forked(work: Callable[[], object], seconds: float) -> object:
    """What `work` returns in a fork, by JSON: "late" if it takes too long, "broken: …" if it cannot be done."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            quiet = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(quiet, number)
            try:
                result = json.dumps(work())
            except BaseException as error:
                result = json.dumps(f"broken: {error!r}")
            os.write(writer, result.encode())
        os._exit(0)
    os.close(writer)
    text = '"late"'
    with _alarm(seconds), suppress(TimeoutError), os.fdopen(reader) as stream:
        text = stream.read() or "false"  # it crashed: what a test would notice
    _end(child)
    return json.loads(text)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _end(child: int) -> None:
    """End the fork and whatever it started: it leads a group of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def covered(module: str, files: Sequence[str]) -> Coverage:
    """What the module's tests run, in a process of their own."""

    def work() -> object:
        coverages: list[Coverage | None] = []
        served(files, lambda session: coverages.append(traced(session, str(path_of(module)))))
        return coverages[0]

    coverage = forked(work, 1200)
    if not isinstance(coverage, dict):
        raise SystemExit(f"the tests of {module} do not pass as they are, or take too long.")
    return coverage


def outcomes(module: str, chosen: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with its end, as they come: "killed", "timeout" (killed as well) or "survived"."""
    if not chosen:
        return
    files = [f for f in (*TESTS[module], str(path_of(module).relative_to(ROOT))) if Path(f).exists()]
    coverage = covered(module, files)
    paths = [None if module.startswith(tuple(SETTINGS["anew"])) else owner(mutant) for mutant in chosen]
    reader, writer = os.pipe()

    def loop(session: Any) -> None:
        seconds = 10 + 2 * sum(took for took, _ in coverage.values())
        if not any(paths) or forked(lambda: passed(session, in_order(session, list(coverage))), seconds) is not True:
            return  # a fork lacks threads that collecting has started: what it ends by says nothing of a mutant
        for number, (mutant, path) in enumerate(zip(chosen, paths, strict=True)):
            if path is not None:
                os.write(writer, json.dumps([number, in_place(mutant, path, coverage, session)]).encode() + b"\n")

    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            served(files, loop)
        os._exit(0)
    os.close(writer)
    tried = set()
    with os.fdopen(reader) as stream:
        for line in stream:
            number, good = json.loads(line)
            tried.add(number)
            yield chosen[number], _end_of(good)
    os.waitpid(child, 0)
    for number, mutant in enumerate(chosen):
        if number not in tried:
            yield mutant, _end_of(anew(mutant, coverage))


def _end_of(good: object) -> str:
    if isinstance(good, str) and good.startswith("broken"):
        raise SystemExit(f"a mutant could not be tried ({good}): see `patch` and `Hook`.")
    return "timeout" if good == "late" else "survived" if good else "killed"


def main() -> None:
    """Run the mutants of the named modules, or of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="paths below src/dpi, such as budget/accounts.py, or dpi_research/…")
    parser.add_argument("--sample", type=int, help="at most so many mutants of each module, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="a JSON file of all outcomes; who is dead in it is not tried again")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ |= {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    sys.path[0] = str(ROOT / "src")  # in place of the benchmarks, which have a `store` as the tests do
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)
    known = _known(options.report)
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
    for module in options.modules or TESTS:
        chosen = mutants(module)
        if options.sample is not None and options.sample < len(chosen):
            chosen = random.Random(f"{options.seed}/{module}").sample(chosen, options.sample)  # noqa: S311
        chosen.sort(key=lambda m: (m.line, m.node, m.change))
        for mutant, end in outcomes(module, [m for m in chosen if m.key not in known]):
            known[mutant.key] = {**asdict(mutant), "outcome": end}
            if options.report:
                options.report.write_text(json.dumps(known, ensure_ascii=False, indent=1))
            if end == "survived":
                print(f"  {mutant.key}", flush=True)
        _say(module, len(mutants(module)), chosen, known)


def _known(report: Path | None) -> dict[str, dict[str, Any]]:
    """What a report says of mutants that are dead; survivors are tried again."""
    ends = json.loads(report.read_text()) if report is not None and report.exists() else {}
    return {key: end for key, end in ends.items() if end["outcome"] != "survived"}


def _say(module: str, total: int, chosen: Sequence[Mutant], known: dict[str, dict[str, Any]]) -> None:
    """One row of the table of modules."""
    ends = [known[m.key] for m in chosen]
    alive = [end for end in ends if end["outcome"] == "survived"]
    source = path_of(module).read_text().splitlines()
    reasons = [e for e in SETTINGS["explained"] if e["module"] == module]
    equal = sum(
        any(e["line"] in source[end["line"] - 1] and [end["before"], end["after"]] in e["changes"] for e in reasons)
        for end in alive
    )
    dead = len(ends) - len(alive)
    raw, adjusted = 100 * dead / len(ends), 100 * (dead + equal) / len(ends)
    print(f"| `{module}` | {total} | {len(ends)} | {dead} | {equal} | {raw:.1f} | {adjusted:.1f} |", flush=True)


if __name__ == "__main__":
    main()
