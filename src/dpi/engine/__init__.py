"""Beyond one process: the same stream, with the same store, ledger and noise, on many processes or machines."""

from dpi.engine.engine import BucketEngine, local, pool
from dpi.engine.executor import Executor

__all__ = ["BucketEngine", "Executor", "local", "pool"]
