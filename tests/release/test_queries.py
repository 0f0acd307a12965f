import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.domain import Bins, Categories, Hashed, Product
from dpi.domain._amounts import Side
from dpi.errors import OptionError
from dpi.release.queries import Answer, Distribution, _middles
from made_releases import release

RNG = np.random.default_rng(0)


def distribution(domain, pdf=None, sd=0.0, total=100.0, total_sd=0.0):
    """A distribution with equal errors in all bins."""
    pdf = np.full(domain.size, 1 / domain.size) if pdf is None else np.asarray(pdf, dtype=float)
    return Distribution(domain, pdf / pdf.sum(), np.full(domain.size, sd**2), total, total_sd**2)


AGES = distribution(Bins([0, 10, 20, 40]), [1, 2, 3, 4, 2])


def test_error_bars_match_a_simulation():
    """The stated error of a linear answer is that of PDFs with independent errors made to sum to one (within 3 %)."""
    sd = np.array([0.01, 0.02, 0.005, 0.015, 0.01])
    plain = Distribution(AGES.domain, AGES.pdf, sd**2)
    noise = RNG.normal(0, sd, (40_000, 5))
    noise -= noise.sum(axis=1, keepdims=True) * sd**2 / (sd**2).sum()
    simulated = (noise @ _middles(plain.domain)).std()
    assert plain.mean().error == pytest.approx(simulated, rel=0.03)


@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_a_mean_holds_wherever_in_their_bins_values_lie(place):
    """At a bin's edge the truth is half a width from the middle: in the interval, of the mean and of the sum."""
    exact = distribution(Bins([0, 10, 20, 40]), [0, 2, 3, 4, 0])
    truth = float(exact.pdf[1:-1] @ (np.array([0, 10, 20]) + place * np.array([10, 10, 20])))
    for answer, true in ((exact.mean(), truth), (exact.sum(), 100 * truth)):
        lower, upper = answer.interval()
        assert lower <= true <= upper
        assert answer.value - lower == pytest.approx(upper - answer.value)
    noisy = distribution(exact.domain, [0, 2, 3, 4, 0], sd=0.01).mean()
    assert noisy.interval()[1] - noisy.interval()[0] > exact.mean().interval()[1] - exact.mean().interval()[0]
    beyond = distribution(exact.domain, [1, 0, 0, 0, 1]).mean()
    assert beyond.interval() == (20, 20)  # by definition at the outer edges


def test_means_of_days_hold_where_all_values_are_at_the_edge():
    """Seven days of people whose ages are all at the lower edge of their bin: every day's mean is in its interval.

    The level is 1 - 10^-8, so that noise is no reason to fail; without the width no day's interval would hold.
    """
    level, stream = 1 - 1e-8, dpi.Stream(domain=Bins([0, 10, 20, 30]), epsilon=7, budget=dpi.Ledger(per_slot=1))
    ages = [0, 10, 20] * 700
    for _ in range(7):
        answer = stream.release([f"user {i}" for i in range(2100)], ages).mean()
        lower, upper = answer.interval(level)
        assert lower <= 10 <= upper
        assert Answer(answer.value, answer.error).interval(level)[0] > 10


def test_quantile_errors_match_a_simulation():
    """The stated error of a median is that of medians of perturbed PDFs (within 10 %)."""
    sd, pdf = np.full(5, 0.005), np.array([1, 2, 4, 4, 2]) / 13
    plain = Distribution(AGES.domain, pdf, sd**2)
    noise = RNG.normal(0, sd, (5_000, 5))
    noise -= noise.mean(axis=1, keepdims=True)
    medians = [Distribution(AGES.domain, pdf + n, sd**2).median().value for n in noise]
    assert plain.median().error == pytest.approx(np.std(medians), rel=0.1)


@given(st.lists(st.floats(0.01, 1), min_size=5, max_size=5), st.floats(0, 1))
def test_quantile_inverts_the_distribution_function(weights, q):
    """The share below a quantile is the quantile's level."""
    ages = distribution(AGES.domain, weights)
    value = ages.quantile(q).value
    assert ages.range(-1e9, value).value == pytest.approx(q, abs=1e-9)


