import json
import re

import numpy as np
import pytest

import dpi
from dpi.errors import OptionError
from dpi.report import page
from dpi.report._facts import LOWER, UPPER, VALUE, reduce
from dpi.report._rows import MOST_CURVES, ORDERED, VALUES
from made_releases import release, releases

PAGES = dpi.Categories(["home", "cart", "help", "shop"], other="elsewhere")
PAIR = dpi.Product(page=PAGES, age=dpi.Bins([18, 65]))


def data(html):
    """What the page's script is given."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html)[1])


def dominated(slots=3):
    """A stream in which nearly everything is unlisted."""
    rng = np.random.default_rng(1)
    share = np.array([0.01, 0.02, 0.03, 0.04, 0.9])
    return [release(PAGES, slot, rng, pdf=share, accumulated=share) for slot in range(slots)]


def test_a_dominant_other_does_not_flatten_charts():
    """It has no row; scales are those of listed values; its own share and interval are told under its name."""
    stream = dominated()
    facts = reduce(stream)
    assert facts.rows.labels == ("shop", "help", "cart", "home")
    assert facts.largest == 0.04
    lower, upper = stream[-1].interval()
    assert facts.rest[:, -1].tolist() == [0.9, lower[4], upper[4], 0.0]
    html = page(stream, title="t")
    assert data(html)["labels"][-1] == "elsewhere"
    assert data(html)["scale"] < 0.2
    assert "<p>elsewhere: <span" in html


def test_chosen_values_have_rows_bars_and_curves_as_they_are_named():
    """In the order of the names, in every slot; everything else is one row."""
    facts = reduce(dominated(), ["help", "elsewhere"])
    assert facts.rows.labels == ("help", "elsewhere")
    assert facts.rows.bars == facts.rows.curves == (0, 1)
    assert facts.rows.others == 3
    html = page(dominated(), title="t", values=["help", "elsewhere"])
    assert data(html)["fixed"] is True
    assert "The 2 chosen values over time" in html
    assert ">shop<" not in html, "not even among the largest of the last slots"


def test_so_many_of_the_largest_are_drawn():
    """Curves too, up to their bound."""
    facts = reduce(dominated(), 3)
    assert [facts.rows.labels[row] for row in facts.rows.curves] == ["shop", "help", "cart"]
    many = releases(dpi.Categories(range(100)), 2)
    assert len(reduce(many, 50).rows.curves) == MOST_CURVES
    assert len(reduce(many, 50).rows.labels) == 50
    with pytest.raises(OptionError, match=f"at most {VALUES} values"):
        reduce(many, VALUES + 1)


def test_many_bins_keep_their_order_without_a_gap():
    """Neighbours share a row, whose share is their sum; every bin is in one row, and nothing is left."""
    stream = releases(dpi.Bins(range(200)), 3)
    facts = reduce(stream)
    assert len(facts.rows.labels) <= ORDERED
    assert facts.rows.others == 0
    assert facts.shares[VALUE, :, -1].sum() == pytest.approx(1)
    assert facts.shares[VALUE, 1, -1] == pytest.approx(stream[-1].pdf[facts.rows.sets[1]].sum())
    assert (facts.shares[LOWER] <= facts.shares[VALUE]).all()
    assert (facts.shares[VALUE] <= facts.shares[UPPER]).all()
    html = page(stream, title="t")
    assert "All bins in their order" in html
    assert "neighbours share one" in html
    assert data(html)["fixed"] is True
    labels = re.findall(r'<th scope="row" title="([^"]*)">', re.search(r'<tbody id="bars">.*?</tbody>', html)[0])
    assert len(labels) == len(facts.rows.labels)
    starts = [float(re.search(r"-?\d+", label)[0]) for label in labels]
    assert starts[1:] == sorted(starts[1:])


def test_a_product_is_a_grid_of_its_parts():
    """A table of all pairs with what each part has by itself, `other` left out and told."""
    made = releases(PAIR, 3)
    html = page(made, title="t")
    section = re.search(r'<section id="grid-0".*?</section>', html, re.DOTALL)[0]
    assert "page × age" in section
    assert section.count('scope="row"') == 4 + 1
    assert section.count('scope="col"') == 3 + 1
    newest = made[-1]
    assert f"{100 * newest.probability({'page': 'cart', 'age': 30}).value:.1f}</td>" in section
    assert f"{100 * newest.marginal('age').probability(30).value:.1f}</td>" in section
    assert "elsewhere" not in section
    left = newest.marginal("page").probability("elsewhere").value
    assert f"Not in a cell: {100 * left:.3g} %" in section


def test_chosen_parts_of_a_product_are_rows_and_columns_of_its_grid():
    """And the combinations of them are all that has a name in the page."""
    html = page(releases(PAIR, 3), title="t", values={"page": ["cart", "home"]})
    section = re.search(r'<section id="grid-0".*?</section>', html, re.DOTALL)[0]
    assert section.count('scope="row"') == 2 + 1
    assert len(data(html)["labels"]) == 2 * 3 + 1
    assert ">shop" not in html


def test_hostile_names_of_parts_and_values_stay_text():
    """In grids as everywhere."""
    hostile = "</td><img src=x onerror=alert(1)>"
    domain = dpi.Product(**{hostile: dpi.Categories([hostile, "b"]), "n": dpi.Bins([1])})
    html = page(releases(domain, 2), title="t")
    assert "<img src=x" not in html
    assert "&lt;/td&gt;&lt;img src=x" in html
