"""Questions to releases as they are written in words, and their answers as rows with intervals.

Everything here is post-processing of released numbers: a question costs no privacy, however many are asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpi.domain import Bins, Domain, Product
from dpi.errors import OptionError
from dpi.mechanism.base import AFTER, SPANS, STICKY
from dpi.release import Release
from dpi.release.choice import Floats
from dpi.release.grid import Shares
from dpi.release.interval import LEVEL
from dpi.release.quality import SMALL, WEEK, Quality, Unit, note
from dpi.release.queries import NOT_COUNTED, NOT_SURER, Answer, Distribution, one_of

QUESTIONS = (
    "top K, probability VALUE, count [VALUE], total, newcomers, returning, reach, retention 1|7|30 [first], "
    "stickiness 7|28|30, active 7|28, further-activity, mean, median, quantile Q, range LOW HIGH, "
    "sum, spread, correlation PART PART"
)
"""What can be asked of one release."""
BETWEEN = ("l1", "kl", "join-size")
"""What can be asked of two."""
UNITS: dict[str, Unit] = {
    **dict.fromkeys(("top", "probability", "range", "retention", "stickiness"), "points"),
    **dict.fromkeys(("count", "total", "newcomers", "returning", "reach", "active"), "%"),
}
"""How wide an answer's interval is counted, where rules say whether it is shown. Other answers are always shown."""
WEEKLY = ("top", "probability", "range", "count", "total")
"""Of these, what has a mean over a week."""
EXAMPLES = {"top": "top 5", "retention": "retention 7", "stickiness": "stickiness 7",
            "active": "active 7", "quantile": "quantile 0.9", "range": "range 0 10"}  # fmt: skip
"""Questions with a number, as they may be written."""


@dataclass(frozen=True)
class Row:
    """One number of an answer: about a label, if the question names several."""

    label: str | None
    value: float
    lower: float
    upper: float
    known: bool = field(default=True, repr=False, kw_only=True)
    """Whether the interval says anything."""
    note: str = field(default="", repr=False, kw_only=True)
    """Why it is not shown, or that it is a week's."""

    def plain(self) -> dict[str, object]:
        """Return the row as JSON values; an end that is open is null."""
        label = {} if self.label is None else {"label": self.label}
        numbers = {"value": self.value, "lower": self.lower, "upper": self.upper}
        plain = {key: number if math.isfinite(number) else None for key, number in numbers.items()}
        return {**label, **plain, **({"note": self.note} if self.note else {})}


def describe(release: Release) -> dict[str, object]:
    """Say of an answer which slot it is about, and of whom and from when its picture is, as JSON values.

    `carried` is the part that was not measured in the slot, `age` how many slots ago that was on average; `payers` says
    that users whose account is short are missing.
    """
    return {
        "slot": release.slot,
        "start": release.start_text,
        "carried": 1 - release.measured,
        "age": release.age,
        "payers": release.payers,
    }


def asked(words: Sequence[str], level: float = LEVEL) -> Callable[[Distribution], list[Row]]:
    """Return the question that the words mean, with intervals of a level.

    >>> from dpi.domain import Bins
    >>> ages = Distribution(Bins([0, 10, 20]), np.array([0.0, 0.5, 0.5, 0.0]), np.zeros(4), total=100.0)
    >>> asked(["mean"])(ages), asked(["total"])(ages)[0].value
    ([Row(label=None, value=10.0, lower=5.0, upper=15.0)], 100.0)
    """
    match list(words):
        case ["top", k]:
            return lambda d: _top(d, whole(k, "top"), level)
        case ["probability" | "count" as what, value, *rest]:
            texts = [value, *rest]
            return lambda d: _one(
                getattr(d, what)(meant(d.domain, texts)), level, 0, 1 if what == "probability" else math.inf
            )
        case ["count"] | ["total"]:
            return lambda d: _one(d.count(), level, 0)
        case ["newcomers" | "returning" | "reach" as what]:
            return lambda d: _one(getattr(d, what)(), level)
        case ["retention", after, *cohort] if len(cohort) < 2:
            slots = one_of(whole(after, "retention"), AFTER, "retention")
            return lambda d: _one(_measured(d.retention(slots, *cohort)), level)
        case ["stickiness", window]:
            slots = one_of(whole(window, "stickiness"), STICKY, "stickiness")
            return lambda d: _one(_measured(d.stickiness(slots)), level)
        case ["active", window]:
            slots = one_of(whole(window, "active"), SPANS, "active")
            return lambda d: _one(_counted(d.active(slots)), level)
        case ["further-activity"]:
            return lambda d: _one(_measured(d.further_activity()), level)
        case ["mean" | "median" | "sum" | "spread" as what]:
            return lambda d: _one(getattr(d, what)(), level)
        case ["quantile", q]:
            return lambda d: _one(d.quantile(_number(q, "quantile")), level)
        case ["range", low, high]:
            return lambda d: _one(d.range(_number(low, "range"), _number(high, "range")), level, 0, 1)
        case ["correlation", one, other]:
            return lambda d: _one(d.correlation(one, other), level)
    text, forms = " ".join(words), {form.split()[0]: form for form in QUESTIONS.split(", ")}
    if words and words[0] in forms:
        example = f", such as `{EXAMPLES[words[0]]}`" if words[0] in EXAMPLES else ""
        raise OptionError(f"the question is `{forms[words[0]]}`{example}. Got {text!r}.")
    raise OptionError(f"unknown question {text!r}: ask {QUESTIONS}.")


