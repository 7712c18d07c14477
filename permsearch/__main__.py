"""`python -m permsearch`."""

from __future__ import annotations

from permsearch.cli import main

main()
