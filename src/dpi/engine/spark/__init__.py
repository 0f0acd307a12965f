"""The slot job on Spark: batch and streaming DataFrames, with the store, ledger and noise of one process."""

from dpi.engine.spark.engine import spark
from dpi.engine.spark.executor import SparkExecutor
from dpi.engine.spark.following import follow
from dpi.engine.spark.playing import replay
from dpi.engine.spark.session import session

__all__ = ["SparkExecutor", "follow", "replay", "session", "spark"]
