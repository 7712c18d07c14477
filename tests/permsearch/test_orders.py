"""Functions on orders obey the laws of permutations and refuse what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permsearch as ps
from permsearch.errors import OrderError
from permsearch.orders import Order, as_order, compose, expand, identity, invert
from tests import reference, strategies


@st.composite
def order_pairs(draw: st.DrawFn) -> tuple[Order, Order]:
    """Draw two orders of one size."""
    size = draw(st.integers(1, 12))
    return draw(strategies.orders(size)), draw(strategies.orders(size))


@given(order=strategies.orders())
def test_inverse_undoes(order: Order) -> None:
    """An order and its inverse cancel, on either side, and on data."""
    size = order.size
    assert invert(order).tolist() == reference.inverted(order.tolist())
    assert np.array_equal(compose(order, invert(order)), identity(size))
    assert np.array_equal(compose(invert(order), order), identity(size))
    items = np.arange(size) * 7
    assert np.array_equal(items[order][invert(order)], items)


@given(pair=order_pairs())
def test_composition_is_one_after_the_other(pair: tuple[Order, Order]) -> None:
    """Applying a composition is applying first, then second."""
    first, second = pair
    items = np.arange(first.size) * 3 + 1
    both = compose(first, second)
    assert np.array_equal(items[both], items[first][second])
    assert both.tolist() == reference.composed(first.tolist(), second.tolist())
    assert np.array_equal(invert(both), compose(invert(second), invert(first)))


@given(pair=order_pairs(), third=st.randoms(use_true_random=False))
def test_composition_is_associative(pair: tuple[Order, Order], third: Any) -> None:
    """How a chain of orders is bracketed does not matter; the identity is neutral."""
    first, second = pair
    last = np.array(third.sample(range(first.size), first.size))
    left = compose(compose(first, second), last)
    assert np.array_equal(left, compose(first, compose(second, last)))
    assert np.array_equal(compose(identity(first.size), first), first)
    assert np.array_equal(compose(first, identity(first.size)), first)


@given(order=strategies.orders(), width=st.integers(1, 5))
def test_expansion_moves_whole_units(order: Order, width: int) -> None:
    """Expanded orders move units of consecutive items and leave their inside alone."""
    assert expand(order, width).tolist() == reference.expanded(order.tolist(), width)
    assert np.array_equal(invert(expand(order, width)), expand(invert(order), width))


@pytest.mark.parametrize(
    "given_order",
    [
        [2, 0, 1],
        (2, 0, 1),
        np.array([2, 0, 1], np.int8),
        np.array([2, 0, 1], np.uint8),
        np.array([2, 0, 1], np.uint64),
        np.array([2, 9, 0, 9, 1, 9])[::2],
    ],
    ids=["list", "tuple", "int8", "uint8", "uint64", "strided"],
)
def test_any_integers_make_an_order(given_order: Any) -> None:
    """Lists, tuples and integer arrays of any width become an intp array."""
    order = as_order(given_order, 3)
    assert order.dtype == np.intp
    assert order.flags.c_contiguous
    assert order.tolist() == [2, 0, 1]


def test_orders_are_copied() -> None:
    """The order that comes back is private: changing it does not reach the caller's array."""
    mine = np.array([1, 0, 2], dtype=np.intp)
    as_order(mine)[0] = 2
    assert mine.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([0, 1, 1, 3], ["item 1 2 times"]),
        ([0, 1, 3, 4], ["[3] = 4", "0..3"]),
        ([0, -1, 2, 3], ["[1] = -1", "0..3"]),
        ([0.0, 1.0, 2.0, 3.0], ["integer", "float64"]),
        ([True, False, True, False], ["integer", "bool"]),
        ([[0, 1], [2, 3]], ["1-D", "(2, 2)"]),
        (3, ["1-D", "()"]),
        ([0, 1, 2], ["3 entries", "4 items"]),
        ([[0, 1], [2]], ["no array"]),
        ("0123", ["1-D"]),
        (None, ["1-D"]),
    ],
    ids=str,
)
def test_what_is_no_order_is_refused(wrong: Any, words: list[str]) -> None:
    """The error names the array, the first offending entry and what was expected."""
    with pytest.raises(OrderError) as caught:
        as_order(wrong, 4, name="the start")
    for word in ["the start", *words]:
        assert word in str(caught.value)


def test_orders_of_different_sizes_do_not_compose() -> None:
    """Composition names the sizes that do not fit."""
    with pytest.raises(OrderError, match="second has 2 entries, but 3 items"):
        ps.compose([0, 2, 1], [1, 0])
