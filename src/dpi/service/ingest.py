"""Reading a batch: Arrow IPC stream, columns in JSON, or NDJSON, packed or not, each row by itself.

Columns are `user`, `time` and `value`; for a product, `value` has a column or field for each part. A row that cannot be
read is dropped by itself, and the answer does not say so; a body that is no batch at all is refused as a whole, by its
form alone.

Sees events; keeps none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpi.service.problems import Problem
from dpi.sources.ndjson import Ndjson
from dpi.stream.admission import Events

if TYPE_CHECKING:
    pass

ARROW, COLUMNS, LINES = "application/vnd.apache.arrow.stream", "application/json", "application/x-ndjson"
KINDS = (ARROW, COLUMNS, LINES)
NAMES = ("user", "time", "value")


def decoded(body: bytes, kind: str, unit: str | None) -> Events:
    """The columns of a batch."""
    match kind:
        case "application/json":
            return Events(*_columns(body), unit)
        case "application/x-ndjson":
            frame = Ndjson("user", NAMES).parse(body)
            return Events(*(frame[name] for name in NAMES), unit)
    raise Problem(415, f"a batch must be one of {', '.join(KINDS)}.")


def _columns(body: bytes) -> list[object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(400, "the body is not JSON.") from None
    if (
        not isinstance(found, Mapping)
        or set(found) != set(NAMES)
        or not all(isinstance(c, list) for c in found.values())
    ):
        raise Problem(422, "columns in JSON are an object of the lists `user`, `time` and `value`.")
    if len({len(column) for column in found.values()}) > 1:
        raise Problem(422, "the columns must have the same number of rows.")
    return [found[name] for name in NAMES]
