import json
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpi
from dpi.budget.allocation import DRAWS
from dpi.budget.ledger import BUDGETS
from dpi.budget.policy import POLICIES
from dpi.budget.series import SERIES
from dpi.domain.partition import PARTITIONS
from dpi.histogram.compression import COMPRESSIONS
from dpi.mechanism.base import MECHANISMS
from dpi.mechanism.published.linear import QUERIES, Matrix, dyadic, points
from dpi.mechanism.published.pool import POOLS
from dpi.mechanism.text_histogram import SparseHistogram
from dpi.options import Family, Option, exact_text, kind_of

KEY = bytes(range(32))
FAMILIES = (BUDGETS, SERIES, DRAWS, POLICIES, COMPRESSIONS, MECHANISMS, POOLS, QUERIES, PARTITIONS)
THINGS = [
    dpi.Ledger(),
    dpi.Ledger("0.05", every=5),
    dpi.Ledger(slots=20, policy=dpi.budget.fade(), period=3),
    dpi.Ledger(policy=dpi.budget.clocked()),
    dpi.Ledger(policy=dpi.budget.clocked(top=6), period=24),
    dpi.Ledger(returning=False, policy=dpi.budget.fade(dpi.budget.Geometric("1/3"))),
    dpi.Converging(dpi.budget.Spence(0.1, 0.2)),
    dpi.Converging(dpi.budget.Zeta(), draw=dpi.budget.RBA()),
    dpi.Converging(dpi.budget.Zeta(1.5), draw=dpi.budget.RBA(100_000_001)),
    dpi.Converging(dpi.budget.LogSquared(), draw=dpi.budget.RBA.ranges("0.1", "0.001")),
    dpi.stream.PrefixTree("0.025"),
    dpi.stream.PrefixTree(0.1, arity=4, levels=2),
    dpi.Slots("1h"),
    dpi.Slots("1d", origin="2026-01-01", zone="Europe/Berlin", lateness="5m"),
    dpi.histogram.normalise,
    dpi.histogram.truncate(5, KEY),
    dpi.histogram.whole_pdf,
    dpi.Boosted(),
    dpi.Boosted(season=24, partitions=(dpi.domain.Blocks(2), dpi.domain.Marginal("age", "land"))),
    dpi.Boosted(partitions=()),
    dpi.Published(),
    dpi.Published(
        dpi.mechanism.published.DirichletPool(50, 0.5), queries=points(3), lam="0.2", n_min=1000, total_share=0.1
    ),
    dpi.Published(
        dpi.mechanism.published.MixedPool(seed=3), queries=Matrix([[0, 1, 2]], scale=2), rounds=3, every_slot=True
    ),
    dpi.Published(accumulative=True, queries=dyadic(8), draws=3),
    SparseHistogram(),
    SparseHistogram("0.05", most=10),
]


def read(thing, options):
    """An object of the same class from options."""
    return type(thing).from_options(options, **dict.fromkeys(thing.secrets, KEY))


def floats(value):
    """Every float in a JSON value."""
    if isinstance(value, dict):
        return [found for part in value.values() for found in floats(part)]
    if isinstance(value, list):
        return [found for part in value for found in floats(part)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize("thing", THINGS, ids=repr)
def test_what_is_written_is_read(thing):
    """Options are JSON without floats and reprs, and the object that is read from them has the same options."""
    options = json.loads(json.dumps(thing.to_options()))
    assert options == thing.to_options()
    assert not floats(options)
    assert "(" not in json.dumps(options)
    assert KEY.hex() not in json.dumps(options)
    assert read(thing, options).to_options() == options


def test_every_option_has_options_of_its_own():
    """No two of the things above are written alike."""
    assert len({json.dumps(thing.to_options(), sort_keys=True) for thing in THINGS}) == len(THINGS)


@pytest.mark.parametrize(
    "same",
    [
        [dpi.Ledger("0.05"), dpi.Ledger(0.05), dpi.Ledger(Fraction(1, 20)), dpi.Ledger(Decimal("0.050"))],
        [dpi.Ledger(1), dpi.Ledger(1.0), dpi.Ledger("1"), dpi.Ledger(np.float64(1))],
        [dpi.stream.PrefixTree(0.1), dpi.stream.PrefixTree("0.1"), dpi.stream.PrefixTree(Fraction(1, 10), arity=22)],
        [
            dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(1e8)),
            dpi.Converging(dpi.budget.Zeta("2"), dpi.budget.RBA(10**8)),
        ],
        [dpi.Published(mu=0.25), dpi.Published(mu="1/4"), dpi.Published(mu=Fraction(1, 4))],
        [dpi.Slots("60m"), dpi.Slots("1h"), dpi.Slots("1h", origin="1970-01-01T00:00Z")],
    ],
)
def test_one_meaning_has_one_text(same):
    """However an amount, a number or a time was written, its options are the same."""
    assert len({json.dumps(thing.to_options()) for thing in same}) == 1


