"""What a system lacks is said in one sentence where it is needed; everything else runs there.

Windows has no locks and permissions of files as others know them, macOS no locks of open files, no times of arriving
bytes, and an `fsync` that leaves data in the disk's own memory. Here their absence is played.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dpi
from dpi import files
from dpi.errors import OptionError
from dpi.files import need_posix
from dpi.store import _write_lock
from dpi.store.export import export

ROOT = Path(__file__).parents[1]
ABSENT = ("fcntl", "termios", "resource", "pwd", "grp")
LACKS = "needs locks and permissions of files, which this system lacks: use Linux or macOS; on Windows, .*(WSL)"
OPTIONS = {"domain": dpi.Categories(["a", "b"]), "epsilon": 1, "slot": "1h", "start": "2026-01-01"}


@pytest.fixture
def windows(monkeypatch):
    """None of the modules that Windows lacks."""
    for name in ABSENT:
        monkeypatch.setitem(sys.modules, name, None)


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command line without these modules, and without what `os` has on other systems alone."""
    gone = "; ".join(f"sys.modules[{name!r}] = None" for name in ABSENT)
    lacks = "[delattr(os, name) for name in ('pread', 'pwrite', 'fchmod', 'chown', 'nice', 'sched_getaffinity')]"
    program = f"import os, signal, sys; {gone}; {lacks}; del signal.SIGHUP; sys.argv[1:] = {list(words)!r}"
    program += "; import dpi.cli.__main__"
    return subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=False)


def test_no_module_needs_what_a_system_lacks():
    """Modules of some systems are loaded where they are used, and not with the module that uses them."""
    found = []
    for path in sorted((ROOT / "src" / "dpi").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{path.name}: {name}" for name in names if name.partition(".")[0] in ABSENT]
    assert found == []


def test_what_writes_a_store_or_keeps_a_secret_says_what_it_needs(windows, tmp_path):
    """Before anything is made: no store, no key."""
    for do in (
        lambda: dpi.open_store(tmp_path / "visits.db"),
        lambda: dpi.Stream(store=tmp_path / "visits.db", **OPTIONS),
        lambda: files.create_secret(tmp_path / "secret", b"x"),
        lambda: files.read_secret(tmp_path / "secret"),
        lambda: need_posix("a thing"),
    ):
        with pytest.raises(OptionError, match=LACKS):
            do()
    assert [*tmp_path.iterdir()] == []


def test_releases_are_read_and_made_in_memory(tmp_path, monkeypatch):
    """Analysts read an export; a stream in memory releases."""
    with dpi.open_store(tmp_path / "visits.db") as store:
        stream = dpi.Stream(store=store, **OPTIONS)
        stream.release(["ada"], ["a"])
        export(store, tmp_path / "public.db")
    for name in ABSENT:
        monkeypatch.setitem(sys.modules, name, None)
    with dpi.open(tmp_path / "public.db") as found:
        assert found.table().height == 3
    table = {"user": ["ada", "bob"], "time": ["2026-01-01T00:10", "2026-01-01T01:10"], "value": ["a", "b"]}
    stream = dpi.Stream(**OPTIONS)
    assert len([*stream.replay(table, start="2026-01-01", end="2026-01-01T02:00")]) == 2
    (tmp_path / "visits.csv").write_text("user,time,value\nada,2026-01-01T00:10,a\n")
    events = dpi.read(tmp_path / "visits.csv", user="user", time="time", value="value")
    assert len([*dpi.Stream(**OPTIONS).replay(events, start="2026-01-01", end="2026-01-01T02:00")]) == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("plan --epsilon 1 --users 1000 --bins 10", 0),
        ("verify public.db", 0),
        ("query public.db top 1", 0),
        ("report public.db -o page.html", 0),
        ("serve --demo", 2),
        ("keys mine", 2),
        ("run visits.csv --domain v.txt --slot 1h --from 2026-01-01 --to 2026-01-02 --epsilon 1 --store new.db", 2),
        ("backup visits.db copy.db", 2),
    ],
)
def test_the_command_line(words, code, tmp_path):
    """What only reads works; what writes a store or a key ends with the sentence, and no traceback."""
    with dpi.open_store(tmp_path / "visits.db") as store:
        dpi.Stream(store=store, **OPTIONS).release(["ada"], ["a"])
        export(store, tmp_path / "public.db")
    (tmp_path / "v.txt").write_text("a\nb\n")
    (tmp_path / "visits.csv").write_text("user,time,value\nada,2026-01-01T00:10,a\n")
    done = run(*words.split(), cwd=tmp_path)
    assert done.returncode == code, done.stderr
    if code:
        (said,) = done.stderr.splitlines()
        assert said.startswith("dpi: error: ")
        assert "which this system lacks: use Linux or macOS" in said
        assert not {"new.db", "new.db.key", "mine", "copy.db"} & {path.name for path in tmp_path.iterdir()}


def test_one_process_writes_where_open_files_have_no_locks_of_their_own(monkeypatch, tmp_path):
    """On macOS, the file beside the store is locked."""
    import fcntl

    monkeypatch.setattr(_write_lock.sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    program = f"import dpi; dpi.open_store({str(tmp_path / 'a.db')!r})"
    with dpi.open_store(tmp_path / "a.db"):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert "StoreBusy" in done.stderr


def test_what_is_durable_is_on_the_disk_itself(monkeypatch, tmp_path):
    """On macOS by its own call, where the disk knows it; SQLite is asked for the same."""
    import fcntl

    asked = []
    monkeypatch.setattr(files.sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, what: asked.append(what))
    files.write_file(tmp_path / "a", b"x")
    assert asked == [51, 51]  # the file, and its name

    def refuse(descriptor, what):
        raise OSError(45, "not supported")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    files.write_file(tmp_path / "b", b"x")
    monkeypatch.undo()
    with dpi.open_store(tmp_path / "a.db") as store:
        assert store.engine.rows("PRAGMA fullfsync") == [(1,)]


def test_output_has_all_letters_on_windows(tmp_path):
    """Where the system's own alphabet has no ε."""
    program = (
        "import sys, dpi.cli.app; sys.platform = 'win32'; sys.argv[1:] = ['--help']; from dpi.cli import main; main()"
    )
    environment = {"PYTHONIOENCODING": "cp1252", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False)
    assert "one budget ε per user" in " ".join(done.stdout.decode("utf-8").split()), done.stderr


def test_a_folder_that_cannot_be_opened_needs_no_flush(monkeypatch, tmp_path):
    """Windows opens no folder."""
    monkeypatch.setattr(files.os, "open", None)
    monkeypatch.setattr(files.os, "name", "nt")
    files.sync_folder(tmp_path)


def test_connections_are_read_without_moments_of_the_kernel(monkeypatch):
    """As on every system but Linux: the moment is that of the read."""
    program = (
        "import sys; sys.platform = 'darwin'; from dpi.service import _arrivals; "
        "assert _arrivals.NOTED is None and _arrivals._SPACE == 0; "
        "import threading, socket; from dpi.service._arrivals import Arrivals; "
        "made = Arrivals(4); (listening,) = made.listen('127.0.0.1', 0); "
        "other = socket.create_connection(listening.getsockname()); other.sendall(b'hello'); "
        "found, _ = listening.accept(); found.settimeout(5); print(found.recv(5))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "b'hello'", done.stderr
