"""Thrift's compact protocol, as much as the footer of a Parquet file needs: a structure is read, and written again.

A structure is a mapping from a field's number to its type and value, whatever they mean.
"""

from __future__ import annotations

from typing import Union

TRUE, FALSE, BYTE, INTEGER, LONG, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12
_WHOLE = (4, INTEGER, LONG)

Value = Union[int, bytes, "Items", "Struct"]
Struct = dict[int, tuple[int, Value]]
"""Fields by number: (type, value)."""
Items = tuple[int, list[Value]]
"""Type and values of a list."""


class Reader:
    """Reads values from the front of some bytes; raises `IndexError` or `ValueError` for what is no such value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise IndexError("the structure is cut off")
        self._at += size
        return taken

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._take(1)[0]) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self) -> Struct:
        """The next structure."""
        fields: Struct = {}
        number = 0
        while head := self._take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            fields[number] = (kind, int(kind == TRUE) if kind in (TRUE, FALSE) else self._value(kind))
        return fields

    def _value(self, kind: int) -> Value:
        if kind in _WHOLE:
            return self._zigzag()
        if kind in (TRUE, FALSE, BYTE):
            return self._take(1)[0]
        if kind in (BINARY, DOUBLE):
            return self._take(8 if kind == DOUBLE else self._varint())
        if kind in (LIST, SET):
            head = self._take(1)[0]
            size = self._varint() if head >> 4 == 15 else head >> 4
            return head & 15, [self._value(head & 15) for _ in range(size)]
        if kind == STRUCT:
            return self.struct()
        raise ValueError("no type of a Parquet footer")


def write(fields: Struct) -> bytes:
    """A structure as bytes.

    >>> fields = {1: (INTEGER, -3), 4: (BINARY, b"user"), 30: (LIST, (STRUCT, [{2: (TRUE, 1)}]))}
    >>> Reader(write(fields)).struct() == fields
    True
    """
    parts, last = [], 0
    for number, (kind, value) in sorted(fields.items()):
        step = number - last
        parts.append(bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + _zigzag(number))
        if kind not in (TRUE, FALSE):
            parts.append(_write(kind, value))
        last = number
    return b"".join(parts) + b"\0"


def _write(kind: int, value: Value) -> bytes:
    if isinstance(value, dict):
        return write(value)
    if isinstance(value, tuple):
        inner, items = value
        head = bytes([len(items) << 4 | inner]) if len(items) < 15 else bytes([240 | inner]) + _varint(len(items))
        return head + b"".join(_write(inner, item) for item in items)
    if isinstance(value, bytes):
        return value if kind == DOUBLE else _varint(len(value)) + value
    return _zigzag(value) if kind in _WHOLE else bytes([value])


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)
