"""What a rotating mechanism remembers, and its bytes. All of it is public: a function of measurements after noise."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from dpi.errors import StateError
from dpi.files.numbered import refuse_newer
from dpi.mechanism.base import Floats
from dpi.mechanism.boosted import state as _state
from dpi.mechanism.boosted.layout import Layout, View
from dpi.mechanism.boosted.state import BoostedState

_MAGIC = b"dpi rotating state 1\n"
_DIGEST = 32


@dataclass(frozen=True, eq=False)
class Views:
    """A state for each view, from coarse to fine; the bins' own is the last."""

    layout: Layout
    states: tuple[BoostedState, ...]
    log_weights: Floats
    """Of the bins' own mechanism, of its PDF corrected by the coarser views, then of the PDFs down to each view."""
    credit: Floats
    """How many turns each view is owed."""
    turn: int
    """The view that the next slot is asked for."""
    foreseen: tuple[Floats, ...] = ()
    """What the PDF down to each view predicts of its blocks. It follows from all else and is not stored: empty, it is
    made anew; but a slot that was measured has just made it."""

    def __post_init__(self) -> None:
        self.log_weights.setflags(write=False)
        self.credit.setflags(write=False)

    @property
    def bins(self) -> int:
        """Number of bins of the domain."""
        return self.layout.bins

    @property
    def asked(self) -> View:
        """What the next slot is asked for."""
        return self.layout.views[self.turn]


def initial(layout: Layout, states: tuple[BoostedState, ...]) -> Views:
    """Before the first slot: all candidates alike, and the coarsest view first."""
    candidates = len(states) + 2
    return Views(layout, states, np.full(candidates, -np.log(candidates)), np.zeros(len(states)), 0)


def to_bytes(views: Views) -> bytes:
    """Magic, digest, one line of JSON, and the states of the views one after the other.

    JSON prints a float by its shortest form, which reads back as the same float.
    """
    states = [_state.to_bytes(state) for state in views.states]
    header = {
        "states": [len(state) for state in states],
        "log_weights": views.log_weights.tolist(),
        "credit": views.credit.tolist(),
        "turn": views.turn,
    }
    body = b"".join([json.dumps(header).encode(), b"\n", *states])
    return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def from_bytes(layout: Layout, data: bytes) -> Views:
    """The state of `to_bytes`, bit for bit; its parts may still belong to other options."""
    digest, body = data[len(_MAGIC) : len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
    refuse_newer(_MAGIC, data, "the state of the boosted mechanism")
    if not data.startswith(_MAGIC):
        raise StateError("the state was not written by this version of the boosted mechanism with these partitions.")
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise StateError("the state of the boosted mechanism is damaged: its checksum is wrong.")
    line, _, rest = body.partition(b"\n")
    header = json.loads(line)
    states = []
    for size in header["states"]:
        states.append(_state.from_bytes(rest[:size]))
        rest = rest[size:]
    if [state.bins for state in states] != [view.blocks for view in layout.views]:
        raise StateError("the state belongs to a mechanism with other options or to another domain.")
    log_weights, credit = np.array(header["log_weights"]), np.array(header["credit"])
    return Views(layout, tuple(states), log_weights, credit, header["turn"])
