"""Tools for agents: what they answer is what `dpi query` answers, with the certificate of the release."""

import numpy as np
import pytest

import dpi
from dpi.agents.tools import MOST, Tools
from dpi.settings.questions import asked
from dpi.verification import verify

PAGES = dpi.Categories(["home", "two words", "help"], other="elsewhere")
AGES = dpi.Product(land=dpi.Categories(["DE", "FR"], other=None), age=dpi.Bins([18, 65]))


@pytest.fixture(scope="module")
def store():
    """Two streams of three days, and one that has released nothing."""
    store = dpi.MemoryStore()
    rng = np.random.default_rng(1)
    options = {"epsilon": 1, "slot": "1h", "start": "2026-01-01", "store": store}
    with (
        dpi.Stream(domain=PAGES, name="visits", budget=dpi.Ledger(quota="0.5"), **options) as visits,
        dpi.Stream(domain=AGES, name="people", budget=dpi.Ledger(quota="0.4"), **options) as people,
    ):
        users = [f"user {number}" for number in range(300)]
        for _ in range(72):
            visits.release(users, rng.choice(["home", "two words", "help"], 300, p=[0.7, 0.2, 0.1]))
            people.release(users, {"land": rng.choice(["DE", "FR"], 300), "age": rng.integers(0, 90, 300)})
        dpi.Stream(domain=PAGES, name="empty", **options).close()
    return store


@pytest.fixture
def tools(store):
    """Over all of them."""
    return Tools(dpi.open(store, "visits"), lambda: verify(store))


def test_streams_say_what_can_be_asked(tools, store):
    """Names, values, slots, ε; a stream without releases too."""
    found = {each["stream"]: each for each in tools.streams()["streams"]}
    assert found.keys() == {"visits", "people", "empty"}
    assert found["visits"]["domain"]["values"] == ["home", "two words", "help", "elsewhere"]
    assert found["people"]["domain"]["parts"]["age"]["values"] == ["< 18", "[18, 65)", "≥ 65"]
    assert (found["visits"]["releases"], found["empty"]["releases"]) == (72, 0)
    newest = dpi.open(store, "visits").newest
    assert found["visits"]["newest"]["certificate"] == newest.certificate["digest"]


@pytest.mark.parametrize("question", ["top 2", "probability 'two words'", "count home", "total"])
def test_an_answer_is_that_of_a_question(tools, store, question):
    """Value and both ends, to the bit; of a slot by its number, by a time, and of the newest."""
    releases = dpi.open(store, "visits")
    words = question.replace("'", "").split(" ", 1) if "two" in question else question.split()
    for slot, release in (
        (None, releases.newest),
        ("newest", releases.newest),
        (releases.newest.slot - 5, releases[releases.newest.slot - 5]),
        (str(releases.newest.slot - 5), releases[releases.newest.slot - 5]),
        ("2026-01-02T03:30", releases["2026-01-02T03:30"]),
    ):
        (said,) = tools.ask(question, "visits", slot)["answers"]
        assert said["rows"] == [row.plain() for row in asked(words)(release)]
        assert (said["slot"], said["certificate"]) == (release.slot, release.certificate["digest"])


def test_periods_come_in_parts(tools, store):
    """At most so many slots at a time, and where to go on."""
    releases = dpi.open(store, "visits")
    found = tools.ask("total", "visits", first="2026-01-01", end="2026-01-02")
    assert [each["slot"] for each in found["answers"]] == [each.slot for each in releases["2026-01-01":"2026-01-02"]]
    assert found["more_first"] is None
    assert MOST > 72


def test_parts_of_a_product(tools, store):
    """About one part, among those with a value of the other."""
    newest = dpi.open(store, "people").newest
    (said,) = tools.ask("probability DE", "people", part="land", where=["age=20"])["answers"]
    assert said["rows"][0]["value"] == newest.where(age=20).probability("DE").value
    (line,) = tools.series(["land=DE age=20"], "people")["series"]
    assert line["points"][-1]["value"] == newest.probability({"land": "DE", "age": 20}).value


