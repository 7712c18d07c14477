"""The HTML report: one file that needs nothing else, made with jinja2 (extra `report`)."""

from __future__ import annotations

from permsearch.report.page import render

__all__ = ["render"]
