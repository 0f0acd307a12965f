"""Exactly once, whatever fails while Spark works: what is listed, paid and released is that of one process."""

from __future__ import annotations

import os
import sys
from functools import partial

import pytest
from random_streams import SLOTS, opened, outcome

import dpi
from dpi.engine.bucket_slot_closer import BucketSlotCloser
from dpi.errors import OptionError, StateError, StoreBusy, StoreError
from dpi.store.folder import MARK
from dpi_spark import SparkExecutor, follow, replay
from spark_feeding import embedded, follower, forget, hour, hours, moment, on_spark, put, reach, rows_of, watched

SEED, KIND = 2, "default"
SLOW = bool(os.environ.get("DPI_SLOW"))


@pytest.fixture(autouse=True)
def by_value():
    """Workers do not have this file: what a task runs of it is sent along."""
    from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value

    register_pickle_by_value(sys.modules[__name__])
    yield
    unregister_pickle_by_value(sys.modules[__name__])


def fail_first(function, task):
    """A task whose first attempt dies when it has written everything, before it can say so."""
    from pyspark import TaskContext

    result = function(task)
    if TaskContext.get().attemptNumber() == 0:
        raise OSError("the worker of ada@example.org is gone")
    return result


def twice(function, task):
    """A task that was run twice, as a slow one is by speculation: one of both results is taken."""
    function(task)
    return function(task)


def once(function, task):
    """A task as it should be."""
    return function(task)


def always(function, task):
    """A task that never succeeds."""
    raise OSError("no room for ada@example.org")


class Wrapped(SparkExecutor):
    """Runs something around every task of a slot."""

    def __init__(self, running, around) -> None:
        super().__init__(running)
        self.around = around

    def map(self, function, tasks):
        """With what is around it."""
        return super().map(partial(self.around, function), tasks)


@pytest.fixture
def expected(tmp_path, key_file):
    """Where the stream of these tests ends in one process, after two slots."""
    with embedded(KIND, SEED, tmp_path, key_file, 2) as store:
        yield outcome(store)


def two_hours(running, store, folder, engine=None):
    """The stream of these tests on Spark."""
    stream = opened(KIND, SEED, store, engine=on_spark(running) if engine is None else engine)
    hours(running, stream, SEED, 2, folder)
    return stream


@pytest.mark.parametrize("around", [fail_first, twice])
def test_a_task_that_runs_twice_counts_once(around, running, tmp_path, key_file, expected):
    """A retry and a second copy write files of their own; one result is listed, and the others are swept away."""
    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        two_hours(running, store, tmp_path, dpi.engine.BucketEngine(Wrapped(running, around), bits=1))
        assert outcome(store) == expected
        assert {path.name for path in store.folder.path.iterdir()} == store._listed_files() | {MARK}


