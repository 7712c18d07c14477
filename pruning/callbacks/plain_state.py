"""State dicts of masked models under the names that the weights have without masks.

Trainers save and load models in many places. With these hooks all of them see ordinary names, with
zeros where masks drop, so that a checkpoint loads into a model that has never heard of masks.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from pruning.masked import Masked, chain_of, masks_in_state
from pruning.masks import masks_of

if TYPE_CHECKING:
    import torch
    from torch import nn

_STORED = re.compile(r"(?P<layer>(?:.*\.)?)parametrizations\.(?P<leaf>[^.]+)\.(?P<rest>.*)")


def save_plainly(model: nn.Module) -> list[torch.utils.hooks.RemovableHandle]:
    """Have a model's state dict written and read without its masks, until the handles are removed.

    State dicts with masks are read as well. Weights that another parametrization computes keep
    their names. A copy of the model does the same.
    """
    return [  # torch gives both no types
        model.register_state_dict_post_hook(_saved),  # type: ignore[no-untyped-call]
        model.register_load_state_dict_pre_hook(_loaded),  # type: ignore[no-untyped-call]
    ]


def _saved(_model: nn.Module, state: MutableMapping[str, Any], prefix: str, _: Any) -> None:
    """Rename in place, in the order there is."""
    masked = set(masks_in_state(state))
    content = list(state.items())
    for key, _tensor in content:
        del state[key]
    for key, tensor in content:
        name, rest = _read(key)
        ours = name in masked and key.startswith(prefix)
        if not (ours and re.fullmatch(r"\d+\.mask", rest)):
            state[name if ours and rest == "original" else key] = tensor


def _loaded(model: nn.Module, state: MutableMapping[str, Any], prefix: str, *_others: Any) -> None:
    """Give weights the names that they have under masks, and leave the masks as they are."""
    for name, mask in masks_of(model).items():
        layer, _, leaf = name.rpartition(".")
        chain = chain_of(model.get_submodule(layer), leaf)
        at = next(index for index, each in enumerate(chain) if isinstance(each, Masked))
        inner = f"{prefix}{layer}{'.' if layer else ''}parametrizations.{leaf}."
        if prefix + name in state:
            state[f"{inner}original"] = state.pop(prefix + name)
        state.setdefault(f"{inner}{at}.mask", mask)


def _read(key: str) -> tuple[str, str]:
    match = _STORED.fullmatch(key)
    return (f"{match['layer']}{match['leaf']}", match["rest"]) if match else (key, "")
