"""What values there are: public, declared before any data is seen, and never learnt from it.

A domain turns a column of values into codes 0 … size - 1. A value outside the domain goes to the declared `other`
bin, or is dropped (code -1) if none is declared; it never raises, and it is never named.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpi.display.card import card, table
from dpi.display.markup import Html
from dpi.errors import OptionError, SchemaError
from dpi.events.columns import canonical, numbers, short, whole
from dpi.events.identity import check_key, digests
from dpi.exact.integers import Integers

OUTSIDE = -1
"""The code of a value that belongs to no bin: the row is dropped, by itself."""
SHOWN = 12
"""How many bins a description names; of more than that the last is named too."""


class Domain(ABC):
    """A finite, public set of bins."""

    size: int
    outside: int = OUTSIDE
    """The declared bin of values that belong to no other; `OUTSIDE` if they are dropped."""
    grows: ClassVar[bool] = False
    """Whether a stream takes another one of its kind when releases give reason to; rows are then the same for both."""
    summed: ClassVar[bool] = False
    """Whether a user is in the one bin of the sum of their values (`Amounts`), not in the bin of each value."""

    @abstractmethod
    def encode(self, column: object) -> Integers:
        """Return the codes of a column of values; `OUTSIDE` where a value belongs to no bin."""

    @abstractmethod
    def label(self, code: int) -> str:
        """Return the name of a bin."""

    @abstractmethod
    def _description(self) -> Iterable[object]:
        """Say what the domain is, as JSON values: the input of the digest."""

    def _facts(self) -> dict[str, str]:
        """Say more than the number of bins, by name; a key is never among it."""
        return {}

    @cached_property
    def digest(self) -> str:
        """A stable fingerprint of the domain for certificates: equal domains have equal digests."""
        state = hashlib.blake2b(digest_size=32, person=b"dpi domain")
        for item in (type(self).__name__, *self._description()):
            state.update(json.dumps(item, ensure_ascii=False, sort_keys=True).encode() + b"\n")
        return state.hexdigest()

    @property
    def facts(self) -> dict[str, str]:
        """What there is to say about the domain, by name: all of it is public."""
        return {"bins": f"{self.size:,}", **self._facts()}

    @property
    def summary(self) -> str:
        """The same facts as one line of text."""
        told = _words(self._facts())
        return f"{self.size:,} bins" + (f": {told}" if told else "")

    @property
    def row_codes(self) -> int:
        """How many codes there are in rows of events: the bins, unless values are summed."""
        return self.size

    def encode_rows(self, column: object) -> tuple[Integers, Integers]:
        """Return the code of each row of events, and the number that it stands for: one, unless values are summed."""
        codes = self.encode(column)
        return codes, np.broadcast_to(np.int64(1), codes.shape)  # takes no memory

    def same_rows(self, other: Domain) -> bool:
        """Tell whether rows of events are the same for both."""
        return self == other

    def index(self, value: object) -> int:
        """Return the bin that one value belongs to; `OUTSIDE` if none."""
        return int(self.encode([value])[0])

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _check_code(self, code: int) -> None:
        if not 0 <= code < self.size:
            raise OptionError(f"`code` must lie between 0 and {self.size - 1}.")

    def _some(self, count: int) -> str:
        """Name the first bins and the last of them."""
        if count <= SHOWN:
            return ", ".join(self.label(code) for code in range(count))
        return ", ".join([*(self.label(code) for code in range(SHOWN - 1)), "…", self.label(count - 1)])

    def _repr_html_(self) -> str:
        return card(type(self).__name__, self.facts, *self._tables())

    def _tables(self) -> list[Html]:
        return []


def _words(facts: Mapping[str, str]) -> str:
    return "; ".join(text if place == 0 else f"{what}: {text}" for place, (what, text) in enumerate(facts.items()))


class Bins(Domain):
    """Ordered bins between increasing edges: [e₀, e₁), [e₁, e₂) …, with a bin below e₀ and a bin from the last edge on.

    A value that is not a number is dropped.

    >>> domain = Bins([0, 10, 100])
    >>> domain.encode([-1, 0, 10, 1e9, float("nan")]).tolist()
    [0, 1, 2, 3, -1]
    >>> [domain.label(code) for code in range(domain.size)]
    ['< 0', '[0, 10)', '[10, 100)', '≥ 100']
    """

    def __init__(self, edges: Sequence[float] | Iterable[float]) -> None:
        try:
            self.edges = np.array(list(edges), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise OptionError("`edges` must be numbers.") from None
        if self.edges.size == 0 or not np.isfinite(self.edges).all() or (self.edges[1:] <= self.edges[:-1]).any():
            raise OptionError("`edges` must be finite, increasing and different, and at least one.")
        self.edges.setflags(write=False)
        self.size = self.edges.size + 1

    def encode(self, column: object) -> Integers:
        """Return the codes of a column of numbers."""
        values = numbers(column, "value")
        return np.where(np.isnan(values), OUTSIDE, np.searchsorted(self.edges, values, side="right"))

    @property
    def middles(self) -> npt.NDArray[np.float64]:
        """The middle of each bin; the outer bins at their edge."""
        inner = self.edges[:-1] / 2 + self.edges[1:] / 2  # halves: of two large edges the sum is infinite
        return np.concatenate((self.edges[:1], inner, self.edges[-1:]))

    def likely(self, pdf: npt.NDArray[np.float64], variance: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return where numbers of each bin are taken to be, on average, by what was released of all bins."""
        return self.middles

    def label(self, code: int) -> str:
        """Return the bin's interval."""
        self._check_code(code)
        if code == 0:
            return f"< {self.edges[0]:g}"
        if code == self.edges.size:
            return f"≥ {self.edges[-1]:g}"
        return f"[{self.edges[code - 1]:g}, {self.edges[code]:g})"

    def _description(self) -> Iterable[object]:
        yield from self.edges.tolist()

    def _facts(self) -> dict[str, str]:
        return {"in order": self._some(self.size)}

    def __repr__(self) -> str:
        edges = [f"{e:g}" for e in self.edges]
        listed = ", ".join(edges if len(edges) <= 6 else [*edges[:3], "…", edges[-1]])
        return f"Bins([{listed}])" if len(edges) <= 6 else f"Bins([{listed}] ({len(edges):,} edges))"


