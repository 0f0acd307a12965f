"""Files that grow, are cut, are replaced often, late, or while nobody looks."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.sources import _growing as growing
from dpi.sources._growing import GrowingFile
from dpi.sources._spool import Spool
from dpi.sources.live import Reach
from dpi.testing import SOURCE_CHECKS
from dpi.testing._source import SourceCheck
from live_files import HEAD, CSVFile, NDJSONFile, Pipe, Reader, append, start


@pytest.fixture(params=[CSVFile, NDJSONFile, Pipe])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CSVFile]:
    """A file that grows, or standard input."""
    feed = request.param(tmp_path)
    yield feed
    feed.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file is followed."""
    return tmp_path / "events.csv"


@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=lambda check: check.__name__)
def test_every_check_of_a_source_holds(check: SourceCheck, feed: CSVFile) -> None:
    """What `dpi.testing.check_source` asks of an input holds for files and for standard input."""
    check(feed)


def test_a_line_is_read_when_it_is_complete(path: Path) -> None:
    """Half a line, and half a character, wait for their rest."""
    reader = start(path)
    assert reader.new() == []
    append(path, b"ada,1,x\nren\xc3")
    assert reader.new() == ["ada"]
    append(path, b"\xa9,2")
    assert reader.new() == []
    append(path, b",y\n\xff,3,z\nbob,3")
    assert reader.new() == ["rené"]
    append(path, b",z\n")
    assert reader.new() == ["bob"]


def test_a_line_belongs_where_its_newline_lies(path: Path) -> None:
    """What came after a mark is not read with it, not even the end of a line that had begun before."""
    reader = start(path, HEAD + b"ada,1,x\nbob,1")
    then = reader.input.reached()
    append(path, b",x\neve,1,x\n")
    assert reader.upto(then) == ["ada"]
    assert reader.upto(then) == []
    assert reader.new() == ["bob", "eve"]


def test_ndjson_is_followed_without_a_header(tmp_path: Path) -> None:
    """The first line is an event, also after a byte order mark; a broken one is dropped by itself."""
    path = tmp_path / "events.ndjson"
    reader = start(path, b'\xef\xbb\xbf{"user": 1}\n{"us')
    assert reader.new() == ["1"]
    append(path, b'er": 2}\nbroken\n{"user": 3}\n')
    assert reader.new() == ["2", "3"]


@given(cuts=st.lists(st.integers(0, 80), max_size=8), stops=st.sets(st.integers(0, 8)))
def test_a_reader_resumes_where_it_stopped(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], stops: set[int]
) -> None:
    """However the file grows and wherever the program is restarted, every line is read exactly once, in its segment."""
    path = tmp_path_factory.mktemp("follow") / "events.csv"
    data = HEAD + b"".join(b"user-%d,1,x\n" % i for i in range(5))
    path.write_bytes(HEAD)
    reader, at, marks = Reader(path), len(HEAD), []
    users: list[str] = []
    for turn, cut in enumerate([*sorted(cuts), len(data)]):
        append(path, data[at : max(at, cut)])
        at = max(at, cut)
        marks.append(reader.input.reached())
        if turn in stops:  # nothing since the last stop is read yet
            reader = Reader(path, reader.done, marks[-1])
            for mark in marks:
                users.extend(reader.upto(mark))
                whole = data[: mark[0].offset].count(b"\n") - 1
                assert users == [f"user-{i}" for i in range(whole)]
            marks = []
    for mark in marks:
        users.extend(reader.upto(mark))
    assert users == [f"user-{i}" for i in range(5)]
    assert not reader.input.lost


def test_a_file_that_was_cut_is_read_from_its_start(path: Path) -> None:
    """Truncation starts anew, with a header of its own; nothing that was read is lost."""
    reader = start(path, HEAD + b"ada,1,x\nbob,1,x\n")
    assert reader.new() == ["ada", "bob"]
    path.write_bytes(b"value,user,time\nx,eve,1\n")
    assert reader.new() == ["eve"]
    assert not reader.input.lost


def test_what_was_cut_away_before_it_was_read_is_lost_and_stops_nothing(path: Path) -> None:
    """A mark that can no longer be reached is passed, the input says so, and what is new counts once."""
    reader = start(path, HEAD + b"ada,1,x\nbob,1,x\n")
    then = reader.input.reached()
    path.write_bytes(HEAD + b"eve,1,x\n")
    assert reader.upto(then) == []
    assert reader.input.lost
    assert reader.new() == ["eve"]


def test_a_removed_file_stops_nothing(path: Path) -> None:
    """It is read to its end as long as it is held; after a restart it is lost."""
    reader = start(path, HEAD + b"ada,1,x\n")
    then = reader.input.reached()
    other = Reader(path, {}, then)
    path.unlink()
    assert reader.upto(then) == ["ada"]
    assert not reader.input.lost
    assert other.upto(then) == []
    assert other.input.lost


