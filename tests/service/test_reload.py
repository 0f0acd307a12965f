"""SIGHUP has a service read tokens, TLS files and limits again; its log says why it starts, reads again and stops."""

import json
import os
import signal
import ssl
import subprocess
import time
from functools import partial

import httpx
import pytest

from cli_files import ENVIRONMENT, PROGRAM
from dpi.service.config import read_limits
from dpi.service.tokens import Tokens
from service.conftest import free_port
from service.test_commands import self_signed
from serving import running

AGAIN = "tokens, TLS files and limits are read again; all other options need a restart"


def until(holds):
    """Wait until something holds."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines(text):
    """The lines of a log."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def events(logged):
    """What the lines of a log say."""
    return [line["event"] for line in lines(logged.getvalue())]


def read_again(found, logged):
    """Have files read, as a signal does; the lines that the log has of it."""
    before = len(events(logged))
    found.server.read_again()
    until(lambda: found.server._done == found.server._asked)
    assert AGAIN in events(logged)[before:]
    return lines(logged.getvalue())[before:]


def status(found, role):
    """What the service answers to a token."""
    return found.client(role).get("/v1/streams").status_code


def test_tokens_are_read_although_the_file_looks_the_same(tmp_path, logged):
    """A file of equal size and time, as a backup restores it; a damaged one opens nothing, and the log says so."""
    with running(tmp_path) as found:
        path = found.service.tokens.path
        assert status(found, "analyst") == 200
        text, before = path.read_text(), path.stat()
        path.write_text(text.replace('"revoked": false', '"revoked": true '))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert status(found, "analyst") == 200
        assert [line["event"] for line in read_again(found, logged)] == [AGAIN]
        assert status(found, "analyst") == 401
        path.write_text("{}")
        *_, refused = read_again(found, logged)
        assert (refused["event"], refused["kind"]) == ("tokens cannot be read, and open nothing", "StateError")
        path.write_text(text)
        read_again(found, logged)
        assert status(found, "analyst") == 200
        assert not any(token.split("_", 2)[2] in logged.getvalue() for token in found.tokens.values())


def test_a_new_certificate_is_shown_and_a_wrong_one_is_not(tmp_path, logged):
    """Connections from then on see it; files that do not fit each other are logged, and the old one stays."""
    certificate, key = self_signed(tmp_path)
    with running(tmp_path, certificate=certificate, private_key=key) as found:
        place = ("127.0.0.1", int(found.url.rpartition(":")[2]))

        def is_shown(content):
            return ssl.get_server_certificate(place).strip() == content.decode().strip()

        old = certificate.read_bytes()
        assert is_shown(old)
        self_signed(tmp_path)
        new, other_key = certificate.read_bytes(), key.read_bytes()
        assert is_shown(old)
        assert [line["event"] for line in read_again(found, logged)] == [AGAIN]
        assert is_shown(new)
        certificate.write_bytes(old)
        for broken in (other_key, b"", encrypted(other_key)):
            key.write_bytes(broken)
            *_, refused = read_again(found, logged)
            assert refused["event"] == "TLS files cannot be read, and the certificate stays"
            assert "error" not in refused
            assert is_shown(new)
        key.unlink()
        assert read_again(found, logged)[-1]["kind"] == "FileNotFoundError"
        assert is_shown(new)


def test_limits_are_taken_over_and_wrong_ones_are_not(tmp_path, logged):
    """Requests from then on meet them; what cannot be a limit is logged, and those before stay."""
    path = tmp_path / "dpi.toml"
    path.write_text("[serve]\n")

    def answers(size):
        columns = {"user": ["a" * size], "time": [0], "value": ["home"]}
        return found.client("curator").post("/v1/streams/visits/events/check?unit=us", json=columns).status_code

    with running(tmp_path) as found:
        found.server._limits = partial(read_limits, path)
        assert (answers(10), answers(2000)) == (200, 200)
        path.write_text('[serve]\nbody = "1KiB"\nrequests = 3\nof-one-token = 1\npatience = 7\nconnections = 40\n')
        again, changed = read_again(found, logged)
        assert again["event"] == AGAIN
        limits = {"requests": 3, "of_one_token": 1, "patience": 7.0, "connections": 40, "body": 1024}
        assert (changed["event"], changed["limits"]) == ("limits have changed", limits)
        assert (answers(10), answers(2000)) == (200, 413)
        service = found.service
        assert (
            (service.arriving.most, service.arriving.of_one) == (service.batches.most, service.batches.of_one) == (3, 1)
        )
        assert (service.followers.most, service.followers.of_one) == (20, 10)
        assert found.server._arrivals.most == 40
        for wrong in ("requests = 0", 'requests = "many"', "connections = 1000000000", "connections ="):
            path.write_text(f"[serve]\n{wrong}\n")
            *_, refused = read_again(found, logged)
            assert (refused["event"], refused["kind"]) == ("limits cannot be taken, and stay", "OptionError")
            assert answers(2000) == 413
        path.write_text("[serve]\n")
        read_again(found, logged)
        assert answers(2000) == 200


def encrypted(key):
    """The same key behind a password, for which nobody is asked."""
    from cryptography.hazmat.primitives import serialization as forms

    made = forms.load_pem_private_key(key, None)
    return made.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.BestAvailableEncryption(b"password"))


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_logged_and_sighup_ends_nothing(tmp_path, end):
    """Start, reading and stop have a line each, with their signal; no line has a token or a hash."""
    token, port = Tokens(tmp_path / "tokens.json").create("analyst"), free_port()
    stated = f'[serve]\nstore = "v.db"\nport = {port}\nlog = "dpi.log"\n'
    (tmp_path / "dpi.toml").write_text(stated)
    process = subprocess.Popen(
        [*PROGRAM, "serve", "--config", "dpi.toml"], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.DEVNULL
    )
    url, log = f"http://127.0.0.1:{port}", tmp_path / "dpi.log"

    def answers():
        try:
            return httpx.get(f"{url}/v1/ready").status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(answers)
        process.send_signal(signal.SIGHUP)
        until(lambda: AGAIN in log.read_text())
        (tmp_path / "dpi.toml").write_text(f"{stated}requests = 7\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: "limits have changed" in log.read_text())
        made = Tokens(tmp_path / "tokens.json").create("analyst")
        for each in (token, made):
            assert httpx.get(f"{url}/v1/streams", headers={"authorization": f"Bearer {each}"}).status_code == 200
        process.send_signal(end)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    told = lines(log.read_text())
    (started,) = [line for line in told if line["event"] == "started"]
    assert (started["host"], started["port"]) == ("127.0.0.1", port)
    reasons = [(line["event"], line["reason"]) for line in told if "reason" in line]
    assert reasons == [(AGAIN, "SIGHUP"), (AGAIN, "SIGHUP"), ("stops", end.name)]
    assert [line["limits"] for line in told if "limits" in line] == [{"requests": 7}]
    assert told[-1]["event"] == "stopped"
    secret = token.split("_", 2)[2]
    assert secret not in log.read_text()
    assert json.loads((tmp_path / "tokens.json").read_text())["tokens"][0]["hash"] not in log.read_text()
