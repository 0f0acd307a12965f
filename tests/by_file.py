"""Which process gets which tests, where several share the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer

TOGETHER = ("packages/spark/tests/", "tests/service/page/")
"""All tests of these have something in common that takes long to start: a JVM, a browser."""


class ByFile(LoadScopeScheduling):
    """A file goes to whoever is free, the longest first: nobody is left at the end with a long one.

    (The groups of pytest-xdist 3.8 do nothing under pytest 9.2, which has no `_nodeid` to write them to; its own order
    is by the number of tests, which says nothing about how long they take.)
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)
