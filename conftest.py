"""Examples in docstrings run where what they need is installed: Spark is an extra (`make test-spark`)."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyspark") else ["src/dpi/engine/spark/*"]
