"""What the published searches are, one module a pattern."""
