from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.sources.growing import GrowingFile
from dpi.sources.live import Reach
from dpi.sources.spool import Spool
from dpi.testing import SOURCE_CHECKS
from dpi.testing.source import SourceCheck
from live_files import HEAD, CSVFile, NDJSONFile, Pipe, Reader, append, start


@pytest.fixture(params=[CSVFile, NDJSONFile, Pipe])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CSVFile]:
    """A file that grows, or standard input."""
    feed = request.param(tmp_path)
    yield feed
    feed.close()


@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=lambda check: check.__name__)
def test_every_check_of_a_source_holds(check: SourceCheck, feed: CSVFile) -> None:
    """What `dpi.testing.check_source` asks of an input holds for files and for standard input."""
    check(feed)


def test_a_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    """Half a line, and half a character, wait for their rest."""
    path = tmp_path / "events.csv"
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


def test_a_line_belongs_where_its_newline_lies(tmp_path: Path) -> None:
    """What came after a mark is not read with it, not even the end of a line that had begun before."""
    path = tmp_path / "events.csv"
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


def test_a_file_that_was_cut_is_read_from_its_start(tmp_path: Path) -> None:
    """Truncation starts anew, with a header of its own; nothing that was read is lost."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\nbob,1,x\n")
    assert reader.new() == ["ada", "bob"]
    path.write_bytes(b"value,user,time\nx,eve,1\n")
    assert reader.new() == ["eve"]
    assert not reader.input.lost


def test_what_was_cut_away_before_it_was_read_is_lost_and_stops_nothing(tmp_path: Path) -> None:
    """A mark that can no longer be reached is passed, the input says so, and what is new counts once."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\nbob,1,x\n")
    then = reader.input.reached()
    path.write_bytes(HEAD + b"eve,1,x\n")
    assert reader.upto(then) == []
    assert reader.input.lost
    assert reader.new() == ["eve"]


def test_a_removed_file_stops_nothing(tmp_path: Path) -> None:
    """It is read to its end as long as it is held; after a restart it is lost."""
    path = tmp_path / "events.csv"
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


def test_a_number_that_is_used_again_is_another_file(tmp_path: Path) -> None:
    """A file that was cut while nobody followed is another generation, with sequences of its own."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\nbob,1,x\n")
    assert reader.new() == ["ada", "bob"]
    path.write_bytes(HEAD + b"eve,1,x\n")
    again = Reader(path, reader.done, reader.input.reached())
    assert again.new() == ["eve"]
    assert len(again.done) == 2


def test_a_new_header_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    """A header is schema: it may be refused, by the names of its columns."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\n")
    assert reader.new() == ["ada"]
    path.write_bytes(b"who,time,value\n")  # shorter than what was read: the file starts anew
    with pytest.raises(dpi.errors.SchemaError, match="'user'"):
        reader.new()


def test_looking_takes_no_turn_of_reading(tmp_path: Path) -> None:
    """While a block is handled, another thread learns how far the file has got."""
    path = tmp_path / "events.csv"
    reader = start(path, HEAD + b"ada,1,x\n")
    blocks = reader.input.read(reader.input.reached())
    next(blocks)
    append(path, b"bob,1,x\n")
    seen: list[tuple[Reach, ...]] = []
    thread = threading.Thread(target=lambda: seen.append(reader.input.reached()), daemon=True)
    thread.start()
    thread.join(timeout=10)
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
