"""Closing a slot of a stream in which values are discovered: as any slot, but for what its bins are.

The steps are those of `dpi.stream.closing`. A slot's bins are the texts that its own rows hold, numbered as they come,
and one more for all values outside of the universe, which is dropped before noise is drawn: for a user's weight is
spread over all that they did, and what is not looked at takes its part of it. Texts are private, and gone with the
process; their numbers mean nothing outside of one reading, and no public thing is made of them.

**Guarantee.** One slot loses at most ε_t·w_{u,t} about user u, and the charge debits u by at least that. *Why:* u moves
the histogram over all texts by at most w_{u,t} units, whatever the texts of others are (a text that only u has is one
whose grains are zero without u), a part of a histogram moves by no more than the whole, and the mechanism adds noise to
every text of the universe (`dpi.mechanism.text_histogram`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

from dpi.certificates.signature import Signer
from dpi.domain import Texts
from dpi.errors import OptionError
from dpi.events.rows import Rows
from dpi.events.slots import Slots, Window
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import TextHistogram
from dpi.histogram.grouping import Groups
from dpi.noise import RandomSource
from dpi.release import Release
from dpi.sources import Events, Progress
from dpi.store.ledger_session import LedgerSession
from dpi.stream.closing import Counting, weigh
from dpi.stream.options import StreamOptions
from dpi.stream.slot_closer import Played, SlotCloser, SlotRows
from dpi.stream.texts import SeenTexts, TextRows


class TextSlotCloser(SlotCloser):
    """Closes slots of texts. Events are all there when a slot is closed: a store keeps bins of events, and no text."""

    def seen(self) -> SeenTexts:
        """Return numbers for the texts of one reading."""
        universe = self.state.setting.domain
        assert isinstance(universe, Texts)  # noqa: S101 - the mechanism has refused any other
        return SeenTexts(universe)

    def rows(self, users: object, values: object, number: int) -> TextRows:
        """Return the rows of a slot's events, by their texts."""
        seen = self.seen()
        return TextRows.read(Rows.of(users, seen.encode(values), self._store.key, number, ids=self.newest.ids), seen)

    def play(
        self, events: Played, slots: Slots, first: int, last: int, memory: int, progress: Progress | None
    ) -> Generator[tuple[int, SlotRows], None, None]:
        """As of any stream, by the texts of the events."""
        seen = self.seen()
        admission = replace(self.admission(slots, first, last), domain=seen)
        with closing(events.slots(admission, memory=memory, progress=progress)) as played:
            for number, rows in played:
                yield number, TextRows.read(rows, seen)

    def keep(self, events: Events, window: Window, slots: Slots, producer: str, sequence: int) -> bool:
        """Refused."""
        raise OptionError("values are discovered in events that are all there: files or tables, not live inputs.")

    def close(self, number: int, rows: SlotRows) -> Release:
        """Close a slot with rows by the numbers of their texts."""
        if not isinstance(rows, TextRows) or self.accounts is None:
            raise OptionError("values are discovered by dpi.Discovery, which counts texts and keeps accounts.")
        texts, places = rows.seen.numbered(rows.bins)
        offer, promise = self._offered(number), self._promise()
        self.accounts.assign(promise.assigned)
        counting = replace(Counting.of(self.state.setting), bins=len(texts) + 1, codes=len(texts) + 1)
        groups = Groups(replace(rows, bins=places, grouped=False), counting.codes)
        grains, charge = weigh(counting, groups, self.accounts, offer, number)
        return self._pay(TextHistogram(grains[1:], GRAINS, texts=texts), offer, number, charge, promise)


class TextEngine:
    """What a stream takes to be driven so."""

    def driver(
        self, newest: StreamOptions, session: LedgerSession, signer: Signer | None, source: RandomSource
    ) -> SlotCloser:
        """Return a driver of the stream with these options."""
        return TextSlotCloser(newest, session, signer, source)
