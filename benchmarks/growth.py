"""How many bytes of disk a slot takes, with all measurements kept and with the last ones alone.

    python benchmarks/growth.py [slots]

Made-up users (500, of whom 50 come in each slot; ids and values drawn at random), a store in SQLite. The size of the
file is looked at after half of the slots and at the end, so that what there is once (tables, accounts, the state of the
mechanism) does not count.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import dpi
from measure import Cell, record

TABLES = {
    "releases": "length(content)",
    "chain": "length(text) + length(digest)",
    "measurements": "length(data) + length(allocation) + length(assumption) + length(seal)",
}
SUMS = ", ".join(f"(SELECT SUM({size}) FROM {name})" for name, size in TABLES.items())
USERS = 500


def grown(bins: int, slots: int, keep: int | None) -> tuple[float, dict[str, float]]:
    """Bytes of the file, and of each table's values, that a slot has added."""
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with dpi.open_store(path) as store:
            domain = dpi.Categories([f"v{i}" for i in range(bins)])
            stream = dpi.Stream(domain=domain, epsilon=1, slot="1h", start="2026-01-01", store=store)
            sizes, values = [], []
            for slot in range(slots):
                users = random.integers(0, USERS, USERS // 10)
                drawn = random.integers(0, bins, users.size)
                stream.release([f"u{user}" for user in users], [f"v{value}" for value in drawn])
                if keep is not None and slot % 100 == 0:
                    store.thin(keep)
                if slot + 1 in (slots // 2, slots):
                    sizes.append(path.stat().st_size)
                    (totals,) = store.engine.rows(f"SELECT {SUMS}")
                    values.append(dict(zip(TABLES, totals, strict=True)))
    half = slots - slots // 2
    return (sizes[1] - sizes[0]) / half, {name: (values[1][name] - values[0][name]) / half for name in TABLES}


def main() -> None:
    slots, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 600, list[list[Cell]]()
    for bins in (50, 1000):
        for keep in (None, 100):
            size, tables = grown(bins, slots, keep)
            kept = "everything kept" if keep is None else f"`keep-measurements = {keep}`"
            rows.append([f"{bins:,} values, {kept}", round(size), *map(round, tables.values())])
    record(
        "disk-growth",
        parts=("store", "release"),
        about=f"Bytes a slot, of {slots} slots: {USERS} users, of whom {USERS // 10} are active in a slot.",
        columns=["", "file", *TABLES],
        rows=rows,
        values={"year": 8766 * float(str(rows[0][1])) / 1e6, "year, few kept": 8766 * float(str(rows[1][1])) / 1e6},
    )


if __name__ == "__main__":
    main()
