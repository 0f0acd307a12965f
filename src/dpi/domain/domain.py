"""What values there are: public, declared before any data is seen, and never learnt from it.

A domain turns a column of values into codes 0 … size - 1. A value outside the domain goes to the declared `other`
bin, or is dropped (code -1) if none is declared; it never raises, and it is never named.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from dpi.domain.short_texts import ShortTexts
from dpi.errors import OptionError, SchemaError
from dpi.events.columns import canonical, numbers, whole
from dpi.events.few import few_texts
from dpi.events.identity import check_key, digests, short
from dpi.exact.integers import Integers

if TYPE_CHECKING:
    import polars as pl

OUTSIDE = -1
"""The code of a value that belongs to no bin: the row is dropped, by itself."""
_UNLISTED = -2
"""No code: of a text that is no category as it stands."""
_MANY = 1 << 16
"""Categories up to which other forms of their list are held beside it."""


class Domain(ABC):
    """A finite, public set of bins."""

    size: int

    @abstractmethod
    def encode(self, column: object) -> Integers:
        """Codes of a column of values; `OUTSIDE` where a value belongs to no bin."""

    @abstractmethod
    def label(self, code: int) -> str:
        """The name of a bin."""

    @abstractmethod
    def _description(self) -> Iterable[object]:
        """What the domain is, as JSON values: the input of the digest."""

    @cached_property
    def digest(self) -> str:
        """A stable fingerprint of the domain for certificates: equal domains have equal digests."""
        state = hashlib.blake2b(digest_size=32, person=b"dpi domain")
        for item in (type(self).__name__, *self._description()):
            state.update(json.dumps(item, ensure_ascii=False, sort_keys=True).encode() + b"\n")
        return state.hexdigest()

    def index(self, value: object) -> int:
        """The bin that one value belongs to; `OUTSIDE` if none."""
        return int(self.encode([value])[0])

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _repr_html_(self) -> str:
        from dpi.domain.card import domain_card

        return domain_card(self)


class Categories(Domain):
    """A list of values; whatever is not on it goes to the bin `other` (or is dropped if `other` is None).

    Values are compared by their canonical text, so that the integer 80 and the text "80" are one category, and so is
    "80.0", unless that is a category of its own.

    >>> domain = Categories(["DE", "FR", "IT"], other="elsewhere")
    >>> domain
    Categories(['DE', 'FR', 'IT'], other='elsewhere')
    >>> domain.encode(["FR", "XX", None]).tolist()
    [1, 3, 3]
    """

    def __init__(self, values: Iterable[object], other: str | None = "other") -> None:
        import polars as pl

        texts = canonical(values, "values", exact=False)
        if texts.len() == 0:
            raise OptionError("`values` must name at least one category.")
        self._texts = texts.cast(pl.String)
        if self._texts.has_nulls():
            raise OptionError("`values` must be integers or texts, none of them missing.")
        if self._texts.n_unique() < self._texts.len():
            twice = self._texts.filter(self._texts.is_duplicated())[0]
            raise OptionError(f"`values` must not repeat a category. Got {twice!r} more than once.")
        if other is not None and (not isinstance(other, str) or other in self._texts):
            raise OptionError("`other` must be a name that is not one of the categories, or None.")
        self.other = other
        self.size = self._texts.len() + (other is not None)

    @property
    def values(self) -> list[str]:
        """The listed categories, without `other`."""
        return self._texts.to_list()

    @cached_property
    def _lookup(self) -> pl.DataFrame:
        """Code by text: the categories as they were declared, and the whole numbers that some of them write."""
        import polars as pl

        codes = np.arange(self._texts.len())
        declared = pl.DataFrame({"value": self._texts, "code": codes})
        written = pl.DataFrame({"value": whole(self._texts), "code": codes})
        return pl.concat([declared, written]).unique("value", keep="first", maintain_order=True)

    @cached_property
    def _integers(self) -> tuple[Integers, Integers]:
        """The categories that are integers, sorted, and their codes."""
        import polars as pl

        texts = self._lookup["value"]
        integers = texts.cast(pl.Int64, strict=False)
        integers = integers.set((integers.cast(pl.String) != texts).fill_null(False), None)
        codes = self._lookup["code"].to_numpy()[integers.is_not_null().to_numpy()]
        keys = integers.drop_nulls().to_numpy()
        order = np.argsort(keys)
        return keys[order], codes[order]

    @cached_property
    def _table(self) -> Integers | None:
        """Code by integer - smallest integer, where the integers lie close together: a look-up instead of a search."""
        keys, codes = self._integers
        span = int(keys[-1]) - int(keys[0]) + 1 if keys.size else 0
        if not 0 < span <= max(1 << 17, 8 * keys.size):
            return None
        table = np.full(span + 1, self._outside, dtype=np.int64)  # the last cell is for what lies beyond
        table[keys - keys[0]] = codes
        return table

    @property
    def _outside(self) -> int:
        return OUTSIDE if self.other is None else self.size - 1

    @cached_property
    def _codes(self) -> dict[str, int]:
        """The same as a dictionary, for few rows."""
        return dict(zip(self._lookup["value"].to_list(), self._lookup["code"].to_list(), strict=True))

    @cached_property
    def _short(self) -> ShortTexts:
        """The short ones of them as numbers, for a column of numpy; none of a list that is too long to hold twice."""
        return ShortTexts.of(self._codes if self._lookup.height <= _MANY else {})

    @cached_property
    def _listing(self) -> pl.DataType:
        """The same as a type of texts, for many."""
        import polars as pl

        return pl.Enum(self._lookup["value"])

    def encode(self, column: object) -> Integers:
        """Codes of a column of values."""
        codes = self._short.find(column, _UNLISTED)
        if codes is not None:
            unlisted = np.flatnonzero(codes == _UNLISTED)
            if unlisted.size:
                codes[unlisted] = self._encode(np.asarray(column)[unlisted])
            return codes
        rows = few_texts(column)
        if rows is None:
            return self._encode(column)
        codes = np.fromiter(map(self._codes.get, rows, repeat(_UNLISTED)), np.int64, len(rows))
        unlisted = np.flatnonzero(codes == _UNLISTED)
        if unlisted.size:
            codes[unlisted] = self._encode([rows[row] for row in unlisted])
        return codes

    def _encode(self, column: object) -> Integers:
        import polars as pl

        texts = canonical(column, "value", exact=False)
        if texts.dtype == pl.Int64:
            return self._encode_integers(texts)
        codes = self._listed(texts)
        other = texts.set(codes.is_not_null(), None)
        if (written := whole(other)) is not other:
            codes = self._listed(written).zip_with(codes.is_null(), codes)
        return codes.cast(pl.Int64).fill_null(self._outside).to_numpy()

    def _listed(self, texts: pl.Series) -> pl.Series:
        """Codes of the texts, missing where one is on no list."""
        known = self._lookup
        if known.height <= _MANY:
            at = texts.cast(self._listing, strict=False).to_physical()
            return at if known.height == self._texts.len() else known["code"].gather(at)
        frame = texts.alias("value").to_frame()
        return frame.join(known, on="value", how="left", maintain_order="left")["code"]

    def _encode_integers(self, column: pl.Series) -> Integers:
        keys, codes = self._integers
        known = column.fill_null(0).to_numpy()
        if self._table is not None:
            # As unsigned numbers, what lies below the smallest integer lies beyond the largest: one comparison.
            steps = (known - keys[0]).view(np.uint64)
            coded: Integers = self._table[np.minimum(steps, np.uint64(self._table.size - 1)).view(np.int64)]
        elif keys.size:
            at = np.minimum(np.searchsorted(keys, known), keys.size - 1)
            coded = np.where(keys[at] == known, codes[at], self._outside)
        else:
            coded = np.full(known.size, self._outside, dtype=np.int64)
        if column.has_nulls():
            coded[column.is_null().to_numpy()] = self._outside
        return coded

    def label(self, code: int) -> str:
        """The category, or the name of `other`."""
        if not 0 <= code < self.size:
            raise OptionError(f"`code` must lie between 0 and {self.size - 1}.")
        return str(self._texts[code]) if code < self._texts.len() else str(self.other)

    def _description(self) -> Iterable[object]:
        yield {"other": self.other}
        yield from self._texts

    def __repr__(self) -> str:
        values = self._texts.to_list() if self._texts.len() <= 6 else [*self._texts[:3], ..., self._texts[-1]]
        listed = ", ".join("…" if v is ... else repr(v) for v in values)
        count = "" if self._texts.len() <= 6 else f" ({self._texts.len():,} values)"
        return f"Categories([{listed}]{count}, other={self.other!r})"


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
        if self.edges.size == 0 or not np.isfinite(self.edges).all() or (np.diff(self.edges) <= 0).any():
            raise OptionError("`edges` must be finite, increasing and different, and at least one.")
        self.edges.setflags(write=False)
        self.size = self.edges.size + 1

    def encode(self, column: object) -> Integers:
        """Codes of a column of numbers."""
        values = numbers(column, "value")
        return np.where(np.isnan(values), OUTSIDE, np.searchsorted(self.edges, values, side="right"))

    def label(self, code: int) -> str:
        """The bin's interval."""
        if not 0 <= code < self.size:
            raise OptionError(f"`code` must lie between 0 and {self.size - 1}.")
        if code == 0:
            return f"< {self.edges[0]:g}"
        if code == self.edges.size:
            return f"≥ {self.edges[-1]:g}"
        return f"[{self.edges[code - 1]:g}, {self.edges[code]:g})"

    def _description(self) -> Iterable[object]:
        yield from self.edges.tolist()

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
        """The domain as those see it who only read releases: it has labels and a digest, and encodes nothing."""
        domain = cls(buckets, bytes(32))
        domain._key, domain.fingerprint = None, fingerprint
        return domain

    @property
    def keys(self) -> dict[str, bytes]:
        """The key, by its fingerprint; none, if the domain was opened without."""
        return {} if self._key is None else {self.fingerprint: self._key}

    def encode(self, column: object) -> Integers:
        """Codes of a column of values; each different value is hashed once."""
        if self._key is None:
            raise OptionError("this hashed domain was opened without its key: it can name buckets, not find them.")
        texts = whole(short(canonical(column, "value", exact=False))).alias("value")
        different = texts.drop_nulls().unique()
        codes = (digests(different, self._key)[:, 0] % np.uint64(self.size)).astype(np.int64)
        found = texts.to_frame().join(
            different.to_frame().with_columns(_series("code", codes)), on="value", how="left", maintain_order="left"
        )["code"]
        return found.fill_null(OUTSIDE).to_numpy()

    def label(self, code: int) -> str:
        """The bucket's number."""
        if not 0 <= code < self.size:
            raise OptionError(f"`code` must lie between 0 and {self.size - 1}.")
        return f"#{code}"

    def _description(self) -> Iterable[object]:
        yield self.size
        yield self.fingerprint

    def __repr__(self) -> str:
        return f"Hashed({self.size}, key=…)"


