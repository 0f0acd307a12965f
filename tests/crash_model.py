"""The crash protocol as a small model, searched to the end: two writers, crashes, copies of the store, restorations.

A slot is closed in steps, as `dpi.stream.slot_closer` has them: a measurement is drawn; one transaction debits the
accounts and keeps the measurement; a second one keeps the release; the witness is told; the store keeps that it was;
then the release is handed out. Between any two steps a process may crash, the other one may act, the store may be
copied, or a copy put in its place, beside which the processes of the old file still run.

Two things must hold in every state that can be reached:

* of every slot, one measurement at most was handed out;
* of two measurements that were handed out, the later one was drawn from accounts that knew the debit of the earlier
  one, or were charged for it.

`Rules` has a switch for every rule of the protocol. Without it, the search must find a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

Chain = tuple[tuple[str, object, int], ...]
"""Entries: ("release", slot, measurement), or ("restored", the head that was lost, its last slot)."""


class Store(NamedTuple):
    """A file: the chain, a slot that is paid and not released, and the slots whose debits its accounts know."""

    chain: Chain = ()
    paid: tuple[int, int] | None = None
    debits: frozenset[int] = frozenset()
    confirmed: int = 0
    """How many entries the witness is known to have seen."""


class Process(NamedTuple):
    """A writer: where it is, its file, that file as it knows it, and the slot and measurement that it works on."""

    at: str = "dead"
    file: int = 0
    known: Store = Store()
    slot: int = -1
    measurement: int = -1


class World(NamedTuple):
    """Everything, and how often what may still happen."""

    files: tuple[Store, ...] = (Store(),)
    witness: Chain = ()
    copies: tuple[Store, ...] = ()
    processes: tuple[Process, ...] = (Process(), Process())
    shown: frozenset[tuple[int, int]] = frozenset()
    basis: tuple[frozenset[int], ...] = ()
    """Of each measurement: the debits that the accounts knew when it was drawn."""
    crashes: int = 1
    restores: int = 1


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol, and how far the search goes."""

    compares: bool = True
    """A transaction writes only if the store is as the process knows it."""
    tells_first: bool = True
    """The witness is told before a release is handed out, and a process that lacks what it saw stops."""
    confirms: bool = True
    """A store with a release that the witness is not known to have seen is not charged, but refused."""
    charges: bool = True
    """A copy that goes on is charged for the slots that it lacks."""
    debits_first: bool = True
    """Debits are in the transaction of the measurement, and not in one after the release."""
    measurements: int = 3
    copies: int = 1


def last_slot(chain: Chain) -> int:
    """The last slot that a chain knows of."""
    return max((int(entry[1]) if entry[0] == "release" else entry[2] for entry in chain), default=-1)  # type: ignore[call-overload]


def lacks(store: Store, witness: Chain) -> bool:
    """Whether a store does not contain what the witness saw, and was not charged for it."""
    charged = bool(store.chain) and store.chain[-1][:2] == ("restored", hash(witness))
    return store.chain[: len(witness)] != witness and not charged


def moves(world: World, rules: Rules) -> Iterator[World]:
    """All states that can follow."""
    for number, process in enumerate(world.processes):
        for after, changed in steps(world, process, rules):
            yield after._replace(processes=(*world.processes[:number], changed, *world.processes[number + 1 :]))
        if process.at != "dead" and world.crashes:
            dead = (*world.processes[:number], Process(), *world.processes[number + 1 :])
            yield world._replace(processes=dead, crashes=world.crashes - 1)
    newest = world.files[-1]
    if len(world.copies) < rules.copies and newest not in world.copies:
        yield world._replace(copies=(*world.copies, newest))
    if world.restores:
        for copy in world.copies:
            if copy != newest:
                yield world._replace(files=(*world.files, copy), restores=world.restores - 1)


