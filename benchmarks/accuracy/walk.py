"""Walk through the encoder, layer after layer, and prune on the way.

Two streams run side by side over the calibration text: the dense encoder's values, and those of the
encoder as pruned so far. What a layer is fitted to depends on the `Fit`:

``dense``
    Its inputs in the dense encoder, its own outputs: every layer for itself.
``sequential``
    Its inputs in the pruned encoder, its own outputs on these (SparseGPT's usual way).
``corrected``
    Its inputs in the pruned encoder, its outputs in the *dense* encoder: it makes up for what
    earlier layers lost.
``residual``
    As ``corrected``; layers that write to the residual stream make up for the error in that stream
    as well.

The last two are a least-squares problem with another right side. They are turned into the first
kind: with ``H`` the Gram matrix of pruned inputs and ``W*`` the dense weight that fits best, the
error of any V is a constant plus tr((W* - V) H (W* - V)^T). So every mask, sweep and refit of
`pruning.update` serves, with W* for the weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.accuracy import encoder
from benchmarks.accuracy.encoder import Batch
from pruning.curvature import damped
from pruning.statistics import Inputs

Target: TypeAlias = Literal["dense", "sequential", "corrected", "residual"]
#: Takes a layer's name, its (corrected) weight and its inputs; returns the pruned weight.
Prune: TypeAlias = Callable[[str, Tensor, Inputs], Tensor]

_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Fit:
    """What layers are fitted to.

    Parameters
    ----------
    target
        See the module.
    bias
        Whether biases are fitted together with the weights, which means centred statistics.
    norms
        Whether gain and bias of each layer norm are fitted to the dense encoder's values.
    ridge
        Damping of the corrected weight, towards the stored one.
    """

    target: Target = "dense"
    bias: bool = False
    norms: bool = False
    ridge: float = 0.01


@torch.no_grad()
def pruned(sentences: Sequence[str], prune: Prune, fit: Fit) -> dict[str, Tensor]:
    """Return the encoder's tensors after pruning every linear layer, one after another."""
    batch, _ = encoder.packed(sentences)
    state = dict(encoder.tensors())
    walk = _Walk(batch, encoder.tensors(), state, prune, fit)
    stream = encoder.embedded(state, batch)
    streams = stream, stream
    for at in range(encoder.BLOCKS):
        streams = walk.block(f"encoder.layer.{at}.", *streams)
    return state


@torch.no_grad()
def statistics(sentences: Sequence[str]) -> dict[str, Inputs]:
    """Return the statistics of all layers' inputs in the dense encoder."""
    found = {}

    def keep(name: str, weight: Tensor, inputs: Inputs) -> Tensor:
        found[name] = inputs
        return weight

    pruned(sentences, keep, Fit())
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    batch: Batch
    dense: Mapping[str, Tensor]
    state: dict[str, Tensor]
    prune: Prune
    fit: Fit

    def block(self, here: str, one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
        """Prune a block; return both streams behind it."""
        parts = [f"{here}attention.self.{part}" for part in ("query", "key", "value")]
        outs = self.layers(parts, one, two)
        mixed = [encoder.attended(self.batch, *some) for some in zip(*outs, strict=True)]
        one, two = self.added(f"{here}attention.output", one, two, *mixed)
        ((inner, mine),) = self.layers([f"{here}intermediate.dense"], one, two)
        return self.added(f"{here}output", one, two, functional.gelu(inner), functional.gelu(mine))

    def added(
        self, name: str, one: Tensor, two: Tensor, x: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Prune a layer that writes to the residual stream; return both streams after the norm."""
        lost = one - two if self.fit.target == "residual" else None
        ((out, mine),) = self.layers([f"{name}.dense"], x, y, lost)
        one = encoder.normed(self.dense, f"{name}.LayerNorm", one + out)
        two = two + mine
        if self.fit.norms:
            self.fit_norm(f"{name}.LayerNorm", one, two)
        return one, encoder.normed(self.state, f"{name}.LayerNorm", two)

    def layers(
        self, names: Sequence[str], x: Tensor, y: Tensor, lost: Tensor | None = None
    ) -> list[tuple[Tensor, Tensor]]:
        """Prune layers that read one input, x dense and y pruned; return their outputs for both."""
        own = x if self.fit.target == "dense" else y
        mean = own.mean(0) if self.fit.bias else torch.zeros(own.shape[1])
        own = own - mean
        inputs = _inputs(names[0], own)
        outs = []
        for name in names:
            weight, bias = self.dense[f"{name}.weight"], self.dense[f"{name}.bias"]
            out = functional.linear(x, weight, bias)
            goal, gap = weight, torch.zeros_like(bias)
            if self.fit.target in ("corrected", "residual"):
                wanted = out if lost is None else out + lost
                goal = self.corrected(name, inputs, own, mean, wanted)
                gap = wanted.mean(0) - functional.linear(mean, weight, bias)
            new = self.prune(f"{name}.weight", goal, inputs)
            self.state[f"{name}.weight"] = new
            if self.fit.bias:
                self.state[f"{name}.bias"] = bias + (weight - new) @ mean + gap
            outs.append((out, encoder.linear(self.state, name, y)))
        return outs

    def corrected(
        self, name: str, inputs: Inputs, own: Tensor, mean: Tensor, wanted: Tensor
    ) -> Tensor:
        """Return the dense weight that fits best: the stored one and a ridge regression.

        Its right side, own^T (wanted - own W^T - ...), is made of the Gram matrix: one product of
        all tokens instead of two.
        """
        weight, bias = self.dense[f"{name}.weight"], self.dense[f"{name}.bias"]
        (gram,) = inputs.grams()
        rest = _product(own, wanted) / len(own) - gram @ weight.double().T
        rest -= own.double().mean(0)[:, None] * functional.linear(mean, weight, bias)
        solid = damped(gram, self.fit.ridge, name).matrix
        change = torch.cholesky_solve(rest, torch.linalg.cholesky(solid))
        return (weight.double() + change.T).to(weight.dtype)

    def fit_norm(self, name: str, wanted: Tensor, value: Tensor) -> None:
        """Fit gain and bias of a norm, feature by feature."""
        plain = functional.layer_norm(value, value.shape[1:], eps=encoder.EPSILON).double()
        wide, centre = wanted.double(), plain.mean(0)
        spread = (plain - centre).square().mean(0)
        gain = ((plain - centre) * (wide - wide.mean(0))).mean(0) / spread
        self.state[f"{name}.weight"] = gain.float()
        self.state[f"{name}.bias"] = (wide.mean(0) - gain * centre).float()


def _inputs(name: str, own: Tensor) -> Inputs:
    gram = _product(own, own)
    return Inputs(name, len(own), gram.diagonal()[None].clone(), gram[None])


def _product(one: Tensor, other: Tensor) -> Tensor:
    """Return one^T other, summed in float64 over chunks of rows that are multiplied in float32."""
    total = torch.zeros(one.shape[1], other.shape[1], dtype=torch.float64)
    for a, b in zip(torch.split(one, _ROWS), torch.split(other, _ROWS), strict=True):
        total += a.T @ b
    return total
