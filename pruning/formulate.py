"""From a network's groups to a search problem: what each order is worth.

Every weight that is to carry a pattern becomes terms on the variables of the groups that reorder
its columns (and its rows, where the pattern looks at them). What no order can change stays in the
problem as a constant, so that shares are shares of all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from permsearch.arrays import as_scores, magnitude
from permsearch.domains import Domain, Free
from permsearch.errors import PatternError, ProblemError, unknown
from permsearch.patterns import Pattern, Scores, parse_pattern
from permsearch.problem import Problem, Term
from pruning.drafts import Draft, Turned, drafts
from pruning.gather import GATHERED
from pruning.network import Network

State: TypeAlias = Literal["absorbed", "gathered", "left"]
Patterns: TypeAlias = str | Pattern | Mapping[str, str | Pattern | None] | None


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """What becomes of one weight that is to carry a pattern.

    Attributes
    ----------
    state
        "absorbed": the orders of `groups` reach its columns at no cost at run time;
        "gathered": its columns have an order of their own, and its input is indexed at run time;
        "left": no order helps it.
    reason
        Why it is left, or what of it no order reaches.
    """

    tensor: str
    pattern: Pattern
    state: State
    groups: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        how = self.reason if self.state == "left" else ", ".join(self.groups)
        return f"{self.tensor}: {self.pattern} {self.state} ({how})"


@dataclass(frozen=True, slots=True, eq=False)
class Formulation:
    """A network's search problem and what becomes of each weight in it."""

    problem: Problem
    layers: tuple[LayerPlan, ...]
    skipped: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A search problem without numbers: needs shapes alone.

    Attributes
    ----------
    drafts
        The terms; `terms` fills them in.
    layers, skipped
        What becomes of each weight, and why weights were passed over.
    domains
        The variables: the network's groups, and those of gathered layers.
    """

    drafts: tuple[Draft, ...]
    layers: tuple[LayerPlan, ...]
    skipped: Mapping[str, str]
    domains: Mapping[str, Domain]


def plan(
    network: Network, patterns: Patterns, *, gather: Sequence[str] = (), scored: bool = False
) -> Plan:
    """Return what a network's search problem will be made of: see `formulate`.

    Parameters
    ----------
    scored
        Whether importances are given for weights that the model computes from others, too.
    """
    _check_globs(gather, sorted({name for name, _ in network.read}))
    found: list[Draft] = []
    layers: list[LayerPlan] = []
    skipped: dict[str, str] = {}
    domains: dict[str, Domain] = dict(network.domains)
    for tensor, pattern in _targets(network, patterns, skipped, scored=scored).items():
        dim = next(dim for name, dim in sorted(network.read) if name == tensor)
        shape = list(network.shapes[tensor])
        shape.insert(1, shape.pop(dim))
        try:
            pattern.check(tuple(shape))
        except PatternError as error:
            skipped[tensor] = str(error)
            continue
        if any(_fits(tensor, glob) for glob in gather):
            _check_gathered(network, tensor, dim)
            own, layer = _gathered(tensor, dim, pattern)
            domains[layer.groups[0]] = Free(shape[1])
        else:
            own, reasons = drafts(network, tensor, dim, pattern)
            groups = tuple(dict.fromkeys(name for draft in own for name in draft.variables))
            state: State = "absorbed" if groups else "left"
            layer = LayerPlan(tensor, pattern, state, groups, "; ".join(reasons))
        found += own
        layers.append(layer)
    return _kept(Plan(tuple(found), tuple(layers), skipped, domains))


def _gathered(tensor: str, dim: int, pattern: Pattern) -> tuple[list[Draft], LayerPlan]:
    """Return the term of a layer whose input is indexed at run time, with its own variable."""
    name = f"{layer_of(tensor)}{GATHERED}"
    draft = Draft(tensor, pattern, Turned(dim), cols=name)
    return [draft], LayerPlan(tensor, pattern, "gathered", (name,))


def _check_gathered(network: Network, tensor: str, dim: int) -> None:
    """Refuse a weight whose columns cannot have an order of their own at run time."""
    why = ""
    if dim != 1 or not tensor.endswith(".weight"):
        why = f"its columns lie along dimension {dim}: linear layers and convolutions can"
    if tensor in network.aliases.values():
        why = "its weight is tied to another, whose columns would move as well"
    if why:
        raise ProblemError(f"the input of {layer_of(tensor)} cannot be gathered: {why}.")


def _kept(planned: Plan) -> Plan:
    """Leave out weights whose value would depend on orders that their terms do not know."""
    searched = {name for draft in planned.drafts for name in draft.variables}
    skipped = dict(planned.skipped)
    for draft in planned.drafts:
        clash = sorted(draft.loose & searched)
        if clash:
            skipped[draft.tensor] = (
                f"{', '.join(clash)} would change what its {draft.pattern} mask keeps in a way "
                "that one term cannot say; give this layer no pattern, or its group no reader"
            )
    return replace(
        planned,
        drafts=tuple(draft for draft in planned.drafts if draft.tensor not in skipped),
        layers=tuple(layer for layer in planned.layers if layer.tensor not in skipped),
        skipped=skipped,
    )


def terms(
    network: Network,
    wanted: Sequence[Draft],
    scores: Any = "magnitude",
    state: Mapping[str, Any] | None = None,
) -> Iterator[Term]:
    """Yield the terms that drafts become with the numbers of the tensors in `state`."""
    tensors = network.whole if state is None else state
    for draft in wanted:
        yield term_of(draft, _scored(draft.tensor, network.pick(tensors, draft.tensor), scores))


def term_of(draft: Draft, importances: Scores) -> Term:
    """Return the term that a draft becomes with the scores of its weight."""
    taken = draft.take(importances)
    return Term(taken, draft.pattern, rows=draft.rows, cols=draft.cols, name=draft.tensor)


def formulate(
    network: Network,
    patterns: Patterns = None,
    scores: Any = "magnitude",
    *,
    state: Mapping[str, Any] | None = None,
    gather: Sequence[str] = (),
) -> Formulation:
    """Return the search problem of a network.

    Parameters
    ----------
    patterns
        One pattern for all weights that a contraction reads, or a mapping from globs over layer
        or tensor names to patterns (the first that fits counts, None leaves a layer out).
        None: the variables alone, no terms.
    scores
        "magnitude", a mapping from tensor names to importances, or a function of name and
        tensor that returns them.
    state
        The tensors to score, where the traced model's own are not the ones (a meta model).
    gather
        Globs of layers whose columns get an order of their own at run time: see
        `pruning.gathered_orders` and `pruning.gather_`.

    Returns
    -------
    Formulation
        The problem; for each weight with a pattern its plan; and why weights were skipped.
    """
    if patterns is None:
        return Formulation(Problem(network.domains, ()), (), {})
    planned = plan(network, patterns, gather=gather, scored=not isinstance(scores, str))
    found = tuple(terms(network, planned.drafts, scores, state))
    if not found:
        told = "; ".join(map(": ".join, planned.skipped.items()))
        raise ProblemError(f"no weight can carry the pattern: {told}")
    return Formulation(Problem(planned.domains, found), planned.layers, planned.skipped)


def layer_of(tensor: str) -> str:
    """Return the name of the layer that holds a tensor."""
    return tensor.removesuffix(".weight")


def _targets(
    network: Network, patterns: Patterns, skipped: dict[str, str], *, scored: bool
) -> dict[str, Pattern]:
    """Return the pattern of each weight that has one."""
    wanted = patterns if isinstance(patterns, Mapping) else {"*": patterns}
    read = sorted({name for name, _ in network.read})
    _check_globs(wanted, read)
    found = {}
    for name in network.tensors:
        pattern = next((wanted[glob] for glob in wanted if _fits(name, glob)), None)
        if pattern is None or len(network.axes[name]) < 2:
            continue
        if name not in read:
            skipped[name] = "no contraction reads it (a table, or a weight that others are made of)"
        elif name in network.computed and not scored:
            skipped[name] = "its layer computes the weight from it; pass scores= to prune it"
        elif sum(tensor == name for tensor, _ in network.read) > 1:
            skipped[name] = "contractions run over several of its dimensions"
        else:
            found[name] = parse_pattern(pattern)
    return found


def _check_globs(globs: Iterable[str], read: Sequence[str]) -> None:
    for glob in globs:
        if not any(_fits(name, glob) for name in read):
            raise unknown("layer", glob, map(layer_of, read))


def _fits(tensor: str, glob: str) -> bool:
    return fnmatchcase(tensor, glob) or fnmatchcase(layer_of(tensor), glob)


def _scored(name: str, tensor: Any, scores: Any) -> Scores:
    if isinstance(scores, str):
        if scores != "magnitude":
            raise unknown("score", scores, ["magnitude"])
        if getattr(tensor, "is_meta", False):
            raise ProblemError(f"{name} has no data on the meta device; pass state=.")
        return magnitude(tensor.detach(), name)
    given = scores(name, tensor) if isinstance(scores, Callable) else scores.get(name)  # type: ignore[arg-type]
    if given is None:
        raise ProblemError(f"scores= has no entry for {name}.")
    found = as_scores(given, name)
    if found.shape != tuple(tensor.shape):
        raise ProblemError(f"scores of {name} have shape {found.shape}, not {tuple(tensor.shape)}.")
    return found
