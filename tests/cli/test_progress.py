import os
import pty
import re
import subprocess

from cli_files import ENVIRONMENT, PERIOD, PROGRAM


def on_terminal(*words):
    """What a terminal shows of a command."""
    terminal, side = pty.openpty()
    process = subprocess.Popen([*PROGRAM, *words], stdout=side, stderr=side, stdin=side, env=ENVIRONMENT)
    os.close(side)
    drawn = b""
    while block := _read(terminal):
        drawn += block
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())


def test_a_terminal_sees_bytes_and_slots_and_nothing_else(cli, visits):
    """The progress bar tells megabytes, slots and seconds; no count of rows or users."""
    text = on_terminal("run", *visits, *PERIOD, "--store", "visits.db")
    bars = text[: text.index("6 slots released, up to")].replace("\r", "\n").splitlines()
    assert any("6 of 6 slots released" in line for line in bars)
    shape = r"[━╸╺]* +((\d+\.\d of \d+\.\d MB read, )?\d of 6 slots released)? +\d:\d\d:\d\d\s*"
    for line in filter(str.strip, bars):
        assert re.fullmatch(rf"({shape})+", line), line


def test_a_comparison_shows_slots_that_are_over(cli):
    """One bar, which counts to the last slot and is gone before the table."""
    text = on_terminal("compare", "dpi", "noisy", "--stream", "n50k20", "--config", "slots=4")
    bars, _, table = text.partition("n50k20: 4 slots")
    assert re.search(r"slots\s+━+ +4/4 +\d:\d\d:\d\d", bars)
    assert "━" not in table
    assert "mechanism" in table


def _read(terminal):
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other side has gone
        return b""
