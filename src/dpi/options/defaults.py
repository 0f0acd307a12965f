"""What an option means that a text does not state: the table of defaults, one for each format number.

A text states its format and leaves out what is as the table of *that* format says, so it means for ever what it meant
when it was written, whatever defaults are now.

* A new field of an option class gets a row here, in the newest format, with the value under which everything is as it
  was before: texts without it stay as they are, and so do their digests.
* A changed default is a new format: a new table, and a new `FORMAT`. The older tables are never touched.

The first format is not here: it wrote objects as Python prints them (`dpi.stream.legacy`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Options = dict[str, object]
"""Options as JSON values: whole numbers, texts, lists and objects; no float, and nothing as Python prints it."""

FORMAT = 3
"""What new streams are declared in."""

_LEDGER: Mapping[str, object] = {
    "per_slot": "auto",
    "slots": None,
    "every": 1,
    "policy": {"kind": "spend_first"},
    "period": None,
    "returning": True,
}
_SECOND: dict[str, Mapping[str, object]] = {
    "stream": {
        "slots": None,
        "start": None,
        "budget": {"kind": "ledger"},
        "mechanism": {"kind": "boosted"},
        "compression": {"kind": "normalise"},
        "accumulate": None,
        "name": "",
        "ledger": "",
    },
    "slots": {"origin": 0, "zone": "UTC", "lateness": 0, "calendar": ""},
    "ledger": _LEDGER,
    "fade": {"series": {"kind": "zeta"}},
    "clocked": {"top": 20},
    "converging": {"draw": None},
    "zeta": {"s": "2"},
    "rba": {"rate": "100000000"},
    "prefix_tree": {"arity": 22, "levels": 3},
    "boosted": {"drifts": ["0", "0.003", "0.01", "0.03", "0.1", "0.3"], "season": None, "partitions": "auto"},
    "published": {
        "pool": {"kind": "multinomial"},
        "queries": None,
        "lam": "0.1",
        "mu": "0.05",
        "draws": 20,
        "rounds": 1,
        "every_slot": False,
        "accumulative": False,
        "n_min": None,
        "total_share": "0",
    },
    "multinomial": {"size": 6_500, "precision": 10_000, "seed": 0},
    "dirichlet": {"size": 6_500, "concentration": "1", "seed": 0, "precision": 1 << 20},
    "mixed": {"size": 6_500, "concentrations": ["0.3", "1", "3", "10", "30"], "seed": 0, "precision": 1 << 20},
    "matrix": {"scale": 1},
}

DEFAULTS: dict[int, Mapping[str, Mapping[str, object]]] = {
    2: MappingProxyType(_SECOND),
    3: MappingProxyType(
        {
            **_SECOND,
            "stream": {**_SECOND["stream"], "end": None},
            "ledger": {**_LEDGER, "policy": "auto", "quota": None, "rest": None},
            "sparse_histogram": {"failure": "0.001", "most": 1024},
        }
    ),
}
"""For each format, kind and field: the value, as it would be written."""


def complete(options: object, format: int = FORMAT) -> object:
    """Options with everything stated that their format leaves out, for those who read them without the table.

    >>> complete({"kind": "prefix_tree", "per_slot": 1, "levels": 2})
    {'kind': 'prefix_tree', 'arity': 22, 'levels': 2, 'per_slot': 1}
    """
    if isinstance(options, list):
        return [complete(part, format) for part in options]
    if not isinstance(options, dict):
        return options
    kind = options.get("kind")
    defaults = DEFAULTS[format].get(kind, {}) if isinstance(kind, str) else {}
    stated = {"kind": kind, **defaults, **options} if "kind" in options else options
    return {name: complete(part, format) for name, part in stated.items()}
