"""Files of events in every format: what is read of them, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import dpi
from dpi.errors import OptionError, SchemaError
from played_rows import play, users_of

ROWS = [
    ("ada", "2026-01-01T00:10:00", "DE"),
    ("bob", "2026-01-01T01:10:00", "FR"),
    ("ada", "2026-01-01T02:50:00", "IT"),
]
FRAME = pl.DataFrame(ROWS, schema=["user", "at", "value"], orient="row")
SLOTS = dpi.Slots("1h", origin="2026-01-01")
DOMAIN = dpi.Categories(["DE", "FR", "IT"])
EXPECTED = [["ada"], ["bob"], ["ada"]]
FORMATS = ["csv", "ndjson", "parquet", "arrow", "csv.gz", "ndjson.gz"]


def write(frame: pl.DataFrame, path: Path) -> Path:
    """The frame as a file of the format that its suffix names."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    getattr(frame, f"write_{'ipc' if plain.suffix == '.arrow' else plain.suffix[1:]}")(plain)
    if plain != path:
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    return path


def users(events: dpi.sources.FileEvents, first: int = 0, last: int = 3) -> list[list[object]]:
    """The users of each slot."""
    known = [*"abcdefgh", "ada", "bob", "eve", *range(10)]
    return [sorted(map(str, users_of(rows, known))) for _, rows in play(events, SLOTS, DOMAIN, first, last)]


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_slots(tmp_path: Path, suffix: str) -> None:
    """Users and values of each slot do not depend on the format; empty slots come too."""
    events = dpi.read(write(FRAME, tmp_path / f"events.{suffix}"), time="at")
    found = [
        (n, users_of(rows, ["ada", "bob"]), rows.bins.tolist(), rows.counts.tolist())
        for n, rows in play(events, SLOTS, DOMAIN, 0, 4)
    ]
    assert found == [(0, ["ada"], [0], [1]), (1, ["bob"], [1], [1]), (2, ["ada"], [2], [1]), (3, [], [], [])]


@pytest.mark.parametrize("suffix", FORMATS)
def test_batches_hold_all_rows_and_progress_ends_at_the_size(tmp_path: Path, suffix: str) -> None:
    """Batches come in the order of the files; the bytes read grow up to the size of all files."""
    for name in ("a", "b"):
        write(FRAME, tmp_path / f"{name}.{suffix}")
    events = dpi.read(tmp_path / f"*.{suffix}", time="at")
    seen: list[int] = []
    batches = list(events.batches(progress=seen.append))
    assert [row for batch in batches for row in zip(*batch[:3], strict=True)] == ROWS * 2
    assert seen == sorted(seen)
    assert seen[-1] == events.size == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_files_may_have_their_columns_in_any_order(tmp_path: Path) -> None:
    """Columns are found by name in each file of a pattern, and formats may be mixed."""
    write(FRAME, tmp_path / "1.csv")
    write(FRAME.select("value", pl.lit("x").alias("more"), "at", "user"), tmp_path / "2.csv")
    write(FRAME, tmp_path / "3.parquet")
    events = dpi.read([tmp_path / "?.csv", tmp_path / "3.parquet"], time="at")
    assert users(events) == [[name] * 3 for (name,) in EXPECTED]


def test_integer_and_text_ids_of_two_files_are_one(tmp_path: Path) -> None:
    """The id 7 of one file and the id "7" of another are one user; integers of different sizes are one type."""
    at = [ROWS[0][1]]
    kinds = {"1": pl.Series([7], dtype=pl.Int32), "2": pl.Series(["7"]), "3": pl.Series([7.0])}
    for name, ids in kinds.items():
        kind = pl.Int16 if name == "1" else pl.Int64
        write(pl.DataFrame({"user": ids, "at": at, "value": pl.Series([1], dtype=kind)}), tmp_path / f"{name}.parquet")
    assert users(dpi.read(tmp_path / "*.parquet", time="at"), 0, 1) == [["7", "7", "7"]]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_a_missing_column_is_named_before_anything_is_read(tmp_path: Path, suffix: str) -> None:
    """The error names the column, and the columns that are there."""
    write(FRAME, tmp_path / f"1.{suffix}")
    write(FRAME.drop("value"), tmp_path / f"2.{suffix}")
    with pytest.raises(dpi.errors.SchemaError, match=r"2\..*'value'.*'user', 'at'"):
        dpi.read(tmp_path / f"*.{suffix}", time="at")


