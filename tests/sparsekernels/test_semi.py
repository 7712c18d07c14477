"""Plain 2:4 goes to PyTorch's own GPU products: which, when, and with what.

The operators are stand-ins on the CPU, registered for a test, that check what they are given: no
GPU is here, and nothing of this has run on one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

import sparsekernels as sk
from sparsekernels import doctor
from sparsekernels.ops import cuda, semi
from sparsekernels.ops.operands import Picked
from tests.sparsekernels import drawn


@dataclass
class StandIns:
    """What was called, in order."""

    calls: list[str] = field(default_factory=list)

    def compress(self, dense: Tensor) -> Tensor:
        """Take a dense 2:4 matrix, as cuSPARSELt does."""
        assert dense.is_contiguous()
        assert int((dense.reshape(len(dense), -1, 4) != 0).sum(-1).max()) <= 2
        self.calls.append("compress")
        return dense.clone()

    def sparse_mm(
        self,
        compressed: Tensor,
        dense: Tensor,
        bias: Tensor | None = None,
        alpha: Tensor | None = None,
        out_dtype: torch.dtype | None = None,
        transpose_result: bool = False,
        *rest: int,
    ) -> Tensor:
        """Multiply by what `compress` returned."""
        assert alpha is None
        assert out_dtype is None
        assert dense.shape[1] % 8 == 0
        assert bias is None or bias.dtype == dense.dtype
        self.calls.append("cusparselt")
        y = compressed.float() @ dense.float()
        y = y if bias is None else y + bias.float()[:, None]
        return (y.t() if transpose_result else y).to(dense.dtype).contiguous()

    def linear(
        self,
        x: Tensor,
        weight: Tensor,
        meta: Tensor,
        *,
        bias: Tensor | None = None,
        activation: str | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Multiply by values and metadata in CUTLASS order, put together by PyTorch."""
        from torch.sparse._semi_structured_conversions import (
            sparse_semi_structured_to_dense_cutlass,
        )

        assert x.is_contiguous()
        assert len(x) % 8 == 0
        assert activation is None
        self.calls.append("cutlass")
        dense = sparse_semi_structured_to_dense_cutlass(weight, meta)
        own = None if bias is None else bias.float()
        return torch.nn.functional.linear(x.float(), dense.float(), own).to(x.dtype)


@pytest.fixture
def standins() -> Iterator[StandIns]:
    """Put the stand-ins where a CPU tensor finds them."""
    found = StandIns()
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("_cslt_compress", found.compress, "CPU")
        library.impl("_cslt_sparse_mm", found.sparse_mm, "CPU")
        library.impl("_sparse_semi_structured_linear", found.linear, "CPU")
        yield found


def weight(rows: int = 64, groups: int = 16, kind: torch.dtype = torch.float16) -> sk.PackedWeight:
    """Return a plain 2:4 weight (rows, 4 x groups)."""
    case = drawn.nm(rows, groups, 2, 4, torch.Generator().manual_seed(0), full=True)
    return sk.pack(case.dense[:, case.cols].to(kind), None, "2:4")


