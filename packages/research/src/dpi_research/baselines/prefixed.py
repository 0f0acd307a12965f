"""Sums of one value in every slot, after a prefix of values that only teach the mechanism a threshold."""

from __future__ import annotations

from dataclasses import dataclass

from dpi.errors import OptionError
from dpi_research.baselines.base import Baseline, check_count


@dataclass(kw_only=True, eq=False)
class Prefixed(Baseline):
    """What such systems share: `slots` values are released, each in 0 … `largest`, after `prefix` that are not."""

    slots: int
    prefix: int = 65_536
    largest: int = 1 << 16

    def _start(self) -> None:
        if self.bins != 1:
            raise OptionError("this mechanism has one bin; use PerBin(mechanism=..., bins=...) for more.")
        for name in ("slots", "prefix", "largest"):
            check_count(getattr(self, name), name)

    @property
    def horizon(self) -> int:
        """The prefix and the declared slots."""
        return self.prefix + self.slots

    @property
    def warm_up(self) -> int:
        """The prefix."""
        return self.prefix
