"""Logs, metrics and errors of a service hold nothing that came in with an event; the log of acts cannot be changed."""

from __future__ import annotations

import json
import logging
import os
import threading

import pytest

from dpi.errors import OptionError, StateError, StoreError
from dpi.service import logs
from dpi.service.audit_log import AuditLog
from serving import BEGIN, running

POISON = "poison-7f3a"


def batches(now: str):
    """Bodies of batches, good and bad, with a poisoned id, value or time in each."""
    good = {"user": [POISON, f"{POISON}2"], "time": [now, now], "value": ["a", POISON]}
    yield "application/json", json.dumps(good).encode()
    yield "application/json", json.dumps({**good, "time": [POISON, now]}).encode()
    yield "application/json", json.dumps({**good, POISON: []}).encode()
    yield "application/json", json.dumps({**good, "user": [[POISON], {POISON: 1}]}).encode()
    yield "application/json", f'{{"user": ["{POISON}'.encode()
    yield "application/x-ndjson", f'{{"user": "{POISON}", "time": "{now}", "value": "{POISON}"}}\n{POISON}\n'.encode()
    yield "application/vnd.apache.arrow.stream", POISON.encode() * 10
    yield f"application/{POISON}", b"{}"


def test_nothing_that_came_in_is_in_logs_metrics_or_errors(tmp_path, logged, monkeypatch) -> None:
    """Ids, values, producers, paths, parameters, headers and tokens are poisoned, and so is the text of a fault."""
    said = []
    with running(tmp_path) as found:
        client, analyst = found.client("curator"), found.client("analyst")
        for index, (kind, body) in enumerate(batches(BEGIN)):
            where = {"producer": POISON, "sequence": index}
            for packing in ({}, {"content-encoding": POISON}, {"content-encoding": "gzip"}):
                given = {"content-type": kind, **packing}
                said.append(client.post("/v1/streams/visits/events", params=where, content=body, headers=given))
        paths = (
            f"/{POISON}", f"/streams/{POISON}", f"/streams/visits/releases/{POISON}",
            f"/streams/visits/answers/{POISON}", f"/streams/visits/answers/share?value={POISON}",
            f"/streams/visits/releases?first={POISON}", f"/streams/visits/releases?{POISON}=1",
        )  # fmt: skip
        said += [analyst.get(f"/v1{path}") for path in paths]
        said.append(client.get("/v1/streams", headers={"authorization": f"Bearer dpi_{POISON}_{POISON}"}))
        said.append(client.get("/v1/streams", headers={"x-poison": POISON, "cookie": POISON, "user-agent": POISON}))
        said.append(found.client("admin").post("/v1/streams", json={"name": POISON, "epsilon": POISON}))

        def fault(*_: object, **__: object) -> None:
            raise KeyError(f"a row of {POISON}")

        monkeypatch.setattr("dpi.service._decoding.read_batch", fault)
        body = {"user": [POISON], "time": ["2026-01-01"], "value": ["a"]}
        said.append(client.post("/v1/streams/visits/events", params={"producer": "p", "sequence": 0}, json=body))
        assert said[-1].status_code == 500
        found.set(12)
        metrics = client.get("/v1/metrics").text
        refused = [found.client(role).get("/v1/metrics").status_code for role in ("analyst", "auditor")]
    assert refused == [403, 403]
    for answer in said:
        if answer.request.url.path.endswith("/events"):  # a question may be said back to whoever asked it
            texts = [answer.text, *(f"{name}: {value}" for name, value in answer.headers.items())]
            assert POISON not in " ".join(texts)
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert POISON not in logged.getvalue()
    assert POISON not in metrics
    fault_line = next(line for line in lines if line["event"] == "request failed")
    assert fault_line["kind"] == "KeyError"
    assert fault_line["place"].startswith("test_logs.py:")
    assert {"closed"} <= {line["event"] for line in lines}
    assert 'dpi_batches_total{kept="true",stream="visits"}' in metrics


def test_a_line_has_known_fields_and_no_text_of_strangers(logged) -> None:
    """A field that nobody has thought about is no line; other libraries' texts and arguments are left out."""
    logging.raiseExceptions, kept = False, logging.raiseExceptions
    try:
        logs.tell("closed", user=POISON)
        assert logged.getvalue() == ""
    finally:
        logging.raiseExceptions = kept
    try:
        raise ValueError(POISON)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in %s", POISON)
    logging.getLogger("other").warning(POISON)
    logging.getLogger("uvicorn.access").warning(POISON)
    logs.failed("no slot can be closed", StoreError("the store cannot be read or written."))
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert POISON not in logged.getvalue()
    assert [line["event"] for line in lines] == ["uvicorn.error", "other", "no slot can be closed"]
    assert (lines[0]["kind"], lines[0]["place"].split(":")[0]) == ("ValueError", "test_logs.py")
    assert lines[2]["error"] == "the store cannot be read or written."


