from html.parser import HTMLParser

import numpy as np
import pytest

import dpi
from dpi.release.queries import Answer
from made_releases import release, releases

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
SECRET = bytes(range(32))


class Seen(HTMLParser):
    """Elements, attributes and texts, and whether everything is closed in order."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.open, self.balanced = [], [], [], [], True
        self.feed(html)
        self.close()
        self.balanced = self.balanced and not self.open

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag):
        """Check that it is the innermost open one."""
        self.balanced = bool(self.open) and self.open.pop() == tag and self.balanced

    def handle_data(self, data):
        """Keep a text."""
        self.texts.append(data)

    @property
    def text(self):
        """All texts."""
        return "\n".join(self.texts)


def stream(**options):
    """A stream with hostile names everywhere that a name may stand."""
    domain = dpi.Categories([HOSTILE, "b"], other=HOSTILE + "!")
    defaults = {"domain": domain, "epsilon": 1, "slot": "1h", "budget": dpi.Ledger(per_slot=0.25), "name": HOSTILE}
    return dpi.Stream(**(defaults | options))


CATEGORIES = dpi.Categories([HOSTILE, *range(40)], other=HOSTILE + "!")
VIEWED = {
    "categories": CATEGORIES,
    "dropping": dpi.Categories(["a"], other=None),
    "bins": dpi.Bins(range(50)),
    "hashed": dpi.Hashed(1000, key=SECRET),
    "product": dpi.Product(**{HOSTILE: CATEGORIES, "n": dpi.Bins([1])}),
    "answer": Answer(0.25, 0.01),
    "plan": dpi.plan(epsilon=1, users=50_000, bins=200),
    "plan outside of its table": dpi.plan(epsilon=1, users=500_000, bins=2),
    "release": releases(CATEGORIES, 1, guarantee=HOSTILE)[0],
    "distribution": releases(dpi.Product(a=CATEGORIES, n=dpi.Bins([1])), 1)[0].marginal("a"),
    "stream": stream(),
}


@pytest.mark.parametrize("thing", VIEWED.values(), ids=VIEWED)
def test_a_view_is_escaped_balanced_and_fetches_nothing(thing):
    """Whatever the names are, they stay text; there is no script, no style sheet and no address in a view."""
    html = thing._repr_html_()
    seen = Seen(html)
    assert seen.balanced
    assert set(seen.tags) <= {"div", "p", "b", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert {name for name, _ in seen.attributes} <= {"style", "scope", "aria-hidden"}
    assert not any(word in html for word in ("http", "url(", "@import"))
    assert "color:" not in html.replace("background:#4c86c6", ""), "texts have the colour of the notebook"


@pytest.mark.parametrize("name", ["categories", "product", "release", "stream"])
def test_names_are_shown_as_they_are(name):
    """A reader sees the name, markup and all."""
    assert HOSTILE in Seen(VIEWED[name]._repr_html_()).text


def test_a_domain_names_its_first_bins_and_its_last():
    """However large, the view stays small, and what is not listed has its name."""
    text = Seen(dpi.Categories(range(100_000), other="elsewhere")._repr_html_()).text
    assert "100,001" in text
    assert "elsewhere" in text
    assert ", …, 99999" in text
    assert len(text) < 300
    assert "< 0, [0, 1)" in Seen(VIEWED["bins"]._repr_html_()).text


def test_a_hashed_domain_does_not_show_its_key():
    """The fingerprint is public, the key is not."""
    html = VIEWED["hashed"]._repr_html_()
    assert VIEWED["hashed"].fingerprint in html
    assert SECRET.hex() not in html


def test_an_answer_shows_its_interval():
    """Value, error and the 95 % interval, as `interval` gives it."""
    text = Seen(VIEWED["answer"]._repr_html_()).text
    assert all(number in text for number in ("0.25", "0.01", "0.2304 … 0.2696"))


@pytest.mark.parametrize("name", ["plan", "plan outside of its table"])
def test_a_plan_shows_every_error_and_how_wrong_it_can_be(name):
    """One row for each error, with the numbers of the text, and every note."""
    plan = VIEWED[name]
    html = plan._repr_html_()
    assert html.count("<tr>") == len(plan.errors) + 2
    for text in (*(cell for row in plan.rows() for cell in row), *plan.notes, plan.doubt):
        assert text in Seen(html).text


def test_a_stream_shows_options_guarantee_spent_and_the_next_slot():
    """All of it public, and as its own properties say."""
    opened = stream(start="2026-01-01")
    first = opened.next_slot
    for slot in (first, first + 1):
        opened.release(["u"], ["b"], slot=slot)
    text = Seen(opened._repr_html_()).text
    assert opened.guarantee in text
    assert repr(opened.budget) in text
    assert f"{first + 2:,}, from 2026-01-01T02:00:00+00:00" in text
    assert "spent at most, per user\n0.5" in text


def test_a_stream_shows_nothing_of_who_was_there(tmp_path):
    """Two streams that differ in their events have one view, and neither key, id nor store's path is in it."""
    views = []
    for number, users in enumerate((["private-ada"], ["private-bob", "private-eve"] * 300)):
        with stream(store=tmp_path / f"secret-{number}.db") as opened:
            opened.release(users, ["b"] * len(users))
            views.append(opened._repr_html_())
            assert opened.store.key.hex() not in views[-1]
    assert views[0] == views[1]
    assert "private" not in views[0]
    assert "secret" not in views[0]


def test_looking_at_a_stream_changes_nothing():
    """After an interruption the view says so, and the stream refuses as it would have without a look."""
    opened = stream(name="")
    opened.release(["u"], ["b"])
    publish = opened.store.publish

    def broken(*_):
        raise KeyboardInterrupt

    opened.store.publish = broken
    with pytest.raises(KeyboardInterrupt):
        opened.release(["u"], ["b"])
    opened.store.publish = publish
    assert "interrupted" in Seen(opened._repr_html_()).text
    with pytest.raises(dpi.errors.ClockError, match="slot 1 was paid for when it was interrupted"):
        opened.release(["u"], ["b"])
    assert "interrupted" not in Seen(opened._repr_html_()).text


def test_a_closed_stream_still_has_a_view(tmp_path):
    """The last line of a cell may show a stream whose store is closed."""
    with stream(store=tmp_path / "s.db") as opened:
        opened.release(["u"], ["b"])
    assert "Ledger(per_slot=0.25)" in Seen(opened._repr_html_()).text


def test_a_release_leaves_other_out_and_keeps_the_order_of_bins():
    """A dominant `other` is told in a sentence, so that bars are not flattened by it; bins stand in their order."""
    rng = np.random.default_rng(1)
    pages = dpi.Categories(["home", "cart"], other="elsewhere")
    text = Seen(release(pages, 0, rng, pdf=np.array([0.01, 0.02, 0.97]))._repr_html_()).texts
    assert text.index("cart") < text.index("home")
    assert "Left out: elsewhere, 97 %." in text
    ages = dpi.Bins(range(4))
    text = Seen(release(ages, 0, rng)._repr_html_()).texts
    assert [each for each in text if each in map(ages.label, range(5))] == [*map(ages.label, range(5))]
