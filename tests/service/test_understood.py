"""A producer is told what of its own batch was not understood, and nothing else; everybody else is told nothing of it.

What it is told follows from the batch, from when it came and from public options: never from accounts or other batches.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.events.slots import FOR_EVER, Slots, Window
from dpi.service._batch_reader import COLUMNS, LINES
from dpi.sources import Admission, Events
from service.batches import arrow
from serving import FIRST, MOMENT, SECOND, kept, running, settings

EVENTS = "/v1/streams/visits/events"
LISTED = dpi.Categories(["home", "search"], other=None)
POISON = "poison-7f3a"
GOOD = {"user": "ada", "time": MOMENT + SECOND, "value": "home"}


def lines(*rows):
    """A body of lines: texts as they are, and rows as JSON."""
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()


def post(found, body, path=EVENTS, kind=LINES, **given):
    """The answer to a body."""
    headers = {"content-type": kind}
    return found.client("curator").post(path, params={"unit": "us", **given}, content=body, headers=headers)


BATCHES = [
    (lines(GOOD), "all", [], "all"),
    (b"", "all", [], "all"),
    (b"\n \n\r\n", "all", [], "all"),
    (lines("garbage"), "none", ["user", "time", "value"], "none"),
    (lines({"usr": "a"}), "none", ["user", "time", "value"], "none"),
    (lines({"usr": "a"}, GOOD, "[]", "", GOOD), "most", ["user", "time", "value"], "most"),
    (lines({"usr": "a"}, GOOD, "[]"), "few", ["user", "time", "value"], "few"),
    (lines(GOOD | {"user": None}, GOOD), "most", ["user"], "all"),
    (lines(GOOD | {"user": ""}), "none", ["user"], "all"),
    (lines(GOOD | {"user": POISON * 200}), "none", ["user"], "all"),
    (lines(GOOD | {"time": POISON}, GOOD | {"user": None}), "none", ["user", "time"], "most"),
    (lines(GOOD | {"value": POISON}), "none", ["value"], "all"),
    (lines(GOOD | {"time": MOMENT - 10**9}, GOOD | {"time": MOMENT + 10**12}), "all", [], "none"),
    (lines(GOOD | {"time": MOMENT // SECOND}), "all", [], "none"),  # another unit
    (lines(GOOD | {"time": 1000 * MOMENT}), "none", ["time"], "none"),
    (lines("x" * 20_000, GOOD), "most", ["user", "time", "value"], "most"),
    (b'{"user": "\xff"}\n' + lines(GOOD), "most", ["user", "time", "value"], "most"),
]
"""Bodies, how many of their rows are understood, what some lack, and how many are in time."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A service with one open slot, and a domain without a bin for other values."""
    with running(tmp_path_factory.mktemp("told"), settings(domain=LISTED), now=MOMENT + 5 * SECOND) as made:
        yield made


@pytest.mark.parametrize(("body", "understood", "missing", "in_time"), BATCHES)
def test_a_producer_is_told_what_was_not_understood(found, body, understood, missing, in_time):
    """By a word and names of columns, never by a value or a number; a check says the same."""
    told = {"understood": understood, "missing": missing, "in_time": in_time}
    checked = post(found, body, f"{EVENTS}/check")
    assert (checked.status_code, checked.json()) == (200, told)
    following = found.service.store.sequence("visits", "gate") + 1
    for slot in (FIRST, None):
        answer = post(found, body, producer="gate", sequence=following)
        late = {"in_time": None} if slot is None else {}
        assert (answer.status_code, answer.json()) == (200, {"kept": True, "slot": slot, **told, **late})
        assert POISON not in answer.text


def test_a_check_keeps_nothing(tmp_path):
    """No row, no number of a producer, no batch in the metrics, no sign of life of a stream."""
    with running(tmp_path, now=MOMENT + 35 * SECOND) as found:
        found.closed()
        told = post(found, lines(GOOD | {"time": MOMENT + 31 * SECOND}), f"{EVENTS}/check").json()
        assert (told["understood"], told["in_time"]) == ("all", "all")
        assert found.service.store.events("visits", FIRST + 3).counts.size == 0
        assert found.service.receipts.settled("visits", MOMENT + 35 * SECOND)
        found.set(70)
        (shown,) = found.client("curator").get("/v1/operations").json()["streams"]
        assert (shown["arrivals"], shown["silent"]) == ({"kept": 0, "refused": 0, "bytes": 0}, True)
        assert found.client("admin").delete("/v1/streams/visits").status_code == 200
        assert post(found, lines(GOOD), f"{EVENTS}/check").status_code == 410


