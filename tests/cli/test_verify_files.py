"""`dpi verify` of a file of releases: what was seen, what is missing, and what cannot be known."""

import json
import re
import sys
from pathlib import Path

import pytest

import dpi
from cli_files import PERIOD
from dpi.budget.classes import level
from dpi.verification.releases import verify_releases

PART = ["--from", "2026-01-01", "--to", "2026-01-01T03:00"]


@pytest.fixture
def lines(cli, visits):
    """The lines of a file with six hours."""
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--out", "r.ndjson", "--witness", "seen")
    return Path("r.ndjson").read_text().splitlines()


def keep(lines):
    """Leave some lines in the file."""
    Path("r.ndjson").write_text("".join(f"{line}\n" for line in lines))


DOMAIN = ["--domain", "countries.txt", "--other", "elsewhere"]


def test_a_whole_file(cli, lines):
    """Its entries and slots are named, and that its end cannot be known from it alone."""
    found = cli.json("verify", "r.ndjson", *DOMAIN)
    first = json.loads(lines[0])["slot"]
    assert found["intact"] is found["whole"] is True
    assert (found["first_entry"], found["last_entry"], found["entries"]) == (1, 6, 6)
    assert found["slots"] == {"": [first, first + 5]}
    assert found["end_known"] is False
    said = cli("verify", "r.ndjson", *DOMAIN)
    assert "consistent" in said
    assert "entries 1 … 6" in said
    assert f"{first} … {first + 5}" in said
    assert "2026-01-01T00:00:00+00:00" in said
    assert "later entries may have been cut off" in said
    assert "whole" not in said


def test_a_file_without_its_beginning(cli, lines):
    """It is consistent and not whole: slots before its first one were released, and are named as missing."""
    keep(lines[2:])
    found = cli.json("verify", "r.ndjson", *DOMAIN)
    assert found["intact"] is True
    assert found["whole"] is False
    assert (found["first_entry"], found["last_entry"]) == (3, 6)
    assert "before slot" in found["missing"][0]
    said = cli("verify", "r.ndjson", *DOMAIN)
    assert "entries 3 … 6" in said
    assert "before slot" in said
    assert "whole" not in said


def test_a_file_without_its_end(cli, lines):
    """By itself that cannot be known; the store or the witness tells."""
    keep(lines[:2])
    found = cli.json("verify", "r.ndjson", *DOMAIN)
    assert (found["intact"], found["whole"], found["end_known"]) == (True, True, False)
    found = cli.json("verify", "r.ndjson", "--store", "visits.db")
    assert (found["intact"], found["whole"], found["end_known"]) == (True, False, True)
    slots = "slots 2026-01-01T02:00:00+00:00 … 2026-01-01T05:00:00+00:00"
    assert found["missing"] == [f"in the store and not here: {slots} of the stream without a name"]
    found = cli.json("verify", "r.ndjson", *DOMAIN, "--witness", "seen", code=1)
    assert "which the witness saw" in found["problems"][0]
    keep(lines)
    assert cli.json("verify", "r.ndjson", *DOMAIN, "--witness", "seen")["end_known"] is True
    assert cli.json("verify", "r.ndjson", "--store", "visits.db")["missing"] == []


def test_a_file_without_its_middle(cli, lines):
    """Every slot is released, so a slot that is left out was taken out."""
    keep([*lines[:2], *lines[3:]])
    (problem,) = cli.json("verify", "r.ndjson", *DOMAIN, code=1)["problems"]
    assert "is missing" in problem


def test_a_file_without_lines(cli, lines):
    """Nothing was seen, so nothing is vouched for."""
    keep([])
    assert "no release" in cli("verify", "r.ndjson", *DOMAIN, code=1)


def test_releases_of_another_store(cli, visits, lines):
    """Releases that are whole in themselves are not those of another store or of another witness."""
    cli("run", *visits, *PERIOD, "--store", "other.db", "--witness", "other")
    found = cli.json("verify", "r.ndjson", "--store", "other.db", code=1)
    assert "not in the chain of the store" in found["problems"][0]
    assert cli.json("verify", "r.ndjson", *DOMAIN, "--witness", "other", code=1)["problems"]


def test_slots_that_a_store_has_lost_are_not_missing(cli, visits, lines):
    """After an old copy was put back and charged, the slots that it has forgotten are in no file made from it."""
    old = Path("visits.db").read_bytes()
    later = ["--from", "2026-01-01T06:00", "--to", "2026-01-01T07:00", "--witness", "seen"]
    cli("run", *visits, *later, "--store", "visits.db")
    Path("visits.db").write_bytes(old)
    after = ["--from", "2026-01-01", "--to", "2026-01-01T08:00", "--witness", "seen", "--config", "charge-lost=true"]
    cli("run", *visits, *after, "--store", "visits.db", "--out", "after.ndjson")
    slots = [json.loads(line)["slot"] for line in Path("after.ndjson").read_text().splitlines()]
    assert slots[6] == slots[5] + 2
    assert cli.json("verify", "after.ndjson", "--store", "visits.db")["whole"] is True
    cli("verify", "after.ndjson", *DOMAIN, code=1)


