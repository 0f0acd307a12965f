import json
import math
import subprocess
import sys

import numpy as np
import pytest

import dpi
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.noise import UnsafeSeededSource
from dpi_research.baselines import CATALOGUE, PublicFacts, user_level
from dpi_research.baselines.counters import Binary
from dpi_research.baselines.plain import NoisyHistogram
from dpi_research.compare import Terms, compare, compare_named
from dpi_research.compare.comparison import plot_error, plot_loss, plot_trade_off
from dpi_research.compare.contenders import Others, Ours
from dpi_research.compare.run import slots_of
from dpi_research.datasets.generators import Slot, stream_named

NAMES = ["dpi", *CATALOGUE]


def capped(bins, epsilon):
    """A noisy histogram at user level, one record of a user."""
    mechanism = NoisyHistogram(epsilon=1, bins=bins)
    return Others(mechanism, 1, None, user_level(mechanism, epsilon, 1))


@pytest.fixture(scope="module")
def both():
    """All systems on a small stream, in both modes."""
    return {
        mode: compare_named(
            NAMES, "n50k20", Terms(epsilon=1, mode=mode, cap=4), slots=20, unsafe_source=UnsafeSeededSource(1)
        )
        for mode in ("user", "published")
    }


def test_at_equal_guarantee_nobody_loses_more_than_epsilon(both):
    """In the mode "user" every system's loss is at most ε in every slot, and never falls."""
    for name, course in both["user"].courses.items():
        assert max(course.loss) <= 1 + 1e-12, name
        assert list(course.loss) == sorted(course.loss)


def test_as_published_the_users_true_loss_stands_beside(both):
    """In the mode "published" the loss is `user_epsilon` with the mechanism's own ε; ours stays at ε."""
    courses = both["published"].courses
    binary = Binary(epsilon=1, slots=20)
    assert courses["binary"].loss == pytest.approx([binary.user_epsilon(t) for t in range(1, 21)])
    assert courses["noisy"].loss[-1] == 20
    assert math.isinf(courses["perrier"].loss[-1])
    assert courses["demo"].loss[-1] == 0
    assert courses["dpi"].loss[-1] <= 1
    assert "one record" in courses["noisy"].guarantee


def test_mechanisms_that_protect_users_are_not_capped(both):
    """They have ε for a user in either mode, and see ids where they tell users apart."""
    for mode in ("user", "published"):
        for name in ("dong-spirit", "thresh"):
            course = both[mode].courses[name]
            assert course.loss[-1] <= 1
            assert course.guarantee.startswith("ε = 1 for a user")


def test_gaussian_mechanisms_show_the_loss_at_their_delta(both):
    """Without a δ it would be infinite; as published it is shown at the mechanism's own, and grows above ε."""
    course = both["published"].courses["honaker"]
    assert course.delta == 1e-6
    assert 1 < course.loss[-1] < math.inf
    assert 0 < both["user"].courses["honaker"].delta < 1e-5


def test_windows_and_series_are_worth_more_to_a_user_than_records(both):
    """A user in 20 slots: a window of 20 slots, or a series, keeps near ε; a record's ε is paid 20 times."""
    courses = both["published"].courses
    for name in ("ba", "lbu", "lba", "lpu", "lpd", "lpa", "lsp"):
        assert courses[name].loss[-1] <= 1 + 1e-12
    assert courses["noisy"].loss[-1] == 20
    assert "a window of w slots" in courses["bd"].guarantee


def test_with_delta_the_loss_is_bounded_in_every_slot():
    """At δ the series ends with the exact number, never falls, and is nowhere below the loss of its own slot."""
    terms = Terms(epsilon=1, mode="published", delta=1e-5)
    loss = compare_named(["noisy"], "n50k20", terms, slots=24).courses["noisy"].loss
    mechanism = NoisyHistogram(epsilon=1)
    assert loss[-1] == mechanism.user_epsilon(24, 1, 1e-5) < 24
    assert list(loss) == sorted(loss)
    for t in (1, 7, 13, 23):
        assert loss[t - 1] >= mechanism.user_epsilon(t, 1, 1e-5)


