import json
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest

import dpi
from dpi.certificates.declared import DeclaredOptions, declared
from dpi.domain.file import from_description
from dpi.errors import OptionError, StateError
from dpi.mechanism.published.linear import Matrix, points
from dpi.options import DEFAULTS, FORMAT
from dpi.stream.legacy import text
from dpi.stream.options import StreamOptions
from dpi.verification import verify

DOMAIN = dpi.Categories(["DE", "FR"], other="elsewhere")
KEY = bytes(range(32))
OLD = dpi.Ledger(policy=dpi.budget.spend_first)
"""What `Ledger()` was in the first two formats."""
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
        ({"mechanism": "boosted"}, {"mechanism": dpi.Boosted(drifts=(0.0, 0.003, 0.01, 0.03, 0.1, 0.3))}),
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


def test_defaults_are_left_out():
    """A stream that asks for nothing special is declared by its domain, its ε, the format, and what "auto" came to."""
    stated = json.loads(stream().setting.text)
    assert set(stated) == {"format", "domain", "epsilon_units", "budget"}
    assert stated["budget"] == {"kind": "ledger", "policy": {"kind": "clocked"}}


@pytest.mark.parametrize("format", [1, 2, 3])
@pytest.mark.parametrize("options", STREAMS.values(), ids=list(STREAMS))
def test_every_format_is_read_alike(options, format):
    """The typed view says the same of a stream, whichever format declares it."""
    setting = stream(**options).setting
    seen = DeclaredOptions.from_text(replace(setting, format=format).text)
    assert seen.format == format
    assert (seen.name, seen.domain, seen.epsilon) == (setting.name, setting.domain.digest, setting.epsilon)
    assert (seen.ledger, seen.period, seen.start) == (setting.ledger, setting.period, setting.start)
    assert seen.slots == setting.slots
    assert seen.digest == replace(setting, format=format).digest


def longer(**options):
    """The boosted mechanism of a later program, with one more option."""

    @dataclass(frozen=True)
    class Boosted(dpi.Boosted):
        kind = "boosted"
        patience: int = 0

    return Boosted(**options)


