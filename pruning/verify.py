"""Run a model before and after a change and compare what it computes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from permsearch.jobs.machine import free_memory
from pruning.capture import evaluating
from pruning.inputs import Example, accepted, as_float64, copied, drawn_like, other_sizes
from pruning.ops import tensors_in
from pruning.reorder import Move

Outputs: TypeAlias = list[list[torch.Tensor]]
#: For each example, what happens to each output.
Returned: TypeAlias = Sequence[Sequence[Sequence[Move]]]

#: Largest relative change that rounding explains, by the narrowest type inside the run.
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 5e-2}
#: The least such change that is an objection once a float64 copy has shown the orders to be right:
#: in float32, long sums of large terms that cancel are further apart than 1e-5 in any two orders.
PROVEN_LIMIT = 3e-4
#: The real type of each part of a complex number.
PARTS = {torch.complex128: torch.float64, torch.complex64: torch.float32}
#: A float64 copy is made where it takes no more than this share of the free memory.
MEMORY_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Report:
    """What was compared, and how far apart it was.

    Attributes
    ----------
    difference
        Largest change of an output, relative to that output's largest entry.
    limit
        What rounding explains in the types that the model computes in.
    dtype
        "float64", or the model's own type where no float64 copy was run.
    runs
        Inputs compared: the examples, as many random ones, and those of other sizes.
    resized
        Of these, inputs of another batch or length than the examples, where the model takes any.
    """

    difference: float
    limit: float
    dtype: str
    runs: int
    resized: int = 0

    @property
    def same(self) -> bool:
        """Whether the function is unchanged."""
        return self.difference <= self.limit

    def __str__(self) -> str:
        verdict = "unchanged" if self.same else "CHANGED"
        sizes = f", {self.resized} of other sizes," if self.resized else ""
        return (
            f"outputs {verdict}: largest relative difference {self.difference:.1e} over "
            f"{self.runs} inputs{sizes} in {self.dtype} (limit {self.limit:.0e})"
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """An input, the example that it is like, and whether its sizes are other ones."""

    example: Example
    like: int
    resized: bool = False


def compare(
    model: nn.Module,
    change: Callable[[nn.Module], None],
    examples: Sequence[Example],
    moves: Returned,
    seed: int = 0,
) -> Report:
    """Apply a change and report how far the outputs move.

    Where memory allows, a float64 copy is changed and compared first. The model itself is changed
    then, and compared on the first example: a copy need not share what the model shares.

    Parameters
    ----------
    moves
        For each example, the reordering of each output that the change is known to cause.
    """
    runs = _runs(model, examples, moves, seed)
    wide = _float64_copy(model)
    report = None
    if wide is not None:
        own = [_Run(as_float64(run.example), run.like, run.resized) for run in runs]
        try:
            report = _compared(wide, change, own, moves, "float64")
        except (RuntimeError, TypeError, NotImplementedError):
            report = None  # an operator without a float64 kernel: the model's own type has to do
        del wide
    if report is not None and not report.same:
        return report
    last, least = (runs, 0.0) if report is None else (runs[:1], PROVEN_LIMIT)
    narrow = _compared(model, change, last, moves, "the model's own type", least)
    return narrow if report is None or not narrow.same else report


def _compared(
    model: nn.Module,
    change: Callable[[nn.Module], None],
    runs: Sequence[_Run],
    moves: Returned,
    dtype: str,
    least: float = 0.0,
) -> Report:
    """Apply a change and compare outputs; `least` is a limit that is granted in any case."""
    before = [_output(model, run.example) for run in runs]
    change(model)
    after = [_output(model, run.example) for run in runs]
    expected = [_moved(found, moves[run.like]) for run, found in zip(runs, before, strict=True)]
    largest = max(map(_furthest, expected, after), default=0.0)
    limit = max(least, _limit({tensor.dtype for tensor in model.parameters()}))
    if largest > limit:  # a run inside a dispatch mode is not free of side effects: only if needed
        limit = max(limit, _limit(_types_inside(model, runs[0])))
    return Report(largest, limit, dtype, len(runs), sum(run.resized for run in runs))


def _limit(types: set[torch.dtype]) -> float:
    """Return the change that rounding explains in the narrowest of some types."""
    real = {PARTS.get(dtype, dtype) for dtype in types} | {torch.float64}
    return max(LIMITS.get(dtype, 1e-5) for dtype in real if dtype.is_floating_point)


def _types_inside(model: nn.Module, run: _Run) -> set[torch.dtype]:
    """Return the types that a run computes in."""
    with _undisturbed(model), _Watch() as watch:
        args, kwargs = copied(run.example)
        model(*args, **kwargs)
    found: set[torch.dtype] = watch.types
    return found


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluate a model so that neither an earlier run nor this one makes a difference.

    Buffers that a forward writes are put back, and random numbers are the same in every run.
    """
    held = [(buffer, buffer.clone()) for buffer in model.buffers() if not buffer.is_meta]
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    with evaluating(model), torch.no_grad(), torch.random.fork_rng(list(devices)):
        torch.manual_seed(0)
        try:
            yield
        finally:
            for buffer, saved in held:
                if not _equal(buffer, saved):
                    buffer.copy_(saved)


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    return bool(((one == two) | ((one != one) & (two != two))).all())


