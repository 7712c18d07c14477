"""The parametrization itself, and what it takes for a module that has one to be copied."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize


class Masked(nn.Module):
    """Returns a weight with exact zeros where its mask is false.

    Parameters
    ----------
    mask
        Boolean, true = kept.
    """

    mask: torch.Tensor

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the masked weight; gradients of dropped entries are zero, even of infinities."""
        return torch.where(self.mask, weight, weight.new_zeros(()))

    def right_inverse(self, weight: torch.Tensor) -> torch.Tensor:
        """Return what is stored when the weight is assigned."""
        return weight

    def extra_repr(self) -> str:
        """Return what is kept."""
        return f"{int(self.mask.sum())} of {self.mask.numel()} kept"


def put_on(module: nn.Module, leaf: str, mask: nn.Module) -> None:
    """Have a module compute a weight by a parametrization, on the parameter that there is.

    torch writes a parameter onto itself when it is parametrized, which makes autograd forget
    where its gradients arrive: a DistributedDataParallel that was made before would wait there for
    ever, and leave the gradients of all parameters as each rank has them. So a view is handed to
    torch, and the parameter itself takes its place afterwards.
    """
    weight = module._parameters.get(leaf)  # noqa: SLF001 -- assigning would start caches
    if weight is None:
        parametrize.register_parametrization(module, leaf, mask)
        return
    module._parameters[leaf] = nn.Parameter(weight.detach(), weight.requires_grad)  # noqa: SLF001
    try:
        parametrize.register_parametrization(module, leaf, mask)
    except BaseException:
        module._parameters[leaf] = weight  # noqa: SLF001
        raise
    chain = chain_of(module, leaf)
    chain.original = weight


@torch.no_grad()
def take_off(module: nn.Module, leaf: str) -> None:
    """Leave what a weight's parametrizations compute in the parameter itself, see `put_on`."""
    chain = chain_of(module, leaf)
    plain = isinstance(getattr(chain, "original", None), nn.Parameter)
    value: torch.Tensor = getattr(module, leaf).detach()
    parametrize.remove_parametrizations(module, leaf, leave_parametrized=not plain)
    if plain:
        module.get_parameter(leaf).copy_(value)


def chain_of(module: nn.Module, leaf: str) -> Any:
    """Return the parametrizations of one weight of a module, as torch keeps them."""
    parametrized: Any = module.parametrizations
    return parametrized[leaf]


def masks_in(module: nn.Module, leaf: str) -> Masked:
    """Return the mask on one weight of a module."""
    chain = chain_of(module, leaf)
    found: Masked = next(each for each in chain if isinstance(each, Masked))
    return found


def stored_tensor(module: nn.Module, leaf: str) -> torch.Tensor | None:
    """Return the tensor that is masked, or None where the weight is computed from others."""
    chain = chain_of(module, leaf)
    return chain.original if len(chain) == 1 and hasattr(chain, "original") else None


def carry(module: nn.Module) -> None:
    """Let a masked module be pickled and copied.

    torch gives a parametrized module a class of its own, which it refuses to pickle, and which
    copies share: a mask taken off one of them would be gone from all. And a recurrent module
    keeps a list of its weights, which under a parametrization holds results of computations,
    which cannot be copied.
    """
    own = type(module)
    own.__reduce_ex__ = _reduce  # type: ignore[assignment]
    if not hasattr(own.__bases__[0], "__deepcopy__"):
        own.__deepcopy__ = _copied  # type: ignore[attr-defined]


def _reduce(module: nn.Module, protocol: Any) -> Any:
    if any(not isinstance(e, Masked) or len(c) > 1 for c in _chains(module) for e in c):
        return object.__reduce_ex__(module, protocol)  # torch's own refusal
    state = dict(module.__dict__)
    state["_parameters"] = dict(state["_parameters"])
    state["_modules"] = {k: v for k, v in state["_modules"].items() if k != "parametrizations"}
    for key in _CACHES:
        state.pop(key, None)
    chains: Any = module.parametrizations
    masked = {leaf: (chain.original, chain[0]) for leaf, chain in chains.items()}
    return _rebuilt, (type(module).__bases__[0], state, masked)


def _chains(module: nn.Module) -> list[Any]:
    chains: Any = module.parametrizations
    return list(chains.values())


def masks_in_state(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the masks that the state dict of a masked model holds, by the weights' names.

    Attach them to a fresh model, and the state dict loads strictly.
    """
    found = {}
    for key, tensor in state.items():
        match = _KEY.fullmatch(key)
        if match is not None:
            found[f"{match['prefix']}{match['leaf']}"] = tensor
    return found


_KEY = re.compile(r"(?P<prefix>(?:.*\.)?)parametrizations\.(?P<leaf>[^.]+)\.[0-9]+\.mask")

#: What a recurrent module derives from its weights.
_CACHES = ("_flat_weights", "_flat_weight_refs")


def _rebuilt(kind: type[nn.Module], state: dict[str, Any], masked: dict[str, Any]) -> nn.Module:
    module = kind.__new__(kind)
    module.__dict__.update(state)
    for leaf, (original, _) in masked.items():
        module._parameters[leaf] = original  # noqa: SLF001 -- assigning would start its caches
    if isinstance(module, nn.RNNBase):
        module._init_flat_weights()  # noqa: SLF001
    for leaf, (_, mask) in masked.items():
        parametrize.register_parametrization(module, leaf, mask)
    carry(module)
    return module


def _copied(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    kind = type(module)
    content = {k: v for k, v in vars(kind).items() if k not in ("__dict__", "__weakref__")}
    replica: nn.Module = module.__new__(type(kind.__name__, kind.__bases__, content))
    memo[id(module)] = replica
    state = {key: value for key, value in module.__dict__.items() if key not in _CACHES}
    replica.__dict__.update(copy.deepcopy(state, memo))
    if isinstance(replica, nn.RNNBase):
        replica._init_flat_weights()  # noqa: SLF001
    return replica
