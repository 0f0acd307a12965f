"""What is installed is what is tested: the wheel, built once, unpacked elsewhere, and used from there."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

STREAM = """
import sys, dpi
assert dpi.__file__.startswith(sys.argv[1]), dpi.__file__
stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1, budget=dpi.Ledger(per_slot=0.5), store="visits.db")
print([stream.release(["ada", "bob"], ["DE", "FR"]).slot for _ in range(3)], stream.next_slot)
"""
NEEDED = [
    *("src", "packages", "tests", "examples", "tools", "benchmarks", "docs", "deploy"),
    *("pyproject.toml", "constraints.txt", "conftest.py", "Makefile", "README.md", "CHANGELOG.md", "LICENSE"),
]


def build(kind, source, folder):
    """The sdist or the wheel of a source tree, without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1767225600"}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The sdist of this checkout, unpacked."""
    sdist = build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel in a folder of its own, without its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)  # noqa: S202 - our own
    return folder


def run(folder, *command, **environment):
    """What a program says in a folder."""
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wheel_has_every_module_and_nothing_else(wheel):
    """The package with its marker of types, no tests, no tools."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "dpi").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert "dpi/py.typed" in names


@pytest.mark.parametrize("name", ["audit", "research", "spark"])
def test_a_further_package_has_its_own_modules_and_the_version_of_the_core(name, wheel, tmp_path):
    """Nothing of the core, nor of another package; it asks for the core that it was made with."""
    made = build("wheel", ROOT / "packages" / name, tmp_path)
    files = zipfile.ZipFile(made)
    assert {file.partition("/")[0] for file in files.namelist() if ".dist-info/" not in file} == {f"dpi_{name}"}
    (metadata,) = [file for file in files.namelist() if file.endswith("/METADATA")]
    version = wheel.name.split("-")[1]
    assert made.name.split("-")[:2] == [f"dpi_streams_{name}", version]
    assert f"Requires-Dist: dpi-streams=={version}" in files.read(metadata).decode().splitlines()


def test_the_installed_package_runs(installed, tmp_path):
    """A tiny stream on a store, and its command line on that store."""
    python, path = sys.executable, {"PYTHONPATH": str(installed)}
    version = run(tmp_path, python, "-c", "import dpi; print(dpi.__version__)", **path)
    assert version in run(tmp_path, python, "-m", "dpi", "--version", **path)
    assert run(tmp_path, python, "-c", STREAM, installed, **path) == "[0, 1, 2] 3"
    assert "The chain is whole." in run(tmp_path, python, "-m", "dpi", "verify", "visits.db", **path)


def test_the_sdist_has_what_building_and_testing_need(unpacked):
    """Everything that is kept, if this is a checkout; nothing that runs leave behind."""
    assert [name for name in NEEDED if not (unpacked / name).exists()] == []
    assert [path for path in unpacked.rglob("*") if path.suffix in (".db", ".key", ".pyc")] == []
    git = shutil.which("git") if (ROOT / ".git").exists() else None
    if git is not None:
        kept = subprocess.run([git, "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert [name for name in kept.splitlines() if (ROOT / name).exists() and not (unpacked / name).exists()] == []


def test_the_wheel_is_the_same_bytes_from_wherever_it_is_built(wheel, unpacked, tmp_path):
    """From a checkout and from the sdist, whose files have other times."""
    again = build("wheel", unpacked, tmp_path)
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_a_container_builds_the_same_wheel(wheel, tmp_path):
    """From the files that the container file copies; its Python is one that the project names."""
    text = (ROOT / "deploy" / "Containerfile").read_text("utf-8")
    (tmp_path / "source").mkdir()
    for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        for name in line.split():
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tmp_path / "source" / name)
    (tmp_path / "built").mkdir()
    assert build("wheel", tmp_path / "source", tmp_path / "built").read_bytes() == wheel.read_bytes()
    classifiers = (ROOT / "pyproject.toml").read_text("utf-8")
    pythons = re.findall(r"^FROM python:([\d.]+)-slim", text, re.MULTILINE)
    assert len(set(pythons)) == 1
    assert f'"Programming Language :: Python :: {pythons[0]}"' in classifiers


def test_the_page_has_every_extra():
    """In its table, and none that is gone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = (ROOT / "docs" / "install.md").read_text("utf-8").partition("## Extras")[2].partition("## ")[0]
    cells = re.findall(r"^\| (`.+?) \|", extras, re.MULTILINE)
    assert {name.strip("`") for cell in cells for name in cell.split(", ")} == set(project["optional-dependencies"])


@pytest.mark.skipif(not os.environ.get("DPI_SLOW"), reason="installs the dependencies: `DPI_SLOW=1`, and an index")
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_it_installs_into_an_empty_environment(wheel, tmp_path, version):
    """With its pinned dependencies and no others, on every Python that is on the path: a stream, and a day's demo."""
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no python{version}")
    run(tmp_path, python, "-m", "venv", "empty", PYTHONPATH="")
    python = str(tmp_path / "empty" / "bin" / "python")
    options = ["--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    run(tmp_path, python, "-m", "pip", "install", *options, wheel, PYTHONPATH="")
    assert run(tmp_path, python, "-I", "-c", STREAM, tmp_path / "empty") == "[0, 1, 2] 3"
    said = run(tmp_path, python, "-I", "-m", "dpi", "demo", "--days", "1", "--folder", "out")
    assert "Mean divergence from the truth" in said
    assert (tmp_path / "out" / "report.html").exists()