class Hashed(Domain):
    """An open vocabulary (addresses, URLs) hashed into a fixed number of buckets with a key of its own.

    The key is 32 bytes; it is not printed, and the digest holds a fingerprint of it. Missing values, and
    values of more than 1,024 bytes, are dropped.

    >>> domain = Hashed(1000, key=bytes(32))
    >>> domain
    Hashed(1000, key=…)
    >>> domain.index("10.0.0.1") == domain.index("10.0.0.1")
    True
    """

    def __init__(self, buckets: int, key: bytes) -> None:
        if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets < 1 << 40:
            raise OptionError(f"`buckets` must be a whole number from 1 to 2^40 - 1. Got {buckets!r}.")
        self.size = buckets
        self._key: bytes | None = check_key(key)
        self.fingerprint = hashlib.blake2b(key, digest_size=16, person=b"dpi hashed").hexdigest()

    @classmethod
    def without_key(cls, buckets: int, fingerprint: str) -> Hashed:
        """Return the domain as readers of releases see it: it has labels and a digest, and encodes nothing."""
        domain = cls(buckets, bytes(32))
        domain._key, domain.fingerprint = None, fingerprint
        return domain

    @property
    def keys(self) -> dict[str, bytes]:
        """The key, by its fingerprint; none, if the domain was opened without."""
        return {} if self._key is None else {self.fingerprint: self._key}

    def encode(self, column: object) -> Integers:
        """Return the codes of a column of values; each different value is hashed once."""
        import polars as pl

        if self._key is None:
            raise OptionError("this hashed domain was opened without its key: it can name buckets, not find them.")
        texts = whole(short(canonical(column, "value", exact=False))).alias("value")
        different = texts.drop_nulls().unique()
        codes = (digests(different, self._key)[:, 0] % np.uint64(self.size)).astype(np.int64)
        known = pl.DataFrame({"value": different, "code": codes})
        by_row = texts.to_frame().join(known, on="value", how="left", maintain_order="left")["code"]
        return by_row.fill_null(OUTSIDE).to_numpy()

    def label(self, code: int) -> str:
        """Return the bucket's number."""
        self._check_code(code)
        return f"#{code}"

    def _description(self) -> Iterable[object]:
        return [self.size, self.fingerprint]

    def _facts(self) -> dict[str, str]:
        return {"buckets": self._some(self.size), "fingerprint of the key": self.fingerprint}

    def __repr__(self) -> str:
        return f"Hashed({self.size}, key=…)"


