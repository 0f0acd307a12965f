"""Which bins of a domain are drawn, and in which order. Knows public domains and estimates only.

The bin `other` holds what nobody listed. It is often larger than all the rest, and would flatten every scale, so that
it is drawn only where it is asked for by name; elsewhere its share is told in words. Ordered bins keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt

from dpi.domain import OUTSIDE, Bins, Categories, Domain, Hashed, Product
from dpi.errors import OptionError
from dpi.exact.integers import Integers

Floats = npt.NDArray[np.float64]
COMPARED = 1_000
"""Values of a domain at most, for the nearest one to be looked for: of so many it takes about 0.05 s."""
Values = int | Sequence[object] | Mapping[str, int | Sequence[object]]
"""The k largest, or the values named, or the same for parts of a product by their names."""


def choose(domain: Domain, weight: Floats, values: Values) -> Integers:
    """Return the bins that are drawn, in their order: that of an ordered domain, or as named, or by falling weight.

    >>> pages = Categories(["home", "cart", "help"])
    >>> choose(pages, np.array([0.1, 0.2, 0.0, 0.7]), 2).tolist(), choose(pages, np.ones(4), ["help", "other"]).tolist()
    ([1, 0], [2, 3])
    """
    if isinstance(values, Mapping):
        codes = _combinations(domain, weight, values)
    elif isinstance(values, int):
        codes = _largest(domain, weight, values)
    else:
        codes = _named(domain, values)
    return np.sort(codes) if isinstance(domain, Bins) else codes


def part_values(values: Values, part: str) -> int | Sequence[object] | None:
    """Return what is chosen of one part of a product; None if nothing is."""
    if isinstance(values, Mapping):
        return values.get(part)
    return values if isinstance(values, int) else None


def catch_all(domain: Domain) -> npt.NDArray[np.bool_]:
    """Tell which bins are the declared `other`, or have a part that is.

    >>> catch_all(Product(country=Categories(["DE"]), age=Bins([18]))).tolist()
    [False, False, True, True]
    """
    if isinstance(domain, Product):
        return np.asarray(reduce(np.logical_or.outer, map(catch_all, domain.parts.values()))).ravel()
    return np.isin(np.arange(domain.size), domain.outside)


def short_label(domain: Domain, code: int) -> str:
    """Return the bin's name; of a product its parts' labels alone, where what the parts are is said beside it."""
    if not isinstance(domain, Product):
        return domain.label(code)
    return " · ".join(domain.parts[name].label(int(part)) for name, part in domain.codes(code).items())


def values_from_text(domain: Domain, texts: Iterable[str]) -> Values:
    """Return what words of a command line choose: values with commas between, or PART=VALUE,VALUE of a product.

    A text that is a value of the domain as it stands is not taken apart.

    >>> values_from_text(Categories(["DE", "FR", "a,b"]), ["DE,FR", "a,b"])
    ['DE', 'FR', 'a,b']
    >>> values_from_text(Product(country=Categories(["DE", "FR"]), age=Bins([18])), ["country=DE,FR"])
    {'country': ['DE', 'FR']}
    """
    if not isinstance(domain, Product):
        return [value for text in texts for value in _apart(domain, text)]
    chosen: dict[str, list[object]] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        chosen.setdefault(name, []).extend(_apart(check_part(domain, name), rest))
    return {**chosen}


def _apart(domain: Domain, text: str) -> list[object]:
    try:
        find_bin(domain, text)
    except OptionError:
        return list[object](text.split(","))
    return [text]


def find_bin(domain: Domain, value: object) -> int:
    """Return the bin of a value, or of a text that is a bin's label or, in an ordered domain, a number."""
    if isinstance(value, str) and isinstance(domain, Bins):
        labels = [code for code in range(domain.size) if domain.label(code) == value]
        if labels:
            return labels[0]
        try:
            value = float(value)
        except ValueError:
            raise OptionError(f"{value!r} is no number and no bin of the domain.") from None
    if isinstance(domain, Hashed) and isinstance(value, str) and value[:1] == "#" and value[1:].isdecimal():
        if int(value[1:]) < domain.size:
            return int(value[1:])
        raise OptionError(f"{value!r} is not in the domain.")
    return bin_of(domain, value)


def _largest(domain: Domain, weight: Floats, count: int) -> Integers:
    if isinstance(count, bool) or count < 1:
        raise OptionError(f"`values` must be a whole number above 0, or a list of values. Got {count!r}.")
    listed = np.flatnonzero(~catch_all(domain))
    return listed[np.argsort(-weight[listed], kind="stable")[:count]]


