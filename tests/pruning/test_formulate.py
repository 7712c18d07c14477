"""Search problems of networks: what is scored, what is left and why, exact in value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import permsearch as ps
import pruning
from permsearch.errors import ProblemError, UnknownName
from pruning.formulate import formulate
from tests.zoo import ZOO

#: Zoo models whose widths suit a pattern of groups of 2 or 4.
SCORED = {
    "mlp": "2:4",
    "residual": "2:4",
    "concatenation": "2:4",
    "concatenation with itself": "2:4",
    "dense connections": "2:4",
    "tied embedding": "1:4",
    "swiglu, fused": "2:4",
    "experts by batches": "2:4",
    "resnet": "2:4",
    "u-net": "1:2",
    "grouped": "1:2",
    "transposed": "2:4",
    "channel shuffle by view": "2:4",
    "multi-head attention": "2:4",
    "grouped queries": "2:4",
    "split qkv": "2:4",
    "fused qkv": "1:2",
    "lstm, both directions": "2:4",
    "vgg": "2:4",
    "linear layer seen as image": "1:2",
    "depthwise with multiplier": "1:2",
}


def kept(network: pruning.Network, pattern: str, layers: set[str]) -> float:
    """Return what masks of the stored weights keep, by brute force."""
    parsed = ps.parse_pattern(pattern)
    total = 0.0
    for name, dim in network.read:
        if name in layers:
            weight = np.moveaxis(network.tensors[name].detach().numpy(), dim, 1)
            total += parsed.retained(np.abs(weight))
    return total


@pytest.mark.parametrize("name", SCORED)
def test_problem_values_orders_as_the_model_will_have_it(name: str) -> None:
    """For random orders, the problem's value is what masks keep after they are applied."""
    model = ZOO[name].build()
    network = pruning.trace(model, ZOO[name].inputs)
    found = formulate(network, SCORED[name])
    layers = {plan.tensor for plan in found.layers}
    assert any(plan.state == "absorbed" for plan in found.layers), found.layers
    problem = found.problem
    assert problem.evaluate(problem.identity()) == pytest.approx(
        kept(network, SCORED[name], layers)
    )
    sensitive = set(problem.sensitive)
    for seed in range(2):
        solution = ps.random_solution(problem, seed=seed)
        solution = {name: order for name, order in solution.items() if name in sensitive}
        promised = network.problem(SCORED[name]).evaluate(solution)
        pruning.permute_(model, solution, network=network)
        assert kept(network, SCORED[name], layers) == pytest.approx(promised)


def test_orders_that_do_not_matter_may_be_added() -> None:
    """Head orders and the like change nothing that the problem scores."""
    model = ZOO["multi-head attention"].build()
    network = pruning.trace(model, ZOO["multi-head attention"].inputs)
    problem = network.problem("2:4")
    insensitive = set(problem.domains) - set(problem.sensitive)
    assert insensitive
    before = problem.evaluate(problem.identity())
    solution = ps.random_solution(problem, seed=1)
    pruning.permute_(model, {n: solution[n] for n in insensitive}, network=network)
    after = network.problem("2:4")
    assert after.evaluate(after.identity()) == pytest.approx(before)


def test_total_counts_every_weight_with_a_pattern() -> None:
    """Shares are shares of all weights, those that no order reaches included."""
    model = ZOO["mlp"].build()
    network = pruning.trace(model, ZOO["mlp"].inputs)
    problem = network.problem({"2": "2:4", "4": "2:4"})
    total = sum(float(model.state_dict()[f"{n}.weight"].abs().sum()) for n in (2, 4))
    assert problem.total == pytest.approx(total)


def test_every_weight_has_a_plan_or_a_reason() -> None:
    """No layer is passed over without a word."""
    model = ZOO["weight norm"].build()
    network = pruning.trace(model, ZOO["weight norm"].inputs)
    own = formulate(network, "2:4", lambda name, tensor: tensor.detach().abs())
    assert [plan.tensor for plan in own.layers] == ["2.parametrizations.weight.original1"]
    assert "0.parametrizations.weight.original1" in own.skipped
    with pytest.raises(ProblemError, match="pass scores="):
        formulate(network, "2:4")


def test_reasons_name_what_stands_in_the_way() -> None:
    """A pinned reader is left, with the pin's reason; a table is skipped."""
    model = ZOO["embedding"].build()
    network = pruning.trace(model, ZOO["embedding"].inputs)
    found = formulate(network, "2:4")
    assert "no contraction reads it" in found.skipped["0.weight"]
    pinned = pruning.trace(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)), torch.ones(2, 8))
    states = {plan.tensor: plan for plan in formulate(pinned, "2:4").layers}
    assert states["0.weight"].state == "left"
    assert "model input" in states["0.weight"].reason
    assert states["1.weight"].state == "absorbed"


