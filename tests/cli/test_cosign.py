"""`dpi keys cosign` and `dpi verify --policy`, with witnesses that answer over HTTP and check with another's code."""

import json
import re
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from tlog_scales.signing import Vkey
from tlog_scales.tlog import Checkpoint as TheirCheckpoint

from cli_files import PERIOD
from dpi.certificates.notes import log_key
from dpi.certificates.signature import Signer
from witness_server import Cosigner

ORIGIN = "example.com/visits"
SIGN = ["--sign", "signing.pem", "--origin", ORIGIN]
COSIGN = ["keys", "cosign", "visits.db", *SIGN, "--checkpoint", "visits.checkpoint", "--policy", "visits.policy"]
VERIFY = ["verify", "visits.db", "--witness", "visits.checkpoint", "--policy", "visits.policy"]
HALF = ["--from", "2026-01-01", "--to", "2026-01-01T03:00"]


@pytest.fixture
def witnesses(cli, visits):
    """Two witnesses that know the chain of a store with three hours."""
    cli("keys", "signing.pem")
    cli("run", *visits, *HALF, "--store", "visits.db", "--config", "sign=signing.pem")
    key = Vkey.from_string(log_key(ORIGIN, Signer.open("signing.pem")).text)
    both = [Cosigner(f"witness.example/{name}", logs={ORIGIN: key}) for name in "ab"]
    with ExitStack() as running:
        for each in both:
            running.enter_context(each.serving())
        lines = [f"witness {each.name} {each.vkey.serialize()} {each.address}" for each in both]
        names = " ".join(each.name for each in both)
        Path("visits.policy").write_text(
            "\n".join([f"log {key.serialize()}", *lines, f"group both all {names}", "quorum both"])
        )
        yield both


def test_a_chain_is_cosigned_as_it_grows(cli, visits, witnesses):
    """Witnesses go on from what they saw, readers see who cosigned, and another program reads the file."""
    assert cli.json(*COSIGN)["entries"] == 4
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--config", "sign=signing.pem")
    said = cli(*VERIFY)
    assert "The chain is whole." in said
    assert "3 later entries are in no checkpoint yet" in said
    found = cli.json(*COSIGN)
    assert (found["entries"], found["published"], len(found["cosigned"])) == (7, True, 2)
    assert [each.seen[ORIGIN][0] for each in witnesses] == [7, 7]
    assert re.search(r"7 entries by witness.example/a at \d{4}-.* UTC, witness.example/b at", cli(*VERIFY))
    theirs = TheirCheckpoint.from_text(Path("visits.checkpoint").read_text())
    for key in (witnesses[0].logs[ORIGIN], *(each.vkey for each in witnesses)):
        theirs.verify(key)
    assert cli.json(*VERIFY)["end_known"] is True
    assert cli.json(*COSIGN)["entries"] == 7  # once more, with nothing new


def test_a_checkpoint_without_a_policy_is_told_from_a_witness(cli, witnesses):
    """The error names what the file is and the option that it needs; a damaged witness is still called damaged."""
    cli(*COSIGN)
    said = cli("verify", "visits.db", "--witness", "visits.checkpoint", code=2)
    assert "visits.checkpoint is a checkpoint, as `dpi keys cosign` writes it" in said
    assert "give `--policy` too" in said
    Path("visits.checkpoint").write_text("{}x")
    assert "the witness file is damaged" in cli("verify", "visits.db", "--witness", "visits.checkpoint", code=3)


def test_what_analysts_get_is_checked_by_it(cli, witnesses):
    """An export holds the whole chain, and so does not need the store."""
    cli(*COSIGN)
    cli("export", "visits.db", "public.db")
    assert cli.json("verify", "public.db", *VERIFY[2:])["whole"] is True
    cli("keys", "cosign", "public.db", *SIGN, "--checkpoint", "again")
    assert Path("again").read_text().split("\n\n")[0] == Path("visits.checkpoint").read_text().split("\n\n")[0]


