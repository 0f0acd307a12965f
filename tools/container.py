"""Builds deploy/Containerfile and runs the service in it, on a Debian machine that reaches no registry of images.

    python tools/container.py                    # as root; in a folder that is removed
    python tools/container.py --folder FOLDER    # in one that stays: its base is used again

A Debian of `debootstrap`, whose own Python is 3.11, stands in for `python:3.11-slim`. podman builds from a clone, which
has what is committed, and runs the image with runc, without a network. What pip is told on this machine is mounted
while it builds: it is in no layer, but the empty files and folders on which it was mounted are.

Prints what it finds. The first thing that is not as it should be ends it, with exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("podman", "runc", "debootstrap", "openssl", "git")
"""Commands, each in Debian's package of that name."""
SUITE = "bookworm"
"""The Debian with Python 3.11. Source: its package python3, 3.11.2."""
USER = 832
"""Whose files the container's are. Source: deploy/Containerfile."""
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
"""podman would raise them, which a machine can forbid. Source: a process has 1024 files unless it is given more."""
STREAM = """
[streams.visits]
domain = "pages.txt"
epsilon = 1
slot = "2s"
from = {begin}
"""
PLAIN = """[serve]
store = "/var/lib/dpi/visits.db"
key-file = "/var/lib/dpi/visits.key"
tokens = "/var/lib/dpi/tokens.json"
"""
TLS = """host = "0.0.0.0"
port = 8443
certificate = "/etc/dpi/certificate.pem"
private-key = "/etc/dpi/private.pem"
"""
PRODUCE_AND_READ = """
import sys
from datetime import UTC, datetime
import dpi
curator, analyst = sys.argv[1:]
with dpi.connect("http://127.0.0.1:8321", curator) as service:
    users = [f"user {number}" for number in range(100)]
    service.stream("visits", producer="gate").append(users, [datetime.now(UTC)] * 100, ["home", "search"] * 50)
with dpi.connect("http://127.0.0.1:8321", analyst) as service:
    print(len(next(service.stream("visits").follow()).top(2)))
"""


def missing() -> str | None:
    """Return what this machine lacks, in a sentence that says how to get it; None if nothing."""
    if os.geteuid() != 0:
        return "debootstrap needs root."
    packages = [name for name in NEEDED if shutil.which(name) is None]
    return f"Not everything is installed: `apt-get install {' '.join(packages)}`." if packages else None


