"""A weight's fingerprint follows its values, not its storage."""

from __future__ import annotations

import numpy as np
import pytest

from permsearch.io import fingerprint, open_tensors


def test_storage_does_not_matter(rng: np.random.Generator) -> None:
    """Memory layout, byte order and a narrower float type leave the fingerprint alone."""
    weight = rng.standard_normal((6, 8)).astype(np.float16)
    expected = fingerprint(weight)
    assert fingerprint(weight.astype(np.float32)) == expected
    assert fingerprint(np.asfortranarray(weight)) == expected
    assert fingerprint(weight.astype(">f4")) == expected


def test_values_and_shape_matter(rng: np.random.Generator) -> None:
    """One changed value, another order or another shape gives another fingerprint."""
    weight = rng.standard_normal((6, 8))
    changed = weight.copy()
    changed[3, 3] += 1e-12
    others = [changed, weight.T, weight.reshape(8, 6), weight[:, ::-1], weight.astype(np.float32)]
    assert len({fingerprint(other) for other in [weight, *others]}) == 6


def test_torch_and_numpy_agree() -> None:
    """A bfloat16 tensor in memory has the fingerprint of its float32 copy."""
    torch = pytest.importorskip("torch")
    tensor = torch.randn(4, 8).bfloat16()
    source = open_tensors({"a": tensor, "b": tensor.float().numpy()})
    assert fingerprint(source.read("a")) == fingerprint(source.read("b"))
