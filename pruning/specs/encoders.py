"""Specs of encoders: BERT, ViT, and T5 with its decoder."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from pruning.specs.base import ACTIVATIONS, Config, Weights, attention


def bert(weights: Weights, config: Config, ids: torch.Tensor) -> Any:
    """BERT: norms after the branches; pooler and classifier where the checkpoint has them."""
    own = weights.below("bert.") if any_bert(weights) else weights
    eps = float(config.get("layer_norm_eps", 1e-12))
    here = own.below("embeddings.")
    places = torch.arange(ids.shape[1], device=ids.device)
    value = F.embedding(ids, here["word_embeddings.weight"])
    value = value + F.embedding(places, here["position_embeddings.weight"])
    value = value + F.embedding(torch.zeros_like(ids), here["token_type_embeddings.weight"])
    value = here.layer_norm("LayerNorm", value, eps)
    for layer in range(config["num_hidden_layers"]):
        value = _post_norm_layer(own.below(f"encoder.layer.{layer}."), config, value, eps)
    return _bert_outputs(weights, own, value)


def any_bert(weights: Weights) -> bool:
    """Whether names begin with the model's own."""
    return "bert.embeddings.word_embeddings.weight" in weights


def _post_norm_layer(
    here: Weights, config: Config, value: torch.Tensor, eps: float
) -> torch.Tensor:
    heads = config["num_attention_heads"]
    act = ACTIVATIONS[config.get("hidden_act", "gelu")]
    own = here.below("attention.")
    parts = [own.linear(f"self.{part}", value) for part in ("query", "key", "value")]
    found = own.linear("output.dense", attention(parts[0], parts[1], parts[2], (heads, heads)))
    value = own.layer_norm("output.LayerNorm", value + found, eps)
    found = here.linear("output.dense", act(here.linear("intermediate.dense", value)))
    return here.layer_norm("output.LayerNorm", value + found, eps)


def _bert_outputs(weights: Weights, own: Weights, value: torch.Tensor) -> Any:
    """Return what the heads of the checkpoint make of the last states."""
    eps, found = 1e-12, []
    pooled = own.linear("pooler.dense", value[:, 0]).tanh() if own.has("pooler.dense") else None
    for name in ("classifier", "qa_outputs", "cls.seq_relationship"):
        if weights.has(name):
            found.append(weights.linear(name, value if pooled is None else pooled))
    if weights.has("cls.predictions.transform.dense"):
        head = weights.below("cls.predictions.")
        value = F.gelu(head.linear("transform.dense", value))
        value = head.layer_norm("transform.LayerNorm", value, eps)
        table = own["embeddings.word_embeddings.weight"]
        tied = head.get("decoder.weight")
        bias = head.get("bias") if "bias" in head else head.get("decoder.bias")
        found.append(F.linear(value, table if tied is None else tied, bias))
    if found:
        return tuple(found)
    return value if pooled is None else (value, pooled)


def vit(weights: Weights, config: Config, pixels: torch.Tensor) -> Any:
    """ViT: patches and a class token, norms before the branches."""
    own = weights.below("vit.") if "vit.embeddings.cls_token" in weights else weights
    eps, heads = float(config.get("layer_norm_eps", 1e-12)), config["num_attention_heads"]
    act = ACTIVATIONS[config.get("hidden_act", "gelu")]
    here = own.below("embeddings.")
    patch = here.below("patch_embeddings.projection.")
    kernel = patch["weight"]
    value = F.conv2d(pixels, kernel, patch.get("bias"), stride=list(kernel.shape[2:]))
    value = value.flatten(2).transpose(1, 2)
    value = torch.cat([here["cls_token"].expand(len(value), -1, -1), value], 1)
    value = value + here["position_embeddings"]
    for layer in range(config["num_hidden_layers"]):
        here = own.below(f"encoder.layer.{layer}.")
        normed = here.layer_norm("layernorm_before", value, eps)
        parts = [
            here.linear(f"attention.attention.{part}", normed) for part in ("query", "key", "value")
        ]
        found = attention(parts[0], parts[1], parts[2], (heads, heads))
        value = value + here.linear("attention.output.dense", found)
        normed = here.layer_norm("layernorm_after", value, eps)
        value = value + here.linear("output.dense", act(here.linear("intermediate.dense", normed)))
    value = own.layer_norm("layernorm", value, eps)
    if weights.has("classifier"):
        return weights.linear("classifier", value[:, 0])
    if own.has("pooler.dense"):
        return value, own.linear("pooler.dense", value[:, 0]).tanh()
    return value


def t5(weights: Weights, config: Config, ids: torch.Tensor, target: torch.Tensor) -> Any:
    """T5: RMS norms, one learnt bias for each head and distance, encoder and decoder."""
    shared = weights["shared.weight"]
    memory = _t5_stack(weights.below("encoder."), config, F.embedding(ids, shared), None)
    value = _t5_stack(weights.below("decoder."), config, F.embedding(target, shared), memory)
    if weights.has("lm_head"):
        return weights.linear("lm_head", value), memory
    return F.linear(value * config["d_model"] ** -0.5, shared), memory


def _t5_stack(
    weights: Weights, config: Config, value: torch.Tensor, memory: torch.Tensor | None
) -> torch.Tensor:
    eps = float(config.get("layer_norm_epsilon", 1e-6))
    layers = config["num_layers"]
    if memory is not None:
        layers = config.get("num_decoder_layers") or layers
    bias = _t5_bias(weights["block.0.layer.0.SelfAttention.relative_attention_bias.weight"], value)
    for layer in range(layers):
        here = weights.below(f"block.{layer}.layer.")
        normed = here.rms_norm("0.layer_norm", value, eps)
        value = value + _t5_attended(here.below("0.SelfAttention."), config, normed, normed, bias)
        last = 1
        if memory is not None:
            last, normed = 2, here.rms_norm("1.layer_norm", value, eps)
            cross = here.below("1.EncDecAttention.")
            value = value + _t5_attended(cross, config, normed, memory, None)
        normed = here.rms_norm(f"{last}.layer_norm", value, eps)
        value = value + _t5_hidden(here.below(f"{last}.DenseReluDense."), normed)
    return weights.rms_norm("final_layer_norm", value, eps)


def _t5_bias(table: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return a bias for each head and pair of places; the buckets stand for the real ones."""
    places = torch.arange(value.shape[1], device=value.device)
    far = (places[:, None] - places[None]).abs().clamp(max=table.shape[0] - 1)
    return F.embedding(far, table).permute(2, 0, 1)[None]


def _t5_attended(
    here: Weights,
    config: Config,
    value: torch.Tensor,
    memory: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    heads = config["num_heads"]
    parts = here.linear("q", value), here.linear("k", memory), here.linear("v", memory)
    return here.linear("o", attention(*parts, (heads, heads), attn_mask=bias, scale=1.0))


def _t5_hidden(here: Weights, value: torch.Tensor) -> torch.Tensor:
    if "wi.weight" in here:
        return here.linear("wo", F.relu(here.linear("wi", value)))
    gated = F.gelu(here.linear("wi_0", value), approximate="tanh") * here.linear("wi_1", value)
    return here.linear("wo", gated)
