"""A process that plays odd values through every domain and engine.

    python odd_values.py FOLDER

Prints, as one JSON object, what each domain and engine came to. With warnings as errors it has nothing else to say.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
from random_streams import outcome

import dpi
from dpi.domain import Discovered
from dpi.exact.integers import Integers
from dpi.noise import UnsafeSeededSource
from dpi.store.sql import SQLStore


class Loud(dpi.Bins):
    """Bins whose reading overflows, divides by zero, casts what is no number, and calls what warns of its end."""

    def encode(self, column: object) -> Integers:
        """As bins do it, and as loudly as can be."""
        np.array([1e308]) * 10
        np.array([1]) // np.array([0])
        np.array([math.nan]).astype(np.int64)
        np.float64(-1) ** 0.5
        warnings.warn("some library will not have this for ever", DeprecationWarning, stacklevel=2)
        return super().encode(column)


KEY = bytes(32)
DOMAINS: dict[str, dpi.Domain] = {
    "categories": dpi.Categories(["DE", "1", "1.5"]),
    "dropping": dpi.Categories(["DE", "1", "1.5"], other=None),
    "integers": dpi.Categories(range(100)),
    "bins": dpi.Bins([-1e308, 0, 1, 10, 1.5e308]),
    "hashed": dpi.Hashed(1 << 12, key=KEY),
    "product": dpi.Product(left=dpi.Categories(["DE", "1"]), right=dpi.Bins([0, 10])),
    "amounts": dpi.Amounts("0.01"),
    "fine amounts": dpi.Amounts("1e-12"),
    "coarse amounts": dpi.Amounts("1e12"),
    "discovered": Discovered(dpi.Texts(32), ["DE"]),
    "loud": Loud([0, 1]),
}

VALUES: list[object] = [
    1e308, -1e308, sys.float_info.max, 5e-324, -5e-324, -0.0, math.inf, -math.inf, math.nan, 2**53, 2**63 - 1, 2**63,
    -(2**63), -(2**63) - 1, 2**64, 10**400, 10**5000, -(10**5000), True, "1e308", "1e400", "-1e400", "1e-400",
    "9" * 400, "0." + "9" * 400, "nan", "-inf", "\ud800", "a\udfffb", "nul\0", "x" * 2000, "", b"\xff\xfe", None,
    Decimal("1e400"), Decimal("sNaN"), Fraction(10**400, 3), np.float16(6e4), np.float32(3e38), np.longdouble("1e4000"),
    np.uint64(2**64 - 1), np.datetime64("NaT"), np.datetime64(2**63 - 1, "s"), np.timedelta64(2**63 - 1, "s"),
    complex(1e308, 1), datetime.max, [1e308], {}, object(),
]  # fmt: skip
TIMES: list[object] = [
    datetime.max, datetime.min, date.max, date.min, datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))),
    "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00", "0000-01-01T00:00:00", "10000-01-01T00:00:00",
    "2026-01-01T00:60", "2026-02-30", np.datetime64(2**63 - 1, "s"), np.datetime64(-(2**63) + 1, "Y"), *VALUES,
]  # fmt: skip
START, END = "2026-01-01", "2026-01-01T02:00"


def ordinary() -> Iterator[dict[str, object]]:
    """Rows of some users."""
    for user in range(40):
        value = ("DE", 1, "1.5", 7)[user % 4]
        yield {"user": user, "time": f"2026-01-01T0{user % 2}:10", "value": value}


def odd() -> Iterator[dict[str, object]]:
    """Rows with something odd in one of their columns, each of a user of its own: user, time or value."""
    for number, value in enumerate(VALUES):
        yield {"user": f"odd {number}", "time": "2026-01-01T00:20", "value": value}
        yield {"user": value, "time": "2026-01-01T01:20", "value": "DE"}
    for time in TIMES:
        yield {"user": "odd time", "time": time, "value": "DE"}


def rows(domain: dpi.Domain, *, with_odd: bool = True) -> list[dict[str, object]]:
    """The rows, with a column for each part of a product."""
    found = [*ordinary(), *odd()] if with_odd else [*ordinary()]
    return [{**row, **dict.fromkeys(parts(domain).values(), row["value"])} for row in found]


def parts(domain: dpi.Domain) -> dict[str, str]:
    """The columns of the parts."""
    return {part: part for part in domain.parts} if isinstance(domain, dpi.Product) else {"": "value"}


def play(domain: dpi.Domain, store: SQLStore, engine: dpi.engine.BucketEngine | None) -> dict[str, object]:
    """All that a store has of a stream that was played."""
    options = {"epsilon": 1, "slot": "1h", "start": START, "unsafe_source": UnsafeSeededSource(1)}
    stream, columns = dpi.Stream(domain=domain, store=store, engine=engine, **options), parts(domain)
    list(stream.replay(rows(domain), start=START, end=END, value=columns.get("", columns)))
    return outcome(store)


def main(folder: str) -> None:
    """Every domain in every engine."""
    key = Path(folder, "key")
    key.write_text(KEY.hex())
    key.chmod(0o600)
    found: dict[str, dict[str, object]] = {}
    with dpi.engine.pool(1, bits=1) as pool:
        engines = {"embedded": None, "local": dpi.engine.local(bits=1), "pool": pool}
        for domain in DOMAINS:
            for engine in engines if domain != "discovered" else ["embedded"]:  # which has no other
                with dpi.open_store(Path(folder, f"{domain} {engine}.db"), key_file=key) as store:
                    found.setdefault(domain, {})[engine] = play(DOMAINS[domain], store, engines[engine])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
