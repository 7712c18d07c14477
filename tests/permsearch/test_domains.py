"""A domain allows exactly the orders that its segments and its width describe."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permsearch.domains import Domain, Fixed, Free, Segments, Units, contains, is_fixed, sample
from permsearch.domains import size_of as size
from permsearch.errors import OrderError
from permsearch.testing import all_orders
from tests import reference, strategies

SMALL: list[Domain] = [
    Free(4),
    Free(1),
    Segments((2, 2)),
    Segments((1, 3)),
    Segments((1, 1, 1)),
    Units(2, 2),
    Units(1, 4),
    Units(3, 2),
    Fixed(4),
]


@pytest.mark.parametrize("domain", SMALL, ids=repr)
def test_legal_orders_are_those_of_the_definition(domain: Domain) -> None:
    """Among all permutations the domain takes those that a plain check of every item takes."""
    orders = list(itertools.permutations(range(size(domain))))
    taken = [order for order in orders if contains(domain, order)]
    assert taken == [o for o in orders if reference.legal(o, domain.segments, domain.width)]
    listed = sorted(tuple(order.tolist()) for order in all_orders(domain))
    assert listed == taken
    assert is_fixed(domain) == (len(taken) == 1)


@given(domain=strategies.domains(), seed=strategies.seeds)
def test_samples_are_legal(domain: Domain, seed: int) -> None:
    """Every drawn order is one of the domain's, and a seed draws the same order again."""
    order = sample(domain, np.random.default_rng(seed))
    assert contains(domain, order)
    assert reference.legal(order.tolist(), domain.segments, domain.width)
    assert np.array_equal(order, sample(domain, np.random.default_rng(seed)))


@given(domain=strategies.domains(), data=st.data())
def test_contains_agrees_with_the_definition(domain: Domain, data: st.DataObject) -> None:
    """On orders that may or may not be legal the fast check and the plain one agree."""
    order = data.draw(strategies.orders(size(domain)))
    assert contains(domain, order) == reference.legal(order.tolist(), domain.segments, domain.width)


@pytest.mark.parametrize("domain", [d for d in SMALL if size(d) == 4], ids=repr)
def test_samples_reach_every_legal_order(domain: Domain) -> None:
    """Sampling leaves no legal order out."""
    rng = np.random.default_rng(0)
    drawn = {tuple(sample(domain, rng).tolist()) for _ in range(400)}
    assert drawn == {tuple(order.tolist()) for order in all_orders(domain)}


@pytest.mark.parametrize("wrong", [[0, 1, 2], [0, 0, 1, 2], [0.0, 1.0, 2.0, 3.0], [[0, 1, 2, 3]]])
def test_what_is_no_order_is_in_no_domain(wrong: list[int]) -> None:
    """A malformed order is answered with no, not with an error."""
    assert not any(contains(domain, wrong) for domain in SMALL if size(domain) == 4)


def test_domains_are_values() -> None:
    """Equal domains are equal and hash alike, however their lengths were given."""
    assert Segments((2, 3)) == Segments([2, 3])  # type: ignore[arg-type]
    assert hash(Segments((2, 3))) == hash(Segments([2, 3]))  # type: ignore[arg-type]
    assert Free(4) != Free(3)
    assert all(isinstance(domain, Domain) for domain in SMALL)


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (Free, (0,), "free axis must be at least 1, got 0"),
        (Fixed, (-1,), "got -1"),
        (Units, (0, 2), "number of units must be at least 1"),
        (Units, (2, 0), "width of a unit must be at least 1"),
        (Segments, ((2, 0),), "length of a segment must be at least 1"),
        (Segments, ((),), "at least one segment"),
    ],
)
def test_empty_domains_are_refused(kind: type, arguments: tuple[object, ...], words: str) -> None:
    """A domain of nothing is an error that names the number."""
    with pytest.raises(OrderError, match=words):
        kind(*arguments)
