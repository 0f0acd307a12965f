import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import dpi
from dpi.errors import OptionError
from dpi.release.quality import SMALL, WEEK, Quality
from dpi.report import Status, page, write
from dpi.report._facts import CODE, COLUMNS, LOWER, RECENT, UPPER, VALUE, reduce
from dpi.report._figures import budget_text, count_text, share_text
from dpi.report._rows import VALUES
from made_releases import GUARANTEE, releases, without_total
from made_releases import release as made

LETTERS = dpi.Categories(list("abcdefgh"))
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&"
STATUS = Status(entries=40, head="c0ffee", chain_intact=True, signed=False)
VOID = {"meta", "img", "input", "br"}


class Parsed(HTMLParser):
    """Elements with their attributes, texts outside scripts and styles, and elements that are not closed in order."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open, self.crossed = [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        """Check that it is the innermost open one."""
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data):
        """Keep what a reader sees."""
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        """All texts."""
        return "\n".join(self.texts)

    @property
    def ids(self):
        """All identifiers."""
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


STREAMS = {
    "letters": releases(LETTERS, 40),
    "one slot": releases(LETTERS, 1),
    "two values": releases(dpi.Categories(["yes", "no"], other=None), 30),
    "one value": releases(dpi.Categories(["all"], other=None), 3),
    "bins": releases(dpi.Bins(range(0, 100, 10)), 30),
    "product": releases(dpi.Product(c=dpi.Categories(["x", "y"]), n=dpi.Bins([1, 2])), 30),
    "hashed": releases(dpi.Hashed(300, key=bytes(32)), 12),
    "no clock": releases(LETTERS, 30, clock=False),
    "no total": without_total(LETTERS, 30),
    "hostile": releases(dpi.Categories([HOSTILE, "b"]), 5, guarantee=HOSTILE, certificate={HOSTILE: HOSTILE}),
    "no releases": [],
}


@pytest.fixture(params=STREAMS.values(), ids=STREAMS, scope="module")
def stream(request):
    """Each of the streams."""
    return request.param


def test_every_element_is_closed_in_order_and_every_id_is_used_once(stream):
    """The page is balanced HTML, whatever the stream."""
    parsed = Parsed(page(stream, title="t", verification=STATUS))
    assert (parsed.open, parsed.crossed) == ([], [])
    assert len(parsed.ids) == len(set(parsed.ids))


def test_nothing_is_fetched_from_anywhere(stream):
    """No address but `data:` stands in the page, and its policy forbids every request and every other script."""
    html = page(stream, title=HOSTILE, verification=STATUS)
    assert not re.search(r"https?:|url\(|@import|<link|<iframe|<object|<base|<form", html)
    for _, attributes in Parsed(html).elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "srcset", "action", "poster"):
                assert value.startswith("data:image/png;base64,")
    policy = next(a["content"] for _, a in Parsed(html).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;")
    for script in re.findall(r"<script>(.*?)</script>", html, re.DOTALL):
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


def test_titles_labels_and_statements_cannot_become_markup():
    """Text that looks like markup is shown as text, in the page and in the script's data."""
    status = Status(head=HOSTILE, problems=(HOSTILE,))
    html = page(STREAMS["hostile"], title=HOSTILE, verification=status)
    parsed = Parsed(html)
    assert "<img src=x" not in html
    assert [tag for tag, _ in parsed.elements].count("script") == 2
    assert not any("onerror" in attributes for _, attributes in parsed.elements)
    assert parsed.text.count(HOSTILE) > 6


def test_the_same_releases_give_the_same_bytes(tmp_path):
    """There is no wall clock and no order of a set in the page, and `write` adds nothing."""
    one, other = (page(releases(LETTERS, 40), title="t", verification=STATUS) for _ in range(2))
    assert one == other
    write(tmp_path / "page.html", one)
    assert (tmp_path / "page.html").read_bytes() == one.encode()


