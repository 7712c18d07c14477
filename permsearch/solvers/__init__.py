"""Solvers: frozen values that turn a problem and a budget into orders, one method per file."""
