"""One job, every library: events of one slot to a private histogram, each contender in a process of its own.

Contenders (benchmarks/peers/with_*.py) load the same Parquet file, release once to warm up, and then take turns, round
after round. One that has used up its time leaves the round, so that the slow do not make all wait.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

PEERS = Path(__file__).resolve().parent / "peers"
sys.path.append(str(PEERS))
from install import environment, python  # noqa: E402
from measure import SLOT, Cell, quartiles, record  # noqa: E402
from results import AT_LEAST, Goal  # noqa: E402
from turns import VALUES  # noqa: E402

CONTENDERS = {
    # script: name on the page, and its environment, which is ours unless said
    "with_dpi": ("dpi, kernel", None),
    "with_dpi_stream": ("dpi, whole slot", None),
    "with_polars": ("bare polars, no noise", None),
    "with_duckdb": ("bare duckdb, no noise", "duckdb"),
    "with_diffprivlib": ("diffprivlib, users bounded by polars", "diffprivlib"),
    "with_opendp_plain": ("OpenDP plain, users bounded by polars", "opendp"),
    "with_opendp_context": ("OpenDP Context", "opendp"),
    "with_tumult": ("Tumult Analytics", "tumult"),
    "with_pipelinedp": ("PipelineDP, local", "pipelinedp"),
}
NOISY = ("with_diffprivlib", "with_opendp_plain", "with_opendp_context", "with_tumult", "with_pipelinedp")
SIZES = ((1_000_000, 200_000), (10_000_000, 2_000_000))
QUICK = ((200_000, 40_000),)
GOALS = {"with_opendp_context": 40.0, "with_tumult": 60.0, "with_pipelinedp": 200.0, "with_diffprivlib": 1.5}
"""How many times as long as ours they should take, by the clock on the wall, with a million events."""
GOAL_ROWS = 1_000_000
SLACK = 0.02
"""How far the sum of a histogram may be from the number of users; noise alone moves it by far less."""


@dataclass
class Contender:
    """A process that releases when it is asked."""

    process: subprocess.Popen[str]
    complaints: IO[str]
    versions: dict[str, str] = field(default_factory=dict)
    note: str = ""
    turns: list[dict[str, float]] = field(default_factory=list)

    @classmethod
    def started(cls, script: str, environment_name: str | None, file: Path) -> Contender:
        """Start it, and wait until it has loaded the file."""
        interpreter = sys.executable if environment_name is None else str(python(environment_name))
        inherited = dict(os.environ)
        if environment_name is not None:
            inherited.pop("PYTHONPATH", None)
            inherited["LD_LIBRARY_PATH"] = str(environment(environment_name) / "libraries")
        complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115, not a pipe, which would fill and stop it
        process = subprocess.Popen(
            [interpreter, "-W", "ignore", str(PEERS / f"{script}.py"), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            env=inherited,
        )
        made = cls(process, complaints)
        said = json.loads(made.heard())
        made.versions, made.note = said["versions"], said["note"]
        return made

    def heard(self) -> str:
        """The next line of JSON that it says. Raises `RuntimeError` with its last words if it has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return line
        self.complaints.seek(0)
        lines = self.complaints.read().strip().splitlines() or ["it ended without a word"]
        raise RuntimeError(lines[-1])

    def turn(self, users: int) -> dict[str, float]:
        """One release, checked: it has every value, and its sum is the number of users but for noise."""
        assert self.process.stdin is not None
        self.process.stdin.write("release\n")
        self.process.stdin.flush()
        said: dict[str, float] = json.loads(self.heard())
        if said["bins"] != VALUES or abs(said["total"] - users) > SLACK * users:
            raise RuntimeError("its histogram is not that of the job")
        return said

    def end(self) -> None:
        """Let it go."""
        self.process.communicate(timeout=60)
        self.complaints.close()


def written(rows: int, users: int, folder: Path) -> tuple[Path, int]:
    """The file of events, and how many users have one."""
    rng = np.random.default_rng(1)  # benchmark data, no privacy noise
    frame = pl.DataFrame({"user": rng.integers(0, users, rows), "value": rng.integers(0, VALUES, rows)})
    frame.write_parquet(folder / "events.parquet")
    return folder / "events.parquet", frame["user"].n_unique()


