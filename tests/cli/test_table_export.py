"""`dpi export --as parquet` and `--as delta`: tables that grow with their stream, and the same answers in SQL."""

import json
import math
from pathlib import Path

import polars as pl
import pytest

import dpi
from cli_files import PERIOD
from equal_releases import force_equal_releases


@pytest.fixture(params=["parquet", "delta"])
def kind(request):
    """Both kinds of table; Delta where its library is."""
    if request.param == "delta":
        pytest.importorskip("deltalake", reason="needs deltalake (the extra delta)")
    return request.param


def read(kind, folder):
    """The rows of a table, in order."""
    if kind == "delta":
        import deltalake

        frame = pl.from_arrow(deltalake.DeltaTable(folder).to_pyarrow_table())
    else:
        frame = pl.read_parquet(f"{folder}/")
    return frame.sort("slot", maintain_order=True)


@pytest.fixture
def run(cli, visits):
    """Releases some hours of 1 January in Berlin, whose day begins an hour before that of UTC."""

    def release(end, store="visits.db"):
        begin = ("--from", "2026-01-01", "--to", end, "--config", "zone=Europe/Berlin")
        cli("run", *visits, *begin, "--store", store)

    return release


def test_a_table_grows_with_its_stream(cli, run, kind):
    """Days are those of the stream's zone. What is new is added, once; what is there stays as it is."""
    run("2026-01-01T22:00")
    assert cli.json("export", "visits.db", "table", "--as", kind)["added"] == 22
    with dpi.open("visits.db") as stored:
        slot = stored.newest.slot
        assert read(kind, "table").select(stored.table().columns).equals(_utc(stored.table(), kind))
    run("2026-01-02T03:00")
    found = cli.json("export", "visits.db", "table", "--as", kind)
    assert found | {"store": "", "stream": ""} == {
        "table": "table", "store": "", "stream": "", "added": 5, "last_slot": slot + 5,
    }  # fmt: skip
    assert sorted(path.name for path in Path("table").glob("day=*")) == ["day=2026-01-01", "day=2026-01-02"]
    assert "0 slots added" in cli("export", "visits.db", "table", "--as", kind)
    with dpi.open("visits.db") as stored:
        whole = stored.table()
    rows = read(kind, "table")
    assert rows.select(whole.columns).equals(_utc(whole, kind))
    assert rows["day"].n_unique() == 2
    cli("export", "visits.db", "public.db")
    cli("export", "public.db", "again", "--as", kind)  # an analyst can, too
    assert read(kind, "again").select(whole.columns).equals(_utc(whole, kind))


def _utc(frame, kind):
    """Delta has times of UTC alone; both are the same moments."""
    zone = "UTC" if kind == "delta" else "Europe/Berlin"
    return frame.with_columns(pl.col("start", "end", "measured_at").dt.convert_time_zone(zone))


def test_what_is_there_is_not_lost(cli, run, kind):
    """A table of another store, a shorter store, another kind of folder: nothing is added, and all of it stays."""
    run("2026-01-01T03:00")
    run("2026-01-01T05:00", "other.db")
    cli("export", "other.db", "table", "--as", kind)
    before = {path: path.read_bytes() for path in Path("table").rglob("*") if path.is_file()}
    assert "not of this stream" in cli("export", "visits.db", "table", "--as", kind, code=2)
    run("2026-01-01T06:00")
    assert "not of this stream" in cli("export", "visits.db", "table", "--as", kind, code=2)
    Path("files").mkdir()
    assert "holds no" in cli("export", "visits.db", "files", "--as", kind, code=2)
    assert {path: path.read_bytes() for path in Path("table").rglob("*") if path.is_file()} == before


def test_a_store_that_has_lost_a_day_is_refused(cli, run, kind):
    """Also where its releases are older than the table's newest day."""
    run("2026-01-01T03:00")
    run("2026-01-02T05:00", "other.db")
    cli("export", "other.db", "table", "--as", kind)
    assert "not of this stream" in cli("export", "visits.db", "table", "--as", kind, code=2)


