import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpi.domain import Bins, Categories, Hashed, Product
from dpi.errors import OptionError, SchemaError

KEY = bytes(range(32))
MAKE = [
    lambda: Categories(["a", "b"]),
    lambda: Categories([80, 443], other=None),
    lambda: Bins([0, 1, 10]),
    lambda: Hashed(7, KEY),
    lambda: Product(x=Categories(["a"]), y=Bins([0.5])),
]
DOMAINS = [make() for make in MAKE]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_labels_are_different_and_complete(domain):
    """Every code has a label of its own, and codes outside are refused."""
    assert len({domain.label(code) for code in range(len(domain))}) == domain.size
    for code in (-1, domain.size):
        with pytest.raises(OptionError, match="`code` must"):
            domain.label(code)


@pytest.mark.parametrize("at", range(len(MAKE)), ids=lambda at: repr(DOMAINS[at]))
def test_a_domain_equals_its_like_and_no_other(at):
    """Equality and digest go by content: another object of the same values is equal, and no other is."""
    domain = MAKE[at]()
    assert [domain == other for other in DOMAINS] == [i == at for i in range(len(MAKE))]
    assert [domain.digest == other.digest for other in DOMAINS] == [i == at for i in range(len(MAKE))]
    assert len(domain.digest) == 64


def test_digests_are_stable():
    """Digests are part of certificates: they must not change between versions."""
    assert Categories(["DE", "FR"], other="elsewhere").digest.startswith("277945ab43598d73")
    assert Bins([0, 1]).digest.startswith("8b014558814d039b")
    assert Hashed(16, KEY).digest.startswith("1f7149f452dcb5d0")
    assert Product(x=Categories(["a"]), y=Bins([0])).digest.startswith("3cfb9b2f5f112180")
    assert Categories(["DE", "FR"]).digest != Categories(["FR", "DE"]).digest
    assert Bins([0, 1]).digest == Bins((0.0, 1.0)).digest
    assert Categories([1, 2]).digest == Categories(["1", "2"]).digest


@given(st.lists(st.one_of(st.text(max_size=5), st.integers(), st.none(), st.floats()), max_size=20))
def test_no_value_is_an_error_and_none_is_learnt(values):
    """Whatever comes is a code of the declared domain: the size never changes."""
    domain = Categories(["a", 1], other="rest")
    codes = domain.encode(values)
    assert codes.size == len(values)
    assert set(codes.tolist()) <= {0, 1, 2}


def test_integers_and_text_are_one_category():
    """A reader that makes text of a column of integers changes nothing."""
    domain = Categories([80, 443])
    for column in ([443, 80, 22], ["443", "80", "22"], np.array([443.0, 80.0, 22.0]), pd.Series([443, 80, 22])):
        assert domain.encode(column).tolist() == [1, 0, 2]


def test_without_other_the_row_is_dropped():
    """Code -1 means: this row, and only this row, does not count."""
    assert Categories(["a"], other=None).encode(["a", "b", None]).tolist() == [0, -1, -1]


def test_many_categories():
    """Large domains encode by a join; integers by a table, or by a search where they lie far apart."""
    size = 70_000
    domain = Categories([f"item {i}" for i in range(size)])
    assert domain.encode(["item 5", f"item {size - 1}", "none"]).tolist() == [5, size - 1, size]
    numbers = Categories(np.arange(size) * 3)
    assert numbers.encode([3, 3 * (size - 1), 4]).tolist() == [1, size - 1, size]
    sparse = Categories(np.arange(size) * 999)
    assert sparse.encode([999, 999 * (size - 1), 4]).tolist() == [1, size - 1, size]
    assert (
        repr(domain)
        == f"Categories(['item 0', 'item 1', 'item 2', …, 'item {size - 1}'] ({size:,} values), other='other')"
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Categories([]), "at least one"),
        (lambda: Categories(["a", "a"]), "must not repeat"),
        (lambda: Categories([1, "1"]), "must not repeat"),
        (lambda: Categories(["a", None]), "none of them missing"),
        (lambda: Categories(["a"], other="a"), "not one of the categories"),
        (lambda: Categories(["a"], other=3), "not one of the categories"),
        (lambda: Bins([]), "at least one"),
        (lambda: Bins([1, 0]), "increasing"),
        (lambda: Bins([0, 0]), "increasing"),
        (lambda: Bins([0, float("nan")]), "finite"),
        (lambda: Bins(["x"]), "numbers"),
        (lambda: Hashed(0, KEY), "`buckets` must"),
        (lambda: Hashed(10, b"short"), "32 random bytes"),
        (lambda: Product(), "domains by name"),
        (lambda: Product(a=3), "domains by name"),
        (lambda: Product(a=Hashed(2**30, KEY), b=Hashed(2**30, KEY)), "fewer than"),
    ],
)
def test_bad_domains_are_refused(make, says):
    """Empty, repeated, unsorted or mistyped: one sentence that says what is expected."""
    with pytest.raises(OptionError, match=says):
        make()


