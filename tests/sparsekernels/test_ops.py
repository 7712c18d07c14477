"""Operators: kernels against the reference in float64, gradients, fakes, compiler and export."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsekernels as sk
from sparsekernels import build
from sparsekernels.ops import dispatch, reference
from tests.sparsekernels import drawn

OPS = torch.ops.sparsekernels
CASES = {
    "vector": lambda rng: drawn.vector(40, 30, 8, 9, rng),
    "block": lambda rng: drawn.block(40, 30, 8, 4, rng),
    "tile": lambda rng: drawn.tile(40, 30, 16, 0.0, rng),
    "overlay": lambda rng: drawn.tile(40, 30, 16, 0.05, rng),
    "2:4": lambda rng: drawn.nm(40, 9, 2, 4, rng, full=True),
    "3:5": lambda rng: drawn.nm(41, 7, 3, 5, rng, full=False),
    "vnm": lambda rng: drawn.vnm(40, 4, 8, 8, rng),
    "hinm": lambda rng: drawn.hinm(40, 7, 16, 4, rng),
}
ISAS = ("base", "avx2", "avx512")


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> drawn.Masked:
    """Return one weight of each format, some padded."""
    return CASES[request.param](generator())


@pytest.fixture(scope="session")
def kernels() -> object:
    """Return the compiled CPU operators, or skip where there is no compiler."""
    found = build.cpu_kernels()
    if found is None:
        pytest.skip("the CPU kernels cannot be built here: no C++ compiler")
    return found


def close(y: torch.Tensor, exact: torch.Tensor, kind: torch.dtype) -> None:
    """Assert equality within a few roundings of the type, relative to the largest number."""
    tolerance = {torch.float32: 2e-6, torch.bfloat16: 1e-2}[kind]
    scale = float(exact.abs().max().clamp(min=1)) if exact.numel() else 1.0
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=tolerance * scale)


@given(drawn.masked(), st.sampled_from([1, 2, 3, 5, 8, 9, 24, 31, 65, 140]), st.booleans())
@settings(max_examples=60)
def test_kernels_compute_the_reference(
    kernels: object, found: drawn.Masked, tokens: int, biased: bool
) -> None:
    """Every format, type and number of tokens: the float64 product of the unpacked weight."""
    kind = found.weight.dtype if found.weight.dtype in dispatch.CPU_TYPES else torch.float32
    packed = sk.pack(
        found.weight.to(kind), found.mask, found.pattern, found.rows, found.cols, tiles=found.tiles
    )
    rng = generator(tokens)
    x = torch.randn(tokens, packed.shape[1], generator=rng).to(kind)
    bias = torch.randn(packed.shape[0], generator=rng).to(kind) if biased else None
    exact = torch.nn.functional.linear(
        x.double(), packed.unpack().double(), None if bias is None else bias.double()
    )
    if dispatch.choose(packed.values, packed.operands).kernel == "reference":
        with pytest.warns(sk.ReferenceUsed, match="groups of 8"):
            y = sk.linear(x, packed, bias)
    else:
        y = sk.linear(x, packed, bias)
    close(y, exact, kind)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_instruction_sets_agree(
    kernels: object, case: drawn.Masked, isa: str, kind: torch.dtype
) -> None:
    """Each instruction set this processor has computes the same product."""
    if not kernels.has_isa(isa):
        pytest.skip(f"this processor or build lacks {isa}")
    packed = case.pack().to(kind)
    args = dispatch.cpu_arguments(packed.operands, packed.shape[0])
    gathered = hasattr(packed.operands, "colptr")
    run = kernels.gather_linear if gathered else kernels.chosen_linear
    values = packed.values.reshape(-1) if gathered else packed.values
    for tokens in (1, 4, 7, 11, 16, 33, 50, 150, 600):
        x = torch.randn(tokens, packed.shape[1], generator=generator(tokens)).to(kind)
        exact = x.double() @ packed.unpack().double().t()
        close(run(x, values, *args, None, isa), exact, kind)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_do_not_change_a_bit(kernels: object, case: drawn.Masked, threads: int) -> None:
    """Results are the same whatever the number of threads."""
    del kernels
    before, packed = torch.get_num_threads(), case.pack()
    x = torch.randn(300, packed.shape[1], generator=generator())
    one = sk.linear(x, packed)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(sk.linear(x, packed), one)
    finally:
        torch.set_num_threads(before)


def test_any_leading_axes_and_gaps(case: drawn.Masked) -> None:
    """Activations may have any axes before the last, gaps between entries, and odd addresses."""
    packed = case.pack()
    dense = packed.unpack()
    columns = packed.shape[1]
    plain = torch.randn(2, 3, columns, generator=generator())
    shifted = torch.randn(6 * columns + 1, generator=generator())[1:].reshape(2, 3, columns)
    for x in (
        plain,
        plain.transpose(0, 1),
        torch.randn(2, 3, 2 * columns, generator=generator())[..., ::2],
        shifted,
        plain[0, 0],
        plain[:0],
    ):
        expected = torch.nn.functional.linear(x, dense)
        torch.testing.assert_close(sk.linear(x, packed), expected, rtol=1e-4, atol=1e-4)


def test_no_entries_at_all() -> None:
    """A weight of zeros gives the bias, by every path."""
    for pattern in ("vector:8@0.25", "tile:8@0.25", "block:8x8@0.25", "2:4"):
        packed = sk.pack(torch.ones(16, 8), torch.zeros(16, 8).bool(), pattern)
        bias = torch.arange(16.0)
        for tokens in (1, 40):
            y = sk.linear(torch.ones(tokens, 8), packed, bias)
            assert torch.equal(y, bias.expand(tokens, 16))


def test_nan_and_infinity_stay_in_their_token() -> None:
    """A token that is no number spoils its own outputs alone."""
    packed = CASES["vector"](generator()).pack()
    x = torch.randn(40, 30, generator=generator())
    x[3] = float("nan")
    y = sk.linear(x, packed)
    assert bool(y[3].isnan().any())
    assert bool(y[:3].isfinite().all())
    assert bool(y[4:].isfinite().all())


def test_gradients_check_in_float64(case: drawn.Masked) -> None:
    """Gradients of activations, packed values, overlay and bias, and second ones."""
    packed = case.pack().to(torch.float64)
    x = torch.randn(3, packed.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.randn(packed.shape[0], dtype=torch.float64, requires_grad=True)
    floats = {n: t for n, t in packed.tensors().items() if n in ("values", "overlay")}
    inputs = [t.detach().clone().requires_grad_() for t in floats.values()]

    def run(x: torch.Tensor, bias: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        return sk.linear(x, replaced(packed, dict(zip(floats, given, strict=True))), bias)

    assert torch.autograd.gradcheck(run, (x, bias, *inputs), fast_mode=True)
    assert torch.autograd.gradgradcheck(run, (x, bias, *inputs), fast_mode=True)


def replaced(packed: sk.PackedWeight, tensors: dict[str, torch.Tensor]) -> sk.PackedWeight:
    """Return the weight with other float tensors, which may be tracked."""
    parts = {**packed.tensors(), **tensors}
    return type(packed).from_parts(packed.pattern, packed.shape, parts, packed.numbers())


def test_kernel_gradients_are_the_references(kernels: object, case: drawn.Masked) -> None:
    """In float32, where a kernel runs forward, gradients are those of the dense product."""
    del kernels
    packed = case.pack()
    x = torch.randn(20, packed.shape[1], generator=generator(), requires_grad=True)
    values = packed.values.clone().requires_grad_()
    y = sk.linear(x, replaced(packed, {"values": values}))
    to = torch.randn(y.shape, generator=generator())
    y.backward(to)
    dense = packed.unpack()
    torch.testing.assert_close(x.grad, to @ dense, rtol=1e-4, atol=1e-4)
    picked = reference.picked_of(to.t() @ x.detach(), values.shape, packed.operands)
    torch.testing.assert_close(values.grad, picked, rtol=1e-4, atol=1e-4)


def test_opcheck(case: drawn.Masked) -> None:
    """Schema, fake, autograd registration and dynamic shapes pass torch's own check."""
    packed = case.pack()
    x = torch.randn(5, packed.shape[1], requires_grad=True)
    name, args = operator(packed)
    torch.library.opcheck(getattr(OPS, f"{name}_linear"), (x, *args, packed.shape[0], None))
    torch.library.opcheck(getattr(OPS, f"{name}_dense"), (*args, *packed.shape))
    torch.library.opcheck(getattr(OPS, f"{name}_entries"), (packed.unpack(), *args))


