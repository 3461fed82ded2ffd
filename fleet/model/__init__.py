"""The types that users write: clusters, placement, stacks, apps and other objects, options. Typed, strict, immutable,
pure.

Reads no file but those that `fleet.manifests` is asked for, and talks to no server.
"""