def asked_under(
    quality: Quality | None, words: Sequence[str], level: float = LEVEL
) -> Callable[[Distribution, Distribution | None], list[Row]]:
    """Return the same question under rules, of a slot and of its week: what is not good enough has no number.

    >>> from dpi.domain import Categories
    >>> pages = Distribution(Categories(["home", "cart"]), np.array([0.6, 0.4, 0.0]), np.full(3, 0.0045), total=100.0)
    >>> [row.note for row in asked_under(Quality(points=10), ["probability", "home"])(pages, None)]
    ['not shown: ± 14 points']
    """
    ask, unit = asked(words, level), UNITS.get(words[0])
    if quality is None or unit is None:
        return lambda slot, week: ask(slot)

    def show(slot: Distribution, week: Distribution | None) -> list[Row]:
        def read(of: Distribution, level: float) -> list[Row]:
            return _top(of, whole(words[1], "top"), level, slot.pdf) if words[0] == "top" else asked(words, level)(of)

        rows, said = read(slot, level), read(slot, LEVEL)
        later = None if week is None or words[0] not in WEEKLY else read(week, LEVEL)
        users = np.array([row.value * (slot.total if unit == "points" else 1.0) for row in said])
        of_values = words[0] != "total" and len(words) > 1 and words[0] in WEEKLY
        codes = quality.show(
            _ends(said), None if later is None else _ends(later), unit=unit, users=users if of_values else None
        )[3]
        if week is not None and (codes == WEEK).any():
            weekly = read(week, level)
            rows = [weekly[i] if code == WEEK else row for i, (row, code) in enumerate(zip(rows, codes, strict=True))]
        shown = [_noted(row, float(code), unit) for row, code in zip(rows, codes, strict=True)]
        return _together(quality, slot, shown, codes, level) if words[0] == "top" else shown

    return show


def _ends(rows: Sequence[Row]) -> list[list[float]]:
    return [[row.value for row in rows], [row.lower for row in rows], [row.upper for row in rows]]


def _noted(row: Row, code: float, unit: Unit) -> Row:
    text = note(code, unit)
    return replace(row, note=text) if code == WEEK or not text else Row(row.label, *[math.nan] * 3, note=text)


def _together(quality: Quality, slot: Distribution, rows: list[Row], codes: Floats, level: float) -> list[Row]:
    """Return the largest values, and all of too few users as one."""
    few = quality.small(slot.pdf * slot.total)
    if not few.any():
        return rows
    kept, everything = [row for row, code in zip(rows, codes, strict=True) if code != SMALL], float(slot.variance.sum())
    pdf, variance = (np.array([vector[few].sum()]) for vector in (slot.pdf, slot.variance))
    sums, said = (Shares.of(pdf, variance, everything, slot.total, each) for each in (level, LEVEL))
    code = float(quality.show((said.value, said.lower, said.upper), unit="points")[3, 0])
    ends = (float(end[0]) for end in (sums.value, sums.lower, sums.upper))
    return [*kept, _noted(Row(quality.label(int(few.sum())), *ends), code, "points")]


def meant(domain: Domain, texts: Sequence[str]) -> object:
    """Return a value of the domain: a text, a number for ordered bins, PART=VALUE … for a product."""
    if isinstance(domain, Product):
        named = dict(text.partition("=")[::2] for text in texts)
        if named.keys() != domain.parts.keys():
            raise OptionError(f"a value of this domain is {' '.join(f'{part}=VALUE' for part in domain.parts)}.")
        return {part: meant(domain.parts[part], [text]) for part, text in named.items()}
    if len(texts) > 1:
        raise OptionError("ask about one value at a time; put it in quotes if it holds spaces.")
    return _number(texts[0], "value") if isinstance(domain, Bins) else texts[0]


