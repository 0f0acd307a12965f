"""A crowd that nobody expected is there in its slot, and is not taken for noise."""

import numpy as np

import dpi

PORTS = dpi.Categories(["22", "80", "445", "5060"])


def test_a_crowd_of_newcomers_is_seen_at_once():
    """900 users of a value that nobody had, among 1,400 others, all of them new in every slot; then they are gone."""
    rng, shares = np.random.default_rng(1), []
    stream = dpi.Stream(domain=PORTS, epsilon=2, slot="1d", start="2026-01-01")
    for day in range(14):
        values = rng.choice(["22", "80", "445"], 1400).tolist() + ["5060"] * (900 if day == 12 else 0)
        release = stream.release([f"{day}-{number}" for number in range(len(values))], values)
        shares.append(release.probability("5060").value)
    assert max(shares[:12]) < 0.01
    assert abs(shares[12] - 900 / 2300) < 0.01
    assert shares[13] < 0.02
