"""Installation of the operator in a cluster: its objects (pure), how they get there, its status, how it is removed.

    rights, manifests   → install, apply   → status

The operator itself is not imported here, nor anywhere in `fleet`: it is an image that these objects run.
"""
