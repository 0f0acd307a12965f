import numpy as np
import pytest

from clocked_users import divergence, play
from dpi.mechanism.cells import _factors as heard
from dpi.mechanism.cells._law import Counts
from dpi.mechanism.cells._sizes import Measured, Sized
from dpi.mechanism.filtering.gaussians import Gaussians

ZIPF = (np.arange(30) + 1.0) ** -1.5
ZIPF /= ZIPF.sum()
EVEN = np.full(30, 1 / 30)


def measured(law, truth, users, noise, rng):
    """A class of which a law is expected, while its users follow another."""
    values = users * truth + rng.laplace(0, noise, truth.size)
    counts = Counts(values, noise)
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
