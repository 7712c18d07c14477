"""The command line: `permsearch`, also `python -m permsearch`.

Other packages add sub-commands through the entry-point group `permsearch.commands` and may use the
helpers of this package.
"""

from __future__ import annotations

from permsearch.cli.app import cli, main

__all__ = ["cli", "main"]
