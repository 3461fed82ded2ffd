"""Application of a plan in one cluster: inventory, order, steps, dry run."""
