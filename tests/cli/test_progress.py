import os
import pty
import re
import subprocess

from cli_files import ENVIRONMENT, PERIOD, PROGRAM


def test_a_terminal_sees_bytes_and_slots_and_nothing_else(cli, visits):
    """The progress bar tells megabytes, slots and seconds; no count of rows or users."""
    terminal, side = pty.openpty()
    command = [*PROGRAM, "run", *visits, *PERIOD, "--store", "visits.db"]
    process = subprocess.Popen(command, stdout=side, stderr=side, stdin=side, env=ENVIRONMENT)
    os.close(side)
    drawn = b""
    while block := _read(terminal):
        drawn += block
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())
    bars = text[: text.index(" slots released")].rpartition("\n")[0].replace("\r", "\n").splitlines()
    assert any(line.startswith("releasing") and "6/6 slots" in line for line in bars)
    shape = r"(reading\s+[━╸╺]* +(\d+/\d+ MB)?|releasing\s+[━╸╺]* +\d/6 slots) +\d:\d\d:\d\d\s*"
    for line in filter(str.strip, bars):
        assert re.fullmatch(rf"({shape})+", line), line


def _read(terminal):
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other side has gone
        return b""
