"""Files appear whole or not at all."""

import os

import pytest

from dpi.files import OWNER, draft_of, write_file


def test_a_file_is_replaced_whole(tmp_path, monkeypatch):
    """A write that fails before the new file has its name leaves the old one as it was."""
    path = tmp_path / "kept"
    write_file(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_left_over_draft_gives_no_permissions(tmp_path):
    """What a crash left behind is removed, not written into: others could read it."""
    path = tmp_path / "kept"
    draft_of(path).write_bytes(b"left over")
    draft_of(path).chmod(0o644)
    write_file(path, b"secret")
    assert path.read_bytes() == b"secret"
    assert path.stat().st_mode & 0o777 == OWNER
    assert list(tmp_path.iterdir()) == [path]
