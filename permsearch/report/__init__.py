"""HTML reports: one file that needs nothing else, made with jinja2 (extra `report`)."""

from __future__ import annotations

from permsearch.report.bundle import render_bundle
from permsearch.report.network import render_network
from permsearch.report.of_content import page_of
from permsearch.report.page import render

__all__ = ["page_of", "render", "render_bundle", "render_network"]
