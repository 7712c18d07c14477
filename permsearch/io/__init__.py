"""Tensors from files, folders and dicts, one at a time, and the folder that results go to."""

from __future__ import annotations

from permsearch.io.bundle import BundleEntry, MaskBundle
from permsearch.io.bundle_writer import BundleWriter
from permsearch.io.fingerprint import fingerprint
from permsearch.io.opening import Tensors, open_tensors
from permsearch.io.select import NothingEligible, Selection, Skipped, select
from permsearch.io.source import TensorInfo, TensorSource

__all__ = [
    "BundleEntry",
    "BundleWriter",
    "MaskBundle",
    "NothingEligible",
    "Selection",
    "Skipped",
    "TensorInfo",
    "TensorSource",
    "Tensors",
    "fingerprint",
    "open_tensors",
    "select",
]