def test_an_end_that_was_cut_off_is_found(cli, visits, witnesses):
    """An old copy verifies by itself; beside the checkpoint it does not, and it is not signed or cosigned again."""
    cli("backup", "visits.db", "old.db")
    shutil.copy("visits.db.key", "old.db.key")
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--config", "sign=signing.pem")
    cli(*COSIGN)
    cli("export", "old.db", "old-public.db")
    assert cli.json("verify", "old-public.db")["intact"] is True
    said = cli("verify", "old-public.db", *VERIFY[2:], code=1)
    assert "the chain has 4 entries, and witnesses saw 7: its end was cut off" in said
    again = ["keys", "cosign", "old-public.db", *COSIGN[3:]]
    assert "does not go on from its last checkpoint" in cli(*again, code=3)
    Path("visits.checkpoint").rename("kept.checkpoint")  # a publisher who forgets what it signed
    said = cli(*again, code=1)
    assert said.count("it has cosigned another chain of this length or a longer one") == 2
    assert not Path("visits.checkpoint").exists()


def test_two_views_of_one_chain_are_found(cli, visits, witnesses):
    """Another store under the same origin and key: witnesses refuse it, and readers of it see that it is another."""
    cli(*COSIGN)
    for end in ("2026-01-01T03:00", "2026-01-01T05:00"):
        run = ["run", *visits, "--from", "2026-01-01", "--to", end, "--store", "other.db"]
        cli(*run, "--config", "sign=signing.pem")
        said = cli("verify", "other.db", *VERIFY[2:], code=1)
        assert "the first 4 entries are others than the witnesses saw: this is another chain" in said
        said = cli("keys", "cosign", "other.db", *SIGN, "--checkpoint", "x", "--policy", "visits.policy", code=1)
        assert said.count("rewritten") == 2
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, ""), "holds no signature of its key"),
        ((200, "OK\n"), "holds no signature of its key"),
        ((200, "— witness.example/a AAAAAAA=\n"), "holds no signature of its key"),
        ((409, "9999999\n"), "cosigned another chain"),
        ((409, "three\n"), "cosigned another chain"),
        ((409, "9" * 5000 + "\n"), "cosigned another chain"),
        ((200, "— witness.example/a " + "A" * 200_000), "holds no signature of its key"),
        ((500, "SECRET"), "it answered 500"),
        ((302, ""), "it answered 302"),
    ],
)
def test_a_witness_that_misbehaves_gives_nothing(cli, witnesses, answer, said):
    """Whatever it answers, the file stays as it was, and the exit code says that too few cosigned."""
    witnesses[0].answer = answer
    found = cli(*COSIGN, code=1)
    assert said in found
    assert "SECRET" not in found
    assert "Too few" in found
    assert not Path("visits.checkpoint").exists()


def test_a_witness_that_is_away_or_does_not_know_the_chain(cli, witnesses):
    """Each is said; the other one cosigns."""
    witnesses[0].logs.clear()
    text = Path("visits.policy").read_text()
    Path("visits.policy").write_text(text.replace(witnesses[1].address, "http://127.0.0.1:9"))
    found = cli(*COSIGN, code=1)
    assert "does not know this origin" in found
    assert "cannot be reached" in found
    Path("visits.policy").write_text(text.replace(witnesses[1].address, "http://witness.example"))
    assert "https address" in cli(*COSIGN, code=2)


def test_signatures_that_a_policy_asks_for(cli, witnesses):
    """A checkpoint that lacks one, or the log's own, is not accepted."""
    cli(*COSIGN)
    note = Path("visits.checkpoint").read_text()
    head, _, lines = note.partition("\n\n")
    own, first, second, _ = lines.split("\n")
    for kept, said in (
        ([own, first], "not cosigned by as many"),
        ([first, second], "not signed by a log of the policy"),
        ([own, first, second.replace(second[-20], "A" if second[-20] != "A" else "B")], "not cosigned by as many"),
    ):
        Path("visits.checkpoint").write_text(f"{head}\n\n" + "".join(f"{line}\n" for line in kept))
        assert said in cli(*VERIFY, code=1)