def test_moments_of_known_bins():
    """Mean and spread of two bins are those of two points."""
    two = distribution(Bins([0, 10, 20]), [0, 1, 1, 0])
    assert two.mean().value == 10
    assert two.spread().value == 25
    assert two.sum().value == 1000


def test_ranges_cut_bins_in_proportion():
    """Half a bin is half its share, and all ranges together are one."""
    assert AGES.range(0, 5).value == pytest.approx(1 / 12)
    assert AGES.range(-100, 100).value == pytest.approx(1)
    assert AGES.range(3, 3).value == 0


def test_counts_carry_the_error_of_the_total():
    """A count's error has both parts."""
    d = distribution(Categories(["a", "b"], other=None), [1, 1], sd=0.01, total=1000, total_sd=20)
    assert d.count().error == 20
    assert d.count("a").value == 500
    share_error = d.probability("a").error
    assert d.count("a").error == pytest.approx(math.hypot(1000 * share_error, 0.5 * 20))
    with pytest.raises(OptionError, match="was not measured"):
        Distribution(d.domain, d.pdf, d.variance).count()


def test_top_is_sorted_and_ties_are_stable():
    """The largest shares come first, equal ones in the order of the domain."""
    d = distribution(Categories(["a", "b", "c"], other=None), [1, 2, 2])
    assert d.top(2) == [("b", 0.4), ("c", 0.4)]
    assert len(d.top(99)) == 3


def test_products_come_apart():
    """Conditionals and marginals of an independent product are its parts, and its correlation is zero."""
    domain = Product(x=Bins([0, 1, 2]), y=Bins([0, 1]))
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.3, 0.2])
    d = distribution(domain, np.outer(p, q).ravel(), sd=0.001)
    assert d.marginal("x").pdf == pytest.approx(p)
    assert d.where(y=0.5).pdf == pytest.approx(p)
    assert d.where(y=0.5).total == pytest.approx(30)
    assert d.where(y=[0.5, -1]).pdf == pytest.approx(p)
    assert d.where(y=[0.5, -1, -2]).total == pytest.approx(80)
    assert d.correlation("x", "y").value == pytest.approx(0, abs=1e-12)
    diagonal = distribution(Product(x=Bins([0]), y=Bins([0])), [1, 0, 0, 1])
    with pytest.raises(OptionError, match="vary"):
        diagonal.correlation("x", "y")  # one edge: both bins stand at it
    wide = distribution(Product(x=Bins([0, 1]), y=Bins([0, 1])), [1, 0, 0, 0, 0, 0, 0, 0, 1])
    assert wide.correlation("x", "y").value == pytest.approx(1)


@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.lists(st.floats(0.01, 1), min_size=3, max_size=3))
def test_distances_are_distances(a, b):
    """L1 and KL are zero for equal releases, never negative, and Pinsker's inequality holds between them."""
    domain = Categories(["a", "b", "c"], other=None)
    p, q = distribution(domain, a), distribution(domain, b)
    assert p.l1(p).value == p.kl(p).value == 0
    assert p.kl(q).value >= p.l1(q).value ** 2 / 2 - 1e-12


def test_join_size_of_two_streams():
    """Two uniform streams of 10 and 20 users over 4 values meet in 50 pairs."""
    domain = Categories(list("abcd"), other=None)
    one, other = distribution(domain, total=10, total_sd=1), distribution(domain, total=20)
    assert one.join_size(other).value == pytest.approx(50)
    assert one.join_size(other).error == pytest.approx(5)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: AGES.quantile(1.5),
        lambda: AGES.range(5, 1),
        lambda: AGES.top(0),
        lambda: AGES.where(x=1),
        lambda: AGES.correlation("x", "y"),
        lambda: AGES.l1(distribution(Bins([0]))),
        lambda: distribution(Categories(["a"])).mean(),
        lambda: distribution(Categories(["a"])).probability("b"),
        lambda: distribution(Categories(["a"], other=None)).probability("other"),
        lambda: distribution(Product(x=Bins([0]), y=Bins([0]))).where(x=1, y=1),
        lambda: distribution(Product(x=Bins([0]))).marginal("z"),
        lambda: Answer(1, 1).interval(1.0),
    ],
)
def test_questions_outside_the_domain_are_refused(ask):
    """A value, part or level that does not exist is an error in one sentence."""
    with pytest.raises(OptionError):
        ask()


