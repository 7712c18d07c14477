"""The scores of one group of a checkpoint, read from its files row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from permsearch.arrays import magnitude
from permsearch.io.folder import ShardedFolder
from permsearch.patterns import NM, Scores
from pruning.drafts import Draft
from pruning.model_folder import LazyTensors
from pruning.network import Part, pick

_ENTRIES = 1 << 24  # of a chunk


@dataclass(frozen=True, slots=True, eq=False)
class GroupRows:
    """The stacked rows of all weights that one order reaches; a `permsearch` row source.

    Attributes
    ----------
    folder
        A Hugging Face folder.
    drafts
        The terms, all of one N:M pattern and on one variable.
    shapes
        The shape of each draft's tensor.
    parts
        Tensors that are pieces of others.
    columns, rows
        Size of the stack.
    """

    folder: Path
    drafts: Sequence[Draft]
    shapes: Mapping[str, tuple[int, ...]]
    parts: Mapping[str, Part]
    columns: int
    rows: int

    def chunks(self) -> Iterator[Scores]:
        """Yield scores, weight after weight: some rows of one at a time where that can be."""
        tensors, source = LazyTensors(self.folder), ShardedFolder.open(self.folder)
        for draft in self.drafts:
            name, shape = draft.tensor, self.shapes[draft.tensor]
            if not draft.take.by_rows or len(shape) != 2 or name in self.parts:
                yield draft.take(magnitude(pick(self.parts, tensors, name), name))
                continue
            height = max(1, _ENTRIES // shape[1])
            for first in range(0, shape[0], height):
                last = min(shape[0], first + height)
                told = f"{name}, rows {first} to {last - 1}"
                yield draft.take(magnitude(source.read_rows(name, first, last), told))


def can_stream(drafts: Sequence[Draft], segments: int, columns: int) -> bool:
    """Decide whether drafts on one variable can be searched row by row: N:M, one free order."""
    patterns = {draft.pattern for draft in drafts}
    pattern = next(iter(patterns))
    plain = len(patterns) == 1 and isinstance(pattern, NM) and segments == 1
    if not plain or any(draft.rows is not None for draft in drafts):
        return False
    assert isinstance(pattern, NM)
    return pattern.n < pattern.m < columns and columns % pattern.m == 0
