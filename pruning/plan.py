"""What a recipe comes to for a model, before anything is searched or changed."""

from __future__ import annotations

import glob
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from permsearch.errors import unknown
from permsearch.io.select import NothingEligible
from permsearch.patterns import NM
from pruning import formulate
from pruning.errors import RecipeError
from pruning.exact_obs import check_work
from pruning.layers import rows_dim
from pruning.layerwise import owner
from pruning.network import Network
from pruning.recipe import LayerRule, Recipe
from pruning.scores import score_kind
from pruning.targets import Candidate, eligibility, told

#: Scores where nothing is said: with calibration, without, and where inputs cannot be seen.
CALIBRATED, PLAIN, UNSEEN = "wanda_squared", "magnitude", "energy"

UNREAD = "no contraction reads it (a table, or a weight that others are made of)"


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """One weight that will be pruned.

    Attributes
    ----------
    tensor, base
        Its name, and the name in the state dict of the tensor that it is (a piece of).
    dim
        Dimension along which its inputs lie.
    rule
        The rule that it falls under.
    scores
        The score that will be used.
    state, note
        How an order reaches its columns (see `pruning.formulate.LayerPlan`), and what is to be
        known about that or about the scores.
    seen
        The name by which calibration knows its inputs; None where it is not needed.
    gram
        Whether their Gram matrix is collected.
    eligible
        By target of the recipe: why it cannot run the layer sparse, "" where it can.
    """

    tensor: str
    base: str
    dim: int
    shape: tuple[int, ...]
    rule: LayerRule
    scores: str
    state: str
    note: str
    seen: str | None
    gram: bool = False
    eligible: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        how = f"{self.rule.pattern}, {self.rule.method}, {self.scores}, {self.state}"
        line = f"{self.tensor}: {how}{f' ({self.note})' if self.note else ''}"
        return "\n".join([line, *(f"  {each}" for each in told(self.eligible))])


@dataclass(frozen=True, slots=True, eq=False)
class PrunePlan:
    """What will become of every weight.

    Attributes
    ----------
    layers
        Those that will be pruned.
    skipped
        Those that a rule means but that cannot be, with reasons.
    dense
        Those that no rule means, or one that leaves them dense.
    search
        The search problem to be, without numbers.
    blocks
        The blocks that are calibrated one after another; none where all are together.
    paired
        Whether products with the dense net's inputs are kept as well.
    """

    layers: tuple[PlannedLayer, ...]
    skipped: Mapping[str, str]
    dense: tuple[str, ...]
    search: formulate.Plan
    blocks: tuple[str, ...] = ()
    paired: bool = False

    def by_base(self) -> dict[str, list[PlannedLayer]]:
        """Return the layers by the tensor that they are (a piece of)."""
        found: dict[str, list[PlannedLayer]] = {}
        for layer in self.layers:
            found.setdefault(layer.base, []).append(layer)
        return found

    @property
    def gram_bytes(self) -> int:
        """Most memory that Gram matrices take at a time: all of them, or those of one block.

        Layers that turn out to read one tensor (queries, keys and values) hold one together, which
        is not known beforehand.
        """
        sizes = {
            layer.seen: int(np.prod(layer.shape)) // layer.shape[rows_dim(layer.dim)]
            for layer in self.layers
            if layer.seen is not None and layer.gram
        }
        stages: dict[str | None, int] = {}
        for name, size in sizes.items():
            stage = owner(name, self.blocks)
            stages[stage] = stages.get(stage, 0) + (16 if self.paired else 8) * size * size
        return max(stages.values(), default=0)

    @property
    def method_bytes(self) -> int:
        """Most memory that a method takes besides for a layer's damped matrices, of all blocks.

        The matrix, its factor and its inverse; for "alps" the eigenvectors, what finds them, and
        copies in float32 as well.
        """
        return max((_method_bytes(layer) for layer in self.layers), default=0)

    def __str__(self) -> str:
        entries = sum(int(np.prod(layer.shape)) for layer in self.layers)
        used = self.method_bytes
        variables = {name for draft in self.search.drafts for name in draft.variables}
        lines = [
            f"{len(self.layers)} weights to prune ({entries:,} entries), {len(self.skipped)} "
            f"skipped, {len(self.dense)} dense; {len(variables)} orders to search; "
            f"{self.gram_bytes / 2**20:,.0f} MiB of Gram matrices"
            + (f" at a time, in {len(self.blocks)} blocks" if self.blocks else "")
            + (f", {used / 2**20:,.0f} MiB more for a layer's method" if used else ""),
            *map(str, self.layers),
            *(f"{name}: skipped, {reason}" for name, reason in self.skipped.items()),
            *(f"{name}: dense" for name in self.dense),
        ]
        return "\n".join(lines)


def _method_bytes(layer: PlannedLayer) -> int:
    if not layer.rule.needs_gram:
        return 0
    features = int(np.prod(layer.shape)) // layer.shape[1 - layer.dim]
    copies = 9 if layer.rule.method == "alps" else 3
    return copies * 8 * features * features


