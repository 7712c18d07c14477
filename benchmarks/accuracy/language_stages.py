"""SmolLM2 run layer by layer, so that what each weight reads can be seen, and changed, on the way.

A layer has four stages, each of which ends before some of its weights: the queries, keys and
values; the output of the attention; the gate and what it gates; the way back. All batches reach a
stage before any passes it, so its weights may be changed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

#: The weights of a layer by the stage that reads the same input.
STAGES = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
#: Windows of a batch, and batches (or weights) that are worked on at a time.
BATCH, WORKERS = 4, 2

#: What a stage reads, (tokens, features), and what its outputs are added to, if anything.
Seen = tuple[torch.Tensor, torch.Tensor | None]
Visit = Callable[[str, Sequence[Iterator[Seen]]], None]


def autocast(*, precise: bool = False) -> torch.autocast:
    """Return the context that all networks run in: products in bfloat16, sums in float32."""
    return torch.autocast("cpu", torch.bfloat16, enabled=not precise)


def owner(weight: str) -> str:
    """Return the first of the weights that read what a weight reads, both without ``.weight``."""
    head, _, rest = weight.partition(".self_attn.") if ".self_attn." in weight else ("", "", "")
    if not rest:
        head, _, rest = weight.partition(".mlp.")
    kind = next(stage for stage in STAGES if any(name.endswith(f".{rest}") for name in stage))
    return f"{head}.{kind[0]}"


@torch.no_grad()
def walk(models: Sequence[Any], windows: torch.Tensor, visit: Visit) -> None:
    """Run models side by side over windows, and stop at every stage of every layer.

    Parameters
    ----------
    models
        Of one architecture; a dense one and one that is being pruned, say.
    visit
        Called with the name of the stage's first weight and, for each model, what it sees batch
        by batch, float32. It must take it all; it may change the stage's weights afterwards.
    """
    batches = torch.split(windows, BATCH)
    with autocast():
        states = [[model.model.embed_tokens(batch) for batch in batches] for model in models]
        for at in range(len(models[0].model.layers)):
            runs = [
                [_stages(model.model.layers[at], state, _turns(model, state)) for state in some]
                for model, some in zip(models, states, strict=True)
            ]
            for stage in STAGES:
                visit(f"model.layers.{at}.{stage[0]}", [_seen(some) for some in runs])
            states = [[next(run)[0] for run in some] for some in runs]


def _seen(runs: Sequence[Iterator[Seen]]) -> Iterator[Seen]:
    for run in runs:
        value, added = next(run)
        yield value.flatten(0, 1).float(), None if added is None else added.flatten(0, 1).float()


def _turns(model: Any, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    places = torch.arange(hidden.shape[1])[None]
    found: tuple[torch.Tensor, torch.Tensor] = model.model.rotary_emb(hidden, places)
    return found


def _stages(
    layer: Any, hidden: torch.Tensor, turns: tuple[torch.Tensor, torch.Tensor]
) -> Iterator[Seen]:
    """Yield what each stage of a layer sees, and at last what the layer returns."""
    normed = layer.input_layernorm(hidden)
    yield normed, None
    mixed = _attention(layer.self_attn, normed, turns)
    yield mixed, hidden
    hidden = hidden + layer.self_attn.o_proj(mixed)
    normed = layer.post_attention_layernorm(hidden)
    yield normed, None
    gated = layer.mlp.act_fn(layer.mlp.gate_proj(normed)) * layer.mlp.up_proj(normed)
    yield gated, hidden
    yield hidden + layer.mlp.down_proj(gated), None


def _attention(
    attention: Any, value: torch.Tensor, turns: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    shape = (*value.shape[:-1], -1, attention.head_dim)
    q, k, v = (
        projection(value).view(shape).transpose(1, 2)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    q, k = apply_rotary_pos_emb(q, k, *turns)
    k, v = (part.repeat_interleave(attention.num_key_value_groups, 1) for part in (k, v))
    mixed = F.scaled_dot_product_attention(q.to(v), k.to(v), v, is_causal=True)
    return mixed.transpose(1, 2).flatten(2)


def side_by_side(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Return what work makes of each item, several at a time; each of them on one thread.

    Products are small enough that threads that wait for each other cost more than they give.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, items))


def losses(model: nn.Module, windows: torch.Tensor, *, precise: bool = False) -> list[float]:
    """Return the mean loss of each window's tokens but the first, in nats."""
    found = side_by_side(partial(_losses, model, precise), torch.split(windows, BATCH))
    return [loss for batch in found for loss in batch]


@torch.no_grad()
def _losses(model: Any, precise: bool, batch: torch.Tensor) -> list[float]:
    with autocast(precise=precise):
        hidden = model.model(batch).last_hidden_state[:, :-1]
        logits = model.lm_head(hidden)
    each = F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten(), reduction="none")
    found: list[float] = each.view(len(batch), -1).double().mean(1).tolist()
    return found
