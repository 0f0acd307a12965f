"""Events of OpenLineage: what its schema asks for, what its own client sends, and nothing but what was released."""

import json
import os
import re
import threading
import uuid
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import jsonschema
import pytest

import dpi
from dpi.report.lineage import make_events, run_id, to_line
from equal_releases import force_equal_releases
from made_releases import releases

pytest.importorskip("openlineage.client", reason="needs openlineage-python (the extra lineage)")

ROOT = Path(__file__).parents[2]
PUBLISHED = os.environ.get("DPI_OPENLINEAGE_SCHEMA")
"""A copy of https://openlineage.io/spec/2-0-2/OpenLineage.json, where there is one."""


def make(store, users=("ada", "bob"), slots=3):
    """A stream of some hours of a store."""
    with dpi.Stream(
        domain=dpi.Categories(["a", "b"]), epsilon=1, slot="1h", start="2026-01-01", store=store, name="visits"
    ) as stream:
        for _ in range(slots):
            stream.release(list(users), ["a"] * len(users))
    return dpi.open(store)


@pytest.fixture
def events():
    """Events of three releases, as they are written."""
    stored = make(dpi.MemoryStore())
    return [json.loads(to_line(event)) for release in stored for event in make_events(release, stored.slots)]


def facets(event):
    """All facets of an event."""
    holders = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    return [facet for holder in holders for facet in holder.get("facets", {}).values()]


def test_events_have_what_the_specification_requires(events):
    """Of every run a START and a COMPLETE; ids, times and names in their forms; facets say who made them, and how."""
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * 3
    for event in events:
        assert re.fullmatch(
            r"https://openlineage\.io/spec/2-\d-\d/OpenLineage\.json#/\$defs/RunEvent", event["schemaURL"]
        )
        assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
        assert str(uuid.UUID(event["run"]["runId"])) == event["run"]["runId"]
        for named in (event["job"], *event["inputs"], *event["outputs"]):
            assert isinstance(named["namespace"], str)
            assert isinstance(named["name"], str)
        assert all(facet["_producer"] == event["producer"] for facet in facets(event))
        assert all(re.match(r"(https:|urn:)\S+$", facet["_schemaURL"]) for facet in facets(event))
    assert len({event["run"]["runId"] for event in events}) == 3


@pytest.mark.skipif(PUBLISHED is None, reason="set DPI_OPENLINEAGE_SCHEMA to a copy of the published OpenLineage.json")
def test_events_are_valid_by_the_published_schema(events):
    """With formats of ids, times and addresses; and one that is spoilt is not."""
    schema = json.loads(Path(str(PUBLISHED)).read_text("utf-8"))
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    for event in events:
        assert [error.message for error in checker.iter_errors(event)] == []
        assert not checker.is_valid(event | {"run": {"runId": "mine"}})
        assert not checker.is_valid(event | {"job": {"name": "visits"}})
        del event["run"]["facets"]["nominalTime"]["_producer"]
        assert not checker.is_valid(event)


def test_a_release_tells_what_it_cost_and_who_vouches_for_it():
    """ε and certificate as a facet, by a schema of ours; the version of the table is the certificate."""
    stored = make(dpi.MemoryStore())
    release = stored.newest
    begun, done = (json.loads(to_line(event)) for event in make_events(release, stored.slots))
    assert begun["outputs"] == []
    (table,) = done["outputs"]
    found = table["facets"]
    schema = json.loads((ROOT / "docs" / "_static" / "PrivacyDatasetFacet.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema)
    assert list(checker.iter_errors(found["dpi_privacy"])) == []
    assert not checker.is_valid(found["dpi_privacy"] | {"users": 2})
    assert found["dpi_privacy"]["epsilonSpentAtMost"] == release.epsilon_spent
    assert found["dpi_privacy"]["certificate"]["digest"] == release.certificate["digest"]
    assert found["version"]["datasetVersion"] == release.certificate["digest"]
    assert [field["name"] for field in found["schema"]["fields"]] == [*stored.table().columns, "certificate"]
    assert done["run"]["facets"]["nominalTime"]["nominalStartTime"] == release.start_text
    assert done["eventTime"] == stored.slots.start(release.slot + 1).isoformat()
    assert (done["job"]["name"], table["name"], done["inputs"][0]["name"]) == ("visits", "visits", "visits.events")


def test_its_own_client_sends_them():
    """Over HTTP to a server, as it would to a catalogue; what arrives is what was made."""
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    got = []

    class Catalogue(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            self.send_response(201)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *said):
            pass

    stored = make(dpi.MemoryStore(), slots=1)
    made = make_events(stored.newest, stored.slots)
    with HTTPServer(("127.0.0.1", 0), Catalogue) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        transport = HttpTransport(HttpConfig(url=f"http://127.0.0.1:{server.server_port}"))
        client = OpenLineageClient(transport=transport)
        for event in made:
            client.emit(event)
        client.close()
        server.shutdown()
    assert [path for path, _ in got] == ["/api/v1/lineage"] * 2
    sent = [{key: body[key] for key in ("eventType", "eventTime", "outputs", "producer")} for _, body in got]
    assert sent == [{key: json.loads(to_line(event))[key] for key in sent[0]} for event in made]
    assert {body["run"]["runId"] for _, body in got} == {run_id(stored.newest)}


def test_equal_releases_give_equal_events(monkeypatch):
    """Whoever is in the stream."""
    force_equal_releases(monkeypatch)
    lines = []
    for users in (["ada", "bob"], ["ada", "bob", *["eve"] * 300]):
        stored = make(dpi.MemoryStore(), users)
        lines.append([to_line(event) for release in stored for event in make_events(release, stored.slots)])
    assert lines[0] == lines[1]


def test_a_stream_without_a_clock_has_no_events():
    """An event has a time."""
    (release,) = releases(dpi.Categories(["a"]), 1, clock=False)
    with pytest.raises(dpi.OptionError, match="no clock"):
        make_events(release, None)


def test_a_file_of_events_grows(cli, visits):
    """Twice two lines for each release, added once; a file of something else, or of another store, stays as it is."""
    run = ["run", *visits, "--from", "2026-01-01", "--store", "visits.db"]
    cli(*run, "--to", "2026-01-01T02:00")
    words = ["export", "visits.db", "events.ndjson", "--as", "openlineage"]
    assert cli.json(*words)["added"] == 2
    before = Path("events.ndjson").read_bytes()
    assert {json.loads(line)["job"]["name"] for line in before.splitlines()} == {"stream"}  # which has no name
    cli(*run, "--to", "2026-01-01T05:00")
    assert cli.json(*words)["added"] == 3
    after = Path("events.ndjson").read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 10
    assert cli.json(*words)["added"] == 0
    with dpi.open("visits.db") as stored:
        assert [json.loads(line)["run"]["runId"] for line in after.splitlines()[::2]] == [run_id(r) for r in stored]
    Path("more.ndjson").write_bytes(after + after[-200:])
    Path("cut.ndjson").write_bytes(after[:-30])
    for name in ("more.ndjson", "cut.ndjson"):
        assert "something else" in cli("export", "visits.db", name, "--as", "openlineage", code=2)
    cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T02:00", "--store", "other.db")
    assert "something else" in cli("export", "other.db", "events.ndjson", "--as", "openlineage", code=2)
    Path("odd.ndjson").write_text("{}\n")
    assert "something else" in cli("export", "visits.db", "odd.ndjson", "--as", "openlineage", code=2)
    assert "ends in .ndjson" in cli("export", "visits.db", "events.json", "--as", "openlineage", code=2)
    assert Path("events.ndjson").read_bytes() == after
