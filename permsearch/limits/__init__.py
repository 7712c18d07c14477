"""Upper limits of clustering patterns, as functions of arrays: see docs/bounds.md."""
