"""A pilot, played through on the command line: what an operator does to a service in a month, and sees at each step.

Thirty slots of a second stand for the days. A producer sends all the while, another one sends rows with wrong columns.
The service is killed, reads its tokens again, ends, and goes on from a copy that lacks released slots.
"""

import json
import signal
import subprocess
import threading
from datetime import UTC, datetime, timedelta

import httpx
import pytest

import dpi
from cli_files import ENVIRONMENT, PROGRAM
from dpi.errors import OptionError, StoreError
from service.conftest import free_port
from service.receivers import until

SLOTS = 30
WRONG = b'{"usr": "eve", "time": "2026-01-01", "value": "home"}\n' * 20


class Pilot:
    """A folder with a service, its tokens, and a producer that sends until the end."""

    def __init__(self, folder):
        self.folder, self.url = folder, f"http://127.0.0.1:{(port := free_port())}"
        begin = datetime.now(UTC).replace(microsecond=0)
        (folder / "pages.txt").write_text("home\nsearch\n")
        (folder / "dpi.toml").write_text(
            f'[serve]\nstore = "visits.db"\nport = {port}\nlog = "dpi.log"\n\n[streams.visits]\ndomain = "pages.txt"\n'
            f'epsilon = 1\nper-slot = 0.01\nslot = "1s"\nfrom = "{begin.isoformat()}"\n'
        )
        self.tokens = {name: self.make_token(name, name) for name in ("curator", "analyst")}
        self.stop, self.sent, self.refused = threading.Event(), 0, list[str]()
        self.producer = threading.Thread(target=self.send, daemon=True)
        self.service = None

    def dpi(self, *words, code=0):
        """What a command prints."""
        command = [*PROGRAM, *words]
        done = subprocess.run(command, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    def make_token(self, role, name):
        """A token, from the file that the command writes."""
        self.dpi("serve", "token", "create", "--role", role, "--name", name, "--out", f"{name}.token")
        return (self.folder / f"{name}.token").read_text().strip()

    def serve(self):
        """Start, and wait until the service leads."""
        command = [*PROGRAM, "serve", "--config", "dpi.toml"]
        self.service = subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        assert until(self.answers, 60)

    def answers(self):
        """Whether it takes requests."""
        try:
            return httpx.get(f"{self.url}/v1/ready").status_code == 200
        except httpx.TransportError:
            return False

    def end(self, number):
        """Send a signal; the exit code."""
        self.service.send_signal(number)
        return self.service.wait(60)

    def send(self):
        """Send two users' events again and again, through whatever happens to the service."""
        with dpi.connect(self.url, self.tokens["curator"], patience=600.0) as service:
            stream = service.stream("visits", producer="gate")
            while not self.stop.wait(0.1):
                now = datetime.now(UTC) - timedelta(milliseconds=1)
                try:
                    stream.append(["ada", "bob"], [now, now], ["home", "search"])
                    self.sent += 1
                except OptionError as error:  # of a copy that lacks batches: it asks where to go on
                    self.refused.append(str(error))
                    stream = service.stream("visits", producer="gate")
                except StoreError:
                    return  # the service has ended for good

    def post(self, path, **given):
        """What a wrong producer is answered."""
        headers = {"authorization": f"Bearer {self.tokens['curator']}", "content-type": "application/x-ndjson"}
        return httpx.post(f"{self.url}/v1/streams/visits/{path}", params=given, content=WRONG, headers=headers).json()

    def get(self, path, role="analyst"):
        """An answer of the service."""
        return httpx.get(f"{self.url}/v1/{path}", headers={"authorization": f"Bearer {self.tokens[role]}"})

    def reach(self, more):
        """Wait for so many further releases."""
        goal = self.released() + more
        assert until(lambda: self.released() >= goal, 60)

    def released(self):
        """How many slots were released, those that a copy lacks among them."""
        found = self.get("streams/visits").json()
        return 0 if found["newest"] is None else found["newest"] - found["first"] + 1

    def logged(self, **facts):
        """The lines of the log that state some facts."""
        found = map(json.loads, (self.folder / "dpi.log").read_text().splitlines())
        return [line for line in found if facts.items() <= line.items()]


@pytest.fixture
def pilot(tmp_path):
    """A pilot that is not begun; what is left of it ends with the test."""
    found = Pilot(tmp_path)
    yield found
    found.stop.set()
    if found.service is not None:
        found.service.kill()
        found.service.wait()


def test_a_pilot(pilot):
    """Each step as it is documented, and what an operator sees of it; at its end the chain is whole."""
    # The first days: one line says that it serves; `top` shows the stream, and nobody who sends wrongly.
    pilot.serve()
    pilot.producer.start()
    pilot.reach(5)
    top = ("serve", "top", pilot.url, "--token-file", "curator.token", "--every", "0")
    assert len(pilot.logged(event="started")) == 1
    assert "lack a column" not in pilot.dpi(*top)

    # A wrong producer: it is told, `top` names its token, and analysts see nothing of it.
    told = {"understood": "none", "missing": ["user"], "in_time": "none"}
    assert pilot.post("events/check") == told
    assert told.items() <= pilot.post("events", producer="door", sequence=0).items()
    token = pilot.tokens["curator"].split("_")[1]
    assert f"most rows that token {token} has sent of late lack a column, or are not in time." in pilot.dpi(*top)
    assert (pilot.get("operations").status_code, pilot.get("operations", "curator").status_code) == (403, 200)

    # A copy, days that it lacks, and kill -9: no batch is lost or counted twice, no slot is left out.
    assert "it holds accounts and events of open slots" in pilot.dpi("backup", "visits.db", "copy.db")
    pilot.reach(5)
    pilot.end(signal.SIGKILL)
    sent = pilot.sent
    pilot.serve()
    assert until(lambda: pilot.sent > sent + 2, 60)
    pilot.reach(5)
    assert (len(pilot.logged(event="started")), pilot.logged(event="stops")) == (2, [])

    # A new token, SIGHUP, and an orderly end: each has its line in the log.
    pilot.tokens["later"] = pilot.make_token("analyst", "later")
    pilot.service.send_signal(signal.SIGHUP)
    assert until(lambda: pilot.logged(reason="SIGHUP"), 60)
    assert pilot.get("streams", "later").status_code == 200
    assert pilot.end(signal.SIGTERM) == 0
    assert pilot.logged(event="stops", reason="SIGTERM")

    # The disk is lost. The old copy is refused, and taken if every account is charged for the days that it lacks.
    (pilot.folder / "visits.db").unlink()
    for beside in pilot.folder.glob("visits.db-*"):
        beside.unlink()
    restore = ("backup", "restore", "copy.db", "visits.db", "--witness", "visits.db.witness")
    assert "the store is an old copy" in pilot.dpi(*restore, code=3)
    assert "the chain of this store is signed" in pilot.dpi(*restore, "--charge-lost", code=2)
    charged = pilot.dpi(*restore, "--charge-lost", "--sign", "signing.pem")
    assert "Every account was charged for the slots that the backup lacks" in charged
    sent = pilot.sent
    assert pilot.refused == []
    pilot.serve()
    assert until(lambda: pilot.sent > sent + 2, 60)
    assert len(pilot.refused) == 1  # batches that were acknowledged since the copy are lost, and the producer is told
    assert until(lambda: pilot.released() >= SLOTS, 60)

    # The month is over: an analyst checks all of it; the chain says what was lost.
    pilot.stop.set()
    pilot.producer.join(60)
    assert pilot.end(signal.SIGTERM) == 0
    pilot.dpi("export", "visits.db", "public.db")
    said = pilot.dpi("verify", "public.db")
    assert "The chain is whole. Releases are missing, and cannot be checked." in said
    assert "from an older copy" in said
    assert "The chain is whole." in pilot.dpi("verify", "visits.db", "--curator")