def test_bad_input(cli, run):
    """Kinds and places that are none; a stream without slots of a clock has no days."""
    run("2026-01-01T03:00")
    assert "must be store, parquet, delta" in cli("export", "visits.db", "table", "--as", "csv", code=2)
    assert "is for all but a store" in cli("export", "visits.db", "public.db", "--stream", "visits", code=2)
    assert "folder that exists" in cli("export", "visits.db", "no/table", "--as", "parquet", code=2)
    assert "of this machine" in cli("export", "visits.db", "s3://no/table", "--as", "parquet", code=2)
    Path("table/day=soon").mkdir(parents=True)
    Path("table/day=soon/slots.parquet").write_bytes(b"PAR1")
    assert "can be read" in cli("export", "visits.db", "table", "--as", "parquet", code=2)
    with dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store="plain.db") as stream:
        stream.release(["ada"], ["a"])
    assert "no clock" in cli("export", "plain.db", "plain", "--as", "parquet", code=2)


def test_a_disk_that_refuses_is_told(cli, run, kind):
    """In one line, without a fault of the program; what is there can be added to later."""
    run("2026-01-01T03:00")
    cli("export", "visits.db", "table", "--as", kind)
    run("2026-01-02T03:00")
    if kind == "parquet":
        Path("table/day=2026-01-02").write_text("in the way")
    else:
        (log,) = Path("table/_delta_log").glob("*.json")
        log.write_text("{")
    assert "cannot be" in cli("export", "visits.db", "table", "--as", kind, code=3)
    if kind == "parquet":
        Path("table/day=2026-01-02").unlink()
        assert cli.json("export", "visits.db", "table", "--as", kind)["added"] == 3


def test_equal_releases_give_equal_files(cli, monkeypatch):
    """Byte by byte, whoever is in the stream."""
    force_equal_releases(monkeypatch)
    for name, eve in (("one", 0), ("two", 300)):
        with dpi.Stream(
            domain=dpi.Categories(["a", "b"]), epsilon=1, slot="1h", start="2026-01-01", store=f"{name}.db"
        ) as stream:
            for _ in range(30):
                stream.release(["ada", "bob", *["eve"] * eve], ["a", "b", *["a"] * eve])
        cli("export", f"{name}.db", name, "--as", "parquet")
    files = [
        {path.relative_to(name): path.read_bytes() for path in sorted(Path(name).rglob("*.parquet"))}
        for name in ("one", "two")
    ]
    assert len(files[0]) == 2
    assert files[0] == files[1]


def test_a_crash_between_days_is_mended(cli, run):
    """The next export goes on after the last day that is whole."""
    run("2026-01-03T02:00")
    cli("export", "visits.db", "whole", "--as", "parquet")
    cli("export", "visits.db", "table", "--as", "parquet")
    days = sorted(Path("table").iterdir())
    days[-1].joinpath("slots.parquet").rename(days[-1] / "slots.parquet.new")  # written, and not yet named
    assert cli.json("export", "visits.db", "table", "--as", "parquet")["added"] == 2
    assert read("parquet", "table").equals(read("parquet", "whole"))
    assert not list(Path("table").rglob("*.new"))


def test_two_exports_at_once_add_a_slot_once(cli, run):
    """The transaction of the second, which has read the same table, is refused: nothing is there twice."""
    deltalake = pytest.importorskip("deltalake", reason="needs deltalake (the extra delta)")
    run("2026-01-01T03:00")
    cli("export", "visits.db", "table", "--as", "delta")
    late = deltalake.DeltaTable("table")
    run("2026-01-01T04:00")
    cli("export", "visits.db", "table", "--as", "delta")
    newest = deltalake.DeltaTable("table").transaction_version("dpi")
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        deltalake.write_deltalake(
            late, late.to_pyarrow_table(), mode="append",
            commit_properties=deltalake.CommitProperties(app_transactions=[deltalake.Transaction("dpi", newest)]),
        )  # fmt: skip


