"""A process that leads a store, closes slots, and stops itself (SIGSTOP) before a statement, as if frozen there.

    python stopped.py STORE KEY WITNESS LEASE STATEMENT

Says "leads", closes a slot, stops before that statement of the next one (-1: before it asks for the witness), and when
it is woken goes on. Says what came of it: the slots that it believes to have released since, and the kind of the error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

import dpi
from dpi.errors import StoreError
from dpi.store.witness import Witness

USERS = ["ada", "bob"]


def main(path: str, key: str, witness: str, lease: float, statement: int) -> None:
    """Close slots until the store refuses."""
    store = dpi.open_store(path, key_file=key, witness=witness)
    store.lead(60)
    stream = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, budget=dpi.Ledger(per_slot="0.3"), store=store)
    stream.release(USERS, ["a"] * 2)
    print("leads", flush=True)
    sys.stdin.readline()
    store.engine.lease(lease)
    left = [statement]

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        threading.Event().wait(0.2)  # the signal is delivered to some thread, soon

    def hooked(do):
        def done(*values: object) -> object:
            if left[0] == 0:
                print("stops", flush=True)
                stop()
            left[0] -= 1
            return do(*values)

        return done

    if statement >= 0:
        store.engine.execute, store.engine.rows = hooked(store.engine.execute), hooked(store.engine.rows)
    else:
        alone = Witness.alone

        def late(self: Witness):
            print("stops", flush=True)
            stop()
            return alone(self)

        Witness.alone = late  # type: ignore[method-assign]
    released, errors = [], []
    for _ in range(3):
        try:
            released.append(stream.release(USERS, ["a"] * 2).slot)
        except StoreError as error:
            errors.append(type(error).__name__)
    print(json.dumps({"released": released, "errors": errors, "statements": statement - left[0]}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]))
