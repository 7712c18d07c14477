"""Compiling before the clock starts: the tiny run leaves no kernel for the real one to compile."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import permsearch as ps
import permsearch.solvers
from permsearch.solvers import Anneal, Swap
from permsearch.solvers.warm import warm_up

WEIGHT = ps.instances.gaussian(16, 32, seed=0)

WATCH = """
import gc, sys
import permsearch as ps
from permsearch.solvers.warm import warm_up

def compiled():
    from numba.core.dispatcher import Dispatcher
    found = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]
    return {(d.py_func.__name__, str(s)) for d in found for s in d.signatures}

name, pattern, rows, columns, steps = sys.argv[1:]
problem = ps.single(ps.instances.gaussian(int(rows), int(columns), seed=0), pattern)
solver = ps.get_solver(name)
warm_up(solver, problem)
before = compiled()
solver.solve(problem, stop=ps.MaxSteps(int(steps)))
assert before, "nothing was compiled"
print(sorted(compiled() - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "pattern", "rows", "columns", "steps"),
    [
        ("auto", "2:4", 128, 128, 2000),
        ("auto", "2:4", 128, 128, 20),
        ("auto", "2:4", 4, 128, 3000),
        ("auto", "2:32", 8, 128, 20),
        ("auto", "1:2", 4, 1026, 4),
        ("swap", "2:4", 64, 128, 2000),
        ("window", "2:4", 8, 64, 5000),
        ("matching", "2:4", 16, 64, 50),
        ("deal", "1:3", 16, 63, 50),
        ("assignment", "2:4", 64, 128, 50),
    ],
)
def test_the_real_run_compiles_nothing(
    solver: str, pattern: str, rows: int, columns: int, steps: int
) -> None:
    """In a fresh interpreter every kernel that a run calls was called by the tiny run before."""
    arguments = [solver, pattern, str(rows), str(columns), str(steps)]
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("stop", "warm"),
    [
        (ps.MaxSeconds(0.01), True),
        (ps.MaxCpuSeconds(0.01), True),
        (ps.AnyOf(ps.MaxSteps(5), ps.MaxSeconds(0.01)), True),
        (ps.MaxSteps(5), False),
        (ps.NoImprovement(5), False),
        (None, False),
    ],
)
def test_limits_in_seconds_begin_after_compiling(
    monkeypatch: pytest.MonkeyPatch, stop: Any, warm: bool
) -> None:
    """`search` and `solve` warm up first where time ends the run, and only there."""
    calls: list[Any] = []
    monkeypatch.setattr(
        sys.modules["permsearch.solve"], "warm_up", lambda *call: calls.append(call)
    )
    ps.search(WEIGHT, "2:4", solver="swap", stop=stop)
    assert [call[0] for call in calls] == ([Swap()] if warm else [])


def test_warming_up_changes_no_result() -> None:
    """A run limited in seconds is repeated by its steps, as without the tiny run."""
    timed = ps.search(WEIGHT, "2:4", solver="anneal", stop=ps.MaxSeconds(0.05), seed=3)
    again = ps.search(WEIGHT, "2:4", solver="anneal", stop=ps.MaxSteps(timed.steps), seed=3)
    np.testing.assert_array_equal(timed.cols, again.cols)


def test_every_part_of_a_compound_is_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Then` and `Multistart` are warmed up part by part, each shape of a stack once."""
    runs: list[tuple[str, int]] = []
    for kind in (Swap, Anneal):
        real = kind._run

        def run(self: Any, stack: Any, *rest: Any, real: Any = real) -> Any:
            runs.append((type(self).__name__, len(stack.columns)))
            return real(self, stack, *rest)

        monkeypatch.setattr(kind, "_run", run)
    problem = ps.single(WEIGHT, "2:4", permute={"cols": ps.Segments((16, 16))})
    warm_up(ps.Then(Swap(), ps.Multistart(Anneal(), 2)), problem)
    assert runs == [("Swap", 16), ("Anneal", 16)]


def test_solvers_without_kernels_load_none() -> None:
    """Warming up a solver that only evaluates does not load numba."""
    script = (
        "import sys, numpy as np, permsearch as ps\n"
        "for name in ('none', 'random', 'local'):\n"
        "    ps.search(np.eye(8), '2:4', solver=name, stop=ps.MaxSeconds(0.01))\n"
        "assert 'numba' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_classes_of_solvers_are_at_hand() -> None:
    """Importing a solver's class with its options loads no numba; unknown names are told."""
    script = (
        "import sys, permsearch.solvers as s\n"
        "made = [getattr(s, name)() for name in s.__all__]\n"
        "assert len(set(made)) == len(made) >= 12\n"
        "assert 'numba' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert {type(ps.get_solver(name)).__name__ for name in ps.solver_names()} == set(
        permsearch.solvers.__all__
    )
    with pytest.raises(AttributeError, match="Swop"):
        permsearch.solvers.Swop  # noqa: B018


def test_compiling_that_takes_long_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line names the pattern while the loops are compiled; a quick start says nothing."""
    from permsearch.solvers import warm

    problem = ps.single(ps.instances.gaussian(8, 32, seed=0), "2:4")
    monkeypatch.setattr(warm, "_prepare", lambda *_: None)
    warm.warm_up(ps.get_solver("swap"), problem)
    assert not caplog.records
    seen = threading.Event()
    caplog.handler.addFilter(lambda _: seen.set() is None)
    monkeypatch.setattr(warm, "_prepare", lambda *_: seen.wait(60))
    monkeypatch.setattr(warm, "_PATIENCE", 0.01)
    warm.warm_up(ps.get_solver("swap"), problem)
    (record,) = caplog.records
    assert " for 2:4: a minute or two" in record.getMessage()
