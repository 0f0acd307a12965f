"""What tests of the service share: the stores of `tests/store`, and processes that serve."""

from __future__ import annotations

import io
import logging
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dpi.service import logs
from store.conftest import key_file, postgres, server, sqlite  # noqa: F401 - fixtures

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    """A port of this machine that nobody listens on, of those that the system gives to no connection meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts programs of this folder; whatever is left of them is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *options: object) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).with_name(program)), *map(str, options)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
        started.append(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=environment,
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged."""
    kept, out = logging.getLogger().handlers[:], io.StringIO()
    logs.set_up(out)
    yield out
    logging.getLogger().handlers[:] = kept
