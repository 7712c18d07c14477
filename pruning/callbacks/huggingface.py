"""The callback for the Hugging Face Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from permsearch.errors import MissingExtra
from pruning.bundle import MaskBundle
from pruning.callbacks.masking import Masking
from pruning.callbacks.plain_state import save_plainly
from pruning.capture import unwrapped
from pruning.errors import StateError
from pruning.masks import masks_of

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingExtra(
        f"this needs transformers, which cannot be imported ({error}): "
        "pip install 'permsearch[hf]'."
    ) from error

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

#: The folder inside a checkpoint that holds its bundle.
FOLDER = "masks"


class TrainerMasks(TrainerCallback):  # type: ignore[misc, unused-ignore] # untyped, or absent
    """Trains a model of transformers under masks.

    They are put on when training begins and taken off at its end, which leaves zeros. Checkpoints
    have the weights' ordinary names, and the bundle in their folder ``masks``, from which training
    resumes.

    Parameters
    ----------
    bundle
        The masks, or the folder they were saved in: for the dense model, for what `pruning.prune`
        made of it, or for one whose masks are on already (they are left on then).
    recipe
        Instead of a bundle: `pruning.prune` is called with it when training begins.
    check
        Whether weights must be those that the bundle was made for; not, where a checkpoint is
        loaded into a model of other weights.
    options
        What `pruning.prune` takes besides: `example_inputs`, `example_kwargs`, `calibration`.

    Examples
    --------
    >>> Trainer(model, args, callbacks=[TrainerMasks("bundle")]).train()  # doctest: +SKIP
    """

    def __init__(
        self,
        bundle: MaskBundle | str | Path | None = None,
        *,
        recipe: Any = None,
        check: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self.masking = Masking(bundle, recipe, options, check=check)

    @property
    def bundle(self) -> MaskBundle:
        """The bundle of the model as it is now: to be saved, or exported with it."""
        return self.masking.bundle()

    def on_init_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Have a model whose masks are on already load checkpoints under plain names."""
        del args, state, control, kwargs
        if masks_of(model):
            self.masking.handles += save_plainly(unwrapped(model))

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: Any = None,
        optimizer: Any = None,
        **kwargs: Any,
    ) -> None:
        """Put the masks on; those of the checkpoint where training resumes from one."""
        del control, kwargs
        restored = None
        if state.global_step:
            places = [args.resume_from_checkpoint, _checkpoint(args, state)]
            folders = [Path(place) / FOLDER for place in places if isinstance(place, str | Path)]
            here = next((folder for folder in folders if folder.is_dir()), None)
            restored = None if here is None else MaskBundle.load(here)
            if restored is None and self.masking.given is None:
                raise StateError(
                    f"training resumes at step {state.global_step}, but there are no masks in "
                    f"{' or '.join(map(str, folders))}; give TrainerMasks(bundle=...) the folder "
                    f"{FOLDER!r} of the checkpoint."
                )
        self.masking.start(model, restored)
        self.masking.keep(optimizer)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write the bundle into the checkpoint."""
        del control, kwargs
        if state.is_world_process_zero:
            self.bundle.save(_checkpoint(args, state) / FOLDER, overwrite=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the masks off."""
        del args, state, control, kwargs
        self.masking.stop()


def _checkpoint(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
