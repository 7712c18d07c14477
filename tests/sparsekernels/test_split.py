"""How the CPU kernels share tokens out over threads, asked without running a product."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sparsekernels as sk
from sparsekernels import build
from tests.sparsekernels import drawn

LANES = {"base": 4, "avx2": 8, "avx512": 16}


@pytest.fixture(scope="session")
def kernels() -> Any:
    """Return the compiled CPU operators, or skip where there is no compiler."""
    found = build.cpu_kernels()
    if found is None:
        pytest.skip("the CPU kernels cannot be built here: no C++ compiler")
    return found


def panels(kernels: Any, tokens: int, threads: int, even: bool) -> list[tuple[int, ...]]:
    """Return (thread, first token, tokens, vectors) of each panel; none: threads share panels."""
    found = iter(kernels.split(tokens, threads, even))
    return list(zip(*[found] * 4, strict=True))


@given(st.integers(0, 5000), st.integers(1, 9), st.booleans())
def test_every_token_is_one_threads(kernels: Any, tokens: int, threads: int, even: bool) -> None:
    """Panels follow each other without gap or overlap, and are wide enough for their tokens."""
    lanes, end, last = LANES[kernels.isa_name()], 0, 0
    for thread, start, live, vectors in panels(kernels, tokens, threads, even):
        assert (start, thread >= last) == (end, True)
        assert 0 < live <= vectors * lanes
        assert vectors % 2 == 0 or not even
        end, last = start + live, thread
    assert end == tokens or not kernels.split(tokens, threads, even)


@pytest.mark.parametrize("tokens", [8 * 7 * 7, 8 * 14 * 14, 128, 4096])
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_every_thread_has_work(kernels: Any, tokens: int, threads: int) -> None:
    """The measured convolutions and networks: no thread has a vector more than another."""
    load = [0] * threads
    for thread, _, _, vectors in panels(kernels, tokens, threads, even=False):
        load[thread] += vectors
    assert min(load) > 0
    assert max(load) - min(load) <= 1


@pytest.mark.parametrize("threads", [2, 3])
def test_few_tokens_are_shared(kernels: Any, threads: int) -> None:
    """Where a thread would have less than two vectors all threads work on the same panels."""
    assert not kernels.split(16, threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_stages_of_many_threads(kernels: Any, threads: int) -> None:
    """A weight too large to be decoded at once, and shares of unequal size: the same product."""
    del kernels
    weight = torch.randn(4160, 1024, generator=torch.Generator().manual_seed(0))
    packed = sk.pack(weight, drawn.pick((4160, 256, 4), 2, torch.Generator()).flatten(1), "2:4")
    x = torch.randn(1200, 1024, generator=torch.Generator().manual_seed(1))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        y = sk.linear(x, packed)
    finally:
        torch.set_num_threads(before)
    expected = torch.nn.functional.linear(x, packed.unpack())
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-3)
