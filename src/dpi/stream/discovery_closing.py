"""Closing a slot of a stream whose domain grows: its rows are counted by listed values, and by texts.

**Guarantee.** That of `dpi.stream.slot_closer`. *Why:* a user's rows have one weight, by which both histograms move by
at most w units, and the mechanism's price is for both (`dpi.mechanism.value_discovery`); values that were found are
public, and listed from the next slot on.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

import numpy as np

from dpi.domain import Discovered
from dpi.errors import OptionError
from dpi.events.rows import Rows
from dpi.events.slots import Slots, Window
from dpi.exact.integers import GRAINS
from dpi.histogram.compression import TextHistogram
from dpi.histogram.grouping import Groups
from dpi.mechanism.value_discovery import HistogramWithTexts
from dpi.release import Release
from dpi.sources import Events, Progress
from dpi.stream.closing import Counting, weigh
from dpi.stream.slot_closer import Played, SlotCloser, SlotRows
from dpi.stream.texts import SeenTexts, TextAdmission, TextRows


class DiscoveringSlotCloser(SlotCloser):
    """Closes slots of texts and listed values. Events are all there: a store keeps bins of events, and no text."""

    @property
    def _listed(self) -> Discovered:
        domain = self.state.setting.domain
        assert isinstance(domain, Discovered)  # noqa: S101 - it is chosen by the domain
        return domain

    def rows(self, users: object, values: object, number: int) -> TextRows:
        """Return the rows of a slot's events, by the texts that each user keeps."""
        seen = SeenTexts(self._listed.texts)
        rows = Rows.of(users, seen.encode(values), self._store.key, number, ids=self.newest.ids)
        return TextRows.read(seen.kept(rows, self._store.key), seen)

    def play(
        self, events: Played, slots: Slots, first: int, last: int, memory: int, progress: Progress | None
    ) -> Generator[tuple[int, SlotRows], None, None]:
        """Play events as any stream does, by their texts."""
        universe = self._listed.texts
        seen = SeenTexts(universe)
        key, ids = self._store.key, self.newest.ids
        admission = TextAdmission(slots, seen, key, self.next_slot(first), last, ids, universe)
        with closing(events.slots(admission, memory=memory, progress=progress)) as played:
            for number, rows in played:
                yield number, TextRows.read(rows, seen)

    def keep(self, events: Events, window: Window, slots: Slots, producer: str, sequence: int) -> bool:
        """Refuse: only events that are all there are discovered in."""
        raise OptionError("values are discovered in events that are all there: files or tables, not live inputs.")

    def close(self, number: int, rows: SlotRows) -> Release:
        """Close a slot with rows by the numbers of their texts."""
        assert isinstance(rows, TextRows)  # noqa: S101 - of `rows` or `play`
        seen = rows.seen
        kept = seen.kept(Rows(rows.names, rows.slots, rows.bins, rows.counts), self._store.key)
        texts, places = seen.numbered(kept.bins)
        bins = np.append(self._listed.outside, self._listed.encode(texts))[places]
        offer, counting, promise = self._offered(number), Counting.of(self.state.setting), self._promise()
        if self.accounts is not None:
            self.accounts.assign(promise.assigned)
        by_value = Groups(replace(kept, bins=bins, grouped=False), counting.codes)
        grains, charge = weigh(counting, by_value, self.accounts, offer, number)
        by_text = Groups(replace(kept, bins=places, grouped=False), len(texts) + 1)
        counted = replace(counting, bins=len(texts) + 1, codes=len(texts) + 1)
        rows_of_texts, _ = weigh(
            counted, by_text, self.accounts, offer, number
        )  # the same weights: nothing is paid yet
        text_counts = rows_of_texts.reshape(offer.histograms, -1)[:, 1:]
        parts = tuple(TextHistogram(row, GRAINS, texts=texts) for row in text_counts)
        clean = HistogramWithTexts(grains, GRAINS, groups=offer.histograms, texts=parts)
        return self._pay(clean, offer, number, charge, promise)
