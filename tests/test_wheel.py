"""What is installed is what is tested: the wheel, built once, unpacked elsewhere, and used from there."""

import os
import subprocess
import sys
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        folder,
        ROOT,
    ]
    subprocess.run([*build, "--quiet", "--disable-pip-version-check"], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel in a folder of its own, without its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", folder, wheel]
    subprocess.run([*install, "--quiet", "--disable-pip-version-check"], check=True, capture_output=True)
    return folder


def run(installed, folder, *words):
    """What a program says that finds the installed package first, from another folder."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
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


def test_the_installed_package_runs(installed, tmp_path):
    """A tiny stream on a store, and its command line on that store."""
    version = run(installed, tmp_path, "-c", "import dpi; print(dpi.__version__)")
    assert version in run(installed, tmp_path, "-m", "dpi.cli", "--version")
    assert run(installed, tmp_path, "-c", STREAM, str(installed)) == "[0, 1, 2] 3"
    assert "The chain is whole." in run(installed, tmp_path, "-m", "dpi.cli", "verify", "visits.db")
