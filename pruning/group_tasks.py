"""The searches of a checkpoint folder as tasks: planned from shapes, run anywhere, put together.

A task names its tensors and how their scores are laid out, and holds none of them: whoever runs it
reads the shards by path. Each is a function of its payload alone, so tasks may run in any order,
on any machine that sees the folder, and again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch.arrays import magnitude
from permsearch.domains import Domain, size_of
from permsearch.io.folder import ShardedFolder
from permsearch.io.parts import Part
from permsearch.io.sampling import sampled_fingerprint
from permsearch.jobs.task import Task
from permsearch.patterns import NM
from permsearch.planning.costs import Cost, Shape, cost_of
from permsearch.planning.speed import TYPICAL, Speed
from permsearch.problem import Problem
from permsearch.solve import solve
from permsearch.solvers.base import Solver
from permsearch.stop import StoppingCriterion
from permsearch.streaming.stream import MEMORY
from pruning.drafts import Draft
from pruning.formulate import Plan, term_of
from pruning.group_rows import GroupRows, can_stream
from pruning.groupwise import Found, Score, components
from pruning.model_folder import LazyTensors
from pruning.network import Network, pick
from pruning.network import Part as Slice

if TYPE_CHECKING:
    from permsearch.result import SearchResult

_COARSE = ("auto", "coarse", "matching")  # solvers that leave large groups to the coarse level
_WIDE = 8192  # columns beyond which matching in float32 goes by blocks of columns, and is outdone


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """How the groups of a folder are searched.

    Parameters
    ----------
    solver, stop, seed
        As in `permsearch.solve`, for each search anew.
    device
        Where the distances of 8-bit searches are computed: see `permsearch.streaming.device`.
    memory
        Bytes that one search may hold. Larger groups of an N:M pattern are searched row by row at
        the coarse level, where the solver is `auto`, `matching` or `coarse`; others are held.
    scratch
        Folder for the files of those; None: the system's for temporary files.
    """

    solver: str = "auto"
    stop: StoppingCriterion | None = None
    seed: int = 0
    device: str = "cpu"
    memory: int = MEMORY
    scratch: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GroupPlan:
    """One search of a folder, before it starts: the payload of a task.

    Attributes
    ----------
    name
        The groups' names, or that of the weight that no order reaches.
    groups
        The groups whose orders are searched together.
    shape
        The largest stack's; None where the pattern has no stack.
    entries
        Scores in all its weights.
    streamed
        Whether it is searched row by row.
    cost
        What it takes.
    """

    name: str
    folder: Path
    groups: tuple[str, ...]
    drafts: tuple[Draft, ...]
    domains: Mapping[str, Domain]
    shapes: Mapping[str, tuple[int, ...]]
    parts: Mapping[str, Slice]
    shape: Shape | None
    entries: int
    streamed: bool
    cost: Cost

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that are read, as the files have them."""
        named = (draft.tensor for draft in self.drafts)
        return tuple(dict.fromkeys(self.parts[n].base if n in self.parts else n for n in named))

    def problem(self) -> Problem:
        """Return the search problem, its scores read from the files."""
        tensors, terms = LazyTensors(self.folder), []
        for draft in self.drafts:
            weight = pick(self.parts, tensors, draft.tensor)
            terms.append(term_of(draft, magnitude(weight, draft.tensor)))
        return Problem(self.domains, tuple(terms))

    def rows(self) -> GroupRows:
        """Return the scores as a stream of rows."""
        assert self.shape is not None
        shape = self.shape
        return GroupRows(
            self.folder, self.drafts, self.shapes, self.parts, shape.columns, shape.rows
        )


def plan_groups(
    folder: Path, network: Network, plan: Plan, options: GroupOptions, speed: Speed = TYPICAL
) -> list[GroupPlan]:
    """Return every search of a folder; nothing but headers has been read."""
    parts, rest = components(plan.drafts)
    found = [_planned(folder, network, plan, part, options, speed) for part in parts]
    return found + [_planned(folder, network, plan, [draft], options, speed) for draft in rest]


def _planned(
    folder: Path,
    network: Network,
    plan: Plan,
    drafts: Sequence[Draft],
    options: GroupOptions,
    speed: Speed,
) -> GroupPlan:
    groups = tuple(dict.fromkeys(name for draft in drafts for name in draft.variables))
    held = {name for draft in drafts for name in (draft.rows, draft.cols) if name is not None}
    domains = {name: domain for name, domain in plan.domains.items() if name in held}
    shapes = {draft.tensor: tuple(network.tensors[draft.tensor].shape) for draft in drafts}
    entries = sum(draft.take.entries(shapes[draft.tensor]) for draft in drafts)
    shape = _stack(drafts, domains, entries) if len(groups) == 1 else None
    streamed = groups != () and _streams(drafts, shape, options)
    if shape is not None:
        cost = cost_of(
            shape,
            options.solver,
            options.stop,
            speed,
            streamed=streamed,
            budget=options.memory // 2,
        )
    else:
        # patterns that look at rows, and weights that no order reaches: only read and valued
        cost = Cost(None if groups else 2 * entries / speed.rows, 16 * entries + (300 << 20), 0)
    return GroupPlan(
        name="+".join(groups) or drafts[0].tensor,
        folder=folder,
        groups=groups,
        drafts=tuple(drafts),
        domains=domains,
        shapes=shapes,
        parts={name: own for name, own in network.parts.items() if name in shapes},
        shape=shape,
        entries=entries,
        streamed=streamed,
        cost=cost,
    )


