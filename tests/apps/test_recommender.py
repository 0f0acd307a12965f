from importlib.util import find_spec

import numpy as np
import pytest

import dpi
import made_releases
from dpi.apps import Recommender
from dpi.apps.recommender import _from_the_end, _popular
from dpi.noise import UnsafeSeededSource
from dpi.release.queries import Distribution

pytestmark = pytest.mark.skipif(  # it takes seconds to import, and whoever collects tests need not
    find_spec("sklearn") is None, reason="recommendations need scikit-learn (the extra apps)"
)

GROUPS = dpi.Categories(["north", "south", "east", "west"], other=None)
ITEMS = dpi.Categories([f"item {i}" for i in range(30)], other="rest")
DOMAIN = dpi.Product(place=GROUPS, item=ITEMS)


def truth(sizes=(0.4, 0.3, 0.2, 0.1)):
    """Each group likes ten items of its own most, the first of them best; nearly half of the users buy the rest."""
    matrix = np.full((4, 31), 1.0)
    matrix[:, 30] = 100
    for group in range(4):
        liked = (np.arange(10) + 7 * group) % 30
        matrix[group, liked] = np.arange(20, 10, -1)
    matrix *= np.array(sizes)[:, None] / matrix.sum(axis=1, keepdims=True)
    return matrix


def items(made, group, n=10):
    """The names of what is recommended."""
    return [found.item for found in made.top(group, n)]


def test_without_noise_each_group_gets_its_own_best():
    """With enough factors the order is that of the group's own PDF, and `other` is never recommended."""
    matrix = truth()
    made = Recommender(Distribution(DOMAIN, matrix.ravel(), np.zeros(DOMAIN.size)), group="place", item="item")
    for code, group in enumerate(GROUPS.values):
        best = np.argsort(-matrix[code, :30], kind="stable")[:10]
        assert set(items(made, group)) == {ITEMS.label(int(i)) for i in best}
        assert "rest" not in items(made, group, 40)
        assert not made.is_cold(group)


def test_the_order_of_the_parts_does_not_matter():
    """A product that names the item first gives the same recommendations."""
    turned = dpi.Product(item=ITEMS, place=GROUPS)
    one = Recommender(Distribution(DOMAIN, truth().ravel(), np.zeros(DOMAIN.size)), group="place", item="item")
    other = Recommender(Distribution(turned, truth().T.ravel(), np.zeros(DOMAIN.size)), group="place", item="item")
    assert all(items(one, group) == items(other, group) for group in GROUPS.values)


def test_a_cold_group_gets_what_is_popular():
    """A group without users that noise could not explain gets the items that are popular among all."""
    matrix = truth(sizes=(0.6, 0.399, 0.001, 0.0))
    variance = np.full(DOMAIN.size, 1e-7)
    made = Recommender(Distribution(DOMAIN, matrix.ravel(), variance), group="place", item="item")
    assert [made.is_cold(group) for group in GROUPS.values] == [False, False, True, True]
    popular = {ITEMS.label(int(i)) for i in np.argsort(-matrix.sum(axis=0)[:30], kind="stable")[:10]}
    assert set(items(made, "west")) == popular
    assert items(made, "east") == items(made, "west")


def test_noise_draws_towards_what_groups_share():
    """With noise as large as the differences, recommendations are nearer to popularity than the noisy order is."""
    rng = np.random.default_rng(2)
    shared = np.array([0.2, 0.15, 0.1] + [0.1 / 27] * 27 + [0.45])
    matrix = np.outer([0.25] * 4, shared)
    noisy = np.maximum(matrix + rng.normal(0, 0.004, matrix.shape), 0)
    made = Recommender(
        Distribution(DOMAIN, (noisy / noisy.sum()).ravel(), np.full(DOMAIN.size, 0.004**2)), group="place", item="item"
    )
    assert all(set(items(made, group, 3)) == {"item 0", "item 1", "item 2"} for group in GROUPS.values)