def test_the_error_of_a_file_without_a_header_shows_no_event(tmp_path: Path) -> None:
    """If the first line names none of the columns it may be an event, and is not quoted."""
    (tmp_path / "events.csv").write_text("ada,2026-01-01,DE\n")
    with pytest.raises(dpi.errors.SchemaError, match="names none of 'user'") as error:
        dpi.read(tmp_path / "events.csv")
    assert "ada" not in str(error.value)


def test_a_file_that_two_patterns_fit_is_read_once(tmp_path: Path) -> None:
    """Events are not counted twice."""
    path = write(FRAME, tmp_path / "events.csv")
    assert users(dpi.read([path, tmp_path / "*.csv", tmp_path / "e*"], time="at")) == EXPECTED


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    """A pattern that fits no file, a folder, an empty list, an unknown suffix, and an empty CSV file."""
    for wrong in (tmp_path / "*.csv", tmp_path / "no.csv", tmp_path, []):
        with pytest.raises(dpi.errors.SchemaError):
            dpi.read(wrong)
    (tmp_path / "events.dat").touch()
    with pytest.raises(dpi.OptionError, match="format"):
        dpi.read(tmp_path / "events.dat")
    with pytest.raises(dpi.errors.SchemaError, match="names its columns"):
        dpi.read(tmp_path / "events.dat", format="csv")


def test_options_out_of_range_are_refused(tmp_path: Path) -> None:
    """Every option says what it expects."""
    path = write(FRAME, tmp_path / "events.csv")
    for wrong in ({"unit": "h"}, {"format": "xml"}, {"separator": '"'}, {"separator": "ab"}, {"longest_line": 0}):
        with pytest.raises(dpi.OptionError):
            dpi.read(path, time="at", **wrong)  # type: ignore[arg-type]
    for period in ((1, 1), (2, 1)):
        with pytest.raises(dpi.OptionError):
            play(dpi.read(path, time="at"), SLOTS, DOMAIN, *period)


def test_a_column_of_a_type_that_cannot_be_read_is_refused_at_once(tmp_path: Path) -> None:
    """Nested ids, lists of values, numbers without a unit, times with one, and different types in two files."""
    frame = FRAME.with_columns(nested=pl.struct("user"), listed=pl.concat_list("value"), number=1, moment=pl.lit(0))
    frame = frame.with_columns(pl.col("moment").cast(pl.Datetime("us")), flag=pl.lit(True))
    path = write(frame, tmp_path / "events.parquet")
    for wrong in (
        {"user": "nested", "time": "at"},
        {"value": "listed", "time": "at"},
        {"time": "number"},
        {"time": "moment", "unit": "s"},
        {"time": "flag"},
    ):
        with pytest.raises(dpi.errors.SchemaError):
            dpi.read(path, **wrong)
    write(FRAME.with_columns(value=1.5), tmp_path / "more.parquet")
    with pytest.raises(dpi.errors.SchemaError, match="one type in all files"):
        dpi.read(tmp_path / "*.parquet", time="at")
    (tmp_path / "twice.csv").write_text("user,at,value,user\n")
    with pytest.raises(dpi.errors.SchemaError, match="one column 'user'"):
        dpi.read(tmp_path / "twice.csv", time="at")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_damaged_columnar_file_refuses_as_a_whole(tmp_path: Path, suffix: str) -> None:
    """A damaged footer is a schema that cannot be read; damaged pages refuse before the first slot is given."""
    path = write(FRAME, tmp_path / f"events.{suffix}")
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    with pytest.raises(dpi.errors.SchemaError, match="damaged"):
        dpi.read(path, time="at")
    events = dpi.read(write(FRAME, path), time="at")
    path.write_bytes(data[:8] + bytes(len(data) - 208 if len(data) > 408 else 60) + data[-200:])
    with pytest.raises(dpi.StateError, match="damaged"):
        next(play(events, SLOTS, DOMAIN, 0, 3))


