"""A domain file on the disk."""

import os
import resource
import stat

import pytest

from dpi.domain import Categories
from dpi.domain.file import read, write

SMALL, LARGE = Categories(["a"]), Categories([f"value {n}" for n in range(99)])


def test_a_domain_file_is_replaced_whole_or_not_at_all(tmp_path):
    """The disk is full in the middle: the domain that was there is there."""
    path = tmp_path / "domain.json"
    write(path, SMALL)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            write(path, LARGE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read(path) == SMALL
    write(path, LARGE)
    assert read(path) == LARGE


def test_a_domain_file_is_as_public_as_its_owner_has_it(tmp_path):
    """Permissions are those of any file that the owner makes; a link to the file stays one."""
    path, link = tmp_path / "domain.json", tmp_path / "link.json"
    link.symlink_to(path)
    before = os.umask(0o027)
    try:
        write(link, SMALL)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()