def test_releases_of_a_stream_are_enough():
    """On a stream of 20,000 newcomers at ε = 1, eight of ten recommendations are the group's own best, or more."""
    rng = np.random.default_rng(1)
    matrix = truth()
    stream = dpi.Stream(domain=DOMAIN, epsilon=1, budget=dpi.Ledger(per_slot=1), unsafe_source=UnsafeSeededSource(2))
    releases = []
    for slot in range(3):
        codes = rng.choice(DOMAIN.size, 20_000, p=matrix.ravel())
        values = {
            "place": [GROUPS.label(int(c)) for c in codes // 31],
            "item": [ITEMS.label(int(c)) for c in codes % 31],
        }
        releases.append(stream.release([f"{slot}-{i}" for i in range(20_000)], values))
    made = Recommender(releases, group="place", item="item")
    for code, group in enumerate(GROUPS.values):
        best = {ITEMS.label(int(i)) for i in np.argsort(-matrix[code, :30], kind="stable")[:10]}
        assert len(best & set(items(made, group))) >= 8


def test_one_group_is_enough():
    """With a single group there is nothing to factor, and its own order remains."""
    domain = dpi.Product(place=dpi.Categories(["here"], other=None), item=ITEMS)
    pdf = truth()[0] / 0.4
    made = Recommender(Distribution(domain, pdf, np.zeros(31)), group="place", item="item")
    assert items(made, "here", 3) == ["item 0", "item 1", "item 2"]


def test_what_does_not_fit_is_refused():
    """Other domains, unknown groups, no releases, and numbers that are none."""
    plain = made_releases.releases(dpi.Categories(["a"]), 1)
    pairs = Distribution(DOMAIN, truth().ravel(), np.zeros(DOMAIN.size))
    made = Recommender(pairs, group="place", item="item")
    for refused, said in (
        (lambda: Recommender(plain, group="place", item="item"), "needs a Product domain"),
        (lambda: Recommender(pairs, group="place", item="thing"), "needs a Product domain"),
        (lambda: Recommender([], group="place", item="item"), "at least one release"),
        (lambda: Recommender(pairs, group="place", item="item", factors=0), "`factors` must be"),
        (lambda: made.top("moon"), "not a group"),
        (lambda: made.top("north", 0), "`n` must be"),
    ):
        with pytest.raises(dpi.OptionError, match=said):
            refused()


def test_what_is_popular_is_the_least_squares_fit_of_one_taste():
    """No other PDF of items, times the groups' sizes, is nearer to the shares; one common taste is found exactly."""
    sizes, rng = np.array([0.9, 0.06, 0.04]), np.random.default_rng(0)
    taste = rng.dirichlet(np.ones(6))
    assert _popular(np.outer(sizes, taste)) == pytest.approx(taste)
    pdf = rng.dirichlet(np.ones(18)).reshape(3, 6)
    own = pdf.sum(axis=1)
    fitted = np.linalg.lstsq(own[:, None], pdf, rcond=None)[0][0]
    assert _popular(pdf) == pytest.approx(fitted)


def filtered(rng, slots, noise, step):
    """Releases of a Kalman filter on shares that walk, the first of which know little; and the true mean."""
    truth, level, doubt = rng.dirichlet(np.full(DOMAIN.size, 5.0)), np.full(DOMAIN.size, 1 / DOMAIN.size), 1.3e-5
    found, shares, accumulated = [], [], np.zeros(DOMAIN.size)
    for slot in range(slots):
        truth = np.abs(truth + rng.normal(0, step, truth.size))
        doubt += step**2
        gain = doubt / (doubt + noise**2)
        level = level + gain * (truth + rng.normal(0, noise, truth.size) - level)
        doubt *= 1 - gain
        pdf = np.maximum(level, 1e-6) / np.maximum(level, 1e-6).sum()
        accumulated = accumulated + (pdf - accumulated) / (slot + 1)
        told = {"pdf": pdf, "variance": np.full(pdf.size, doubt), "accumulated": accumulated.copy(), "total": 100.0}
        found.append(made_releases.release(DOMAIN, slot, rng, **told))
        shares.append(truth / truth.sum())
    return found, np.mean(shares, axis=0)


def test_seen_from_the_end_the_sum_is_nearer_to_the_truth():
    """Later releases know more of the first slots: in each of five streams that hardly move, the error falls."""
    for seed in range(5):
        found, truth = filtered(np.random.default_rng(seed), 20, noise=0.01, step=1e-5)
        error, before = (np.abs(pdf - truth).sum() for pdf in (_from_the_end(found), found[-1].accumulated))
        assert error < before


def test_seen_from_the_end_a_sum_stays_a_pdf_and_what_is_certain_stays():
    """It sums to one and nothing is negative; without variances, with one release or no users nothing changes."""
    made = made_releases.releases(DOMAIN, 6)
    pdf = _from_the_end(made)
    assert pdf.sum() == pytest.approx(1)
    assert (pdf >= 0).all()
    certain = made_releases.releases(DOMAIN, 6, variance=np.zeros(DOMAIN.size))
    for releases in (certain, made[:1], made_releases.releases(DOMAIN, 3, total=0.0)):
        assert _from_the_end(releases) == pytest.approx(releases[-1].accumulated)


def test_releases_of_another_domain_are_left_as_they_were_summed():
    """After a change of the domain only the slots since then are seen from the end."""
    other = dpi.Product(place=GROUPS, item=dpi.Categories(["a", "b"], other=None))
    made = [*made_releases.releases(other, 3), *made_releases.releases(DOMAIN, 1)]
    assert _from_the_end(made) is made[-1].accumulated