def test_a_damaged_compressed_file_refuses_before_the_first_slot(tmp_path: Path) -> None:
    """What gzip notices refuses the file, and the text holds nothing of it."""
    path = write(pl.concat([FRAME] * 5000), tmp_path / "events.csv.gz")
    events = dpi.read(path, time="at")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(dpi.StateError, match="damaged"):
        next(play(events, SLOTS, DOMAIN, 0, 3))


def test_line_ends_marks_and_long_lines(tmp_path: Path) -> None:
    """CRLF, a byte order mark, a last line without an end and a line that is too long cost no other row."""
    lines = [",".join(row) for row in ROWS]
    lines.insert(1, "eve," + ROWS[0][1] + "," + "x" * 300)
    for name, head in (("a.csv", "user,at,value\r\n"), ("b.csv", '"user","at","value"\r\n')):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (head + "\r\n".join(lines)).encode())
        assert users(dpi.read(tmp_path / name, time="at", longest_line=200)) == EXPECTED


def test_parts_of_a_product_have_columns_of_their_own(tmp_path: Path) -> None:
    """`value` may map parts to columns; parts keep their names, also the name of a column."""
    path = write(FRAME.with_columns(age=pl.Series([10, 20, 30])), tmp_path / "events.parquet")
    events = dpi.read(path, time="at", value={"user": "value", "slot": "age"})
    domain = dpi.Product(user=dpi.Categories(["DE", "FR", "IT"]), slot=dpi.Bins([15, 25]))
    assert [rows.bins.tolist() for _, rows in play(events, SLOTS, domain, 0, 4)] == [[0], [4], [8], []]


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_times_as_numbers(tmp_path: Path, suffix: str) -> None:
    """Numbers since 1970 in a named unit; a row whose number cannot be read is dropped by itself."""
    start = 1767225600
    frame = pl.DataFrame({"user": ["a", "b", "c"], "time": [start, start + 3600, start + 7200], "value": 1})
    path = write(frame, tmp_path / f"events.{suffix}")
    if suffix == "csv":
        path.write_text(path.read_text() + f"d,soon,1\ne,{start}.5,1\n")
    expected = [["a", "e"] if suffix == "csv" else ["a"], ["b"], ["c"]]
    assert users(dpi.read(path, unit="s")) == expected


def test_categorical_columns_are_text(tmp_path: Path) -> None:
    """A dictionary of texts is how they are stored, not what they are."""
    path = write(FRAME.with_columns(pl.col("user", "value").cast(pl.Categorical)), tmp_path / "events.parquet")
    assert users(dpi.read(path, time="at")) == EXPECTED