def test_what_is_missing_is_said(cli, witnesses):
    """A key, a policy, a checkpoint, a line of the policy."""
    assert "there is no key none.pem" in cli("keys", "cosign", "visits.db", "--sign", "none.pem", *COSIGN[5:], code=2)
    assert "there is no checkpoint" in cli(*VERIFY, code=2)
    assert "needs `--witness`" in cli("verify", "visits.db", "--policy", "visits.policy", code=2)
    Path("visits.checkpoint").write_text("{}")
    assert "is no checkpoint" in cli(*VERIFY, code=2)
    assert "is no checkpoint" in cli(*COSIGN, code=2)
    said = cli(*COSIGN[:5], "--origin", "example.com/other", *COSIGN[7:], code=2)
    assert "add the line `log example.com/other+" in said
    Path("visits.policy").unlink()
    assert "visits.policy cannot be read" in cli(*VERIFY, code=2)


def test_without_a_policy_the_head_is_signed_alone(cli, witnesses):
    """So the key's line for the policy is known before there are witnesses."""
    found = json.loads(cli(*COSIGN[:-2], "--json"))
    assert found["key"] == witnesses[0].logs[ORIGIN].serialize()
    assert Path("visits.checkpoint").read_text().count("— ") == 1


def test_a_new_key_goes_on_from_the_old_ones_checkpoint(cli, visits, witnesses):
    """Witnesses that know the new key cosign; readers whose policy has both accept."""
    cli(*COSIGN)
    cli("keys", "new.pem", "--after", "signing.pub")
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--config", "sign=new.pem")
    new = log_key(ORIGIN, Signer.open("new.pem")).text
    with Path("visits.policy").open("a") as file:
        file.write(f"\nlog {new}\n")
    for each in witnesses:
        each.logs[ORIGIN] = Vkey.from_string(new)
    found = cli.json(*COSIGN[:3], "--sign", "new.pem", *COSIGN[5:])
    assert (found["entries"], found["published"]) == (7, True)
    assert cli.json(*VERIFY, "--public-key", "new.pub")["signed"] is True


def test_one_command_adds_a_witness_that_cosigns(cli, visits):
    """The policy appears with its cosignature, a second one joins it, and readers are told of both."""
    cli("keys", "signing.pem")
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--config", "sign=signing.pem")
    key = Vkey.from_string(log_key(ORIGIN, Signer.open("signing.pem")).text)
    first, second = (Cosigner(f"witness.example/{name}", logs={ORIGIN: key}) for name in "ab")
    with first.serving(), second.serving():
        for number, each in enumerate((first, second), 1):
            found = cli.json(*COSIGN, "--add", f"{each.vkey.serialize()} {each.address}")
            assert (len(found["cosigned"]), found["published"]) == (number, True)
            assert each.seen[ORIGIN][0] == 7
            assert len(cli.json(*VERIFY)["checkpoint"]["cosigned"]) == number
        assert cli.json(*COSIGN)["published"] is True
    theirs = TheirCheckpoint.from_text(Path("visits.checkpoint").read_text())
    for known in (key, first.vkey, second.vkey):
        theirs.verify(known)


def test_a_witness_that_does_not_cosign_is_not_added(cli, witnesses):
    """The policy stays as it was, and the line that the witness needs is said; so for one that is there, or no key."""
    before, stranger = Path("visits.policy").read_text(), Cosigner("witness.example/c")
    with stranger.serving():
        line = f"{stranger.vkey.serialize()} {stranger.address}"
        said = cli(*COSIGN, "--add", line, code=3)
        assert "it does not know this origin" in said
        assert f"needs the line `log {witnesses[0].logs[ORIGIN].serialize()}`" in said
        assert Path("visits.policy").read_text() == before
        stranger.logs = witnesses[0].logs
        assert "visits.checkpoint is published" in cli(*COSIGN, "--add", line)
        assert "is in the policy already" in cli(*COSIGN, "--add", line, code=2)
        assert "`--add` needs `--policy`" in cli(*COSIGN[:-2], "--add", line, code=2)
        for wrong in (stranger.vkey.serialize(), f"{witnesses[0].logs[ORIGIN].serialize()} https://x"):
            assert "a witness is its key" in cli(*COSIGN, "--add", wrong, code=2)
        text = Path("visits.policy").read_text()
        Path("visits.policy").write_text(text.replace("all-witnesses all", "all-witnesses 2"))
        assert "for some of its witnesses" in cli(*COSIGN, "--add", line, code=2)
