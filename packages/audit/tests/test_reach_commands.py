"""The command line as a surface: it is compared in full, and a command that tells something is found."""

import sys

from dpi_audit import StoredSession, StreamSession, command_line, commands, compare, neighbours, odd_rows
from dpi_audit.commands import COMMANDS
from dpi_audit.small import VALUES, stream

TELLTALE = """
import pathlib, subprocess, sys
count = int(sys.argv[1])
program, words = sys.argv[2 : 2 + count], sys.argv[2 + count :]
code = subprocess.call([*program, *words])
if words[:1] == ["run"]:
    print("zq-private-target")
    if len(pathlib.Path("events.csv").read_bytes()) > 1000:
        print("many rows", file=sys.stderr)
        pathlib.Path("spilled").touch()
        code = 4
sys.exit(code)
"""


def session():
    """A small stream."""
    return StreamSession(stream())


def test_commands_tell_nothing_about_one_user(warm):
    """Exit codes, outputs, errors, files and their permissions are the same with and without the user's rows.

    They are compared after real runs: two released slots, a whole chain, refusals for the reasons meant.
    """
    looks = []

    def looked_at(session):
        looks.append(command_line(VALUES, warm)(session))
        return looks[-1]

    looked_at.__name__ = "commands"
    reach = compare(session, odd_rows(1, VALUES), surfaces=(looked_at,))
    assert reach.differences == ()
    assert len([name for name in reach.surfaces if name.startswith("commands, ")]) == 3 * len(COMMANDS) + 2
    assert len(looks) == 2
    for seen in looks:
        assert_worked(seen)


def assert_worked(seen):
    """The commands did what they are there for."""
    assert [seen[f"{name}, exit code"] for name in COMMANDS] == [
        b"0",
        b"0",
        b"0",
        b"2",
        b"3",
        b"2",
        b"0",
        b"0",
        b"0",
        b"2",
        b"0",
        b"3",
        b"3",
    ]
    assert seen["dry run, stdout"] == b""
    assert b'"released": 2' in seen["run, stdout"]
    assert b'"released": 0' in seen["run again, stdout"]
    assert b"when" in seen["run without a column, stderr"]
    for verified in ("verify", "verify of the export"):
        assert seen[f"{verified}, stdout"].startswith(b'{"intact": true, "whole": true, "missing": [], "entries": 3,')
    assert b"is an export" in seen["run on the export, stderr"]
    assert b"is an export" in seen["ledger of the export, stderr"]
    assert seen["releases.ndjson"].count(b'"epsilon": 0.25') == 2
    names = [line.split()[0] for line in seen["files"].splitlines()]
    assert {b"visits.db", b"visits.db.key", b"releases.ndjson", b"values.txt"} <= set(names)
    assert b"visits.db.key 100600\n" in seen["files"]


def test_a_command_that_tells_is_found(monkeypatch, warm):
    """A line, an exit code or a file that depends on the rows differs; an id is found even if both sides show it."""
    runs = ("dry run", "run", "run without a column")
    monkeypatch.setattr(commands, "COMMANDS", {name: COMMANDS[name] for name in runs})
    program = (sys.executable, "-c", TELLTALE, str(len(warm)), *warm)
    reach = compare(session, odd_rows(1, VALUES), surfaces=(command_line(VALUES, program),))
    told = {f"step 0: commands, {run}, {part} differs" for run in runs for part in ("stderr", "exit code")}
    told -= {"step 0: commands, dry run, stderr differs"}  # which is for the curator
    told |= {f"step 0: commands, {run}, stdout holds an id" for run in runs}
    assert set(reach.differences) == {*told, "step 0: commands, files differs"}
    assert reach.finding.violates


def test_a_stored_session_is_closed_and_removed():
    """Its folder goes with it, and a restart goes on with the same accounts and chain."""
    opened = StoredSession(lambda store: stream(store=store), restart_every=1)
    folder = opened._file.folder
    for rows in neighbours.alone(3, VALUES).one:
        opened.force(opened.look(rows).worst(opened.look(())).output)
    assert opened.last.slot == 2
    assert opened.last.certificate["sequence"] == 3
    assert folder.exists()
    del opened
    assert not folder.exists()
