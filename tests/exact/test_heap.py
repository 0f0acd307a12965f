"""Freed memory stays with the process."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from dpi.exact import heap
if "keep" in sys.argv:
    heap.keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def slot():
    return [np.ones(1 << 15) for _ in range(12)]  # three megabytes, in blocks of 256 KiB

slot(), slot()
before = faults()
for _ in range(10):
    slot()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is this library's heap")
def test_a_slot_asks_for_no_page_twice():
    """Ten slots of three megabytes touch the pages of the first; without it, each asks for its 768 again."""

    def faults(*arguments: str) -> int:
        return int(subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, check=True).stdout)

    assert faults("keep") < 768 < faults()