def test_globs_choose_layers() -> None:
    """The first glob that fits counts, None leaves a layer out, one that fits none is an error."""
    model = ZOO["mlp"].build()
    network = pruning.trace(model, ZOO["mlp"].inputs)
    found = formulate(network, {"4": None, "*": "2:4"})
    assert "4.weight" not in {plan.tensor for plan in found.layers}
    with pytest.raises(UnknownName, match="layer"):
        formulate(network, {"fc*": "2:4"})


def test_own_scores_are_used() -> None:
    """Importances by name, of the right shape."""
    model = ZOO["mlp"].build()
    network = pruning.trace(model, ZOO["mlp"].inputs)
    ones = {"2.weight": np.ones((12, 16))}
    problem = network.problem({"2": "2:4"}, scores=ones)
    assert problem.total == 192
    with pytest.raises(ProblemError, match="no entry"):
        network.problem("2:4", scores=ones)
    with pytest.raises(ProblemError, match="shape"):
        network.problem({"2": "2:4"}, scores={"2.weight": np.ones((12, 12))})


def test_variables_alone() -> None:
    """Without patterns there are domains to draw legal orders from, and no terms."""
    network = pruning.trace(ZOO["mlp"].build(), ZOO["mlp"].inputs)
    problem = network.problem()
    assert problem.terms == ()
    assert set(problem.domains) == {group.name for group in network.groups}


@dataclass(frozen=True)
class Tiles:
    """Keep half of the tiles of 4 x 4: rows and columns both matter."""

    axes = frozenset({"rows", "cols"})
    density = 0.5

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse what does not tile."""
        if shape[0] % 4 or shape[1] % 4:
            raise ps.PatternError("no tiles of 4 x 4")

    def retained(self, scores: np.ndarray) -> float:
        """Return the sum of the heavier half of the tiles."""
        rows, cols = scores.shape
        tiles = scores.reshape(rows // 4, 4, cols // 4, 4).sum((1, 3)).ravel()
        return float(np.sort(tiles)[len(tiles) // 2 :].sum())

    def keep(self, scores: np.ndarray) -> np.ndarray:
        """Not needed here."""
        raise NotImplementedError

    accepts = keep


def test_patterns_on_rows_bring_producers_in() -> None:
    """A pattern that looks at both axes ties rows and columns to their groups."""
    model = ZOO["mlp"].build()
    network = pruning.trace(model, ZOO["mlp"].inputs)
    found = formulate(network, {"2": Tiles()})
    (term,) = found.problem.terms
    assert (term.rows, term.cols) == ("2.weight[0]", "0.weight[0]")
    assert found.problem.sensitive == ("0.weight[0]", "2.weight[0]")
    solution = ps.random_solution(found.problem, seed=2)
    promised = found.problem.evaluate(solution)
    pruning.permute_(model, solution, network=network)
    assert Tiles().retained(model[2].weight.detach().abs().numpy()) == pytest.approx(promised)


ROW_PATTERNS = ("block:2x2@0.5", "vector:2@0.5", "transposable:2:4", "tile:4@0.5")


@pytest.mark.parametrize("pattern", ROW_PATTERNS)
@pytest.mark.parametrize("name", ["residual", "llama block", "multi-head attention", "resnet"])
def test_patterns_on_rows_are_valued_exactly_or_refused(name: str, pattern: str) -> None:
    """What the searched orders promise is what masks keep; a layer that none can promise is named.

    The orders of a head's values cut through the stacked rows of a fused projection.
    """
    model = ZOO[name].build()
    network = pruning.trace(model, ZOO[name].inputs)
    found = formulate(network, pattern)
    assert any(plan.state == "absorbed" for plan in found.layers)
    sensitive = set(found.problem.sensitive)
    solution = ps.random_solution(found.problem, seed=1)
    solution = {name: order for name, order in solution.items() if name in sensitive}
    promised = found.problem.evaluate(solution)
    pruning.permute_(model, solution, network=network)
    assert kept(network, pattern, {plan.tensor for plan in found.layers}) == pytest.approx(promised)
    given = {plan.tensor for plan in found.layers} | set(found.skipped)
    assert given == {name for name, _ in network.read}


def test_a_layer_that_another_group_cuts_through_is_refused() -> None:
    """Rows of a fused projection hold the values of each head, which the next layer searches."""
    model = ZOO["multi-head attention"].build()
    network = pruning.trace(model, ZOO["multi-head attention"].inputs)
    found = formulate(network, "block:2x2@0.5")
    assert "one term cannot say" in found.skipped["a.in_proj_weight"]
    alone = formulate(network, {"a.in_proj_weight": "block:2x2@0.5"})
    assert [plan.state for plan in alone.layers] == ["absorbed"]
    assert "order only parts of its rows" in alone.layers[0].reason


def test_patterns_without_structure_need_no_order() -> None:
    """Where no order matters a layer is left, with that reason."""
    network = pruning.trace(ZOO["mlp"].build(), ZOO["mlp"].inputs)
    layers = {plan.tensor: plan for plan in formulate(network, "unstructured@0.5").layers}
    assert layers["2.weight"].state == "left"
