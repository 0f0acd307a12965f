"""Builds what is published, twice, and says what it is: dist/ with packages, checksums, bill of materials, provenance.

    python tools/release.py                # `make release`
    python tools/release.py --rehearse     # builds although something is missing
    python tools/release.py --build        # without trying the wheels, which needs a package index
    python tools/release.py --set 0.4.0    # writes a version wherever one stands, and builds nothing

What is missing is said first, and nothing is built then: that takes a second. Everything is built from what is
committed, in an empty folder; then source packages once more from a copy elsewhere with other times of files, and
wheels from the source packages. The bytes must be equal. Wheels are installed into an empty environment of each Python
that is on the path, with the hashes of deploy/locked.txt, and used there. The exit code is 1 if anything is missing
that a release needs: then dist/, if it was made, is a rehearsal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PACKAGES = (".", "packages/audit", "packages/research", "packages/spark")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
GIT = shutil.which("git") or "git"
STATED = (
    ("src/dpi/_version.py", r'^__version__ = "(.+)"$'),
    ("packages/*/pyproject.toml", r'^version = "(.+)"$'),
    ("packages/*/pyproject.toml", r'^  "dpi-streams(?:-[a-z]+)?==(.+)",$'),
    ("deploy/conda/recipe.yaml", r'^  version: "(.+)"$'),
    ("deploy/kubernetes/kustomization.yaml", r"\bnewTag: (\d+\.\d+\.\d+)\b"),
    ("deploy/helm/Chart.yaml", r"^(?:version|appVersion): (.+)$"),
    ("deploy/helm/values.yaml", r"\bdpi:(\d+\.\d+\.\d+)\b"),
    ("docs/howto-team.md", r"\bdpi:(\d+\.\d+\.\d+)\b"),
    ("docs/install.md", r"^dpi (\d+\.\d+\.\d+)$"),
    ("docs/install.md", r"\bdpi_streams-(\d+\.\d+\.\d+)-py3"),
    ("CITATION.cff", r"^version: (.+)$"),
)
"""Where the version stands: that of the program is the first, and all others are written after it (`--set`)."""
USE = """
import dpi
stream = dpi.Stream(domain=dpi.Categories(["a", "b"]), epsilon=1, store="visits.db")
print([stream.release(["ada"], ["a"]).slot for _ in range(3)])
"""


def git(*words: str) -> str:
    """Return what git says of this repository."""
    return subprocess.run([GIT, *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def version_of(source: Path) -> str:
    """Return the version that a source tree states."""
    (version,) = re.findall(
        r'^__version__ = "(.+)"$', (source / "src/dpi/_version.py").read_text("utf-8"), re.MULTILINE
    )
    return str(version)


def places(source: Path) -> Iterator[tuple[Path, str]]:
    """Give the files of a tree in which a version stands, each with how it stands there."""
    for pattern, stated in STATED:
        yield from ((path, stated) for path in sorted(source.glob(pattern)))


def set_version(source: Path, version: str) -> list[str]:
    """Write a version wherever one stands; return the files that have changed."""
    changed = []
    for path, stated in places(source):
        text = path.read_text("utf-8")
        new = re.sub(stated, lambda match: match[0].replace(match[1], version), text, flags=re.MULTILINE)
        if new != text:
            path.write_text(new, "utf-8")
            changed.append(str(path.relative_to(source)))
    return changed


def missing(source: Path) -> list[str]:
    """Return what a release needs and this commit lacks."""
    version, problems = version_of(source), []
    for path, stated in places(source):
        if set(re.findall(stated, path.read_text("utf-8"), re.MULTILINE)) - {version}:
            problems.append(f"{path.relative_to(source)} has another version than {version}: `tools/release.py --set`.")
    headings = re.findall(r"^## (.+)$", (source / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if headings[0] != version:
        problems.append(f"CHANGELOG.md begins with {headings[0]!r}: what users notice of {version} must stand first.")
    if json.loads((source / "deploy/sbom.cdx.json").read_text("utf-8"))["metadata"]["component"]["version"] != version:
        problems.append("deploy/sbom.cdx.json is of another version: `make sbom`.")
    if not (source / "tests" / "store" / "stores" / f"{version}.json").exists():
        problems.append(f"there are no stores of {version} that later versions are tested on: `tools/old_stores.py`.")
    if git("status", "--porcelain"):
        problems.append("there are changes that are not committed; they are not in what is built.")
    if f"v{version}" not in git("tag", "--points-at", "HEAD").split():
        problems.append(f"the commit has no tag v{version}.")
    return problems


def build(source: Path, folder: Path, moment: str, *kinds: str) -> None:
    """Write a wheel, a source package or both of a tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    command += [word for kind in kinds for word in ("-t", kind)]
    subprocess.run(command, cwd=source, env=os.environ | {"SOURCE_DATE_EPOCH": moment}, check=True, capture_output=True)


