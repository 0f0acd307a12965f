"""A stream on Spark: the engine that `Stream(engine=…)` takes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dpi.engine.engine import BucketEngine
from dpi.store.folder import BITS
from dpi_spark.executor import SparkExecutor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(
    running: SparkSession | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    bits: int = BITS,
    unencrypted: bool = False,
) -> BucketEngine:
    """The tasks of a stream on the workers of a Spark session, one that is made (`session`) unless given.

    `path` is the folder of bucket files, which driver and workers must see under the same name. A session that keeps or
    sends events in the clear is refused, unless `unencrypted` says that disks and network are encrypted otherwise.
    """
    return BucketEngine(SparkExecutor(running, unencrypted=unencrypted), path, bits)
