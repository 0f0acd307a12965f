"""Files that are replaced often, late, or while nobody looks."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import dpi
from dpi.sources import growing
from live_files import HEAD, Reader, append, start


class Clock:
    """Stands for `time` in the module that watches files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(growing, "time", self)

    def monotonic(self) -> float:
        """Seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that is set by hand."""
    return Clock(monkeypatch)


def replace(path: Path, data: bytes) -> None:
    """Put another file in place, and remove the old one."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def held(reader: Reader) -> int:
    """How many files are open."""
    assert isinstance(reader.input, growing.GrowingFile)
    return len(reader.input._files)


def test_a_reader_far_behind_finds_files_that_are_watched_no_more(tmp_path: Path, clock: Clock) -> None:
    """A flood that takes minutes to read loses nobody's lines: a file is held until its last mark is read."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"flood,1,x\n")
    marks = [reader.input.reached()]
    for name in (b"ada", b"bob"):
        replace(path, HEAD + name + b",1,x\n")
        marks.append(reader.input.reached())
    clock.now = 120  # so long does the reader take for the first mark
    marks.append(reader.input.reached())
    assert [reader.upto(mark) for mark in marks] == [["flood"], ["ada"], ["bob"], []]
    assert not reader.input.lost
    reader.upto(reader.input.reached())
    assert held(reader) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_a_number_that_comes_back_again_and_again(tmp_path: Path, clock: Clock, restarted: bool) -> None:
    """Systems give the numbers of removed files to new ones: each is another file, also of the same size."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"user-0,1,x\n")
    users = reader.new()
    if restarted:
        reader = Reader(path, reader.done, reader.input.reached())
    for number in range(1, 9):
        replace(path, HEAD + b"user-%d,1,x\n" % number)
        for _ in range(3):
            users += reader.new()
            clock.now += 61
    assert users == [f"user-{number}" for number in range(9)]
    assert held(reader) == 1


def test_a_number_known_before_the_start_comes_back_twice(tmp_path: Path, clock: Clock) -> None:
    """What a mark of an earlier run says of a number does not hide what this run has stored under it."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\n" * 9)
    reader.new()
    reader = Reader(path, reader.done, reader.input.reached())
    users = []
    for name in (b"bob", b"eve", b"kim"):
        path.write_bytes(HEAD + name + b",1,x\n")  # the same number
        users += reader.new()
        path.rename(tmp_path / "away")
        replace(path, HEAD)
        for _ in range(3):
            clock.now += 61
            users += reader.new()
        path.unlink()
        (tmp_path / "away").rename(path)
    assert users == ["bob", "eve", "kim"]


def test_a_file_that_grew_and_was_replaced_while_nobody_followed_is_read_to_its_end(tmp_path: Path) -> None:
    """Not only up to where it had been seen: what came after that counts as well."""
    path, old = tmp_path / "events.csv", tmp_path / "events.csv.1"
    reader = start(path, HEAD + b"ada,1,x\n")
    assert reader.new() == ["ada"]
    then = reader.input.reached()
    append(path, b"bob,1,x\n")
    path.rename(old)
    path.write_bytes(HEAD + b"eve,1,x\n")
    again = Reader(path, reader.done, then)
    assert again.new() == ["bob", "eve"]
    append(old, b"late,1,x\n")
    assert again.new() == ["late"]


def test_a_program_asleep_for_minutes_looks_at_a_replaced_file_once_more(tmp_path: Path, clock: Clock) -> None:
    """The minute for which a file is watched ends with a look, however late that is."""
    path, old = tmp_path / "events.csv", tmp_path / "events.csv.1"
    reader = start(path)
    reader.new()
    path.rename(old)
    path.write_bytes(HEAD)
    reader.new()
    append(old, b"ada,1,x\n")
    clock.now = 600
    assert reader.new() == ["ada"]


