"""Whether a line of text looks like a record of data rather than a value of a list.

A list of values is public, and its lines are printed. A file of events that is taken for one would be published line by
line. So a list is judged by itself, before anything is made of it: no other file is looked at, and the answer is
one bit, without the line.
"""

from __future__ import annotations

import json
import re

SEPARATORS = ",;\t|"
"""What fields of a record are separated by."""

_DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
_MOMENT = re.compile(rf"{_DATE}[T ]\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?(?: ?(?:Z|[+-]\d{{2}}:?\d{{2}}))?")
"""A date with a time of day."""
_MARK = re.compile(
    rf"{_DATE}"
    r"|\d{9,}"  # a long number: an id, or a time since 1970
    r"|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|[^\s@]+@[^\s@]+\.[^\s@]+"
)
"""A date, or an id that only few people share."""


def is_record(line: str) -> bool:
    """Whether a line looks like a record.

    It does if it is a JSON object or array; if it holds a date with a time of day and something else; or if it has
    three or more fields, separated by commas, semicolons, tabs or bars, one of which is a date, a number of nine or
    more digits, 16 or more hexadecimal digits, a UUID or a mail address.

    >>> is_record("ada,2026-01-01T00:10,DE"), is_record('{"user": "ada"}'), is_record("Korea, Republic of")
    (True, True, False)
    """
    text = line.strip()
    if text[:1] in ("{", "["):
        try:
            return isinstance(json.loads(text), dict | list)
        except (ValueError, RecursionError):
            pass
    moment = _MOMENT.search(text)
    if moment is not None and _bare(text[: moment.start()] + text[moment.end() :]):
        return True
    for separator in SEPARATORS:
        fields = [_bare(field) for field in text.split(separator)]
        if len(fields) > 2 and any(_MARK.fullmatch(field) or _MOMENT.fullmatch(field) for field in fields):
            return True
    return False


def _bare(field: str) -> str:
    """A field without the quotes and spaces around it."""
    return field.strip(" \t\"'")
