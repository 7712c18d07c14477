"""Ways out and in: each writes what its consumer reads, and refuses what would be misread."""

from __future__ import annotations

from pruning.exports.block import to_bsr
from pruning.exports.entry import TARGETS, Target, export
from pruning.exports.folder import export_folder
from pruning.exports.foreign import Foreign, import_masks
from pruning.exports.job import Exported
from pruning.exports.prune_state import from_torch_prune_, to_torch_prune_
from pruning.exports.semi_structured import (
    SemiStructured,
    eligibility,
    to_semi_structured,
)
from pruning.exports.sparsifier import fill_sparsifier_, masks_in_sparsifier

__all__ = [
    "TARGETS",
    "Exported",
    "Foreign",
    "SemiStructured",
    "Target",
    "eligibility",
    "export",
    "export_folder",
    "fill_sparsifier_",
    "from_torch_prune_",
    "import_masks",
    "masks_in_sparsifier",
    "to_bsr",
    "to_semi_structured",
    "to_torch_prune_",
]