def test_a_file_that_was_replaced_is_read_to_its_end_and_then_the_new_one(tmp_path: Path) -> None:
    """Rotation loses no complete line, also one that is written after it; half a line is not glued to the new file."""
    path, old = tmp_path / "events.csv", tmp_path / "events.csv.1"
    reader = start(path, HEAD + b"ada,1,x\n")
    assert reader.new() == ["ada"]
    append(path, b"bob,1,x\nhalf,1")
    path.rename(old)
    assert reader.new() == ["bob"]
    path.write_bytes(HEAD + b"eve,1,x\n")
    assert reader.new() == ["eve"]
    append(old, b",x\nlate,1,x\n")
    assert reader.new() == ["half", "late"]


def test_a_number_that_is_used_again_is_another_file(path: Path) -> None:
    """A file that was cut while nobody followed is another generation, with sequences of its own."""
    reader = start(path, HEAD + b"ada,1,x\nbob,1,x\n")
    assert reader.new() == ["ada", "bob"]
    path.write_bytes(HEAD + b"eve,1,x\n")
    again = Reader(path, reader.done, reader.input.reached())
    assert again.new() == ["eve"]
    assert len(again.done) == 2


def test_a_new_header_without_a_needed_column_is_refused(path: Path) -> None:
    """A header is schema: it may be refused, by the names of its columns."""
    reader = start(path, HEAD + b"ada,1,x\n")
    assert reader.new() == ["ada"]
    path.write_bytes(b"who,time,value\n")  # shorter than what was read: the file starts anew
    with pytest.raises(dpi.errors.SchemaError, match="'user'"):
        reader.new()


def test_looking_takes_no_turn_of_reading(path: Path) -> None:
    """While a block is handled, another thread learns how far the file has got."""
    reader = start(path, HEAD + b"ada,1,x\n")
    blocks = reader.input.read(reader.input.reached())
    next(blocks)
    append(path, b"bob,1,x\n")
    seen: list[tuple[Reach, ...]] = []
    thread = threading.Thread(target=lambda: seen.append(reader.input.reached()), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert seen
    assert [reach.offset for reach in seen[0]] == [path.stat().st_size]


def test_what_cannot_grow_by_lines_is_refused(tmp_path: Path) -> None:
    """Parquet and compressed files are not followed, and standard input only by itself."""
    (tmp_path / "events.csv.gz").write_bytes(gzip.compress(HEAD))
    with pytest.raises(dpi.OptionError):
        Reader(tmp_path / "events.csv.gz")


def test_kinds_of_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are watched where they lie; standard input is spooled, and followed by itself."""
    (tmp_path / "a.csv").write_bytes(HEAD)
    assert isinstance(Reader(tmp_path / "a.csv").input, GrowingFile)
    with (tmp_path / "a.csv").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        (spool,) = dpi.read("-", format="csv").live(lambda producer: -1, {})
        assert isinstance(spool, Spool)
        stdin.seek(0)
        with pytest.raises(dpi.OptionError, match="by itself"):
            dpi.read(["-", tmp_path / "a.csv"], format="csv").live(lambda producer: -1, {})


# Files that are replaced often, late, or while nobody looks.


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


def test_a_reader_far_behind_finds_files_that_are_watched_no_more(path: Path, clock: Clock) -> None:
    """A flood that takes minutes to read loses nobody's lines: a file is held until its last mark is read."""
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
def test_a_number_that_comes_back_again_and_again(path: Path, clock: Clock, restarted: bool) -> None:
    """Systems give the numbers of removed files to new ones: each is another file, also of the same size."""
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


def test_gaps_between_files_hold_no_descriptors(path: Path, clock: Clock) -> None:
    """Also where the name is gone for a while at every rotation, files are let go of."""
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


def test_a_file_that_is_cut_while_it_is_read_is_not_read_twice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has taken the place of lines that were not yet read is of the next generation, and of that alone."""
    monkeypatch.setattr(growing, "BLOCK", 64)
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
    thread.join(timeout=60)
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


def test_a_generation_that_was_noted_and_not_stored_is_found_after_a_stop(path: Path) -> None:
    """The file was cut and has grown past what is stored of it: only the mark tells that it began anew."""
    follower = start(path, HEAD + b"ada,1,x\n")
    assert follower.new() == ["ada"]
    path.write_bytes(HEAD)
    follower.input.reached()
    append(path, b"bob,1,x\neve,1,x\n")
    mark = follower.input.reached()
    follower.input.close()
    again = Reader(path, follower.done, mark)
    again.input.reached()
    assert again.upto(mark) == ["bob", "eve"]
    assert not again.input.lost
    again.input.close()


def test_a_generation_of_which_something_is_stored_is_not_given_again(path: Path) -> None:
    """One before it may have nothing stored: it was cut before it was read."""
    follower = start(path, HEAD + b"ada,1,x\n")
    assert follower.new() == ["ada"]
    ((producer, _),) = follower.done.items()
    follower.done[producer[:-1] + "2"] = 1000
    for user in ("bob", "eve"):
        path.write_bytes(HEAD)
        follower.input.reached()
        append(path, f"{user},1,x\n".encode())
        assert follower.new() == [user]
    follower.input.close()