def _moved(outputs: list[torch.Tensor], moves: Sequence[Sequence[Move]]) -> list[torch.Tensor]:
    """Return outputs reordered as they are expected to be."""
    found = []
    for output, some in zip(outputs, moves, strict=True):
        for move in some:
            output = move.apply(output)
        found.append(output)
    return found


def _furthest(one: list[torch.Tensor], two: list[torch.Tensor]) -> float:
    return max(map(distance, one, two), default=0.0) if len(one) == len(two) else float("inf")


def distance(one: torch.Tensor, two: torch.Tensor) -> float:
    """Return the largest difference of two tensors relative to the first one's largest entry."""
    if one.shape != two.shape:
        return float("inf")
    if not one.numel():
        return 0.0
    one, two = (_real(tensor) for tensor in (one, two))
    same = (one == two) | (one.isnan() & two.isnan())
    apart = torch.where(same, torch.zeros_like(one), (one - two).abs())
    finite = one[one.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    largest = float(apart.max())
    return float("inf") if largest != largest else largest / max(scale, 1e-30)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.detach().double()


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the types that a run computes in."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.types: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in tensors_in(found):
            self.types.add(tensor.dtype)
        return found


def _output(model: nn.Module, example: Example) -> list[torch.Tensor]:
    args, kwargs = copied(example)
    with _undisturbed(model):
        return [tensor.detach().clone() for tensor in tensors_in(model(*args, **kwargs))]


def _runs(model: nn.Module, examples: Sequence[Example], moves: Returned, seed: int) -> list[_Run]:
    """Return the examples; for each a random input; and such of other sizes as the model takes."""
    generator = torch.Generator().manual_seed(seed)
    runs = [_Run(example, at) for at, example in enumerate(examples)]

    for at, example in enumerate(examples):

        def tried(one: Example, at: int = at) -> None:
            _moved(_output(model, one), moves[at])

        like, other = [drawn_like(example, generator)], list(other_sizes(example, generator))
        runs += [_Run(one, at) for one in accepted(tried, like)]
        runs += [_Run(one, at, resized=True) for one in accepted(tried, other)]
    return runs


def _float64_copy(model: nn.Module) -> nn.Module | None:
    tensors = [*model.parameters(), *model.buffers()]
    if not tensors or any(tensor.device.type != "cpu" for tensor in tensors):
        return None
    if 8 * sum(tensor.numel() for tensor in tensors) > MEMORY_SHARE * free_memory():
        return None
    try:
        return copy.deepcopy(model).double()
    except Exception:  # noqa: BLE001 -- a model that cannot be copied is compared in place
        return None
