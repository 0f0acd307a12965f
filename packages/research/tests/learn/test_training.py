"""Training: ten steps on a CPU."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from dpi.estimator import load_weights
from dpi_research.learn.beginning import first_weights

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="training needs JAX, the extra `learn` of dpi-streams-research"
)


@needs_jax
def test_ten_steps_on_a_cpu_move_the_weights_and_a_checkpoint_has_them(tmp_path):
    """Worlds of two to sixteen bins, in a process of its own: JAX and forks do not mix."""
    small = "--steps 10 --worlds 12 --wait 8 --cells 64 --processes 1 --longest 60 --bins 16"
    command = [sys.executable, "-m", "dpi_research.learn", "train", str(tmp_path), *small.split()]
    quick = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=quick).stdout
    assert "step 10," in told
    weights = load_weights(tmp_path / "weights.npz")
    before = first_weights(1)
    assert any(not np.array_equal(weights[name], before[name]) for name in before)
    with np.load(tmp_path / "checkpoint.npz", allow_pickle=False) as stored:
        assert int(stored["step"]) == 10
        assert all(np.isfinite(stored[name]).all() for name in stored.files)
