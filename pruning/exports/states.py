"""Masks handed to torch's own pruning tools, which keep them while a model is trained further."""

from __future__ import annotations

import torch
from torch.nn.utils import prune

from permsearch.io.atomic import written_aside
from pruning.exports.files import write_tensors
from pruning.exports.job import Exported, Job
from pruning.exports.prune_state import hook_obstacle, place
from pruning.exports.sparsifier import fill_sparsifier_


def write_prune(job: Job) -> Exported:
    """Return the copy under `torch.nn.utils.prune`; a file holds its state dict."""
    model, names, left = job.module, [], {}
    for layer in job.layers:
        why = hook_obstacle(model, layer.name)
        if why:
            left[layer.name] = why
        else:
            names.append(layer.name)
    job.check_left(names, left)
    for layer in job.layers:
        if layer.name in names:
            module, leaf = place(model, layer.name)
            prune.custom_from_mask(module, leaf, layer.mask)  # type: ignore[no-untyped-call]
    if job.path is not None:
        write_tensors(job.path, model.state_dict())
    return job.done(dict.fromkeys(names), result=model, left=left)


def write_sparsifier(job: Job) -> Exported:
    """Return a prepared sparsifier with the masks in it; a file holds its state, by torch.save."""
    from torch.ao.pruning import WeightNormSparsifier  # type: ignore[attr-defined]

    sparsifier = WeightNormSparsifier(sparsity_level=1.0)
    names = [layer.name for layer in job.layers]
    config = [{"tensor_fqn": name} for name in names]
    sparsifier.prepare(job.module, config)  # type: ignore[no-untyped-call]
    fill_sparsifier_(sparsifier, {layer.name: layer.mask for layer in job.layers})
    if job.path is not None:
        with written_aside(job.path) as file:
            torch.save(sparsifier.state_dict(), file)
    return job.done(result=sparsifier)
