"""Packages that only single targets need, imported when they are asked for."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from permsearch.errors import MissingExtra


def needed(module: str, extra: str) -> Any:
    """Return a module of an optional package; what it warns of meanwhile is kept quiet.

    Raises
    ------
    MissingExtra
        It is not installed; the message names the extra that brings it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"this needs {module.partition('.')[0]}, which cannot be imported ({error}): "
            f"pip install 'permsearch[{extra}]'."
        ) from error
