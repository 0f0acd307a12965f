"""A service shows what is good enough: the same cells in answers, tables and charts. Whole releases stay whole."""

import io
import math

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.release.quality import Quality
from dpi.service.config import read_streams
from dpi.settings.quality import read_quality
from dpi.settings.questions import asked_under
from serving import FIRST, PAGES, running, settings

NEWEST = FIRST + 3


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Pages and ages, of which users are known badly: a rule for either, set between the widths of their intervals."""
    rules = {"visits": Quality(points=3, percent=5), "ages": Quality(points=4)}
    streams = [settings(per_slot="0.2"), settings(name="ages", domain=dpi.Bins(range(0, 90, 10)))]
    with running(tmp_path_factory.mktemp("quality"), *streams, quality=rules) as found:
        rows = [(f"user {n}", 1.0, "home" if n % 9 else "search") for n in range(900)]
        assert found.send(rows, 0).status_code == 200
        found.set(41)
        yield found


def get(shop, path, status=200, **given):
    """What an analyst is told."""
    answer = shop.client("analyst").get(f"/v1/streams/{path}", params=given)
    assert answer.status_code == status, answer.text
    return answer


def test_answers_and_pictures_show_what_the_rules_show(shop):
    """Each cell of the release is there, or says why; the rules are public."""
    rule = shop.service.config.quality["visits"]
    assert get(shop, "visits").json()["shown"] == str(rule) == "shares within ± 3 points, numbers of users within ± 5 %"
    hidden = 0
    for slot in range(FIRST, NEWEST + 1):
        release = dpi.Release.from_json(get(shop, f"visits/releases/{slot}").text, PAGES)
        assert release.pdf.size == PAGES.size
        expected = asked_under(rule, ["top", "9"])(release, None)
        (answer,) = get(shop, "visits/answers/top", k=9, slot=slot).json()["answers"]
        assert answer["rows"] == [row.plain() for row in expected]
        picture = get(shop, "visits/picture", slot=slot).json()
        drawn = {row["name"]: row for row in picture["rows"]}
        for row in expected:
            if row.label in drawn:
                assert drawn[row.label]["value"] == row.plain()["value"]
                assert drawn[row.label].get("note", "") == row.note
        (users,) = asked_under(rule, ["total"])(release, None)
        assert picture["users"].get("note", "") == users.note
        hidden += sum(math.isnan(row.value) for row in expected)
    assert 0 < hidden < 4 * PAGES.size


def test_a_series_and_a_table_hide_the_same_cells(shop):
    """Columns of the page and rows for SQL."""
    series = get(shop, "visits/series", code=[0, 1]).json()
    accept = {"accept": "application/vnd.apache.arrow.stream"}
    answer = shop.client("analyst").get("/v1/streams/visits/releases", headers=accept)
    table = pl.read_ipc_stream(io.BytesIO(answer.content))
    for row in (*series["rows"], *series["chosen"]):
        own = table.filter(pl.col("value") == row["name"])
        assert [value is None for value in row["value"]] == own["share"].is_null().to_list()
        assert row["note"] == [text.partition("users")[0].rstrip("; ") for text in own["note"]]
    assert [value is None for value in series["users"]["value"]] == [
        part["users"].null_count() == part.height or "users not shown" in "".join(part["note"])
        for part in table.partition_by("slot", maintain_order=True)
    ]


def test_changes_are_of_values_that_are_shown(shop):
    """A move from or to a hidden share would tell it."""
    found = get(shop, "visits/picture", beside=FIRST, slot=NEWEST, k=9).json()
    pictures = [get(shop, "visits/picture", slot=slot).json() for slot in (FIRST, NEWEST)]
    shown = [{row["name"] for row in picture["rows"] if row["value"] is not None} for picture in pictures]
    assert {row["name"] for row in found["rows"]} <= shown[0] & shown[1]


def test_sets_of_an_ordered_domain_are_judged_by_their_own_interval(shop):
    """A density has holes where it is not known."""
    sets = get(shop, "ages/picture", slot=FIRST).json()["sets"]
    assert all((each["value"] is None) == each.get("note", "").startswith("not shown") for each in sets)


def test_rules_are_read_from_the_configuration(tmp_path):
    """Beside the options of their stream, with the sentences of a command."""
    (tmp_path / "pages.txt").write_text("home\nsearch\n")
    options = '[streams.visits]\ndomain = "pages.txt"\nepsilon = 1\nslot = "{}"\nquality = "{}"\n'
    file = tmp_path / "dpi.toml"
    file.write_text(options.format("1h", "points=2.5,week"))
    assert read_streams(file).quality == {"visits": read_quality("points=2.5,week")}
    for slot, rules, says in (("1h", "points=0", "`points` must be"), ("1w", "points=1,week", "`week` is for slots")):
        file.write_text(options.format(slot, rules))
        with pytest.raises(dpi.OptionError, match=rf"^\[streams.visits\] of .*{says}"):
            read_streams(file)


def test_a_grid_has_cells_that_are_not_shown(tmp_path):
    """Null, with the reason beside it."""
    places = dpi.Product(page=dpi.Categories(["home", "cart"]), age=dpi.Bins([20, 40]))
    rules = {"visits": Quality(points=0.01)}
    with running(tmp_path, settings(domain=places), quality=rules) as found:
        found.set(11)
        grid = get(found, "visits/picture", one="page", other="age").json()
    assert np.shape(grid["cells"]["note"]) == np.shape(grid["cells"]["value"]) == (2, 3)
    assert all(note.startswith("not shown: ± ") for row in grid["cells"]["note"] for note in row)
    assert not any(value is not None for row in grid["cells"]["value"] for value in row)