def plan_pruning(
    network: Network,
    recipe: Recipe,
    *,
    seen: Mapping[str, bool] | None = None,
    blocks: tuple[str, ...] = (),
) -> PrunePlan:
    """Return what a recipe comes to.

    Parameters
    ----------
    seen
        The weights whose inputs calibration can see, with whether a Gram matrix can be made of
        them; None: there are no calibration data.
    blocks
        Those that are calibrated one after another.

    Raises
    ------
    RecipeError
        A rule matches no weight, or needs calibration that there is not.
    NothingEligible
        No weight can carry the pattern it is to.
    """
    if recipe.rerank > 1 and seen is None:
        raise RecipeError("rerank compares output errors, which needs calibration data.")
    rules = _rules(network, recipe)
    sparse = {name: rule for name, rule in rules.items() if rule.sparse is not None}
    read = {name for name, _ in network.read}
    wanted = {name: rule for name, rule in sparse.items() if name in read}
    tables = dict.fromkeys((name for name in sparse if name not in read), UNREAD)
    patterns = {glob.escape(name): rule.sparse for name, rule in wanted.items()}
    gather = [glob.escape(name) for name, rule in wanted.items() if rule.gather]
    planned = formulate.plan(network, patterns, gather=gather)
    layers = tuple(
        _layer(network, found, wanted[found.tensor], recipe, seen) for found in planned.layers
    )
    if not layers:
        told = "; ".join(map(": ".join, planned.skipped.items())) or "no rule has a pattern"
        raise NothingEligible(f"no weight can be pruned by the recipe: {told}")
    skipped = {**planned.skipped, **tables}
    meant = {layer.tensor for layer in layers} | skipped.keys()
    dense = tuple(n for n in network.tensors if len(network.axes[n]) > 1 and n not in meant)
    paired = recipe.calibration == "corrected"
    return PrunePlan(layers, skipped, dense, planned, blocks, paired)


def _rules(network: Network, recipe: Recipe) -> dict[str, LayerRule]:
    """Return the rule of each weight; one that matches nothing is refused."""
    read = {name for name, _ in network.read}
    candidates = [name for name in network.tensors if len(network.axes[name]) > 1]
    found = {}
    for name in candidates:
        rule = next((r for r in recipe.layers if r.fits(name) or r.fits(network.base(name))), None)
        if rule is not None:
            found[name] = rule
    for rule in recipe.layers:
        if not any(r is rule for name, r in found.items() if name in read):
            _refuse(rule, sorted(read), recipe)
    return {name: found[name] for name in candidates if name in found}


def _refuse(rule: LayerRule, read: Collection[str], recipe: Recipe) -> None:
    taken = [name for name in read if rule.fits(name)]
    if taken:
        earlier = next(r for r in recipe.layers if r.fits(taken[0]))
        raise RecipeError(
            f"{rule} selects nothing: {taken[0]} and all else it matches falls under {earlier}, "
            "which stands before it; the first match wins."
        )
    layers = [name.removesuffix(".weight") for name in read]
    raise RecipeError(f"{rule} selects nothing: {unknown('layer', rule.match[0], layers)}")


def _layer(
    network: Network,
    found: formulate.LayerPlan,
    rule: LayerRule,
    recipe: Recipe,
    seen: Mapping[str, bool] | None,
) -> PlannedLayer:
    base = network.base(found.tensor)
    names = [base, *(alias for alias, name in network.aliases.items() if name == base)]
    visible = next((name for name in names if name in (seen or {})), None)
    scores, note = _scores(found.tensor, rule, visible, calibrated=seen is not None)
    kind = score_kind(scores)
    if rule.needs_gram or kind.needs == "gram":
        _check_gram(found.tensor, rule, kind.name, visible, seen)
    gram = rule.needs_gram or kind.needs == "gram"
    if recipe.rerank > 1 and visible is not None:
        gram = (seen or {})[visible]
    dim = next(dim for name, dim in sorted(network.read) if name == found.tensor)
    shape = network.whole_shape(found.tensor)
    if rule.method == "obc":
        _check_work(found, shape, dim)
    weight = Candidate(shape, network.tensors[found.tensor].dtype, dim, found.pattern)
    notes = [each for each in (found.reason, note) if each]
    return PlannedLayer(
        found.tensor,
        base,
        dim,
        shape,
        rule,
        scores,
        found.state if rule.permute else "left",
        "; ".join(notes),
        visible if gram or kind.needs != "nothing" else None,
        gram,
        eligibility(weight, recipe.target),
    )


def _check_work(found: formulate.LayerPlan, shape: tuple[int, ...], dim: int) -> None:
    """Refuse OBC of a layer that is too large for it, before anything is done."""
    pattern = found.pattern
    assert isinstance(pattern, NM)
    features = int(np.prod(shape)) // shape[rows_dim(dim)]
    check_work((shape[rows_dim(dim)], features), pattern.n, pattern.m, found.tensor)


def _scores(
    tensor: str, rule: LayerRule, visible: str | None, *, calibrated: bool
) -> tuple[str, str]:
    """Return the score of a layer, and a remark where it is not the usual one."""
    if rule.scores is None:
        if not calibrated:
            return PLAIN, ""
        if visible is None:
            return UNSEEN, f"scores = {UNSEEN!r}, since no hook can see its inputs"
        return CALIBRATED, ""
    if score_kind(rule.scores).needs != "nothing":
        if not calibrated:
            raise RecipeError(f"{rule}: scores = {rule.scores!r} needs calibration data.")
        if visible is None:
            raise RecipeError(
                f"{tensor}: no hook can see its inputs, which scores = {rule.scores!r} needs; "
                'give it a rule of its own with scores = "magnitude".'
            )
    return rule.scores, ""


def _check_gram(
    tensor: str,
    rule: LayerRule,
    scores: str,
    visible: str | None,
    seen: Mapping[str, bool] | None,
) -> None:
    what = f"method = {rule.method!r}" if rule.needs_gram else f"scores = {scores!r}"
    if seen is None:
        raise RecipeError(f"{rule}: {what} needs calibration data.")
    if visible is None or not seen[visible]:
        raise RecipeError(
            f"{tensor}: {what} needs the Gram matrix of its inputs, which there is none of (no "
            'hook sees them, or a transposed convolution); give it a rule with method = "mask".'
        )
