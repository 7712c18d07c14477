"""Instances are seeded, and planted ones have the optimum that was planted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permsearch as ps
from permsearch.errors import PatternError, UnknownName
from permsearch.instances import KINDS, instance, lognormal_columns, planted, student_t
from permsearch.patterns import NM
from tests import reference, strategies


@pytest.mark.parametrize("kind", KINDS)
def test_instances_are_seeded(kind: str) -> None:
    """The same arguments give the same float32 array, another seed another one."""
    first = instance(kind, 5, 8, seed=3)
    assert first.shape == (5, 8)
    assert first.dtype == np.float32
    assert np.isfinite(first).all()
    assert np.array_equal(first, instance(kind, 5, 8, seed=3))
    assert not np.array_equal(first, instance(kind, 5, 8, seed=4))


def test_seeded_instances_stay_the_same_for_good() -> None:
    """Benchmarks quote these arrays: a changed generator must be noticed."""
    assert ps.instances.gaussian(2, 2, seed=0)[0, 0] == np.float32(0.12573022)
    assert ps.instances.uniform(128, 64, seed=1)[0, 0] == np.float32(0.5118216)


def test_column_scales_are_lognormal() -> None:
    """The columns' standard deviations spread like the exponential of a normal."""
    spread = np.log(lognormal_columns(512, 2000, seed=0).std(axis=0))
    assert abs(spread.mean()) < 0.1
    assert abs(spread.std() - 1) < 0.1


def test_heavy_tails_grow_with_fewer_degrees_of_freedom() -> None:
    """Student's t has larger extremes the fewer degrees of freedom it has."""
    assert np.abs(student_t(100, 100, df=1.5)).max() > np.abs(student_t(100, 100, df=30)).max()


@given(pattern=strategies.nm_patterns(8), groups=st.integers(1, 5), seed=strategies.seeds)
def test_planted_order_retains_everything(pattern: NM, groups: int, seed: int) -> None:
    """Under the hidden order every group has exactly N entries of 1 to 2 in every row."""
    weight, order = planted(6, groups * pattern.m, pattern, seed=seed)
    assert reference.is_permutation(order.tolist())
    hidden = weight[:, order]
    assert reference.retained_nm(hidden, pattern.n, pattern.m) == pytest.approx(float(weight.sum()))
    assert ((hidden.reshape(-1, pattern.m) > 0).sum(axis=1) == pattern.n).all()
    assert weight[weight > 0].min() >= 1
    assert weight.max() <= 2


def test_a_planted_optimum_is_recognised() -> None:
    """Started from the hidden order, a search knows at once that nothing is better."""
    weight, order = planted(16, 24, "2:4", seed=5)
    result = ps.search(weight, "2:4", solver="none", start=order)
    assert result.retained == pytest.approx(1)
    assert result.status is ps.Status.OPTIMAL
    assert result.gap == 0


def test_wrong_requests_are_named() -> None:
    """An unknown kind, a pattern without groups and a ragged size are errors."""
    with pytest.raises(UnknownName, match="did you mean 'gaussian'"):
        instance("gausian", 2, 2)
    with pytest.raises(PatternError, match=r"planted instances are N:M; got unstructured@0\.5"):
        planted(4, 8, "unstructured@0.5")
    with pytest.raises(PatternError, match="6 columns do not split"):
        planted(4, 6, "2:4")
