"""Discovery of values as a stream of a store: it has a quota of every user's ε, and releases what is frequent.

**Guarantee.** All that is discovered, and all releases of the other streams that share its ledger, are together ε-DP at
user level, for ever. *Why:* discovery is a stream of the same ledger with a quota (`dpi.budget.billing`), whose slots
lose ε_t·w_{u,t} (`dpi.discovery.text_slot_closer`); values that were found are public from then on, so that a domain
made of them is a function of releases.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from dpi.budget.epsilon import Amount, Epsilon, promised
from dpi.budget.ledger import Ledger
from dpi.budget.policy import spend_first
from dpi.certificates.signature import Signer
from dpi.discovery.text_slot_closer import TextEngine
from dpi.domain import Categories, Texts
from dpi.errors import OptionError
from dpi.exact.integers import GRAINS
from dpi.mechanism.text_histogram import FoundTexts, SparseHistogram
from dpi.noise import RandomSource
from dpi.release import Release
from dpi.store import Store
from dpi.stream import Stream
from dpi.stream.slot_closer import PlayedRows

MOST_USERS = 10**10
"""More than there are people: a threshold beyond it is passed by nobody's value."""


@dataclass(frozen=True)
class Found:
    """What one slot, or all slots so far, have shown: public, sorted by value."""

    users: Mapping[str, float]
    """For each value, the noisy number of users (units of weight) who had it in the slot that showed it last.

    Only numbers above a threshold are shown, so those that are just above it are too high on average.
    """
    failure: float
    """How many of the values of *one* slot nobody has, on average, at most. Nothing tells which these are."""
    release: Release | None = None
    """The slot's entry in the chain, with its certificate; None for all slots together."""

    @property
    def values(self) -> list[str]:
        """The values alone."""
        return list(self.users)

    def domain(self, other: str | None = "other") -> Categories:
        """Return a domain of the values; one that is called as `other` is goes there."""
        values = [value for value in self.users if value != other]
        if not values:
            raise OptionError(
                "no value was found, so there is no domain. Take longer slots, more users, a larger quota or shorter "
                "values, under another `name` and never with a new store: users pay from what they have left."
            )
        return Categories(values, other=other)


class Discovery:
    """Finds values that many users have, in a store whose accounts pay for it.

    `texts` is the public universe of values. `epsilon` is that of the store's ledger, and `quota` the part of every
    user's ε that discovery has for itself; the streams that will use the values have the rest. A user pays in their
    first `slots` slots, an equal part of the quota each. `failure` and `most` are those of
    `dpi.mechanism.text_histogram.SparseHistogram`, where the proof stands. `slot`, `origin`, `zone`, `start`, `store`,
    `name` and `signer` are as in `Stream`; a discovery that is in the store goes on where it stopped.

    >>> import dpi
    >>> store = dpi.MemoryStore()
    >>> discovery = Discovery(texts=dpi.Texts(8), epsilon=1, quota="0.5", store=store)
    >>> release = discovery.release([f"user {i}" for i in range(400)], ["red"] * 399 + ["a secret"])
    >>> [value in release.values for value in ("red", "a secret")]
    [True, False]
    >>> visits = dpi.Stream(domain=release.domain(), epsilon=1, store=store)  # has the other half
    """

    def __init__(
        self,
        *,
        texts: Texts,
        epsilon: Amount,
        store: str | os.PathLike[str] | Store,
        quota: Amount = "0.2",
        slots: int = 1,
        failure: Amount = "0.001",
        most: int = 1024,
        slot: str | None = None,
        origin: str | datetime = "1970-01-01",
        zone: str = "UTC",
        start: str | datetime | None = None,
        name: str = "discovery",
        signer: Signer | None = None,
        unsafe_source: RandomSource | None = None,
    ) -> None:
        if not isinstance(texts, Texts):
            raise OptionError("`texts` must be a universe of texts, for example dpi.Texts(32).")
        if store is None:
            raise OptionError(
                "discovery is paid from the accounts that later releases are paid from: give `store`, the one of the "
                "stream that will use the values."
            )
        mechanism = SparseHistogram(failure, most)
        budget = Ledger(slots=slots, policy=spend_first, quota=quota)
        self._mechanism, self._texts = mechanism, texts
        self._cost = Epsilon.at_most(budget.held(promised(epsilon)).fraction / slots)
        if min(self.thresholds.values()) > MOST_USERS:
            raise OptionError(
                f"a slot has {float(self._cost):g} of ε, with which no value can be found: give a larger `quota`, or "
                "fewer slots to pay in (`slots`).",
                options=("quota", "slots"),
            )
        self.stream = Stream(
            domain=texts,
            epsilon=epsilon,
            slot=slot,
            origin=origin,
            zone=zone,
            start=start,
            budget=budget,
            mechanism=mechanism,  # type: ignore[arg-type]
            store=store,
            name=name,
            signer=signer,
            engine=TextEngine(),
            unsafe_source=unsafe_source,
        )

    def close(self) -> None:
        """Let go of a store that this discovery has opened."""
        self.stream.close()

    def __enter__(self) -> Discovery:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What it is.

    @property
    def cost(self) -> float:
        """What a slot costs a user who takes part in full."""
        return float(self._cost)

    @property
    def thresholds(self) -> dict[int, float]:
        """By length in bytes: how many users a value must have, after noise of ± one over ε, to be shown. Public."""
        return {n: grains / GRAINS for n, grains in self._mechanism.thresholds(self._texts, self._cost).items()}

    @property
    def found(self) -> Found:
        """All values that were shown so far."""
        return self._found(self._state.all, None)

    @property
    def _state(self) -> FoundTexts:
        self.stream.driver.next_slot()
        state = self.stream.driver.state.state
        assert isinstance(state, FoundTexts)  # noqa: S101 - of its own mechanism
        return state

    def _found(self, grains: Mapping[str, int], release: Release | None) -> Found:
        users = {text: grains[text] / GRAINS for text in sorted(grains)}
        return Found(users, float(self._mechanism.failure), release)

    # Slots.

    def release(self, users: object, values: object, *, slot: int | None = None) -> Found:
        """Look at one slot's events: measure them once, pay, and show what is frequent."""
        release = self.stream.release(users, values, slot=slot)
        return self._found(self._state.last, release)

    def release_rows(self, rows: PlayedRows, *, slot: int | None = None) -> Found:
        """Look at one slot's events as `release` does, with rows that `play` gave."""
        release = self.stream.release_rows(rows, slot=slot)
        return self._found(self._state.last, release)

    def replay(
        self,
        events: object,
        *,
        start: str | datetime,
        end: str | datetime,
        user: str = "user",
        time: str = "time",
        value: str = "value",
        unit: str | None = None,
    ) -> Iterator[Found]:
        """Look at every slot of the public period [start, end); `events` are as in `Stream.replay`."""
        replayed = self.stream.replay(events, start=start, end=end, user=user, time=time, value=value, unit=unit)
        for release in replayed:
            yield self._found(self._state.last, release)