def section(html, name):
    """The text of one section of the page."""
    return Parsed(re.search(rf'<section id="{name}".*?</section>', html, re.DOTALL)[0]).text


@pytest.mark.parametrize("name", ["largest", "map"])
def test_the_newest_shares_are_those_of_the_newest_release(name):
    """Bars and map name each value's share and interval in the newest slot once; the map's table adds one more."""
    stream = STREAMS["letters"]
    text = section(page(stream, title="t"), name).replace("(\n", "(").replace("\n)", ")")  # a bold interval
    lower, upper = stream[-1].interval(0.95)
    for code in range(LETTERS.size):
        shown = share_text(stream[-1].pdf[code], lower[code], upper[code])
        listed = LETTERS.label(code) != "other"  # which has no row in the table
        assert text.count(shown) == (2 if name == "map" and listed else 1)


def test_curves_users_and_budget_are_those_of_the_releases():
    """The newest numbers of the curves, the totals and the budgets are the newest release's."""
    stream = STREAMS["letters"]
    html, newest = page(stream, title="t"), stream[-1]
    lower, upper = newest.interval(0.95)
    for code in range(5):
        assert section(html, "series").count(share_text(newest.pdf[code], lower[code], upper[code])) == 2
    assert section(html, "users").count(count_text(newest.total, *newest.count().interval(0.95))) == 2
    assert f"newest: {budget_text(newest.epsilon)}" in section(html, "budget")
    assert f"at most: {budget_text(newest.epsilon_spent)}" in section(html, "budget")


def test_people_are_drawn_where_a_stream_can_tell_them():
    """Panels, and a row for each number of the newest slot; a stream that cannot tell newcomers has none of it."""
    people = {"newcomers": 50.0, "newcomers_variance": 9.0, "returning": 900.0, "returning_variance": 2500.0}
    people |= {"reach": 3000.0, "reach_variance": 100.0, "retention_7": 0.25, "retention_7_variance": 0.0025}
    stream = releases(LETTERS, 6, people=people)
    text = section(page(stream, title="t"), "users")
    assert text.count("3,000 (2,980 … 3,020)") == 2 + 6  # the panel, the newest slot, and a table of slots
    assert "share of this slot's newcomers who are active 7 slots later, expected\n25.0 % (15.2 … 34.8)" in text
    assert "30 slots later" not in text
    without = section(page(releases(LETTERS, 6), title="t"), "users")
    assert "newcomers" not in without.lower()
    mixed = page(
        [*releases(LETTERS, 3, people=people), *(made(LETTERS, n, np.random.default_rng(n)) for n in (3, 4))], title="t"
    )
    assert "not measured" in section(mixed, "users")


def test_the_last_slots_are_those_of_the_releases():
    """The table holds each of the last slots with its largest values, total and budgets, newest first."""
    stream = STREAMS["letters"]
    text = section(page(stream, title="t"), "recent")
    expected = []
    for release in stream[: -RECENT - 1 : -1]:
        lower, upper = release.interval(0.95)
        expected += [str(release.slot), f"{release.start:%Y-%m-%d %H:%M}", "100 %"]
        for code in np.argsort(-release.pdf[: LETTERS.size - 1])[:3]:
            expected += [f"{LETTERS.label(int(code))} ", share_text(release.pdf[code], lower[code], upper[code])]
        expected += [count_text(release.total, *release.count().interval(0.95))]
        expected += [budget_text(release.epsilon), budget_text(release.epsilon_spent)]
    assert text.split("\n")[-len(expected) :] == expected


def test_shown_digits_are_the_rounded_number():
    """A share is rounded to its nearest, not cut or shifted."""
    stream = STREAMS["letters"]
    text = Parsed(page(stream, title="t")).text
    label, share = stream[-1].top(1)[0]
    assert f"{100 * share:.1f} % (" in text
    assert label in text


