"""A stream's options as the first format wrote them: objects as Python printed them at that time.

A stream that was declared so is compared with this, text for text, and goes on; nothing new is written in it. Every
text is spelled out here, since what `repr` says is for people and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpi.budget.allocation import RBA, RBARanges
from dpi.budget.epsilon import Epsilon
from dpi.budget.ledger import Converging, Ledger
from dpi.budget.policy import Fade, spend_first
from dpi.budget.series import Geometric, LogSquared, Series, Spence, Zeta
from dpi.domain.partition import Blocks, Marginal
from dpi.events.slots import Slots
from dpi.histogram.compression import Normalise, Truncate, WholePDF
from dpi.mechanism.boosted import Boosted
from dpi.mechanism.published import Published
from dpi.mechanism.published.linear import Matrix, Ranges
from dpi.mechanism.published.pool import Pool
from dpi.options import DEFAULTS, Options, printed
from dpi.stream.prefix_tree import PrefixTree

if TYPE_CHECKING:
    from dpi.stream.options import StreamOptions


def legacy(options: StreamOptions) -> Options:
    """All options in the first format."""
    return {
        "domain": options.domain.digest,
        "epsilon_units": options.epsilon.units,
        "slots": text(options.slots),
        "start": options.start,
        "budget": text(options.budget),
        "brain": text(options.mechanism),
        "compression": text(options.compression),
        "accumulate": text(options.accumulate),
        "name": options.name,
        "ledger": options.ledger,
        "period": options.period,
    }


def text(thing: object) -> str:
    """An object as it was printed.

    >>> text(Ledger(per_slot="0.05", every=5)), text(Converging(Zeta(2), draw=RBA(100_000_001)))
    ("Ledger(per_slot='0.05', every=5)", 'Converging(Zeta(2), draw=RBA(1e+08))')
    """
    match thing:
        case tuple():
            return f"({', '.join(map(text, thing))}{',' if len(thing) == 1 else ''})"
        case Slots():
            return printed(thing, "width", "origin", "zone", "lateness")
        case Ledger():
            return _ledger(thing)
        case Converging():
            return f"Converging({text(thing.series)}" + (f", draw={text(thing.draw)})" if thing.draw else ")")
        case RBA():
            return f"RBA({float(thing.rate):g})"
        case RBARanges():
            amounts = {"large": _amount(thing.large), "small": _amount(thing.small)}
            return printed(thing, "large", "small", texts=amounts)
        case Fade():
            return printed(thing, "series", texts={"series": text(thing.series)})
        case Series():
            return _series(thing)
        case Normalise() | WholePDF():
            return printed(thing)
        case Truncate():
            return f"truncate({thing.c}, key=…)"
        case PrefixTree():
            return printed(thing, "per_slot", "arity", "levels")
        case Boosted():
            return printed(thing, "drifts", "season", "partitions", texts={"partitions": text(thing.partitions)})
        case Published():
            return _published(thing)
        case Pool():
            return thing.description
        case Blocks():
            return printed(thing, "count")
        case Marginal():
            return f"Marginal({', '.join(map(repr, thing.names))})"
        case Ranges():
            return f"Ranges({len(thing)} queries, bins={thing.bins})"
        case Matrix():
            return f"Matrix({len(thing)} queries, bins={thing.bins}, scale={thing.scale})"
    return repr(thing)  # a word, a number, or somebody else's class


def _ledger(ledger: Ledger) -> str:
    parts = [f"slots={ledger.slots}" if ledger.slots is not None else f"per_slot={ledger.per_slot!r}"]
    known = {"kind", "per_slot", "slots", "every", "policy", "period", "returning"}
    if ledger.every != 1:
        parts.append(f"every={ledger.every!r}")
    if ledger.policy not in ("auto", spend_first):
        parts.append(f"policy={text(ledger.policy)}")
    if ledger.period is not None:
        parts.append(f"period={ledger.period}")
    if not ledger.returning:
        parts.append("returning=False")
    parts += [f"{name}={getattr(ledger, name)!r}" for name in ledger.to_options(min(DEFAULTS)) if name not in known]
    return f"Ledger({', '.join(parts)})"


def _series(series: Series) -> str:
    match series:
        case Spence():
            return f"Spence(mu={float(series.mu):g}, zeta={float(series.zeta):g})"
        case Zeta():
            return f"Zeta({float(series.s):g})"
        case Geometric():
            return f"Geometric({float(series.r):g})"
        case LogSquared():
            return printed(series)
    return repr(series)


def _published(mechanism: Published) -> str:
    fields = ("pool", "queries", "lam", "mu", "draws", "rounds", "every_slot", "accumulative", "n_min", "total_share")
    return printed(mechanism, *fields, texts={name: text(getattr(mechanism, name)) for name in ("pool", "queries")})


def _amount(epsilon: Epsilon) -> str:
    return f"Epsilon({float(epsilon):.9g})"
