"""A process that writes to a store without the right to, as if its lock had been lost.

    python contender.py STORE KEY NAME SLOTS

Says "open" when it has read the accounts, waits for a line, releases slots of the stream NAME, and prints what it has
taken from each user, in units, and how often it was refused.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict

import dpi
from dpi.errors import StoreBusy
from dpi.events.identity import digests, users
from dpi.histogram.compression import GRAINS

USERS = [f"user {number}" for number in range(6)]


def main(path: str, key: str, name: str, slots: int) -> None:
    """Release slots while another process does the same."""
    store = dpi.open_store(path, key_file=key)
    store.engine.give_up()
    stream = dpi.Stream(
        domain=dpi.Categories(["a"]), epsilon=1, budget=dpi.Ledger(per_slot="0.07"), store=store, name=name
    )
    bills, taken, refused = [], defaultdict(int), 0
    bill = stream._accounts.bill
    named = dict(zip(map(tuple, digests(users(USERS), store.key).tolist()), USERS, strict=True))

    def noting(names, epsilon, slot, **options):
        bills.append(([named[tuple(name)] for name in names.tolist()], bill(names, epsilon, slot, **options)))
        return bills[-1][1]

    stream._accounts.bill = noting
    print("open", flush=True)
    sys.stdin.readline()
    for slot in range(slots):
        closed = False
        while not closed:
            try:
                closed = stream.next_slot > slot  # paid for, when another's write came before the publication
                if not closed:
                    stream.release(USERS, ["a"] * len(USERS), slot=slot)
                    closed = True
            except StoreBusy:
                refused += 1
        active, made = bills[-1]
        for user, weight in zip(active, made.weights.tolist(), strict=True):
            taken[user] += made.epsilon.units * weight // GRAINS
    print(json.dumps({"taken": taken, "refused": refused}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
