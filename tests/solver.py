"""Runs the program's own arithmetic on the terms of an SMT solver, and asks it for a counterexample.

A `Term` behaves as a numpy integer does: operators, `np.minimum`, `np.clip`, `np.where` and the like take it, so that a
function of `src/dpi` runs on it unchanged. It stands for all integers of a stated range at once. Every operation whose
result an array would hold leaves an obligation, that the result fits its type; so "no overflow" is proved of the very
expressions that run. Where code branches on a term (`if`, `max`), both ways are followed, one after the other.

Integers are those of mathematics (z3's `Int`), and shifts, masks and divisions are their definitions: x >> k is
floor(x/2^k), x & (2^k - 1) is x mod 2^k, as in two's complement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import z3

TIMEOUT = 60_000
"""Milliseconds for one question; an answer of "unknown" is no proof, and fails."""
AT_ONCE = 500
"""Milliseconds for the first of two solvers; a question that takes it longer goes to the second."""

TYPES = {"int64": (-(1 << 63), (1 << 63) - 1), "uint64": (0, (1 << 64) - 1), "python": None}


@dataclass(eq=False)
class Proof:
    """One path through a statement: what holds on it, and what is to be shown."""

    decisions: tuple[bool, ...] = ()
    facts: list[z3.BoolRef] = field(default_factory=list)
    goals: list[tuple[str, z3.BoolRef]] = field(default_factory=list)
    taken: list[bool] = field(default_factory=list)
    fresh: int = 0

    def integer(self, name: str, low: int, high: int, kind: str = "int64") -> Term:
        """Any whole number from `low` to `high`."""
        variable = z3.Int(name)
        self.facts += [variable >= low, variable <= high]
        return Term(variable, self, kind)

    def assume(self, fact: z3.BoolRef) -> None:
        """What is known besides the ranges."""
        self.facts.append(fact)

    def claim(self, text: str, goal: z3.BoolRef) -> None:
        """What is to be shown, from everything known so far and every goal before it."""
        self.goals.append((text, z3.Implies(z3.And(*self.facts), goal)))
        self.facts.append(goal)

    def known(self, value: Term, text: str) -> Term:
        """The value, with the obligation that it fits its type."""
        bounds = TYPES[value.kind]
        if bounds is not None:
            self.claim(f"{text} fits {value.kind}", z3.And(value.z >= bounds[0], value.z <= bounds[1]))
        return value

    def unknown(self) -> z3.ArithRef:
        """A number of which nothing is known."""
        self.fresh += 1
        return z3.Int(f"unknown {self.fresh}")

    def decide(self, condition: z3.BoolRef) -> bool:
        """The way to take here: as decided before, or the first of two."""
        at = len(self.taken)
        way = self.decisions[at] if at < len(self.decisions) else True
        self.taken.append(way)
        self.facts.append(condition if way else z3.Not(condition))
        return way


def counterexample(statement: Callable[[Proof], None]) -> str | None:
    """What breaks a statement, with numbers; None if nothing does, which is a proof."""
    open_: list[tuple[bool, ...]] = [()]
    while open_:
        proof = Proof(open_.pop())
        statement(proof)
        start = len(proof.decisions)
        open_ += [(*proof.taken[:at], False) for at in range(start, len(proof.taken))]
        for text, goal in proof.goals:
            answer, model = _asked(z3.Not(goal))
            if answer == z3.sat:
                return f"{text}: {model}"
            assert answer == z3.unsat, f"the solver does not know whether {text}"
    return None


def _asked(question: z3.BoolRef) -> tuple[z3.CheckSatResult, z3.ModelRef | None]:
    """Whether something is possible, and how: what the plain solver does not find at once, the one with tactics does.

    Either knows, or says that it does not; the first takes a tenth of the other's time wherever it knows.
    """
    for solver, limit in ((z3.SimpleSolver(), AT_ONCE), (z3.Solver(), TIMEOUT)):
        solver.set("timeout", limit)
        solver.add(question)
        answer = solver.check()
        if answer != z3.unknown:
            break
    return answer, solver.model() if answer == z3.sat else None


class Truth:
    """A condition on terms."""

    def __init__(self, z: z3.BoolRef, proof: Proof) -> None:
        self.z, self.proof = z, proof

    def __bool__(self) -> bool:
        return self.proof.decide(self.z)

    def __array_function__(self, function, types, args, kwargs):
        return _where(self.proof, *args) if function is np.where else NotImplemented


class Term:
    """A whole number that is not known, as numpy or Python would treat it."""

    def __init__(self, z: z3.ArithRef, proof: Proof, kind: str, zeros: int = 0) -> None:
        self.z, self.proof, self.kind, self.zeros = z, proof, kind, zeros

    def _new(self, z: z3.ArithRef, text: str, zeros: int = 0) -> Term:
        return self.proof.known(Term(z, self.proof, self.kind, zeros), text)

    def __add__(self, other):
        return self._new(self.z + plain(other), "a sum")

    def __sub__(self, other):
        return self._new(self.z - plain(other), "a difference")

    def __rsub__(self, other):
        return self._new(plain(other) - self.z, "a difference")

    def __mul__(self, other):
        return self._new(self.z * plain(other), "a product")

    def __neg__(self):
        return self._new(-self.z, "a negative")

    def __floordiv__(self, other):
        return divmod(self, other)[0]

    def __divmod__(self, other):
        proof, divisor = self.proof, plain(other)
        proof.claim("a divisor is above 0", divisor > 0)
        quotient, rest = proof.unknown(), proof.unknown()
        proof.assume(z3.And(self.z == quotient * divisor + rest, rest >= 0, rest < divisor))
        return self._new(quotient, "a quotient"), self._new(rest, "a rest")

    def __lshift__(self, places):
        return self._new(self.z * (1 << int(places)), "a shift to the left", int(places))

    def __rshift__(self, places):
        return divmod(self, 1 << int(places))[0]

    def __and__(self, mask):
        assert int(mask) & (int(mask) + 1) == 0, "masks of low bits only"
        return divmod(self, int(mask) + 1)[1]

    def __or__(self, other):
        low = plain(other)
        self.proof.claim("what is put into the low bits fits there", z3.And(low >= 0, low < 1 << self.zeros))
        return self._new(self.z + low, "a union of bits")

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other):
        return Truth(self.z < plain(other), self.proof)

    def __gt__(self, other):
        return Truth(self.z > plain(other), self.proof)

    def __ne__(self, other):
        return Truth(self.z != plain(other), self.proof)

    __hash__ = None

    def astype(self, kind):
        """The same number in another type, if it fits there."""
        return self.proof.known(Term(self.z, self.proof, np.dtype(kind).name), "a conversion")

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        one, *others = inputs
        if ufunc is np.absolute:
            return self._new(z3.If(self.z < 0, -self.z, self.z), "a magnitude")
        if ufunc is np.sign:
            return self._new(z3.If(self.z < 0, -1, z3.If(self.z > 0, 1, 0)), "a sign")
        if ufunc in (np.minimum, np.maximum):
            a, b = plain(one), plain(others[0])
            return self._new(z3.If((a < b) == (ufunc is np.minimum), a, b), "the smaller or larger")
        if ufunc is np.divmod:
            return divmod(one, others[0])
        return NotImplemented

    def __array_function__(self, function, types, args, kwargs):
        if function is np.clip:
            value, low, high = (plain(arg) for arg in args)
            return self._new(z3.If(value < low, low, z3.If(value > high, high, value)), "a cut value")
        return _where(self.proof, *args) if function is np.where else NotImplemented


def plain(value) -> z3.ArithRef:
    """The number as mathematics sees it."""
    return value.z if isinstance(value, Term) else z3.IntVal(int(value))


def _where(proof: Proof, condition: Truth, one, other) -> Term:
    return proof.known(Term(z3.If(condition.z, plain(one), plain(other)), proof, "int64"), "a chosen value")