def test_numbers_that_print_alike_are_told_apart():
    """A draw's rate, a series' exponent and queries of one shape are stated with all their digits."""
    for one, other in [
        (dpi.budget.RBA(100_000_001), dpi.budget.RBA(100_000_002)),
        (dpi.budget.Zeta("1.50000001"), dpi.budget.Zeta("1.50000002")),
        (Matrix([[0, 1]]), Matrix([[1, 0]])),
    ]:
        assert repr(one) == repr(other)
        assert one.to_options() != other.to_options()


@given(st.fractions())
def test_exact_numbers_survive(number):
    """Any fraction is read as the number that was written."""
    assert Fraction(exact_text(number)) == number


def test_kinds_are_different():
    """A kind names one class, whichever family it is of."""
    kinds = [kind for family in FAMILIES for kind in family.kinds]
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "ledger", "unheard": 1}, "newer version"),
        ({"kind": "ledger", "per_slot": 0.05}, "whole number of 2"),
        ({"kind": "ledger", "policy": {"kind": "generous"}}, "`policy` must be one of: clocked, fade, spend_first"),
        ({"kind": "hoard"}, "`budget` must be one of: converging, ledger"),
        ({"kind": "converging"}, "missing"),
        ({"kind": "converging", "series": {"kind": "zeta", "s": 2}}, "as text"),
        ("Ledger()", "`budget` must be one of"),
    ],
)
def test_what_cannot_be_read_is_refused(options, said):
    """An unknown kind or field, or a value of another form, is an error that says what is wanted."""
    with pytest.raises(dpi.OptionError, match=said):
        BUDGETS.read(options)


def test_a_key_is_asked_for_and_never_told():
    """Options of `truncate` are read with the key beside them, and refused without."""
    options = dpi.histogram.truncate(5, KEY).to_options()
    assert options == {"kind": "truncate", "c": 5}
    assert COMPRESSIONS.read(options, key=KEY) == dpi.histogram.truncate(5, KEY)
    assert COMPRESSIONS.read({"kind": "normalise"}, key=KEY) == dpi.histogram.normalise
    with pytest.raises(dpi.OptionError, match="give `key`"):
        COMPRESSIONS.read(options)


def test_a_class_of_ones_own_joins_a_family():
    """A dataclass needs nothing but a decorator; it has a kind of its own, and cannot take that of another."""
    family: Family[Option] = Family("shape")

    @family.member
    @dataclass(frozen=True)
    class Circle(Option):
        radius: int
        colour: str = "red"

    assert Circle(3).to_options() == {"kind": "circle", "radius": 3, "colour": "red"}
    assert family.read({"kind": "circle", "radius": 3, "colour": "blue"}) == Circle(3, "blue")
    assert kind_of(type("Disc", (Circle,), {})) == "disc"
    with pytest.raises(dpi.OptionError, match="another `shape` of kind 'circle'"):
        family.member(type("Circle", (Option,), {}))


def test_what_has_no_text_is_refused():
    """An option that is some object is not written as Python prints it."""

    @dataclass(frozen=True)
    class Odd(Option):
        thing: object

    with pytest.raises(dpi.OptionError, match="name a codec"):
        Odd(object()).to_options()
