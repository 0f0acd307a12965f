"""Questions to releases as they are written in words, and their answers as rows with intervals.

Everything here is post-processing of released numbers: a question costs no privacy, however many are asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpi.domain import Bins, Domain, Product
from dpi.errors import OptionError
from dpi.mechanism.base import AFTER, WINDOWS
from dpi.release import Release
from dpi.release.interval import LEVEL
from dpi.release.queries import NOT_SURER, Answer, Distribution, one_of

QUESTIONS = (
    "top K, probability VALUE, count [VALUE], total, newcomers, returning, reach, retention 1|7|30 [first], "
    "stickiness 7|30, further-activity, mean, median, quantile Q, range LOW HIGH, sum, spread, correlation PART PART"
)
"""What can be asked of one release."""
BETWEEN = ("l1", "kl", "join-size")
"""What can be asked of two."""
EXAMPLES = {"top": "top 5", "retention": "retention 7", "stickiness": "stickiness 7", "quantile": "quantile 0.9",
            "range": "range 0 10"}  # fmt: skip
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

    def plain(self) -> dict[str, object]:
        """The row as JSON values; an end that is open is null."""
        label = {} if self.label is None else {"label": self.label}
        numbers = {"value": self.value, "lower": self.lower, "upper": self.upper}
        return {**label, **{key: number if math.isfinite(number) else None for key, number in numbers.items()}}


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
    """The question that the words mean, with intervals of a level.

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
            slots = one_of(whole(window, "stickiness"), WINDOWS, "stickiness")
            return lambda d: _one(_measured(d.stickiness(slots)), level)
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


def meant(domain: Domain, texts: Sequence[str]) -> object:
    """A value of the domain: a text, a number for ordered bins, PART=VALUE … for a product."""
    if isinstance(domain, Product):
        named = dict(text.partition("=")[::2] for text in texts)
        if named.keys() != domain.parts.keys():
            raise OptionError(f"a value of this domain is {' '.join(f'{part}=VALUE' for part in domain.parts)}.")
        return {part: meant(domain.parts[part], [text]) for part, text in named.items()}
    if len(texts) > 1:
        raise OptionError("ask about one value at a time; put it in quotes if it holds spaces.")
    return _number(texts[0], "value") if isinstance(domain, Bins) else texts[0]


def narrowed(release: Release, part: str | None, where: Sequence[str]) -> Distribution:
    """The release, or one part of it, among those with some values: PART=VALUE, of one part any of several."""
    found: Distribution = release
    if part is not None and not isinstance(release.domain, Product):
        raise OptionError("this question needs a Product domain.")
    if where:
        parts = release.domain.parts if isinstance(release.domain, Product) else {}
        named: dict[str, list[object]] = {}
        for name, _, text in (each.partition("=") for each in where):
            named.setdefault(name, []).append(meant(parts[name], [text]) if name in parts else text)
        found = found.where(**named)
    return found.marginal(part) if part is not None and isinstance(found.domain, Product) else found


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
        found: list[tuple[Release, Release, str]] = []
        for release, why in self.undefined:
            if found and found[-1][2] == why and order[release.slot] == order[found[-1][1].slot] + 1:
                found[-1] = found[-1][0], release, why
            else:
                found.append((release, release, why))
        return [f"{_stretch(first, last)}: {why}" for first, last, why in found]


def _stretch(first: Release, last: Release) -> str:
    one, other = (each.start_text or str(each.slot) for each in (first, last))
    return f"slot {one}" if one == other else f"slots {one} to {other}"


def ask_all(ask: Callable[[Release], list[Row]], releases: Iterable[Release]) -> Answered:
    """Ask releases, of which some may have another domain; refused if no release has an answer.

    What is refused follows from public domains and released numbers.
    """
    answers: list[tuple[Release, list[Row]]] = []
    undefined: list[tuple[Release, OptionError]] = []
    for release in releases:
        try:
            answers.append((release, ask(release)))
        except OptionError as error:
            undefined.append((release, error))
    if undefined and not answers:
        raise undefined[-1][1]
    return Answered(tuple(answers), tuple((release, str(error)) for release, error in undefined))


def between(question: str, one: Distribution, other: Distribution, level: float = LEVEL) -> list[Row]:
    """The answer to a question about two releases."""
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


def _top(found: Distribution, k: int, level: float) -> list[Row]:
    if k < 1:
        raise OptionError(f"`top` must be a whole number above 0. Got {k}.")
    lower, upper = found.interval(level)
    order = [int(code) for code in np.argsort(-found.pdf, kind="stable")[:k]]
    return [Row(found.domain.label(c), float(found.pdf[c]), float(lower[c]), float(upper[c])) for c in order]


def whole(text: str, name: str) -> int:
    """The whole number that a text means."""
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