class Product(Domain):
    """Pairs, triples … of values: every combination is a bin. A row with a part outside its domain is dropped.

    >>> from dpi.domain import Categories
    >>> domain = Product(country=Categories(["DE", "FR"]), age=Bins([18, 65]))
    >>> domain.size
    9
    >>> domain.encode({"country": ["FR"], "age": [30]}).tolist()
    [4]
    >>> domain.label(4)
    'country=FR, age=[18, 65)'
    """

    def __init__(self, **parts: Domain) -> None:
        if not parts or not all(isinstance(part, Domain) for part in parts.values()):
            raise OptionError("`Product` needs domains by name, for example Product(a=Categories(…), b=Bins(…)).")
        if any(part.summed for part in parts.values()):
            raise OptionError(
                "amounts are summed by user, so they are no part of a Product: give them their own stream."
            )
        self.parts = parts
        self.size = math.prod(self.shape)
        if self.size >= 1 << 40:
            raise OptionError("`Product` must have fewer than 2^40 combinations.")

    def encode(self, column: object) -> Integers:
        """Return the codes of a table: a mapping or a data frame with one column for each part."""
        code, *others = (part.encode(column_of(column, name)) for name, part in self.parts.items())
        if any(other.size != code.size for other in others):
            raise SchemaError("`value` must have columns of the same length.")
        for part, here in zip([*self.parts.values()][1:], others, strict=True):
            code = np.where((code < 0) | (here < 0), OUTSIDE, code * part.size + here)
        return code

    def index(self, value: object) -> int:
        """Return the bin of one combination, given as a mapping."""
        if not isinstance(value, Mapping):
            raise OptionError("`value` must be a mapping from each part's name to its value.")
        return int(self.encode({name: [item] for name, item in value.items()})[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The parts' sizes: a vector over all combinations is an array of that shape."""
        return tuple(part.size for part in self.parts.values())

    def codes(self, code: Integers | int) -> dict[str, Integers]:
        """Return the parts' own codes."""
        return dict(zip(self.parts, np.unravel_index(code, self.shape), strict=True))

    def label(self, code: int) -> str:
        """Return the combination's parts."""
        self._check_code(code)
        return ", ".join(f"{name}={self.parts[name].label(int(c))}" for name, c in self.codes(code).items())

    def _description(self) -> Iterable[object]:
        return [{name: part.digest for name, part in self.parts.items()}, list(self.parts)]

    def _facts(self) -> dict[str, str]:
        return {"parts": " × ".join(f"{name} ({part.size:,})" for name, part in self.parts.items())}

    def _tables(self) -> list[Html]:
        rows = [[name, type(p).__name__, f"{p.size:,}", _words(p._facts())] for name, p in self.parts.items()]
        return [table(["part", "kind", "bins", ""], rows, left=4)]

    def __repr__(self) -> str:
        return f"Product({', '.join(f'{name}={part!r}' for name, part in self.parts.items())})"


def column_of(table: object, name: str) -> object:
    """Return a column of a table of any kind."""
    import polars as pl

    try:
        return table[name]  # type: ignore[index]
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, pl.exceptions.ColumnNotFoundError):
        raise SchemaError(f"`value` must be a table with a column {name!r}.") from None