def _stack(drafts: Sequence[Draft], domains: Mapping[str, Domain], entries: int) -> Shape | None:
    """Return the shape of the stacks of drafts on one variable, where the pattern is N:M."""
    pattern = drafts[0].pattern
    if not isinstance(pattern, NM) or drafts[0].cols is None:
        return None
    domain = domains[drafts[0].cols]
    segments = domain.segments
    rows = entries // size_of(domain)
    return Shape(max(segments), rows, pattern.n, pattern.m, len(segments))


def _streams(drafts: Sequence[Draft], shape: Shape | None, options: GroupOptions) -> bool:
    """Decide whether a group is searched row by row."""
    if shape is None or options.solver not in _COARSE:
        return False
    if not can_stream(drafts, shape.segments, shape.columns):
        return False
    if options.solver == "matching" and shape.columns > _WIDE:
        return True
    needed = cost_of(shape, options.solver, options.stop, TYPICAL).memory
    return needed > options.memory


def tasks_of(plans: Sequence[GroupPlan], options: GroupOptions) -> list[Task]:
    """Return the tasks of a job, with fingerprints of what decides their results."""
    if not plans:
        return []
    files = ShardedFolder.open(plans[0].folder).shards
    return [
        Task(
            plan.name,
            plan.cost.cpu if plan.cost.cpu is not None else plan.entries * 1e-6,
            plan.cost.memory,
            plan,
            _fingerprint(plan, options, files),
        )
        for plan in plans
    ]


def _fingerprint(plan: GroupPlan, options: GroupOptions, files: Mapping[str, Any]) -> str:
    decisive = (options.solver, options.stop, options.seed, plan.streamed)
    told = [repr(decisive), *(f"{d.tensor} {d.pattern} {d.rows} {d.cols}" for d in plan.drafts)]
    told += [sampled_fingerprint(files[name], name) for name in plan.tensors]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class GroupSearch:
    """Searches one group of a folder: the work of a job's tasks."""

    options: GroupOptions

    def __call__(self, plan: GroupPlan) -> Part:
        """Return the orders of the plan's groups, and what they keep."""
        if not plan.groups:
            return self._still(plan)
        if plan.streamed:
            return self._streamed(plan)
        result = solve(plan.problem(), self._solver, stop=self.options.stop, seed=self.options.seed)
        return _part(plan, result)

    @property
    def _solver(self) -> str | Solver:
        """The solver, told of the device where that is for it to use."""
        if self.options.solver != "coarse":
            return self.options.solver
        from permsearch.solvers.coarse import Coarse

        return Coarse(device=self.options.device)

    def _streamed(self, plan: GroupPlan) -> Part:
        from permsearch.streaming.device import open_device
        from permsearch.streaming.stream import StreamOptions, search_rows

        pattern = plan.drafts[0].pattern
        assert isinstance(pattern, NM)
        options = StreamOptions(
            seed=self.options.seed,
            device=open_device(self.options.device),
            memory=self.options.memory // 2,
            scratch=self.options.scratch,
        )
        found = search_rows(plan.rows(), pattern, options)
        record = {
            "groups": plan.groups,
            "total": found.total,
            "baseline": found.baseline,
            "score": found.score,
            "bound": found.bound,
            "bound_kind": "row",
            "steps": found.steps,
            "seconds": found.runtime,
            "cpu_seconds": found.cpu,
        }
        return Part(record, {plan.groups[0]: found.order.astype(np.int32)})

    def _still(self, plan: GroupPlan) -> Part:
        """Value a weight that no order reaches."""
        (term,) = plan.problem().terms
        kept = term.retained({})
        total = float(term.scores.sum(dtype=float))
        record = {"groups": (), "total": total, "baseline": kept, "score": kept, "bound": kept}
        times = {"steps": 0, "seconds": 0.0, "cpu_seconds": 0.0}
        return Part({**record, "bound_kind": "exact", **times})


def _part(plan: GroupPlan, result: SearchResult) -> Part:
    record = {
        "groups": plan.groups,
        "total": result.total,
        "baseline": result.baseline,
        "score": result.score,
        "bound": result.bound,
        "bound_kind": result.bound_kind,
        "steps": result.steps,
        "seconds": result.runtime,
        "cpu_seconds": result.cpu,
    }
    orders = {name: result.solution[name].astype(np.int32) for name in plan.groups}
    return Part(record, orders)


def found_of(parts: Iterable[Part], options: GroupOptions) -> Found:
    """Return the orders of the whole network from those of its searches."""
    parts = list(parts)
    solution = {
        name: order.astype(np.int64) for part in parts for name, order in part.arrays.items()
    }
    return Found(
        solution,
        tuple(_scores(parts)),
        options.solver,
        options.seed,
        steps=sum(part.record["steps"] for part in parts),
        cpu=sum(part.record["cpu_seconds"] for part in parts),
        runtime=sum(part.record["seconds"] for part in parts),
    )


def _scores(parts: Sequence[Part]) -> Iterator[Score]:
    names = ("total", "baseline", "score", "bound", "bound_kind")
    for part in parts:
        told = {name: part.record[name] for name in names}
        yield Score(tuple(part.record["groups"]), **told, cpu=part.record["cpu_seconds"])
