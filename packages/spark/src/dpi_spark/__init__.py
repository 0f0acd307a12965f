"""The slot job on Spark: batch and streaming DataFrames, with the store, ledger and noise of one process."""

from dpi_spark.executor import SparkExecutor, spark
from dpi_spark.following import follow
from dpi_spark.reading import replay
from dpi_spark.session import session

__all__ = ["SparkExecutor", "follow", "replay", "session", "spark"]
