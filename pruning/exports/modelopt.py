"""nvidia-modelopt's sparse layers: masks as buffers that its `restore` brings back.

Its own search is not run: its layers are converted, and given the masks that were found here.
"""

from __future__ import annotations

from typing import Any

from permsearch.io.atomic import written_aside
from pruning.exports.extras import needed
from pruning.exports.job import Exported, Job
from pruning.exports.layers import MaskedLayer


def write(job: Job) -> Exported:
    """Return the copy under modelopt's masks; a file is what `modelopt.torch.opt.restore` reads."""
    needed("modelopt.torch.sparsity", "modelopt")
    conversion = needed("modelopt.torch.opt.conversion", "modelopt")
    mode = needed("modelopt.torch.sparsity.weight_sparsity.mode", "modelopt")
    left = {layer.name: _obstacle(job, layer) for layer in job.layers}
    left = {name: why for name, why in left.items() if why}
    chosen = [layer for layer in job.layers if layer.name not in left]
    job.check_left([layer.name for layer in chosen], left)
    rules: dict[str, Any] = {layer.module: {} for layer in chosen}
    config: dict[str, Any] = {kind: {"*": None, **rules} for kind in ("nn.Linear", "nn.Conv2d")}
    model = conversion.apply_mode(
        job.module, [("sparse_magnitude", config)], registry=mode.SparsityModeRegistry
    )
    for layer in chosen:
        model.get_submodule(layer.module).set_mask(layer.mask)
    if job.path is not None:
        with written_aside(job.path) as file:
            needed("modelopt.torch.opt", "modelopt").save(model, file)
    return job.done({layer.name: layer for layer in chosen}, result=model, left=left)


def _obstacle(job: Job, layer: MaskedLayer) -> str:
    registry = needed("modelopt.torch.sparsity.weight_sparsity.module", "modelopt").SpDMRegistry
    if not layer.module:
        return "the model is the layer itself; modelopt names layers inside a model"
    module = job.module.get_submodule(layer.module)
    if layer.name != f"{layer.module}.weight" or type(module) not in registry:
        return f"modelopt masks the weights of Linear and Conv2d, not of {type(module).__name__}"
    return "its mask drops nothing" if bool(layer.mask.all()) else ""