def steps(world: World, process: Process, rules: Rules) -> Iterator[tuple[World, Process]]:
    """What one process can do next."""
    number, at = process.file, process.at
    store = world.files[number]

    def written(after: Store) -> World:
        return world._replace(files=(*world.files[:number], after, *world.files[number + 1 :]))

    if at == "dead":
        yield from opened(world, rules)
    elif at == "opened":  # the witness is told when a store is opened, too
        if not (rules.tells_first and lacks(store, world.witness)):
            yield world._replace(witness=store.chain), process._replace(at="begins")
    elif at in ("begins", "told"):
        if rules.compares and store != process.known:
            yield world, Process()
        else:
            after = store._replace(confirmed=len(store.chain))
            yield written(after), process._replace(at="idle" if at == "begins" else "confirmed", known=after)
    elif at == "idle":
        shown = {(int(entry[1]), entry[2]) for entry in process.known.chain if entry[0] == "release"}  # type: ignore[call-overload]
        if shown - world.shown:  # whoever reads releases of a store that is open
            yield world._replace(shown=world.shown | shown), process
        paid = process.known.paid
        if paid is not None:
            yield world, process._replace(at="paid", slot=paid[0], measurement=paid[1])
        elif len(world.basis) < rules.measurements:
            slot = last_slot(process.known.chain) + 1
            drawn = process._replace(at="measured", slot=slot, measurement=len(world.basis))
            yield world._replace(basis=(*world.basis, process.known.debits)), drawn
    elif at == "measured":
        if rules.compares and store != process.known:
            yield world, Process()
        else:
            debits = process.known.debits | ({process.slot} if rules.debits_first else set())
            after = store._replace(paid=(process.slot, process.measurement), debits=debits)
            yield written(after), process._replace(at="paid", known=after)
    elif at == "paid":
        if rules.compares and store != process.known:
            yield world, Process()
        else:
            entry = ("release", process.slot, process.measurement)
            after = process.known._replace(chain=(*process.known.chain, entry), paid=None)
            yield written(after), process._replace(at="published", known=after)
    elif at == "published":
        if not rules.tells_first:
            yield world, process._replace(at="told")
        elif lacks(store, world.witness):
            yield world, Process()
        else:
            yield world._replace(witness=store.chain), process._replace(at="told")
    elif at == "confirmed":
        shown = world.shown | {(process.slot, process.measurement)}
        witness = world.witness if rules.tells_first else store.chain
        yield (
            world._replace(shown=shown, witness=witness),
            process._replace(at="idle" if rules.debits_first else "shown"),
        )
    elif at == "shown":
        after = store._replace(debits=store.debits | {process.slot})
        yield written(after), process._replace(at="idle", known=after)


def opened(world: World, rules: Rules) -> Iterator[tuple[World, Process]]:
    """The newest file is opened: if it is an old copy, it is refused, or charged for what it lacks."""
    number, store = len(world.files) - 1, world.files[-1]
    if lacks(store, world.witness):
        unseen = any(entry[0] == "release" for entry in store.chain[store.confirmed :])
        if len(store.chain) >= len(world.witness) or (unseen and rules.confirms):
            return
        last = last_slot(world.witness)
        lost = range(last_slot(store.chain) + 1, last + 1)
        debits = store.debits | set(lost) if rules.charges else store.debits
        paid = store.paid if store.paid is not None and store.paid[0] > last else None
        entry = ("restored", hash(world.witness), last)
        store = Store((*store.chain, entry), paid, debits, store.confirmed)
    yield world._replace(files=(*world.files[:number], store)), Process("opened", number, store)


def violation(world: World) -> str | None:
    """What must never be."""
    measured = dict[int, int]()
    for slot, measurement in sorted(world.shown):
        if slot in measured:
            return "two measurements of one slot"
        measured[slot] = measurement
    for slot in measured:
        for other, measurement in measured.items():
            if slot < other and slot not in world.basis[measurement]:
                return "a debit is forgotten"
    return None


def search(rules: Rules, first: World) -> tuple[int, str | None]:
    """All states that can be reached: how many, and the first violation."""
    seen, front = {first}, [first]
    while front:
        following = []
        for world in front:
            for after in moves(world, rules):
                after = canonical(after)
                if after in seen:
                    continue
                found = violation(after)
                if found is not None:
                    return len(seen), found
                seen.add(after)
                following.append(after)
        front = following
    return len(seen), None


def canonical(world: World) -> World:
    """The same world, whichever process is called the first."""
    return world._replace(processes=tuple(sorted(world.processes, key=repr)))


def without(rule: str) -> Rules:
    """The protocol without one of its rules."""
    return replace(Rules(), **{rule: False})
