"""ONNX with zeros baked in, and the proof that they are there, along which axis.

The exporter renames, transposes and fuses weights, and nothing in the file says which axis a
product reads. So each masked weight is looked up by where its zeros are.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pruning.capture import evaluating
from pruning.errors import ExportError
from pruning.exports.extras import needed
from pruning.exports.files import folder_moved
from pruning.exports.job import Exported, Job

#: A protobuf holds 2 GB; beyond that, weights go into a file beside it.
_ONE_FILE = 1_900_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """Where a weight is in the file.

    Attributes
    ----------
    name
        The initializer's.
    axis
        The dimension along which the pattern's groups lie there.
    """

    name: str
    axis: int


def write(job: Job) -> Exported:
    """Write the file; the result tells where each weight is in it, and along which axis."""
    onnx = needed("onnx", "onnx")
    needed("onnxscript", "onnx")
    example = _example(job)
    if job.output.is_dir():
        raise ExportError(f"{job.output} is a folder; name a file for the model.")
    with folder_moved(job.output) as aside:
        _trace(job, aside / job.output.name, *example)
        found, left = _lookup(job, _initializers(onnx.load(aside / job.output.name)))
        job.check_left(found, left)
    return job.done(found, result=found, left=left)


def _example(job: Job) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments and keywords to trace with; transformers' models bring their own."""
    options = job.options
    if "example_inputs" not in options and "example_kwargs" not in options:
        own = getattr(job.module, "dummy_inputs", None)
        if not isinstance(own, Mapping):
            raise ExportError("onnx traces the model: give example_inputs= (a tensor or a tuple).")
        return (), {**own, "use_cache": False} if _caches(job.module) else dict(own)
    given = options.get("example_inputs", ())
    args = tuple(given) if isinstance(given, tuple | list) else (given,)
    return args, dict(options.get("example_kwargs") or {})


def _caches(model: torch.nn.Module) -> bool:
    return bool(getattr(getattr(model, "config", None), "use_cache", False))


def _trace(job: Job, path: Path, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    large = sum(p.numel() * p.element_size() for p in job.module.parameters()) > _ONE_FILE
    with evaluating(job.module), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own deprecations, and operators it does without
        torch.onnx.export(
            job.module,
            args,
            str(path),
            kwargs=kwargs,
            dynamic_shapes=job.options.get("dynamic_shapes"),
            dynamo=True,
            external_data=large,
            verbose=False,
        )


def _initializers(model: Any) -> dict[str, NDArray[Any]]:
    from onnx import numpy_helper

    found = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in model.graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.HasField("t"):
                found[node.output[0]] = numpy_helper.to_array(attribute.t)
    return found


def _lookup(
    job: Job, tensors: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Found], dict[str, str]]:
    support = {name: value != 0 for name, value in tensors.items() if value.ndim > 1}
    found, left = {}, {}
    for layer, weight in job.weights():
        own = (weight != 0).cpu().numpy()
        here = _place(own, layer.axis, support)
        if here is None:
            left[layer.name] = "it is not in the file as a tensor of its own or transposed"
        else:
            found[layer.name] = here
    return found, left


def _place(
    own: NDArray[np.bool_], axis: int, support: Mapping[str, NDArray[np.bool_]]
) -> Found | None:
    for name, other in support.items():
        if other.shape == own.shape and np.array_equal(other, own):
            return Found(name, axis)
        if own.ndim == 2 and other.shape == own.shape[::-1] and np.array_equal(other, own.T):
            return Found(name, 1 - axis)
    return None
