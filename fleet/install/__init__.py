"""The operator's place in a cluster: what it consists of (pure), how it gets there, how it is, how it goes.

    rights, manifests   → apply, rollout   → state
                        → remove

The operator itself is not imported here, nor anywhere in `fleet`: it is an image that these objects run.
"""
