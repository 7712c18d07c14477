"""Of several orders, for each variable the one after which layers' outputs stray least.

Kept scores are a guess at what a mask costs. With Gram matrices the cost itself is known, after
the layer's own method has made up for what it can, and without running the model: so orders are
searched in several ways, and compared by that. The searched order is one of them, so the choice is
never worse by this measure. (Pool & Yu 2021 and later work found proxy and loss to disagree.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from permsearch.orders import Order
from permsearch.problem import random_solution
from permsearch.result import SearchResult
from permsearch.solve import solve
from pruning.drafts import Draft
from pruning.gather import gathered_orders
from pruning.groupwise import components
from pruning.network import Network
from pruning.permute import checked
from pruning.plan import PrunePlan
from pruning.pruned import Task, error_share, fitted
from pruning.recipe import Recipe
from pruning.reorder import Move, moves_of
from pruning.searched import problem_of, scored
from pruning.sources import Source

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Way:
    """One way to find orders.

    Attributes
    ----------
    scores
        What is searched on; None: the recipe's own.
    random
        Whether orders are drawn instead of searched.
    """

    name: str
    seed: int
    scores: str | None = None
    random: bool = False


def ways(count: int, seed: int) -> list[Way]:
    """Return so many different ways: other scores, a random order, then other seeds.

    Examples
    --------
    >>> [way.name for way in ways(5, 0)]
    ['searched', 'obs_diagonal', 'seed 1', 'random', 'energy']
    """
    kinds = [
        Way("searched", seed),
        Way("obs_diagonal", seed, "obs_diagonal"),
        Way(f"seed {seed + 1}", seed + 1),
        Way("random", seed, random=True),
        Way("energy", seed, "energy"),
    ]
    kinds += [Way(f"seed {seed + n}", seed + n) for n in range(2, count - len(kinds) + 2)]
    return kinds[:count]


def reranked(
    search: SearchResult,
    network: Network,
    plan: PrunePlan,
    recipe: Recipe,
    weights: Mapping[str, torch.Tensor],
    scores: Mapping[str, torch.Tensor],
    source: Source,
) -> tuple[SearchResult, dict[str, Any]]:
    """Return the search with each variable's best order, and how it was chosen.

    Variables that meet in a weight, and weights that share one, are judged together, by the sum of
    the layers' errors, each as a share of its own output's energy. Ties go to the searched order.
    Layers without a Gram matrix have no say.

    Parameters
    ----------
    search
        The order that is searched without this.
    weights, scores
        By base name, in the layout that came in.
    """
    every = ways(recipe.rerank, recipe.seed)
    solutions = [search.solution]
    for way in every[1:]:
        solutions.append(_solution(way, search, network, plan, recipe, weights, scores, source))
    errors = [dict[str, float]() for _ in every]
    moves = [_moves(network, solution) for solution in solutions]
    tasks = {
        base: Task(base, layers, network, scores[base], ())
        for base, layers in plan.by_base().items()
    }
    for stage in source.before(whole=True):
        for base, inputs in stage.items():
            for own, found in zip(moves, errors, strict=True):
                error = _error(tasks[base], weights[base], own.get(base, ()), inputs)
                if error is not None:
                    found[base] = error
    chosen, told = _chosen(network, plan, every, solutions, errors)
    score = search.problem.evaluate(chosen)
    return replace(search, solution=chosen, score=score), told


def _solution(
    way: Way,
    search: SearchResult,
    network: Network,
    plan: PrunePlan,
    recipe: Recipe,
    weights: Mapping[str, torch.Tensor],
    scores: Mapping[str, torch.Tensor],
    source: Source,
) -> Mapping[str, Order]:
    if way.random:
        return random_solution(search.problem, seed=way.seed)
    problem = search.problem
    if way.scores is not None:
        gram = {layer.base for layer in plan.layers if layer.gram}
        wanted = gram if way.scores == "obs_diagonal" else set(scores)
        other = scored(weights, plan, source, dict.fromkeys(wanted, way.scores))
        found = problem_of(network, plan, other, recipe.weigh)
        assert found is not None
        problem = found
    return solve(problem, recipe.solver, stop=recipe.stop, seed=way.seed).solution


def _moves(network: Network, solution: Mapping[str, Order]) -> dict[str, list[Move]]:
    """Return what orders do to every tensor, gathers included."""
    found = moves_of(network, checked(network, solution))
    for layer, order in gathered_orders(network, solution).items():
        found.setdefault(f"{layer}.weight", []).append(Move((1,), order))
    return found


def _error(task: Task, weight: torch.Tensor, moves: Sequence[Move], inputs: Any) -> float | None:
    if inputs.gram is None:
        return None
    dense = weight.detach()
    return error_share(dense, fitted(task, dense, task.scores, moves, inputs).values, inputs)


def _chosen(
    network: Network,
    plan: PrunePlan,
    every: Sequence[Way],
    solutions: Sequence[Mapping[str, Order]],
    errors: Sequence[Mapping[str, float]],
) -> tuple[dict[str, Order], dict[str, Any]]:
    """Return each part's best orders, and which way they came from with what errors."""
    chosen = dict(solutions[0])
    wins = {way.name: 0 for way in every}
    sums = [0.0, 0.0]
    for names, bases in _parts(network, plan):
        own = [sum(found.get(base, 0.0) for base in bases) for found in errors]
        best = min(range(len(own)), key=lambda at: own[at])
        wins[every[best].name] += 1
        sums = [sums[0] + own[0], sums[1] + own[best]]
        chosen.update({name: solutions[best][name] for name in names})
    return chosen, {"wins": wins, "error_searched": sums[0], "error": sums[1]}


def _parts(network: Network, plan: PrunePlan) -> Iterator[tuple[set[str], set[str]]]:
    """Yield variables that are chosen together with the weights that they are judged by."""
    joined: list[tuple[set[str], set[str]]] = []
    ordered = {layer.tensor for layer in plan.layers if layer.rule.permute}
    terms: list[Draft] = [draft for draft in plan.search.drafts if draft.variables]
    for part in components([draft for draft in terms if draft.tensor in ordered])[0]:
        names = {name for draft in part for name in draft.variables}
        readers = [draft for draft in terms if names.intersection(draft.variables)]
        bases = {network.base(draft.tensor) for draft in readers}
        for other in [other for other in joined if other[1] & bases]:
            joined.remove(other)
            names, bases = names | other[0], bases | other[1]
        joined.append((names, bases))
    yield from joined
