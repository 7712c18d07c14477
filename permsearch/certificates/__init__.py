"""Limits that come with a proof which a stranger can check."""
