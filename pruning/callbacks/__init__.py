"""Masks inside other people's training loops.

``pruning.callbacks.lightning.LightningMasks`` and ``pruning.callbacks.huggingface.TrainerMasks``;
each module imports its package, so none is imported here.
"""

from __future__ import annotations
