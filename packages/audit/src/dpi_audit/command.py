"""`dpi audit`: every privacy claim of the package, put to the test."""

from __future__ import annotations

import json as json_format
import os
from typing import Annotated

import typer

from dpi.cli.options import Json
from dpi.cli.output import Steps, document
from dpi.settings.declaration import Setting

PROCESSES = 2
"""More gain little: the longest parts take a good share of the time."""


def audit(
    quick: Annotated[bool, Setting("", "Fewer neighbours and fewer runs: at most a minute on two cores.")] = False,
    json: Json = False,
) -> None:
    """Try to refute the claims of all mechanisms and interfaces; deliberately broken mechanisms must be detected.

    Prints what each mechanism claims, the exact worst loss found, an empirical lower bound and a verdict; then how far
    the published accounting is exceeded. The exit code is 1 if any verdict is not as it should be. No data is needed.

    Examples:
      dpi audit
      dpi audit --quick --json
    """
    import dpi_audit as audits

    with Steps("audit", audits.count_steps(quick), lines=not json) as steps:
        report = audits.run(quick, steps.another, processes=min(PROCESSES, os.cpu_count() or 1))
    if json:
        document(json_format.loads(report.to_json()))
    else:
        print(report)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
