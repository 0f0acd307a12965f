import numpy as np
import pytest

from clocked_users import divergence, play
from dpi.mechanism.cells import _factors as factors
from dpi.mechanism.cells import _factors as heard
from dpi.mechanism.cells._factors import LAWS_ALIKE, OF_LAWS, OF_SIZES, SIZES_ALIKE, Alike, Factors
from dpi.mechanism.cells._sizes import Measured, Sized
from dpi.mechanism.filtering._gaussians import Gaussians
from dpi.mechanism.filtering.laplace_gauss import NoisyCounts

RNG = np.random.default_rng(12)


def learned(truths, noise=1.0, bins=200, rounds=12):
    """After errors of each class whose variance is so many times what was foreseen."""
    found = Factors.begun(len(truths), OF_LAWS)
    for _ in range(rounds):
        for m, factor in enumerate(truths):
            if factor is not None:
                errors = RNG.normal(0, (noise + factor * 2.0) ** 0.5, bins)
                found = found.after(m, errors, np.full(bins, 2.0), noise)
    return found


def test_before_anything_is_seen_higher_classes_are_a_little_less_sure():
    """The prior of the growth."""
    assert Factors.begun(8, OF_LAWS).each[1:] == pytest.approx(OF_LAWS ** np.arange(7))
    assert Factors.begun(8, OF_SIZES).each[1:] == pytest.approx(OF_SIZES ** np.arange(7))


def test_the_factor_of_each_class_is_found():
    """However unlike its neighbours it is. False alarm below 1e-6: 2,000 effective errors of each."""
    assert learned([None, 0.6, 4.0, 1.2, 0.7]).each[1:] == pytest.approx([0.6, 4.0, 1.2, 0.7], rel=0.3)


def test_a_class_that_was_never_seen_is_like_the_one_below():
    """It is a little less sure."""
    each = learned([None, 2.0, 2.0, None, None]).each
    assert each[3:] == pytest.approx(each[2] * OF_LAWS ** np.array([1, 2]))


def test_a_class_that_drowns_in_noise_tells_nothing():
    """Squares of Laplace noise, a thousand times what was foreseen, leave a factor where it was, within a tenth."""
    found = Factors.begun(3, OF_LAWS)
    for _ in range(20):
        found = found.after(1, RNG.laplace(0, 1, 100), np.full(100, 2e-3), 2.0)
    assert found.each[1] == pytest.approx(1.0, abs=0.1)


def test_a_factor_has_bounds():
    """A least value, by forecasts that were too wide, and a largest one."""
    assert set(learned([None, 0.01, 0.01]).each[1:]) == {factors.SMALLEST}
    assert max(learned([None, 90.0, 90.0, 90.0]).each) <= factors.LARGEST


def test_one_outlier_does_not_widen_everything():
    """However large one error is, the factors stay within reason."""
    found = Factors.begun(4, OF_LAWS).after(1, np.r_[1e9, np.zeros(99)], np.ones(100), 1.0)
    assert max(found.each) < 3


def test_one_number_is_a_prediction_too():
    """Sizes have one error a class."""
    found = Factors.begun(3, OF_SIZES).after(2, 3.0, 1.0, 1.0)
    assert found.foreseen[2] == pytest.approx((1 / (OF_SIZES + 1)) ** 2)
    assert found.each[2] > OF_SIZES > found.each[1]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_what_errors_have_in_common_is_found_under_noise(share):
    """Three classes of 200 bins, 60 slots, noise of the variance foreseen. False alarm below 1e-6: five deviations."""
    found = Alike()
    for _ in range(60):
        common = RNG.normal(0, share**0.5, 200)
        own = RNG.normal(0, (1 - share) ** 0.5, (3, 200)) + RNG.laplace(0, 0.5**0.5, (3, 200))
        found = found.after([(common + one, np.ones(200), 1.0) for one in own])
    before, worth = LAWS_ALIKE
    left = worth / (found.foreseen + worth)
    assert found.share(LAWS_ALIKE) == pytest.approx(left * before + (1 - left) * share, abs=0.15)


