"""Saved state names the options it belongs to: these texts and seals last as well."""

from dataclasses import dataclass
from fractions import Fraction

import pytest

import dpi
from dpi.budget.allocation import InOrder
from dpi.budget.epsilon import Epsilon

DOMAIN = dpi.Categories(["a", "b"], other=None)
SEALS = [
    (dpi.mechanism.published.Multinomial(4, 6), None, "a537f904147ee24e5c165c1cfc558aad"),
    (dpi.mechanism.published.DirichletPool(4, 0.5), 1000, "d5e96043f198da0938471d80e3d5c135"),
    (dpi.mechanism.published.MixedPool(3, (0.1, 10.0)), 1000, "9b25a553e0e9b489dcf8f5382ce059f0"),
]


@pytest.mark.parametrize(("pool", "n_min", "seal"), SEALS)
def test_the_seal_of_a_published_state_is_what_it_was(pool, n_min, seal, monkeypatch):
    """The state of the first release is read, whatever `repr` says of a pool and a ramp today."""
    mechanism = dpi.Published(pool, draws=2, n_min=n_min, total_share="0.1")
    for cls in (type(pool), type(mechanism.ramp)):
        monkeypatch.setattr(cls, "__repr__", lambda self: "something for people")
    assert mechanism.to_bytes(mechanism.initial(DOMAIN))[:16].hex() == seal


def test_a_new_field_of_a_pool_breaks_no_seal():
    """With its default, a later pool reads the state of this one; with another value it does not."""

    @dataclass(frozen=True)
    class Multinomial(dpi.mechanism.published.Multinomial):
        kind = "multinomial"
        skew: int = 0

    saved = dpi.Published(dpi.mechanism.published.Multinomial(4, 6)).to_bytes(
        dpi.Published(dpi.mechanism.published.Multinomial(4, 6)).initial(DOMAIN)
    )
    assert dpi.Published(Multinomial(4, 6)).from_bytes(DOMAIN, saved).slots == 0
    with pytest.raises(dpi.StateError, match="other options"):
        dpi.Published(Multinomial(4, 6, skew=1)).from_bytes(DOMAIN, saved)


def test_a_new_field_of_a_series_refuses_no_saved_allocation():
    """With its default, a later series goes on where this one was; with another value it does not."""

    @dataclass(frozen=True, init=False)
    class Zeta(dpi.budget.Zeta):
        kind = "zeta"
        shift: Fraction = Fraction(0)

    saved = InOrder(dpi.budget.Zeta(2), Epsilon.at_most(1)).snapshot()
    InOrder(Zeta(2), Epsilon.at_most(1)).restore(saved)
    shifted = Zeta(2)
    object.__setattr__(shifted, "shift", Fraction(1, 2))
    with pytest.raises(dpi.StateError, match="other options"):
        InOrder(shifted, Epsilon.at_most(1)).restore(saved)