def narrowed(release: Release, part: str | None, where: Sequence[str]) -> Distribution:
    """Return the release, or one part of it, among those with some values: PART=VALUE, of one part any of several."""
    distribution: Distribution = release
    if part is not None and not isinstance(release.domain, Product):
        raise OptionError("this question needs a Product domain.")
    if where:
        parts = release.domain.parts if isinstance(release.domain, Product) else {}
        named: dict[str, list[object]] = {}
        for name, _, text in (each.partition("=") for each in where):
            named.setdefault(name, []).append(meant(parts[name], [text]) if name in parts else text)
        distribution = distribution.where(**named)
    if part is None or not isinstance(distribution.domain, Product):
        return distribution
    return distribution.marginal(part)


@dataclass(frozen=True)
class Answered:
    """A question asked of several releases: the answers, and why the others have none."""

    answers: tuple[tuple[Release, list[Row]], ...]
    undefined: tuple[tuple[Release, str], ...]

    @property
    def gaps(self) -> list[str]:
        """A sentence for each stretch of slots without an answer: where the domain has changed, values come and go."""
        slots = [release.slot for release, _ in (*self.answers, *self.undefined)]
        order = {slot: place for place, slot in enumerate(sorted(slots))}
        stretches: list[tuple[Release, Release, str]] = []
        for release, why in self.undefined:
            if stretches and stretches[-1][2] == why and order[release.slot] == order[stretches[-1][1].slot] + 1:
                stretches[-1] = stretches[-1][0], release, why
            else:
                stretches.append((release, release, why))
        return [f"{_stretch(first, last)}: {why}" for first, last, why in stretches]


def _stretch(first: Release, last: Release) -> str:
    one, other = (each.start_text or str(each.slot) for each in (first, last))
    return f"slot {one}" if one == other else f"slots {one} to {other}"


def ask_all(
    ask: Callable[[Distribution, Distribution | None], list[Row]],
    releases: Iterable[tuple[Release, Release | None]],
    part: str | None = None,
    where: Sequence[str] = (),
) -> Answered:
    """Ask releases, or one part of each; some may have another domain. Refused if no release has an answer.

    Each stands beside the mean of its week, if rules ask for one (`dpi.release.quality`).

    What is refused follows from public domains and released numbers.
    """
    answers: list[tuple[Release, list[Row]]] = []
    undefined: list[tuple[Release, OptionError]] = []
    for release, week in releases:
        try:
            later = None if week is None else narrowed(week, part, where)
            answers.append((release, ask(narrowed(release, part, where), later)))
        except OptionError as error:
            undefined.append((release, error))
    if undefined and not answers:
        raise undefined[-1][1]
    return Answered(tuple(answers), tuple((release, str(error)) for release, error in undefined))


def between(question: str, one: Distribution, other: Distribution, level: float = LEVEL) -> list[Row]:
    """Return the answer to a question about two releases."""
    if question not in BETWEEN:
        raise OptionError(f"unknown question {question!r} about two releases: ask {', '.join(BETWEEN)}.")
    return _one(getattr(one, question.replace("-", "_"))(other), level, 0)


def _one(answer: Answer, level: float, least: float = -math.inf, most: float = math.inf) -> list[Row]:
    """One number; its interval is cut where no share or count can be."""
    lower, upper = answer.interval(level)
    ends = float(max(lower, least)), float(min(upper, most))
    return [Row(None, float(answer.value), *ends, known=answer.known)]


def _measured(answer: Answer | None) -> Answer:
    if answer is None:
        raise OptionError(NOT_SURER)
    return answer


def _counted(answer: Answer | None) -> Answer:
    if answer is None:
        raise OptionError(NOT_COUNTED)
    return answer


def _top(distribution: Distribution, k: int, level: float, by: Floats | None = None) -> list[Row]:
    """Return the values that are largest in these shares: its own, or those of another release."""
    if k < 1:
        raise OptionError(f"`top` must be a whole number above 0. Got {k}.")
    lower, upper = distribution.interval(level)
    order = [int(code) for code in np.argsort(-(distribution.pdf if by is None else by), kind="stable")[:k]]
    return [
        Row(distribution.domain.label(c), float(distribution.pdf[c]), float(lower[c]), float(upper[c])) for c in order
    ]


def whole(text: str, name: str) -> int:
    """Return the whole number that a text means."""
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"`{name}` must be a whole number. Got {text!r}.") from None


def _number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise OptionError(f"`{name}` must be a number. Got {text!r}.")
    return value
