"""What a missing field means, in every form of events: the page about events has this as a table."""

import json

import polars as pl
import pytest

import dpi

AT = "2026-01-01T00:10:00"
ROWS = [
    ("ada", AT, "a"), ("bob", AT, None), (None, AT, "a"), ("", AT, "a"), ("cem", None, "a"), ("dora", AT, "b"),
    ("dora", AT, None),
]  # fmt: skip


def table(folder):
    """A table in memory."""
    return pl.DataFrame(ROWS, schema=["user", "time", "value"], orient="row")


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
    lines = [dict(zip(("user", "time", "value"), row, strict=True)) for row in ROWS]
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
