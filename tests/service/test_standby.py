"""The database of `deploy/kubernetes` and its standby, as their files say: a lost disk loses no slot."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
import yaml

import dpi
from dpi.verification import verify
from service.conftest import free_port

MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
WORD = "of the database"


def find_container(file: str, kind: str) -> dict[str, object]:
    """The one container of a kind in the pod that a manifest starts."""
    (made,) = [each for each in yaml.safe_load_all((MANIFESTS / file).read_text()) if each["kind"] == "StatefulSet"]
    (found,) = made["spec"]["template"]["spec"][kind]
    return dict(found)


AUTHORITY = [
    "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650", "-subj",
    "/CN=dpi-postgres", "-addext", "subjectAltName=DNS:dpi-postgres",
]  # fmt: skip
"""How docs/howto-team.md has the database's certificate made."""


@dataclass
class Pair:
    """Two servers in a folder, run by a user who may run them, with the manifests' settings."""

    folder: Path
    ports: dict[str, int] = field(default_factory=lambda: {"dpi-postgres": free_port(), "dpi-standby": free_port()})
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("postgresql.conf", "pg_hba.conf"):
            self.write(name, self.here((MANIFESTS / name).read_text()))
        for name in self.ports:
            (self.folder / name / "run").mkdir(parents=True)

    def here(self, text: str, name: str = "dpi-postgres") -> str:
        """A text of the manifests with the places of this machine."""
        for place, mine in (("/etc/postgres", ""), ("/run/tls", ""), ("/data", f"/{name}")):
            text = text.replace(f"{place}/", f"{self.folder}{mine}/")
        return text.replace(
            "host=dpi-postgres ", f"host=dpi-postgres hostaddr=127.0.0.1 port={self.ports['dpi-postgres']} "
        )

    def write(self, name: str, text: str | bytes) -> None:
        """Put a file into the folder that its user alone may read."""
        (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        (self.folder / name).chmod(0o600)

    def own(self) -> None:
        """Give all files to the user who runs the servers."""
        if os.geteuid() == 0:
            for place in (self.folder, *self.folder.rglob("*")):
                shutil.chown(place, "postgres")

    def run(self, *command: str, **environment: str) -> None:
        """Run a program as that user."""
        self.own()
        user = "postgres" if os.geteuid() == 0 else None
        path = f"{PROGRAMS[-1]}{os.pathsep}{os.environ['PATH']}"
        env = {"HOME": str(self.folder), "PATH": path, "PGPASSWORD": WORD} | environment
        done = subprocess.run(command, user=user, env=env, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def start(self, name: str, file: str) -> None:
        """Start a server with the arguments of its container, and wait until it answers."""
        self.own()
        arguments = find_container(file, "containers")["args"]
        assert isinstance(arguments, list)
        socket = f"unix_socket_directories={self.folder}/{name}/run"
        said = [self.here(each) for each in arguments]
        program, data = str(PROGRAMS[-1] / "postgres"), f"{self.folder}/{name}/pgdata"
        command = [program, "-D", data, *said, "-c", f"port={self.ports[name]}", "-c", socket]
        user = "postgres" if os.geteuid() == 0 else None
        with (self.folder / f"{name}.log").open("ab") as log:
            env = {"HOME": str(self.folder), "PATH": os.environ["PATH"]}
            self.running[name] = subprocess.Popen(command, user=user, env=env, stderr=log, stdout=log, cwd=self.folder)
        self.wait(name, "SELECT true")

    def wait(self, name: str, question: str) -> None:
        """Wait until a server answers a question with true; it is asked in its own pod, without a password."""
        deadline = time.monotonic() + 60
        place = f"host={self.folder}/{name}/run port={self.ports[name]} user=dpi dbname=postgres"
        while True:
            try:
                with psycopg.connect(place, autocommit=True) as connection:
                    if connection.execute(question).fetchone() == (True,):
                        return
            except psycopg.OperationalError:
                pass
            assert time.monotonic() < deadline, "".join(path.read_text() for path in self.folder.glob("*.log"))
            time.sleep(0.05)

    def address(self, name: str, **more: str) -> str:
        """Where the service finds its store, by TLS, with the name that the certificate has."""
        said = {"schema": "dpi", "hostaddr": "127.0.0.1", "sslmode": "verify-full", "password": WORD} | more
        query = "&".join(f"{key}={value.replace(' ', '%20')}" for key, value in said.items())
        return f"postgresql://dpi@dpi-postgres:{self.ports[name]}/dpi?{query}&sslrootcert={self.folder}/ca.crt"


@pytest.fixture
def pair() -> Iterator[Pair]:
    """The database of the manifests, made as its image makes it, and its standby."""
    if not PROGRAMS:
        pytest.skip("needs the programs of a PostgreSQL server")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made = Pair(Path(folder))
        subprocess.run(
            ["/usr/bin/openssl", "req", *AUTHORITY, "-keyout", f"{folder}/tls.key", "-out", f"{folder}/tls.crt"],
            check=True, capture_output=True,
        )  # fmt: skip
        (made.folder / "tls.key").chmod(0o600)
        shutil.copy(made.folder / "tls.crt", made.folder / "ca.crt")
        made.write("password", WORD)
        data = f"{folder}/dpi-postgres/pgdata"
        made.run(
            "initdb",
            "-D",
            data,
            "-U",
            "dpi",
            "--pwfile",
            f"{folder}/password",
            "--auth",
            "scram-sha-256",
            "--encoding",
            "UTF8",
        )
        try:
            made.start("dpi-postgres", "postgres.yaml")
            # What makes the database waits for no standby, which is not there yet.
            made.run(
                "createdb",
                "-h",
                f"{folder}/dpi-postgres/run",
                "-p",
                str(made.ports["dpi-postgres"]),
                "-U",
                "dpi",
                "dpi",
            )
            copy = find_container("standby.yaml", "initContainers")
            (script,), env = copy["args"], {each["name"]: each.get("value", "") for each in copy["env"]}
            place = {"DATABASE": made.here(env["DATABASE"]), "PGDATA": made.here(env["PGDATA"], "dpi-standby")}
            made.run("/bin/sh", "-ec", script, **place)
            made.start("dpi-standby", "standby.yaml")
            made.wait("dpi-postgres", "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
            yield made
        finally:
            for each in made.running.values():
                each.kill()
                each.wait()


def open_stream(pair: Pair, name: str, folder: Path) -> dpi.Stream:
    """The stream in the store of a server, with its key and its witness."""
    store = dpi.open_store(pair.address(name), key_file=folder / "key", witness=folder / "witness")
    return dpi.Stream(
        domain=dpi.Categories(["a", "b"]), epsilon=1, slot="1h", start="2026-01-01", store=store, name="visits"
    )


def release(stream: dpi.Stream) -> None:
    """Release the next hour with events of a few users."""
    users = [f"user {each}" for each in range(50)]
    stream.release(users, ["a"] * 50)


def test_the_standby_takes_over_with_every_slot(pair, tmp_path) -> None:
    """The database is killed and its disk is gone: the witness finds nothing missing, and the next slot is released."""
    stream = open_stream(pair, "dpi-postgres", tmp_path)
    for _ in range(4):
        release(stream)
    before = stream.store.head()
    pair.running["dpi-postgres"].kill()
    pair.running["dpi-postgres"].wait()
    stream.store.close()
    shutil.rmtree(pair.folder / "dpi-postgres" / "pgdata")
    pair.run("pg_ctl", "promote", PGDATA=f"{pair.folder}/dpi-standby/pgdata")
    pair.wait("dpi-standby", "SELECT NOT pg_is_in_recovery()")
    again = open_stream(pair, "dpi-standby", tmp_path)
    assert again.store.head() == before
    release(again)
    found = verify(again.store)
    assert found.whole
    assert not [link for link in again.store.links() if link.entry["kind"] == "restored"]
    again.store.close()


def test_the_database_is_reached_by_tls_alone(pair) -> None:
    """Without it, or with another certificate, no password is asked for."""
    with pytest.raises(psycopg.OperationalError, match="no pg_hba"):
        psycopg.connect(pair.address("dpi-postgres", sslmode="disable").replace("schema=dpi&", ""))
    with pytest.raises(psycopg.OperationalError, match="certificate"):
        psycopg.connect(
            pair.address("dpi-postgres").replace("schema=dpi&", "").replace("@dpi-postgres:", "@elsewhere:")
        )
