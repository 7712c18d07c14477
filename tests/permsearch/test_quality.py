"""No solver gets worse: retained shares at a fixed seed and step budget against stored values.

The stored values stand in `tests/data/quality.json`. After a change that makes solvers better (or
changes what a step is), write them anew and look at the difference before committing it:

    python -m tests.permsearch.test_quality
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import permsearch as ps
from permsearch.instances import gaussian, lognormal_columns, planted, student_t

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "data" / "quality.json"
SAMPLE = ROOT / "examples" / "data" / "minilm_layer0.safetensors"
WORSE = 1e-4  # of the total: what another processor's rounding may cost, and no more

# steps of each solver: enough to converge, or about a tenth of a second
STEPS = {
    "random": 50,
    "local": 5000,
    "deal": 40,
    "swap": 200,
    "window": 20_000,
    "matching": 40,
    "assignment": 400,
    "anneal": 1500,
    "auto": 1500,
}


def _real(name: str, rows: slice, cols: slice) -> NDArray[Any]:
    from safetensors.numpy import load_file

    weights = load_file(SAMPLE)
    found: NDArray[Any] = weights[f"encoder.layer.0.{name}.weight"][rows, cols]
    return found.astype(np.float32)


def instances() -> dict[str, tuple[NDArray[Any], str]]:
    """Return small weights of every kind and the pattern that each is to carry."""
    few, some = slice(0, 96), slice(0, 128)
    return {
        "query-2:4": (_real("attention.self.query", few, some), "2:4"),
        "ffn-out-2:4": (_real("output.dense", few, slice(0, 192)), "2:4"),
        "value-1:2": (_real("attention.self.value", few, some), "1:2"),
        "query-1:4": (_real("attention.self.query", few, some), "1:4"),
        "key-4:8": (_real("attention.self.key", few, some), "4:8"),
        "gaussian-2:4": (gaussian(64, 64, seed=1), "2:4"),
        "scaled-2:4": (lognormal_columns(64, 64, seed=1), "2:4"),
        "heavy-2:4": (student_t(64, 64, seed=1), "2:4"),
        "planted-2:4": (planted(48, 64, "2:4", seed=1)[0], "2:4"),
    }


def measured(solver: str, weight: NDArray[Any], pattern: str) -> float | None:
    """Return the share that a solver retains within its steps, None where it does not apply."""
    problem = ps.single(weight, pattern)
    chosen = ps.get_solver(solver)
    if chosen.supports(problem) is not None:
        return None
    return chosen.solve(problem, stop=ps.MaxSteps(STEPS[solver]), seed=0).retained


def _stored() -> dict[str, dict[str, float]]:
    read: dict[str, dict[str, float]] = json.loads(STORED.read_text())
    return read


@pytest.mark.parametrize("name", instances())
@pytest.mark.parametrize("solver", STEPS)
def test_no_solver_gets_worse(solver: str, name: str) -> None:
    """A solver retains what it retained when the values were stored, less 1e-4."""
    weight, pattern = instances()[name]
    share = measured(solver, weight, pattern)
    assert share is not None
    assert share >= _stored()[name][solver] - WORSE


def test_every_solver_is_watched() -> None:
    """All short names have stored values, but for those that cannot get worse or prove optima."""
    assert set(STEPS) == set(ps.solver_names()) - {"none", "exhaustive", "exact"}
    assert set(_stored()) == set(instances())
    assert all(set(shares) == set(STEPS) for shares in _stored().values())


@pytest.mark.parametrize("name", instances())
def test_the_portfolio_is_the_best(name: str) -> None:
    """`auto` is at least as good as every fixed method on the stored values, but for 5e-4."""
    shares = _stored()[name]
    assert shares["auto"] >= max(shares.values()) - 5e-4


def main() -> None:
    """Measure everything anew and store it."""
    found = {
        name: {solver: measured(solver, weight, pattern) for solver in STEPS}
        for name, (weight, pattern) in instances().items()
    }
    STORED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
