"""Masks that other tools made, and what an order could still gain over each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from permsearch.errors import PatternError, unknown
from permsearch.patterns import Pattern, parse_pattern
from permsearch.solve import search as search_order
from permsearch.stop import StoppingCriterion
from pruning.errors import ExportError
from pruning.exports.compressed import Found, compressed_tensors, opened, zeros

if TYPE_CHECKING:
    import torch
    from torch import nn

Source: TypeAlias = Literal["zeros", "asp", "modelopt", "torch-prune", "llm-compressor"]
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
    retained
        The share of the weights' magnitudes that it keeps.
    best
        The share that the best mask of the pattern would keep in the order as it is.
    found
        The share that the best mask keeps in the order that a search found; `best` without one.

    The three shares are 0 where the dropped values are gone and no dense weights were given.
    """

    mask: torch.Tensor
    follows: bool
    density: float
    retained: float
    best: float
    found: float

    @property
    def headroom(self) -> float:
        """What another order and mask would add to `retained`; reached by a search, no bound."""
        return max(0.0, self.best - self.retained, self.found - self.retained)


def import_masks(
    model: nn.Module | Mapping[str, torch.Tensor] | str | Path,
    source: Source = "zeros",
    pattern: str | Pattern = "2:4",
    *,
    dense: nn.Module | Mapping[str, torch.Tensor] | str | Path | None = None,
    search: bool = True,
    stop: StoppingCriterion | None = None,
    least: float = 0.1,
) -> dict[str, Foreign]:
    """Return the masks that another tool left on a model, with their head-room.

    Parameters
    ----------
    model
        A model, its state dict, a `.safetensors` file, or a Hugging Face folder.
    source
        "zeros": dense weights with zeros; "asp": apex's buffers ``__weight_mma_mask``; "modelopt":
        ``_weight_mask``; "torch-prune": ``weight_mask``; "llm-compressor": a folder with its
        config.json, dense or ``sparse-24-bitmask``, without the layers listed there as ignored.
    pattern
        What they are compared with.
    dense
        The weights before they were pruned, where zeros have taken their place.
    search
        Whether an order is searched for each weight, by `permsearch.search`, for `found`.
    stop
        Of each search; None: the solver's own.
    least
        For zeros: the share of them from which a weight counts as pruned.

    Raises
    ------
    ExportError
        There is no such mask in it.

    Examples
    --------
    >>> import torch
    >>> state = {"x.weight": torch.randn(8, 16), "x.__weight_mma_mask": torch.ones(8, 16).bool()}
    >>> import_masks(state, "asp")["x.weight"].follows
    False
    """
    if source not in get_args(Source):
        raise unknown("source", source, get_args(Source))
    parsed = parse_pattern(pattern)
    before = None if dense is None else opened(dense)
    stopping = (search, stop)
    found = {}
    for name, weight, mask in _pairs(model, source, least):
        own = weight if before is None else _dense(before, name, mask)
        found[name] = _judged(name, own, mask, parsed, stopping)
    if not found:
        raise ExportError(f"there are no masks as {source!r} has them.")
    return found


def _pairs(
    model: nn.Module | Mapping[str, torch.Tensor] | str | Path, source: Source, least: float
) -> Iterator[Found]:
    if source == "llm-compressor":
        yield from compressed_tensors(model, least)
    elif source == "zeros":
        yield from zeros(opened(model), least)
    else:
        yield from _buffers(opened(model), _SUFFIX[source])


def _buffers(state: Mapping[str, torch.Tensor], suffix: str) -> Iterator[Found]:
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


def _dense(state: Mapping[str, torch.Tensor], name: str, mask: torch.Tensor) -> torch.Tensor:
    found = state.get(name)
    if found is None or found.shape != mask.shape:
        raise ExportError(f"dense holds no {name} of shape {tuple(mask.shape)}.")
    return found


def _judged(
    name: str,
    weight: torch.Tensor,
    mask: torch.Tensor,
    pattern: Pattern,
    stopping: tuple[bool, StoppingCriterion | None],
) -> Foreign:
    size = weight.detach().float().abs().contiguous().cpu().numpy()
    kept = mask.contiguous().cpu().numpy()
    density = float(mask.float().mean())
    try:
        follows = pattern.accepts(kept)
        pattern.check(size.shape)
    except PatternError:
        return Foreign(mask, follows=False, density=density, retained=0.0, best=0.0, found=0.0)
    total = float(size.sum(dtype="float64"))
    if not total or not bool((size[~kept] > 0).any()):
        return Foreign(mask, follows, density, 0.0, 0.0, 0.0)
    best = found = pattern.retained(size) / total
    searched, stop = stopping
    if searched:
        result = search_order(None, pattern, scores=size, stop=stop, name=name)
        found = max(best, result.retained)
    own = float(size[kept].sum(dtype="float64")) / total
    return Foreign(mask, follows, density, own, best, found)
