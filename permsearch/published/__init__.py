"""Published rules and searches that are no solvers, as baselines to compare with."""
