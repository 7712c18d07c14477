"""The command group: sub-commands of other packages, and how a run ends."""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

import click

from permsearch.cli.interrupt import interrupts_heard
from permsearch.cli.skipped import in_shell_words
from permsearch.errors import PermsearchError

ENTRY_POINTS = "permsearch.commands"

INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C
BROKEN_PIPE = 141  # and for one whose reader went away


class Interrupted(click.ClickException):
    """Ctrl-C, with what was kept."""

    exit_code = INTERRUPTED

    def show(self, file: Any = None) -> None:
        """Say it in one line on the standard error."""
        click.echo(f"Interrupted: {self.message}", file=file or sys.stderr)


class Group(click.Group):
    """A click group with plug-ins, one-line errors and shell-like exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return our commands, then those of other packages."""
        return [*super().list_commands(ctx), *sorted(set(_plug_ins()) - set(self.commands))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; a plug-in is imported only here."""
        own = super().get_command(ctx, cmd_name)
        plug_in = _plug_ins().get(cmd_name)
        if own is not None or plug_in is None:
            return own
        try:
            command = plug_in.load()
        except ImportError as error:
            return _broken(cmd_name, f"{plug_in.value} cannot be imported ({error})")
        if not isinstance(command, click.Command):
            return _broken(cmd_name, f"{plug_in.value} is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or an error with the nearest names."""
        from difflib import get_close_matches

        name = args[0] if args else ""
        if name and self.get_command(ctx, name) is None and not name.startswith("-"):
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn whatever ends it into one line and an exit code."""
        try:
            with interrupts_heard():
                result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt as error:
            raise Interrupted("nothing was kept.") from error
        except BrokenPipeError:
            _leave_quietly()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.meta.get("permsearch.debug"):
                raise
            if is_output_lost(error):
                give_up_output()
            raise click.ClickException(one_line(error)) from error
        return result


def one_line(error: BaseException) -> str:
    """Return an error as one line; one that we did not foresee says how to see more."""
    text = in_shell_words(" ".join(str(error).split()))
    if isinstance(error, PermsearchError):
        return text
    if is_output_lost(error):
        return f"the standard output cannot be written ({getattr(error, 'strerror', '')})."
    if isinstance(error, MemoryError):
        return f"out of memory ({text or 'no details'})."
    return f"{type(error).__name__}: {text or 'no details'} (--debug shows where)"


def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _broken(name: str, reason: str) -> click.Command:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise click.ClickException(f"the command {name!r} is broken: {reason}.")

    return click.Command(
        name,
        callback=fail,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        short_help=f"(broken: {reason})",
    )


def is_output_lost(error: BaseException) -> bool:
    """Decide whether an error is the system's about the standard output: it names no file."""
    return type(error) is OSError and error.filename is None and error.errno is not None


def give_up_output() -> None:
    """Send what else is printed nowhere, so that nothing complains a second time at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_quietly() -> NoReturn:
    """End as a program does whose reader went away, without a second complaint at exit."""
    give_up_output()
    raise click.exceptions.Exit(BROKEN_PIPE)
