"""What a target is handed: weights with zeros, their masks, and where to write."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pruning.bundle import MaskBundle
from pruning.capture import unwrapped
from pruning.errors import BundleMismatch, ExportError
from pruning.exports.layers import MaskedLayer, masked_layers
from pruning.gather import Gathered
from pruning.masks import detach_masks_, masks_of
from pruning.model_folder import LazyTensors

#: Weights that an error names for each reason.
_NAMED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Exported:
    """What an export made.

    Attributes
    ----------
    target
        Its name.
    path
        The file or folder that was written; None where there is none.
    result
        What the consumer takes in memory (a model, tensors by name); None where there is none.
    layers
        The weights in the target's form.
    left
        Masked weights that have zeros but not the target's form, with reasons.
    """

    target: str
    path: Path | None
    result: Any
    layers: tuple[str, ...]
    left: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        place = f" in {self.path}" if self.path is not None else ""
        lines = [f"{len(self.layers)} weights as {self.target}{place}"]
        lines += [f"{name}: dense with zeros, {why}" for name, why in self.left.items()]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One export, checked.

    Attributes
    ----------
    target
        The target's name.
    layers
        The masked weights; each mask is one of its pattern.
    model
        A copy without masks, zeros in its weights; None where a folder was given.
    folder
        The model's folder; None where a model was given.
    path
        What to write; None: nothing.
    options
        What the target takes besides.
    strict
        Whether a masked weight that cannot have the target's form is an error.
    """

    target: str
    layers: tuple[MaskedLayer, ...]
    model: nn.Module | None
    folder: Path | None
    path: Path | None
    options: Mapping[str, Any]
    strict: bool = False

    @property
    def module(self) -> nn.Module:
        """The model, which was asked for and found."""
        assert self.model is not None
        return self.model

    @property
    def output(self) -> Path:
        """The path, which was asked for and found."""
        assert self.path is not None
        return self.path

    @property
    def gathered(self) -> list[str]:
        """The layers that index their input."""
        modules = () if self.model is None else self.model.named_modules()
        return [name for name, module in modules if isinstance(module, Gathered)]

    def weights(self) -> Iterator[tuple[MaskedLayer, torch.Tensor]]:
        """Yield the masked weights, one in memory at a time where they come from a folder."""
        held = _tensors(self.model, self.folder)
        for layer in self.layers:
            yield layer, layer.apply(held[layer.name])

    def done(
        self, layers: Mapping[str, Any] | None = None, *, result: Any = None, left: Any = None
    ) -> Exported:
        """Return the report; without layers, all have the target's form."""
        names = tuple(layers if layers is not None else [layer.name for layer in self.layers])
        return Exported(self.target, self.path, result, names, dict(left or {}))

    def check_left(self, layers: Collection[str], left: Mapping[str, str]) -> None:
        """Raise where no weight has the target's form, or where one lacks it and all should.

        Raises
        ------
        ExportError
            With the reasons.
        """
        if left and (self.strict or not layers):
            raise ExportError(f"{len(left)} weights cannot be {self.target}:\n{_by_reason(left)}")

    def refuse_gathers(self) -> None:
        """Raise where the model has layers that a file of plain names cannot tell.

        Raises
        ------
        ExportError
            With the way out.
        """
        if self.gathered:
            raise ExportError(
                f"{self.target} cannot tell that layers index their input "
                f"({', '.join(self.gathered)}); export the dense model with the bundle instead."
            )


def make_job(
    bundle: MaskBundle | str | Path,
    model: nn.Module | str | Path,
    target: str,
    path: str | Path | None,
    options: Mapping[str, Any],
    *,
    check: bool,
    strict: bool,
) -> Job:
    """Return an export of a model, or of a folder, after every check that does not write."""
    if not isinstance(bundle, MaskBundle):
        bundle = MaskBundle.load(bundle)
    if not len(bundle):
        raise ExportError("the bundle holds no masks.")
    output = None if path is None else Path(path)
    if not isinstance(model, nn.Module):
        layers = masked_layers(bundle, LazyTensors(Path(model)), {}, check=check)
        return Job(target, layers, None, Path(model), output, options, strict)
    bare = unwrapped(model)
    attached = masks_of(bare)
    plain = copy.deepcopy(bare)
    detach_masks_(plain)
    named = dict(plain.named_parameters(remove_duplicate=False))
    layers = masked_layers(bundle, named, attached, check=check)
    _refuse_others(attached, named, layers)
    with torch.no_grad():
        for layer in layers:
            named[layer.name].copy_(layer.apply(named[layer.name]))
    return Job(target, layers, plain, None, output, options, strict)


def _refuse_others(
    attached: Mapping[str, torch.Tensor],
    named: Mapping[str, torch.Tensor],
    layers: tuple[MaskedLayer, ...],
) -> None:
    told = {id(named[layer.name]) for layer in layers}
    extra = [name for name in attached if id(named[name]) not in told]
    if extra:
        raise BundleMismatch(
            f"the model has masks on {', '.join(extra)} that the bundle does not hold; it is of "
            "another recipe."
        )


def _tensors(model: nn.Module | None, folder: Path | None) -> Mapping[str, torch.Tensor]:
    if folder is not None:
        return LazyTensors(folder)
    assert model is not None
    return dict(model.named_parameters(remove_duplicate=False))


def _by_reason(left: Mapping[str, str]) -> str:
    """Return a line for each reason, with its weights; the reason of the fewest comes first."""
    names: dict[str, list[str]] = {}
    for name, why in left.items():
        names.setdefault(why, []).append(name)
    lines = []
    for why, found in sorted(names.items(), key=lambda item: len(item[1])):
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        lines.append(f"  {why}: {', '.join(found[:_NAMED])}{more}")
    return "\n".join(lines)
