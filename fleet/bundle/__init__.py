"""Bundles: what a cluster with an agent is to have, on a branch that the centre writes and the agent reads.

The branch is all that the two share. The centre has no credentials of the cluster and the agent none of the centre;
what the agent observed comes back on the status branch.

model     a bundle: the stacks of one cluster, what applying them needs, and what waits
storage   its files, byte for byte, and its branch; read as content that any user may have written
rollout   what each cluster may have now, and what has to wait; pure
publish   one commit for all clusters: compare with the last bundle, refuse, hold back, push
reports   what agents report
"""