def test_without_a_script_everything_but_tooltips_is_there():
    """With scripts removed, all values, curves, tables, the guarantee and the certificate are still in the page."""
    stream = STREAMS["letters"]
    html = re.sub(r"<script.*?</script>", "", page(stream, title="Visits", verification=STATUS), flags=re.DOTALL)
    parsed = Parsed(html)
    for code in range(LETTERS.size):
        assert LETTERS.label(code) in parsed.texts
    for words in (GUARANTEE, "Visits", "c0ffee", "✓ intact", "✗ missing or not valid", "not checked", "ε = 1"):
        assert words in parsed.text
    assert "2.72" in parsed.text, "e^1"
    assert "73.2 %" in parsed.text, "1/(1 + e^-1), rounded up"
    drawn = [attributes["d"] for tag, attributes in parsed.elements if tag == "path"]
    assert len(drawn) == 2 * (5 + 1 + 2) + 1, "line and band of five values, the total and two budgets; `other`"
    assert all(path.startswith("M0 ") for path in drawn)
    pictures = [a["src"] for tag, a in parsed.elements if tag == "img"]
    assert len(pictures) == 2 * LETTERS.size, "a row for each listed value and the legend, in two themes"
    hidden = [attributes.get("id") for _, attributes in parsed.elements if "hidden" in attributes]
    assert hidden == ["theme", None], "only the two controls that need a script"


def test_a_chart_is_named_and_has_its_numbers_in_a_table():
    """Curves have a text for readers who do not see them, and each group of charts a table."""
    parsed = Parsed(page(STREAMS["letters"], title="t"))
    plots = [a for _, a in parsed.elements if "plot" in (a.get("class") or "").split() and a.get("role") == "img"]
    assert len(plots) == 8
    assert all(a["aria-label"] for a in plots)
    assert [tag for tag, _ in parsed.elements].count("details") == 4
    sections = [a["aria-labelledby"] for tag, a in parsed.elements if tag == "section"]
    assert set(sections) <= set(parsed.ids)
    assert "slot" in [a.get("for") for tag, a in parsed.elements if tag == "label"]


def test_a_broken_chain_is_said_at_the_top():
    """A page of releases that did not pass their verification says so before it shows them, and only then."""
    status = Status(chain_intact=False, problems=("entry 7 is missing",))
    text = Parsed(page(STREAMS["letters"], title="t", verification=status)).text
    assert text.index("entry 7 is missing") < text.index("The largest values")
    assert "Do not rely" not in Parsed(page(STREAMS["letters"], title="t", verification=Status())).text


def test_a_stream_without_a_promise_is_not_explained_as_one():
    """Where the guarantee says none, the page does not say what ε would mean."""
    text = Parsed(page(releases(LETTERS, 3, guarantee="None: the period was read off the data."), title="t")).text
    assert "promise nothing" in text
    assert "equally likely" not in text


def test_a_promise_per_epoch_is_not_explained_as_one_for_ever():
    """Where accounts are refilled, the page says that the loss adds up; where they are not, it does not."""
    stream = dpi.Stream(domain=LETTERS, epsilon=1, budget=dpi.Ledger(per_slot=0.5, period=2))
    text = Parsed(page([stream.release(["u"], ["a"])], title="t")).text
    assert "E·ε" in text
    assert "E·ε" not in Parsed(page(STREAMS["letters"], title="t")).text
    store = dpi.MemoryStore()
    kept = dpi.Stream(domain=LETTERS, epsilon=1, store=store)
    dpi.Stream(domain=LETTERS, epsilon=1, store=store, name="x", separate=True, budget=dpi.Ledger(per_slot=1, period=2))
    text = Parsed(page([kept.release(["u"], ["a"])], title="t")).text
    assert "1 more per epoch of 2 slots of stream" in text
    assert "E·ε" not in text


