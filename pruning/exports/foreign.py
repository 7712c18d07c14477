"""Masks that other tools made, read off a state dict, and what an order could still gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from permsearch.errors import PatternError, unknown
from permsearch.patterns import Pattern, parse_pattern
from pruning.errors import ExportError

if TYPE_CHECKING:
    import torch

Source: TypeAlias = Literal["zeros", "asp", "modelopt", "torch-prune"]
_SUFFIX = {"asp": "__{}_mma_mask", "modelopt": "_{}_mask", "torch-prune": "{}_mask"}


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """A mask of another tool.

    Attributes
    ----------
    mask
        Boolean, true = kept.
    follows
        Whether it is one of the pattern's.
    density
        The share that it keeps.
    retained, best
        The share of the weights' magnitudes that it keeps, and that the best mask of the pattern
        would in the order as it is; both 0 where the dropped values are gone already.
    """

    mask: torch.Tensor
    follows: bool
    density: float
    retained: float
    best: float

    @property
    def headroom(self) -> float:
        """What a better mask alone could add to `retained`."""
        return max(0.0, self.best - self.retained)


def import_masks(
    state: Mapping[str, torch.Tensor],
    source: Source = "zeros",
    pattern: str | Pattern = "2:4",
    *,
    least: float = 0.1,
) -> dict[str, Foreign]:
    """Return the masks that a state dict of another tool holds.

    Parameters
    ----------
    source
        "zeros": a dense checkpoint with zeros (llm-compressor and others); "asp": apex's buffers
        ``__weight_mma_mask``; "modelopt": ``_weight_mask``; "torch-prune": ``weight_mask``.
    pattern
        What they are compared with.
    least
        For "zeros": the share of zeros from which a weight counts as pruned.

    Raises
    ------
    ExportError
        There is no such mask in it.
    """
    if source not in get_args(Source):
        raise unknown("source", source, get_args(Source))
    parsed = parse_pattern(pattern)
    pairs = _zeros(state, least) if source == "zeros" else _buffers(state, _SUFFIX[source])
    found = {name: _judged(weight, mask, parsed) for name, weight, mask in pairs}
    if not found:
        raise ExportError(f"the state dict holds no masks as {source!r} has them.")
    return found


def _zeros(
    state: Mapping[str, torch.Tensor], least: float
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    for name, tensor in state.items():
        if tensor.dim() > 1 and tensor.is_floating_point():
            mask = tensor != 0
            if float((~mask).float().mean()) >= least:
                yield name, tensor, mask


def _buffers(
    state: Mapping[str, torch.Tensor], suffix: str
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    for name, tensor in state.items():
        prefix, _, leaf = name.rpartition(".")
        head, tail = suffix.split("{}")
        if leaf.startswith(head) and leaf.endswith(tail) and len(leaf) > len(head) + len(tail):
            own = leaf[len(head) : -len(tail)]
            full = f"{prefix}.{own}" if prefix else own
            weight = state.get(full, state.get(f"{full}_orig"))
            if weight is None or weight.shape != tensor.shape:
                raise ExportError(
                    f"{name} is a mask for {full}, which is missing or of another shape."
                )
            yield full, weight, tensor != 0


def _judged(weight: torch.Tensor, mask: torch.Tensor, pattern: Pattern) -> Foreign:
    size = weight.detach().float().abs().contiguous().cpu().numpy()
    kept = mask.contiguous().cpu().numpy()
    total = float(size.sum(dtype="float64"))
    full = bool((size[~kept] > 0).any())
    try:
        best = pattern.retained(size) / total if full and total else 0.0
        follows = pattern.accepts(kept)
    except PatternError:
        best, follows = 0.0, False
    own = float(size[kept].sum(dtype="float64")) / total if full and total else 0.0
    return Foreign(mask, follows, float(mask.float().mean()), own, best)
