"""Objects as Python printed them when that was how they were written down: frozen, whatever `repr` says today.

The first format of options, and the seals of some saved states, hold such texts. What is printed for people may change;
these may not.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpi.options.defaults import DEFAULTS
from dpi.options.option import Option


def printed(thing: Option, *fields: str, texts: Mapping[str, str] | None = None) -> str:
    """`Name(field=value, …)` with the fields that the class had then; a newer one only where it is no default.

    `texts` are those of fields that are objects themselves.

    >>> from dpi.domain.partition import Blocks
    >>> printed(Blocks(2), "count")
    'Blocks(count=2)'
    """
    newer = [name for name in thing.to_options(min(DEFAULTS)) if name != "kind" and name not in fields]
    parts = (f"{name}={(texts or {}).get(name) or repr(getattr(thing, name))}" for name in (*fields, *newer))
    return f"{type(thing).__name__}({', '.join(parts)})"
