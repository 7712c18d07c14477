"""Search a network group by group, with the numbers of one group in memory at a time.

The terms of a network fall into parts that share no variable: for N:M patterns one part for each
group, for patterns that look at rows as well the groups that meet in a matrix. Each part is a
search of its own, so a checkpoint much larger than memory can be searched from its files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from permsearch.orders import Order
from permsearch.problem import Problem
from permsearch.result import SearchResult
from permsearch.solve import solve
from permsearch.stop import StoppingCriterion
from pruning.drafts import Draft
from pruning.formulate import Plan, terms
from pruning.network import Network

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, slots=True)
class Score:
    """What a part of a network's weights keeps, in sums of scores.

    Attributes
    ----------
    groups
        The groups that were searched together; none for weights that no order reaches.
    total, baseline, score, bound
        All scores, those kept as stored, those kept in the orders found, and what no order of
        these groups exceeds.
    bound_kind
        Which bound that is.
    cpu
        CPU seconds of the search.
    """

    groups: tuple[str, ...]
    total: float
    baseline: float
    score: float
    bound: float
    bound_kind: str
    cpu: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The orders of a whole network and what they keep.

    Attributes
    ----------
    solution
        The order of every group that was searched.
    scores
        One entry for each search, and one for all that no order reaches.
    steps, cpu, runtime
        Sums over the searches.
    """

    solution: Mapping[str, Order]
    scores: tuple[Score, ...]
    solver: str
    seed: int
    steps: int
    cpu: float
    runtime: float

    def share(self, name: str) -> float:
        """Return a sum over all parts ("baseline", "score" or "bound") as a share of the total."""
        total = sum(part.total for part in self.scores)
        return sum(getattr(part, name) for part in self.scores) / total if total else 1.0

    @property
    def retained(self) -> float:
        """Share of all scores that the best masks keep in the orders found."""
        return self.share("score")


def search_groups(
    network: Network,
    plan: Plan,
    scores: Any = "magnitude",
    *,
    state: Mapping[str, Any] | None = None,
    solver: str = "auto",
    stop: StoppingCriterion | None = None,
    seed: int = 0,
) -> Found:
    """Search every group of a network, one after another.

    Parameters
    ----------
    plan
        What `pruning.formulate.plan` returned.
    scores, state
        As in `pruning.formulate.formulate`; a lazy mapping is read tensor by tensor.
    solver, stop, seed
        As in `permsearch.solve`, for each search anew.
    """
    solution: dict[str, Order] = {}
    told: list[Score] = []
    steps, cpu, runtime = 0, 0.0, 0.0
    parts, rest = components(plan.drafts)
    for part in parts:
        groups = tuple(dict.fromkeys(name for draft in part for name in draft.variables))
        problem = _problem(network, plan, part, scores, state)
        result = solve(problem, solver, stop=stop, seed=seed)
        solution.update({name: result.solution[name] for name in groups})
        told.append(_score(groups, result))
        steps, cpu, runtime = (
            steps + result.steps,
            cpu + result.cpu,
            runtime + result.runtime,
        )
        del problem, result  # the numbers of one part at a time
    told += list(_still(network, rest, scores, state))
    return Found(solution, tuple(told), str(solver), seed, steps, cpu, runtime)


def _problem(
    network: Network,
    plan: Plan,
    part: Sequence[Draft],
    scores: Any,
    state: Mapping[str, Any] | None,
) -> Problem:
    held = {name for draft in part for name in (draft.rows, draft.cols) if name is not None}
    domains = {name: domain for name, domain in plan.domains.items() if name in held}
    return Problem(domains, tuple(terms(network, part, scores, state)))


def components(drafts: Sequence[Draft]) -> tuple[list[list[Draft]], list[Draft]]:
    """Return the terms that share variables, part by part, and those that have none."""
    import networkx as nx

    graph: nx.Graph[int | str] = nx.Graph()
    for index, draft in enumerate(drafts):
        graph.add_edges_from((index, name) for name in draft.variables)
    found = [
        [drafts[node] for node in sorted(n for n in part if isinstance(n, int))]
        for part in nx.connected_components(graph)
    ]
    return found, [draft for draft in drafts if not draft.variables]


def _score(groups: tuple[str, ...], result: SearchResult) -> Score:
    sums = (result.total, result.baseline, result.score, result.bound)
    return Score(groups, *sums, result.bound_kind, result.cpu)


def _still(
    network: Network, rest: Sequence[Draft], scores: Any, state: Mapping[str, Any] | None
) -> Iterator[Score]:
    """Yield one score for each term that no order reaches."""
    for term in terms(network, rest, scores, state):
        kept = term.retained({})
        yield Score((), float(term.scores.sum(dtype=float)), kept, kept, kept, "exact")
