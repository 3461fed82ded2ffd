"""The operator's place in a cluster: its objects (pure), how they get there, how the operator is, how it goes.

    rights, manifests   → install, apply   → status

The operator itself is not imported here, nor anywhere in `fleet`: it is an image that these objects run.
"""
