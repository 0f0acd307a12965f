"""What is handed to operators fits the program: its unit, its container file, its configuration."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from dpi.cli._parameters import options_of
from dpi.service.config import Config, read_alerts, read_streams
from serving import FIRST, MOMENT, SECOND, running

DEPLOY = Path(__file__).parents[2] / "deploy"
EXTRAS = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_configuration_is_one() -> None:
    """Every key is an option of `dpi serve`; the stream can be made; without TLS it listens on this machine alone."""
    given = tomllib.loads((DEPLOY / "dpi.toml").read_text())["serve"]
    assert set(given) <= set(options_of("serve"))
    streams, keys, *_ = read_streams(DEPLOY / "dpi.toml")
    made = Config(store=given["store"], tokens=Path(given["tokens"]), host=given["host"], streams=streams, keys=keys)
    assert [*made.streams] == ["visits"]


def test_its_stream_begins_now(tmp_path, logged) -> None:
    """The first start releases nothing of the past; from a moment that is stated it does, and says how much."""
    stated = read_streams(DEPLOY / "dpi.toml").streams["visits"]
    first = stated.slots.number(stated.begin)
    with running(tmp_path, stated, now=stated.slots.closing(first) - SECOND) as found:
        found.closed()
        assert found.service.closing.streams["visits"].next_slot == first
        assert found.service.store.reached("visits") is None
    assert abs(stated.slots.closing(first) / 1e6 - time.time()) <= 3601
    assert "begins in the past" not in logged.getvalue()
    (tmp_path / "past").mkdir()
    with running(tmp_path / "past", now=MOMENT + 25 * SECOND) as found:
        found.closed()
        assert found.service.store.reached("visits")[0] == FIRST + 1
    (line,) = [json.loads(line) for line in logged.getvalue().splitlines() if "begins in the past" in line]
    assert (line["stream"], line["slots"]) == ("visits", 2)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit() -> None:
    """It finds nothing but the program that is not installed where tests run."""
    command = ["systemd-analyze", "verify", str(DEPLOY / "dpi.service")]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines()
    assert [line for line in said if "dpi.service" in line and "is not executable" not in line] == []


def test_the_container_is_nobody_special_and_stops_as_the_service_does() -> None:
    """Extras that are there, a user without rights, a signal that keeps what was received."""
    text = (DEPLOY / "Containerfile").read_text()
    (extras,) = re.findall(r"'\.\[([a-z,]+)\]'", text)
    assert set(extras.split(",")) <= set(EXTRAS)
    (number,) = re.findall(
        r"useradd --system --uid (\d+) ", text
    )  # by its number, which an orchestrator can tell from root's
    assert text.index(f"USER {number}\n") < text.index("ENTRYPOINT")
    assert "STOPSIGNAL SIGTERM" in text
    copied = [source for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE) for source in line.split()]
    assert [name for name in copied if not (DEPLOY.parent / name).exists()] == []
    assert '"dpi", "serve", "--config"' in text
    _, option, program = json.loads(re.findall(r"^HEALTHCHECK .* CMD (.+)$", text.replace("\\\n", ""), re.MULTILINE)[0])
    assert option == "-c"
    compile(program, "HEALTHCHECK", "exec")


def test_alerts_in_the_configuration_can_be_made(tmp_path) -> None:
    """What stands there as an example is one, once it is no comment."""
    lines = (DEPLOY / "dpi.toml").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("# [alerts]"))
    shown = [line.removeprefix("# ") for line in lines[first:] if line.startswith("# ")]
    (tmp_path / "dpi.toml").write_text("\n".join(shown))
    found = read_alerts(tmp_path / "dpi.toml")
    assert found is not None
    assert (len(found.analysts), len(found.curators)) == (1, 1)


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="needs logrotate")
def test_logrotate_understands_its_file(tmp_path) -> None:
    """Read without complaint; the user is not known where tests run."""
    text = (DEPLOY / "dpi.logrotate").read_text().replace("su dpi dpi", "")
    (tmp_path / "dpi").write_text(text)
    command = ["logrotate", "--debug", "--state", str(tmp_path / "state"), str(tmp_path / "dpi")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "error:" not in done.stderr