def test_every_slot_is_measured(both):
    """All series have one finite error for each slot, and L1 lies between 0 and 2."""
    for result in both.values():
        for course in result.courses.values():
            for series in (course.l1, course.kl, course.accumulated_l1, course.accumulated_kl):
                assert len(series) == 20
                assert np.isfinite(series).all()
            assert 0 <= min(course.l1) <= max(course.l1) <= 2


def test_results_can_be_written_and_read(both):
    """JSON holds everything, with infinity as a word; the table has a line for every system."""
    for result in both.values():
        data = json.loads(result.to_json())
        assert list(data["courses"]) == NAMES
        assert data["settings"]["churn"] == 0.02
        assert len(result.table().splitlines()) == 2 + len(NAMES)
        assert {row["mechanism"] for row in result.rows()} == set(NAMES)
    assert json.loads(both["published"].to_json())["courses"]["perrier"]["loss"][-1] == "infinity"


def test_errors_are_those_of_the_releases():
    """With next to no noise both PDFs are right, for mechanisms of prefixes and of slots."""
    slots = [Slot(np.arange(n), np.array(v), np.zeros(3)) for n, v in ((4, [0, 0, 1, 2]), (2, [2, 2]), (3, [0, 1, 1]))]
    for mechanism in (Binary(epsilon=1000, bins=3, slots=3), NoisyHistogram(epsilon=1000, bins=3)):
        course = compare({"it": Others(mechanism, 1, None)}, slots, 3, Terms(epsilon=1000)).courses["it"]
        assert max(course.l1) < 0.1
        assert max(course.accumulated_l1) < 0.1


def test_the_cap_drops_what_is_beyond_it():
    """With a cap of one, a user's second record is not in the release."""
    slots = [
        Slot(np.array([1, 2]), np.array([0, 1]), np.zeros(2)),
        Slot(np.array([1, 3]), np.array([0, 1]), np.zeros(2)),
    ]
    contender = capped(2, 1000)
    contender.release(slots[0])
    released, _ = contender.release(slots[1])
    assert released[1] > 0.95


def test_ours_is_the_stream_itself():
    """The contender's PDFs and losses are those of a stream with the same seed."""
    stream = dpi.Stream(domain=dpi.Categories(range(20), other=None), epsilon=1, unsafe_source=UnsafeSeededSource(4))
    ours = Ours.default(1, 20, UnsafeSeededSource(4))
    for t, slot in enumerate(stream_named("n50k20").slots(0, 4), 1):
        release = stream.release(slot.users, slot.values)
        pdf, accumulated = ours.release(slot)
        np.testing.assert_array_equal(pdf, release.pdf)
        np.testing.assert_array_equal(accumulated, release.accumulated)
        assert ours.loss(t) == release.epsilon_spent
    assert ours.delta == 0


@pytest.mark.parametrize("ordered", [False, True])
def test_a_declared_order_is_for_ours_to_use(ordered):
    """Where bins are numbers the stream is one of `Bins`; every value keeps its bin."""
    domain = dpi.Bins(range(1, 300)) if ordered else dpi.Categories(range(300), other=None)
    stream = dpi.Stream(domain=domain, epsilon=1, unsafe_source=UnsafeSeededSource(4))
    ours = Terms(epsilon=1).contender(
        "dpi", PublicFacts(1, 300, 9, ordered=ordered, unsafe_source=UnsafeSeededSource(4))
    )
    users, values = np.arange(600), np.arange(600) // 2
    for _ in range(3):
        pdf, _ = ours.release(Slot(users, values, np.zeros(300)))
        np.testing.assert_array_equal(pdf, stream.release(users, values).pdf)


