"""A machine that does to a stream whatever comes to mind, with crashes in between, and checks what must always hold."""

import os
import tempfile
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import dpi
from dpi.budget.epsilon import UNITS
from dpi.noise import UnsafeSeededSource
from dpi_audit.small import tight_published

SLOW = bool(os.environ.get("DPI_SLOW"))
DOMAIN = dpi.Categories(["a", "b", "c"], other=None)
PRIVATE = "zq-private"
EXPECTED = (dpi.OptionError, dpi.errors.SchemaError, dpi.errors.ClockError, dpi.StateError)
EPSILON = Fraction(1, 2)

ids = st.sampled_from(
    [f"{PRIVATE}-1", f"{PRIVATE}-2", f"{PRIVATE}-3", 941_717_001, "941717001", 941_717_001.0, b"941717001", None, ""]
)
PEOPLE = [f"{PRIVATE}-1", f"{PRIVATE}-2", f"{PRIVATE}-3", "941717001"]
values = st.sampled_from(["a", "b", "c", f"{PRIVATE}-value", float("nan"), None, 941_717_002, ("a",), object()])
rows = st.lists(st.tuples(ids, values), max_size=8)
bad_columns = st.sampled_from(
    [5, None, f"{PRIVATE}-text", pl.Series([[f"{PRIVATE}-x"]]), pl.Series([f"{PRIVATE}-x"] * 3), [f"{PRIVATE}-x"] * 99]
)
budgets = st.sampled_from(
    [
        dpi.Ledger(per_slot="0.11"), dpi.Ledger(), dpi.Ledger(slots=4, every=2), dpi.Ledger(per_slot="0.2", period=3),
        dpi.Ledger(per_slot="0.2", policy=dpi.budget.fade()), dpi.Converging(dpi.budget.Zeta(2)),
        dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(10)),
        dpi.Converging(dpi.budget.Geometric(0.5), dpi.budget.RBA.ranges(0.1, 0.01)),
    ]
)  # fmt: skip
mechanisms = st.sampled_from([dpi.Boosted(), tight_published(3)])


class Flaky:
    """A source of randomness that fails when it is told to: a crash before anything was drawn from data."""

    def __init__(self, seed):
        self.inner, self.fail = UnsafeSeededSource(seed), False

    def words(self, count):
        """Random words, or a crash."""
        if self.fail:
            raise OSError("no randomness")
        return self.inner.words(count)


class StreamMachine(RuleBasedStateMachine):
    """Releases, refused calls, failures and restarts in any order."""

    @initialize(budget=budgets, mechanism=mechanisms, seed=st.integers(0, 99))
    def begin(self, budget, mechanism, seed):
        """Open a stream with any budget and mechanism."""
        self.source = Flaky(seed)
        self.options = {"domain": DOMAIN, "epsilon": EPSILON, "budget": budget, "mechanism": mechanism}
        self.stream = self._open()
        self.folder = tempfile.TemporaryDirectory()
        self.released = []
        self.spent = Fraction(0)
        self.left = dict.fromkeys(PEOPLE, EPSILON)

    def _open(self):
        return dpi.Stream(**self.options, unsafe_source=self.source)

    def teardown(self):
        """Remove the saved files."""
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @property
    def accounts(self):
        """The stream's accounts, or None."""
        return self.stream._accounts

    def _remaining(self):
        return dict(zip(PEOPLE, self.accounts.remaining(pl.Series(PEOPLE), len(self.released)), strict=True))

    @rule(batch=rows)
    def release(self, batch):
        """A slot with any rows is released, whatever they are; nobody's account grows or pays more than the slot."""
        release = self.stream.release([user for user, _ in batch], [value for _, value in batch])
        assert PRIVATE not in release.to_json() + repr(release) + release._repr_html_()
        self.released.append(release.slot)
        amount = Fraction(int(release.certificate["epsilon_units"]), UNITS)
        self.spent += amount
        period = None if self.accounts is None else self.accounts.period
        epochs = 1 if period is None else release.slot // period + 1
        assert Fraction(int(release.certificate["epsilon_spent_units"]), UNITS) == min(epochs * EPSILON, self.spent)
        if self.accounts is None:
            assert self.spent <= EPSILON
        elif self.accounts.period is None:
            after = self._remaining()
            there = [str(user) for user, _ in batch if user not in (None, "")]
            present = {user if PRIVATE in user else "941717001" for user in there}
            for person, left in after.items():
                assert self.left[person] - (amount if person in present else 0) <= left <= self.left[person]
            self.left = after

    @rule(batch=rows, column=bad_columns, which=st.booleans(), slot=st.sampled_from([-1, 0, 10**6]))
    def refused(self, batch, column, which, slot):
        """A column that cannot be read or a slot out of order is refused without a private value in the text."""
        users, given = [user for user, _ in batch], [value for _, value in batch]
        before = None if self.accounts is None else self._remaining()
        out_of_order = self.released and slot != self.released[-1] + 1
        columns = (column, given[:2]) if which else (users[:2], column)
        with pytest.raises(EXPECTED) as caught:
            self.stream.release(*((users, given) if out_of_order else columns), slot=slot if out_of_order else None)
        self._check(caught.value)
        assert before == (None if self.accounts is None else self._remaining())

    @rule(batch=rows)
    def fails(self, batch):
        """A crash while noise is drawn leaves accounts and slot as they were."""
        before = None if self.accounts is None else self._remaining()
        self.source.fail = True
        try:
            release = self.stream.release([user for user, _ in batch], [value for _, value in batch])
        except OSError as problem:
            self._check(problem)
            assert before == (None if self.accounts is None else self._remaining())
        else:  # a slot without budget draws nothing
            self.released.append(release.slot)
            self.spent += Fraction(int(release.certificate["epsilon_units"]), UNITS)
            assert release.epsilon == 0
        finally:
            self.source.fail = False

    @rule()
    def restart(self):
        """Save, throw away, load."""
        path = Path(self.folder.name) / "saved"
        self.stream.save(path)
        self.stream = self._open()
        self.stream.load(path)

    @precondition(lambda self: self.released)
    @rule(at=st.integers(0, 10**6))
    def damaged(self, at):
        """A damaged file is refused, and the stream goes on."""
        path = Path(self.folder.name) / "damaged"
        self.stream.save(path)
        data = bytearray(path.read_bytes())
        data[at % len(data)] ^= 1
        path.write_bytes(data)
        with pytest.raises(dpi.StateError) as caught:
            self._open().load(path)
        self._check(caught.value)

    def _check(self, problem):
        while problem is not None:
            text = f"{problem!r} {problem} {getattr(problem, '__notes__', '')}"
            assert PRIVATE not in text
            assert "941717" not in text
            problem = problem.__cause__ or (None if problem.__suppress_context__ else problem.__context__)

    @invariant()
    def no_account_is_overdrawn(self):
        """Every account holds between nothing and ε."""
        if getattr(self, "stream", None) is not None and self.accounts is not None:
            assert all(0 <= left <= EPSILON for left in self._remaining().values())

    @invariant()
    def every_slot_is_released_once(self):
        """Slots follow each other without gap or repetition, across restarts."""
        if getattr(self, "released", None):
            assert self.released == list(range(len(self.released)))


StreamMachine.TestCase.settings = settings(
    max_examples=2000 if SLOW else 15, stateful_step_count=60 if SLOW else 20, deadline=None
)
TestStream = StreamMachine.TestCase
