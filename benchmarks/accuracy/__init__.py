"""What pruning costs in accuracy: real networks, several seeds, random orders as the control."""
