"""Bodies that are packed are unpacked up to a limit, in bounded time and memory."""

import gzip
import time
import tracemalloc
from functools import partial

import numpy as np
import pytest
import zstandard

from dpi.service._batch_reader import MOST_PARTS, unpack
from dpi.service._problems import Problem


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_packed_bodies(packing):
    """Are unpacked up to the limit and no further; what is damaged or cut off is refused."""
    pack = gzip.compress if packing == "gzip" else zstandard.ZstdCompressor().compress
    text = np.random.default_rng(3).bytes(5000) + b"a" * 5000
    assert unpack(pack(text), packing, 10_000) == text
    assert unpack(pack(text) + pack(b"more"), packing, 20_000) == text + b"more"
    with pytest.raises(Problem) as refused:
        unpack(pack(text), packing, 9_999)
    assert refused.value.status == 413
    bomb = pack(bytes(64 << 20))
    assert len(bomb) < 100_000
    with pytest.raises(Problem) as refused:
        unpack(bomb, packing, 1 << 20)
    assert refused.value.status == 413
    for damaged in (pack(text)[:-9], pack(text)[:20], b"nothing of it", pack(text) + b"x"):
        with pytest.raises(Problem) as refused:
            unpack(damaged, packing, 1 << 20)
        assert refused.value.status == 400
    with pytest.raises(Problem) as refused:
        unpack(text, "br", 1 << 20)
    assert refused.value.status == 415


EMPTY = {
    "gzip members": ("gzip", gzip.compress(b"")),
    "zstd frames": ("zstd", zstandard.ZstdCompressor().compress(b"")),
    "zstd frames that are skipped": ("zstd", b"\x50\x2a\x4d\x18" + bytes(4)),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_many_empty_parts_are_refused_at_once(kind):
    """A mebibyte of them took 3 to 17 seconds; a body has so many parts at most, which are read in their order."""
    packing, part = EMPTY[kind]
    began = time.process_time()
    with pytest.raises(Problem, match="at most 1024 members or frames") as refused:
        unpack(part * ((1 << 20) // len(part)), packing, 16 << 20)
    assert time.process_time() - began < 0.5
    assert refused.value.status == 413
    assert unpack(part * MOST_PARTS, packing, 0) == b""
    with pytest.raises(Problem):
        unpack(part * (MOST_PARTS + 1), packing, 0)


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_as_many_parts_as_may_be_are_joined_in_their_order(packing):
    """Whatever their sizes are: below, at and above a block."""
    pack = gzip.compress if packing == "gzip" else zstandard.ZstdCompressor().compress
    drawn = np.random.default_rng(4)
    parts = [drawn.bytes(n) for n in (*range(MOST_PARTS - 1), 1 << 20)]
    assert unpack(b"".join(map(pack, parts)), packing, 2 << 20) == b"".join(parts)


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_what_is_unpacked_after_the_first_part_counts(packing):
    """The limit is on all parts together, also while they are unpacked: a second part has what the first has left."""
    limit = 16 << 20
    pack = partial(gzip.compress, compresslevel=1) if packing == "gzip" else zstandard.ZstdCompressor().compress
    assert len(unpack(pack(bytes(limit - 1)) + pack(b"a"), packing, limit)) == limit
    body = pack(bytes(limit)) + pack(bytes(3 * limit))
    tracemalloc.start()
    try:
        with pytest.raises(Problem) as refused:
            unpack(body, packing, limit)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.value.status == 413
    # A block of 256 bytes becomes 8 MiB at most, and what is found is copied once: at the limit, not at three times it.
    assert most < 3 * limit + (8 << 20)


@pytest.mark.parametrize(("log", "holds"), [(20, True), (27, True), (28, False)])
def test_a_frame_that_wants_much_remembered_is_refused(log, holds):
    """A few bytes may ask for gigabytes of memory: 128 MiB are given, and no more."""
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(log - 10) << 3]) + b"\x09\x00\x00a"
    if holds:
        assert unpack(frame, "zstd", 10) == b"a"
    else:
        with pytest.raises(Problem) as refused:
            unpack(frame, "zstd", 10)
        assert refused.value.status == 400
