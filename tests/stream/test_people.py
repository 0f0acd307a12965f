"""Newcomers, those who returned and reach of a stream's releases; where they cannot be told, a sentence says so."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import dpi
from dpi.errors import OptionError, StateError
from dpi.mechanism.base import ENGAGEMENT, People
from dpi.noise import UnsafeSeededSource
from dpi.release import from_frame, to_frame
from dpi.release.queries import NOT_SURER
from dpi.settings.questions import asked
from dpi.verification import verify
from made_releases import release

DOMAIN = dpi.Categories(["a", "b"], other=None)
WHY = "newcomers are known only for all users of a stream with an ε of its own"


def stream(**options):
    """A seeded stream by class, whose ε is so large that its numbers are nearly exact."""
    default = {"domain": DOMAIN, "epsilon": 200, "store": dpi.MemoryStore(), "unsafe_source": UnsafeSeededSource(5)}
    return dpi.Stream(**(default | options))


def close(opened, slot):
    """A slot of 60 users who are always there and 40 who come once."""
    users = [*range(60), *range(1000 + 40 * slot, 1040 + 40 * slot)]
    return opened.release(users, ["ab"[user % 2] for user in users])


def test_a_release_says_who_is_new_who_returned_and_how_many_ever_came():
    """The numbers of a population that is known, the variance of reach by what certificates say was paid."""
    opened, variance = stream(), 0.0
    for slot in range(6):
        made = close(opened, slot)
        variance += 2 * DOMAIN.size / made.certificate["classes"][0]["epsilon"] ** 2
        assert made.reach().value == pytest.approx(60 + 40 * (slot + 1), abs=1)
        assert made.reach().error ** 2 == pytest.approx(variance, rel=1e-9)
        assert made.newcomers().value == pytest.approx(40 if slot else 100, abs=1)
        assert made.newcomers().value + made.returning().value == pytest.approx(made.total)
        lower, upper = made.returning().interval()
        assert lower <= (60 if slot else 0) <= upper
        for name in ("newcomers", "returning", "reach"):
            (row,) = asked([name])(made)
            assert (row.value, row.lower, row.upper) == (getattr(made, name)().value, *getattr(made, name)().interval())
    assert verify(opened.store).problems == ()


def test_the_numbers_are_kept_bit_by_bit_and_certified():
    """In JSON, frames and stores; a changed number is another content, which no certificate vouches for."""
    opened = stream()
    made = close(opened, 0)
    (kept,) = dpi.open(opened.store)
    assert kept.people == made.people
    assert set(made.people) == set(People._fields)
    assert dpi.Release.from_json(made.to_json(), DOMAIN) == made
    without = replace(made, people=None)
    assert from_frame(to_frame([made, without]), DOMAIN) == [made, without]
    assert "people" not in without.to_json()
    assert made.digest == made.certificate["release"]
    assert replace(made, people=made.people | {"reach": 1.0}).digest != made.digest


ALL = dict.fromkeys(People._fields, 1.0)


@pytest.mark.parametrize(
    "people",
    [
        [],
        {},
        {"reach": 1.0},
        dict.fromkeys(People._fields, "1"),
        3,
        ALL | {"retention_7": 0.5},
        ALL | {"retention_2": 1.0},
    ],
)
def test_damaged_numbers_are_refused(people):
    """Other names, texts, no object, a number without its variance."""
    made = release(DOMAIN, 0, np.random.default_rng(1), people=people)
    with pytest.raises(StateError, match="damaged"):
        dpi.Release.from_json(made.to_json(), DOMAIN)


@pytest.mark.parametrize(
    "budget",
    [
        dpi.Converging(dpi.budget.Geometric("0.5")),
        dpi.Ledger(per_slot=1),
        dpi.Ledger(period=3),
    ],
    ids=repr,
)
def test_where_first_payments_tell_nothing_a_sentence_says_so(budget):
    """Users who are measured alike, or whose accounts are refilled, so that they are new again."""
    made = close(stream(budget=budget), 0)
    assert made.people is None
    for name in ("newcomers", "returning", "reach"):
        with pytest.raises(OptionError, match=WHY):
            asked([name])(made)


def test_a_segment_has_no_newcomers_of_its_own_and_a_part_has_all():
    """Of a product: all users have each part, and a segment is some of them."""
    domain = dpi.Product(one=DOMAIN, other=DOMAIN)
    made = stream(domain=domain).release([1, 2], {"one": ["a", "b"], "other": ["a", "b"]})
    assert made.marginal("one").reach() == made.reach()
    with pytest.raises(OptionError, match=WHY):
        made.where(one="a").reach()


def test_a_stream_that_is_joined_by_another_says_no_more():
    """Who pays for the other has less left, so that a first payment may not be whole; one apart takes nothing."""
    store = dpi.MemoryStore()
    opened = stream(store=store, name="one")
    assert close(opened, 0).people is not None
    stream(store=store, name="apart", separate=True)
    assert close(opened, 1).people is not None
    stream(store=store, name="two")
    assert close(opened, 2).people is None


def test_a_stream_whose_estimator_begins_anew_says_no_more():
    """With nothing in common, or another mechanism, those who came before are not known."""
    store = dpi.MemoryStore()
    assert close(stream(store=store), 0).people is not None
    other = stream(store=store, mechanism=dpi.Boosted(season=2), change=True)
    assert close(other, 1).people is None


def test_a_stream_that_was_restored_says_no_more(tmp_path):
    """A levy takes from all accounts that are to come, so that no first payment is whole; and some are paid twice."""
    path, files = tmp_path / "visits.db", {"key_file": tmp_path / "key", "witness": tmp_path / "witness"}
    with dpi.open_store(path, **files) as store:
        close(stream(store=store), 0)
    shutil.copy(path, tmp_path / "copy")
    with dpi.open_store(path, **files) as store:
        assert close(stream(store=store), 1).people is not None
    shutil.copy(tmp_path / "copy", path)
    with dpi.open_store(path, **files, charge_lost=True) as store:
        release = close(stream(store=store), 2)
        assert release.people is None
        assert release.payers


def regular(days):
    """Releases of a stream of 80 users who come every day, and 20 others who come once: nearly without noise."""
    opened = stream()
    for day in range(days):
        users = [*range(80), *range(1000 + 20 * day, 1020 + 20 * day)]
        yield opened.release(users, ["ab"[user % 2] for user in users])


def test_a_release_says_how_users_go_on_where_that_was_measured():
    """Of the first slot's 100 users 80 stay, of newcomers none; a week has 80 + 7·20 users for every 100 of a slot."""
    releases = list(regular(45))
    last = releases[-1]
    truths = {
        ("retention", 1): 0.0,
        ("retention", 7): 0.0,
        ("retention", 30, "first"): 0.8,
        ("stickiness", 7): 100 / 220,
        ("stickiness", 30): 100 / 680,
        ("further_activity",): 24.0,
    }
    for (name, *words), truth in truths.items():
        answer = getattr(last, name)(*words)
        lower, upper = answer.interval()
        assert 0 <= lower <= truth <= upper <= answer.most
        (row,) = asked([name.replace("_", "-"), *map(str, words)])(last)
        assert (row.value, row.lower, row.upper) == (answer.value, lower, upper)
    assert dpi.Release.from_json(last.to_json(), DOMAIN) == last
    assert set(last.people) > set(People._fields)
    assert releases[3].stickiness(7) is None


