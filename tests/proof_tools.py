"""Whether there is a Coq that tests can use."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
import proofs  # noqa: E402

needs_coq = pytest.mark.skipif(
    not os.environ.get("DPI_PROOFS") or not proofs.has_coq(),
    reason="`make proofs` runs it where Coq is: `apt-get install coq libzarith-ocaml-dev` brings that",
)
