"""The seal of where a stream is finds every change, whether a state brings its own digest or not."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

import dpi
from dpi.store import base
from dpi.store.base import Checkpoint

BODY = bytes(range(200))
STATE = b"a state\n" + hashlib.blake2b(BODY, digest_size=32).digest() + BODY
PROGRESS = Checkpoint(first=1, last=5, spent=7, allocation="{}", mechanism=lambda: STATE, accumulated=b"sums")
DIGESTED = replace(PROGRESS, digested=lambda data: len(data) - len(BODY))


@pytest.mark.parametrize("progress", [PROGRESS, DIGESTED], ids=["plain", "digested"])
def test_every_byte_of_state_and_seal_counts(progress) -> None:
    """A flip anywhere, a cut or an addition is found; what is read back says nothing of a digest."""
    seal = progress.seal("s", STATE)
    assert PROGRESS.has_seal(seal, "s", STATE)
    for at in range(len(STATE)):
        changed = STATE[:at] + bytes([STATE[at] ^ 1 << at % 8]) + STATE[at + 1 :]
        assert not PROGRESS.has_seal(seal, "s", changed)
        assert not PROGRESS.has_seal(seal, "s", STATE[:at])
    assert not PROGRESS.has_seal(seal, "s", STATE + b"\0")
    for at in range(len(seal)):
        changed = seal[:at] + bytes([seal[at] ^ 1 << at % 8]) + seal[at + 1 :]
        assert not PROGRESS.has_seal(changed, "s", STATE)
        assert not PROGRESS.has_seal(seal[:at], "s", STATE)


@pytest.mark.parametrize("progress", [PROGRESS, DIGESTED], ids=["plain", "digested"])
@pytest.mark.parametrize(
    "change", [{"first": 2}, {"last": 6}, {"spent": 8}, {"allocation": "[]"}, {"accumulated": b"other"}], ids=str
)
def test_every_field_counts(progress, change) -> None:
    """And so does the stream's name."""
    seal = progress.seal("s", STATE)
    assert not replace(PROGRESS, **change).has_seal(seal, "s", STATE)
    assert not PROGRESS.has_seal(seal, "t", STATE)


def test_a_seal_without_a_digest_is_the_one_that_stores_have() -> None:
    """The form of earlier versions, which their stores are read with."""
    head = b'["s", 1, 5, 7, "{}", %d]\n' % len(STATE)
    before = hashlib.blake2b(head + STATE + b"sums", digest_size=32, person=b"dpi progress").digest()
    assert PROGRESS.seal("s", STATE) == before


def test_a_state_by_class_is_digested_once(sqlite, key_file, monkeypatch) -> None:
    """A slot's seal takes in less than the state; who reads it takes in all of it."""
    taken, blake2b = [], hashlib.blake2b

    class Counted:
        """A digest that says how much it has taken in."""

        def __init__(self, data: object = b"", **options: object) -> None:
            self._digest = blake2b(**options)
            self.update(data)

        def update(self, data: object) -> None:
            taken.append(len(memoryview(data)))
            self._digest.update(data)

        def digest(self) -> bytes:
            return self._digest.digest()

    domain = dpi.Categories(range(50), other=None)
    with dpi.open_store(sqlite, key_file=key_file) as store:
        stream = dpi.Stream(domain=domain, epsilon=1, store=store)
        stream.release(["ada"], [1])
        state = store.progress("").mechanism()
        monkeypatch.setattr(base.hashlib, "blake2b", Counted)
        made = stream.driver.state.progress(stream.driver._allocation)
        made.seal("", state)
        assert sum(taken) < len(state) / 4
        taken.clear()
        store.progress("")
        assert sum(taken) > len(state)
