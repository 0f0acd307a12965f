import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.errors import OptionError
from dpi.release.choice import bin_of, catch_all, choose, choose_sets, neighbours, values_from_text
from dpi.release.grid import grid, pairs
from made_releases import releases

PAGES = dpi.Categories(["home", "cart", "help"], other="elsewhere")
AGES = dpi.Bins([18, 30, 65])
PAIR = dpi.Product(page=PAGES, age=AGES)


def test_the_largest_are_chosen_without_other():
    """However large the bin of unlisted values is, it is none of the largest."""
    assert choose(PAGES, np.array([0.1, 0.05, 0.15, 0.7]), 2).tolist() == [2, 0]
    assert choose(PAGES, np.array([0.1, 0.05, 0.15, 0.7]), 9).tolist() == [2, 0, 1]


def test_named_values_keep_their_order_and_other_can_be_named():
    """The order is the caller's; a value that is named twice is drawn once."""
    assert choose(PAGES, np.ones(4), ["help", "elsewhere", "home", "help"]).tolist() == [2, 3, 0]


@pytest.mark.parametrize("values", [3, [70, 10, "[18, 30)"]])
def test_bins_keep_the_order_of_their_edges(values):
    """Whether they are the largest or named, by a number or by their label."""
    codes = choose(AGES, np.array([0.3, 0.5, 0.1, 0.4]), values).tolist()
    assert codes == [0, 1, 3]


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (PAGES, 0), (PAGES, True), (PAGES, []), (PAGES, "home"), (PAGES, ["nowhere"]), (PAGES, {"page": 1}),
        (AGES, ["soon"]), (PAIR, {"colour": 2}), (dpi.Hashed(3, key=bytes(32)), ["#3"]),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(domain, values):
    """No value, a value that is not in the domain, a part that is not there."""
    with pytest.raises(OptionError):
        choose(domain, np.ones(domain.size), values)


@pytest.mark.parametrize(
    ("domain", "value", "end"),
    [
        (PAGES, "hom", ": did you mean 'home'?"),
        (PAGES, "HOME", ": did you mean 'home'?"),
        (PAGES, "elsewere", ": did you mean 'elsewhere'?"),
        (PAGES, "shop", "."),
        (PAGES, 7, "."),
        (dpi.Categories([f"page {n}" for n in range(1_001)]), "page x", "."),  # so many are not compared
    ],
)
def test_a_value_that_is_not_in_the_domain_is_told_the_nearest(domain, value, end):
    """Values of a domain are public, so the sentence may name one; letters may be large or small."""
    with pytest.raises(OptionError) as refused:
        choose(domain, np.ones(domain.size), [value])
    assert str(refused.value) == f"{value!r} is not in the domain{end}"


def test_a_value_of_a_product_is_refused_by_its_part():
    """It would be a bin with `other`: the share of all that is not listed, and not of what was asked for."""
    with pytest.raises(OptionError, match=r"'hom' is not in the domain: did you mean 'home'\?"):
        bin_of(PAIR, {"page": "hom", "age": 20})
    assert bin_of(PAIR, {"page": "elsewhere", "age": 20}) == PAIR.index({"page": "nowhere", "age": 20})
    assert bin_of(PAIR, {"page": "home", "age": 20}) == PAIR.index({"page": "home", "age": 20})


def test_combinations_of_a_product_are_chosen_by_its_parts():
    """Named parts restrict, others lose their `other`, and what is left stands by its weight."""
    weight = np.arange(PAIR.size, dtype=float)
    codes = choose(PAIR, weight, {"age": [10, 70]})
    labels = [PAIR.label(int(code)) for code in codes]
    assert labels[0] == "page=help, age=≥ 65"
    assert len(labels) == 3 * 2
    assert not any("elsewhere" in label for label in labels)


def test_a_combination_with_other_in_it_is_other():
    """In a product every combination that has a part in `other` is left out."""
    other = [code for code in range(PAIR.size) if "elsewhere" in PAIR.label(code)]
    assert np.flatnonzero(catch_all(PAIR)).tolist() == other


def test_buckets_are_named_by_their_numbers():
    """Whoever reads releases has no key, and can still choose."""
    domain = dpi.Hashed.without_key(9, "f")
    assert choose(domain, np.ones(9), values_from_text(domain, ["#2,#7"])).tolist() == [2, 7]


