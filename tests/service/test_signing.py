"""The chain of a service is signed from the beginning, with a key that is made, named and nobody else's."""

import json
import os
import stat
import subprocess
from dataclasses import replace

import pytest
from tlog_scales.signing import Vkey

from cli_files import ENVIRONMENT, PROGRAM
from dpi import Stream
from dpi.certificates.notes import log_key
from dpi.certificates.signature import Signer, Verifier
from dpi.errors import StateError
from dpi.service.service import Service
from dpi.verification import verify
from serving import BEGIN, PAGES, running, settings
from witness_server import Cosigner


def signatures(found):
    """Which entries of the chain are signed."""
    return [link.signature is not None for link in found.service.store.links()]


def test_a_new_chain_is_signed_with_a_key_that_is_made(tmp_path, logged):
    """The key is its owner's alone, lies beside the tokens, and is told of once; a restart goes on with it."""
    private, public = tmp_path / "private", tmp_path / "public"
    private.mkdir(mode=0o700)
    public.mkdir()
    places = {
        "tokens": private / "tokens.json",
        "store": str(private / "visits.db"),
        "witness": public / "visits.witness",
    }
    with running(tmp_path, **places) as found:
        found.set(10)
        assert signatures(found) == [True] * 2
        told = found.client("analyst").get("/v1/chain").json()
    key, verifier = private / "signing.pem", Verifier.open(private / "signing.pub")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE((private / "signing.pub").stat().st_mode) & 0o044
    assert {path.name for path in public.iterdir()} <= {"visits.witness", "visits.witness.lock"}
    assert told["key"] == verifier.pem()
    said = logged.getvalue()
    (line,) = [json.loads(line) for line in said.splitlines() if "signing key" in line]
    assert line["fingerprint"] == verifier.fingerprint
    secret = "".join(key.read_text().splitlines()[1:-1])
    assert secret not in said
    before = key.read_bytes()
    with running(tmp_path, **places) as found:
        found.set(20)
        assert signatures(found) == [True] * 3
        assert verify(found.service.store, verifier=verifier).signed
    assert key.read_bytes() == before
    assert logged.getvalue().count("signing key was made") == 1


def test_a_signed_chain_does_not_go_on_without_its_key(tmp_path):
    """It is refused before anything is written; with the key put back it goes on."""
    with running(tmp_path) as found:
        found.set(10)
        config = found.service.config
    os.rename(tmp_path / "signing.pem", tmp_path / "kept.pem")
    for other in (config, replace(config, sign=tmp_path / "none.pem")):
        with pytest.raises(StateError, match="the chain is signed, and its key"):
            Service(other)
    assert not (tmp_path / "none.pem").exists()
    with running(tmp_path, sign=tmp_path / "kept.pem") as found:
        found.set(20)
        assert signatures(found) == [True] * 3


def test_a_chain_that_began_unsigned_goes_on_so(tmp_path, logged):
    """Readers who check all entries would refuse a mixture; the log says so. A named key signs from there on."""
    place = str(tmp_path / "visits.db")
    options = {"domain": PAGES, "epsilon": 1, "slot": "10s", "start": BEGIN, "name": "visits"}
    with Stream(**options, store=place):
        pass
    with running(tmp_path) as found:
        found.set(10)
        assert signatures(found) == [False] * 2
    assert "name a key in `sign`" in logged.getvalue()
    assert not (tmp_path / "signing.pem").exists()
    Signer.open(tmp_path / "own.pem")
    with running(tmp_path, sign=tmp_path / "own.pem") as found:
        found.set(20)
        assert signatures(found) == [False, False, True]
    (tmp_path / "own.pem").rename(tmp_path / "signing.pem")
    with running(tmp_path, settings()) as found:
        found.set(30)
        assert signatures(found) == [False, False, True, True]


def test_an_outside_witness_cosigns_the_chain_of_a_service(tmp_path):
    """With the key that the service made, while it runs, by one command; a reader of an export sees who cosigned."""
    origin, words = "example.com/visits", ["--origin", "example.com/visits", "--checkpoint", "c", "--policy", "p"]

    def run(*command):
        done = subprocess.run(
            [*PROGRAM, *command, "--json"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with running(tmp_path) as found:
        found.set(10)
        key = Vkey.from_string(log_key(origin, Signer.open(tmp_path / "signing.pem")).text)
        witness = Cosigner("witness.example/a", logs={origin: key})
        with witness.serving():
            line = f"{witness.vkey.serialize()} {witness.address}"
            told = run("keys", "cosign", "visits.db", "--sign", "signing.pem", *words, "--add", line)
            assert (told["published"], told["entries"], [*told["cosigned"]]) == (True, 2, ["witness.example/a"])
            found.set(20)
            assert run("keys", "cosign", "visits.db", "--sign", "signing.pem", *words)["entries"] == 3
        assert witness.seen[origin][0] == 3
        found.set(22)  # what was released is seen by now
        with found.connect("analyst") as service:
            service.export(tmp_path / "public.db")
    seen = run("verify", "public.db", "--public-key", "signing.pub", "--witness", "c", "--policy", "p")
    assert (seen["signed"], [*seen["checkpoint"]["cosigned"]]) == (True, ["witness.example/a"])
