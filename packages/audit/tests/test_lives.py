"""Long lives: faults that show after many payments are found, by the quick form too."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpi.budget import accounts
from dpi.budget.accounts import Accounts
from dpi.budget.classes import level
from dpi.budget.epsilon import UNITS, Epsilon
from dpi_audit import _running
from dpi_audit.exact import loss_on
from dpi_audit.lives import LIVES, AccountLife, account_life, by_class, by_cost
from dpi_audit.neighbours import staying, straying
from dpi_audit.small import VALUES

after_payment = accounts.after_payment


def free(which):
    """`after_payment` that charges nothing where `which` is true of what an account has paid, and how often."""

    def paid(standing, cost, paying):
        return after_payment(standing, np.where(which(standing["active"].astype(np.int64)), 0, cost), paying)

    return paid


FREE = {
    "after 64 payments": lambda active: active >= 64,
    "after 100 payments": lambda active: active >= 100,
    "after 1,000 payments": lambda active: active >= 1000,
    "every 100th payment": lambda active: active % 100 == 99,
    "every 1,000th payment": lambda active: active % 1000 == 999,
    "the 65th payment alone": lambda active: active == 64,
    "classes above the second": lambda active: active > 2,
    "classes above the 30th": lambda active: active > 30,
}


def verdict(index):
    """That of a life in the quick form."""
    (row,) = _running.check_life(_running.LIVES[index], quick=True)
    return row.verdict


@pytest.mark.parametrize("index", range(len(LIVES)), ids=lambda index: LIVES[index].name)
def test_every_life_holds_and_uses_what_it_claims(index):
    """No account pays less than is lost, and none pays more than a tenth too much."""
    assert verdict(index) == "holds"


@pytest.mark.parametrize("which", FREE.values(), ids=FREE.keys())
def test_a_payment_that_is_not_charged_for_is_found_by_the_quick_form(which, monkeypatch):
    """Whether it is free by the number of payments, now and then, or by class."""
    monkeypatch.setattr(accounts, "after_payment", free(which))
    assert any(verdict(index) == "VIOLATED" for index in range(len(LIVES)))


@pytest.mark.parametrize("index", range(len(LIVES)), ids=lambda index: LIVES[index].name)
def test_every_life_with_accounts_sees_a_free_payment(index, monkeypatch):
    """Streams too, on disk and with quotas: each life has more than 64 payments within 160 slots."""
    monkeypatch.setattr(_running, "LIVES", [replace(life, quick=min(life.quick, 160)) for life in LIVES])
    monkeypatch.setattr(accounts, "after_payment", free(FREE["after 64 payments"]))
    assert verdict(index) == ("holds" if "Zeta" in LIVES[index].name else "VIOLATED")  # a series has no accounts


@pytest.mark.parametrize("family", [staying, straying])
def test_the_loss_is_what_the_account_says(family):
    """Exactly, where costs are whole: of a 256th of ε a slot until the account is empty, to the last unit."""
    neighbours = family(450, VALUES)
    found = loss_on(account_life(lambda: by_cost(256)), neighbours)
    assert found.loss == found.claimed == 1


def test_by_class_a_life_comes_to_the_top_and_stays_there():
    """Each slot is one in which a user who was in all of them is due."""
    slots = [due.slot for due, _ in zip(by_class(40, Fraction(1, 16)), range(60), strict=False)]
    assert slots == sorted(set(slots))
    assert all(level(slot, 40) >= min(number, 40) for number, slot in enumerate(slots))


def test_what_is_said_in_public_is_a_claim_as_well():
    """A sum that is too small by a unit is a violation."""

    def said_less():
        for due in by_cost(1024):
            yield type(due)(due.slot, due.epsilon, due.said - 1)

    neighbours = staying(30, VALUES)
    assert loss_on(account_life(said_less), neighbours).violates
    assert not loss_on(account_life(lambda: by_cost(1024)), neighbours).violates


def test_an_epoch_is_claimed_for_itself():
    """What was taken before a refill stays claimed; an epoch that is refilled too early is a violation."""
    neighbours = staying(50, VALUES)
    found = loss_on(account_life(lambda: by_cost(8, period=10), period=10), neighbours)
    assert found.loss == found.claimed == 5

    class Early(AccountLife):
        def look(self, rows):
            if self._due is not None and self._due.slot == 8:
                self._accounts.resume(b"", dict(self._accounts._slots), [])
            return super().look(rows)

    def early():
        return Early(Accounts(Epsilon(UNITS), key=bytes(32), period=10), by_cost(8, period=10))

    assert loss_on(early, neighbours).violates
