"""Hot paths and small slots stay fast: what they do is counted, so that a busy machine changes nothing.

Times belong into docs/performance.md and benchmarks/small_slots.py. Here a path is run once to warm up, and then
counted: its steps are the calls that functions of ours receive and make, so that a loop over rows shows; its bytes are
the peak of memory that Python and numpy hold at once, so that one more copy of an array shows. What polars allocates is
not seen. Of small slots, 32 of a seeded stream after 32 others, the calls of our functions are counted, by function. A
count may exceed its figure by a tenth. Whoever adds more either finds another way, or writes down the new figure and
says what it buys: every slot has become slower.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

import numpy as np
import polars as pl
import pytest

import dpi
from dpi.budget import Accounts, Epsilon
from dpi.certificates.chain import Head, extend
from dpi.certificates.signature import Signer
from dpi.events.identity import digests
from dpi.events.slots import Slots
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import Histogram
from dpi.noise import UnsafeSeededSource, add_laplace
from dpi.sources.textual import Ndjson

HOME = str(Path(dpi.__file__).parent)
SLACK = 1.1
SLOTS = 32
ROWS, USERS, BINS = 20_000, 5_000, 100
Path_ = Callable[[], object]


def rows() -> tuple[pl.Series, pl.Series]:
    """Events: integer ids, and values by number."""
    rng = np.random.default_rng(1)
    return pl.Series(rng.integers(0, USERS, ROWS)), pl.Series(rng.integers(0, BINS, ROWS))


def compression(_: Path) -> Path_:
    """Bounding the users of a slot."""
    users, values = rows()
    domain = dpi.Categories(range(BINS))
    return lambda: dpi.histogram.compress(users, values, domain)


def paying(_: Path) -> Path_:
    """Weighing and debiting the users of a slot."""
    book, ids = Accounts(Epsilon.at_most(1), key=bytes(32)), pl.Series(range(USERS))
    epsilon, slots = Epsilon.at_most("0.05"), iter(range(100))
    return lambda: book.debit(book.bill(ids, epsilon, next(slots)))


def laplace(_: Path) -> Path_:
    """Exact noise on many bins."""
    zeros, scale = np.zeros(ROWS, dtype=np.int64), Epsilon.at_most("0.05").scale
    return lambda: add_laplace(zeros, scale, UnsafeSeededSource(1))


def ndjson(_: Path) -> Path_:
    """Lines of one form."""
    file, (users, values) = io.BytesIO(), rows()
    pl.DataFrame({"user": users.cast(pl.String), "at": "2026-01-01T00:00:00Z", "value": values}).write_ndjson(file)
    lines, reader = file.getvalue(), Ndjson(["user", "at", "value"])
    return lambda: reader.parse(lines)


def iso_times(_: Path) -> Path_:
    """Times as texts of a fixed width."""
    moments = pl.Series(np.random.default_rng(1).integers(0, 10**15, ROWS)).cast(pl.Datetime("us", "UTC"))
    texts, slots = moments.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"), Slots("1h")
    return lambda: slots.moments(texts)


def estimator(_: Path) -> Path_:
    """Measuring a slot by the boosted mechanism, and learning from it."""
    mechanism, domain = dpi.Boosted(), dpi.Categories(range(BINS), other=None)
    state, epsilon, source = mechanism.initial(domain), Epsilon.at_most("0.05"), UnsafeSeededSource(1)
    histogram = Histogram(np.arange(BINS, dtype=np.int64) * GRAINS, GRAINS)
    measured = mechanism.measure(state, histogram, epsilon, 0, source)
    return lambda: mechanism.update(state, measured)


def slot_of(store: dpi.MemoryStore | Path) -> Path_:
    """A slot of a seeded stream, in its stride."""
    stream = dpi.Stream(domain=dpi.Categories(range(BINS)), epsilon=2, unsafe_source=UnsafeSeededSource(1), store=store)
    users, values = rows()
    slots = iter(range(100))

    def released() -> object:
        return stream.release(users[:500], values[:500], slot=next(slots))

    for _ in range(8):
        released()
    return released


def by_class(_: Path) -> Path_:
    """A slot in memory: the estimator of users by class is most of it."""
    return slot_of(dpi.MemoryStore(bytes(32)))


def sqlite(folder: Path) -> Path_:
    """A slot in a durable file."""
    return slot_of(folder / "store.db")


def chain(folder: Path) -> Path_:
    """An entry of the chain, signed."""
    signer, facts = Signer.open(folder / "signing.pem"), {f"fact {number}": number for number in range(20)}
    return lambda: extend(Head(), facts, signer)


def identity(_: Path) -> Path_:
    """The names of accounts, of integers and of texts."""
    numbers = pl.Series(range(USERS))
    texts = pl.Series([f"user-{number:09d}" for number in range(USERS)])
    return lambda: (digests(numbers, bytes(32)), digests(texts, bytes(32)))


def admission(_: Path) -> Path_:
    """A batch that came over HTTP, to columns."""
    reader = pytest.importorskip("dpi.service._batch_reader")
    users, values = (column.to_list() for column in rows())
    body = json.dumps({"user": users, "time": ["2026-01-01T00:00:00Z"] * ROWS, "value": values}).encode()
    return lambda: reader.read_batch(body, "application/json", None, None)


FIGURES: dict[Callable[[Path], Path_], tuple[int, int]] = {
    # steps, bytes at most
    compression: (87, 1_456_932),
    paying: (122, 502_760),
    laplace: (16, 2_402_037),
    ndjson: (21, 3_320_519),
    iso_times: (117, 2_164_473),
    estimator: (599, 3_619_848),
    by_class: (1_091, 3_980_163),  # the tables of levels are made anew in this slot
    sqlite: (1_706, 1_674_606),
    chain: (9, 8_692),
    identity: (46, 624_800),  # four steps more, in a large slot nearly half the time
    admission: (67, 2_764_180),
}


@contextmanager
def listening(heard: Callable[[FrameType, str, object], None]) -> Iterator[None]:
    """Tell a function of every call."""
    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        yield
    finally:
        sys.setprofile(before)


def steps(run: Path_) -> int:
    """Calls that functions of ours receive, and those of built-in functions that they make."""
    counted = 0

    def heard(frame: FrameType, event: str, _: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call") and frame.f_code.co_filename.startswith(HOME)

    with listening(heard):
        run()
    return counted


def peak(run: Path_) -> int:
    """The most bytes that Python and numpy hold at once in a run, beyond those before it."""
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.__name__)
def test_a_hot_path_takes_no_more_steps_and_no_more_memory(path: Callable[[Path], Path_], tmp_path: Path) -> None:
    """Within a tenth of what is written down."""
    run = path(tmp_path)
    run()
    found = steps(run), peak(run)
    assert all(count <= SLACK * figure for count, figure in zip(found, FIGURES[path], strict=True)), found


def test_a_loop_over_rows_and_a_copy_are_noticed() -> None:
    """What the guard is for: each of them moves its count by more than the slack."""
    users, values = rows()
    domain = dpi.Categories(range(BINS))

    def whole() -> object:
        return dpi.histogram.compress(users, values, domain)

    def by_parts() -> object:
        return [
            dpi.histogram.compress(users[at : at + 100], values[at : at + 100], domain) for at in range(0, ROWS, 100)
        ]

    assert steps(by_parts) > 2 * SLACK * steps(whole)
    column = values.to_numpy()
    assert peak(lambda: (column.copy(), column.copy())) > SLACK * peak(lambda: (column.copy(),))


CALLS = {
    # (bins, users, durable): calls of functions of ours in a slot
    (10, 100, False): 482,
    (100, 500, False): 494,
    (1000, 500, False): 488,
    (100, 500, True): 743,  # the witness of a store in a file: 180
}
PATHS = {
    # calls of one function in a slot, of 100 bins in a file
    ("options/_option.py", "to_options"): 0,
    ("stream/options.py", "to_options"): 0,
    ("events/columns.py", "canonical"): 0,
    ("budget/account_table.py", "get"): 4,
    ("budget/account_table.py", "find"): 5,
    ("budget/adaptive_allocation.py", "_read"): 1.2,  # also what the witness is told
    ("mechanism/users/_ensemble.py", "solve"): 1.0,  # newcomers tell something in every slot
    ("mechanism/filtering/_population.py", "_locate"): 5.3,
    ("mechanism/filtering/laplace_gauss.py", "score_evidence"): 8.2,
    ("store/_sqlite.py", "rows"): 21.2,
    ("store/_sqlite.py", "execute"): 19.5,  # four of them keep that the witness has seen the release
}


def counted(bins: int, users: int, store: Path | None) -> tuple[Counter[tuple[str, str]], int]:
    """Calls of our functions by file and name over `SLOTS` slots, and how often a data frame was collected."""
    names = np.array([f"v{bin}" for bin in range(bins)])
    rng, ours, collected = np.random.default_rng(1), Counter[tuple[str, str]](), 0

    def heard(frame: FrameType, event: str, _: object) -> None:
        nonlocal collected
        if event == "call":
            code = frame.f_code
            if code.co_filename.startswith(HOME):
                ours[code.co_filename[len(HOME) + 1 :], code.co_name] += 1
            collected += code.co_name == "collect"

    with dpi.Stream(
        domain=dpi.Categories(names),
        epsilon=2,
        unsafe_source=UnsafeSeededSource(1),
        store=dpi.MemoryStore(bytes(32)) if store is None else store,
    ) as stream:
        for slot in range(2 * SLOTS):
            ids, values = rng.integers(0, 2 * users, users), names[rng.integers(0, bins, users)]
            with listening(heard) if slot >= SLOTS else nullcontext():
                stream.release(ids, values, slot=slot)
    return ours, collected


@pytest.mark.parametrize(("bins", "users", "durable"), CALLS)
def test_a_small_slot_calls_no_more_functions(bins: int, users: int, durable: bool, tmp_path: Path) -> None:
    """What a slot costs beside its arrays is the number of steps it takes."""
    ours, collected = counted(bins, users, tmp_path / "store.db" if durable else None)
    assert collected == 0  # a data frame costs a small slot more than all its rows
    assert ours.total() / SLOTS <= SLACK * CALLS[bins, users, durable]


def test_hot_paths_are_taken_no_more_often(tmp_path: Path) -> None:
    """What cannot change within a slot, or at all, is found once."""
    ours, _ = counted(100, 500, tmp_path / "store.db")
    often = {path: ours[path] / SLOTS for path, figure in PATHS.items() if ours[path] / SLOTS > SLACK * figure}
    assert not often
    gone = [path for path in PATHS if PATHS[path] and not ours[path]]
    assert not gone  # a path that was renamed is counted no more
