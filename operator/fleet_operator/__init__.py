"""The half of fleet that runs inside each cluster."""
