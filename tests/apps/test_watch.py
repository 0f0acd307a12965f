import sys

import numpy as np
import pytest

import dpi
import made_releases
from dpi.apps import Watch
from dpi.apps.scoring import DETECTORS, HBOS, SHARED, Scorer, unshared
from dpi.apps.watch import BY_CLASS
from dpi.noise import UnsafeSeededSource

DOMAIN = dpi.Categories(["a", "b", "c", "d", "e"], other=None)


CARRIED = {"carried": 0.5, "age": 3.0}


def quiet(slots, *, burst=None, error=0.001, seed=3, **changes):
    """Releases with small changes; in slot `burst` the value "e" has a third of the users."""
    rng = np.random.default_rng(seed)
    found = []
    for slot in range(slots):
        pdf = np.array([0.4, 0.3, 0.2, 0.07, 0.03]) + rng.normal(0, 0.002, 5)
        if slot == burst:
            pdf = np.array([0.3, 0.2, 0.12, 0.05, 0.33])
        found.append(
            made_releases.release(DOMAIN, slot, rng, pdf=pdf / pdf.sum(), variance=np.full(5, error**2), **changes)
        )
    return found


@pytest.fixture(params=list(DETECTORS))
def detector(request):
    """Each detector, if what it needs is installed."""
    if request.param == "forest":
        pytest.importorskip("sklearn", reason="the isolation forest needs scikit-learn (the extra apps)")
    return request.param


def test_a_burst_is_an_alert_and_quiet_slots_are_none(detector):
    """The slot of a burst has alerts, that of the bursting value among them; the slots before it have none."""
    found = {release.slot: alerts for release, alerts in Watch(detector).over(quiet(40, burst=30, error=0.004))}
    assert all(found[slot] == [] for slot in range(30))
    loudest = found[30][0] if detector == "hbos" else next(a for a in found[30] if a.value == "e")
    assert loudest.value == "e"
    assert loudest.rarity < 0.01  # no cell of the past scored as high
    assert loudest.share == pytest.approx(0.33)
    assert loudest.before == pytest.approx(0.03, abs=0.01)


def test_no_alert_where_the_interval_explains_the_change(detector):
    """The same burst with standard errors of 0.3 is no alert; by score alone (level 0) it is one."""
    noisy = quiet(40, burst=30, error=0.3)
    assert [alerts for _, alerts in Watch(detector).over(noisy) if alerts] == []
    plain = Watch(detector, level=0, share=0.5)
    assert any(alerts for _, alerts in plain.over(noisy))


def test_the_first_slots_have_no_alerts():
    """Nothing is said in the first two windows, however much changes there."""
    rng_pdfs = made_releases.releases(DOMAIN, 15, variance=np.zeros(5))
    found = [alerts for _, alerts in Watch(window=7, share=1, level=0).over(rng_pdfs)]
    assert found[:14] == [[]] * 14
    assert found[14] != []


def rhythm(slots, burst, season):
    """Releases whose value "a" goes from .3 to .5 and back every 24 slots, with a burst; of a stream with a season."""
    rng = np.random.default_rng(4)
    found = []
    for slot in range(slots):
        day = 0.1 * np.sin(2 * np.pi * slot / 24)
        pdf = np.array([0.4 + day, 0.3 - day, 0.2, 0.07, 0.03]) + rng.normal(0, 0.001, 5)
        if slot == burst:
            pdf = np.array([0.25, 0.2, 0.1, 0.05, 0.4])
        parts = {"pdf": pdf / pdf.sum(), "variance": np.full(5, 4e-6)}
        found.append(made_releases.release(DOMAIN, slot, rng, certificate={"parameters": {"season": season}}, **parts))
    return found


def test_a_declared_rhythm_is_no_alert(detector):
    """Of three weeks of days that are alike but for one slot, that slot has alerts and few others; undeclared, many."""
    found, kept = ([alert for _, alerts in Watch(detector).over(rhythm(21 * 24, 400, season)) for alert in alerts]
                   for season in (24, None))  # fmt: skip
    assert "e" in {alert.value for alert in found if alert.slot == 400}
    assert [alert for alert in found if not 400 <= alert.slot <= 407] == []  # as long as the window has the burst
    assert len(kept) > 100
    (burst,) = (alert for alert in found if alert.slot == 400 and alert.value == "a")
    assert burst.before == pytest.approx(0.4 + 0.1 * np.sin(2 * np.pi * 400 / 24), abs=0.02)


def test_a_season_is_learnt_from_its_first_slots():
    """Nothing is said before each phase was seen, and two windows after that."""
    found = [alerts for _, alerts in Watch(window=2, share=1, level=0).over(rhythm(24 + 6, None, 24))]
    assert found[: 24 + 4] == [[]] * (24 + 4)
    assert found[24 + 4] != []


def test_another_domain_starts_anew():
    """After a change of the domain, what was learnt about other bins is not used."""
    watch = Watch()
    for release in quiet(20):
        watch(release)
    other = dpi.Categories(["x", "y"], other=None)
    assert [alerts for _, alerts in watch.over(made_releases.releases(other, 14))] == [[]] * 14