def test_a_series_has_a_point_for_each_slot(tools, store):
    """Each with its interval and certificate; of long spans every second, fourth … slot."""
    releases = dpi.open(store, "visits")
    found = tools.series(["home", "two words"], "visits")
    assert found["step"] == 1
    assert [line["value"] for line in found["series"]] == ["home", "two words"]
    points = found["series"][1]["points"]
    assert [point["slot"] for point in points] == [each.slot for each in releases]
    assert all(point["lower"] <= point["value"] <= point["upper"] and point["certificate"] for point in points)
    assert [each.slot for each in releases.every(32)] == sorted(
        {each.slot for each in releases if each.slot % 32 == 0} | {releases.newest.slot}
    )


def test_movers_and_periods_have_intervals_of_differences(tools, store):
    """From the lowest to the highest that both intervals allow, each at 97.5 %; a period is an average of ends."""
    releases = dpi.open(store, "visits")
    new, old = releases.newest, releases[releases.newest.slot - 1]
    found = tools.movers("visits", k=4)
    assert found["now"]["first"]["certificate"] == new.certificate["digest"]
    assert found["before"]["last"]["certificate"] == old.certificate["digest"]
    (low, high), (low_before, high_before) = (each.interval(0.975) for each in (new, old))
    by_label = {row["label"]: row for row in found["rows"]}
    for code in range(PAGES.size):
        row = by_label[PAGES.label(code)]
        assert row["change"]["lower"] == pytest.approx(low[code] - high_before[code])
        assert row["change"]["upper"] == pytest.approx(high[code] - low_before[code])
        lower, upper = (float(end[code]) for end in new.interval())
        assert row["share"] == {"value": new.pdf[code], "lower": lower, "upper": upper}
    second, first = (list(releases[f"2026-01-0{day}" : f"2026-01-0{day + 1}"]) for day in (2, 1))
    found = tools.compare("2026-01-02", "2026-01-03", "2026-01-01", "2026-01-02", "visits")
    assert (found["now"]["slots"], found["before"]["slots"]) == (24, 24)
    home = next(row for row in found["rows"] if row["label"] == "home")
    change = np.mean([each.pdf[0] for each in second]) - np.mean([each.pdf[0] for each in first])
    assert home["change"]["value"] == pytest.approx(change)
    upper = np.mean([each.interval(0.975)[1][0] for each in second])
    assert home["change"]["upper"] == pytest.approx(upper - np.mean([each.interval(0.975)[0][0] for each in first]))


def test_the_chain_and_the_promise(tools, store):
    """What was promised, in the release's own words; that questions are free; and what a check finds."""
    found = tools.promise("visits")
    assert found["guarantee"] == dpi.open(store, "visits").newest.guarantee
    assert "cost no privacy" in found["questions"]
    checked = tools.verify()
    assert checked["intact"] is True
    assert checked["head"] == store.head().digest
    assert checked["epsilon_spent_by_all"] <= 1


@pytest.mark.parametrize(
    ("tool", "given", "why"),
    [
        ("ask", {"question": "top", "stream": "visits"}, "such as `top 5`"),
        ("ask", {"question": "topp 5", "stream": "visits"}, "unknown question"),
        ("ask", {"question": "probability 'home", "stream": "visits"}, "in pairs"),
        ("ask", {"question": "probability nowhere", "stream": "visits"}, "not in the domain"),
        ("ask", {"question": "total"}, "must be one of"),
        ("ask", {"question": "total", "stream": "nothing"}, "must be one of"),
        ("ask", {"question": "total", "stream": "empty"}, "released yet"),
        ("ask", {"question": "total", "stream": "visits", "slot": 10**30}, "no such slot"),
        ("ask", {"question": "total", "stream": "visits", "slot": 3, "first": 1}, "one `slot`"),
        ("ask", {"question": "total", "stream": "visits", "first": "soon"}, "soon"),
        ("ask", {"question": "total", "stream": "visits", "first": "2027-01-01"}, "released yet"),
        ("series", {"values": [], "stream": "visits"}, "from 1 to"),
        ("series", {"values": ["home"], "stream": "empty"}, "released yet"),
        ("movers", {"stream": "visits", "k": 0}, "from 1 to"),
        ("movers", {"stream": "visits", "slot": "2026-01-01T00:00"}, "is not in the store"),
        ("compare", {"first": 1, "end": 2, "before_first": 3, "before_end": 4, "stream": "visits"}, "released slots"),
        ("promise", {"stream": "empty"}, "released yet"),
    ],
)
def test_what_is_wrong_is_told(tools, tool, given, why):
    """In a sentence each."""
    with pytest.raises(dpi.OptionError, match=why):
        getattr(tools, tool)(**given)
