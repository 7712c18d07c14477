"""Job folders: what is finished stays finished, and nothing of another job is mixed in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permsearch.errors import FileError
from permsearch.io.parts import Part
from permsearch.io.shares import Share
from permsearch.jobs import Journal, Task, work_through
from permsearch.jobs.local import Serial
from tests.job_works import Squares

SETTINGS = {"pattern": "2:4", "steps": 3}
TASKS = [Task(f"t/{n}", n, 0, (n, ""), f"f{n}") for n in range(4)]


def journal(folder: Path, **options: Any) -> Journal:
    """Return a journal with the usual settings."""
    asked = {"kind": "permute", "settings": SETTINGS, "source": "model", **options}
    return Journal(folder, asked.pop("kind"), asked.pop("settings"), **asked)


def test_what_is_kept_is_not_done_again(tmp_path: Path) -> None:
    """A job goes on with what is left, and returns the same parts as one that never stopped."""
    marks, job = tmp_path / "marks", tmp_path / "job"
    marks.mkdir()
    with journal(job) as kept:
        first = work_through(TASKS[:2], Squares(marks), Serial(), kept)
    for mark in marks.iterdir():
        mark.unlink()
    with journal(job) as kept:
        assert set(kept.finished(TASKS)) == {"t/0", "t/1"}
        parts = work_through(TASKS, Squares(marks), Serial(), kept)
    assert sorted(mark.name for mark in marks.iterdir()) == ["begun-2", "begun-3"]
    assert list(parts) == [task.name for task in TASKS]
    assert [part.record["square"] for part in parts.values()] == [0, 1, 4, 9]
    for name, part in first.items():
        np.testing.assert_array_equal(part.arrays["square"], parts[name].arrays["square"])


def test_every_number_type_survives(tmp_path: Path) -> None:
    """Arrays come back with their types and values, records as JSON tells them."""
    arrays = {
        kind: np.arange(5, dtype=kind) for kind in ("uint8", "int32", "int64", "float32", "float64")
    }
    task = Task("x" * 500)
    with journal(tmp_path) as kept:
        kept.add(task, Part({"gap": float("nan"), "n": np.int64(3)}, arrays))
    with journal(tmp_path) as kept:
        part = kept.finished([task])[task.name].load()
    assert part.record["n"] == 3
    assert part.record["gap"] is None
    for kind, array in arrays.items():
        assert part.arrays[kind].dtype == array.dtype
        np.testing.assert_array_equal(part.arrays[kind], array)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "prune"}, r"a job of `permsearch permute`, not of `permsearch prune`"),
        ({"settings": {**SETTINGS, "steps": 4}}, r"a job made with steps 3 \(now 4\)"),
        ({"source": "other"}, r"source model \(now other\)"),
    ],
)
def test_other_jobs_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    """Another command, other settings or another source is told with the difference."""
    with journal(tmp_path):
        pass
    with pytest.raises(FileError, match=words):
        journal(tmp_path, **change)


def test_changed_inputs_are_refused(tmp_path: Path) -> None:
    """A finished task whose fingerprint has changed is an error, not a silent mixture."""
    with journal(tmp_path) as kept:
        kept.add(TASKS[0], Part({}))
    changed = [Task("t/0", fingerprint="new")]
    with journal(tmp_path) as kept, pytest.raises(FileError, match="'t/0' was done with other"):
        kept.finished(changed)


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    """A folder that holds other things is left alone; so is one of a newer version."""
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(FileError, match=r"holds other things \('mine.txt'"):
        journal(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name[0] != "."] == ["mine.txt"]
    newer = tmp_path / "newer"
    with journal(newer):
        pass
    head = json.loads((newer / "job.json").read_text())
    (newer / "job.json").write_text(json.dumps({**head, "schema": 99}))
    with pytest.raises(FileError, match="schema 99"):
        journal(newer)
    (newer / "job.json").write_text("{")
    with pytest.raises(FileError, match="damaged or foreign"):
        journal(newer)


def test_one_run_at_a_time_but_for_shares(tmp_path: Path) -> None:
    """A folder is held by one run, or by shares of different numbers side by side."""
    with journal(tmp_path), pytest.raises(FileError, match="another run is writing here"):
        journal(tmp_path)
    with journal(tmp_path, share=Share(1, 3)):
        with journal(tmp_path, share=Share(2, 3)):
            pass
        with pytest.raises(FileError, match="another run"):
            journal(tmp_path, share=Share(1, 3))
        with pytest.raises(FileError, match="another run"):
            journal(tmp_path)


def test_leftovers_and_damaged_parts_count_as_nothing(tmp_path: Path) -> None:
    """What a kill left aside is removed; a part that was cut is done again."""
    with journal(tmp_path) as kept:
        kept.add(TASKS[0], Part({"square": 0}))
        kept.add(TASKS[1], Part({"square": 1}))
    parts = sorted((tmp_path / "parts").iterdir())
    parts[0].write_bytes(parts[0].read_bytes()[:-3])
    leftover = tmp_path / "parts" / ".x.safetensors.12.ab.tmp"
    leftover.write_bytes(b"half")
    with journal(tmp_path) as kept:
        assert len(kept.finished(TASKS)) == 1
    assert not leftover.exists()


def test_a_journal_goes_when_it_is_not_needed(tmp_path: Path) -> None:
    """Removing a journal leaves nothing behind."""
    with journal(tmp_path / "job") as kept:
        kept.add(TASKS[0], Part({}))
        kept.remove()
    assert not (tmp_path / "job").exists()
