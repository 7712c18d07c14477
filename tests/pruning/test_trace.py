"""Tracing: what is found, what is pinned, and that every reason is told."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import permsearch as ps
import pruning
from permsearch.errors import UnknownName
from tests.zoo import ZOO
from tests.zoo_base import ROWS, TOKENS, Fn


def flagged(other: bool) -> nn.Module:
    """Return a model whose flag chooses a reader."""
    model = ZOO["branch on a flag"].build()
    model.other = other  # type: ignore[assignment]
    return model


def test_unread_parameters_are_named_and_what_they_could_read_is_pinned() -> None:
    """A branch behind a flag may read the hidden layer."""
    network = pruning.trace(flagged(other=False), ROWS)
    assert network.unread == ("c.weight", "c.bias")
    reasons = {(pin.tensor, pin.dim): pin.reasons for pin in network.pins}
    assert any("c.weight was not read" in reason for reason in reasons["a.weight", 0])


def test_unread_parameters_may_be_declared_dead() -> None:
    """What the user vouches for binds nothing."""
    network = pruning.trace(flagged(other=False), ROWS, ignore_unread=["c.*"])
    assert [group.size for group in network.groups] == [8]


def test_flattened_readers_count_too() -> None:
    """A branch that was not taken may read neighbouring dimensions as one."""

    def run(m: Any, x: Any) -> Any:
        h = m.a(x)
        return m.c(h.flatten(1)) if m.other else m.b(h)

    model = Fn(run, a=nn.Conv2d(3, 8, 1), b=nn.Conv2d(8, 3, 1), c=nn.Linear(8 * 16, 3), other=False)
    network = pruning.trace(model, torch.randn(2, 3, 4, 4))
    assert network.groups == ()


def test_graphs_of_several_inputs_are_merged() -> None:
    """Further examples reach branches that an argument chooses."""

    def run(m: Any, x: Any, other: bool = False) -> Any:
        h = F.relu(m.a(x))
        return m.c(h) if other else m.b(h)

    model = Fn(run, a=nn.Linear(6, 8), b=nn.Linear(8, 3), c=nn.Linear(8, 3)).double()
    assert pruning.trace(model, ROWS).groups == ()
    network = pruning.trace(model, ROWS, more=[((ROWS, True), {})])
    assert network.unread == ()
    assert {m.tensor for m in network.groups[0].readers} == {"b.weight", "c.weight"}
    solution = ps.random_solution(network.problem(), seed=1)
    report = pruning.permute_(model, solution, network=network)
    assert report is not None
    assert report.runs - report.resized == 4
    assert report.resized > 0


def test_a_forward_that_cannot_be_captured_is_told() -> None:
    """The message names the model and the reason, and nothing changes."""
    model = Fn(lambda m, x: m.a(x)[: int(x.sum())], a=nn.Linear(6, 8)).double()
    with pytest.raises(pruning.TraceError, match=r"Fn\.forward cannot be captured"):
        pruning.trace(model, ROWS.abs())


def test_checks_of_data_are_no_branches() -> None:
    """A forward that refuses some data by raising has one path: the other computes nothing."""

    def run(m: Any, x: Any) -> Any:
        assert (x < 9).all()
        if (x > 9).any():
            raise ValueError("too large")
        return m.b(F.relu(m.a(x)))

    network = pruning.trace(Fn(run, a=nn.Linear(6, 8), b=nn.Linear(8, 3)).double(), ROWS)
    assert [group.size for group in network.groups] == [8]


def test_many_branches_are_refused() -> None:
    """A loop over data has no end of paths."""

    def run(m: Any, x: Any) -> Any:
        while x.sum() > 0:
            x = m.a(x)
        return x

    with pytest.raises(pruning.TraceError, match=r"paths|captured"):
        pruning.trace(Fn(run, a=nn.Linear(6, 6)).double(), ROWS)


def test_mode_is_left_as_it_was() -> None:
    """Tracing and verifying evaluate; every module gets its own mode back."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.Linear(8, 3)).double()
    model.train()
    model[1].eval()
    network = pruning.trace(model, ROWS)
    pruning.permute_(model, ps.random_solution(network.problem()), network=network)
    assert [part.training for part in model] == [True, False, True]


def test_overlapping_tensors_are_pinned() -> None:
    """Two parameters on one memory cannot be moved one by one."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)).double()
    memory = torch.randn(8, 9, dtype=torch.float64)
    model[1].weight = nn.Parameter(memory[:, :8])
    model[0].bias = nn.Parameter(memory[:, 8])
    network = pruning.trace(model, ROWS)
    assert network.groups == ()
    assert any("shares memory" in reason for pin in network.pins for reason in pin.reasons)


def test_meta_models_have_groups() -> None:
    """No data is needed to find groups; scores then have to come from elsewhere."""
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    network = pruning.trace(model, torch.empty(2, 8, device="meta"))
    assert [group.size for group in network.groups] == [16]
    with pytest.raises(ps.ProblemError, match="meta device"):
        network.problem("2:4")
    state = {name: torch.randn(t.shape) for name, t in model.state_dict().items()}
    assert len(network.problem("2:4", state=state).terms) == 2


def test_frozen_parameters_take_the_slow_attention() -> None:
    """Attention's fused path has no inside to look at, so it is not captured."""
    model = ZOO["nn.TransformerEncoder"].build().requires_grad_(False)
    network = pruning.trace(model, TOKENS)
    assert network.unknown == {}
    assert len(network.groups) == 9


def test_summary_tells_everything() -> None:
    """Every group, member, pin, alias and unread parameter is in the text."""
    network = pruning.trace(ZOO["tied embedding"].build(), ZOO["tied embedding"].inputs)
    text = network.summary()
    for group in network.groups:
        assert group.name in text
        assert all(str(member) in text for member in group.members)
    assert "head.weight is e.weight" in text
    assert "rows are looked up by id" in text
    assert "was not read" in pruning.trace(flagged(other=False), ROWS).summary()


def test_graph_has_an_edge_for_each_member() -> None:
    """The networkx graph joins groups and tensors."""
    network = pruning.trace(ZOO["mlp"].build(), ROWS)
    graph = network.graph()
    assert isinstance(graph, nx.MultiGraph)
    assert graph.number_of_edges() == sum(len(group.members) for group in network.groups)
    assert graph.nodes["0.weight[0]"]["size"] == 16


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_drawing_is_a_file(ending: str, tmp_path: Any) -> None:
    """SVG and PNG by the file's ending."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'permsearch[plot]'")
    network = pruning.trace(ZOO["residual"].build(), TOKENS)
    network.draw(tmp_path / f"groups.{ending}")
    assert (tmp_path / f"groups.{ending}").stat().st_size > 2000


def test_groups_are_had_by_name() -> None:
    """A misspelt name offers the nearest."""
    network = pruning.trace(ZOO["mlp"].build(), ROWS)
    assert network["2.weight[0]"].size == 12
    with pytest.raises(UnknownName, match="did you mean"):
        network["2.weigth[0]"]
