"""Families of `transformers`, small, from their configurations, with the groups each has.

Groups are declared as in the zoo, per layer where a family repeats layers: ``layers`` times the
second text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

IDS = (torch.arange(24).reshape(2, 12) * 7) % 97 + 3
PIXELS = torch.arange(6144, dtype=torch.float32).reshape(2, 3, 32, 32).sin()
WIDTHS = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
}
CAUSAL = {**WIDTHS, "use_cache": False}
GROUPED = {**CAUSAL, "num_key_value_heads": 2}
VIT = {**WIDTHS, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
del VIT["vocab_size"]


@dataclass(frozen=True, slots=True)
class Family:
    """A model class, its configuration, and its groups: once, and for each of the layers."""

    model: str
    config: dict[str, Any]
    once: str
    each: str
    layers: int = 2
    inputs: tuple[Any, ...] = (IDS,)
    kwargs: dict[str, Any] = field(default_factory=dict)
    narrow: bool = False  # an operator inside has no float64 kernel

    @property
    def declared(self) -> list[str]:
        """The groups, sorted."""
        text = ",".join([self.once, *([self.each] * self.layers)])
        return sorted(part.strip() for part in text.split(",") if part.strip())

    def build(self) -> nn.Module:
        """Return the model with seeded weights that are not trivial."""
        import transformers

        model_class = getattr(transformers, self.model)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            model: nn.Module = model_class(model_class.config_class(**self.config)).eval()
            saved = model.state_dict()
            buffers = [b for n, b in model.named_buffers() if n in saved and b.is_floating_point()]
            for tensor in (*model.parameters(), *buffers):
                tensor.copy_(torch.rand_like(tensor) + 0.5 if tensor.dim() == 1 else 3 * tensor)
        return model


ROTARY = "96, 8 in 2, 4 in 2, 2 blocks"  # feed-forward, V/O, queries of a key, keys
PLAIN = "96, 8 in 8, 8 in 8, 8 blocks"  # feed-forward, V/O, Q/K, heads
FOUR = "96, 16 in 4, 16 in 4, 4 blocks"

FAMILIES = {
    "llama": Family("LlamaForCausalLM", GROUPED, "64", ROTARY),
    "mistral": Family("MistralForCausalLM", GROUPED, "64", ROTARY),
    "qwen2": Family("Qwen2ForCausalLM", GROUPED, "64", ROTARY),
    "qwen3": Family(
        "Qwen3ForCausalLM", {**GROUPED, "head_dim": 16}, "64", "96, 16 in 2, 4 in 2, 2 blocks"
    ),
    "gemma2": Family(
        "Gemma2ForCausalLM", {**GROUPED, "head_dim": 16}, "64", "96, 16 in 2, 4 in 2, 2 blocks"
    ),
    "phi3": Family("Phi3ForCausalLM", {**GROUPED, "pad_token_id": 0}, "64", ROTARY),
    "gpt-neox": Family(
        "GPTNeoXForCausalLM", {**CAUSAL, "rotary_pct": 1.0}, "64", "96, 8 in 8, 8 blocks"
    ),
    "mixtral": Family(
        "MixtralForCausalLM",
        {**GROUPED, "num_local_experts": 4},
        "64",
        "96 in 4, 8 in 2, 4 in 2, 2 blocks",
        narrow=True,
    ),
    "qwen2-moe": Family(
        "Qwen2MoeForCausalLM",
        {
            **GROUPED,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 48,
        },
        "64",
        "32 in 4, 48, 8 in 2, 4 in 2, 2 blocks",
        narrow=True,
    ),
    "gpt2": Family(
        "GPT2LMHeadModel",
        {"vocab_size": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "use_cache": False},
        "64",
        "256, 16 in 4, 16 in 4, 4 blocks",
    ),
    "opt": Family(
        "OPTForCausalLM",
        {**CAUSAL, "ffn_dim": 96, "word_embed_proj_dim": 64},
        "64",
        PLAIN,
    ),
    "bloom": Family(
        "BloomForCausalLM",
        {"vocab_size": 128, "hidden_size": 64, "n_layer": 2, "n_head": 4, "use_cache": False},
        "64",
        "256, 16 in 4, 16 in 4",
    ),
    "bert": Family("BertModel", WIDTHS, "", PLAIN),
    "bert, classifier": Family("BertForSequenceClassification", WIDTHS, "64, 64", PLAIN),
    "roberta": Family(
        "RobertaForSequenceClassification", {**WIDTHS, "pad_token_id": 1}, "64, 64", PLAIN
    ),
    "distilbert": Family(
        "DistilBertForSequenceClassification",
        {"vocab_size": 128, "dim": 64, "hidden_dim": 96, "n_layers": 2, "n_heads": 4},
        "64, 64",
        FOUR,
    ),
    "t5": Family(
        "T5ForConditionalGeneration",
        {
            "vocab_size": 128,
            "d_model": 64,
            "d_kv": 16,
            "d_ff": 96,
            "num_layers": 2,
            "num_heads": 4,
            "use_cache": False,
        },
        # the encoder's output is among the outputs, and the embedding is shared: no stream is free
        "4 blocks, 4 blocks",
        # encoder: feed-forward, V/O, Q/K; decoder: feed-forward, and two attentions
        "96, 16 in 4, 16 in 4, 96, 16 in 4, 16 in 4, 16 in 4, 16 in 4, 4 blocks",
        kwargs={"decoder_input_ids": IDS[:, :9]},
    ),
    "vit": Family("ViTForImageClassification", VIT, "64", FOUR, inputs=(PIXELS,)),
    "resnet": Family(
        "ResNetForImageClassification",
        {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 2], "layer_type": "basic"},
        "16, 32, 64, 32, 32, 64, 64",
        "",
        inputs=(PIXELS,),
    ),
    "mobilenet v2": Family(
        "MobileNetV2ForImageClassification",
        {"image_size": 32, "depth_multiplier": 0.35, "finegrained_output": False},
        "448, 112, 16, 16, 8, 8, 48, 48, 48, 32, 192, 192, 192, 56, 336, 336, 336, 96, "
        "96, 96, 24, 144, 144, 144, 144",
        "",
        inputs=(PIXELS,),
    ),
    "convnext": Family(
        "ConvNextForImageClassification",
        {"hidden_sizes": [16, 32], "depths": [2, 2], "num_stages": 2, "image_size": 32},
        "16, 32, 64, 64, 128, 128",
        "",
        inputs=(PIXELS,),
    ),
    "deepseek-v3": Family(
        "DeepseekV3ForCausalLM",
        {
            **CAUSAL,
            "num_key_value_heads": 8,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 32,
            "q_lora_rank": 24,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "v_head_dim": 16,
            "first_k_dense_replace": 1,
        },
        "64, 96, 32 in 4, 32",
        "16, 24, 16 in 8, 16 in 8, 8 blocks",
        narrow=True,
    ),
    "falcon": Family(
        "FalconForCausalLM",
        {
            "vocab_size": 128,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "use_cache": False,
        },
        "64",
        "256, 16, 4 blocks",
    ),
    "swin": Family(
        "SwinForImageClassification",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
        },
        "16, 32",
        "64, 8 in 2, 8 in 2, 2 blocks, 128, 8 in 4, 8 in 4, 4 blocks",
        inputs=(PIXELS,),
    ),
    "segformer": Family(
        "SegformerForSemanticSegmentation",
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [16, 32, 32, 64],
            "num_attention_heads": [1, 2, 4, 8],
            "decoder_hidden_size": 32,
        },
        "32, 32, 32, 32, 32, 32, 32, 32, 32, 16, 16, 16, 16, 64, 64, 16 in 2, 16 in 2, "
        "128, 128, 8 in 4, 8 in 4, 8 in 8, 8 in 8, 256, 2 blocks, 4 blocks, 8 blocks",
        "",
        inputs=(PIXELS,),
    ),
    "mamba": Family(
        "MambaForCausalLM",
        {
            "vocab_size": 128,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "state_size": 8,
            "use_cache": False,
        },
        "64",
        "4, 128, 8",
    ),
    "wav2vec2": Family(
        "Wav2Vec2Model",
        {
            **WIDTHS,
            "num_attention_heads": 4,
            "conv_dim": (16, 16),
            "conv_stride": (5, 4),
            "conv_kernel": (10, 8),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
        "16, 96, 96",
        "",
        inputs=(torch.arange(3200, dtype=torch.float32).reshape(2, 1600).sin(),),
    ),
    "whisper": Family(
        "WhisperForConditionalGeneration",
        {
            "vocab_size": 128,
            "d_model": 64,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 96,
            "decoder_ffn_dim": 96,
            "max_source_positions": 30,
            "use_cache": False,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        "64, 64, 96, 96",
        "16 in 4, 16 in 4, 4 blocks",
        layers=3,  # attentions
        inputs=(torch.arange(9600, dtype=torch.float32).reshape(2, 80, 60).sin(),),
        kwargs={"decoder_input_ids": IDS},
    ),
    "clip": Family(
        "CLIPModel",
        {
            "text_config": {**WIDTHS, "eos_token_id": 2},
            "vision_config": VIT,
            "projection_dim": 32,
        },
        "",
        "96, 8 in 8, 8 in 8, 8 blocks, 96, 16 in 4, 16 in 4, 4 blocks",
        inputs=(IDS, PIXELS),
    ),
}
