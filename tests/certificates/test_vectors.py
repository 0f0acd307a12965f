"""Vectors of certificates in files: two verifiers, in two languages, find the same."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import dpi
from dpi.certificates.chain import Link
from dpi.certificates.signature import Verifier
from dpi.store.export import export
from dpi.verification._store import read_chain

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests" / "vectors").glob("*.json"))
RUN = """
import { readFileSync } from "node:fs";
const { verify } = await import(process.argv[2]);
const found = {};
for (const path of process.argv.slice(3)) {
  const { entries, key } = JSON.parse(readFileSync(path, "utf8"));
  found[path] = await verify(entries, key);
}
console.log(JSON.stringify(found));
"""


def test_there_is_a_file_for_each_way_to_be_malformed():
    """More than fifty, of which some are whole; without them the tests below would say nothing."""
    found = [json.loads(path.read_text()) for path in FILES]
    assert len(found) > 50
    assert sum(each["wrong_at"] is None for each in found) >= 6


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_python_finds_it(path):
    """The first entry that is wrong is the one that the file names."""
    given = json.loads(path.read_text())
    links = [Link(each["text"], each["digest"], each["signature"]) for each in given["entries"]]
    problems = []
    read_chain(links, Verifier.from_pem(given["key"].encode()), problems)
    first = min((int(problem.split()[1]) for problem in problems), default=None)
    assert first == given["wrong_at"], problems


def test_javascript_finds_it(tmp_path):
    """So does the second verifier, at the same entry; what it does not compute, it does not take for wrong before."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no `node`: install Node.js 20 or later to run the second verifier")
    (tmp_path / "run.mjs").write_text(RUN)
    program = ROOT / "examples" / "second_verifier" / "verify.mjs"
    command = [node, tmp_path / "run.mjs", program, *FILES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for path, found in json.loads(done.stdout).items():
        given = json.loads(Path(path).read_text())
        at = None if found is None else found["at"]
        wanted = (None, given["wrong_at"]) if given["sums"] else (given["wrong_at"],)
        assert at in wanted, (Path(path).stem, found)


@pytest.mark.parametrize(("name", "code"), [("whole", 0), ("spent-less", 1)])
def test_the_second_verifier_as_a_program(name, code, tmp_path):
    """It reads the file and the key, says what it found, and ends with 1 where something is wrong."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no `node`: install Node.js 20 or later to run the second verifier")
    path = ROOT / "tests" / "vectors" / f"{name}.json"
    (tmp_path / "public.pem").write_text(json.loads(path.read_text())["key"])
    program = ROOT / "examples" / "second_verifier" / "verify.mjs"
    command = [node, program, path, tmp_path / "public.pem"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert done.stdout.startswith(
        "4 entries: the chain is whole and signed" if code == 0 else "entry 2: another sum of budgets"
    )


def test_the_second_verifier_reads_an_export(tmp_path):
    """The chain as SQLite gives it, from the file that analysts have."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no `node`: install Node.js 20 or later to run the second verifier")
    signer = dpi.Signer.open(tmp_path / "signing.pem")
    with dpi.open_store(tmp_path / "visits.db", witness=tmp_path / "seen") as store:
        stream = dpi.Stream(domain=dpi.Categories(["ä", "b"]), epsilon=1, store=store, signer=signer)
        for _ in range(3):
            stream.release(["ada"], ["b"])
        export(store, tmp_path / "public.db")
    (tmp_path / "public.pem").write_text(signer.verifier.pem())
    with closing(sqlite3.connect(tmp_path / "public.db")) as public:
        rows = public.execute("SELECT text, digest, signature FROM chain ORDER BY entry").fetchall()
    listed = [dict(zip(("text", "digest", "signature"), row, strict=True)) for row in rows]
    (tmp_path / "chain.json").write_text(json.dumps(listed))
    program = ROOT / "examples" / "second_verifier" / "verify.mjs"
    command = [node, program, tmp_path / "chain.json", tmp_path / "public.pem"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "4 entries: the chain is whole and signed with this key.\n"


def test_the_second_verifier_is_small():
    """Somebody who does not trust this program can read it in an hour."""
    files = (ROOT / "examples" / "second_verifier").glob("*.mjs")
    assert sum(len(path.read_text().splitlines()) for path in files) < 300
