"""Statistics of a part of a net beside those of the same part as it was when it was dense."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pruning.calibrate import Seen, Watch
from pruning.errors import CalibrationError
from pruning.padding import Counted
from pruning.ranks import sum_over_ranks_, summed_over_ranks
from pruning.replay import quiet_run
from pruning.statistics import Inputs, Sums

if TYPE_CHECKING:
    import torch
    from torch import nn


def turns(
    part: nn.Module, seen: Mapping[str, Seen], names: Sequence[str], run: Counted
) -> list[list[str]]:
    """Return weights in the order in which a run meets them, those that read one input together.

    Those that it does not meet come last.
    """
    notes: list[tuple[str, torch.Tensor]] = []  # holds the values, so that no memory is used twice
    sinks = {name: _Note(name, notes) for name in names}
    with quiet_run(part), Watch(sinks, each=True).over(seen):
        run.run()
    groups: dict[tuple[Any, ...], list[str]] = {}
    met: set[str] = set()
    for name, value in notes:
        if name not in met:
            groups.setdefault((value.data_ptr(), value.shape), []).append(name)
            met.add(name)
    left = [name for name in names if name not in met]
    return [*groups.values(), *([left] if left else [])]


def in_pairs(
    parts: tuple[nn.Module, nn.Module],
    seen: tuple[Mapping[str, Seen], Mapping[str, Seen]],
    names: Sequence[str],
    runs: Sequence[tuple[Counted, Counted]],
    *,
    gram: bool | Collection[str],
    strict: bool,
) -> dict[str, Inputs]:
    """Return the statistics of the pruned part's inputs, with their products with the dense one's.

    Parameters
    ----------
    parts, seen, runs
        Of the dense and of the pruned part, run by run on the same data.
    gram, strict
        As in `pruning.calibrate.collected`; weights without a Gram matrix have no products either.

    Raises
    ------
    CalibrationError
        A layer saw other rows in one of the parts than in the other.
    """
    beside = {}
    for name in names:
        _, probe = seen[1][name]
        wanted = (gram if isinstance(gram, bool) else name in gram) and probe.correlated
        beside[name] = _Beside(Sums(name, probe.axis, gram=wanted))
    watches = (
        Watch({name: _Queue(each) for name, each in beside.items()}, each=True),
        Watch(beside, each=True),
    )
    with quiet_run(parts[0]), quiet_run(parts[1]):
        for pair in runs:
            for watch, own, run in zip(watches, seen, pair, strict=True):
                with watch.over(own):
                    watch.begin(run)
                    run()
            for each in beside.values():
                each.check()
    summed_over_ranks([each.sums for each in beside.values()])
    met = {name: each for name, each in beside.items() if strict or each.sums.total.rows}
    return {name: each.finish() for name, each in met.items()}


class _Note:
    """Notes what a weight reads."""

    def __init__(self, name: str, notes: list[tuple[str, torch.Tensor]]) -> None:
        self.name, self.notes = name, notes

    def add(self, values: torch.Tensor) -> None:
        self.notes.append((self.name, values))


class _Beside:
    """Sums of the pruned part's inputs, and of their products with those that wait in line."""

    def __init__(self, sums: Sums) -> None:
        self.sums = sums
        self.line: list[torch.Tensor] = []
        self.cross: torch.Tensor | None = None

    def add(self, values: torch.Tensor) -> None:
        self.sums.add(values)
        if not self.line or self.line[0].shape != values.shape:
            self._refuse()
        other = self.line.pop(0)
        if self.sums.wants_gram:
            product = other.double().transpose(1, 2) @ values.detach().double()
            self.cross = product if self.cross is None else self.cross.add_(product)

    def check(self) -> None:
        if self.line:
            self._refuse()

    def _refuse(self) -> None:
        raise CalibrationError(
            f"{self.sums.name}: it reads other rows in the pruned net than in the dense one (is it "
            'routed by its inputs?); take calibration = "sequential".'
        )

    def finish(self) -> Inputs:
        if self.cross is not None:
            sum_over_ranks_(self.cross)
        return replace(self.sums.finish(), cross=self.cross)


class _Queue:
    """Has the dense part's inputs wait in line."""

    def __init__(self, beside: _Beside) -> None:
        self.beside = beside

    def add(self, values: torch.Tensor) -> None:
        self.beside.line.append(values.detach())
