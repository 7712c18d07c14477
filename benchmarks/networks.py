"""Whole networks under 2:4: what one legal order for each group keeps, and what finding it costs.

One order for each group, magnitude, no training. Kept shares are sums over all weights that carry
the pattern; the bound keeps the best half of each row, which no order exceeds and none reaches.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import permsearch as ps
import pruning
from benchmarks import network_models as models
from pruning.checkpoint_job import Job
from pruning.formulate import Plan, plan
from pruning.groupwise import Found, search_groups
from pruning.network import Network

if TYPE_CHECKING:
    import argparse

Row = dict[str, Any]
IDS = (torch.arange(22) * 7 % 97 + 3).reshape(2, 11)


@dataclass(frozen=True, slots=True)
class Case:
    """A network to search, the share that was asked for, and the CPU seconds allowed."""

    name: str
    open: Callable[[], tuple[Network, Plan, Mapping[str, torch.Tensor] | None]]
    steps: int | None = None
    floor: float | None = None
    limit: float | None = None


def minilm() -> tuple[Network, Plan, Mapping[str, torch.Tensor] | None]:
    """Return the encoder's 36 linear layers; its output is only compared, so it may move."""
    job = Job.open(models.minilm_folder(), {"encoder.*": "2:4"}, outputs="free")
    return job.network, job.plan, job.tensors


def mobilenet() -> tuple[Network, Plan, Mapping[str, torch.Tensor] | None]:
    """Return MobileNetV2's 34 pointwise convolutions whose channels split into fours."""
    model = models.mobilenet()
    network = pruning.trace(model, torch.randn(2, 3, 64, 64))
    pointwise = {
        name: "2:4"
        for name, tensor in model.named_parameters()
        if tensor.dim() == 4 and tensor.shape[2] == 1 and tensor.shape[1] % 4 == 0
    }
    return network, plan(network, pointwise), None


def smollm2() -> tuple[Network, Plan, Mapping[str, torch.Tensor] | None]:
    """Return SmolLM2's 210 projections; the head is the embedding and stays dense."""
    network = pruning.trace(models.smollm2(), IDS)
    return network, plan(network, {"*_proj": "2:4"}), None


CASES = (
    Case("MiniLM-L6", minilm, None, 0.7569, 120.0),
    Case("MobileNetV2", mobilenet, None, 0.7609, 40.0),
    Case("SmolLM2-135M", smollm2),
)


def run() -> Iterator[tuple[Row, list[Row]]]:
    """Yield a row for each network, and rows for its kinds of groups."""
    torch.set_num_threads(1)
    ps.search(ps.instances.gaussian(64, 64, seed=0), "2:4", stop=ps.MaxSteps(100))
    for case in CASES:
        start = time.process_time()
        try:
            network, planned, state = case.open()
        except (FileNotFoundError, ImportError) as error:
            print(f"{case.name} is left out: {error}")
            continue
        opened = time.process_time()
        stop = None if case.steps is None else ps.MaxSteps(case.steps)
        found = search_groups(network, planned, state=state, stop=stop)
        done = time.process_time()
        row = {
            "network": case.name,
            "steps": case.steps,
            "weights": len(planned.layers),
            "groups": sum(bool(part.groups) for part in found.scores),
            "before": found.share("baseline"),
            "after": found.retained,
            "bound": found.share("bound"),
            "trace_seconds": opened - start,
            "search_seconds": done - opened,
            "floor": case.floor,
            "limit": case.limit,
            "held": case.floor is None
            or (found.retained >= case.floor and done - start <= (case.limit or 0)),
        }
        yield row, list(_kinds(case, network, found))


def _kinds(case: Case, network: Network, found: Found) -> Iterator[Row]:
    """Yield one row for all groups of one size."""
    parts: dict[str, list[Any]] = {}
    for part in found.scores:
        text = ", ".join(_kind(network[name]) for name in part.groups) or "no order reaches"
        parts.setdefault(text, []).append(part)
    total = sum(part.total for part in found.scores)
    for text, some in parts.items():
        own = sum(part.total for part in some)
        sums = {key: sum(getattr(p, key) for p in some) for key in ("baseline", "score", "bound")}
        yield {
            "network": case.name,
            "steps": case.steps,
            "kind": text,
            "count": len(some),
            "share": own / total,
            "before": sums["baseline"] / own,
            "after": sums["score"] / own,
            "bound": sums["bound"] / own,
        }


def _kind(group: pruning.Group) -> str:
    return f"{group.size} in each of {group.blocks}" if group.blocks > 1 else str(group.size)


def scale() -> Iterator[Row]:
    """Yield what tracing large models and planning their groups costs, each in its own process."""
    for name, limit, memory in (("smollm2", 30.0, None), ("llama_8b", 60.0, 1e9)):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            try:
                row = pool.apply(_traced, (name,))
            except (FileNotFoundError, ImportError) as error:
                print(f"{name} is left out: {error}")
                continue
        row["limit"], row["memory_limit"] = limit, memory
        yield row


def _traced(name: str) -> Row:
    model = getattr(models, name)()
    device = next(model.parameters()).device
    held, start = _peak(), time.process_time()
    network = pruning.trace(model, IDS.to(device))
    planned = plan(network, {"*_proj": "2:4"})
    return {
        "network": {"smollm2": "SmolLM2-135M", "llama_8b": "LLaMA, 8B, no data"}[name],
        "groups": len(network.groups),
        "weights": len(planned.layers),
        "cpu_seconds": time.process_time() - start,
        "memory": _peak() - held,
    }


def _peak() -> int:
    """Return the most bytes that this process has held itself, without those of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield the tables of this part; with ``--only scale`` the costs of tracing alone."""
    kinds: list[Row] = []

    def networks() -> Iterator[Row]:
        for row, some in run():
            kinds.extend(some)
            yield row

    if options.only != "scale":
        yield "networks", networks()
        yield "networks_kinds", iter(kinds)
    yield "networks_scale", scale()
