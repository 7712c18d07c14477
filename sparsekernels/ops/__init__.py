"""Operations on packed weights: schemas, references, gradients and the choice of a kernel."""
