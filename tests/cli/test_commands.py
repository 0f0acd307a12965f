import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import dpi
from cli_files import ENVIRONMENT, PROGRAM
from dpi.cli.commands import COMMANDS
from dpi.domain import file as domain_file

NAMES = list(COMMANDS)


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples(cli, name):
    """Every command's help shows how to call it, and offers --json."""
    said = cli(name, "--help")
    assert "Examples:" in said
    assert f"  dpi {name} " in said or "  dpi demo\n" in said.replace(" \n", "\n").replace("  \n", "\n")
    assert "--json" in said


def test_the_program(cli):
    """Without a command it shows its help; it knows its version and shell completion."""
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout == f"dpi {dpi.__version__}\n"
    said = cli("--help")
    assert "--install-completion" in said
    assert all(f" {name} " in said for name in NAMES)
    cli("runn", code=2)
    cli("run", "--nothing", code=2)


def test_completion(cli):
    """A shell is offered the commands."""
    environment = ENVIRONMENT | {"_DPI_COMPLETE": "complete_bash", "COMP_WORDS": "dpi re", "COMP_CWORD": "1"}
    code = "from dpi.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split() == ["report", "reproduce"]


def test_the_package_does_not_load_the_command_line():
    """`import dpi` loads neither typer nor rich, nor what they load."""
    code = "import sys, dpi; print([m for m in ('typer', 'rich', 'dpi.cli') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout == "[]\n"


def test_demo(cli, warm):
    """A day of the shop: the releases are nearer to the truth than a guess, and every file is there."""
    found = cli.json("demo", "--days", "1", "--folder", "shop")
    assert found["hours"] == 24
    assert found["divergence"] < found["divergence_of_uniform"]
    assert 0 < found["error"] < found["error_of_uniform"] < 100  # percentage points
    assert {Path(name).name for name in found["files"]} == {
        "visits.parquet", "pages.txt", "shop.db", "releases.parquet", "report.html", "shop.svg",
    }  # fmt: skip
    assert all(Path(name).exists() for name in found["files"])
    cli("verify", "shop/shop.db", "--curator")
    said = cli("demo", "--days", "1", "--folder", "shop")  # again, from the start
    assert "shop/report.html" in said
    command = said[said.index("  dpi run") :].partition("\n\n")[0].replace("\\\n", "")
    for name in ("shop.db", "shop.db.key", "shop.db.witness", "releases.parquet"):
        Path("shop", name).unlink()
    done = subprocess.run([*warm, *_words(command)[1:]], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert "24 slots released" in done.stdout


def _words(command):
    import shlex

    return shlex.split(command)


def test_the_demo_leaves_other_stores_alone(cli, visits):
    """A store that is not a demo's is not replaced."""
    Path("shop").mkdir()
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T01:00", "--store", "shop/shop.db")
    assert "not the store of a demo" in cli("demo", "--days", "1", "--folder", "shop", code=2)
    assert cli.json("verify", "shop/shop.db")["entries"] == 2
    Path("mine").mkdir()
    Path("mine/visits.parquet").write_text("mine")
    assert "something else" in cli("demo", "--days", "1", "--folder", "mine", code=2)
    assert Path("mine/visits.parquet").read_text() == "mine"


def test_plan(cli):
    """The plan's own figures, as a table, as a document and as a picture."""
    words = ["plan", "--users", "20000", "--bins", "50", "--epsilon", "1"]
    found, plan = cli.json(*words), dpi.plan(epsilon=1, users=20_000, bins=50)
    assert {row["name"]: tuple(row["after"]) for row in found["errors"]} == {r.name: r.after for r in plan.errors}
    assert found["ages"] == [30, 365, 1825]
    said = cli(*words, "--slot", "1d", "--plot", "plan.svg")
    for text in ("after 365 days", *(cell for row in plan.rows() for cell in row), plan.doubt):
        assert " ".join(text.split()) in " ".join(said.split())
    assert Path("plan.svg").read_text().startswith("<?xml")
    cli(*words, "--plot", "plan.txt", code=2)


def test_plan_finds_an_epsilon(cli):
    """In place of ε, an error is said; bad input gets one sentence."""
    words = ["plan", "--users", "20000", "--bins", "50"]
    found = cli.json(*words, "--want", "active=20")
    assert found["epsilon"] == dpi.plan(want="active=20", users=20_000, bins=50).epsilon
    assert f"ε = {found['epsilon']:g} is enough for active=20" in cli(*words, "--want", "active=20")
    for bad in (["--want", "active=0.1"], ["--epsilon", "0"], [], ["--epsilon", "1", "--want", "active=20"]):
        assert cli(*words, *bad, code=2).count("dpi: error:") == 1
    assert "`--users` must be a whole number above 0." in cli(
        "plan", "--epsilon", "1", "--users", "0", "--bins", "9", code=2
    )


def test_domain_files(cli):
    """Each kind of domain is written as it was said."""
    Path("list.txt").write_text("FR\n\n IT \n")
    cli("domain", "DE", "--list", "list.txt", "--other", "elsewhere", "-o", "c.json")
    assert domain_file.read("c.json") == dpi.Categories(["DE", "FR", "IT"], other="elsewhere")
    cli("domain", "DE", "FR", "--config", "no-other=true", "-o", "n.json")
    assert domain_file.read("n.json") == dpi.Categories(["DE", "FR"], other=None)
    cli("domain", "--bins", "0,10,100", "-o", "b.json")
    assert domain_file.read("b.json") == dpi.Bins([0, 10, 100])
    cli("domain", "--bins", "0:1:0.1", "-o", "t.json")
    assert domain_file.read("t.json").size == 12
    found = cli.json("domain", "--hashed", "8", "--key-file", "h.key", "-o", "h.json")
    assert stat.S_IMODE(Path("h.key").stat().st_mode) == 0o600
    assert found["digest"] == domain_file.read("h.json").digest == cli.json(
        "domain", "--hashed", "8", "--key-file", "h.key", "-o", "again.json"
    )["digest"]  # fmt: skip
    cli("domain", "--product", "z=c.json", "--product", "a=b.json", "-o", "p.json")
    assert domain_file.read("p.json").parts.keys() == {"z": 0, "a": 0}.keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["DE", "FR", "DE"], "'DE' more than once"), ([], "give either"), (["DE", "--bins", "1,2"], "give either"),
        (["--bins", "3,2"], "increasing"), (["--bins", "0:10:0"], "--bins"), (["--bins", "0:10:1e-9"], "2^20"),
        (["--bins", "a"], "--bins"), (["--hashed", "8"], "--key-file"), (["--product", "x"], "PART=FILE"),
        (["--product", "x=none.json"], "cannot be read"), (["--list", "none.txt"], "cannot be read"),
        (["other"], "`--other` must be a name"), (["DE", "-o", "domain.txt"], "must end in .json"),
        (["DE", "--key-file", "k"], "is for `--hashed`"),
    ],
)  # fmt: skip
def test_domains_that_are_none(cli, words, said):
    """A domain that contradicts itself is refused, naming what is wrong: domains are public."""
    assert said in cli("domain", *words, code=2)
    assert not Path("domain.json").exists()


