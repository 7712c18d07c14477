"""Options that several commands share."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from permsearch.cli.converter import Converter
from permsearch.errors import FileError, PermsearchError, unknown
from permsearch.patterns import Axis, Pattern, parse_pattern
from permsearch.solvers.registry import solver_names, unknown_solver
from permsearch.stop import MaxSeconds, MaxSteps, StoppingCriterion

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Decorator = Callable[[_Function], _Function]

_WEIGHTS = {".safetensors", ".npy", ".npz"}


class PatternType(Converter[Pattern]):
    """A pattern's text."""

    name = "pattern"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Pattern:
        """Return the pattern, or fail with the known forms."""
        try:
            return parse_pattern(value)
        except PermsearchError as error:
            self.fail(str(error), param, ctx)


class SolverType(Converter[str]):
    """A solver's short name."""

    name = "solver"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with the nearest ones; no solver is imported for that."""
        if value not in solver_names():
            self.fail(str(unknown_solver(value)), param, ctx)
        return str(value)


class SolversType(Converter[tuple[str, ...]]):
    """Short names, separated by commas."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names without repetitions, or fail with the nearest ones."""
        if not isinstance(value, str):
            return tuple(value)
        one = SolverType()
        names = [one.convert(name.strip(), param, ctx) for name in value.split(",") if name.strip()]
        if not names:
            self.fail("name at least one solver.", param, ctx)
        return tuple(dict.fromkeys(names))


class AxesType(Converter[tuple[Axis, ...]]):
    """The axes to reorder, separated by commas."""

    name = "axes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Axis, ...]:
        """Return the axes, or fail with the ones there are."""
        if not isinstance(value, str):
            return tuple(value)
        known = get_args(Axis)
        names = [name.strip() for name in value.split(",") if name.strip()]
        for name in names:
            if name not in known:
                self.fail(str(unknown("axis", name, known)), param, ctx)
        if not names:
            self.fail("name rows, cols or both.", param, ctx)
        return tuple(axis for axis in known if axis in names)


class SecondsType(click.FloatRange):
    """A finite number of seconds, at least zero."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number, or fail where it is none."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class OutputType(Converter[str]):
    """A file to write, checked before hours of work; `-` is the standard output."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with the reason why it cannot be written."""
        path = Path(value)
        if value == "-":
            return "-"
        if path.suffix in _WEIGHTS:
            self.fail(f"{value} looks like a file of weights; it is not overwritten.", param, ctx)
        if path.is_dir():
            self.fail(f"{value} is a folder.", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"the folder {path.parent} does not exist.", param, ctx)
        from permsearch.io.atomic import replaceable

        try:
            replaceable(path)
        except FileError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        ctx.meta["permsearch.debug"] = True


debug_option: _Decorator[Any] = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_set_debug,
    help="Show the traceback of a failure.",
)

json_option: _Decorator[Any] = click.option(
    "--json",
    "json_file",
    type=OutputType(),
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the numbers as JSON to FILE; without a FILE to the standard output, alone.",
)

path_argument: _Decorator[Any] = click.argument("path", type=click.Path(path_type=Path))

_PROBLEM = (
    click.option(
        "--pattern",
        "-p",
        type=PatternType(),
        required=True,
        help="What a mask must look like: 2:4 keeps 2 of every 4 consecutive columns.",
    ),
    click.option(
        "--permute",
        type=AxesType(),
        help="The axes to reorder: rows, cols or rows,cols. Those that matter without it.",
    ),
    click.option(
        "--tensor",
        "-t",
        "globs",
        multiple=True,
        metavar="GLOB",
        help="Search only tensors whose name matches; may be repeated. All without it.",
    ),
    click.option(
        "--exclude",
        "excluded",
        multiple=True,
        metavar="GLOB",
        help="Leave out tensors whose name matches; may be repeated.",
    ),
    click.option(
        "--pad",
        is_flag=True,
        help="Add zero rows and columns where the axes do not split into whole tiles.",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
)

_LIMITS = (
    click.option(
        "--steps",
        type=click.IntRange(min=0),
        help="Stop each search after N steps: reproducible. A step differs from solver to solver.",
    ),
    click.option("--seconds", type=SecondsType(), help="Stop each search after S seconds."),
)


def problem_options(function: _Function) -> _Function:
    """Add --pattern, --permute, --tensor, --exclude, --pad and --seed."""
    return all_options(_PROBLEM, function)


def limit_options(function: _Function) -> _Function:
    """Add --steps and --seconds."""
    return all_options(_LIMITS, function)


def all_options(options: tuple[Callable[[Any], Any], ...], function: _Function) -> _Function:
    """Add options to a command, shown in their order."""
    for option in reversed(options):
        function = option(function)
    return function


def criterion(steps: int | None, seconds: float | None) -> StoppingCriterion | None:
    """Return the stopping criterion that --steps or --seconds asks for."""
    if steps is not None and seconds is not None:
        raise click.UsageError("give --steps or --seconds, not both.")
    if steps is not None:
        return MaxSteps(steps)
    return None if seconds is None else MaxSeconds(seconds)


def check_outputs_differ(outputs: Mapping[str, str | None]) -> None:
    """Fail where two options name one file, or the standard output, to write to."""
    taken: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        place = path if path == "-" else os.path.realpath(path)
        if place in taken:
            what = "the standard output" if path == "-" else f"the file {path}"
            raise click.UsageError(f"{taken[place]} and {option} cannot both have {what}.")
        taken[place] = option


def check_report_can_be_made(html: str | None) -> None:
    """Fail before the work, not after it, when the report's library is missing."""
    if html is None:
        return
    from permsearch.report.page import environment

    environment()


def write_output(path: str | None, text: str) -> None:
    """Write text to a file, whole or not at all, or to the standard output."""
    from permsearch.io.atomic import written_aside

    if path is None:
        return
    if path == "-":
        click.echo(text, nl=False)
        return
    try:
        with written_aside(Path(path)) as file:
            file.write(text.encode("utf-8"))
    except FileError as error:
        raise click.ClickException(str(error)) from error
