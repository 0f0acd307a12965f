"""Checks of sources find what they are there for: files that are followed wrongly in one way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpi.sources.live import Block, Done, LiveInput, Reach
from dpi.testing import SOURCE_CHECKS, _source, check_source
from dpi.testing._checking import run_checks
from live_files import CSVFile

Reached = tuple[Reach, ...]


class Wrapped(LiveInput):
    """A file as it should be followed, for others to spoil."""

    def __init__(self, right: LiveInput) -> None:
        self.right, self.name = right, right.name

    @property
    def lost(self) -> bool:  # type: ignore[override]
        """Whatever the file says."""
        return self.right.lost

    def reached(self) -> Reached:
        """How far it has got."""
        return self.right.reached()

    def read(self, upto: Reached) -> Iterator[Block]:
        """What is new."""
        return self.right.read(upto)

    def close(self) -> None:
        """Let go."""
        self.right.close()


def repeating(self, upto: Reached) -> Iterator[Block]:
    """Every block twice, with the next sequence the second time."""
    for block in self.right.read(upto):
        yield block
        yield replace(block, sequence=block.sequence + 1)


def greedy(self, upto: Reached) -> Iterator[Block]:
    """What is there, whatever the mark says."""
    return self.right.read(self.right.reached())


class Locked(Wrapped):
    """Lets nobody look while it is read."""

    def __init__(self, right: LiveInput) -> None:
        super().__init__(right)
        self.turn = threading.Lock()

    def reached(self) -> Reached:
        """When it is one's turn."""
        with self.turn:
            return self.right.reached()

    def read(self, upto: Reached) -> Iterator[Block]:
        """Holds the turn."""
        with self.turn:
            yield from self.right.read(upto)


class Anew(CSVFile):
    """Begins anew at every start."""

    def follow(self, done: Done, known: Reached) -> LiveInput:
        """As if nothing were stored."""
        return super().follow(lambda producer: -1, known)


class Unknowing(CSVFile):
    """Does not look for what was replaced during a stop."""

    def follow(self, done: Done, known: Reached) -> LiveInput:
        """As if nothing had been noted."""
        (self.path.parent / "elsewhere").mkdir(exist_ok=True)
        for old in self.path.parent.glob("old-*"):
            old.rename(self.path.parent / "elsewhere" / old.name)
        return super().follow(done, known)


class Held(CSVFile):
    """Its marks stand still while an event is under way."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.under_way: list[int] = []

    def begin(self, user: str) -> Callable[[bool], None]:
        """Hold marks up."""
        size = self.path.stat().st_size
        self.under_way.append(size)

        def end(kept: bool) -> None:
            self.under_way.remove(size)
            self.send([user] * kept)

        return end

    def follow(self, done: Done, known: Reached) -> LiveInput:
        """Up to the first event that is under way."""
        feed = self

        class Stopped(Wrapped):
            """See above."""

            def reached(self) -> Reached:
                first = min(feed.under_way, default=1 << 62)
                return tuple(reach._replace(offset=min(reach.offset, first)) for reach in self.right.reached())

        return Stopped(super().follow(done, known))


def spoilt(base: type[Wrapped] = Wrapped, **members: object) -> type[CSVFile]:
    """A CSV file that is followed in another way."""
    kind = type("Spoilt", (base,), members)
    return type("Feed", (CSVFile,), {"follow": lambda self, *known: kind(CSVFile.follow(self, *known))})


@pytest.mark.parametrize(
    ("feed", "found"),
    [
        (spoilt(read=repeating), "every_event_is_read_once"),
        (spoilt(read=greedy), "an_event_is_read_when_it_is_complete"),
        (spoilt(read=greedy), "a_reader_resumes_where_it_stopped"),
        (spoilt(Locked), "looking_takes_no_turn_of_reading"),
        (Anew, "a_reader_resumes_where_it_stopped"),
        (spoilt(lost=True), "what_was_cut_after_it_was_read_is_not_lost"),
        (spoilt(lost=False), "what_was_cut_away_unread_is_lost_and_stops_nothing"),
        (spoilt(lost=True), "what_was_replaced_is_read_to_its_end"),
        (Held, "no_user_moves_anothers_events"),
        (Unknowing, "what_was_replaced_while_nobody_followed_is_found"),
    ],
)
def test_a_source_that_is_wrong_in_one_way_is_found(
    feed: type[CSVFile], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check that is there for a fault fails on it, by name and with a sentence."""
    monkeypatch.setattr(_source, "PATIENCE", 0.2)
    (check,) = [check for check in SOURCE_CHECKS if check.__name__ == found]
    with pytest.raises(AssertionError, match=rf"^{found}: .+"):
        run_checks([check], feed(tmp_path))


def test_the_suite_runs_on_a_feed_for_each_check(tmp_path: Path) -> None:
    """A source that does as it should passes all of them, one that does not is refused."""

    def fresh(kind: type[CSVFile]) -> CSVFile:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return kind(folder)

    check_source(lambda: fresh(spoilt()))
    with pytest.raises(AssertionError, match=r"^every_event_is_read_once: "):
        check_source(lambda: fresh(spoilt(read=repeating)))
