"""Who comes again, counted."""

import numpy as np

from dpi_research.learn.returns import Seen


def test_who_comes_again_is_counted():
    """Two of three newcomers come again in the next slot, one of them after seven."""
    seen = Seen()
    rows = [seen.see(np.array(users, dtype=np.int64)) for users in ([0, 1, 2], [0, 1], [5], [], [], [], [], [2])]
    assert rows[1] == (3.0, (3.0, 3.0), (3.0, 0.0, 0.0), (2.0, 0.0, 0.0))
    assert rows[-1].reach == 4
    assert rows[-1].distinct == (4.0, 4.0)
    assert rows[-1].cohorts == (0.0, 3.0, 0.0)
    assert rows[-1].active == (0.0, 1.0, 0.0)