def test_a_ledgers_key_is_replaced(cli, visits):
    """Users have left what they had; the run goes on from there, and an older copy of the key opens nothing."""
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00", "--store", "visits.db")
    (cli.folder / "old.key").write_bytes((cli.folder / "visits.db.key").read_bytes())
    (cli.folder / "old.key").chmod(0o600)
    ask = ["ledger", "visits.db", "--user", "secret-user-3"]
    before = cli.json(*ask)
    assert before["left"] < 1
    assert cli.json("keys", "replace", "visits.db")["keys"] == 2
    assert "holds 3 keys" in cli("keys", "replace", "visits.db")
    assert cli.json(*ask) == before
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T03:00", "--store", "visits.db")
    assert cli.json(*ask)["left"] < before["left"]
    assert "lacks one that replaced it" in cli(*ask, "--key-file", "old.key", code=3)
    assert "there is no store at none.db" in cli("keys", "replace", "none.db", code=2)


def test_keys(cli):
    """The private key is its owner's alone, and neither file is ever replaced."""
    found = cli.json("keys", "signing.pem")
    assert found.pop("fingerprint") == dpi.Signer.open("signing.pem").verifier.fingerprint
    assert found == {"private": "signing.pem", "public": "signing.pub"}
    assert stat.S_IMODE(Path("signing.pem").stat().st_mode) == 0o600
    assert "PUBLIC" in Path("signing.pub").read_text()
    assert "PRIVATE" not in Path("signing.pub").read_text()
    assert "exists already" in cli("keys", "signing.pem", code=2)
    Path("signing.pem").unlink()
    assert "exists already" in cli("keys", "signing.pem", code=2)


def test_documents_are_one(cli):
    """`--json` prints one document on standard output and nothing else."""
    cli("plan", "--epsilon", "1", "--users", "1000", "--bins", "20", "--json")
    assert json.loads(cli.stdout)["users"] == 1000
    assert cli.stderr == ""