def test_a_missing_value_is_told_where_it_counts_as_other(tmp_path):
    """A misspelt column would make everything `other`; a value that is not listed is one all the same."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        for row, missing in ({"val": "home"}, ["value"]), ({"value": None}, ["value"]), ({"value": "nowhere"}, []):
            told = post(found, lines({"user": "ada", "time": MOMENT} | row), f"{EVENTS}/check").json()
            assert (told["understood"], told["missing"]) == ("none" if missing else "all", missing)
        for body in (b"garbage", b'{"usr": "a"}'):
            assert post(found, body, f"{EVENTS}/check").json()["missing"] == ["user", "time", "value"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [(b"garbage", COLUMNS, 422), (b'{"user": ["a"], "time": [0]}', COLUMNS, 422), (b"garbage", "text/csv", 415)],
)
def test_a_check_refuses_what_is_no_batch(found, body, kind, status):
    """As the batch itself would be."""
    checked, sent = (
        post(found, body, f"{EVENTS}/check", kind),
        post(found, body, EVENTS, kind, producer="p", sequence=0),
    )
    assert checked.status_code == sent.status_code == status
    assert checked.json()["detail"] == sent.json()["detail"]


def test_the_three_forms_are_told_the_same(found):
    """Columns, lines and Arrow."""
    table = {"user": ["ada", None, "eve"], "time": [MOMENT] * 3, "value": ["home", "home", "nowhere"]}
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    bodies = [
        (json.dumps(table).encode(), COLUMNS), (lines(*rows), LINES),
        (arrow(table), "application/vnd.apache.arrow.stream"),
    ]  # fmt: skip
    for body, kind in bodies:
        told = post(found, body, f"{EVENTS}/check", kind).json()
        assert told == {"understood": "few", "missing": ["user", "value"], "in_time": "all"}, kind


def test_the_answer_depends_on_no_account_or_other_batch(tmp_path):
    """With empty accounts, and after a flood of others, it is the same; of the clock, but for what is in time."""
    body, told = lines(GOOD, GOOD | {"user": None}, GOOD | {"value": "nowhere"}), []
    with running(tmp_path, settings(per_slot="1", domain=LISTED), now=MOMENT + 5 * SECOND) as found:
        told.append(post(found, body, producer="a", sequence=0).json())
        assert found.send([("eve", 1.0, "home")] * 2000, 0, "eve").json() == kept(FIRST)
        told.append(post(found, body, producer="b", sequence=0).json())
        found.set(12)  # now the slot is closed, and the account of ada is empty
        told.append(post(found, body, producer="c", sequence=0).json())
        told.append(post(found, body, producer="c", sequence=0).json())
    assert [each.pop("slot") for each in told] == [FIRST, FIRST, FIRST + 1, None]
    assert [each.pop("in_time") for each in told] == ["all", "all", "none", None]
    assert told == [{"kept": True, "understood": "few", "missing": ["user", "value"]}] * 4


def test_the_client_names_columns_that_were_not_understood(tmp_path):
    """Of all batches into which events were split together."""
    options = {"body": 6000, "now": MOMENT + 5 * SECOND}
    with running(tmp_path, settings(domain=LISTED), **options) as found, found.connect("curator") as service:
        stream, values = service.stream("visits"), ["nowhere", *["home"] * 399]
        assert stream.append([*range(399), None], [MOMENT] * 400, values, unit="us") == ("user", "value")
        assert stream.append(["ada"], [MOMENT], ["home"], unit="us") == ()
        assert stream.append(["ada"], [MOMENT], ["home"], unit="ms") == ("time",)
        assert found.service.store.sequence("visits", stream.producer) > 2


def test_numbers_of_rows_are_for_operators_alone(tmp_path):
    """They are made of events: in the metrics, which no analyst and no auditor reads."""
    with running(tmp_path, now=MOMENT + 5 * SECOND) as found:
        late = GOOD | {"time": MOMENT // SECOND}
        for _ in range(2):  # once more, which counts nothing
            assert post(found, lines(GOOD, "garbage", late, GOOD), producer="gate", sequence=0).status_code == 200
        shown = found.client("curator").get("/v1/metrics").text
        assert 'dpi_rows_total{stream="visits",usable="true"} 2.0' in shown
        assert 'dpi_rows_total{stream="visits",usable="false"} 2.0' in shown
        assert "gate" not in shown
        for role in ("analyst", "auditor"):
            assert found.client(role).get("/v1/metrics").status_code == 403


SLOTS, HOUR = Slots("1h"), 3600
cells = st.tuples(
    st.sampled_from(["ada", "bob", " ", "", None, "x" * 2000, 7, 1e300]),
    st.one_of(st.integers(-2, 5).map(lambda hour: hour * HOUR), st.sampled_from([None, "soon", 10**18])),
    st.sampled_from(["a", "b", "c", "", None]),
)
CHANGED = dpi.options.schedule.Schedule.of(dpi.Categories(["a"], other=None)).changed(
    2, dpi.Categories(["b"], other=None)
)
JUDGES = [
    Admission(SLOTS, domain, bytes(32), first, ids=ids)
    for domain in (LISTED, dpi.Categories(["a", "b"], other=None), dpi.Categories(["a"]), dpi.Bins([1]), CHANGED)
    for first, ids in ((0, "exact"), (2, "nfc-strip"))
]


@given(st.lists(cells, max_size=6), st.integers(0, 4), st.integers(0, 5), st.sampled_from(JUDGES))
def test_each_row_is_judged_by_itself_and_counts_as_ever(table, first, until, admission):
    """All rows together are told what each alone is, whatever the window; as much is kept as without telling."""

    def understood(rows):
        return admission.understand(events(rows), window)

    def events(rows):
        users, times, values = ([row[at] for row in rows] for at in range(3))
        return Events(users, times, values, "s")

    window = Window(first, until * HOUR * SECOND)
    rows, told = understood(table)
    alone = [understood([row])[1] for row in table]
    for name in ("understood", "timely", "usable"):
        assert getattr(told, name) == sum(getattr(each, name) for each in alone)
    of_ever = admission.understand(events(table), FOR_EVER)[1]
    assert (told.rows, told.understood, told.missing) == (len(table), of_ever.understood, of_ever.missing)
    assert told.usable <= rows.counts.sum()
    assert set(told.missing) == {name for each in alone for name in each.missing}
    assert (told.share == "all") == (told.missing == ())
    plain = admission.keep(events(table), window)
    assert all(map(np.array_equal, (rows.names, rows.slots, rows.bins, rows.counts),
                   (plain.names, plain.slots, plain.bins, plain.counts)))  # fmt: skip