def test_other_and_buckets_may_be_asked_for():
    """The `other` bin by its name, a bucket by any value."""
    d = distribution(Categories(["a"], other="rest"), [1, 3])
    assert d.probability("rest").value == 0.75
    assert distribution(Hashed(4, bytes(32))).probability("anything").value == 0.25


def test_a_share_has_the_interval_of_its_bin():
    """`probability` and `interval` state the same ends for one value, at every level."""
    made = release(Categories(list("abcdef"), other=None), 3, np.random.default_rng(5))
    for code, value in enumerate("abcdef"):
        share = made.probability(value)
        for level in (0.5, 0.95):
            lower, upper = made.interval(level)
            assert share.interval(level) == pytest.approx((lower[code], upper[code]), rel=1e-9)


@pytest.mark.parametrize(("total", "lowest"), [(3.0, 0.0), (-2.0, 0.0), (-900.0, 0.0), (9000.0, 8800.0)])
def test_no_count_has_a_negative_interval(total, lowest):
    """Of all users, of one value and of pairs: ends are cut at 0, which is post-processing; a sum may be negative."""
    made = release(Bins([-10, 0, 10]), 3, np.random.default_rng(5), total=total, total_variance=100.0**2)
    for level in (0.5, 0.95, 0.999):
        for count in (made.count(), made.count(5), made.join_size(made)):
            lower, upper = count.interval(level)
            plain = Answer(count.value, count.error).interval(level)
            assert (lower, upper) == (max(0.0, plain[0]), max(0.0, plain[1]))
            assert 0 <= lower <= upper
    assert made.count().interval(0.95)[0] == pytest.approx(max(lowest, total - 1.96 * 100), abs=5)
    total_sum = made.sum()
    ends = [end for each in (total_sum.low, total_sum.high) for end in each.interval(0.95)]
    assert total_sum.interval(0.95) == (min(ends), max(ends))  # also where noise has taken the total below 0


def test_a_segment_has_the_error_of_its_own_size():
    """The number of users of a segment is the total times a share: both errors are in it, and all segments sum up."""
    domain = Product(land=Categories(["DE", "FR"], other=None), age=Bins([18]))
    d = distribution(domain, [4, 2, 1, 3], sd=0.01, total=1000, total_sd=20)
    german, french = d.where(land="DE"), d.where(land="FR")
    assert german.total + french.total == pytest.approx(1000)
    share = 0.01 * np.sqrt(2 - 2**2 / 4)
    assert german.count().error == pytest.approx(np.hypot(0.6 * 20, 1000 * share))
    assert d.where(land=["DE", "FR"]).total_variance == pytest.approx(20**2)
    assert german.probability(20).value == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("domain", "known"),
    [
        (dpi.Amounts("0.01"), False),
        (dpi.Amounts("0.01", plus=Side(2, (0, 0)), minus=Side(0, ())), True),
        (Bins([-10, 0, 10]), True),
    ],
)
def test_only_the_first_grid_of_amounts_has_intervals_that_say_nothing(domain, known):
    """There an interval with both signs says nothing, in words and on a card; the ends stay what they are."""
    even, doubt = np.full(domain.size, 1 / domain.size), np.full(domain.size, 1e-4)
    found = Distribution(domain, even, doubt, total=100.0, total_variance=1.0)
    for answer in (found.mean(), found.sum()):
        lower, upper = answer.interval()
        assert known or lower < 0 < upper
        assert answer.known is known
        assert ("not known yet" in answer._repr_html_()) is not known
    assert found.median().known