def operator(packed: sk.PackedWeight) -> tuple[str, tuple[object, ...]]:
    """Return an operator family's name and the weight's arguments."""
    from sparsekernels import functional

    if hasattr(packed.operands, "colptr"):
        return "gathered", (packed.values, *functional._gathered(packed.operands))
    return "picked", (packed.values, *functional._picked(packed.operands))


@pytest.mark.parametrize("name", ["overlay", "vnm"])
def test_compiles_and_exports(name: str) -> None:
    """A layer goes through torch.compile without a graph break, and through torch.export."""
    packed = CASES[name](generator()).pack()
    layer = sk.SparseLinear(packed, torch.randn(packed.shape[0], generator=generator()))
    x = torch.randn(12, packed.shape[1], generator=generator())
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    y = compiled(x)
    torch.testing.assert_close(y, layer(x))
    y.sum().backward()
    assert layer.values.grad is not None
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(layer, (x,), dynamic_shapes={"x": {0: batch}})
    torch.testing.assert_close(exported.module()(x[:7]), layer(x[:7]))


@pytest.mark.parametrize(
    ("x", "told"),
    [
        (torch.ones(2, 30, dtype=torch.bfloat16), "activations are torch.bfloat16"),
        (torch.ones(2, 29), r"\(2, 29\) do not end in the 30 inputs"),
        (torch.tensor(1.0), "do not end in the 30 inputs"),
        (torch.ones(2, 30, device="meta"), "activations are on meta"),
    ],
)
def test_activations_that_do_not_fit_are_named(x: torch.Tensor, told: str) -> None:
    """Type, shape and device are told for both sides."""
    packed = CASES["vector"](generator()).pack()
    with pytest.raises((sk.OperandError, NotImplementedError, RuntimeError), match=told):
        sk.linear(x, packed)


