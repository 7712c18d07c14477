"""Limits that come with a proof which a stranger can check: see docs/bounds.md."""

from __future__ import annotations

from permsearch.certificates.certificate import Certificate, Proof

__all__ = ["Certificate", "Proof"]