def test_different_guarantees_are_all_stated():
    """An assumption that only some releases carry is shown, with the number of slots it is about."""
    stream = [*releases(LETTERS, 3), *releases(LETTERS, 5, guarantee="Assumed: seen once.")[3:]]
    text = Parsed(page(stream, title="t")).text
    assert GUARANTEE in text
    assert "Assumed: seen once." in text
    assert "(2 slots)" in text


def test_700_slots_of_50_bins_stay_below_one_megabyte():
    """A month of hours is a small file."""
    stream = releases(dpi.Categories([f"value {i}" for i in range(49)]), 700)
    assert len(page(stream, title="t").encode()) < 1_000_000


def test_a_long_stream_of_many_values_is_reduced_and_says_so():
    """Beyond the bounds neighbours are averaged, values are summed, and the page names both."""
    stream = releases(dpi.Categories([f"value {i}" for i in range(200)]), 2000)
    html = page(stream, title="t")
    parsed = Parsed(html)
    assert len(html.encode()) < 1_300_000
    assert f"at most {COLUMNS:,}" in parsed.text
    assert f"at most {VALUES}" in parsed.text
    assert "mean of 2 neighbouring slots" in parsed.text
    assert "Everything else (141 values)" in parsed.text


def test_an_empty_stream_is_a_sentence():
    """Without releases there is a page that says so, and no script."""
    parsed = Parsed(page([], title="Visits", verification=STATUS))
    assert "No slot of this stream has been released yet" in parsed.text
    assert "script" not in [tag for tag, _ in parsed.elements]


@pytest.mark.parametrize("title", ["", "  ", None])
def test_a_page_needs_a_title(title):
    """A page that does not say what it is about is refused."""
    with pytest.raises(OptionError, match="title"):
        page(STREAMS["letters"], title=title)


@pytest.mark.parametrize(
    "stream",
    [
        releases(LETTERS, 3)[::-1],
        [*releases(LETTERS, 1), *releases(LETTERS, 1)],
    ],
    ids=["backwards", "twice"],
)
def test_releases_that_are_no_stream_are_refused(stream):
    """Slots are in order, each once."""
    with pytest.raises(OptionError, match="releases"):
        page(stream, title="t")


def test_across_a_change_of_the_domain_rows_have_numbers_where_they_are_defined():
    """Values that both domains list have all slots; one that was in `other` then is blank there, and named."""
    before, now = dpi.Categories(["DE", "FR"]), dpi.Categories(["DE", "IT"])
    stream = [*releases(before, 6)[:4], *releases(now, 9, seed=2)[4:]]
    facts = reduce(stream)
    assert facts.slots == 9
    shares = dict(zip(facts.rows.labels, facts.shares[VALUE], strict=True))
    lowest = dict(zip(facts.rows.labels, facts.shares[LOWER], strict=True))
    assert shares["DE"].tolist() == [release.pdf[0] for release in stream]
    assert lowest["DE"].tolist() == pytest.approx([release.interval(0.95)[0][0] for release in stream], rel=1e-12)
    assert np.isnan(shares["IT"]).tolist() == [True] * 4 + [False] * 5
    assert np.isnan(facts.rest[VALUE]).tolist() == [True] * 4 + [False] * 5
    assert facts.total[VALUE].tolist() == [release.total for release in stream]
    html = page(stream, title="t")
    assert (
        "From 2026-03-01 00:00 to 2026-03-01 03:00 the domain was another: IT has no number there." in Parsed(html).text
    )
    assert "no such value" in section(html, "map")
    drawn = dict(
        zip(facts.rows.labels, re.findall(r'<path class="line" d="([^"]*)"', raw(html, "series")), strict=False)
    )
    assert drawn["DE"].startswith("M0 ")
    assert drawn["IT"].startswith("M4 ")
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', html, re.DOTALL)[1])
    cells = dict(zip(data["labels"], data["cells"], strict=True))
    assert cells["IT"][:24] == "AAAAAA" * 4
    for known in (cells["DE"], cells["IT"][24:]):
        assert "AAAAAA" not in [known[at : at + 6] for at in range(0, len(known), 6)]
    assert "domain was another" not in Parsed(page(stream[4:], title="t")).text


