"""Accounts that are charged rightly for some time: faults that only a long life shows."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import numpy as np
import numpy.typing as npt

from dpi.budget.accounts import Accounts
from dpi.budget.charge import Bill, Charge
from dpi.budget.policy import clocked
from dpi.exact.integers import Integers
from dpi_audit.lives import SHARE, account_life, by_class, by_cost
from dpi_audit.neighbours import staying
from dpi_audit.small import VALUES
from dpi_audit.zoo.base import Pair, on


class BrokenAccounts(Accounts):
    """Accounts that do not charge for some payments, by how often the user has paid before."""

    def charge(self, bill: Bill) -> Charge:
        """What a bill changes, without the costs of what is free."""
        made = super().charge(bill)
        before = self._standing(made.place, bill.slot)
        free = self._free(before["active"].astype(np.int64))
        made.standing["spent"][free] = before["spent"][free]
        return made

    @abstractmethod
    def _free(self, active: Integers) -> npt.NDArray[np.bool_]:
        """Which payments are free."""


class BrokenRegulars(BrokenAccounts):
    """Who was active 64 times pays no more."""

    def _free(self, active: Integers) -> npt.NDArray[np.bool_]:
        return active >= 64


class BrokenThousandth(BrokenAccounts):
    """Who was active a thousand times pays no more."""

    def _free(self, active: Integers) -> npt.NDArray[np.bool_]:
        return active >= 1000


class BrokenHundredth(BrokenAccounts):
    """Every hundredth payment is free."""

    def _free(self, active: Integers) -> npt.NDArray[np.bool_]:
        return np.equal(active % 100, 99)


class BrokenClasses(BrokenAccounts):
    """Classes above the twentieth pay nothing: one stream, in which the number of payments is the class."""

    def _free(self, active: Integers) -> npt.NDArray[np.bool_]:
        return active > 20


COSTS = partial(by_cost, 3_000)
CLASSES = partial(by_class, 40, SHARE)


def _pair(name: str, kind: type[Accounts], slots: int) -> Pair:
    life = staying(slots, VALUES)
    why = "what a slot takes of an account does not depend on how often it has paid (dpi.budget.charge)"
    return Pair(name, why, on(account_life(COSTS, kind=kind), life), on(account_life(COSTS), life))


PAIRS = (
    _pair("nothing is charged after 64 payments", BrokenRegulars, 80),
    _pair("nothing is charged after a thousand payments", BrokenThousandth, 1_020),
    _pair("every hundredth payment is free", BrokenHundredth, 120),
    Pair(
        "nothing is charged in high classes",
        "every class pays its share of what is left (dpi.budget.classes)",
        on(account_life(CLASSES, clocked(40), kind=BrokenClasses), staying(60, VALUES)),
        on(account_life(CLASSES, clocked(40)), staying(60, VALUES)),
    ),
)