def test_words_of_a_command_line_are_values():
    """Commas part values, but not one that holds a comma; numbers name bins; parts have their own."""
    odd = dpi.Categories(["a,b", "a", "b"])
    assert values_from_text(odd, ["a,b"]) == ["a,b"]
    assert values_from_text(odd, ["b,a"]) == ["b", "a"]
    assert choose(AGES, np.ones(4), values_from_text(AGES, ["20,70"])).tolist() == [1, 3]
    assert values_from_text(PAIR, ["page=home,cart", "age=[18, 30)"]) == {"page": ["home", "cart"], "age": ["[18, 30)"]}
    with pytest.raises(OptionError, match="its parts are page, age"):
        values_from_text(PAIR, ["home"])


@given(st.integers(1, 300), st.integers(3, 50))
def test_neighbours_hold_every_bin_once_in_order(edges, bound):
    """At most as many sets as allowed, none empty, all but the ends and the last of one size."""
    domain = dpi.Bins(range(edges))
    sets = neighbours(domain, bound)
    assert np.concatenate(sets).tolist() == list(range(domain.size))
    assert len(sets) <= max(bound, 3)
    assert len({codes.size for codes in sets[1:-2]}) <= 1
    assert sets[0].tolist() == [0]


def test_a_grid_has_the_numbers_of_the_release():
    """Cells are joint shares, sides are marginals, and what is not drawn is what they leave."""
    release = releases(PAIR, 1)[0]
    made = grid(release, "page", "age")
    assert set(made.rows.labels) == {"home", "cart", "help"}
    assert made.columns.labels == tuple(AGES.label(code) for code in range(4))
    for row, page in enumerate(made.rows.labels):
        assert made.rows.shares.value[row] == pytest.approx(release.marginal("page").probability(page).value)
        for column, age in enumerate((10, 20, 50, 70)):
            share = release.probability({"page": page, "age": age})
            assert made.cells.value[row, column] == pytest.approx(share.value)
    elsewhere = release.marginal("page").probability("elsewhere").value
    assert made.left_out == pytest.approx(elsewhere)
    assert (made.cells.lower <= made.cells.value).all()
    assert (made.cells.value <= made.cells.upper).all()


def test_a_grid_can_be_turned_chosen_and_summed():
    """Any two parts in any order; one that is not drawn is summed over, or over those of its values that are named."""
    domain = dpi.Product(page=PAGES, age=AGES, way=dpi.Categories(["in", "out"], other=None))
    release = releases(domain, 1)[0]
    turned = grid(release, "way", "page", {"page": ["cart", "elsewhere"]})
    assert (set(turned.rows.labels), turned.columns.labels) == ({"in", "out"}, ("cart", "elsewhere"))
    assert turned.summed == ("age",)
    some = grid(release, "page", "way", {"age": [20, 50]})
    assert some.summed == ("age ([18, 30), [30, 65))",)
    within = sum(release.marginal("age").probability(age).value for age in (20, 50))
    others = [{"page": "elsewhere", "age": age, "way": way} for age in (20, 50) for way in ("in", "out")]
    elsewhere = sum(release.probability(other).value for other in others)
    assert float(some.cells.value.sum()) == pytest.approx(within - elsewhere)
    assert pairs(domain) == [("page", "age"), ("page", "way"), ("age", "way")]
    for wrong in (("page", "page"), ("page", "colour")):
        with pytest.raises(OptionError, match="two different parts"):
            grid(release, *wrong)
    with pytest.raises(OptionError, match="'colour' is not a part"):
        grid(release, "page", "age", {"colour": ["red"]})


def test_a_long_ordered_part_has_no_gap():
    """Neighbours are drawn as one, and their shares are sums."""
    sets, labels = choose_sets(dpi.Bins(range(101)), np.ones(102), None, 12)
    assert labels[:3] == ("< 0", "[0, 10)", "[10, 20)")
    assert labels[-1] == "≥ 100"
    assert len(choose_sets(dpi.Bins(range(101)), np.ones(102), 5, 12)[0]) <= 5
    assert sum(codes.size for codes in sets) == 102
