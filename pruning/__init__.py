"""Prune torch models with the orders that ``permsearch`` finds.

``trace`` finds which axes of which parameters must be reordered together so that a model computes
what it computed before; ``Network.problem`` makes them variables of a search; ``permute_`` applies
the orders found, and proves the function unchanged.
"""

from __future__ import annotations

from pruning.bundle import MaskBundle
from pruning.calibrate import calibrate
from pruning.current import current_bundle
from pruning.errors import (
    BundleMismatch,
    CalibrationError,
    ExportError,
    RecipeError,
    StateError,
    TraceError,
    VerificationError,
)
from pruning.exports import Exported, Foreign, export, import_masks
from pruning.gather import GatherCost, Gathered, gather_, gathered_orders
from pruning.gradients import Gradients, gradients
from pruning.layerwise import Stage, calibrate_blocks
from pruning.masks import (
    attach_masks_,
    density,
    detach_masks_,
    keep_masked,
    masks_of,
    rezero_,
    update_masks_,
)
from pruning.network import Group, Member, Network, Pin
from pruning.norms import reestimate_batchnorm_
from pruning.permute import permute_
from pruning.pipeline import PruneResult, prune
from pruning.recipe import LayerRule, Recipe
from pruning.schedule import Cubic, attach_sr_ste_, settle_sr_ste_
from pruning.tile_stages import Ranking, TileStages, train_in_stages_
from pruning.trace import trace
from pruning.verify import Report

__all__ = [
    "BundleMismatch",
    "CalibrationError",
    "Cubic",
    "ExportError",
    "Exported",
    "Foreign",
    "GatherCost",
    "Gathered",
    "Gradients",
    "Group",
    "LayerRule",
    "MaskBundle",
    "Member",
    "Network",
    "Pin",
    "PruneResult",
    "Ranking",
    "Recipe",
    "RecipeError",
    "Report",
    "Stage",
    "StateError",
    "TileStages",
    "TraceError",
    "VerificationError",
    "attach_masks_",
    "attach_sr_ste_",
    "calibrate",
    "calibrate_blocks",
    "current_bundle",
    "density",
    "detach_masks_",
    "export",
    "gather_",
    "gathered_orders",
    "gradients",
    "import_masks",
    "keep_masked",
    "masks_of",
    "permute_",
    "prune",
    "reestimate_batchnorm_",
    "rezero_",
    "settle_sr_ste_",
    "trace",
    "train_in_stages_",
    "update_masks_",
]
