"""Silence about private numbers: no value of a user causes a warning, or an error where warnings are errors.

numpy warns of a number that overflows, and other libraries of whatever a row makes them do. A warning on standard error
tells that such a row was there. Where warnings are errors (`PYTHONWARNINGS=error`) it fails the slot of all users.

**Guarantee.** Inside `silence` numpy says and raises nothing of what it computes, however the caller has set it, in
this thread or any other. *Why:* numpy asks the innermost `errstate` of the running thread. So it is entered by the
functions that take private values (rows are made, counted, weighed, measured), wherever these run: in a thread, in a
process of a pool, on a worker of Spark. Results are those of IEEE 754, and each function says what becomes of an
infinity or of what is no number.

Warnings of Python itself have no setting for a thread: `warnings.catch_warnings` changes that of all threads. So those
that concern the modules which see values are filtered out where these are loaded: once, before any row, and in every
process. A filter that is added later comes first, so that tests see every warning.

Knows no number.
"""

from __future__ import annotations

import warnings

import numpy as np

SEEING = r"dpi\.(domain|engine|events|exact|histogram|noise|service\._batch_reader|sources|stream\.texts)\b|dpi_spark\."
"""Modules that see values of users, or sums of them before noise."""
warnings.filterwarnings("ignore", module=SEEING)


def silence() -> np.errstate:
    """Return what keeps numpy silent: around a function as a decorator, or around some lines by `with`.

    No generator may be inside: between two of its values it would silence whoever asks for them.

    >>> with silence():
    ...     float(np.float64(1e308) * 10)
    inf
    """
    return np.errstate(all="ignore")
