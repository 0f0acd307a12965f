"""An operator of Airflow that releases what a run's interval has closed, and hands on ε and the certificate.

A task that is tried again, or cleared, releases nothing twice: slots that are in the store are read from it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator


class DpiReleaseOperator(BaseOperator):
    """Run `dpi run` up to the end of the run's data interval, then `dpi verify`; XCom has what was released.

    `config` is a dpi.toml with the table [run]: events, domain, clock, ε and store. `store` is the same store.
    """

    template_fields: Sequence[str] = ("config", "store")

    def __init__(self, *, config: str, store: str, **options: Any) -> None:
        super().__init__(**options)
        self.config, self.store = config, store

    def execute(self, context: Mapping[str, Any]) -> dict[str, object]:
        """Release all slots that end by then and are not in the store yet."""
        end = context["data_interval_end"].strftime("%Y-%m-%dT%H:%M:%SZ")
        released = self._call("run", "--config", self.config, "--to", end)
        found = self._call("verify", self.store)
        return {
            "released": released["released"],
            "last_start": released["last_start"],
            "epsilon_spent_at_most": released["epsilon_spent"],
            "certificate": found["head"],
            "guarantee": released["guarantee"],
        }

    def _call(self, *words: str) -> dict[str, object]:
        """Return what a command says. Its messages hold nothing private; a failure ends the task with its own words."""
        command = [sys.executable, "-m", "dpi", *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
        if done.returncode:
            raise RuntimeError(f"dpi {words[0]} ended with {done.returncode}: {done.stderr.strip()}")
        said: dict[str, object] = json.loads(done.stdout)
        return said
