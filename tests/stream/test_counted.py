"""Streams whose active users are counted by a companion: two accounts, one slot, the companion's numbers in both."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import dpi
from dpi.budget.epsilon import UNITS
from dpi.certificates.declared import DeclaredOptions
from dpi.engine import local
from dpi.errors import OptionError
from dpi.mechanism.base import Estimate
from dpi.noise import UnsafeSeededSource
from dpi.reader import stream_named
from dpi.release.queries import NOT_COUNTED
from dpi.settings.questions import asked
from dpi.stream.closing import _weigh
from dpi.verification import verify

DOMAIN = dpi.Categories(["a", "b", "c"], other=None)


def stream(store, **options):
    """A seeded stream that counts its users."""
    default = {"domain": DOMAIN, "epsilon": 1, "people": "0.2", "unsafe_source": UnsafeSeededSource(3)}
    return dpi.Stream(store=store, **(default | options))


def close(opened, slots, regulars=400, newcomers=30):
    """Release some slots, with users of several events."""
    found = []
    for slot in slots:
        users = [*range(regulars), *range(10_000 + newcomers * slot, 10_000 + newcomers * (slot + 1))]
        found.append(opened.release([*users, *users[:50]], [*("abc"[u % 3] for u in users), *["a"] * 50], slot=slot))
    return found


def plain(store):
    """What a store holds of both streams."""
    return {name: [each.to_json() for each in dpi.open(store).of(name)] for name in store.streams()}


def test_the_numbers_of_a_release_are_better_known_than_those_of_the_count():
    """Newcomers and reach are of the stream's own first payments; shares too, with what the count leaves of ε."""
    store = dpi.MemoryStore()
    found = close(stream(store), range(10))
    counted = list(dpi.open(store).of("users"))
    for release, count in zip(found, counted, strict=True):
        assert release.slot == count.slot
        assert release.total_variance <= count.total_variance
        returning = max(release.total - release.newcomers().value, 0.0)  # newcomers are measured apart, with an error
        assert release.returning().value == pytest.approx(returning)
        assert release.newcomers().error < count.newcomers().error or release.slot < 3
        for name in ("stickiness_7", "stickiness_28"):
            assert name not in count.people or release.people[name] == count.people[name]
        more = [release.total, *(release.people[name] for name in ("active_7", "active_28") if name in release.people)]
        assert more == sorted(more)
        assert release.pdf.size == 3
        assert count.pdf.tolist() == [1.0]
        assert not release.payers
    assert found[-1].epsilon_spent <= 0.8
    assert counted[-1].epsilon_spent <= 0.2
    streams = {name: DeclaredOptions.from_text(text) for name, text in store.streams().items()}
    assert streams["users"].held + streams[""].held <= UNITS
    assert {name: each.asked for name, each in streams.items()} == {"users": False, "": True}
    assert stream_named(store, None) == ""
    assert verify(store).problems == ()


def test_a_number_that_two_measured_is_weighed():
    """By precision; where both differ by more than they know, the rest is the doubt of the stream's own number."""

    def weigh(total, variance):
        own = Estimate(np.ones(1), np.zeros(1), np.zeros(1), total, variance)
        return _weigh(own, SimpleNamespace(total=100.0, total_variance=25.0))

    assert weigh(110.0, 75.0) == pytest.approx((102.5, 18.75))
    assert weigh(121.0, 75.0) == pytest.approx((100 + 21 * 25 / 441, 25 * 416 / 441))
    assert weigh(1100.0, 75.0) == pytest.approx((100, 25), rel=1e-3)
    assert weigh(math.nan, math.nan) == (100.0, 25.0)


def test_what_two_measured_is_inside_its_interval_even_where_one_of_them_is_far_off():
    """The count holds alone; the stream's own number is right, or off by ten of its deviations."""
    rng = np.random.default_rng(1)
    for off in (0.0, 10.0):
        inside = 0
        for _ in range(2000):
            own = Estimate(np.ones(1), np.zeros(1), np.zeros(1), 1000 + 30 * (rng.normal() + off), 900.0)
            counted = SimpleNamespace(total=1000 + 50 * rng.normal(), total_variance=2500.0)
            total, variance = _weigh(own, counted)
            inside += abs(total - 1000) <= 1.96 * math.sqrt(variance)
        assert inside > 0.92 * 2000


def test_questions_across_slots_are_answered_once_they_can_be():
    """Distinct users of seven slots from the seventh on; of a stream without a count the sentence says what to do."""
    store = dpi.MemoryStore()
    found = close(stream(store, epsilon=100), range(8))
    (row,) = asked(["active", "7"])(found[-1])
    assert row.lower <= 400 + 7 * 30 <= row.upper
    assert row.value == found[-1].active(7).value == pytest.approx(610, rel=0.5)
    with pytest.raises(OptionError, match="active users are counted"):
        asked(["active", "7"])(found[0])
    with pytest.raises(OptionError, match="7 or 28"):
        asked(["active", "9"])(found[-1])
    (alone,) = close(dpi.Stream(domain=DOMAIN, epsilon=1), [0])
    with pytest.raises(OptionError) as refused:
        asked(["active", "28"])(alone)
    assert str(refused.value) == NOT_COUNTED


