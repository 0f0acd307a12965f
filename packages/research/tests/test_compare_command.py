import json

import pytest

from cli_files import PERIOD
from dpi_research.compare import command as compare
from dpi_research.compare import tables
from dpi_research.compare.run import USUAL, mechanisms
from dpi_research.compare.tables import PublishedTables

SMALL = ("--stream", "n50k20", "--config", "slots=4")
TWO = ("dpi", "noisy")


@pytest.fixture
def events(visits):
    """Options of a comparison on the events of a file."""
    return [*visits[: visits.index("--epsilon")], *PERIOD, "--config", "rows=40"]


def test_a_made_up_stream(cli):
    """Named systems, or the usual ones; DPI is one of them; the table says the terms."""
    cli("compare", *TWO, *SMALL, "--epsilon", "2", "--config", "cap=3", "--config", "churn=0.5", "--config", "seed=7")
    head, columns, *rows = cli.stdout.splitlines()
    assert head == "n50k20: 4 slots, equal user-level guarantee, ε = 2 (cap 3, churn 0.5, seed 7)"
    assert columns.split()[:3] == ["mechanism", "L1", "KL"]
    assert {row.split()[0] for row in rows} == set(TWO)
    found = cli.json("compare", *SMALL)
    assert set(found["comparisons"][0]["courses"]) == set(USUAL)


def test_every_mechanism_has_a_name(cli):
    """All can be asked for at once."""
    found = cli.json("compare", *mechanisms(), "--stream", "n50k20", "--config", "slots=3")
    assert set(found["comparisons"][0]["courses"]) == set(mechanisms())


def test_as_published_the_loss_stands_beside(cli):
    """ε for one record becomes records · slots · ε for a user of the noisy histogram; less at a δ; DPI keeps to ε."""
    (pure,) = cli.json("compare", *TWO, *SMALL, "--mode", "published", "--config", "records=2.5")["comparisons"]
    assert pure["courses"]["noisy"]["loss"] == pytest.approx([2.5, 5, 7.5, 10])
    assert max(pure["courses"]["dpi"]["loss"]) <= 1
    (less,) = cli.json("compare", "noisy", *SMALL, "--mode", "published", "--config", "delta=0.001")["comparisons"]
    assert less["courses"]["noisy"]["loss"][-1] < 4


def test_events_of_files(cli, events):
    """The same on events of a file, over a public period; stderr says that this is no release."""
    cli("compare", "dpi", "noisy", *events)
    assert "true data" in cli.stderr
    assert cli.stdout.startswith("visits.csv: 6 slots, equal user-level guarantee, ε = 1 (cap 10)")
    (found,) = cli.json("compare", *TWO, *events)["comparisons"]
    assert found["slots"] == 6
    assert None not in found["courses"]["dpi"]["l1"]


def test_with_a_large_epsilon_the_file_is_told_as_it_is(cli, events):
    """With a noise of 0.004 records the truth is that of the file (a false alarm has a probability below 10⁻⁹)."""
    (found,) = cli.json("compare", "noisy", *events, "--epsilon", "1000", "--config", "cap=4")["comparisons"]
    assert max(found["courses"]["noisy"]["l1"][:4]) < 0.01  # then the cap is reached


def test_plots(cli):
    """Loss and errors over time for every ε, and error against loss over all, as SVG."""
    pytest.importorskip("matplotlib")
    cli("compare", *TWO, *SMALL, "--plots", "one")
    over = {"loss.svg", "l1.svg", "kl.svg"}
    against = {"l1-against-loss.svg", "kl-against-loss.svg"}
    assert {path.name for path in (cli.folder / "one").iterdir()} == over | against
    assert all("<svg" in path.read_text() for path in (cli.folder / "one").iterdir())
    found = cli.json("compare", *TWO, *SMALL, "--epsilon", "0.5", "--epsilon", "2", "--plots", "two")
    assert [each["epsilon"] for each in found["comparisons"]] == [0.5, 2]
    assert {path.name for path in (cli.folder / "two").iterdir()} == against | {
        name.replace(".svg", f"-epsilon-{epsilon}.svg") for name in over for epsilon in ("0.5", "2")
    }


def test_the_published_tables(cli, monkeypatch):
    """Printed numbers beside recomputed ones; no stream is played. (All rows: packages/research/tests/compare.)"""
    few = PublishedTables((*tables.method_rows(),), (next(tables.loss_rows()),), tables.NOTES)
    monkeypatch.setattr(compare, "make_tables", lambda: few)
    assert "Perrier et al." in cli("compare", "--config", "published-tables=true")
    found = json.loads((cli("compare", "--config", "published-tables=true", "--json"), cli.stdout)[1])
    assert len(found["methods"]) == 4
    assert found["losses"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["hibrid"], "there is no mechanism 'hibrid': did you mean `hybrid`?"),
        (["zzz"], "known are dpi, binary"),
        (["--stream", "small2"], "there is no stream 'small2': did you mean `small20`?"),
        (["--mode", "event"], "`--mode` must be user or published. Got 'event'."),
        (["events.csv"], "events of files need `--domain`, `--slot`, `--from` and `--to`"),
        (["events.csv", "--config", "churn=0"], "are for a made-up stream"),
        (["--config", "churn=2"], "`churn` must be between 0 and 1"),
        (["--config", "slots=0"], "`slots` must be"),
        (["--epsilon", "none"], "epsilon"),
        (["--config", "cap=0"], "`cap` must be a whole number above 0. Got 0."),
    ],
)
def test_wrong_words_are_refused(cli, words, text):
    """One line, exit code 2, and the name that was meant."""
    assert text in " ".join(cli("compare", *words, code=2).split())
    assert cli.stderr.startswith("dpi: error: ")
    assert cli.stderr.count("\n") == 1