def test_a_reading_task_that_dies_after_writing_counts_once(running, tmp_path, key_file):
    """Its first attempt has left a file with all its events, which nobody lists."""

    def dies(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise OSError("the worker is gone")

    from dpi_spark.session import without_pandas

    rows = [row for slot in range(SLOTS) for rows in rows_of(SEED, slot) for row in rows]
    results = []
    for name in ("embedded", "spark"):
        with dpi.open_store(tmp_path / f"{name}.db", key_file=key_file) as store:
            period = {"start": "2026-01-01", "end": "2026-01-01T02:00"}
            if name == "embedded":
                list(opened(KIND, SEED, store).replay(rows, **period))
            else:
                stream, kinds = (
                    opened(KIND, SEED, store, engine=on_spark(running)),
                    "user string, time string, value string",
                )
                frame = running.createDataFrame(rows, kinds).repartition(2)
                with without_pandas():
                    frame = frame.mapInArrow(dies, kinds)
                list(replay(stream, frame, **period))
            results.append(outcome(store))
    assert results[0] == results[1]


def test_a_task_that_never_succeeds_leaves_the_slot_open_and_says_nothing_private(
    running, tmp_path, key_file, expected
):
    """The driver's words are ours alone; the same call goes on when the trouble is over."""
    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        executor = Wrapped(running, once)
        stream = opened(KIND, SEED, store, engine=dpi.engine.BucketEngine(executor, bits=1))
        executor.around = always
        with pytest.raises(StoreError, match="gave up") as caught:
            hour(running, stream, SEED, 0, tmp_path)
        assert "ada" not in repr(caught.value)
        assert caught.value.__cause__ is None
        assert stream.next_slot == stream.setting.start
        assert not list(store.measurements(""))
        executor.around = once
        reach(running, stream, 0, tmp_path)
        hour(running, stream, SEED, 1, tmp_path)
        assert outcome(store) == expected


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_driver_that_dies_between_listing_and_sparks_own_note(
    dies, running, tmp_path, key_file, expected, monkeypatch
):
    """Spark hands the micro-batch over again: it is listed if it was not, and refused if it was."""
    kept = BucketSlotCloser.keep_sections

    def interrupted(self, *sections):
        if dies == "after":
            kept(self, *sections)
        raise KeyboardInterrupt

    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        stream = opened(KIND, SEED, store, engine=on_spark(running))
        with monkeypatch.context() as patched:
            patched.setattr(BucketSlotCloser, "keep_sections", interrupted)
            with pytest.raises(KeyboardInterrupt):
                hour(running, stream, SEED, 0, tmp_path)
        assert bool(store.sections("", stream.next_slot)) == (dies == "after")
        reach(running, stream, 0, tmp_path)
        hour(running, stream, SEED, 1, tmp_path)
        assert outcome(store) == expected


def test_a_lost_checkpoint_is_refused_and_read_anew_when_asked(running, tmp_path, key_file, expected):
    """Another query would begin with batch 0 and the first file: its events would count twice in open slots."""
    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        stream = opened(KIND, SEED, store, engine=on_spark(running))
        hour(running, stream, SEED, 0, tmp_path)
        for number, rows in enumerate(rows_of(SEED, 1)):
            put(tmp_path / "in", f"1-{number}", rows)
        reach(running, stream, -1, tmp_path)  # kept, and not closed
        forget(tmp_path / "checkpoint")
        before = store.sections("", stream.next_slot)
        with pytest.raises(StateError, match="`anew=True`"):
            reach(running, stream, 1, tmp_path)
        assert store.sections("", stream.next_slot) == before
        assert not (tmp_path / "checkpoint").exists()
        reach(running, stream, 1, tmp_path, anew=True)
        assert outcome(store) == expected


def test_a_checkpoint_of_another_stream_is_refused(running, tmp_path, key_file):
    """What the other has read would be left out."""
    with dpi.open_store(tmp_path / "one.db", key_file=key_file) as store:
        hour(running, opened(KIND, SEED, store, engine=on_spark(running)), SEED, 0, tmp_path)
    with dpi.open_store(tmp_path / "two.db", key_file=key_file) as store:
        stream = opened(KIND, SEED, store, engine=on_spark(running))
        for anew in (False, True):
            with pytest.raises(StateError, match="another query"):
                reach(running, stream, 0, tmp_path, anew=anew)
        (tmp_path / "checkpoint" / "metadata").write_text("no JSON")
        (tmp_path / "checkpoint" / ".metadata.crc").unlink(missing_ok=True)
        with pytest.raises(StateError, match="damaged"):
            reach(running, stream, 0, tmp_path)
        assert stream.next_slot == stream.setting.start


@pytest.mark.parametrize("how", ["missing", "changed", "another's"] if SLOW else ["changed"])
def test_a_bucket_that_is_not_as_it_was_is_refused_and_never_taken_for_empty(
    how, running, tmp_path, key_file, expected
):
    """An account that is not found would be refilled. With the file back in its place, the stream goes on."""
    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        stream = opened(KIND, SEED, store, engine=on_spark(running))
        hour(running, stream, SEED, 0, tmp_path)
        folder = stream.driver.folder.path
        names = [
            str(name) for (name,) in store.engine.rows("SELECT name FROM account_runs WHERE name <> '' ORDER BY name")
        ]
        path, data = folder / names[0], (folder / names[0]).read_bytes()
        if how == "missing":
            path.unlink()
        else:
            path.write_bytes((folder / names[1]).read_bytes() if how == "another's" else data[:-1] + b"!")
        with pytest.raises(StateError, match="missing or was changed"):
            hour(running, stream, SEED, 1, tmp_path)
        assert len(list(store.measurements(""))) == 1
        path.write_bytes(data)
        reach(running, stream, 1, tmp_path)
        assert outcome(store) == expected


def test_of_two_drivers_one_pays(running, tmp_path, key_file, expected):
    """One whose right to write was taken is refused, and goes on after the slot that the other has released."""
    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as first:
        slow = opened(KIND, SEED, first, engine=on_spark(running))
        with pytest.raises(StoreBusy):
            dpi.open_store(tmp_path / "spark.db", key_file=key_file)
        first.engine._use.give_up()
        with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as second:
            quick = opened(KIND, SEED, second, engine=on_spark(running))
            hours(running, quick, SEED, 2, tmp_path)
            with pytest.raises(StoreBusy):
                list(slow.close_before(slow.setting.start + 1))
            assert slow.next_slot == slow.setting.start + 2
            assert outcome(second) == expected


def test_workers_with_another_python_or_none_are_said_in_a_sentence(running, monkeypatch):
    """Real workers: one that is told of another version, and a program that is not there."""
    context = running.sparkContext
    with monkeypatch.context() as patched:
        patched.setattr(context, "pythonVer", "3.1")
        with pytest.raises(OptionError, match="another Python"):
            list(SparkExecutor(running).map(abs, [1]))
    with monkeypatch.context() as patched:
        patched.setattr(context, "pythonExec", "/no/such/python")
        with pytest.raises(OptionError, match="no Python at PYSPARK_PYTHON"):
            list(SparkExecutor(running).map(abs, [1]))
    assert list(SparkExecutor(running).map(abs, [-1, 2])) == [1, 2]


def test_dataframes_that_cannot_be_read_are_refused_by_their_schema(running, tmp_path, key_file):
    """Before any row is read, and before anything of Spark's or ours is written."""
    with dpi.open_store(tmp_path / "spark.db", key_file=key_file) as store:
        stream = opened(KIND, SEED, store, engine=on_spark(running))
        period = {"start": "2026-01-01", "end": "2026-01-01T02:00"}
        stays = watched(running, tmp_path / "in")
        frame = running.createDataFrame([], "user string, time string, value array<string>")
        for wrong, kind, says in (
            (
                partial(replay, stream, frame.select("user", "time"), **period),
                dpi.errors.SchemaError,
                "a column 'value'",
            ),
            (partial(replay, stream, frame, **period), dpi.errors.SchemaError, "plain values"),
            (partial(replay, stream, stays, **period), OptionError, "use `follow`"),
            (partial(follow, stream, stays, checkpoint=str(tmp_path / "c")), OptionError, "`arrived`"),
            (partial(follower, stream, frame, tmp_path / "c", 0), OptionError, "use `replay`"),
            (partial(replay, opened(KIND, 1, dpi.MemoryStore()), frame, **period), OptionError, "engine="),
        ):
            with pytest.raises(kind, match=says):
                list(wrong()) if wrong.func is not follower else wrong()
        assert not (tmp_path / "c").exists()
        assert stream.next_slot == stream.setting.start
        with pytest.raises(StateError, match="other options"):
            opened(KIND, SEED, store, epsilon=2, engine=on_spark(running))


def test_moments_are_the_clocks():
    """The tests' own clock: slot 0 has closed at its moment, and slot 1 has not."""
    slots = dpi.Slots("1h", lateness="10m")
    assert slots.first_open(moment(0)) == slots.number("2026-01-01T01:00")
