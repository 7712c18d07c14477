"""What a job on a checkpoint folder will take, told before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from permsearch.planning.speed import Speed
from pruning.drawing import folded, summary
from pruning.formulate import Plan
from pruning.group_tasks import GroupPlan
from pruning.network import Network

_GIB = 1 << 30

OUTPUT = "model output"  # why what the model returns stays where it is


def planned_text(network: Network, planned: Plan) -> str:
    """Return groups and pins, what becomes of each weight, and what could be done about it."""
    matter = {name for draft in planned.drafts for name in draft.variables}
    weights = folded(str(layer) for layer in planned.layers)
    left = [layer for layer in planned.layers if layer.state == "left"]
    hint = free_outputs_hint(sum(OUTPUT in layer.reason for layer in left))
    return "\n".join([summary(network, matter=matter), *weights, *hint])


def free_outputs_hint(pinned: int) -> list[str]:
    """Return a line on the weights that no order reaches because of the model's output, if any."""
    if not pinned:
        return []
    return [
        f"{pinned} weights are left because the model returns the channels that they read; where "
        "outputs are only compared with each other (embeddings), --free-outputs lets these move"
    ]


def told(plans: Sequence[GroupPlan], speed: Speed, nbytes: int) -> str:
    """Return a table of the searches, equal ones in one line, and the totals.

    Parameters
    ----------
    nbytes
        Of the folder that will be written.
    """
    lines = ["searches  columns      rows  parts  how         CPU seconds  memory  scratch  first"]
    firsts: dict[tuple[Any, ...], GroupPlan] = {}
    counts: Counter[tuple[Any, ...]] = Counter()
    for plan in plans:
        key = (plan.shape, plan.streamed, bool(plan.groups), plan.cost)
        firsts.setdefault(key, plan)
        counts[key] += 1
    for key, count in counts.items():
        lines.append(_line(count, firsts[key]))
    content = numbers(plans, speed, nbytes)
    total = content["cpu_seconds"]
    lines.append(
        f"{len(plans)} searches, about {_duration(total)} of one core"
        + ("" if content["estimated"] else " for those that have an estimate")
        + f"; {content['memory'] / _GIB:.1f} GiB of memory for the largest, "
        f"{content['scratch'] / _GIB:.1f} GiB of scratch, {nbytes / _GIB:.1f} GiB to write"
    )
    lines.append(
        f"from speeds measured now: {speed.distances / 1e9:.0f} G entries/s in 8 bit, "
        f"{speed.maxima / 1e9:.0f} in float32"
    )
    return "\n".join(lines)


def numbers(plans: Sequence[GroupPlan], speed: Speed, nbytes: int) -> dict[str, Any]:
    """Return the same as plain data."""
    costs = [plan.cost for plan in plans]
    return {
        "searches": [_row(plan) for plan in plans],
        "cpu_seconds": sum(cost.cpu or 0.0 for cost in costs),
        "estimated": all(cost.cpu is not None for cost in costs),
        "memory": max((cost.memory for cost in costs), default=0),
        "scratch": max((cost.disk for cost in costs), default=0),
        "written": nbytes,
        "speed": {"distances": speed.distances, "maxima": speed.maxima},
    }


def _row(plan: GroupPlan) -> dict[str, Any]:
    shape = plan.shape
    return {
        "name": plan.name,
        "tensors": list(plan.tensors),
        "columns": None if shape is None else shape.columns,
        "rows": None if shape is None else shape.rows,
        "parts": None if shape is None else shape.segments,
        "streamed": plan.streamed,
        "cpu_seconds": plan.cost.cpu,
        "memory": plan.cost.memory,
        "scratch": plan.cost.disk,
    }


def _line(count: int, plan: GroupPlan) -> str:
    row = _row(plan)
    how = "row by row" if plan.streamed else "in memory" if plan.groups else "only valued"
    cpu = "?" if row["cpu_seconds"] is None else f"{row['cpu_seconds']:.1f}"
    sizes = [("" if row[key] is None else str(row[key])) for key in ("columns", "rows", "parts")]
    return (
        f"{count:8d}  {sizes[0]:>7}  {sizes[1]:>8}  {sizes[2]:>5}  {how:<11} {cpu:>11}  "
        f"{row['memory'] / _GIB:5.1f}G  {row['scratch'] / _GIB:6.1f}G  {plan.name}"
    )


def _duration(seconds: float) -> str:
    for unit, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
