"""The searches of a file's tensors as tasks: one for each tensor, independent of all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from permsearch.compare import compare_tensor, warm_up_all
from permsearch.errors import ScoresError
from permsearch.io.fingerprint import fingerprint
from permsearch.io.parts import Part
from permsearch.io.select import Skipped, Unusable
from permsearch.io.source import TensorInfo, TensorSource
from permsearch.jobs.task import Task
from permsearch.saving import result_part
from permsearch.search_all import SearchOptions
from permsearch.solvers.base import Solver
from permsearch.streaming.tensor import TensorRows, streams, tensor_part

# Bytes of one search: float32 copies of the scores in both layouts, 8-bit ones, the weight as it
# came; matrices of columns by columns; the interpreter and its libraries. `--memory` of the
# benchmark `benchmarks.jobs` compares it with what searches take.
_PER_ENTRY, _PER_PAIR, _BASE = 20, 16, 400 << 20
_STREAMED = 2 << 30  # of one that goes through its tensor row by row


def tensor_tasks(
    infos: Iterable[TensorInfo],
    options: SearchOptions,
    solvers: Sequence[str | Solver] | None = None,
) -> list[Task]:
    """Return a task for each tensor; its cost is a guess that only decides which begins first.

    Parameters
    ----------
    solvers
        That search each tensor one after another; None: the one of the options.
    """
    asked = [replace(options, solver=name) for name in solvers or [options.solver]]
    return [
        Task(
            info.name,
            cost=float(info.size) * info.shape[1],
            memory=_STREAMED if all(streams(info, own) for own in asked) else needed_memory(info),
            payload=info,
        )
        for info in infos
    ]


def needed_memory(info: TensorInfo) -> int:
    """Return the bytes that a search of a tensor needs, about, at the most."""
    return _BASE + _PER_ENTRY * info.size + _PER_PAIR * info.shape[1] ** 2


def weight_fingerprint(source: TensorSource, info: TensorInfo, options: SearchOptions) -> str:
    """Return the fingerprint of a tensor as it stands now, in no more memory than its search."""
    if streams(info, options):
        return TensorRows(source, info).fingerprint()
    return fingerprint(source.read(info.name))


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """A tensor that travels with its task, where workers cannot read the source."""

    info: TensorInfo
    weight: NDArray[Any]


@dataclass(frozen=True, slots=True)
class TensorSearch:
    """Searches one tensor; a `Work` whose part is what a mask bundle stores of it.

    Parameters
    ----------
    source
        Where the tensors come from.
    options
        How each is searched.
    """

    source: TensorSource
    options: SearchOptions

    def load(self, info: TensorInfo) -> Sent:
        """Return the payload that holds the tensor itself."""
        return Sent(info, self.source.read(info.name))

    def prepare(self, info: TensorInfo) -> None:
        """Compile what the search needs, where its own times should not count that."""
        if not streams(info, self.options):
            self.options.warm_up(info.shape)

    def __call__(self, payload: TensorInfo | Sent) -> Part:
        """Return the record, the packed mask and the orders of a tensor."""
        if isinstance(payload, TensorInfo) and streams(payload, self.options):
            return tensor_part(self.source, payload, self.options)
        info, weight = _read(self.source, payload)
        if streams(info, self.options):
            return tensor_part(self.source, info, self.options, weight)
        result = self.options.search(weight, info.name)
        return result_part(info, weight, result, solver=str(self.options.solver))


def _read(source: TensorSource, payload: TensorInfo | Sent) -> tuple[TensorInfo, NDArray[Any]]:
    """Return a tensor's name and shape, and its values, sent or read now."""
    if isinstance(payload, Sent):
        return payload.info, payload.weight
    return payload, source.read(payload.name)


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """Searches one tensor with several solvers; a `Work` whose part has their rows.

    Parameters
    ----------
    source
        Where the tensors come from.
    solvers
        What is compared.
    options
        How each tensor is searched by each solver.
    """

    source: TensorSource
    solvers: Sequence[str | Solver]
    options: SearchOptions

    def load(self, info: TensorInfo) -> Sent:
        """Return the payload that holds the tensor itself."""
        return Sent(info, self.source.read(info.name))

    def prepare(self, info: TensorInfo) -> None:
        """Compile what every solver needs: what is compared is their searching."""
        warm_up_all(info, self.solvers, self.options)

    def __call__(self, payload: TensorInfo | Sent) -> Part:
        """Return a record with `rows`, what was `skipped`, and the weight's `sha256`."""
        sent = payload if isinstance(payload, Sent) else None
        info = payload if isinstance(payload, TensorInfo) else payload.info
        tensor = TensorRows(self.source, info, None if sent is None else sent.weight)
        rows: list[dict[str, Any]] = []
        skipped: list[Skipped] = []
        try:
            for found in compare_tensor(tensor, self.solvers, self.options):
                if isinstance(found, Skipped):
                    skipped.append(found)
                else:
                    rows.append(found)
        except ScoresError as error:
            skipped.append(Unusable.of(info.name, error))
        told = [(type(skip).__name__, skip.name, skip.reason) for skip in skipped]
        return Part({"rows": rows, "skipped": told, "sha256": tensor.fingerprint()})


def skipped_of(part: Part) -> list[Skipped]:
    """Return what a comparison's part says was left out."""
    kinds = {"Skipped": Skipped, "Unusable": Unusable}
    return [kinds[kind](name, reason) for kind, name, reason in part.record["skipped"]]