def available(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Let this torch have those backends and no other."""
    monkeypatch.setattr(torch.backends.cusparselt, "is_available", lambda: "cusparselt" in kinds)
    monkeypatch.setattr(semi, "has_cutlass", lambda: "cutlass" in kinds)


@pytest.mark.parametrize(
    ("there", "size", "chosen"),
    [
        (("cusparselt", "cutlass"), (64, 16), "cusparselt"),
        (("cutlass",), (64, 16), "cutlass"),
        ((), (64, 16), ""),
        (("cusparselt", "cutlass"), (48, 12), "cusparselt"),  # 16 x 16 are enough for it
        (("cutlass",), (48, 16), ""),
        (("cutlass",), (64, 12), ""),
        (("cusparselt",), (40, 16), ""),
    ],
)
def test_the_first_that_is_there_and_fits(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], size: tuple[int, int], chosen: str
) -> None:
    """First cuSPARSELt, then CUTLASS, then our kernel, each for weights in its whole tiles."""
    available(monkeypatch, *there)
    packed = weight(*size)
    assert semi.backend(packed.values, packed.operands, packed.shape[0]) == chosen


def test_only_plain_two_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders, lists of live columns, other patterns and other types stay with our kernels."""
    available(monkeypatch, "cusparselt", "cutlass")
    rng = torch.Generator().manual_seed(0)
    others = [
        drawn.nm(64, 16, 2, 4, rng, full=True).pack().to(torch.float16),  # a column order
        drawn.vnm(64, 8, 16, 8, rng).pack().to(torch.float16),
        drawn.nm(64, 16, 1, 4, rng, full=True).pack().to(torch.float16),
        drawn.vector(64, 64, 16, 16, rng).pack().to(torch.float16),
        weight(kind=torch.float32),
    ]
    assert [semi.backend(w.values, w.operands, 64) for w in others] == [""] * 5


def test_cusparselt_can_be_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own switch counts here as well."""
    available(monkeypatch, "cusparselt", "cutlass")
    monkeypatch.setattr(torch.sparse.SparseSemiStructuredTensor, "_FORCE_CUTLASS", True)
    packed = weight()
    assert semi.backend(packed.values, packed.operands, 64) == "cutlass"


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("chosen", ["cusparselt", "cutlass"])
@pytest.mark.parametrize("tokens", [0, 1, 8, 21])
def test_both_compute_the_product(
    monkeypatch: pytest.MonkeyPatch,
    standins: StandIns,
    chosen: str,
    tokens: int,
    kind: torch.dtype,
) -> None:
    """Any leading axes and number of tokens, a bias in any type: the masked dense product."""
    available(monkeypatch, chosen)
    packed = weight(kind=kind)
    x = torch.randn(2, tokens, 64, generator=torch.Generator().manual_seed(1)).to(kind)
    bias = torch.randn(64, generator=torch.Generator().manual_seed(2))
    y = cuda.linear(None, x, packed.values, packed.operands, 64, bias)
    exact = torch.nn.functional.linear(x.double(), packed.unpack().double(), bias.double())
    torch.testing.assert_close(y.double(), exact, rtol=2e-2, atol=2e-2)
    assert y.is_contiguous()
    assert standins.calls.count(chosen) == (tokens > 0)


def test_a_weight_is_compressed_once(monkeypatch: pytest.MonkeyPatch, standins: StandIns) -> None:
    """What cuSPARSELt reads is kept, and made anew when values change, move or get new places."""
    available(monkeypatch, "cusparselt")
    packed, x = weight(), torch.ones(8, 64).half()
    values, operands = torch.nn.Parameter(packed.values), packed.operands
    assert isinstance(operands, Picked)

    def product() -> Tensor:
        with torch.no_grad():
            return cuda.linear(None, x, values, operands, 64, None)

    first = product()
    assert torch.equal(product(), first)
    assert standins.calls == ["compress", "cusparselt", "cusparselt"]
    with torch.no_grad():
        values.mul_(2)
    assert torch.equal(product(), 2 * first)
    values.data = values.data / 2
    assert torch.equal(product(), first)
    before, operands = operands, operands._replace(meta=operands.meta.clone())
    assert torch.equal(product(), first)
    assert standins.calls.count("compress") == 4
    assert before.meta is not operands.meta


def test_inference_tensors_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, standins: StandIns
) -> None:
    """Tensors that do not tell when they change are compressed in every call."""
    available(monkeypatch, "cusparselt")
    with torch.inference_mode():
        packed, x = weight(), torch.ones(8, 64).half()
        values = packed.values.clone()
        first = cuda.linear(None, x, values, packed.operands, 64, None)
        values.mul_(2)
        assert torch.equal(cuda.linear(None, x, values, packed.operands, 64, None), 2 * first)
    assert standins.calls.count("compress") == 2


@pytest.mark.parametrize(
    ("there", "told"),
    [(("cusparselt", "cutlass"), "cuSPARSELt, CUTLASS"), (("cutlass",), "CUTLASS"), ((), "no")],
)
def test_the_doctor_names_what_is_there(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], told: str
) -> None:
    """In the order in which they are used."""
    available(monkeypatch, *there)
    assert [f.state for f in doctor.examine() if f.what == "PyTorch's 2:4 products"] == [told]
