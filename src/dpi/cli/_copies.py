"""What a command says of a copy of a store that it has made."""

from __future__ import annotations

from dpi.cli.output import address, answer
from dpi.store import open_store


def tell_copy(made: str, json: bool, facts: dict[str, object], more: str = "") -> None:
    """Say how far the chain goes in the copy that was made, with these facts and a sentence more."""
    with open_store(made, read_only=True) as store:
        head = store.head()
    facts |= {"entries": head.sequence + 1, "head": head.digest}
    answer(json, facts, f"{address(made)}: {head.sequence + 1} certificates, up to {head.digest}.{more}")
