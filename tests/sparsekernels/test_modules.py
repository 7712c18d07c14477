"""Sparse layers in networks: swapped in by a bundle, stored, copied, trained."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import permsearch as ps
import pruning
import sparsekernels as sk
from tests.sparsekernels import drawn


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


def entry(case: drawn.Masked) -> SimpleNamespace:
    """Return what a bundle holds for a layer."""
    return SimpleNamespace(
        mask=case.mask, pattern=case.pattern, rows=case.rows, cols=case.cols, tiles=case.tiles
    )


@pytest.fixture
def network() -> nn.Sequential:
    """Return two linear layers and a convolution, in evaluation."""
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 16, bias=False))
    return nn.Sequential(nn.Conv2d(8, 24, (3, 1), padding="same"), nn.Flatten(2), first).eval()


def bundle_of(network: nn.Module) -> dict[str, SimpleNamespace]:
    """Return masks of three patterns for the three layers."""
    conv = drawn.pick((24, 3, 2, 4), 2, generator()).reshape(24, 3, 8).permute(0, 2, 1)[..., None]
    return {
        "0.weight": SimpleNamespace(mask=conv, pattern="2:4"),
        "2.0": entry(drawn.vector(32, 24, 8, 6, generator(1))),
        "2.2": entry(drawn.vnm(16, 4, 8, 8, generator(2))),
    }


def test_swap_keeps_what_the_masked_network_computes(network: nn.Sequential) -> None:
    """Outputs equal those of the same network with masked dense weights."""
    bundle = bundle_of(network)
    dense = copy.deepcopy(network)
    with torch.no_grad():
        for name, held in bundle.items():
            dense.get_submodule(name.removesuffix(".weight")).weight.mul_(held.mask)
    told = sk.swap_modules_(network, bundle)
    assert [line.name for line in told] == ["0", "2.0", "2.2"]
    assert all(not line.reason and 0 < line.nbytes < line.dense_bytes for line in told)
    assert isinstance(network[0], sk.SparseConv2d)
    assert isinstance(network[2][0], sk.SparseLinear)
    x = torch.randn(2, 8, 4, 6, generator=generator())
    torch.testing.assert_close(network(x), dense(x), rtol=1e-4, atol=1e-5)
    assert not network[0].training
    assert "2:4" in repr(network)


def test_swap_takes_a_part(network: nn.Sequential) -> None:
    """`only` chooses by name; the rest stays dense."""
    sk.swap_modules_(network, bundle_of(network), only=["2.*"])
    assert isinstance(network[0], nn.Conv2d)
    assert isinstance(network[2][2], sk.SparseLinear)


def test_what_cannot_be_packed_is_told_or_raised(network: nn.Sequential) -> None:
    """A wrong mask leaves the layer dense with the reason; strict raises and changes nothing."""
    bundle = bundle_of(network)
    bundle["2.0"].pattern = "1:24"
    before = [type(layer) for layer in network.modules()]
    with pytest.raises(sk.PackError, match=r"2\.0: the mask is not 1:24"):
        sk.swap_modules_(network, bundle, strict=True)
    assert [type(layer) for layer in network.modules()] == before
    told = sk.swap_modules_(network, bundle)
    assert "keep more than 1" in told[1].reason
    assert isinstance(network[2][0], nn.Linear)
    with pytest.raises(sk.PackError, match="no layer 'nobody'"):
        sk.swap_modules_(network, {"nobody": bundle["2.2"]})
    with pytest.raises(sk.PackError, match="a bundle maps names"):
        sk.swap_modules_(network, [1])


def test_other_layers_have_no_counterpart() -> None:
    """Layers that hold a weight but are neither linear nor a convolution stay, with the reason."""
    model = nn.ModuleDict(
        {"e": nn.Embedding(8, 8), "c": nn.Conv2d(4, 8, 1, padding_mode="circular")}
    )
    held = SimpleNamespace(mask=torch.ones(8, 8).bool(), pattern="8:8")
    conv = SimpleNamespace(mask=torch.ones(8, 4, 1, 1).bool(), pattern="4:4")
    model["l"] = nn.Linear(8, 4)
    linear = SimpleNamespace(mask=torch.tensor([[True, True, False, False] * 2] * 4), pattern="2:4")
    told = sk.swap_modules_(model, {"e": held, "c": conv, "l": linear})
    assert "Embedding has no packed counterpart" in told[0].reason
    assert "padding_mode='circular'" in told[1].reason
    assert repr(told).startswith("1 of 3 layers are packed\ne: 8:8, dense: ")
    assert "l: 2:4, " in str(told)


def test_nothing_swapped_is_an_error(network: nn.Sequential) -> None:
    """Masks that are still attached, or names that match nothing, are told with the way out."""
    bundle = bundle_of(network)
    del bundle["0.weight"]
    masks = {f"{name}.weight": held.mask for name, held in bundle.items()}
    pruning.attach_masks_(network, masks)
    with pytest.raises(sk.PackError, match=r"none of 2.*1 more.*pruning\.detach_masks_\(model\)"):
        sk.swap_modules_(network, bundle)
    pruning.detach_masks_(network)
    with pytest.raises(sk.PackError, match="no entry whose name matches nobody"):
        sk.swap_modules_(network, bundle, only=["nobody"])
    assert not any(line.reason for line in sk.swap_modules_(network, bundle))


def test_layers_copy_pickle_and_load() -> None:
    """Copies are independent and equal; a state dict of other indices is taken whole."""
    first = sk.SparseLinear(drawn.vector(32, 24, 8, 6, generator(1)).pack(), torch.ones(32))
    other = sk.SparseLinear(drawn.vector(32, 24, 8, 6, generator(2)).pack(), torch.zeros(32))
    x = torch.randn(3, 24, generator=generator())
    expected = first(x)
    for twin in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert torch.equal(twin(x), expected)
        with torch.no_grad():
            twin.values.zero_()
        assert torch.equal(first(x), expected)
    other.load_state_dict(first.state_dict())
    assert torch.equal(other(x), expected)
    damaged = first.state_dict()
    damaged["indices"] = damaged["indices"] + 24
    with pytest.raises(sk.PackError, match=r"outside 0\.\.23"):
        other.load_state_dict(damaged)


def test_training_moves_values_alone() -> None:
    """A step changes stored values and bias; what is not stored stays zero."""
    case = drawn.tile(32, 24, 8, 0.02, generator(3))
    layer = sk.SparseLinear(case.pack(), torch.zeros(32))
    assert set(dict(layer.named_parameters())) == {"values", "overlay", "bias"}
    step = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.randn(40, 24, generator=generator())).square().sum().backward()
    step.step()
    now = layer.packed.unpack()
    assert not torch.equal(now, case.dense)
    assert bool((now[~case.mask] == 0).all())


def test_layers_move_to_other_types() -> None:
    """`.bfloat16()` and `.double()` change floats and keep indices."""
    layer = sk.SparseLinear(drawn.vnm(16, 3, 8, 8, generator()).pack(), torch.zeros(16))
    x = torch.randn(5, 24, generator=generator())
    expected = layer(x)
    lower = copy.deepcopy(layer).bfloat16()
    assert lower(x.bfloat16()).dtype == torch.bfloat16
    torch.testing.assert_close(lower(x.bfloat16()).float(), expected, rtol=0.05, atol=0.1)
    double = copy.deepcopy(layer).double()
    torch.testing.assert_close(double(x.double()).float(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 32), (32, 16, 3, 3)])
@pytest.mark.parametrize(
    "pattern",
    ["2:4", "3:8", "vector:8@0.25", "vector:8@0.3/group", "block:8x4@0.25", "tile:16@0.25",
     "tile:16@0.25+0.02", "8:2:8", "hinm:8@0.5:2:4", "transposable:2:4"],
)  # fmt: skip
def test_what_a_search_finds_packs(pattern: str, shape: tuple[int, ...]) -> None:
    """Mask, orders and tiles of a search result go straight into `pack`, and come back."""
    weight = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found = ps.search(weight, pattern, solver="random", stop=ps.MaxSteps(3), seed=0)
    packed = sk.pack(
        torch.from_numpy(weight),
        torch.from_numpy(np.ascontiguousarray(found.mask)),
        found.problem.terms[0].pattern,
        found.rows,
        found.cols,
        tiles=found.tiles.get(0),
    )
    assert packed.pattern == pattern
    np.testing.assert_array_equal(packed.unpack().numpy(), np.where(found.mask, weight, 0))
