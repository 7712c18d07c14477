"""What all ranks of a distributed run have to agree on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from pruning.errors import StateError

if TYPE_CHECKING:
    from pruning.statistics import Sums


def several_ranks() -> bool:
    """Whether this process is one of several of a process group."""
    ready = distributed.is_available() and distributed.is_initialized()
    return ready and distributed.get_world_size() > 1


def summed_over_ranks(every: Sequence[Sums]) -> None:
    """Replace the sums of weights by those of all ranks; every rank must have met each weight."""
    if not several_ranks():
        return
    _part_as_all_do(every)
    done: set[int] = set()
    for sums in every:
        own = sums.total
        if id(own) in done:
            continue
        done.add(id(own))
        here = torch.tensor([own.rows, own.squares is not None], dtype=torch.int64)
        distributed.all_reduce(here)
        if int(here[1]) not in (0, distributed.get_world_size()):
            raise StateError(
                f"{sums.name}: calibration reached it on some ranks only; give every rank data."
            )
        own.rows = int(here[0])
        for tensor in (own.squares, own.gram):
            if tensor is not None:
                distributed.all_reduce(tensor)


def sum_over_ranks_(tensor: torch.Tensor) -> None:
    """Replace a tensor by its sum over all ranks."""
    if several_ranks():
        distributed.all_reduce(tensor)


def _part_as_all_do(every: Sequence[Sums]) -> None:
    """Give each weight sums of its own, unless the ranks agree on which weights share them."""
    first: dict[int, int] = {}
    shared = [first.setdefault(id(sums.total), at) for at, sums in enumerate(every)]
    least = torch.tensor(shared, dtype=torch.int64)
    most = least.clone()
    distributed.all_reduce(least, distributed.ReduceOp.MIN)
    distributed.all_reduce(most, distributed.ReduceOp.MAX)
    if torch.equal(least, most):
        return
    for sums in every:
        sums.part()


def from_first_rank(value: Any) -> Any:
    """Return the first rank's value on every rank: orders that a clock decided may differ."""
    if not several_ranks():
        return value
    held = [value]
    distributed.broadcast_object_list(held, src=0)
    return held[0]


def check_same_on_ranks(masks: Mapping[str, torch.Tensor]) -> None:
    """Refuse masks that differ between ranks.

    Raises
    ------
    StateError
        On every rank, with the way out.
    """
    if not several_ranks():
        return
    digest = hashlib.sha256()
    for name, mask in sorted(masks.items()):
        digest.update(name.encode())
        digest.update(mask.cpu().contiguous().numpy().tobytes())
    own = torch.tensor(list(digest.digest()), dtype=torch.int64)
    least, most = own.clone(), own.clone()
    distributed.all_reduce(least, distributed.ReduceOp.MIN)
    distributed.all_reduce(most, distributed.ReduceOp.MAX)
    if not torch.equal(least, most):
        raise StateError(
            "the ranks hold different masks; choose them once and broadcast them, or calibrate "
            "under the process group, which sums the statistics of all ranks."
        )
