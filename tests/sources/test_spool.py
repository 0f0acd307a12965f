from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpi
from dpi.sources._spool import Spool
from dpi.sources.live import LiveInput, Reach


def test_what_waits_on_the_disk_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what came through a pipe and was not read yet, no id lies on the disk as it is, and all of it comes back."""
    users = [f"secret-{number}" for number in range(1000)]
    outlet, inlet = os.pipe()
    with os.fdopen(outlet, "rb") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        (spool,) = dpi.read("-", format="ndjson").live(lambda producer: -1, {})
        assert isinstance(spool, Spool)
        over = threading.Event()
        spool.start(over)
        with os.fdopen(inlet, "wb") as pipe:
            for user in users:
                pipe.write(b'{"user": "%s"}\n' % user.encode())
        assert over.wait(60)
        descriptor = spool._chunks[0].file.fileno()
        on_disk = os.pread(descriptor, 1 << 20, 0)
        assert len(on_disk) == sum(len(user) + 13 for user in users) + 1  # the end of the input ends its last line
        assert b"secret" not in on_disk
        assert os.fstat(descriptor).st_nlink == 0  # it has no name: a kill removes it
        read = [user for block in spool.read(spool.reached()) for user in block.events["user"]]
        spool.close()
    assert read == users


class Pipe:
    """Standard input, and who writes to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        outlet, self.inlet = os.pipe()
        self.stdin = os.fdopen(outlet, "rb")
        monkeypatch.setattr("sys.stdin", self.stdin)
        self.wake = threading.Event()
        self.done: dict[str, int] = {}

    def spool(self) -> LiveInput:
        """Follow it."""
        (spool,) = dpi.read("-", format="ndjson").live(lambda producer: self.done.get(producer, -1), {})
        spool.start(self.wake)
        return spool

    def write(self, data: bytes) -> None:
        """Let something arrive."""
        assert os.write(self.inlet, data) == len(data)

    def end(self) -> None:
        """End it, and wait until that is known."""
        os.close(self.inlet)
        self.inlet = -1
        assert self.wake.wait(timeout=10)

    def users(self, spool: LiveInput, upto: tuple[Reach, ...]) -> list[str]:
        """Who is in the lines up to a mark."""
        users: list[str] = []
        for block in spool.read(upto):
            self.done[block.producer] = block.sequence
            users.extend(block.events["user"])
        return users


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    """A pipe."""
    pipe = Pipe(monkeypatch)
    yield pipe
    if pipe.inlet >= 0:
        pipe.end()
    pipe.stdin.close()


@pytest.mark.parametrize("late", [False, True])
def test_a_last_line_without_an_end_belongs_where_the_input_ended(pipe: Pipe, late: bool) -> None:
    """Not to a mark before that, however late the reader comes to it."""
    spool = pipe.spool()
    pipe.write(b'{"user": "ada"}\n{"user": "bob"}')
    before = spool.reached()
    first = [] if late else pipe.users(spool, before)
    pipe.end()
    first = pipe.users(spool, before) if late else first
    assert first == ["ada"]
    assert pipe.users(spool, spool.reached()) == ["bob"]
    spool.close()


@pytest.mark.parametrize("data", [b"", b'{"user": "ada"}\n', b'{"user": "ada"}', b"\n\n"])
def test_what_was_read_to_its_end_is_not_called_lost(pipe: Pipe, data: bytes) -> None:
    """The next program finds the mark of a pipe that it cannot read, and nothing is missing of it."""
    spool = pipe.spool()
    pipe.write(data)
    pipe.end()
    end = spool.reached()
    pipe.users(spool, end)
    (other,) = dpi.read("-", format="ndjson").live(lambda producer: pipe.done.get(producer, -1), {})
    assert list(other.read(end)) == []
    assert not other.lost
    spool.close()


def test_a_file_larger_than_the_system_can_tell_is_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems say in 32 bits how much is waiting: a number below 0 must not become a position."""
    with (tmp_path / "large").open("wb+") as large:
        large.truncate(3 << 30)
        monkeypatch.setattr("sys.stdin", large)
        (spool,) = dpi.read("-", format="ndjson").live(lambda producer: -1, {})
        (reach,) = spool.reached()
        assert reach.offset >= 0
        assert list(spool.read((Reach(reach.identity, 0, -5),))) == []


def test_a_spool_that_is_closed_takes_no_more(pipe: Pipe) -> None:
    """The rest of the input is for others in the process, and no file is left open."""
    spool = pipe.spool()
    pipe.write(b'{"user": "ada"}\n')
    assert pipe.users(spool, spool.reached()) == ["ada"]
    spool.close()
    pipe.write(b"rest")
    assert os.read(pipe.stdin.fileno(), 4) == b"rest"
    assert "dpi standard input" not in [thread.name for thread in threading.enumerate()]


def test_what_an_earlier_run_had_not_read_is_called_lost(pipe: Pipe) -> None:
    """Its key is gone with its process: a mark that lies behind what was stored tells the curator so."""
    first = pipe.spool()
    pipe.write(b'{"user": "ada"}\n')
    pipe.end()
    mark = first.reached()
    first.close()
    (other,) = dpi.read("-", format="ndjson").live(lambda producer: pipe.done.get(producer, -1), {})
    assert list(other.read(mark)) == []
    assert other.lost
