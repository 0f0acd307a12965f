"""The filter: exchangeable, dimensionless, bounded; and alike in numpy and JAX."""

import importlib.util
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpi.errors import StateError
from dpi.estimator import (
    CARD,
    QUANTILE,
    WEIGHTS,
    Measurement,
    _layers,
    digest,
    initial_state,
    load_weights,
    step,
    trained,
)
from dpi_research.learn.beginning import first_weights, histograms, save_weights
from dpi_research.learn.worlds import VERSION
from strategies import few

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="training needs JAX, the extra `learn` of dpi-streams-research"
)
NONE = np.float32(0)
ONE = np.float32(1)


def wild_weights(seed):
    """Weights that nobody trained, five times as large as a first draw."""
    return {name: 5 * array for name, array in first_weights(seed).items()}


def measure(rng, users, price, due=(1, 1, 1, 1), phase=0, season=NONE):
    """A slot of these users by histogram and bin."""
    price, due = np.array(price, np.float32), np.array(due, np.float32)
    sums = (np.asarray(users) * price[:, None] + rng.laplace(size=np.shape(users))) * due[:, None]
    width = np.array([1, 4, 32, 0], np.float32)
    return Measurement(sums.astype(np.float32), due, price, phase, season, NONE, width)


def check(said, bins):
    """Finite, shares sum to one, intervals hold the estimate."""
    assert np.isfinite(np.concatenate([np.ravel(part) for part in said])).all()
    assert said.shares.shape == (bins,)
    assert (said.shares > 0).all()
    assert said.shares.sum() == pytest.approx(1, abs=1e-4)
    assert (QUANTILE * np.exp(said.share_scale) >= 0).all()
    assert (np.exp(said.number_scale) > 0).all()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    bins=st.sampled_from([1, 2, 7, 300, 5000]),
    users=st.sampled_from([0.0, 1.0, 1e3, 1e7]),
    prices=st.lists(st.sampled_from([1e-6, 1e-4, 1e-2, 1.0, 100.0]), min_size=6, max_size=6),
    period=st.sampled_from([0, 7, 24]),
)
def test_any_input_gives_a_finite_answer(seed, bins, users, prices, period):
    """One bin, 5,000 bins, no users, 10^7 in one bin, prices that jump a hundredfold, a season with nothing in it."""
    rng, weights, state = np.random.default_rng(seed), wild_weights(seed), initial_state(bins, max(period, 1))
    where = np.zeros((4, bins))
    where[:, 0] = users
    for slot, price in enumerate(prices * 2):
        due = [1, *(rng.random(3) < 0.5)]
        phase = slot % period if period else 0
        said_of = measure(rng, where, [price, price / 10, price / 50, price / 100], due, phase, np.float32(period > 0))
        state, said = step(weights, state, said_of)
        check(said, bins)
        assert all(np.isfinite(part).all() for part in state)


@pytest.mark.parametrize("weights", [wild_weights(1), trained()], ids=["wild", "trained"])
def test_a_long_silence_and_a_long_stream_stay_finite(weights):
    """500 slots without any measurement, then thousands with one; wild weights, and those of the program."""
    rng, state = np.random.default_rng(1), initial_state(3, 7)
    users = np.full((4, 3), 1e5)
    for slot in range(few(2_000, 20_000)):
        due = (1, 1, 1, 1) if slot == 0 or slot > 500 else (0, 0, 0, 0)
        state, said = step(weights, state, measure(rng, users, [0.3, 0.01, 0.01, 0.01], due, slot % 7, ONE))
    check(said, 3)


def test_permuted_bins_give_a_permuted_answer():
    """No bin is special."""
    rng, weights = np.random.default_rng(2), first_weights(2)
    order = rng.permutation(40)
    users = rng.gamma(0.5, 200, (4, 40))
    one, other = initial_state(40), initial_state(40)
    for _ in range(8):
        measured = measure(rng, users, [0.3, 0.02, 0.01, 0.01])
        one, said = step(weights, one, measured)
        other, again = step(weights, other, measured._replace(sums=measured.sums[:, order]))
        assert np.allclose(said.shares[order], again.shares, rtol=1e-4)
        assert np.allclose(said.share_scale[order], again.share_scale, rtol=1e-3, atol=1e-3)
        assert np.allclose(said.numbers, again.numbers, rtol=1e-4)


