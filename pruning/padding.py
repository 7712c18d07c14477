"""Which rows of a batch count: those of its tokens, not those that make it rectangular."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

from pruning.errors import CalibrationError

#: What `rows=` is: from a batch to a mask (batch, length) whose rows count where it is not zero,
#: several of them for batches with several lengths, or None for all rows.
Rows: TypeAlias = Callable[[Any], torch.Tensor | Sequence[torch.Tensor] | None]


def attended(batch: Any) -> list[torch.Tensor] | None:
    """Return the masks of the tokens that a tokenizer did not fill in; None: every row counts.

    That is the `attention_mask` of a mapping where it has two dimensions, and for a decoder's
    tokens `decoder_attention_mask`, or all of them.

    Raises
    ------
    CalibrationError
        Encoder and decoder have tokens of the same number but not the same mask, so that nobody
        can tell whose rows a layer sees.

    Examples
    --------
    >>> import torch
    >>> attended({"input_ids": [[5, 0]], "attention_mask": torch.tensor([[1, 0]])})
    [tensor([[1, 0]])]
    """
    if not isinstance(batch, Mapping) or not _is_mask(batch.get("attention_mask")):
        return None
    found: list[torch.Tensor] = [batch["attention_mask"]]
    ids = batch.get("decoder_input_ids")
    mask = batch.get("decoder_attention_mask", None if ids is None else torch.ones_like(ids))
    if not _is_mask(mask):
        return found
    if mask.shape != found[0].shape:
        return [*found, mask]
    if not torch.equal(mask.bool(), found[0].bool()):
        raise CalibrationError(
            f"the decoder's tokens are as long as the encoder's, {tuple(mask.shape)}, but padded "
            "otherwise; pad them to other lengths, or say which rows count by rows=."
        )
    return found


def _is_mask(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 2


@dataclass(frozen=True, slots=True)
class Counted:
    """A run of a model, or of a part of it, with the rows of its batch that count.

    Attributes
    ----------
    run
        What is called.
    masks
        Of the shape (batch, length), one for each length that there is; true = counts.
    """

    run: Callable[[], Any]
    masks: tuple[torch.Tensor, ...] = ()

    def __call__(self) -> Any:
        """Run it."""
        return self.run()

    def kept(
        self, module: nn.Module, lead: Sequence[int], count: int, *, inner: bool = False
    ) -> torch.Tensor | None:
        """Return which of a layer's rows count; None for all of them.

        Parameters
        ----------
        lead
            The dimensions of the layer's input before its features.
        count
            Its rows.
        inner
            Whether they are rows inside an attention, where batches are always second.
        """
        for mask in self.masks:
            if mask.numel() == count:
                turned = inner or _length_first(module, tuple(lead), tuple(mask.shape))
                return None if turned is None else (mask.T if turned else mask).reshape(-1)
        return None


def _length_first(module: nn.Module, lead: tuple[int, ...], shape: tuple[int, ...]) -> bool | None:
    """Whether rows of a layer's input lie position by position, all of the batch at each.

    None: they are no tokens of such a batch, though as many.
    """
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return not module.batch_first
    if isinstance(module, nn.Conv1d) or lead in (shape, (shape[0] * shape[1],)):
        return False
    return True if lead == shape[::-1] else None


def counted(run: Callable[[], Any], batch: Any, rows: Rows | None) -> Counted:
    """Return a run with the rows of its batch that count.

    Raises
    ------
    CalibrationError
        What `rows` gave is no mask of two dimensions.
    """
    found = None if rows is None else rows(batch)
    if found is None:
        return Counted(run)
    masks = [found] if isinstance(found, torch.Tensor) else list(found)
    for mask in masks:
        if not _is_mask(mask):
            shape = tuple(mask.shape) if isinstance(mask, torch.Tensor) else type(mask).__name__
            raise CalibrationError(
                f"rows= gave a mask of {shape}; it has to be a tensor (batch, length), or None."
            )
    return Counted(run, tuple(mask.bool() for mask in masks if not bool(mask.bool().all())))
