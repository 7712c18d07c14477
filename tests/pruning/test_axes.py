"""Axes: what is learnt about an atom holds wherever it is used."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruning.axes import (
    Atom,
    Conflict,
    axis,
    cut,
    direct_sum,
    flat,
    leaves,
    merge,
    pin,
    rows_of,
    sections,
    size,
    split,
    unify,
)

shapes = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@given(shapes)
def test_a_view_and_back_is_nothing(shape: list[int]) -> None:
    """Splitting into rows and joining again gives the same positions."""
    whole = axis(prod(shape))
    parts = rows_of(whole, shape)
    assert [size(part) for part in parts] == shape
    assert flat(atom for part in parts for atom in part) == flat(whole)


@given(shapes, st.data())
def test_two_views_of_one_axis_agree(shape: list[int], data: st.DataObject) -> None:
    """Cutting at any divisors never fails on a leaf, whatever was cut before."""
    total = prod(shape)
    whole = axis(total, "leaf")
    rows_of(whole, shape)
    minor = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    try:
        major, rest = split(whole, minor)
    except Conflict:
        return
    assert size(major) == total // minor
    assert size(rest) == minor


@given(st.lists(st.integers(1, 5), min_size=2, max_size=5))
def test_sections_of_a_leaf_are_a_direct_sum(sizes: list[int]) -> None:
    """Pieces have the sizes asked for, and laid end to end they are the axis."""
    whole = axis(sum(sizes))
    pieces = sections(whole, sizes)
    assert [size(piece) for piece in pieces] == sizes
    merge(whole, direct_sum(pieces))
    assert list(leaves(whole)) == [leaf for piece in pieces for leaf in leaves(piece)]


def test_equal_axes_share_what_happens_later() -> None:
    """A cut of one is a cut of the other."""
    one, two = axis(12, "one"), axis(12, "two")
    unify(one, two)
    head, _ = cut(one, 4)
    assert next(leaves(two)) is next(leaves(head))
    assert [leaf.size for leaf in leaves(two)] == [4, 8]


def test_pins_go_where_an_atom_goes() -> None:
    """Pinned before or after refining, all that is below is pinned."""
    one = axis(12, "one")
    pin(one, "before")
    major, minor = split(one, 3)
    two = axis(12, "two")
    unify(one, two)
    pin(minor, "after")
    assert all("before" in leaf.pins for leaf in leaves(two))
    assert ["after" in leaf.pins for leaf in leaves(two)] == [False, True]
    assert size(major) == 4


def test_pins_of_both_sides_are_kept() -> None:
    """Unifying two leaves joins their reasons; a leaf that becomes a sum hands its pins down."""
    one, two = axis(6, "one", "this"), axis(6, "two", "that")
    unify(one, two)
    assert set(next(leaves(one)).pins) == {"this", "that"}
    whole = direct_sum([axis(2, "a"), axis(4, "b")])
    unify(one, whole)
    assert all(set(leaf.pins) == {"this", "that"} for leaf in leaves(whole))


def test_a_conflict_pins_both_sides() -> None:
    """Sizes that do not divide cannot be tied; both stay in place, with the reason."""
    one, two = (Atom(6), Atom(2)), (Atom(4), Atom(3))
    unify(one, two)
    assert all("conflict" in next(iter(leaf.pins)) for side in (one, two) for leaf in leaves(side))


def test_a_cut_inside_a_block_is_a_conflict() -> None:
    """Blocks cannot be cut through."""
    with pytest.raises(Conflict, match="inside a block of 3"):
        cut((Atom(4), Atom(3)), 4)


def test_sums_are_viewed_in_rows_that_divide_their_parts() -> None:
    """[Sum(a, b), c] and Sum([a, c], [b, c]) are one axis; parts that do not divide conflict."""
    a, b = axis(4, "a"), axis(8, "b")
    major, minor = split(direct_sum([a, b]), 4)
    assert [leaf.size for leaf in leaves(major)] == [2]
    assert size(minor) == 4
    with pytest.raises(Conflict, match="viewed in rows of 4"):
        split(direct_sum([axis(6), axis(6)]), 4)


def test_a_repeated_part_is_one_leaf() -> None:
    """The same axis twice in a sum stays the same axis."""
    gate = axis(5, "gate")
    whole, weight = direct_sum([gate] * 4), axis(20, "weight")
    unify(weight, whole)
    assert set(leaves(weight)) == set(leaves(gate))


def test_single_positions_carry_no_freedom() -> None:
    """A dimension of one position is the empty axis and binds nothing."""
    assert axis(1) == ()
    assert size(()) == 1
    assert direct_sum([axis(1), axis(1)])[0].size == 2
    assert list(leaves(direct_sum([axis(1), axis(1)]))) == []
