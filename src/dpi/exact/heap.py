"""Memory of arrays that come and go with every slot stays with the process.

The C library of Linux gives the end of its heap back to the system as soon as a few hundred kilobytes of it are free,
until the process has freed a larger block: from then on it keeps twice as much as that. An estimate of a thousand bins
takes and frees three megabytes, so without this every slot asks for the same pages again, and the system clears them
again. Elsewhere nothing comes of it. Sees no data.
"""

from __future__ import annotations

from functools import cache

import numpy as np

KEPT = 1 << 23
"""Bytes that are taken and given back, without being touched; twice as many may stay free.

Source: by trial; benchmarks/small_slots.py (1,000 bins, 2,000 users) has no page faults a slot instead of 700.
"""


@cache
def keep_freed_memory() -> None:
    """Take a large block and give it back, once in a process."""
    np.empty(KEPT, dtype=np.uint8)
