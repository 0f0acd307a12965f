from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi

HEAD = b"user,time,value\n"
Following = Iterator[tuple[dpi.Batch, tuple[dpi.Position, ...]]]


def append(path: Path, data: bytes) -> None:
    """Let a file grow."""
    with path.open("ab") as file:
        file.write(data)


def start(path: Path, data: bytes = HEAD, **options: object) -> Following:
    """Follow a file that holds some data already."""
    path.write_bytes(data)
    return dpi.read(path).follow(poll=0, **options)  # type: ignore[arg-type]


def drain(following: Following) -> list[str]:
    """The users of all events up to the first silence."""
    users: list[str] = []
    for batch, _ in following:
        if not len(batch.users):
            return users
        users.extend(batch.users)
    return users


def test_a_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    """Half a line, and half a character, wait for their rest."""
    path = tmp_path / "events.csv"
    following = start(path)
    assert drain(following) == []
    append(path, b"ada,1,x\nren\xc3")
    assert drain(following) == ["ada"]
    append(path, b"\xa9,2")
    assert drain(following) == []
    append(path, b",y\n\xff,3,z\nbob,3")
    assert drain(following) == ["rené"]
    append(path, b",z\n")
    assert drain(following) == ["bob"]


def test_ndjson_is_followed_without_a_header(tmp_path: Path) -> None:
    """The first line is an event, also after a byte order mark; a broken one is dropped by itself."""
    path = tmp_path / "events.ndjson"
    following = start(path, b'\xef\xbb\xbf{"user": 1}\n{"us')
    assert drain(following) == ["1"]
    append(path, b'er": 2}\nbroken\n{"user": 3}\n')
    assert drain(following) == ["2", "3"]


@given(cuts=st.lists(st.integers(0, 60), max_size=6), stop=st.integers(0, 6))
def test_a_follower_resumes_where_it_stopped(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], stop: int
) -> None:
    """However the file grows and wherever the reader is restarted, every line is read exactly once."""
    path = tmp_path_factory.mktemp("follow") / "events.csv"
    data = HEAD + b"".join(b"user-%d,1,x\n" % i for i in range(5))
    path.write_bytes(HEAD)
    users: list[str] = []
    positions: tuple[dpi.Position, ...] = ()
    at = len(HEAD)
    for turn, cut in enumerate([*sorted(cuts), len(data)]):
        append(path, data[at : max(at, cut)])
        at = max(at, cut)
        for batch, reached in dpi.read(path).follow(poll=0, start=positions):
            users.extend(batch.users)
            if not len(batch.users) or turn == stop:
                positions = reached
                break
    for batch, _ in dpi.read(path).follow(poll=0, start=positions):
        users.extend(batch.users)
        if not len(batch.users):
            break
    assert users == [f"user-{i}" for i in range(5)]


def test_a_file_that_was_cut_is_read_from_its_start(tmp_path: Path) -> None:
    """Truncation starts anew, with a header of its own."""
    path = tmp_path / "events.csv"
    following = start(path, HEAD + b"ada,1,x\nbob,1,x\n")
    assert drain(following) == ["ada", "bob"]
    path.write_bytes(b"value,user,time\nx,eve,1\n")
    assert drain(following) == ["eve"]


def test_a_file_that_was_replaced_is_read_to_its_end_and_then_the_new_one(tmp_path: Path) -> None:
    """Rotation loses no complete line; half a line of the old file is not glued to the new one."""
    path = tmp_path / "events.csv"
    following = start(path, HEAD + b"ada,1,x\n")
    assert drain(following) == ["ada"]
    append(path, b"bob,1,x\nhalf,1")
    path.rename(tmp_path / "events.csv.1")
    assert drain(following) == ["bob"]
    path.write_bytes(HEAD + b"eve,1,x\n")
    assert drain(following) == ["eve"]


def test_a_position_of_another_file_is_not_used(tmp_path: Path) -> None:
    """If the file was replaced while nobody followed it, the new one is read from its start."""
    path = tmp_path / "events.csv"
    following = start(path, HEAD + b"ada,1,x\n")
    _, positions = next(following)
    path.rename(tmp_path / "old")
    assert drain(start(path, HEAD + b"eve,1,x\nbob,1,x\n", start=positions)) == ["eve", "bob"]


def test_a_new_header_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    """A header is schema: it may be refused, by the names of its columns."""
    path = tmp_path / "events.csv"
    following = start(path, HEAD + b"ada,1,x\n")
    assert drain(following) == ["ada"]
    path.write_bytes(b"who,time,value\n")  # shorter than what was read: the file starts anew
    with pytest.raises(dpi.SchemaError, match="'user'"):
        drain(following)


def test_several_files_are_followed_with_a_position_each(tmp_path: Path) -> None:
    """Positions name every file, with the bytes up to its last complete line."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_bytes(HEAD + name.encode() + b",1,x\nhalf")
    following = dpi.read(tmp_path / "*.csv").follow(poll=0)
    assert drain(following) == ["a", "b"]
    _, positions = next(following)
    assert [(Path(each.path).name, each.offset) for each in positions] == [("a.csv", 22), ("b.csv", 22)]


def test_a_set_event_ends_it_at_once(tmp_path: Path) -> None:
    """Whoever waits an hour for lines still stops when told."""
    (tmp_path / "events.csv").write_bytes(HEAD)
    stop = threading.Event()
    following = dpi.read(tmp_path / "events.csv").follow(poll=3600, stop=stop)
    next(following)
    threading.Timer(0.05, stop.set).start()
    assert list(following) == []


def test_what_cannot_grow_by_lines_is_refused(tmp_path: Path) -> None:
    """Parquet and compressed files are not followed."""
    import gzip

    (tmp_path / "events.csv.gz").write_bytes(gzip.compress(HEAD))
    with pytest.raises(dpi.OptionError):
        next(dpi.read(tmp_path / "events.csv.gz").follow())
