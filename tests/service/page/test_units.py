"""The page's JavaScript where it computes, against vectors that Python makes."""

import hashlib
import json
import math
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dpi.certificates.chain import Head, extend
from dpi.certificates.signature import Signer
from dpi.report._figures import count_text, share_text

PAGE = Path(__file__).parents[3] / "src" / "dpi" / "service" / "page"


def entries(signer, wrong=None):
    """A signed chain as a service gives it; `wrong` is an entry that follows another one than it should."""
    head, found = Head(), []
    for number in range(6):
        facts = {"kind": "options", "stream": "ä", "program": "dpi 0"}
        if number:
            facts = {"kind": "release", "stream": "ä", "slot": 6 + number, "program": "dpi 0", "n": 0.1 + number}
            facts |= {"epsilon_spent_units": number}
        before = Head(head.sequence, "f" * 64) if number == wrong else head
        link = extend(before, facts, signer)
        found.append({"entry": number, "text": link.text, "digest": link.digest, "signature": link.signature})
        head = link.head
    return found


def test_the_page_computes_what_python_does(tmp_path):
    """BLAKE2b, the chain, scales, links, series and tables: every property that `units.test.mjs` states."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no `node`: install Node.js 20 or later to run the page's own tests")
    signer = Signer.open(tmp_path / "key.pem")
    texts = [bytes((7 * place + size) % 256 for place in range(size)) for size in range(301)]
    shares = [(0.1234, 0.118, 0.1291), (0.00021, 0, 0.00052), (0.5, 0.4, 0.6), (0.0312, 0.0123, 0.05), (0, 0, 1e-8)]
    counts = [(2345.2, 2300, 2390), (3.26, 0, 9.57), (1234567, 1200000, None), (99.4, 90.3, 108)]
    vectors = {
        "shares": [[*share, share_text(*share)] for share in shares],
        "counts": [[*ends, count_text(*(math.inf if end is None else end for end in ends))] for ends in counts],
        "blake2b": [
            [text.hex(), person, hashlib.blake2b(text, digest_size=32, person=person.encode()).hexdigest()]
            for text in texts
            for person in ("", "dpi chain")
        ],
        "chain": {
            "entries": entries(signer),
            "forged": entries(signer, wrong=2),
            "key": signer.verifier.pem(),
            "fingerprint": signer.verifier.fingerprint,
            "other": hashlib.sha256(b"another").hexdigest(),
        },
    }
    (tmp_path / "vectors.json").write_text(json.dumps(vectors))
    given = os.environ | {"PAGE": str(PAGE), "VECTORS": str(tmp_path / "vectors.json"), "NODE_NO_WARNINGS": "1"}
    tests = Path(__file__).with_name("units.test.mjs")
    done = subprocess.run([node, "--test", tests], env=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "# pass 23" in done.stdout
