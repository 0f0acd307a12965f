"""Stores with several streams and quotas, played twice: by the running code, and by the ledger of `proofs/Ledger.v`.

    python tests/store_oracle.py 200        # so many stores

A life is a public script over one store: streams begin, with a quota of ε or without; slots are released; quotas grow,
or are refused; copies are made, and old ones are charged for what they lack and go on. Every set of accounts, those of
the rest and of each quota, is one run of the extracted ledger. What the ledger says to each action must be what the
store's own accounts say, read from its bytes. Whether a quota may be given and a copy may go on is decided by
`dpi.stream.registration` and `dpi.store._rollback`; the ledger must decide the same.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

import dpi
from dpi.budget import Accounts, Epsilon, clocked, fade, spend_first
from dpi.budget.billing import SHARE_STEPS, left
from dpi.budget.charge import Bill
from dpi.budget.classes import PaymentRequest
from dpi.budget.epsilon import Amount
from dpi.budget.policy import Policy
from dpi.errors import OptionError, StateError
from dpi.events.identity import Digests, name_users
from dpi.exact.integers import GRAINS
from dpi.store import MemoryStore
from dpi.store._rollback import charge
from dpi.store.ledger_session import stored_accounts
from dpi.testing.class_sums import ClassSums, SumsState
from ledger_oracle import UNPAID, bits, build

DOMAIN = dpi.Categories(["a", "b"], other=None)


@dataclass(frozen=True)
class Asking(ClassSums):
    """Asks any classes for any shares, in any groups: a function of the slot's number."""

    def request_payments(self, state: SumsState, slot: int) -> PaymentRequest:
        """Return what was drawn for the slot."""
        rng, top = random.Random(slot), state.classes - 1
        high = rng.choice([top, rng.randint(0, top)])
        groups = dict[int, list[tuple[int, Fraction]]]()
        for m in [0, *sorted(rng.sample(range(1, high + 1), rng.randint(0, high)))]:
            steps = rng.choice([1, SHARE_STEPS, SHARE_STEPS // 2, rng.randint(1, SHARE_STEPS), rng.randint(1, 64)])
            groups.setdefault(rng.randrange(3), []).append((m, Fraction(steps, SHARE_STEPS)))
        return tuple(map(tuple, groups.values()))


@dataclass(frozen=True)
class Plain(ClassSums):
    """Knows no classes."""

    by_class = False


@dataclass
class Pool:
    """One set of accounts, and the script of its run."""

    name: str
    users: int
    lines: list[str]
    results: list[np.ndarray | None] = field(default_factory=list)
    """What the ledger should say to each line; None where it decides (`Life.decisions`)."""
    copies: list[int] = field(default_factory=list)
    """Numbers of the copies since a quota of these accounts grew last, the newest first."""
    epoch: int = 0

    def __post_init__(self) -> None:
        self.forget(0)
        self.total = np.zeros(self.users, dtype=np.int64)
        """What each user has paid, in all epochs."""

    def forget(self, epoch: int) -> None:
        """Begin an epoch, in which nobody has paid."""
        self.epoch, self.paid, self.losses = epoch, np.zeros(self.users, dtype=np.int64), [0] * self.users

    def tell(self, result: object, *words: object) -> None:
        """Write a line of the script, and what the ledger should say."""
        self.lines.append(" ".join(map(str, words)))
        self.results.append(None if result is None else np.asarray(result, dtype="<i8").ravel())

    def act(self, result: int, *words: object) -> None:
        """Write an action that is done for all users alike, or refused."""
        self.tell(np.full((self.users, 2), result), *words)


@dataclass
class Copy:
    """A store at one moment."""

    number: int
    content: object
    sequence: int


@dataclass
class Life:
    """One script, and what a store makes of it."""

    seed: int
    actions: int
    users: int = 8
    pools: dict[str, Pool] = field(default_factory=dict)
    decisions: list[tuple[str, list[tuple[str, int]]]] = field(default_factory=list)
    """Copies that the program refused, and where the ledger says whether it would: one refusal is needed."""
    hit: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        self.store = MemoryStore(rng.randbytes(32))
        self.epsilon = rng.choice(["1", "1", "0.001", "3.7"])
        self.units = Epsilon.at_most(self.epsilon).units
        self.period = rng.choice([None, None, None, 4])
        self.people = [f"user {number}" for number in range(self.users)]
        self.names = name_users(self.people, self.store.key, "nfc-strip")[0]
        self.budgets, self.streams = dict[str, dpi.Ledger](), dict[str, dpi.Stream]()
        self.copies, self.bill, self.quotas = list[Copy](), None, dict[str, Fraction]()
        self.policy: Policy = rng.choice([clocked(1), clocked(3), clocked(4), spend_first, fade()])
        """Of the accounts of the rest."""
        self.add("", self.policy, 0)

    def play(self) -> None:
        """Choose actions until there are enough."""
        with self.noted():
            while not self.streams:
                self.begin()
            for _ in range(self.actions):
                draw = self.rng.random()
                if draw < 0.08 and self.period is None:
                    self.begin()
                elif draw < 0.16 and self.quotas:
                    self.grow(self.rng.choice([*self.quotas]))
                elif draw < 0.24:
                    self.copy()
                elif draw < 0.34 and self.copies:
                    self.restore(self.rng.choice(self.copies))
                else:
                    self.release(self.rng.choice([*self.streams]))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the bill that a slot is written."""
        bill = Accounts.bill

        def noting(accounts: Accounts, users: Digests, epsilon: Epsilon, slot: int, **options: object) -> Bill:
            made = bill(accounts, users, epsilon, slot, **options)  # type: ignore[arg-type]
            self.bill = made, users, options
            return made

        Accounts.bill = noting  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Accounts.bill = bill  # type: ignore[method-assign]

    # Streams and quotas.

    def add(self, name: str, policy: Policy, assigned: int) -> Pool:
        """Begin the run of some accounts."""
        table = policy.grains(np.arange(400)).tolist()
        words = [self.units, getattr(policy, "top", 0), self.period or 0, assigned, self.users, *table]
        self.pools[name] = Pool(name, self.users, [" ".join(map(str, words))])
        return self.pools[name]

    def pool_of(self, name: str) -> Pool:
        """The accounts that pay for a stream."""
        return self.pools[f"quota {name}" if name in self.quotas else ""]

    def part(self, quota: Fraction) -> int:
        """A part of ε, in units."""
        return self.units * quota.numerator // quota.denominator

    def open(self, name: str, *, change: bool = False) -> None:
        """Open a stream in the store as it is."""
        self.streams[name] = dpi.Stream(
            domain=DOMAIN, epsilon=self.epsilon, budget=self.budgets[name], store=self.store, name=name, change=change,
            mechanism=Asking() if int(name) % 2 == 0 else Plain(),
        )  # fmt: skip

    def begin(self) -> None:
        """A stream begins: by class if its number is even, with a quota of its own or in the rest."""
        rng, name = self.rng, str(self.rng.randrange(8))
        own = self.period is None and rng.random() < 0.5
        policy = rng.choice([clocked(2), clocked(4), spend_first, fade()]) if own else self.policy
        if name in self.streams or (int(name) % 2 == 0 and policy in (spend_first, fade())):
            return
        quota = Fraction(rng.randint(1, 60), 100) if own else None
        most = Fraction(self.epsilon) * (1 - sum(self.quotas.values(), start=Fraction(0)) if quota is None else quota)
        price: Amount = "auto" if int(name) % 2 == 0 else most * Fraction(rng.randint(1, 400), 1000)
        if price == 0:
            return
        self.budgets[name] = dpi.Ledger(per_slot=price, policy=policy, period=self.period)
        if quota is None:
            self.open(name)
            self.hit["a stream without a quota"] += 1
        elif not self.give(name, quota):
            return
        self.release(name)

    def grow(self, name: str) -> None:
        """A quota grows, if that can be."""
        quota = self.quotas[name] + Fraction(self.rng.randint(1, 40), 100)
        if quota <= 1 and self.give(name, quota):
            self.release(name)

    def give(self, name: str, quota: Fraction) -> bool:
        """Declare a quota, or a larger one. Whether it is refused must be what the ledger says of the rest."""
        budget, others = self.budgets.get(name), [self.part(part) for each, part in self.quotas.items() if each != name]
        assert budget is not None
        bound = sum(self.said(each) for each in self.streams if each not in self.quotas)
        self.budgets[name], before = replace(budget, quota=quota), self.streams.get(name)
        rest = self.pools[""]
        try:
            self.open(name, change=before is not None)
        except OptionError:
            self.budgets[name] = budget
            rest.act(-1, "A", sum(others) + self.part(quota), bound)
            self.hit["refused: a quota"] += 1
            return False
        rest.act(0, "A", sum(others) + self.part(quota), bound)
        rest.copies.clear()
        own = self.pools.get(f"quota {name}") or self.add(f"quota {name}", budget.policy, self.units)  # type: ignore[arg-type]
        own.act(0, "A", self.units - self.part(quota), 0)
        own.copies.clear()
        self.quotas[name] = quota
        self.hit["a quota begins" if before is None else "a quota grows"] += 1
        return True

    def said(self, name: str) -> int:
        """What the chain says that a stream can have cost a user."""
        for link in reversed([*self.store.links()]):
            if link.entry["kind"] == "release" and link.entry["stream"] == name:
                return int(link.entry["epsilon_spent_units"])
            if link.entry["kind"] == "restored" and name in link.entry["spent_units"]:
                return int(link.entry["spent_units"][name])
        return 0

    # Slots.

    def release(self, name: str) -> None:
        """Release a slot of some users."""
        often = self.rng.choice([0.2, 0.9])
        here = np.array([self.rng.random() < often for _ in self.people])
        users = [user for user, present in zip(self.people, here, strict=True) if present]
        stream, pool = self.streams[name], self.pool_of(name)
        slot = stream.next_slot if self.store.reached(name) else self.rng.choice([0, 0, -7, 1000])
        before = self.standing(pool.name, slot)
        stream.release(users, ["a"] * len(users), slot=slot)
        assert self.bill is not None
        bill, names, options = self.bill
        rows = {tuple(each): number for number, each in enumerate(self.names.tolist())}
        order = [rows[tuple(each)] for each in names.tolist()]
        grains, cost = np.zeros(self.users, dtype=np.int64), self.standing(pool.name, slot) - before
        grains[order] = bill.weights
        epoch = 0 if self.period is None else slot // self.period
        if epoch != pool.epoch:
            pool.forget(epoch)
        pool.paid += cost
        pool.total += cost
        prices = np.broadcast_to(np.asarray(bill.units(np.arange(len(order)))), len(order)).tolist()
        for number, price, weight in zip(order, prices, bill.weights.tolist(), strict=True):
            pool.losses[number] += price * weight
        result = np.stack([grains, cost], axis=1)
        if bill.groups:
            said = list[int]()
            for group in bill.groups:
                said += [group.epsilon.units, len(group.classes)]
                said += [part for due in group.classes for part in (due.number, due.steps)]
            pool.tell(result, "C", name, slot, 0, len(bill.groups), *said, bits(here))
        else:
            share = options["share"]
            assert isinstance(share, Fraction)
            words = bill.epsilon.units, share.numerator, share.denominator
            pool.tell(result, "P", name, slot, *words, 0, bits(here))
        self.hit["slots by class" if bill.groups else "slots by policy"] += 1
        self.hit["part of a weight"] += int(((grains > 0) & (grains < GRAINS)).sum())
        self.stand()

    # Copies.

    def copy(self) -> None:
        """Keep a copy."""
        number = len(self.copies)
        self.copies.append(Copy(number, self.store._content, self.store.head().sequence))
        for pool in self.pools.values():
            pool.act(0, "K")
            pool.copies.insert(0, number)

    def restore(self, copy: Copy) -> None:
        """Go on with an old copy, of whatever branch; whether it is refused must be what the ledgers say."""
        if copy.sequence >= self.store.head().sequence:  # the witness does not know that it is older
            return
        seen, after = self.store._told(), MemoryStore(self.store.key)
        after._content = copy.content  # type: ignore[assignment]
        used = {self.pool_of(name).name for name in self.streams}
        at = {name: ([*self.pools[name].copies, copy.number]).index(copy.number) for name in sorted(used)}
        try:
            charge(after, seen)
        except StateError as error:
            for name, place in at.items():
                self.pools[name].tell(None, "T", place)
            said = [(name, len(self.pools[name].results) - 1) for name in at]
            self.decisions.append((str(error), said))
            self.hit["refused: a copy"] += 1
            return
        for name, place in at.items():
            self.pools[name].act(0, "R", place)
        self.store = after
        for name in self.streams:
            self.open(name)
        self.hit["a copy goes on"] += 1
        self.stand()

    # What the store has.

    def accounts(self, name: str) -> Accounts:
        """Accounts as the store has them."""
        return stored_accounts(self.store, name)

    def standing(self, name: str, slot: int, stream: str | None = None, field: str = "spent") -> np.ndarray:
        """What each user has spent, or how often they have paid, in the epoch of a slot."""
        found = np.zeros(self.users, dtype=np.int64)
        if name in self.store.ledgers():
            accounts = self.accounts(name)
            table = accounts._table if stream is None else accounts._payments_of(stream)
            place = table.find(self.names)
            found[place.order] = accounts._standing(place, slot, table)[field]
        return found

    def stand(self) -> None:
        """What all accounts hold, what is public, and that the one bounds the other."""
        for pool in self.pools.values():
            streams = sorted(name for name in self.streams if self.pool_of(name) is pool)
            if not streams:
                continue
            accounts, reached = self.accounts(pool.name), {name: self.store.reached(name) for name in streams}
            newest = max((at[0] for at in reached.values() if at is not None), default=0)
            epoch = 0 if self.period is None else newest // self.period
            held = left(accounts._available(newest), self.standing(pool.name, newest))
            assert epoch == pool.epoch
            found = [held, pool.paid, np.array([-(-loss // GRAINS) for loss in pool.losses])]
            public = [accounts.assigned, sum(units for at, units in accounts._levies if at >= epoch)]
            for name in streams:
                found += [self.standing(pool.name, newest, name, part) for part in ("spent", "active")]
                bounds, at = self.store.bounds(name), reached[name]
                public += [UNPAID if at is None else at[0], 0 if int(name) % 2 == 0 or at is None else at[1]]
                marks = [] if bounds is None else bounds.restored
                top = getattr(self.budgets[name].policy, "top", 0)
                public += [
                    len(marks),
                    *marks,
                    *[*(() if bounds is None else bounds.largest), *[0] * (top + 1)][: top + 1],
                ]
            pool.tell(np.stack(found, axis=1), "E", epoch, *streams)
            pool.tell(public, "U", epoch, *streams)
            assert (pool.total <= sum(map(self.said, streams))).all(), "a user has paid more than the chain says"


def compare(program: Path, life: Life) -> int:
    """Play a life with both; returns how many payments there were, and raises where something differs."""
    life.play()
    told = dict[str, list[np.ndarray]]()
    for name, pool in life.pools.items():
        script = "\n".join(pool.lines) + "\n"
        answer = subprocess.run([program], input=script.encode(), capture_output=True, check=True).stdout
        numbers, place = np.frombuffer(answer, dtype="<i8"), 0
        told[name] = []
        for line, ours in zip(pool.lines[1:], pool.results, strict=True):
            size = 1 if ours is None else ours.size
            model = numbers[place : place + size]
            place += size
            told[name].append(model)
            if ours is not None and not np.array_equal(model, ours):
                at = int(np.flatnonzero(model != ours)[0]) if model.size == ours.size else model.size
                raise AssertionError(
                    f"life {life.seed}, accounts {name!r}, {line[:90]!r}, number {at}: the ledger says "
                    f"{model.tolist()[at : at + 2]}, the store {ours.tolist()[at : at + 2]}"
                )
        assert place == numbers.size
    for why, said in life.decisions:
        if all(told[name][line][0] for name, line in said):
            raise AssertionError(f"life {life.seed}: the ledger would go on with a copy that the store refuses: {why}")
    return sum(int((result.reshape(-1, 2)[:, 1] > 0).sum()) for pool in life.pools.values()
               for line, result in zip(pool.lines[1:], pool.results, strict=True)
               if result is not None and line[:2] in ("P ", "C "))  # fmt: skip


def main(lives: int, first: int = 0, actions: int = 60) -> None:
    """Play many lives and say what was hit."""
    began, payments, hit = time.monotonic(), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for seed in range(first, first + lives):
            life = Life(seed, actions)
            payments += compare(program, life)
            hit += life.hit
    print(f"{lives} stores, {payments} payments, {time.monotonic() - began:.0f} s: no difference")
    for name in sorted(hit):
        print(f"{hit[name]:12d} {name}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
