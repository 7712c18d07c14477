"""Inputs behind public bug reports of comparable tools, and the right behaviour on each.

Each promise is tested on inputs written down here; where the folder of larger data is present, on
its copies of the reported inputs too. The reports are named by project and number.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import permsearch as ps
from permsearch.errors import PatternError, ScoresError
from permsearch.kernels.jv import assignment
from permsearch.problem import Problem, Term
from permsearch.solvers._pairing import pair_up
from tests import reference

if TYPE_CHECKING:
    from types import ModuleType

PATTERNS = ["2:4", "1:4", "4:8"]


@pytest.fixture(scope="module")
def cases(shared_folder: Path) -> ModuleType:
    """Return the module of reported inputs beside the repository, or skip where it is absent."""
    path = shared_folder / "cases" / "models.py"
    if not path.is_file():
        pytest.skip(f"needs {path}, which is not part of the project")
    spec = importlib.util.spec_from_file_location("reported_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def swap(weight: Any, pattern: str = "2:4", **options: Any) -> ps.SearchResult:
    """Search with swaps."""
    return ps.search(weight, pattern, solver="swap", **options)


# ---------------------------------------------------------------- ties (O16, sparseml 678)


def tied() -> dict[str, torch.Tensor]:
    """Return weights whose magnitudes tie: constant, signs only, zeros, and a mixture."""
    signs = torch.ones(8, 16)
    signs[::2, 1::3] = -1
    mixed = torch.randn(8, 16, generator=torch.Generator().manual_seed(16))
    mixed[1] = 0
    mixed[6] = -0.5
    return {"ones": torch.ones(8, 16), "signs": signs, "zeros": torch.zeros(8, 16), "mixed": mixed}


def check_ties(weight: torch.Tensor) -> None:
    """Check that ties change no count, no repetition and no second masking."""
    for pattern in PATTERNS:
        nm = ps.parse_pattern(pattern)
        assert isinstance(nm, ps.NM)
        first, second = swap(weight, pattern), swap(weight, pattern)
        assert np.array_equal(first.mask, second.mask)
        assert (first.permuted_mask.reshape(-1, nm.m).sum(axis=1) == nm.n).all()
        masked = np.where(first.mask, weight.numpy(), 0)
        again = ps.search(masked, pattern, solver="none", start=first.cols)
        assert again.score == again.total
        assert np.array_equal(np.where(again.mask, masked, 0), masked)
    loose = ps.search(weight, "unstructured@0.7", solver="none").mask
    assert (~loose).sum() == round(0.3 * weight.numel())


@pytest.mark.parametrize("weight", tied().values(), ids=tied().keys())
def test_ties_change_no_count(weight: torch.Tensor) -> None:
    """Exactly N of M are kept under ties, twice the same, and masking again changes nothing."""
    check_ties(weight)


@pytest.mark.parametrize("name", ["ones", "signs", "zeros", "mixed"])
def test_reported_ties(cases: ModuleType, name: str) -> None:
    """The same on the reported weights (O16)."""
    check_ties(cases.tied_magnitudes().data[name])


@pytest.mark.parametrize("solver", ps.solver_names())
def test_no_order_gains_on_equal_entries(solver: str) -> None:
    """8 x 16 ones retain exactly 64 under any order, and every solver knows that it is optimal."""
    problem = ps.single(torch.ones(8, 16), "2:4")
    if (reason := ps.get_solver(solver).supports(problem)) is not None:
        pytest.skip(reason)
    result = ps.solve(problem, solver, stop=ps.MaxSteps(20))
    assert result.score == result.baseline == result.bound == 64
    assert result.status is ps.Status.OPTIMAL


# ---------------------------------------------------------------- narrow floats (O17)


def check_narrow(weight: torch.Tensor) -> None:
    """Check that a narrow tensor is searched as its float32 copy and is left as it is."""
    before = weight.clone()
    narrow, wide = swap(weight), swap(weight.float())
    assert np.array_equal(narrow.cols, wide.cols)
    assert np.array_equal(narrow.mask, wide.mask)
    assert narrow.score == wide.score
    moved = weight[:, torch.as_tensor(narrow.cols)]
    assert moved.dtype == weight.dtype
    assert torch.equal(moved.flatten().sort().values, weight.flatten().sort().values)
    assert torch.equal(weight, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_floats_are_masked_like_wide_ones(dtype: torch.dtype) -> None:
    """A bfloat16 or float16 weight has the mask of its float32 copy (neural-compressor 42)."""
    check_narrow(torch.randn(32, 64, generator=torch.Generator().manual_seed(17)).to(dtype))


def test_reported_narrow_floats(cases: ModuleType) -> None:
    """The same on the reported tensors and layers (O17)."""
    case = cases.low_precision_weights()
    for weight in (case.data["bf16"], case.data["fp16"], case.model[0].weight):
        check_narrow(weight.detach())


# ---------------------------------------------------------------- convolutions (O18)


def check_convolutions(first: torch.Tensor, second: torch.Tensor) -> None:
    """Check that three channels are refused or padded, and that groups run along channels."""
    with pytest.raises(PatternError, match=r"stem: 3 columns do not split.*pad=True"):
        swap(first, name="stem")
    padded = swap(first, pad=True)
    assert padded.details["padding"] == 1
    assert padded.mask.shape == tuple(first.shape)
    mask = swap(second).permuted_mask
    out, channels, *taps = mask.shape
    for o, y, x in np.ndindex(out, *taps):
        for begin in range(0, channels, 4):
            assert mask[o, begin : begin + 4, y, x].sum() == 2
    assert mask.mean() == 0.5


def test_groups_run_along_input_channels() -> None:
    """Groups never straddle filters: 3 x 7 x 7 is refused by name (NM-sparsity 9)."""
    generator = torch.Generator().manual_seed(18)
    first = torch.randn(16, 3, 7, 7, generator=generator)
    check_convolutions(first, torch.randn(8, 16, 3, 3, generator=generator))


def test_reported_convolutions(cases: ModuleType) -> None:
    """The same on the reported layers (O18)."""
    model = cases.three_channel_first_convolution().model
    check_convolutions(model[0].weight, model[2].weight)


# ---------------------------------------------------------------- signs (O20)


def test_large_negative_weights_stay() -> None:
    """Magnitude means absolute value: negative giants are kept (neural-compressor 592)."""
    weight = [[-9.0, 1.0, -8.0, 2.0], [3.0, -4.0, 0.5, -0.25]]
    result = ps.search(weight, "2:4", solver="none")
    assert result.mask.tolist() == [[True, False, True, False], [True, True, False, False]]


def test_reported_signs(cases: ModuleType) -> None:
    """The reported weight has exactly the reported mask (O20)."""
    data = cases.large_negative_weights().data
    result = ps.search(data["w"], "2:4", solver="none")
    assert np.array_equal(result.mask, data["mask"].numpy())


# ---------------------------------------------------------------- memory (O26)


def check_view(weight: torch.Tensor) -> None:
    """Check that a view is searched by its logical axes and not written through."""
    before = weight.clone()
    result, plain = swap(weight), swap(weight.contiguous())
    assert np.array_equal(result.cols, plain.cols)
    assert np.array_equal(result.mask, plain.mask)
    assert torch.equal(weight, before)


def test_views_are_searched_by_their_logical_axes() -> None:
    """channels_last, transposed, expanded and strided weights equal their copies (ComfyUI 3923)."""
    generator = torch.Generator().manual_seed(26)
    conv = torch.randn(16, 8, 3, 3, generator=generator)
    check_view(conv.to(memory_format=torch.channels_last))
    check_view(torch.randn(32, 16, generator=generator).t())
    check_view(torch.randn(1, 32, generator=generator).expand(16, 32))
    check_view(torch.randn(16, 64, generator=generator)[:, ::2])


def test_reported_views(cases: ModuleType) -> None:
    """The same on the reported tensors and layers (O26)."""
    case = cases.channels_last_and_strided_weights()
    for name in ("transposed", "expanded", "strided"):
        check_view(case.data[name])
    for layer in (case.model[0], case.model[2]):
        check_view(layer.weight.detach())


# ---------------------------------------------------------------- not a number (O28)


def check_named(weight: torch.Tensor, at: tuple[int, int], value: str) -> None:
    """Check that a bad entry is named before any search, as weight, scores and term."""
    with pytest.raises(ScoresError) as caught:
        swap(weight, name="layer.7")
    for part in ("layer.7", value, str(at)):
        assert part in str(caught.value)
    with pytest.raises(ScoresError, match=r"layer\.7"):
        swap(None, scores=weight.abs(), name="layer.7")
    with pytest.raises(ScoresError, match=r"layer\.7"):
        Term(weight.abs().numpy(), ps.NM(2, 4), cols="c", name="layer.7")


def test_not_a_number_is_named_and_never_kept() -> None:
    """NaN and infinite weights are reported with layer and index (scipy 14545)."""
    weight = torch.randn(8, 16, generator=torch.Generator().manual_seed(28))
    for at, value in (((3, 5), "nan"), ((1, 2), "-inf"), ((7, 15), "inf")):
        spoilt = weight.clone()
        spoilt[at] = float(value)
        check_named(spoilt, at, value)


def test_reported_entries_that_are_no_numbers(cases: ModuleType) -> None:
    """The same on the reported weights; the cost row is refused as scores too (O28)."""
    data = cases.not_a_number_in_costs_or_weights().data
    check_named(data["w_nan"], data["nan_at"], "nan")
    check_named(data["w_inf"], data["inf_at"], "-inf")
    with pytest.raises(ScoresError, match=r"nan at index \(2, 0\)"):
        ps.search(None, "2:4", scores=data["cost"], solver="swap")


def test_very_many_columns_are_searched_in_pieces() -> None:
    """20,000 columns, whose cost matrix would take gigabytes, are searched in pieces."""
    weight = np.random.default_rng(0).random((2, 20_000), dtype=np.float32)
    result = ps.search(weight, "2:4", solver="swap", stop=ps.MaxSteps(1))
    assert result.score > result.baseline


# ---------------------------------------------------------------- pairings (O29)


def best_pairs(edges: dict[tuple[int, int], float]) -> tuple[set[tuple[int, int]], float]:
    """Return the cheapest perfect pairing by the library, and its cost."""
    pairs = np.array([sorted(edge) for edge in edges], dtype=np.int64)
    cost = {tuple(sorted(edge)): value for edge, value in edges.items()}
    found = pair_up(4, pairs, -np.array(list(edges.values())))
    chosen = {(int(a), int(b)) for a, b in found}
    return chosen, sum(cost[pair] for pair in chosen)


def test_the_cheapest_pairing_is_not_the_one_of_reciprocals() -> None:
    """On a ring with costs 1, 3, 6, 3 the pairing costs 6, and shifted by 4, -2 (networkx 5388)."""
    ring = {(0, 1): 1.0, (1, 2): 3.0, (2, 3): 6.0, (3, 0): 3.0}
    assert best_pairs(ring) == ({(0, 3), (1, 2)}, 6)
    assert best_pairs({edge: cost - 4 for edge, cost in ring.items()}) == ({(0, 3), (1, 2)}, -2)


def test_reported_pairing(cases: ModuleType) -> None:
    """The same on the reported ring (O29)."""
    data = cases.minimum_pairing_through_reciprocals().data
    expected = {(min(pair), max(pair)) for pair in data["best"]}
    assert best_pairs(data["edges"]) == (expected, data["cost"])
    assert best_pairs(data["shifted"]) == (expected, data["shifted_cost"])


def test_pairs_of_columns_are_matched_not_approximated() -> None:
    """1:2 reaches the optimum of all pairings at every scale, zero columns included."""
    rng = np.random.default_rng(29)
    for scale in (1.0, 1e-9, 1e9):
        weight = rng.random((5, 8)) * scale
        weight[:, 3] = 0
        result = ps.search(weight, "1:2", solver="matching")
        best, _ = reference.best_partition(weight, 1, 2)
        assert result.score == pytest.approx(best, rel=1e-9)
        assert result.status is ps.Status.OPTIMAL


# ---------------------------------------------------------------- float costs (O30)


def nearly_equal(seed: int) -> NDArray[np.float64]:
    """Return 6 x 6 costs that differ in the seventh digit only."""
    return 0.5 + 1e-6 * np.random.default_rng(seed).random((6, 6))


def cheapest(costs: NDArray[np.float64]) -> float:
    """Return the cost of the best assignment by trying all."""
    rows = range(len(costs))
    orders = itertools.permutations(rows)
    return min(float(sum(costs[r, order[r]] for r in rows)) for order in orders)


def check_assignment(costs: NDArray[np.float64], scale: float) -> None:
    """Check that the integer kernel finds the optimum once costs are taken over their range."""
    scaled = costs * scale
    spread = scaled.max() - scaled.min()
    whole = np.rint((scaled - scaled.min()) / spread * 2**25).astype(np.int32)
    chosen = assignment(whole)
    assert reference.is_permutation(chosen.tolist())
    value = scaled[np.arange(len(costs)), chosen].sum()
    assert value == pytest.approx(cheapest(scaled), rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_costs_are_rounded_over_their_range(scale: float) -> None:
    """Costs that differ in the seventh digit are assigned optimally (or-tools 1539)."""
    for seed in range(5):
        check_assignment(nearly_equal(seed), scale)


def test_reported_costs(cases: ModuleType) -> None:
    """The same on the reported costs (O30)."""
    data = cases.float_costs_in_an_integer_solver().data
    for scale in data["scales"]:
        check_assignment(data["costs"].numpy(), scale)


@pytest.mark.parametrize("solver", ["matching", "exhaustive", "auto"])
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_small_differences_decide_at_every_scale(solver: str, scale: float) -> None:
    """Scores that differ in the seventh digit still lead to the proven optimum."""
    weight = (0.5 + 1e-6 * np.random.default_rng(30).random((4, 8))) * scale
    result = ps.search(weight, "1:2", solver=solver)
    best, _ = reference.best_partition(weight, 1, 2)
    assert result.score == pytest.approx(best, rel=1e-8)


def test_terms_of_unlike_scale_share_a_variable() -> None:
    """A layer a billion times smaller than its neighbour is summed, not rounded away."""
    small = np.abs(ps.instances.gaussian(4, 8, seed=2)).astype(np.float64)
    terms = (
        Term(np.ones((4, 8)), ps.NM(2, 4), cols="c"),
        Term(small * 1e-9, ps.NM(2, 4), cols="c"),
    )
    result = ps.solve(Problem({"c": ps.Free(8)}, terms), "exhaustive")
    best, _ = reference.best_partition(small, 2, 4)
    found = reference.retained_nm(small[:, result.solution["c"]], 2, 4)
    assert found == pytest.approx(best, rel=1e-6)
