"""Tools for agents: questions about releases that are public, each number with its interval and its certificate.

**Guarantee.** An answer is a function of the call, of what is declared and of what was released: two stores with equal
releases give equal bytes, whoever is in them. So an agent may ask without end, and no budget is spent.

*Why.* All that is read comes through `dpi.reader` and `dpi.verification`, which read public tables alone; an import
contract keeps the rooms out that know accounts, events or noise. There is no clock, no path and no random number here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from itertools import islice

from dpi.domain import Domain, Product
from dpi.errors import OptionError
from dpi.reader import NONE, Releases, find_step
from dpi.release import Release
from dpi.release.changes import find_changes
from dpi.release.choice import short_label
from dpi.release.interval import LEVEL
from dpi.settings.questions import QUESTIONS, Row, ask_all, asked_under, describe
from dpi.verification import Verification

Document = dict[str, object]
Where = int | str
MOST = 200
"""Slots of one answer."""
MOST_AVERAGED = 2000
"""Slots of a period that is compared."""
SHOWN = 50
"""Values of a domain that are listed."""
FARTHEST = 1 << 53

FREE = (
    "Questions cost no privacy. Releases are public already, and an answer is computed from them: budget was spent "
    "when a slot was released, and no question spends any more of it."
)
INTERVALS = (
    "Every number is an estimate. `lower` and `upper` are the ends of its 95 % interval; say them with the number. Two "
    "numbers whose intervals overlap may be equal. Do not add or average intervals of several rows: ask for the sum or "
    "compare periods instead. `certificate` names the release that the number comes from."
)


class Tools:
    """The tools, on the streams of an export or of a service. `verify` checks the chain of certificates."""

    def __init__(self, releases: Releases, verify: Callable[[], Verification]) -> None:
        self._releases, self._verify = releases, verify

    def all(self) -> list[Callable[..., Document]]:
        """Return the tools."""
        return [self.streams, self.ask, self.series, self.movers, self.compare, self.verify, self.promise]

    def streams(self) -> Document:
        """List the streams: what each is about, its values, its slots, and how far it has been released."""
        names = [name for name in self._releases.streams if self._releases.of(name).options.asked]
        return {"streams": [self._describe(self._releases.of(name)) for name in names], "questions": FREE}

    def ask(
        self,
        question: str,
        stream: str | None = None,
        slot: Where | None = None,
        first: Where | None = None,
        end: Where | None = None,
        part: str | None = None,
        where: list[str] | None = None,
    ) -> Document:
        """Answer a question with a 95 % interval.

        `question` is one of: top K, probability VALUE, count [VALUE], total (users), newcomers, returning,
        reach (users who ever came), retention 1|7|30 [first] (share of newcomers, or of the first slot's users,
        active so many slots later), stickiness 7|28|30 (users of the slot over those of the last slots),
        further-activity (in the next 30 slots), active 7|28 (distinct users of the last slots, where they are
        counted), mean, median, quantile Q, range LOW HIGH, sum, spread, correlation PART PART. A value with
        spaces stands in quotes. Of each answer, `carried` is the part that was not measured in the slot, `age`
        how many slots ago it was; where `payers` is true, users without budget are missing, so that numbers of
        users have no `upper` end.
        `slot` is a number, a time in ISO 8601 that lies in it, or "newest" (the default). Or ask about every
        slot from `first` to before `end`. Of a product, `part` asks about one part alone, `where` (["PART=VALUE"])
        among users with a value.
        """
        releases = self._stream(stream)
        ask = asked_under(None, _split(question))
        if slot is not None and (first is not None or end is not None):
            raise OptionError("ask about one `slot`, or about those from `first` to before `end`.")
        if first is None and end is None:
            page, more = [_at(releases, slot)], None
        else:
            page, more = _between(releases, first, end)
        said = ask_all(ask, ((release, None) for release in page), part, where or [])
        answers = [
            {**_about(release), **describe(release), "rows": [row.plain() for row in rows]}
            for release, rows in said.answers
        ]
        undefined = [{"slot": release.slot, "why": why} for release, why in said.undefined]
        return {"stream": releases.name, "question": question, "level": LEVEL, "answers": answers,
                "undefined": undefined, "more_first": more}  # fmt: skip

    def series(
        self, values: list[str], stream: str | None = None, first: Where | None = None, end: Where | None = None
    ) -> Document:
        """Show the shares of some values over time, from `first` to before `end`, with 95 % intervals.

        Of a long span, every second, fourth … slot is shown: `step` says which. Of a product, a value is "PART=VALUE
        PART=VALUE".
        """
        releases = self._stream(stream).between(_where(first), _where(end))
        if not 1 <= len(values) <= SHOWN:
            raise OptionError(f"`values` must name from 1 to {SHOWN} values.")
        extent = releases.extent
        if extent is None:
            raise OptionError(NONE)
        step = find_step(extent[1], extent[2], MOST)
        shown = list(releases.every(step))
        rows = []
        for value in values:
            words = _split(value) if isinstance(shown[-1].domain, Product) else [value]
            said = ask_all(asked_under(None, ["probability", *words]), ((release, None) for release in shown))
            rows.append({"value": value, "points": [{**_about(of), **row.plain()} for of, (row,) in said.answers]})
        return {"stream": releases.name, "level": LEVEL, "step": step, "series": rows}

    def movers(
        self, stream: str | None = None, slot: Where | None = None, before: Where | None = None, k: int = 10
    ) -> Document:
        """Say which values moved most from the slot `before` to `slot`: the newest and the one before it unless given.

        `sure` is true where the value moved beyond its 95 % interval; otherwise the change may be noise.
        """
        releases = self._stream(stream)
        new = _at(releases, slot)
        old = _at(releases, new.slot - 1 if before is None else before)
        return {"stream": releases.name, **_changes([new], [old], k)}

    def compare(
        self, first: Where, end: Where, before_first: Where, before_end: Where, stream: str | None = None, k: int = 10
    ) -> Document:
        """Compare two periods: average shares from `first` to before `end`, with those of a period before.

        Periods are numbers of slots or times. `sure` is true where a value moved beyond its 95 % interval.
        """
        releases = self._stream(stream)
        periods = []
        for one, other in ((first, end), (before_first, before_end)):
            part = releases.between(_where(one), _where(other))
            if not 1 <= len(part) <= MOST_AVERAGED:
                raise OptionError(f"a period must have from 1 to {MOST_AVERAGED:,} released slots. Got {len(part):,}.")
            periods.append(list(part))
        return {"stream": releases.name, **_changes(periods[0], periods[1], k)}

    def verify(self) -> Document:
        """Recompute the chain of certificates: whether releases are what was certified, and what was spent at most."""
        verification = self._verify()
        names = ("intact", "whole", "entries", "head", "problems", "missing")
        spent = {"epsilon_spent": verification.spent, "epsilon_spent_by_all": verification.spent_by_all}
        return {name: getattr(verification, name) for name in names} | spent

    def promise(self, stream: str | None = None) -> Document:
        """Explain what is promised to each user of a stream, what was spent at most, and what a question costs."""
        releases = self._stream(stream)
        newest = releases.newest
        return {
            "stream": releases.name, "guarantee": newest.guarantee, "epsilon": float(releases.options.epsilon),
            "epsilon_spent_at_most": newest.epsilon_spent, "certificate": newest.certificate.get("digest"),
            "questions": FREE, "intervals": INTERVALS,
            "not_promised": "Facts about groups can be learned. The curator, who runs the program, sees the events.",
        }  # fmt: skip

    def _stream(self, name: str | None) -> Releases:
        releases = self._releases
        if name is None:
            asked = [each for each in releases.streams if releases.of(each).options.asked]
            if len(asked) != 1:
                raise OptionError(f"`stream` must be one of: {', '.join(map(repr, asked))}.")
            name = asked[0]
        return releases.of(name)

    def _describe(self, releases: Releases) -> Document:
        options, extent = releases.options, releases.extent
        if extent is None:
            return {"stream": releases.name, "epsilon": float(options.epsilon), "releases": 0}
        newest = releases.newest
        return {
            "stream": releases.name,
            "epsilon": float(options.epsilon),
            "releases": extent[0],
            "first": _about(releases.at(extent[1])),
            "newest": _about(newest),
            "freshness": newest.freshness,
            "scope": newest.scope,
            "domain": _domain(newest.domain),
            "can_be_asked": QUESTIONS,
        }


def _domain(domain: Domain) -> Document:
    if isinstance(domain, Product):
        return {"parts": {name: _domain(part) for name, part in domain.parts.items()}}
    values = [domain.label(code) for code in range(min(domain.size, SHOWN))]
    return {"kind": type(domain).__name__.lower(), "number": domain.size, "values": values, "all": domain.size <= SHOWN}


def _about(release: Release) -> Document:
    """Say which release a number comes from."""
    return {"slot": release.slot, "start": release.start_text, "certificate": release.certificate.get("digest")}


def _changes(new: Sequence[Release], old: Sequence[Release], k: int) -> Document:
    if not 1 <= k <= MOST:
        raise OptionError(f"`k` must be from 1 to {MOST}.")
    changes = find_changes(new, old, LEVEL)
    columns = {"share": changes.now, "share_before": changes.before, "change": changes.change}
    rows = [
        {
            "label": short_label(changes.domain, int(code)),
            **{name: Row(None, *(float(e[code]) for e in (of.value, of.lower, of.upper))).plain()
               for name, of in columns.items()},
            "sure": bool(changes.sure[code]),
        }
        for code in changes.largest(k)
    ]  # fmt: skip
    spans = {
        name: {"slots": len(slots), "first": _about(slots[0]), "last": _about(slots[-1])}
        for name, slots in (("now", new), ("before", old))
    }
    return {**spans, "level": LEVEL, "sure": int(changes.sure.sum()), "rows": rows}


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise OptionError(f"a question has its quotes in pairs. Got {json.dumps(text)}.") from None


def _where(place: Where | None) -> Where | None:
    """Return a slot's number, or the text of a time."""
    if isinstance(place, str) and place.removeprefix("-").isdecimal() and place.isascii() and len(place) < 18:
        place = int(place)
    if isinstance(place, int) and abs(place) > FARTHEST:
        raise OptionError("there is no such slot.")
    return place


def _at(releases: Releases, slot: Where | None) -> Release:
    return releases.newest if slot in (None, "newest") else releases.at(_where(slot))  # type: ignore[arg-type]


def _between(releases: Releases, first: Where | None, end: Where | None) -> tuple[list[Release], int | None]:
    """Return the first releases of a period, and the slot from which to ask for more, if there are more."""
    part = releases.between(_where(first), _where(end))
    page = list(islice(part, MOST + 1))
    if not page:
        raise OptionError(NONE)
    return page[:MOST], page[MOST].slot if len(page) > MOST else None