def _named(domain: Domain, values: Sequence[object]) -> Integers:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not len(values):
        raise OptionError("`values` must be a whole number, or a list of at least one value of the domain.")
    codes = [find_bin(domain, value) for value in values]
    return np.array(list(dict.fromkeys(codes)), dtype=np.int64)


def _combinations(domain: Domain, weight: Floats, values: Mapping[str, int | Sequence[object]]) -> Integers:
    if not isinstance(domain, Product):
        raise OptionError("`values` by parts are for a product domain: give a list of values.")
    for name in values:
        check_part(domain, name)
    chosen = np.ones(domain.size, dtype=np.bool_)
    for name, codes in domain.codes(np.arange(domain.size)).items():
        part = domain.parts[name]
        inside = ~catch_all(part)
        if name in values:
            alone = np.bincount(codes, weight, part.size).astype(np.float64)
            inside = np.isin(np.arange(part.size), choose(part, alone, values[name]))
        chosen &= inside[codes]
    bins = np.flatnonzero(chosen)
    return bins[np.argsort(-weight[bins], kind="stable")]


def check_part(domain: Product, name: str) -> Domain:
    """Return a part of a product, or refuse a name that is none."""
    if name not in domain.parts:
        raise OptionError(f"{name!r} is not a part of the domain; its parts are {', '.join(domain.parts)}.")
    return domain.parts[name]


def bin_of(domain: Domain, value: object) -> int:
    """Return the bin of a value that an analyst asks for; one that is not in the domain is refused, not `other`."""
    if isinstance(domain, Categories) and domain.other is not None and value == domain.other:
        return domain.outside
    if isinstance(domain, Product) and isinstance(value, Mapping):
        for name in domain.parts.keys() & value.keys():
            bin_of(domain.parts[name], value[name])
    code = domain.index(value)
    if code in (OUTSIDE, domain.outside):
        raise OptionError(f"{value!r} is not in the domain{_nearest(domain, str(value))}")
    return code


@lru_cache(maxsize=256)  # one question is asked of many releases
def _nearest(domain: Domain, text: str) -> str:
    """Return how a sentence about an unknown value ends: with the value of the domain that is nearest, if one is near.

    >>> _nearest(Categories(["home", "cart"]), "Hom"), _nearest(Categories(["home", "cart"]), "help")
    (": did you mean 'home'?", '.')
    """
    if not isinstance(domain, Categories) or domain.size > COMPARED:
        return "."
    labels = map(domain.label, range(domain.size))
    folded = {label.casefold(): label for label in labels}
    close = get_close_matches(text.casefold(), folded, n=1)
    return f": did you mean {folded[close[0]]!r}?" if close else "."


def choose_sets(
    domain: Domain, weight: Floats, values: int | Sequence[object] | None, bound: int
) -> tuple[list[Integers], tuple[str, ...]]:
    """Return sets of bins, each drawn as one, and their names: single bins, or neighbours of an ordered domain.

    A number of values is how many there are at most; of an ordered domain all is drawn in so many sets.

    >>> sets, labels = choose_sets(Bins(range(7)), np.ones(8), None, 5)
    >>> [each.tolist() for each in sets], labels
    ([[0], [1, 2], [3, 4], [5, 6], [7]], ('< 0', '[0, 2)', '[2, 4)', '[4, 6)', '≥ 6'))
    """
    if isinstance(domain, Bins) and (values is None or isinstance(values, int)):
        sets = neighbours(domain, bound if values is None else max(values, 3))
        return sets, tuple(span(domain, int(codes[0]), int(codes[-1])) for codes in sets)
    codes = choose(domain, weight, bound if values is None else values)
    return [codes[place : place + 1] for place in range(codes.size)], tuple(domain.label(int(code)) for code in codes)


def neighbours(domain: Bins, bound: int) -> list[Integers]:
    """Return all bins in order, in at most `bound` (above 2) sets: the two without an end, and equal runs between.

    Equally many, so that bins of one width make sets of one width, whose shares can be compared; the last may be less.
    """
    size = domain.size
    if size <= bound:
        return [np.array([code]) for code in range(size)]
    step = -(-(size - 2) // (bound - 2))
    inner = [np.arange(first, min(first + step, size - 1)) for first in range(1, size - 1, step)]
    return [np.array([0]), *inner, np.array([size - 1])]


def span(domain: Bins, first: int, last: int) -> str:
    """Return what neighbouring bins are called together.

    >>> span(Bins([0, 1, 2]), 0, 0), span(Bins([0, 1, 2]), 1, 2)
    ('< 0', '[0, 2)')
    """
    return domain.label(first) if first == last else f"[{domain.edges[first - 1]:g}, {domain.edges[last]:g})"
