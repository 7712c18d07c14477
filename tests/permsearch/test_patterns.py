"""A pattern's mask is allowed, best, and exact under ties; its text names it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permsearch as ps
from permsearch.errors import PatternError, UnknownName
from permsearch.patterns import MAX_M, NM, Block, Pattern, Tiled, Unstructured, parse_pattern
from permsearch.testing import check_pattern, tiny_patterns
from tests import reference, strategies
from tests.strategies import Scores


@given(drawn=strategies.scored_patterns())
def test_nm_keeps_what_sorting_keeps(drawn: tuple[Scores, NM]) -> None:
    """Value and mask agree with sorting every group; of equal scores the lower index stays."""
    scores, pattern = drawn
    expected = reference.retained_nm(scores, pattern.n, pattern.m)
    assert pattern.retained(scores) == pytest.approx(expected, rel=1e-12, abs=0)
    assert np.array_equal(pattern.keep(scores), reference.keep_nm(scores, pattern.n, pattern.m))


@given(drawn=strategies.scored_patterns())
def test_nm_keeps_exactly_n_of_m(drawn: tuple[Scores, NM]) -> None:
    """Every group of the mask keeps N, ties and zeros or not, and the share kept is N / M."""
    scores, pattern = drawn
    mask = pattern.keep(scores)
    assert (mask.reshape(-1, pattern.m).sum(axis=1) == pattern.n).all()
    assert mask.mean() == pytest.approx(pattern.density)


@given(drawn=strategies.scored_patterns())
def test_conformance_of_nm(drawn: tuple[Scores, NM]) -> None:
    """N:M passes the public conformance kit on whatever scores it fits."""
    scores, pattern = drawn
    check_pattern(pattern, scores)


@given(kept=st.floats(0.01, 1), data=st.data())
def test_unstructured_keeps_what_sorting_keeps(kept: float, data: st.DataObject) -> None:
    """The number kept is exact under ties, the mask and value are the sorted ones."""
    scores = data.draw(strategies.scores(3, 8))
    pattern = Unstructured(kept)
    mask = reference.keep_unstructured(scores, kept)
    assert np.array_equal(pattern.keep(scores), mask)
    assert int((~mask).sum()) == round((1 - kept) * 24)
    assert pattern.retained(scores) == pytest.approx(float(scores[mask].sum(dtype=float)))
    check_pattern(pattern, scores)


@pytest.mark.parametrize("pattern", tiny_patterns().values(), ids=str)
def test_the_mask_is_the_best_of_all_masks(pattern: Pattern) -> None:
    """Among all masks that the pattern accepts, none keeps more."""
    rows, unit = pattern.tiling if isinstance(pattern, Tiled) else (1, 1)
    columns = unit if unit > 1 else 5
    columns *= 2 if isinstance(pattern, Block) else 1  # some of one block is nothing
    scores = np.abs(ps.instances.gaussian(rows, columns, seed=3))
    best = 0.0
    for bits in itertools.product([False, True], repeat=scores.size):
        mask = np.array(bits).reshape(scores.shape)
        if pattern.accepts(mask):
            best = max(best, float(scores[mask].sum(dtype=float)))
    assert pattern.retained(scores) == pytest.approx(best)


@given(drawn=strategies.scored_patterns(max_m=8), data=st.data())
def test_group_order_and_order_inside_a_group_are_irrelevant(
    drawn: tuple[Scores, NM], data: st.DataObject
) -> None:
    """Shuffling whole groups, columns inside groups, or rows leaves the value alone."""
    scores, pattern = drawn
    groups = data.draw(strategies.orders(scores.shape[1] // pattern.m))
    inside = [data.draw(strategies.orders(pattern.m)) for _ in groups]
    order = np.concatenate([g * pattern.m + i for g, i in zip(groups, inside, strict=True)])
    rows = data.draw(strategies.orders(len(scores)))
    value = pattern.retained(scores[rows][:, order])
    assert value == pytest.approx(pattern.retained(scores), rel=1e-12, abs=0)


@given(drawn=strategies.scored_patterns(max_m=8), exponent=st.sampled_from([-20, 20]))
def test_scaling_by_a_power_of_two_scales_the_value_exactly(
    drawn: tuple[Scores, NM], exponent: int
) -> None:
    """The mask stays and the value scales, to the last bit."""
    scores, pattern = drawn
    scores = scores.astype(np.float64)
    scaled = np.ldexp(scores, exponent)
    assert np.array_equal(pattern.keep(scaled), pattern.keep(scores))
    assert pattern.retained(scaled) == np.ldexp(pattern.retained(scores), exponent)


@pytest.mark.parametrize("shape", [(2, 8, 3), (2, 8, 2, 2)], ids=str)
def test_convolutions_compete_along_input_channels(shape: tuple[int, ...]) -> None:
    """Every tap is a row of its own: mask and value are those of the unfolded matrix."""
    scores = np.random.default_rng(0).random(shape)
    pattern = NM(2, 4)
    matrix = reference.matrix(scores)
    assert pattern.retained(scores) == pytest.approx(reference.retained_nm(matrix, 2, 4))
    mask = pattern.keep(scores)
    assert mask.shape == shape
    assert np.array_equal(reference.matrix(mask), reference.keep_nm(matrix, 2, 4))
    assert pattern.accepts(mask)
    assert not pattern.accepts(np.ones(shape, dtype=np.bool_))


def test_accepts_allows_less_and_refuses_more() -> None:
    """A mask may keep less than the pattern allows, never more, and must tile."""
    mask = np.array([[True, True, False, False]])
    assert NM(2, 4).accepts(mask)
    assert NM(3, 4).accepts(mask)
    assert not NM(1, 4).accepts(mask)
    assert not NM(2, 4).accepts(mask[:, :3])
    assert not NM(2, 4).accepts(mask[0])
    assert Unstructured(0.5).accepts(mask)
    assert not Unstructured(0.25).accepts(mask)


def test_large_matrices_are_summed_in_pieces() -> None:
    """A matrix beyond one block of work has the value of its parts."""
    scores = np.random.default_rng(0).random((1100, 4096), dtype=np.float32)
    pattern = NM(2, 4)
    parts = pattern.retained(scores[:500]) + pattern.retained(scores[500:])
    assert pattern.retained(scores) == pytest.approx(parts, rel=1e-12)


@given(pattern=strategies.patterns())
def test_text_and_pattern_are_inverse(pattern: Pattern) -> None:
    """The text of a pattern parses back to it; patterns pass through the parser."""
    assert parse_pattern(str(pattern)) == pattern
    assert parse_pattern(f" {pattern} ") == pattern
    assert parse_pattern(pattern) is pattern


def test_axes_say_what_matters() -> None:
    """Columns matter where something is dropped from groups, and rows never."""
    assert NM(2, 4).axes == {"cols"}
    assert NM(4, 4).axes == NM(1, 1).axes == Unstructured(0.5).axes == frozenset()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4:2", "1 <= N <= M; got 4:2"),
        ("0:4", "got 0:4"),
        ("2:0", "M must lie in 1..32, got 2:0"),
        (f"2:{MAX_M + 1}", "M must lie in 1..32, got 2:33"),
        ("unstructured@0", "share kept must lie in"),
        ("unstructured@1.5", "got 1.5"),
    ],
)
def test_impossible_numbers_are_refused(text: str, words: str) -> None:
    """The error names the numbers and the range they must lie in."""
    with pytest.raises(PatternError, match=words):
        parse_pattern(text)


@pytest.mark.parametrize(
    "text", ["2/4", "2:4:8:16", "", "two:four", "-2:4", "2.0:4", "unstructred@0.5"]
)
def test_unknown_patterns_list_the_known_forms(text: str) -> None:
    """A text of no known form is an error that shows the forms."""
    with pytest.raises(UnknownName, match="N:M") as caught:
        parse_pattern(text)
    assert repr(text) in str(caught.value)
    assert "unstructured@SHARE" in str(caught.value)


@pytest.mark.parametrize("thing", [(2, 4), 24, None, NM, 0.5], ids=repr)
def test_what_is_no_pattern_is_refused(thing: object) -> None:
    """Neither text nor pattern: the error says so at once, not deep inside."""
    with pytest.raises(PatternError, match="pattern"):
        parse_pattern(thing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n", "m"), [(2.0, 4), (2, 4.0), (True, 4), (np.bool_(True), 4), ("2", "4")], ids=repr
)
def test_counts_must_be_integers(n: object, m: object) -> None:
    """N and M are counts: anything else is refused when the pattern is made."""
    with pytest.raises(PatternError, match="integers"):
        NM(n, m)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "words"),
    [((4, 6), "pad=True to add 2 zero"), ((4,), "two axes"), ((0, 4), "empty"), ((4, 0), "empty")],
    ids=str,
)
def test_shapes_that_do_not_fit_are_refused(shape: tuple[int, ...], words: str) -> None:
    """The error names the shape and, where padding helps, how much."""
    with pytest.raises(PatternError, match=words):
        NM(2, 4).check(shape)


def test_numbers_of_numpy_become_plain_ones() -> None:
    """A pattern made of narrow numpy numbers is the pattern of plain ones: nothing wraps."""
    pattern = NM(np.int8(2), np.int8(4))  # type: ignore[arg-type]
    assert (type(pattern.n), type(pattern.m)) == (int, int)
    assert pattern == NM(2, 4)
    scores = np.abs(ps.instances.gaussian(2, 512, seed=0))
    assert ps.search(scores, pattern, solver="none").score == NM(2, 4).retained(scores)
    assert type(Unstructured(np.float32(0.5)).kept) is float  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", ["0.5", None, True, 0.5j, float("nan")], ids=repr)
def test_shares_must_be_numbers(kept: object) -> None:
    """A share is a number: anything else is refused by name when the pattern is made."""
    with pytest.raises(PatternError, match=r"share kept must (be a number|lie in)"):
        Unstructured(kept)  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [1e-17, 1e-3, 1 / 3, 1 - 1e-17])
def test_value_mask_and_bound_agree_on_how_many_stay(kept: float) -> None:
    """However small the share, the mask keeps what the value says and the bound is no less."""
    scores = np.abs(ps.instances.gaussian(3, 7, seed=0))
    pattern = Unstructured(kept)
    problem = ps.single(scores, pattern)
    value = pattern.retained(scores)
    assert value == pytest.approx(float(scores[pattern.keep(scores)].sum(dtype=float)))
    for limit in (ps.bound(problem).value, ps.bounds.unconstrained(problem)):
        assert limit >= value * (1 - 1e-12)
    assert parse_pattern(str(pattern)) == pattern


def test_shares_in_scientific_notation() -> None:
    """A small share may be written with an exponent."""
    for text in ("unstructured@1e-3", "unstructured@1.E-03", "unstructured@.01e-1"):
        assert parse_pattern(text) == Unstructured(1e-3)


@pytest.mark.parametrize(
    "text", ["\u0662:\u0664", "\uff12:\uff14", "unstructured@0.\u0665", f"2:{'4' * 5000}"]
)
def test_only_plain_short_digits_make_numbers(text: str) -> None:
    """Digits of other scripts, and thousands of digits, are no numbers of a pattern."""
    with pytest.raises(UnknownName, match="N:M"):
        parse_pattern(text)
