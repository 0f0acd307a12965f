"""`dpi serve` and `dpi token` as commands, and the pages that tell of them, run as they are written."""

import datetime as dates
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import dpi
from cli_files import ENVIRONMENT, PROGRAM
from console import commands, is_printed
from dpi._version import how_to_install
from dpi.cli.app import app
from dpi.cli.commands.top import _token
from dpi.errors import OptionError
from dpi.service.config import Config, read_streams
from dpi.service.tokens import Tokens
from service.conftest import free_port

DOCS = Path(__file__).parents[2] / "docs"


def started(folder, *words, url, verify=True):
    """A service as a process of its own, once it answers."""
    process = subprocess.Popen(
        [*PROGRAM, "serve", *words],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/v1/ready", verify=verify).status_code == 200:
                return process
        except httpx.TransportError:
            time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate())


def test_the_page_for_teams_runs_as_written(tmp_path, warm):
    """Its configuration, its commands and its programs, in their order; slots are shorter here, and begin now."""
    text, port = (DOCS / "howto-team.md").read_text(), free_port()
    text = text.replace("8321", str(port))
    blocks = re.findall(r"```(toml|console|python)\n(.*?)```", text, flags=re.DOTALL)
    begin = dates.datetime.now(dates.UTC).replace(second=0, microsecond=0).isoformat()
    said, variables, process = 0, {}, None
    try:
        for kind, block in blocks:
            if kind == "toml":
                shorter = re.sub(r'lateness = ".*?"', 'lateness = "6s"', block.replace('slot = "1m"', 'slot = "2s"'))
                config = re.sub(r'from = ".*?"', f'from = "{begin}"', shorter)
                assert config != block or "oidc" in block
                with (tmp_path / "dpi.toml").open("a") as file:
                    file.write(config)
            elif kind == "python":
                done = run_python(block, tmp_path, variables)
                assert done.returncode == 0, done.stderr
                said += 1
            elif "dpi serve --config" in block:
                process = started(tmp_path, "--config", "dpi.toml", url=f"http://127.0.0.1:{port}")
                ((_, greeting),) = commands(block)
            elif "curl" not in block or shutil.which("curl"):
                said += run_console(block, tmp_path, warm)
        assert said >= 9
    finally:
        if process is not None:
            process.terminate()
            _, stderr = process.communicate(timeout=60)
            assert process.returncode in (0, -signal.SIGTERM), stderr
    assert "Traceback" not in stderr
    assert is_printed(f"…{greeting}", stderr, any_numbers=True), stderr  # the log may tell of the new key before it


@pytest.mark.parametrize(
    ("host", "reason"), [("127.0.0.1", "Address already in use"), ("no.such.host.invalid", "There is no such address")]
)
def test_an_address_that_cannot_be_had_is_said(tmp_path, host, reason):
    """In the last line, with what to change; the log has no word of it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "dpi.toml").write_text(
            f'[serve]\nstore = "v.db"\nhost = "{host}"\nport = {port}\nbehind-proxy = true\n'
        )
        done = subprocess.run(
            [*PROGRAM, "serve", "--config", "dpi.toml"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 2
    assert "serving on" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last == f"dpi: error: nothing can listen on {host}:{port} ({reason}): choose another `host` or `port`."


def run_console(block, folder, program):
    """Commands of a page, with what they print; the number of those that are about the service."""
    head, run = f'set -eu\ndpi() {{ {shlex.join(program)} "$@"; }}\n', 0
    for command, printed in commands(block):
        done = subprocess.run(
            ["/bin/sh", "-c", head + command],
            cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout)
        assert not printed.strip() or is_printed(printed, done.stdout, any_numbers=True), (command, done.stdout)
        run += command.startswith(("dpi", "curl"))
    return run


def run_python(block, folder, variables):
    """A program of a page, after those before it."""
    variables["text"] = variables.get("text", "") + block
    return subprocess.run(
        [sys.executable, "-c", variables["text"]], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


def test_the_reference_for_python_runs_as_written(tmp_path):
    """The program of docs/http.md, with the tokens that it names."""
    (block,) = re.findall(r"```python\n(import dpi\n.*?)```", (DOCS / "http.md").read_text(), flags=re.DOTALL)
    port = free_port()
    tokens = Tokens(tmp_path / "tokens.json")
    (tmp_path / "pages.txt").write_text("home\nsearch\n")
    now = int(time.time())
    begin = dates.datetime.fromtimestamp(now - now % 2, dates.UTC).isoformat()  # slots begin at even seconds
    (tmp_path / "dpi.toml").write_text(
        f'[serve]\nstore = "v.db"\nport = {port}\n[streams.visits]\ndomain = "pages.txt"\nslot = "2s"\nepsilon = 1\n'
        f'from = "{begin}"\n'
    )
    process = started(tmp_path, "--config", "dpi.toml", url=f"http://127.0.0.1:{port}")
    try:
        known = {
            "curator": tokens.create("curator"),
            "analyst": tokens.create("analyst"),
            "now": dates.datetime.now(dates.UTC),
        }
        exec(block.replace("8321", str(port)), known)  # noqa: S102 - our own page
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_demonstration_lives(tmp_path):
    """One command: a shop whose releases are printed as they are seen, and which ends on Ctrl-C."""
    port = free_port()
    quick = [sys.executable, "-c", "from dpi.cli import main, _serve_demo; _serve_demo.HOUR = 1; main()"]
    process = subprocess.Popen(
        [*quick, "serve", "--demo", "--port", str(port)], cwd=tmp_path, env=ENVIRONMENT | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen = []
    for line in process.stdout:
        if "spent at most" in line:
            seen.append(dates.datetime.fromisoformat(line.partition("  ")[0]))
        if len(seen) == 2:
            break
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert seen[1] - seen[0] == dates.timedelta(seconds=1)
    assert "serving a made-up shop" in stderr
    assert "Traceback" not in stderr
    assert os.listdir(tmp_path) == []


EARLY = """
import signal, sys
from pathlib import Path
from dpi.service import running
from dpi.service.config import Config
listen = running.Server.run
def run(server):
    signal.raise_signal(signal.SIGTERM)
    listen(server)
