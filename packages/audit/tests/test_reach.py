"""What an analyst can reach: with equal releases every other byte is equal, and what differs is found."""

import logging
import sys
import warnings

import pytest

import dpi
from dpi.errors import OptionError
from dpi_audit import StreamSession, capture, compare, neighbours, read_files, run_process
from dpi_audit.reach import ERROR, SURFACES, releases, time_to_release
from dpi_audit.small import VALUES, stream

OPTIONS = {
    "ledger": {},
    "auto": {"budget": dpi.Ledger(), "mechanism": dpi.Boosted()},
    "converging": {"budget": dpi.Converging(dpi.budget.Zeta(2), dpi.budget.RBA(4))},
    "published": {"mechanism": dpi.Published(dpi.mechanism.published.Multinomial(8, 6), draws=2)},
}


FEW = (neighbours.every_slot, neighbours.types, neighbours.broken_rows)
TRIED = [(name, family) for name in OPTIONS for family in (neighbours.FAMILIES if name == "ledger" else FEW)]


@pytest.mark.parametrize(("name", "family"), TRIED, ids=lambda part: getattr(part, "__name__", part))
def test_every_other_byte_is_equal(name, family):
    """Releases, descriptions, refusals, logs, warnings and prints do not depend on one user, nor name an id."""
    reach = compare(lambda: StreamSession(stream(**OPTIONS[name])), family(3, VALUES))
    assert reach.differences == ()
    assert reach.compared > 1000
    assert len(reach.surfaces) > 40


def test_everything_that_comes_out_is_capture():
    """Results, errors with their causes, records of every level, warnings and prints."""

    def noisy():
        logging.getLogger("somewhere").debug("seen %d", 3)
        warnings.warn("careful", stacklevel=1)
        print("out")
        print("err", file=sys.stderr)
        try:
            raise KeyError("inner")
        except KeyError as cause:
            raise ValueError("outer") from cause

    result, out = capture(noisy)
    assert result is None
    assert out["log"] == b"DEBUG somewhere seen 3"
    assert out["warnings"] == b"UserWarning: careful"
    assert (out["stdout"], out["stderr"]) == (b"out\n", b"err\n")
    assert out["error"].startswith(b"ValueError: outer")
    assert b"KeyError: 'inner'" in out["error"]


def test_a_context_is_reached_too_unless_it_was_suppressed():
    """A log prints the error during whose handling another was raised; `from None` hides it."""

    def plain():
        try:
            raise KeyError("zq-private")
        except KeyError:
            raise ValueError("outer")  # noqa: B904 - the point

    def suppressed():
        try:
            raise KeyError("zq-private")
        except KeyError:
            raise ValueError("outer") from None

    assert b"zq-private" in capture(plain)[1]["error"]
    assert b"zq-private" not in capture(suppressed)[1]["error"]


def test_a_new_surface_is_compared_too(tmp_path):
    """Files and commands are further surfaces: one that tells the number of rows is found."""

    def folder(session):
        (tmp_path / "public").write_text(f"{len(session.rows)} rows")
        return read_files(tmp_path)

    def command(session):
        return run_process([sys.executable, "-c", "import sys; print('x'); sys.exit(3)"])

    reach = compare(
        lambda: StreamSession(stream()), neighbours.every_slot(1, VALUES), surfaces=(*SURFACES, folder, command)
    )
    assert reach.differences == ("step 0: folder, public differs",)
    assert "command, exit code" in reach.surfaces
    assert reach.finding.violates


def test_an_id_that_is_on_both_sides_is_found_too():
    """Equal bytes are not enough: a private id must be in none of them."""

    def named(session):
        return {"text": b"zq-private-user"}

    reach = compare(lambda: StreamSession(stream()), neighbours.alone(1, VALUES), surfaces=(named,))
    assert reach.differences == ("step 0: named, text holds an id",)


def test_a_release_is_looked_at_after_the_first_slot():
    """Before, there is none."""
    with pytest.raises(OptionError, match="after the first slot"):
        releases(StreamSession(stream()))


def _work(steps):
    return sum(i * i for i in range(steps))


def test_times_far_apart_are_found_and_equal_ones_are_not():
    """A factor of twenty is found, on a busy machine not at once; for equal work the interval reaches down to 1.5."""
    tries = (time_to_release(lambda with_user: _work(40_000 if with_user else 2_000), repeats=40) for _ in range(20))
    assert any(each.apart for each in tries)
    equal = time_to_release(lambda with_user: _work(2_000), repeats=40)
    assert not equal.apart
    assert equal.power > equal.factor
    assert equal.error == ERROR
