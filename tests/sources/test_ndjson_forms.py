from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dpi.sources.ndjson import Ndjson

SCALARS = st.one_of(
    st.text(max_size=4),
    st.integers(),
    st.integers(0, 20),
    st.floats(),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=1),
    st.sampled_from(["a", "7.0", '"', "\\", "é", "\x7f", "\u2028", " x "]),
)
ROWS = st.fixed_dictionaries(
    {"user": st.sampled_from(["ada", "bob", 7]), "value": st.sampled_from(["x", 1])}, optional={"more": st.just(1.5)}
)
LINES = st.one_of(
    ROWS.map(json.dumps),
    st.dictionaries(st.sampled_from(["user", "value", "more", "a b"]), SCALARS, max_size=3).map(
        lambda row: json.dumps(row, ensure_ascii=False)
    ),
    st.sampled_from([
        "", "{}", "[]", "null", '{"user": -0, "value": 00}', '{"user": -0, "value": 1}', '{"user":"a","value":"b"} ',
        '{"user": "a", "value": "b"', '{"user": "a\tb", "value": 1}', '{"value": 1, "user": 2}',
        '{"user": 1, "user": 2}',
        '{"user": "a", "value": "b"}{}', '{"user": "a", "value": tru}', '\ufeff{"user": "a", "value": "b"}',
        '{"user": 123456789012345678901234567890, "value": 1e400}', '{"user" : "a" ,\t"value":12}',
        '{"user": "a",, "value": 1}',
    ]),
)  # fmt: skip


@given(lines=st.lists(LINES.map(lambda line: line.replace("\n", "")), max_size=12))
def test_a_line_is_read_the_same_way_whatever_stands_beside_it(lines: list[str]) -> None:
    """The quick way, by the form of a line before, gives what each line gives by itself, in the order of the lines."""
    parser = Ndjson("user", ["user", "value"])
    data = [line.encode("utf-8", "surrogatepass") + b"\n" for line in lines]
    alone = [row for line in data for row in parser.parse(b"[]\n" * 8 + line).rows()]
    assert parser.parse(b"".join(data)).rows() == alone
    first = b'{"user": "ada", "value": "x"}\n'
    assert parser.parse(first + b"".join(data)).rows() == [("ada", "x"), *alone]


def test_a_line_with_very_many_fields_changes_nothing_for_others() -> None:
    """No form is made of it."""
    many = json.dumps({f"n{number}": number for number in range(100_000)} | {"user": "eve", "value": "y"})
    data = f'{many}\n{{"user": "ada", "value": "x"}}\n'.encode()
    assert Ndjson("user", ["user", "value"]).parse(data).rows() == [("eve", "y"), ("ada", "x")]
