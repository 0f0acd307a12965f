import numpy as np
import pytest

import dpi
from dpi.errors import OptionError
from made_releases import release, releases

PAGES = dpi.Categories(["home", "cart", "help"], other="elsewhere")
SHARES = np.array([0.02, 0.05, 0.03, 0.9])


def one(domain, **changes):
    """One release."""
    return release(domain, 0, np.random.default_rng(1), **changes)


def ticks(labels):
    """The texts beside an axis."""
    return [label.get_text() for label in labels]


def test_bars_leave_other_out_and_say_so():
    """The largest stand above, `other` stands in the caption, and the scale is that of what is drawn."""
    figure = one(PAGES, pdf=SHARES).plot()
    (axes,) = figure.axes
    assert ticks(axes.get_yticklabels()) == ["cart", "help", "home"]
    assert axes.yaxis_inverted()
    assert axes.get_xlim()[1] < 0.2
    assert figure.get_supxlabel() == "Not drawn: elsewhere 90 % of users"


def test_bars_of_chosen_values():
    """As they are named, `other` too; or so many of the largest."""
    made = one(PAGES, pdf=SHARES)
    figure = made.plot(["elsewhere", "home"])
    assert ticks(figure.axes[0].get_yticklabels()) == ["elsewhere", "home"]
    assert figure.get_supxlabel() == "Not drawn: 2 more values 8 % of users"
    assert ticks(made.plot(1).axes[0].get_yticklabels()) == ["cart"]
    with pytest.raises(OptionError, match="'shop' is not in the domain"):
        made.plot(["shop"])
    with pytest.raises(OptionError, match="product"):
        made.plot(parts=("a", "b"))


@pytest.mark.parametrize(
    ("edges", "says"),
    [([0, 10, 20, 30], "in a bin"), ([0, 1, 5, 30], "per unit"), ([1, 10, 100], "in a bin"), ([1, 2, 100], "factor")],
)
def test_bins_are_steps_over_their_edges(edges, says):
    """The area of a step is its share, over the true edges; what lies beyond them is told below."""
    domain = dpi.Bins(edges)
    made = one(domain)
    figure = made.plot()
    (axes,) = figure.axes
    heights, drawn, _ = axes.patches[0].get_data()
    assert drawn.tolist() == [float(edge) for edge in edges]
    widths = np.diff(np.log10(edges)) if axes.get_xscale() == "log" else np.diff(edges)
    unit = np.ones(len(edges) - 1) if says == "in a bin" else widths
    assert heights * unit == pytest.approx(made.pdf[1:-1])
    assert says in axes.get_ylabel()
    assert f"below {edges[0]}" in figure.get_supxlabel()


def test_a_product_is_a_grid_with_its_marginals():
    """A heat map of two parts with a bar for each row and each column, ordered parts in their order."""
    domain = dpi.Product(page=PAGES, age=dpi.Bins([18, 65]), way=dpi.Categories(["in", "out"], other=None))
    made = one(domain)
    top, _, middle, right = made.plot().axes
    assert ticks(middle.get_xticklabels()) == ["< 18", "[18, 65)", "≥ 65"]
    assert set(ticks(middle.get_yticklabels())) == {"home", "cart", "help"}
    ages = made.marginal("age")
    assert [bar.get_height() for bar in top.patches] == pytest.approx(ages.pdf.tolist())
    assert len(right.patches) == 3
    cells = middle.images[0].get_array()
    assert cells.shape == (3, 3)
    assert float(cells.sum()) == pytest.approx(1 - made.marginal("page").probability("elsewhere").value)
    turned = made.plot({"page": ["cart"]}, parts=("way", "page"))
    assert ticks(turned.axes[2].get_xticklabels()) == ["cart"]
    assert "Summed over age" in turned.get_supxlabel()
    named = made.plot([{"page": "cart", "age": 30, "way": "in"}])
    assert ticks(named.axes[0].get_yticklabels()) == ["cart · [18, 65) · in"]
    with pytest.raises(OptionError, match="two parts"):
        made.plot(parts="page")


def test_a_series_leaves_other_out_and_draws_what_is_named():
    """Curves of the largest or the named values; the caption tells the mean share of the rest."""
    made = releases(PAGES, 5, pdf=SHARES)
    figure = dpi.plot_series(made)
    assert ticks(figure.axes[0].get_legend().get_texts()) == ["cart", "help", "home"]
    assert figure.get_supxlabel() == "Not drawn: elsewhere 90 % of users, the mean of all slots"
    figure = dpi.plot_series(made, ["home", "elsewhere"])
    assert ticks(figure.axes[0].get_legend().get_texts()) == ["home", "elsewhere"]
    with pytest.raises(OptionError, match="same domain"):
        dpi.plot_series([*made, *releases(dpi.Bins([0]), 6)[5:]])


def test_a_series_of_bins_is_a_map_in_their_order():
    """Every bin has a row, the lowest below; named bins are curves in the order of their edges."""
    made = releases(dpi.Bins([0, 1, 2]), 5)
    above = dpi.plot_series(made).axes[0]
    assert ticks(above.get_yticklabels()) == ["< 0", "[0, 1)", "[1, 2)", "≥ 2"]
    assert not above.yaxis_inverted()
    assert np.array(above.collections[0].get_array()) == pytest.approx(np.stack([r.pdf for r in made]).T)
    figure = dpi.plot_series(made, [1.5, -3])
    assert ticks(figure.axes[0].get_legend().get_texts()) == ["< 0", "[1, 2)"]


def test_a_notebook_shows_the_picture():
    """Also where pyplot, which would see to it, was never imported."""
    assert one(PAGES).plot()._repr_png_().startswith(b"\x89PNG")
