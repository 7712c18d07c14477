"""Specs of decoders: LLaMA and its relatives, Mixtral, GPT-2."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from pruning.specs.base import ACTIVATIONS, Config, Weights, attention, heads_of, merged

Block = Callable[[Weights, Config, torch.Tensor], torch.Tensor]


def llama(weights: Weights, config: Config, ids: torch.Tensor) -> torch.Tensor:
    """LLaMA, Mistral, Qwen2 and Qwen3: RMS norms, rotary grouped queries, a gated layer."""
    return _decoder(weights, config, ids, _gated)


def mixtral(weights: Weights, config: Config, ids: torch.Tensor) -> torch.Tensor:
    """Mixtral: LLaMA with experts in the place of the gated layer."""
    return _decoder(weights, config, ids, _experts)


def _decoder(weights: Weights, config: Config, ids: torch.Tensor, block: Block) -> torch.Tensor:
    own, eps = weights.below("model."), float(config.get("rms_norm_eps", 1e-6))
    value = F.embedding(ids, own["embed_tokens.weight"])
    for layer in range(config["num_hidden_layers"]):
        here = own.below(f"layers.{layer}.")
        value = value + _attended(here, config, here.rms_norm("input_layernorm", value, eps))
        value = value + block(here, config, here.rms_norm("post_attention_layernorm", value, eps))
    value = own.rms_norm("norm", value, eps)
    return _head(weights, value, own["embed_tokens.weight"])


def _head(weights: Weights, value: torch.Tensor, tied: torch.Tensor) -> torch.Tensor:
    """Return scores of words, or of classes; a checkpoint without a head ties the embedding."""
    for name in ("lm_head", "score"):
        if weights.has(name):
            return weights.linear(name, value)
    return F.linear(value, tied)


def _attended(weights: Weights, config: Config, value: torch.Tensor) -> torch.Tensor:
    here, eps = weights.below("self_attn."), float(config.get("rms_norm_eps", 1e-6))
    heads = config["num_attention_heads"]
    shared = config.get("num_key_value_heads") or heads
    query = heads_of(here.linear("q_proj", value), heads)
    key = heads_of(here.linear("k_proj", value), shared)
    if "q_norm.weight" in here:
        query, key = here.rms_norm("q_norm", query, eps), here.rms_norm("k_norm", key, eps)
    query, key = rotated(query, config), rotated(key, config)
    values = heads_of(here.linear("v_proj", value), shared)
    found = F.scaled_dot_product_attention(
        query, key, values, is_causal=True, enable_gqa=heads != shared
    )
    return here.linear("o_proj", merged(found))


def rotated(value: torch.Tensor, config: Config) -> torch.Tensor:
    """Turn the two halves of each head by an angle that grows with the position."""
    length, half = value.shape[-2], value.shape[-1] // 2
    base = float(config.get("rope_theta") or 10000.0)
    steps = torch.arange(half, device=value.device, dtype=torch.float32) / half
    places = torch.arange(length, device=value.device, dtype=torch.float32)
    angles = torch.outer(places, base**-steps).repeat(1, 2)
    cos, sin = angles.cos().to(value.dtype), angles.sin().to(value.dtype)
    turned = torch.cat([-value[..., half:], value[..., :half]], -1)
    return value * cos + turned * sin


def _gated(weights: Weights, config: Config, value: torch.Tensor) -> torch.Tensor:
    here = weights.below("mlp.")
    act = ACTIVATIONS[config.get("hidden_act", "silu")]
    return here.linear(
        "down_proj", act(here.linear("gate_proj", value)) * here.linear("up_proj", value)
    )


def _experts(weights: Weights, config: Config, value: torch.Tensor) -> torch.Tensor:
    """Weigh the best experts by their gates: each expert's weights apart, or stacked in one."""
    here = weights.below("block_sparse_moe." if weights.has("block_sparse_moe.gate") else "mlp.")
    act = ACTIVATIONS[config.get("hidden_act", "silu")]
    gates = here.linear("gate", value).softmax(-1)
    best, chosen = gates.topk(int(config.get("num_experts_per_tok", 2)), -1)
    gates = torch.zeros_like(gates).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
    if "experts.gate_up_proj" in here:
        return _stacked(here.below("experts."), act, value, gates)
    found = torch.zeros_like(value)
    for expert in range(config["num_local_experts"]):
        one = here.below(f"experts.{expert}.")
        hidden = act(one.linear("w1", value)) * one.linear("w3", value)
        found = found + gates[..., expert : expert + 1] * one.linear("w2", hidden)
    return found


def _stacked(
    here: Weights,
    act: Callable[[torch.Tensor], torch.Tensor],
    value: torch.Tensor,
    gates: torch.Tensor,
) -> torch.Tensor:
    """Run experts whose weights are (experts, out, in), gates and inputs end to end."""
    gate, up = torch.einsum("bti,eoi->bteo", value, here["gate_up_proj"]).chunk(2, -1)
    found = torch.einsum("bteh,eoh->bteo", act(gate) * up, here["down_proj"])
    return (found * gates[..., None]).sum(-2)


def gpt2(weights: Weights, config: Config, ids: torch.Tensor) -> torch.Tensor:
    """GPT-2: fused queries, keys and values, weights stored (in, out)."""
    own = weights.below("transformer.") if "transformer.wte.weight" in weights else weights
    eps, heads = float(config.get("layer_norm_epsilon", 1e-5)), config["n_head"]
    act = ACTIVATIONS[config.get("activation_function", "gelu_new")]
    places = torch.arange(ids.shape[1], device=ids.device)
    value = F.embedding(ids, own["wte.weight"]) + F.embedding(places, own["wpe.weight"])
    for layer in range(config["n_layer"]):
        here = own.below(f"h.{layer}.")
        fused = here.conv1d("attn.c_attn", here.layer_norm("ln_1", value, eps))
        query, key, values = fused.chunk(3, -1)
        found = attention(query, key, values, (heads, heads), is_causal=True)
        value = value + here.conv1d("attn.c_proj", found)
        hidden = act(here.conv1d("mlp.c_fc", here.layer_norm("ln_2", value, eps)))
        value = value + here.conv1d("mlp.c_proj", hidden)
    value = own.layer_norm("ln_f", value, eps)
    if own is weights:
        return value
    return _head(weights, value, own["wte.weight"])
