"""One call for every way out: the targets by name, what each takes, and the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permsearch.errors import unknown
from pruning.bundle import MaskBundle
from pruning.errors import ExportError
from pruning.exports.job import Exported, Job, make_job

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Target:
    """A way out.

    Attributes
    ----------
    writer
        ``module:function``, imported when it is asked for.
    gives
        What it makes, for lists of targets.
    folder
        Whether it takes a folder for the model as it is; else the model has to be loaded.
    path
        Whether it is about a file or folder alone.
    options
        What may be said besides.
    """

    writer: str
    gives: str
    folder: bool = False
    path: bool = False
    options: tuple[str, ...] = ()

    def load(self) -> Callable[[Job], Exported]:
        """Return the function that writes it."""
        module, _, function = self.writer.partition(":")
        found: Callable[[Job], Exported] = getattr(import_module(module), function)
        return found


_HERE = "pruning.exports"

#: Every way out, by name.
TARGETS: Mapping[str, Target] = {
    "safetensors": Target(
        f"{_HERE}.dense:write", "a file of dense weights with zeros, or a folder", True, True
    ),
    "hf": Target(
        f"{_HERE}.dense:write_folder_of", "a Hugging Face folder with zeros", True, True
    ),
    "semi-structured": Target(
        f"{_HERE}.packed:write_semi_structured",
        "values and metadata of torch.sparse (CUTLASS layout)",
        True,
        options=("dtype",),
    ),
    "bsr": Target(
        f"{_HERE}.packed:write_bsr", "block-sparse rows of torch", True, options=("blocks",)
    ),
    "sparsekernels": Target(
        f"{_HERE}.kernels:write", "packed weights and layers of sparsekernels", True
    ),
    "sparse-24-bitmask": Target(
        f"{_HERE}.bitmask:write", "a folder for compressed-tensors up to 0.14", True, True
    ),
    "torch-prune": Target(f"{_HERE}.states:write_prune", "a model under torch.nn.utils.prune"),
    "sparsifier": Target(f"{_HERE}.states:write_sparsifier", "a sparsifier of torch.ao.pruning"),
    "modelopt": Target(f"{_HERE}.modelopt:write", "a model under nvidia-modelopt's masks"),
    "onnx": Target(
        f"{_HERE}.onnx_file:write",
        "an ONNX file with zeros, verified by axis",
        path=True,
        options=("example_inputs", "example_kwargs", "dynamic_shapes"),
    ),
}  # fmt: skip


def export(
    bundle: MaskBundle | str | Path,
    model: nn.Module | str | Path,
    to: str = "safetensors",
    path: str | Path | None = None,
    *,
    check: bool = True,
    strict: bool = False,
    **options: Any,
) -> Exported:
    """Give a pruned model to another tool; the model itself is left as it is.

    The masks must be those of the bundle, and each one of its pattern, before anything is
    written. Dropped weights are +0.0. Files are written aside and then renamed, so that what
    stood there before stays whole if that fails.

    Parameters
    ----------
    bundle
        The masks, or the folder they were saved in.
    model
        The pruned model with its masks on or off, the dense one that came into the search, or the
        Hugging Face folder of either.
    to
        A name in `pruning.exports.TARGETS`; docs/pruning.md tells what each gives and takes.
    path
        The file or folder to write; what is made in memory besides is in the report.
    check
        Whether weights must be those that the masks were made for, by their masks, fingerprints or
        zeros. Without it, masks are taken to fit the layout that came into the search.
    strict
        Whether a masked weight that cannot have the target's form is an error. Else it keeps its
        zeros and is told with the reason.
    options
        What single targets take: `example_inputs` for "onnx", `dtype` for "semi-structured".

    Raises
    ------
    UnknownName
        No target or option has that name.
    BundleMismatch
        The bundle is of another model.
    ExportError
        A mask breaks its pattern, or the target cannot take the model; nothing was written.
    FileError
        The path cannot be written; what stood there is whole.
    MissingExtra
        The target's own package is not installed.

    Examples
    --------
    >>> import pruning, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
    >>> result = pruning.prune(model, "2:4", example_inputs=torch.ones(1, 8))
    >>> pruning.export(result.bundle, model, to="sparsekernels").layers
    ('0.weight', '1.weight')
    """
    if to not in TARGETS:
        raise unknown("target", to, TARGETS)
    target = TARGETS[to]
    for name in options:
        if name not in target.options:
            raise unknown(f"option of {to}", name, target.options)
    if target.path and path is None:
        raise ExportError(f"{to} is {target.gives}: give path=.")
    if isinstance(model, str | Path) and not target.folder:
        model = load_folder(model)
    write = target.load()
    return write(make_job(bundle, model, to, path, options, check=check, strict=strict))


def load_folder(folder: str | Path) -> nn.Module:
    """Return the model in a Hugging Face folder, by transformers, in evaluation mode.

    Raises
    ------
    MissingExtra
        transformers is not installed.
    """
    from pruning.exports.extras import needed

    transformers = needed("transformers", "hf")
    config = transformers.AutoConfig.from_pretrained(folder)
    names = config.architectures or ()
    kind = next((getattr(transformers, n) for n in names if hasattr(transformers, n)), None)
    kind = kind or transformers.AutoModel
    model: nn.Module = kind.from_pretrained(folder).eval()
    return model
