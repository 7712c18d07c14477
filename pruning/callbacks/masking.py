"""What both callbacks do: put masks on, keep them through steps, tell the bundle, take them off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pruning.bundle import MaskBundle
from pruning.callbacks.plain_state import save_plainly
from pruning.capture import unwrapped
from pruning.current import current_bundle, plain_weights
from pruning.errors import StateError
from pruning.exports.layers import masked_layers
from pruning.masks import (
    attach_masks_,
    detach_masks_,
    keep_masked,
    masks_of,
    rezero_,
    update_masks_,
)
from pruning.pipeline import prune
from pruning.recipe import as_recipe


class Masking:
    """The masks of one training run.

    Parameters
    ----------
    bundle
        The masks, or the folder they were saved in; also those of a model that has them on.
    recipe, options
        Without a bundle: what `pruning.prune` is called with when training begins.
    check
        Whether weights must be those that the bundle was made for.
    """

    def __init__(
        self,
        bundle: MaskBundle | str | Path | None,
        recipe: Any,
        options: Mapping[str, Any],
        *,
        check: bool = True,
    ) -> None:
        if (bundle is None) == (recipe is None):
            raise StateError("give a bundle, or a recipe with what pruning.prune needs besides.")
        if bundle is not None and options:
            raise StateError(f"{', '.join(options)} belong to a recipe, not to a bundle.")
        self.given = bundle if isinstance(bundle, MaskBundle | None) else MaskBundle.load(bundle)
        self.recipe = None if recipe is None else as_recipe(recipe)
        self.options = dict(options)
        self.check = check
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.ours = False
        self.model: nn.Module | None = None

    def start(self, model: nn.Module, restored: MaskBundle | None = None) -> None:
        """Put masks on a model, and have it save and load under plain names.

        Parameters
        ----------
        restored
            Those of the checkpoint whose weights the model has.
        """
        bare = unwrapped(model)
        found = masks_of(bare)
        self.model = bare
        self.ours = self.ours or not found
        if restored is not None:
            self._restore(bare, found, restored)
        elif found:
            if self.given is None:
                raise StateError("the model has masks already; give their bundle, not a recipe.")
            current_bundle(self.given, bare)  # refuses other ones
        else:
            self._choose(bare)
        if not self.handles:
            self.handles = save_plainly(bare)

    def _restore(
        self, bare: nn.Module, found: Mapping[str, torch.Tensor], restored: MaskBundle
    ) -> None:
        masks = {name: torch.from_numpy(entry.mask.copy()) for name, entry in restored.items()}
        self.given = restored
        if not found:
            attach_masks_(bare, masks)
        elif masks.keys() <= found.keys():
            update_masks_(bare, masks)
        else:
            other = ", ".join(sorted(masks.keys() - found.keys()))
            raise StateError(
                f"the checkpoint has masks on {other}, the model only on {', '.join(found)}; go on "
                "with the bundle or the recipe that training began with."
            )

    def _choose(self, bare: nn.Module) -> None:
        if self.given is not None:
            layers = masked_layers(self.given, plain_weights(bare), {}, check=self.check)
            attach_masks_(bare, {layer.name: layer.mask for layer in layers})
            return
        assert self.recipe is not None
        if any(rule.gather for rule in self.recipe.layers):
            raise StateError(
                "layers that index their input have other names, which no checkpoint of the model "
                "has; call pruning.prune before training, or leave gather out of the recipe."
            )
        self.given = prune(bare, self.recipe, **self.options).bundle

    def keep(self, *optimizers: torch.optim.Optimizer) -> None:
        """Keep dropped weights, and what optimizers remember of them, at zero from now on."""
        assert self.model is not None
        bare = [_inner(each) for each in optimizers]
        masked = _stored_ids(self.model)
        ours = [
            o for o in bare if any(id(p) in masked for g in o.param_groups for p in g["params"])
        ]
        self.handles += keep_masked(self.model, ours or bare)

    def bundle(self) -> MaskBundle:
        """Return the bundle of the model as it is now."""
        if self.model is None or self.given is None:
            raise StateError("there are no masks yet; they are put on when training begins.")
        return current_bundle(self.given, self.model)

    def stop(self) -> None:
        """Take the masks off if they were put on here, and leave zeros."""
        if self.model is None or not masks_of(self.model):
            return
        rezero_(self.model)
        if self.ours:
            self.given = self.bundle()
            detach_masks_(self.model)
            for handle in self.handles:
                handle.remove()
            self.handles, self.ours = [], False


def _inner(optimizer: Any) -> torch.optim.Optimizer:
    """Return the optimizer inside those that wrap one."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer
    found: torch.optim.Optimizer = optimizer
    return found


def _held_ids(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def _stored_ids(model: nn.Module) -> set[int]:
    return {
        id(parameter)
        for name, parameter in model.named_parameters()
        if name.endswith("original") and "parametrizations." in name
    }
