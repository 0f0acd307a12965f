"""The public order in which live streams of one store close their slots.

What a slot of one stream takes from an account, a slot of another that pays from it cannot take any more. If the order
followed from which stream is ready first, it would be a matter of how much data each has, and one user's flood would
change what everybody else pays where. So slots close by their closing time, and by the name of their stream where that
is the same; a later one waits. A stream with accounts of its own (a quota, a ledger of its own, a series) waits for no
other, and no other for it: what one takes changes nothing for the other (`dpi.budget.billing`).

Sees names and moments; no event and no account.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakValueDictionary


class LiveStream(Protocol):
    """A stream that is fed as events arrive."""

    @property
    def name(self) -> str:
        """Its name in the store."""
        ...

    @property
    def accounts(self) -> str | None:
        """The accounts that pay; None without any."""
        ...

    @property
    def upcoming(self) -> tuple[int, str]:
        """When its next slot closes, and its name."""
        ...


class CloseOrder:
    """The live streams of a store, as far as this process has them open."""

    def __init__(self) -> None:
        self._live: WeakValueDictionary[str, LiveStream] = WeakValueDictionary()

    def join(self, stream: LiveStream) -> None:
        """From now on others wait for the stream, until it leaves or is gone."""
        self._live[stream.name] = stream

    def leave(self, stream: LiveStream) -> None:
        """Nobody waits for the stream any more."""
        if self._live.get(stream.name) is stream:
            del self._live[stream.name]

    def is_turn_of(self, stream: LiveStream) -> bool:
        """Whether no other live stream with these accounts has a slot that closes earlier."""
        others = [each for each in self._live.values() if each is not stream and each.accounts == stream.accounts]
        return stream.accounts is None or all(stream.upcoming < each.upcoming for each in others)
