"""Sizes of packed weights."""

from __future__ import annotations

import pytest

import permsearch as ps
from permsearch.storage import stored_bits
from permsearch.testing import tiny_patterns


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("2:4", 8 + 1),
        ("1:4", 4 + 0.5),
        ("64:2:8", 4 + 0.5 + 32 / 512),
        ("hinm:32@0.5:2:4", 4 + 0.5 + 0.5 * 16 / 32),
        ("vector:32@0.25", 4 + 0.25 * 16 / 32),
        ("block:16x16@0.25", 4 + 0.25 * 16 / 256),
        ("unaligned:4@0.25", 4 + 0.25 * 16 / 4),
        ("tile:128@0.25+0.01", 4 + 0.24 * 16 / 128 + 0.01 * 16),
        ("transposable:2:4", 8 + 1),
        ("unstructured@0.25", 4 + 4),
    ],
)
def test_bits_of_a_weight(text: str, bits: float) -> None:
    """Values of 16 bits and what says where they stand, in bits for every entry."""
    assert stored_bits(ps.parse_pattern(text), (128, 256, 3)) == pytest.approx(bits * 128 * 256 * 3)


def test_a_dense_weight_takes_its_values() -> None:
    """Without a pattern nothing but the values is stored."""
    assert stored_bits(None, (8, 8), 32) == 8 * 8 * 32


@pytest.mark.parametrize("pattern", tiny_patterns().values(), ids=str)
def test_every_pattern_takes_more_than_its_values(pattern: ps.Pattern) -> None:
    """Indices cost something wherever something is dropped."""
    bits = stored_bits(pattern, (16, 16)) / 256
    assert bits >= 16 * pattern.density
    assert (bits > 16 * pattern.density) == (pattern.density < 1)
