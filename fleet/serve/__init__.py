"""`fleet sync` for ever: follow repositories, keep clusters as git says, observe health and drift, report them in git.

A service stores nothing. Git says what is desired, the inventories in the clusters say what was made, and the status
branch says what was reported. A process that is killed anywhere and started elsewhere reads all of it and goes on.

service      one repository: looks at its branch for ever, and has each new commit reconciled
branch       the commit that is applied, and the reader of each new one
commits      what a commit wants; evaluate only the stacks whose files or imports changed
queue        which stacks are reconciled when
reconcile    one pass with the code of `fleet sync`, and what follows from its results
clusters     open clients and watches, one per cluster; cluster_secrets: their kubeconfigs
safety       what stops a commit: lost placements, deletion budgets, approvals
rollout      rollout state of every stack; failure: rollouts that failed; rollback: the commit that takes one back
bundles      keep the bundles of clusters that pull up to date
report/      the last results and their reports: health into git, notifications, metrics; previews of pull requests
process      several repositories in one process: leader election, endpoints, webhooks, an orderly end
"""
