"""A minute with an installed permsearch: every dependency is used once, through what needs it.

Usage: python .ci/smoke.py [FOLDER]

Run where the library is installed, not from the repository. `.ci/check_dist.py` runs it on the
built wheel with the versions of the development environment, `.ci/check_versions.py` with the
lowest and the newest versions that pyproject.toml allows. FOLDER: the library must come from
below it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch import nn

import permsearch as ps
import pruning
import sparsekernels as sk
from permsearch.allocation import dense_costs
from permsearch.published.transposable import flow_mask

PATTERNS = (
    "2:4",
    "8:2:8",
    "hinm:8@0.5:2:4",
    "vector:8@0.25",
    "block:4x4@0.25",
    "unaligned:4@0.25",
    "tile:8@0.25",
    "transposable:2:4",
    "unstructured@0.25",
)


def searches() -> None:
    """Search under every pattern and by every method that imports something of its own."""
    weight = ps.instances.gaussian(16, 32, seed=0)
    for pattern in PATTERNS:  # numba
        result = ps.search(weight, pattern, stop=ps.MaxSteps(3), seed=0)
        assert result.score >= result.baseline, result
    ps.search(weight, "2:4", solver="matching")  # rustworkx
    assert ps.search(weight, "1:2", solver="matching").status is ps.Status.OPTIMAL  # networkx
    exact()


def exact() -> None:
    """Prove an optimum by integer programs, and a bound by a certificate that is checked."""
    from permsearch.solvers import Exact

    # more columns than dynamic programming takes, and an order that the bound alone does not prove
    problem = ps.single(ps.instances.gaussian(8, 20, seed=0), "2:4")
    provers = [Exact(anneal_steps=4, prover=name) for name in ("highs", "cpsat")]
    highs, cpsat = (ps.solve(problem, prover, stop=ps.MaxSteps(40)) for prover in provers)
    assert highs.status is cpsat.status is ps.Status.OPTIMAL, (highs, cpsat)
    assert abs(highs.score - cpsat.score) < 1e-6 * highs.score, (highs, cpsat)
    assert "ortools.sat.python.cp_model" in sys.modules, "no integer program was needed"
    limit = ps.bound(problem, "partition")
    assert limit.certificate is not None
    limit.certificate.verify(problem)
    blocks = np.abs(ps.instances.gaussian(4, 4, seed=0))
    assert flow_mask(blocks, ps.TransposableNM(2, 4)).sum() == 8  # the flow solver of ortools


def allocation() -> None:
    """Give two layers their patterns under a budget."""
    terms = [
        ps.Term(ps.instances.gaussian(32, 32, seed=n) ** 2, "2:4", name=str(n)) for n in (0, 1)
    ]
    options = ps.layer_options(terms, ["2:4", "1:4"])
    budget = {"size": 0.5 * dense_costs(options)["size"]}
    assert len(ps.allocate(options, budget).patterns) == 2


def files(folder: Path) -> None:
    """Write weights, masks and a report by the commands, and read them back."""
    from safetensors.numpy import save_file

    path = folder / "w.safetensors"
    save_file({"a.weight": ps.instances.gaussian(16, 32, seed=0).astype(np.float32)}, path)
    program = Path(sys.executable).with_name("permsearch")
    command = [str(program)] if program.exists() else [sys.executable, "-m", "permsearch"]
    for words in (
        ["search", path, "-p", "2:4", "--steps", "5", "--out", folder / "masks"],
        ["compare", path, "-p", "2:4", "--steps", "5", "--html", folder / "report.html"],
        ["doctor"],
    ):
        subprocess.run([*command, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    from permsearch.io import MaskBundle

    assert MaskBundle.load(folder / "masks")["a.weight"].mask.shape == (16, 32)
    assert (folder / "report.html").stat().st_size > 10_000


def networks(folder: Path) -> None:
    """Prune a small model, draw its groups, export and pack it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    batch = torch.randn(3, 32)
    network = pruning.trace(model, batch)
    network.draw(folder / "groups.svg")  # matplotlib
    result = pruning.prune(model, "2:4", example_inputs=batch)
    result.bundle.save(folder / "bundle")
    packed = pruning.export(result.bundle, model, to="sparsekernels").result  # ninja, a compiler
    torch.testing.assert_close(packed(batch), model(batch), rtol=1e-4, atol=1e-5)
    weight = torch.eye(8)
    vectors = sk.pack(weight, None, "vector:8@1")
    assert torch.equal(sk.linear(torch.ones(20, 8), vectors), torch.ones(20, 8))


def versions() -> str:
    """Return what was used."""
    names = (
        *("numpy", "scipy", "numba", "networkx", "rustworkx", "ortools", "torch", "safetensors"),
        *("click", "rich", "jinja2", "matplotlib"),
    )
    return ", ".join(f"{name} {metadata.version(name)}" for name in names)


def main() -> None:
    """Use everything once and say with which versions."""
    if len(sys.argv) > 1:
        for module in (ps, pruning, sk):
            assert str(module.__file__).startswith(sys.argv[1]), module.__file__
    with tempfile.TemporaryDirectory() as made:
        searches()
        allocation()
        files(Path(made))
        networks(Path(made))
    print(f"works with {versions()}")


if __name__ == "__main__":
    main()