COLUMNS = {"shares": "share, lower, upper", "users": "users, lower_users, upper_users"}
QUESTIONS = [
    ("top 3", "SELECT {shares} FROM visits WHERE slot = {last} ORDER BY share DESC LIMIT 3"),
    ("probability DE", "SELECT {shares} FROM visits WHERE slot = {last} AND value = 'DE'"),
    ("probability elsewhere", "SELECT {shares} FROM visits WHERE slot = {last} AND value = 'elsewhere'"),
    ("probability IT --slot {second}", "SELECT {shares} FROM visits WHERE slot = {second} AND value = 'IT'"),
    (
        "probability DE --from 2026-01-01T02:00",
        "SELECT {shares} FROM visits WHERE slot >= {first} + 2 AND value = 'DE' ORDER BY slot",
    ),
    ("count FR", "SELECT {users} FROM visits WHERE slot = {last} AND value = 'FR'"),
    (
        "count DE --from 2026-01-01 --to 2026-01-01T04:00",
        "SELECT {users} FROM visits WHERE slot < {first} + 4 AND value = 'DE' ORDER BY slot",
    ),
    (
        "top 1 --from 2026-01-01",
        "SELECT {shares} FROM visits JOIN (SELECT slot AS s, MAX(share) AS most FROM visits GROUP BY slot) AS m "
        "ON slot = s AND share = most ORDER BY slot",
    ),
    ("total", "SELECT {users} FROM everybody WHERE slot = {last}"),
    ("total --from 2026-01-01", "SELECT {users} FROM everybody ORDER BY slot"),
]


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_ten_questions_in_sql_are_those_of_dpi_query(cli, visits, engine):
    """Values and both ends of intervals, from a table on disk, by two engines; totals from the table of a group."""
    if engine == "duckdb":
        pytest.importorskip("duckdb", reason="needs duckdb (the extra bench)")
    cli("run", *visits, *PERIOD, "--store", "visits.db")
    cli("export", "visits.db", "table", "--as", "parquet")
    with dpi.open("visits.db") as stored:
        first, last = stored.extent[1:]
        everybody = stored.table({"everybody": ["DE", "FR", "IT", "elsewhere"]})
    places = {"first": first, "second": first + 1, "last": last} | COLUMNS
    for question, sql in QUESTIONS:
        said = cli.json("query", "visits.db", *question.format(**places).split())
        asked = [(row["value"], row["lower"], row["upper"]) for each in said["answers"] for row in each["rows"]]
        found = _select(engine, sql.format(**places), everybody)
        assert len(found) == len(asked) > 0, question
        unknown = [[math.nan if number is None else number for number in row] for row in found]
        same = [[math.nan if number is None else number for number in row] for row in asked]
        assert unknown == [pytest.approx(row, rel=1e-9, nan_ok=True) for row in same], question


def _select(engine, sql, everybody):
    if engine == "duckdb":
        import duckdb

        with duckdb.connect() as base:
            base.register("everybody", everybody.to_arrow())
            base.execute("CREATE VIEW visits AS FROM read_parquet('table/*/*.parquet')")
            return base.execute(sql).fetchall()
    frames = {"visits": pl.scan_parquet("table/*/*.parquet"), "everybody": everybody.lazy()}
    return pl.SQLContext(frames).execute(sql, eager=True).rows()


def test_nothing_private_is_in_a_table(cli, visits):
    """Names of users and values that nobody listed stand in no file of it."""
    cli("run", *visits, *PERIOD, "--store", "visits.db")
    cli("export", "visits.db", "table", "--as", "parquet")
    rows = read("parquet", "table").write_json()
    assert "secret" not in rows.lower()
    assert {row["value"] for row in json.loads(rows)} == {"DE", "FR", "IT", "elsewhere"}
