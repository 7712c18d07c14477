"""Ray: two workers of a real local cluster, one of them killed, and the serial run's bytes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import permsearch as ps
from permsearch.cli import cli
from permsearch.errors import FileError, MissingExtra, ScoresError
from permsearch.io import open_tensors
from permsearch.jobs import Task, on_ray, work_through
from permsearch.jobs import own_ray as own
from permsearch.jobs.local import Serial
from permsearch.jobs.on_ray import ClusterError, OnRay
from permsearch.jobs.own_ray import own_ray
from permsearch.jobs.tensors import TensorSearch, tensor_tasks
from permsearch.search_all import SearchOptions
from tests.job_works import Squares, contents

ASKED = ("-p", "2:4", "--solver", "random", "--steps", "4000", "--exclude", "b.broken")


@pytest.fixture(scope="module")
def cluster(root: Path) -> Iterator[Any]:
    """Hold the Ray that a run starts, with two cores, for the tests of this file."""
    ray = pytest.importorskip("ray", reason="needs the extra `ray`")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYTHONPATH", str(root))  # workers import the works of these tests
        with own_ray(2):
            yield ray


def search(model: Path, out: Path, *options: Any) -> Result:
    """Search the model's tensors into a folder."""
    arguments = ["search", model, *ASKED, "--out", out, *options]
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_killed_worker_changes_no_byte(cluster: Any, model: Path, tmp_path: Path) -> None:
    """Killed in the middle of a tensor, a worker is replaced by Ray; the bundle is the same."""
    assert search(model, tmp_path / "serial").exit_code == 0
    killed: list[int] = []
    hunt = threading.Thread(target=lambda: killed.append(kill_one(tmp_path / "ray")))
    hunt.start()
    result = search(model, tmp_path / "ray", "--engine", "ray", "--workers", 2)
    hunt.join()
    assert result.exit_code == 0, result.stderr
    assert killed[0]
    assert contents(tmp_path / "ray") == contents(tmp_path / "serial")


def kill_one(out: Path) -> int:
    """Kill a process of our Ray that works on a task, once one task is finished."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        if list(out.glob("parts/*.safetensors")):
            for number in ours():
                os.kill(number, signal.SIGKILL)
                return number
        time.sleep(0.005)
    return 0


def ours() -> Iterator[int]:
    """Yield the processes that do tasks of ours, and descend from this very process."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::permsearch") and os.getpid() in ancestors(int(folder.name)):
            yield int(folder.name)


def ancestors(number: int) -> Iterator[int]:
    """Yield the parents of a process, up to the first of all."""
    while number > 1:
        try:
            stat = Path(f"/proc/{number}/stat").read_text()
        except OSError:
            return
        number = int(stat.rpartition(")")[2].split()[1])
        yield number


def test_tasks_on_ray_are_those_of_elsewhere(cluster: Any, tmp_path: Path) -> None:
    """Parts and errors come back as from any executor; a read that fails once is repeated."""
    mishaps = ["", "", "scores", "file", "unpicklable"]
    tasks = [Task(f"t{n}", n, 1 << 60, (n, mishap)) for n, mishap in enumerate(mishaps)]
    outcomes = OnRay(2).run(Squares(tmp_path), tasks, lambda task: None)
    found = {outcome.task.name: outcome for outcome in outcomes}
    assert [found[name].value().record["square"] for name in ("t0", "t1", "t3")] == [0, 1, 9]
    assert isinstance(found["t2"].error, ScoresError)
    assert str(found["t4"].error) == "Unpicklable: lost on the way"


def test_a_task_that_always_kills_its_worker_is_given_up(cluster: Any, tmp_path: Path) -> None:
    """After Ray's own repetitions the task is named; the others are finished."""
    tasks = [Task("fatal", payload=(1, "killed always")), Task("fine", payload=(2, ""))]
    outcomes = OnRay(2).run(Squares(tmp_path), tasks, lambda task: None)
    found = {outcome.task.name: outcome for outcome in outcomes}
    assert isinstance(found["fatal"].error, ClusterError)
    assert "fatal: Ray gave it up after 3 repetitions" in str(found["fatal"].error)
    assert found["fine"].value().record["square"] == 4


def test_arrays_in_memory_go_through_the_object_store(cluster: Any) -> None:
    """Weights that lie in no file are sent once, and searched as they are."""
    source = open_tensors({f"w{n}": ps.instances.gaussian(16, 32, seed=n) for n in range(3)})
    work = TensorSearch(source, SearchOptions(ps.NM(2, 4), "swap", ps.MaxSteps(50)))
    tasks = tensor_tasks(map(source.info, source.names()), work.options)
    here, there = (work_through(tasks, work, engine) for engine in (Serial(), OnRay(2)))
    for name, part in here.items():
        assert there[name].record["sha256"] == part.record["sha256"]
        for key, array in part.arrays.items():
            np.testing.assert_array_equal(there[name].arrays[key], array)