@pytest.mark.parametrize("share", [0.0, 0.9])
def test_what_sizes_have_in_common_is_found(share):
    """One error a class: 400 slots of three classes, the last hundred pairs of which count. Five deviations: 0.4."""
    found, shares = Alike(), []
    for slot in range(400):
        own = RNG.normal(0, (1 - share) ** 0.5, 3) + RNG.normal(0, share**0.5)
        found = found.after([(one, 1.0, 0.1) for one in own.tolist()])
        if slot >= 200:
            shares.append(found.share(SIZES_ALIKE))
    assert np.mean(shares) == pytest.approx(share, abs=0.4)
    assert (np.mean(shares) > 0.5) == (share > 0.5)


def test_one_class_has_nothing_in_common():
    """A slot with one due class tells nothing."""
    assert Alike().after([(np.ones(5), np.ones(5), 1.0)]) == Alike()
    assert Alike().share(SIZES_ALIKE) == SIZES_ALIKE[0]


ZIPF = (np.arange(30) + 1.0) ** -1.5
ZIPF /= ZIPF.sum()
EVEN = np.full(30, 1 / 30)


def measured(law, truth, users, noise, rng):
    """A class of which a law is expected, while its users follow another."""
    values = users * truth + rng.laplace(0, noise, truth.size)
    counts = NoisyCounts(values, noise)
    variance = counts.total_variance
    sized = Sized(users, 1.0, counts.total, variance)
    return Measured(users, (0.2 * users) ** 2, Gaussians(law, 0.01 * law**2), counts, sized, Gaussians(law, law), 1.0)


def course(law, truth, users, noise, slots=60, begin=0.5, seed=0):
    """The probability after every slot."""
    rng, known = np.random.default_rng(seed), begin
    for _ in range(slots):
        known = heard.confirm_laws(known, [measured(law, truth, users, noise, rng)])
        yield known


def test_what_drowns_in_every_slot_is_heard_in_time():
    """Users whose largest bin is one scale of the noise: no slot shows them, a hundred do."""
    ends = [list(course(ZIPF, ZIPF, 50, 20.0, slots=100, begin=heard.DOUBT, seed=seed))[-1] for seed in range(20)]
    assert np.mean(np.array(ends) > 0.9) >= 0.9


@pytest.mark.parametrize("truth", [EVEN, ZIPF[::-1]], ids=["even", "another law"])
def test_a_law_that_is_wrong_is_given_up(truth):
    """However sure it was."""
    ends = [list(course(ZIPF, truth, 100, 20.0, begin=heard.SUREST, seed=seed))[-1] for seed in range(20)]
    assert np.mean(np.array(ends) < 0.1) >= 0.9


def test_where_nobody_is_belief_fades():
    """Nothing confirms a law of nobody, so doubt returns; and a law that nobody believed gains nothing."""
    sure, unsure = (list(course(ZIPF, EVEN, 1e-3, 20.0, slots=600, begin=begin))[-1] for begin in (0.99, heard.DOUBT))
    assert sure < 0.1
    assert unsure == pytest.approx(heard.DOUBT, rel=0.1)


def test_few_users_at_a_small_budget_are_told_from_a_uniform_guess():
    """Three hundred users at ε = 0.1, most of them in one bin: their classes drown, and the stream still tells."""
    rng = np.random.default_rng(3)
    law = np.r_[0.85, np.full(29, 0.15 / 29)]
    values = rng.choice(30, 2000, p=law)
    slots = [(users, values[users]) for users in (np.flatnonzero(rng.random(2000) < 0.15) for _ in range(80))]
    errors = [
        divergence(np.bincount(drawn, minlength=30).astype(float), estimate.pdf)
        for (_, estimate), (_, drawn) in zip(play(slots, 30, seed=4, epsilon=0.1), slots, strict=True)
    ]
    uniform = divergence(np.bincount(values, minlength=30).astype(float), EVEN)
    assert np.mean(errors[20:]) < 0.2 * uniform
