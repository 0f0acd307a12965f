"""The public clock of payments: how far up the classes of users a slot reaches.

A user of *class* m has paid m times so far. Class m is *due* in a slot whose level is at least m: class 0 in every
slot, class 1 in every second one on average, class m in one of 2^m.

**Guarantee.** The level of a slot is a function of its number alone, so that which classes are measured tells nothing
about anybody. Every aligned block of 2^m slots has exactly one of level m or more; where in the block it lies is a hash
of the block, so that the levels have no rhythm in common with hours, days or weeks: who is active at nine o'clock only
meets the same levels as everybody else.

*Why one.* Of the two halves of a block, one bit of a hash chooses the half whose slot goes on. A slot has level m or
more if its half was chosen in each of its m smallest blocks: that is one slot of each block of 2^m.

Sees slot numbers, nothing else.
"""

from __future__ import annotations

from hashlib import blake2b

HIGHEST = 40
"""The largest top class: a slot of such a level comes once in 2^40."""


def level(slot: int, top: int) -> int:
    """The highest class that is due in a slot, at most `top`; slots before slot 0 have levels too.

    >>> [level(slot, top=3) for slot in range(16)]
    [0, 3, 0, 1, 0, 1, 0, 2, 3, 0, 1, 0, 1, 0, 0, 2]
    """
    for size in range(top):
        if (slot >> size) & 1 != _chosen(slot >> (size + 1), size):
            return size
    return top


def next_due(after: int, m: int) -> int:
    """The first slot after a slot in which class m is due, in m steps: one in each block of 2^m.

    >>> [next_due(0, 2), next_due(7, 2), next_due(3, 0)], [level(slot, 3) for slot in (1, 8)]
    ([1, 8, 4], [3, 3])
    """
    block = (after + 1) >> m
    slot = _place(block, m)
    return slot if slot > after else _place(block + 1, m)


def _place(block: int, m: int) -> int:
    """The slot of level m or more in a block of 2^m."""
    for size in reversed(range(m)):
        block = 2 * block + _chosen(block, size)
    return block


def _chosen(block: int, size: int) -> int:
    """Which half of a block of 2^(size + 1) slots goes on: one bit."""
    text = b"%d %d" % (size, block)
    return blake2b(text, digest_size=1, person=b"dpi clock").digest()[0] & 1
