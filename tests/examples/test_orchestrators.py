"""Examples for orchestrators, run by the orchestrators themselves where these are installed."""

from __future__ import annotations

import os
import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import dpi

EXAMPLES = Path(__file__).parents[2] / "examples"
LONG = pytest.mark.skipif(not os.environ.get("DPI_SLOW"), reason="an orchestrator takes long to start: `make test-all`")


@pytest.fixture
def example(monkeypatch):
    """The names of a script, which finds its neighbours as if it had been started."""

    def load(script):
        monkeypatch.syspath_prepend(str((EXAMPLES / script).parent))
        return runpy.run_path(str(EXAMPLES / script))

    return load


@pytest.mark.slow
@LONG
@pytest.mark.filterwarnings("ignore")  # of libraries that are not ours
def test_a_slot_is_a_partition_of_dagster(example, tmp_path, monkeypatch):
    """Three days as partitions; ε and certificate are metadata; a partition that is made again costs nothing more."""
    pytest.importorskip("dagster", reason="needs Dagster: pip install dagster")
    monkeypatch.setenv("DPI_SHOP", "")
    said = example("dagster_asset/shop_asset.py")["main"](tmp_path / "shop")
    with dpi.open(tmp_path / "shop" / "shop.db") as stored:
        released = list(stored)
    assert len(released) == 3
    assert [each["certificate"] for each in said] == [each.certificate["digest"] for each in (*released, released[-1])]
    assert [each["epsilon_spent_at_most"] for each in said] == [
        each.epsilon_spent for each in (*released, released[-1])
    ]
    tables = sorted((tmp_path / "shop" / "page_shares").iterdir())
    assert [path.stem for path in tables] == ["2026-03-02", "2026-03-03", "2026-03-04"]
    assert pl.read_parquet(tables[0])["share"].to_list() == released[0].pdf.tolist()


@pytest.fixture
def airflow(tmp_path, monkeypatch):
    """Airflow, with a home of its own, which it makes when it is imported."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    return pytest.importorskip("airflow.sdk", reason="needs Airflow 3: pip install apache-airflow")


@pytest.mark.filterwarnings("ignore")  # of libraries that are not ours
def test_the_operator_of_airflow_releases_once(airflow, example, tmp_path):
    """The DAG has its task. The operator releases a day and hands on its certificate; a second try releases nothing."""
    project = example("airflow_dag/shop_dag.py")
    assert project["dag"].task_ids == ["release"]
    assert project["dag"].max_active_runs == 1
    project["make"](tmp_path, days=1)
    operator = project["DpiReleaseOperator"](
        task_id="again", config=str(tmp_path / "dpi.toml"), store=str(tmp_path / "shop.db")
    )
    end = {"data_interval_end": project["START"] + timedelta(days=1)}
    first, second = operator.execute(end), operator.execute(end)
    with dpi.open(tmp_path / "shop.db") as stored:
        newest = stored.newest
    assert (first["released"], second["released"]) == (1, 0)
    assert first["certificate"] == second["certificate"] == newest.certificate["digest"]
    assert first["epsilon_spent_at_most"] == second["epsilon_spent_at_most"] == newest.epsilon_spent
    (tmp_path / "dpi.toml").write_text("[run]\nepsilom = 1\n")
    with pytest.raises(RuntimeError, match="did you mean `epsilon`"):
        operator.execute(end)


@pytest.mark.slow
@LONG
@pytest.mark.filterwarnings("ignore")
def test_airflow_runs_the_dag(airflow, example, tmp_path):
    """Two days, by `airflow dags test` with a database of its own."""
    example("airflow_dag/shop_dag.py")["main"](tmp_path / "shop")
    with dpi.open(tmp_path / "shop" / "shop.db") as stored:
        assert [each.start_text[:10] for each in stored] == ["2026-03-02", "2026-03-03"]


def test_the_table_of_dbt_grows_and_needs_no_dbt(example, tmp_path, monkeypatch, capfd):
    """Two days of a run, and the hours since of a later one; without dbt a sentence says what is left out."""
    monkeypatch.setenv("DPI_SHOP", "")
    project = example("dbt_source/shop_source.py")
    project["main"].__globals__["DBT"] = tmp_path / "dbt"
    ended = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)
    for hours, added in ((0, 48), (0, 0), (5, 5)):
        assert project["main"](tmp_path / "shop", ended + timedelta(hours=hours)) == []
        said = capfd.readouterr().out
        assert f"shop-table: {added} slots added." in said
        assert "dbt is not installed (pip install dbt-core dbt-duckdb)" in said
    with dpi.open(tmp_path / "shop" / "shop.db") as stored:
        assert [each.start_text for each in stored][-1] == "2026-03-04T16:00:00+00:00"


@pytest.mark.slow
@LONG
def test_dbt_checks_freshness_and_builds_a_model(example, tmp_path):
    """A table of this hour is fresh, and averages are those of the releases; one of last week is an error."""
    pytest.importorskip("dbt.adapters.duckdb", reason="needs dbt: pip install dbt-core dbt-duckdb")
    duckdb = pytest.importorskip("duckdb")
    project = example("dbt_source/shop_source.py")
    fresh, built = project["main"](tmp_path / "fresh")
    assert (fresh.returncode, built.returncode) == (0, 0), fresh.stdout + built.stdout
    assert "PASS freshness of dpi.page_shares" in fresh.stdout
    with duckdb.connect(str(tmp_path / "fresh" / "shop.duckdb"), read_only=True) as base:
        question = "SELECT lower, slots, last_certificate FROM daily_shares WHERE value = 'home' ORDER BY day"
        rows = base.execute(question).fetchall()
    with dpi.open(tmp_path / "fresh" / "shop.db") as stored:
        daily = stored.table().filter(value="home").group_by(pl.col("start").dt.date(), maintain_order=True)
        means = daily.agg(pl.mean("lower"), pl.len())
        newest = stored.newest.certificate["digest"]
    assert [row[0] for row in rows] == pytest.approx(means["lower"].to_list())
    assert [row[1] for row in rows] == means["len"].to_list()
    assert rows[-1][2] == newest
    stale, _ = project["main"](tmp_path / "stale", datetime.now(UTC) - timedelta(days=7))
    assert stale.returncode != 0
    assert "ERROR STALE freshness of dpi.page_shares" in stale.stdout
