"""Executors: the same parts wherever tasks run, and what becomes of tasks that misbehave."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from permsearch.errors import FileError, ScoresError, UnknownName, WorkerDied
from permsearch.jobs import Executor, Outcome, Task, executor
from permsearch.jobs.local import Serial, Threads
from permsearch.jobs.processes import Processes, how_it_ended
from permsearch.jobs.through import work_through
from tests.job_works import Squares

EVERY = [Serial(), Threads(2), Processes(2)]


def numbers(*mishaps: str) -> list[Task]:
    """Return a task for each mishap, smaller ones first."""
    return [Task(f"t{n}", n, 0, (n, mishap)) for n, mishap in enumerate(mishaps)]


def outcomes(tried: Executor, folder: Path, tasks: Sequence[Task]) -> dict[str, Outcome]:
    """Return what comes of tasks, by name."""
    found = list(tried.run(Squares(folder), tasks, lambda task: None))
    assert len(found) == len(tasks)
    return {outcome.task.name: outcome for outcome in found}


@pytest.mark.parametrize("tried", EVERY, ids=lambda e: type(e).__name__)
def test_executors_agree(tried: Executor, tmp_path: Path) -> None:
    """Each task's part is what the work makes of its payload; begun is told once for each."""
    begun: list[str] = []
    tasks = numbers(*[""] * 5)
    parts = work_through(tasks, Squares(tmp_path), tried, started=lambda t: begun.append(t.name))
    assert list(parts) == [task.name for task in tasks]
    assert [part.record["square"] for part in parts.values()] == [0, 1, 4, 9, 16]
    assert [part.arrays["square"].tolist() for part in parts.values()] == [[0], [1], [4], [9], [16]]
    assert sorted(begun) == sorted(parts)


@pytest.mark.parametrize("tried", EVERY, ids=lambda e: type(e).__name__)
def test_one_failure_does_not_end_the_others(tried: Executor, tmp_path: Path) -> None:
    """Wrong values, bugs and lost files are outcomes of their own tasks; a read heals once."""
    found = outcomes(tried, tmp_path, numbers("", "scores", "bug", "file", "file always", "memory"))
    assert isinstance(found["t1"].error, ScoresError)
    assert "ZeroDivisionError" in "".join(found["t2"].error.__notes__)  # type: ignore[union-attr]
    assert isinstance(found["t4"].error, FileError)
    for name, square in (("t0", 0), ("t3", 9), ("t5", 25)):
        assert found[name].value().record["square"] == square


def test_a_killed_worker_costs_its_task_a_repetition(tmp_path: Path) -> None:
    """Killed workers are replaced, their tasks done again; one that always dies is told."""
    found = outcomes(Processes(2), tmp_path, numbers("killed", "", "leaves", "killed always"))
    assert [found[f"t{n}"].value().record["square"] for n in range(3)] == [0, 1, 4]
    error = found["t3"].error
    assert isinstance(error, WorkerDied)
    assert "t3: the worker was killed by SIGKILL; was it out of memory?" in str(error)


def test_an_error_that_cannot_be_pickled_is_told_in_words(tmp_path: Path) -> None:
    """Whatever a worker raises, its kind and message arrive, and the worker goes on."""
    found = outcomes(Processes(1), tmp_path, numbers("", "unpicklable", "threads"))
    assert str(found["t1"].error) == "Unpicklable: lost on the way"
    assert found["t0"].error is None


def test_workers_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of kernels and libraries are limited in every worker, and never more than asked."""
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    (outcome,) = Processes(1, threads=3).run(
        Squares(tmp_path), numbers("threads"), lambda task: None
    )
    assert str(outcome.error) == "3,2"


def test_leaving_early_ends_the_workers(tmp_path: Path) -> None:
    """Closing the iterator kills what is under way at once."""
    tasks = numbers("slow", "slow", "", "")
    running = Processes(3).run(Squares(tmp_path), tasks, lambda task: None)
    with closing(running):
        assert next(running).error is None
        wait_for(tmp_path / "begun-1")
    assert_ended(tmp_path / "begun-1")


ORPHAN = """
import sys
from pathlib import Path
from permsearch.jobs import Task
from permsearch.jobs.processes import Processes
from tests.job_works import Squares
list(Processes(1).run(Squares(Path(sys.argv[1])), [Task("t", payload=(7, "slow"))], print))
"""


def test_workers_die_with_their_owner(tmp_path: Path, root: Path) -> None:
    """When the process that began them is killed, workers end in the middle of their tasks."""
    owner = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    wait_for(tmp_path / "begun-7")
    owner.kill()
    owner.wait()
    assert_ended(tmp_path / "begun-7")


def wait_for(mark: Path) -> None:
    """Wait until a task has written its process's number."""
    limit = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < limit, f"{mark} never came"
        time.sleep(0.01)


def assert_ended(mark: Path) -> None:
    """Check that the process of a task is gone soon, though the task takes a minute."""
    number = int(mark.read_text())
    limit = time.monotonic() + 20
    while running(number):
        assert time.monotonic() < limit, f"process {number} still runs"
        time.sleep(0.01)


def running(number: int) -> bool:
    """Decide whether a process does anything; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_engines_by_name() -> None:
    """One worker stays in this process; unknown engines are told with those there are."""
    assert executor(1) == Serial()
    assert executor(3, engine="threads", memory=5) == Threads(3, 5)
    chosen = executor(2)
    assert isinstance(chosen, Processes)
    assert chosen.memory is not None
    assert chosen.memory > 0
    with pytest.raises(UnknownName, match="processes, ray, threads"):
        executor(2, engine="threds")


def test_exits_in_words() -> None:
    """Exit statuses and signals read as words, also those without a name."""
    assert how_it_ended(3) == "the worker ended with status 3 and no answer"
    assert how_it_ended(-11) == "the worker was killed by SIGSEGV"
    assert how_it_ended(-250) == "the worker was killed by signal 250"
