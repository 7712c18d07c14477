"""A directive that shows what `permsearch COMMAND --help` says, made when the pages are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sphinx.application import Sphinx

WIDTH = 92


def help_of(name: str) -> str:
    """Return the help text of a command, or that of the program for an empty name."""
    from permsearch.cli import cli

    with click.Context(cli, info_name="permsearch") as outer:
        outer.max_content_width = outer.terminal_width = WIDTH
        if not name:
            return cli.get_help(outer)
        command = cli.get_command(outer, name)
        if command is None:
            raise ValueError(f"no command {name!r}; known: {', '.join(cli.list_commands(outer))}.")
        with click.Context(command, info_name=name, parent=outer) as inner:
            inner.max_content_width = inner.terminal_width = WIDTH
            return command.get_help(inner)


class CommandHelp(SphinxDirective):
    """``.. command-help:: search``: the command's own words as a block of text."""

    optional_arguments = 1
    option_spec: ClassVar[dict[str, Callable[[str], Any]] | None] = {}

    def run(self) -> list[nodes.Node]:
        """Return the block."""
        text = help_of(self.arguments[0] if self.arguments else "")
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx about the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