def test_gaps_between_files_hold_no_descriptors(tmp_path: Path, clock: Clock) -> None:
    """Also where the name is gone for a while at every rotation, files are let go of."""
    path = tmp_path / "events.csv"
    reader, users = start(path), []
    for number in range(50):
        path.unlink()
        clock.now += 20
        users += reader.new()
        path.write_bytes(HEAD + b"%d,1,x\n" % number)
        clock.now += 20
        users += reader.new()
    assert users == [str(number) for number in range(50)]
    assert held(reader) <= 4


def test_a_file_that_is_cut_while_it_is_read_is_not_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has taken the place of lines that were not yet read is of the next generation, and of that alone."""
    monkeypatch.setattr(growing, "BLOCK", 64)
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\n" * 40)
    blocks = reader.input.read(reader.input.reached())
    first = next(blocks)
    reader.done[first.producer] = first.sequence
    path.write_bytes(HEAD + b"eve,1,x\n" * 20)
    users = [user for block in blocks for user in block.events["user"]]
    assert "eve" not in users
    assert reader.input.lost
    assert reader.new() == ["eve"] * 20


def test_other_entries_of_the_folder_do_not_end_the_search(tmp_path: Path) -> None:
    """A link that leads to itself, or whatever lies there, hides no file."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\n")
    then = reader.input.reached()
    path.rename(tmp_path / "zz")
    for number in range(20):
        (tmp_path / f"loop-{number}").symlink_to(tmp_path / f"loop-{number}")
    path.write_bytes(HEAD)
    assert Reader(path, {}, then).upto(then) == ["ada"]


def test_a_file_of_something_else_that_has_the_number_is_not_read(tmp_path: Path) -> None:
    """A number may be given to any file of the folder: one that does not go on where the old one was is left alone."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\n")
    then = reader.input.reached()
    path.rename(tmp_path / "notes")
    (tmp_path / "notes").write_bytes(b"no header\n")
    path.write_bytes(HEAD + b"eve,1,x\n")
    again = Reader(path, {}, then)
    assert again.upto(then) == []
    assert again.input.lost
    assert again.new() == ["eve"]


def test_a_named_pipe_in_the_place_of_a_file_stops_nothing(tmp_path: Path) -> None:
    """It counts as a gap between two files."""
    path = tmp_path / "events.ndjson"
    reader = start(path, b'{"user": 1}\n')
    path.unlink()
    os.mkfifo(path)
    thread = threading.Thread(target=reader.input.reached, daemon=True)
    thread.start()
    thread.join(timeout=5)
    stuck = thread.is_alive()
    if stuck:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        thread.join()
    assert not stuck


def test_a_link_that_is_set_to_the_next_file_is_one_input(tmp_path: Path) -> None:
    """Rotation by a link: over restarts no line is read twice, and none that was noted is forgotten."""
    link, files = tmp_path / "current.csv", [tmp_path / f"{number}.csv" for number in range(3)]
    files[0].write_bytes(HEAD + b"ada,1,x\n")
    link.symlink_to(files[0])
    reader = Reader(link)
    assert reader.new() == ["ada"]
    files[1].write_bytes(HEAD + b"bob,1,x\n")
    link.unlink()
    link.symlink_to(files[1])
    assert reader.new() == ["bob"]
    append(files[1], b"eve,1,x\n")
    then = reader.input.reached()
    files[2].write_bytes(HEAD + b"kim,1,x\n")
    link.unlink()
    link.symlink_to(files[2])
    again = Reader(link, reader.done, then)
    assert again.input.name == reader.input.name
    assert again.upto(then) == ["eve"]
    assert again.new() == ["kim"]


def test_a_file_under_two_names_is_followed_once(tmp_path: Path) -> None:
    """A link beside the file that it leads to, both of which fit a pattern."""
    (tmp_path / "a.csv").write_bytes(HEAD)
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    assert len(dpi.read(str(tmp_path / "*.csv")).live(lambda producer: -1, {})) == 1
