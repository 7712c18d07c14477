"""Collect what calibration needs: one pass over the data, hooks that are gone afterwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from permsearch.errors import unknown
from pruning.blocks import joined
from pruning.capture import evaluating, plain_attention, unwrapped
from pruning.errors import CalibrationError
from pruning.padding import Counted, Rows, attended, counted
from pruning.probes import Probe, probes, read
from pruning.ranks import summed_over_ranks
from pruning.statistics import Inputs, LastInput, Sums, Total

#: A module to look at, and how.
Seen: TypeAlias = tuple[nn.Module, Probe]


def calibrate(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    names: Iterable[str] | None = None,
    gram: bool | Collection[str] = False,
    rows: Rows | None = attended,
) -> dict[str, Inputs]:
    """Return the statistics of the inputs of a model's layers.

    The model runs once over each batch, in evaluation mode and without gradients; sums are kept in
    float64 on the device of the inputs, the batches themselves are not kept. Under
    `torch.distributed` every rank passes its own batches and gets the sums over all ranks.

    Parameters
    ----------
    batches
        What the model is called with: a tensor, a tuple of arguments, or a mapping of keywords.
    names
        The weights that are needed, by their names in the state dict; None: all that hooks can
        see and that the data reach.
    gram
        Whether the sums of x x^T are kept as well: features^2 * 8 bytes for each weight. Or the
        names of those weights for which they are.
    rows
        Which rows of a batch count: from a batch to a mask (batch, length), true = counts. Layers
        whose inputs have that many rows leave the others out. Without it padding does not count
        where a batch is a mapping with an `attention_mask` of two dimensions, as tokenizers make
        it; None: all rows do.

    Raises
    ------
    CalibrationError
        No batches, NaN, or a weight asked for that no batch reached.
    UnknownName
        A name is no weight whose input can be seen.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(4, 2)
    >>> calibrate(layer, [torch.ones(3, 4)])["weight"].squares
    tensor([[3., 3., 3., 3.]], dtype=torch.float64)
    """
    bare = unwrapped(model)
    seen = seen_weights(bare)
    wanted = checked_names(seen, names)
    runs = (counted(partial(run_batch, bare, batch), batch, rows) for batch in batches)
    found = collected(bare, seen, wanted, runs, gram=gram, strict=names is not None)
    if not found and wanted:
        raise CalibrationError("calibration reached no layer: every batch is without rows.")
    return found


def collected(
    model: nn.Module,
    seen: Mapping[str, Seen],
    names: Iterable[str],
    runs: Iterable[Counted],
    *,
    gram: bool | Collection[str],
    strict: bool,
) -> dict[str, Inputs]:
    """Return the statistics of some weights over runs of a model, or of a part of it.

    Parameters
    ----------
    strict
        Whether a weight that no run reached is an error; otherwise it is left out.

    Raises
    ------
    CalibrationError
        There are no runs, a value is not finite, or a weight was not reached.
    """
    sums: dict[str, Sums] = {}
    start = {False: Total(), True: Total()}  # all weights have seen the same so far: nothing
    for name in names:
        _, probe = seen[name]
        squared = gram if isinstance(gram, bool) else name in gram
        squared = squared and probe.correlated
        sums[name] = Sums(name, probe.axis, gram=squared, total=start[squared])
    watch, count = Watch(sums), 0
    with watch.over(seen), evaluating(model), plain_attention(), torch.no_grad():
        for run in runs:
            watch.begin(run)
            run()
            count += 1
    if not count:
        raise CalibrationError("calibration is empty: there are no batches; give at least one.")
    summed_over_ranks(list(sums.values()))
    return {name: each.finish() for name, each in sums.items() if strict or each.total.rows}


def checked_names(seen: Mapping[str, Seen], names: Iterable[str] | None) -> list[str]:
    """Return the weights that are asked for, all of them for None.

    Raises
    ------
    UnknownName
        A name is no weight whose input can be seen.
    """
    wanted = list(seen) if names is None else list(names)
    for name in wanted:
        if name not in seen:
            raise unknown("weight with inputs that can be seen", name, seen)
    return wanted


def visible(model: nn.Module) -> dict[str, bool]:
    """Return the weights whose inputs `calibrate` can see, and whether with a Gram matrix."""
    return {name: probe.correlated for name, (_, probe) in _seen(unwrapped(model))}


def seen_weights(model: nn.Module) -> dict[str, Seen]:
    """Return the weights whose inputs can be seen, with the modules to look at and how."""
    return dict(_seen(model))


def as_call(batch: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return arguments and keywords for a batch."""
    if isinstance(batch, Mapping):
        return (), batch
    return (tuple(batch), {}) if isinstance(batch, tuple | list) else ((batch,), {})


