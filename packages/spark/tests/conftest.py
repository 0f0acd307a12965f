"""One Spark session for all tests of a process: starting a JVM takes longer than most of what they do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dpi.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARKS_OWN = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
"""It leaves sockets to the garbage collector."""
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
"""Java that begins quickly: it compiles little, since a test is over before that would pay."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What PySpark itself warns of is no fault of a test."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for warning in PYSPARKS_OWN:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))


@pytest.fixture(scope="session", autouse=True)
def has_spark() -> None:
    """Skip where Spark cannot run, and say what is missing."""
    pytest.importorskip("pyspark", reason="tests of the Spark engine need pyspark: `make test-all`")
    from dpi_spark.session import java

    try:
        java()
    except OptionError as error:
        pytest.skip(f"{error} Tests of the Spark engine need it, for example `apt install openjdk-17-jre-headless`.")


@pytest.fixture(scope="session")
def running(has_spark: None) -> Iterator[SparkSession]:
    """A session of two tasks at a time; one that fails is tried again."""
    from dpi_spark import session

    made = session("local[2,4]", **SETTINGS)
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