@pytest.mark.parametrize(("stream", "ordered"), [("smooth", True), ("n50k20", False)])
def test_a_made_up_stream_says_whether_it_has_an_order(stream, ordered):
    """Its releases are those of the domain that it declares."""
    terms, bins = Terms(epsilon=1), stream_named(stream).bins
    compared = compare_named(["dpi"], stream, terms, slots=2, unsafe_source=UnsafeSeededSource(4)).courses["dpi"]
    ours = Ours.default(1, bins, UnsafeSeededSource(4), ordered=ordered)
    expected = compare({"dpi": ours}, stream_named(stream).slots(0, 2), bins, terms).courses["dpi"]
    assert compared.l1 == expected.l1


def test_empty_slots_have_no_error():
    """An empty slot is released and not measured; JSON says null."""
    empty = Slot(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.zeros(2))
    full = Slot(np.array([1]), np.array([0]), np.zeros(2))
    contender = capped(2, 1)
    result = compare({"noisy": contender}, [full, empty], 2, Terms(epsilon=1))
    assert math.isnan(result.courses["noisy"].l1[1])
    assert json.loads(result.to_json())["courses"]["noisy"]["kl"][1] is None
    assert math.isfinite(result.courses["noisy"].means()["l1"])


def test_events_become_slots():
    """Rows go to the slots of their own time; unreadable ones are dropped; empty slots stay."""
    events = {
        "user": ["a", None, "b", "a", "c"],
        "time": ["2026-01-01T00:30", "2026-01-01T00:40", "2026-01-01T02:59", "never", "2026-01-02T00:00"],
        "value": ["x", "x", "z", "x", "y"],
    }
    domain = dpi.Categories(["x", "y"])
    slots = list(slots_of(events, domain, Slots("1h"), start="2026-01-01", end="2026-01-01T03:00"))
    assert [slot.values.tolist() for slot in slots] == [[0], [], [2]]
    contender = capped(domain.size, 1)
    assert compare({"noisy": contender}, slots, domain.size, Terms(epsilon=1)).slots == 3


def test_a_user_has_one_number_in_all_slots():
    """Also where one slot's ids are all whole numbers, and the next slot's are not."""
    events = {
        "user": np.array([7.0, 7.0, 2.5]),
        "time": ["2026-01-01T00:30", "2026-01-01T01:30", "2026-01-01T01:40"],
        "value": ["x", "x", "y"],
    }
    slots = slots_of(events, dpi.Categories(["x", "y"]), Slots("1h"), start="2026-01-01", end="2026-01-01T02:00")
    assert [slot.users.tolist() for slot in slots] == [[0], [0, 1]]


def test_pictures_show_every_system(both):
    """A line for each system with anything to draw; infinite losses are left out."""
    assert len(plot_loss(both["user"]).axes[0].lines) == len(NAMES)
    assert len(plot_error(both["user"], "accumulated_l1").axes[0].lines) == len(NAMES)
    assert len(plot_trade_off([both["published"]]).axes[0].lines) == len(NAMES) - 1  # Perrier's loss is infinite
    with pytest.raises(OptionError):
        plot_trade_off([])


def test_bad_terms_are_refused():
    """Unknown modes, names and streams, and a stream without slots."""
    with pytest.raises(OptionError, match="mode"):
        Terms(epsilon=1, mode="event")
    with pytest.raises(OptionError, match="magic"):
        compare_named(["magic"], "published", Terms(epsilon=1), slots=3)
    with pytest.raises(OptionError, match="nowhere"):
        compare_named(["dpi"], "nowhere", Terms(epsilon=1), slots=3)
    with pytest.raises(OptionError, match="no slots"):
        compare({}, [], 2, Terms(epsilon=1))
    assert Terms(epsilon=1).contender("noisy", PublicFacts(1, 2, 3)).delta == 0


def test_import_is_light():
    """`import dpi_research.compare` loads neither scipy nor matplotlib."""
    code = "import sys, dpi_research.compare; print([m for m in ('scipy', 'matplotlib') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