WAYS = {
    "slots": "(len(rows) for _, rows in events.slots(dpi.sources.Admission(slots, domain, bytes(32), 0, 3)))",
    "batches": "(len(batch.users) for batch in events.batches())",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_standard_input_is_read_to_its_end(tmp_path: Path, form: str, way: str) -> None:
    """What is piped in arrives whole, however it is written, and only once."""
    program = f"""
import dpi, dpi.sources
domain, slots = dpi.Categories(["DE", "FR", "IT"]), dpi.Slots("1h", origin="2026-01-01")
events = dpi.read("-", time="at", format={form!r})
print(sum({way}))
try:
    sum({way})
except dpi.StateError:
    print("once")
"""
    data = write(FRAME, tmp_path / f"events.{form}").read_bytes().rstrip(b"\n")
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for at in range(0, len(data), 7):
            process.stdin.write(data[at : at + 7])
            process.stdin.flush()
        process.stdin.close()
        assert process.stdout.read().decode().split() == ["3", "once"]


HOURS = dpi.Slots("1h", origin="2026-01-01")
PLACES = dpi.Categories(["DE", "FR"])
LINES = "ada;x;2026-01-01T00:30;DE\nbob;x;2026-01-01T00:40;FR\n"
NAMES = ["user", "", "time", "value"]


def headerless_users(events: dpi.sources.FileEvents) -> list[str]:
    """Who is in the first hour."""
    ((_, rows),) = play(events, HOURS, PLACES, 0, 1)
    return sorted(map(str, users_of(rows, ["ada", "bob", "eve"])))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_without_a_header_is_read_from_its_first_line(tmp_path: Path, mark: str) -> None:
    """With the names of its columns given, the first line is an event, whatever comes before it."""
    (tmp_path / "events.csv").write_text(mark + LINES)
    events = dpi.read(tmp_path / "events.csv", separator=";", columns=NAMES)
    assert headerless_users(events) == ["ada", "bob"]


def test_a_line_of_another_width_is_dropped_by_itself(tmp_path: Path) -> None:
    """As in a file with a header: the names say how many fields a line has."""
    (tmp_path / "events.csv").write_text("eve;2026-01-01T00:10;DE\n" + LINES)
    assert headerless_users(dpi.read(tmp_path / "events.csv", separator=";", columns=NAMES)) == ["ada", "bob"]


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
        assert headerless_users(dpi.read("-", format="csv", separator=";", columns=NAMES)) == ["ada", "bob"]


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


# What a missing field means, in every form of events: the page about events has this as a table.


AT = "2026-01-01T00:10:00"
NULLS_ROWS = [
    ("ada", AT, "a"), ("bob", AT, None), (None, AT, "a"), ("", AT, "a"), ("cem", None, "a"), ("dora", AT, "b"),
    ("dora", AT, None),
]  # fmt: skip


def table(folder):
    """A table in memory."""
    return pl.DataFrame(NULLS_ROWS, schema=["user", "time", "value"], orient="row")


def parquet(folder):
    """A file of Parquet."""
    table(folder).write_parquet(folder / "events.parquet")
    return dpi.read(folder / "events.parquet")


def csv(folder):
    """A file of CSV, in which an empty field is missing."""
    table(folder).write_csv(folder / "events.csv")
    return dpi.read(folder / "events.csv")


def ndjson(folder):
    """Lines of JSON with null, and without the field."""
    lines = [dict(zip(("user", "time", "value"), row, strict=True)) for row in NULLS_ROWS]
    lines[1:3] = [{key: cell for key, cell in line.items() if cell is not None} for line in lines[1:3]]
    (folder / "events.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return dpi.read(folder / "events.ndjson")


def counts(domain, events, **options):
    """Users by bin in the one slot.

    Noise has the scale 1/900 of a user: one count rounded to tenths is wrong with a probability below e^(-0.05·900), or
    3·10⁻²⁰.
    """
    store = dpi.MemoryStore()
    with pytest.warns(dpi.errors.WeakPromise):
        stream = dpi.Stream(
            domain=domain, epsilon=1024, slot="1h", budget=dpi.Ledger(per_slot=900), store=store, name="s"
        )
    list(stream.replay(events, start="2026-01-01", end="2026-01-01T01:00", **options))
    (paid,) = store.measurements("s")
    return [round(grains / 2**24, 1) for grains in memoryview(paid.values).cast("q")]


@pytest.mark.parametrize("form", [table, parquet, csv, ndjson], ids=lambda form: form.__name__)
def test_a_missing_field_is_one_rows_matter(form, tmp_path):
    """Without an id or a time a row is dropped; without a value it is `other`, or dropped where there is none."""
    assert counts(dpi.Categories(["a", "b"]), form(tmp_path)) == [1.0, 0.5, 1.5]
    assert counts(dpi.Categories(["a", "b"], other=None), form(tmp_path)) == [1.0, 1.0]


def test_a_missing_number_or_part():
    """A number that is missing, or NaN, is in no bin; of a product, a row is dropped if any part of it would be."""
    ages = pl.DataFrame({"user": ["ada", "bob", "cem"], "time": [AT] * 3, "value": [5.0, None, float("nan")]})
    assert counts(dpi.Bins([0, 10]), ages) == [0.0, 1.0, 0.0]
    pairs = pl.DataFrame(
        {"user": ["ada", "bob", "cem"], "time": [AT] * 3, "land": ["DE", None, "DE"], "age": [5.0, 5.0, None]}
    )
    domain = dpi.Product(land=dpi.Categories(["DE"]), age=dpi.Bins([0, 10]))
    found = counts(domain, pairs, value={"land": "land", "age": "age"})
    assert found == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
