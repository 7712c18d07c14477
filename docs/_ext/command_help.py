"""A directive that shows what `permsearch COMMAND --help` says when the pages are built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
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


def names() -> list[str]:
    """Return the names of all commands, those of other packages included."""
    from permsearch.cli import cli

    return sorted(cli.list_commands(click.Context(cli)))


class Commands(SphinxDirective):
    """``.. commands::``: the program's own words, and a section for each of its commands."""

    def run(self) -> list[nodes.Node]:
        """Return the blocks."""
        found: list[nodes.Node] = [_block("")]
        for name in names():
            section = nodes.section("", nodes.title(name, name), _block(name), ids=[name])
            self.state.document.note_implicit_target(section, section)
            found.append(section)
        return found


def _block(name: str) -> nodes.literal_block:
    text = help_of(name)
    return nodes.literal_block(text, text, language="text")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx about the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
