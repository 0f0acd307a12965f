"""How much processor time a start takes: `import dpi`, the list of commands, a small command.

    python benchmarks/start.py

Processor time (user and system) of whole processes, the least of several: what a machine does beside is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys

from measure import Cell, record

REPEATS = 7
CASES = {
    "python": (["-c", "pass"], None),
    "import dpi": (["-c", "import dpi"], 0.25),
    "from dpi import *": (["-c", "from dpi import *"], None),
    "dpi --help": (["-m", "dpi.cli", "--help"], 0.35),
    "dpi run --help": (["-m", "dpi.cli", "run", "--help"], None),
    "dpi plan": (["-m", "dpi.cli", "plan", "--epsilon", "1", "--users", "900", "--bins", "9"], None),
}
"""What is started, and the most that it should take."""


def seconds(words: list[str]) -> float:
    """Processor time of a process."""
    before = os.times()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    slow, rows = list[str](), list[list[Cell]]()
    for name, (words, most) in CASES.items():
        least = min(seconds(words) for _ in range(REPEATS))
        rows.append([f"`{name}`", round(least, 3), most])
        if most is not None and least > most:
            slow.append(name)
    record("start", parts=("cli",), columns=["", "processor s", "at most"], rows=rows)
    if slow:
        sys.exit(f"slower than they should be: {', '.join(slow)}")


if __name__ == "__main__":
    main()
