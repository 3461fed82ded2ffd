"""`fleet sync` for ever: follow repositories, keep clusters as git says, observe health and drift, report them in git.

A service stores nothing. Git says what is desired, the inventories in the clusters say what was made, and the status
branch says what was reported. A process that is killed anywhere and started elsewhere reads all of it and goes on.

service      one repository: a queue of stacks in clusters, reconciled with the code of `fleet sync`
commits      follow a branch; evaluate only the stacks whose files or imports changed
queue        which stacks are reconciled when
clusters     open clients and watches, one per cluster; cluster_secrets: their kubeconfigs
safety       what stops a commit: lost placements, deletion budgets, approvals
rollout      rollout state of every stack; rollback: take a failed change back
bundles      keep the bundles of clusters that pull up to date
report/      health into git, notifications, metrics, previews of pull requests
process      several repositories in one process: leader election, endpoints, webhooks, an orderly end
"""
