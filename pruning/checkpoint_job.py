"""A checkpoint folder from tensor names to a permuted folder, with the proof in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from torch import nn

from permsearch.io.parts import Part
from permsearch.jobs.machine import free_memory
from permsearch.jobs.task import Task, Work
from permsearch.orders import Order
from permsearch.planning.speed import TYPICAL, Speed
from pruning.errors import VerificationError
from pruning.formulate import Patterns, Plan, plan
from pruning.gather import GatherCost, gather_cost, gathered_orders
from pruning.group_tasks import (
    GroupOptions,
    GroupPlan,
    GroupSearch,
    found_of,
    plan_groups,
    tasks_of,
)
from pruning.groupwise import Found
from pruning.model_folder import LazyTensors, read_folder, write_folder
from pruning.network import Network
from pruning.reorder import Move, moves_of
from pruning.specs import IGNORED, Checkpoint, checkpoint, example_inputs, read_config
from pruning.trace import trace
from pruning.verify import MEMORY_SHARE, Report, compare

if TYPE_CHECKING:
    import torch

Moves = Mapping[str, Sequence[Move]]
Through: TypeAlias = Callable[[Sequence[Task], Work], Mapping[str, Part]]


def work_through(tasks: Sequence[Task], work: Work) -> Mapping[str, Part]:
    """Run all tasks in this process, in turn."""
    from permsearch.jobs import executor
    from permsearch.jobs import work_through as through

    return through(tasks, work, executor(1))


@dataclass(slots=True)
class Job:
    """A checkpoint with its network, what is planned for it, and what was done to it."""

    folder: Path
    config: Mapping[str, Any]
    tensors: LazyTensors
    network: Network
    plan: Plan
    moves: dict[str, list[Move]] = field(default_factory=dict)
    gathered: dict[str, Order] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        folder: Path,
        patterns: Patterns,
        gather: Sequence[str] = (),
        outputs: Literal["pin", "free"] = "pin",
    ) -> Job:
        """Find the groups of a checkpoint from names, shapes and config.json; read no numbers."""
        config = read_config(folder)
        tensors = LazyTensors(folder)
        network = trace(
            checkpoint(tensors.blank(), config),
            example_inputs(config, "meta"),
            outputs=outputs,
            ignore_unread=IGNORED,
        )
        return cls(folder, config, tensors, network, plan(network, patterns, gather=gather))

    def plans(self, options: GroupOptions, speed: Speed = TYPICAL) -> list[GroupPlan]:
        """Return the searches that the job comes to, with what they cost; read no numbers."""
        return plan_groups(self.folder, self.network, self.plan, options, speed)

    def work(self, options: GroupOptions) -> tuple[list[Task], Work]:
        """Return the searches as tasks, and what does them."""
        return tasks_of(self.plans(options), options), GroupSearch(options)

    def run(self, options: GroupOptions, through: Through = work_through) -> dict[str, Any]:
        """Search, prove, and return the report.

        Parameters
        ----------
        options
            How each group is searched.
        through
            What takes tasks and their work to a part for each task, by name; in this process one
            after another, unless told otherwise.
        """
        from pruning.plan_report import report_of

        tasks, work = self.work(options)
        parts = through(tasks, work)
        found = found_of([parts[task.name] for task in tasks], options)
        del parts
        self.gathered = gathered_orders(self.network, found.solution)
        self.moves = moves_of(self.network, found.solution)
        for layer, order in self.gathered.items():
            self.moves.setdefault(f"{layer}.weight", []).append(Move((1,), order))
        for alias, name in self.network.aliases.items():
            if name in self.moves:
                self.moves[alias] = self.moves[name]
        proof = self.proof(found, options.seed)
        return report_of(self.network, self.plan, found, proof, self.costs())

    def costs(self) -> list[GatherCost]:
        """Return what each gather costs at run time."""
        return [
            gather_cost(layer, self.network.tensors[f"{layer}.weight"]) for layer in self.gathered
        ]

    def proof(self, found: Found, seed: int) -> Report | str:
        """Compare the model before and after, or say why that was not done.

        Raises
        ------
        VerificationError
            The outputs differ; nothing has been written.
        """
        from pruning.permute import output_moves

        needed, free = 3 * self.tensors.nbytes, free_memory()
        if needed > MEMORY_SHARE * free:
            return (
                f"the model and a copy of it need {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB "
                "are free; run both folders where there is room"
            )
        model = _Held(checkpoint(read_folder(self.folder), self.config))
        network = replace(self.network, examples=((example_inputs(self.config), {}),))

        def change(held: nn.Module) -> None:
            assert isinstance(held, _Held)
            held.inner = self.changed(held.inner)

        report = compare(
            model, change, network.examples, output_moves(network, found.solution), seed
        )
        if not report.same:
            raise VerificationError(
                f"the output changed by {report.difference:.1e} of its largest entry "
                f"({report.limit:.0e} allowed); nothing was written. Please report the model."
            )
        return report

    def changed(self, model: Checkpoint) -> Checkpoint:
        """Return the checkpoint with reordered tensors, and gathered layers behind their index."""
        import torch

        done: dict[int, torch.Tensor] = {}
        tensors: dict[str, torch.Tensor] = {}
        for name, tensor in model.named_parameters(remove_duplicate=False):
            if id(tensor) not in done:
                moved = tensor.detach().clone()
                for move in self.moves.get(name, ()):
                    move.apply_(moved)
                done[id(tensor)] = moved
            layer, _, kind = name.rpartition(".")
            name = f"{layer}.layer.{kind}" if layer in self.gathered else name
            tensors[name] = done[id(tensor)]
        for layer, order in self.gathered.items():
            tensors[f"{layer}.order"] = torch.from_numpy(order)
        tensors.update(model.named_buffers())
        return checkpoint(tensors, self.config)

    def write(self, target: Path, before: Callable[[Path], None] | None = None) -> None:
        """Write the permuted folder; `before` is as for `write_folder`."""
        write_folder(self.folder, target, self.moves, self.gathered, before=before)


class _Held(nn.Module):
    """A module that can be exchanged for another."""

    def __init__(self, inner: Checkpoint) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Run the module that is held."""
        return self.inner(*inputs)