def test_raw_operators_refuse_what_would_read_outside(kernels: object) -> None:
    """Damaged indices are refused by the compiled code itself, before anything is read."""
    packed = CASES["vector"](generator()).pack()
    w = packed.operands
    x, values = torch.ones(20, 30), packed.values.reshape(-1)
    none = (None, None, None)
    good = (w.colptr, w.cols, w.rowptr, w.rows)
    for place, change in ((1, 30), (1, -1), (3, 40), (0, 1)):
        bad = [part.clone() for part in good]
        bad[place][-1] = change
        with pytest.raises(RuntimeError, match="sparsekernels"):
            kernels.gather_linear(x, values, *bad, *none, 40, None)
    with pytest.raises(RuntimeError, match="values"):
        kernels.gather_linear(x, values[1:], *good, *none, 40, None)
    with pytest.raises(RuntimeError, match="bias"):
        kernels.gather_linear(x, values, *good, *none, 40, torch.ones(3))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.filterwarnings("ignore::sparsekernels.ReferenceUsed")
def test_alpha_and_beta(case: drawn.Masked, kind: torch.dtype) -> None:
    """It is beta c + alpha x W' + bias; where beta is 0, c may hold anything."""
    packed = case.pack().to(kind)
    out, columns = packed.shape
    x, c = (torch.randn(2, 9, n, generator=generator(n)).to(kind) for n in (columns, out))
    bias = torch.randn(out, generator=generator(1)).to(kind)
    product = x.double() @ packed.unpack().double().t()
    tolerance = 3e-2 if kind == torch.bfloat16 else 2e-5
    for alpha, beta, added in ((0.5, -2.0, bias), (1.0, 1.0, None), (0.0, 1.0, bias)):
        exact = alpha * product + beta * c.double() + (0 if added is None else added.double())
        y = sk.addmm(c, x, packed, added, alpha=alpha, beta=beta)
        assert y.dtype == kind
        torch.testing.assert_close(y.double(), exact, rtol=tolerance, atol=tolerance * 4)
    y = sk.addmm(torch.full_like(c, float("nan")), x, packed, alpha=2.0, beta=0.0)
    torch.testing.assert_close(y.double(), 2 * product, rtol=tolerance, atol=tolerance * 4)


@pytest.mark.filterwarnings("ignore::sparsekernels.ReferenceUsed")
def test_gradients_of_alpha_and_beta(case: drawn.Masked) -> None:
    """In double precision numeric and analytic gradients agree for c, x, values and bias."""
    packed = case.pack().to(torch.float64)
    name, args = operator(packed)
    out, columns = packed.shape
    x = torch.randn(3, columns, generator=generator(1)).double().requires_grad_()
    c = torch.randn(3, out, generator=generator(2)).double().requires_grad_()
    bias = torch.randn(out, generator=generator(3)).double().requires_grad_()
    values = packed.values.clone().requires_grad_()
    run = getattr(OPS, f"{name}_addmm")
    assert torch.autograd.gradcheck(
        lambda x, values, bias, c: run(x, values, *args[1:], out, bias, c, 0.5, -2.0),
        (x, values, bias, c),
        fast_mode=True,
    )
    single, added = operator(case.pack())[1], c.detach().float().requires_grad_()
    torch.library.opcheck(run, (x.detach().float(), *single, out, None, added, 0.5, 2.0))


def test_what_is_added_has_the_products_shape() -> None:
    """Another shape or type is refused, with both sides named."""
    packed = drawn.vector(16, 8, 8, 3, generator()).pack()
    with pytest.raises(sk.OperandError, match=r"c is torch\.float32 \(4, 8\)"):
        sk.addmm(torch.ones(4, 8), torch.ones(4, 8), packed)
    with pytest.raises(sk.OperandError, match=r"c is torch\.float64"):
        sk.addmm(torch.ones(4, 16).double(), torch.ones(4, 8), packed)
