"""The walk through the encoder that corrects for earlier layers, on made-up weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import linear

from benchmarks.accuracy import walk
from benchmarks.accuracy.encoder import Batch
from benchmarks.accuracy.walk import Fit
from pruning.statistics import Inputs


def walked(fit: Fit, lost: torch.Tensor | None = None) -> tuple[dict[str, Any], list[Any]]:
    """Walk through one layer whose pruning zeroes half of the columns; return what it saw."""
    draw = torch.Generator().manual_seed(0)
    dense = {
        "a.weight": torch.randn(5, 8, generator=draw),
        "a.bias": torch.randn(5, generator=draw),
    }
    one = torch.randn(200, 8, generator=draw) + 1
    two = one + 0.3 * torch.randn(200, 8, generator=draw) + 0.2
    told: dict[str, Any] = {"one": one, "two": two, "dense": dense, "state": dict(dense)}

    def prune(name: str, weight: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        told[name], told["inputs"] = weight, inputs
        return weight * (torch.arange(8) < 6)

    own = walk._Walk(Batch(torch.zeros(200), (200,)), dense, told["state"], prune, fit)
    return told, own.layers(["a"], one, two, lost)


def test_the_corrected_weight_is_the_best_one() -> None:
    """Without ridge, no dense weight and bias come nearer to the wanted outputs."""
    told, _ = walked(Fit("corrected", bias=True, ridge=0.0))
    wanted = linear(told["one"], *told["dense"].values())
    design = torch.cat([told["two"], torch.ones(200, 1)], 1)
    best = torch.linalg.lstsq(design.double(), wanted.double()).solution
    torch.testing.assert_close(told["a.weight"].double(), best[:8].T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", ["dense", "sequential", "corrected", "residual"])
def test_fitted_biases_leave_no_mean_error(target: Any) -> None:
    """Outputs have the mean that was wanted: of the dense layer, and what the stream lost."""
    lost = torch.full((200, 5), 0.7) if target == "residual" else None
    told, ((out, mine),) = walked(Fit(target, bias=True), lost)
    own = told["one"] if target == "dense" else told["two"]
    seen = linear(own, *told["state"].values()).mean(0)
    goal = {
        "dense": out.mean(0),
        "sequential": linear(told["two"], *told["dense"].values()).mean(0),
        "corrected": out.mean(0),
        "residual": out.mean(0) + 0.7,
    }[target]
    torch.testing.assert_close(seen, goal, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mine, linear(told["two"], *told["state"].values()))


def test_plain_statistics_are_not_centred() -> None:
    """Without fitted biases, weights are as stored and inputs as they are."""
    told, _ = walked(Fit())
    torch.testing.assert_close(told["a.weight"], told["dense"]["a.weight"])
    (gram,) = told["inputs"].grams()
    wide = told["one"].double()
    torch.testing.assert_close(gram, wide.T @ wide / 200, rtol=1e-5, atol=1e-5)
    assert told["state"]["a.bias"] is told["dense"]["a.bias"]


def test_the_ridge_draws_to_the_stored_weight() -> None:
    """With much of it, the corrected weight is the stored one."""
    told, _ = walked(Fit("corrected", bias=True, ridge=1e6))
    torch.testing.assert_close(told["a.weight"], told["dense"]["a.weight"], rtol=1e-3, atol=1e-3)