def run(*words: str | Path) -> str:
    """Return what a command says; if it fails, print the end of that and end this program."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, words[:12]))} …: exit code {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout.strip()


def hold(what: str, found: object, expected: object) -> None:
    """Say what was found; end if it is something else."""
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")
    print(f"{what}: {found}", flush=True)


def base(folder: Path) -> Path:
    """Return a Debian with Python, pip and a `python`, and without what fetching it left behind."""
    made = folder / "base"
    if not made.exists():
        new = folder / "base.new"
        run("debootstrap", "--variant=minbase", "--include=python3-venv,python3-pip", SUITE, new)
        for left in [*(new / "var/cache/apt/archives").glob("*.deb"), *(new / "var/lib/apt/lists").glob("*_*")]:
            left.unlink()
        (new / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        new.rename(made)
    return made


def pip_mounts(folder: Path) -> list[str]:
    """Options that mount what pip is told on this machine, and the files that this names."""
    said = run(sys.executable, "-m", "pip", "config", "list")
    settings, paths = configparser.RawConfigParser(), set()
    for line in said.splitlines():
        name, _, quoted = line.partition("=")
        section, _, key = name.rpartition(".")
        section, value = section.replace(":env:", "global"), str(ast.literal_eval(quoted))
        if not settings.has_section(section):
            settings.add_section(section)
        settings.set(section, key, value)
        for index, path in re.findall(r"(?<!\S)(file://)?(/\S+)", value):
            paths.add(Path(path).parent if index else Path(path))  # an index names files beside itself
    with (folder / "pip.conf").open("w", encoding="utf-8") as file:
        settings.write(file)
    mounts = [f"{folder / 'pip.conf'}:/etc/pip.conf:ro", *(f"{path}:{path}:ro" for path in paths if path.exists())]
    return [word for mount in mounts for word in ("--volume", mount)]


class Podman:
    """podman with images, containers and volumes of its own, all in a folder."""

    def __init__(self, folder: Path) -> None:
        self._words = ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs"]
        for name in ("root", "runroot", "tmpdir"):
            self._words += [f"--{name}", str(folder / name)]

    def __call__(self, *words: str | Path) -> str:
        """Return what a command of podman says."""
        return run(*self._words, *words)

    def succeeds(self, *words: str) -> bool:
        """Whether a command's exit code is 0."""
        return subprocess.run([*self._words, *words], capture_output=True, check=False).returncode == 0

    def build(self, system: Path, folder: Path) -> None:
        """Build the image `dpi`, from a clone of the repository, on a base that is this system."""
        tarball, clone = folder / "base.tar", folder / "clone"
        run("tar", "-C", system, "-cf", tarball, ".")
        self("import", "--quiet", "--change", 'CMD ["python"]', tarball, "localhost/python:3.11-slim")
        run("git", "clone", "--quiet", ROOT, clone)
        options = ["--format", "docker", "--isolation", "chroot", "--pull=never", "--tag", "dpi"]
        with tempfile.TemporaryDirectory() as hidden:
            self("build", *options, *pip_mounts(Path(hidden)), "--file", clone / "deploy" / "Containerfile", clone)

    def once(self, *words: str) -> str:
        """Return what a command of the image says, in a container of its own."""
        return self("run", "--rm", "--network", "none", *LIMITS, "--entrypoint", words[0], "dpi", *words[1:])

    def start(self, name: str, settings: Path, *options: str) -> None:
        """Start the service, and wait until its health check succeeds."""
        words = ["--detach", "--name", name, "--network", "none", *LIMITS, *options]
        began = time.monotonic()
        self("run", *words, "--volume", f"{settings}:/etc/dpi:ro", "--volume", "kept:/var/lib/dpi", "dpi")
        while not self.succeeds("healthcheck", "run", name):
            if time.monotonic() > began + 60:
                sys.exit(f"{name}: not healthy after 60 s\n{self.log(name)}")
            time.sleep(0.1)
        print(f"{name}: healthy {time.monotonic() - began:.1f} s after its start", flush=True)

    def log(self, name: str) -> str:
        """Return what a container has written on both outputs."""
        done = subprocess.run([*self._words, "logs", name], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def end(self, name: str) -> None:
        """Stop it as its image says; it has 30 s, and the exit code of its own accord."""
        began = time.monotonic()
        self("stop", "--time", "30", name)
        print(f"{name}: stopped after {time.monotonic() - began:.1f} s", flush=True)
        hold(f"{name}: exit code", self("inspect", "--format", "{{.State.ExitCode}}", name), "0")
        hold(f"{name}: tracebacks in its log", self.log(name).count("Traceback"), 0)


def configured(folder: Path, serve: str) -> Path:
    """Return a folder to mount at /etc/dpi, which the container's user can read."""
    folder.mkdir()
    (folder / "pages.txt").write_text("home\nsearch\n", encoding="utf-8")
    begin = time.strftime("%Y-%m-%dT%H:%M:00Z", time.gmtime())
    (folder / "dpi.toml").write_text(serve + STREAM.format(begin=begin), encoding="utf-8")
    folder.chmod(0o755)
    return folder


def sizes(podman: Podman) -> None:
    """Print what the layers take, and what of it is /opt/dpi."""
    layers = [layer["size"] for layer in json.loads(podman("history", "--format", "json", "dpi"))]
    large = [f"{size / (1 << 20):.0f} MiB" for size in reversed(layers) if size > 1 << 20]
    print("layers above 1 MiB, the base first:", ", ".join(large), flush=True)
    print("/opt/dpi:", podman.once("du", "-sm", "/opt/dpi").split()[0], "MiB", flush=True)


def in_the_clear(podman: Podman, folder: Path) -> None:
    """Try the container's loopback: who it is, what it writes and where, events in, a release out."""
    podman.start("plain", configured(folder / "plain", PLAIN))
    within = ("exec", "plain")
    hold("the user of process 1", podman(*within, "stat", "--format", "%U %u", "/proc/1"), f"dpi {USER}")
    capabilities = podman(*within, "grep", "CapEff", "/proc/1/status").split()[1]
    hold("its capabilities", int(capabilities, 16), 0)
    hold(
        "what that user can write in /opt/dpi", podman(*within, "find", "/opt/dpi", "-writable", "!", "-type", "l"), ""
    )
    roles = ("curator", "analyst")
    tokens = [podman(*within, "dpi", "token", "create", "--role", role, "--name", role) for role in roles]
    hold("values of a release", podman(*within, "python", "-c", PRODUCE_AND_READ, *tokens), "2")
    kept = podman(*within, "find", "/var/lib/dpi", "-printf", "%y %m %U %f\n").splitlines()
    names = sorted(line.split()[3] for line in kept)
    print("/var/lib/dpi:", *names, flush=True)
    hold(
        "modes and owners there", sorted({line.rpartition(" ")[0] for line in kept}), [f"d 700 {USER}", f"f 600 {USER}"]
    )
    podman.end("plain")
    store = Path(podman("volume", "inspect", "--format", "{{.Mountpoint}}", "kept")) / "visits.db"
    hold("what SQLite keeps of an open store", [path.name for path in store.parent.glob("visits.db-*")], [])
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened:
        hold("SQLite's check of the closed store", opened.execute("PRAGMA integrity_check").fetchone()[0], "ok")
    written = set(podman("diff", "plain").splitlines()) - {"C /etc", "A /etc/dpi"}  # where the configuration is mounted
    hold("what it wrote elsewhere", sorted(written), [])


def with_tls(podman: Podman, folder: Path) -> None:
    """Try the same store again, on every interface and another port, with nothing but the volume and /tmp to write."""
    settings = configured(folder / "tls", PLAIN + TLS)
    private, certificate = settings / "private.pem", settings / "certificate.pem"
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=example.org"]
    run("openssl", "req", *made, "-keyout", private, "-out", certificate)
    private.chmod(0o600)
    os.chown(private, USER, USER)
    podman.start("tls", settings, "--read-only")
    hold("tls: answers in the clear", podman.succeeds("exec", "tls", "python", "-c", "import urllib.request; "
         "urllib.request.urlopen('http://127.0.0.1:8443/v1/health')"), False)  # fmt: skip
    podman.end("tls")


def without_a_service(podman: Podman) -> None:
    """Try that the health check can fail."""
    options = ["--detach", "--name", "idle", "--network", "none", *LIMITS, "--entrypoint", "sleep"]
    podman("run", *options, "dpi", "60")
    hold("healthy without a service", podman.succeeds("healthcheck", "run", "idle"), False)


def main() -> None:
    """Build, run, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="work there, and keep the base for the next time")
    given = parser.parse_args().folder
    if sentence := missing():
        sys.exit(sentence)
    with tempfile.TemporaryDirectory(dir=given) as work:
        folder = Path(work)
        podman = Podman(folder)
        try:
            podman.build(base(given or folder), folder)
            hold("programs of an installer", podman.once("find", "/opt/dpi", "-name", "pip*", "-path", "*/bin/*"), "")
            print(podman.once("dpi", "--version"), flush=True)
            sizes(podman)
            in_the_clear(podman, folder)
            with_tls(podman, folder)
            without_a_service(podman)
        finally:
            for words in (("rm", "--all", "--force", "--time", "1"), ("volume", "prune", "--force"), ("rmi", "--all")):
                podman.succeeds(*words)


if __name__ == "__main__":
    main()