running.Server.run = run
running.serve(Config(store="v.db", tokens=Path("tokens.json"), port=int(sys.argv[1])))
"""


def test_a_signal_before_the_server_listens_is_heeded(tmp_path):
    """It ends as at any other time: exit code 0, the store closed."""
    command = [sys.executable, "-c", EARLY, str(free_port())]
    done = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert [name for name in os.listdir(tmp_path) if name.endswith(("-wal", "-shm"))] == []


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Commands in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], prog_name="dpi")


def test_a_token_is_written_to_a_file_that_top_takes(tmp_path, cli):
    """`--out` makes a file of mode 600, whatever the umask; it replaces none, and no token is made that is lost."""
    before = os.umask(0)
    try:
        done = cli("serve", "token", "create", "--role", "curator", "--out", "curator.token")
    finally:
        os.umask(before)
    file = tmp_path / "curator.token"
    assert done.exit_code == 0
    assert "dpi_" not in done.stdout + done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Tokens(tmp_path / "tokens.json").check(_token(file)).role == "curator"
    kept = file.read_bytes()
    for out in ("curator.token", "nowhere/curator.token"):
        assert cli("serve", "token", "create", "--role", "curator", "--out", out).exit_code == 2
    assert file.read_bytes() == kept
    assert len(json.loads(cli("serve", "token", "list", "--json").stdout)["tokens"]) == 1
    said = json.loads(cli("serve", "token", "create", "--role", "analyst", "--out", "a.token", "--json").stdout)
    assert said == {"file": "a.token", "role": "analyst"}
    assert cli("serve", "token", "list", "--out", "b.token").exit_code == 2


def test_tokens_by_command(tmp_path, cli):
    """Made, listed and revoked; what is wrong is told in one line."""
    made = cli("serve", "token", "create", "--role", "analyst", "--name", "ada", "--expires", "90d").stdout.strip()
    entry = Tokens(tmp_path / "tokens.json").check(made)
    assert (entry.role, entry.name) == ("analyst", "ada")
    (listed,) = json.loads(cli("serve", "token", "list", "--json").stdout)["tokens"]
    assert listed["id"] == entry.id
    assert cli("serve", "token", "revoke", entry.id).exit_code == 0
    assert Tokens(tmp_path / "tokens.json").check(made) is None
    assert "revoked" in cli("serve", "token", "list").stdout
    for words in (["create"], ["create", "--role", "king"], ["revoke"], ["revoke", "x"], ["make"],
                  ["create", "--role", "admin", "--expires", "soon"]):  # fmt: skip
        done = cli("serve", "token", *words)
        assert done.exit_code == 2, words
        assert done.stderr.startswith("dpi: error: ")


def test_only_this_machine_unless_tls(tmp_path):
    """Tokens never cross a network in the clear; with TLS files the service answers over TLS, and over nothing else."""
    places = {"store": "v.db", "tokens": tmp_path / "tokens.json"}
    for host in ("0.0.0.0", "192.0.2.1", "example.org"):  # noqa: S104 - refused
        with pytest.raises(OptionError, match="in the clear"):
            Config(**places, host=host)
        assert Config(**places, host=host, behind_proxy=True).host == host
    with pytest.raises(OptionError, match="both files"):
        Config(**places, certificate=tmp_path / "c.pem")
    certificate, key = self_signed(tmp_path)
    port = free_port()
    words = ["--store", "v.db", "--host", "127.0.0.1", "--port", str(port), "--json"]
    process = started(
        tmp_path, *words, "--config", f"certificate={certificate}", "--config", f"private-key={key}", url=f"https://localhost:{port}",
        verify=ssl.create_default_context(cafile=str(certificate)),
    )  # fmt: skip
    try:
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/v1/health")
        answer = httpx.get(
            f"https://localhost:{port}/v1/health", verify=ssl.create_default_context(cafile=str(certificate))
        )
        assert answer.headers["strict-transport-security"]
    finally:
        process.terminate()
        stdout, _ = process.communicate(timeout=60)
    assert json.loads(stdout) == {"url": f"https://127.0.0.1:{port}", "streams": []}


def self_signed(folder):
    """A certificate for localhost."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    now = dates.datetime.now(dates.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - dates.timedelta(days=1)).not_valid_after(now + dates.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    paths = folder / "c.pem", folder / "k.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


