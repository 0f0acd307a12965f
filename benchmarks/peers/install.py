"""Makes the environment of every peer: benchmarks/peers/.venv-NAME, with exactly what NAME.txt lists.

    python benchmarks/peers/install.py [NAME …]

Peers want versions of polars and numpy that are not ours, and not each other's. A list is complete, so that pip looks
for nothing else. What cannot be had on this machine is said in one sentence, and the others go on without it.

Two need more than their list. PipelineDP wants python-dp, of which there are wheels for x86-64 alone: elsewhere
`pydp_stand_in.py` draws the noise. Tumult wants tmlt.core 0.19, of which there are wheels for x86-64 and macOS alone,
since it carries GMP, MPFR, FLINT and Arb. On Debian 12 for ARM its Python files are put beside Debian's builds of FLINT
2.9.0 and Arb 2.23.0, the same versions.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = tuple(sorted(path.stem for path in HERE.glob("*.txt")))
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps")
CORE, NOISE = "tmlt.core==0.19.1", "python-dp==1.1.5rc4"
DEBIAN = ("libflint17", "libflint-arb2", "libgf2x3", "libgmp10", "libmpfr6", "libntl44")
LIBRARIES = {
    "libarb.so.2.14.0": "libflint-arb.so.2",
    "libflint.so.17.0.0": "libflint.so.17",
    "libgmp.so.10.5.0": "libgmp.so.10",
    "libmpfr.so.6.2.1": "libmpfr.so.6",
}


def environment(name: str) -> Path:
    """Where a peer lives; it is complete when the file `made` is in it."""
    return HERE / f".venv-{name}"


def python(name: str) -> Path:
    """The interpreter of a peer."""
    return environment(name) / "bin" / "python"


def install(name: str) -> None:
    """Make one environment anew."""
    venv.create(environment(name), with_pip=True, clear=True)
    run(python(name), *PIP, "-r", HERE / f"{name}.txt")
    if name == "pipelinedp" and platform.machine() == "x86_64":
        run(python(name), *PIP, NOISE)
    if name == "tumult":
        if platform.machine() == "aarch64":
            core_on_arm()
        else:
            run(python(name), *PIP, CORE)
    (environment(name) / "made").touch()


def core_on_arm() -> None:
    """tmlt.core's Python files, with Debian's libraries in place of those for x86-64."""
    (packages,) = (environment("tumult") / "lib").glob("python*/site-packages")
    asked = ("--only-binary", ":all:", "--platform", "manylinux2014_x86_64", "--python-version", "3.11")
    with tempfile.TemporaryDirectory() as folder:
        run(python("tumult"), *PIP, *asked, "--target", folder, CORE)
        shutil.copytree(folder, packages, dirs_exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run("apt-get", "download", *DEBIAN, folder=folder)
        for package in Path(folder).glob("*.deb"):
            run("dpkg", "-x", package, folder)
        (libraries,) = Path(folder).glob("usr/lib/*")
        shutil.copytree(libraries, environment("tumult") / "libraries", symlinks=True)
    for target, source in LIBRARIES.items():
        shutil.copy(environment("tumult") / "libraries" / source, packages / "tmlt/core/ext/lib" / target)


def run(*command: object, folder: str | None = None) -> None:
    """Run a command; raises `RuntimeError` with what it complained about last."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if "ERROR" in line or line.startswith("E:")]
        raise RuntimeError(said[-1] if said else f"{Path(str(command[0])).name} failed")


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        made = environment(name) / "made"
        if made.exists() and made.stat().st_mtime > (HERE / f"{name}.txt").stat().st_mtime:
            continue
        try:
            install(name)
        except (OSError, RuntimeError, ValueError) as error:
            print(f"{name}: not to be had on this machine ({error}).", flush=True)


if __name__ == "__main__":
    main()