def run_batch(model: nn.Module, batch: Any) -> None:
    """Run a model on a batch."""
    args, kwargs = as_call(batch)
    model(*args, **kwargs)


def _seen(model: nn.Module) -> Iterator[tuple[str, Seen]]:
    """Yield the weights whose inputs can be seen; projections out of attentions last."""
    inner = {id(m.out_proj) for m in model.modules() if isinstance(m, nn.MultiheadAttention)}
    for name, module in model.named_modules():
        for probe in probes(module) if id(module) not in inner else ():
            yield joined(name, probe.leaf), (module, probe)
        if isinstance(module, nn.MultiheadAttention):
            yield joined(name, "out_proj.weight"), (module.out_proj, _BEHIND)


_BEHIND = Probe("weight", lambda _module, args, _kwargs: args[0].reshape(1, -1, args[0].shape[-1]))


class Watch:
    """Sums what layers see in a run.

    Parameters
    ----------
    sums
        Anything with `add`, by the names of weights.
    each
        Whether every weight's inputs are added for themselves, as they must be if these are no
        `Sums`.
    """

    def __init__(self, sums: Mapping[str, Any], *, each: bool = False) -> None:
        self.sums = sums
        self.each = each
        self.run = Counted(lambda: None)
        self.last = LastInput()

    def begin(self, run: Counted) -> None:
        """Know whose rows come next."""
        self.run, self.last = run, LastInput()

    @contextmanager
    def over(self, seen: Mapping[str, Seen]) -> Iterator[None]:
        """Have the layers' inputs summed for as long as the block runs."""
        with ExitStack() as stack:
            behind: dict[int, Any] = {}
            for name, total in self.sums.items():
                module, probe = seen[name]
                if probe is _BEHIND:
                    weight = module.get_parameter("weight")
                    behind[weight.data_ptr()] = total
                    continue
                hook = partial(self._add, probe, total)
                handle = module.register_forward_pre_hook(hook, with_kwargs=True)
                stack.callback(handle.remove)
            if behind:
                stack.enter_context(_Products(behind, self))
            yield

    def _add(self, probe: Probe, total: Any, module: nn.Module, args: Any, kwargs: Any) -> None:
        value = read(args, kwargs)

        def rows() -> torch.Tensor:
            values = probe.look(module, args, kwargs)
            return _only(values, self.run.kept(module, value.shape[:-1], values.shape[1]))

        if probe.plain and not self.each:
            self.last.add(total, value, rows)
        else:
            total.add(rows())

    def add_inner(self, total: Any, values: torch.Tensor) -> None:
        """Add rows from inside an attention."""
        kept = self.run.kept(nn.Identity(), values.shape[1:2], values.shape[1], inner=True)
        total.add(_only(values, kept))


def _only(values: torch.Tensor, kept: torch.Tensor | None) -> torch.Tensor:
    return values if kept is None else values[:, kept.to(values.device)]


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch gives it no types
    """Sees the products that lead out of attentions, which call no module for them.

    They are known by the memory of their weights.
    """

    def __init__(self, wanted: Mapping[int, Any], watch: Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as above
        self.wanted, self.watch = wanted, watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            value, weight = args[-2:]
            total = self.wanted.get(weight.data_ptr())
            if total is not None and value.shape[1] == weight.shape[0]:
                self.watch.add_inner(total, value[None])
        return func(*args, **(kwargs or {}))