def test_chunks_change_nothing(monkeypatch):
    """Bins are worked on in pieces that the cache holds."""
    rng, weights = np.random.default_rng(3), first_weights(3)
    measured = measure(rng, rng.gamma(0.5, 200, (4, 50)), [0.3, 0.02, 0.01, 0.01])
    whole = step(weights, initial_state(50), measured)
    monkeypatch.setattr(_layers, "CHUNK", 16)
    pieces = step(weights, initial_state(50), measured)
    for one, other in zip([*whole[0], *whole[1]], [*pieces[0], *pieces[1]], strict=True):
        assert np.allclose(one, other, rtol=1e-5, atol=1e-6)


def test_high_signal_is_hardly_smoothed():
    """Where every bin is known to a thousandth, shares are right to a few percent within three slots."""
    rng, weights, state = np.random.default_rng(4), histograms(), initial_state(10)
    for _ in range(3):
        users = rng.gamma(2, 1e5, (4, 10))
        state, said = step(weights, state, measure(rng, users, [1.0, 1.0, 1.0, 1.0]))
    truth = users.sum(0) / users.sum()
    assert np.abs(said.shares - truth).sum() / 2 < 0.05
    assert np.abs(np.ones(10) / 10 - truth).sum() / 2 > 0.1


def test_users_times_ten_with_a_tenth_of_epsilon_change_the_shares_only_by_what_is_not_known():
    """The same sums at a tenth of the price: shares differ by less than half of their own interval, numbers by ten."""
    rng, weights = np.random.default_rng(8), histograms()
    one, other = initial_state(30), initial_state(30)
    users = rng.gamma(0.5, 400, (4, 30))
    for _ in range(15):
        measured = measure(rng, users, [0.3, 0.05, 0.03, 0.02])
        one, said = step(weights, one, measured)
        other, again = step(weights, other, measured._replace(price=measured.price / 10))
    width = QUANTILE * np.exp(said.share_scale)
    assert (np.abs(said.shares - again.shares) / width).max() < 0.5
    assert said.numbers[0] + np.log(10) == pytest.approx(again.numbers[0], abs=0.2)


def test_the_card_names_the_weights():
    """The file is below a megabyte, has the digest of its card, and the card says what it was trained on."""
    stated = json.loads(CARD.read_text(encoding="utf-8"))
    assert digest(trained()) == stated["digest"]
    assert stated["prior"].endswith(VERSION)
    assert WEIGHTS.stat().st_size < 1_000_000


def test_weights_are_numbers_of_known_shapes(tmp_path):
    """A file comes back as it was; one with other names, or with something that is no number, is refused."""
    weights = first_weights(5)
    save_weights(tmp_path / "w.npz", weights)
    assert digest(load_weights(tmp_path / "w.npz")) == digest(weights)
    assert digest(first_weights(6)) != digest(weights)
    save_weights(tmp_path / "other.npz", {"bin_in": weights["bin_in"]})
    with pytest.raises(StateError, match="names or shapes"):
        load_weights(tmp_path / "other.npz")
    np.savez(tmp_path / "pickled.npz", **{**weights, "bin_in": np.array([object()])})
    with pytest.raises(StateError, match="allow_pickle"):
        load_weights(tmp_path / "pickled.npz")
    weights["bin_in"] = weights["bin_in"] * np.nan
    save_weights(tmp_path / "nan.npz", weights)
    with pytest.raises(StateError, match="finite"):
        load_weights(tmp_path / "nan.npz")


@needs_jax
def test_jax_and_numpy_say_the_same():
    """Twelve slots with a season and padding, to 1e-4."""
    import jax
    import jax.numpy as jnp

    rng, weights = np.random.default_rng(7), first_weights(7)
    users = rng.gamma(0.5, 200, (4, 20))
    plain, traced = initial_state(20, 7), initial_state(32, 7, jnp)
    mask = np.r_[np.ones(20), np.zeros(12)].astype(np.float32)
    compiled = jax.jit(lambda state, measured: step(weights, state, measured, jnp))
    for slot in range(12):
        measured = measure(rng, users, [0.3, 0.02, 0.01, 0.01], (1, 1, slot % 2, 1), slot % 7, ONE)
        plain, said = step(weights, plain, measured)
        padded = measured._replace(sums=np.pad(measured.sums, ((0, 0), (0, 12))), mask=mask)
        traced, again = compiled(traced, padded)
        for one, other in zip(said, again, strict=True):
            other = np.asarray(other)
            other = other[:20] if other.shape == (32,) else other
            assert np.allclose(one, other, rtol=1e-4, atol=1e-4)
