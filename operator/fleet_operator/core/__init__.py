"""What the operator does for every engine alike."""
