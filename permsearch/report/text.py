"""Numbers as people read them."""

from __future__ import annotations

import math

DASH = "–"


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def share(value: float | None) -> str:
    """Return a share with four digits: 0.7617."""
    return f"{value:.4f}" if _known(value) else DASH


def percent(value: float | None) -> str:
    """Return a share as a percentage: 37.5 %."""
    return f"{100 * value:.1f} %" if value is not None and _known(value) else DASH


def points(value: float | None) -> str:
    """Return a difference of shares in percentage points: +1.52."""
    return f"{100 * value:+.2f}" if value is not None and _known(value) else DASH


def times(value: float | None) -> str:
    """Return a ratio: 1.18×."""
    return f"{value:.2f}×" if _known(value) else DASH


def seconds(value: float | None) -> str:
    """Return a duration with the unit that suits it."""
    if value is None or not _known(value):
        return DASH
    if value < 0.9995:
        return f"{1000 * value:.{1 if value < 0.01 else 0}f} ms"
    if value < 100:
        return f"{value:.{2 if value < 10 else 1}f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def clean(name: str) -> str:
    """Return a name that is safe to show: control characters are spelt out."""
    return name if name.isprintable() else ascii(name)[1:-1]