def test_a_store_that_was_restored_says_so_and_what_is_missing(cli, visits, lines):
    """The restoration is named with its entry, the charge, and the slots whose releases cannot be checked any more."""
    old, slot = Path("visits.db").read_bytes(), json.loads(lines[-1])["slot"]
    assert cli.json("verify", "visits.db")["restored"] == []
    later = ["--from", "2026-01-01T06:00", "--to", "2026-01-01T08:00", "--witness", "seen"]
    cli("run", *visits, *later, "--store", "visits.db")
    Path("visits.db").write_bytes(old)
    after = ["--from", "2026-01-01", "--to", "2026-01-01T09:00", "--witness", "seen", "--config", "charge-lost=true"]
    cli("run", *visits, *after, "--store", "visits.db")
    found = cli.json("verify", "visits.db")
    assert (found["intact"], found["whole"]) == (True, False)
    (restored,) = found["restored"]
    assert (restored["entry"], restored["lost_entry"], restored["slots"]) == (7, 8, {"": [slot + 1, slot + 2]})
    assert restored["charged"] == {"": pytest.approx(0.4)}
    (missing,) = found["missing"]
    assert re.fullmatch(
        r"releases of slots 2026-01-01T\d\d:00:00\+00:00 … 2026-01-01T\d\d:00:00\+00:00 of the stream without a name, "
        r"which a restored copy lacked \(entry 7\)", missing,
    )  # fmt: skip
    said = " ".join(cli("verify", "visits.db", "--witness", "seen").split())
    assert "Releases are missing, and cannot be checked." in said
    assert missing in said
    assert "from an older copy, by entry 7." in said
    assert "nothing from the first entry on" not in said


def test_a_store_says_what_it_saw(cli, lines):
    """All entries from the first on; whether its end was cut off, a witness tells."""
    found = cli.json("verify", "visits.db")
    assert (found["whole"], found["end_known"], found["first_entry"], found["last_entry"]) == (True, False, 0, 6)
    assert "a witness (--witness) would detect it" in cli("verify", "visits.db")
    assert cli.json("verify", "visits.db", "--witness", "seen")["end_known"] is True
    assert "would detect it" not in cli("verify", "visits.db", "--witness", "seen")


def test_two_streams_in_a_store(cli, visits):
    """Entries of other streams in between are no gap, and the first slot of a stream is its beginning."""
    for name in ("one", "two"):
        cli("run", *visits, *PART, "--store", "v.db", "--name", name, "--out", f"{name}.ndjson")
    found = cli.json("verify", "two.ndjson", *DOMAIN)
    assert (found["intact"], found["whole"], found["first_entry"]) == (True, True, 5)
    assert cli.json("verify", "two.ndjson", "--store", "v.db")["missing"] == []


def test_plug_ins_are_named(cli, lines, tmp_path, monkeypatch):
    """Code of other packages runs with the program's rights: name, package and version, without loading any."""
    brought = tmp_path / "elsewhere" / "spy-1.2.dist-info"
    brought.mkdir(parents=True)
    (brought / "METADATA").write_text("Metadata-Version: 2.1\nName: spy\nVersion: 1.2\n")
    (brought / "entry_points.txt").write_text(
        "[dpi.executors]\nnowhere = spy:start\n[console_scripts]\nspy = spy:run\n"
    )
    monkeypatch.syspath_prepend(str(brought.parent))
    found = [each for each in cli.json("verify", "visits.db")["plugins"] if each["distribution"] == "spy"]
    assert found == [{"group": "dpi.executors", "name": "nowhere", "distribution": "spy", "version": "1.2"}]
    assert "nowhere (spy 1.2)" in cli("verify", "visits.db")
    assert "spy" not in sys.modules


def test_without_plug_ins_that_is_said(cli, lines, monkeypatch):
    """An installation of the core alone has none."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    assert re.search("^plug-ins here +no plug-ins *$", cli("verify", "r.ndjson", *DOMAIN), re.MULTILINE)
    assert cli.json("verify", "visits.db")["plugins"] == []


def test_nothing_is_said_of_releases_that_were_never_made():
    """The library says the same of an empty list."""
    assert not verify_releases([]).intact


def test_a_beginning_that_cost_nobody_more_is_missed():
    """Where newcomers alone pay, sums do not tell that a slot came before; the certificate names the stream's first."""
    first = next(slot for slot in range(60) if level(slot, 20) == level(slot + 1, 20) == 0)
    stream = dpi.Stream(
        domain=dpi.Categories(["a", "b"]),
        epsilon=1,
        slot="1s",
        start=f"2026-01-01T00:00:{first:02d}",
        origin="2026-01-01",
        budget=dpi.Ledger(policy=dpi.budget.clocked()),
    )
    releases = [stream.release(["ada"], ["a"]) for _ in range(3)]
    assert [release.slot for release in releases] == [first, first + 1, first + 2]
    assert verify_releases(releases).whole
    assert verify_releases(releases[1:]).missing == (
        f"releases of the stream without a name before slot 2026-01-01T00:00:{first + 1}+00:00",
    )
