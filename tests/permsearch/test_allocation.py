"""Patterns for all layers under budgets: equal to trying every choice, and never over a budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import permsearch as ps
from permsearch.allocation import Option, allocate, dense_costs, frontier, layer_options
from permsearch.allocation.relaxation import Table, relax
from permsearch.errors import ProblemError
from permsearch.kernels.dominance import undominated

Options = Mapping[str, Sequence[Option]]


def by_trying(options: Options, budgets: Mapping[str, float]) -> float | None:
    """Return the largest value within the budgets, None where nothing fits: the slow twin."""
    best = None
    for choice in itertools.product(*options.values()):
        sums = {key: math.fsum(option.costs[key] for option in choice) for key in budgets}
        if all(sums[key] <= budget * (1 + 1e-9) for key, budget in budgets.items()):
            value = math.fsum(option.value for option in choice)
            best = value if best is None else max(best, value)
    return best


@st.composite
def tables(draw: st.DrawFn, most_budgets: int = 3) -> tuple[Options, Mapping[str, float]]:
    """Draw up to five layers of up to four options, whole or fractional, with ties and zeros."""
    keys = [f"budget {i}" for i in range(draw(st.integers(1, most_budgets)))]
    unit = draw(st.sampled_from([1.0, 1 / 7, 1e6, 1e-6, 1e30, 1e-30]))
    numbers = st.integers(0, 8).map(lambda n: n * unit)
    option = st.builds(
        lambda value, costs: Option(None, value, dict(zip(keys, costs, strict=True))),
        numbers,
        st.lists(numbers, min_size=len(keys), max_size=len(keys)),
    )
    layers = draw(st.lists(st.lists(option, min_size=1, max_size=4), min_size=1, max_size=5))
    budgets = {key: draw(st.integers(0, 25)) * unit for key in keys}
    return {str(i): choices for i, choices in enumerate(layers)}, budgets


def table_of(unit: float) -> tuple[Options, Mapping[str, float]]:
    """Return two layers and three budgets, one of which the rounded relaxation overdraws."""
    keys = ("budget 0", "budget 1", "budget 2")

    def option(cost: float) -> Option:
        return Option(None, 0.0, dict(zip(keys, (cost * unit, 0.0, 0.0), strict=True)))

    budgets = dict(zip(keys, (5 * unit, 0.0, 0.0), strict=True))
    return {"0": [option(5)], "1": [option(1), option(0)]}, budgets


@example(table_of(1e-30))
@example(table_of(1e-310))
@given(tables())
def test_allocation_equals_trying_every_choice(table: tuple[Options, Mapping[str, float]]) -> None:
    """The value is the optimum, the bound is no less, the costs keep the budgets."""
    options, budgets = table
    best = by_trying(options, budgets)
    if best is None:
        with pytest.raises(ProblemError, match=r"budget|fits"):
            allocate(options, budgets)
        return
    plan = allocate(options, budgets)
    close = 1e-8 * best
    assert abs(plan.value - best) <= close
    assert plan.bound >= best - close
    assert plan.status is ps.Status.OPTIMAL
    assert plan.value == pytest.approx(math.fsum(o.value for o in plan.chosen.values()))
    for key, budget in budgets.items():
        assert plan.costs[key] <= budget * (1 + 1e-9)


@given(tables())
def test_relaxation_bounds_and_its_choice_fits(
    table: tuple[Options, Mapping[str, float]],
) -> None:
    """No choice is worth more than the bound less its losses; the rounded choice fits."""
    options, budgets = table
    flat = [option for choices in options.values() for option in choices]
    first = np.append(0, np.cumsum([len(choices) for choices in options.values()]))
    costs = np.array([[option.costs[key] for option in flat] for key in budgets])
    values = np.array([option.value for option in flat])
    values /= max(values.max(), 1e-300)  # as `allocate` hands them on
    made = Table(values, costs, first.astype(np.int64), np.array(list(budgets.values())))
    relaxed = relax(made)
    if relaxed is None:
        assert by_trying(options, budgets) is None
        return
    close = 1e-9 * max(1e-9, abs(relaxed.bound))
    numbers = [range(first[i], first[i + 1]) for i in range(made.layers)]
    for choice in itertools.product(*numbers):
        taken = np.array(choice)
        if (costs[:, taken].sum(axis=1) <= made.budgets).all():
            assert made.value(taken) <= relaxed.bound - relaxed.losses[taken].sum() + close
    assert relaxed.choice is None or made.fits(relaxed.choice)


def test_without_states_the_prover_finds_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the states are too many, CP-SAT starts from the rounded choice and proves the rest."""
    monkeypatch.setattr(frontier, "_MOST_STATES", 0)
    rng = np.random.default_rng(0)
    options = {
        str(i): [Option(None, v, {"a": c, "b": d}) for v, c, d in rng.random((3, 3))]
        for i in range(6)
    }
    budgets = {"a": 3.0, "b": 3.2}
    plan = allocate(options, budgets)
    best = by_trying(options, budgets)
    assert best is not None
    assert plan.value == pytest.approx(best, rel=1e-8)
    assert plan.status is ps.Status.OPTIMAL


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), max_size=30))
def test_undominated_states_are_those_that_no_other_beats(states: list[tuple[int, ...]]) -> None:
    """A state stays when every state of no larger costs before it is worth less."""
    ordered = sorted(states, key=lambda s: (s[0], s[1], -s[2]))
    ranks = np.array([s[1] for s in ordered], np.int64)
    values = np.array([s[2] for s in ordered], np.float64)
    kept = undominated(ranks, values)
    for place, state in enumerate(ordered):
        beaten = any(o[1] <= state[1] and o[2] >= state[2] for o in ordered[:place])
        assert kept[place] == (not beaten)


