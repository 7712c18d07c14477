"""Masks of other tools come in, from wherever they keep them, with what is left to gain."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

import permsearch as ps
import pruning
from permsearch.errors import FileError, UnknownName
from pruning.errors import ExportError
from pruning.exports.bitmask import compressed, parts_of


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normal numbers that do not depend on what ran before."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def two_four(weight: torch.Tensor, n: int = 2) -> torch.Tensor:
    """Return the n:4 mask by magnitude."""
    return torch.from_numpy(ps.NM(n, 4).keep(weight.abs().numpy()))


class Asp(nn.Module):
    """A layer with the buffers that apex's ASP registers beside a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 32)
        mask = two_four(self.fc.weight.detach())
        self.fc.register_buffer("__weight_mma_mask", mask)


def test_headroom_is_what_a_search_reaches() -> None:
    """ASP's best mask leaves nothing to a mask alone, and what the search finds to an order."""
    torch.manual_seed(0)
    model = Asp()
    found = pruning.import_masks(model, "asp")["fc.weight"]
    result = ps.search(model.fc.weight, "2:4")
    assert found.follows
    assert found.best == pytest.approx(found.retained)
    assert found.found == pytest.approx(result.retained)
    assert found.headroom == pytest.approx(result.retained - found.retained)
    assert found.headroom > 0.005
    quick = pruning.import_masks(model, "asp", stop=ps.MaxSteps(1))["fc.weight"]
    assert quick.best <= quick.found < found.found
    assert pruning.import_masks(model, "asp", search=False)["fc.weight"].headroom == 0.0


def test_zeros_are_judged_by_the_dense_weights(tmp_path: Path) -> None:
    """Where the dropped values are gone, the dense model tells what they were worth."""
    torch.manual_seed(0)
    dense = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 16))
    masks = {n: two_four(p.detach()) for n, p in dense.named_parameters() if p.dim() > 1}
    state = {n: p.detach() * masks.get(n, 1) for n, p in dense.named_parameters()}
    save_file(state, tmp_path / "m.safetensors")
    alone = pruning.import_masks(tmp_path / "m.safetensors")
    assert {each.headroom for each in alone.values()} == {0.0}
    found = pruning.import_masks(tmp_path / "m.safetensors", dense=dense)
    for name, each in found.items():
        assert torch.equal(each.mask, masks[name])
        size = dense.get_parameter(name).detach().abs()
        assert each.retained == pytest.approx(float((size * masks[name]).sum() / size.sum()))
        assert each.headroom > 0.0
    with pytest.raises(ExportError, match=r"dense holds no 0\.weight"):
        pruning.import_masks(state, dense=nn.Linear(4, 4))
    with pytest.raises(FileError, match="cannot be read"):
        pruning.import_masks(tmp_path / "no.safetensors")


def test_masks_of_torch_prune_come_from_the_model() -> None:
    """A model under torch.nn.utils.prune is read as it is, and its weights judged."""
    model = nn.Sequential(nn.Linear(32, 16))
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    found = pruning.import_masks(model, "torch-prune")["0.weight"]
    assert torch.equal(found.mask, model[0].weight_mask != 0)
    assert not found.follows
    assert found.density == 0.5
    assert found.headroom == 0.0  # unstructured keeps more than 2:4 can in any order


def test_sources_are_checked() -> None:
    """Misspelt sources offer the known ones; a folder is needed where one is read."""
    with pytest.raises(UnknownName, match=r"source 'apex'.*asp"):
        pruning.import_masks(nn.Linear(2, 2), "apex")  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="give the path"):
        pruning.import_masks(nn.Linear(2, 2), "llm-compressor")


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 5),
    groups=st.integers(1, 5),
    n=st.integers(1, 2),
    seed=st.integers(0, 99),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
)
def test_bitmask_parts_give_the_weight_back(
    rows: int, groups: int, n: int, seed: int, dtype: torch.dtype
) -> None:
    """Exactly two of four are stored, and every value comes back, kept zeros with their sign."""
    weight = drawn(rows, 4 * groups, seed=seed).to(dtype)
    weight[0, 0] = -0.0
    mask = two_four(weight.float(), n)
    parts = compressed(weight * mask, mask)
    found = parts_of({f"x.{name}": part for name, part in parts.items()})["x.weight"]
    back, stored = found.unpack()
    assert bool((stored.reshape(-1, 4).sum(1) == 2).all())
    assert bool(stored[mask].all())
    assert back.dtype == dtype
    assert torch.equal(back, weight * mask)
    assert parts["compressed"].shape == (rows, 2 * groups)
    assert parts["bitmask"].shape == (rows, -(-groups // 2))
