"""Lives of many users, played twice: by `dpi.budget`, and by the ledger that is extracted from `proofs/Ledger.v`.

    python tests/ledger_oracle.py 1000        # so many worlds of a thousand users each

A world is a public script of 300 slots and more, with copies, restorations, levies, quotas and refusals; its users
differ in when they are there. Every weight and refusal must be the same, to the unit. After every action so must be
what each account holds, has spent and has paid in each stream, and what is public: last slots, bills, the largest
shares and the slots after which copies went on. Debits are differences of balances, and refusals are those of the
program. What is said in public must bound what the ledger of the proof has lost, after every action.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpi.budget import Accounts, Epsilon, clocked, fade, spend_first
from dpi.budget.billing import SHARE_STEPS, assignable, left
from dpi.budget.charge import LostSlots
from dpi.budget.classes import Bounds, GroupBudget
from dpi.budget.epsilon import LARGEST, UNITS
from dpi.errors import ClockError, OptionError
from dpi.exact.integers import GRAINS
from dpi.stream.registration import _check_quota

UNPAID = -9999999
"""The last slot of a stream that has none."""
PROOFS = Path(__file__).resolve().parent.parent / "proofs"
KEY = bytes(32)


def build(folder: Path) -> Path:
    """Extract the ledger and compile it; returns the program."""
    for name in ("Ledger.v", "Extract.v", "oracle.ml"):
        shutil.copy(PROOFS / name, folder)
    compiled = ["ocamlfind", "ocamlopt", "-package", "zarith", "-linkpkg", "ledger.mli", "ledger.ml", "oracle.ml"]
    for command in (["coqc", "-q", "Ledger.v"], ["coqc", "-q", "Extract.v"], [*compiled, "-o", "oracle"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "oracle"


@dataclass
class Copy:
    """A store at one moment."""

    accounts: Accounts
    bounds: dict[int, Bounds]
    billed: dict[int, int]


@dataclass
class World:
    """One public script, and what `dpi.budget` makes of it."""

    seed: int
    users: int
    slots: int
    lines: list[str] = field(default_factory=list)
    results: list[np.ndarray] = field(default_factory=list)
    """What the ledger of the proof should say to each line."""
    asked: list[int] = field(default_factory=list)
    """The lines of these results."""
    hit: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)
        amounts = [
            rng.randint(1, 60),
            rng.randint(1, LARGEST),
            rng.randint(UNITS, 4 * UNITS),
            GRAINS + rng.randint(-2, 2),
        ]
        self.gentle = rng.random() < 0.5
        """Small prices and shares, so that users pay in hundreds of slots; otherwise anything."""
        self.drawn = rng.random() < 0.5
        """Whether prices are those that are drawn: then it is known what accounts have left at most."""
        self.often = rng.random() < 0.3
        """Whether copies are made and go on often, also where shares are small."""
        self.epsilon, self.top = rng.choice(amounts[1:3] if self.gentle else amounts), rng.choice([1, 2, 4, 6])
        self.caps = [rng.choice([1, 8, 64, 512, SHARE_STEPS]) for _ in range(self.top + 1)]
        """The largest share of each class, where copies go on often: so that it matters in which class a user is."""
        self.period = rng.choice([0, 0, 0, 5, 60])
        self.streams = [rng.randrange(4)] if self.period else rng.sample(range(5), rng.randint(1, 3))
        classes = any(stream % 2 == 0 for stream in self.streams)
        policy = clocked(self.top) if classes else rng.choice([spend_first, fade()])
        self.names = self.numbers.integers(0, 2**64, (self.users, 2), dtype=np.uint64)
        self.accounts = Accounts(Epsilon(self.epsilon), key=KEY, policy=policy, period=self.period or None)
        self.bounds = {
            stream: Bounds.initial(Epsilon(self.epsilon), self.top, self.period or None) for stream in self.streams
        }
        self.billed = dict.fromkeys(self.streams, 0)
        self.copies: list[Copy] = []
        self.levied = rng.random() < 0.3
        """Levies by hand, which no public bound knows of: such a world has no quotas."""
        self.lost = np.zeros(self.users, dtype=np.int64)
        self.spent = {stream: np.zeros(self.users, dtype=np.int64) for stream in range(5)}
        """What each user has lost in each stream: on whatever branch, in the newest epoch."""
        self.epoch, self.losses = 0, [0] * self.users
        table = policy.grains(np.arange(400)).tolist()
        first = rng.choice([0, 0, -7, 1000])
        self.next = dict.fromkeys(self.streams, first)
        self.tell(self.epsilon, self.top, self.period, 0, self.users, *table)

    def tell(self, *words: object) -> None:
        """Write a line of the script."""
        self.lines.append(" ".join(map(str, words)))

    def expect(self, numbers: object) -> None:
        """Note what the ledger of the proof should say to the last line."""
        self.results.append(np.asarray(numbers, dtype="<i8").ravel())
        self.asked.append(len(self.lines) - 1)

    def give(self, grains: object = 0, cost: object = 0) -> None:
        """Note what comes of an action, and what everything is after it."""
        result = np.empty((self.users, 2), dtype="<i8")
        result[:, 0], result[:, 1] = grains, cost
        self.expect(result)
        self.stand()

    def refuse(self, why: str) -> None:
        """Note a refusal."""
        self.hit["refused: " + why] += 1
        self.give(-1, -1)

    def answers(self) -> list[tuple[np.ndarray, str]]:
        """Each answer with its line."""
        return [(result, self.lines[number]) for result, number in zip(self.results, self.asked, strict=True)]

    def play(self) -> None:
        """Choose actions until there are enough slots."""
        paid = 0
        while paid < self.slots:
            if paid < 40 and self.rng.random() < 0.2:  # while there is something to give
                self.assign()
            draw = self.rng.random()
            if draw < 0.8 or (draw < 0.93 and not self.often) or (self.gentle and not self.often and draw < 0.98):
                paid += self.pay()
            elif draw < (0.88 if self.often else 0.96):
                self.copy()
            elif draw < (0.97 if self.levied else 0.985):
                self.restore()
            elif draw < 0.99 and self.levied:
                self.levy()
            else:
                self.assign()

    def pay(self) -> int:
        """Pay for a slot, or try one that must be refused."""
        stream = self.rng.choice(self.streams)
        slot = self.next[stream] + self.rng.choice([0] * 20 + [1, 3])
        wrong = self.rng.random() < 0.02
        if wrong and self.rng.random() < 0.5:
            slot = self.next[stream] - 1
        if wrong and self.period and self.accounts._slots and self.rng.random() < 0.5:
            stream = next(number for number in range(5) if number not in self.streams and number % 2 == stream % 2)
            self.bounds.setdefault(stream, self.bounds[self.streams[0]])
            self.billed.setdefault(stream, 0)
        here = self.numbers.random(self.users) < self.rng.choice([0.95, 1.0] if self.gentle else [0.1, 0.5, 0.95, 1.0])
        whole = self.rng.random() < 0.1
        paying = self.by_class if stream % 2 == 0 else self.by_policy
        return paying(stream, slot, here, whole, wrong)

    def by_policy(self, stream: int, slot: int, here: np.ndarray, whole: bool, wrong: bool) -> int:
        """Pay what a slot costs."""
        held = self.accounts.held.units
        units = self.rng.choice([0, 1, self.rng.randint(0, held), self.rng.randint(0, held // 50 + 1), held])
        units = self.rng.randint(1, held // 999 + 1) if self.gentle else units
        den = self.rng.choice([1, 1, 2, 7, SHARE_STEPS, SHARE_STEPS + 1 if wrong else 3])
        share = Fraction(self.rng.randint(1, den), den)
        self.tell("P", stream, slot, units, share.numerator, share.denominator, int(whole), bits(here))
        options = {"share": share, "whole": whole, "stream": str(stream)}
        if self.settle(slot, here, Epsilon(units), options):
            self.billed[stream] += units
            self.next[stream] = slot + 1
            self.give(*self.done)
            return 1
        return 0

    def by_class(self, stream: int, slot: int, here: np.ndarray, whole: bool, wrong: bool) -> int:
        """Pay by class: what is asked, and for which prices, is arbitrary."""
        high = self.rng.choice([self.top, self.rng.randint(0, self.top)])
        due = [0, *sorted(self.rng.sample(range(1, high + 1), self.rng.randint(0, high)))]
        due = [*range(self.top + 1)] if self.gentle else due
        groups: dict[int, list[tuple[int, Fraction]]] = {}
        for m in due:
            steps = self.rng.choice([1, SHARE_STEPS, SHARE_STEPS // 2, self.rng.randint(1, SHARE_STEPS)])
            steps = self.rng.randint(1, 16) if self.gentle and m else steps
            steps = self.rng.randint(1, self.caps[m]) if self.often else steps
            groups.setdefault(self.rng.randrange(3), []).append((m, Fraction(steps, SHARE_STEPS)))
        bounds, drawn = self.bounds[stream].draw(slot, tuple(map(tuple, groups.values())))
        if not self.drawn and self.rng.random() < 0.5:  # any other price keeps the promise as well
            prices = [Epsilon(self.rng.randint(1, 2 * self.epsilon + 9) % LARGEST + 1) for _ in drawn]
            drawn = tuple(GroupBudget(price, each.classes) for price, each in zip(prices, drawn, strict=True))
        if wrong and self.rng.random() < 0.5 and stream in self.next:
            beyond = (((0, Fraction(1)), (self.top + 1, Fraction(1))),)
            _, drawn = Bounds.initial(Epsilon(self.epsilon), self.top + 1).draw(slot, beyond)
        said = list[int]()
        for group in drawn:
            said += [group.epsilon.units, len(group.classes)]
            said += [part for due in group.classes for part in (due.number, due.steps)]
        self.tell("C", stream, slot, int(whole), len(drawn), *said, bits(here))
        options = {"whole": whole, "stream": str(stream), "groups": drawn}
        if self.settle(slot, here, max(group.epsilon for group in drawn), options):
            self.bounds[stream], self.next[stream] = bounds, slot + 1
            self.give(*self.done)
            return 1
        return 0

    def settle(self, slot: int, here: np.ndarray, epsilon: Epsilon, options: dict[str, object]) -> bool:
        """Bill and debit; whether it was not refused."""
        try:
            bill = self.accounts.bill(self.names[here], epsilon, slot, **options)  # type: ignore[arg-type]
        except ClockError:
            self.refuse("not after the last slot")
            return False
        except OptionError as error:
            self.refuse(str(error).split(" ")[0])
            return False
        epoch, names = self.accounts._epoch(slot), self.names[here]
        before = self.holding(slot)
        begun = self.accounts._standing(self.accounts._table.find(names), slot)["spent"]
        self.accounts.debit(bill)
        grains, cost = np.zeros(self.users, dtype=np.int64), self.holding(slot) - before
        grains[here] = bill.weights
        self.lost += cost
        if epoch != self.epoch:
            self.epoch, self.losses = epoch, [0] * self.users
            self.spent = {stream: np.zeros_like(cost) for stream in self.spent}
        self.spent[int(bill.stream)] += cost
        prices = np.broadcast_to(np.asarray(bill.units(np.arange(bill.weights.size))), bill.weights.shape)
        for user, price, weight in zip(
            np.flatnonzero(here).tolist(), prices.tolist(), bill.weights.tolist(), strict=True
        ):
            self.losses[user] += price * weight
        self.done = grains, cost
        kind = "class" if bill.group_index is not None else "policy"
        price = np.asarray(bill.units(np.arange(bill.weights.size)))
        for name, number in (
            ("weight one", (bill.weights == GRAINS).sum()),
            ("part of a weight", ((bill.weights > 0) & (bill.weights < GRAINS)).sum()),
            ("no weight", (bill.weights == 0).sum()),
            ("rounded debit", (price * bill.weights.astype(object) % GRAINS != 0).sum()),
            ("spent less than nothing", (begun < 0).sum()),
            ("refilled", int(self.period > 0) * (begun == 0).sum()),
            ("whole", int(bool(options["whole"])) * (bill.weights == GRAINS).sum()),
        ):
            self.hit[f"{kind}: {name}"] += int(number)
        return True

    def levy(self) -> None:
        """Charge everybody."""
        slot, units = max(self.next.values()), self.rng.choice([0, 1, self.rng.randint(0, self.epsilon // 8), -1])
        self.tell("L", slot, units)
        try:
            self.accounts.levy(units, slot)
        except OptionError:
            self.refuse("a levy below nothing")
            return
        self.hit["levy"] += 1
        self.give()

    def assign(self) -> None:
        """Give more of ε to a quota of others, as the chain allows it; or more than it allows."""
        if self.period or self.levied:
            return
        bound, held = self.public_bound(), self.accounts.held.units
        free = assignable(held, bound)
        if self.accounts.assigned and self.rng.random() < 0.2:  # the ledger could do it, and no chain has it
            assert not self.granted(-1)
            self.hit["refused: a quota that shrinks"] += 1
        more = self.rng.choice([0, self.rng.randint(0, free), free, free + 1, self.rng.randint(0, held)])
        self.tell("A", self.accounts.assigned + more, bound)
        if not self.granted(more):
            self.refuse("a quota of what is not there")
            return
        self.accounts.assign(self.accounts.assigned + more)
        self.copies.clear()
        self.hit["quota"] += more > 0
        self.give()

    def granted(self, more: int) -> bool:
        """Whether the program lets a quota grow, by what the store says of the streams without one."""
        total, before = Epsilon(self.epsilon), self.accounts.assigned
        streams = {
            str(stream): SimpleNamespace(name=str(stream), ledger="", quota=None, epsilon=total, held=self.epsilon)
            for stream in self.streams
        }
        streams["quota"] = SimpleNamespace(name="quota", ledger="", quota=Fraction(1), epsilon=total, held=before)
        waits = self.rng.choice([None, *map(str, self.streams)])

        class Store:  # which knows as much of streams as a store does
            def reached(_, name: str) -> tuple[int, int] | None:  # noqa: N805
                spent = self.said(int(name))
                return None if spent == 0 else (0, spent - (name == waits))

            def pending(_, name: str) -> object:  # noqa: N805
                paid = name == waits and self.said(int(name)) > 0
                return SimpleNamespace(spent_after=lambda spent: spent + 1) if paid else None

        asked = SimpleNamespace(name="quota", ledger="", quota=Fraction(1), held=Epsilon(before + more), epsilon=total)
        try:
            arguments: Any = asked, Store(), streams
            _check_quota(*arguments)
        except OptionError:
            return False
        return True

    def said(self, stream: int) -> int:
        """What the chain says that a stream can have cost a user so far."""
        return self.bounds[stream].most_spent if stream % 2 == 0 else self.billed[stream]

    def public_bound(self) -> int:
        """What streams can have cost a user so far: at least what anybody has paid, and what was levied."""
        bound = sum(map(self.said, self.streams))
        assert sum(units for _, units in self.accounts._levies) <= bound, "a levy that no public bound knows of"
        assert int(self.lost.max()) <= bound, "a user has paid more than is said"
        return bound

    def copy(self) -> None:
        """Keep a copy."""
        self.tell("K")
        self.copies.insert(0, Copy(resumed(self.accounts), dict(self.bounds), dict(self.billed)))
        self.give()

    def restore(self) -> None:
        """Go on with an old copy, of whatever branch, and charge for what it lacks."""
        number = self.rng.randrange(len(self.copies) + 1)
        self.tell("R", number)
        slots = self.accounts._slots
        if number == len(self.copies) or not slots or slots.keys() - self.copies[number].accounts._slots.keys():
            self.refuse("a copy without a stream")
            return
        copy = self.copies[number]
        lost, bounds = dict[str, LostSlots](), dict(self.bounds)
        for name, last in slots.items():
            gone, stream = range(copy.accounts._slots[name] + 1, last + 1), int(name)
            if stream % 2 == 0:
                seen = self.bounds[stream]
                bounds[stream] = copy.bounds[stream].after_lost(gone, seen.largest, seen.restored)
                lost[name] = LostSlots(gone, 0, bounds[stream].largest, seen.restored)
                self.hit["restored: any class"] += any(
                    slot in seen.restored for slot in range(gone.start - 1, gone.stop)
                )
            else:
                lost[name] = LostSlots(gone, self.billed[stream] - copy.billed[stream])
        slot = max(slots.values())
        after = resumed(copy.accounts)
        if any(each.largest is not None for each in lost.values()):
            levy, records = copy.accounts.charge_lost(lost, slot)
            kept = b"".join(records)
            self.hit["restored: by class"] += 1
        else:
            levy, kept = sum(each.units for each in lost.values()), b""
            self.hit["restored: by a levy"] += 1
        payments = {name: table.to_bytes() for name, table in after._payments.items()}  # type: ignore[attr-defined]
        after.resume(after._table.to_bytes() + kept, dict(slots), list(after._levies), payments)  # type: ignore[attr-defined]
        after.levy(levy, slot)
        after.assign(self.accounts.assigned)
        self.accounts, self.bounds = after, bounds
        if not self.period and not self.levied:
            self.public_bound()
        self.give()

    def holding(self, slot: int) -> np.ndarray:
        """What each user has spent in the epoch of a slot."""
        spent = np.empty(self.users, dtype=np.int64)
        place = self.accounts._table.find(self.names)
        spent[place.order] = self.accounts._standing(place, slot)["spent"]
        return spent

    def stand(self) -> None:
        """What accounts hold, what is public, and that the one bounds the other."""
        slots = self.accounts._slots
        newest = self.accounts._epoch(max(slots.values(), default=0))
        known = sorted({*self.streams, *map(int, slots)})
        for epoch in [newest, newest + 1] if self.period and self.rng.random() < 0.1 else [newest]:
            self.tell("E", epoch, *known)
            slot = epoch * (self.period or 1)
            held = left(self.accounts._available(slot), self.holding(slot))
            here = epoch == self.epoch
            losses = [-(-loss // GRAINS) if here else 0 for loss in self.losses]
            found = [held, sum(self.spent.values()) * here, np.array(losses, dtype=np.int64)]
            for stream in known:
                own = self.accounts._payments_of(str(stream))
                place = own.find(self.names)
                standing = self.accounts._standing(place, slot, own)
                spent, paid = np.empty((2, self.users), dtype=np.int64)
                spent[place.order], paid[place.order] = standing["spent"], standing["active"]
                found += [spent, paid]
                self.bounded(stream, slot, held, paid)
            self.expect(np.stack(found, axis=1))
        self.tell("U", newest, *known)
        public = [self.accounts.assigned, sum(units for epoch, units in self.accounts._levies if epoch >= newest)]
        for stream in known:
            bounds = self.bounds[stream]
            largest = (
                [*bounds.largest, *[0] * (self.top + 1)][: self.top + 1] if stream % 2 == 0 else [0] * (self.top + 1)
            )
            marks = [len(bounds.restored), *bounds.restored] if stream % 2 == 0 else [0]
            public += [slots.get(str(stream), UNPAID), 0 if stream % 2 == 0 else self.billed[stream], *marks, *largest]
        self.expect(public)

    def bounded(self, stream: int, slot: int, held: np.ndarray, paid: np.ndarray) -> None:
        """No account of a class has more left, and no user of it has lost more in a stream, than is said in public."""
        bounds = self.bounds[stream]
        if stream % 2 or stream not in self.streams or bounds.epoch != bounds._epoch(slot):
            return
        classes = np.minimum(paid, self.top)
        assert not self.drawn or (held <= np.array(bounds.left)[classes]).all(), "an account has more left than is said"
        assert (self.spent[stream] <= np.array(bounds.spent)[classes]).all(), "a user has lost more than is said"


def resumed(accounts: Accounts) -> Accounts:
    """The same accounts once more."""
    copy = Accounts(accounts.epsilon, key=KEY, policy=accounts.policy, period=accounts.period)
    payments = {name: table.to_bytes() for name, table in accounts._payments.items()}  # type: ignore[attr-defined]
    copy.resume(accounts._table.to_bytes(), dict(accounts._slots), list(accounts._levies), payments)  # type: ignore[attr-defined]
    copy.assign(accounts.assigned)
    return copy


def bits(here: np.ndarray) -> str:
    """Who is there, as ones and zeros."""
    return (here.astype(np.uint8) + ord("0")).tobytes().decode()


def compare(program: Path, world: World) -> int:
    """Play a world with both; returns how many payments there were, and raises where one of them differs."""
    world.play()
    script = "\n".join(world.lines) + "\n"
    answer = subprocess.run([program], input=script.encode(), capture_output=True, check=True).stdout
    check_same(world, np.frombuffer(answer, dtype="<i8"))
    paid = [result.reshape(-1, 2)[:, 1] > 0 for result, line in world.answers() if line[:2] in ("P ", "C ")]
    world.hit["lives of 300 payments and more"] += int((np.sum(paid, axis=0) >= 300).sum())
    return int(np.sum(paid))


def check_same(world: World, told: np.ndarray) -> None:
    """Raise at the first line to which the ledger of the proof says something else."""
    ours = np.concatenate(world.results)
    differ = np.flatnonzero(told[: ours.size] != ours[: told.size])
    if differ.size or told.size != ours.size:
        place = int(differ[0]) if differ.size else min(told.size, ours.size)
        number = int(np.searchsorted(np.cumsum([result.size for result in world.results]), place, side="right"))
        begin = sum(result.size for result in world.results[:number])
        raise AssertionError(
            f"world {world.seed}, answer {number} to {world.lines[world.asked[number]][:90]!r}, "
            f"number {place - begin}: the ledger says {told[place : place + 1].tolist()}, "
            f"dpi.budget {ours[place : place + 1].tolist()}"
        )


def main(worlds: int, first: int = 0, users: int = 1000, slots: int = 300) -> None:
    """Play many worlds and say what was hit."""
    began, payments, hit = time.monotonic(), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for seed in range(first, first + worlds):
            world = World(seed, users, slots)
            payments += compare(program, world)
            hit += world.hit
            if seed % 50 == 49:
                print(seed + 1, payments, round(time.monotonic() - began), flush=True)
    took = time.monotonic() - began
    print(f"{worlds * users} lives of {slots} slots and more, {payments} payments, {took:.0f} s: no difference")
    for name in sorted(hit):
        print(f"{hit[name]:12d} {name}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
