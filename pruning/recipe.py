"""Recipes: which layers are pruned, how, and with how much effort; in Python or TOML.

```toml
solver = "auto"
seconds = 20
seed = 0

[[layer]]
match = ["*attention*", "*intermediate*"]
pattern = "2:4"
method = "refit"

[[layer]]
match = "*"
pattern = "dense"
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from permsearch.errors import PermsearchError, unknown
from permsearch.patterns import NM, Pattern, parse_pattern
from permsearch.solvers.registry import get_solver
from permsearch.stop import AnyOf, MaxSeconds, MaxSteps, StoppingCriterion
from pruning.errors import RecipeError
from pruning.targets import target as check_target

#: What layers that share an order count by: the sum of their scores, or each as a whole.
Weigh: TypeAlias = Literal["sums", "shares"]

Method: TypeAlias = Literal["mask", "refit", "sparsegpt", "sparsegpt+refit", "obc", "alps"]
#: Which inputs statistics are of, and how many layers' at a time.
Calibration: TypeAlias = Literal["together", "blocks", "sequential", "corrected"]
DENSE = "dense"


@dataclass(frozen=True, slots=True)
class LayerRule:
    """What becomes of the layers that a name pattern matches.

    Parameters
    ----------
    match
        Globs over names of weights (``encoder.*.weight``) or of their layers; one is enough.
    pattern
        The sparsity pattern, a value or its text; "dense" leaves the layers alone.
    scores
        A name of `pruning.scores.SCORES`, for the search and the mask. None: "wanda_squared" with
        calibration data, "magnitude" without.
    method
        "mask": zero what is dropped. "refit": fit what is kept to the layer's outputs.
        "sparsegpt": choose and compensate column by column (N:M patterns alone).
        "sparsegpt+refit": its mask, then the fit. "obc": weights go one by one, exactly
        compensated (N:M patterns, small layers). "alps": mask and values found together, for any
        pattern, then the fit; the scores count for the orders alone.
    permute
        Whether these weights have a say in the orders that are searched.
    gather
        Whether they get an order of their own, applied to their input at run time.
    damping
        Of second-order matrices: see `pruning.curvature.damped`.
    """

    match: str | tuple[str, ...]
    pattern: str | Pattern
    scores: str | None = None
    method: Method = "mask"
    permute: bool = True
    gather: bool = False
    damping: float = 0.01

    def __post_init__(self) -> None:
        from pruning.scores import score_kind

        globs = (self.match,) if isinstance(self.match, str) else self.match
        if not (isinstance(globs, tuple) and globs) or not all(
            isinstance(glob, str) and glob for glob in globs
        ):
            raise RecipeError(f"match is a glob, or a list of globs, not {self.match!r}.")
        object.__setattr__(self, "match", globs)
        if self.method not in get_args(Method):
            raise unknown("method", self.method, get_args(Method))
        if self.scores is not None:
            score_kind(self.scores)
        if self.pattern != DENSE:
            object.__setattr__(self, "pattern", parse_pattern(self.pattern))
        if self.chooses and self.method != "alps" and not isinstance(self.pattern, NM):
            name = "OBC" if self.method == "obc" else "SparseGPT"
            raise RecipeError(
                f'{self}: {name} chooses N:M masks; take method = "alps" or "refit" for '
                f"{self.pattern}."
            )
        if not (isinstance(self.damping, int | float) and self.damping >= 0):
            raise RecipeError(f"{self}: damping must be a number >= 0, got {self.damping!r}.")

    @property
    def sparse(self) -> Pattern | None:
        """The pattern; None for layers that stay dense."""
        return None if isinstance(self.pattern, str) else self.pattern

    @property
    def needs_gram(self) -> bool:
        """Whether its method needs the inputs' Gram matrix."""
        return self.method != "mask"

    @property
    def chooses(self) -> bool:
        """Whether its method chooses the mask itself."""
        return "sparsegpt" in self.method or self.method in ("obc", "alps")

    @property
    def refits(self) -> bool:
        """Whether what is kept is fitted by least squares at the end."""
        return "refit" in self.method or self.method == "alps"

    def fits(self, tensor: str) -> bool:
        """Whether a weight is one of those meant."""
        layer = tensor.removesuffix(".weight")
        return any(fnmatchcase(tensor, g) or fnmatchcase(layer, g) for g in self.match)

    def __str__(self) -> str:
        return f"the rule for {', '.join(self.match)}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Rules for layers, tried from the first to the last, and the effort of the search.

    Parameters
    ----------
    layers
        The rules; layers that none of them matches stay dense.
    solver
        A solver of `permsearch`; "none" keeps every order as it is.
    steps, seconds
        When the search stops; None for both: the solver's own default.
    seed
        Of the search.
    calibration
        "together": one pass over the dense model, statistics of all layers in memory. "blocks":
        the same inputs, one block of layers after another. "sequential": block after block, with
        the inputs that the blocks before it, pruned, give. "corrected": those inputs, layer after
        layer, each fitted to what it puts out in the dense net.
    blocks
        Globs over modules, for all but the first. Empty: see `pruning.calibrate_blocks`.
    rerank
        Of so many orders, searched in different ways, the one of least output error is taken; 1:
        the searched one is.
    target
        Names of `pruning.targets.TARGETS`, for the plan to tell which layers they can run.
    weigh
        "sums": the scores of all layers are added up, so that large ones count more. "shares": each
        layer's scores are divided by their sum, so that all count alike.

    Examples
    --------
    >>> recipe = Recipe.of(
    ...     {"seconds": 5, "layer": [{"match": "*attention*", "pattern": "2:4", "method": "refit"}]}
    ... )
    >>> recipe.layers[0].needs_gram
    True
    """

    layers: tuple[LayerRule, ...]
    solver: str = "auto"
    steps: int | None = None
    seconds: float | None = None
    seed: int = 0
    calibration: Calibration = "together"
    blocks: tuple[str, ...] = ()
    rerank: int = 1
    target: tuple[str, ...] = ()
    weigh: Weigh = "sums"

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "blocks", _several(self.blocks, "blocks"))
        object.__setattr__(self, "target", _several(self.target, "target"))
        if not self.layers:
            raise RecipeError("a recipe needs at least one [[layer]] with match and pattern.")
        if self.weigh not in get_args(Weigh):
            raise unknown("weigh", self.weigh, get_args(Weigh))
        get_solver(self.solver)
        _ = self.stop
        if self.calibration not in get_args(Calibration):
            raise unknown("calibration", self.calibration, get_args(Calibration))
        if self.blocks and self.calibration == "together":
            raise RecipeError('blocks are for calibration = "blocks", "sequential" or "corrected".')
        if type(self.rerank) is not int or self.rerank < 1:
            raise RecipeError(f"rerank is a number of orders, at least 1, not {self.rerank!r}.")
        for name in self.target:
            check_target(name)

    @property
    def onward(self) -> bool:
        """Whether statistics are those of the net as it is pruned so far."""
        return self.calibration in ("sequential", "corrected")

    @property
    def stop(self) -> StoppingCriterion | None:
        """The criterion that ends the search."""
        limits: list[StoppingCriterion] = []
        if self.steps is not None:
            limits.append(MaxSteps(self.steps))
        if self.seconds is not None:
            limits.append(MaxSeconds(self.seconds))
        return AnyOf(*limits) if len(limits) > 1 else next(iter(limits), None)

    @classmethod
    def read(cls, path: str | Path) -> Recipe:
        """Return the recipe in a TOML file.

        Raises
        ------
        RecipeError
            No TOML, an unknown key, or a value that does not fit, with the file's name.
        """
        path = Path(path)
        try:
            return cls.of(tomllib.loads(path.read_text("utf-8")))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RecipeError(f"{path}: cannot be read as a recipe ({error}).") from error
        except (PermsearchError, TypeError) as error:
            raise RecipeError(f"{path}: {error}") from error

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Recipe:
        """Return the recipe that a table means: that of a TOML file, or a mapping alike.

        Raises
        ------
        RecipeError
            An unknown or missing key.
        """
        given = dict(table)
        layers = given.pop("layer", None)
        _check_keys(given, _names(cls, "layers"), "recipe")
        if not isinstance(layers, list | tuple):
            raise RecipeError("a recipe needs at least one [[layer]] with match and pattern.")
        rules = []
        for at, layer in enumerate(layers, 1):
            _check_keys(layer, _names(LayerRule), f"[[layer]] number {at} of the recipe")
            missing = sorted({"match", "pattern"} - layer.keys())
            if missing:
                raise RecipeError(f"[[layer]] number {at} lacks {' and '.join(missing)}.")
            rules.append(LayerRule(**{**layer, "match": _globs(layer["match"])}))
        return cls(tuple(rules), **given)


def as_recipe(recipe: Recipe | Mapping[str, Any] | str | Path) -> Recipe:
    """Return a recipe from itself, a table, a TOML file, or one pattern for all layers."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, Mapping):
        return Recipe.of(recipe)
    if isinstance(recipe, Path) or str(recipe).endswith(".toml"):
        return Recipe.read(recipe)
    return Recipe((LayerRule("*", recipe),))


def _several(given: Any, key: str) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    found = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(each, str) and each for each in found):
        raise RecipeError(f"{key} is a name, or a list of names, not {given!r}.")
    return found


def _globs(match: Any) -> Any:
    return tuple(match) if isinstance(match, list) else match


def _names(kind: type[Any], *without: str) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in without]


def _check_keys(table: Any, known: Iterable[str], where: str) -> None:
    if not isinstance(table, Mapping):
        raise RecipeError(f"{where} is no table of keys.")
    for key in table:
        if key not in known:
            raise RecipeError(f"{where}: {unknown('key', key, known)}")
