"""On the page, what was not measured looks so: its age, its lines, its place among all streams."""

import re

import pytest

from service.page.test_page import axe, ready
from serving import MOMENT, SECOND, running, settings

USERS, SLOTS = 400, 14


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Users who stay, so that most slots carry on what was measured; and a stream to which no batch comes."""
    folder = tmp_path_factory.mktemp("measured")
    with running(folder, settings(), settings(name="resting", per_slot="0.5"), delay="10ms") as found:
        for slot in range(SLOTS):
            found.clock.now = MOMENT + (10 * slot + 5) * SECOND
            rows = [(f"user {n}", 10 * slot + 1.0, ("home", "search")[n % 3 == 0]) for n in range(USERS)]
            assert found.send(rows, slot).status_code == 200
            found.set(10 * slot + 11)
        with found.connect("analyst") as service:
            seen = list(service.stream("visits"))
        assert {release.measured >= 0.5 for release in seen} == {True, False}
        assert round(seen[-1].measured_ago) > 0
        yield found, seen


def opened(view, found, role="analyst", **size):
    """The page as somebody with a role opens it, one second after the service's clock, which is no real time."""
    page = view("about:blank", **size)
    page.add_init_script(
        "const get = Headers.prototype.get;"
        "Headers.prototype.get = function (name) { return name === 'date' ? null : get.call(this, name); }"
    )
    page.clock.set_fixed_time((found.clock.now + SECOND) / 1e6)
    page.goto(f"{found.url}/#token={found.tokens[role]}&stream=visits")
    ready(page)
    page.wait_for_selector("#stream-list tbody tr")
    return page


def test_the_age_of_the_measurement_is_the_first_figure(there, view):
    """It is the first figure, and is older than the release by as many slots as the release says."""
    found, seen = there
    page = opened(view, found)
    assert page.locator(".tiles dd").first.get_attribute("id") == "tile-age"
    said = page.locator("#tile-age").text_content()
    number, unit = re.fullmatch(r"measured (\d+) (s|min) ago", said).groups()
    said = int(number) * {"s": 1, "min": 60}[unit]
    assert abs(said - (2 + 10 * round(seen[-1].measured_ago))) <= (30 if unit == "min" else 0)
    assert "carried forward" in page.locator("#tile-age-more").text_content()
    assert "Its slot ended" in page.locator("#tile-age-more").text_content()


def drawn(page):
    """How many dots are on lines, and how many ticks below the map, when the page is drawn again."""
    return page.evaluate(
        """async () => { const pen = CanvasRenderingContext2D.prototype, fill = pen.fillRect; let dots = 0, ticks = 0;
        pen.fillRect = function (x, y, width, height) {
            if (height === 4) width === 4 ? dots++ : ticks++;
            return fill.call(this, x, y, width, height); };
        dispatchEvent(new Event("beforeprint"));
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        pen.fillRect = fill;
        return [dots, ticks]; }"""
    )


def test_what_was_measured_is_marked(there, view):
    """Every line has a dot in each slot that was measured, and the map a tick; a stream without gaps has none."""
    found, seen = there
    page = opened(view, found)
    kinds = [release.measured >= 0.5 for release in seen]
    stretches = sum(kind and (at == 0 or not kinds[at - 1]) for at, kind in enumerate(kinds))
    chips = page.locator("#chips .chip").count()
    assert drawn(page) == [sum(kinds) * (chips + 1), stretches]
    assert "Ticks below the map mark measured slots" in page.locator("#heat-note").text_content()
    page.click("#stream-list button:text-is('resting')")
    page.wait_for_function("() => document.getElementById('title').textContent === 'resting'")
    page.wait_for_function("() => /^(?!.*Ticks)./.test(document.getElementById('heat-note').textContent)")
    assert drawn(page) == [0, 0]


def test_all_streams_are_there_at_a_glance(there, view):
    """Each with its state, the age of its measurement and its alerts; that no batch comes is told to curators alone."""
    found, _ = there
    for role, state in (("analyst", "no users beyond noise"), ("curator", f"silent: no batch for {SLOTS - 1} slots")):
        page = opened(view, found, role)
        rows = page.locator("#stream-list tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
        assert [row[0] for row in rows] == ["resting", "visits"]
        assert [row[2] for row in rows] == [state, "carried on"]
        assert rows[0][1] == "2 s ago"
        assert all(re.fullmatch(r"none|\d+(, \d+ high)?", row[3]) for row in rows)
        assert ("silent" in page.content()) == (role == "curator")


def test_the_curators_card_is_the_first(there, view):
    """For a curator it stands above all pictures, and says that a stream is silent; for others it is not there."""
    found, _ = there
    page = opened(view, found, "curator")
    tops = [page.locator(place).bounding_box()["y"] for place in ("#curator", "#streams", "#pictures")]
    assert tops == sorted(tops)
    assert "Batchesarriving" in page.locator("#curator-tiles").text_content()
    page.select_option("#stream", "resting")
    page.wait_for_function("() => document.getElementById('curator-tiles').textContent.includes('silent')")
    axe(page)
    assert opened(view, found).locator("#curator").is_hidden()


def test_intervals_stay_on_a_phone(there, view):
    """At 390 pixels every value and every change has its interval in numbers, and nothing is cut off."""
    found, _ = there
    page = opened(view, found, width=390, height=844)
    for table in ("#bars", "#movers"):
        ends = page.locator(f"{table} tbody .ends")
        assert ends.count() >= 2
        for at in range(ends.count()):
            box = ends.nth(at).bounding_box()
            assert box["width"] > 60
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            assert re.search(r"\d … ", ends.nth(at).text_content().replace(" %", ""))
            assert ends.nth(at).evaluate("cell => cell.scrollWidth <= cell.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    axe(page)


def test_consistent_is_no_warning(there, view):
    """A chain in which nothing is wrong has no colour of a warning."""
    page = opened(view, there[0])
    assert page.locator("#badge").text_content() == "consistent"
    colours = page.evaluate(
        """() => { const probe = document.createElement("i");
        probe.style.cssText = "color: var(--warn); background: var(--warn-back)"; document.body.append(probe);
        return [document.getElementById("badge"), probe].map((each) => getComputedStyle(each))
            .flatMap((style) => [style.color, style.backgroundColor]); }"""
    )
    assert not set(colours[:2]) & set(colours[2:])
