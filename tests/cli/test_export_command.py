"""`dpi export`: a file for analysts that every reading command takes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli_files import PERIOD


@pytest.fixture
def public(cli, visits):
    """An export of six hours."""
    cli("keys", "signing.pem")
    cli(
        "run",
        *visits,
        *PERIOD,
        "--store",
        "visits.db",
        "--config",
        "sign=signing.pem",
        "--witness",
        "seen",
        "--out",
        "r.ndjson",
    )
    cli("export", "visits.db", "public.db")
    assert "may be handed out" in cli.stdout
    return "public.db"


def test_commands_read_it_like_the_store(cli, public):
    """`query`, `report` and `verify` say the same, without the store and its key beside it."""
    said = [["query", "top", "3"], ["query", "total", "--from", "2026-01-01"], ["query", "--alerts"]]
    words = [cli.json(name, "visits.db", *more) for name, *more in said]
    cli("report", "visits.db", "-o", "one.html", "--title", "t")
    checks = ["--public-key", "signing.pub", "--witness", "seen"]
    found = cli.json("verify", "visits.db", *checks)
    for path in Path().glob("visits.db*"):
        path.unlink()
    assert [cli.json(name, public, *more) | {"store": "visits.db"} for name, *more in said] == words
    cli("report", public, "-o", "two.html", "--title", "t")
    assert Path("two.html").read_bytes() == Path("one.html").read_bytes()
    assert cli.json("verify", public, *checks) == found
    assert cli.json("verify", "r.ndjson", "--store", public)["whole"] is True
    assert sorted(path.name for path in Path().glob("public*")) == ["public.db"]


def test_it_can_be_read_where_nothing_can_be_written(cli, public):
    """In a folder without the right to write."""
    folder = Path("where")
    folder.mkdir()
    Path(public).rename(folder / "public.db")
    folder.chmod(0o555)
    try:
        cli("verify", "where/public.db")
        cli("query", "where/public.db", "top", "1")
    finally:
        folder.chmod(0o755)


def test_nothing_is_written_to_it(cli, visits, public):
    """A run, the curator's commands and a second export are refused in a sentence; the file stays as it is."""
    before, names = Path(public).read_bytes(), sorted(path.name for path in Path().iterdir())
    for words in (["run", *visits, *PERIOD, "--store", public], ["ledger", public, "--user", "ada"]):
        assert "is an export for analysts" in cli(*words, code=3)
    assert "is an export for analysts" in cli("verify", public, "--curator", code=3)
    assert "exists already" in cli("export", "visits.db", public, code=2)
    assert Path(public).read_bytes() == before
    left = sorted(path.name for path in Path().iterdir() if not path.name.endswith(("-shm", "-wal")))
    assert left == [name for name in names if not name.endswith(("-shm", "-wal"))]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["none.db", "p.db"], 3, "there is no store"), (["visits.csv", "p.db"], 3, "no store of dpi"),
        (["visits.db", "p.parquet"], 2, "as public.db"), (["visits.db", "postgresql://x/y"], 2, "as public.db"),
        (["visits.db", "nowhere/p.db"], 2, "folder that exists"), (["visits.db", "visits.db"], 2, "exists already"),
        (["empty.db", "p.db"], 3, "there is no store"),
    ],
)  # fmt: skip
def test_wrong_usage(cli, public, words, code, said):
    """Each in one line; nothing is left behind."""
    Path("empty.db").touch()
    assert said in cli("export", *words, code=code)
    assert not Path("p.db").exists()


def test_a_change_of_the_file_is_found(cli, public):
    """An analyst who gets a file that was changed sees it."""
    with closing(sqlite3.connect(public)) as file, file:
        ((content,),) = file.execute("SELECT content FROM releases ORDER BY slot LIMIT 1")
        changed = content[:-1] + bytes([content[-1] ^ 1])
        file.execute("UPDATE releases SET content = ? WHERE content = ?", (changed, content))
    assert "vouches for" in cli("verify", public, code=1)