@given(st.lists(st.floats(), max_size=30))
def test_bins_are_half_open(values):
    """Each number lies in the bin whose label says so; NaN lies in none."""
    edges = [-1.0, 0.0, 2.5]
    for value, code in zip(values, Bins(edges).encode(values).tolist(), strict=True):
        expected = -1 if np.isnan(value) else sum(value >= e for e in edges)
        assert code == expected


def test_edges_lie_as_far_apart_as_floats_do():
    """No difference or sum of two edges is infinite, and none is warned of."""
    domain = Bins([-1.7e308, 1.6e308, 1.7e308])
    assert domain.middles.tolist() == pytest.approx([-1.7e308, -0.05e308, 1.65e308, 1.7e308])


def test_bins_refuse_times():
    """A column of times is a wrong schema, not a number."""
    with pytest.raises(SchemaError, match="must hold numbers"):
        Bins([0]).encode(pl.Series([1]).cast(pl.Datetime("us")))


def test_hashed_is_keyed_and_even():
    """Buckets are about equally full, another key mixes differently, and a value always has the same bucket."""
    values = [f"10.0.{i // 256}.{i % 256}" for i in range(4000)]
    codes = Hashed(16, KEY).encode(values)
    assert np.bincount(codes, minlength=16).min() > 150
    assert (codes != Hashed(16, bytes(32)).encode(values)).mean() > 0.8
    assert Hashed(16, KEY).encode(values[::-1]).tolist() == codes.tolist()[::-1]
    assert Hashed(16, KEY).encode([None, "x"])[0] == -1


def test_hashed_values_have_a_longest():
    """One user's endless value costs nothing but its own row."""
    assert Hashed(16, KEY).encode(["x" * 10_000_000, "y"])[0] == -1


def test_hashed_does_not_show_its_key():
    """Neither repr nor digest contains the key."""
    domain = Hashed(16, KEY)
    assert KEY.hex() not in domain.digest
    assert repr(domain) == "Hashed(16, key=…)"


@pytest.mark.parametrize("table", [dict, pl.DataFrame, pd.DataFrame], ids=lambda t: t.__module__)
def test_products_read_any_table(table):
    """Mappings and data frames give the same codes, and codes come apart again."""
    domain = Product(x=Categories(["a", "b"]), y=Bins([0]))
    codes = domain.encode(table({"x": ["b", "c", "a"], "y": [-1.0, 5.0, float("nan")]}))
    assert codes.tolist() == [2, 5, -1]
    assert domain.codes(2) == {"x": 1, "y": 0}
    assert domain.index({"x": "b", "y": -1}) == 2


@pytest.mark.parametrize(
    "table", [{}, {"x": ["a"]}, pl.DataFrame({"x": ["a"]}), pd.DataFrame({"x": ["a"]}), [1], None], ids=repr
)
def test_a_missing_part_is_a_schema_error(table):
    """The error names the column that is missing and nothing that is there."""
    with pytest.raises(SchemaError, match=r"column 'y'|column 'x'"):
        Product(x=Categories(["a"]), y=Bins([0])).encode(table)
