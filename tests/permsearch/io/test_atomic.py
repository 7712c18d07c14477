"""Files are whole or not there, and what they replace hands on its mode."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from permsearch.errors import FileError
from permsearch.io.atomic import written_aside


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """Who may read a file stays as it was when the file is written anew."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    with written_aside(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_an_error_inside_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """Whatever ends the block, the old content stands and no half of the new one lies about."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with written_aside(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_the_way_is_told(tmp_path: Path) -> None:
    """A folder is not replaced by a file; the error says so."""
    with pytest.raises(FileError, match="not a regular file"), written_aside(tmp_path):
        pass
    assert os.listdir(tmp_path) == []
