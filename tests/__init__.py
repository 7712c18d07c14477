"""Tests, and what they share: slow twins in `tests.reference`, draws in `tests.strategies`."""
