"""A release: what leaves the curator for one slot. It sees nothing private.

Everything in it is either public by declaration or made from noisy measurements, so it may be copied, asked and drawn
at will: that costs no privacy.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from dpi.display.card import card
from dpi.display.markup import element
from dpi.domain import Domain
from dpi.errors import NewerVersion, StateError, newer
from dpi.events.slots import Slots
from dpi.release.choice import Floats, Values
from dpi.release.interval import LEVEL, deviations, deviations_of_all, interval
from dpi.release.people import is_people
from dpi.release.queries import Distribution

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

_VECTORS = ("pdf", "variance", "skew", "accumulated")
_BY_CLASS = ("carried", "age")
_OPTIONAL = (*_BY_CLASS, "people", "payers")
LEAST = 0.005
"""What is carried forward of a picture is said from this part on."""
PAYERS = (
    "This describes users who can still pay. Users whose account has run short count in part or not at all, so a "
    "number of users is a lower bound."
)
"""What is said of a release whose users may have accounts that do not suffice: a public fact, whoever they are."""
MEASURED = 0.5
"""A picture of which at least this part was measured in its slot is drawn as measured; any other is drawn as a gap."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Release(Distribution):
    """The estimate of one slot's user-weighted PDF, its uncertainty, and what it cost.

    Two releases are equal if all their numbers are.

    >>> import dpi
    >>> stream = dpi.Stream(domain=dpi.Categories(["DE", "FR"]), epsilon=1)
    >>> release = stream.release(["ada", "bob"], ["DE", "FR"])
    >>> release.slot, round(float(release.pdf.sum()), 9), Release.from_json(release.to_json(), stream.domain) == release
    (0, 1.0, True)
    """

    slot: int
    start: datetime | None
    """When the slot began, if the stream has a clock: with the offset from UTC that its zone had then."""
    skew: Floats
    """How much of each bin's estimate is prior, between 0 and 1: intervals stretch upwards by it."""
    accumulated: Floats
    """The PDF over all slots so far, each weighted by its estimated number of users (`dpi.stream.accumulation`)."""
    epsilon: float
    """Budget of this slot."""
    epsilon_spent: float
    """The most that any one user can have lost by this stream so far: min(ε, Σ ε_t), or min(E·ε, Σ ε_t) in E epochs.

    Streams that share a ledger lose at most ε together; the guarantee says so.
    """
    guarantee: str
    """What is promised, in words, with every assumption."""
    certificate: dict[str, object]
    carried: float | None = None
    """Where users are measured by class: the share of the picture that was not measured in this slot …"""
    age: float | None = None
    """… and how many slots ago it was, on average."""

    def __post_init__(self) -> None:
        for name in _VECTORS:
            getattr(self, name).setflags(write=False)

    @property
    def start_text(self) -> str | None:
        """When the slot began as text (ISO 8601): as it stands in files and in answers of a service."""
        return None if self.start is None else self.start.isoformat()

    @property
    def measured(self) -> float:
        """The share of the picture that was measured in this slot; 0 if the slot had no budget, so nothing was."""
        if self.carried is not None:
            return 1 - self.carried
        return 1.0 if self.epsilon > 0 else 0.0

    @property
    def measured_ago(self) -> float | None:
        """How many slots ago the picture was measured, on average over all of it; None if the release cannot tell."""
        if self.measured == 0 and not self.age:
            return None
        return (self.carried or 0.0) * (self.age or 0.0)

    def measured_at(self, slots: Slots | None) -> datetime | None:
        """Return the end of the slot that the picture is from, on average, by the stream's clock.

        A release may carry an estimate on from earlier slots. None without a clock, or if nothing was measured so far.
        """
        ago = self.measured_ago
        return None if slots is None or ago is None else slots.start(self.slot + 1 - round(ago))

    @property
    def freshness(self) -> str | None:
        """How old the picture is, in words; None where all who pay are measured in every slot."""
        if self.measured_ago is None:
            return "Nothing was measured in this slot."
        return None if self.carried is None or self.age is None else freshness(self.carried, self.age)

    @property
    def scope(self) -> str | None:
        """Whom the release describes, in words, where that may not be all active users."""
        return PAYERS if self.payers else None

    def interval(self, level: float = LEVEL, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of a credible interval for the slot's true PDF, bin by bin.

        Each bin lies inside with a probability of `level`. If `simultaneous`, all bins together do
        (`dpi.release.interval.deviations_of_all`).
        """
        z = deviations_of_all(level, self.pdf.size) if simultaneous else deviations(level)
        return interval(self.pdf, self.variance, self.skew, self.total, level, z)

    def _skews(self) -> Floats:
        return self.skew

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def content(self) -> bytes:
        """Return what the certificate vouches for, as canonical bytes: a line of JSON, then the vectors."""
        head = _to_json({name: value for name, value in self._scalars().items() if name != "certificate"})
        return head.encode() + b"\n" + b"".join([getattr(self, name).astype("<f8").tobytes() for name in _VECTORS])

    @property
    def digest(self) -> str:
        """The fingerprint of `content`, which the certificate states."""
        return content_digest(self.content())

    @classmethod
    def from_content(cls, content: bytes, domain: Domain, certificate: dict[str, object]) -> Release:
        """Return the release of `content` and its certificate; refuse another domain or damaged bytes."""

        def read() -> dict[str, object]:
            head, _, body = content.partition(b"\n")
            vectors = np.frombuffer(body, dtype="<f8").astype(np.float64).reshape(len(_VECTORS), -1)
            return {**json.loads(head), "certificate": certificate, **dict(zip(_VECTORS, vectors, strict=True))}

        return cls._read(read, (domain,))

    def _scalars(self) -> dict[str, object]:
        """Return all but the vectors; a total that was not measured is None, and what does not apply is left out."""
        record: dict[str, object] = {"domain": self.domain.digest}
        for name in _names():
            value = self.start_text if name == "start" else getattr(self, name)
            if name not in _OPTIONAL or (value is not None and value is not False):
                record[name] = None if isinstance(value, float) and math.isnan(value) else value
        return record

    def _plain(self) -> dict[str, object]:
        return self._scalars() | {name: getattr(self, name).tolist() for name in _VECTORS}

    def to_json(self) -> str:
        """Return the release as one line of canonical JSON; a total that was not measured is null."""
        return _to_json(self._plain())

    @classmethod
    def from_json(cls, text: str, *domains: Domain) -> Release:
        """Return the release of `to_json`, of one of these domains; refuse another one or damaged text."""
        return cls._read(lambda: json.loads(text), domains)

    @classmethod
    def _read(cls, read: Callable[[], dict[str, object]], domains: Sequence[Domain]) -> Release:
        """Make a release of a record; fields that this program does not know are not left out, but refused."""
        try:
            record = read()
            if set(record) - {"domain", *_names(), *_VECTORS}:
                raise newer("the release")
            domain = {each.digest: each for each in domains}[str(record.pop("domain"))]
            for name in _VECTORS:
                vector = np.array(record[name], dtype=np.float64)
                if vector.shape != (domain.size,):
                    raise ValueError("another size")
                record[name] = vector
            for name in ("total", "total_variance"):
                record[name] = math.nan if record[name] is None else record[name]
            if record.get("people") is not None and not is_people(record["people"]):
                raise ValueError("other numbers")
            payers = record.setdefault("payers", None)
            if payers is not None and payers is not True:
                raise ValueError("neither said nor left out")
            record["payers"] = payers is True
            start = record["start"]
            record["start"] = None if start is None else datetime.fromisoformat(str(start))
            return cls(domain=domain, **record)  # type: ignore[arg-type]
        except NewerVersion:
            raise
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StateError("the release is damaged, or belongs to another domain.") from None

    def __repr__(self) -> str:
        best = ", ".join(f"{label} {share:.3g}" for label, share in self.top(3))
        return f"Release(slot={self.slot}, top=[{best}], epsilon={self.epsilon:.4g}, spent={self.epsilon_spent:.4g})"

    def _repr_html_(self) -> str:
        spent = f"{self.epsilon_spent:.4g} by this stream"
        facts = {"largest payment of a user": f"{self.epsilon:.4g}", "spent at most, per user": spent}
        fresh = [element("p", text) for text in (self.freshness, self.scope) if text]
        title = self._title[0].upper() + self._title[1:]
        return card(title, facts, *self._shares(), *fresh, element("p", self.guarantee))

    @property
    def _title(self) -> str:
        return f"slot {self.slot:,}" + (f", {self.start_text}" if self.start else "")

    def plot(self, values: Values | None = None, *, parts: tuple[str, str] | None = None) -> Figure:
        """Draw the PDF with its 95 % intervals (needs the extra `plot`).

        `values` is how many of the largest, or a list of values; without it, ordered bins are drawn as steps over their
        edges and a product as a grid of two of its `parts` (the first two, unless named). The bin `other` is drawn
        only if it is named, and its share is told below the picture.
        """
        from dpi.release import plots

        return plots.plot(self, self._title, values, parts)


def freshness(carried: float, age: float) -> str:
    """Say how much of a picture is carried forward, and from when.

    >>> freshness(0.46, 12.3), freshness(0.001, 3.0)
    ('46 % of this picture is carried forward, from 12 slots ago on average.', 'This picture was measured in its slot.')
    """
    if carried < LEAST:
        return "This picture was measured in its slot."
    slots = "from the slot before" if age < 1.5 else f"from {age:,.0f} slots ago on average"
    return f"{carried:.0%} of this picture is carried forward, {slots}.".replace("%", " %", 1)


def _to_json(record: dict[str, object]) -> str:
    return json.dumps(record, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@cache
def _names() -> tuple[str, ...]:
    """Return the fields of a release but its domain and its vectors."""
    return tuple(field.name for field in fields(Release) if field.name not in ("domain", *_VECTORS))


def content_digest(content: bytes) -> str:
    """Return the fingerprint of a release's content."""
    return hashlib.blake2b(content, digest_size=32, person=b"dpi release").hexdigest()


def to_frame(releases: Iterable[Release]) -> pl.DataFrame:
    """Return one row for each release: a polars frame, which any Arrow library reads."""
    import polars as pl

    records = [
        {k: json.dumps(v, sort_keys=True) if isinstance(v, dict) else v for k, v in release._plain().items()}
        for release in releases
    ]
    numbers = dict.fromkeys(_VECTORS, pl.List(pl.Float64)) | dict.fromkeys(
        ("total", "total_variance", "epsilon", "epsilon_spent", *_BY_CLASS), pl.Float64
    )
    records = [dict.fromkeys(_OPTIONAL) | record for record in records]  # every row has every column
    return pl.DataFrame(
        records, schema_overrides=numbers | {"start": pl.String, "people": pl.String, "payers": pl.Boolean}
    )


def from_frame(frame: pl.DataFrame, *domains: Domain) -> list[Release]:
    """Return the releases of `to_frame`, each of one of these domains: a stream's may have changed."""
    rows: Sequence[dict[str, object]] = frame.to_dicts()
    return [Release._read(lambda row=row: row | _loaded(row), domains) for row in rows]  # type: ignore[misc]


def _loaded(row: dict[str, object]) -> dict[str, object]:
    """Read what a row holds as JSON."""
    texts = {name: row.get(name) for name in ("certificate", "people")}
    return {name: json.loads(text) for name, text in texts.items() if isinstance(text, str)}
