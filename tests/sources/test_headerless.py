import io
import sys
from pathlib import Path

import polars as pl
import pytest

import dpi
from dpi.errors import OptionError, SchemaError
from played_rows import play, users_of

HOURS = dpi.Slots("1h", origin="2026-01-01")
PLACES = dpi.Categories(["DE", "FR"])
LINES = "ada;x;2026-01-01T00:30;DE\nbob;x;2026-01-01T00:40;FR\n"
NAMES = ["user", "", "time", "value"]


def users(events: dpi.sources.FileEvents) -> list[str]:
    """Who is in the first hour."""
    ((_, rows),) = play(events, HOURS, PLACES, 0, 1)
    return sorted(map(str, users_of(rows, ["ada", "bob", "eve"])))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_without_a_header_is_read_from_its_first_line(tmp_path: Path, mark: str) -> None:
    """With the names of its columns given, the first line is an event, whatever comes before it."""
    (tmp_path / "events.csv").write_text(mark + LINES)
    events = dpi.read(tmp_path / "events.csv", separator=";", columns=NAMES)
    assert users(events) == ["ada", "bob"]


def test_a_line_of_another_width_is_dropped_by_itself(tmp_path: Path) -> None:
    """As in a file with a header: the names say how many fields a line has."""
    (tmp_path / "events.csv").write_text("eve;2026-01-01T00:10;DE\n" + LINES)
    assert users(dpi.read(tmp_path / "events.csv", separator=";", columns=NAMES)) == ["ada", "bob"]


def test_a_file_that_grows_needs_no_header(tmp_path: Path) -> None:
    """Its first line is kept as well, from the start of the file and after a restart."""
    path = tmp_path / "log.csv"
    path.write_text(LINES)
    events = dpi.read(path, separator=";", columns=NAMES)
    for done, expected in ((-1, ["ada", "bob"]), (len(LINES.splitlines()[0]) + 1, ["bob"])):
        (live,) = events.live(lambda producer, done=done: done if producer.endswith(" 0") else -1, {})
        frames = [block.events for block in live.read(live.reached())]
        assert pl.concat(frames)["user"].to_list() == expected
        live.close()


def test_standard_input_needs_no_header(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of it is read before it is played."""
    (tmp_path / "piped").write_text(LINES)
    with (tmp_path / "piped").open() as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.FileIO(file.fileno(), closefd=False)))
        assert users(dpi.read("-", format="csv", separator=";", columns=NAMES)) == ["ada", "bob"]


@pytest.mark.parametrize("columns", [[], "user,time,value", [1, 2, 3]])
def test_names_that_are_none_are_refused(tmp_path: Path, columns: object) -> None:
    """A text would be taken for its letters."""
    (tmp_path / "events.csv").write_text(LINES)
    with pytest.raises(OptionError, match="`columns` must be names"):
        dpi.read(tmp_path / "events.csv", columns=columns)  # type: ignore[arg-type]


def test_columns_must_name_what_is_read_once(tmp_path: Path) -> None:
    """What is missing or named twice is told by the names that were given: nothing of the file is shown."""
    path = tmp_path / "events.csv"
    path.write_text("secret;secret\n")
    with pytest.raises(SchemaError, match="`columns` must name the columns"):
        dpi.read(path, columns=["a", "b"])
    with pytest.raises(SchemaError, match="must have a column 'time'"):
        dpi.read(path, columns=["user", "value"])
    with pytest.raises(SchemaError, match="`columns` must name 'user' once"):
        dpi.read(path, columns=["user", "user", "time", "value"])


def test_files_that_name_their_columns_take_no_others(tmp_path: Path) -> None:
    """Columns are for CSV alone."""
    (tmp_path / "events.ndjson").write_text("{}\n")
    with pytest.raises(OptionError, match="`columns` is for CSV"):
        dpi.read(tmp_path / "events.ndjson", columns=NAMES)
