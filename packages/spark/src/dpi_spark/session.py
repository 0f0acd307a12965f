"""A Spark session that keeps to itself what it is given: Java, Python, encryption.

Spark holds events outside our store while they move: in shuffle files, spilled blocks, broadcasts and on the wire. A
session that is made here encrypts all of these and shows no page; one that was made elsewhere is looked at, and refused
if it does not, unless the curator says that it may.

**How the key reaches the workers.** Workers name accounts, so they need the store's key. It travels in the function
that Spark sends to its tasks, never in configuration, environment or plan: these are shown on pages and written to
logs. Whoever receives that function receives the events as well, so the key tells them nothing that they could not
compute: executors belong to the trusted curator. With `PROTECTED` on, what carries it is encrypted on the wire and on
disk.

Sees settings; no event.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpi._version import DISTRIBUTION
from dpi.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
ON_DISK = ("spark.io.encryption.enabled",)
"""Shuffle, spill and broadcasts on disk."""
ON_THE_WIRE = ("spark.authenticate", "spark.network.crypto.enabled")
"""Between driver and executors; a local session has no wire."""
QUIET = {"spark.ui.enabled": "false", "spark.eventLog.enabled": "false", "spark.ui.showConsoleProgress": "false"}
"""Pages, event logs and progress bars show how many rows tasks have read, which is private."""
ONE_THREAD = "spark.executorEnv.POLARS_MAX_THREADS"
"""Tasks are what runs side by side: each has one thread."""
MISSING = f"the Spark engine needs PySpark and Java 17 or later: install {DISTRIBUTION}-spark."


def installed() -> None:
    """Refuse where PySpark is not installed."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise OptionError(MISSING) from None


def java() -> int:
    """Return the version of the Java that Spark will start; refuse none, and one that is too old."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if program is None:
        where = f"JAVA_HOME is {home!r}, and has no bin/java" if home else "there is no `java` on the PATH"
        raise OptionError(f"Spark needs Java {OLDEST_JAVA} or later: {where}.")
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    release = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    version = int(release[1]) if release else 0
    if version < OLDEST_JAVA:
        raise OptionError(f"Spark needs Java {OLDEST_JAVA} or later. Got {version or 'a program that is no Java'}.")
    return version


@contextmanager
def without_pandas() -> Iterator[None]:
    """Around calls of PySpark's that look at pandas first, and warn of its version: none of it is used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        yield


def active() -> SparkSession | None:
    """Return the session that is there already."""
    installed()
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def session(master: str | None = None, **settings: str) -> SparkSession:
    """Return a session that encrypts what it moves and stores and shows no page, or the one that is there already.

    Without `master` it is the one that `spark-submit` was given, or all cores of this machine. `settings` are Spark's,
    with `_` for `.`, and come before ours. Workers run this program's own Python, unless PYSPARK_PYTHON says another.
    """
    running = active()
    if running is not None:
        return running
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()  # `spark-submit` has started Java, and what it was told comes first
    conf = SparkConf()
    ours = dict.fromkeys((*ON_DISK, *ON_THE_WIRE), "true") | QUIET | {ONE_THREAD: "1"}
    for name, value in ours.items():
        conf.setIfMissing(name, value)
    for name, value in settings.items():
        conf.set(name.replace("_", "."), value)
    if master is not None:
        conf.setMaster(master)
    conf.setIfMissing("spark.master", "local[*,4]")  # a task that fails is tried again on one machine too
    conf.setIfMissing("spark.app.name", "dpi")
    if conf.get("spark.master", "").startswith("local-cluster"):
        # Its processes know each other by this; on other clusters whoever runs them has given them one.
        conf.setIfMissing("spark.authenticate.secret", secrets.token_hex(32))
    with without_pandas():
        return SparkSession.builder.config(conf=conf).getOrCreate()


def check_protected(running: SparkSession) -> None:
    """Refuse a session that would write or send events in the clear."""
    conf = running.sparkContext.getConf()
    is_local = re.fullmatch(r"local(\[.*\])?", running.sparkContext.master or "")  # driver and tasks are one process
    needed = ON_DISK if is_local else (*ON_DISK, *ON_THE_WIRE)
    off = [name for name in needed if conf.get(name, "false") != "true"]
    if off:
        raise OptionError(
            f"this Spark session would keep or send events in the clear: set {', '.join(off)} to true before it "
            "begins, or say `unencrypted=True` where disks and network are encrypted otherwise.",
            options=("unencrypted",),
        )