def played(file: Path, users: int, rounds: int, seconds: float) -> tuple[dict[str, Contender], dict[str, str]]:
    """The contenders after their rounds, and why some are missing."""
    running, missing = {}, {}
    for script, (_, peer) in CONTENDERS.items():
        try:
            if peer is not None and not (environment(peer) / "made").exists():
                raise RuntimeError(f"not installed: python benchmarks/peers/install.py {peer}")
            running[script] = Contender.started(script, peer, file)
            running[script].turn(users)  # warm-up
        except RuntimeError as error:
            missing[script] = str(error)
            running.pop(script, None)
    for _ in range(rounds):
        for each in running.values():
            if sum(turn["wall"] for turn in each.turns) < seconds:
                each.turns.append(each.turn(users))
    for each in running.values():
        each.end()
    return running, missing


def ahead(running: dict[str, Contender]) -> str:
    """Who is ahead of ours, in sentences: those that promise something, for the others show what counting takes."""

    def less(name: str, ours: str) -> str:
        most = {script: float(np.median([turn[name] for turn in each.turns])) for script, each in running.items()}
        here = [CONTENDERS[script][0] for script in most if script in NOISY and most[script] < most[ours]]
        return ", ".join(here) or "none"

    return (
        f"Faster than our kernel by the clock: {less('wall', 'with_dpi')}; than our whole slot: "
        f"{less('wall', 'with_dpi_stream')}. With less memory than our kernel: {less('peak', 'with_dpi')}; than our "
        f"whole slot: {less('peak', 'with_dpi_stream')}."
    )


def measure(quick: bool, _: Path) -> None:
    """The table of every size, and who is missing."""
    for rows, users in QUICK if quick else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            file, present = written(rows, users, Path(folder))
            running, missing = played(file, present, *((3, 10.0) if quick else (7, 120.0)))
        ours, clock = (float(np.median([turn[name] for turn in running["with_dpi"].turns])) for name in ("cpu", "wall"))
        whole = float(np.median([turn["wall"] for turn in running["with_dpi_stream"].turns])) / clock
        lines, versions, goals = list[list[Cell]](), dict[str, str](), list[Goal]()
        for script, each in running.items():
            cpu, wall, peak = ([turn[name] for turn in each.turns] for name in ("cpu", "wall", "peak"))
            name = f"{CONTENDERS[script][0]}{' †' if each.note else ''}"
            of_cpu, of_wall = float(np.median(cpu)) / ours, float(np.median(wall)) / clock
            lines.append([name, quartiles(wall), of_wall, quartiles(cpu), of_cpu, quartiles(peak, 2**-20)])
            versions |= each.versions if CONTENDERS[script][1] else {}
            if script in GOALS and rows == GOAL_ROWS:
                for what, of in ((of_wall, "our kernel"), (of_wall / whole, "our whole slot")):
                    goals.append((f"{CONTENDERS[script][0]}, seconds × {of}:", what, AT_LEAST, GOALS[script]))
        peers = sorted(name for name in versions if name not in ("numpy", "polars", "pyarrow"))
        rounds_of = [f"{CONTENDERS[script][0]} {len(each.turns)}" for script, each in running.items()]
        record(
            f"performance-peers-{rows // 1_000_000}m",
            parts=SLOT,
            about=f"{rows:,} events of {present:,} users. {ahead(running)}",
            columns=["", "seconds", "seconds × ours", "processor s", "processor × ours", "peak memory, MiB"],
            rows=lines,
            goals=goals,
            spread="quartiles of the rounds",
            notes=[
                *(f"{CONTENDERS[script][0]} is missing: {why}." for script, why in missing.items()),
                *(f"† {each.note}." for each in running.values() if each.note),
                f"Rounds: {', '.join(rounds_of)}.",
                f"Peers: {', '.join(f'{name} {versions[name]}' for name in peers)}.",
            ],
        )