def test_a_watch_is_a_function_of_the_releases():
    """The same releases, from the start, give the same alerts: a watch can be made again from a store."""
    releases = quiet(40, burst=30)
    one, other = ([alerts for _, alerts in Watch().over(releases)] for _ in range(2))
    assert one == other


def test_a_watch_subscribes_to_a_stream_that_goes_on():
    """Releases pass through as they are made, and a crowd of new users is the first alert of its own slot."""
    stream = dpi.Stream(
        domain=DOMAIN, epsilon=1, slot="1h", start="2026-01-01", budget=dpi.Ledger(per_slot=1),
        unsafe_source=UnsafeSeededSource(5),
    )  # fmt: skip
    watch, found = Watch(), {}
    rng = np.random.default_rng(1)
    for hour in range(30):
        shares = [0.1, 0.1, 0.1, 0.1, 0.6] if hour == 25 else [0.4, 0.3, 0.15, 0.1, 0.05]
        users = [f"{hour}-{i}" for i in range(2000)]
        moment = f"2026-01-{1 + hour // 24:02d}T{hour % 24:02d}:30:00"
        stream.append(users, [moment] * 2000, rng.choice(list("abcde"), 2000, p=shares), now=moment)
        end = f"2026-01-{1 + (hour + 1) // 24:02d}T{(hour + 1) % 24:02d}:00:00"
        for release, alerts in watch.over(stream.advance(end)):
            found[release.start_text] = [alert.value for alert in alerts]
    assert found["2026-01-02T01:00:00+00:00"][0] == "e"


def test_hbos_scores_grow_with_distance_and_tell_a_constant_column():
    """Beyond what was seen the score grows without end, on both sides; equal cells are usual, any other is not."""
    detector = HBOS()
    detector.fit(np.random.default_rng(0).normal(size=(1000, 2)))
    scores = detector.score(np.array([[0.0, 0.0], [5.0, 0.0], [50.0, 0.0], [-50.0, 0.0]]))
    assert scores[0] < scores[1] < scores[2]
    assert scores[0] < scores[3]
    detector.fit(np.zeros((50, 1)))
    assert detector.score(np.array([[0.0]]))[0] < detector.score(np.array([[0.1]]))[0]


def test_without_noise_means_are_plain_scores():
    """Variances of zero change nothing: the truth is scored as it is."""
    pdfs = [release.pdf for release in quiet(25)]
    one, other = Scorer(), Scorer()
    for pdf in pdfs:
        first, second = one(pdf), other(pdf, np.zeros(5))
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            assert first.score.tolist() == second.score.tolist()


@pytest.mark.parametrize("options", [{"window": 0}, {"share": 0}, {"level": 1}, {"detector": "x"}, {"memory": True}])
def test_bad_options_are_refused(options):
    """Each says what it must be."""
    with pytest.raises(dpi.OptionError, match="must be"):
        Watch(**options)


def test_a_missing_extra_is_named(monkeypatch):
    """Without scikit-learn the message says what to install."""
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    watch = Watch("forest")
    with pytest.raises(dpi.OptionError, match=r"pip install .scikit-learn"):
        list(watch.over(quiet(20)))


def test_of_a_variance_no_more_counts_than_a_draw_of_the_slots_users():
    """What neighbours do not share is a part of the variance, and at most that of a draw; without a total, the part."""
    for release in [*made_releases.releases(DOMAIN, 5), *made_releases.releases(DOMAIN, 5, variance=np.full(5, 0.1))]:
        drawn = release.pdf * (1 - release.pdf) / release.total
        assert (unshared(release) == np.minimum((1 - SHARED) * release.variance, drawn)).all()
    for release in made_releases.without_total(DOMAIN, 2):
        assert (unshared(release) == (1 - SHARED) * release.variance).all()


def test_by_class_a_change_has_less_error_than_two_releases():
    """Where users are measured by class, the error of a change leaves out what both releases carry on."""
    plain, by_class = ([a for _, b in Watch().over(quiet(40, burst=30, **told)) for a in b] for told in ({}, CARRIED))
    errors = {alert.value: alert.error for alert in plain}
    common = [alert for alert in by_class if alert.value in errors and alert.slot == 30]
    assert common
    assert all(alert.error == pytest.approx(BY_CLASS**0.5 * errors[alert.value]) for alert in common)


def test_rarity_is_the_part_of_the_past_that_scored_as_high():
    """No score of the past is above the highest, all are above less than the lowest."""
    scorer, scored = Scorer(), None
    for release in quiet(30):
        scored = scorer(release.pdf, release.variance)
    assert scored is not None
    rarity = scorer.rarity(np.array([-1e9, 1e9]))
    assert rarity[0] == 1
    assert 0 < rarity[1] < 0.02
    assert (np.diff(scorer.rarity(np.sort(scored.score))) <= 0).all()
