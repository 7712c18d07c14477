"""Statistics for a recipe: of all layers together, or of one block of layers after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from pruning.calibrate import calibrate, visible
from pruning.curvature import checked_mean
from pruning.errors import CalibrationError, RecipeError
from pruning.layerwise import Stage, calibrate_blocks
from pruning.padding import Rows, attended
from pruning.plan import PlannedLayer, PrunePlan
from pruning.recipe import Recipe
from pruning.scores import score_kind
from pruning.statistics import Inputs

if TYPE_CHECKING:
    from torch import nn


@dataclass(slots=True)
class Source:
    """Where the statistics of a plan's layers come from.

    Attributes
    ----------
    model, plan, recipe
        What is pruned, and how.
    batches
        The calibration data, or the statistics that were made of them; None without.
    rows
        Which rows of a batch count.
    runs
        Blocks whose inputs took a run of the model, in the last pass over blocks.
    """

    model: nn.Module
    plan: PrunePlan
    recipe: Recipe
    batches: Iterable[Any] | Mapping[str, Inputs] | None
    rows: Rows | None = attended
    runs: list[str] = field(default_factory=list)
    _known: dict[str, Inputs] | None = None

    def __post_init__(self) -> None:
        if _is_statistics(self.batches):
            self._take(self.batches)
            return
        if self.batches is not None and not self.together:
            self.batches = list(self.batches)  # read more than once

    @property
    def together(self) -> bool:
        """Whether all layers are calibrated in one pass."""
        return self.recipe.calibration == "together" or self._known is not None

    def _take(self, given: Mapping[str, Inputs]) -> None:
        """Use statistics that are there already.

        Raises
        ------
        RecipeError
            The recipe needs those of the pruned model.
        CalibrationError
            They lack a weight, or a Gram matrix, that the recipe needs.
        """
        if self.recipe.calibration not in ("together", "blocks"):
            raise RecipeError(
                f"calibration = {self.recipe.calibration!r} looks at the inputs of layers behind "
                "pruned ones, which no statistics made before have; hand in batches."
            )
        layers = {layer.base: layer for layer in self.plan.layers if layer.seen is not None}
        names = {base: str(layer.seen) for base, layer in layers.items()}
        for base, name in names.items():
            needed = layers[base].gram
            if name not in given or (needed and given[name].gram is None):
                what = "Gram matrix" if name in given else "statistics"
                raise CalibrationError(
                    f"{base}: calibration= has no {what} of its inputs; make them by "
                    f"pruning.calibrate(model, batches{', gram=True' if needed else ''})."
                )
            given[name].spread(torch.Size(layers[base].shape))
        self._known = _checked(names, given, layers)

    def staged(self) -> dict[str, PlannedLayer]:
        """Return the layers that `after` yields statistics of, by base names."""
        every = self.together or self.recipe.onward
        return {
            layer.base: layer
            for layer in self.plan.layers
            if self.batches is not None
            and layer.seen is not None
            and (every or layer.rule.needs_gram)
        }

    def before(self, *, whole: bool) -> Iterator[Mapping[str, Inputs]]:
        """Yield the statistics of the dense model's layers as they came in, by base names.

        Parameters
        ----------
        whole
            Whether all Gram matrices are needed, or those alone that scores are made of.
        """
        layers = {layer.base: layer for layer in self.plan.layers if layer.seen is not None}
        if self.batches is None or not layers:
            return
        names = {base: str(layer.seen) for base, layer in layers.items()}
        if self.together:
            if self._known is None:
                gram = {names[base] for base, layer in layers.items() if layer.gram}
                found = self._calibrated(names, gram)
                self._known = _checked(names, found, layers)
            yield self._known
            return
        gram = {n for base, n in names.items() if _scored_by_gram(layers[base])}
        gram |= {n for base, n in names.items() if whole and layers[base].gram}
        if not gram:
            found = self._calibrated(names, set())
            yield _checked(names, found, layers)
            return
        for stage in self._stages(_each(names), gram, pruned=False):
            yield _checked(names, stage.inputs, layers)

    def after(self, parameters: Mapping[str, torch.Tensor]) -> Iterator[Mapping[str, Inputs]]:
        """Yield the statistics that the methods need, by base names.

        They are in the layout that came in if all layers are calibrated together, otherwise in
        that of the model as it is now.

        Parameters
        ----------
        parameters
            By base name.
        """
        if self.together:
            yield from self.before(whole=True)
            return
        layers = self.staged()
        if self.batches is None or not layers:
            return
        now = self._names_now()
        names = {base: now[id(parameters[base])] for base in layers}
        gram = {n for base, n in names.items() if layers[base].gram}
        self.runs.clear()
        onward, paired = self.recipe.onward, self.recipe.calibration == "corrected"
        for stage in self._stages(_each(names), gram, pruned=onward, paired=paired):
            told = stage.name or "the layers outside blocks"
            if not stage.replayed and told not in self.runs:
                self.runs.append(told)
            yield _checked(names, stage.inputs, layers)

    def _calibrated(self, names: Mapping[str, str], gram: set[str]) -> dict[str, Inputs]:
        assert self.batches is not None
        return calibrate(self.model, self.batches, names=_each(names), gram=gram, rows=self.rows)

    def _names_now(self) -> dict[int, str]:
        """Return the names by which calibration knows parameters: gathers have changed some."""
        seen = visible(self.model)
        named = self.model.named_parameters(remove_duplicate=False)
        return {id(parameter): name for name, parameter in named if name in seen}

    def _stages(
        self, names: list[str], gram: set[str], *, pruned: bool, paired: bool = False
    ) -> Iterator[Stage]:
        assert self.batches is not None
        blocks = self.recipe.blocks or None
        return calibrate_blocks(
            self.model,
            self.batches,
            blocks=blocks,
            names=names,
            gram=gram,
            pruned=pruned,
            paired=paired,
            rows=self.rows,
        )


def _is_statistics(given: Any) -> TypeGuard[Mapping[str, Inputs]]:
    """Whether that is what `pruning.calibrate` returns, and no batches."""
    every = given.values() if isinstance(given, Mapping) else ()
    return bool(every) and all(isinstance(each, Inputs) for each in every)


def _scored_by_gram(layer: PlannedLayer) -> bool:
    return score_kind(layer.scores).needs == "gram"


def _each(names: Mapping[str, str]) -> list[str]:
    return sorted(set(names.values()))


def _checked(
    names: Mapping[str, str], found: Mapping[str, Inputs], layers: Mapping[str, PlannedLayer]
) -> dict[str, Inputs]:
    """Return statistics by base names, refusing Gram matrices that say nothing."""
    own = {base: found[name] for base, name in names.items() if name in found}
    for base, inputs in own.items():
        needed = layers[base].rule.needs_gram or _scored_by_gram(layers[base])
        for part in inputs.grams() if needed and inputs.gram is not None else ():
            checked_mean(part, base)
    return own