BAD = {
    '[streams.visits]\nslot = "1h"': "must be the path of a domain file",
    '[streams.visits]\ndomain = "none.txt"\nslot = "1h"': "cannot be read",
    '[streams.visits]\ndomain = "pages.txt"\nslot = "1h"': "`epsilon` is required",
    '[streams.visits]\ndomain = "pages.txt"\ncolour = "red"': "unknown option `colour`",
    '[streams.visits]\ndomain = "pages.txt"\nperiod = "x"': "`period` must be a whole number",
    "streams = 5": "must be tables by name",
    "[streams": "is not TOML",
}


@pytest.mark.parametrize("text", BAD)
def test_a_configuration_that_is_wrong_is_told(tmp_path, text):
    """With the table it stands in."""
    (tmp_path / "pages.txt").write_text("home\n")
    (tmp_path / "dpi.toml").write_text(text)
    with pytest.raises(OptionError, match=re.escape(BAD[text])):
        read_streams(tmp_path / "dpi.toml")


def test_a_configuration_says_all_options(tmp_path):
    """By the names that `dpi run` has, with keys of hashed domains beside it."""
    dpi.files.create_key(tmp_path / "domain.key", 32)
    key = bytes.fromhex((tmp_path / "domain.key").read_text().strip())
    hashed = dpi.Hashed(64, key)
    dpi.domain.file.write(tmp_path / "hashed.json", hashed)
    (tmp_path / "dpi.toml").write_text(
        '[streams.a]\ndomain = "hashed.json"\ndomain-key = "domain.key"\nslot = "1h"\nepsilon = 0.5\n'
        'from = 2026-01-01T00:00:00\nper-slot = 0.01\nnot-returning = true\nlateness = "5s"\n'
    )
    streams, keys, *_ = read_streams(tmp_path / "dpi.toml")
    assert keys == {hashed.fingerprint: key}
    store = dpi.MemoryStore()
    stream = streams["a"].open(store)
    assert (stream.domain, float(stream.epsilon), stream.next_slot) == (
        hashed,
        0.5,
        dpi.Slots("1h").number("2026-01-01"),
    )
    again = dpi.Stream.of(store, "a", keys=keys)
    assert again.digest == stream.digest
    with pytest.raises(OptionError, match="no such stream"):
        dpi.Stream.of(store, "b")


def test_serve_says_what_it_needs(tmp_path, cli, monkeypatch):
    """A store, TLS for others than this machine, and an extra that is installed; nothing is left behind."""
    for words, text in {
        ("serve",): "`--store` is required",
        ("serve", "--store", "v.db", "--host", "0.0.0.0"): "`certificate`",  # noqa: S104 - refused
        ("serve", "--store", "v.db", "--config", "delay=0s"): "`delay` must be above 0",
        ("serve", "--store", "v.db", "--config", "requests=0"): "must be above 0",
    }.items():
        done = cli(*words)
        assert done.exit_code == 2
        assert text in done.stderr
    monkeypatch.setattr("dpi.cli.commands.serve.NEEDED", ("no_such_library",))
    assert how_to_install("service") in " ".join(cli("serve").stderr.split())
    assert os.listdir(tmp_path) == []
