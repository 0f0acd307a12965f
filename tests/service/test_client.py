"""The client mirrors a stream and its reader, and a batch that is sent again counts once."""

import socket
import threading

import polars as pl
import pytest

import dpi
from serving import BEGIN, FIRST, MOMENT, SECOND, running, settings


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A service with three releases."""
    with running(tmp_path_factory.mktemp("client"), now=MOMENT + 5 * SECOND) as found:
        with found.connect("curator") as service:
            service.stream("visits").append(["ada", "bob"], [BEGIN, BEGIN], ["home", "search"])
        found.set(31)
        yield found


def test_it_reads_what_the_store_holds(shop):
    """Releases by number, time and slice, tables, questions: the same as `dpi.open` gives."""
    with shop.connect("analyst") as service:
        assert service.streams == ("visits",)
        stream, stored = service.stream(), dpi.open(shop.service.store, "visits")
        assert list(stream) == list(stored)
        assert len(stream) == 3
        assert stream[FIRST] == stored[FIRST] == stream["2026-01-01T00:00:05Z"]
        assert stream.newest == stored.newest
        assert list(stream[FIRST + 1 :]) == list(stored[FIRST + 1 :])
        assert FIRST in stream
        assert FIRST + 9 not in stream
        assert stream.to_polars().equals(stored.to_polars())
        assert stream.next_slot == FIRST + 3
        assert stream.guarantee == shop.service.guarantees["visits"]
        assert repr(stream) == f"Releases('visits': 3 of the slots {FIRST} … {FIRST + 2})"
        (answer,) = stream.ask("top", k=1, slot=FIRST)
        assert answer["rows"][0]["label"] == stored[FIRST].top(1)[0][0]
        assert [each["slot"] for each in stream.ask("total", first=FIRST, end=FIRST + 2)] == [FIRST, FIRST + 1]


def test_it_follows(shop):
    """What is there, and what comes, each once."""
    with shop.connect("analyst") as service:
        following, stop = service.stream().follow(since=FIRST), threading.Event()
        assert [next(following).slot for _ in range(2)] == [FIRST + 1, FIRST + 2]
        following.close()
        stop.set()
        assert list(service.stream().follow(stop=stop)) == []


def test_an_auditor_verifies_without_believing_the_service(shop, tmp_path):
    """On an export, which is written once."""
    with shop.connect("auditor") as service:
        assert service.verify().intact
        service.export(tmp_path / "public.db")
        with pytest.raises(FileExistsError):
            service.export(tmp_path / "public.db")
        with pytest.raises(dpi.OptionError, match="another role"):
            list(service.stream())


def test_it_opens_and_changes_streams(tmp_path):
    """With the names of dpi.toml; what is refused is said in words."""
    with running(tmp_path) as found, found.connect("admin") as service, found.connect("another admin") as second:
        more = {"epsilon": 1, "slot": "10s", "begin": BEGIN, "per_slot": "0.1", "separate": True}
        with pytest.raises(dpi.OptionError, match="waits for another administrator"):
            second.create("ages", domain=dpi.Bins([0, 18]), **more)
        stream = service.create("ages", domain=dpi.Bins([0, 18]), **more)
        assert len(stream) == 0
        service.change("ages", domain=dpi.Bins([0, 18]), **(more | {"per_slot": "0.2", "change": "2026-01-02T00:00"}))
        assert len(found.service.store.options("ages").entries) == 2
        with pytest.raises(dpi.OptionError, match="a stream of this name"):
            service.create("ages", domain=dpi.Bins([0, 18]), **more)
        with pytest.raises(dpi.OptionError, match="unknown option `colour`"):
            service.create("other", domain=dpi.Bins([0, 18]), **more, colour="red")


def test_columns_of_any_library(tmp_path):
    """Series, lists, products and numbers with a unit; batches that are too large are split."""
    pairs = dpi.Product(land=dpi.Categories(["DE", "FR"]), age=dpi.Bins([18]))
    with running(tmp_path, settings(domain=pairs), body=6000, now=MOMENT + 5 * SECOND) as found:
        service = found.connect("curator")
        stream = service.stream("visits", producer="gate")
        users = [f"user {number}" for number in range(400)]
        values = {"land": ["DE", "FR"] * 200, "age": pl.Series([20, None] * 200)}
        stream.append(users, [MOMENT] * 400, values, unit="us")
        assert int(found.service.store.events("visits", FIRST).counts.sum()) == 200
        last = found.service.store.sequence("visits", "gate")
        assert last > 2
        again = service.stream("visits", producer="gate")
        again.append(["new"], pl.Series([BEGIN]).str.to_datetime(), {"land": ["DE"], "age": [3]})
        assert found.service.store.sequence("visits", "gate") == last + 1
        with pytest.raises(dpi.OptionError, match="same number of rows"):
            again.append(["a", "b"], [BEGIN], {"land": ["DE"], "age": [3]})
        service.close()


class Lossy:
    """A wire that carries a request to the service, and loses the answers to the first ones."""

    def __init__(self, port, lost):
        self.lost, self._to = lost, port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                here, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(here,), daemon=True).start()

    def _carry(self, here):
        with here, socket.create_connection(("127.0.0.1", self._to)) as there:
            threading.Thread(target=self._back, args=(there, here), daemon=True).start()
            try:
                while part := here.recv(1 << 16):
                    there.sendall(part)
            except OSError:
                return

    def _back(self, there, here):
        try:
            while part := there.recv(1 << 16):
                if b"kept" in part and self.lost:
                    self.lost -= 1
                    here.shutdown(socket.SHUT_RDWR)
                    return
                here.sendall(part)
        except OSError:
            return

    def close(self):
        """No more."""
        self._socket.close()


def test_a_lost_answer_is_asked_for_again_and_counts_once(tmp_path):
    """The batch was kept, and nobody heard of it: it is sent again, and is the same one."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        wire = Lossy(int(found.url.rpartition(":")[2]), lost=2)
        with dpi.connect(f"http://127.0.0.1:{wire.port}", found.tokens["curator"], patience=20.0) as service:
            stream = service.stream("visits")
            for number in range(3):
                stream.append([f"user {number}"], [BEGIN], ["home"])
        assert wire.lost == 0
        wire.close()
        assert found.service.store.events("visits", FIRST).counts.tolist() == [1, 1, 1]


def test_a_service_that_is_away_is_waited_for_and_then_told():
    """For as long as patience lasts."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(dpi.StoreError, match="cannot be reached"), dpi.connect(
        f"http://127.0.0.1:{port}", "dpi_x_y", patience=0.3
    ) as service:  # fmt: skip
        assert service.streams


def test_the_missing_extra_is_named(monkeypatch):
    """Without httpx the client says what to install."""
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(dpi.OptionError, match=r"pip install .*'httpx"):
        dpi.connect("http://127.0.0.1:1", "x")
