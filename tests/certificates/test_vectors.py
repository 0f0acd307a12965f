"""Vectors of certificates in files: two verifiers, in two languages, find the same."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import dpi
from dpi.budget.epsilon import UNITS
from dpi.certificates.chain import Head, Link, canonical, extend
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
    """So does the second verifier, at the same entry."""
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
        assert at == given["wrong_at"], (Path(path).stem, found)


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


def values(random, depth=3):
    """JSON values of all kinds: odd numbers, odd letters, nested."""
    kinds = "integer float text none" + (" list object" if depth else "")
    match random.choice(kinds.split()):
        case "integer":
            return random.choice([0, -1, 7, 2**40, 2**53 + 1, -(10**30), random.getrandbits(60)])
        case "float":
            return random.choice(
                [0.0, -0.0, 1e16, 1e-5, 0.1, 1e22, 5e-324, 1.5e300, random.uniform(-1, 1), random.gauss(0, 1e9)]
            )
        case "text":
            return "".join(random.choices('aä"\\/\n\t\x00\x1f\x7f\u2028\U0001f600\ud7ff\uffff ', k=random.randrange(6)))
        case "list":
            return [values(random, depth - 1) for _ in range(random.randrange(4))]
        case "object":
            names = sorted({str(values(random, 0)) for _ in range(4)})
            return {name: values(random, depth - 1) for name in names}
    return random.choice([None, True, False])


def test_canonical_means_the_same_in_both_languages(tmp_path):
    """What Python writes JavaScript takes; written in any other way, it does not."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no `node`: install Node.js 20 or later to run the second verifier")
    random = Random(7)
    facts = [
        {"kind": values(random), "ä": values(random), "\U0001f600": 1, "\uffff": values(random)} for _ in range(400)
    ]
    right = [canonical(each) for each in facts]
    others = [json.dumps(each, **options) for each in facts for options in ({}, {"ensure_ascii": False}, {"indent": 0})]
    others += [json.dumps(dict(reversed(each.items())), ensure_ascii=False, separators=(",", ":")) for each in facts]
    wrong = [text for text in others if text not in right]
    assert len(wrong) > 1000
    (tmp_path / "texts.json").write_text(json.dumps([right, wrong]))
    (tmp_path / "run.mjs").write_text(
        'import { readFileSync } from "node:fs";\n'
        "const { read } = await import(process.argv[2]);\n"
        "const taken = (text) => { try { read(text); return true; } catch { return false; } };\n"
        'const [right, wrong] = JSON.parse(readFileSync(process.argv[3], "utf8"));\n'
        "console.log(JSON.stringify([right.filter((text) => !taken(text)), wrong.filter(taken)]));\n"
    )
    program = ROOT / "examples" / "second_verifier" / "canonical.mjs"
    command = [node, tmp_path / "run.mjs", program, tmp_path / "texts.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert json.loads(done.stdout) == [[], []]


def one_wrong(entries, random):
    """A chain by class in which one release states another share, budget, group or sum."""
    entries = json.loads(json.dumps(entries))
    release = random.choice([each for each in entries if each["kind"] == "release"])
    match random.randrange(5):
        case 0:
            del release["classes"][random.randrange(len(release["classes"]))]
        case 1:
            random.shuffle(release["classes"])
        case 2:
            release["epsilon_spent_units"] += 1
            release["epsilon_spent"] = release["epsilon_spent_units"] / UNITS
        case _:
            fact = random.choice(["share_steps", "most_left_units", "group", "class"])
            random.choice(release["classes"])[fact] += random.choice([-1, 1])
    return linked(entries)


def linked(entries):
    """Entries as links of a chain."""
    links = []
    for each in entries:
        facts = {name: fact for name, fact in each.items() if name not in ("previous", "sequence", "format")}
        links.append(extend(links[-1].head if links else Head(), facts, None))
    return links


def test_both_languages_compute_the_same_budgets(tmp_path):
    """Of streams by class, with refills and with quotas: whole, and with one fact changed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no `node`: install Node.js 20 or later to run the second verifier")
    random, chains = Random(5), []
    for budgets in ([dpi.Ledger()], [dpi.Ledger(period=7)], [dpi.Ledger(quota="0.3"), dpi.Ledger()]):
        store = dpi.MemoryStore()
        streams = [
            dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store=store, name=f"{number}", budget=budget)
            for number, budget in enumerate(budgets)
        ]
        for _ in range(20):
            for stream in streams:
                number = random.choice([0, 3, 40])
                stream.release([f"u{user}" for user in range(number)], ["a"] * number)
        whole = [link.entry for link in store.links()]
        chains += [linked(whole), *(one_wrong(whole, random) for _ in range(20))]
    expected = []
    for links in chains:
        read_chain(links, None, problems := [])
        expected.append(min((int(problem.split()[1]) for problem in problems), default=None))
    assert expected.count(None) < len(expected) // 2
    texts = [[{"text": link.text, "digest": link.digest, "signature": None} for link in links] for links in chains]
    (tmp_path / "chains.json").write_text(json.dumps(texts))
    (tmp_path / "run.mjs").write_text(
        'import { readFileSync } from "node:fs";\n'
        "const { verify } = await import(process.argv[2]), found = [];\n"
        'for (const chain of JSON.parse(readFileSync(process.argv[3], "utf8"))) found.push(await verify(chain));\n'
        "console.log(JSON.stringify(found.map((each) => each?.at ?? null)));\n"
    )
    program = ROOT / "examples" / "second_verifier" / "verify.mjs"
    command = [node, tmp_path / "run.mjs", program, tmp_path / "chains.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert json.loads(done.stdout) == expected


def test_the_second_verifier_is_small():
    """Somebody who does not trust this program can read it in an hour."""
    files = (ROOT / "examples" / "second_verifier").glob("*.mjs")
    assert sum(len(path.read_text().splitlines()) for path in files) < 300
