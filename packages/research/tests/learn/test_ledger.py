"""One world through the product's ledger and through the simulator's: the same payments."""

import numpy as np
import polars as pl

from dpi.budget import clocked
from dpi.budget.accounts import Accounts as Ledger
from dpi.budget.billing import debit
from dpi.budget.epsilon import UNITS, Epsilon
from dpi.estimator.prices import TOP, Options
from dpi_research.learn.budgets import Listed
from dpi_research.learn.individuals import people
from dpi_research.learn.ledger import Accounts
from dpi_research.learn.worlds import Kind, World
from price_groups import in_groups


def small_world(slots=40):
    """Regulars, newcomers who stay for a while, and one-time visitors."""
    kinds = [Kind(60, 2.0, 0.7, 0.01, 0.5, 0), Kind(0, 5.0, 0.5, 0.1, 0.0, 0), Kind(0, 9.0, 1.0, 1.0, 0.0, 0)]
    return World(3, 4, slots, 2.0, kinds, np.zeros((1, 4)), np.zeros(1))


def test_payments_are_those_of_the_ledger():
    """Every user pays the same in every slot, to within the grain of a weight.

    The ledger's arithmetic is as it is proved: a price E of a histogram, and half of what is left as the most.
    """
    epsilon, budget = Epsilon.at_most(2), Listed(4, 2.0, Options(stretch=0.5, width=2, often=0.2))
    ledger, accounts = Ledger(epsilon, key=bytes(32), policy=clocked(top=TOP)), Accounts(budget)
    several = short = 0
    for slot, (users, _) in enumerate(people(small_world(), 1)):
        asked = budget.ask(slot)
        if slot % 3 == 2:  # more than users have
            asked = asked._replace(prices=asked.prices * [1, 9, 9, 9])
        groups = in_groups(budget, asked, epsilon)
        bill = ledger.bill(pl.Series([str(user) for user in users]), epsilon, slot, groups=groups)
        order = np.arange(len(users))
        cost = debit(bill.units(order), bill.weights) / UNITS
        ledger.debit(bill)
        member, paid = accounts.pay(users, asked)
        assert np.abs(paid * 2 - cost).max() < 1e-5  # forty payments, each rounded by ε/2^24 and a grain
        due = np.flatnonzero(asked.due)
        assert due[bill.group_index].tolist() == member.tolist() or len(due) < 4
        several += len(groups) > 1
        short += int(((paid > 0) & (paid < 0.99 * asked.prices[member])).sum())
        budget.hear(float((member == 0).sum()), float((member > 0).sum()))
    assert several > 20
    assert short > 10
    assert accounts.payments.max() > 15
