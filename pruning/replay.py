"""Run one block of a model at a time: its inputs are caught once, and handed on to the next.

A first run on one batch tells which blocks take over where the one before ends: whose every input
is an output of that block, or was an input of it as well (masks, positions). Such a block never
needs the model again; the others get their inputs from a run of the model up to them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pruning.capture import evaluating, plain_attention
from pruning.errors import CalibrationError

#: Arguments of a call as leaves, and how to put them together again.
Call: TypeAlias = tuple[list[Any], pytree.TreeSpec]
#: Where each argument of a block comes from: ("output" or "input" of the block before, place).
Link: TypeAlias = tuple[tuple[tuple[str, int], ...], pytree.TreeSpec]

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size)


@dataclass(slots=True)
class Route:
    """The blocks in the order in which a run meets them.

    Attributes
    ----------
    blocks
        Those that were met.
    links
        By block: how its inputs follow from the block before it; absent where they do not.
    counts
        Calls of each block in one run.
    mutating
        Blocks that write into their own inputs.
    broken
        Blocks that give something else when they are called again (they go by more than their
        arguments): only runs of the whole model show their inputs.
    marks
        What the blocks gave in the first run, in short.
    order
        All modules that were asked about, in the order of their first calls.
    """

    blocks: list[str] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    mutating: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    marks: dict[str, list[float]] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)


class _Reached(BaseException):
    """Ends a run that has come far enough; no forward catches it by accident."""


def flattened(value: Any) -> Call:
    """Return the leaves of nested tuples, lists and dictionaries; all else is a leaf."""
    leaves, spec = pytree.tree_flatten(value, is_leaf=lambda x: not _nested(x))
    return leaves, spec


def _nested(value: Any) -> bool:
    return type(value) in (tuple, list, dict)


@contextmanager
def quiet_run(model: nn.Module) -> Iterator[None]:
    """Run in evaluation mode, without gradients, attentions off the path that hides its inside."""
    with evaluating(model), plain_attention(), torch.no_grad():
        yield


def route(
    model: nn.Module, run: Callable[[], Any], blocks: Sequence[str], others: Sequence[str] = ()
) -> Route:
    """Return how a run goes through blocks, and the order in which it meets other modules.

    What was found is tried out on the same run, and links that do not hold are taken out.
    """
    found = Route()
    watch = _Watch(found)
    modules = dict(model.named_modules())
    with ExitStack() as stack, quiet_run(model):
        for name in others:
            handle = modules[name].register_forward_pre_hook(_noting(found, name))
            stack.callback(handle.remove)
        for name in blocks:
            before = modules[name].register_forward_pre_hook(watch.enter(name), with_kwargs=True)
            after = modules[name].register_forward_hook(watch.leave(name), with_kwargs=True)
            stack.callback(before.remove)
            stack.callback(after.remove)
        run()
    for name, count in found.counts.items():
        if count > 1:
            _cut(found, name)
    _try_out(model, run, found)
    return found


def _try_out(model: nn.Module, run: Callable[[], Any], found: Route) -> None:
    """Call every block again, and note where it gives something else than in the run."""
    heads = {name: found.counts[name] for name in found.blocks if name not in found.links}
    held = {name: calls[0] for name, calls in caught(model, [run], heads).items()}
    modules = dict(model.named_modules())
    for name, following in zip(found.blocks, [*found.blocks[1:], None], strict=True):
        mutating = name in found.mutating
        calls = held.pop(name)
        output = _last(model, modules[name], calls, mutating=mutating)
        if _differ(output, found.marks[name]) and found.links.pop(name, None) is not None:
            calls = caught(model, [run], {name: found.counts[name]})[name][0]
            output = _last(model, modules[name], calls, mutating=mutating)
        if _differ(output, found.marks[name]):
            found.broken.add(name)
            _cut(found, name)
            if following is not None and following not in held:
                wanted = {following: found.counts[following]}
                held[following] = caught(model, [run], wanted)[following][0]
        elif following in found.links:
            held[str(following)] = [handed_on(calls[-1], output, found.links[str(following)])]


def _last(model: nn.Module, block: nn.Module, calls: Sequence[Call], *, mutating: bool) -> Any:
    output = None
    with quiet_run(model):
        for call in calls:
            output = called(block, call, mutating=mutating)
    return output


def _differ(output: Any, mark: Sequence[float]) -> bool:
    own = _mark(output)
    close = (abs(a - b) <= 1e-5 * max(abs(a), abs(b)) for a, b in zip(own, mark, strict=False))
    return len(own) != len(mark) or not all(close)


def _mark(output: Any) -> list[float]:
    """Return plain and weighed sums of the absolute values of all tensors in an output."""
    tensors = [leaf for leaf in flattened(output)[0] if isinstance(leaf, torch.Tensor)]
    wide = [leaf.detach().double().abs() for leaf in tensors]
    weighed = [each.flatten() @ torch.linspace(1, 2, each.numel()).to(each) for each in wide]
    return [float(each.sum()) for each in wide] + [float(each) for each in weighed]


def _cut(found: Route, name: str) -> None:
    """Take the links to and from a block out."""
    at = found.blocks.index(name)
    for other in found.blocks[at : at + 2]:
        found.links.pop(other, None)


def _noting(found: Route, name: str) -> Callable[..., None]:
    def hook(_module: nn.Module, _args: Any) -> None:
        found.order.setdefault(name, len(found.order))

    return hook


_GONE = object()  # an input as it was before the block wrote into it


class _Watch:
    """Compares what each block gets with what the one before it got and gave."""

    def __init__(self, found: Route) -> None:
        self.found = found
        self.inputs: list[Any] = []
        self.spec: pytree.TreeSpec | None = None
        self.outputs: list[Any] = []
        self.versions: list[int] = []

    def enter(self, name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, args: Any, kwargs: Any) -> None:
            leaves, spec = flattened((args, kwargs))
            self.found.order.setdefault(name, len(self.found.order))
            self.found.counts[name] = self.found.counts.get(name, 0) + 1
            if self.found.counts[name] == 1:
                link = self._link(leaves)
                if self.found.blocks and link is not None:
                    self.found.links[name] = (link, spec)
                self.found.blocks.append(name)
            self.inputs, self.outputs = leaves, []
            self.versions = [_version(leaf) for leaf in leaves]

        return hook

    def leave(self, name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
            self.outputs = flattened(output)[0]
            self.found.marks[name] = _mark(output)
            for at, version in enumerate(self.versions):
                if _version(self.inputs[at]) != version:
                    self.found.mutating.add(name)
                    self.inputs[at] = _GONE

        return hook

    def _link(self, leaves: Sequence[Any]) -> tuple[tuple[str, int], ...] | None:
        link = []
        for place, leaf in enumerate(leaves):
            source = self._source(place, leaf)
            if source is None:
                return None
            link.append(source)
        follows = any(kind == "output" for kind, _ in link)
        return tuple(link) if follows else None

    def _source(self, place: int, leaf: Any) -> tuple[str, int] | None:
        if isinstance(leaf, _PLAIN):  # may depend on the batch: taken over only where it stood
            same = place < len(self.inputs) and type(self.inputs[place]) is type(leaf)
            return ("input", place) if same and self.inputs[place] == leaf else None
        for kind, known in (("output", self.outputs), ("input", self.inputs)):
            at = next((at for at, other in enumerate(known) if other is leaf), None)
            if at is not None:
                return kind, at
        return None


def _version(leaf: Any) -> int:
    return leaf._version if isinstance(leaf, torch.Tensor) else 0  # noqa: SLF001


def caught(
    model: nn.Module, runs: Sequence[Callable[[], Any]], wanted: Mapping[str, int]
) -> dict[str, list[list[Call]]]:
    """Return the calls of some blocks, in each run of the model.

    Parameters
    ----------
    wanted
        Blocks, and how often a run calls each: it ends once all of them have been.
    """
    found: dict[str, list[list[Call]]] = {name: [] for name in wanted}
    modules = dict(model.named_modules())
    for run in runs:
        left = dict(wanted)
        for name in wanted:
            found[name].append([])
        with ExitStack() as stack, quiet_run(model):
            for name in wanted:
                hook = _catching(name, found[name][-1], left)
                handle = modules[name].register_forward_pre_hook(hook, with_kwargs=True)
                stack.callback(handle.remove)
            with suppress(_Reached):
                run()
    return found


def _catching(name: str, calls: list[Call], left: dict[str, int]) -> Callable[..., None]:
    def hook(_module: nn.Module, args: Any, kwargs: Any) -> None:
        leaves, spec = flattened((args, kwargs))
        calls.append(([_own(leaf, clone=True) for leaf in leaves], spec))
        left[name] -= 1
        if all(count <= 0 for count in left.values()):
            raise _Reached

    return hook


def _own(leaf: Any, *, clone: bool) -> Any:
    """Return an argument that a call may change: caches and the like grow as they are used."""
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone() if clone else leaf
    if isinstance(leaf, _PLAIN):
        return leaf
    try:
        return copy.deepcopy(leaf)
    except Exception as error:
        raise CalibrationError(
            f"a block is called with a {type(leaf).__name__}, which cannot be copied ({error}); "
            'calibrate all layers together (calibration = "together").'
        ) from error


def called(block: nn.Module, call: Call, *, mutating: bool) -> Any:
    """Return what a block gives for a call that was caught."""
    leaves, spec = call
    args, kwargs = pytree.tree_unflatten([_own(leaf, clone=mutating) for leaf in leaves], spec)
    return block(*args, **kwargs)


def handed_on(call: Call, output: Any, link: Link) -> Call:
    """Return the next block's call, from this one's and its output."""
    known = {"input": call[0], "output": flattened(output)[0]}
    places, spec = link
    return [known[kind][at] for kind, at in places], spec
