"""Calibration block after block: statistics of one block at a time, for models of any size."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pruning.blocks import chosen_blocks, inside, outermost, repeated_blocks
from pruning.calibrate import Seen, checked_names, collected, run_batch, seen_weights
from pruning.capture import unwrapped
from pruning.errors import CalibrationError
from pruning.padding import Counted, Rows, attended, counted
from pruning.paired import in_pairs, turns
from pruning.replay import Call, Route, called, caught, handed_on, quiet_run, route
from pruning.statistics import Inputs

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Stage:
    """The statistics of one block's layers.

    Attributes
    ----------
    name
        The block; "" for the layers that lie in none.
    inputs
        By the weights' names in the state dict, as `pruning.calibrate` returns them.
    replayed
        Whether the block's inputs were handed on by the block before it; otherwise the model ran
        from its start to get them.
    """

    name: str
    inputs: Mapping[str, Inputs]
    replayed: bool


def calibrate_blocks(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    blocks: Iterable[str] | None = None,
    names: Iterable[str] | None = None,
    gram: bool | Collection[str] = False,
    pruned: bool = False,
    paired: bool = False,
    rows: Rows | None = attended,
) -> Iterator[Stage]:
    """Yield the statistics of a model's layers, those of one block at a time.

    Forget a stage before asking for the next, and no more than one block's Gram matrices are in
    memory, with the batches and one block's inputs. Each block runs twice over its inputs, which
    the block before hands on; where a block's inputs are more than that (an encoder's outputs, a
    mask of its own), the model runs up to it. Layers in no block come first; with `pruned`, those
    that are called after the first block come last.

    Parameters
    ----------
    batches
        What the model is called with; all of them are held.
    blocks
        Globs over names of modules. None: the blocks that repeat most; without any, each layer
        that can be seen is a block, and the model runs once for each.
    names, gram, rows
        As in `pruning.calibrate`.
    pruned
        Whether a block's inputs are those of the model as it is when the stage is asked for: prune
        a block's weights before going on, and the next ones see it pruned, as SparseGPT and Wanda
        have it. Otherwise they are those of the model as it was when calibration began, whatever
        becomes of the weights meanwhile.
    paired
        With `pruned`: layers take turns within a block too, those that read one input together, a
        stage for each turn; their `Inputs.cross` tells how the dense net's inputs go along with
        those of the pruned net. A dense copy of one block is held. Layers outside blocks, and in
        blocks that only whole runs can see, have none.

    Raises
    ------
    CalibrationError, UnknownName
        As `pruning.calibrate` does, when the block's turn comes.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> block = lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    >>> model = nn.Sequential(block(), block())
    >>> [stage.name for stage in calibrate_blocks(model, [torch.ones(3, 4)])]
    ['0', '1']
    """
    bare = unwrapped(model)
    data = list(batches)
    if not data:
        raise CalibrationError("calibration is empty: there are no batches; give at least one.")
    seen = seen_weights(bare)
    wanted = checked_names(seen, names)
    every = block_names(bare, seen, blocks)
    line = _Line(bare, data, seen, wanted, gram, strict=names is not None, rows=rows)
    yield from line.stages(every, pruned or paired, paired=paired)


def block_names(
    model: nn.Module, seen: Mapping[str, Seen], blocks: Iterable[str] | None
) -> tuple[str, ...]:
    """Return the blocks that calibration goes by: see `calibrate_blocks`."""
    layers = outermost(dict.fromkeys(name.rpartition(".")[0] for name in seen))
    if blocks is not None:
        return chosen_blocks(model, blocks)
    return repeated_blocks(model, layers) or layers


def owner(name: str, blocks: Iterable[str]) -> str | None:
    """Return the block that a weight lies in."""
    return next((block for block in blocks if inside(name, block)), None)


@dataclass(slots=True)
class _Line:
    """A model, its batches, and what of it is to be seen."""

    model: nn.Module
    data: Sequence[Any]
    seen: Mapping[str, Seen]
    wanted: Sequence[str]
    gram: bool | Collection[str]
    strict: bool
    rows: Rows | None
    modules: dict[str, nn.Module] = field(init=False)

    def __post_init__(self) -> None:
        self.modules = dict(self.model.named_modules())

    @property
    def runs(self) -> list[Counted]:
        run = partial(partial, run_batch, self.model)
        return [counted(run(batch), batch, self.rows) for batch in self.data]

    def stages(
        self, blocks: Sequence[str], pruned: bool, *, paired: bool = False
    ) -> Iterator[Stage]:
        """Yield a stage for each block that some wanted weight lies in, and one for the rest."""
        outside = [name for name in self.wanted if owner(name, blocks) is None]
        prefixes = {name: name.rpartition(".")[0] for name in outside}
        others = [p for p in dict.fromkeys(prefixes.values()) if p in self.modules]
        way = route(self.model, self.runs[0], blocks, others)
        unmet = [n for n in self.wanted if owner(n, blocks) not in (None, *way.blocks)]
        if not pruned:
            broken = [n for n in self.wanted if owner(n, blocks) in way.broken]
            yield from self._dense(way, [*outside, *unmet, *broken])
            return
        first = min((way.order[block] for block in way.blocks), default=len(way.order))
        early = [n for n in outside if way.order.get(prefixes[n], first) < first]
        heads = self._heads(way, pruned=True) if paired else {}
        yield from self._whole(early)
        if paired:
            yield from self._pairs(way, heads)
        else:
            yield from self._chain(way, {}, pruned=True)
        yield from self._whole([*(n for n in outside if n not in early), *unmet])

    def _dense(self, way: Route, outside: Sequence[str]) -> Iterator[Stage]:
        """Take all that a changed model could not give any more before the first stage."""
        heads = self._heads(way, pruned=False)
        yield from self._whole(outside)
        yield from self._chain(way, heads, pruned=False)

    def _heads(self, way: Route, *, pruned: bool) -> dict[str, list[list[Call]]]:
        """Return the calls of blocks that no other hands on, in the model as it is."""
        met = self._met(way, self._targets(way, pruned=pruned))
        counts = {b: way.counts[b] for b in met if b not in way.links and b not in way.broken}
        return caught(self.model, self.runs, counts) if counts else {}

    def _whole(self, names: Sequence[str]) -> Iterator[Stage]:
        found = self._collected(names, self.runs) if names else {}
        if found:
            yield Stage("", found, replayed=False)

    def _targets(self, way: Route, *, pruned: bool) -> list[str]:
        """Return the blocks that get a stage; broken ones were seen in a run of the dense model."""
        own = [b for b in way.blocks if any(inside(name, b) for name in self.wanted)]
        return own if pruned else [b for b in own if b not in way.broken]

    def _met(self, way: Route, targets: Sequence[str]) -> list[str]:
        """Return the targets and the blocks that hand inputs on to them."""
        met: list[str] = []
        for block in reversed(way.blocks):
            follower = met[-1] if met else None
            if block in targets or (follower in way.links and follower == self._after(way, block)):
                met.append(block)
        return met[::-1]

    def _chain(
        self, way: Route, heads: dict[str, list[list[Call]]], *, pruned: bool
    ) -> Iterator[Stage]:
        """Yield the targets in the order of a run, the inputs of one in memory at a time."""
        targets = self._targets(way, pruned=pruned)
        met = self._met(way, targets)
        held: list[list[Call]] | None = None
        for block, following in pairwise([*met, None]):
            assert block is not None
            own = [n for n in self.wanted if inside(n, block)] if block in targets else []
            if block in way.broken:
                yield Stage(block, self._collected(own, self.runs), replayed=False)
                continue
            replayed = held is not None
            if held is None:
                caught_now = partial(caught, self.model, self.runs, {block: way.counts[block]})
                held = heads.pop(block, None) or caught_now()[block]
            go_on = following in way.links and following == self._after(way, block)
            later = self._handed(way, block, held, following) if go_on and not pruned else None
            if own:
                yield Stage(block, self._collected(own, self._again(way, block, held)), replayed)
            if go_on and pruned:
                later = self._handed(way, block, held, following)
            held = later

    def _pairs(self, way: Route, heads: dict[str, list[list[Call]]]) -> Iterator[Stage]:
        """Yield a stage for each turn within the targets, two streams of inputs side by side."""
        targets = self._targets(way, pruned=True)
        held: list[list[Call]] | None = None
        other: list[list[Call]] | None = None
        for block, following in pairwise([*self._met(way, targets), None]):
            assert block is not None
            own = [n for n in self.wanted if inside(n, block)] if block in targets else []
            if block in way.broken:
                yield Stage(block, self._collected(own, self.runs), replayed=False)
                continue
            replayed = held is not None
            if held is None or other is None:
                held = caught(self.model, self.runs, {block: way.counts[block]})[block]
                other = heads.pop(block)
            dense = copy.deepcopy(self.modules[block])
            for found in self._turns(way, block, own, dense, (other, held)) if own else ():
                yield Stage(block, found, replayed)
            if following in way.links and following == self._after(way, block):
                other = self._handed(way, block, other, following, dense)
                held = self._handed(way, block, held, following)
            else:
                held = other = None

    def _turns(
        self,
        way: Route,
        block: str,
        names: Sequence[str],
        dense: nn.Module,
        held: tuple[list[list[Call]], list[list[Call]]],
    ) -> Iterator[dict[str, Inputs]]:
        """Yield the statistics of weights that read one input, turn after turn."""
        module, before = self.modules[block], seen_weights(dense)
        seen = {name: before[name[len(block) + 1 :] if block else name] for name in names}
        ahead = self._again(way, block, held[0], dense)
        behind = self._again(way, block, held[1])
        runs = list(zip(ahead, behind, strict=True))
        for own in turns(module, self.seen, names, behind[0]):
            yield in_pairs(
                (dense, module), (seen, self.seen), own, runs, gram=self.gram, strict=self.strict
            )

    @staticmethod
    def _after(way: Route, block: str) -> str | None:
        at = way.blocks.index(block) + 1
        return way.blocks[at] if at < len(way.blocks) else None

    def _handed(
        self,
        way: Route,
        block: str,
        held: Sequence[Sequence[Call]],
        following: str | None,
        module: nn.Module | None = None,
    ) -> list[list[Call]]:
        """Return the calls of the block that follows; of its copy, if that is given."""
        mutating, module = block in way.mutating, module or self.modules[block]
        link = way.links[str(following)]
        with quiet_run(self.model), quiet_run(module):
            return [
                [handed_on(call, called(module, call, mutating=mutating), link) for call in calls]
                for calls in held
            ]

    def _again(
        self,
        way: Route,
        block: str,
        held: Sequence[Sequence[Call]],
        module: nn.Module | None = None,
    ) -> list[Counted]:
        module, mutating = module or self.modules[block], block in way.mutating
        return [
            counted(partial(called, module, call, mutating=mutating), batch, self.rows)
            for batch, calls in zip(self.data, held, strict=True)
            for call in calls
        ]

    def _collected(self, names: Sequence[str], runs: Sequence[Counted]) -> dict[str, Inputs]:
        return collected(self.model, self.seen, names, runs, gram=self.gram, strict=self.strict)
