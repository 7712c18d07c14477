"""Running statistics anew: what a pruned network's batch norms have to be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from pruning.calibrate import as_call
from pruning.capture import evaluating, unwrapped
from pruning.errors import CalibrationError


@torch.no_grad()
def reestimate_batchnorm_(model: nn.Module, batches: Iterable[Any]) -> int:
    """Replace the running statistics of all batch norms by the means over some batches, in place.

    Everything but the batch norms is in evaluation mode. Give dense baselines the same treatment:
    it improves them as well.

    Returns
    -------
    int
        The number of batch norms; with none of them nothing is run.

    Raises
    ------
    CalibrationError
        There are no batches, or a statistic is not finite; the old ones were put back.

    Examples
    --------
    >>> import torch
    >>> norm = torch.nn.BatchNorm1d(1)
    >>> reestimate_batchnorm_(norm, [torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])])
    1
    >>> norm.running_mean
    tensor([4.])
    """
    bare = unwrapped(model)
    norms = [m for m in bare.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    before = [
        (norm, norm.momentum, {k: v.clone() for k, v in norm.named_buffers()}) for norm in norms
    ]
    if not norms:
        return 0
    count = 0
    with evaluating(bare):
        for norm in norms:
            norm.train()
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches, not an average that forgets
        for batch in batches:
            args, kwargs = as_call(batch)
            bare(*args, **kwargs)
            count += 1
    sound = all(bool(b.isfinite().all()) for norm in norms for b in norm.buffers())
    for norm, momentum, saved in before:
        norm.momentum = momentum
        if not count or not sound:
            for name, value in saved.items():
                norm.get_buffer(name).copy_(value)
    if not count or not sound:
        told = "a statistic is not finite" if count else "there are no batches"
        raise CalibrationError(f"batch norms cannot be estimated: {told}; they are as they were.")
    return len(norms)