def test_weights_can_be_sent(cluster: Any, model: Path, tmp_path: Path) -> None:
    """With --send the files are read here alone; the bundle is the same."""
    assert search(model, tmp_path / "serial", "-t", "a.*.weight").exit_code == 0
    result = search(model, tmp_path / "sent", "-t", "a.*.weight", "--engine", "ray", "--send")
    assert result.exit_code == 0, result.stderr
    assert contents(tmp_path / "sent") == contents(tmp_path / "serial")


def test_relative_paths_are_the_commands_own(
    cluster: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker reads a relative path from where the command was given."""
    monkeypatch.chdir(model.parent)
    assert search(Path("model"), Path("out"), "-t", "a.0.weight", "--engine", "ray").exit_code == 0


def test_files_that_cannot_be_sent_are_outcomes(cluster: Any, tmp_path: Path) -> None:
    """What cannot be read before sending ends its own task alone."""
    path = tmp_path / "gone.npz"
    np.savez(path, w=ps.instances.gaussian(8, 16, seed=0))
    work = TensorSearch(open_tensors(path), SearchOptions(ps.NM(2, 4), "none"))
    tasks = tensor_tasks([work.source.info("w")], work.options)
    path.unlink()
    (outcome,) = OnRay(2, send=True).run(work, tasks, lambda task: None)
    assert isinstance(outcome.error, FileError)


def test_a_ray_of_our_own_has_no_dashboard_and_no_monitors(cluster: Any) -> None:
    """Beside tasks only the store of names, the scheduler and its agents run."""
    named = {Path(f"/proc/{number}/cmdline").read_bytes() for number in descendants()}
    assert any(b"gcs_server" in name for name in named)
    for other in (b"dashboard/dashboard.py", b"autoscaler", b"log_monitor"):
        assert not any(other in name.split(b"--")[0] for name in named), other


def descendants() -> Iterator[int]:
    """Yield all processes that descend from this one."""
    for folder in Path("/proc").glob("[0-9]*"):
        if os.getpid() in ancestors(int(folder.name)):
            yield int(folder.name)


def test_another_inner_interface_is_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a version of Ray begins otherwise inside, its own call starts it, and ends it."""
    ray = pytest.importorskip("ray", reason="needs the extra `ray`")
    begun: list[dict[str, Any]] = []
    ended: list[bool] = []
    monkeypatch.setitem(sys.modules, "ray._private.node", None)
    monkeypatch.setattr(ray, "init", lambda **given: begun.append(given))
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    with own_ray(3):
        assert not ended
    assert ended == [True]
    assert begun[0]["num_cpus"] == 3
    assert begun[0]["include_dashboard"] is False


def test_switches_are_gone_when_ray_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set for Ray's processes leaves the environment again, and what was set stays."""
    ray = pytest.importorskip("ray", reason="needs the extra `ray`")
    monkeypatch.setenv("RAY_event_stats", "1")
    monkeypatch.delenv("RAY_enable_timeline", raising=False)
    seen: list[tuple[str | None, ...]] = []

    def begin(**_: Any) -> None:
        now = dict(os.environ)
        seen.append((now.get("RAY_event_stats"), now.get("RAY_enable_timeline")))

    monkeypatch.setattr(own, "_node", lambda cores: (_ for _ in ()).throw(TypeError))
    monkeypatch.setattr(ray, "init", begin)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with own_ray(1):
        assert "RAY_enable_timeline" not in os.environ
    assert seen == [("1", "0")]
    assert dict(os.environ)["RAY_event_stats"] == "1"


def test_a_ray_that_does_not_start_is_an_error_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error tells Ray's reason and what to do; no task has run."""
    ray = pytest.importorskip("ray", reason="needs the extra `ray`")

    def fail(cores: int) -> Any:
        raise RuntimeError("no room\nleft")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(on_ray, "own_ray", fail)
    with pytest.raises(ClusterError, match=r"this machine \(no room left\).*ray start --head"):
        list(OnRay().run(Squares(tmp_path), [Task("t")], lambda task: None))


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where Ray is not installed the error says what to install."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"permsearch\[ray\]"):
        list(OnRay().run(Squares(tmp_path), [Task("t")], lambda task: None))
