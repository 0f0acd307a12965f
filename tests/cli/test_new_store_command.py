"""A store that is gone is not made anew without a word."""

from pathlib import Path

from cli_files import PERIOD


def test_a_key_without_its_store_is_refused_and_new_says_what_it_costs(cli, visits):
    """`run` refuses a key without its store, `--new` says what it costs; `--no-witness` keeps none."""
    words = ("run", *visits, *PERIOD, "--store", "visits.db")
    cli(*words)
    assert Path("visits.db.witness").exists()
    for file in Path().glob("visits.db*"):
        if file.suffix != ".key":
            file.unlink()
    said = cli(*words, code=3)
    assert "`new`" in said
    assert "dpi backup restore" in said
    assert not Path("visits.db").exists()
    assert "Every user has all of ε once more" in " ".join(cli(*words, "--config", "new=true").split())
    assert "`new`" in cli(*words, "--config", "new=true", code=2)
    cli(*words[:-1], "plain.db", "--config", "no-witness=true")
    assert not Path("plain.db.witness").exists()
    assert "not both" in cli(*words[:-1], "both.db", "--config", "no-witness=true", "--witness", "seen", code=2)