def test_rows_of_intervals_go_on_where_their_edges_do():
    """A row of several bins is the sum of the earlier bins between its edges; if an edge is new there is none."""
    before, now = dpi.Bins([0, 10, 20, 30]), dpi.Bins([0, 20, 25, 30])
    stream = [*releases(before, 6)[:3], *releases(now, 6, seed=2)[3:]]
    shares = reduce(stream).shares[VALUE]
    assert shares[1, :3].tolist() == pytest.approx([release.pdf[1:3].sum() for release in stream[:3]])
    assert np.isnan(shares[2:4, :3]).all()
    assert shares[0, :3].tolist() == [release.pdf[0] for release in stream[:3]]
    everything = reduce([*releases(dpi.Hashed(9, key=bytes(32)), 6)[:3], *stream[3:]])
    assert np.isnan(everything.shares[VALUE, :, :3]).all()
    assert np.isfinite(everything.total[VALUE]).all()
    with pytest.raises(OptionError, match="order"):
        page([*stream[3:], *stream[:2]], title="t")


@pytest.mark.parametrize("mechanism", ["boosted", dpi.Published()], ids=["boosted", "published"])
@pytest.mark.parametrize("budget", [dpi.Ledger(per_slot=0.3), dpi.Converging(dpi.budget.LogSquared())])
def test_real_streams_of_every_kind_have_a_page(mechanism, budget):
    """What mechanisms and budgets release can be drawn, spent accounts and empty slots too."""
    stream = dpi.Stream(domain=dpi.Categories(["a", "b"]), epsilon=1, slot="1d", budget=budget, mechanism=mechanism)
    made = [stream.release(["u", "v"] * (slot % 2), ["a", "b"] * (slot % 2)) for slot in range(6)]
    parsed = Parsed(page(made, title="t"))
    assert stream.guarantee in parsed.text
    assert (parsed.open, parsed.crossed) == ([], [])


def raw(html, name):
    """The markup of one section of the page."""
    return re.search(rf'<section id="{name}".*?</section>', html, re.DOTALL)[0]


def carried(slots, gap, **changes):
    """A stream by class of which some slots were not measured."""
    rng = np.random.default_rng(7)
    return [
        made(dpi.Categories(["DE", "FR"]), slot, rng, carried=float(slot in gap), age=3.0 * (slot in gap), **changes)
        for slot in range(slots)
    ]


def test_the_age_of_the_measurement_stands_in_front():
    """Before anything else the page says when its newest picture was measured, in slots and by name."""
    html = page(carried(20, range(15, 20)), title="Visits")
    lead = re.search(r'<p class="lead">(.*?)</p>', html)[1]
    said = "The newest estimate was measured 3 slots before its own slot, on average, about 2026-03-01 16:00."
    assert lead.startswith(f"<strong>{said}")
    assert html.index("Newest estimate measured") < html.index("<dt>Slots</dt>")
    assert "<dd>3 slots earlier" in html
    now = page(carried(20, ()), title="Visits")
    assert "<strong>The newest estimate was measured in its own slot, 2026-03-01 19:00." in now
    nothing = [*carried(3, (), epsilon=0.0)[:2], replace(carried(3, (2,))[2], age=0.0)]
    assert "<strong>The newest release has no measurement." in page(nothing, title="Visits")


