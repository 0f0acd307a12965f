from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dpi.sources.lines import Lines, readable

BYTES = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b'"', b"\xc3\xa9", b"\xff", b"xxxxx"])).map(b"".join)


def cut(data: bytes, sizes: list[int], longest: int) -> bytes:
    """The lines of data that arrives in blocks of some sizes."""
    lines, result = Lines(longest), b""
    for size in sizes:
        block, data = data[:size], data[size:]
        result += lines.feed(block)
    return result + lines.feed(data) + lines.finish()


@given(data=BYTES, sizes=st.lists(st.integers(0, 7)), longest=st.integers(1, 8))
def test_lines_do_not_depend_on_the_blocks_in_which_bytes_arrive(data: bytes, sizes: list[int], longest: int) -> None:
    """Whole lines, and which of them are too long, are the same however the bytes are cut."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")[:-1]]
    last = data.split(b"\n")[-1]
    lines += [last.removesuffix(b"\r")] if last else []
    assert cut(data, sizes, longest) == b"".join(line + b"\n" for line in lines if len(line) <= longest)


@given(data=BYTES, sizes=st.lists(st.integers(0, 7)))
def test_consumed_is_where_the_last_whole_line_ends(data: bytes, sizes: list[int]) -> None:
    """A reader that resumes at `consumed` sees every line once, also while a line that is too long is skipped."""
    lines = Lines(longest=3)
    at = 0
    for size in sizes:
        lines.feed(data[at : at + size])
        at += size
        assert lines.consumed == data[:at].rfind(b"\n") + 1


def test_a_long_line_is_not_held_in_memory() -> None:
    """A line without an end costs at most the longest line that is read."""
    lines = Lines(longest=1000)
    for _ in range(100):
        assert lines.feed(b"x" * 1000) == b""
        assert len(lines._rest) <= 1001
    assert lines.feed(b"\nnext\n") == b"next\n"


def test_lines_that_are_not_text_are_dropped_by_themselves() -> None:
    """Invalid UTF-8, half a character and a NUL byte cost their own line only."""
    assert readable(b"a\n\xff\nb\n\xc3\nc\n\0\nd\n") == b"a\nb\nc\nd\n"
