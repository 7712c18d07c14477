"""Run a model before and after a change and compare what it computes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pruning.capture import evaluating
from pruning.ops import tensors_in
from pruning.reorder import Move

Example: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]
Outputs: TypeAlias = list[list[torch.Tensor]]
#: For each example, what happens to each output.
Returned: TypeAlias = Sequence[Sequence[Sequence[Move]]]

#: Largest relative change that rounding explains, by the narrowest type inside the run.
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 5e-2}
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
        Inputs compared: the examples, and as many random ones.
    """

    difference: float
    limit: float
    dtype: str
    runs: int

    @property
    def same(self) -> bool:
        """Whether the function is unchanged."""
        return self.difference <= self.limit

    def __str__(self) -> str:
        verdict = "unchanged" if self.same else "CHANGED"
        return (
            f"outputs {verdict}: largest relative difference {self.difference:.1e} over "
            f"{self.runs} inputs in {self.dtype} (limit {self.limit:.0e})"
        )


def compare(
    model: nn.Module,
    change: Callable[[nn.Module], None],
    examples: Sequence[Example],
    moves: Returned,
    seed: int = 0,
) -> Report:
    """Apply a change and report how far the outputs move.

    Where memory allows, a float64 copy is changed and the model itself left alone.

    Parameters
    ----------
    moves
        For each example, the reordering of each output that the change is known to cause.
    """
    runs = _runs(model, examples, seed)
    wide = _float64_copy(model)
    if wide is not None:
        try:
            return _compared(wide, change, [_as_float64(run) for run in runs], moves, "float64")
        except (RuntimeError, TypeError, NotImplementedError):
            del wide  # an operator without a float64 kernel: the model's own type has to do
    return _compared(model, change, runs, moves, "the model's own type")


def _compared(
    model: nn.Module,
    change: Callable[[nn.Module], None],
    runs: Sequence[Example],
    moves: Returned,
    dtype: str,
) -> Report:
    with evaluating(model), torch.no_grad():
        before = _outputs(model, runs)
        change(model)
        after = _outputs(model, runs)
    expected = [_moved(found, moves[run % len(moves)]) for run, found in enumerate(before)]
    pairs = zip(expected, after, strict=True)
    largest = max((distance(*pair) for one in pairs for pair in zip(*one, strict=True)), default=0)
    limit = _limit(_types(model))
    if largest > limit:  # a run inside a dispatch mode is not free of side effects: only if needed
        with evaluating(model), torch.no_grad():
            limit = max(limit, _limit(_types_inside(model, runs[0])))
    return Report(largest, limit, dtype, len(runs))


def _types(model: nn.Module) -> set[torch.dtype]:
    return {t.dtype for t in model.parameters() if t.is_floating_point()} or {torch.float64}


def _limit(types: set[torch.dtype]) -> float:
    """Return the change that rounding explains in the narrowest of some types."""
    return max(LIMITS.get(dtype, 1e-5) for dtype in types)


def _types_inside(model: nn.Module, run: Example) -> set[torch.dtype]:
    """Return the floating types that a run computes in."""
    args, kwargs = copy.deepcopy((run[0], dict(run[1])))
    with _Watch() as watch:
        model(*args, **kwargs)
    found: set[torch.dtype] = watch.types
    return found


def _moved(outputs: list[torch.Tensor], moves: Sequence[Sequence[Move]]) -> list[torch.Tensor]:
    """Return outputs reordered as they are expected to be."""
    found = []
    for output, some in zip(outputs, moves, strict=True):
        for move in some:
            output = move.apply(output)
        found.append(output)
    return found


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
    """Watches the floating types that a run computes in."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.types = {torch.float64}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in tensors_in(found):
            if tensor.is_floating_point():
                self.types.add(tensor.dtype)
        return found


def _outputs(model: nn.Module, runs: Sequence[Example]) -> Outputs:
    found: Outputs = []
    for args, kwargs in runs:
        args, kwargs = copy.deepcopy((args, dict(kwargs)))
        result = model(*args, **kwargs)
        found.append([tensor.detach().clone() for tensor in tensors_in(result)])
    return found


def _runs(model: nn.Module, examples: Sequence[Example], seed: int) -> list[Example]:
    """Return the examples and, for each, a random input of the same kind that the model takes."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [_drawn(example, generator) for example in examples]
    with evaluating(model), torch.no_grad():
        taken = [example for example in drawn if _accepts(model, example)]
    if len(taken) < len(drawn):
        return list(examples)
    return [*examples, *drawn]


def _accepts(model: nn.Module, example: Example) -> bool:
    args, kwargs = copy.deepcopy((example[0], dict(example[1])))
    try:
        model(*args, **kwargs)
    except Exception:  # noqa: BLE001 -- a random input may break any rule of the model's
        return False
    return True


def _drawn(example: Example, generator: torch.Generator) -> Example:
    def draw(item: Any) -> Any:
        return _random_like(item, generator) if isinstance(item, torch.Tensor) else item

    drawn: Example = pytree.tree_map(draw, (example[0], dict(example[1])))
    return drawn


def _random_like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return random numbers of a tensor's type, shape, and range or spread."""
    if tensor.is_floating_point():
        spread = float(tensor.float().std()) if tensor.numel() > 1 else 1.0
        drawn = torch.randn(tensor.shape, generator=generator) * (spread or 1.0)
        return (drawn + float(tensor.float().mean())).to(tensor)
    if tensor.numel() and tensor.dtype in (torch.int64, torch.int32):
        low, high = int(tensor.min()), int(tensor.max())
        return torch.randint(low, high + 1, tensor.shape, generator=generator).to(tensor)
    return tensor.clone()


def _float64_copy(model: nn.Module) -> nn.Module | None:
    tensors = [*model.parameters(), *model.buffers()]
    if not tensors or any(tensor.device.type != "cpu" for tensor in tensors):
        return None
    if 8 * sum(tensor.numel() for tensor in tensors) > MEMORY_SHARE * _free_memory():
        return None
    try:
        return copy.deepcopy(model).double()
    except Exception:  # noqa: BLE001 -- a model that cannot be copied is compared in place
        return None


def _free_memory() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 4 << 30


def _as_float64(example: Example) -> Example:
    def widen(item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.is_floating_point():
            return item.double()
        return item

    wide: Example = pytree.tree_map(widen, (example[0], dict(example[1])))
    return wide