def began(store, format, **options):
    """A stream that was declared in a format and has released a slot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpi.stream.stream.StreamOptions", partial(StreamOptions, format=format))
        opened = stream(store=store, **({"budget": OLD} | options))
    opened.release(["ada"], ["DE"])
    return opened


@pytest.mark.parametrize("format", [1, 2, 3])
def test_a_new_field_with_a_default_changes_no_digest(format):
    """A store of today goes on under a program whose mechanism has one more defaulted option."""
    store = dpi.MemoryStore(KEY)
    digest = began(store, format).digest
    after = stream(store=store, mechanism=longer())
    assert after.digest == digest
    after.release(["ada"], ["DE"])
    assert verify(store).problems == ()
    with pytest.raises(StateError, match=r"other options \(mechanism\)"):
        stream(store=store, mechanism=longer(patience=3))


def test_a_stream_of_the_first_format_goes_on_in_it():
    """Opened with the options it was begun with, it gets no new entry, and its releases state the old fingerprint."""
    store = dpi.MemoryStore(KEY)
    began(store, 1, budget=dpi.Ledger("0.05"))
    text, entries = store.streams()[""], len(list(store.links()))
    assert json.loads(text)["budget"] == "Ledger(per_slot='0.05')"
    again = stream(store=store, budget=dpi.Ledger("0.05"))
    release = again.release(["ada"], ["DE"])
    assert store.streams()[""] == text
    assert len(list(store.links())) == entries + 1
    assert release.certificate["options"] == DeclaredOptions.from_text(text).digest
    assert verify(store).problems == ()


def test_a_change_of_the_first_format_is_written_in_the_newest():
    """`change=True` declares the stream anew; the promise is the same, and the chain verifies over both formats."""
    store = dpi.MemoryStore(KEY)
    promise = began(store, 1, budget=dpi.Ledger("0.05")).guarantee
    with pytest.raises(StateError, match=r"other options \(budget\)"):
        stream(store=store, budget=dpi.Ledger("0.1"))
    changed = stream(store=store, budget=dpi.Ledger("0.1"), change=True)
    changed.release(["ada"], ["DE"])
    assert DeclaredOptions.from_text(store.streams()[""]).format == FORMAT
    assert changed.guarantee == promise
    assert verify(store).problems == ()


@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize(
    "other",
    [
        {"budget": dpi.Ledger("0.05", period=3)},
        {"budget": dpi.Converging(dpi.budget.Zeta(2))},
        {"epsilon": 2},
        {"separate": True},
        {"slot": "1h"},
        {"accumulate": dpi.stream.PrefixTree("0.01")},
    ],
)
def test_another_promise_is_no_change(format, other):
    """What is part of the promise cannot be changed, in whichever format it was declared."""
    store = dpi.MemoryStore(KEY)
    began(store, format, budget=dpi.Ledger("0.05"))
    before = store.streams(), store.head()
    with pytest.raises(OptionError):
        stream(**({"store": store, "budget": dpi.Ledger("0.05")} | other), change=True)
    assert (store.streams(), store.head()) == before


def test_a_changed_default_leaves_older_streams_as_they_were(monkeypatch):
    """Under a format whose default differs, a stream of format 2 keeps what it meant, and goes on when asked for it."""
    store = dpi.MemoryStore(KEY)
    began(store, 2)
    newer = {**DEFAULTS[3], "ledger": {**DEFAULTS[3]["ledger"], "per_slot": 54975581388}}
    monkeypatch.setitem(DEFAULTS, 4, MappingProxyType(newer))
    kept = StreamOptions.from_options(json.loads(store.streams()[""]), DOMAIN)
    assert kept.budget == OLD
    assert kept.to_options(4)["budget"] == {"kind": "ledger", "per_slot": "auto", "policy": {"kind": "spend_first"}}
    assert stream(store=store, budget=dpi.Ledger("auto")).release(["ada"], ["DE"]).slot == 1
    with pytest.raises(StateError, match=r"other options \(budget\)"):
        stream(store=store, budget=dpi.Ledger("0.05"))  # what the newer default is


@pytest.mark.parametrize(
    "options",
    [
        {"format": 9, "domain": "d", "epsilon_units": 1},
        {"format": 2, "domain": "d"},
        {"format": 2, "domain": "d", "epsilon_units": 1.5},
        {"format": 2, "domain": "d", "epsilon_units": 1, "budget": {"kind": "hoard"}},
        {"format": 2, "domain": "d", "epsilon_units": 1, "budget": {"kind": "ledger", "refill": 3}},
        {"format": 2, "domain": "d", "epsilon_units": 1, "budget": {"kind": "ledger", "period": "3"}},
        {"format": 2, "domain": "d", "epsilon_units": 1, "period": 3},
        {"format": "2", "domain": "d", "epsilon_units": 1},
        {"format": 1, "domain": "d", "epsilon_units": 1},
        {"domain": "d", "epsilon_units": 1},
        [],
    ],
)
def test_options_that_cannot_be_read_are_refused(options):
    """A newer format, or what is damaged, is a StateError and nothing that is guessed."""
    with pytest.raises(StateError):
        DeclaredOptions.from_options(options)


def test_a_save_of_the_first_format_is_loaded(tmp_path):
    """A stream in memory goes on from what an older program has saved."""
    old = began(dpi.MemoryStore(KEY), 1)
    old.save(tmp_path / "saved")
    again = stream()
    again.load(tmp_path / "saved")
    assert again.digest == old.digest
    assert again.release(["ada"], ["DE"]).slot == 1
    with pytest.raises(StateError, match="other options"):
        stream(epsilon=2).load(tmp_path / "saved")


PRINTED = [
    (dpi.Ledger(), "Ledger(per_slot='auto')"),
    (dpi.Ledger(0.05, every=5), "Ledger(per_slot=0.05, every=5)"),
    (dpi.Ledger(Fraction(1, 20), period=3), "Ledger(per_slot=Fraction(1, 20), period=3)"),
    (dpi.Ledger(Decimal("0.05")), "Ledger(per_slot=Decimal('0.05'))"),
    (dpi.Ledger(slots=20, policy=dpi.budget.fade()), "Ledger(slots=20, policy=Fade(series=Zeta(2)))"),
    (dpi.Ledger(returning=False), "Ledger(per_slot='auto', returning=False)"),
    (
        dpi.Ledger(1, policy=dpi.budget.fade(dpi.budget.Geometric(0.5))),
        "Ledger(per_slot=1, policy=Fade(series=Geometric(0.5)))",
    ),
    (dpi.Converging(dpi.budget.Spence(0.1, 0.1)), "Converging(Spence(mu=0.1, zeta=0.1))"),
    (dpi.Converging(dpi.budget.Zeta(1.5), draw=dpi.budget.RBA()), "Converging(Zeta(1.5), draw=RBA(1e+08))"),
    (
        dpi.Converging(dpi.budget.LogSquared(), draw=dpi.budget.RBA.ranges(0.1, 0.001)),
        "Converging(LogSquared(), draw=RBARanges(large=Epsilon(0.1), small=Epsilon(0.000999999999)))",
    ),
    (
        dpi.Converging(dpi.budget.Geometric("1/3"), draw=dpi.budget.RBA(100_000_001)),
        "Converging(Geometric(0.333333), draw=RBA(1e+08))",
    ),
    (dpi.Boosted(), "Boosted(drifts=(0, 0.003, 0.01, 0.03, 0.1, 0.3), season=None, partitions='auto')"),
    (
        dpi.Boosted(drifts=(0.1,), season=24, partitions=(dpi.domain.Blocks(2), dpi.domain.Marginal("age", "land"))),
        "Boosted(drifts=(0.1,), season=24, partitions=(Blocks(count=2), Marginal('age', 'land')))",
    ),
    (
        dpi.Boosted(partitions=()),
        "Boosted(drifts=(0, 0.003, 0.01, 0.03, 0.1, 0.3), season=None, partitions=())",
    ),
    (
        dpi.Published(),
        "Published(pool=Multinomial(size=6500, precision=10000, seed=0), queries=None, lam=0.1, mu=0.05, draws=20, "
        "rounds=1, every_slot=False, accumulative=False, n_min=None, total_share=0)",
    ),
    (
        dpi.Published(
            dpi.mechanism.published.DirichletPool(size=50, concentration=0.5),
            queries=points(3),
            lam="0.1",
            mu=Fraction(1, 4),
            draws=2,
            n_min=1000,
            total_share=0.1,
        ),
        "Published(pool=DirichletPool(size=50, concentration=0.5, seed=0, precision=1048576), queries=Ranges(3 "
        "queries, bins=3), lam='0.1', mu=Fraction(1, 4), draws=2, rounds=1, every_slot=False, accumulative=False, "
        "n_min=1000, total_share=0.1)",
    ),
    (
        dpi.Published(dpi.mechanism.published.MixedPool(seed=3), queries=Matrix([[0, 1, 2]], scale=2), every_slot=True),
        "Published(pool=MixedPool(size=6500, concentrations=(0.3, 1.0, 3.0, 10.0, 30.0), seed=3, precision=1048576), "
        "queries=Matrix(1 queries, bins=3, scale=2), lam=0.1, mu=0.05, draws=20, rounds=1, every_slot=True, "
        "accumulative=False, n_min=None, total_share=0)",
    ),
    (dpi.histogram.normalise, "Normalise()"),
    (dpi.histogram.truncate(5, KEY), "truncate(5, key=…)"),
    (dpi.histogram.whole_pdf, "WholePDF()"),
    (dpi.stream.PrefixTree("0.025", 4, 2), "PrefixTree(per_slot='0.025', arity=4, levels=2)"),
    (None, "None"),
    (dpi.Slots("1h"), "Slots(width=3600000000, origin=0, zone='UTC', lateness=0)"),
    (
        dpi.Slots("1d", origin="2026-01-01", zone="Europe/Berlin", lateness="5m"),
        "Slots(width=86400000000, origin=1767222000000000, zone='Europe/Berlin', lateness=300000000)",
    ),
]


@pytest.mark.parametrize(("thing", "was"), PRINTED, ids=[was[:40] for _, was in PRINTED])
def test_the_first_format_is_printed_as_it_was(thing, was, monkeypatch):
    """The texts of the first format are those that its program printed, whatever `repr` says today."""
    for cls in {type(thing), dpi.budget.Zeta, dpi.mechanism.published.Multinomial} - {type(None)}:
        monkeypatch.setattr(cls, "__repr__", lambda self: "something for people")
    assert text(thing) == was


def test_declared_options_are_read_in_one_place():
    """No module but the typed view parses what a store declares, or looks up a field of it by its name in JSON."""
    fields = r"\[\"(epsilon_units|ledger|brain)\"\]|options\.get\(\"(epsilon_units|ledger|period)\""
    parsed = re.compile(rf"loads\(.*streams\(\)|{fields}")
    package = Path(dpi.__file__).parent
    modules = [path for path in package.rglob("*.py") if "research" not in path.parts]
    assert [path.name for path in modules if parsed.search(path.read_text())] == ["declared.py"]


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