def test_what_is_no_surer_than_the_prior_is_not_offered():
    """In the first slot nothing is: Python says None, a question a sentence."""
    made = close(stream(), 0)
    assert [made.retention(1), made.retention(7, "first"), made.stickiness(30), made.further_activity()] == [None] * 4
    assert not set(made.people) & set(ENGAGEMENT)
    for words in (["retention", "7"], ["retention", "1", "first"], ["stickiness", "7"], ["further-activity"]):
        with pytest.raises(OptionError, match=NOT_SURER):
            asked(words)(made)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["retention", "2"], "`retention` must be 1, 7 or 30. Got 2."),
        (["retention", "x"], "`retention` must be a whole number. Got 'x'."),
        (["retention", "7", "old"], "`cohort` must be new or first. Got 'old'."),
        (["stickiness", "8"], "`stickiness` must be 7, 28 or 30. Got 8."),
        (["stickiness"], "the question is `stickiness 7|28|30`, such as `stickiness 7`."),
        (["retention", "7", "new", "first"], "the question is `retention 1|7|30 [first]`, such as `retention 7`."),
    ],
)
def test_other_periods_are_refused(words, why):
    """With what may be asked."""
    made = close(stream(), 0)
    with pytest.raises(OptionError, match=re.escape(why)):
        asked(words)(made)
