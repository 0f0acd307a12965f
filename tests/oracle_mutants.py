"""Faults of the program, one at a time, of which the oracles must notice each: its ledger, its stores and its doors.

    python tests/oracle_mutants.py          # all of them
    python tests/oracle_mutants.py 0::5     # every fifth

A fault is a change of one line in a copy of the package, which a process of its own runs. The tests' own arithmetic
stays as it is: what is compared is what the changed program does with what the proofs say.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/dpi"
PATIENCE = 1800
"""Seconds that the search for a difference may take; a search that takes longer has found none."""


@dataclass(frozen=True)
class Fault:
    """One changed line, and the oracle that must notice it."""

    what: str
    file: str
    before: str
    after: str
    oracle: str
    """"ledger", "store", "marks" or "batches"."""

    def put(self, package: Path) -> None:
        """Change a copy of the package."""
        path = package / self.file
        text = path.read_text()
        if text.count(self.before) != 1:
            raise ValueError(f"{self.file} has {self.before!r} {text.count(self.before)} times.")
        path.write_text(text.replace(self.before, self.after))


FAULTS = (
    Fault("a debit is rounded down", "exact/integers.py",
          "((low * grains + (GRAINS - 1)) >> GRAIN_BITS)", "((low * grains) >> GRAIN_BITS)", "ledger"),
    Fault("a weight is rounded up", "budget/billing.py",
          "np.minimum(policy, fraction_floor(limit, epsilon))",
          "np.minimum(policy, fraction_floor(limit, epsilon) + 1)",
          "ledger"),
    Fault("an account that a levy has emptied has something left", "budget/billing.py",
          "return np.maximum(held - spent, 0)", "return np.abs(held - spent)", "ledger"),
    Fault("a levy is forgotten", "budget/billing.py", "return max(0, epsilon - levied)", "return max(0, epsilon)",
          "ledger"),
    Fault("a share is rounded up", "budget/billing.py",
          "remaining * share.numerator // share.denominator", "-(-remaining * share.numerator // share.denominator)",
          "ledger"),
    Fault("a user is in the class after their own", "budget/charge.py",
          "np.minimum(paid.astype(np.int64), top)", "np.minimum(paid.astype(np.int64) + 1, top)", "ledger"),
    Fault("a payment is not counted", "budget/charge.py",
          'standing["active"] += 1', 'standing["active"] += 0', "ledger"),
    Fault("every user pays the price of the first group", "budget/charge.py",
          "np.array([group.epsilon.units for group in self.groups])[self.group_index[users]]",
          "np.array([group.epsilon.units for group in self.groups])[self.group_index[users] * 0]", "ledger"),
    Fault("accounts are refilled in every slot", "budget/accounts.py",
          'standing[standing["epoch"] < self._epoch(slot)]', 'standing[standing["epoch"] <= self._epoch(slot)]',
          "ledger"),
    Fault("a payment of one unit is free", "budget/accounts.py",
          "paying = everybody[rows] = cost > 0", "paying = everybody[rows] = cost > 1", "ledger"),
    Fault("a slot may be paid for twice", "budget/accounts.py",
          "if slot <= self._slots.get(stream, slot - 1):", "if slot < self._slots.get(stream, slot - 1):", "ledger"),
    Fault("a part of a weight takes part where only whole ones do", "budget/accounts.py",
          "grains[grains < GRAINS] = 0", "grains[grains < 0] = 0", "ledger"),
    Fault("future accounts are not charged for lost slots", "budget/accounts.py",
          "levy = int(taken[-1])", "levy = 0", "ledger"),
    Fault("what lost slots took is charged by the user's class alone", "budget/classes.py",
          "shares[np.minimum(m + payment, shares.size - 1)]", "shares[np.minimum(m, shares.size - 1)]", "ledger"),
    Fault("an earlier restoration is forgotten where lost slots are charged", "budget/classes.py",
          "        if slot in restored:\n            runs.append", "        if slot is None:\n            runs.append",
          "ledger"),
    Fault("a larger share that was asked before is forgotten", "budget/classes.py",
          "        largest = _larger(self.largest, steps)\n", "        largest = tuple(steps)\n", "ledger"),
    Fault("the bound of a class falls", "budget/classes.py",
          "spent[following] = max(spent[following], most_spent(", "spent[following] = min(1 << 62, most_spent(",
          "ledger"),
    Fault("that a copy went on is not kept", "budget/classes.py",
          "sorted({*self.restored, *restored, slots.stop - 1})", "sorted({*self.restored, *restored})", "ledger"),
    Fault("a quota is given of what may be spent", "stream/registration.py",
          "spent = sum(_most_spent(store, each.name) for each in pool if each.quota is None)", "spent = 0", "ledger"),
    Fault("a slot that is paid for and not released is not counted as spent", "stream/registration.py",
          "return spent if pending is None else pending.spent_after(spent)", "return spent", "ledger"),
    Fault("a quota shrinks", "stream/registration.py",
          "if setting.held.units < before:", "if setting.held.units < 0:", "ledger"),
    Fault("one of the lost slots is free", "store/_rollback.py",
          "gone, bounds, spent = range(here.last + 1, last + 1)",
          "gone, bounds, spent = range(here.last + 2, last + 1)",
          "store"),
    Fault("lost slots of a price are free", "store/_rollback.py",
          "LostSlots(gone, spent - here.spent, largest, again)", "LostSlots(gone, 0, largest, again)", "store"),
    Fault("a copy charges one stream of several", "store/_rollback.py",
          "lost.setdefault(ledger, {})[name] =", "lost[ledger] = {}; lost[ledger][name] =", "store"),
    Fault("an earlier restoration is not asked of the witness", "store/_rollback.py",
          "again = tuple(seen.restored.get(name, ()))", "again = ()", "store"),
    Fault("a copy from before a quota grew goes on", "store/_rollback.py",
          "streams[name].held < units", "streams[name].held < 0", "store"),
    Fault("a copy without a stream goes on", "store/_rollback.py",
          '            raise StateError(f"the stream {name!r} began after this copy was made: start a new store.")',
          "            continue", "store"),
    Fault("levies are not read from the store", "store/ledger_session.py",
          "        accounts.levy(levy.units, levy.slot)", "        pass", "store"),
    Fault("the rest does not shrink as quotas grow", "stream/slot_closer.py",
          "            self.accounts.assign(promise.assigned)", "            pass", "store"),
    Fault("what was paid in a stream is not stored", "store/_memory.py",
          "payments=_add(kept.payments, payments or b\"\")", "payments=kept.payments", "store"),
    Fault("a quota of another stream is still in the rest", "certificates/declared.py",
          "(options.held for options in pool if options.quota is not None)",
          "(options.held for options in pool[1:] if options.quota is not None)", "store"),
    Fault("an event is judged by the clock at its own mark", "stream/input_positions.py",
          "max(first, slots.first_open(before.moment))", "max(first, slots.first_open(self.moment))", "marks"),
    Fault("the future begins at the first closing time after each mark", "stream/input_positions.py",
          "until = self._closing if closes else self._slots.next_closing(self._closing)", "until = self._closing",
          "marks"),
    Fault("a look that closes a slot is left out for lack of news", "stream/input_positions.py",
          "            and not self._closes(last.moment, mark.moment)\n", "", "marks"),
    Fault("a clock that is set back goes back", "stream/input_positions.py",
          "moment = self._moment = max(self._clock(), self._moment)", "moment = self._moment = self._clock()", "marks"),
    Fault("an input that does not answer makes a mark", "stream/input_positions.py",
          "if len(told) < len(reached):", "if len(told) < 0:", "marks"),
    Fault("an event of the first open slot is late", "events/slots.py",
          "(slots.at(np.where(readable, moments, 0)) < self.first)",
          "(slots.at(np.where(readable, moments, 0)) <= self.first)", "marks"),
    Fault("an event of this very moment is from the future", "events/slots.py",
          "(moments > self.until)", "(moments >= self.until)", "marks"),
    Fault("lateness is forgotten in what is open", "events/slots.py",
          "return self.at(now - self.lateness)", "return self.at(now)", "marks"),
    Fault("a recorded arrival may be of the future", "sources/admission.py",
          "np.minimum(moments, now))", "moments)", "marks"),
    Fault("an event without a user counts", "sources/admission.py",
          "            inside &= columns.known\n", "            inside &= True\n", "marks"),
    Fault("a slot closes before its mark", "stream/live.py",
          "end = self.slots.first_open(mark.moment)", "end = self.slots.first_open(mark.moment) + 1", "marks"),
    Fault("a head counts when it is read", "service/_receipts.py",
          "return self._clock() if arrived is None or self._clock is not system_clock else arrived",
          "return self._clock()", "batches"),
    Fault("a slot does not wait until bytes that came are read", "service/_receipts.py",
          "if self._loop is not None and self._looked < moment:", "if False:", "batches"),
    Fault("a slot does not wait for a request that is not understood yet", "service/_receipts.py",
          "all(receipt.stream not in (None, stream) for receipt in earlier)",
          "all(receipt.stream != stream for receipt in earlier)", "batches"),
    Fault("what had come is counted as read at the end of a look", "service/_receipts.py",
          "                self._looked, self._looking = began, False",
          "                self._looked, self._looking = self._clock(), False", "batches"),
    Fault("the last byte decides which slots are open", "service/service.py",
          "slots.first_open(head)", "slots.first_open(end)", "batches"),
    Fault("the head decides what is from the future", "service/service.py",
          "slots.next_closing(end)", "slots.next_closing(head)", "batches"),
    Fault("options change while a batch is read by those before", "service/_admissions.py",
          "self._turn.wait_for(lambda: not self._used[stream])", "pass", "batches"),
    Fault("a slot waits for no batch", "service/_closing.py",
          "if not self._receipts.settled(stream.name, closing) or", "if", "batches"),
)  # fmt: skip


def play(oracle: str, program: Path, number: int) -> None:
    """Compare one world, of this number; raises where the program differs from the proofs."""
    if oracle in ("marks", "batches"):
        import door_oracle

        door_oracle.compare(program, (door_oracle.Marks if oracle == "marks" else door_oracle.Batches)(number, 150))
    elif oracle == "store":
        import store_oracle

        store_oracle.compare(program, store_oracle.Life(number, 80))
    else:
        import ledger_oracle

        ledger_oracle.compare(program, ledger_oracle.World(number, users=12, slots=200))


def noticed(fault: Fault | None, programs: dict[str, Path], worlds: int) -> tuple[int, str]:
    """In which world the oracle found a difference first, and what it says; without a fault, what any of them says."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "dpi")
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        if fault is not None:
            fault.put(package)
        asked = programs if fault is None else {fault.oracle: programs[fault.oracle]}
        words = [__file__, "--search", folder, str(worlds), *(f"{kind}={program}" for kind, program in asked.items())]
        try:
            told = subprocess.run(
                [sys.executable, *words], capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return 0, ""
    number, _, said = told.stdout.strip().rpartition("\n")[2].partition(" ")
    return (int(number), said) if number.isdigit() else (0, f"the process ends: {told.stderr[-200:]}")


def search(folder: str, worlds: int, programs: dict[str, Path]) -> tuple[int, str]:
    """Look for a difference, in the process that runs the changed package."""
    sys.path[:0] = [folder, str(ROOT / "tests")]
    import dpi

    assert dpi.__file__ == str(Path(folder, "dpi", "__init__.py"))  # or nothing would be found
    for kind, program in programs.items():
        for number in range(worlds):
            try:
                play(kind, program, number)
            except Exception as error:  # the program's own refusal of what it has written is a difference, too
                return number, f"{type(error).__name__}: {error}"
    return worlds, ""


def build(folder: Path) -> dict[str, Path]:
    """The programs that are extracted from the proofs, by the oracles that need them."""
    code = "import sys; from pathlib import Path; import {0}; print({0}.build(Path(sys.argv[1])))"
    made = {}
    for module, kinds in (("ledger_oracle", ("ledger", "store")), ("door_oracle", ("marks", "batches"))):
        told = subprocess.run(
            [sys.executable, "-c", code.format(module), folder],
            cwd=ROOT / "tests",
            check=True,
            capture_output=True,
            text=True,
        )
        made |= dict.fromkeys(kinds, Path(told.stdout.strip()))
    return made


def run(chosen: slice, worlds: int = 40) -> int:
    """Try faults, say what the oracles say of each, and return how many they do not notice.

    The package as it is must show no difference.
    """
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        programs = build(Path(folder))
        number, said = noticed(None, programs, 2)
        if said:
            raise AssertionError(f"the package as it is differs: {said}")
        for fault in FAULTS[chosen]:
            began = time.monotonic()
            number, said = noticed(fault, programs, worlds)
            missed += not said
            words = said.replace("\n", " ")[:110] if said else "NOT NOTICED"
            print(f"{fault.oracle:8} {fault.what} ({fault.file}): world {number}, {words}"
                  f" [{time.monotonic() - began:.1f} s]", flush=True)  # fmt: skip
    print(f"{len(FAULTS[chosen]) - missed} of {len(FAULTS[chosen])} faults are noticed.")
    return missed


if __name__ == "__main__" and sys.argv[1:2] == ["--search"]:
    given = dict(each.split("=", 1) for each in sys.argv[4:])
    at, why = search(sys.argv[2], int(sys.argv[3]), {kind: Path(place) for kind, place in given.items()})
    print(at, why.replace("\n", " "))
elif __name__ == "__main__":
    parts = [int(part) if part else None for part in (sys.argv[1] if len(sys.argv) > 1 else "::").split(":")]
    sys.exit(run(slice(*parts)) > 0)