def test_acts_are_chained_and_a_change_is_found(tmp_path) -> None:
    """Lines of many threads form one chain; one that is changed, dropped, put in or moved is found, a torn one cut."""
    acts = AuditLog(tmp_path / "acts.ndjson")
    assert acts.check().sequence == -1

    def note(number: int) -> None:
        for each in range(10):
            acts.note("token created", by=f"admin {number}", about={"id": str(each)})

    threads = [threading.Thread(target=note, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert acts.check().sequence == 29
    assert [entry["sequence"] for entry in acts.entries()] == list(range(30))
    assert (tmp_path / "acts.ndjson").stat().st_mode & 0o077 == 0
    lines = acts.path.read_bytes().splitlines(keepends=True)
    bad = [
        [*lines[:5], lines[5].replace(b"admin", b"nimda"), *lines[6:]],
        [*lines[:5], *lines[6:]],
        [*lines[:5], lines[7], *lines[5:]],
        [*lines[:5], lines[6], lines[5], *lines[7:]],
        [b"{}\n", *lines],
    ]
    for changed in bad:
        acts.path.write_bytes(b"".join(changed))
        with pytest.raises(StateError, match="was changed"):
            acts.check()
    acts.path.write_bytes(b"".join(lines) + lines[3][:20])  # a crash in the middle of a line
    assert acts.check().sequence == 29
    acts.note("term lost")
    assert acts.check().sequence == 30
    with acts.path.open("ab") as file:
        file.write(b"x" * 5_000)  # longer than the line that is written in its place
    acts.note("term begun")
    assert acts.check().sequence == 31
    assert b"x" * 9 not in acts.path.read_bytes()
    with pytest.raises(ValueError, match="unknown act"):
        acts.note("something else")


def test_an_act_is_on_disk_before_it_is_answered(tmp_path, monkeypatch) -> None:
    """The file is whole when the system is asked to write it down, which is before `note` returns."""
    acts, written = AuditLog(tmp_path / "acts.ndjson"), []
    monkeypatch.setattr(os, "fsync", lambda descriptor: written.append((os.fstat(descriptor).st_size, acts.check())))
    for number in range(3):
        acts.note("term begun")
        assert written[number:] == [(acts.path.stat().st_size, acts.check())]


def test_administrative_acts_are_noted_with_who_did_them(tmp_path) -> None:
    """Opening and changing a stream by HTTP stands in the log with the token's id, for admin and auditor to read."""
    options = {"domain": ["a", "b"], "epsilon": "1", "slot": "1h", "from": "2026-01-01", "per-slot": "0.1"}
    with running(tmp_path) as found:
        admin, auditor = found.client("admin"), found.client("auditor")
        assert admin.post("/v1/streams", json={"name": "other", **options}).status_code == 201
        assert admin.put("/v1/streams/other", json={**options, "domain": ["a", "c"]}).status_code == 200
        told = auditor.get("/v1/acts").json()
        for after, acts in ((-1, told["acts"]), (0, told["acts"][1:]), (1, [])):
            assert auditor.get("/v1/acts", params={"after": after}).json() == told | {"acts": acts}
        assert auditor.get("/v1/acts", params={"after": -2}).status_code == 422
        assert [found.client(role).get("/v1/acts").status_code for role in ("analyst", "curator")] == [403] * 2
        by = next(entry.id for entry in found.service.tokens.entries() if entry.role == "admin")
    assert (told["whole"], told["head"]) == (True, 1)
    assert [(each["act"], each["by"], each["about"]["stream"]) for each in told["acts"]] == [
        ("stream opened", f"admin {by}", "other"),
        ("stream changed", f"admin {by}", "other"),
    ]


def test_a_log_of_acts_that_was_changed_says_so(tmp_path) -> None:
    """Whoever reads it by HTTP is told that it is not whole."""
    with running(tmp_path) as found:
        acts = found.service.acts
        for number in range(3):
            acts.note("token created", about={"id": str(number)})
        lines = acts.path.read_bytes().splitlines(keepends=True)
        acts.path.write_bytes(b"".join(lines[:1] + lines[2:]))
        told = found.client("auditor").get("/v1/acts").json()
        assert (told["whole"], told["head"], len(told["acts"])) == (False, -1, len(lines) - 1)


def test_a_log_that_is_renamed_is_begun_anew(tmp_path) -> None:
    """As logrotate does it: no signal, no line lost; both files are their owner's only."""
    kept, path = logging.getLogger().handlers[:], tmp_path / "dpi.log"
    try:
        logs.set_up(path=path)
        logs.tell("leads")
        path.rename(tmp_path / "dpi.log.1")
        logs.tell("closed", slot=1)
        assert [json.loads(line)["event"] for line in (tmp_path / "dpi.log.1").read_text().splitlines()] == ["leads"]
        assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["closed"]
        assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
        with pytest.raises(OptionError, match="cannot be written: No such file"):
            logs.set_up(path=tmp_path / "none" / "dpi.log")
    finally:
        for handler in logging.getLogger().handlers:
            if handler not in kept:
                handler.close()
        logging.getLogger().handlers[:] = kept