def test_what_was_measured_is_marked():
    """A carried slot has a grey line and band, a measured one a dot and a mark below the map; without gaps: none."""
    found = page(carried(20, range(5, 9)), title="Visits")
    part = raw(found, "series")
    solid, grey, dots = (
        re.findall(rf'<path class="{kind}" d="([^"]*)"', part) for kind in ("line", "line carried", "dots")
    )
    assert len(solid) == len(grey) == len(dots) == 2
    for path in grey:
        assert path.startswith("M5 ")
        assert sum(map(int, re.findall(r"h(\d+)", path))) == 4
    for path in solid:
        assert [int(start) for start in re.findall(r"M(\d+) ", path)] == [0, 9]
    for path in dots:
        assert [int(at) for at in re.findall(r"M(\d+)\.5 \d+h0", path)] == [*range(5), *range(9, 20)]
    assert 'class="plot estimated"' in part
    assert 'class="plot estimated"' not in raw(found, "budget")
    png = base64.b64decode(re.search(r"--measured:url\(data:image/png;base64,([^)]*)\)", found)[1])
    pixels = zlib.decompressobj().decompress(png[png.index(b"IDAT") + 4 :])[1:]
    assert [i for i, pixel in enumerate(pixels) if not pixel] == [5, 6, 7, 8]
    whole = page(carried(20, ()), title="Visits")
    assert not re.search(r'class="(line carried|dots|measured)"', whole)


def test_payers_are_said_and_their_number_has_no_upper_end():
    """In words at the top and beside the chart, and in every number from the first such slot on."""
    full = releases(LETTERS, 4)
    short = [made(LETTERS, slot, np.random.default_rng(slot), payers=True) for slot in (4, 5)]
    html = page([*full, *short], title="Visits")
    assert "In the newest slot: This describes users who can still pay." in html
    assert "the band is open above" in html
    data = json.loads(re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", html, re.DOTALL)[1])
    assert [("at least" in text) for text in data["texts"]["users"]] == [False] * 4 + [True] * 2
    assert not re.search(r"\b(inf|nan|Infinity)\b", " ".join(Parsed(html).texts))
    assert "band is open" not in page(full, title="Visits")


@pytest.mark.parametrize("name", ["letters", "one slot", "bins", "product", "no clock"])
def test_a_page_under_rules_says_why_a_number_is_missing(name):
    """In texts, in tables and in what the script reads; what is good enough is as without rules."""
    stream = STREAMS[name]
    plain = reduce(stream)
    wide = 100 * np.fmax(plain.shares[VALUE] - plain.shares[LOWER], plain.shares[UPPER] - plain.shares[VALUE])
    points = float(np.median(wide))
    facts = reduce(stream, quality=Quality(points=points))
    assert (np.isnan(facts.shares[VALUE]) == (wide > points)).all()
    shown = wide <= points
    assert (facts.shares[:CODE, shown] == plain.shares[:CODE, shown]).all()
    html = page(stream, title="x", quality=Quality(points=points, percent=1e-3))
    parsed = Parsed(html)
    assert parsed.crossed == parsed.open == []
    assert f"The publisher shows shares within ± {points:g} points" in parsed.text
    assert "not shown: ± " in parsed.text
    assert "No number of users is shown" in parsed.text
    assert "nan" not in parsed.text
    assert "NaN" not in html


def test_a_page_shows_a_week_where_a_day_is_too_noisy():
    """The tooltip and the tables say that it is one; small values say that users are too few."""
    rng = np.random.default_rng(7)
    stream = [made(LETTERS, day, rng, variance=np.full(LETTERS.size, 1e-5 if day % 3 else 1e-3)) for day in range(12)]
    facts = reduce(stream, quality=Quality(points=4, week=True), week=7)
    assert (facts.shares[CODE] == WEEK).any()
    assert (facts.shares[CODE, :, :6] != WEEK).all()
    assert "of a week" in Parsed(page(stream, title="x", quality=Quality(points=4, week=True), week=7)).text
    few = reduce(stream, quality=Quality(size=100))
    assert ((few.shares[CODE] == SMALL) == (np.isnan(few.shares[VALUE]))).all()
    assert (few.shares[CODE] == SMALL).any()


def test_rules_that_leave_nothing_to_draw_are_refused():
    """The option is named."""
    with pytest.raises(OptionError, match=r"^`points` leaves no share to show"):
        page(STREAMS["letters"], title="x", quality=Quality(points=1e-6))
