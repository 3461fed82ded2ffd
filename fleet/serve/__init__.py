"""`fleet sync` for ever: follow repositories, keep clusters what they say, see health and drift, write it into git.

It holds no state. What is wanted is in git, what was made is in the clusters' inventories, what was told is on the
status branch; a process that is killed anywhere and started elsewhere looks at all of it and goes on.

origin      which repository and branch, and its mirror
wanted      what a commit wants: only the stacks whose files or imports changed are evaluated again
notice      what of a live object matters, so that its changes are told from noise; pure
watching    one cluster: a client that stays open, and a watch per kind that calls for a pass
service     one repository: a queue of stacks in clusters, passes made of the same code as `fleet sync`
telling     health into git: what changed, together, and not too often
happenings  one line in the log, one event in the cluster, one number in the metrics
program     all of it in a process: several repositories, one leader, endpoints, an orderly end
"""
