"""What is drawn is what was released: pictures, series by the rule of thinning, changes, grids, alerts, tables."""

import io
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.apps import Watch
from dpi.service._watch_blocks import BLOCK, WatchBlocks
from serving import FIRST, MOMENT, SECOND, running, settings

PLACES = dpi.Product(page=dpi.Categories(["home", "search"]), age=dpi.Bins([20, 40]))


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Streams of pages, of ages and of both, with twenty slots each; nobody is there but in the first."""
    streams = [
        settings(),
        settings(name="ages", domain=dpi.Bins(range(0, 90, 10))),
        settings(name="places", domain=PLACES),
    ]
    with running(tmp_path_factory.mktemp("pictures"), *streams) as found:
        assert found.send([(f"user {n}", 1.0, ("home", "search")[n % 2]) for n in range(60)], 0).status_code == 200
        found.set(202)
        yield found


def ask(there, path, status=200, **given):
    """What an analyst is told."""
    answer = there.client("analyst").get(f"/v1/streams/{path}", params=given)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def releases(there):
    """The releases of pages."""
    with there.connect("analyst") as service:
        return list(service.stream("visits"))


def test_a_picture_has_the_intervals_of_its_release(there, releases):
    """Largest first, each with the interval that the release states; those that are named are there as well."""
    release = releases[3]
    found = ask(there, "visits/picture", slot=release.slot, k=1, code=[1], level=0.8)
    lower, upper = release.interval(0.8)
    rows = {row["code"]: row for row in found["rows"]}
    assert rows.keys() == {0, 1, 2} if release.pdf[0] > release.pdf[1] else {1, 2}
    assert rows[2]["other"]
    for code, row in rows.items():
        assert (row["value"], row["lower"], row["upper"]) == (release.pdf[code], lower[code], upper[code])
        assert row["name"] == release.domain.label(code)
    assert found["users"]["value"] == pytest.approx(release.total, rel=1e-7)
    assert [row["label"] for row in ask(there, "visits/picture", search="SEA", k=0)["rows"]] == ["search"]


def test_a_picture_says_when_it_was_measured(tmp_path):
    """Of users who stay, a slot carries on what was measured: share, slots and the end of that slot are stated."""
    with running(tmp_path) as found:
        for slot in range(8):
            found.clock.now = MOMENT + (10 * slot + 5) * SECOND
            rows = [(f"user {n}", 10 * slot + 1.0, ("home", "search")[n % 2]) for n in range(400)]
            assert found.send(rows, slot).status_code == 200
            found.set(10 * slot + 12)
        with found.connect("analyst") as service:
            seen = list(service.stream("visits"))
        kinds = set()
        for release in seen:
            picture = ask(found, "visits/picture", slot=release.slot)
            (answer,) = ask(found, "visits/answers/total", slot=release.slot)["answers"]
            assert (answer["carried"], answer["age"]) == (picture["carried"], picture["age"])
            assert (answer["payers"], picture["scope"]) == (False, None)
            told = picture["measured"]
            ago = round(release.measured_ago)
            end = datetime.fromtimestamp(MOMENT / 1e6 + 10 * (release.slot - FIRST + 1 - ago), UTC)
            assert told == {
                "share": release.measured, "in_slot": release.measured >= 0.5, "slots": release.measured_ago,
                "until": end.isoformat(),
            }  # fmt: skip
            kinds.add(told["in_slot"])
        assert kinds == {True, False}
        series = ask(found, "visits/series")
        assert series["measured"] == [release.measured >= 0.5 for release in seen]


def test_a_picture_of_payers_says_so_and_has_no_upper_end_of_users(tmp_path):
    """Of a price that an account pays twice, the third slot; a series has null where no upper end is known."""
    with running(tmp_path, settings(per_slot="0.5"), delay="10ms") as found:
        for slot in range(3):
            found.clock.now = MOMENT + (10 * slot + 5) * SECOND
            assert found.send([("ada", 10 * slot + 1.0, "home")], slot).status_code == 200
            found.set(10 * slot + 12)
        pictures = [ask(found, "visits/picture", slot=FIRST + slot) for slot in range(3)]
        assert [picture["scope"] is None for picture in pictures] == [True, True, False]
        assert [picture["users"]["upper"] is None for picture in pictures] == [False, False, True]
        assert [end is None for end in ask(found, "visits/series")["users"]["upper"]] == [False, False, True]
        (answer,) = ask(found, "visits/answers/total")["answers"]
        assert answer["payers"]
        assert answer["rows"][0]["upper"] is None


def test_people_have_the_intervals_of_their_releases(tmp_path):
    """Of one slot with words, of many as columns; a stream with a price per slot has none."""
    with running(tmp_path, settings(epsilon="50"), delay="10ms") as found:
        for hour in range(4):
            found.clock.now = MOMENT + (10 * hour + 5) * SECOND
            found.send([(f"{hour} {user}", 10 * hour + 1, "home") for user in range(40)], hour)
            found.set(10 * hour + 11)
        client = found.client("analyst")
        picture, series = (client.get(f"/v1/streams/visits/{name}").json() for name in ("picture", "series"))
        stored = list(dpi.open(found.service.store, "visits"))
    told = {row["name"]: row for row in picture["people"]}
    for name in ("newcomers", "returning", "reach"):
        answer = getattr(stored[-1], name)()
        assert (told[name]["value"], told[name]["lower"], told[name]["upper"]) == pytest.approx(
            (answer.value, *answer.interval()), rel=1e-6
        )
        assert series["people"][name]["value"] == pytest.approx([getattr(each, name)().value for each in stored])
    assert told["reach"]["label"] == "users who ever came"


def test_an_ordered_domain_is_neighbouring_sets(there):
    """Sets have their ends; the outer two are open; shares sum to one."""
    sets = ask(there, "ages/picture")["sets"]
    assert [sets[0]["low"], sets[0]["high"], sets[-1]["low"], sets[-1]["high"]] == [None, 0.0, 80.0, None]
    assert all(one["high"] == other["low"] for one, other in pairwise(sets))
    assert sum(each["value"] for each in sets) == pytest.approx(1)


@pytest.mark.parametrize(("columns", "step"), [(20, 1), (19, 2), (5, 4), (1, 32)])
def test_thinning_follows_from_numbers_of_slots(there, releases, columns, step):
    """Multiples of the smallest power of two that suffices, and the last; numbers are those of these releases."""
    found = ask(there, "visits/series", columns=columns, k=1, code=[1, 0])
    slots = [release.slot for release in releases]
    wanted = [slot for slot in slots if slot % found["step"] == 0 or slot == slots[-1]]
    assert found["slots"] == wanted
    assert sum(slot % found["step"] == 0 for slot in slots) <= columns
    assert found["step"] == 1 or sum(slot % (found["step"] // 2) == 0 for slot in slots) > columns
    by_slot = {release.slot: release for release in releases}
    for row in found["chosen"]:
        for at, slot in enumerate(wanted):
            lower, upper = by_slot[slot].interval(0.95)
            said = [row[key][at] for key in ("value", "lower", "upper")]
            assert said == pytest.approx([each[row["code"]] for each in (by_slot[slot].pdf, lower, upper)], abs=1e-8)
    if step == 1:
        part = ask(there, "visits/series", first=slots[5], end=slots[9])
        assert part["slots"] == slots[5:9]


def test_quantiles_are_those_of_releases(there):
    """A fan has the quantiles of each slot; a domain without order has none."""
    found = ask(there, "ages/series", quantile=[0.25, 0.75], first=FIRST, end=FIRST + 3)
    with there.connect("analyst") as service:
        wanted = [release.quantile(0.75).value for release in service.stream("ages")[FIRST : FIRST + 3]]
    assert [fan["q"] for fan in found["quantiles"]] == [0.25, 0.75]
    assert found["quantiles"][1]["value"] == pytest.approx(wanted, rel=1e-6)
    assert "ordered" in ask(there, "visits/series", 422, quantile=0.5)["detail"]
    assert "from 0 to 1" in ask(there, "ages/series", 422, quantile=2)["detail"]


def test_a_change_is_sure_where_both_intervals_are_apart(there, releases):
    """From the least to the most that both intervals allow, each at the level (1 + level) / 2."""
    new, old = releases[1], releases[0]
    found = ask(there, "visits/picture", slot=new.slot, beside=old.slot)
    (low, high), (low_before, high_before) = new.interval(0.975), old.interval(0.975)
    for row in found["rows"]:
        code = row["code"]
        assert row["lower"] == low[code] - high_before[code]
        assert row["upper"] == high[code] - low_before[code]
        assert row["sure"] == (row["lower"] > 0 or row["upper"] < 0)
    assert [row["sure"] for row in found["rows"]] == sorted((row["sure"] for row in found["rows"]), reverse=True)
    assert "not yet" in ask(there, "visits/picture", 404, beside=FIRST + 999)["detail"]


def test_a_grid_has_its_sides(there):
    """Cells sum to the sides; what is no product has no grid."""
    found = ask(there, "places/picture", one="age", other="page")
    assert (found["rows"]["name"], found["columns"]["name"]) == ("age", "page")
    cells = np.array(found["cells"]["value"])
    assert cells.sum() + found["left_out"] == pytest.approx(1)
    assert "product" in ask(there, "visits/picture", 422, one="age")["detail"]
    assert "different parts" in ask(there, "places/picture", 422, one="age", other="age")["detail"]


def test_a_table_has_the_releases(there, releases):
    """Parquet, a row for each release of the span, with all its bits."""
    asked, kind = {"first": FIRST + 2, "end": FIRST + 5}, "application/vnd.apache.parquet"
    answer = there.client("analyst").get("/v1/streams/visits/releases", params=asked, headers={"accept": kind})
    assert answer.headers["content-type"] == kind
    frame = pl.read_parquet(io.BytesIO(answer.content))
    assert frame["slot"].to_list() == [FIRST + 2, FIRST + 3, FIRST + 4]
    assert frame["pdf"][0].to_list() == releases[2].pdf.tolist()


def test_arrow_has_a_row_for_each_slot_and_value(there, releases):
    """What `Releases.table` gives, some slots at a time; a client of ours gets the same."""
    client, path = there.client("analyst"), "/v1/streams/visits/releases"
    kind = "application/vnd.apache.arrow.stream"
    answer = client.get(path, params={"first": FIRST + 2, "limit": 2}, headers={"accept": kind})
    assert answer.headers["content-type"] == kind
    frame = pl.read_ipc_stream(io.BytesIO(answer.content))
    assert frame["slot"].unique(maintain_order=True).to_list() == [FIRST + 2, FIRST + 3]
    assert frame.filter(slot=FIRST + 2)["share"].to_list() == releases[2].pdf.tolist()
    assert frame["certificate"][0] == releases[2].certificate["digest"]
    assert frame["end"].null_count() == 0
    following = client.get(answer.links["next"]["url"], headers={"accept": kind})
    assert pl.read_ipc_stream(io.BytesIO(following.content))["slot"][0] == FIRST + 4


def test_what_is_wrong_is_told(there):
    """In a sentence each."""
    for path, given in (
        ("visits/picture", {"k": -1}), ("visits/picture", {"code": "x"}), ("visits/series", {"columns": 0}),
        ("visits/picture", {"level": 2}), ("visits/picture", {"beside": FIRST, "k": 0}),
        ("visits/series", {"step": 0}), ("visits/alerts", {"first": "soon"}),
    ):  # fmt: skip
        assert ask(there, path, 422, **given)["detail"].endswith("."), path
    assert ask(there, "visits/series", first=FIRST + 900)["slots"] == []
    assert ask(there, "visits/alerts", first=FIRST + 900)["alerts"] == []


def test_alerts_do_not_depend_on_when_somebody_asked():
    """A block that goes on slot by slot says what one says that is asked at its end; and that is what a watch says."""
    store, rng = dpi.MemoryStore(), np.random.default_rng(1)
    start = 40 * BLOCK - 30
    stream = dpi.Stream(
        name="s", domain=dpi.Categories(["a", "b"]), epsilon=1, slot="1s", store=store,
        start=datetime.fromtimestamp(start, UTC), budget=dpi.Ledger(per_slot=0.5),
    )  # fmt: skip
    now, later, seen, block = WatchBlocks(), WatchBlocks(), dpi.open(store), (40 * BLOCK, 41 * BLOCK - 1)
    for slot in range(60):
        many = 180 if slot in (45, 46) else 60
        values = ["a"] * many + ["b"] * int(rng.integers(90, 110))
        stream.release([f"{slot} {n}" for n in range(len(values))], values)
        said = now.find_alerts(seen, *block) if slot >= 30 else []
    assert said == later.find_alerts(seen, *block)
    assert any(alert.slot in (start + 45, start + 46) for alert in said)
    watch = Watch()
    wanted = [alert for release in seen for alert in watch(release) if alert.slot >= 40 * BLOCK]
    assert said == wanted


def test_the_key_is_the_one_that_signs(tmp_path):
    """Anybody with a token may have the public key; nobody the other."""
    signer = dpi.Signer.open(tmp_path / "key.pem")
    with running(tmp_path, sign=tmp_path / "key.pem") as found:
        assert found.client("auditor").get("/v1/chain").json()["key"] == signer.verifier.pem()
        assert found.client("auditor").get("/v1/streams").json()["role"] == "auditor"