def unpack(archive: Path, folder: Path) -> Path:
    """Return the folder that a source package was unpacked into."""
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def build_twice(source: Path, folder: Path, moment: str) -> list[str]:
    """Build all packages from a tree into dist/, and again elsewhere; return what differs."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    again, copy = folder / "again", folder / "another" / "place"
    again.mkdir()
    shutil.copytree(source, copy, copy_function=shutil.copy)
    for name in PACKAGES:
        build(source / name, DIST, moment)
        build(copy / name, again, moment, "sdist")
    for archive in sorted(DIST.glob("*.tar.gz")):
        build(unpack(archive, folder / "unpacked"), again, moment, "wheel")
    names = {path.name for path in (*DIST.iterdir(), *again.iterdir())}
    return [f"{name} is not the same twice." for name in sorted(names) if not _same(DIST / name, again / name)]


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.read_bytes() == other.read_bytes()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def statement(source: Path, version: str, moment: str) -> dict[str, object]:
    """Return how dist/ was made, as an in-toto statement of SLSA provenance; the same twice, so without a time."""
    inputs = ("constraints.txt", "deploy/locked.txt", "Makefile", "tools/release.py")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in sorted(DIST.iterdir())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:dpi-streams:make-release:1",
                "externalParameters": {"version": version, "SOURCE_DATE_EPOCH": moment},
                "internalParameters": {"python": platform.python_version(), "machine": platform.machine()},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": git("rev-parse", "HEAD")}},
                    *({"name": name, "digest": {"sha256": digest(source / name)}} for name in inputs),
                    {"name": "hatchling", "annotations": {"version": metadata.version("hatchling")}},
                ],
            },
            "runDetails": {"builder": {"id": "urn:dpi-streams:builder:local"}},
        },
    }


def try_wheels(source: Path, folder: Path, python: str, version: str) -> None:
    """Install the wheels into an empty environment with the locked dependencies, and use them."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    mine = str(folder / "bin" / "python")
    pip = [mine, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--require-hashes", "-r", source / "deploy" / "locked.txt"], check=True)
    wheels = [DIST / f"{name}-{version}-py3-none-any.whl" for name in ("dpi_streams", "dpi_streams_audit")]
    subprocess.run([*pip, "--no-deps", "--no-index", *wheels], check=True)
    subprocess.run([mine, "-m", "pip", "--disable-pip-version-check", "check"], check=True, stdout=subprocess.DEVNULL)
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    for words in (["-c", USE], ["-m", "dpi", "verify", "visits.db"], ["-m", "dpi", "audit", "--help"]):
        subprocess.run([mine, "-I", *words], cwd=folder, env=clean, check=True, stdout=subprocess.DEVNULL)


def working(python: str) -> bool:
    """Return whether a program of this name is a Python that starts."""
    program = shutil.which(python)
    return program is not None and subprocess.run([program, "-V"], capture_output=True, check=False).returncode == 0


def main() -> int:
    """Say what is missing; build, compare, describe and try."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rehearse", action="store_true", help="build although something is missing")
    parser.add_argument("--build", action="store_true", help="do not install the wheels")
    parser.add_argument("--set", metavar="VERSION", help="write a version wherever one stands, and build nothing")
    asked = parser.parse_args()
    if asked.set:
        print("\n".join(set_version(ROOT, asked.set)))
        return 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = committed(folder)
        problems = missing(source)
        for problem in problems:
            print(f"missing: {problem}", flush=True)
        if problems and not asked.rehearse:
            print("Nothing was built; `--rehearse` builds nevertheless.")
            return 1
        different = make(source, folder)
        for problem in different:
            print(f"wrong: {problem}")
        for number in () if asked.build else PYTHONS:
            if working(f"python{number}"):
                try_wheels(source, folder / number, f"python{number}", version_of(source))
                print(f"Python {number}: installed with hashes, and used.", flush=True)
            else:
                print(f"Python {number}: not on this machine.", flush=True)
    return 1 if problems or different else 0


def committed(folder: Path) -> Path:
    """Return a folder with what the newest commit holds."""
    archive = subprocess.run([GIT, "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    (folder / "source.tar").write_bytes(archive)
    with tarfile.open(folder / "source.tar") as file:
        file.extractall(folder / "source", filter="data")
    return folder / "source"


def make(source: Path, folder: Path) -> list[str]:
    """Fill dist/ from a tree; return what is not the same twice."""
    moment, version = git("log", "-1", "--format=%ct"), version_of(source)
    different = build_twice(source, folder, moment)
    shutil.copy(source / "deploy" / "sbom.cdx.json", DIST / f"dpi_streams-{version}.cdx.json")
    told = statement(source, version, moment)
    (DIST / "provenance.json").write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    sums = [f"{digest(path)}  {path.name}\n" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(sums), "utf-8")
    print(f"{len(sums)} files in dist/, built twice from {git('rev-parse', '--short', 'HEAD')}.", flush=True)
    return different


if __name__ == "__main__":
    sys.exit(main())
