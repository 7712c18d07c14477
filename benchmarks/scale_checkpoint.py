"""A LLaMA checkpoint of any depth with made-up weights: ``python -m benchmarks.scale_checkpoint``.

Shapes are those of the 8B model (4096 wide, 14336 hidden, 32 query and 8 key-value heads) unless
told otherwise. Entries are Student t with 8 degrees of freedom (kurtosis 4.5), times a scale for
each input channel and each output channel, log-normal with the spreads that SmolLM2's weights
have. Part of an input channel's scale is common to all readers of the residual stream, and one
channel in 512 is an outlier, so that an order of the stream has something to find. Shards are
written one after another, block of rows by block of rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_ROWS = 1024  # rows made at once
_DEGREES = 8
# Spread (standard deviation of the logarithm) of input and output channels' scales, by layer.
_SPREADS = {
    "q_proj": (0.15, 0.30), "k_proj": (0.18, 0.25), "v_proj": (0.22, 0.15), "o_proj": (0.15, 0.15),
    "gate_proj": (0.07, 0.15), "up_proj": (0.09, 0.10), "down_proj": (0.12, 0.12),
    "embed_tokens": (0.20, 0.25), "lm_head": (0.15, 0.20),
}  # fmt: skip
_COMMON = 0.10  # spread that all readers of the residual stream share
_OUTLIERS, _OUTLIER = 512, 4.0  # one channel in so many is so many times larger


@dataclass(frozen=True, slots=True)
class Shape:
    """The widths of a LLaMA."""

    layers: int = 4
    width: int = 4096
    hidden: int = 14336
    heads: int = 32
    shared: int = 8
    vocabulary: int = 128256

    def config(self) -> dict[str, Any]:
        """Return what config.json says."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": self.width,
            "intermediate_size": self.hidden,
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.shared,
            "rms_norm_eps": 1e-05,
            "rope_theta": 500000.0,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "vocab_size": self.vocabulary,
        }

    def shards(self) -> list[dict[str, tuple[int, ...]]]:
        """Return the tensors of each shard: the embedding, the layers, the head."""
        narrow = self.width // self.heads * self.shared
        found: list[dict[str, tuple[int, ...]]] = [
            {"model.embed_tokens.weight": (self.vocabulary, self.width)}
        ]
        for layer in range(self.layers):
            own = {
                "input_layernorm": (self.width,),
                "mlp.down_proj": (self.width, self.hidden),
                "mlp.gate_proj": (self.hidden, self.width),
                "mlp.up_proj": (self.hidden, self.width),
                "post_attention_layernorm": (self.width,),
                "self_attn.k_proj": (narrow, self.width),
                "self_attn.o_proj": (self.width, self.width),
                "self_attn.q_proj": (self.width, self.width),
                "self_attn.v_proj": (narrow, self.width),
            }
            found.append({f"model.layers.{layer}.{k}.weight": v for k, v in own.items()})
        found.append(
            {"model.norm.weight": (self.width,), "lm_head.weight": (self.vocabulary, self.width)}
        )
        return found


def bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return numbers rounded to bfloat16 (to even), as the words that a file holds."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype("<u2")


def rows_of(
    name: str, shape: tuple[int, ...], common: NDArray[np.float32], seed: list[int]
) -> Iterator[NDArray[np.float32]]:
    """Yield a tensor in blocks of rows."""
    rng = np.random.default_rng(seed)
    if len(shape) == 1:
        yield np.exp(0.1 * rng.standard_normal(shape, np.float32))
        return
    inner, outer = next(v for k, v in _SPREADS.items() if k in name)
    columns = np.exp(inner * rng.standard_normal(shape[1], np.float32))
    if shape[1] == len(common) and "o_proj" not in name:
        columns *= common
    columns *= np.float32(0.02)
    for first in range(0, shape[0], _ROWS):
        count = min(_ROWS, shape[0] - first)
        values = rng.standard_normal((count, shape[1]), np.float32)
        # one divisor for eight entries of a row: the marginals are Student's, at a fraction of
        # the cost
        tail = rng.chisquare(_DEGREES, (count, -(-shape[1] // 8))).astype(np.float32) / _DEGREES
        values /= np.repeat(np.sqrt(tail), 8, axis=1)[:, : shape[1]]
        values *= columns
        values *= np.exp(outer * rng.standard_normal((count, 1), np.float32))
        yield values


def write(folder: Path, shape: Shape, seed: int = 0) -> int:
    """Write the checkpoint and return its number of weights."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, 0])
    common = np.exp(_COMMON * rng.standard_normal(shape.width, np.float32))
    common[rng.permutation(shape.width)[: max(1, shape.width // _OUTLIERS)]] *= np.float32(_OUTLIER)
    shards, count = shape.shards(), 0
    files: dict[str, str] = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        with (folder / name).open("wb") as file:
            _write_shard(file, tensors, common, [seed, number])
        files |= dict.fromkeys(tensors, name)
        count += sum(int(np.prod(size)) for size in tensors.values())
    index = {"metadata": {"total_size": 2 * count}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2), "utf-8")
    (folder / "config.json").write_text(json.dumps(shape.config(), indent=2), "utf-8")
    return count


def _write_shard(
    file: IO[bytes],
    tensors: dict[str, tuple[int, ...]],
    common: NDArray[np.float32],
    seed: list[int],
) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for index, (name, shape) in enumerate(tensors.items()):
        for block in rows_of(name, shape, common, [*seed, index]):
            file.write(bfloat16(block).tobytes())


def main() -> None:
    """Read the command line and write the checkpoint."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_checkpoint")
    parser.add_argument("folder", type=Path)
    own = Shape()
    for name in Shape.__slots__:
        parser.add_argument(f"--{name}", type=int, default=getattr(own, name))
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args())
    folder, seed = given.pop("folder"), given.pop("seed")
    count = write(folder, Shape(**given), seed)
    print(f"{folder}: {count:,} weights")


if __name__ == "__main__":
    main()
