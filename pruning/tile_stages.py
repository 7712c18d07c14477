"""Tile-wise sparsity in stages: all tiles of all layers ranked together, while the model trains.

(Guo et al., "Accelerating Sparse DNN Models without Hardware-Support via Tile-Wise Sparsity", SC
2020.) At each stage less is kept; which layer gives up how much is decided by what its tiles are
worth to the loss, (gradient * weight)^2 summed over the steps since the stage before (Taylor).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from permsearch.arrays import to_numpy
from permsearch.errors import unknown
from permsearch.patterns import TileWise, parse_pattern
from permsearch.tile_shares import tile_shares
from pruning.calibrate import as_call
from pruning.capture import unwrapped
from pruning.errors import CalibrationError
from pruning.masks import attach_masks_, masks_of, update_masks_
from pruning.schedule import ScheduleError


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one stage decided.

    Attributes
    ----------
    share
        Of all entries together that are kept.
    patterns
        Each layer's own pattern, by the weight's name.
    """

    share: float
    patterns: dict[str, TileWise]


class TileStages:
    """The stages of a training run: watch each step, and go to the next stage when it is time.

    Parameters
    ----------
    model
        Its weights stay the same objects; masks are attached at the first stage.
    pattern
        The last stage's, such as ``"tile:128@0.25"``; the share is that of all layers together.
    shares
        Shares that are kept at the stages before, falling.
    names
        Weights to prune, with their inputs along dimension 1; None: all of linear layers and
        convolutions.
    optimizer
        It keeps dropped weights, and what it remembers of them, at zero.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    >>> stages = TileStages(model, "tile:4@0.25", shares=[0.5])
    >>> while not stages.done:
    ...     model(torch.ones(2, 8)).sum().backward()
    ...     stages.watch()  # between backward and the optimizer's step
    ...     ranking = stages.advance_()  # after some steps
    >>> ranking.share
    0.25
    """

    def __init__(
        self,
        model: nn.Module,
        pattern: str | TileWise,
        *,
        shares: Sequence[float] = (),
        names: Iterable[str] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        last = parse_pattern(pattern)
        if not isinstance(last, TileWise):
            raise ScheduleError(f"stages rank tiles; {last} is not tile-wise.")
        falling = [*shares, last.kept]
        if not all(1 > a > b > 0 for a, b in zip([*falling, 0.0], falling[1:], strict=False)):
            raise ScheduleError(f"shares must fall from below 1 to {last.kept}, got {falling}.")
        self.model, self.last, self.optimizer = unwrapped(model), last, optimizer
        self.left = falling
        self.weights = _chosen(self.model, names)
        for weight in self.weights.values():
            last.check(tuple(weight.shape))
        self.sums = {name: torch.zeros_like(w) for name, w in self.weights.items()}
        self.steps = 0

    @property
    def done(self) -> bool:
        """Whether the last stage has been reached."""
        return not self.left

    @torch.no_grad()
    def watch(self) -> None:
        """Add what the gradients that are there now say: call it before the optimizer's step.

        Raises
        ------
        CalibrationError
            A weight has no gradient, or one that is not finite (a scaled one that overflowed is
            to be skipped, as the scaler skips its step).
        """
        for name, weight in self.weights.items():
            if weight.grad is None:
                raise CalibrationError(f"{name} has no gradient; watch() follows backward().")
            if not bool(weight.grad.isfinite().all()):
                raise CalibrationError(f"{name}: its gradient at step {self.steps} is not finite.")
            self.sums[name] += (weight.grad * weight).square()
        self.steps += 1

    def advance_(self) -> Ranking:
        """Go to the next stage: rank the tiles of all layers, and put the masks on the model.

        Raises
        ------
        ScheduleError
            There is no stage left, or no step was watched since the stage before.
        """
        if self.done or not self.steps:
            told = "the last stage has been reached" if self.done else "no step was watched"
            raise ScheduleError(f"there is nothing to rank: {told}.")
        share = self.left[0]
        scores = {name: to_numpy(total, name) for name, total in self.sums.items()}
        patterns = tile_shares(scores, replace(self.last, kept=share))
        masks = {n: torch.from_numpy(patterns[n].keep(scores[n])) for n in patterns}
        if masks_of(self.model).keys() & masks.keys():
            update_masks_(self.model, masks)
        else:
            attach_masks_(self.model, masks, optimizer=self.optimizer)
        del self.left[0]
        self.steps = 0
        for total in self.sums.values():
            total.zero_()
        return Ranking(share, patterns)


def train_in_stages_(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[Any, Any], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    pattern: str | TileWise,
    shares: Sequence[float] = (),
    steps: int,
    names: Iterable[str] | None = None,
) -> list[Ranking]:
    """Train a model and prune it on the way, tile by tile in stages; its masks stay attached.

    `steps` dense steps, a stage, `steps` under its masks, the next stage, and so on; after the last
    stage as many again.

    Parameters
    ----------
    batches
        What the model is called with; begun again when they end.
    loss
        (output, batch) to a scalar.
    pattern, shares, names
        See `TileStages`.
    steps
        Optimizer steps between stages.

    Returns
    -------
    list of Ranking
        What each stage decided.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> stages = train_in_stages_(
    ...     model,
    ...     [torch.randn(4, 8)],
    ...     lambda output, batch: output.square().mean(),
    ...     optimizer,
    ...     pattern="tile:4@0.25",
    ...     shares=[0.5],
    ...     steps=2,
    ... )
    >>> [stage.share for stage in stages]
    [0.5, 0.25]
    """
    if steps < 1:
        raise ScheduleError(f"a stage takes at least one step, not {steps}.")
    stages = TileStages(model, pattern, shares=shares, names=names, optimizer=optimizer)
    endless = _endless(batches)
    found: list[Ranking] = []
    while True:
        for _ in range(steps):
            batch = next(endless)
            optimizer.zero_grad()
            args, kwargs = as_call(batch)
            torch.autograd.backward(loss(model(*args, **kwargs), batch))
            if not stages.done:
                stages.watch()
            optimizer.step()
        if stages.done:
            return found
        found.append(stages.advance_())


def _endless(batches: Iterable[Any]) -> Iterator[Any]:
    while True:
        count = 0
        for batch in batches:
            count += 1
            yield batch
        if not count:
            raise CalibrationError(
                "there are no batches (left) to train on; give a list or a loader, which can be "
                "gone through again."
            )


def _chosen(model: nn.Module, names: Iterable[str] | None) -> dict[str, nn.Parameter]:
    """Return the parameters that are pruned, by name."""
    every = {n: p for n, p in model.named_parameters() if p.dim() > 1}
    if names is None:
        kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
        layers = {n for n, module in model.named_modules() if isinstance(module, kinds)}
        return {n: p for n, p in every.items() if n.rpartition(".")[0] in layers}
    wanted = list(names)
    for name in wanted:
        if name not in every:
            raise unknown("weight", name, every)
    return {name: every[name] for name in wanted}