def test_it_goes_on_where_it_stopped(tmp_path):
    """Opened again, with the count said or not, and by name alone: as if nothing had been interrupted."""
    whole = dpi.MemoryStore()
    close(stream(whole), range(9))
    path = tmp_path / "some.db"
    for slots, options in ((range(3), {}), (range(3, 6), {"people": None})):
        with stream(path, **options) as opened:
            close(opened, slots)
    with dpi.open_store(path) as store:
        opened = dpi.Stream.of(store, "")
        assert opened.next_slot == 6
        close(opened, range(6, 9))
        streams = plain(store)
        assert {*streams} == {*plain(whole)}
        assert {name: len(each) for name, each in streams.items()} == {"users": 9, "": 9}
        assert verify(store).problems == ()


@pytest.mark.parametrize("fails", ["pay", "publish"])
@pytest.mark.parametrize("call", range(4))
def test_a_slot_that_is_interrupted_in_between_is_closed_once(monkeypatch, fails, call):
    """Of four writes of two slots one is cut off, before or after it: every slot is paid for once, by both streams."""
    for after in (False, True):
        store = dpi.MemoryStore()
        opened = stream(store)
        close(opened, [0])
        count, original = [0], getattr(store, fails)

        def cut(*given, after=after, count=count, original=original, **named):
            count[0] += 1
            if count[0] != call + 1:
                return original(*given, **named)
            if after:
                original(*given, **named)
            raise KeyboardInterrupt

        monkeypatch.setattr(store, fails, cut)
        with pytest.raises(KeyboardInterrupt):
            close(opened, [1, 2])
        following = opened.next_slot
        close(opened, range(following, 4))
        assert [each.slot for each in dpi.open(store).of("")] == [0, 1, 2, 3]
        assert [each.slot for each in dpi.open(store).of("users")] == [0, 1, 2, 3]
        doubt = [[each.total_variance for each in dpi.open(store).of(name)] for name in ("", "users")]
        assert all(own <= count for own, count in zip(*doubt, strict=True))  # each slot knows its own count
        assert verify(store).problems == ()


def test_a_stopped_stream_counts_no_more():
    """Both end with the same slot."""
    store = dpi.MemoryStore()
    opened = stream(store)
    close(opened, range(2))
    opened.stop()
    assert {DeclaredOptions.from_text(text).end for text in store.streams().values()} == {2}


def test_the_season_and_the_clock_are_those_of_the_stream():
    """A season that is too long for a count is left out; days have a week, and hours a day, unless it is said."""
    cases = ((7, "1d", 7), (1000, "1d", None), (None, "1d", 7), (None, "day", 7), (None, "1h", 24), (None, "2h", None))
    for season, slot, counted in cases:
        store = dpi.MemoryStore()
        stream(store, mechanism=dpi.Boosted(season=season), slot=slot, start="2026-01-05", name="visits")
        stated = DeclaredOptions.from_text(store.streams()["visits users"])
        assert stated.stated["mechanism"]["season"] == counted
        assert stated.start == DeclaredOptions.from_text(store.streams()["visits"]).start is not None


def test_values_that_are_dropped_and_amounts():
    """Users without a value of the domain are not counted; of amounts each user counts once."""
    store = dpi.MemoryStore()
    opened = stream(store, epsilon=500)
    users = np.arange(900)
    release = opened.release(users, np.where(users < 600, "a", "unknown"))
    assert release.total == pytest.approx(600, rel=0.1)
    amounts = stream(dpi.MemoryStore(), epsilon=500, domain=dpi.Amounts(step="0.01"))
    assert amounts.release(np.repeat(users, 2), np.full(1800, 3.5)).total == pytest.approx(900, rel=0.1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"people": "0"}, "above 0"),
        ({"people": "1"}, "below 1. Got '1'"),
        ({"people": "1.5"}, "below 1"),
        ({"people": "many"}, "part of ε"),
        ({"budget": dpi.Converging(dpi.budget.Zeta(2))}, "leave out `converging`"),
        ({"budget": dpi.Ledger(period=7)}, "`period`"),
        ({"separate": True, "name": "own"}, "`separate`"),
        ({"domain": "discover"}, "discovered"),
        ({"engine": local()}, "leave out `engine`"),
    ],
    ids=["nothing", "all", "more", "a word", "a series", "refills", "separate", "discovered", "an engine"],
)
def test_what_cannot_be_counted_is_refused_in_a_sentence(tmp_path, options, says):
    """Before anything is declared."""
    store = dpi.MemoryStore()
    with pytest.raises(OptionError, match=says):
        stream(store, **options)
    assert store.streams() == {}


def test_a_count_begins_with_its_stream():
    """A stream that has begun without one, and one with another part, are refused."""
    store = dpi.MemoryStore()
    stream(store, people=None)
    with pytest.raises(OptionError, match="when a stream begins"):
        stream(store)
    store = dpi.MemoryStore()
    stream(store)
    with pytest.raises(dpi.errors.StateError, match="other options"):
        stream(store, people="0.3")
