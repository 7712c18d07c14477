"""Compiled inner loops over plain arrays and integers; imported only where a solver needs them."""
