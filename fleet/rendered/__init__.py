"""What a cluster with an agent of its own is to have: a branch of git that the centre writes and the agent reads.

The branch is all that the two have in common. The centre has no credentials of the cluster and the agent none of the
centre; what the agent saw comes back by the status branch.

model     a rendered set: the stacks of one cluster, what an applier needs to know besides, and what waits
form      its files, byte for byte, and how they are read from a branch that anybody may have written
branch    from git and into it: one branch per cluster, each commit on the one before
discreet  no value of a Secret goes there unless a person says so
standing  how a stack is in a cluster, by the agent's own word on the status branch; pure
release   what each cluster may have now, and what has to wait for others; pure
centre    all of it for one commit: compare with what was rendered before, refuse, hold back, push
"""
