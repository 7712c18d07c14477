"""Capture a model as flat ATen graphs whose placeholders are parameters, buffers and inputs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pruning.errors import TraceError


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside DataParallel, DistributedDataParallel or `torch.compile`."""
    wrappers = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while True:
        if isinstance(model, wrappers):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):
            model = model._orig_mod  # type: ignore[assignment]  # noqa: SLF001
        else:
            return model


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode and give every module its own mode back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def plain_attention() -> Iterator[None]:
    """Keep `nn.MultiheadAttention` off its fused path, which no graph shows the inside of."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(value=False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(value=before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from telling its own deprecations, and a failure twice."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def capture(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ExportedProgram:
    """Return the functional graph of one run, composite operators kept whole.

    Raises
    ------
    TraceError
        Where the forward cannot be captured: it branches on data, for example.
    """
    with evaluating(model), plain_attention(), torch.enable_grad(), _quiet():
        try:
            program = torch.export.export(model, args, dict(kwargs), strict=False)
            return program.run_decompositions({})
        except Exception as error:  # noqa: BLE001 -- whatever export raises, the user gets one kind
            raise TraceError(_told(model, error)) from error


def _told(model: nn.Module, error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    return (
        f"{type(model).__name__}.forward cannot be captured: {kind}: "
        f"{' '.join(lines[:3])} No weight was changed. A forward that branches on data has to use "
        "torch.cond, or be given as a part without the branch."
    )