def layers() -> list[ps.Term]:
    """Return three layers of different kinds and sizes."""
    gaussian, heavy = ps.instances.gaussian, ps.instances.student_t
    return [
        ps.Term(np.abs(gaussian(64, 32, seed=1)), "2:4", name="a"),
        ps.Term(np.abs(heavy(32, 32, seed=2)), "2:4", name="b"),
        ps.Term(np.abs(gaussian(16, 6, seed=3)), "1:2", name="c"),
    ]


def test_options_hold_what_each_pattern_keeps_and_takes() -> None:
    """Dense comes first, patterns that do not fit are left out, sizes are bits."""
    options = layer_options(
        layers(),
        ["2:4", "1:4"],
        weights={"b": 2.0},
        costs={"time": lambda pattern, shape: shape[0] * (1.0 if pattern is None else 0.5)},
    )
    assert [str(option) for option in options["a"]] == ["dense", "2:4", "1:4"]
    assert [str(option) for option in options["c"]] == ["dense"]
    term = layers()[0]
    share = ps.NM(2, 4).retained(term.scores) / float(term.scores.sum(dtype=np.float64))
    assert options["a"][1].value == pytest.approx(share)
    assert options["b"][0].value == 2.0
    assert options["a"][1].costs == {"size": 64 * 32 * 9.0, "time": 32.0}
    assert dense_costs(options)["size"] == 16.0 * (64 * 32 + 32 * 32 + 16 * 6)


def test_half_the_size_takes_the_layers_that_lose_least() -> None:
    """A budget between dense and sparse is used, never exceeded, and more of it is worth more."""
    options = layer_options(layers(), ["2:4", "1:4"])
    dense = dense_costs(options)["size"]
    values = []
    for share in (0.4, 0.6, 0.8, 1.0):
        plan = allocate(options, {"size": share * dense})
        assert plan.costs["size"] <= share * dense
        values.append(plan.value)
    assert values == sorted(values)
    assert values[-1] == 3.0
    assert set(allocate(options, {"size": dense}).patterns.values()) == {None}


@pytest.mark.parametrize(
    ("options", "budgets", "words"),
    [
        ({}, {"size": 1.0}, "at least one layer"),
        ({"a": []}, {"size": 1.0}, "a has no options"),
        ({"a": [Option(None, 1.0)]}, {"size": 1.0}, "no cost 'size'"),
        ({"a": [Option(None, 1.0, {"size": 2.0})]}, {"size": 1.0}, "too small.*take 2"),
        ({"a": [Option(None, 1.0, {"size": 2.0})]}, {"size": math.nan}, "finite number >= 0"),
        ({"a": [Option(None, 1.0, {"size": 2.0})]}, {}, "one budget"),
    ],
)
def test_errors_name_the_layer_and_the_way_out(
    options: Options, budgets: Mapping[str, float], words: str
) -> None:
    """What cannot be allocated is told with the layer, the budget and the numbers."""
    with pytest.raises(ProblemError, match=words):
        allocate(options, budgets)


def test_budgets_that_only_fit_one_by_one_are_told() -> None:
    """Each budget can be kept by itself, both together cannot."""
    costs = ({"x": 0.0, "y": 2.0}, {"x": 2.0, "y": 0.0})
    options = {"a": [Option(None, 1.0, cost) for cost in costs]}
    with pytest.raises(ProblemError, match="together"):
        allocate(options, {"x": 0.5, "y": 0.5})


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None])
def test_an_option_needs_numbers(value: float) -> None:
    """Values and costs are finite numbers, costs no less than zero."""
    with pytest.raises(ProblemError, match="finite"):
        Option(None, value)
    with pytest.raises(ProblemError, match="'size'"):
        Option(None, 1.0, {"size": value})
    with pytest.raises(ProblemError, match=">= 0"):
        Option(None, 1.0, {"size": -1.0})


def test_layers_need_names_of_their_own() -> None:
    """Two layers of one name could not be told apart in the plan."""
    one = layers()[0]
    with pytest.raises(ProblemError, match="name of its own"):
        layer_options([one, one], ["2:4"])


def test_weights_name_layers_and_are_not_negative() -> None:
    """A misspelt layer is told, as is a weight that would turn the best choice into the worst."""
    term = ps.Term(np.ones((4, 4)), "2:4", name="a")
    with pytest.raises(ps.UnknownName, match="unknown layer 'b'"):
        layer_options([term], ["2:4"], weights={"b": 1.0})
    for weight in (-1.0, math.nan, math.inf):
        with pytest.raises(ProblemError, match="weight of a must be finite and >= 0"):
            layer_options([term], ["2:4"], weights={"a": weight})
