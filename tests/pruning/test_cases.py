"""The networks of the bug-report collection: each one passes, none is merely refused.

Every case brings a model, inputs that must agree, and a legal rewrite by hand, so a tool that
finds no freedom leaves something on the table.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import permsearch as ps
import pruning
import pruning.formulate
from pruning.ops import tensors_in

KINDS = ("coupling", "rearrange", "conv", "attention", "shared", "tracing")
#: Sizes of the groups (blocks in brackets) that each report asks for.
EXPECTED = {
    "O01": ["8", "8"],
    "O02": ["16", "32", "8", "8", "8", "8"],
    "O03": ["12"],
    "O04": ["6", "8"],
    "O05": ["4"],
    "O06": ["16", "8"],
    "O07": ["8", "8"],
    "O08": ["16", "24", "32"],
    "O09": ["16", "2", "8(2)", "8(2)"],
    "O10": ["16", "2", "8(2)", "8(2)"],
    "O11": ["12"],
    "O12": ["16", "32"],
    "O13": ["16", "2", "32", "8(2)", "8(2)"],
    "O14": ["16"],
    "O15": ["32"],
    "O34": ["8"],
}


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> Any:
    """Return the module of cases beside the repository, or skip."""
    folder = request.config.rootpath.parent / "shared" / "cases"
    if not (folder / "models.py").is_file():
        pytest.skip(f"needs the collection of cases in {folder}, which is not part of the project")
    return load(folder / "models.py")


def load(path: Path) -> Any:
    """Import a file by its path."""
    spec = importlib.util.spec_from_file_location("reported_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reported_cases"] = module
    spec.loader.exec_module(module)
    return module


def sizes(network: pruning.Network) -> list[str]:
    """Return the sizes of a network's groups."""
    return sorted(
        f"{group.size}({group.blocks})" if group.blocks > 1 else str(group.size)
        for group in network.groups
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_case_passes(cases: Any, name: str) -> None:
    """The groups asked for are found, and random orders of all keep every given output."""
    case = cases.CASES[name]()
    assert case.kind in KINDS
    runs = (case.inputs, *case.more_inputs)
    with torch.no_grad():
        before = [cases.flat_out(case.model(*args)) for args in runs]
    network = pruning.trace(case.model, case.inputs, more=[(a, {}) for a in case.more_inputs])
    assert sizes(network) == EXPECTED[name]
    report = pruning.permute_(
        case.model, ps.random_solution(network.problem(), seed=1), network=network
    )
    assert report is not None
    assert report.difference <= 1e-12
    with torch.no_grad():
        after = [cases.flat_out(case.model(*args)) for args in runs]
    for one, two in zip(before, after, strict=True):
        assert float((one - two).abs().max()) <= case.tol


def test_every_network_case_is_here(cases: Any) -> None:
    """No network case of the collection is passed over."""
    found = {name for name, build in cases.CASES.items() if build().kind in KINDS}
    assert found == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_unaware_rewrite_is_noticed(cases: Any, name: str) -> None:
    """The comparison of outputs that guards every permutation sees what goes wrong."""
    case = cases.CASES[name]()
    if case.bad is None:
        pytest.skip("the report gives no wrong rewrite")

    def spoil(model: torch.nn.Module) -> None:
        case.bad(model, torch.Generator().manual_seed(7))

    runs = [(args, {}) for args in (case.inputs, *case.more_inputs)]
    report = pruning.verify.compare(case.model, spoil, runs, [[[]]] * len(runs))
    assert not report.same


def test_masked_attention_trains(cases: Any) -> None:
    """Permuted and pruned, attention trains on, and what is masked stays exactly zero (O09)."""
    case = cases.CASES["O09"]()
    network = pruning.trace(case.model, case.inputs)
    pruning.permute_(case.model, ps.random_solution(network.problem()), network=network)
    found = pruning.formulate.formulate(network, "2:4")
    weights = {plan.tensor: case.model.get_parameter(plan.tensor) for plan in found.layers}
    masks = {
        name: torch.from_numpy(ps.parse_pattern("2:4").keep(weight.detach().abs().numpy()))
        for name, weight in weights.items()
    }
    assert len(masks) == 3
    optimizer = torch.optim.Adam(case.model.parameters(), lr=0.01)

    def mask(*_: Any) -> None:
        with torch.no_grad():
            for name, weight in weights.items():
                weight.mul_(masks[name])

    mask()
    optimizer.register_step_post_hook(mask)
    case.model.train()
    for _ in range(3):
        optimizer.zero_grad()
        next(tensors_in(case.model(*case.inputs))).square().sum().backward()
        optimizer.step()
        assert all(not bool(weight[~masks[name]].any()) for name, weight in weights.items())


def test_ranks_find_the_same_orders(cases: Any) -> None:
    """Copies on two ranks, bare or wrapped, give the same names and orders, whatever they saw.

    Scores that differ by rank (activations) have to be added up first, as here.
    """
    orders = []
    total = sum(batch.square().sum(0) for batch in cases.CASES["O15"]().data["batches"])
    for batch in cases.CASES["O15"]().data["batches"]:
        case = cases.CASES["O15"]()
        network = pruning.trace(torch.nn.DataParallel(case.model), batch)
        scores = {
            "0.weight": case.model[0].weight.detach().abs() * total,
            "2.weight": case.model[2].weight.detach().abs(),
        }
        result = ps.solve(network.problem("2:4", scores), stop=ps.MaxSteps(200), seed=3)
        orders.append({name: order.tolist() for name, order in result.solution.items()})
    assert orders[0] == orders[1]
    assert list(orders[0]) == ["0.weight[0]"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrapped_model_has_the_same_groups(cases: Any) -> None:
    """DataParallel and torch.compile change neither groups nor names (O13)."""
    case = cases.CASES["O13"]()
    bare = pruning.trace(case.model, case.inputs)
    wrapped = pruning.trace(case.data["wrapped"], case.inputs)
    compiled = pruning.trace(torch.compile(case.model), case.inputs)
    assert bare.groups == wrapped.groups == compiled.groups


def test_tied_tensors_stay_tied(cases: Any) -> None:
    """A tied weight is moved once and is one tensor afterwards (O12)."""
    case = cases.CASES["O12"]()
    network = pruning.trace(case.model, case.inputs)
    assert network.aliases == {"lm_head.weight": "embed.weight"}
    pruning.permute_(case.model, ps.random_solution(network.problem()), network=network)
    assert case.model.lm_head.weight.data_ptr() == case.model.embed.weight.data_ptr()


def test_running_statistics_of_training_are_the_permuted_ones(cases: Any) -> None:
    """One step in training mode updates the moved statistics as it would the others (O03)."""
    case, other = cases.CASES["O03"](), cases.CASES["O03"]()
    network = pruning.trace(case.model, case.inputs)
    solution = ps.random_solution(network.problem(), seed=2)
    pruning.permute_(case.model, solution, network=network)
    order = torch.from_numpy(solution[network.groups[0].name])
    for model in (case.model, other.model):
        model.train()(*case.inputs)
    torch.testing.assert_close(case.model[1].running_mean, other.model[1].running_mean[order])
    torch.testing.assert_close(case.model[1].running_var, other.model[1].running_var[order])
