"""A survey over months of the calendar: age × answer, with questions that `dpi query` answers.

    python examples/survey/survey.py [FOLDER]

People answer in some months and not in others; whoever answers twelve times loses no more than ε in all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dpi
from answers import ANSWERS, YEAR, make

QUESTIONS = [
    "top 4 --part answer --where age=25",
    "top 4 --part answer --where age=70",
    f"probability online --part answer --where age=25 --from {YEAR}-01-01",
]


def release(folder: Path, months: int) -> None:
    """A release for every month that has none yet, by the calendar of Berlin."""
    events = dpi.read(folder / "answers.csv", user="person", time="day", value={"age": "age", "answer": "answer"})
    domain = dpi.Product(age=dpi.Bins([18, 40, 60, 90]), answer=dpi.Categories(ANSWERS, other=None))
    with dpi.Stream(
        domain=domain,
        epsilon=1,
        slot="month",
        zone="Europe/Berlin",
        start=f"{YEAR}-01-01",
        budget=dpi.Ledger(slots=12),  # the survey lasts a year: a month costs a twelfth, and everybody can pay for all
        store=folder / "survey.db",
    ) as stream:
        assert stream.slots is not None  # noqa: S101 - it has a clock
        last = stream.slots.number(f"{YEAR}-01-01") + months
        if stream.next_slot < last:
            begin, end = (stream.slots.start(number) for number in (stream.next_slot, last))
            for made in stream.replay(events, start=begin, end=end):
                print(str(made.start)[:7], f"about {made.total:.0f} people")


def ask(store: Path, question: str) -> str:
    """What `dpi query` answers."""
    command = [sys.executable, "-m", "dpi", "query", str(store), *question.split()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own words


def main(folder: Path, months: int = 12, people: int = 6000) -> None:
    """Make the answers, release the months, ask, and draw the last of them."""
    folder.mkdir(parents=True, exist_ok=True)
    make(folder / "answers.csv", months, people)
    release(folder, months)
    said = [f"$ dpi query {folder / 'survey.db'} {words}\n{ask(folder / 'survey.db', words)}" for words in QUESTIONS]
    (folder / "answers.txt").write_text("\n".join(said), "utf-8")
    print("", *said, sep="\n")
    with dpi.open(folder / "survey.db") as stored:
        stored.newest.plot().savefig(folder / "last_month.svg")
    print(f"Look at {folder / 'last_month.svg'} and {folder / 'answers.txt'}.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/survey"))
