"""`--out`: no release that a file holds is lost by a run."""

from pathlib import Path

import pytest

from cli_files import PERIOD

FORMS = ["releases.parquet", "releases.ndjson"]
PART = ["--from", "2026-01-01", "--to", "2026-01-01T03:00"]


@pytest.fixture(params=FORMS)
def out(request, cli, visits):
    """A file with the six hours of a stream."""
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--name", "one", "--out", request.param)
    return request.param


def names():
    """The files of the folder; a reader of a store leaves SQLite's own two beside it."""
    return sorted(path.name for path in Path().iterdir() if not path.name.endswith(("-shm", "-wal")))


def refused(cli, out, *words):
    """The command is wrong usage, and leaves the file and the folder as they were."""
    before, there = Path(out).read_bytes(), names()
    entries = cli.json("verify", "visits.db")["entries"]
    said = cli("run", *words, "--out", out, code=2)
    assert Path(out).read_bytes() == before
    assert names() == there
    assert cli.json("verify", "visits.db")["entries"] == entries
    return said


def test_releases_of_another_stream_are_not_replaced(cli, visits, out):
    """Another stream of the same store: refused, and the stream is not declared."""
    said = refused(cli, out, *visits, *PERIOD, "--store", "visits.db", "--name", "two")
    assert "holds releases that are not of this stream" in said


def test_releases_of_another_store_are_not_replaced(cli, visits, out):
    """A new store: refused before it is made. A store that is there: refused before anything is paid."""
    said = refused(cli, out, *visits, *PERIOD, "--store", "other.db", "--name", "one")
    assert "holds releases that are not of this stream" in said
    cli("run", *visits, *PART, "--store", "other.db", "--name", "one")
    before = cli.json("verify", "other.db")
    said = refused(cli, out, *visits, *PERIOD, "--store", "other.db", "--name", "one")
    assert "holds releases that are not of this stream" in said
    assert cli.json("verify", "other.db") == before


@pytest.mark.parametrize("period", [PART, ["--from", "2026-01-01T02:00", "--to", "2026-01-01T07:00"]])
def test_a_file_is_not_cut(cli, visits, out, period):
    """A period that ends earlier or begins later than what the file holds is refused."""
    said = refused(cli, out, *visits, *period, "--store", "visits.db", "--name", "one")
    assert "2026-01-01T00:00:00+00:00" in said
    assert "2026-01-01T05:00:00+00:00" in said


def test_an_old_copy_of_the_store_does_not_cut_it(cli, visits, out):
    """Releases that the store has forgotten stay in the file."""
    Path("visits.db").unlink()
    cli("run", *visits, *PART, "--store", "visits.db", "--name", "one", "--config", "new=true")
    assert "are not of this stream" in refused(cli, out, *visits, *PERIOD, "--store", "visits.db", "--name", "one")


def test_a_file_that_is_damaged_in_the_middle_is_left(cli, visits):
    """Only a last line can have been cut by a crash."""
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--out", "releases.ndjson")
    lines = Path("releases.ndjson").read_text().splitlines()
    for damaged in ([*lines[:2], lines[2][:-9], *lines[3:]], [*lines[:2], '{"accumulated": 1}', *lines[3:]]):
        Path("releases.ndjson").write_text("\n".join(damaged) + "\n")
        assert "damaged" in refused(cli, "releases.ndjson", *visits, *PERIOD, "--store", "visits.db")


@pytest.mark.parametrize(
    "more",
    [
        ("--epsilon", "0"), ("--per-slot", "2"), ("--config", "slots=3"),
        ("--config", "compression=whole-pdf"), ("--domain", "urls.json"), ("--witness", "nowhere/seen"),
        ("--config", "key-file=nowhere/key"), ("--config", "sign=none.pem"),
    ],
)  # fmt: skip
def test_wrong_options_make_no_store(cli, visits, more):
    """A command that is refused leaves nothing behind: no store, no key, no lock."""
    cli("domain", "--hashed", "16", "--key-file", "urls.key", "-o", "urls.json")
    Path("urls.key").unlink()
    words = [word for word in visits if "urls.json" not in more or word not in ("--other", "elsewhere")]
    before = names()
    cli("run", *words, *PERIOD, "--store", "visits.db", *more, code=2)
    assert names() == before


def test_files_of_others_are_not_replaced(cli, visits):
    """A domain and a report take the place of an older one, and of nothing else."""
    cli("run", *visits, *PERIOD, "--store", "visits.db")
    for _ in range(2):
        cli("domain", "DE", "FR", "-o", "domain.json")
        cli("report", "visits.db", "-o", "page.html")
    for name, mine in (("domain.json", '{"kind": "mine"}'), ("page.html", "<!doctype html><p>mine")):
        Path(name).write_text(mine)
    assert "not replaced" in cli("domain", "DE", "-o", "domain.json", code=2)
    assert "not replaced" in cli("report", "visits.db", "-o", "page.html", code=2)
    assert Path("domain.json").read_text() == '{"kind": "mine"}'
    assert Path("page.html").read_text() == "<!doctype html><p>mine"
