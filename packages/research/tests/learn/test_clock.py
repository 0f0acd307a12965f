"""The simulator's clock is the ledger's."""

from dpi.budget import classes
from dpi_research.learn.clock import level


def test_levels_are_those_of_the_ledger():
    """The same level in every slot, whatever the top."""
    for top in (0, 1, 3, 4, 20):
        assert [level(slot, top) for slot in range(300)] == [classes.level(slot, top) for slot in range(300)]
