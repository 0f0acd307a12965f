"""What an estimator remembers may be derived anew: the state of an earlier version is made of the measurements."""

from __future__ import annotations

import pytest

import dpi
from dpi.domain import Blocks, Discovered
from dpi.mechanism import boosted
from dpi.mechanism.class_estimator import _state
from dpi.noise import UnsafeSeededSource
from dpi.stream import PrefixTree

PAGES = ["home", "cart", "help", "find"]
DOMAIN = dpi.Categories(PAGES)
FIRST = dpi.Ledger(policy=dpi.spend_first, per_slot=0.25)
KINDS = {
    "by class": {"domain": DOMAIN},
    "alike": {"domain": DOMAIN, "budget": FIRST},
    "a season": {"domain": DOMAIN, "mechanism": dpi.Boosted(season=2)},
    "partitions": {"domain": dpi.Bins(range(5)), "mechanism": dpi.Boosted(partitions=(Blocks(2),)), "budget": FIRST},
    "a tree of sums": {"domain": DOMAIN, "accumulate": PrefixTree(per_slot=0.02)},
    "discovered": {"domain": Discovered(dpi.Texts(4)), "budget": FIRST, "epsilon": 1000},
}


@pytest.fixture
def later(monkeypatch):
    """Makes this program one of a later version, whose estimators remember in another form."""

    def begin():
        monkeypatch.setattr(_state, "_MAGIC", b"dpi users 9\n")
        monkeypatch.setattr(boosted, "_ALIKE", b"dpi boosted state 9\n")
        monkeypatch.setattr(boosted, "_ROTATING", b"dpi rotating state 9\n")

    return begin


def opened(path, kind, **changed):
    """A stream of a kind in a store, whose noise is known."""
    options = {"epsilon": 1} | KINDS[kind] | changed
    return dpi.Stream(store=dpi.open_store(path), unsafe_source=UnsafeSeededSource(5), **options)


def close(stream):
    """The next slot: nine users, some of whom have come before."""
    slot = stream.next_slot
    values = [0.5, 1.5, 2.5, 3.5] if isinstance(stream.domain, dpi.Bins) else PAGES
    return stream.release([f"u{number}" for number in range(slot, slot + 9)], [values[n % 3] for n in range(9)])


def remembered(stream):
    """What a stream's mechanism remembers, as this program would store it."""
    state = stream.driver.state
    return state.setting.mechanism.to_bytes(state.state)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_it_was(kind, later, tmp_path):
    """Of all measurements follows the state that was stored, bit for bit; and bounds of accounts are untouched."""
    stream = opened(tmp_path / "a.db", kind)
    for _ in range(5):
        close(stream)
    later()
    before, progress = remembered(stream), stream.store.progress("")
    stream.store.close()
    again = opened(tmp_path / "a.db", kind)
    assert remembered(again) == before
    assert again.store.progress("").allocation == progress.allocation
    assert close(again).slot == 5
    again.store.close()
    third = opened(tmp_path / "a.db", kind)  # from the state in its new form
    assert remembered(third) == remembered(again)


def test_a_paid_slot_is_released_with_it(later, tmp_path, monkeypatch):
    """The process ended between payment and release, and another version goes on."""
    stream = opened(tmp_path / "a.db", "by class")
    for _ in range(3):
        close(stream)
    with monkeypatch.context() as broken:
        broken.setattr(type(stream.store), "publish", _gone)
        with pytest.raises(OSError, match="gone"):
            close(stream)
    stream.store.close()
    later()
    again = opened(tmp_path / "a.db", "by class")
    assert again.next_slot == 4
    assert close(again).slot == 4


def test_options_that_changed_are_followed(later, tmp_path):
    """Values came and a season began: each measurement is read by the options of its own slot."""
    path, more = tmp_path / "a.db", {"domain": dpi.Categories([*PAGES, "new"]), "change": True}
    stream = opened(path, "by class")
    for _ in range(3):
        close(stream)
    stream.store.close()
    stream = opened(path, "by class", **more)
    for _ in range(2):
        close(stream)
    stream.store.close()
    more["mechanism"] = dpi.Boosted(season=2)
    stream = opened(path, "by class", **more)
    for _ in range(2):
        close(stream)
    later()
    before = remembered(stream)
    stream.store.close()
    assert remembered(opened(path, "by class", **more)) == before


def test_of_dropped_measurements_nothing_is_known(later, tmp_path):
    """The stream goes on as if it had begun after them; accounts know what they paid."""
    path = tmp_path / "a.db"
    stream = opened(path, "by class")
    for _ in range(5):
        close(stream)
    before, bounds = remembered(stream), stream.store.bounds("")
    stream.store.thin(2)
    stream.store.close()
    later()
    again = opened(path, "by class")
    assert remembered(again) != before
    assert again.store.bounds("") == bounds
    assert close(again).slot == 5
    assert again.store.bounds("").follows(bounds)


def test_a_state_that_is_damaged_is_not_derived_anew(tmp_path):
    """Its checksum is wrong, or it is of no version: refused as before."""
    for magic in (b"dpi boosted state 2\n", b"dpi boasted state 1\n"):
        with pytest.raises(dpi.StateError, match=r"damaged|by this version") as refused:
            dpi.Boosted().from_bytes(DOMAIN, magic + bytes(64))
        assert type(refused.value) is dpi.StateError


def _gone(*_):
    raise OSError("gone")
