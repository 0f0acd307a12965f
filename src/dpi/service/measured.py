"""When a picture was measured, by the stream's own clock: a release may carry an estimate on from earlier slots.

Sees releases that are seen, and public options.
"""

from __future__ import annotations

from dpi.certificates.declared import DeclaredOptions
from dpi.reader import Releases
from dpi.release import Release
from dpi.release.release import MEASURED


def measured_until(releases: Releases, release: Release) -> str | None:
    """The end of the slot that the release's picture is from, on average.

    None if the stream has no clock, or if nothing was measured up to this slot.
    """
    slots, ago = DeclaredOptions.from_text(releases.store.streams()[releases.name]).slots, release.measured_ago
    return None if slots is None or ago is None else slots.start(release.slot + 1 - round(ago)).isoformat()


def measured(releases: Releases, release: Release) -> dict[str, object]:
    """How much of a picture was measured in its slot, how many slots ago it was on average, and until when."""
    return {
        "share": release.measured,
        "in_slot": release.measured >= MEASURED,
        "slots": release.measured_ago,
        "until": measured_until(releases, release),
    }