class Product(Domain):
    """Pairs, triples … of values: every combination is a bin. A row with a part outside its domain is dropped.

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
        self.parts = parts
        self.size = 1
        for part in parts.values():
            self.size *= part.size
        if self.size >= 1 << 40:
            raise OptionError("`Product` must have fewer than 2^40 combinations.")

    def encode(self, column: object) -> Integers:
        """Codes of a table: a mapping or a data frame with one column for each part."""
        code: Integers | None = None
        for name, part in self.parts.items():
            here = part.encode(_column(column, name))
            if code is None:
                code = here
            elif here.size != code.size:
                raise SchemaError("`value` must have columns of the same length.")
            else:
                code = np.where((code < 0) | (here < 0), OUTSIDE, code * part.size + here)
        assert code is not None  # noqa: S101 - a product has at least one part
        return code

    def index(self, value: object) -> int:
        """The bin of one combination, given as a mapping."""
        if not isinstance(value, Mapping):
            raise OptionError("`value` must be a mapping from each part's name to its value.")
        return int(self.encode({name: [item] for name, item in value.items()})[0])

    def codes(self, code: int) -> dict[str, int]:
        """The parts' own codes."""
        result = {}
        for name, part in reversed(self.parts.items()):
            code, result[name] = divmod(code, part.size)
        return dict(reversed(result.items()))

    def label(self, code: int) -> str:
        """The combination's parts."""
        if not 0 <= code < self.size:
            raise OptionError(f"`code` must lie between 0 and {self.size - 1}.")
        return ", ".join(f"{name}={self.parts[name].label(c)}" for name, c in self.codes(code).items())

    def _description(self) -> Iterable[object]:
        yield {name: part.digest for name, part in self.parts.items()}
        yield list(self.parts)

    def __repr__(self) -> str:
        return f"Product({', '.join(f'{name}={part!r}' for name, part in self.parts.items())})"


def _series(name: str, values: Integers) -> pl.Series:
    import polars as pl

    return pl.Series(name, values)


def _column(table: object, name: str) -> object:
    import polars as pl

    try:
        return table[name]  # type: ignore[index]
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, pl.exceptions.ColumnNotFoundError):
        raise SchemaError(f"`value` must be a table with a column {name!r}.") from None
