"""The objects that members run in: pods, StatefulSets, files, and how a change goes through them. Pure."""
