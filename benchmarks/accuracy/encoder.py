"""A BERT sentence encoder over packed tokens: sentences of any length, no padding.

Every linear layer sees one matrix (tokens, features), so that statistics of inputs hold real
tokens alone and a walk from layer to layer can stop between any two of them. Checked against
`transformers` by `checked`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from benchmarks.network_models import minilm_folder

HEADS, BLOCKS, EPSILON = 12, 6, 1e-12
#: Linear layers of a block, in the order they run in.
PARTS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Sentences one after another.

    Attributes
    ----------
    tokens
        Token numbers of all sentences, (count,).
    sizes
        Tokens of each sentence.
    """

    tokens: Tensor
    sizes: tuple[int, ...]

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Yield (start, sentences, length) of runs of sentences of equal length."""
        start, at = 0, 0
        while at < len(self.sizes):
            length, run = self.sizes[at], 1
            while at + run < len(self.sizes) and self.sizes[at + run] == length:
                run += 1
            yield start, run, length
            start, at = start + run * length, at + run

    def places(self) -> Tensor:
        """Return the position of each token in its sentence."""
        return torch.cat([torch.arange(size) for size in self.sizes])


def packed(sentences: Sequence[str], longest: int = 128) -> tuple[Batch, list[int]]:
    """Return sentences sorted by their length, and which sentence each of them was."""
    found: list[list[int]] = _tokenizer()(list(sentences), truncation=True, max_length=longest)[
        "input_ids"
    ]
    order = sorted(range(len(found)), key=lambda at: len(found[at]))
    tokens = torch.tensor([token for at in order for token in found[at]])
    return Batch(tokens, tuple(len(found[at]) for at in order)), order


@cache
def _tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(minilm_folder()))


@cache
def tensors() -> Mapping[str, Tensor]:
    """Return the encoder's tensors by their names."""
    return load_file(minilm_folder() / "model.safetensors")


def names() -> list[str]:
    """Return the weights of the 36 linear layers, as they run."""
    return [f"encoder.layer.{at}.{part}.weight" for at in range(BLOCKS) for part in PARTS]


def embedded(state: Mapping[str, Tensor], batch: Batch) -> Tensor:
    """Return what the first block reads, (tokens, width)."""
    value = state["embeddings.word_embeddings.weight"][batch.tokens]
    value = value + state["embeddings.position_embeddings.weight"][batch.places()]
    value = value + state["embeddings.token_type_embeddings.weight"][0]
    return normed(state, "embeddings.LayerNorm", value)


def linear(state: Mapping[str, Tensor], name: str, value: Tensor) -> Tensor:
    """Run a linear layer, named without its ``.weight``."""
    return functional.linear(value, state[f"{name}.weight"], state[f"{name}.bias"])


def normed(state: Mapping[str, Tensor], name: str, value: Tensor) -> Tensor:
    """Run a layer norm."""
    weight = state[f"{name}.weight"]
    return functional.layer_norm(value, weight.shape, weight, state[f"{name}.bias"], EPSILON)


def attended(batch: Batch, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return the mixture of values that each token attends to, within its sentence."""
    out = torch.empty_like(value)
    for start, count, length in batch.spans():
        part = slice(start, start + count * length)
        one, other, own = (
            x[part].reshape(count, length, HEADS, -1).transpose(1, 2) for x in (query, key, value)
        )
        mixed = functional.scaled_dot_product_attention(one, other, own)
        out[part] = mixed.transpose(1, 2).reshape(count * length, -1)
    return out


def block(state: Mapping[str, Tensor], at: int, batch: Batch, value: Tensor) -> Tensor:
    """Run one block."""
    here = f"encoder.layer.{at}."
    parts = (linear(state, f"{here}attention.self.{p}", value) for p in ("query", "key", "value"))
    mixed = linear(state, f"{here}attention.output.dense", attended(batch, *parts))
    value = normed(state, f"{here}attention.output.LayerNorm", value + mixed)
    inner = functional.gelu(linear(state, f"{here}intermediate.dense", value))
    return normed(
        state, f"{here}output.LayerNorm", value + linear(state, f"{here}output.dense", inner)
    )


def pooled(batch: Batch, value: Tensor) -> Tensor:
    """Return one vector of length one for each sentence: the mean of its tokens."""
    rows = [
        value[start : start + count * length].reshape(count, length, -1).mean(1)
        for start, count, length in batch.spans()
    ]
    return functional.normalize(torch.cat(rows), dim=1)


@torch.no_grad()
def embeddings(state: Mapping[str, Tensor], sentences: Sequence[str]) -> Tensor:
    """Return the embedding of each sentence, (sentences, width)."""
    batch, order = packed(sentences)
    value = embedded(state, batch)
    for at in range(BLOCKS):
        value = block(state, at, batch, value)
    found = torch.empty(len(order), value.shape[1])
    found[order] = pooled(batch, value)
    return found


@torch.no_grad()
def checked(sentences: Sequence[str]) -> float:
    """Return the largest difference to embeddings by `transformers` and its padded batches."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(str(minilm_folder())).eval()
    batch = _tokenizer()(
        list(sentences), padding=True, truncation=True, max_length=128, return_tensors="pt"
    )
    mask = batch["attention_mask"][..., None]
    summed = (model(**batch).last_hidden_state * mask).sum(1)
    theirs = functional.normalize(summed / mask.sum(1), dim=1)
    return float((theirs - embeddings(tensors(), sentences)).abs().max())
