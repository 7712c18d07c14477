"""The callback for Lightning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from permsearch.errors import MissingExtra
from pruning.bundle import MaskBundle
from pruning.callbacks.masking import Masking
from pruning.callbacks.state import bundle_of_state, bundle_state
from pruning.errors import StateError
from pruning.masks import masks_of, update_masks_

try:
    from lightning.pytorch.callbacks import Callback
except ImportError as error:
    raise MissingExtra(
        f"this needs lightning, which cannot be imported ({error}): "
        "pip install 'permsearch[lightning]'."
    ) from error

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer
    from torch import nn


class LightningMasks(Callback):
    """Trains a Lightning module under masks.

    They are put on before the optimizers are made and taken off after the fit, which leaves zeros.
    Checkpoints have the weights' ordinary names, and the bundle in the callback's state; a fit
    that resumes goes on with it. List it before callbacks that average weights.

    Parameters
    ----------
    bundle
        The masks, or the folder they were saved in: for the dense module, for what `pruning.prune`
        made of it, or for one whose masks are on already (they are left on then).
    recipe
        Instead of a bundle: `pruning.prune` is called with it when the fit begins.
    module
        The name of the part of the module that is meant; "" for all of it.
    check
        Whether weights must be those that the bundle was made for; not, where a checkpoint is
        loaded into a model of other weights.
    options
        What `pruning.prune` takes besides: `example_inputs`, `calibration`.

    Examples
    --------
    >>> from lightning.pytorch import Trainer  # doctest: +SKIP
    >>> Trainer(callbacks=[LightningMasks("bundle", module="net")]).fit(module)  # doctest: +SKIP
    """

    def __init__(
        self,
        bundle: MaskBundle | str | Path | None = None,
        *,
        recipe: Any = None,
        module: str = "",
        check: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self.module = module
        self.masking = Masking(bundle, recipe, options, check=check)

    @property
    def bundle(self) -> MaskBundle:
        """The bundle of the model as it is now: to be saved, or exported with it."""
        return self.masking.bundle()

    @property
    def state_key(self) -> str:
        """The name of its state in checkpoints."""
        return f"{type(self).__qualname__}[{self.module}]"

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Put the masks on, before optimizers are made and a checkpoint is loaded."""
        if stage != "fit":
            return
        others = _callbacks(trainer)
        for other in others[: others.index(self)]:
            if getattr(other, "_average_model", None) is not None:
                raise StateError(
                    f"{type(other).__name__} has copied the model before its masks were on; list "
                    f"{type(self).__name__} before it in Trainer(callbacks=...)."
                )
        self.masking.start(self._part(pl_module))

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep dropped weights at zero through the steps of all optimizers."""
        del pl_module
        self.masking.keep(*trainer.optimizers)

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Take over the checkpoint's masks, in averaged copies of the model as well."""
        state = checkpoint.get("callbacks", {}).get(self.state_key)
        if state is None:
            return
        self.masking.start(self._part(pl_module), bundle_of_state(state))
        masks = masks_of(self._part(pl_module))
        for other in _callbacks(trainer):
            average = getattr(other, "_average_model", None)
            if average is not None:
                update_masks_(self._part(getattr(average, "module", average)), masks)

    def state_dict(self) -> dict[str, Any]:
        """Return the bundle, for the checkpoint."""
        return {} if self.masking.model is None else bundle_state(self.bundle)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Take the masks off."""
        del trainer, pl_module
        if stage == "fit":
            self.masking.stop()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Take the masks off after a fit that broke off, too."""
        del trainer, pl_module, exception
        self.masking.stop()

    def _part(self, pl_module: nn.Module) -> nn.Module:
        return pl_module.get_submodule(self.module)


def _callbacks(trainer: Trainer) -> list[Any]:
    """Return all callbacks of a trainer, which sets them outside its class."""
    found: list[Any] = vars(trainer)["callbacks"]
    return found
