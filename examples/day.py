"""One day of a shop's visitors through the kernel: events, histogram with a per-user bound, budget, exact noise."""

from __future__ import annotations

import secrets

import numpy as np
import polars as pl

import dpi
from dpi.budget import Bill
from dpi.integers import GRAINS, Integers
from dpi.noise import SystemSource, add_laplace

COUNTRIES = ["DE", "FR", "IT", "ES", "PL"]
SHARES = [0.4, 0.25, 0.15, 0.1, 0.06]
HOURS = 24


def visitors(hour: int) -> pl.DataFrame:
    """Made-up events of one hour: each user visits from one country, some of them several times."""
    rng = np.random.default_rng(hour)  # example data, no privacy noise
    user = rng.integers(0, 30_000, 8_000)
    country = np.array([*COUNTRIES, "XX"])[np.searchsorted(np.cumsum(SHARES), user % 997 / 997)]
    return pl.DataFrame({"user": user, "country": country})


def main() -> None:
    """Measure the hours of a day and print noisy users per country for some of them."""
    domain = dpi.Categories(COUNTRIES, other="elsewhere")
    ledger = dpi.Ledger(dpi.Epsilon.at_most(1), key=secrets.token_bytes(32))
    epsilon = dpi.Epsilon.at_most("0.1")
    source = SystemSource()
    print(domain)
    print(f"Every user has ε = {float(ledger.epsilon):g} for ever; an hour costs at most {float(epsilon):g}.\n")
    print("hour  " + "".join(f"{domain.label(b):>12s}" for b in range(domain.size)) + "   noisy users, ± 95 %")
    for hour in range(HOURS):
        events = visitors(hour)
        bills: list[Bill] = []

        def weigh(users: pl.Series, hour: int = hour, bills: list[Bill] = bills) -> Integers:
            bills.append(ledger.bill(users, epsilon, hour))
            return bills[-1].weights

        histogram = dpi.compress(events["user"], events["country"], domain, weights=weigh)
        ledger.debit(bills[-1])
        noisy = add_laplace(histogram.grains, epsilon.scale, source) / GRAINS
        if hour % 4 == 0 or hour == HOURS - 1:
            print(f"{hour:4d}  " + "".join(f"{x:12.0f}" for x in noisy) + f"   ± {np.log(20) / float(epsilon):.0f}")
    print("\nThe whole day's releases lose at most ε = 1 about any one user; an account that is empty stays empty.")


if __name__ == "__main__":
    main()
