"""A command that fails leaves no file that it has made, and takes none that was there."""

import gzip
from pathlib import Path

import pytest

import dpi
from cli_files import PERIOD
from dpi.store.opening import remove_unused


def files():
    """What lies in the folder."""
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


@pytest.fixture
def damaged(visits):
    """Options of a run over a compressed file that breaks off after some events."""
    text = Path("visits.csv").read_bytes()
    packed = gzip.compress(text, 1)
    Path("cut.csv.gz").write_bytes(packed[: len(packed) - 20])
    return ["cut.csv.gz", *visits[1:]]


def test_a_damaged_file(cli, damaged):
    """Damage that is found while events are read leaves no store, no key, no lock, no witness, no file."""
    before = files()
    said = cli("run", *damaged, *PERIOD, "--store", "s.db", "--witness", "seen", "--out", "o.ndjson", code=3)
    assert "is damaged" in said
    assert files() == before


def test_files_that_cannot_be_followed(cli, visits):
    """They are refused, and no store is made."""
    Path("v.csv.gz").write_bytes(gzip.compress(Path("visits.csv").read_bytes()))
    before = files()
    assert "can be followed" in cli("run", "v.csv.gz", *visits[1:], *PERIOD, "--follow", "--store", "s.db", code=2)
    assert files() == before


def test_a_key_or_a_witness_of_another_store(cli, visits):
    """A new store is not made with them, and they stay as they are."""
    cli("run", *visits, *PERIOD, "--store", "one.db", "--witness", "seen")
    Path("wrong.key").write_text("00")
    Path("wrong.key").chmod(0o600)
    before = files()
    cli("run", *visits, *PERIOD, "--store", "two.db", "--witness", "seen", code=3)
    cli("run", *visits, *PERIOD, "--store", "two.db", "--config", "key-file=wrong.key", code=3)
    assert files() == before


def test_a_store_that_was_there_stays(cli, visits, damaged):
    """A run that fails on a store with releases, or with a stream that has none yet, removes nothing."""
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00", "--store", "s.db")
    entries = cli.json("verify", "s.db")["entries"]
    cli("run", *damaged, *PERIOD, "--store", "s.db", code=3)
    assert cli.json("verify", "s.db")["entries"] == entries


@pytest.mark.parametrize("used", ["released", "kept", "open"])
def test_a_store_that_is_used_is_never_removed(tmp_path, used):
    """Not one that has released a slot, not one that keeps events of an open slot, not one that is open for writing."""
    path = tmp_path / "s.db"
    stream = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, slot="1h", start="2026-01-01", store=path)
    if used == "released":
        stream.release([1], ["a"])
    if used == "kept":
        stream.append(["ada"], ["2026-01-01T00:10"], ["a"], now="2026-01-01T00:20")
    if used != "open":
        stream.close()
    beside = [tmp_path / f"s.db{suffix}" for suffix in (".key", ".witness", ".witness.lock")]
    assert not remove_unused(path, beside)
    assert (tmp_path / "s.db.key").exists()
    stream.close()
    if used == "open":
        assert remove_unused(path, beside)
        assert list(tmp_path.iterdir()) == []


def test_keys_are_not_made_for_nothing(cli):
    """A pair of keys, or a key of buckets, is made whole or not at all."""
    cli("keys", "signing.pem", "--public", "nowhere/signing.pub", code=2)
    cli("domain", "--hashed", "0", "--key-file", "h.key", code=2)
    cli("domain", "--hashed", "8", "--key-file", "h.key", "-o", "nowhere/h.json", code=2)
    assert files() == {}
