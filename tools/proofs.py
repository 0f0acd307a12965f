"""Checks the proofs in `proofs/` with Coq, and prints the theorem and what it rests on.

python tools/proofs.py              # says what is missing where there is no Coq
python tools/proofs.py --install    # installs it first, where apt-get may
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "proofs"
FILES = (
    "Ledger", "Lost", "Invariant", "Payments", "Trace", "Quota", "Compression", "Bounds", "Epochs", "Laplace", "Mass",
    "Promise", "Store", "StorePromise", "Public", "Tight", "Admission", "Mutants", "Draws", "Exponent", "Floats",
    "Sampler",
)  # fmt: skip
"""In the order in which they need each other."""
PACKAGES = ("coq", "libzarith-ocaml-dev")
MISSING = f"The proofs are not checked here: there is no Coq. `apt-get install {' '.join(PACKAGES)}` brings it."
AXIOMS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
"""What the theorems may rest on: Coq's real numbers, functional extensionality, and the excluded middle."""


def has_coq() -> bool:
    """Whether Coq and what the oracle needs are here."""
    finder = shutil.which("ocamlfind")
    if not shutil.which("coqc") or finder is None:
        return False
    return subprocess.run([finder, "query", "zarith"], capture_output=True, check=False).returncode == 0


def install() -> None:
    """Install what is needed, if this is root on a Debian machine; a failure is told by what is missing afterwards."""
    installer = shutil.which("apt-get")
    if not has_coq() and installer is not None and os.geteuid() == 0:
        for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
            subprocess.run([installer, "-q", *command], check=False, stdout=subprocess.DEVNULL)


def check(folder: Path) -> str:
    """Check all files in a folder of their own; returns the statements and axioms as Coq prints them."""
    for name in (*FILES, "Statement"):
        shutil.copy(FOLDER / f"{name}.v", folder)
    coq = shutil.which("coqc") or "coqc"
    for name in FILES:
        subprocess.run([coq, "-q", f"{name}.v"], cwd=folder, check=True)
    told = subprocess.run([coq, "-q", "Statement.v"], cwd=folder, check=True, capture_output=True, text=True)
    return told.stdout


def axioms_of(told: str) -> set[str]:
    """Return the axioms that Coq has printed: those of other files by their file, those of open files by name alone."""
    lists = [part.partition("Closed under the global context")[0] for part in told.split("Axioms:\n")[1:]]
    return {name for part in lists for name in re.findall(r"^([A-Za-z_][\w.']*)(?: :|\n  :)", part, re.MULTILINE)}


OPEN = re.compile(r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture|give_up|Unset\s+Guard|bypass_check)\b")
"""What leaves a proof open, or states what is not proved."""
POINTER = re.compile(r"`(\w[\w']*)`[^`]{0,5}\(?`proofs/(\w+)\.v`")
"""A lemma and the file that it is in, as docstrings and docs name them."""
_NAMED = re.compile(r"^\s*(?:Theorem|Lemma|Corollary|Definition|Fixpoint|Record|Inductive)\s+([\w']+)", re.MULTILINE)


def left_open(text: str) -> list[str]:
    """Return what of a file of Coq is not proved, in words of its code; comments do not count."""
    code = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
    ended = code.count("Qed.") + code.count("Defined.")
    unfinished = [] if code.count("Proof.") == ended else ["a proof without `Qed.`"]
    return [match[0] for match in OPEN.finditer(code)] + unfinished


def unknown_lemmas(page: str, files: dict[str, str]) -> list[str]:
    """Lemmas and files of `proofs/` that a page or a docstring names and that are not there."""
    wrong = [
        f"{name} is not in {file}.v"
        for name, file in POINTER.findall(page)
        if name not in _NAMED.findall(files.get(file, ""))
    ]
    return wrong + [f"there is no {file}.v" for file in re.findall(r"proofs/(\w+)\.v\b", page) if file not in files]


def main() -> int:
    """Check, print, and say how long it took."""
    if "--install" in sys.argv[1:]:
        install()
    if not has_coq():
        print(MISSING)
        return 0
    began = time.monotonic()
    unproved = {path.name: found for path in sorted(FOLDER.glob("*.v")) if (found := left_open(path.read_text()))}
    if unproved:
        print(f"Not everything is proved: {unproved}.")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        told = check(Path(folder))
    print(told)
    others = axioms_of(told) - AXIOMS
    print(f"{len(FILES)} files are proved, in {time.monotonic() - began:.0f} s.")
    if others:
        print(f"They rest on axioms that are not allowed: {', '.join(sorted(others))}.")
    return bool(others)


if __name__ == "__main__":
    sys.exit(main())
