import json
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import dpi
from dpi.certificates.declared import DeclaredOptions, declared
from dpi.domain.file import from_description
from dpi.errors import OptionError, StateError
from dpi.mechanism.published.linear import points
from dpi.stream.options import StreamOptions
from dpi.verification import verify

DOMAIN = dpi.Categories(["DE", "FR"], other="elsewhere")
KEY = bytes(range(32))
CLOCK = {"slot": "1h", "start": "2026-01-01T00:00", "zone": "Europe/Berlin", "lateness": "5m"}
STREAMS = {
    "plain": {},
    "clock": {"budget": dpi.Ledger("0.05", period=7), "name": "visits", **CLOCK},
    "series": {"budget": dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(4.0)), "name": "series"},
    "tree": {
        "accumulate": dpi.stream.PrefixTree("0.01"),
        "compression": dpi.histogram.truncate(3, KEY),
        "separate": True,
    },
    "published": {
        "mechanism": dpi.Published(dpi.mechanism.published.Multinomial(50, 20), queries=points(3)),
        "compression": dpi.histogram.whole_pdf,
    },
}


def stream(**options):
    """A stream in memory."""
    return dpi.Stream(**({"domain": DOMAIN, "epsilon": 1, "store": dpi.MemoryStore(KEY)} | options))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"budget": dpi.Ledger(per_slot="0.05")}, {"budget": dpi.Ledger(per_slot=0.05)}),
        ({"budget": dpi.Ledger(per_slot=Decimal("0.05"))}, {"budget": dpi.Ledger(per_slot=Fraction(1, 20))}),
        ({"accumulate": dpi.stream.PrefixTree("0.1")}, {"accumulate": dpi.stream.PrefixTree(0.1)}),
        ({"mechanism": "boosted"}, {"mechanism": dpi.Boosted(season=None)}),
    ],
)
def test_a_stream_goes_on_with_the_same_options_in_another_form(before, after):
    """Options of the same meaning are the same options: no change, and no entry of the chain."""
    store = dpi.MemoryStore(KEY)
    first = stream(store=store, **before)
    first.release(["ada"], ["DE"])
    entries = len(list(store.links()))
    second = stream(store=store, **after)
    assert second.digest == first.digest
    assert len(list(store.links())) == entries
    assert second.release(["ada"], ["DE"]).slot == 1
    assert verify(store).problems == ()


def test_options_that_print_alike_are_other_options():
    """Draws whose rates have the same first six digits are not taken for one another."""
    one, other = ({"budget": dpi.Converging(dpi.budget.Zeta(2), draw=dpi.budget.RBA(100_000_000 + n))} for n in (1, 2))
    assert stream(**one).digest != stream(**other).digest
    first = stream(**one)
    with pytest.raises(StateError, match=r"other options \(budget\)"):
        stream(store=first.store, **other)


@pytest.mark.parametrize("options", STREAMS.values(), ids=list(STREAMS))
def test_options_are_made_from_their_text(options):
    """What the chain declares is all of a stream's options but its keys, and is read into the same ones."""
    setting = stream(**options).setting
    again = StreamOptions.from_options(json.loads(setting.text), DOMAIN, key=KEY)
    assert again.text == setting.text
    assert (again.epsilon, again.slots, again.start, again.name) == (
        setting.epsilon,
        setting.slots,
        setting.start,
        setting.name,
    )
    assert KEY.hex() not in setting.text
    with pytest.raises(OptionError, match="another domain"):
        StreamOptions.from_options(json.loads(setting.text), dpi.Bins([0, 1]), key=KEY)


@pytest.mark.parametrize(
    "other",
    [
        {"budget": dpi.Ledger("0.05", period=3)},
        {"budget": dpi.Converging(dpi.budget.Zeta(2))},
        {"epsilon": 2},
        {"separate": True},
        {"slot": "1h"},
        {"accumulate": dpi.stream.PrefixTree("0.01")},
        {"ids": "exact"},
    ],
)
def test_another_promise_is_no_change(other):
    """What is part of the promise cannot be changed."""
    store = dpi.MemoryStore(KEY)
    stream(store=store, budget=dpi.Ledger("0.05")).release(["ada"], ["DE"])
    before = store.streams(), store.head()
    with pytest.raises(OptionError):
        stream(**({"store": store, "budget": dpi.Ledger("0.05")} | other), change=True)
    assert (store.streams(), store.head()) == before


STATED = json.loads(stream().setting.text)


@pytest.mark.parametrize(
    "options",
    [
        STATED | {"format": 9},
        STATED | {"format": "1"},
        STATED | {"format": 0},
        STATED | {"epsilon_units": 1.5},
        STATED | {"budget": {"kind": "hoard"}},
        STATED | {"budget": STATED["budget"] | {"refill": 3}},
        STATED | {"budget": STATED["budget"] | {"period": "3"}},
        STATED | {"period": 3},
        STATED | {"ids": "folded"},
        STATED | {"ids": None},
        *({name: part for name, part in STATED.items() if name != left} for left in STATED if left != "ids"),
        [],
    ],
)
def test_options_that_cannot_be_read_are_refused(options):
    """A newer format, a field that is missing or not known, or what is damaged, is a StateError; nothing is guessed."""
    assert DeclaredOptions.from_options(STATED).text == stream().setting.text
    with pytest.raises(StateError):
        DeclaredOptions.from_options(options)


def test_declared_options_are_read_in_one_place():
    """No module but the typed view parses what a store declares, or looks up a field of it by its name in JSON."""
    fields = r"\[\"(epsilon_units|ledger)\"\]|options\.get\(\"(epsilon_units|ledger|period)\""
    parsed = re.compile(rf"loads\(.*streams\(\)|{fields}")
    package = Path(dpi.__file__).parent
    modules = [path for path in package.rglob("*.py") if "research" not in path.parts]
    assert [path.name for path in modules if parsed.search(path.read_text())] == []


@dataclass(frozen=True)
class Halves(dpi.budget.Geometric):
    """Somebody's own series, which no family has."""

    def __init__(self):
        """Half of what is left, each time."""
        super().__init__("1/2")


def test_a_series_of_ones_own_needs_no_family():
    """A stream with it is declared, goes on and verifies; it is not taken for the series it was made from."""
    store = dpi.MemoryStore(KEY)
    budget = dpi.Converging(Halves())
    stream(store=store, budget=budget).release(["ada"], ["DE"])
    assert stream(store=store, budget=budget).release(["ada"], ["DE"]).slot == 1
    assert verify(store).problems == ()
    with pytest.raises(StateError, match="other options"):
        stream(store=store, budget=dpi.Converging(dpi.budget.Geometric("1/2")))


def test_a_domain_is_found_by_its_declared_digest():
    """Options and domain of a store together make the stream's options, without any object of the one who began it."""
    opened = stream(**STREAMS["clock"])
    (known,) = declared(opened.store.streams()).values()
    domain = from_description(json.loads(opened.store.domain(known.domain)))
    assert StreamOptions.from_options(known.stated, domain).digest == opened.digest
