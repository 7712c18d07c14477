"""Capture a model as flat ATen graphs whose placeholders are parameters, buffers and inputs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from pruning.errors import TraceError
from pruning.simplify import simplify

if TYPE_CHECKING:
    from torch.export import ExportedProgram

MOST_PATHS = 32


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


class _Decided(TorchFunctionMode):
    """Answers a forward's questions about data (``if x.sum() > 0``) from a script.

    Questions past the script are answered with no and noted, so that the other answer can be
    tried in another run.
    """

    def __init__(self, script: tuple[bool, ...]) -> None:
        super().__init__()
        self.answers = list(script)
        self.asked = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__bool__ and _unknown_value(args[0]):
            self.asked += 1
            if self.asked > len(self.answers):
                self.answers.append(False)
            return self.answers[self.asked - 1]
        return func(*args, **(kwargs or {}))


def _unknown_value(tensor: torch.Tensor) -> bool:
    inner = getattr(tensor, "elem", tensor)
    return isinstance(inner, FakeTensor) and getattr(inner, "constant", None) is None


def captures(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[ExportedProgram]:
    """Yield the functional graph of each path a run may take, composite operators kept whole.

    A forward that branches on data is captured once for each combination of answers.

    Raises
    ------
    TraceError
        Where the forward cannot be captured: its shapes depend on data, or it has many branches.
    """
    todo: list[tuple[bool, ...]] = [()]
    paths = live = 0
    refused: Exception | None = None
    while todo:
        script = todo.pop()
        paths += 1
        if paths > MOST_PATHS:
            raise TraceError(
                f"{type(model).__name__}.forward branches on data along more than {MOST_PATHS} "
                "paths; no weight was changed. Use torch.cond, or give the part without branches."
            )
        decided = _Decided(script)
        try:
            yield _capture(model, args, kwargs, decided)
            live += 1
        except (AssertionError, ValueError) as error:  # the forward's own refusal of such data
            refused = refused or error
        answers = decided.answers
        todo.extend((*answers[:at], True) for at in range(len(script), len(answers)))
    if not live:
        raise TraceError(_told(model, refused or ValueError("no path"))) from refused


def _capture(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], decided: _Decided
) -> ExportedProgram:
    with evaluating(model), plain_attention(), torch.enable_grad(), _quiet():
        try:
            with decided:
                program = torch.export.export(model, args, dict(kwargs), strict=False)
            return simplify(program.run_decompositions({}))
        except Exception as error:
            if decided.answers and isinstance(error, AssertionError | ValueError):
                raise  # the answer may be one that the forward refuses
            raise TraceError(_told(model, error)) from error


def _told(model: nn.Module, error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    return (
        f"{type(model).__name__}.forward cannot be captured: {kind}: "
        f"{' '.join(lines[:3])} No weight was changed. A forward that branches on data has to use "
        "torch.cond, one that loops as often as data say has no trace: give the parts without."
    )
